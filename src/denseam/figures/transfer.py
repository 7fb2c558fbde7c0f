"""The transfer figure: final loss against learning rate for each scale, and the loss curves beside it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from denseam.figures.style import BAD, FAINT, MARKERS, canvas, plain_log_ticks, save, scale_colours
from denseam.judgement import Verdict, verdict
from denseam.store import Records, Row, Store
from denseam.tuning import RUNS, Tuned


def draw_transfer(
    records: Records,
    out: str | os.PathLike[str],
    *,
    name: str = "transfer",
    verdicts: Sequence[Verdict] | None = None,
    titles: dict[str, str] | None = None,
) -> list[Path]:
    """Draw a row for each study; return the files (PNG and SVG).

    Left: the final MSE of every scale against the axis, the mean over seeds with their range; rings mark
    the optimum of each scale, crosses along the top the values at which a run diverged; the vertical line
    is the value that would be transferred. Right: the loss during training at that value.
    """
    judged = {v.name: v for v in (verdicts or verdict(records))}
    studies = records.studies()
    names = [n for n in judged if n in studies]
    with canvas(len(names), 2, 8.6, 3.3 * len(names)) as (figure, axes):
        for (left, right), study in zip(axes, names, strict=True):
            v = judged[study]
            title = (titles or {}).get(study, study)
            _sweep_panel(left, list(studies[study]), v, f"{title}: {v.status}")
            _curve_panel(right, list(studies[study]), v)
        _share_limits([row[0] for row in axes])
        _share_limits([row[1] for row in axes])
        for left, right in axes:
            _mark_divergences(left)
            plain_log_ticks(left.yaxis)
            plain_log_ticks(right.yaxis)
            right.xaxis.set_major_locator(_whole_numbers())
        return save(figure, Path(out), name)


def draw_tuned(found: Tuned, out: str | os.PathLike[str], name: str = "tuned") -> list[Path]:
    """Draw the sweep that a search ended with: the sizes from the base on, one seed range each."""
    records = Store(found.folder / RUNS).read()
    v = found.verdict
    rows = [r for r in records if r["scale"] in v.optimum and r["study"] == found.goal.study.name]
    rows = [r for r in rows if all(r[k] == value for k, value in found.constants.items())]
    kept = _complete(rows, v)
    return draw_transfer(Records(kept), out, name=name, verdicts=[v])


def _complete(rows: Sequence[Row], v: Verdict) -> list[Row]:
    """Return the runs of learning rates that every size and seed was trained with."""
    asked = len(v.optimum) * v.seeds
    values = {r["eta0"] for r in rows}
    full = {e for e in values if sum(r["eta0"] == e and r["seed"] < v.seeds for r in rows) >= asked}
    return [r for r in rows if r["eta0"] in full and r["seed"] < v.seeds]


def _mean_log(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _sweep_panel(ax: Any, rows: list[Row], v: Verdict, title: str) -> None:
    scales = sorted(v.optimum)
    colours = scale_colours(len(scales))
    grid = sorted({row[v.axis] for row in rows})
    ax.set_xscale("log" if grid[0] > 0 else "linear")
    ax.set_yscale("log")
    ax.denseam_crosses = []
    for i, (scale, colour) in enumerate(zip(scales, colours, strict=True)):
        x, mean, low, high = [], [], [], []
        for value in grid:
            here = [r for r in rows if r["scale"] == scale and r[v.axis] == value]
            losses = [math.inf if r["status"] == "diverged" else r["final_mse"] for r in here]
            if any(math.isinf(loss) for loss in losses):
                ax.denseam_crosses.append((value, i, colour))
            if losses and all(math.isfinite(loss) for loss in losses):
                x.append(value)
                mean.append(_mean_log(losses))
                low.append(min(losses))
                high.append(max(losses))
        marker = MARKERS[i % len(MARKERS)]
        ax.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
        ax.plot(x, mean, color=colour, marker=marker, markersize=3.5, label=f"{v.scale_letter} = {scale}")
        optimum = v.optimum[scale]
        if optimum is not None and x:
            level = float(np.exp(np.interp(_at(ax, optimum), [_at(ax, a) for a in x], np.log(mean))))
            ax.plot(optimum, level, "o", markersize=9, markerfacecolor="none", markeredgecolor=colour,
                    markeredgewidth=1.8, zorder=5)  # fmt: skip
    base = v.optimum[scales[0]]
    if base is not None:
        ax.axvline(base, color=FAINT, linewidth=1, linestyle=":", zorder=0)
    ax.set_title(title, loc="left", fontweight="bold")
    ax.set_xlabel(r"effective learning rate $\eta_0$" if v.axis == "eta0" else v.axis)
    ax.set_ylabel("final MSE per feature")
    if len(grid) > 1:
        margin = (grid[-1] / grid[0]) ** 0.04 if grid[0] > 0 else 1.0
        ax.set_xlim(grid[0] / margin, grid[-1] * margin)


def _at(ax: Any, value: float) -> float:
    return math.log(value) if ax.get_xscale() == "log" else value


def _mark_divergences(ax: Any) -> None:
    """Draw the diverged values as crosses above the curves, a line for each scale."""
    crosses = ax.denseam_crosses
    if not crosses:
        return
    levels = sorted({i for _, i, _ in crosses})
    transform = ax.get_xaxis_transform()
    for value, i, colour in crosses:
        height = 0.98 - 0.035 * levels.index(i)
        ax.plot(value, height, "x", color=colour, markersize=4.5, markeredgewidth=1.4, transform=transform,
                clip_on=False)  # fmt: skip
    leftmost = min(value for value, _, _ in crosses)
    ax.annotate("diverged  ", (leftmost, 0.98 - 0.0175 * (len(levels) - 1)), xycoords=transform, color=BAD,
                fontsize=8, ha="right", va="center")  # fmt: skip


def _curve_panel(ax: Any, rows: list[Row], v: Verdict) -> None:
    scales = sorted(v.optimum)
    base = v.optimum[scales[0]]
    grid = sorted({row[v.axis] for row in rows})
    ax.set_yscale("log")
    ax.set_xlabel("epoch")
    ax.set_ylabel("training MSE per feature")
    if base is None:
        return
    nearest = min(grid, key=lambda value: abs(_log(value) - _log(base)))
    gone = []
    for i, (scale, colour) in enumerate(zip(scales, scale_colours(len(scales)), strict=True)):
        label, marker = f"{v.scale_letter} = {scale}", MARKERS[i % len(MARKERS)]
        here = [r for r in rows if r["scale"] == scale and r[v.axis] == nearest and len(r["loss"])]
        curves = np.array([r["loss"] for r in here])
        if not len(curves):
            continue
        if not np.isfinite(curves[:, 0]).all():
            ax.plot([], [], color=colour, marker=marker, markersize=3.5, label=label)
        if not np.isfinite(curves).all() or any(r["status"] == "diverged" for r in here):
            gone.append(scale)
        epochs = np.arange(1, curves.shape[1] + 1)
        finite = np.where(np.isfinite(curves), curves, np.nan)
        alive = np.isfinite(finite).all(axis=0)
        ax.fill_between(
            epochs[alive],
            finite[:, alive].min(0),
            finite[:, alive].max(0),
            color=colour,
            alpha=0.2,
            linewidth=0,
        )
        mean = np.exp(np.log(finite[:, alive]).mean(axis=0))
        every = max(1, len(mean) // 8)
        ax.plot(
            epochs[alive],
            mean,
            color=colour,
            label=label if len(mean) else None,
            marker=marker,
            markersize=3.5,
            markevery=every,
        )
        if scale in gone and len(mean):
            ax.plot(epochs[alive][-1], mean[-1], "x", color=colour, markersize=7, markeredgewidth=2)
    letter = v.scale_letter
    note = f"$\\eta_0$ = {nearest:.3g}" if v.axis == "eta0" else f"{v.axis} = {nearest:.3g}"
    note += f", best at {letter} = {scales[0]}"
    ax.set_title(note, loc="left")
    ax.legend(loc="upper right")
    if gone:
        text = "diverges at\n" + ", ".join(f"{letter} = {s}" for s in gone)
        ax.text(0.66, 0.97, text, color=BAD, ha="right", va="top", transform=ax.transAxes, fontsize=8)


def _whole_numbers() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(integer=True)


def _log(value: float) -> float:
    return math.log10(value) if value > 0 else value


def _share_limits(axes: Sequence[Any]) -> None:
    """Give all panels of a column one range, so that they can be compared by eye."""
    for name in ("xlim", "ylim"):
        limits = [getattr(ax, f"get_{name}")() for ax in axes]
        low, high = min(a for a, _ in limits), max(b for _, b in limits)
        for ax in axes:
            getattr(ax, f"set_{name}")(low, high * (1.15 if name == "ylim" else 1.0))
