"""A file of tensors with a plain JSON document inside (safetensors); nothing is ever unpickled.

A tensor may be distributed by rows over many devices, which may belong to several processes. Each process
then writes the rows that it holds into the same file, and reads those that it needs: no process ever holds
the whole tensor, and the file is the same as if a single process had written it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from denseam.ground.errors import InputError, named, path_of, read_entries, table_of, whole_number
from denseam.ground.files import ALONE, Writers, json_table, write_parts

#: The entries of the metadata: the document, and the checksums. Files of early versions have no checksums.
_KEY, _SUMS = "denseam", "denseam.checksums"
_FORMAT = 1
_SUMS_ENTRIES = {"document": whole_number(), "tensors": table_of(whole_number())}
#: Numbers of a tensor that are in memory at a time while its checksum is computed.
_PIECE = 1 << 22
#: NumPy's names of types → those of safetensors.
_TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
    "bool": "BOOL",
}  # fmt: skip


def write(
    path: str | os.PathLike[str], tensors: Mapping[str, Any], document: Any, writers: Writers = ALONE
) -> Path:
    """Write tensors (NumPy or JAX) and document, all or nothing; all writers must call it."""
    target = path_of("path", path)
    text = json.dumps({"format": _FORMAT, **document})
    sums = {name: writers.total(_sum_here(tensor, writers)) for name, tensor in tensors.items()}
    metadata = {_KEY: text, _SUMS: json.dumps({"document": zlib.crc32(text.encode()), "tensors": sums})}
    header, places, size = _layout(tensors, metadata)

    def fill(file: BinaryIO) -> None:
        for name, tensor in tensors.items():
            row = math.prod(tensor.shape[1:]) * tensor.dtype.itemsize
            for first, rows in _held_here(tensor, writers):
                file.seek(places[name] + first * row)
                file.write(_bytes(rows))

    write_parts(target, fill, header=header, size=size, writers=writers)
    return target


def checksums(tensors: Mapping[str, Any]) -> dict[str, int]:
    """Return the checksum of each tensor, as a file from `write` holds it."""
    return {name: _sum_here(tensor, ALONE) for name, tensor in tensors.items()}


def _sum_here(tensor: Any, writers: Writers) -> int:
    """Return the sum of the checksums of the rows that this process writes.

    A sum, because the rows of one tensor may be spread over processes. The checksum of a row depends on its
    place, and on the type and the shape of the tensor, so that these cannot change unnoticed either.
    """
    kind = _kind_sum(_TYPES.get(tensor.dtype.name, ""), tensor.shape)
    return sum(_row_sums(kind, first, rows) for first, rows in _held_here(tensor, writers))


def _kind_sum(kind: str, shape: Sequence[int]) -> int:
    return zlib.crc32(json.dumps([kind, *shape]).encode())


def _row_sums(kind: int, first: int, rows: np.ndarray[Any, Any]) -> int:
    """Return the sum of the checksums of rows, the first of which has the index `first`."""
    plain = np.atleast_1d(rows)
    content, size = _bytes(plain), plain[:1].nbytes
    return sum(
        zlib.crc32(content[i * size : (i + 1) * size], (kind + first + i) % (1 << 32))
        for i in range(len(plain))
    )


def _bytes(rows: np.ndarray[Any, Any]) -> Any:
    """Return the bytes of an array, without a copy if they are laid out as in the file."""
    plain = np.ascontiguousarray(rows)
    return plain.astype(plain.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8).data


def _layout(tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> tuple[bytes, dict[str, int], int]:
    """Return the header of the file, the offset of each tensor in it, and the size of the file."""
    described: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in sorted(tensors, key=lambda n: (-tensors[n].dtype.itemsize, n)):  # wide ones first: aligned
        t = tensors[name]
        if t.dtype.name not in _TYPES:
            raise InputError(f"{name} has the type {t.dtype}, which a checkpoint cannot hold")
        begin, end = end, end + math.prod(t.shape) * t.dtype.itemsize
        entry = {"dtype": _TYPES[t.dtype.name], "shape": list(t.shape), "data_offsets": [begin, end]}
        described[name] = entry
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    header = len(text).to_bytes(8, "little") + text
    places = {name: len(header) + described[name]["data_offsets"][0] for name in tensors}
    return header, places, len(header) + end


def _held_here(tensor: Any, writers: Writers) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
    """Yield the parts of a tensor that this process writes: first row, rows."""
    if getattr(tensor, "is_fully_addressable", True) and not writers.first:
        return
    if not hasattr(tensor, "addressable_shards"):
        yield 0, tensor
        return
    for shard in tensor.addressable_shards:
        if shard.replica_id == 0:
            first = (shard.index[0].start or 0) if shard.index else 0
            assert shard.data.shape[1:] == tensor.shape[1:], "tensors are distributed by rows"
            yield first, np.asarray(shard.data)


class Opened:
    """An open file, read tensor by tensor."""

    def __init__(
        self, file: Any, where: str, document: dict[str, Any], sums: Mapping[str, int] | None
    ) -> None:
        self._file, self._where, self._sums = file, where, sums
        self.document = document
        self.names = tuple(file.keys())

    def read(self, name: str, part: tuple[slice, ...] = ()) -> np.ndarray[Any, Any]:
        """Return a tensor, whose checksum is compared, or a part of it; `KeyError` if there is none."""
        self._require(name)
        if part:
            return np.asarray(self._file.get_slice(name)[part])
        whole = np.asarray(self._file.get_tensor(name))
        self._compare(name, lambda kind: _row_sums(kind, 0, whole))
        return whole

    def verify(self) -> None:
        """Compare the checksums of all tensors, of which only a piece is in memory at a time."""
        for name in self.names:
            self._compare(name, functools.partial(self._summed, name))

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        self._require(name)
        return tuple(self._file.get_slice(name).get_shape())

    def _summed(self, name: str, kind: int) -> int:
        rows, shape = self._file.get_slice(name), self.shape(name)
        if not shape:
            return _row_sums(kind, 0, self._file.get_tensor(name))
        step = max(1, _PIECE // max(1, math.prod(shape[1:])))
        pieces = range(0, shape[0], step)
        return sum(_row_sums(kind, first, rows[first : min(first + step, shape[0])]) for first in pieces)

    def _compare(self, name: str, summed: Callable[[int], int]) -> None:
        if self._sums is None:
            return
        kind = _kind_sum(str(self._file.get_slice(name).get_dtype()), self.shape(name))
        if summed(kind) % (1 << 64) != self._sums.get(name):
            raise InputError(f"{self._where}: damaged: {name} is not what was written")

    def _require(self, name: str) -> None:
        if name not in self.names:
            raise KeyError(name)


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Opened]:
    """Open a file from `write`; an `InputError` names the file and what is wrong with it."""
    from safetensors import SafetensorError, safe_open

    source = path_of("checkpoint", path)
    if not source.is_file():
        raise InputError(f"checkpoint {source}: no such file")
    where = f"checkpoint {source}"
    with contextlib.ExitStack() as stack:
        with named(where):
            try:
                file = stack.enter_context(safe_open(source, framework="numpy"))
                metadata = file.metadata() or {}
            except (SafetensorError, ValueError, TypeError) as error:
                raise InputError(f"not a readable safetensors file ({error})") from None
            if _KEY not in metadata:
                raise InputError("a safetensors file, but not one this library wrote")
            document = json_table(metadata[_KEY])
            if document.get("format") != _FORMAT:
                raise InputError("written in a format this version does not read")
            sums = _checksums(metadata)
        yield Opened(file, where, document, sums)


def _checksums(metadata: Mapping[str, str]) -> dict[str, int] | None:
    """Check that of the document, and return those of the tensors; None for a file of an early version."""
    if _SUMS not in metadata:
        return None
    sums = read_entries(json_table(metadata[_SUMS]), _SUMS_ENTRIES)
    if sums["document"] != zlib.crc32(metadata[_KEY].encode()):
        raise InputError("damaged: its document is not what was written")
    tensors: dict[str, int] = sums["tensors"]
    return tensors


def read(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """Return all tensors, and the document."""
    with opened(path) as file:
        return {name: file.read(name) for name in file.names}, file.document
