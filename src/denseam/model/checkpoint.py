"""A file of tensors with a plain JSON document inside (safetensors); nothing is ever unpickled.

A tensor may be distributed by rows over many devices, which may belong to several processes. Each process
then writes the rows that it holds into the same file, and reads those that it needs: no process ever holds
the whole tensor, and the file is the same as if a single process had written it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from denseam.errors import InputError, path_of
from denseam.files import ALONE, Alone, Writers, each

_KEY = "denseam"
_FORMAT = 1
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
    header, places, size = _layout(tensors, {_KEY: json.dumps({"format": _FORMAT, **document})})
    owner = os.getpid() if isinstance(writers, Alone) else "shared"
    temporary = target.with_name(f".{target.name}.{owner}.tmp")

    def begin() -> None:
        if writers.first:
            with open(temporary, "wb") as file:
                file.write(header)
                file.truncate(size)

    def fill() -> None:
        # Hosts whose rows share a page of a network file system must not write back bytes of each other. So
        # the file is opened only for writing, and nothing is buffered.
        unbuffered = 0 if isinstance(writers, Alone) else os.O_DSYNC
        with os.fdopen(os.open(temporary, os.O_WRONLY | unbuffered), "wb") as file:
            for name, tensor in tensors.items():
                row = math.prod(tensor.shape[1:]) * tensor.dtype.itemsize
                for first, rows in _held_here(tensor, writers):
                    file.seek(places[name] + first * row)
                    file.write(_bytes(rows))
            file.flush()
            os.fsync(file.fileno())

    def end() -> None:
        if writers.first:
            os.replace(temporary, target)

    try:
        for part in (begin, fill, end):
            each(writers, target, part)
    finally:
        if writers.first:
            temporary.unlink(missing_ok=True)
    return target


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

    def __init__(self, file: Any, document: dict[str, Any]) -> None:
        self._file = file
        self.document = document
        self.names = tuple(file.keys())

    def read(self, name: str, part: tuple[slice, ...] = ()) -> np.ndarray[Any, Any]:
        """Return a tensor, or a part of it; `KeyError` if there is none of that name."""
        self._require(name)
        return np.asarray(self._file.get_slice(name)[part] if part else self._file.get_tensor(name))

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        self._require(name)
        return tuple(self._file.get_slice(name).get_shape())

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
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(safe_open(source, framework="numpy"))
            metadata = file.metadata() or {}
        except (SafetensorError, ValueError, TypeError) as error:
            raise InputError(f"checkpoint {source}: not a readable safetensors file ({error})") from None
        try:
            document = json.loads(metadata[_KEY])
        except (KeyError, ValueError):
            raise InputError(
                f"checkpoint {source}: a safetensors file, but not one this library wrote"
            ) from None
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise InputError(f"checkpoint {source}: written in a format this version does not read")
        yield Opened(file, document)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """Return all tensors, and the document."""
    with opened(path) as file:
        return {name: file.read(name) for name in file.names}, file.document
