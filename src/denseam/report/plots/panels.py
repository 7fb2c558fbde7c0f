"""The panels of figures, each drawn into one pair of axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from denseam.analysis.transfer import Verdict
from denseam.report.plots.style import BAD, FAINT, MARKERS, plain_log_ticks, scale_colours
from denseam.studies.records import LOSS, Row

#: The height of a row of crosses, in units of the panel's.
_ROW = 0.035
#: The steps or epochs of each scale, and an array seeds × values.
Curves = Mapping[int, tuple[Any, Any]]


def sweep_panel(ax: Any, rows: Sequence[Row], v: Verdict, title: str) -> None:
    """Draw the final loss of every scale against the axis: the mean over seeds, and their range.

    Rings mark the optimum of each scale; the vertical line is the value that would be transferred.
    `mark_divergences` adds the runs that diverged, once the limits of the axes are known.
    """
    scales = sorted(v.optimum)
    grid = sorted({row[v.axis] for row in rows})
    ax.set_xscale("log" if grid[0] > 0 else "linear")
    ax.set_yscale("log")
    ax.denseam_crosses = []
    for i, (scale, colour) in enumerate(zip(scales, scale_colours(len(scales)), strict=True)):
        losses = _losses(rows, v.axis, scale)
        ax.denseam_crosses += [(value, i, colour) for value in grid if math.inf in losses.get(value, ())]
        label, marker = f"{v.scale_letter} = {scale}", MARKERS[i % len(MARKERS)]
        _loss_line(ax, losses, v.optimum[scale], color=colour, marker=marker, label=label)
    base = v.optimum[scales[0]]
    if base is not None:
        ax.axvline(base, color=FAINT, linewidth=1, linestyle=":", zorder=0)
    ax.set_title(title, loc="left", fontweight="bold")
    ax.set_xlabel(
        rf"effective learning rate {axis_symbol(v.axis)}" if v.axis == "eta0" else axis_symbol(v.axis)
    )
    ax.set_ylabel(f"final {v.loss_name}" if v.loss_name == LOSS else v.loss_name)
    if len(grid) > 1:
        margin = (grid[-1] / grid[0]) ** 0.04 if grid[0] > 0 else 1.0
        ax.set_xlim(grid[0] / margin, grid[-1] * margin)
        if grid[0] > 0 and grid[-1] < 12 * grid[0]:
            plain_log_ticks(ax.xaxis)
    ax.denseam_top = ax.get_ylim()[1]


def axis_symbol(axis: str) -> str:
    """Return the letter of an axis, or its name if it has none."""
    return {"eta0": r"$\eta_0$", "tau": r"$\tau$"}.get(axis, axis)


def leave_room(axes: Sequence[Any]) -> None:
    """Raise the upper limit that panels share: the crosses of `mark_divergences` are above all curves."""
    low, high = axes[0].get_ylim()
    for ax in axes:
        rows = len({i for _, i, _ in ax.denseam_crosses})
        if rows:
            high = max(high, low * (ax.denseam_top / low) ** (1 / (1 - _ROW * (rows + 1))))
    for ax in axes:
        ax.set_ylim(low, high)


def _losses(rows: Sequence[Row], axis: str, scale: int) -> dict[float, list[float]]:
    """Return the losses of all seeds at each value of an axis, in increasing order; infinite if diverged."""
    losses: dict[float, list[float]] = {}
    for row in sorted((r for r in rows if r["scale"] == scale), key=lambda r: float(r[axis])):
        loss = math.inf if row["status"] == "diverged" else row["final_mse"]
        losses.setdefault(row[axis], []).append(loss)
    return losses


def _loss_line(ax: Any, losses: Mapping[float, list[float]], optimum: float | None, **style: Any) -> None:
    """Draw the mean and the range of the losses where all seeds are finite, and a ring at the optimum."""
    finite = {value: seeds for value, seeds in losses.items() if np.isfinite(seeds).all()}
    x, mean = list(finite), [float(np.exp(np.mean(np.log(seeds)))) for seeds in finite.values()]
    low, high = (list(map(end, finite.values())) for end in (min, max))
    ax.fill_between(x, low, high, color=style["color"], alpha=0.2, linewidth=0)
    ax.plot(x, mean, markersize=3.5, **style)
    if optimum is not None and x:
        level = float(np.exp(np.interp(_at(ax, optimum), [_at(ax, a) for a in x], np.log(mean))))
        ax.plot(optimum, level, "o", markersize=9, markerfacecolor="none", markeredgecolor=style["color"],
                markeredgewidth=1.8, zorder=5)  # fmt: skip


def mark_divergences(ax: Any) -> None:
    """Mark diverged values by crosses above the curves, a row for each scale."""
    crosses = ax.denseam_crosses
    if not crosses:
        return
    levels = sorted({i for _, i, _ in crosses})
    transform = ax.get_xaxis_transform()
    for value, i, colour in crosses:
        height = 0.98 - _ROW * levels.index(i)
        ax.plot(value, height, "x", color=colour, markersize=4.5, markeredgewidth=1.4, transform=transform,
                clip_on=False)  # fmt: skip
    leftmost, rightmost = (end(value for value, _, _ in crosses) for end in (min, max))
    low, high = (_at(ax, end) for end in ax.get_xlim())
    beside = (_at(ax, leftmost) - low) / (high - low) > 0.3  # is there room for the word on the left?
    middle, below = 0.98 - _ROW / 2 * (len(levels) - 1), 0.98 - _ROW * len(levels) - 0.02
    place = (leftmost, middle) if beside else (rightmost, below)
    ax.annotate("diverged  " if beside else "diverged", place, xycoords=transform, color=BAD, fontsize=8,
                ha="right", va="center" if beside else "top")  # fmt: skip


def curves_panel(
    ax: Any, curves: Curves, letter: str, *, label: str, against: str = "epoch", gone: Sequence[int] = ()
) -> None:
    """Draw a quantity during training for every scale: the mean over seeds, and their range.

    Values are NaN once a run has diverged; curves of the scales in `gone` end with a cross.
    """
    ax.set_yscale("log")
    ax.set_xlabel(against)
    ax.set_ylabel(label)
    steps = against == "step"
    if steps:
        ax.set_xscale("symlog", linthresh=1)
    scales = sorted(curves)
    for i, (scale, colour) in enumerate(zip(scales, scale_colours(len(scales)), strict=True)):
        x, values = curves[scale]
        marker = MARKERS[i % len(MARKERS)]
        alive = np.isfinite(values).all(axis=0) & (values > 0).all(axis=0)
        ax.fill_between(
            x[alive], values[:, alive].min(0), values[:, alive].max(0), color=colour, alpha=0.2, linewidth=0
        )
        mean = np.exp(np.log(values[:, alive]).mean(axis=0))
        ax.plot(x[alive], mean, color=colour, label=f"{letter} = {scale}", marker=marker, markersize=3.5,
                markevery=1 if steps else max(1, len(mean) // 8))  # fmt: skip
        if scale in gone and len(mean):
            ax.plot(x[alive][-1], mean[-1], "x", color=colour, markersize=7, markeredgewidth=2)
    if not any(len(line.get_xdata()) for line in ax.get_lines()):  # all have diverged, but there are axes
        ends = [x for x, _ in curves.values() if len(x)]
        ax.set_xlim(min((x[0] for x in ends), default=1), max((x[-1] for x in ends), default=10))
    low, high = ax.get_ylim()
    if high / low < 1.001:  # a single value, but for rounding: give it room
        ax.set_ylim(0.8 * low, 1.25 * high)
    if gone:
        text = "diverges at\n" + ", ".join(f"{letter} = {s}" for s in gone)
        ax.text(0.66, 0.97, text, color=BAD, ha="right", va="top", transform=ax.transAxes, fontsize=8)


def lines_panel(
    ax: Any, lines: Mapping[str, Mapping[float, float | None]], *, x_label: str, y_label: str
) -> None:
    """Draw one number against another, a line for each label; None leaves a gap."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    for i, (label, points) in enumerate(lines.items()):
        x = [a for a, b in points.items() if b is not None]
        y = [b for b in points.values() if b is not None]
        ax.plot(x, y, marker=MARKERS[i % len(MARKERS)], markersize=4, label=label, color=f"C{i}")
    places = sorted({x for points in lines.values() for x in points})
    if len(places) <= 6:  # sizes, not epochs
        ax.set_xticks(places, [f"{x:g}" for x in places])
        ax.minorticks_off()
    plain_log_ticks(ax.yaxis)
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** (0.1 * len(lines)))  # room for the legend
    ax.legend(fontsize=7, loc="upper left", ncols=2 if len(lines) > 3 else 1)


