"""What a figure measures besides runs of studies: made once, and kept as arrays in a file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from denseam.ground.errors import InputError
from denseam.ground.files import read_arrays, write_whole
from denseam.paper.readings import Reading
from denseam.paper.sizes import Size
from denseam.training.progress import Progress

FOLDER = "examples"


class Measurement:
    """A measurement whose result is a few arrays."""

    @property
    def pinned(self) -> bool:
        """Whether it has one reading alone."""
        return False

    def key(self, size: Size, reading: Reading) -> str:
        """Return a hash of everything that changes the result."""
        raise NotImplementedError

    def make(self, size: Size, reading: Reading, out: Path, progress: Progress | None = None) -> None:
        """Measure, and write the result."""
        raise NotImplementedError

    def path(self, size: Size, reading: Reading, out: Path) -> Path:
        """Return the file of the result."""
        return out / FOLDER / f"{self.key(size, reading)}.npz"

    def read(self, size: Size, reading: Reading, out: Path) -> dict[str, Any] | None:
        """Return the result, or None if there is none yet."""
        path = self.path(size, reading, out)
        if not path.is_file():
            return None
        try:
            return read_arrays(path)
        except (OSError, InputError) as error:
            raise InputError(f"{path}: {error}; delete the file to make it again") from None

    def write(self, size: Size, reading: Reading, out: Path, arrays: dict[str, Any]) -> None:
        """Write the result."""
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)
        path = self.path(size, reading, out)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content.getvalue())
