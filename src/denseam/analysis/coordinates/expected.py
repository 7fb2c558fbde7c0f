"""The exponents that the theory expects of a parameterization that works.

Exponents of root-mean-square entries against N (all sizes in proportion) or K (memories only), with zero
biases, at the start and soon after. States and all terms of ΔZ and ΔF that come from W keep their size.
The terms of the biases have exponents of their own: under SGD the mean over samples fluctuates as B^-½,
and Δb carries s2. They are reported, not judged: the biases need not be balanced.
"""

from __future__ import annotations

from typing import NamedTuple

#: How far a slope may be from its exponent.
TOLERANCE = 0.15
#: The largest of many rows grows with their number even where all are alike.
TOLERANCE_OF_MAXIMA = 0.3


#: A single run whose K_eff is below this share of what its scale lets expect has localised.
LOCALISED = 0.25


class Expectation(NamedTuple):
    """What is expected of a quantity.

    Attributes
    ----------
    exponent
        The exponent, None if there is no expectation.
    desideratum
        What is judged by it, '' if nothing is.
    tolerance
        How far off a slope may be.
    floor
        A share of the size expected from the smallest scale, below which no single run may fall: an
        interval over seeds is no excuse where one run has collapsed and the next has not.
    """

    exponent: float | None
    desideratum: str = ""
    tolerance: float = TOLERANCE
    floor: float = 0.0


def expectations(
    family: str, optimizer: str, regime: str, *, centred: bool, split: bool = True
) -> dict[str, Expectation]:
    """Return what is expected of each quantity.

    `split` says whether the update of W is measured by its two parts, as for SGD without momentum.
    """
    sgd, memories_only = optimizer == "sgd", regime == "memories-only"
    table = {name: Expectation(0.0, "stability") for name in ("Z", "F")}
    table |= {name: Expectation(0.0, "maximality") for name in ("dZ_exact", "dF_exact")}
    parts = ("dZ1", "dZ2", "dF11", "dF12", "dF21", "dF22") if split else ("dZ_W", "dF_outer", "dF_inner")
    table |= {name: Expectation(0.0, "balance") for name in parts}
    table |= {
        name: Expectation(0.0)
        for name in ("dW", "dW1", "dW2", "dZ_W", "dF_outer", "dF_inner")
        if name not in table
    }
    hidden_bias = (-1.0 if memories_only else -0.5) if sgd else 0.0
    table |= {"dZ_b": Expectation(hidden_bias), "dF_b": Expectation(hidden_bias)}
    table["dF_c"] = Expectation(-0.5 if sgd and not memories_only else 0.0)
    table["grad_W"] = Expectation(-1.0)
    # Adam does not see the Gram matrix itself, and later its bias makes the largest eigenvalue grow.
    table["lambda_max" if centred else "lambda_max_raw"] = Expectation(0.0, "balance" if sgd else "")
    if family == "softmax":
        table["K_eff"] = Expectation(1.0, "participation", floor=LOCALISED)
        table["row_step_max"] = Expectation(0.0, "participation", TOLERANCE_OF_MAXIMA)
    return table
