"""The catalog: every figure, by its name or by its label in the paper."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from denseam.ground.errors import refuse
from denseam.paper.figure import Figure
from denseam.paper.figures import PAPER
from denseam.paper.own import OWN
from denseam.paper.text import TEXT


def catalog() -> tuple[Figure, ...]:
    """Return all figures: the paper's in its order, those for its text, then our own."""
    return PAPER + TEXT + OWN


def find(names: Sequence[str]) -> tuple[Figure, ...]:
    """Return the figures with these names or labels ('all' for every one), in the order of the catalog."""
    figures = catalog()
    if "all" in names:
        return figures
    known = {f.name: f for f in figures} | {f.paper_label: f for f in figures if f.paper_label}
    problems = []
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.4)
            hint = f"did you mean {near[0]!r}?" if near else "`denseam figure list` shows all of them"
            problems.append(f"there is no figure {name!r}; {hint}")
    if not names:
        problems.append("name a figure, or 'all'; `denseam figure list` shows all of them")
    refuse(problems)
    wanted = {known[name].name for name in names}
    return tuple(f for f in figures if f.name in wanted)
