"""A figure of the catalog as a picture: its panels, and below them its claims and findings."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from denseam.paper.claims import Finding
from denseam.paper.figure import Figure, Loss, Panel, Probe, Sweep, Tiles
from denseam.paper.results import Results
from denseam.report.plots.panels import mark_divergences, share_limits
from denseam.report.plots.style import BAD, FAINT, INK, canvas, plain_log_ticks, save

#: Width and height of a panel, in inches.
PANEL = (3.5, 2.9)
NARROW = (2.5, 2.2)
LINE = 0.17
LEGEND = 0.3
COLOURS = {"reproduced": INK, "not reproduced": BAD, "undecided": FAINT, "not run": FAINT}


def draw_figure(
    figure: Figure,
    findings: Sequence[tuple[str, Finding]],
    results: Results,
    out: Path,
    formats: Sequence[str],
) -> list[Path]:
    """Draw a figure in one reading into a folder, with its claims and their findings; return the files."""
    columns = max(len(row) for row in figure.rows)
    wide, high = PANEL if columns < 4 else NARROW
    pictures = any(isinstance(panel, Tiles) for panel in figure.panels)
    width = 7.5 if pictures else max(5.0, columns * wide)
    lines = [
        (line, COLOURS[finding.outcome])
        for text, finding in findings
        for line in textwrap.wrap(_sentence(text, finding), int(width * 17), subsequent_indent="    ")
    ]
    text = LINE * (len(lines) + 1)
    below = text + LEGEND
    height = (2.6 if pictures else high) * len(figure.rows) + 0.45 + below
    with canvas(len(figure.rows), columns, width, height) as (drawn, axes):
        drawn.get_layout_engine().set(rect=(0, below / height, 1, 1 - below / height))
        title = figure.title if figure.pinned else f"{figure.title} ({results.reading.words})"
        drawn.suptitle(title, x=0.01, ha="left", fontsize=10, color=INK)
        pairs: list[tuple[Any, Panel]] = []
        for row, panels in zip(axes, figure.rows, strict=True):
            pairs += zip(row, panels, strict=False)
            for ax, panel in zip(row, panels, strict=False):
                panel.draw(ax, results)
            for ax in row[len(panels) :]:
                ax.set_visible(False)
            if columns >= 4:
                _tighten(row, panels, results)
        _share_ranges(pairs, len(figure.rows))
        _legends(drawn, pairs, below / height)
        for i, (line, colour) in enumerate(lines):
            y = (text - LINE * (i + 1)) / height
            drawn.text(0.01, y, line, fontsize=7.5, color=colour, va="bottom")
        name = figure.name if figure.pinned else f"{figure.name}-{results.reading.name}"
        return save(drawn, out, name, formats)


def _sentence(text: str, finding: Finding) -> str:
    verdict = finding.verdict[0].upper() + finding.verdict[1:]
    return f"{verdict}: {text} Measured: {finding.measured}."


def _tighten(row: Sequence[Any], panels: Sequence[Panel], results: Results) -> None:
    """Make room in a row of narrow panels: the verdict on its own line, the label of the axis only once."""
    for i, (ax, panel) in enumerate(zip(row, panels, strict=False)):
        if isinstance(panel, Sweep):
            ax.set_title(panel.title(results, "\n"), loc="left", fontweight="bold", fontsize=8)
            ax.set_ylabel("" if i else ax.get_ylabel())


def _legends(drawn: Any, pairs: Sequence[tuple[Any, Panel]], bottom: float) -> None:
    """Draw one legend below the panels if all have the same scales, else one for each set of scales."""
    legends: dict[tuple[str, ...], tuple[Any, Any]] = {}
    for ax, panel in pairs:
        if isinstance(panel, Sweep | Loss | Probe):
            handles, labels = ax.get_legend_handles_labels()
            legends.setdefault(tuple(labels), (ax, handles))
    if len(legends) == 1:
        ((labels, (_, handles)),) = legends.items()
        legend = drawn.legend(
            handles, labels, ncols=len(labels), loc="upper left", bbox_to_anchor=(0, bottom), fontsize=8
        )
        legend.set_in_layout(False)
        return
    for labels, (ax, handles) in legends.items():
        ax.legend(handles, labels, fontsize=7)


def _share_ranges(pairs: Sequence[tuple[Any, Panel]], rows: int) -> None:
    """Give panels that are compared the same ranges, then add what depends on them."""
    compared: dict[tuple[Any, ...], list[Any]] = {}
    for ax, panel in pairs:
        if isinstance(panel, Sweep | Loss) and rows < 3:
            s = panel.setting
            kind = (type(panel), s.get("data"), s.get("unit_variance"), s.regime, s.width)
            compared.setdefault(kind, []).append(ax)
    for same in compared.values():
        drawn = [ax for ax in same if ax.has_data()]  # others have not been run
        if drawn:
            share_limits(drawn)
    for ax, panel in pairs:
        if isinstance(panel, Sweep):
            mark_divergences(ax)
        if isinstance(panel, Sweep | Loss | Probe):
            plain_log_ticks(ax.yaxis)