def ranking_panel(
    ax: Any, ranges: Mapping[str, Mapping[str, tuple[float, float, float] | None]], *, x_label: str
) -> None:
    """Draw a row for each label, and in it a dot for each variant: its value, and the range from low to high.

    Values are (low, value, high); None stands for one that diverged. The first variant is hollow.
    """
    labels = list(next(iter(ranges.values())))
    for i, (variant, values) in enumerate(ranges.items()):
        colour, offset = f"C{i}", 0.16 * (2 * i - len(ranges) + 1)
        places = [(row + offset, values[label]) for row, label in enumerate(labels)]
        known = [(y, value) for y, value in places if value is not None]
        ax.hlines([y for y, _ in known], [v[0] for _, v in known], [v[2] for _, v in known], color=colour)
        ax.plot([v[1] for _, v in known], [y for y, _ in known], MARKERS[i], color=colour, label=variant,
                markersize=5, markerfacecolor="none" if i == 0 else colour)  # fmt: skip
        for y, value in places:
            if value is None:
                ax.annotate("diverged", (0.98, y), xycoords=("axes fraction", "data"), color=BAD, fontsize=7,
                            ha="right", va="center")  # fmt: skip
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.grid(axis="y", color=FAINT, alpha=0.25, linewidth=0.5)
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel(x_label)
    # Dots may be anywhere, so the legend is below the axis.
    ax.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.26), ncols=len(ranges))


