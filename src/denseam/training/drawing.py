"""Batches drawn on the CPU by programs that serve all shapes: bit by bit those of `training.batches`.

What depends on the shape (which samples) is done by NumPy; what is done to each entry (its noise, g) by a
program for blocks of entries.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, Key

from denseam.model.lagrangians import Elementwise, Lagrangian
from denseam.model.normals import Places, in_blocks, normal, normal_of, numbered
from denseam.training.batches import View, noisy_batches
from denseam.training.matrices import Batch, Driven, Starts


def draw(
    data: Float[Array, "P N"],
    samples: Int[np.ndarray, "steps B"],
    key: Key[Array, ""],
    first: np.int32,
    noise: ArrayLike,
    view: View,
) -> Batch:
    """Return the batches of the steps from `first` on, whose samples have the given indices."""
    if not _entrywise(view, data):
        return draw_in_one(data, samples, key, first, noise, view)
    clean = np.asarray(data)[samples]
    places = Places(numbered(key, int(first), len(clean)), clean[0].size)
    flat = (clean.ravel(), places.first, places.second, places.number)
    X = in_blocks(_noisy, *flat, noise=noise, features=view.features).reshape(clean.shape)
    return _batch(X, clean, view)


def cut(
    samples: Float[Array, "P N"], key: Key[Array, ""], noise: ArrayLike, n: int, size: int, view: View
) -> Batch:
    """Return samples as n batches of a size, with one draw of the noise for all of them."""
    if not _entrywise(view, samples):
        return view.cut(samples, key, noise, n, size)
    Y = np.asarray(samples)
    X = (Y + np.asarray(noise) * np.asarray(normal(key, Y.shape, Y.dtype)))[: n * size]
    if view.features is not None:
        X = in_blocks(_activated, X.ravel(), features=view.features)
    return _batch(X.reshape(n, size, -1), Y[: n * size].reshape(n, size, -1), view)


def _entrywise(view: View, samples: Array) -> bool:
    """Return whether each entry of a batch depends on its own sample, key and number alone."""
    entrywise = view.features is None or isinstance(view.features, Elementwise)
    return entrywise and not view.hidden and not view.delayed and samples.dtype == np.float32


def _batch(seen: np.ndarray[Any, Any], clean: np.ndarray[Any, Any], view: View) -> Batch:
    """Return batches; `seen` has passed through g already, if the view has one."""
    X, Y = jax.device_put((seen, clean))
    return Starts(X, Y) if view.features is None else Driven(X, Y)


def draw_in_one(
    data: Float[Array, "P N"],
    samples: Int[np.ndarray, "steps B"],
    key: Key[Array, ""],
    first: np.int32,
    noise: ArrayLike,
    view: View,
) -> Batch:
    """Return what `draw` does, by a program for the shape."""
    drawn: Batch = _in_one(data, samples, numbered(key, int(first), len(samples)), noise, view)
    return drawn


@jax.jit
def _in_one(data: Array, samples: Array, words: Array, noise: ArrayLike, view: View) -> Batch:
    keys = jax.random.wrap_key_data(words, impl="threefry2x32")
    return noisy_batches(data[samples], keys, noise, view)


@jax.jit
def _noisy(
    Y: Array, first: Array, second: Array, number: Array, *, noise: Array, features: Lagrangian | None
) -> Array:
    X = Y + noise * normal_of(first, second, number)
    return X if features is None else features.activation(X)


@jax.jit
def _activated(X: Array, *, features: Lagrangian) -> Array:
    return features.activation(X)
