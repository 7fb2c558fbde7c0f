"""The loss of one scale as a function of the swept value, and its minimum.

One interpolation serves the best loss and the loss at any other value, so that a regret is never the
difference of two conventions: cubics in the logarithms, whose slope at a point of the grid is a weighted mean
of the slopes of the parabolas through that point and two neighbours,

    q' = Σ_k w_k q_k' / Σ_k w_k,    w_k = (1, 4, 1) / |q_k''|,

with 4 for the parabola that has the point in its middle. The weights 1 : 4 : 1 alone are exact for quartics;
the curvature in the denominator leaves out a parabola that climbs a cliff, as next to the edge of stability.
A parabola is reproduced on any grid.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from denseam.analysis.causes import Side
from denseam.analysis.statistics import Interval

Array = np.ndarray[Any, Any]

#: Coordinates that differ by less are the same point of the grid.
SAME = 1e-9


class Interpolant:
    """Curves through the columns of `y`, which may have infinite points: cubic between two finite points.

    Attributes
    ----------
    x, y
        The points: coordinates (value) and values (value × column).
    coefficients
        Power × interval × column: y = Σ_k c_k (x - x_i)^(3-k) on interval i, NaN if an end is infinite.
    """

    def __init__(self, x: Array, y: Array) -> None:
        self.x, self.y = x, y
        self.coefficients = np.full((4, len(x) - 1, y.shape[1]), np.nan)
        finite = np.isfinite(y)
        for columns in _alike(finite):
            for first, last in _runs(finite[:, columns[0]]):
                run = slice(first, last + 1)
                self.coefficients[:, first:last, columns] = _cubics(x[run], y[run][:, columns])

    def __call__(self, x: Array) -> Array:
        """Return point × column: the values at x, infinite where x is not between two finite points."""
        last = len(self.x) - 1
        node = np.abs(self.x[:, None] - x).argmin(axis=0)
        values: Array = np.where((np.abs(self.x[node] - x) < SAME)[:, None], self.y[node], np.inf)
        between = ~np.isfinite(values).all(axis=1) & (x > self.x[0]) & (x < self.x[-1])
        if last and between.any():
            i = np.clip(np.searchsorted(self.x, x[between]) - 1, 0, last - 1)
            cubic = _cubic(self.coefficients[:, i], (x[between] - self.x[i])[:, None])
            values[between] = np.fmin(values[between], np.nan_to_num(cubic, nan=np.inf))
        return values

    @functools.cached_property
    def turning_points(self) -> tuple[Array, Array]:
        """Coordinates and values, point × column: the points, then all turning points between them."""
        c0, c1, c2, _ = self.coefficients
        with np.errstate(divide="ignore", invalid="ignore"):
            # Both zeros of 3 c0 t² + 2 c1 t + c2, without the cancellation where c0 is small.
            root = np.sqrt(c1**2 - 3 * c0 * c2)
            q = -(c1 + np.where(c1 < 0, -root, root))
            t = np.stack([q / (3 * c0), c2 / q])
            inside = (t > 0) & (t < np.diff(self.x)[:, None])
        t = np.where(inside, t, np.nan)
        values = np.where(inside, _cubic(self.coefficients[:, None], t), np.inf)
        x = self.x[:-1, None] + t
        columns = self.y.shape[1]
        nodes = np.broadcast_to(self.x[:, None], self.y.shape)
        return np.concatenate([nodes, x.reshape(-1, columns)]), np.concatenate(
            [self.y, values.reshape(-1, columns)]
        )

    @functools.cached_property
    def minimum(self) -> tuple[Array, Array]:
        """Where each column is smallest, and its value there; NaN and infinity without a finite point."""
        x, y = self.turning_points
        lowest = np.min(y, axis=0)
        place = np.take_along_axis(x, np.argmin(y, axis=0)[None], axis=0)[0]
        return np.where(np.isfinite(lowest), place, np.nan), lowest


class Profile:
    """The log-loss of one scale against the coordinate x of the swept value.

    x is log10 of the value, or the value itself if the grid contains zero. The *mean curve* goes through the
    means over seeds of the log-losses; it is infinite where a seed diverged.

    Attributes
    ----------
    x
        The coordinates of the grid.
    logs
        Natural logarithms of the losses, value × seed; infinite where a run diverged.
    mean
        Their means over seeds.
    """

    def __init__(self, x: Array, losses: Array) -> None:
        self.x = np.asarray(x, float)
        self.logs: Array = np.log(np.maximum(losses, np.finfo(float).tiny))
        self.mean: Array = np.mean(self.logs, axis=1)
        self._curves = Interpolant(self.x, np.column_stack([self.logs, self.mean]))

    def at(self, x: float) -> Array:
        """Return each seed's log-loss at x; infinite if x is not bracketed by finite points of that seed."""
        return self._curves(np.array([x]))[0, :-1]

    def regret(self, x: Array | float) -> Array:
        """Return the cost of x on the mean curve: exp(log-loss at x - its minimum) - 1."""
        if not np.isfinite(self.best):
            return np.full(np.shape(x), np.inf)
        values = self._curves(np.atleast_1d(np.asarray(x, float)))[:, -1]
        return np.asarray(np.expm1(values - self.best).reshape(np.shape(x)))

    def regret_between(self, low: float, high: float) -> Interval:
        """Return bounds of the cost of the values from low to high.

        The lower one is that of the best value among them, or of the nearest finite point if none is known.
        The upper one is infinite unless all of them are known, and includes `unseen`.
        """
        finite = self.x[np.isfinite(self.mean)]
        if not len(finite):
            return 0.0, np.inf
        x, y = (points[:, -1] for points in self._curves.turning_points)
        # A turning point that does not exist has no coordinate, and is not between.
        inside = y[(x > low) & (x < high)]
        known = np.clip([low, high], finite[0], finite[-1])
        ends, nearest = np.split(self._curves(np.concatenate([[low, high], known]))[:, -1], 2)
        least = min(inside.min(initial=np.inf), nearest.min()) - self.best
        most = max(inside.max(initial=-np.inf), ends.max()) - self.best + self.unseen
        return float(np.expm1(least)), float(np.expm1(most))

    @property
    def optima(self) -> Array:
        """Each seed's minimum; NaN for a seed that diverged at every value."""
        return self._curves.minimum[0][:-1]

    @property
    def optimum(self) -> float:
        """The minimum of the mean curve; NaN if at every value some seed diverged."""
        return float(self._curves.minimum[0][-1])

    @property
    def best(self) -> float:
        """The smallest mean log-loss; infinite if at every value some seed diverged."""
        return float(self._curves.minimum[1][-1])

    @functools.cached_property
    def _nearest(self) -> int:
        """The best point of the grid."""
        return int(np.argmin(self.mean))

    @property
    def step(self) -> float:
        """The larger of the distances from the best point to its neighbours."""
        i = self._nearest
        return float(np.max(np.diff(self.x[max(i - 1, 0) : i + 2]), initial=0.0))

    @property
    def end(self) -> Side | None:
        """The end of the grid that is best, if one is; None for a single value."""
        if len(self.x) < 2:
            return None
        ends: dict[int, Side] = {0: "low", len(self.x) - 1: "high"}
        return ends.get(self._nearest)

    @property
    def rough(self) -> bool:
        """Whether a neighbour of the best point diverged, so that the minimum may lie beyond that point."""
        i = self._nearest
        return not bool(np.isfinite(self.mean[max(i - 1, 0) : i + 2]).all())

    @functools.cached_property
    def unseen(self) -> float:
        """The most by which log-loss can fall between the best point and a neighbour that diverged.

        log-loss is taken to be convex: it falls by no more than the slope on the other side of the best
        point times the distance to the neighbour.
        """
        i, most = self._nearest, 0.0
        for ahead, behind in ((i + 1, i - 1), (i - 1, i + 1)):
            if not (0 <= ahead < len(self.x)) or np.isfinite(self.mean[ahead]):
                continue
            if not (0 <= behind < len(self.x)) or not np.isfinite(self.mean[behind]):
                return np.inf
            falls = (self.mean[behind] - self.mean[i]) / abs(self.x[behind] - self.x[i])
            most = max(most, float(falls * abs(self.x[ahead] - self.x[i])))
        return most

    @functools.cached_property
    def curvature(self) -> float:
        """Second derivative of the mean curve around its optimum, per squared unit of x; 0 where it is flat.

        That of the parabola through the best point and its neighbours, or through the nearest three finite
        points if a neighbour diverged or the best point is an end of the grid; 0 with fewer points.
        """
        finite = np.flatnonzero(np.isfinite(self.mean))
        if len(finite) < 3:
            return 0.0
        middle = int(np.clip(np.searchsorted(finite, self._nearest), 1, len(finite) - 2))
        three = finite[middle - 1 : middle + 2]
        slopes = np.diff(self.mean[three]) / np.diff(self.x[three])
        return max(0.0, float(2 * np.diff(slopes)[0] / np.ptp(self.x[three])))


