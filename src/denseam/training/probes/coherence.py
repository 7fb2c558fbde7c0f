"""Are sums over memories and features sums of random signs? All scalings of Adam rest on it.

A sum Σ_k a_k b_k whose terms have independent signs has the size of (Σ_k a_k² b_k²)^½. The measures
here are the size of a product of matrices over that value: 1 for random signs, √n where all n terms
agree.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from denseam.training.probes.step import Step
from denseam.training.probes.updates import rms


def coherence(step: Step) -> dict[str, Array]:
    """Return the coherence of ΔWᵀCσ, of WᵀJΔz and of ΔW·g, and the distance of Adam's step from −sign ∇."""
    m, G = step.model, step.batch.G
    dW = step.centre(step.change.W)
    hidden = dW @ G
    felt = step.through(m.s1 * hidden)
    found = {
        "coherence_outer": _over_random(dW.T, step.met.S),
        "coherence_inner": _over_random(m.W.T, felt),
        "coherence_hidden": _over_random(dW, G),
    }
    if step.optimizer.kind == "adam":
        direction = step.change.W / step.optimizer.rates.W
        found["sign_distance"] = rms(direction + jnp.sign(step.gradient.W))
    return found


def _over_random(X: Array, Y: Array) -> Array:
    """Return ‖XY‖ over the size it would have if the terms of every sum had random signs."""
    product = X @ Y
    random = jnp.sum(X * X, axis=0) @ jnp.sum(Y * Y, axis=1)
    return jnp.sqrt(jnp.sum(product * product) / random)
