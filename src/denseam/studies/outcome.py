"""What became of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

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


class Interrupted(Exception):
    """Training was asked to stop."""
