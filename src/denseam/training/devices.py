"""What the machine has: cores and memory."""

from __future__ import annotations

import os

import jax
import psutil

#: Share of the memory that the arrays of one program may take.
MEMORY_SHARE = 0.5


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory(platform: str) -> float:
    """Return the bytes of memory that a program may count on."""
    if platform != "cpu":
        stats = jax.devices()[0].memory_stats() or {}
        return MEMORY_SHARE * float(stats.get("bytes_limit", 8e9))
    return MEMORY_SHARE * float(psutil.virtual_memory().available)
