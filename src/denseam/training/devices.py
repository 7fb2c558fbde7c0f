"""What the machine has: cores, memory, and about how fast it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import jax
import psutil

#: Share of the memory that the arrays of one program may take.
MEMORY_SHARE = 0.5
#: Rough sustained rates in FLOP/s of a core and of a GPU, and seconds to call one step: to choose how much
#: is done at a time.
RATES: Mapping[str, float] = {"cpu": 5e10, "gpu": 5e13}
CALLING: Mapping[str, float] = {"cpu": 2e-6, "gpu": 2e-5}


def platform_of(device: Any) -> str:
    """Return 'cpu', or 'gpu' for every kind of accelerator."""
    return "cpu" if device.platform == "cpu" else "gpu"


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory(platform: str) -> float:
    """Return the bytes of memory that a program may count on."""
    if platform != "cpu":
        stats = jax.devices()[0].memory_stats() or {}
        return MEMORY_SHARE * float(stats.get("bytes_limit", 8e9))
    return MEMORY_SHARE * float(psutil.virtual_memory().available)
