"""Files that are complete or absent, written by one process or by several together."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable


@runtime_checkable
class Writers(Protocol):
    """Processes that write one file together."""

    @property
    def first(self) -> bool:
        """Whether this is the first of them."""

    def all_well(self, well: bool) -> bool:
        """Wait for all of them; return whether all are well."""


class Alone:
    """A single process."""

    first = True

    def all_well(self, well: bool) -> bool:
        """Return `well`: there is no other process to wait for."""
        return well


ALONE = Alone()


def each(writers: Writers, target: Path, part: Callable[[], None]) -> None:
    """Let every process do its part, and wait until all have done it. If one of them fails, all fail."""
    error: OSError | None = None
    try:
        part()
    except OSError as raised:
        error = raised
    if not writers.all_well(error is None):
        error = error or OSError(errno.EIO, "another process could not write it")
        # The error of a full disk does not name the file.
        raise OSError(error.errno, error.strerror, str(target)) from None


def write_whole(target: Path, content: bytes) -> None:
    """Write to a temporary file, sync and rename: a crash leaves the old file or none, never half of one."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")

    def write() -> None:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)

    try:
        each(ALONE, target, write)
    finally:
        temporary.unlink(missing_ok=True)
