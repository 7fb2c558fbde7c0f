"""The axes that are tuned together: their coordinates, and the runs at points of their lattice.

An axis is a field with a `Span` (`denseam.rules.fields`): a hyperparameter of a study, or the batch. The
batch is a size, so runs with different batches have programs of their own, and it is tuned as a multiple of
the one that was given. Epochs stay, so a smaller batch means more steps. For a family in proportion the
result is the share B/P of the samples, and the batch of the target grows with its samples.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from denseam.ground.errors import InputError, collecting, refuse
from denseam.rules.fields import Span, parameters
from denseam.rules.regimes import Regime
from denseam.studies.description import AXES
from denseam.studies.study import RunSpec, Study
from denseam.workflow.goals import Goal
from denseam.workflow.joint import Array, Point
from denseam.workflow.target_sizes import TargetSizes

ETA0, BATCH = "eta0", "batch"


@functools.cache
def tunable() -> Mapping[str, Span]:
    """Return the axes that can be tuned, with their spans."""
    described = {**AXES, BATCH: parameters(TargetSizes)[BATCH]}
    return {name: p.span for name, p in described.items() if p.span is not None}


def rebatched(regime: Regime, factor: float) -> Regime:
    """Return a regime with a multiple of its batch: of B/P, or of B if the samples stay."""
    held: Any = regime
    changes: dict[str, Any]
    if hasattr(held, "beta"):
        changes = {"beta": float(f"{held.beta * factor:.12g}")}
    else:
        changes = {"batch": max(1, round(held.batch * factor))}
    other: Regime = dataclasses.replace(held, **changes)
    return other


def with_batch(goal: Goal, factor: float) -> Goal:
    """Return a goal with a multiple of its batch."""
    if factor == 1:
        return goal
    study = dataclasses.replace(goal.study, regime=rebatched(goal.study.regime, factor), name=goal.study.name)
    return dataclasses.replace(goal, study=study)


@dataclasses.dataclass(frozen=True)
class Space:
    """The axes that are tuned for a goal, eta0 first."""

    goal: Goal
    axes: tuple[str, ...]

    @classmethod
    def of(cls, goal: Goal, names: Sequence[str]) -> Space:
        """Return the space of some axes, or refuse those that the model or its optimizer does not have."""
        axes = tuple(dict.fromkeys(names))
        known = ", ".join(tunable())
        problems = [f"tune must name axes among {known}, got {a!r}" for a in axes if a not in tunable()]
        if ETA0 not in axes:
            problems.append(f"tune must name {ETA0}: everything else depends on it")
        if BATCH in axes and goal.study.regime.letter == "B":
            problems.append(f"tune: the batch grows in the regime {goal.study.regime.name!r}; leave it out")
        refuse(problems)
        space = cls(goal, (ETA0, *(a for a in axes if a != ETA0)))
        # The smallest model with the largest batch has the fewest steps.
        fewest = tunable()[BATCH].value(max(space.batches) * tunable()[BATCH].step) if BATCH in axes else 1.0
        with collecting(problems):  # refuses axes that the model or the optimizer does not have
            with_batch(goal, fewest).at((goal.ladder[0],), (1.0,), 1, **space.ends)
        if BATCH in axes and len(space.batches) < 2:
            problems.append(
                f"tune: batch has one possible value, {goal.shape.B} of {goal.shape.P} samples; leave it out"
            )
        refuse(problems)
        return space

    @property
    def spans(self) -> dict[str, Span]:
        """The span of each axis."""
        return {axis: tunable()[axis] for axis in self.axes}

    @property
    def hyperparameters(self) -> dict[str, Span]:
        """The spans of those axes that are neither η0 nor the batch."""
        return {axis: span for axis, span in self.spans.items() if axis not in (ETA0, BATCH)}

    @property
    def ends(self) -> dict[str, tuple[float, ...]]:
        """The smallest and the largest value of those axes that are neither η0 nor the batch."""
        return {
            a: tuple(sorted(s.value(k * s.step) for k in s.lattice)) for a, s in self.hyperparameters.items()
        }

    @property
    def steps(self) -> Array:
        """The step of each axis, as a coordinate."""
        return np.array([span.step for span in self.spans.values()])

    @functools.cached_property
    def batches(self) -> tuple[int, ...]:
        """The lattice of the batch, as far as every size of the family can have it."""
        span, regime = tunable()[BATCH], self.goal.study.regime
        low, high = span.lattice
        sizes = (*self.goal.ladder, self.goal.target)
        return tuple(
            k
            for k in range(low, high + 1)
            if not any(_batch_problems(regime, span.value(k * span.step), sizes))
        )

    def box(self, eta0: tuple[int, int]) -> tuple[Point, Point]:
        """Return the smallest and the largest point; `eta0` are the limits of its axis."""
        ends = [
            eta0 if axis == ETA0 else (self.batches[0], self.batches[-1]) if axis == BATCH else span.lattice
            for axis, span in self.spans.items()
        ]
        return tuple(low for low, _ in ends), tuple(high for _, high in ends)

    def start(self, eta0: int) -> Point:
        """Return the point of the values that the user gave, or of the defaults."""
        held = self.goal.study.grid
        point = [eta0]
        for axis, span in list(self.spans.items())[1:]:
            low, high = span.lattice
            value = 1.0 if span.relative else held[axis][0]
            # A value that follows from another field by default is not known; the middle is as good as any.
            x = span.step * (low + high) / 2 if value is None else span.coordinate(value)
            point.append(int(np.clip(np.rint(x / span.step), low, high)))
        return tuple(point)

    def values(self, point: Point) -> dict[str, float]:
        """Return the value of each axis at a point of the lattice."""
        return {a: s.value(k * s.step) for (a, s), k in zip(self.spans.items(), point, strict=True)}

    def rounded(self, x: Array) -> dict[str, float]:
        """Return the values of coordinates, as they are recommended."""
        return {a: s.rounded(float(v)) for (a, s), v in zip(self.spans.items(), x, strict=True)}

    def runs(
        self, points: Sequence[Point], scale: int, seeds: int, epochs: int
    ) -> tuple[list[tuple[Study, list[RunSpec]]], dict[Point, list[str]]]:
        """Return the runs at points of the lattice, a study for each batch; and the keys of each point."""
        by_batch: dict[float, list[Point]] = {}
        for point in points:
            by_batch.setdefault(self.values(point).get(BATCH, 1.0), []).append(point)
        runs: list[tuple[Study, list[RunSpec]]] = []
        keys: dict[Point, list[str]] = {}
        for factor, alike in by_batch.items():
            values = [{a: v for a, v in self.values(p).items() if a != BATCH} for p in alike]
            study, specs = _runs_of(self.goal, factor, values, scale, seeds, epochs)
            runs.append((study, specs))
            keys |= {p: [spec.key for spec in specs[i :: len(alike)]] for i, p in enumerate(alike)}
        return runs, keys


def _runs_of(
    goal: Goal, factor: float, points: Sequence[Mapping[str, float]], scale: int, seeds: int, epochs: int
) -> tuple[Study, list[RunSpec]]:
    """Return a study that has all values of the points, so that it knows which it uses, and their runs."""
    grid = {axis: tuple(sorted({p[axis] for p in points})) for axis in points[0]}
    study = with_batch(goal, factor).at((scale,), grid.pop(ETA0), seeds, **grid)
    study = dataclasses.replace(study, epochs=epochs)
    return study, study.runs_at(points)


def _batch_problems(regime: Regime, factor: float, scales: Sequence[int]) -> Iterator[str]:
    """Give why a family cannot have a multiple of its batch."""
    try:
        other: Any = rebatched(regime, factor)
        for scale in scales:
            yield from other.problems(scale)
            other.shape(scale)
    except InputError as error:
        yield from error.problems
