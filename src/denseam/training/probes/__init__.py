"""What is measured while training: sizes, updates, spectra, participation, coherence.

`measure` gives the asked-for quantities of one step, a pure function that runs inside the compiled
training program. The names are in `denseam.training.quantities`; each group has a file here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from denseam.model.dense_am import DenseAM
from denseam.training.gradient import Columns
from denseam.training.optimizers import Optimizer
from denseam.training.probes.coherence import coherence
from denseam.training.probes.participation import participation
from denseam.training.probes.spectra import spectra
from denseam.training.probes.step import Step, take_step
from denseam.training.probes.updates import sizes, updates
from denseam.training.quantities import QUANTITIES

__all__ = ["Step", "measure", "measure_step", "take_step"]

_GROUPS: Mapping[str, Callable[[Step], dict[str, Array]]] = {
    "sizes": sizes,
    "updates": updates,
    "spectra": spectra,
    "participation": participation,
    "coherence": coherence,
}


def measure(
    model: DenseAM, optimizer: Optimizer, state: Any, batch: Columns, names: Sequence[str]
) -> Float[Array, " quantities"]:
    """Return the named quantities of the step that the optimizer would take now, as one array."""
    found = measure_step(take_step(model, optimizer, state, batch), names)
    return jnp.stack([found[name].astype(model.W.dtype) for name in names])


def measure_step(step: Step, names: Sequence[str]) -> dict[str, Array]:
    """Return the named quantities of a step by name."""
    found: dict[str, Array] = {}
    for group in dict.fromkeys(QUANTITIES[name].group for name in names):
        found |= _GROUPS[group](step)
    return {name: found[name] for name in names}
