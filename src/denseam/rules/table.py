"""The table of rules: the paper's Table 1 as data, and its rows for further optimizers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Literal, NamedTuple

from denseam.rules.optimizers import OPTIMIZERS, Normalisation, UpdateRule
from denseam.rules.powers import ONE, Power

BiasInit = Literal["zero", "normal"]
#: How biases start: at zero, or from N(0, 1).
BIAS_INITS: tuple[BiasInit, ...] = ("zero", "normal")

HALF = Fraction(1, 2)

#: Multiplier or learning rate → the tuned constant that its power of the sizes is multiplied by.
CONSTANTS: Mapping[str, str] = {
    "s1": "s1_0", "s2": "s2_0", "eta_W": "eta0", "eta_b": "eta_b0", "eta_c": "eta_c0", "step": "tau",
}  # fmt: skip

#: The row of the table an activation belongs to (docs/energies.md). Those called 'elementwise' send order-one
#: pre-activations to order-one activations, and 'exponential' too, with a heavy tail. Those of the other
#: families sum to one: 'softmax' and 'entmax' are of order 1/K, the first exponential in h and the second a
#: power; 'sparse' are zero but for a few.
FAMILIES: Mapping[str, str] = {
    "identity": "elementwise",
    "relu": "elementwise",
    "tanh": "elementwise",
    "softmax": "softmax",
    "sigmoid": "elementwise",
    "softplus": "elementwise",
    "exp": "exponential",
    "polynomial": "elementwise",
    "ghostmax": "softmax",
    "topk": "sparse",
    "entmax": "sparse",
    "normmax": "sparse",
    "topshare": "softmax",
    "relative-entmax": "entmax",
    "relative-normmax": "entmax",
    "layer-norm": "elementwise",
    "spherical-norm": "elementwise",
}

#: Families whose activations sum to one, and those of them whose activations are of order 1/K.
SUMS_TO_ONE, OF_ORDER_ONE_OVER_K = ("softmax", "entmax", "sparse"), ("softmax", "entmax")


def relu_constant(power: float) -> float:
    """Return C_p = √(2 / (2p−1)!!), so that E[(C_p relu(z)^p)²] = 1 for z ~ N(0, 1).

    E[relu(z)^(2p)] is half of E|z|^(2p) = (2p−1)!! = 2^p Γ(p+½)/√π, which also holds between the
    integers. (The paper prints the inverse.)
    """
    log_double_factorial = power * math.log(2) + math.lgamma(power + 0.5) - 0.5 * math.log(math.pi)
    return math.exp(0.5 * (math.log(2) - log_double_factorial))


_INV_SQRT_N, _SQRT_N = Power(N=-HALF), Power(N=HALF)
_INV_SQRT_K, _SQRT_K, _INV_K = Power(K=-HALF), Power(K=HALF), Power(K=-1)

#: (regime, family) → the powers of s1 and s2, and the paper's equations for them.
_MULTIPLIERS: Mapping[tuple[str, str], tuple[Power, Power, tuple[str, str]]] = {
    ("proportional", "elementwise"): (_INV_SQRT_N, _INV_SQRT_K, ("s1-scaling", "s2-proportional-linear")),
    ("proportional", "softmax"): (_INV_SQRT_N, _SQRT_K, ("softmax-s1", "softmax-s2")),
    ("memories-only", "elementwise"): (_INV_SQRT_N, _INV_K, ("s1-scaling", "s2-onlyK-linear")),
    # Table 1 prints s2 = 1 and the appendix √N; N is fixed here, so they differ by a constant, and
    # the figures use √N.
    ("memories-only", "softmax"): (_INV_SQRT_N, _SQRT_N, ("softmax-s1", "K-only-scaling, softmax")),
    ("proportional", "exponential"): (_INV_SQRT_N, _INV_SQRT_K, ("docs/energies.md", "docs/energies.md")),
    ("memories-only", "exponential"): (_INV_SQRT_N, _INV_K, ("docs/energies.md", "docs/energies.md")),
    ("proportional", "entmax"): (_INV_SQRT_N, _SQRT_K, ("docs/energies.md", "docs/energies.md")),
    ("memories-only", "entmax"): (_INV_SQRT_N, _SQRT_N, ("docs/energies.md", "docs/energies.md")),
    ("proportional", "sparse"): (_INV_SQRT_N, ONE, ("docs/energies.md", "docs/energies.md")),
    ("memories-only", "sparse"): (_INV_SQRT_N, ONE, ("docs/energies.md", "docs/energies.md")),
}
#: Regimes in which the model does not grow; their multipliers are those in proportion.
FIXED_MODEL = ("batch-only", "samples-only", "epochs", "steps-only")
#: Regimes whose rows are those in proportion: the steps of recall change only their size.
AS_IN_PROPORTION = ("proportional-steps",)
MULTIPLIERS: Mapping[tuple[str, str], tuple[Power, Power, tuple[str, str]]] = {
    **_MULTIPLIERS,
    **{
        (regime, family): row
        for (in_proportion, family), row in _MULTIPLIERS.items()
        for regime in (*FIXED_MODEL, *AS_IN_PROPORTION)
        if in_proportion == "proportional"
    },
}

#: The size of a step of recall, in every row: T steps take the same time (docs/recall-steps.md).
STEP = Power(T=-1)

#: What the size of an update is set by → the power of eta_W.
RATES: Mapping[Normalisation, Power] = {
    Normalisation.GRADIENT: Power(K=1),
    Normalisation.ENTRIES: ONE,
    Normalisation.ORTHOGONAL: Power(larger=HALF),
}

#: The batch, counted per feature, so that constants are as large as in proportion.
_BATCH = Power(B=1, N=-1)
#: Regime → what its rates follow besides the model, to a power of the optimizer's own.
FOLLOWED: Mapping[str, Power] = {"batch-only": _BATCH}
#: Regime → one over the number of steps, as a power of what grows. η_W λ_W follows it, so that the time of
#: decay is the same share of training at every scale. Where it is not listed, the number of steps stays.
PER_STEP: Mapping[str, Power] = {
    "batch-only": _BATCH,
    "samples-only": Power(P=-1, N=1),
    "epochs": Power(E=-1),
}

#: Family and normalisation for which no learning rate is known to transfer. Softmax gives rows with a large
#: activation large updates, which make it larger (eq. softmax-row-gradient), unless entries are normalised;
#: so does exp.
#: What is sparse has outputs in the space of a few memories, whose share of N features vanishes.
UNPRESCRIBED = (
    *((family, Normalisation.GRADIENT) for family in ("softmax", "exponential")),
    *((family, Normalisation.ORTHOGONAL) for family in ("softmax", "exponential")),
    *(("sparse", normalisation) for normalisation in Normalisation),
)

#: Family → the largest number of steps of recall for which a rule is known. A state of softmax that leaves
#: the trained region runs to attractors of size s2‖w‖, which grow with K (docs/recall-steps.md).
MOST_STEPS: Mapping[str, int] = dict.fromkeys(SUMS_TO_ONE, 1)

#: (regime, family) → the paper's equation for eta_W under SGD and under Adam.
_RATE_EQUATIONS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("proportional", "elementwise"): ("linear-sgd-prescription", "adam-centered-elementwise-prescription"),
    ("proportional", "softmax"): ("none (as in the experiments)", "softmax-adam-dz-scaling"),
    ("memories-only", "elementwise"): ("only-K-scaling-final", "adam-df1-scale"),
    ("memories-only", "softmax"): ("none (as in the experiments)", "softmax-adam-dz-scaling"),
    ("proportional", "exponential"): ("docs/energies.md", "docs/energies.md"),
    ("memories-only", "exponential"): ("docs/energies.md", "docs/energies.md"),
    ("proportional", "entmax"): ("docs/energies.md", "docs/energies.md"),
    ("memories-only", "entmax"): ("docs/energies.md", "docs/energies.md"),
    ("proportional", "sparse"): ("docs/energies.md", "docs/energies.md"),
    ("memories-only", "sparse"): ("docs/energies.md", "docs/energies.md"),
}


class Row(NamedTuple):
    """The powers of one case, and the equations of the first three.

    `eta_b` is that of both biases, `forgets` has those of 1 − μ, 1 − β1 and 1 − β2 where they are not 1.
    """

    s1: Power
    s2: Power
    eta_W: Power
    eta_b: Power
    decay_W: Power
    forgets: Mapping[str, Power]
    equations: tuple[str, str, str]


def is_prescribed(family: str, optimizer: str, steps: int = 1) -> bool:
    """Return whether the learning rate of a family of activations is expected to transfer."""
    return (family, OPTIMIZERS[optimizer].normalisation) not in UNPRESCRIBED and (
        steps <= MOST_STEPS.get(family, steps)
    )


def unprescribed(family: str, optimizer: str) -> str:
    """Return what has no prescription, and what has one instead."""
    if is_prescribed(family, optimizer):
        return f"{family} through several steps of recall has no prescription; use one step"
    if any(is_prescribed(family, other) for other in OPTIMIZERS):
        return f"{family} with {OPTIMIZERS[optimizer].title} has no prescription; use Adam"
    return f"a {family} activation has no prescription; use one relative to K, such as relative-entmax"


def _rate_equation(regime: str, family: str, rule: UpdateRule) -> str:
    if regime in FIXED_MODEL:
        return f"{regime} (docs/regimes.md)"
    of_sgd, of_adam = _RATE_EQUATIONS["proportional" if regime in AS_IN_PROPORTION else regime, family]
    match rule.normalisation:
        case Normalisation.GRADIENT:
            return of_sgd
        case Normalisation.ENTRIES:
            return of_adam
    return f"{rule.title} (docs/optimizers.md)"


def _row(regime: str, family: str, rule: UpdateRule) -> Row:
    s1, s2, equations = MULTIPLIERS[regime, family]
    followed = FOLLOWED.get(regime, ONE)
    eta_W = RATES[rule.normalisation] * followed**rule.batch
    return Row(
        s1, s2, eta_W,
        eta_b=followed**rule.of_biases.batch,
        decay_W=PER_STEP.get(regime, ONE) / eta_W,
        forgets={name: followed**power for name, power in rule.forgets.items() if followed != ONE},
        equations=(*equations, _rate_equation(regime, family, rule)),
    )  # fmt: skip


#: (regime, family, optimizer) → its row. Those of SGD and Adam in proportion and with memories only are the
#: paper's Table 1; for softmax with SGD, which has no prescription, they are the scales of its experiments.
TABLE: Mapping[tuple[str, str, str], Row] = {
    (regime, family, name): _row(regime, family, rule)
    for name, rule in OPTIMIZERS.items()
    for regime, family in MULTIPLIERS
}
#: The optimizers and the families of the paper's table.
IN_THE_PAPER, FAMILIES_OF_THE_PAPER = ("sgd", "adam"), ("elementwise", "softmax")

#: regime → how large an entry of the gradient of W, b, c is in a centred model with the prescribed s1, s2.
#: Each is a mean over B samples with random signs (B^-1/2 in proportion) of, for W, s2 times one neuron's S
#: and one feature's R; for b, s2 times one row of W R, which sums N terms (N^1/2); for c, one feature's R.
#: Softmax has the same powers: its s2 is K times larger, its S and its slope are K times smaller. Without
#: centring all samples share a part of S and R, whose signs are not random.
GRADIENT: Mapping[str, Mapping[str, Power]] = {
    "memories-only": {"W": _INV_K, "b": _INV_K, "c": ONE},
    **{
        regime: {"W": Power(K=-HALF, B=-HALF), "b": Power(N=HALF, K=-HALF, B=-HALF), "c": Power(B=-HALF)}
        for regime in FIXED_MODEL
    },
    **{
        regime: {"W": Power(N=-1), "b": _INV_SQRT_N, "c": _INV_SQRT_N}
        for regime in ("proportional", *AS_IN_PROPORTION)
    },
}
