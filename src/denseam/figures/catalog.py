"""The catalog: every figure as a row of data, found by its name or by its label in the paper."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence

from denseam.errors import InputError
from denseam.figures.claims import Claim
from denseam.figures.examples import Examples
from denseam.figures.parts import Part, examples_of
from denseam.figures.settings import Setting


@dataclasses.dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes
    ----------
    name
        What it is called on the command line.
    paper_label
        Its label in the paper, as the paper spells it; None for studies of our own.
    title
        What it shows, in a line.
    rows
        The panels, row by row.
    claims
        What its caption says, as tests.
    remark
        Why a claim does not hold, or what to keep in mind.
    """

    name: str
    paper_label: str | None
    title: str
    rows: tuple[tuple[Part, ...], ...]
    claims: tuple[Claim, ...]
    remark: str = ""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The panels."""
        return tuple(part for row in self.rows for part in row)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What has to be trained, without repetition."""
        asked = [s for part in self.parts for s in part.settings]
        asked += [s for claim in self.claims for s in claim.settings]
        return tuple({dataclasses.replace(s, label=""): s for s in asked}.values())

    @property
    def examples(self) -> tuple[Examples, ...]:
        """The comparisons of recall that have to be made."""
        return examples_of(self.parts)


def catalog() -> tuple[Figure, ...]:
    """Return all figures: the paper's in its order, then our own."""
    from denseam.figures.own import OWN
    from denseam.figures.paper import PAPER

    return PAPER + OWN


def find(names: Sequence[str]) -> tuple[Figure, ...]:
    """Return the figures of these names or labels ('all' for every one), in the order of the catalog."""
    figures = catalog()
    if "all" in names:
        return figures
    known = {f.name: f for f in figures} | {f.paper_label: f for f in figures if f.paper_label}
    problems = []
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.4)
            hint = f"did you mean {near[0]!r}?" if near else "`denseam figure list` has them all"
            problems.append(f"there is no figure {name!r}; {hint}")
    if not names:
        problems.append("name a figure, or 'all'; `denseam figure list` has them all")
    if problems:
        raise InputError(*problems)
    wanted = {known[name].name for name in names}
    return tuple(f for f in figures if f.name in wanted)
