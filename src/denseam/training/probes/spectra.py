"""Spike and bulk: the first two eigenvalues of the Gram matrix of the activations (App. centering).

``SᵀS = S̃ᵀS̃ + K σ̄σ̄ᵀ`` with S̃ = CS: a mean activation adds an eigenvalue of order K·B, the spike, whose
eigenvector is nearly 1/√B. Softmax activations are of order 1/K, so there K·SᵀS is looked at.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental.sparse.linalg import lobpcg_standard
from jaxtyping import Array, Float

from denseam.training.probes.step import Step

#: Above this batch size LOBPCG is faster than LAPACK, whose threads get in the way of the workers.
DENSE = 48
#: Above this one the Gram matrix is not even formed.
MATRIX_FREE = 2048


def spectra(step: Step) -> dict[str, Array]:
    """Return λ_max, λ₂ and the alignment of the first eigenvector with 1, with and without centring."""
    K = step.met.Z.shape[0]
    unit = float(K) if step.model.activation.family == "softmax" else 1.0
    S = unit * step.met.raw
    found = {"mean_activation": jnp.mean(S)}
    # Both at once: on a GPU many small steps cost as much as one.
    values, alignments = leading(jnp.stack([S - jnp.mean(S, axis=0), S]))
    for suffix, value, alignment in zip(("", "_raw"), values, alignments, strict=True):
        found |= {f"lambda_max{suffix}": value[0], f"lambda_2{suffix}": value[1]}
        found[f"alignment{suffix}"] = alignment
    return found


def leading(S: Float[Array, "*many K B"]) -> tuple[Float[Array, "*many two"], Float[Array, "*many"]]:
    """Return the first two eigenvalues of SᵀS/K and (v₁·1)²/B of the first eigenvector."""
    one = _leading
    for _ in range(S.ndim - 2):
        one = jax.vmap(one)
    return one(S)


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
        start = jax.random.normal(jax.random.key(0), (B, 4), S.dtype)
        product = (lambda X: S.T @ (S @ X) / K) if gram is None else gram
        values, vectors, _ = lobpcg_standard(product, start, m=30)
    return values[:2], jnp.sum(vectors[:, 0]) ** 2 / B
