"""Tests on decay: how strong a decay may be, and how that changes with size."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from denseam.analysis.statistics import slope
from denseam.paper.claims import Measured, OfOne
from denseam.paper.results import Results
from denseam.paper.thresholds import SLOPE


@dataclasses.dataclass(frozen=True)
class Bearable(OfOne):
    """The strongest decay that costs at most a share of the best loss moves with this slope.

    It is a value of the swept axis, `decay` or `decay_time`; the slope is in decades per doubling. Where no
    decay is better than none there is no best one, but there is still one that is too strong.
    """

    expected: float
    share: float = 0.1

    def measure(self, results: Results) -> Measured:
        """Interpolate where the mean loss of each scale crosses the share, and fit a line."""
        axis = results.verdict(self.setting).axis
        by_scale = self._losses(results, axis)
        crossings = {scale: _crossing(losses, self.share) for scale, losses in by_scale.items()}
        known = {scale: value for scale, value in crossings.items() if value is not None}
        if len(known) < max(2, len(crossings)):
            return Measured(None, f"a cost of {100 * self.share:g} % is beyond the grid at some scale")
        moves = float(slope(np.log2(list(known)), np.log10(list(known.values()))))
        (first, last), letter = (min(known), max(known)), self.setting.letter
        text = (
            f"{axis} that costs {100 * self.share:g} %: {known[first]:.2g} at {letter} = {first}, "
            f"{known[last]:.2g} at {last}; {moves:+.3f} decades per doubling, expected {self.expected:+.3f}"
        )
        return Measured(abs(moves - self.expected) <= SLOPE, text)

    def _losses(self, results: Results, axis: str) -> dict[int, dict[float, float]]:
        """Return scale → value of the axis → mean log-loss over seeds, the weakest decay first."""
        logs: dict[int, dict[float, list[float]]] = {}
        weaker = -1 if axis == "decay_time" else 1
        for row in sorted(results.rows(self.setting), key=lambda row: weaker * float(row[axis])):
            loss = math.inf if row["status"] == "diverged" else math.log(row["final_mse"])
            logs.setdefault(row["scale"], {}).setdefault(row[axis], []).append(loss)
        return {
            scale: {value: float(np.mean(seeds)) for value, seeds in by_value.items()}
            for scale, by_value in sorted(logs.items())
        }


def _crossing(losses: dict[float, float], share: float) -> float | None:
    """Return the value at which the log-loss, after its minimum, exceeds it by a share; None if none does."""
    limit = min(losses.values()) + math.log(1 + share)
    points = list(losses.items())
    points = points[min(range(len(points)), key=lambda i: points[i][1]) :]
    for (weak, below), (strong, above) in itertools.pairwise(points):
        if above > limit:
            part = (limit - below) / (above - below)  # 0 if the stronger one diverges
            return float(weak * (strong / weak) ** part)
    return None