def _cubic(coefficients: Array, t: Array) -> Array:
    c0, c1, c2, c3 = coefficients
    return np.asarray(((c0 * t + c1) * t + c2) * t + c3)


def _cubics(x: Array, y: Array) -> Array:
    """Return power × interval × column: the cubics through the points y (value × column)."""
    h = np.diff(x)[:, None]
    rise = np.diff(y, axis=0) / h
    slope = _slopes(h, rise)
    left, right = slope[:-1], slope[1:]
    return np.stack([(left + right - 2 * rise) / h**2, (3 * rise - 2 * left - right) / h, left, y[:-1]])


def _slopes(h: Array, rise: Array) -> Array:
    """Return the slope at each point, from the steps h and the slopes between neighbours."""
    if len(h) < 2:
        return np.repeat(rise, 2, axis=0)
    bend = np.diff(rise, axis=0) / (h[1:] + h[:-1])  # half of q'' of the parabola around each inner point
    size = np.abs(bend)
    weight = 1 / (size + 1e-9 * size.max(axis=0) + 1e-12)
    slope, total = np.zeros((2, len(h) + 1, rise.shape[1]))
    parts = (
        (slice(None, -2), 1, rise[:-1] - bend * h[:-1]),
        (slice(1, -1), 4, rise[:-1] + bend * h[:-1]),
        (slice(2, None), 1, rise[1:] + bend * h[1:]),
    )
    for points, share, parabola in parts:
        slope[points] += share * weight * parabola
        total[points] += share * weight
    return np.asarray(slope / total)


def _alike(finite: Array) -> list[Array]:
    """Return the columns that are finite at the same points, as groups."""
    if (finite == finite[:, :1]).all():
        return [np.arange(finite.shape[1])]
    patterns, group = np.unique(finite, axis=1, return_inverse=True)
    return [np.flatnonzero(group.ravel() == i) for i in range(patterns.shape[1])]


def _runs(finite: Array) -> list[tuple[int, int]]:
    """Return the first and last index of each run of at least two finite points."""
    steps = np.diff(np.concatenate([[False], finite, [False]]).astype(int))
    first, last = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1) - 1
    return [(int(a), int(b)) for a, b in zip(first, last, strict=True) if b > a]
