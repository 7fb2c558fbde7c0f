"""A figure of the catalog as a picture: its panels, and under them what is claimed and what was found."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from denseam.paper.claims import Finding
from denseam.paper.figure import Figure
from denseam.paper.parts import Loss, Part, Probe, Sweep, Tiles
from denseam.paper.results import Results
from denseam.report.plots.panels import mark_divergences, share_limits
from denseam.report.plots.style import BAD, FAINT, INK, canvas, plain_log_ticks, save

#: Width and height of a panel, in inches.
PANEL = (3.5, 2.9)
NARROW = (2.5, 2.2)
LINE = 0.17
LEGEND = 0.3
COLOURS = {"reproduced": INK, "not reproduced": BAD, "undecided": FAINT}


def draw_figure(
    figure: Figure, findings: Sequence[Finding], results: Results, out: Path, formats: Sequence[str]
) -> list[Path]:
    """Draw a figure into a folder; return the files."""
    columns = max(len(row) for row in figure.rows)
    wide, high = PANEL if columns < 4 else NARROW
    pictures = any(isinstance(part, Tiles) for part in figure.parts)
    width = 7.5 if pictures else max(5.0, columns * wide)
    letters = int(width * 17)
    lines = [
        (line, COLOURS[finding.outcome])
        for finding in findings
        for line in textwrap.wrap(
            f"{_sentence(finding.verdict)}: {finding.claim} Measured: {finding.measured}.",
            letters,
            subsequent_indent="    ",
        )
    ]
    text = LINE * (len(lines) + 1)
    below = text + LEGEND
    height = (2.6 if pictures else high) * len(figure.rows) + 0.45 + below
    with canvas(len(figure.rows), columns, width, height) as (drawn, axes):
        drawn.get_layout_engine().set(rect=(0, below / height, 1, 1 - below / height))
        drawn.suptitle(figure.title, x=0.01, ha="left", fontsize=10, color=INK)
        for row, parts in zip(axes, figure.rows, strict=True):
            for ax, part in zip(row, parts, strict=False):
                part.draw(ax, results)
            for ax in row[len(parts) :]:
                ax.set_visible(False)
            if columns >= 4:
                _tighten(row, parts)
        _even_out(figure, axes)
        _legends(drawn, figure, axes, below / height)
        for i, (line, colour) in enumerate(lines):
            y = (text - LINE * (i + 1)) / height
            drawn.text(0.01, y, line, fontsize=7.5, color=colour, va="bottom")
        return save(drawn, out, figure.name, formats)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _tighten(row: Sequence[Any], parts: Sequence[Part]) -> None:
    """Make room in a row of narrow panels: the verdict on a line of its own, what is on the axis once."""
    for i, (ax, part) in enumerate(zip(row, parts, strict=False)):
        if isinstance(part, Sweep):
            label, _, verdict = ax.get_title(loc="left").rpartition(": ")
            ax.set_title(f"{label}\n{verdict}", loc="left", fontweight="bold", fontsize=8)
            ax.set_ylabel("" if i else ax.get_ylabel())


def _legends(drawn: Any, figure: Figure, axes: Any, bottom: float) -> None:
    """Name the scales once, below the panels; or in the first panel of each set of them."""
    found: dict[tuple[str, ...], tuple[Any, Any]] = {}
    for row, parts in zip(axes, figure.rows, strict=True):
        for ax, part in zip(row, parts, strict=False):
            if isinstance(part, Sweep | Loss | Probe):
                handles, labels = ax.get_legend_handles_labels()
                found.setdefault(tuple(labels), (ax, handles))
    if len(found) == 1:
        ((labels, (_, handles)),) = found.items()
        legend = drawn.legend(
            handles, labels, ncols=len(labels), loc="upper left", bbox_to_anchor=(0, bottom), fontsize=8
        )
        legend.set_in_layout(False)
    for labels, (ax, handles) in found.items() if len(found) > 1 else ():
        ax.legend(handles, labels, fontsize=7)


def _even_out(figure: Figure, axes: Sequence[Sequence[object]]) -> None:
    """Give panels that are compared one range, then put in what depends on it."""
    pairs = [
        (ax, part)
        for row, parts in zip(axes, figure.rows, strict=True)
        for ax, part in zip(row, parts, strict=False)
    ]
    compared: dict[tuple[Any, ...], list[Any]] = {}
    for ax, part in pairs:
        if isinstance(part, Sweep | Loss) and len(figure.rows) < 3:
            s = part.setting
            compared.setdefault(
                (type(part), s.get("data"), s.get("unit_variance"), s.memories_only), []
            ).append(ax)
    for same in compared.values():
        share_limits(same)
    for ax, part in pairs:
        if isinstance(part, Sweep):
            mark_divergences(ax)
        if isinstance(part, Sweep | Loss | Probe):
            plain_log_ticks(ax.yaxis)  # type: ignore[attr-defined]
