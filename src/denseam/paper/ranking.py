"""Settings beside each other, each at its best: tests on their best losses, and panels that show these."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from denseam.paper.claims import Evidence, Measured
from denseam.paper.figure import Panel
from denseam.paper.results import Results
from denseam.paper.settings import Setting
from denseam.paper.thresholds import SEEDS_AGREE
from denseam.report.plots.panels import losses_panel, ranking_panel
from denseam.studies.description import AXES
from denseam.studies.records import Records

K = TypeVar("K", bound=Hashable)

#: Rates that differ by less than this factor are the same: values of the grid, computed twice.
NEAR = 1 + 1e-6


@dataclasses.dataclass(frozen=True)
class Best:
    """The best of a setting at its largest scale: a point of the grid, since a valley may be narrow.

    Attributes
    ----------
    loss, low, high
        The geometric mean of the loss over seeds, and its range.
    rate
        The learning rate.
    held
        The value of each further axis that was swept.
    """

    loss: float
    low: float
    high: float
    rate: float
    held: tuple[tuple[str, float], ...] = ()


def best(results: Results, setting: Setting) -> Best | None:
    """Return the best of a setting; None if each value diverged in some seed."""
    return best_of(results.rows(setting))


def best_of(rows: Records) -> Best | None:
    """Return the best of some runs at their largest scale; None if each value diverged in some seed."""
    axes = [axis for axis in AXES if axis != "eta0" and len({row[axis] for row in rows}) > 1]
    found = []
    for held in sorted({tuple((axis, row[axis]) for axis in axes) for row in rows}):
        for rate, seeds in _by_rate(rows, held).items():
            mean = float(np.exp(np.mean(np.log(seeds))))
            found.append(Best(mean, min(seeds), max(seeds), rate, held))
    return min(found, key=lambda point: point.loss, default=None)


def largest_costs(columns: Sequence[Mapping[K, Best | None]]) -> dict[K, float]:
    """Return the cost of each where it is largest: its loss over the lowest of a column, minus one.

    What has diverged in some column is left out.
    """
    lowest = [min((b.loss for b in bests.values() if b), default=math.nan) for bests in columns]
    costs: dict[K, float] = {}
    for name in columns[0]:
        losses = [b.loss for bests in columns if (b := bests[name])]
        if len(losses) == len(columns):
            costs[name] = max(loss / low - 1 for loss, low in zip(losses, lowest, strict=True))
    return costs


def _by_rate(rows: Records, held: tuple[tuple[str, float], ...]) -> dict[float, list[float]]:
    """Return learning rate → the losses of all seeds at the largest scale, in order, where none diverged."""
    scale = max(row["scale"] for row in rows)
    losses: dict[float, list[float]] = {}
    for row in sorted(rows, key=lambda row: float(row["eta0"])):
        if row["scale"] == scale and all(row[axis] == value for axis, value in held):
            loss = math.inf if row["status"] == "diverged" else float(row["final_mse"])
            losses.setdefault(row["eta0"], []).append(loss)
    return {rate: seeds for rate, seeds in losses.items() if np.isfinite(seeds).all()}


def _lower(a: Best | None, b: Best | None) -> bool | None:
    """Return whether one loss is lower than another; None if they are nearly the same, or one diverged."""
    if a is None or b is None or abs(a.loss / b.loss - 1) <= SEEDS_AGREE:
        return None
    return a.loss < b.loss


# --- tests -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class LowestLoss(Evidence):
    """The best loss of one setting is lower than that of any other."""

    lowest: Setting
    others: tuple[Setting, ...]

    def measure(self, results: Results) -> Measured:
        """Compare it with each of the others."""
        found = {s.label: best(results, s) for s in (self.lowest, *self.others)}
        lowest, *others = found.values()
        pairs = [_lower(lowest, other) for other in others]
        text = "; ".join(
            f"{label}: {'diverged' if b is None else f'{b.loss:.3g}'}" for label, b in found.items()
        )
        return Measured(False if False in pairs else None if None in pairs else True, text)


@dataclasses.dataclass(frozen=True)
class LowersEach(Evidence):
    """Each setting has a lower best loss than the one at the same place among others."""

    lower: tuple[Setting, ...]
    higher: tuple[Setting, ...]

    def measure(self, results: Results) -> Measured:
        """Compare pair by pair."""
        holds, changes = [], []
        for lower, higher in zip(self.lower, self.higher, strict=True):
            a, b = best(results, lower), best(results, higher)
            holds.append(_lower(a, b))
            change = (
                "diverged" if a is None or b is None else f"{a.loss / b.loss - 1:+.1%}".replace("%", " %")
            )
            changes.append(f"{lower.label}: {change}")
        return Measured(False if False in holds else None if None in holds else True, "; ".join(changes))


@dataclasses.dataclass(frozen=True)
class InsideSweep(Evidence):
    """The best rate of each setting lies inside its sweep, so that a wider one finds none better.

    So do the values of further axes, but these may be the smallest, which stands for none.
    """

    all_of: tuple[Setting, ...]

    def measure(self, results: Results) -> Measured:
        """Name those that lie at an end."""
        outside = [setting.label for setting in self.all_of if not _inside(results, setting)]
        if outside:
            return Measured(False, f"at an end: {', '.join(outside)}")
        return Measured(True, f"all {len(self.all_of)} are inside")


def _inside(results: Results, setting: Setting) -> bool:
    found = best(results, setting)
    if found is None:
        return False
    rates, rows = setting.rates(results.size), results.rows(setting)
    below = all(value < max(row[axis] for row in rows) for axis, value in found.held)
    return below and rates[0] * NEAR < found.rate < rates[-1] / NEAR


# --- panels ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Ranking(Panel):
    """The best loss of each setting, a row for each, in two variants beside each other."""

    title: str
    variants: tuple[str, str]
    first: tuple[Setting, ...]
    second: tuple[Setting, ...]

    def describe(self) -> str:
        """Say what it shows."""
        return f"best loss: {self.title}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw the panel."""
        ranges = {
            name: {s.label: _range(best(results, s)) for s in settings}
            for name, settings in zip(self.variants, (self.first, self.second), strict=True)
        }
        ranking_panel(ax, ranges, x_label=results.verdict(self.first[0]).loss_name)
        ax.set_title(_with_size(self.title, results, self.first[0]), loc="left")


@dataclasses.dataclass(frozen=True)
class Rates(Panel):
    """The loss of several settings against the learning rate, further axes at their best."""

    title: str
    along: tuple[Setting, ...]

    def describe(self) -> str:
        """Say what it shows."""
        return f"loss against rate: {self.title}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw the panel."""
        bests = {s: best(results, s) for s in self.along}
        curves = {s.label: _by_rate(results.rows(s), b.held) for s, b in bests.items() if b}
        losses_panel(ax, curves, y_label=results.verdict(self.along[0]).loss_name)
        ax.set_title(_with_size(self.title, results, self.along[0]), loc="left")


def _with_size(title: str, results: Results, setting: Setting) -> str:
    return f"{title}, {setting.letter} = {max(setting.scales(results.size))}"


def _range(found: Best | None) -> tuple[float, float, float] | None:
    return None if found is None else (found.low, found.loss, found.high)
