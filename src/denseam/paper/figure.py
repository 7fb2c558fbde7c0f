"""A figure as a row of data: its panels, each drawn from results alone, its claims and a remark."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from denseam.paper.capacity import Capacity
from denseam.paper.claims import Claim
from denseam.paper.curves import diverging, symbol
from denseam.paper.examples import Examples
from denseam.paper.measurement import Measurement
from denseam.paper.readings import READINGS, Reading
from denseam.paper.results import Results
from denseam.paper.settings import FromSettings, Setting
from denseam.report.plots.panels import axis_symbol, curves_panel, lines_panel, sweep_panel, tiles_panel
from denseam.report.plots.style import FAINT, typeset


@dataclasses.dataclass(frozen=True)
class Panel(FromSettings):
    """A panel of a figure."""

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What it needs besides runs."""
        return ()

    def describe(self) -> str:
        """Say what it shows, in a few words."""
        raise NotImplementedError

    def draw(self, ax: Any, results: Results) -> None:
        """Draw the panel."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Sweep(Panel):
    """Final loss against learning rate, for every scale."""

    setting: Setting

    def describe(self) -> str:
        """Say what it shows."""
        return f"transfer: {self.setting.label}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw the panel, with the verdict in its title."""
        v = results.verdict(self.setting)
        sweep_panel(ax, results.rows(self.setting), v, f"{self.setting.label}\n{v.status}")


@dataclasses.dataclass(frozen=True)
class Loss(Panel):
    """The loss during training for every scale, at one learning rate."""

    setting: Setting
    eta0: float | None = None

    def describe(self) -> str:
        """Say what it shows."""
        return f"loss: {self.setting.label}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw the panel."""
        curves = results.curves(self.setting, "loss", self.eta0)
        gone = diverging(results, self.setting, self.eta0)
        curves_panel(ax, curves, self.setting.letter, label="training MSE per feature", gone=gone)
        ax.set_xscale("log")
        eta0 = results.rate(self.setting, self.eta0)
        ax.set_title(f"{self.setting.label}, $\\eta_0$ = {eta0:.3g}", loc="left")


@dataclasses.dataclass(frozen=True)
class Probe(Panel):
    """A measured quantity during training, for every scale."""

    setting: Setting
    quantity: str

    def describe(self) -> str:
        """Say what it shows."""
        return f"{symbol(self.quantity)}: {self.setting.label}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw the panel."""
        curves, lost = results.curves(self.setting, self.quantity), diverging(results, self.setting)
        curves_panel(ax, curves, self.setting.letter, label=typeset(symbol(self.quantity)), against="step")
        calm = [values for scale, (_, values) in curves.items() if scale not in lost]
        if lost and calm:  # a diverging curve would squeeze the others flat
            ax.set_ylim(0.7 * min(np.nanmin(v) for v in calm), 3 * max(np.nanmax(v) for v in calm))
        ax.set_title(self.setting.label, loc="left")


@dataclasses.dataclass(frozen=True)
class Optimum(Panel):
    """The best learning rate against the scale, a line for each setting."""

    along: tuple[Setting, ...]

    def describe(self) -> str:
        """Say what it shows."""
        return f"best rate: {', '.join(s.label for s in self.settings)}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw the panel."""
        lines = {s.label: {float(n): v for n, v in results.verdict(s).optimum.items()} for s in self.settings}
        axis = results.verdict(self.settings[0]).axis
        lines_panel(ax, lines, x_label=self.settings[0].letter, y_label=f"best {axis_symbol(axis)}")
        ax.set_title("optimum", loc="left")


@dataclasses.dataclass(frozen=True)
class Horizon(Panel):
    """The best learning rate against the epoch, a line for each scale."""

    setting: Setting

    def describe(self) -> str:
        """Say what it shows."""
        return f"best rate against epoch: {self.setting.label}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw the panel."""
        best = results.best_by_epoch(self.setting)
        scales, letter = sorted(next(iter(best.values()))), self.setting.letter
        lines = {f"{letter} = {s}": {float(e): best[e][s] for e in best} for s in scales}
        lines_panel(ax, lines, x_label="epochs", y_label=r"best $\eta_0$")
        ax.set_title(self.setting.label, loc="left")


