"""The losses of a study on its grid: a profile for each scale, their edges, drift and collapse.

Nothing is judged here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from denseam.analysis.causes import Side
from denseam.analysis.profiles import Profile
from denseam.analysis.statistics import Interval, mean_interval, slope, slope_error
from denseam.studies.description import AXES
from denseam.studies.records import Row, loss_at

Array = np.ndarray[Any, Any]
#: Keys of runs → their loss curves.
Curves = Callable[[Sequence[str]], Mapping[str, Sequence[float]]]


class Grid:
    """Losses as an array scale × value × seed: infinite if a run diverged, NaN if it is missing.

    Attributes
    ----------
    values
        Those of the axis, from the most cautious to the boldest: a decay time is bolder the shorter it is.
    x, doublings
        The coordinates of the values and of the scales.
    complete
        Scale × seed: whether there is a run for every value of the axis.
    profiles
        The losses of the complete seeds of each scale.
    """

    def __init__(self, rows: Sequence[Row], axis: str, epoch: int | None = None) -> None:
        self.axis = axis
        self.scales = sorted({row["scale"] for row in rows})
        self.sign = -1 if axis in AXES and AXES[axis].bold_below else 1
        self.values = sorted({row[axis] for row in rows}, key=lambda value: self.sign * value)
        self.seeds = sorted({row["seed"] for row in rows})
        self.losses = np.full((len(self.scales), len(self.values), len(self.seeds)), np.nan)
        self.keys = np.full(self.losses.shape, "", dtype=object)
        at = [{v: i for i, v in enumerate(known)} for known in (self.scales, self.values, self.seeds)]
        for row in rows:
            place = at[0][row["scale"]], at[1][row[axis]], at[2][row["seed"]]
            loss = row["final_mse"] if epoch is None else loss_at(row, epoch)
            diverged = epoch is None and row["status"] == "diverged"
            self.losses[place] = loss if math.isfinite(loss) and not diverged else math.inf
            self.keys[place] = row["key"]
        self.log = min(self.values) > 0
        self.x = self.sign * (np.log10(self.values) if self.log else np.array(self.values, float))
        self.doublings = np.log2(self.scales)
        self.complete = ~np.isnan(self.losses).any(axis=1)
        self.counts = self.complete.sum(axis=1).tolist()

    def value(self, x: float) -> float:
        """Return the value at a coordinate."""
        return float(10 ** (self.sign * x)) if self.log else float(self.sign * x)

    def side(self, end: Side) -> Side:
        """Return the end of the grid, by its values, that is an end of the coordinates."""
        return end if self.sign > 0 else "high" if end == "low" else "low"

    def in_values(
        self, drift: float | None, interval: Interval | None
    ) -> tuple[float | None, Interval | None]:
        """Return a drift of coordinates as one of values."""
        if self.sign > 0 or drift is None:
            return drift, interval
        return -drift, None if interval is None else (-interval[1], -interval[0])

    def per_scale(self, values: Sequence[Any]) -> dict[int, Any]:
        """Return scale → its value."""
        return dict(zip(self.scales, values, strict=True))

    @functools.cached_property
    def profiles(self) -> list[Profile]:
        """The losses of the complete seeds of each scale, as curves; a scale without such a seed has none."""
        complete = zip(self.losses, self.complete, strict=True)
        return [Profile(self.x, L[:, seeds]) for L, seeds in complete if seeds.any()]

    @property
    def diverged(self) -> Array:
        """Scale × value: the share of runs that diverged."""
        present = np.maximum((~np.isnan(self.losses)).sum(axis=2), 1)
        return np.asarray(np.isinf(self.losses).sum(axis=2) / present)

    def edges(self) -> Array:
        """Return scale × seed: the coordinate of the largest value before the first divergence."""
        step = self.x[1] - self.x[0] if len(self.x) > 1 else 1.0
        below = np.concatenate([[self.x[0] - step], self.x])
        diverged = [np.isinf(profile.logs) for profile in self.profiles]
        first = [np.where(d.any(axis=0), np.argmax(d, axis=0), len(self.x)) for d in diverged]
        return self.by_seed([below[i] for i in first])

    def edge_values(self) -> dict[int, float | None]:
        """Return scale → the boldest value up to which no seed diverged; None if none ever did."""
        below = [0.0 if self.sign > 0 else math.inf, *map(float, self.values)]
        diverged = [np.isinf(profile.mean) for profile in self.profiles]
        return self.per_scale([below[int(np.argmax(d))] if d.any() else None for d in diverged])

    def by_seed(self, values: Sequence[Array]) -> Array:
        """Return values of the complete seeds of each scale as scale × seed, NaN for the other seeds."""
        table = np.full(self.complete.shape, np.nan)
        for row, seeds, own in zip(table, self.complete, values, strict=True):
            row[seeds] = own
        return table

    def drift(self, coordinates: Array, resolution: bool = False) -> tuple[float | None, Interval | None]:
        """Return the mean over seeds of the slope against doublings of the scale, with its interval.

        With `resolution`, the interval includes the uncertainty of coordinates known only to a grid step.
        """
        present = ~np.isnan(coordinates)
        if resolution and np.all(coordinates[present] >= self.x[-1]):
            return None, None
        slopes = [
            slope(self.doublings[scales], column[scales])
            for column, scales in zip(coordinates.T, present.T, strict=True)
            if scales.sum() > 1
        ]
        if not slopes:
            return None, None
        mean, interval = mean_interval(np.array(slopes))
        if interval is None:
            return mean, None
        half = (interval[1] - interval[0]) / 2
        if resolution and len(self.x) > 1:
            # A coordinate that may be anywhere in a step has the standard deviation step/√12.
            step = float(np.max(np.diff(self.x)))
            half = math.hypot(half, slope_error(self.doublings, 1.96 * step / math.sqrt(12)))
        return mean, (mean - half, mean + half)

    def collapse(self, rows: Sequence[Row], x: float, curves: Curves | None) -> float | None:
        """Return the mean |log-ratio| of curves to those of the largest scale, over that between seeds."""
        if len(self.scales) < 2 or len(self.seeds) < 2:
            return None
        nearest = int(np.argmin(np.abs(self.x - x)))
        keys, losses = self.keys[:, nearest, :], self.losses[:, nearest]
        present = keys != ""
        if not present.any(axis=1).all() or present[0].sum() < 2 or not np.isfinite(losses[present]).all():
            return None
        if curves is not None:
            loss: Mapping[str, Sequence[float]] = curves(keys[present].tolist())
        elif "loss" in rows[0]:
            loss = {row["key"]: row["loss"] for row in rows}
        else:
            return None
        return _collapse([{seed: np.log(loss[k]) for seed, k in enumerate(scale) if k} for scale in keys])


def _collapse(logs: Sequence[Mapping[int, Array]]) -> float | None:
    """Return the difference of curves between scales over that between seeds; logs: scale → seed → curve."""
    curves = [curve for scale in logs for curve in scale.values()]
    if len({len(curve) for curve in curves}) > 1 or not all(np.isfinite(curve).all() for curve in curves):
        return None
    largest = logs[-1]
    apart = [np.mean(np.abs(c - largest[s])) for scale in logs[:-1] for s, c in scale.items() if s in largest]
    if not apart:
        return None
    between_seeds = _mean_difference(np.stack(list(logs[0].values())))
    return float(np.mean(apart)) / between_seeds if between_seeds > 0 else None


def _mean_difference(curves: Array) -> float:
    """Return the mean of |a − b| over all pairs of rows and all columns.

    Sorted, the sum over pairs is ``Σ_i (2i − n + 1) x_i``, so that many rows do not take a time of n².
    """
    n = len(curves)
    ordered = np.sort(curves - curves[0], axis=0)  # rows that are equal differ by exactly 0
    weights = 2 * np.arange(n) - n + 1
    return float(np.mean(weights @ ordered)) / (n * (n - 1) / 2)
