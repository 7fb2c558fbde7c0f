"""The loss of one scale as a function of the swept value, and its minimum.

One interpolation serves the best loss and the loss at any other value, so that a regret is never the
difference of two conventions.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy.interpolate import Akima1DInterpolator

from denseam.analysis.causes import Side

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
        self.coefficients = np.full((4, max(len(x) - 1, 0), y.shape[1]), np.nan)
        finite = np.isfinite(y)
        for columns in _alike(finite):
            for first, last in _runs(finite[:, columns[0]]):
                points = slice(first, last + 1)
                self.coefficients[:, first:last, columns] = _cubics(x[points], y[points][:, columns])

    def __call__(self, x: float) -> Array:
        """Return the value of each column at x; infinite if x is not between two finite points."""
        node = int(np.argmin(np.abs(self.x - x)))
        if abs(self.x[node] - x) < SAME:
            return np.asarray(self.y[node])
        i = int(np.searchsorted(self.x, x)) - 1
        if not 0 <= i < len(self.x) - 1:
            return np.full(self.y.shape[1], np.inf)
        c0, c1, c2, c3 = self.coefficients[:, i]
        t = x - self.x[i]
        return np.nan_to_num(((c0 * t + c1) * t + c2) * t + c3, nan=np.inf)

    def turning_points(self) -> tuple[Array, Array]:
        """Return coordinates and values (column × point) of the points and of all turning points between."""
        c0, c1, c2, c3 = self.coefficients
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(c1**2 - 3 * c0 * c2)
            # Both zeros of 3 c0 t² + 2 c1 t + c2, without the cancellation where c0 is small.
            q = -(c1 + np.where(c1 < 0, -root, root))
            t = np.concatenate([q / (3 * c0), c2 / q])
            width = np.concatenate([np.diff(self.x)] * 2)[:, None]
            t = np.where((t > 0) & (t < width), t, np.nan)
            c0, c1, c2, c3 = (np.concatenate([c, c]) for c in (c0, c1, c2, c3))
            values = ((c0 * t + c1) * t + c2) * t + c3
        nodes = np.broadcast_to(self.x[:, None], self.y.shape)
        x = np.concatenate([nodes, t + np.tile(self.x[:-1], 2)[:, None]])
        return x.T, np.nan_to_num(np.concatenate([self.y, values]), nan=np.inf).T

    def minimum(self) -> tuple[Array, Array]:
        """Return where each column is smallest, and its value; NaN and infinity without a finite point."""
        x, y = self.turning_points()
        columns, best = np.arange(len(y)), np.argmin(y, axis=1)
        lowest = y[columns, best]
        return np.where(np.isfinite(lowest), x[columns, best], np.nan), lowest


class Profile:
    """The log-loss of one scale against the coordinate x of the swept value, for each seed.

    x is log10 of the value, or the value itself if the grid contains zero.

    Attributes
    ----------
    x
        The coordinates of the grid.
    logs
        Natural logarithms of the losses, value × seed; infinite where a run diverged.
    """

    def __init__(self, x: Array, losses: Array) -> None:
        self.x = np.asarray(x, float)
        with np.errstate(divide="ignore"):
            self.logs = np.log(losses)
        self.by_seed = Interpolant(self.x, self.logs)
        self.mean = Interpolant(self.x, np.mean(self.logs, axis=1, keepdims=True))

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return int(self.logs.shape[1])

    def at(self, x: float) -> Array:
        """Return each seed's log-loss at x; infinite if x is not bracketed by finite points of that seed."""
        return self.by_seed(x)

    def regret(self, x: float) -> float:
        """Return the cost of x: exp(mean log-loss at x - its minimum) - 1."""
        return float(np.expm1(self.mean(x)[0] - self.best)) if np.isfinite(self.best) else np.inf

    @functools.cached_property
    def optima(self) -> Array:
        """Each seed's minimum, NaN where a seed has no finite point."""
        return self.by_seed.minimum()[0]

    @functools.cached_property
    def _minimum(self) -> tuple[float, float]:
        x, y = self.mean.minimum()
        return float(x[0]), float(y[0])

    @property
    def optimum(self) -> float:
        """The minimum of the mean over seeds; NaN if at every point some seed diverged."""
        return self._minimum[0]

    @property
    def best(self) -> float:
        """The smallest mean log-loss; infinite if at every point some seed diverged."""
        return self._minimum[1]

    @property
    def _nearest(self) -> int:
        """The best point of the grid."""
        return int(np.argmin(self.mean.y[:, 0]))

    @property
    def end(self) -> Side | None:
        """The end of the grid that is best, if one is; None for a single value."""
        if len(self.x) < 2:
            return None
        return {0: "low", len(self.x) - 1: "high"}.get(self._nearest)  # type: ignore[return-value]

    @property
    def rough(self) -> bool:
        """Whether a neighbour of the best point diverged in some seed."""
        i = self._nearest
        return not bool(np.isfinite(self.mean.y[max(i - 1, 0) : i + 2]).all())

    @functools.cached_property
    def curvature(self) -> float:
        """Second derivative of the mean log-loss at its optimum, per decade²; 0 where it is flat.

        That of the parabola through the best point and its neighbours, or through the three points nearest
        to the best at an end of the finite ones; of fewer than three points, 0.
        """
        finite = np.flatnonzero(np.isfinite(self.mean.y[:, 0]))
        if len(finite) < 3:
            return 0.0
        centre = int(np.clip(np.searchsorted(finite, self._nearest), 1, len(finite) - 2))
        three = finite[centre - 1 : centre + 2]
        (a, b, c), (ya, yb, yc) = self.x[three], self.mean.y[three, 0]
        return max(0.0, float(2 * ((yc - yb) / (c - b) - (yb - ya) / (b - a)) / (c - a)))


def _cubics(x: Array, y: Array) -> Array:
    """Return power × interval × column of the Akima cubics through the points."""
    if len(x) < 2:
        return np.empty((4, 0, y.shape[1]))
    if len(x) == 2:
        slope = (y[1] - y[0]) / (x[1] - x[0])
        return np.stack([np.zeros_like(slope), np.zeros_like(slope), slope, y[0]])[:, None]
    return np.asarray(Akima1DInterpolator(x, y).c)


def _alike(finite: Array) -> list[Array]:
    """Return the columns that are finite at the same points, as groups."""
    patterns, group = np.unique(finite, axis=1, return_inverse=True)
    return [np.flatnonzero(group.ravel() == i) for i in range(patterns.shape[1])]


def _runs(finite: Array) -> list[tuple[int, int]]:
    """Return the first and last index of each run of finite points."""
    steps = np.diff(np.concatenate([[False], finite, [False]]).astype(int))
    first, last = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1) - 1
    return list(zip(first.tolist(), last.tolist(), strict=True))
