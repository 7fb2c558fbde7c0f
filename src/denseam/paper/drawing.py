"""A figure of the catalog as a picture: its panels, at the width of a page.

Its claims and their findings are words, and stand where words can be searched: on the page that shows it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from denseam.paper.figure import Figure, Loss, Panel, Probe, Sweep
from denseam.paper.results import Results
from denseam.report.plots.panels import leave_room, mark_divergences, share_limits
from denseam.report.plots.style import INK, canvas, plain_log_ticks, save

#: The width of a picture in inches: about that of the page that shows it, so that letters keep their size.
WIDTH = 7.6
#: The most panels beside each other.
MOST = 3
#: The height of a panel in inches, and the letters of a title that fit above it, by the panels in a row.
HEIGHT = {1: 2.7, 2: 2.6, 3: 2.15}
LETTERS = {1: 98, 2: 44, 3: 31}
#: More rows than these are drawn lower, by this factor, so that the picture fits on two screens.
MANY, LOWER = 4, 0.8
LEGEND = 0.3

Rows = tuple[tuple[Panel, ...], ...]


def draw_figure(figure: Figure, results: Results, out: Path, formats: Sequence[str]) -> list[Path]:
    """Draw a figure in one reading into a folder; return the files."""
    rows = arranged(figure.rows)
    columns = max(map(len, rows))
    lines = textwrap.wrap(figure.title, LETTERS[1]) + ([] if figure.pinned else [results.reading.words])
    high = HEIGHT[columns] * (LOWER if len(rows) > MANY else 1)
    height = high * len(rows) + 0.2 * (1 + len(lines)) + LEGEND
    with canvas(len(rows), columns, WIDTH, height) as (drawn, axes):
        drawn.get_layout_engine().set(rect=(0, LEGEND / height, 1, 1 - LEGEND / height))
        drawn.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=10, color=INK)
        pairs: list[tuple[Any, Panel]] = []
        for row, panels in zip(axes, rows, strict=True):
            pairs += zip(row, panels, strict=False)
            for ax, panel in zip(row, panels, strict=False):
                panel.draw(ax, results)
            for ax in row[len(panels) :]:
                ax.set_visible(False)
        _share_ranges(pairs, len(figure.rows))
        for ax, _ in pairs:
            _fit(ax, columns)
        _say_once(axes)
        _legends(drawn, pairs, LEGEND / height)
        name = figure.name if figure.pinned else f"{figure.name}-{results.reading.name}"
        return save(drawn, out, name, formats)


def arranged(rows: Rows) -> Rows:
    """Return the panels in rows of at most `MOST`: long rows become columns if they are few, or are cut."""
    widest = max(map(len, rows))
    if widest <= MOST:
        return rows
    if 1 < len(rows) <= MOST and all(len(row) == widest for row in rows):
        return tuple(zip(*rows, strict=True))
    return tuple(line for row in rows for line in _cut(row))


def _cut(row: tuple[Panel, ...]) -> Rows:
    """Cut a row into as few lines as possible, all of about the same length."""
    lines = -(-len(row) // MOST)
    length = -(-len(row) // lines)
    return tuple(row[i : i + length] for i in range(0, len(row), length))


def _fit(ax: Any, columns: int) -> None:
    """Break the lines of a title that is wider than its panel, and make letters of narrow panels smaller."""
    title = ax.get_title(loc="left")
    lines = [part for line in title.splitlines() for part in textwrap.wrap(line, LETTERS[columns])]
    weight = ax._left_title.get_fontweight()
    ax.set_title("\n".join(lines), loc="left", fontweight=weight, fontsize=8 if columns == MOST else 9)
    if columns == MOST:
        ax.tick_params(labelsize=8)
        ax.xaxis.label.set_fontsize(8)
        ax.yaxis.label.set_fontsize(8)


def _say_once(axes: Any) -> None:
    """Leave out the label of an axis if the panel on the left, or the panel below, has the same."""
    shown = [[ax.get_visible() for ax in row] for row in axes]
    labels = [[(ax.get_xlabel(), ax.get_ylabel()) for ax in row] for row in axes]
    for i, row in enumerate(axes):
        for k, ax in enumerate(row):
            if k and labels[i][k - 1][1] == labels[i][k][1]:
                ax.set_ylabel("")
            if i + 1 < len(axes) and shown[i + 1][k] and labels[i + 1][k][0] == labels[i][k][0]:
                ax.set_xlabel("")


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
        if isinstance(panel, Sweep | Loss):
            s = panel.setting
            kind = (type(panel), s.get("data"), s.get("unit_variance"), s.regime, s.width)
            compared.setdefault(kind if rows < 3 else (type(panel), id(ax)), []).append(ax)
    for (kind, *_), same in compared.items():
        if len(same) > 1:
            share_limits(same)
        if kind is Sweep:
            leave_room(same)
    for ax, panel in pairs:
        if isinstance(panel, Sweep):
            mark_divergences(ax)
        if isinstance(panel, Sweep | Loss | Probe):
            plain_log_ticks(ax.yaxis)
