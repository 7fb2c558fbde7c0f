"""The loss curve that small models let expect of a large one.

Curves of several sizes at one η0 hardly differ once each is divided by the loss of predicting zero. What
difference there is goes on: in every epoch the logarithm of that ratio is taken to be linear in the
logarithm of the size, and continued to the target. The range around it allows for how far seeds differ
and for half of what the continuation adds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from denseam.analysis.statistics import slope
from denseam.studies.records import Row

#: Never call a loss surprising that is within this factor of what was expected.
LEAST = 0.05
#: So many standard deviations of a seed's curve count as noise.
DEVIATIONS = 3.0
#: A loss has left the curve when it was outside for so many epochs in a row.
PATIENCE = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Expected:
    """What is expected after each epoch, as a share of the loss of predicting zero."""

    low: Float[np.ndarray, " epochs"]
    middle: Float[np.ndarray, " epochs"]
    high: Float[np.ndarray, " epochs"]

    def leaves(self, losses: Sequence[float], zero: float) -> str:
        """Return 'above', 'below' or '': where the last epochs lie, given the loss of predicting zero."""
        n = len(losses)
        if n < PATIENCE:
            return "above" if n and not math.isfinite(losses[-1]) else ""
        last = np.asarray(losses[-PATIENCE:]) / zero
        epochs = slice(n - PATIENCE, n)
        if not (last <= self.high[epochs]).any():  # also where it is not a number
            return "above"
        return "below" if (last < self.low[epochs]).all() else ""

    def to_json(self) -> dict[str, Any]:
        """Return plain lists."""
        return {k: [float(f"{v:.6g}") for v in getattr(self, k)] for k in ("low", "middle", "high")}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Expected:
        """Read what `to_json` wrote."""
        return cls(*(np.asarray(document[k], float) for k in ("low", "middle", "high")))


def expected_curve(rows: Sequence[Row], eta0: float, target: int) -> Expected | None:
    """Return the curve to expect at a target; None if the runs do not say.

    Parameters
    ----------
    rows
        Records with their loss curves, of sizes from the base on.
    eta0
        The learning rate of the target; the curves of the two nearest ones are interpolated.
    target
        Its size.
    """
    scales = sorted({row["scale"] for row in rows})
    grid = sorted({row["eta0"] for row in rows})
    above = [v for v in grid if v >= eta0 * (1 - 1e-9)]
    below = [v for v in grid if v <= eta0 * (1 + 1e-9)]
    if not above or not below or len(scales) < 2:
        return None
    low, high = below[-1], above[0]
    weight = 0.0 if high == low else math.log(eta0 / low) / math.log(high / low)

    curves = {}
    for row in rows:
        if row["eta0"] in (low, high):
            with np.errstate(divide="ignore", invalid="ignore"):
                curves[row["scale"], row["seed"], row["eta0"]] = np.log(row["loss"]) - math.log(
                    row["zero_mse"]
                )
    seeds = [s for s in sorted({r["seed"] for r in rows})
             if all((scale, s, v) in curves for scale in scales for v in (low, high))]  # fmt: skip
    if not seeds:
        return None
    logs = np.array(
        [[(1 - weight) * curves[n, s, low] + weight * curves[n, s, high] for s in seeds] for n in scales]
    )
    if not np.isfinite(logs).all():
        return None
    means = logs.mean(axis=1)
    ahead = slope(np.log(scales), means) * math.log(target / scales[-1])
    middle = means[-1] + ahead
    noise = logs.std(axis=1, ddof=1).mean(axis=0) if len(seeds) > 1 else np.zeros_like(middle)
    room = np.maximum(DEVIATIONS * noise + 0.5 * np.abs(ahead), math.log1p(LEAST))
    return Expected(np.exp(middle - room), np.exp(middle), np.exp(middle + room))
