"""The precision of a training: the type of its numbers, and how their products are computed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from denseam.errors import InputError

#: Precision → how XLA computes products of matrices.
MATMUL: Mapping[str, str] = {
    "float32": "highest",
    "float64": "highest",
    "tf32": "tensorfloat32",
    "bf16": "BF16_BF16_F32",
}


def check_precision(precision: str, platform: str) -> None:
    """Refuse a precision that the device does not have."""
    if platform == "cpu" and precision in ("tf32", "bf16"):
        raise InputError(f"precision {precision!r} needs a GPU; on the CPU it must be 'float32' or 'float64'")


def dtype_of(precision: str) -> Any:
    """Return the type of parameters and samples."""
    return jnp.float64 if precision == "float64" else jnp.float32


def numbers(precision: str) -> Any:
    """Return the context in which arrays of this precision can be made; threads do not inherit it."""
    return jax.enable_x64(True) if precision == "float64" else contextlib.nullcontext()


def products(precision: str) -> Any:
    """Return the context in which products are computed in this precision; threads do not inherit it."""
    return jax.default_matmul_precision(MATMUL[precision])
