"""The paper's Table 1 as data: the powers of the sizes that make training independent of size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

from denseam.rules.powers import ONE, Power

OptimizerName = Literal["sgd", "adam"]
OPTIMIZERS: tuple[OptimizerName, ...] = ("sgd", "adam")

BiasInit = Literal["zero", "normal"]
#: How biases start: at zero, or from N(0, 1).
BIAS_INITS: tuple[BiasInit, ...] = ("zero", "normal")

HALF = Fraction(1, 2)

#: Multiplier or learning rate → the tuned constant that its power of the sizes is multiplied by.
CONSTANTS: Mapping[str, str] = {
    "s1": "s1_0", "s2": "s2_0", "eta_W": "eta0", "eta_b": "eta_b0", "eta_c": "eta_c0",
}  # fmt: skip

#: The row of the table an activation belongs to. Those called 'elementwise' send order-one
#: pre-activations to order-one activations; 'softmax' sends them to activations of order 1/K.
FAMILIES: Mapping[str, str] = {
    "identity": "elementwise",
    "relu": "elementwise",
    "tanh": "elementwise",
    "softmax": "softmax",
}


def relu_constant(power: float) -> float:
    """Return C_p = √(2 / (2p−1)!!), so that E[(C_p relu(z)^p)²] = 1 for z ~ N(0, 1).

    E[relu(z)^(2p)] is half of E|z|^(2p) = (2p−1)!! = 2^p Γ(p+½)/√π, which also holds between the
    integers. (The paper prints the inverse.)
    """
    log_double_factorial = power * math.log(2) + math.lgamma(power + 0.5) - 0.5 * math.log(math.pi)
    return math.exp(0.5 * (math.log(2) - log_double_factorial))


_K = Power(K=1)
_INV_SQRT_N, _SQRT_N = Power(N=-HALF), Power(N=HALF)
_INV_SQRT_K, _SQRT_K, _INV_K = Power(K=-HALF), Power(K=HALF), Power(K=-1)

#: (regime, family, optimizer) → the powers of s1, s2, eta_W, and the paper's equations for them.
TABLE: Mapping[tuple[str, str, str], tuple[Power, Power, Power, tuple[str, str, str]]] = {
    ("proportional", "elementwise", "sgd"): (
        _INV_SQRT_N, _INV_SQRT_K, _K, ("s1-scaling", "s2-proportional-linear", "linear-sgd-prescription"),
    ),
    ("proportional", "elementwise", "adam"): (
        _INV_SQRT_N, _INV_SQRT_K, ONE,
        ("s1-scaling", "s2-proportional-linear", "adam-centered-elementwise-prescription"),
    ),
    ("proportional", "softmax", "adam"): (
        _INV_SQRT_N, _SQRT_K, ONE, ("softmax-s1", "softmax-s2", "softmax-adam-dz-scaling"),
    ),
    ("memories-only", "elementwise", "sgd"): (
        _INV_SQRT_N, _INV_K, _K, ("s1-scaling", "s2-onlyK-linear", "only-K-scaling-final"),
    ),
    ("memories-only", "elementwise", "adam"): (
        _INV_SQRT_N, _INV_K, ONE, ("s1-scaling", "s2-onlyK-linear", "adam-df1-scale"),
    ),
    # Table 1 prints s2 = 1 and the appendix √N; N is fixed here, so they differ by a constant, and
    # the figures use √N.
    ("memories-only", "softmax", "adam"): (
        _INV_SQRT_N, _SQRT_N, ONE, ("softmax-s1", "K-only-scaling, softmax", "softmax-adam-dz-scaling"),
    ),
    # Softmax with SGD has no prescription: rows with a large activation get large updates, which
    # make it larger (eq. softmax-row-gradient). These are the scales of the paper's experiments.
    ("proportional", "softmax", "sgd"): (
        _INV_SQRT_N, _SQRT_K, _K, ("softmax-s1", "softmax-s2", "none (as in the experiments)"),
    ),
    ("memories-only", "softmax", "sgd"): (
        _INV_SQRT_N, _SQRT_N, _K,
        ("softmax-s1", "K-only-scaling, softmax", "none (as in the experiments)"),
    ),
}  # fmt: skip
#: Family and optimizer for which no learning rate is known to transfer.
UNPRESCRIBED = ("softmax", "sgd")

#: regime → how large an entry of the gradient of W, b, c is in a centred model with the prescribed s1, s2.
#: Each is a mean over B samples with random signs (B^-1/2 in proportion) of, for W, s2 times one neuron's S
#: and one feature's R; for b, s2 times one row of W R, which sums N terms (N^1/2); for c, one feature's R.
#: Softmax has the same powers: its s2 is K times larger, its S and its slope are K times smaller. Without
#: centring all samples share a part of S and R, whose signs are not random.
GRADIENT: Mapping[str, Mapping[str, Power]] = {
    "proportional": {"W": Power(N=-1), "b": _INV_SQRT_N, "c": _INV_SQRT_N},
    "memories-only": {"W": _INV_K, "b": _INV_K, "c": ONE},
}
