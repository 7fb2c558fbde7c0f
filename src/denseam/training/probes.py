"""What is measured while training: sizes, updates, spectra, participation, coherence.

`measure` gives the requested quantities of one step, a pure function that runs inside the compiled training
program. Their names are in `denseam.training.quantities`; each group has a section and a function here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from denseam.model.dense_am import DenseAM, Parameters
from denseam.rules.optimizers import Normalisation
from denseam.rules.table import OF_ORDER_ONE_OVER_K
from denseam.training import trajectory
from denseam.training.gradient import Passes, forward_and_back, gradient_of_passes
from denseam.training.matrices import Batch, Driven, Starts, centred, hidden_functions
from denseam.training.optimizers import Optimizer
from denseam.training.quantities import QUANTITIES

#: Above this batch size LOBPCG is faster than LAPACK, whose threads get in the way of the workers.
DENSE = 48
#: Above this one the Gram matrix is not even formed.
MATRIX_FREE = 2048


def measure(
    model: DenseAM, optimizer: Optimizer, state: Any, batch: Batch, names: Sequence[str]
) -> Float[Array, " quantities"]:
    """Return the named quantities of the step that the optimizer would take now, as one array."""
    if isinstance(batch, Starts):
        values = measure_through(model, optimizer, state, batch)
    else:
        values = measure_step(take_step(model, optimizer, state, batch), names)
    return jnp.stack([values[name].astype(model.W.dtype) for name in names])


def measure_step(step: Step, names: Sequence[str]) -> dict[str, Array]:
    """Return the named quantities of a step by name."""
    values: dict[str, Array] = {}
    for group in dict.fromkeys(QUANTITIES[name].group for name in names):
        values |= _GROUPS[group](step)
    return {name: values[name] for name in names}


# --- one step, laid open ---------------------------------------------------------------------------


class Step(NamedTuple):
    """A step on one batch.

    Attributes
    ----------
    model, optimizer, batch
        Before the step.
    rate
        The learning rate of W in this step: η_W times the factor of the schedule.
    passes
        Z, σ(Z), S, R and A on that batch.
    gradient, change
        ∇L, and the update that the optimizer adds to the parameters.
    """

    model: DenseAM
    optimizer: Optimizer
    rate: Array
    batch: Driven
    passes: Passes
    gradient: Parameters
    change: Parameters

    def centre(self, V: Float[Array, "K B"]) -> Float[Array, "K B"]:
        """Return CV (V itself if the model is not centred)."""
        return hidden_functions(self.model).centre(V)

    def through(self, V: Float[Array, "K B"]) -> Float[Array, "K B"]:
        """Return C J V: how a change V of the pre-activations changes the centred activations."""
        functions = hidden_functions(self.model)
        return functions.centre(functions.jacobian_product(self.passes.Z, V))

    def output(self, V: Float[Array, "K B"]) -> Float[Array, "B N"]:
        """Return s2 Vᵀ W."""
        return self.model.s2 * (V.T @ self.model.W)

    def split(self) -> tuple[Float[Array, "K N"], Float[Array, "K N"]]:
        """Return Δ⁽¹⁾W = −η_W (s2/B) S R and Δ⁽²⁾W = −η_W (s1 s2/B) A G (eq. dW1-dW2)."""
        m, B = self.model, len(self.batch.G)
        rate = -self.rate * m.s2 / B
        return rate * (self.passes.S @ self.passes.R), rate * m.s1 * (self.passes.A @ self.batch.G)


def take_step(model: DenseAM, optimizer: Optimizer, state: Any, batch: Driven) -> Step:
    """Return the step that the optimizer takes from here."""
    passes = forward_and_back(model, batch)
    gradient = gradient_of_passes(model, batch, passes)
    change, _ = optimizer.update(gradient, state, model.parameters)
    rate = jnp.asarray(optimizer.rates.W * optimizer.factor(state))
    return Step(model, optimizer, rate, batch, passes, gradient, change)


# --- sizes of the states, and the first-order terms of a step (App. one-step updates) ---------------
#
# With J the Jacobian of σ, ΔW any update and Δ⁽ℓ⁾W its two parts under SGD,
#
#     ΔZ = s1 C ΔW Gᵀ + C Δb 1ᵀ  (exact)
#     ΔF = s2 (Cσ)ᵀ ΔW + s2 (CJ ΔZ)ᵀ W + 1 Δcᵀ + O(Δ²).
#
# Replacing ΔW by Δ⁽¹⁾W and Δ⁽²⁾W gives Δ_W⁽ℓ⁾Z and Δ_W⁽ℓ,ℓ′⁾F: ℓ says in which place W was changed, ℓ′ where
# the change came from.


def rms(V: Array) -> Array:
    """Return the root mean square of the entries."""
    return jnp.sqrt(jnp.mean(V * V))


def sizes(step: Step) -> dict[str, Array]:
    """Return the sizes of Z, F and R, and the MSE."""
    return {
        "Z": rms(step.centre(step.passes.Z)),
        "F": rms(step.passes.R + step.batch.Y),
        "R": rms(step.passes.R),
        "mse": jnp.mean(step.passes.R**2),
    }


def updates(step: Step) -> dict[str, Array]:
    """Return the sizes of all terms of ΔW, ΔZ and ΔF."""
    return {name: rms(V) for name, V in update_terms(step).items()}


def update_terms(step: Step) -> dict[str, Array]:
    """Return the terms of ΔW, ΔZ and ΔF themselves, as arrays."""
    m, G, dW = step.model, step.batch.G, step.change.W
    terms = {"grad_W": step.gradient.W, "dW": dW}
    o = step.optimizer
    if o.follows_gradient and o.momentum is None and o.decay is None:
        dW1, dW2 = step.split()
        dZ1, dZ2 = (m.s1 * step.centre(part @ G.T) for part in (dW1, dW2))
        F11, F12 = (m.s2 * (step.passes.S.T @ part) for part in (dW1, dW2))
        F21, F22 = (step.output(step.through(dZ)) for dZ in (dZ1, dZ2))
        terms |= {"dW1": dW1, "dW2": dW2, "dZ1": dZ1, "dZ2": dZ2}
        terms |= {"dF11": F11, "dF12": F12, "dF21": F21, "dF22": F22}
        dZ_W, outer, inner = dZ1 + dZ2, F11 + F12, F21 + F22
    else:
        dZ_W = m.s1 * step.centre(dW @ G.T)
        outer, inner = m.s2 * (step.passes.S.T @ dW), step.output(step.through(dZ_W))
        if not o.follows_gradient:
            terms |= _means(step, outer, inner)
    dZ_b = jnp.broadcast_to(step.centre((m.s_b * step.change.b)[:, None]), step.passes.Z.shape)
    dF_b, dF_c = step.output(step.through(dZ_b)), jnp.broadcast_to(m.s_c * step.change.c, step.passes.R.shape)
    dF = _exact_change(step, dZ_W + dZ_b)
    terms |= {"dZ_W": dZ_W, "dZ_b": dZ_b, "dZ_exact": dZ_W + dZ_b, "dF_outer": outer, "dF_inner": inner}
    terms |= {"dF_b": dF_b, "dF_c": dF_c, "dF_exact": dF}
    return terms | {"dF_remainder": dF - (outer + inner + dF_b + dF_c)}


def _exact_change(step: Step, dZ: Array) -> Array:
    """Return F after the step minus F before it, on the same batch."""
    m = step.model
    W, c = m.W + step.change.W, m.c + step.change.c
    S = centred(m, hidden_functions(m).activation(step.passes.Z + dZ))
    after = m.s2 * (S.T @ W) + (m.s_c * c)[None]
    return after - (step.passes.R + step.batch.Y)


def _means(step: Step, outer: Array, inner: Array) -> dict[str, Array]:
    """Split U = CU + 1Ūᵀ and its consequences into bulk and spike (eq. adam-dF1-decomp)."""
    m = step.model
    mean = jnp.mean(step.change.W, axis=0)
    outer_spike = m.s2 * jnp.outer(jnp.sum(step.passes.S, axis=0), mean)
    hidden = step.centre(jnp.ones_like(step.passes.Z) * (m.s1 * (step.batch.G @ mean))[None])
    inner_spike = step.output(step.through(hidden))
    return {
        "U_mean": mean,
        "U_centred": step.change.W - mean[None],
        "dF_outer_spike": outer_spike,
        "dF_outer_bulk": outer - outer_spike,
        "dF_inner_spike": inner_spike,
        "dF_inner_bulk": inner - inner_spike,
    }


# --- spike and bulk: the first two eigenvalues of the Gram matrix of the activations (App. centering) -
#
# SᵀS = S̃ᵀS̃ + K σ̄σ̄ᵀ with S̃ = CS: a mean activation adds an eigenvalue of order K·B, the spike, whose
# eigenvector is nearly 1/√B. Activations of softmax are of order 1/K, so there K·SᵀS is used.


def spectra(step: Step) -> dict[str, Array]:
    """Return λ_max, λ₂ and the alignment of the first eigenvector with 1, with and without centring."""
    K = step.passes.Z.shape[0]
    unit = float(K) if step.model.activation.family in OF_ORDER_ONE_OVER_K else 1.0
    S = unit * step.passes.raw
    values = {"mean_activation": jnp.mean(S)}
    # Both at once: on a GPU many small steps cost as much as one.
    eigenvalues, alignments = leading(jnp.stack([S - jnp.mean(S, axis=0, keepdims=True), S]))
    for suffix, (first, second), alignment in zip(("", "_raw"), eigenvalues, alignments, strict=True):
        values |= {f"lambda_max{suffix}": first, f"lambda_2{suffix}": second, f"alignment{suffix}": alignment}
    return values


def leading(S: Float[Array, "*many K B"]) -> tuple[Float[Array, "*many two"], Float[Array, "*many"]]:
    """Return the first two eigenvalues of SᵀS/K and (v₁·1)²/B of the first eigenvector."""
    function: Any = _one_by_one
    for _ in range(S.ndim - 2):
        function = jax.vmap(function)
    values, alignment = function(S)
    return values, alignment


def _leading(S: Float[Array, "K B"]) -> tuple[Array, Array]:
    K, B = S.shape
    if B == 1:
        value = jnp.sum(S * S) / K
        return jnp.stack([value, jnp.zeros_like(value)]), jnp.ones_like(value)
    gram = S.T @ S / K if B <= MATRIX_FREE else None
    if B <= DENSE:
        values, vectors = jnp.linalg.eigh(gram)
        values, vectors = values[::-1], vectors[:, ::-1]
    else:
        from jax.experimental.sparse.linalg import lobpcg_standard  # brings all of scipy.sparse along

        start = jax.random.normal(jax.random.key(0), (B, 4), S.dtype)
        product = (lambda X: S.T @ (S @ X) / K) if gram is None else gram
        values, vectors, _ = lobpcg_standard(product, start, m=30)
    return values[:2], jnp.sum(vectors[:, 0]) ** 2 / B


# On a CPU the matrices of a batch are taken one after the other. LAPACK's kernels in JAX share a batch out
# among XLA's threads and wait for them, while they occupy such a thread themselves: two programs that do so
# at once may wait for each other forever.
_one_by_one = jax.custom_batching.custom_vmap(_leading)


@_one_by_one.def_vmap
def _batched(size: int, batched: Any, S: Float[Array, "many K B"]) -> tuple[Any, Any]:
    in_turn = functools.partial(jax.lax.map, _one_by_one)
    return jax.lax.platform_dependent(S, cpu=in_turn, default=jax.vmap(_leading)), (True, True)


# --- how evenly the memories participate --------------------------------------------------------------
#
# Softmax gives row k an update proportional to σ_k (eq. softmax-row-gradient): rows that are large become
# larger. K_eff then falls, and the largest row and its update leave the others behind.


def participation(step: Step) -> dict[str, Array]:
    """Return K_eff, K̃_eff, and how far the largest σ_k, ‖w_k‖ and ‖Δw_k‖ stand out."""
    squares = jnp.sum(step.passes.raw**2, axis=0)
    deviations = step.passes.raw - jnp.mean(step.passes.raw, axis=0, keepdims=True)
    centred = jnp.sum(deviations**2, axis=0)
    W, dW = step.model.W, step.change.W
    return {
        "K_eff": jnp.mean(1 / squares),
        "K_eff_centred": jnp.mean(1 / jnp.maximum(centred, 1e-30)),
        "sigma_max": jnp.max(jnp.abs(step.passes.raw)) / rms(step.passes.raw),
        "row_max": jnp.sqrt(jnp.max(jnp.mean(W * W, axis=1))) / rms(W),
        "row_step_max": jnp.sqrt(jnp.max(jnp.mean(dW * dW, axis=1))),
    }


# --- are sums over memories and features sums of random signs? All scalings of Adam rest on it ---------
#
# A sum Σ_k a_k b_k whose terms have independent signs has the size of (Σ_k a_k² b_k²)^½. A coherence is the
# size of a product of matrices over that value: 1 for random signs, √n if all n terms agree.


def coherence(step: Step) -> dict[str, Array]:
    """Return the coherence of ΔWᵀCσ, of WᵀJΔz and of ΔW·g, and the distance of Adam's step from −sign ∇."""
    m, G = step.model, step.batch.G
    dW = step.centre(step.change.W)
    dS = step.through(m.s1 * (dW @ G.T))
    values = {
        "coherence_outer": _over_random(dW.T, step.passes.S),
        "coherence_inner": _over_random(m.W.T, dS),
        "coherence_hidden": _over_random(dW, G.T),
    }
    if step.optimizer.normalisation is Normalisation.ENTRIES:
        direction = step.change.W / step.rate
        values["sign_distance"] = rms(direction + jnp.sign(step.gradient.W))
    return values


