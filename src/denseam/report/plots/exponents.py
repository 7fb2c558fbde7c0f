"""The picture of a search for exponents: intervals beside fractions, and the sizes they come from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from denseam.analysis.coordinates.laws import Law
from denseam.analysis.coordinates.proposal import Exponents, Proposal
from denseam.report.plots.style import BAD, FAINT, INK, MARKERS, canvas, plain_log_ticks, save, scale_colours
from denseam.training.quantities import QUANTITIES


def draw_exponents(proposal: Proposal, out: str | os.PathLike[str], name: str = "exponents") -> list[Path]:
    """Draw a proposal into a folder, as PNG and SVG; return the files."""
    factors = proposal.factors
    with canvas(1, 1 + len(factors), 3.4 + 2.9 * len(factors), 3.6) as (figure, axes):
        _intervals_panel(axes[0, 0], proposal)
        for ax, (factor, found) in zip(axes[0, 1:], factors.items(), strict=True):
            _sizes_panel(ax, factor, found, proposal.letter)
        figure.suptitle(
            f"{proposal.study.name}: {proposal.status}\n{proposal.reason}",
            x=0.01, ha="left", fontsize=10, color=BAD if proposal.status == "NONE" else INK, wrap=True,
        )  # fmt: skip
        return save(figure, Path(out), name)


def _laws(found: Exponents, letter: str) -> dict[str, Law]:
    """Return the laws of a factor by what grows; the path comes first."""
    return {f"{letter}, all" if found.apart else letter: found.along, **found.apart}


def _intervals_panel(ax: Any, proposal: Proposal) -> None:
    """Draw the exponents: a row for each factor and each size, a bar at the fraction that is taken."""
    rows = [
        (f"{factor} in {grows}", law)
        for factor, found in proposal.factors.items()
        for grows, law in _laws(found, proposal.letter).items()
    ]
    for y, (_, law) in enumerate(rows):
        colour = INK if law.is_power else BAD
        ax.plot(law.interval, [y, y], color=colour, linewidth=1.2)
        ax.plot(law.exponent, y, "o" if law.is_power else "X", color=colour, markersize=4)
        if law.fraction is not None:
            ax.vlines(float(law.fraction), y - 0.38, y + 0.38, color=FAINT, linewidth=2.2, zorder=0)
    ax.set_yticks(range(len(rows)), [label for label, _ in rows], fontsize=8)
    ax.invert_yaxis()
    ax.axvline(0, color=FAINT, linewidth=0.6, zorder=0)
    ax.set_xlabel("bar: fraction in the interval; ×: no power")
    ax.set_title("exponents, 95 % intervals", loc="left")


def _sizes_panel(ax: Any, factor: str, found: Exponents, letter: str) -> None:
    """Draw the size of a quantity against each size that grows, both relative to the middle."""
    laws = _laws(found, letter)
    colours = [INK, *scale_colours(len(found.apart))]
    for i, (grows, law) in enumerate(laws.items()):
        middle = (len(law.sizes) - 1) // 2
        x = np.array(law.sizes, float) / law.sizes[middle]
        y = np.exp(np.mean(np.log(law.values), axis=1))
        spread = np.exp(np.std(np.log(law.values), axis=1))
        ax.errorbar(
            x, y / y[middle], yerr=(y / y[middle] * (1 - 1 / spread), y / y[middle] * (spread - 1)),
            color=colours[i], marker=MARKERS[i % len(MARKERS)], markersize=3.5, linewidth=1, label=grows,
        )  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["¼", "½", "1", "2", "4", "8"])
    ax.minorticks_off()
    ends = [size / law.sizes[(len(law.sizes) - 1) // 2] for law in laws.values() for size in law.sizes]
    ax.set_xlim(min(ends) / 1.2, max(ends) * 1.2)
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, 0.8), max(high, 1.25))
    plain_log_ticks(ax.yaxis)
    ax.axhline(1, color=FAINT, linewidth=0.6, zorder=0)
    ax.set_xlabel("size relative to the middle")
    ax.set_title(f"{QUANTITIES[found.quantity].symbol} before {factor} was changed", loc="left")
    ax.legend(loc="best", fontsize=7)
