"""The runs that are not there yet: what they cost, and which words wait for them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from denseam.paper.claims import Claim
from denseam.paper.figure import Figure
from denseam.paper.readings import READINGS, Reading
from denseam.paper.results import Results
from denseam.paper.settings import Setting
from denseam.paper.sizes import Size
from denseam.studies.records import Row
from denseam.studies.study import RunSpec, Study

#: Time of a run for dealing them out: operations per second of a large GPU at work, and the seconds that a
#: program takes to compile.
SPEED, COMPILING = 1.5e14, 10.0


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which of the missing runs to train.

    Attributes
    ----------
    readings
        The readings.
    seeds
        Seeds at every scale; by default those that a verdict needs.
    undecided
        Whether to add seeds only for undecided verdicts.
    beyond
        Whether to train scales beyond those that a verdict needs.
    max_operations
        Runs with more operations than this are left out.
    part, parts
        Which part of the runs, from 1, if several processes share them.
    """

    readings: tuple[Reading, ...] = tuple(READINGS.values())
    seeds: int | None = None
    undecided: bool = False
    beyond: bool = False
    max_operations: float = math.inf
    part: int = 1
    parts: int = 1


@dataclasses.dataclass(frozen=True)
class Gap:
    """The missing runs of one setting in one reading, at one scale.

    Attributes
    ----------
    figures
        The figures that wait for them.
    needed
        Whether a word is *not run* without them; otherwise they are further seeds or scales.
    outcomes
        The outcomes, as of now, of the claims about this setting.
    """

    figures: tuple[str, ...]
    setting: Setting
    reading: Reading
    scale: int
    study: Study
    specs: tuple[RunSpec, ...]
    needed: bool
    outcomes: tuple[str, ...]

    @property
    def operations(self) -> float:
        """The operations of all its runs."""
        return sum(self.study.operations(spec.shape) for spec in self.specs)

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "figures": list(self.figures),
            "setting": self.study.name,
            "reading": self.reading.name,
            "size": self.setting.letter,
            "scale": self.scale,
            "seeds": sorted({spec.seed for spec in self.specs}),
            "runs": len(self.specs),
            "operations": self.operations,
            "needed": self.needed,
            "outcomes": list(self.outcomes),
        }


@dataclasses.dataclass
class _Use:
    """The figures and the claims that use a setting in a reading."""

    figures: list[str] = dataclasses.field(default_factory=list)
    claims: list[Claim] = dataclasses.field(default_factory=list)


def gaps(figures: Iterable[Figure], size: Size, rows: Mapping[str, Row], choice: Choice) -> list[Gap]:
    """Return the missing runs of figures, the cheapest first; no run twice."""
    every: list[Gap] = []
    seen: set[str] = set(rows)
    results = {reading: Results(rows, size, reading) for reading in choice.readings}
    for (setting, reading), use in _uses(figures, choice.readings).items():
        outcomes = tuple(dict.fromkeys(claim.judge(results[reading]).outcome for claim in use.claims))
        seeds = choice.seeds or 0
        if choice.undecided and "undecided" not in outcomes:
            seeds = 0
        needed = {spec.key for spec in setting.runs(size, reading)}
        study, usual = setting.whole_study(size, reading), setting.scales(size)
        for scale, at in itertools.groupby(study.runs(), key=lambda spec: spec.scale):
            least = max(1, seeds) if choice.beyond else 0
            further = seeds if scale in usual else least
            specs = tuple(
                spec
                for spec in at
                if spec.key not in seen and (spec.key in needed or spec.seed < further)
                if study.operations(spec.shape) <= choice.max_operations
            )
            if specs:
                seen |= {spec.key for spec in specs}
                here = dataclasses.replace(study, scales=(scale,))
                lacks = any(spec.key in needed for spec in specs)
                every.append(Gap(tuple(use.figures), setting, reading, scale, here, specs, lacks, outcomes))
    return sorted(_dealt(every, choice), key=lambda gap: gap.operations)


def _uses(figures: Iterable[Figure], readings: Collection[Reading]) -> dict[tuple[Setting, Reading], _Use]:
    """Return what uses each setting in each reading."""
    uses: dict[tuple[Setting, Reading], _Use] = {}
    for figure in figures:
        for setting in figure.settings:
            plain = dataclasses.replace(setting, label="", pinned=None)
            for reading in (setting.pinned,) if setting.pinned else figure.readings:
                if reading in readings:
                    use = uses.setdefault((plain, reading), _Use())
                    use.figures.append(figure.name)
                    use.claims += [
                        claim
                        for claim in figure.claims
                        if any(dataclasses.replace(s, label="", pinned=None) == plain for s in claim.settings)
                    ]
    return uses


def _dealt(every: Sequence[Gap], choice: Choice) -> list[Gap]:
    """Return one part of the runs; readings of a program stay together, and parts take similar times."""
    programs: dict[Any, list[Gap]] = {}
    for gap in every:
        programs.setdefault((gap.setting, gap.scale), []).append(gap)
    loads = [0.0] * choice.parts
    parts: list[list[Gap]] = [[] for _ in loads]
    for together in sorted(programs.values(), key=_seconds, reverse=True):
        least = loads.index(min(loads))
        loads[least] += _seconds(together)
        parts[least] += together
    return parts[choice.part - 1]


def _seconds(together: Sequence[Gap]) -> float:
    """Return about how long the runs of one program take."""
    return sum(gap.operations for gap in together) / SPEED + COMPILING
