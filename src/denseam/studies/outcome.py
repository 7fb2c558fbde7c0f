"""What became of a run, and who hears of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from denseam.rules import Shape
from denseam.studies.study import RunSpec


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one run."""

    spec: RunSpec
    status: str
    diverged_at: int | None
    initial_mse: float
    final_mse: float
    heldout_mse: float
    zero_mse: float
    loss: Float[np.ndarray, " epochs"]
    seconds: float
    device: str
    probe_steps: tuple[int, ...] = ()
    probes: Mapping[str, Float[np.ndarray, " probe_steps"]] = dataclasses.field(default_factory=dict)


class Listener:
    """Hears how training goes; override what you want to know. Called from worker threads."""

    def compiling(self, shape: Shape) -> None:
        """Hear that a shape is about to be trained for the first time, and compiled where it is new."""

    def advanced(self, steps: int, spec: RunSpec) -> None:
        """Hear that a run took steps (or will not need them)."""

    def finished(self, outcomes: Sequence[Outcome]) -> None:
        """Hear that a chunk of runs has ended."""


class Interrupted(Exception):
    """Training was asked to stop."""
