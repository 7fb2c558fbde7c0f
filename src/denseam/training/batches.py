"""Batches and noise: which samples a step sees, the same on every device."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, Key

from denseam.model.dense_am import DenseAM
from denseam.model.lagrangians import Lagrangian
from denseam.model.normals import on_host, within
from denseam.model.streams import stream
from denseam.training.matrices import Batch, Driven, Starts


class Batches(NamedTuple):
    """Consecutive batches: indices into the data, and a noise key for each batch."""

    samples: Int[Array, "steps B"]
    noise: Key[Array, " steps"]


def draw_batches(seed: int, epoch: int, P: int, B: int) -> Batches:
    """Return the batches of an epoch: a fresh permutation of the P samples, cut into P // B.

    The rest of the permutation is left out. Every step has its own noise key, numbered through the run.
    """
    n = P // B
    samples = jnp.asarray(sample_order(seed, epoch, P, B))
    return Batches(samples, noise_keys(stream(seed, "noise"), epoch * n, n))


def sample_order(seed: int, epoch: int, P: int, B: int) -> Int[np.ndarray, "steps B"]:
    """Return the permutation of an epoch as batches of indices.

    Drawn on the host from Philox's raw words, which never change: it is the same on every device.
    """
    words = np.random.Philox(key=seed, counter=[0, 0, epoch, 1]).random_raw(P)
    return np.argsort(words, kind="stable")[: P // B * B].reshape(-1, B).astype(np.int32)


def noise_keys(key: Key[Array, ""], first: ArrayLike, steps: int) -> Key[Array, " steps"]:
    """Return the noise keys of consecutive steps."""
    return jax.vmap(lambda t: jax.random.fold_in(key, t))(first + jnp.arange(steps))


def add_noise(Y: Float[Array, "B N"], key: Key[Array, ""], noise: ArrayLike) -> Float[Array, "B N"]:
    """Return X = Y + σ_ε ε with ε ~ N(0, I)."""
    return Y + noise * within(key, Y.shape, Y.dtype)


def noisy_batch(
    data: Float[Array, "P N"], samples: Int[Array, " B"], key: Key[Array, ""], noise: ArrayLike
) -> tuple[Float[Array, "B N"], Float[Array, "B N"]]:
    """Return one batch as (noisy, clean)."""
    Y = data[samples]
    return add_noise(Y, key, noise), Y


class View(eqx.Module):
    """How training sees a batch.

    Attributes
    ----------
    features
        What noisy samples are passed through: g for one update; None if the model starts steps of recall
        from them.
    hidden, by
        How many features are hidden, and which: 'features' and 'block' are drawn for each sample, 'last' are
        always the same.
    delayed
        Whether samples go through a burn-in without gradient, of a length drawn for each.
    """

    features: Lagrangian | None
    hidden: int = eqx.field(static=True, default=0)
    by: str = eqx.field(static=True, default="features")
    delayed: bool = eqx.field(static=True, default=False)

    @classmethod
    def of(cls, model: DenseAM, hidden: int = 0, by: str = "features") -> View:
        """Return what a model is trained on."""
        if model.steps is None:
            return cls(model.features, hidden, by)
        return cls(None, hidden, by, model.steps.burn_in is not None)

    def batch(self, Y: Float[Array, "B N"], key: Key[Array, ""], noise: ArrayLike) -> Batch:
        """Return clean samples with noise; of those with hidden features, these begin with noise alone."""
        X, known, delay = add_noise(Y, key, noise), None, None
        if self.hidden:
            known = ~self._hidden(jax.random.fold_in(key, 1), Y.shape)
            X = jnp.where(known, Y, X - Y)
        if self.features is not None:
            return Driven(self.features.activation(X), Y)
        if self.delayed:
            delay = jax.random.uniform(jax.random.fold_in(key, 2), (len(Y), 1), Y.dtype)
        return Starts(X, Y, known, delay)

    def _hidden(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Bool[Array, "B N"]:
        B, N = shape
        place = jnp.arange(N)
        if self.by == "last":
            return jnp.broadcast_to(place >= N - self.hidden, shape)
        if self.by == "block":  # one that begins near the end goes on at the start
            first = jax.random.randint(key, (B, 1), 0, N)
            return (place[None] - first) % N < self.hidden
        return jnp.argsort(jax.random.uniform(key, shape), axis=-1) < self.hidden

    def cut(self, Y: Float[Array, "P N"], key: Key[Array, ""], noise: ArrayLike, n: int, size: int) -> Batch:
        """Return samples as n batches of a size, with one draw of the noise for all of them."""
        whole = self.batch(Y, key, noise)
        batches: Batch = jax.tree.map(lambda V: V[: n * size].reshape(n, size, -1), whole)
        return batches


def noisy_batches(clean: Array, keys: Array, noise: ArrayLike, view: View) -> Batch:
    """Return clean batches, steps × samples × features, with noise and as training sees them."""
    batches: Batch = jax.vmap(lambda Y, key: view.batch(Y, key, noise))(clean, keys)
    return batches


def draw(
    data: Float[Array, "P N"], samples: Array, key: Array, first: Array, noise: Array, view: View
) -> Batch:
    """Return the batches of the steps from `first` on, whose samples have the given indices."""
    return noisy_batches(data[samples], noise_keys(key, first, samples.shape[0]), noise, view)


def mean_square(batches: Float[Array, "*groups T B N"]) -> Float[Array | np.ndarray, "*groups T"]:
    """Return the MSE of predicting zero for every batch, from its clean samples."""
    if on_host(batches) and batches.is_fully_addressable:  # then it needs no program of this shape
        Y = np.asarray(batches)
        with np.errstate(over="ignore"):
            sums = np.einsum("...bn,...bn->...", Y, Y, dtype=np.float64)
            return np.asarray(sums / (Y.shape[-1] * Y.shape[-2]), Y.dtype)
    errors: Array = _mean_square(batches)
    return errors


@jax.jit
def _mean_square(batches: Array) -> Array:
    return jnp.mean(batches * batches, axis=(-1, -2))
