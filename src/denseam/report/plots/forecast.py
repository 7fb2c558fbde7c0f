"""The forecast at the target: where the optimum goes, and the loss curve that is predicted there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from denseam.analysis.sentences import at_most
from denseam.report.plots.style import (
    ACCENT,
    FAINT,
    INK,
    MARKERS,
    canvas,
    plain_log_ticks,
    save,
    scale_colours,
)
from denseam.workflow.tuning import Tuned


def draw_tuned(tuned: Tuned, out: str | os.PathLike[str], name: str = "tuned") -> list[Path]:
    """Draw the optima of all sizes with their continuation, and the loss predicted at the target."""
    with canvas(1, 2, 8.6, 3.5) as (figure, axes):
        left, right = axes[0]
        _optima_panel(left, tuned)
        _loss_panel(right, tuned)
        return save(figure, Path(out), name)


def _optima_panel(ax: Any, tuned: Tuned) -> None:
    """Draw the optimum of each seed and size, and the band at the target."""
    made, goal = tuned.forecast, tuned.goal
    colours = scale_colours(len(tuned.profiles))
    for (scale, profile), colour in zip(tuned.profiles.items(), colours, strict=True):
        ax.plot([scale] * len(profile.optima), 10**profile.optima, "o", color=colour, markersize=3, alpha=0.6)
        ax.plot(scale, 10**profile.optimum, "o", markersize=9, markerfacecolor="none", markeredgecolor=colour,
                markeredgewidth=1.8)  # fmt: skip
    largest = max(tuned.profiles)
    ax.plot([largest, goal.target], [10 ** tuned.profiles[largest].optimum, made.value], ":", color=INK)
    low, high = np.clip(made.interval, 1e-9, 1e9)
    ax.plot([goal.target] * 2, [low, high], color=ACCENT, linewidth=5, alpha=0.35, solid_capstyle="butt",
            label="expected at the target")  # fmt: skip
    ax.plot(goal.target, made.value, "D", color=ACCENT, markersize=6, label="forecast")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    sizes = [*tuned.profiles, goal.target]
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.minorticks_off()
    optima = np.concatenate([10**p.optima for p in tuned.profiles.values()])
    bottom, top = np.nanmin([*optima, low]), np.nanmax([*optima, high])
    ax.set_ylim(bottom / 1.6, top * 1.6)
    plain_log_ticks(ax.yaxis)
    ax.set_xlabel(f"size {goal.letter}")
    ax.set_ylabel(r"best $\eta_0$: each seed, and all")
    ax.set_title(f"{goal.study.name}: {tuned.status}", loc="left", fontweight="bold")
    ax.legend(loc="best")


def _loss_panel(ax: Any, tuned: Tuned) -> None:
    """Draw the excess of the loss over the best of each size, and the curve predicted at the target."""
    made, goal = tuned.forecast, tuned.goal
    colours = scale_colours(len(tuned.profiles))
    for i, ((scale, profile), colour) in enumerate(zip(tuned.profiles.items(), colours, strict=True)):
        fine = np.linspace(profile.x[0], profile.x[-1], 121)
        ax.plot(10**fine, _percent(profile.regret(fine)), color=colour, linewidth=1)
        marker = MARKERS[i % len(MARKERS)]
        label = f"{goal.letter} = {scale}"
        at = 10**profile.x
        ax.plot(at, _percent(profile.regret(profile.x)), marker, color=colour, markersize=3.5, label=label)
    largest = tuned.profiles[max(tuned.profiles)]
    fine = np.linspace(largest.x[0], largest.x[-1], 121)
    predicted = _percent(largest.regret(fine))
    ax.plot(10 ** (fine - largest.optimum + made.x), predicted, "--", color=ACCENT, linewidth=1.6,
            label=f"predicted at {goal.letter} = {goal.target}")  # fmt: skip
    ax.axvspan(*np.clip(made.interval, 1e-9, 1e9), color=ACCENT, alpha=0.12, linewidth=0)
    ax.axhline(100 * tuned.tolerance, color=FAINT, linewidth=1, linestyle=":")
    ax.axvline(made.value, color=ACCENT, linewidth=1)
    ax.set_xscale("log")
    ax.set_xlim(10 ** (min(largest.x[0], made.x) - 0.1), 10 ** (max(largest.x[-1], made.x) + 0.1))
    plain_log_ticks(ax.xaxis)
    ax.set_ylim(0, max(6 * 100 * tuned.tolerance, 3 * 100 * min(made.regret_bound, 0.1)))
    ax.set_xlabel(r"effective learning rate $\eta_0$")
    ax.set_ylabel(f"{made.setting.by} loss above the best, %")
    ax.set_title(rf"$\eta_0$ = {made.value:.3g}: cost {at_most(made.regret_bound)}", loc="left")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)


def _percent(regret: Any) -> Any:
    """Return a share in per cent, without the points that diverged."""
    return np.where(np.isfinite(regret), 100 * np.asarray(regret), np.nan)
