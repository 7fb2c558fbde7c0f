"""Exponents with intervals: the slope of log(size) against log(scale), seed by seed."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from denseam.analysis.coordinates.expected import TOLERANCE, Expectation
from denseam.analysis.coordinates.measurements import Measurements
from denseam.analysis.statistics import mean_interval
from denseam.analysis.statistics import slope as fitted_slope

#: An interval wider than this to one side decides nothing by itself.
WIDE = 0.3


@dataclasses.dataclass(frozen=True)
class Slope:
    """The exponent of one quantity at one step, with what is expected of it.

    Attributes
    ----------
    slope, ci
        Mean over seeds and its 95 % t-interval; None where a value was not finite or zero.
    expected
        The exponent of the theory, None where there is none.
    judged
        The desideratum it counts for, '' if it is only reported.
    ok
        Whether it is near the expected exponent, or its interval holds it; None if not judged.
    """

    name: str
    step: int
    slope: float | None
    ci: tuple[float, float] | None
    expected: float | None
    judged: str
    ok: bool | None

    @property
    def undecided(self) -> bool:
        """Whether it is only called right because its interval is wide."""
        if not self.ok or self.slope is None or self.ci is None or self.expected is None:
            return False
        return abs(self.slope - self.expected) > TOLERANCE and self.ci[1] - self.ci[0] > 2 * WIDE

    @property
    def excess(self) -> float:
        """How far the slope is above what is expected; infinite where values were not finite."""
        return math.inf if self.slope is None else self.slope - (self.expected or 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return dataclasses.asdict(self) | {"ci": None if self.ci is None else list(self.ci)}


def slope_of(
    name: str, step: int, scales: Any, sizes: Float[np.ndarray, "scales seeds"], e: Expectation
) -> Slope:
    """Fit the slope of each seed by least squares; return their mean and its interval."""
    if not (np.isfinite(sizes) & (sizes > 0)).all():
        return Slope(name, step, None, None, e.exponent, e.desideratum, False if e.desideratum else None)
    mean, interval = mean_interval(fitted_slope(np.log(scales), np.log(sizes)))
    assert interval is not None  # there are at least two seeds
    low, high = interval
    ok = None
    if e.exponent is not None and e.desideratum:
        ok = bool(abs(mean - e.exponent) <= e.tolerance or low <= e.exponent <= high)
        growth = (np.asarray(scales, float) / scales[0]) ** e.exponent
        ok = ok and bool((sizes >= e.floor * np.median(sizes[0]) * growth[:, None]).all())
    return Slope(name, step, mean, (low, high), e.exponent, e.desideratum, ok)


def slopes(measured: Measurements, expected: dict[str, Expectation]) -> list[Slope]:
    """Return the slope of every quantity at every step."""
    return [
        slope_of(name, step, measured.scales, values[i], expected.get(name, Expectation(None)))
        for name, values in measured.values.items()
        for i, step in enumerate(measured.steps)
    ]
