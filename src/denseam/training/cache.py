"""Compiled programs on disk, so that another process need not compile them again.

JAX reads and writes the entries. It never removes one by itself, and it neither uses nor replaces one that is
incomplete because its writer was killed. So the folder is tidied when a process begins to use it: incomplete
entries go, and the oldest ones go if all of them take more than MOST_BYTES. JAX can bound the folder, too
(`jax_compilation_cache_max_size`). But it then takes a lock for every entry, and writes nothing any more once
a process has died between the two files of an entry.

This module does not import JAX: nothing but training needs it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import zlib
from pathlib import Path

from denseam.ground.errors import path_of

#: The most that programs may take on disk when a process begins.
MOST_BYTES = 512 << 20
#: Programs that took less time to compile are not kept: reading them takes as long.
LEAST_SECONDS = 0.02
#: How JAX ends the name of an entry; and the file whose time is that of the last tidying.
_ENTRY, _TIDIED = "*-cache", ".tidied"


def keep_programs(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep compiled programs in a folder, and reuse those in it; return the folder.

    Programs are code: do not use a folder that others can write to.

    Parameters
    ----------
    folder
        By default the one that JAX was given (`JAX_COMPILATION_CACHE_DIR`), which is left as it is; or else
        `denseam/programs` in `$XDG_CACHE_HOME` or `~/.cache`. Without a home nothing is kept.
    """
    if folder is None and (given := _given()):
        return Path(given)
    place = _default() if folder is None else path_of("folder", folder).absolute()
    if place is None:
        return None
    settings = {
        "jax_compilation_cache_dir": str(place),
        "jax_persistent_cache_min_compile_time_secs": LEAST_SECONDS,
    }
    os.environ.update({name.upper(): str(value) for name, value in settings.items()})  # for workers, too
    if "jax" in sys.modules:
        for name, value in settings.items():
            sys.modules["jax"].config.update(name, value)
    with contextlib.suppress(OSError):  # a folder that cannot be written is not used
        tidy(place)
    return place


def use_no_programs() -> None:
    """Keep no programs in this process, and use none that were kept."""
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_compilation_cache", False)


def _given() -> str | None:
    """Return the folder that JAX has been given."""
    if "jax" in sys.modules:
        folder: str | None = sys.modules["jax"].config.jax_compilation_cache_dir
        return folder
    return os.environ.get("JAX_COMPILATION_CACHE_DIR")


def _default() -> Path | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.path.expanduser("~"), ".cache"))
    return cache / "denseam" / "programs" if cache.is_absolute() else None  # there may be no home


def tidy(folder: Path, most: int = MOST_BYTES) -> None:
    """Remove entries that are incomplete, and the oldest ones beyond the most bytes.

    An entry is looked into once: if it is younger than the last tidying. One that another process is writing
    may look incomplete; it is removed, and compiled again by whoever needs it next.
    """
    folder.mkdir(parents=True, exist_ok=True)
    now, mark = time.time(), folder / _TIDIED
    since = mark.stat().st_mtime if mark.exists() else 0.0
    entries: list[tuple[float, int, Path]] = []
    for path in folder.glob(_ENTRY):
        with contextlib.suppress(FileNotFoundError):  # another process tidies as well
            state = path.stat()
            if state.st_mtime >= since and not _complete(path.read_bytes()):
                path.unlink()
                continue
            entries.append((max(state.st_atime, state.st_mtime), state.st_size, path))
    left = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if left <= most:
            break
        path.unlink(missing_ok=True)
        left -= size
    mark.touch()
    os.utime(mark, (now, now))


def _complete(content: bytes) -> bool:
    """Return whether an entry is all there; only those compressed by zlib are looked into."""
    if content[:1] != b"\x78":
        return bool(content)
    try:
        zlib.decompress(content)
    except zlib.error:
        return False
    return True
