"""The loss curve that small models predict for a large one.

Curves of several sizes at one η0 hardly differ once each is divided by the loss of predicting zero. The
remaining difference is extrapolated: in every epoch the logarithm of that ratio is taken to be linear in the
logarithm of the size. The range around the prediction allows for the differences between seeds and for half
of the extrapolated change.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from denseam.analysis.statistics import slope
from denseam.ground.errors import InputError
from denseam.studies.records import Row

#: A loss within this share of the prediction is never a surprise.
LEAST = 0.05
#: The number of standard deviations of a seed's curve that count as noise.
DEVIATIONS = 3.0
#: A loss has left the range when it was outside for this many epochs in a row.
PATIENCE = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Expected:
    """The predicted loss after each epoch with its range, as shares of the loss of predicting zero."""

    low: Float[np.ndarray, " epochs"]
    middle: Float[np.ndarray, " epochs"]
    high: Float[np.ndarray, " epochs"]

    def leaves(self, losses: Sequence[float], zero: float) -> str:
        """Return 'above' or 'below' if the last losses are out of range, else ''; `zero` is the unit."""
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
        curves = [np.asarray(document[k], float) for k in ("low", "middle", "high")]
        if len({len(curve) for curve in curves}) > 1:
            raise InputError("expected: low, middle and high must have the same length")
        return cls(*curves)


def expected_curve(rows: Sequence[Row], eta0: float, target: int) -> Expected | None:
    """Return the predicted curve of a target; None if the runs do not determine it.

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
    lengths = {len(row["loss"]) for row in rows}  # they differ where the length of training is what grows
    if not above or not below or len(scales) < 2 or len(lengths) > 1:
        return None
    logs = _log_curves(rows, scales, eta0, below[-1], above[0])
    if logs.shape[1] == 0 or not np.isfinite(logs).all():
        return None
    means = logs.mean(axis=1)
    ahead = slope(np.log(scales), means) * math.log(target / scales[-1])
    middle = means[-1] + ahead
    noise = logs.std(axis=1, ddof=1).mean(axis=0) if logs.shape[1] > 1 else np.zeros_like(middle)
    room = np.maximum(DEVIATIONS * noise + 0.5 * np.abs(ahead), math.log1p(LEAST))
    return Expected(np.exp(middle - room), np.exp(middle), np.exp(middle + room))


def _log_curves(
    rows: Sequence[Row], scales: Sequence[int], eta0: float, low: float, high: float
) -> Float[np.ndarray, "scales seeds epochs"]:
    """Return log(loss / loss of predicting zero) of the complete seeds, interpolated in the learning rate."""
    curves = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        for row in rows:
            if row["eta0"] in (low, high):
                curve = np.log(row["loss"]) - math.log(row["zero_mse"])
                curves[row["scale"], row["seed"], row["eta0"]] = curve
    seeds = sorted({row["seed"] for row in rows})
    complete = [s for s in seeds if all((n, s, v) in curves for n in scales for v in (low, high))]
    weight = 0.0 if high == low else math.log(eta0 / low) / math.log(high / low)
    return np.array(
        [[(1 - weight) * curves[n, s, low] + weight * curves[n, s, high] for s in complete] for n in scales]
    )