@dataclasses.dataclass(frozen=True)
class Tiles(Panel):
    """Rows of pictures: corrupted images denoised by the large memory, or by the small one."""

    examples: Examples
    of: str

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """The comparison of the two memories."""
        return (self.examples,)

    def describe(self) -> str:
        """Say what it shows."""
        return f"pictures: {self.of} memory"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw the panel."""
        kept = results.measured(self.examples)
        last, (large, small) = int(kept["steps"][-1]), kept["features"]
        rows = {
            "large": {"clean": "clean", "corrupted": "corrupted", f"{last} steps": "large"},
            "small": {"shrunk": "small_corrupted", f"{last} steps": "small", "large, shrunk": "large_shrunk"},
        }[self.of]
        reference = kept["clean" if self.of == "large" else "small_clean"].astype(float)
        tiles_panel(ax, {k: kept[v].astype(float) for k, v in rows.items()}, reference)
        ax.set_title(f"N = {large if self.of == 'large' else small}", loc="left", fontweight="bold")


@dataclasses.dataclass(frozen=True)
class Capacities(Panel):
    """The number of stored patterns against N, a line for each memory, and the laws beside them."""

    title: str
    capacities: tuple[Capacity, ...]
    exponential: bool = False

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """The capacities."""
        return self.capacities

    def describe(self) -> str:
        """Say what it shows."""
        return f"capacity, {self.title}: {', '.join(c.label for c in self.capacities)}"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw the panel."""
        from matplotlib.ticker import NullLocator

        measured = {c.label: results.measured(c) for c in self.capacities}
        lines = {
            label: dict(zip(m["features"].tolist(), m["half"].tolist(), strict=True))
            for label, m in measured.items()
        }
        lines_panel(ax, lines, x_label="N", y_label="number of patterns")
        for law in {tuple(m["law"]): m for m in measured.values()}.values():
            ax.plot(law["features"], law["law"], color=FAINT, lw=1, ls="--", zorder=0, label="_law")
        if self.exponential:
            ax.set_xscale("linear")
        else:
            sizes = sorted({n for m in measured.values() for n in m["features"].tolist()})
            doubled = [n for n in sizes if n & (n - 1) == 0]
            ax.set_xticks(doubled, [str(n) for n in doubled])
            ax.xaxis.set_minor_locator(NullLocator())
        ax.set_title(self.title, loc="left")


@dataclasses.dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes
    ----------
    name
        Its name on the command line.
    title
        What it shows, in one line.
    rows
        The panels, row by row.
    claims
        The statements of its caption, as tests.
    paper_label
        Its label in the paper, as the paper spells it; None if it is no figure there.
    section
        The section of the paper whose claims it tests, if the paper shows no figure for them. A figure
        with neither a label nor a section is a study of our own.
    remark
        Why a claim does not hold, or what to keep in mind.
    """

    name: str
    title: str
    rows: tuple[tuple[Panel, ...], ...]
    claims: tuple[Claim, ...]
    paper_label: str | None = None
    section: str | None = None
    remark: str = ""

    @property
    def own(self) -> bool:
        """Whether its claims are ours and not the paper's."""
        return self.paper_label is None and self.section is None

    @property
    def pinned(self) -> bool:
        """Whether it compares readings, so that it is drawn once."""
        pins = [setting.pinned is not None for setting in self.settings]
        pins += [measurement.pinned for measurement in self.measurements]
        return bool(pins) and all(pins)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The readings in which one of its claims says something."""
        return tuple(r for r in READINGS.values() if any(r in claim.readings for claim in self.claims))

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels."""
        return tuple(panel for row in self.rows for panel in row)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings that have to be trained, without repetition."""
        every = [s for panel in self.panels for s in panel.settings]
        every += [s for claim in self.claims for s in claim.settings]
        return tuple({s.unlabelled: s for s in every}.values())

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What has to be measured besides runs, without repetition."""
        every = [m for panel in self.panels for m in panel.measurements]
        every += [m for claim in self.claims for _, test in claim.tests for m in test.measurements]
        return tuple(dict.fromkeys(every))
