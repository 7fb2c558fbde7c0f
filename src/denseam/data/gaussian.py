"""Gaussian families: isotropic N(0, I) and anisotropic N(0, D) with a power-law spectrum."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from denseam.ground.errors import InputError
from denseam.model.normals import normal
from denseam.model.streams import Stream, stream
from denseam.rules import Shape


def isotropic(
    N: int, P: int, *, seed: int = 0, dtype: Any = jnp.float32, part: Stream = "data"
) -> Float[Array, "P N"]:
    """Return P samples of x ~ N(0, I) with N features; `part` 'heldout' gives fresh ones."""
    Shape(N, 1, P)
    return normal(stream(seed, part), (P, N), dtype)


def spectrum(N: int, exponent: float = 2 / 5) -> Float[Array, " N"]:
    """Return the variances D_i ∝ i^(−exponent), i = 1 … N, scaled to the trace N."""
    if not math.isfinite(exponent):
        raise InputError(f"exponent must be finite, got {exponent!r}")
    D = jnp.arange(1, N + 1) ** -float(exponent)
    return N * D / jnp.sum(D)


def anisotropic(
    N: int, P: int, *, exponent: float = 2 / 5, seed: int = 0, dtype: Any = jnp.float32, part: Stream = "data"
) -> Float[Array, "P N"]:
    """Return P samples of x ~ N(0, D), D diagonal with D_i ∝ i^(−exponent) and trace N."""
    deviations = jnp.sqrt(spectrum(N, exponent)).astype(dtype)
    return isotropic(N, P, seed=seed, dtype=dtype, part=part) * deviations[None, :]
