"""Sizes of the states, and the first-order terms of what a step changes (App. one-step updates).

With J the Jacobian of σ, ΔW any update and Δ⁽ℓ⁾W its two parts under SGD,

``ΔZ = s1 C ΔW G + C Δb 1ᵀ``  (exact)

``ΔF = s2 ΔWᵀ Cσ + s2 WᵀCJ ΔZ + Δc 1ᵀ + O(Δ²)``.

Putting Δ⁽¹⁾W and Δ⁽²⁾W for ΔW gives Δ_W⁽ℓ⁾Z and Δ_W⁽ℓ,ℓ′⁾F: ℓ says in which place W was changed, ℓ′
where the change came from.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from denseam.training.gradient import column_functions
from denseam.training.probes.step import Step


def rms(V: Array) -> Array:
    """Return the root mean square of the entries."""
    return jnp.sqrt(jnp.mean(V * V))


def sizes(step: Step) -> dict[str, Array]:
    """Return the sizes of Z, F and R, and the MSE."""
    return {
        "Z": rms(step.met.Z),
        "F": rms(step.met.R + step.batch.Y),
        "R": rms(step.met.R),
        "mse": jnp.mean(step.met.R**2),
    }


def updates(step: Step) -> dict[str, Array]:
    """Return the sizes of all terms of ΔW, ΔZ and ΔF."""
    return {name: rms(V) for name, V in terms(step).items()}


def terms(step: Step) -> dict[str, Array]:
    """Return the terms of ΔW, ΔZ and ΔF themselves."""
    m, G, dW = step.model, step.batch.G, step.change.W
    found = {"grad_W": step.gradient.W, "dW": dW}
    plain_sgd = step.optimizer.kind == "sgd" and step.optimizer.momentum is None
    if plain_sgd:
        dW1, dW2 = step.split()
        dZ1, dZ2 = (m.s1 * step.centre(part @ G) for part in (dW1, dW2))
        F11, F12 = (m.s2 * (part.T @ step.met.S) for part in (dW1, dW2))
        F21, F22 = (step.output(step.through(dZ)) for dZ in (dZ1, dZ2))
        found |= {"dW1": dW1, "dW2": dW2, "dZ1": dZ1, "dZ2": dZ2}
        found |= {"dF11": F11, "dF12": F12, "dF21": F21, "dF22": F22}
        dZ_W, outer, inner = dZ1 + dZ2, F11 + F12, F21 + F22
    else:
        dZ_W = m.s1 * step.centre(dW @ G)
        outer, inner = m.s2 * (dW.T @ step.met.S), step.output(step.through(dZ_W))
        if step.optimizer.kind != "sgd":
            found |= _means(step, outer, inner)
    ones = jnp.ones_like(G[:1])
    dZ_b = step.centre((m.s_b * step.change.b)[:, None]) * ones
    dF_b, dF_c = step.output(step.through(dZ_b)), (m.s_c * step.change.c)[:, None] * ones
    dF = _exact_change(step, dZ_W + dZ_b)
    found |= {"dZ_W": dZ_W, "dZ_b": dZ_b, "dZ_exact": dZ_W + dZ_b, "dF_outer": outer, "dF_inner": inner}
    found |= {"dF_b": dF_b, "dF_c": dF_c, "dF_exact": dF}
    return found | {"dF_remainder": dF - (outer + inner + dF_b + dF_c)}


def _exact_change(step: Step, dZ: Array) -> Array:
    """Return F after the step minus F before it, on the same batch."""
    m = step.model
    C, activation, _ = column_functions(m)
    W, c = m.W + step.change.W, m.c + step.change.c
    after = m.s2 * (W.T @ C(activation(step.met.Z + dZ))) + (m.s_c * c)[:, None]
    return after - (step.met.R + step.batch.Y)


def _means(step: Step, outer: Array, inner: Array) -> dict[str, Array]:
    """Split U = CU + 1Ūᵀ and what follows from it into bulk and spike (eq. adam-dF1-decomp)."""
    m = step.model
    mean = jnp.mean(step.change.W, axis=0)
    outer_spike = m.s2 * jnp.outer(mean, jnp.sum(step.met.S, axis=0))
    hidden = step.centre(jnp.ones_like(step.met.Z) * (m.s1 * (mean @ step.batch.G)))
    inner_spike = step.output(step.through(hidden))
    return {
        "U_mean": mean,
        "U_centred": step.change.W - mean,
        "dF_outer_spike": outer_spike,
        "dF_outer_bulk": outer - outer_spike,
        "dF_inner_spike": inner_spike,
        "dF_inner_bulk": inner - inner_spike,
    }
