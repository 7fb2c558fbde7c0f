"""The one way to write a file, and to read a document.

A file is complete or absent, whoever writes it and whatever happens meanwhile. Its content goes to a
temporary file beside the target, is synced, and is renamed; then the folder is synced, since a power cut
could undo the rename. The temporary file is locked while it is written, so that the remains of a killed
process can be told from a file that is being written.

A document may come from anywhere. JSON and TOML pass here if they are small and flat enough; what their
entries must be is checked by `denseam.ground.errors.read_entries`, and those of a study by
`denseam.rules.fields`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import json
import os
import re
import time
import tomllib
import uuid
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable

from denseam.ground.errors import InputError, NotWritten

#: Files that a killed process may leave: temporary ones, and those that check or sign a folder.
_TEMPORARY, _SIGNS = re.compile(r"\..+\.tmp"), re.compile(r"\.(probe|sign|seen)-\w+")
#: Seconds after which a temporary file that is not locked is abandoned; and one that cannot be locked.
_UNLOCKED, _WITHOUT_LOCKS = 1.0, 3600.0
#: What a file system answers that cannot sync a folder.
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EISDIR, errno.EBADF)


@runtime_checkable
class Writers(Protocol):
    """Processes that write one file together."""

    @property
    def first(self) -> bool:
        """Whether this is the first of them."""

    def all_well(self, well: bool) -> bool:
        """Wait for all of them; return whether all are well."""

    def total(self, number: int) -> int:
        """Wait for all of them; return the sum of their numbers, modulo 2⁶⁴."""


class Alone:
    """A single process."""

    first = True

    def all_well(self, well: bool) -> bool:
        """Return `well`: there is no other process to wait for."""
        return well

    def total(self, number: int) -> int:
        """Return the number itself, modulo 2⁶⁴."""
        return number % (1 << 64)


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
        raise NotWritten(error.errno, error.strerror, str(target)) from None


def write_whole(target: Path, content: bytes) -> None:
    """Write a file: a crash leaves the old one or none, never half of one.

    A device or a pipe is written to; a rename would replace it.
    """
    if target.exists() and not target.is_file() and not target.is_dir():
        each(ALONE, target, lambda: _write_through(target, content))
        return
    write_parts(target, lambda file: _write_all(file, content))


def write_parts(
    target: Path,
    fill: Callable[[BinaryIO], None],
    *,
    header: bytes = b"",
    size: int = 0,
    writers: Writers = ALONE,
) -> None:
    """Write a file in parts; several processes may each write theirs.

    Parameters
    ----------
    target
        The file.
    fill
        Writes the part of this process into the open file, at any place.
    header, size
        The beginning of the file, and its size; the first process writes them before the others begin.
    writers
        The processes, all of which must call this.
    """
    target = Path(os.path.realpath(target))  # a link stays one, and its file is replaced
    owner = uuid.uuid4().hex[:12] if isinstance(writers, Alone) else "shared"
    temporary = target.with_name(f".{target.name}.{owner}.tmp")

    with contextlib.ExitStack() as held:

        def begin() -> None:
            if writers.first:
                _clear(target.parent, re.compile(rf"\.{re.escape(target.name)}\.\w+\.tmp"))
                file = held.enter_context(open(temporary, "wb", buffering=0))
                _lock(file.fileno())
                _write_all(file, header)
                file.truncate(size)

        def write() -> None:
            # Hosts whose rows share a page of a network file system must not write back bytes of each other.
            # So the file is opened only for writing, and nothing is buffered.
            unbuffered = 0 if isinstance(writers, Alone) else os.O_DSYNC
            with os.fdopen(os.open(temporary, os.O_WRONLY | unbuffered), "wb") as file:
                file.seek(len(header))
                fill(file)
                file.flush()
                os.fsync(file.fileno())

        def end() -> None:
            if writers.first:
                os.replace(temporary, target)
                sync_folder(target.parent)

        try:
            for part in (begin, write, end):
                each(writers, target, part)
        finally:
            if writers.first:
                temporary.unlink(missing_ok=True)


def _write_through(target: Path, content: bytes) -> None:
    with open(target, "wb", buffering=0) as file:
        _write_all(file, content)


def _write_all(file: BinaryIO, content: bytes) -> None:
    """Write all bytes; one call may write fewer of them."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder, where the file system can."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder that can be written, and clear it of what killed processes have left."""
    folder.mkdir(parents=True, exist_ok=True)
    clear_leftovers(folder)
    probe = folder / f".probe-{uuid.uuid4().hex}"
    try:
        probe.write_bytes(b"x" * 4096)
    finally:
        probe.unlink(missing_ok=True)


def clear_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes have left in a folder."""
    _clear(folder, _TEMPORARY)
    _clear(folder, _SIGNS)


def _clear(folder: Path, names: re.Pattern[str]) -> None:
    with os.scandir(folder) as entries:
        left = [folder / entry.name for entry in entries if names.fullmatch(entry.name)]
    for path in left:
        with contextlib.suppress(OSError):  # it is gone already, or belongs to somebody else
            if _is_abandoned(path):
                path.unlink()


def _is_abandoned(path: Path) -> bool:
    """Return whether no process writes or needs a file any more."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        age = time.time() - os.fstat(descriptor).st_mtime
        locks = _TEMPORARY.fullmatch(path.name) and _lock(descriptor)
        return age > (_UNLOCKED if locks else _WITHOUT_LOCKS)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a file until it is closed; return whether the file system can."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


# --- documents -------------------------------------------------------------------------------------

#: The largest document, in bytes, and the deepest: those of this library have five levels.
MOST_BYTES, MOST_LEVELS = 64 << 20, 32


def text_of(path: Path) -> str:
    """Return a text file; refuse one that is not UTF-8, or too large for a document."""
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise InputError(f"larger than {MOST_BYTES >> 20} MiB, so not a document of this library")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not text in UTF-8 (byte {error.start})") from None


def json_value(text: str | bytes) -> Any:
    """Return the value of a JSON text."""
    return _parsed(text, json.loads, "JSON")


def json_table(text: str | bytes) -> dict[str, Any]:
    """Return the table in a JSON text."""
    value = json_value(text)
    if not isinstance(value, dict):
        raise InputError("not a document of this library")
    return value


def toml_table(text: str) -> dict[str, Any]:
    """Return the table in a TOML text."""
    table: dict[str, Any] = _parsed(text, tomllib.loads, "TOML")
    return table


def _parsed(text: Any, parse: Callable[[Any], Any], form: str) -> Any:
    """Return the value of a text; refuse one that is not of this form, or nested too deeply."""
    try:
        value = parse(text)
    except RecursionError:
        raise InputError("nested too deeply") from None
    except ValueError as error:
        raise InputError(f"not {form} ({error})") from None
    _check_nesting(value)
    return value


def _check_nesting(value: Any) -> None:
    level = [value]
    for _ in range(MOST_LEVELS):
        inner = [v for v in level if isinstance(v, dict | list)]
        level = [w for v in inner for w in (v.values() if isinstance(v, dict) else v)]
        if not level:
            return
    raise InputError("nested too deeply")


def read_arrays(path: Path) -> dict[str, Any]:
    """Return the arrays in a `.npz` file; their checksums are compared, which `numpy.load` does not do."""
    from numpy.lib import format as npy

    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): archive.read(info) for info in archive.infolist()}
        return {name: npy.read_array(io.BytesIO(m), allow_pickle=False) for name, m in members.items()}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"damaged, or not a .npz file ({error})") from None
