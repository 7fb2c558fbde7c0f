"""Runs in groups: those that share their batches, and parts of nearly the same length."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from denseam.studies.study import RunSpec


def sharing_batches(specs: Iterable[RunSpec]) -> list[list[RunSpec]]:
    """Return the runs that share shape, seed and noise, and so their batches, in the order given."""
    groups: dict[Any, list[RunSpec]] = {}
    for spec in specs:
        groups.setdefault((spec.shape, spec.seed, spec.values["noise"]), []).append(spec)
    return list(groups.values())


def evenly(group: Sequence[RunSpec], count: int) -> list[list[RunSpec]]:
    """Cut a group into so many parts of nearly the same length, none of them empty."""
    count = min(max(1, count), len(group))
    bounds = [round(i * len(group) / count) for i in range(count + 1)]
    return [list(group[a:b]) for a, b in itertools.pairwise(bounds)]
