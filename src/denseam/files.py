"""Files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(target: Path, content: bytes) -> None:
    """Write to a temporary name, sync and rename: a crash leaves the old file, or none, never half of one."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:  # a full disk does not say of itself which file it was
        raise OSError(error.errno, error.strerror, str(target)) from None
    finally:
        temporary.unlink(missing_ok=True)
