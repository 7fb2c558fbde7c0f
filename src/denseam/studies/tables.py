"""Tables as columns: CSV, Parquet and JSON-lines files, rows, and frames of pandas, polars or Arrow."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from denseam.ground.errors import InputError, named
from denseam.ground.files import json_value

#: Column → its values, one for each row.
Table = Mapping[str, Sequence[Any]]

#: Suffixes of the files that are read.
SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".json")


def of_file(path: Path) -> Table:
    """Return the columns of a file, by its suffix; `.gz` may follow it."""
    packed = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if packed else path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"must be a folder of results or a table ({', '.join(SUFFIXES)}, maybe with .gz)")
    try:
        with gzip.open(path) if packed else open(path, "rb") as file:
            if suffix == ".parquet":
                return _of_parquet(file.read())
            text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("cannot be read: it is not text in UTF-8") from None
    except (OSError, EOFError) as error:
        raise InputError(f"cannot be read ({getattr(error, 'strerror', None) or _line(error)})") from None
    if suffix in (".csv", ".tsv"):
        return _of_csv(text, "\t" if suffix == ".tsv" else ",")
    return _of_json(text)


#: A text that a spreadsheet would take for a formula, maybe with the apostrophes that prevent it.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def without_formula(cell: str) -> str:
    """Return a text for CSV: an apostrophe before what a spreadsheet would compute. `_of_csv` removes it."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _with_formula(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def is_frame(source: object) -> bool:
    """Return whether something is a table in memory: a frame, or a mapping of columns."""
    return isinstance(source, Mapping) or any(
        hasattr(source, name) for name in ("__arrow_c_stream__", "__dataframe__")
    )


def of_frame(frame: Any) -> Table:
    """Return the columns of a frame, through Arrow: pandas and polars need not be known here."""
    import pyarrow as pa

    try:
        return _of_arrow(pa.table(frame))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(
            f"{type(frame).__name__} cannot be read as an Arrow table ({_line(error)})"
        ) from None


def of_rows(rows: Sequence[Any]) -> Table:
    """Return the columns of rows; a missing entry is None, and nested entries get names with dots."""
    if not all(isinstance(row, Mapping) for row in rows):
        raise InputError("every row must be an object, column → value")
    flat = [_flat(row) for row in rows]
    names = dict.fromkeys(name for row in flat for name in row)
    return {name: tuple(row.get(name) for row in flat) for name in names}


def _flat(row: Mapping[Any, Any], before: str = "") -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, value in row.items():
        inner = isinstance(value, Mapping)
        cells |= _flat(value, f"{before}{name}.") if inner else {f"{before}{name}": value}
    return cells


def _of_csv(text: str, delimiter: str) -> Table:
    try:
        read = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        lines = [[*map(_with_formula, line)] for line in read if line]
    except csv.Error as error:
        raise InputError(f"cannot be read as CSV ({_line(error)})") from None
    head, rows = [name.strip() for name in lines[0]] if lines else [], lines[1:]
    _refuse_repeated(head)
    for i, row in enumerate(rows):
        if len(row) != len(head):
            raise InputError(f"row {i + 1} has {len(row)} values, the header has {len(head)}")
    return dict(zip(head, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(head, ())


def _of_json(text: str) -> Table:
    """Read JSON lines, or one list of objects."""
    rows: list[Any] = []
    lines = [text] if text.lstrip().startswith("[") else text.splitlines()
    for i, line in enumerate(lines):
        with named(f"line {i + 1}"):
            content = json_value(line) if line.strip() else []
        rows += content if isinstance(content, list) else [content]
    return of_rows(rows)


def _of_parquet(content: bytes) -> Table:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return _of_arrow(parquet.read_table(pa.py_buffer(content), use_threads=False))
    except pa.ArrowException as error:
        raise InputError(f"is damaged or not a Parquet file ({_line(error)})") from None


def _of_arrow(table: Any) -> Table:
    import pyarrow as pa

    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    # An index of pandas without a name.
    names = [name for name in table.column_names if not name.startswith("__index_level_")]
    _refuse_repeated(names)
    return {name: tuple(table.column(name).to_pylist()) for name in names}


def _refuse_repeated(names: Sequence[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"must have different columns, got {repeated[0]!r} more than once")


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
