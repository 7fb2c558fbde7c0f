"""The exponents that the theory predicts for a parameterization that works.

Exponents of root-mean-square entries against N (all sizes in proportion) or K (memories only), with zero
biases, at the start and soon after. States and all terms of ΔZ and ΔF that come from W keep their size.
The terms of the biases have other exponents: under SGD the mean over samples fluctuates as B^-½, and Δb has
the factor s2. They are reported but not judged: the biases need not be balanced.

Where the model does not grow, nor do its states. With more samples or epochs, steps are as they were. A
larger batch makes fewer and larger steps: what stays is the progress of an epoch, so that a single step has
no expected size. With more steps of recall, of size τ/T, states and changes approach those of a flow, by
O(1/T): their exponents are 0 from about T = 8 on.
"""

from __future__ import annotations

from typing import NamedTuple

from denseam.rules.optimizers import OPTIMIZERS
from denseam.rules.table import FIXED_MODEL, FOLLOWED, OF_ORDER_ONE_OVER_K

#: How far a slope may be from its exponent.
TOLERANCE = 0.15
#: The largest of many rows grows with their number even if all are alike.
TOLERANCE_OF_MAXIMA = 0.3
#: A run whose K_eff is below this share of the value expected at its scale has localised.
LOCALISED = 0.25
#: What is measured of the model, and not of a step.
STATES = ("Z", "F", "K_eff")


class Expectation(NamedTuple):
    """What is expected of a quantity.

    Attributes
    ----------
    exponent
        The exponent, None if there is no prediction.
    desideratum
        The desideratum it decides, '' if none.
    tolerance
        How far off a slope may be.
    floor
        A share of the size expected from the smallest scale, below which no single run may fall: a wide
        interval over seeds must not excuse a run that has collapsed.
    """

    exponent: float | None
    desideratum: str = ""
    tolerance: float = TOLERANCE
    floor: float = 0.0


def expectations(
    family: str, optimizer: str, regime: str, *, centred: bool, split: bool = True
) -> dict[str, Expectation]:
    """Return the expectation of each quantity.

    `split` says whether the two parts of the update of W are measured, as for SGD without momentum.
    """
    rule, memories_only, fixed = OPTIMIZERS[optimizer], regime == "memories-only", regime in FIXED_MODEL
    sgd, biases_by_gradient = rule.follows_gradient, rule.of_biases.follows_gradient
    table = dict.fromkeys(("dW", "dW1", "dW2", "dZ_W", "dF_outer", "dF_inner"), Expectation(0.0))
    table |= dict.fromkeys(("Z", "F"), Expectation(0.0, "stability"))
    table |= dict.fromkeys(("dZ_exact", "dF_exact"), Expectation(0.0, "maximality"))
    parts = ("dZ1", "dZ2", "dF11", "dF12", "dF21", "dF22") if split else ("dZ_W", "dF_outer", "dF_inner")
    table |= dict.fromkeys(parts, Expectation(0.0, "balance"))
    hidden_bias = (-1.0 if memories_only else -0.5) if biases_by_gradient else 0.0
    table |= {"dZ_b": Expectation(hidden_bias), "dF_b": Expectation(hidden_bias)}
    table["dF_c"] = Expectation(-0.5 if biases_by_gradient and not memories_only else 0.0)
    table["grad_W"] = Expectation(-1.0)
    # Adam does not see the Gram matrix itself, and later its bias makes the largest eigenvalue grow.
    table["lambda_max" if centred else "lambda_max_raw"] = Expectation(0.0, "balance" if sgd else "")
    if family in OF_ORDER_ONE_OVER_K:
        table["K_eff"] = Expectation(1.0, "participation", floor=LOCALISED)
        table["row_step_max"] = Expectation(0.0, "participation", TOLERANCE_OF_MAXIMA)
    return {name: _of_fixed_model(name, e, regime) for name, e in table.items()} if fixed else table


def _of_fixed_model(name: str, expectation: Expectation, regime: str) -> Expectation:
    """Return what is expected where the model does not grow: nothing of a step whose batch does."""
    if regime in FOLLOWED and name not in STATES:
        return Expectation(None)
    return expectation._replace(exponent=0.0)
