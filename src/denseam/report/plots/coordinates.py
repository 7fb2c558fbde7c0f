"""The picture of a coordinate check: exponents beside the expected ones, and the measured sizes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from denseam.analysis.coordinates.judge import Check
from denseam.analysis.coordinates.slopes import Slope
from denseam.report.plots.style import (
    BAD,
    FAINT,
    INK,
    MARKERS,
    canvas,
    plain_log_ticks,
    save,
    scale_colours,
    typeset,
)
from denseam.training.quantities import QUANTITIES

#: The largest eigenvalues of the Gram matrix of activations, which show a spike.
_LARGEST = ("lambda_max", "lambda_max_raw")


def draw_coordinates(check: Check, out: str | os.PathLike[str], name: str = "") -> list[Path]:
    """Draw a check into a folder, as PNG and SVG; return the files."""
    file = name or f"check-{check.name.replace(' ', '-').replace('/', '-')}"
    return save(check_figure(check), Path(out), file)


def check_figure(check: Check) -> Any:
    """Return a figure: exponents beside the expected ones, and sizes at the first and at a later step."""
    shown = list(dict.fromkeys(s.name for s in check.slopes if s.expected is not None))
    with canvas(1, 3, 13.0, 1.6 + 0.24 * max(12, len(shown))) as (figure, axes):
        _slopes_panel(axes[0, 0], check, shown)
        _sizes_panel(axes[0, 1], check, 0)
        _sizes_panel(axes[0, 2], check, _last_whole(check))
        low, high = zip(*(ax.get_ylim() for ax in axes[0, 1:]), strict=True)
        for ax in axes[0, 1:]:
            ax.set_ylim(max(min(low), 1e-3), min(max(high), 1e3))
            plain_log_ticks(ax.yaxis)
        figure.suptitle(
            f"{check.name}: {check.status}" + (f"\n{check.reason}" if check.cause else ""),
            x=0.01, ha="left", fontsize=11, color=BAD if check.status == "FAIL" else INK,
        )  # fmt: skip
        return figure


def _last_whole(check: Check) -> int:
    """Return the index of the last step at which all runs are finite, of the steps after the first."""
    sizes = check.measured.outputs
    whole = [i for i in range(len(check.measured.steps)) if np.isfinite(sizes[i]).all()]
    return max(whole[-1] if whole else 0, min(1, len(check.measured.steps) - 1))


def _symbol(name: str) -> str:
    """Return the symbol of a quantity; a user's own has only its name."""
    return typeset(QUANTITIES[name].symbol) if name in QUANTITIES else name


def _label(name: str) -> str:
    return f"{_symbol(name)}   {name}" if name in QUANTITIES else name


def _slopes_panel(ax: Any, check: Check, shown: list[str]) -> None:
    """Draw the exponents: a row for each quantity, a point for each step, a bar at the expected value."""
    steps = check.measured.steps
    colours = dict(zip(steps, scale_colours(len(steps)), strict=True))
    for row, name in enumerate(shown):
        mine = [s for s in check.slopes if s.name == name]
        judged = any(s.judged for s in mine)
        expected = mine[0].expected
        assert expected is not None
        ax.vlines(expected, row - 0.42, row + 0.42, color=INK if judged else FAINT, linewidth=2.2, zorder=1)
        for i, s in enumerate(mine):
            _slope_point(ax, s, row + 0.32 * (i / max(1, len(mine) - 1) - 0.5) * 2, colours[s.step])
        if not judged:
            ax.axhspan(row - 0.5, row + 0.5, color="#f2f2f2", zorder=0, linewidth=0)
    ax.set_yticks(range(len(shown)), [_label(n) for n in shown], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(-1.6, 1.6)
    ax.axvline(0, color=FAINT, linewidth=0.6, zorder=0)
    ax.set_xlabel(f"exponent in {check.letter} (bar: expected; shaded rows: reported, not judged)")
    for step in steps:
        ax.plot([], [], "o", markersize=4, color=colours[step], label=f"step {step}")
    ax.plot([], [], "o", markersize=6, markerfacecolor="none", markeredgecolor=BAD, label="wrong")
    ax.legend(loc="lower left", fontsize=7)
    ax.set_title("exponents with 95 % intervals", loc="left")


def _slope_point(ax: Any, s: Slope, y: float, colour: Any) -> None:
    if s.slope is None or s.ci is None:
        ax.plot(1.52, y, "x", color=BAD, markersize=4, clip_on=False)
        return
    x = float(np.clip(s.slope, -1.55, 1.55))
    ax.plot(np.clip(s.ci, -1.6, 1.6), [y, y], color=colour, linewidth=1, zorder=2)
    ax.plot(x, y, "o", markersize=3.2, color=colour, zorder=3)
    if s.ok is False:
        ax.plot(x, y, "o", markersize=7, markerfacecolor="none", markeredgecolor=BAD, zorder=4)


def _sizes_panel(ax: Any, check: Check, index: int) -> None:
    """Draw the judged sizes against scale, each relative to its value at the smallest scale."""
    measured, step = check.measured, check.measured.steps[index]
    names = list(dict.fromkeys(s.name for s in check.slopes if s.expected == 0 and s.judged))
    names += [q for q in _LARGEST if q in measured.values and q not in names]
    wrong = {s.name for s in check.slopes if s.ok is False and s.step == step}
    x = np.array(measured.scales, float)
    for i, name in enumerate(names):
        _sizes_line(ax, x, measured.values[name][index], name, MARKERS[i % len(MARKERS)], name in wrong)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(x, [str(int(v)) for v in x])
    ax.minorticks_off()
    ax.set_xlim(x[0] * 0.9, x[-1] * 1.6)
    ax.axhline(1, color=FAINT, linewidth=0.6, zorder=0)
    ax.set_xlabel(check.letter)
    ax.set_ylabel(f"size relative to {check.letter} = {measured.scales[0]}")
    ax.set_title("at the start" if step == 0 else f"at step {step}", loc="left")


def _sizes_line(ax: Any, x: Any, sizes: Any, name: str, marker: str, wrong: bool) -> None:
    """Draw the sizes (scales × seeds) of one quantity; name it if it is wrong, or the largest eigenvalue."""
    with np.errstate(all="ignore"):
        y = np.exp(np.mean(np.log(sizes / sizes[0]), axis=1))
    finite = np.flatnonzero(np.isfinite(y))
    if not finite.size:
        return
    largest = name in _LARGEST
    colour = BAD if wrong else INK if largest else FAINT
    style = {"linewidth": 1.8, "linestyle": "--"} if largest else {"linewidth": 1}
    ax.plot(x, y, color=colour, marker=marker, markersize=3.5, zorder=2 + (colour != FAINT), **style)
    if wrong or largest:
        ax.annotate(
            f" {_symbol(name)}", (x[finite[-1]], y[finite[-1]]), fontsize=7, color=colour, va="center"
        )
