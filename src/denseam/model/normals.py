"""Normal numbers in blocks of one size: a new shape needs no new program.

Entry i of ``jax.random.normal(key, shape)`` depends on the key and on i alone, whatever the shape:

``√2 erf⁻¹(u)``, with u uniform in (−1, 1) from the bits of ``threefry(key, (0, i))``.

Compiling this takes longer than drawing with it. Here it is compiled once, for BLOCK entries with their keys
and numbers, and arrays of any shape are put together from blocks on the host. Where a program for a shape is
worth compiling, `within` has the numbers for it. They are those of `jax.random`, bit by bit. JAX has
Threefry's rounds in a loop on a CPU; written out, they compile and run in less time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, UInt32

#: Entries of a block.
BLOCK = 1 << 15
#: Arrays of more blocks have a program of their own, which is then worth compiling: it uses all cores.
MOST_BLOCKS = 256
#: The rotations of Threefry, and the parity of its key schedule (Salmon et al. 2011, "Parallel random
#: numbers: as easy as 1, 2, 3").
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


class Places:
    """The entries of arrays that are drawn with one key each, as one flat array.

    Parameters
    ----------
    words
        The two words of each key.
    size
        The entries of each array.
    """

    def __init__(self, words: UInt32[np.ndarray, "keys 2"], size: int) -> None:
        self.first, self.second = (np.repeat(word, size) for word in words.T)
        self.number = np.tile(np.arange(size, dtype=np.uint32), len(words))


def normal(key: Key[Array, ""], shape: tuple[int, ...], dtype: Any, std: float = 1.0) -> Array:
    """Return ``std · jax.random.normal(key, shape, dtype)``; on the CPU in float32 it is made from blocks."""
    size = math.prod(shape)
    if not on_host(key) or np.dtype(dtype) != np.float32 or size > MOST_BLOCKS * BLOCK:
        numbers = jax.random.normal(key, shape, dtype)
        return numbers if std == 1 else jnp.asarray(std, dtype) * numbers
    places = Places(words(key)[None], size)
    entries = in_blocks(_normal_of, places.first, places.second, places.number)
    placed: Array = jax.device_put(np.float32(std) * entries.reshape(shape))
    return placed


def within(key: Key[Array, ""], shape: tuple[int, ...], dtype: Any) -> Array:
    """Return ``jax.random.normal(key, shape, dtype)`` in a program that is being compiled."""

    def written_out(key: Key[Array, ""]) -> Array:
        first, second = jax.random.key_data(key)
        return normal_of(first, second, jnp.arange(math.prod(shape), dtype=jnp.uint32)).reshape(shape)

    def of_jax(key: Key[Array, ""]) -> Array:
        return jax.random.normal(key, shape, dtype)

    if np.dtype(dtype) != np.float32 or math.prod(shape) > np.iinfo(np.uint32).max:
        return of_jax(key)
    drawn: Array = jax.lax.platform_dependent(key, cpu=written_out, default=of_jax)
    return drawn


def on_host(array: Array) -> bool:
    """Return whether the values of an array can be read here at no cost: it is on the CPU, and not traced."""
    return not isinstance(array, jax.core.Tracer) and all(d.platform == "cpu" for d in array.devices())


def words(key: Key[Array, ""]) -> UInt32[np.ndarray, " 2"]:
    """Return the two words of a key."""
    return np.asarray(jax.random.key_data(key))


def numbered(key: Key[Array, ""], first: int, count: int) -> UInt32[np.ndarray, "count 2"]:
    """Return the words of ``jax.random.fold_in(key, t)`` for t = first, …, first + count − 1."""
    one, other = words(key)
    return np.stack(threefry(one, other, np.arange(first, first + count, dtype=np.uint32)), axis=-1)


def threefry(first: Any, second: Any, number: Any) -> tuple[Any, Any]:
    """Return the two words that Threefry (20 rounds), with a key of two words, makes of (0, number).

    All are arrays of 32-bit words, of NumPy or of JAX.
    """
    schedule = (first, second, first ^ second ^ _PARITY)
    x, y = number & np.uint32(0) | schedule[0], number + schedule[1]
    for i in range(5):
        for by in _ROTATIONS[i % 2]:
            x = x + y
            y = (y << np.uint32(by) | y >> np.uint32(32 - by)) ^ x
        x, y = x + schedule[(i + 1) % 3], y + schedule[(i + 2) % 3] + np.uint32(i + 1)
    return x, y


def normal_of(first: Array, second: Array, number: Array) -> Float[Array, "*shape"]:
    """Return the entries with these keys and numbers: the same operations as in `jax.random`."""
    one, least = np.float32(1), np.nextafter(np.float32(-1), np.float32(0))
    high, low = threefry(first, second, number)
    mantissa = (high ^ low) >> np.uint32(9) | one.view(np.uint32)
    share = jax.lax.bitcast_convert_type(mantissa, jnp.float32) - one
    u = jax.lax.max(least, share * (one - least) + least)
    return np.float32(np.sqrt(2)) * jax.lax.erf_inv(u)


def in_blocks(
    function: Callable[..., Array], *entries: np.ndarray[Any, Any], **shared: Any
) -> Float[np.ndarray, " n"]:
    """Return what a compiled function of blocks makes of flat arrays, entry by entry."""
    size = len(entries[0])
    out = np.empty(size, np.float32)
    for begin in range(0, size, BLOCK):
        block = [values[begin : begin + BLOCK] for values in entries]
        if size - begin < BLOCK:
            block = [np.pad(values, (0, begin + BLOCK - size)) for values in block]
        out[begin : begin + BLOCK] = np.asarray(function(*block, **shared))[: size - begin]
    return out


_normal_of = jax.jit(normal_of)
