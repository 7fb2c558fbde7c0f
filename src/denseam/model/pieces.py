"""Many samples at once: in pieces whose hidden states fit into memory, with products that have all digits."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

#: Bytes of the hidden states of a piece, of which there are about four copies.
PIECE_BYTES = 1 << 29

Result = TypeVar("Result")


def in_pieces(function: Callable[..., Result], K: int, *samples: Array) -> Result:
    """Return the result of a function of samples, called on one piece of them after the other.

    Parameters
    ----------
    function
        Maps arrays of shape n × N to arrays whose first axis is n, or to a named tuple of them.
    K
        The number of memories.
    samples
        Arrays of one shape, samples × N; there may be several leading axes, or none.
    """
    shape = samples[0].shape
    with exact_products():
        count = _pieces(samples[0], K)
        if count == 1:
            return function(*samples)
        rows = [jnp.array_split(v.reshape(-1, shape[-1]), count) for v in samples]
        parts = [function(*piece) for piece in zip(*rows, strict=True)]

    def joined(*values: Any) -> Any:
        whole = jnp.concatenate(values)
        return whole.reshape(*shape[:-1], *whole.shape[1:])

    result: Result = jax.tree.map(joined, *parts)
    return result


def exact_products() -> Any:
    """Return the context in which products have all digits, unless the user has chosen another precision.

    By default a GPU computes with about three digits, which suffice neither for energies nor for patterns
    that are nearly the same.
    """
    chosen = jax.config.jax_default_matmul_precision is not None  # type: ignore[attr-defined]
    return contextlib.nullcontext() if chosen else jax.default_matmul_precision("highest")


def _pieces(x: Array, K: int) -> int:
    """Return the number of pieces; one if the samples are traced."""
    if isinstance(x, jax.core.Tracer) or x.ndim < 2:
        return 1
    size = max(1, PIECE_BYTES // (4 * K * x.dtype.itemsize))
    return -(-math.prod(x.shape[:-1]) // size)
