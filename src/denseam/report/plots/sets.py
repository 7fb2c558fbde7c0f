"""Hyperparameters that were tuned together: a panel for each, with its profile at each size and length."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from denseam.analysis.sets import Star
from denseam.report.plots.style import (
    ACCENT,
    FAINT,
    MARKERS,
    canvas,
    plain_log_ticks,
    save,
    scale_colours,
)
from denseam.rules.fields import Spacing, Span
from denseam.workflow.tuning import Tuned, TunedSet

COLUMNS = 3
LABELS = {
    Spacing.LOG: "{}", Spacing.FROM_ONE: "1 - {}", Spacing.LINEAR: "{}",
}  # fmt: skip


def draw_set(tuned: Tuned, out: str | os.PathLike[str], name: str = "axes") -> list[Path]:
    """Draw the loss along each axis at each size and length, and the value at the target; [] for one axis."""
    whole = tuned.whole
    if whole is None:
        return []
    axes = list(whole.forecast.axes)
    rows = -(-len(axes) // COLUMNS)
    columns = min(COLUMNS, len(axes))
    with canvas(rows, columns, 3.2 * columns + 1.2, 2.7 * rows) as (figure, panels):
        for panel, axis in zip(panels.flat, axes, strict=False):
            _panel(panel, tuned, whole, axis)
        for panel in panels.flat[len(axes) :]:
            panel.set_axis_off()
        handles, labels = panels.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", fontsize=7)
        return save(figure, Path(out), name)


def _panel(ax: Any, tuned: Tuned, whole: TunedSet, axis: str) -> None:
    """Draw one axis."""
    span, made = whole.space.spans[axis], whole.forecast.axes[axis]
    letter, longer = tuned.goal.letter, {e: s for e, s in whole.lengths.items() if e != min(whole.lengths)}
    colours = scale_colours(len(whole.sizes))
    for i, ((scale, star), colour) in enumerate(zip(whole.sizes.items(), colours, strict=True)):
        _profile(ax, star, axis, span, f"{letter} = {scale}", MARKERS[i % len(MARKERS)], "-", colour)
    for i, (epochs, star) in enumerate(longer.items()):
        shade = str(0.75 - 0.5 * i / max(1, len(longer) - 1))
        _profile(ax, star, axis, span, f"{epochs} epochs", MARKERS[-1 - i % len(MARKERS)], ":", shade)
    there = _shown(np.array([made.x - made.half, made.x, made.x + made.half]), span)
    if np.isfinite(made.half):
        ax.axvspan(*sorted((there[0], there[2])), color=ACCENT, alpha=0.12, linewidth=0)
    ax.axvline(there[1], color=ACCENT, linewidth=1.2, label=f"for {letter} = {tuned.goal.target}")
    ax.axhline(100 * tuned.tolerance, color=FAINT, linewidth=1, linestyle=":")
    if span.spacing is not Spacing.LINEAR:
        ax.set_xscale("log")
        plain_log_ticks(ax.xaxis)
    ax.set_ylim(0, 400 * tuned.tolerance)
    ax.set_xlabel(LABELS[span.spacing].format(axis) + (" / that asked for" if span.relative else ""))
    ax.set_ylabel(f"{tuned.forecast.setting.by} loss above the best, %")


def _profile(
    ax: Any, star: Star, axis: str, span: Span, label: str, marker: str, line: str, colour: Any
) -> None:
    profile = star.profiles[axis]
    fine = np.linspace(profile.x[0], profile.x[-1], 81)
    ax.plot(_shown(fine, span), _percent(profile.regret(fine)), line, color=colour, linewidth=1)
    ax.plot(
        _shown(profile.x, span), _percent(profile.regret(profile.x)), marker, color=colour, markersize=3.5,
        label=label,
    )  # fmt: skip


def _shown(x: Any, span: Span) -> Any:
    """Return coordinates as they are drawn: the value, or its distance from 1."""
    return span.low + x * (span.high - span.low) if span.spacing is Spacing.LINEAR else 10 ** np.asarray(x)


def _percent(regret: Any) -> Any:
    return np.where(np.isfinite(regret), 100 * np.asarray(regret), np.nan)
