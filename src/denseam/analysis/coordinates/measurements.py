"""Sizes of quantities at steps, scales and seeds: what all checks start from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from denseam.errors import InputError, refuse
from denseam.studies.records import PROBE_COLUMNS, Records


@dataclasses.dataclass(frozen=True)
class Measurements:
    """Values of quantities as arrays steps × scales × seeds; not finite where a run was gone."""

    steps: tuple[int, ...]
    scales: tuple[int, ...]
    values: Mapping[str, Float[np.ndarray, "steps scales seeds"]]

    def __post_init__(self) -> None:
        seeds = next(iter(self.values.values())).shape[2] if self.values else 0
        refuse(
            [f"scales: a slope needs at least 2, there is {len(self.scales)}"] * (len(self.scales) < 2)
            + [f"seeds: an interval needs at least 2, there is {seeds}"] * (seeds < 2)
        )

    @property
    def outputs(self) -> Float[np.ndarray, "steps scales seeds"]:
        """The size of F, by which a run is seen to be gone; of another quantity if F was not measured."""
        return self.values["F"] if "F" in self.values else next(iter(self.values.values()))

    @property
    def seeds(self) -> int:
        """How many seeds there are."""
        return int(next(iter(self.values.values())).shape[2])


def from_records(records: Records) -> Measurements:
    """Return the probes of the runs of one study; of several learning rates, those of the smallest."""
    rows = [row for row in records if row.get("probe_steps")]
    if not rows:
        raise InputError("records hold no probes: sweep with --probes all")
    smallest = min(row["eta0"] for row in rows)
    rows = [row for row in rows if row["eta0"] == smallest]
    steps = sorted(set.intersection(*(set(row["probe_steps"]) for row in rows)))
    scales = sorted({row["scale"] for row in rows})
    whole = [
        s for s in {r["seed"] for r in rows} if {r["scale"] for r in rows if r["seed"] == s} == set(scales)
    ]
    if not steps or not whole:
        raise InputError("records have no seed and no step in common over their scales")
    at = {(row["scale"], row["seed"]): row for row in rows}
    names = [name for name, column in PROBE_COLUMNS.items() if all(row.get(column) for row in rows)]

    def value(name: str, step: float, scale: int, seed: int) -> float:
        row = at[scale, seed]
        return float(row[PROBE_COLUMNS[name]][row["probe_steps"].index(step)])

    values = {
        name: np.array([[[value(name, t, n, s) for s in sorted(whole)] for n in scales] for t in steps])
        for name in names
    }
    return Measurements(tuple(int(t) for t in steps), tuple(scales), values)