def losses_panel(ax: Any, curves: Mapping[str, Mapping[float, Sequence[float]]], *, y_label: str) -> None:
    """Draw the losses of all seeds against the learning rate, a line for each label: their mean and range."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    for i, (label, losses) in enumerate(curves.items()):
        best = min(losses, key=lambda rate: float(np.mean(np.log(losses[rate]))), default=None)
        _loss_line(ax, {rate: list(seeds) for rate, seeds in losses.items()}, best, color=f"C{i}",
                   marker=MARKERS[i % len(MARKERS)], label=label)  # fmt: skip
    plain_log_ticks(ax.yaxis)
    ax.set_xlabel(r"effective learning rate $\eta_0$")
    ax.set_ylabel(y_label)
    ax.legend(fontsize=7)


def tiles_panel(ax: Any, rows: Mapping[str, Any], reference: Any) -> None:
    """Draw rows of pictures (each n × height × width × channels), all in the range of `reference`."""
    count, height, width, channels = np.asarray(reference).shape
    low, high = float(np.min(reference)), float(np.max(reference))
    gap = max(1, width // 14)
    sheet = np.full((len(rows) * (height + gap) - gap, count * (width + gap) - gap, channels), np.nan)
    for i, pictures in enumerate(rows.values()):
        for k, picture in enumerate(pictures):
            y, x = i * (height + gap), k * (width + gap)
            sheet[y : y + height, x : x + width] = (picture - low) / max(1e-12, high - low)
    if channels == 3:
        ax.imshow(np.clip(np.nan_to_num(sheet, nan=1.0), 0, 1), interpolation="nearest")
    else:
        ax.imshow(sheet[..., 0], cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    ax.set_yticks([i * (height + gap) + height / 2 for i in range(len(rows))], list(rows))
    ax.set_xticks([])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def share_limits(axes: Sequence[Any]) -> None:
    """Give all panels the same ranges, so that they can be compared by eye."""
    axes = [ax for ax in axes if any(np.size(line.get_xdata()) for line in ax.lines)]  # others show nothing
    for name in ("xlim", "ylim") if axes else ():
        limits = [getattr(ax, f"get_{name}")() for ax in axes]
        low, high = min(a for a, _ in limits), max(b for _, b in limits)
        for ax in axes:
            getattr(ax, f"set_{name}")(low, high * (1.15 if name == "ylim" else 1.0))


def _at(ax: Any, value: float) -> float:
    return math.log(value) if ax.get_xscale() == "log" else value