def _over_random(X: Array, Y: Array) -> Array:
    """Return ‖XY‖ over the size it would have if the terms of every sum had random signs."""
    product = X @ Y
    random = jnp.sum(X * X, axis=0) @ jnp.sum(Y * Y, axis=1)
    return jnp.sqrt(jnp.sum(product * product) / random)


# --- through several steps of recall -------------------------------------------------------------------
#
# Z are the pre-activations of all steps, F is the last state; ΔZ and ΔF are their exact changes by an update.


def measure_through(model: DenseAM, optimizer: Optimizer, state: Any, batch: Starts) -> dict[str, Array]:
    """Return the quantities of `THROUGH` for the step that the optimizer would take now."""
    batch = trajectory.burnt_in(model, batch)
    _, gradient = trajectory.gradient(model, batch)
    change, _ = optimizer.update(gradient, state, model.parameters)
    after = model.with_parameters(Parameters(*(p + u for p, u in zip(model.parameters, change, strict=True))))
    (Z, X), (Z_after, X_after) = (trajectory.passed(m, batch) for m in (model, after))
    W, dW, C = model.W, change.W, hidden_functions(model).centre
    mean, R = jnp.mean(dW, axis=0), trajectory.residual(batch, X[-1])
    values = {
        "Z": C(Z), "F": X[-1], "R": R, "grad_W": gradient.W, "dW": dW, "dZ_exact": C(Z_after - Z),
        "dF_exact": X_after[-1] - X[-1], "U_mean": mean, "U_centred": dW - mean[None],
    }  # fmt: skip
    return {name: rms(V) for name, V in values.items()} | {
        "mse": jnp.mean(R * (X[-1] - batch.Y)),
        "row_max": jnp.sqrt(jnp.max(jnp.mean(W * W, axis=1))) / rms(W),
        "row_step_max": jnp.sqrt(jnp.max(jnp.mean(dW * dW, axis=1))),
        "sign_distance": rms(dW / (optimizer.rates.W * optimizer.factor(state)) + jnp.sign(gradient.W)),
    }


_GROUPS: Mapping[str, Callable[[Step], dict[str, Array]]] = {
    "sizes": sizes,
    "updates": updates,
    "spectra": spectra,
    "participation": participation,
    "coherence": coherence,
}
