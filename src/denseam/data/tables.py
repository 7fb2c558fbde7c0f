"""Columns of Arrow's tables as samples, and Parquet files, which are read as such."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from denseam.data.raw import Raw, Spool, check, line_of, pixel, quoted, rows_in_a_piece
from denseam.ground.errors import InputError

_OPEN = 16  # columns of a Parquet file that are open at a time; each holds a page or two of 1 MB


def read_parquet(path: Path, key: str | None, origin: str) -> Raw:
    """Return the samples in a Parquet file: a column for each feature, or a column of lists."""
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
        raise InputError(f"is damaged or not a Parquet file ({line_of(error)})") from None
    finally:
        pa.default_memory_pool().release_unused()


def _columns(file: Any, path: Path, key: str | None, origin: str) -> Raw:
    fields = {f.name: f.type for f in file.schema_arrow if not f.name.startswith("__index_level_")}
    if len(fields) == 0 or file.metadata.num_rows == 0:
        raise InputError("must hold at least one sample and one feature")
    chosen = choose(fields, path, key)
    vectors = is_list(fields[chosen[0]])
    dtype = type_of(fields, chosen, path)
    with Spool() as spool:
        shape = _vectors(file, chosen[0], dtype, spool) if vectors else _table(file, chosen, dtype, spool)
        check(dtype, shape)
        array = spool.array(dtype, shape)
    part = "" if len(fields) == 1 or (key is None and not vectors) else chosen[0]
    return Raw(array, pixel(dtype, shape), origin, (path,), part, _by_values=True)


def type_of(fields: Mapping[str, Any], chosen: Sequence[str], path: object) -> np.dtype[Any]:
    """Return the type that holds all numbers of the chosen columns; refuse columns of something else."""
    leaves = [leaf_of(fields[name]) for name in chosen]
    for name, kind in zip(chosen, leaves, strict=True):
        if not _is_number(kind):
            raise InputError(
                f"column {name!r} must be numbers or lists of numbers, got {fields[name]}; "
                f"{path}:column reads one column only"
            )
    return np.result_type(*(kind.to_pandas_dtype() for kind in leaves))


def choose(fields: Mapping[str, Any], path: object, key: str | None) -> list[str]:
    """Return the columns to read: that of the key, the only column of lists, or all."""
    if key is not None:
        if key not in fields:
            raise InputError(f"has no column {key!r}, it holds {quoted(fields)}")
        return [key]
    lists = [name for name, kind in fields.items() if is_list(kind)]
    if len(lists) > 1:
        raise InputError(f"holds the lists {quoted(lists)}; say which, as in {path}:{lists[0]}")
    return lists or list(fields)


def _vectors(file: Any, name: str, dtype: np.dtype[Any], spool: Spool) -> tuple[int, ...]:
    """Write a column of lists, and return the number of rows and the lengths of the lists."""
    # The length of the lists is estimated by their mean length in the first row group.
    group = file.metadata.row_group(0)
    leaves = [group.column(i) for i in range(group.num_columns)]
    values = sum(leaf.num_values for leaf in leaves if leaf.path_in_schema.startswith(f"{name}."))
    batch = rows_in_a_piece(dtype, values / max(group.num_rows, 1))
    rows, lengths = 0, ()
    for (column,) in _batches(file, [name], batch=batch):
        block = stack(column, name, rows, lengths)
        spool.write(block)
        rows, lengths = rows + len(block), block.shape[1:]
    return rows, *lengths


def _table(file: Any, names: list[str], dtype: np.dtype[Any], spool: Spool) -> tuple[int, int]:
    """Write columns of numbers, and return the numbers of rows and columns.

    Only `_OPEN` columns are open at a time. So each row group is first stored aside, a few columns at a time,
    and then assembled row by row.
    """
    some = [names[i : i + _OPEN] for i in range(0, len(names), _OPEN)]
    total = 0
    for number in range(file.num_row_groups):
        rows = file.metadata.row_group(number).num_rows
        with Spool() as aside:
            for part in some:
                for columns in _batches(
                    file, part, batch=rows_in_a_piece(dtype, len(part)), row_groups=[number]
                ):
                    numbers = [column.to_numpy(zero_copy_only=False) for column in columns]
                    (aside if len(some) > 1 else spool).write(np.stack(numbers, 1, dtype=dtype))
            if len(some) > 1 and rows:
                _interleave(aside.array(dtype, (rows * len(names),)), rows, map(len, some), spool)
        total += rows
    return total, len(names)


def _interleave(aside: npt.NDArray[Any], rows: int, widths: Iterable[int], spool: Spool) -> None:
    """Write row by row what is stored as consecutive tables of these widths."""
    tables, start = [], 0
    for width in widths:
        tables.append(aside[start : start + rows * width].reshape(rows, width))
        start += rows * width
    step = rows_in_a_piece(aside.dtype, start / rows)
    for row in range(0, rows, step):
        spool.write(np.concatenate([table[row : row + step] for table in tables], 1))


def _batches(file: Any, names: list[str], *, batch: int, **options: Any) -> Iterator[list[Any]]:
    """Yield these columns a few rows at a time."""
    for rows in file.iter_batches(batch, columns=names, use_threads=False, **options):
        if rows.num_rows:
            yield whole_columns(rows, names)


def whole_columns(rows: Any, names: Sequence[str]) -> list[Any]:
    """Return these columns of a batch of rows; refuse nulls."""
    columns = [rows.column(rows.schema.get_field_index(name)) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.null_count:
            raise InputError(f"column {name!r} must hold no nulls, got {column.null_count} of them")
    return columns


def is_list(kind: Any) -> bool:
    """Return whether a type is that of lists."""
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def leaf_of(kind: Any) -> Any:
    """Return the type of what lists hold in the end; a type itself if it is not that of lists."""
    while is_list(kind):
        kind = kind.value_type
    return kind


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def stack(column: Any, name: str, before: int, lengths: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return a column of lists, maybe of lists, as an array.

    All lists of a level must be as long as its first in the file: `lengths`, which are not known for the
    first rows. `before` is the number of rows before these.
    """
    from pyarrow import compute

    shape: tuple[int, ...] = ()
    while is_list(column.type):
        inside = math.prod(shape)  # lists of this level in a row
        present = compute.list_value_length(column).to_numpy(zero_copy_only=False)
        length = lengths[len(shape)] if lengths else int(present[0])
        if length == 0:
            raise InputError(f"column {name!r} must hold at least one feature, row 0 is an empty list")
        different = np.flatnonzero(present != length)
        if len(different):
            row = before + different[0] // inside
            raise InputError(
                f"column {name!r} is ragged: row {row} has {present[different[0]]} values, row 0 has {length}"
            )
        shape, column = (*shape, length), column.flatten()
        if column.null_count:
            raise InputError(f"column {name!r} must hold no nulls, got {column.null_count} of them")
    block: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False).reshape(-1, *shape)
    return block
