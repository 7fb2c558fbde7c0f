"""Processes that train one model together: joining, agreeing on a value, sharing a folder."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from denseam.ground.errors import InputError, ProcessLost, collecting, refuse
from denseam.ground.files import ALONE, Writers, each, make_folder

#: Seconds without an answer after which JAX takes a process for dead, and aborts the others.
HEARTBEAT = 30

#: A value that processes agree on.
Plain = TypeVar("Plain", bool, int, float)
Made = TypeVar("Made")


def check_processes(coordinator: str, processes: int | None = None, process: int | None = None) -> None:
    """Refuse arguments of `join_processes` that cannot be meant."""
    auto = coordinator == "auto"
    problems = []
    if not auto and not re.fullmatch(r".+:\d+", coordinator):
        problems.append("coordinator must be HOST:PORT or auto")
    if not auto and (processes is None or process is None):
        problems.append("processes and process are needed: how many there are, and which one this is")
    if processes is not None and process is not None and not 0 <= process < processes:
        problems.append(f"process must be at least 0 and below processes = {processes}, got {process}")
    refuse(problems)


def join_processes(coordinator: str, processes: int | None = None, process: int | None = None) -> None:
    """Let this process train together with others (`jax.distributed`).

    Parameters
    ----------
    coordinator
        HOST:PORT of the first process, or 'auto' if the cluster's scheduler provides it (Slurm, MPI, TPUs).
    processes, process
        The number of processes, and the index of this one.
    """
    check_processes(coordinator, processes, process)
    auto = coordinator == "auto"
    # JAX would only note SIGTERM, for a service that is not used here, and train on until it is killed.
    jax.config.update("jax_enable_preemption_service", False)  # type: ignore[no-untyped-call]
    try:
        with stdout_apart():
            if auto:
                jax.distributed.initialize(heartbeat_timeout_seconds=HEARTBEAT)
            else:
                jax.distributed.initialize(
                    coordinator, processes, process,
                    initialization_timeout=60, heartbeat_timeout_seconds=HEARTBEAT,
                )  # fmt: skip
            jax.devices()
    except (RuntimeError, ValueError) as error:
        raise InputError(f"coordinator {coordinator}: {' '.join(str(error).split())[:200]}") from None


def leave_processes() -> None:
    """Wait until all processes leave, if this one has joined them."""
    if jax.distributed.is_initialized():
        with contextlib.suppress(RuntimeError):
            jax.distributed.shutdown()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def joined_processes() -> Iterator[None]:
    """Turn the error of a step that another process no longer takes part in into `ProcessLost`.

    JAX may notice first, and abort this process. Python cannot prevent that: the command line trains in a
    child (`denseam.cli.child`), whose parent reports it.
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if jax.process_count() == 1:
            raise
        raise ProcessLost(" ".join(str(error).split())[:100]) from None


class Processes:
    """The processes that `jax.distributed` has joined."""

    @property
    def first(self) -> bool:
        """Whether this is the first of them."""
        return jax.process_index() == 0

    def all_well(self, well: bool) -> bool:
        """Wait for all of them; return whether all are well."""
        return bool(np.all(multihost_utils.process_allgather(np.asarray(well))))

    def total(self, number: int) -> int:
        """Wait for all of them; return the sum of their numbers, modulo 2⁶⁴."""
        # As bytes: without x64 JAX has no integers above 2³¹.
        own = np.frombuffer((number % (1 << 64)).to_bytes(8, "little"), np.uint8)
        rows = np.asarray(multihost_utils.process_allgather(own), np.uint8).reshape(-1, 8)
        return sum(int.from_bytes(row.tobytes(), "little") for row in rows) % (1 << 64)


def writers() -> Writers:
    """Return the processes that train together."""
    return ALONE if jax.process_count() == 1 else Processes()


def as_the_first_says(value: Plain) -> Plain:
    """Return the first process's value, so that all decide alike; its type must be the same everywhere."""
    if jax.process_count() == 1:
        return value
    # As bytes: without x64 JAX has neither integers above 2³¹ nor fractions of more than 24 bits.
    own = np.asarray(value)
    first = multihost_utils.broadcast_one_to_all(np.frombuffer(own.tobytes(), np.uint8))
    theirs: Plain = np.frombuffer(np.asarray(first, np.uint8).tobytes(), own.dtype)[0].item()
    return theirs


def accepted_by_all(make: Callable[[], Made]) -> Made:
    """Return what `make` returns; if it is refused in one process, it is in all of them."""
    together, made = writers(), None
    problems: list[str] = []
    with collecting(problems):
        made = make()
    with joined_processes():
        well = together.all_well(not problems)
    if not well and not problems:
        problems = ["another process refuses its input"]
    refuse(problems)
    assert made is not None
    return made


def largest(value: int) -> int:
    """Return the largest value of all processes; it must fit into 32 bits."""
    if jax.process_count() == 1:
        return value
    return int(np.max(multihost_utils.process_allgather(np.asarray(value, np.int32))))


def check_folder(folder: Path) -> None:
    """Create a folder; refuse one that is not writable or not the same for all processes."""
    together, number = writers(), as_the_first_says(int.from_bytes(os.urandom(2), "big"))
    sign = folder / f".sign-{number}"

    def probe() -> None:
        make_folder(folder)
        if together.first:
            sign.touch()

    try:
        each(together, folder, probe)
        if not together.all_well(sign.exists()):
            raise InputError(
                f"out {folder}: not the same folder for all processes; use one that all of them see"
            )
    except OSError as error:
        raise InputError(f"out {folder}: cannot be written ({error.strerror})") from None
    finally:
        if together.first:
            sign.unlink(missing_ok=True)


@contextlib.contextmanager
def stdout_apart() -> Iterator[None]:
    """Redirect standard output to standard error: gloo prints there when processes join."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
