"""How evenly the memories take part: K_eff of softmax, the largest activation, row and row update.

Softmax gives row k an update proportional to σ_k (eq. softmax-row-gradient): rows that are large get
larger. K_eff then falls, and the largest row and its update leave the others behind.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from denseam.training.probes.step import Step
from denseam.training.probes.updates import rms


def participation(step: Step) -> dict[str, Array]:
    """Return K_eff, K̃_eff, and how far the largest σ_k, ‖w_k‖ and ‖Δw_k‖ stand out."""
    squares = jnp.sum(step.met.raw**2, axis=0)
    centred = jnp.sum((step.met.raw - jnp.mean(step.met.raw, axis=0)) ** 2, axis=0)
    W, dW = step.model.W, step.change.W
    return {
        "K_eff": jnp.mean(1 / squares),
        "K_eff_centred": jnp.mean(1 / jnp.maximum(centred, 1e-30)),
        "sigma_max": jnp.max(jnp.abs(step.met.raw)) / rms(step.met.raw),
        "row_max": jnp.sqrt(jnp.max(jnp.mean(W * W, axis=1))) / rms(W),
        "row_step_max": jnp.sqrt(jnp.max(jnp.mean(dW * dW, axis=1))),
    }
