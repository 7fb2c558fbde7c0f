"""What a figure shows, as data: each part is drawn into one panel from results alone."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Protocol

import numpy as np

from denseam.figures.claims import Measured, diverging, symbol
from denseam.figures.examples import Examples
from denseam.figures.panels import curves_panel, lines_panel, sweep_panel, tiles_panel
from denseam.figures.results import Results
from denseam.figures.settings import Setting
from denseam.judgement import horizon


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


def letter(setting: Setting) -> str:
    """Return the letter of the size that grows."""
    return "K" if setting.ratios is None else "N"


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Final loss against learning rate, for every scale."""

    setting: Setting

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What has to be trained for it."""
        return (self.setting,)

    def describe(self) -> str:
        """Return what it shows."""
        return f"transfer: {self.setting.label}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw it, with the verdict in its title."""
        v = results.verdict(self.setting)
        sweep_panel(ax, results.rows(self.setting), v, f"{self.setting.label}: {v.status}")


@dataclasses.dataclass(frozen=True)
class Loss:
    """The loss during training for every scale, at one learning rate."""

    setting: Setting
    eta0: float | None = None

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What has to be trained for it."""
        return (self.setting,)

    def describe(self) -> str:
        """Return what it shows."""
        return f"loss: {self.setting.label}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw it."""
        curves = results.curves(self.setting, "loss", self.eta0)
        gone = diverging(results, self.setting, self.eta0)
        curves_panel(ax, curves, letter(self.setting), label="training MSE per feature", gone=gone)
        ax.set_xscale("log")
        rates = {row["eta0"] for row in results.rows(self.setting)}
        eta0 = self.eta0 if self.eta0 is not None else results.base_optimum(self.setting)
        nearest = min(rates, key=lambda rate: abs(math.log(rate / eta0)))
        ax.set_title(f"{self.setting.label}, $\\eta_0$ = {nearest:.3g}", loc="left")


@dataclasses.dataclass(frozen=True)
class Probe:
    """A measured quantity during training, for every scale."""

    setting: Setting
    quantity: str

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What has to be trained for it."""
        return (self.setting,)

    def describe(self) -> str:
        """Return what it shows."""
        return f"{symbol(self.quantity)}: {self.setting.label}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw it."""
        curves, lost = results.curves(self.setting, self.quantity), diverging(results, self.setting)
        curves_panel(ax, curves, letter(self.setting), label=symbol(self.quantity), against="step")
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
        lines_panel(ax, lines, x_label=letter(self.settings[0]), y_label=r"best $\eta_0$")
        ax.set_title("best learning rate", loc="left")


@dataclasses.dataclass(frozen=True)
class Horizon:
    """The best learning rate against the epoch at which it is asked, a line for each scale."""

    setting: Setting

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What has to be trained for it."""
        return (self.setting,)

    def describe(self) -> str:
        """Return what it shows."""
        return f"best rate against epoch: {self.setting.label}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw it."""
        found = best_by_epoch(results, self.setting)
        scales = sorted(next(iter(found.values())))
        name = letter(self.setting)
        lines = {f"{name} = {s}": {float(e): found[e][s] for e in found} for s in scales}
        lines_panel(ax, lines, x_label="epochs", y_label=r"best $\eta_0$")
        ax.set_title(self.setting.label, loc="left")


def best_by_epoch(results: Results, setting: Setting) -> dict[int, dict[int, float | None]]:
    """Return epoch → scale → best learning rate."""
    (found,) = horizon(results.rows(setting)).values()
    return found


@dataclasses.dataclass(frozen=True)
class HorizonAgrees:
    """At every epoch from `share` of the training on, the best rates of all scales agree."""

    setting: Setting
    share: float = 0.1
    decades: float = 0.15

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What has to be trained for it."""
        return (self.setting,)

    def measure(self, results: Results) -> Measured:
        """Take the largest difference between scales, and how far the optimum moves with the epoch."""
        found = best_by_epoch(results, self.setting)
        last = max(found)
        late = {e: [v for v in by_scale.values() if v] for e, by_scale in found.items()}
        apart = [
            math.log10(max(v) / min(v)) for e, v in late.items() if e >= self.share * last and len(v) > 1
        ]
        if not apart:
            return Measured(None, "no optimum at some epoch")
        means = {e: float(np.mean(np.log10(v))) for e, v in late.items() if v}
        first = min(e for e in means if e >= self.share * last)
        moved = means[last] - means[first]
        text = (
            f"from epoch {first} to {last} it moves by {moved:+.2f} decades, "
            f"at no time are scales more than {max(apart):.2f} decades apart"
        )
        return Measured(max(apart) <= self.decades, text)


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


@dataclasses.dataclass(frozen=True)
class Agree:
    """The small memory's answer correlates with the large one's, shrunk, after some steps."""

    examples: Examples
    steps: int
    least: float = 0.9

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Nothing of a sweep."""
        return ()

    def measure(self, results: Results) -> Measured:
        """Compare the correlation with the least that counts as agreement."""
        found = results.examples(self.examples)
        at = found["steps"].tolist().index(self.steps)
        correlation, chance = float(found["correlation"][at]), float(found["chance"][at])
        many = "step" if self.steps == 1 else "steps"
        text = f"correlation {correlation:.2f} after {self.steps} {many} ({chance:.2f} with another sample's)"
        return Measured(correlation >= self.least, text)


@functools.cache
def examples_of(parts: tuple[Part, ...]) -> tuple[Examples, ...]:
    """Return the comparisons that parts are drawn from."""
    return tuple(dict.fromkeys(part.examples for part in parts if isinstance(part, Tiles)))
