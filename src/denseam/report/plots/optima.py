"""The picture of one verdict, from its numbers alone: the optimum at each scale, and what it costs."""

from __future__ import annotations

import math
from typing import Any

from denseam.analysis.verdicts import Verdict
from denseam.report.plots.style import BAD, FAINT, INK, canvas, plain_log_ticks


def verdict_figure(v: Verdict) -> Any:
    """Return a figure. Left: the optimum of each scale. Right: the regret of the smallest scale's."""
    with canvas(1, 2, 8.6, 3.3) as (figure, axes):
        _optima_panel(axes[0, 0], v)
        _regret_panel(axes[0, 1], v)
        for ax in axes[0]:
            ax.set_xscale("log")
            ax.set_xticks(sorted(v.optimum), [str(scale) for scale in sorted(v.optimum)])
            ax.minorticks_off()
            ax.set_xlim(0.9 * min(v.optimum), 1.1 * max(v.optimum))
            ax.set_xlabel(v.scale_letter)
        return figure


def _optima_panel(ax: Any, v: Verdict) -> None:
    known = {scale: value for scale, value in sorted(v.optimum.items()) if value is not None}
    seeds = [(scale, value) for scale, values in v.optima.items() for value in values]
    edges = {scale: value for scale, value in sorted(v.edge.items()) if value is not None}
    if seeds:
        ax.plot(*zip(*seeds, strict=True), "o", color=FAINT, markersize=3.5, label="optimum of a seed")
    ax.plot(list(known), list(known.values()), "o-", color=INK, label="optimum")
    if edges:
        ax.plot(list(edges), list(edges.values()), "x--", color=BAD, label="edge of stability")
    if known:
        ax.axhline(next(iter(known.values())), color=FAINT, linewidth=0.8, zorder=0)
    if known and min(known.values()) > 0:
        ax.set_yscale("log")
        plain_log_ticks(ax.yaxis)
    ax.set_ylabel(v.axis)
    ax.set_title(f"{v.name}: {v.status}", loc="left")
    if known:
        ax.legend()


def _regret_panel(ax: Any, v: Verdict) -> None:
    """Draw the regret of the smallest scale's optimum in percent, with its interval; crosses are infinite."""
    for scale, regret in sorted(v.regret.items()):
        interval = v.regret_ci.get(scale)
        if not math.isfinite(regret):
            ax.plot(scale, 0.97, "x", color=BAD, transform=ax.get_xaxis_transform())
            continue
        if interval is not None and all(map(math.isfinite, interval)):
            ax.plot([scale, scale], [100 * end for end in interval], color=INK, linewidth=1)
        ax.plot(scale, 100 * regret, "o", color=BAD if regret > v.tolerance else INK, markersize=4)
    ax.axhline(100 * v.tolerance, color=FAINT, linestyle=":", label=f"tolerance {100 * v.tolerance:g} %")
    ax.set_ylabel("regret, %")
    ax.set_title("cost of the optimum of the smallest scale", loc="left")
    ax.legend()
