"""Recall far beyond the trained steps: error, energy, movement and rest along the steps."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from denseam.paper.claims import Evidence, Measured
from denseam.paper.examples import OfMemories
from denseam.paper.figure import Panel
from denseam.paper.readings import Reading
from denseam.paper.results import Results
from denseam.paper.sizes import Size
from denseam.report.plots.style import plain_log_ticks
from denseam.training.progress import Progress
from denseam.workflow.memory import Recalled

#: A state is at rest if f(x) differs from it by no more than this, times max(1, max|x|), whatever its step.
AT_REST = 1e-3
#: Energies are sums of many float32 numbers; a rise below this share is rounding.
ROUNDING = 1e-5


@dataclasses.dataclass(frozen=True)
class RecallCurve(OfMemories):
    """A memory, and its recall of held-out and of trained samples in steps of the trained size."""

    steps: int = 200
    samples: int = 400

    def scales(self, size: Size) -> tuple[int, ...]:
        """Return the largest size of the setting."""
        return (max(self.setting.scales(size)),)

    def make(self, size: Size, reading: Reading, out: Path, progress: Progress | None = None) -> None:
        """Train the memory (or resume its training), recall, and write the curves."""
        (scale,) = self.scales(size)
        memory = self.memory(size, reading, scale, out, progress)
        study, spec = self.recipe(size, reading).run(scale)
        source = study.source()
        shown = {
            "heldout": source.heldout(spec.shape, spec.seed, np.float32),
            "trained": source.samples(spec.shape, spec.seed, np.float32),
        }
        kept: dict[str, Any] = {"trained_steps": np.array(spec.shape.T)}
        for name, samples in shown.items():
            clean = np.asarray(samples)[: self.samples]
            noise = np.random.default_rng(0).standard_normal(clean.shape, np.float32)
            recalled = self._recalled(memory, clean, clean + np.float32(memory.noise) * noise)
            kept |= {f"{name}_{curve}": values for curve, values in _curves(recalled).items()}
        self.write(size, reading, out, kept)

    def _recalled(self, memory: Any, clean: Any, start: Any) -> Recalled:
        trained = memory.model.steps
        size = 1.0 if trained is None else float(trained.size)
        recalled: Recalled = memory.recall_from(
            clean, start, memory.noise, steps=self.steps, tolerance=AT_REST * size, damping=size
        )
        return recalled


def _curves(recalled: Recalled) -> dict[str, Any]:
    return {
        "error": recalled.errors,
        "energy": np.mean(recalled.energies, axis=0),
        "moved": recalled.moved,
        "at_rest": recalled.at_rest,
        "rest_points": np.array(recalled.rest_points),
        "rise": np.array(recalled.largest_rise),
    }


#: Curve → its axis, and whether that is logarithmic.
CURVES = {
    "error": ("error, held out", True),
    "energy": ("energy, over its fall", False),
    "moved": ("moved in a step", True),
    "at_rest": ("share at rest", False),
}


@dataclasses.dataclass(frozen=True)
class Along(Panel):
    """A quantity along the steps of recall, a line for each memory; a dot where its training ended."""

    curves: tuple[RecallCurve, ...]
    quantity: str

    @property
    def measurements(self) -> tuple[RecallCurve, ...]:
        """The recall of each memory."""
        return self.curves

    def describe(self) -> str:
        """Say what it shows."""
        return f"{CURVES[self.quantity][0]} along recall"

    def draw(self, ax: Any, results: Results) -> None:
        """Draw the panel."""
        axis, logarithmic = CURVES[self.quantity]
        for i, curve in enumerate(self.curves):
            kept = results.measured(curve)
            values, T = kept[f"heldout_{self.quantity}"].astype(float), int(kept["trained_steps"])
            if self.quantity == "energy":
                values = (values - values[-1]) / max(1e-12, values[0] - values[-1])
            if self.quantity == "moved":  # nothing has moved before the first step, nor at rest
                values = np.where(values > 0, values, np.nan)
            label = curve.setting.label
            if self.quantity == "at_rest":
                label = f"{kept['heldout_rest_points']} points"
            ax.plot(np.arange(len(values)), values, color=f"C{i}", label=label)
            ax.plot(T, values[T], "o", color=f"C{i}", markersize=4)
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xlim(0, max(curve.steps for curve in self.curves))
        ax.set_xlabel("steps")
        ax.set_ylabel(axis)
        if logarithmic:
            ax.set_yscale("log")
            plain_log_ticks(ax.yaxis)
        if self.quantity in ("error", "at_rest"):
            ax.legend(fontsize=7)


@dataclasses.dataclass(frozen=True)
class OfCurves(Evidence):
    """A test on the recall of memories."""

    curves: tuple[RecallCurve, ...]

    @property
    def measurements(self) -> tuple[RecallCurve, ...]:
        """The recall of each memory."""
        return self.curves

    def ends(self, results: Results, of: str = "heldout") -> list[tuple[float, float]]:
        """Return the error after the trained steps and after all, for each memory."""
        pairs = []
        for curve in self.curves:
            kept = results.measured(curve)
            errors = kept[f"{of}_error"]
            pairs.append((float(errors[int(kept["trained_steps"])]), float(errors[-1])))
        return pairs


@dataclasses.dataclass(frozen=True)
class StaysNear(OfCurves):
    """After all steps of recall the error is at most this many times that after the trained ones."""

    factor: float = 1.5
    of: str = "heldout"

    def measure(self, results: Results) -> Measured:
        """Compare the errors."""
        pairs = self.ends(results, self.of)
        text = ", ".join(f"{a:.3f} → {b:.3f}, {b / a:.2f} times" for a, b in pairs)
        return Measured(all(b <= self.factor * a for a, b in pairs), text)


@dataclasses.dataclass(frozen=True)
class RunsAway(StaysNear):
    """It is more."""

    def measure(self, results: Results) -> Measured:
        """Compare the errors."""
        near = super().measure(results)
        return Measured(not near.holds, near.text)


@dataclasses.dataclass(frozen=True)
class EndsLower(OfCurves):
    """After all steps of recall, the held-out error falls from one memory to the next."""

    def measure(self, results: Results) -> Measured:
        """Compare the last errors."""
        ends = [b for _, b in self.ends(results)]
        falls = all(after < before for before, after in itertools.pairwise(ends))
        return Measured(falls, " → ".join(f"{end:.3f}" for end in ends))


@dataclasses.dataclass(frozen=True)
class NeverRises(OfCurves):
    """The energy of no sample rises in any step, up to rounding."""

    def measure(self, results: Results) -> Measured:
        """Find the largest rise."""
        every = [results.measured(curve) for curve in self.curves]
        rise = max(float(kept[f"{of}_rise"]) for kept in every for of in ("heldout", "trained"))
        return Measured(rise <= ROUNDING, f"the largest rise is {rise:.0e} of the energy")
