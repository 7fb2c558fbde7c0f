"""One figure as a row of data: panels, claims, a remark."""

from __future__ import annotations

import dataclasses

from denseam.paper.claims import Claim
from denseam.paper.examples import Examples
from denseam.paper.parts import Part, examples_of
from denseam.paper.settings import Setting


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
