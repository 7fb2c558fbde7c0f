"""Where exponents are measured: shapes along the path of a regime, and ladders on which one size grows.

Any shape is a study of its own, since no regime lets the features grow alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from denseam.analysis.coordinates.laws import Sizes
from denseam.ground.errors import InputError
from denseam.rules import MemoriesOnly, Parameterization, Shape
from denseam.studies.records import PROBE_COLUMNS, Records
from denseam.studies.runner import run_studies
from denseam.studies.store import Store
from denseam.studies.study import Study

#: Each size of a ladder relative to the shape in its middle.
RUNGS = (0.5, 1.0, 2.0)
#: The sizes that can grow alone. Samples beyond a batch do not enter the first step.
ALONE = ("N", "K", "B")


class Point(NamedTuple):
    """A shape, and the rule and constants of the model that is measured there."""

    shape: Shape
    rule: Parameterization
    constants: Mapping[str, float]


#: Points, quantity → its size at points × seeds.
Measure = Callable[[Sequence[Point], str], Sizes]


def path(study: Study) -> tuple[Shape, ...]:
    """Return the shapes of a study, from the smallest scale to the largest."""
    return tuple(study.shape(scale) for scale in study.scales)


def ladders(study: Study) -> dict[str, tuple[Shape, ...]]:
    """Return for each size that grows with others the shapes on which it grows alone.

    They are around the middle of the path. A size is left out if the data has no such samples, or if it is so
    small that two of its shapes are the same.
    """
    growing = [letter for letter in study.regime.grows if letter in ALONE]
    if len(growing) < 2:
        return {}
    shapes = path(study)
    middle, source = shapes[(len(shapes) - 1) // 2], study.source()
    grown = {
        letter: tuple(_grown(middle, letter, round(rung * getattr(middle, letter))) for rung in RUNGS)
        for letter in growing
    }
    return {
        letter: ladder
        for letter, ladder in grown.items()
        if len(set(ladder)) == len(RUNGS) and not any(source.problems(shape) for shape in ladder)
    }


def _grown(shape: Shape, letter: str, size: int) -> Shape:
    grown = dataclasses.asdict(shape) | {letter: max(1, size)}
    return Shape(**grown | {"P": max(grown["P"], grown["B"])})


def measuring(study: Study, quantities: Sequence[str], out: Store | None, **training: Any) -> Measure:
    """Return what measures the first step of a study's model at any shape; runs are kept in a store.

    All `quantities` are measured together, so that each shape has one program.
    """

    def measure(points: Sequence[Point], quantity: str) -> Sizes:
        studies = [_study(study, point, quantities) for point in points]
        keys = [[spec.key for spec in each.runs()] for each in studies]
        sizes = _sizes(run_studies(studies, out, **training).complete(), quantity)
        return np.array([[sizes[key] for key in row] for row in keys])

    return measure


def _study(study: Study, point: Point, quantities: Sequence[str]) -> Study:
    """Return the study of one shape: one update on one batch, at the smallest learning rate."""
    N, K, B = point.shape.N, point.shape.K, point.shape.B
    assert B is not None
    axes = dict(study.axes) | {name: (value,) for name, value in point.constants.items()}
    return dataclasses.replace(
        study,
        regime=MemoriesOnly(features=N, samples=B, batch=B),
        scales=(K,),
        eta0=study.eta0[:1],
        epochs=1,
        steps=point.shape.T,
        probes=tuple(quantities),
        probe_steps=(0,),
        parameterization=dataclasses.replace(point.rule, regime="memories-only"),
        axes=axes,
        name="",
    )


def _sizes(records: Records, quantity: str) -> dict[str, float]:
    """Return the size of a quantity at the first step of each run, by its key."""
    column = PROBE_COLUMNS[quantity]
    lacking = [row["key"] for row in records if not row.get(column)]
    if lacking:
        raise InputError(f"records of {len(lacking)} runs have no {quantity}")
    return {row["key"]: float(row[column][0]) for row in records}
