"""A sweep of any tool as records.

A table has one row for each run. Its columns are the size of the model, a hyperparameter, a seed and the
final loss (`denseam.studies.columns` finds them). The records keep the names of these columns, so that a
verdict speaks of `lr` and `width`. A run with an infinite, undefined or missing loss has diverged.

A table that `denseam export` wrote has the columns of our own records, and becomes what it was.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from denseam.ground.errors import InputError, collecting, refuse, shown, typed
from denseam.studies.cells import check_present_cells
from denseam.studies.columns import assign, check_roles
from denseam.studies.description import AXES
from denseam.studies.records import COLUMNS, LATER, Records, Row, with_defaults
from denseam.studies.store import Store
from denseam.studies.tables import Table, is_frame, of_file, of_frame, of_rows

#: Columns that only records of our own have together.
_OWN = ("study", "study_id", "scale", "regime", "seed", "status", "final_mse", "zero_mse", "swept", "eta0")
#: Those without which a run of ours cannot be judged.
_NEEDED = ("scale", "seed", "eta0")
#: Names that a foreign hyperparameter cannot have: the other columns of a record.
_TAKEN = {*COLUMNS, "size_name", "loss_name"} - {*AXES}

_MISSING = {"", "na", "n/a", "nan", "null", "none"}
_TRUE, _FALSE = {"true", "yes", "1", "1.0"}, {"false", "no", "0", "0.0"}
_DIVERGED = {"diverged", "exploded", "unstable", "nan", "inf"}
_FINISHED = {
    "finished",
    "complete",
    "completed",
    "converged",
    "done",
    "ok",
    "success",
    "succeeded",
    "terminated",
}
#: Values that differ by a smaller share are one value: tools write different numbers of digits.
_SAME = 1e-6
#: Below this, a float that has no fraction is one whole number.
_EXACT = 2.0**53


def records_of(source: Any, *, axis: str | None = None, columns: Mapping[str, str] | None = None) -> Records:
    """Return records from wherever they are.

    Parameters
    ----------
    source
        Records or their rows; the path of a folder of results or of a table; or a table: a frame of pandas
        or polars, anything else with Arrow's `__arrow_c_stream__`, a mapping of columns, or a list of rows.
    axis
        The column of the hyperparameter in a table; by default it is recognised by its name.
    columns
        The other columns of a table by what they hold: 'size', 'loss', 'seed', 'diverged' or 'study'.
    """
    refuse(typed(Mapping, "a mapping of what a column holds to its name", columns=columns or {}))
    given = dict(columns or {})
    check_roles(given)
    if isinstance(source, Records):
        return _without(given, source)
    if isinstance(source, str | os.PathLike):
        return _without(given, Store(source).read()) if os.path.isdir(source) else _read(source, axis, given)
    problems: list[str] = []
    with collecting(problems, "table: "):
        if is_frame(source):
            return _records(of_frame(source), "table", axis, given)
        rows = _rows(source)
        if rows and all("key" in row for row in rows):
            return _without(given, Records(rows))
        return _records(of_rows(rows), "table", axis, given)
    raise InputError(*problems)


def _read(path: str | os.PathLike[str], axis: str | None, given: dict[str, str]) -> Records:
    """Return the records in a file."""
    file, problems = Path(path), list[str]()
    if not file.exists():
        raise InputError(f"{path}: no such folder or table")
    with collecting(problems, f"table {path}: "):
        return _records(of_file(file), file.name.partition(".")[0] or file.name, axis, given)
    raise InputError(*problems)


def _rows(source: Any) -> list[Row]:
    rows = list(source) if isinstance(source, Iterable) else None
    if rows is None or not all(isinstance(row, Mapping) for row in rows):
        raise InputError(
            "must be records, a folder of results, or a table (a file, a frame, or rows), "
            f"got {type(source).__name__}"
        )
    return [dict(row) for row in rows]


def _without(given: Mapping[str, str], records: Records) -> Records:
    """Return records of our own; their columns are known."""
    if given:
        raise InputError(
            f"{', '.join(given)}: only a table needs names of columns; these are denseam's own runs"
        )
    return records


def _records(table: Table, name: str, axis: str | None, given: dict[str, str]) -> Records:
    if not table or not len(next(iter(table.values()))):
        raise InputError("is empty: there is no run to judge")
    if not given and all(column in table for column in _OWN):
        return _own(table)
    single = {c: cells for c, cells in table.items() if not any(isinstance(cell, list) for cell in cells)}
    return _foreign(single, name, assign(single, given | ({} if axis is None else {"axis": axis})))


# --- tables of other tools -------------------------------------------------------------------------------


def _foreign(table: Table, name: str, roles: Mapping[str, str]) -> Records:
    size, axis, loss = (roles[role] for role in ("size", "axis", "loss"))
    problems: list[str] = []
    if axis in _TAKEN or "," in axis:
        problems.append(f"axis: a hyperparameter cannot be called {axis!r} here; rename its column")
    count = len(table[size])
    cells: dict[str, Sequence[Any]] = {
        "study": [name] * count, "seed": [0] * count, "diverged": [False] * count
    }  # fmt: skip
    for role, column in roles.items():
        with collecting(problems):
            cells[role] = _READERS[role](table[column], column)
    refuse(problems)
    runs = list(zip(*(cells[role] for role in ("study", "size", "axis", "seed")), strict=True))
    _refuse_repeated(runs, table, roles)
    lost = [gone or math.isinf(v) for gone, v in zip(cells["diverged"], cells["loss"], strict=True)]
    return Records(
        {
            "key": f"row {i + 1}, {name}", "study": study, "study_id": "", "scale": scale, "regime": None,
            "seed": seed, "status": "diverged" if lost[i] else "finished",
            "final_mse": math.inf if lost[i] else cells["loss"][i], "zero_mse": None,
            "swept": axis, axis: value, "size_name": size, "loss_name": loss,
        }
        for i, (study, scale, value, seed) in enumerate(runs)
    )  # fmt: skip


def _numbers(cells: Sequence[Any], column: str, requirement: str = "numbers") -> list[float | None]:
    """Return the numbers of a column, None where there is none; refuse text and dates."""
    numbers: list[float | None] = []
    for i, cell in enumerate(cells):
        missing = cell is None or (isinstance(cell, str) and cell.strip().lower() in _MISSING)
        try:
            if isinstance(cell, bool):
                raise TypeError
            numbers.append(None if missing else float(cell))
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"{column} must be {requirement}, got {shown(cell)} in row {i + 1}") from None
    return numbers


def _positive(cells: Sequence[Any], column: str) -> list[float]:
    requirement = "numbers above 0 and finite"
    numbers = [math.nan if v is None else v for v in _numbers(cells, column, requirement)]
    for i, number in enumerate(numbers):
        if not 0 < number < math.inf:
            raise InputError(f"{column} must be {requirement}, got {cells[i]!r} in row {i + 1}")
    return numbers


def _sizes(cells: Sequence[Any], column: str) -> list[float]:
    sizes = [int(v) if v.is_integer() and v < _EXACT else v for v in _positive(cells, column)]
    if len(set(sizes)) < 2:
        raise InputError(f"{column} must have several sizes to compare, got only {sizes[0]:g}")
    return sizes


def _values(cells: Sequence[Any], column: str) -> list[float]:
    """Return the values of the hyperparameter; those that differ only by rounding become one."""
    values = _positive(cells, column)
    known: list[float] = []
    merged: dict[float, float] = {}
    for value in sorted(set(values)):
        if not known or value > known[-1] * (1 + _SAME):
            known.append(value)
        merged[value] = known[-1]
    if len(known) < 2:
        raise InputError(f"{column} must have several values to compare, got only {known[0]:g}")
    return [merged[value] for value in values]


def _losses(cells: Sequence[Any], column: str) -> list[float]:
    """Return the losses; one that is missing or not finite is infinite."""
    losses = [math.inf if v is None or not math.isfinite(v) else v for v in _numbers(cells, column)]
    for i, loss in enumerate(losses):
        if loss <= 0:
            raise InputError(
                f"{column} must be above 0: ratios of losses are judged; got {loss:g} in row {i + 1}"
            )
    return losses


def _diverged(cells: Sequence[Any], column: str) -> list[bool]:
    """Return whether each run diverged, from true and false or from words such as 'finished'."""
    gone = []
    for i, cell in enumerate(cells):
        word = "" if cell is None else str(cell).strip().lower()
        if word not in _TRUE | _DIVERGED | _FALSE | _FINISHED | _MISSING:
            raise InputError(
                f"{column} must be true or false, or 'finished' or 'diverged', got {cell!r} in row {i + 1}; "
                "leave such runs out, or name another column with --diverged"
            )
        gone.append(word in _TRUE | _DIVERGED)
    return gone


def _seeds(cells: Sequence[Any], column: str) -> list[int]:
    """Return whole numbers as they are; number any other seeds."""
    words = ["" if cell is None else str(cell).strip() for cell in cells]
    if "" in words:
        raise InputError(f"{column} must be present in every row, got none in row {words.index('') + 1}")
    try:
        numbers = [float(word) for word in words]
        if all(number.is_integer() for number in numbers):
            return [int(number) for number in numbers]
    except ValueError:
        pass
    order = {word: i for i, word in enumerate(dict.fromkeys(words))}
    return [order[word] for word in words]


def _names(cells: Sequence[Any], column: str) -> list[str]:
    return ["" if cell is None else str(cell) for cell in cells]


_READERS: Mapping[str, Callable[[Sequence[Any], str], Sequence[Any]]] = {
    "size": _sizes, "axis": _values, "loss": _losses, "diverged": _diverged, "seed": _seeds, "study": _names
}  # fmt: skip


def _refuse_repeated(runs: Sequence[tuple[Any, ...]], table: Table, roles: Mapping[str, str]) -> None:
    first: dict[tuple[Any, ...], int] = {}
    for i, run in enumerate(runs):
        j = first.setdefault(run, i)
        if j < i:
            _, size, value, seed = run
            which = f"{roles['size']} = {size:g}, {roles['axis']} = {value:g}"
            if "seed" in roles:
                which += f", {roles['seed']} = {seed}"
            raise InputError(f"rows {j + 1} and {i + 1} are one run ({which}); {_remedy(table, roles, j, i)}")


def _remedy(table: Table, roles: Mapping[str, str], a: int, b: int) -> str:
    """Return what to do about two rows of one run: name the settings in which they differ, if any."""
    settings = [
        column for column, cells in table.items()
        if cells[a] != cells[b] and column not in roles.values() and len(set(cells)) < len(cells)
    ]  # fmt: skip
    if settings:
        return f"they differ in {', '.join(map(repr, settings[:5]))}: keep the rows of one setting"
    return "keep one of them" if "seed" in roles else "keep one, or name the column of the seed with --seed"


# --- our own records -----------------------------------------------------------------------------------


def _own(table: Table) -> Records:
    """Return the records in a table that has their columns; those that it lacks have their defaults."""
    import pyarrow as pa

    columns, problems = dict[str, Sequence[Any]](), list[str]()
    count = len(table["scale"])
    for name, kind in COLUMNS.items():
        if name in table:
            with collecting(problems):
                columns[name] = _cells(table[name], name, kind)
        elif name == "key":
            columns[name] = [f"row {i + 1}" for i in range(count)]
        elif kind != "l":
            columns[name] = [LATER.get(name)] * count
    problems += [
        f"{name} must be a number, got none in row {list(columns[name]).index(None) + 1}"
        for name in _NEEDED
        if None in columns.get(name, ())
    ]
    refuse(problems)
    columns["final_mse"] = [math.inf if v is None else v for v in columns["final_mse"]]
    check_present_cells(pa.table({name: pa.array(columns[name]) for name in columns if name in table}))
    rows = [{name: cells[i] for name, cells in columns.items()} for i in range(count)]
    kept = [{k: v for k, v in row.items() if COLUMNS[k] != "l" or v is not None} for row in rows]
    return Records(with_defaults(kept, columns))


def _cells(cells: Sequence[Any], name: str, kind: str) -> Sequence[Any]:
    """Return the cells of a column of records in their type."""
    if kind == "s":
        return [None if cell in (None, "") else str(cell) for cell in cells]
    if kind == "l":
        curves = [None if cell is None or isinstance(cell, str) else cell for cell in cells]
        return [curve and [math.inf if v is None else float(v) for v in curve] for curve in curves]
    numbers = _numbers(cells, name)
    if kind == "f":
        return numbers
    for i, number in enumerate(numbers):
        if number is not None and not (abs(number) < _EXACT and number.is_integer()):
            raise InputError(f"{name} must be whole numbers, got {shown(cells[i])} in row {i + 1}")
    return [None if v is None else int(v) for v in numbers]
