"""Pictures of the calibration: shares against cost, truth against bound, and the reductions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibration.evidence import LOSSES, Evidence, grouped, tally
from calibration.judge import PLANS, PROBED, TOLERANCE, Judged
from calibration.reductions import Pair
from calibration.words import LOSS, OPTIMIZER, REDUCTION, group_name, percent, setting_name
from denseam.report.plots.style import BAD, FAINT, INK, canvas, save

#: Colours that can be told apart by colour-blind readers (Okabe and Ito), and two greys.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#B8A800", "#777777",
    "#BBBBBB",
)  # fmt: skip
SMALLEST, LARGEST = 1e-5, 1.0
COST_LABELS = ["≤ 0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "≥ 100 %"]
SETTING_SHAPES = {
    ("adam", "proportional"): "o", ("adam", "memories-only"): "s",
    ("sgd", "proportional"): "^", ("sgd", "memories-only"): "v",
}  # fmt: skip
SHAPES = dict(zip([*PLANS, *PROBED], "osv^D", strict=True))


def draw_shares(found: Evidence, out: Path) -> None:
    """Draw the share of good values that are recommended against the cost of finding them."""
    groups: dict[str, list[Judged]] = {}
    for own in grouped(found.judged).values():
        groups.setdefault(group_name(own[0].forecast.setting), []).extend(own)
    with canvas(1, 2, 9.2, 3.9) as (figure, axes):
        for ax, by in zip(axes[0], LOSSES, strict=True):
            for (name, judged), colour in zip(groups.items(), itertools.cycle(COLOURS), strict=False):
                points = list(_shares(j for j in judged if j.forecast.setting.by == by))
                cost, share = [p[0] for p in points], [p[1] for p in points]
                ax.plot(cost, share, color=colour, lw=1, label=name)
                for x, y, plan in points:
                    ax.plot(x, y, SHAPES[plan], color=colour, ms=6)
            ax.set(
                xscale="log",
                ylim=(-3, 103),
                title=f"{LOSS[by]} loss",
                xlabel="cost, % of a sweep at the target",
            )
            ax.set_xticks([0.5, 1, 2, 5, 10, 20, 50, 100], ["0.5", "1", "2", "5", "10", "20", "50", "100"])
            ax.minorticks_off()
        axes[0, 0].set_ylabel(f"% recommended of the values\nthat cost at most {percent(TOLERANCE)}")
        lines, names = axes[0, 0].get_legend_handles_labels()
        shapes = [_mark(shape) for shape in SHAPES.values()]
        names += [plan.name for plan in SHAPES]
        figure.legend([*lines, *shapes], names, loc="outside lower center", ncols=3)
        save(figure, out, "shares", ("png",))


def _shares(judged: Iterable[Judged]) -> Iterable[tuple[float, float, Any]]:
    """Yield cost, share and plan, in per cent, by rising cost."""
    plans: dict[Any, list[Judged]] = {}
    for j in judged:
        plans.setdefault(j.plan, []).append(j)
    points = [(p.cost(own[0].case.setting), tally(own).share, p) for p, own in plans.items()]
    for cost, share, plan in sorted(points, key=lambda point: point[0]):
        yield 100 * cost, 100 * share, plan


def _mark(shape: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=INK, marker=shape, ls="none", ms=5)


def draw_bounds(found: Evidence, out: Path) -> None:
    """Draw the true cost against its bound, for the plans that reach half of the target."""
    settings: dict[str, list[Judged]] = {}
    for own in grouped(found.where(lambda j: j.plan.gap == 1)).values():
        settings.setdefault(setting_name(own[0].forecast.setting), []).extend(own)
    low, high = 0.6 * SMALLEST, 1.7 * LARGEST
    with canvas(1, 2, 9.2, 4.6) as (figure, axes):
        for ax, by in zip(axes[0], LOSSES, strict=True):
            ax.fill_between([low, TOLERANCE], [low, TOLERANCE], high, color=BAD, alpha=0.08, lw=0)
            ax.plot([low, high], [low, high], color=INK, lw=1)
            ax.axvline(TOLERANCE, color=FAINT, lw=1, ls="--")
            ax.axhline(TOLERANCE, color=FAINT, lw=1, ls="--")
            for (name, judged), colour in zip(settings.items(), itertools.cycle(COLOURS), strict=False):
                own = [j for j in judged if j.forecast.setting.by == by]
                setting = judged[0].case.setting
                shape = SETTING_SHAPES[setting.optimizer, setting.regime]
                ax.plot(_seen(j.forecast.regret_bound for j in own), _seen(j.regret for j in own), shape,
                        color=colour, ms=4, alpha=0.8, mew=0, label=name)  # fmt: skip
            ax.set(xscale="log", yscale="log", xlim=(2e-3, high), ylim=(low, high), title=f"{LOSS[by]} loss")
            ax.set_xlabel("bound")
            ticks = {0.005: "0.5 %", 0.01: "1 %", 0.02: "2 %", 0.05: "5 %", 0.1: "10 %", 1: "≥ 100 %"}
            ax.set_xticks(list(ticks), ticks.values())
            ax.set_yticks(
                [SMALLEST, 1e-4, 1e-3, 0.01, TOLERANCE, 0.1, 1],
                ["≤ 0.001 %", "0.01 %", "0.1 %", "1 %", "2 %", "10 %", "≥ 100 %"],
            )
            ax.minorticks_off()
        axes[0, 0].set_ylabel("true cost at the target")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        save(figure, out, "bounds", ("png",))


def _seen(costs: Iterable[float]) -> list[float]:
    """Return costs as they are drawn: those beyond an end of the axis at that end."""
    return [LARGEST if math.isnan(c) else min(max(c, SMALLEST), LARGEST) for c in costs]


def draw_reductions(groups: Mapping[tuple[str, str], Sequence[Pair]], out: Path) -> None:
    """Draw what each reduction costs beside the default, and whether disagreements warn of bad forecasts."""
    with canvas(1, 2, 9.2, 4.4) as (figure, axes):
        left, right = axes[0]
        for at, ((optimizer, shrink), group) in enumerate(groups.items()):
            shape = {"adam": "o", "sgd": "^"}[optimizer]
            costs = np.array([pair.costs() for pair in group]).T
            spots = at + np.array([[-0.18], [0.18]]) + np.linspace(-0.08, 0.08, len(group))
            for x, y, colour in zip(spots, costs, (FAINT, COLOURS[at]), strict=True):
                left.plot(x, _seen(y), shape, color=colour, ms=4, mew=0)
                left.plot(x.mean() + np.array([-0.14, 0.14]), _seen([float(np.median(y))]) * 2, color=INK)
            apart = [pair.disagreement(pair.scales[-1]) for pair in group]
            forecasts = _seen(pair.forecast.regret for pair in group)
            name = f"{OPTIMIZER[optimizer]}, {REDUCTION[shrink]}"
            right.plot(apart, forecasts, shape, color=COLOURS[at], ms=5, mew=0, alpha=0.8, label=name)
        left.set_xticks(range(len(groups)), [OPTIMIZER[optimizer] for optimizer, _ in groups])
        left.set(ylabel="cost of the half size's optimum", title="other reduction, beside the default (grey)")
        right.set(xlabel="decades between the optima at half size", ylabel="cost of the forecast's value")
        right.set_title("does a disagreement warn?")
        for ax in (left, right):
            ax.set_yscale("log")
            ax.axhline(TOLERANCE, color=INK, lw=1, ls="--")
            ax.set_yticks([SMALLEST, 1e-4, 1e-3, 0.01, 0.1, 1], COST_LABELS)
            ax.minorticks_off()
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        save(figure, out, "reductions", ("png",))
