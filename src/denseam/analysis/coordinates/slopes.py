"""Sizes of quantities at steps, scales and seeds, and the slopes of log(size) against log(scale)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from denseam.analysis.coordinates.expected import TOLERANCE, Expectation
from denseam.analysis.statistics import Interval, mean_interval
from denseam.analysis.statistics import slope as fitted_slope
from denseam.ground.errors import InputError, refuse
from denseam.studies.records import PROBE_COLUMNS, Records, Row

#: An interval wider than this to one side decides nothing by itself.
WIDE = 0.3


def too_few(scales: Sequence[int], seeds: int) -> Iterator[str]:
    """Yield a problem if there are too few scales for a slope, or too few seeds for an interval."""
    if len(scales) < 2:
        yield f"scales must be two or more sizes (a slope needs them), got {', '.join(map(str, scales))}"
    if seeds < 2:
        yield f"seeds must be two or more (an interval needs them), got {seeds!r}"


@dataclasses.dataclass(frozen=True)
class Measurements:
    """Values of quantities as arrays steps × scales × seeds; not finite where a run has diverged."""

    steps: tuple[int, ...]
    scales: tuple[int, ...]
    values: Mapping[str, Float[np.ndarray, "steps scales seeds"]]

    def __post_init__(self) -> None:
        refuse(too_few(self.scales, self.seeds))

    @property
    def outputs(self) -> Float[np.ndarray, "steps scales seeds"]:
        """The size of F, which shows whether a run has diverged; another quantity if F was not measured."""
        return self.values["F"] if "F" in self.values else next(iter(self.values.values()))

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return int(self.outputs.shape[2]) if self.values else 0


def from_records(records: Records) -> Measurements:
    """Return the probes of the runs of one study; of several learning rates, those of the smallest."""
    runs = _probed_runs(records)
    steps = sorted(set.intersection(*(set(row["probe_steps"]) for row in runs.values())))
    scales = sorted({scale for scale, _ in runs})
    seeds = sorted({seed for _, seed in runs if all((scale, seed) in runs for scale in scales)})
    if not steps or not seeds:
        raise InputError("records have no seed and no step in common over their scales")

    def value(column: str, step: float, row: Row) -> float:
        return float(row[column][row["probe_steps"].index(step)])

    values = {
        name: np.array([[[value(column, t, runs[n, s]) for s in seeds] for n in scales] for t in steps])
        for name, column in PROBE_COLUMNS.items()
        if all(row.get(column) for row in runs.values())
    }
    return Measurements(tuple(int(t) for t in steps), tuple(scales), values)


def _probed_runs(records: Records) -> dict[tuple[int, int], Row]:
    """Return the runs with probes at the smallest learning rate, by scale and seed."""
    rows = [row for row in records if row.get("probe_steps")]
    if not rows:
        raise InputError("records hold no probes: sweep with --probes all")
    smallest = min(row["eta0"] for row in rows)
    return {(row["scale"], row["seed"]): row for row in rows if row["eta0"] == smallest}


@dataclasses.dataclass(frozen=True)
class Slope:
    """The exponent of one quantity at one step, and its expectation.

    Attributes
    ----------
    slope, ci
        Mean over seeds and its 95 % t-interval; None if a value was zero or not finite.
    expected
        The exponent that the theory predicts, if it predicts one.
    judged
        The desideratum it counts for, '' if it is only reported.
    ok
        Whether it is near the expected exponent, or its interval contains it; None if not judged.
    """

    name: str
    step: int
    slope: float | None
    ci: Interval | None
    expected: float | None
    judged: str
    ok: bool | None

    @property
    def undecided(self) -> bool:
        """Whether it only passes because its interval is wide."""
        if not self.ok or self.slope is None or self.ci is None or self.expected is None:
            return False
        return abs(self.slope - self.expected) > TOLERANCE and self.ci[1] - self.ci[0] > 2 * WIDE

    @property
    def excess(self) -> float:
        """How far the slope is above the expected one; infinite if values were not finite."""
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
