"""What the cells of a shard must hold: the types and bounds of its columns.

The digest in the name of a shard says that its bytes are those that were written; it does not say who wrote
them. So a shard is believed only if every cell is one that a run can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from denseam.ground.errors import refuse
from denseam.rules.fields import InKey
from denseam.rules.regimes import REGIMES
from denseam.studies.description import AXES
from denseam.studies.records import COLUMNS, OPTIONAL, PROBE_COLUMNS, SETTINGS

STATUSES = ("finished", "diverged")

#: Columns of fields that were added later: shards that are older than a field do not have it.
_ADDED = {name for name, p in {**SETTINGS, **AXES}.items() if p.key is not InKey.ALWAYS}
_NEEDED = [column for column in COLUMNS if column not in (*_ADDED, *OPTIONAL)]
#: Columns that may be empty: there is nothing to say, or a field has its default.
_MAY_BE_NULL = {
    *OPTIONAL,
    *_ADDED,
    "diverged_at",
    "initial_mse",
    "heldout_mse",
    "zero_mse",
    "seconds",
    "device",
}
#: The least value of a column of numbers, none of which may be NaN.
_LEAST: Mapping[str, float] = {
    **dict.fromkeys(("scale", "features", "memories", "samples", "batch", "epochs", "power"), 1),
    **dict.fromkeys(("seed", "final_mse", *AXES), 0),
}
#: Columns that are NaN for a model of one's own, which has no such number.
_OF_OURS = ("power",)
_NAMES: Mapping[str, tuple[str, ...]] = {"status": STATUSES, "regime": tuple(REGIMES)}
#: Lists that have as many numbers as another one.
_AS_LONG_AS = {"loss_epochs": "loss", **dict.fromkeys(PROBE_COLUMNS.values(), "probe_steps")}
_WORDS = {"s": "text", "i": "whole numbers", "f": "numbers", "l": "lists of numbers"}


def check_cells(table: Any) -> None:
    """Refuse a `pyarrow.Table` of runs that lacks a column, or in which any cell is wrong."""
    refuse(f"the column {column} is missing" for column in _NEEDED if column not in table.column_names)
    check_present_cells(table)


def check_present_cells(table: Any) -> None:
    """Refuse a `pyarrow.Table` in which any cell is wrong; columns that no run has are left alone."""
    cells = dict(zip(table.column_names, table.columns, strict=True))
    present = {column: cells[column] for column in COLUMNS if column in cells}
    filled = {column: c for column, c in present.items() if c.null_count < len(c)}
    refuse(
        f"the column {column} must be {_WORDS[COLUMNS[column]]}, got {c.type}"
        for column, c in filled.items()
        if not _is_of_kind(c.type, COLUMNS[column])
    )
    refuse(
        f"the column {column} has empty cells"
        for column, c in present.items()
        if c.null_count and column not in _MAY_BE_NULL
    )
    refuse(problem for column, c in filled.items() if (problem := _problem(column, c)))
    refuse(_problems_of_rows(filled))


def _is_of_kind(kind: Any, letter: str) -> bool:
    from pyarrow import types

    match letter:
        case "s":
            return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind))
        case "i":
            return bool(types.is_integer(kind) or types.is_null(kind))
        case "f":
            return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_null(kind))
    return bool(types.is_null(kind) or (types.is_list(kind) and _is_of_kind(kind.value_type, "f")))


def _problem(column: str, cells: Any) -> str:
    """Return what is wrong with the cells of a column; '' if nothing is."""
    import pyarrow.compute as pc

    if column in _LEAST:
        least, numbers = _LEAST[column], pc.drop_null(cells)
        if column in _OF_OURS:
            numbers = numbers.filter(pc.invert(pc.is_nan(numbers)))
        if not pc.all(pc.greater_equal(numbers, least), min_count=0).as_py():  # false for NaN
            return f"the column {column} must be at least {least:g}"
    if column in _NAMES and (others := set(cells.unique().to_pylist()) - {*_NAMES[column], None}):
        return f"the column {column} must be one of {', '.join(_NAMES[column])}, got {sorted(others)[0]!r}"
    if column == "swept" and (others := _swept(cells) - {*AXES}):
        return f"the column swept must name axes of a study, got {sorted(others)[0]!r}"
    if COLUMNS[column] == "l" and pc.list_flatten(cells).null_count:
        return f"the column {column} has empty cells"
    return ""


def _swept(cells: Any) -> set[str]:
    """Return the axes that the cells name, separated by commas."""
    return {axis for names in cells.unique().to_pylist() for axis in names.split(",")}


def _problems_of_rows(filled: Mapping[str, Any]) -> list[str]:
    """Return the problems of cells that do not fit those of other columns."""
    import pyarrow.compute as pc

    problems = []
    lengths = {c: pc.list_value_length(filled[c]) for c in COLUMNS if COLUMNS[c] == "l" and c in filled}
    for column, whose in _AS_LONG_AS.items():
        if column in lengths and not _equal(lengths[column], lengths.get(whose)):
            problems.append(f"the columns {column} and {whose} must have lists of the same length")
    if "loss" in lengths and pc.min(lengths["loss"]).as_py() == 0:
        problems.append("the column loss must not have empty lists")
    if {"status", "final_mse"} <= filled.keys():
        finished = pc.equal(filled["status"], "finished")
        if pc.any(pc.and_(finished, pc.is_inf(pc.cast(filled["final_mse"], "float64")))).as_py():
            problems.append("the column final_mse must be finite for runs that are finished")
    return problems


def _equal(lengths: Any, others: Any) -> bool:
    """Return whether the lists of two columns have the same lengths, where a run has both."""
    import pyarrow.compute as pc

    return others is not None and bool(pc.all(pc.fill_null(pc.equal(lengths, others), True)).as_py())
