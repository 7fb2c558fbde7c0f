"""The samples of a file before any preparation, and what all readers of files need."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import math
import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NoReturn, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from denseam.ground.errors import InputError

PIECE = 1 << 20  # bytes that are unpacked at a time
SMALL = 16 << 20  # maximum bytes of unpacked data in memory


@runtime_checkable
class Bytes(Protocol):
    """A file, packed or not, that is read sequentially."""

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Raw:
    """The unprocessed samples of a file.

    Attributes
    ----------
    array
        Samples first: n×N vectors, n×h×w or n×h×w×channels images, in the type of the file; read-only,
        possibly a memory map.
    unit
        The value that counts as 1: 255 for images of 8-bit pixels, 65535 for image files of 16-bit pixels, 16
        for 'digits', otherwise 1.
    origin
        The path or name that the user gave.
    """

    array: npt.NDArray[Any]
    unit: float
    origin: str
    _files: tuple[Path, ...]
    _part: str = ""  # which array of a file that holds several
    _by_values: bool = False  # whether the digest is that of the array instead of the files

    @property
    def samples(self) -> int:
        """The number of samples."""
        return int(self.array.shape[0])

    @property
    def features(self) -> int:
        """The number of features of a sample; for images height × width × channels."""
        return math.prod(self.array.shape[1:])

    @property
    def image(self) -> tuple[int, int, int] | None:
        """Height, width and channels of images; None for vectors."""
        if self.array.ndim == 2:
            return None
        height, width, channels = (*self.array.shape[1:], 1)[:3]
        return height, width, channels

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the content: the same for equal files in different places.

        For one file it is the hash of its bytes; for several files, of their names and contents in order; for
        one of several arrays in a file, of the array's name and the file. For a Parquet file it is the hash
        of the `.npy` file that NumPy writes of the same array, so that both are the same data.
        """
        return f"sha256:{npy_sha256(self.array).hex()}" if self._by_values else self._digest_of_files

    def has_digest(self, digest: str) -> bool:
        """Return whether this data has a digest; earlier versions took that of the file for Parquet, too."""
        return digest == self.digest or (self._by_values and digest == self._digest_of_files)

    @functools.cached_property
    def _digest_of_files(self) -> str:
        with naming(self.origin):
            digests = [sha256(path) for path in self._files]
        if len(digests) == 1 and not self._part:
            return f"sha256:{digests[0].hex()}"
        total = hashlib.sha256()
        for path, digest in zip(self._files, digests, strict=True):
            label = self._part.encode() if self._part else os.fsencode(path.name)
            total.update(len(label).to_bytes(8, "big") + label + digest)
        return f"sha256:{total.hexdigest()}"

    def rows(self, which: npt.NDArray[Any] | slice, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
        """Return these samples × features, divided by the unit, in this floating type.

        Images are flattened row by row. Other samples are not read.
        """
        _check_length(self.array, self.origin)
        # Half-precision types cannot represent every pixel value, so the division comes first.
        wide = dtype if self.unit == 1 else np.result_type(dtype, np.float32)
        with np.errstate(over="ignore"):  # to infinity, which the check for finite data reports
            chosen = np.array(self.array[which], wide, order="C")
            chosen = chosen.reshape(len(chosen), self.features)
            if self.unit != 1:
                chosen /= self.unit
            return chosen.astype(dtype, copy=False)


def _check_length(array: npt.NDArray[Any], origin: str) -> None:
    """Refuse a map of a file that has become shorter: reading beyond its end would end the process."""
    mapped = getattr(array, "_mmap", None)
    if mapped is not None:
        begin = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY  # type: ignore[attr-defined]
        if mapped.size() < begin + len(mapped):
            raise InputError(f"data {origin}: the file has become shorter since it was opened")


@contextlib.contextmanager
def naming(origin: str) -> Iterator[None]:
    """Prefix each problem with the origin, and turn system errors into one line."""
    try:
        yield
    except InputError as error:
        raise InputError(*(f"data {origin}: {problem}" for problem in error.problems)) from None
    except OSError as error:
        raise InputError(f"data {origin}: cannot be read ({error.strerror or line_of(error)})") from None


def line_of(error: BaseException) -> str:
    """Return the first line of an error message."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def sha256(path: Path) -> bytes:
    """Return the hash of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def npy_sha256(array: npt.NDArray[Any]) -> bytes:
    """Return the hash of the bytes that `numpy.save` writes of an array."""
    total = hashlib.sha256()
    for piece in npy_pieces(array):
        total.update(piece)
    return total.digest()


def npy_pieces(array: npt.NDArray[Any]) -> Iterator[Any]:
    """Yield the bytes that `numpy.save` writes of an array: its header, and its rows in pieces."""
    header = io.BytesIO()
    form = np.lib.format
    form.write_array_header_1_0(header, form.header_data_from_array_1_0(array))
    yield header.getvalue()
    rows = max(1, PIECE // max(1, array[:1].nbytes))
    for first in range(0, len(array), rows):
        yield np.ascontiguousarray(array[first : first + rows]).data


def check(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Refuse an array that does not hold samples, before it is read."""
    if dtype.hasobject:
        raise InputError(
            "must be numbers of one type; this is ragged or holds Python objects (never unpickled)"
        )
    if dtype.kind not in "buif":
        raise InputError(f"must be real numbers or bool, got {dtype}")
    if len(shape) not in (2, 3, 4) or (len(shape) == 4 and shape[3] not in (1, 3, 4)):
        raise InputError(
            "must be samples × features or images, samples × height × width [× 1, 3 or 4 channels], "
            f"got shape {shape}"
        )
    if min(shape) < 1:
        raise InputError(f"must hold at least one sample and one feature, got shape {shape}")


def pixel(dtype: np.dtype[Any], shape: tuple[int, ...]) -> float:
    """Return the value that counts as 1."""
    return 255.0 if dtype == np.uint8 and len(shape) > 2 else 1.0


class Spool:
    """The bytes of an array: in memory if they are few, otherwise in an unnamed temporary file.

    It grows as data is written, so that a header that promises too much costs nothing.
    """

    def __init__(self) -> None:
        self.file = tempfile.SpooledTemporaryFile(max_size=SMALL)  # noqa: SIM115

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, piece: bytes | npt.NDArray[Any]) -> None:
        """Write bytes, or those of an array."""
        try:
            self.file.write(piece if isinstance(piece, bytes) else np.ascontiguousarray(piece).data)
        except OSError as error:
            raise InputError(
                f"cannot be unpacked in {tempfile.gettempdir()} ({error.strerror}); TMPDIR sets the folder"
            ) from None

    def pour(self, source: Bytes, size: int) -> None:
        """Write exactly this many bytes, which must be the rest of the source."""
        left = size
        while left and (piece := source.read(min(left, PIECE))):
            self.write(piece)
            left -= len(piece)
        if left or source.read(1):  # the last read verifies checksums
            wrong_size(size, size - left if left else None)

    def array(
        self, dtype: npt.DTypeLike, shape: tuple[int, ...], order: Literal["C", "F"] = "C"
    ) -> npt.NDArray[Any]:
        """Return the data as a read-only array; a memory map outlives the spool."""
        if self.file.tell() > SMALL:
            self.file.flush()
            return np.memmap(self.file, dtype, "r", shape=shape, order=order)
        self.file.seek(0)
        return np.frombuffer(self.file.read(), dtype).reshape(shape, order=order)


def wrong_size(promised: int, actual: int | None) -> NoReturn:
    """Refuse a file that does not hold as many bytes as its header says; None stands for more of them."""
    count = "more" if actual is None else f"{actual:,}"
    raise InputError(f"is damaged: its header promises {promised:,} bytes of data, there are {count}")


def rows_in_a_piece(dtype: np.dtype[Any], width: float) -> int:
    """Return the number of rows of this width in about 1 MiB."""
    return int(min(max(PIECE / (dtype.itemsize * max(width, 1)), 1), 1 << 16))


def quoted(names: Iterable[str]) -> str:
    """Return names as a list in a sentence, the first twenty of them."""
    every = [repr(name) for name in names]
    return ", ".join(every[:20]) + (f" and {len(every) - 20} more" if len(every) > 20 else "")
