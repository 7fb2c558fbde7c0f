"""What a figure shows, as data: each part is drawn into one panel from results alone."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Protocol

import numpy as np

from denseam.paper.claims import OfOne, diverging, symbol
from denseam.paper.examples import Examples
from denseam.paper.results import Results
from denseam.paper.settings import Setting
from denseam.report.plots.panels import curves_panel, lines_panel, sweep_panel, tiles_panel


class Part(Protocol):
    """A panel of a figure."""

    def describe(self) -> str:
        """Return what it shows, in a few words."""
        ...

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What has to be trained for it."""
        ...

    def draw(self, ax: Any, results: Results) -> None:
        """Draw it."""
        ...


@dataclasses.dataclass(frozen=True)
class Sweep(OfOne):
    """Final loss against learning rate, for every scale."""

    def describe(self) -> str:
        """Return what it shows."""
        return f"transfer: {self.setting.label}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw it, with the verdict in its title."""
        v = results.verdict(self.setting)
        sweep_panel(ax, results.rows(self.setting), v, f"{self.setting.label}: {v.status}")


@dataclasses.dataclass(frozen=True)
class Loss(OfOne):
    """The loss during training for every scale, at one learning rate."""

    eta0: float | None = None

    def describe(self) -> str:
        """Return what it shows."""
        return f"loss: {self.setting.label}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw it."""
        curves = results.curves(self.setting, "loss", self.eta0)
        gone = diverging(results, self.setting, self.eta0)
        curves_panel(ax, curves, self.setting.letter, label="training MSE per feature", gone=gone)
        ax.set_xscale("log")
        eta0 = results.rate(self.setting, self.eta0)
        ax.set_title(f"{self.setting.label}, $\\eta_0$ = {eta0:.3g}", loc="left")


@dataclasses.dataclass(frozen=True)
class Probe(OfOne):
    """A measured quantity during training, for every scale."""

    quantity: str

    def describe(self) -> str:
        """Return what it shows."""
        return f"{symbol(self.quantity)}: {self.setting.label}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw it."""
        curves, lost = results.curves(self.setting, self.quantity), diverging(results, self.setting)
        curves_panel(ax, curves, self.setting.letter, label=symbol(self.quantity), against="step")
        calm = [values for scale, (_, values) in curves.items() if scale not in lost]
        if lost and calm:  # what blows up would squeeze the others flat
            ax.set_ylim(0.7 * min(np.nanmin(v) for v in calm), 3 * max(np.nanmax(v) for v in calm))
        ax.set_title(self.setting.label, loc="left")


@dataclasses.dataclass(frozen=True)
class Optimum:
    """The best learning rate against the scale, a line for each setting."""

    settings: tuple[Setting, ...]

    def describe(self) -> str:
        """Return what it shows."""
        return f"best rate: {', '.join(s.label for s in self.settings)}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw it."""
        lines = {s.label: {float(n): v for n, v in results.verdict(s).optimum.items()} for s in self.settings}
        lines_panel(ax, lines, x_label=self.settings[0].letter, y_label=r"best $\eta_0$")
        ax.set_title("best learning rate", loc="left")


@dataclasses.dataclass(frozen=True)
class Horizon(OfOne):
    """The best learning rate against the epoch at which it is asked, a line for each scale."""

    def describe(self) -> str:
        """Return what it shows."""
        return f"best rate against epoch: {self.setting.label}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw it."""
        found = results.best_by_epoch(self.setting)
        scales = sorted(next(iter(found.values())))
        name = self.setting.letter
        lines = {f"{name} = {s}": {float(e): found[e][s] for e in found} for s in scales}
        lines_panel(ax, lines, x_label="epochs", y_label=r"best $\eta_0$")
        ax.set_title(self.setting.label, loc="left")


@dataclasses.dataclass(frozen=True)
class Tiles:
    """Rows of pictures: what the large memory makes of corrupted images, or what the small one does."""

    examples: Examples
    of: str

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Nothing of a sweep."""
        return ()

    def describe(self) -> str:
        """Return what it shows."""
        return f"pictures: {self.of} memory"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw it."""
        found = results.examples(self.examples)
        last, (large, small) = int(found["steps"][-1]), found["features"]
        rows = {
            "large": {"clean": "clean", "corrupted": "corrupted", f"{last} steps": "large"},
            "small": {"shrunk": "small_corrupted", f"{last} steps": "small", "large, shrunk": "large_shrunk"},
        }[self.of]
        reference = found["clean" if self.of == "large" else "small_clean"].astype(float)
        tiles_panel(ax, {k: found[v].astype(float) for k, v in rows.items()}, reference)
        ax.set_title(f"N = {large if self.of == 'large' else small}", loc="left", fontweight="bold")


@functools.cache
def examples_of(parts: tuple[Part, ...]) -> tuple[Examples, ...]:
    """Return the comparisons that parts are drawn from."""
    return tuple(dict.fromkeys(part.examples for part in parts if isinstance(part, Tiles)))
