"""Batches and noise: which samples a step sees, the same on every device."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, Key

from denseam.model.streams import stream


class Batches(NamedTuple):
    """Consecutive batches: indices into the data, and a key for the noise of each batch."""

    samples: Int[Array, "steps B"]
    noise: Key[Array, " steps"]


def draw_batches(seed: int, epoch: int, P: int, B: int) -> Batches:
    """Return the batches of an epoch: a fresh permutation of the P samples, cut into P // B.

    The rest of the permutation is left out. Every step has its own noise key, numbered through the run.
    """
    n = P // B
    return Batches(
        jnp.asarray(sample_order(seed, epoch, P, B)), noise_keys(stream(seed, "noise"), epoch * n, n)
    )


def sample_order(seed: int, epoch: int, P: int, B: int) -> Int[np.ndarray, "steps B"]:
    """Return the permutation of an epoch as batches of indices.

    Drawn on the host from Philox's raw words, which never change: it is the same on every device.
    """
    words = np.random.Philox(key=seed, counter=[0, 0, epoch, 1]).random_raw(P)
    return np.argsort(words, kind="stable")[: P // B * B].reshape(-1, B).astype(np.int32)


def noise_keys(key: Key[Array, ""], first: ArrayLike, steps: int) -> Key[Array, " steps"]:
    """Return the noise keys of consecutive steps."""
    return jax.vmap(lambda t: jax.random.fold_in(key, t))(first + jnp.arange(steps))


def noisy_batch(
    data: Float[Array, "P N"], samples: Int[Array, " B"], key: Key[Array, ""], noise: ArrayLike
) -> tuple[Float[Array, "B N"], Float[Array, "B N"]]:
    """Return one batch as (noisy, clean): X = Y + σ_ε ε with ε ~ N(0, I) drawn anew."""
    Y = data[samples]
    return Y + noise * jax.random.normal(key, Y.shape, Y.dtype), Y
