"""The devices: their cores, memory, approximate speed, and the precision they compute in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import psutil
from jaxtyping import Array

from denseam.ground.errors import InputError

#: Share of the memory that the arrays of one program may take.
MEMORY_SHARE = 0.5
#: Rough sustained rates of a core and of a GPU in FLOP/s, and the seconds to call one step. They decide how
#: much is done at a time.
RATES: Mapping[str, float] = {"cpu": 5e10, "gpu": 5e13}
CALLING: Mapping[str, float] = {"cpu": 2e-6, "gpu": 2e-5}
#: Seconds that a run takes besides its steps: its model, its evaluation, its record.
PREPARING = 4e-3
#: Precision → how XLA computes products of matrices.
MATMUL: Mapping[str, str] = {
    "float32": "highest",
    "float64": "highest",
    "tf32": "tensorfloat32",
    "bf16": "BF16_BF16_F32",
}


def platform_of(device: Any) -> str:
    """Return 'cpu', or 'gpu' for every kind of accelerator."""
    return "cpu" if device.platform == "cpu" else "gpu"


def here() -> str:
    """Return the platform of the default device."""
    return platform_of(jax.devices()[0])


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory(platform: str) -> float:
    """Return the bytes of memory that a program may count on."""
    if platform != "cpu":
        stats = jax.devices()[0].memory_stats() or {}
        return MEMORY_SHARE * float(stats.get("bytes_limit", 8e9))
    return MEMORY_SHARE * float(psutil.virtual_memory().available)


def check_precision(precision: str, platform: str) -> None:
    """Refuse a precision that the device does not support."""
    if platform == "cpu" and precision in ("tf32", "bf16"):
        raise InputError(f"precision {precision!r} needs a GPU; on the CPU it must be 'float32' or 'float64'")


def dtype_of(precision: str) -> Any:
    """Return the type of parameters and samples."""
    return jnp.float64 if precision == "float64" else jnp.float32


def numbers(precision: str) -> Any:
    """Return the context that allows arrays of this precision; threads do not inherit it."""
    return jax.enable_x64(True) if precision == "float64" else contextlib.nullcontext()


def products(precision: str) -> Any:
    """Return the context that computes products in this precision; threads do not inherit it."""
    return jax.default_matmul_precision(MATMUL[precision])


def for_products(W: Array) -> Array | None:
    """Return W in the type that training multiplies in, or None if that is its own.

    In the context of `products` for bf16 it is bfloat16: the operands of products and the activations that
    wait for the backward pass have half as many bytes, while sums, gradients, weights and moments stay
    as they are.
    """
    low = jax.config.jax_default_matmul_precision == MATMUL["bf16"]  # type: ignore[attr-defined]
    return W.astype(jnp.bfloat16) if low else None
