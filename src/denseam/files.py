"""Files that are whole or not there, written by one process or by several together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, runtime_checkable


@runtime_checkable
class Writers(Protocol):
    """Processes that write one file together."""

    @property
    def first(self) -> bool:
        """Whether this is the first of them."""
        ...

    def wait(self) -> None:
        """Wait until all of them have come here."""
        ...


class Alone:
    """A single process."""

    first = True

    def wait(self) -> None:
        """Wait for nobody."""


ALONE = Alone()


@contextlib.contextmanager
def replacing(target: Path, writers: Writers = ALONE) -> Iterator[Path]:
    """Give a temporary name to write to, and rename it: a crash leaves the old file, or none, never half.

    All writers get the same name, and must have synced what they wrote. The file is there for all of them
    afterwards.
    """
    owner = os.getpid() if isinstance(writers, Alone) else "shared"
    temporary = target.with_name(f".{target.name}.{owner}.tmp")
    try:
        yield temporary
        writers.wait()
        if writers.first:
            os.replace(temporary, target)
        writers.wait()
    except OSError as error:  # a full disk does not say of itself which file it was
        raise OSError(error.errno, error.strerror, str(target)) from None
    finally:
        if writers.first:
            temporary.unlink(missing_ok=True)


def write_whole(target: Path, content: bytes) -> None:
    """Write a file: all of it, or nothing."""
    with replacing(target) as temporary, open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
