"""Where the time of a sweep goes: compiling, training, writing."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator
from typing import Any

import jax.monitoring


@dataclasses.dataclass
class Times:
    """Seconds, summed over the threads that spent them.

    Attributes
    ----------
    compiling
        Making programs, or reading them from the cache.
    training
        Everything else that is done for runs: their data, their steps, their evaluation.
    writing
        Writing results.
    """

    compiling: float = 0.0
    training: float = 0.0
    writing: float = 0.0

    def __post_init__(self) -> None:
        """Make the lock: several threads add their times."""
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Count the time of this thread on runs, as compiling or as training."""
        began, before = time.perf_counter() - _here.waited, _here.compiled
        try:
            yield
        finally:
            compiling = _here.compiled - before
            with self._lock:
                self.compiling += compiling
                self.training += time.perf_counter() - _here.waited - began - compiling

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of this thread as no work: another thread does it."""
        began = time.perf_counter()
        try:
            yield
        finally:
            _here.waited += time.perf_counter() - began

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Count the time of this thread as writing."""
        began = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self.writing += time.perf_counter() - began

    def to_json(self) -> dict[str, float]:
        """Return the seconds by their names."""
        return {name: round(value, 3) for name, value in dataclasses.asdict(self).items()}


class _Here(threading.local):
    """The seconds that this thread has compiled, and waited for others."""

    compiled = 0.0
    waited = 0.0


_here = _Here()


def _count(event: str, duration_secs: float, **_: Any) -> None:
    if event.startswith("/jax/core/compile/"):  # tracing, lowering, compiling
        _here.compiled += duration_secs


jax.monitoring.register_event_duration_secs_listener(_count)
