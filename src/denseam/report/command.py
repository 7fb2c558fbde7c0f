"""The command that trains the runs of a study again, from the document of the study beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from denseam.data.readers import NAMED
from denseam.data.sources import GAUSSIANS
from denseam.ground.errors import InputError
from denseam.studies.documents import entry_problems, flat, from_document, sweep_line
from denseam.studies.records import Row
from denseam.studies.store import Store


@dataclasses.dataclass(frozen=True)
class Command:
    """A command line, or why there is none.

    Attributes
    ----------
    text
        One line for each sweep that the runs came from; empty if there is none.
    checked
        Whether the lines train all of the runs.
    runs
        How many runs they train.
    notes
        What to keep in mind.
    """

    text: str
    checked: bool
    runs: int
    notes: tuple[str, ...]


FROM_TABLE = Command(
    "", False, 0, ("The runs were read from a table, which does not say how they were made.",)
)


def sweep_command(rows: Sequence[Row], folder: str) -> Command:
    """Return the `denseam sweep` that trains these runs, all of one study."""
    documents = [d for d in Store(folder).studies(rows[0]["study_id"]) if _is_study(d)]
    if not documents:
        note = "The folder contains no description of this study, or only a damaged one."
        return Command("", False, 0, (note,))
    wanted = {row["key"] for row in rows}
    keys_of, problem = _keys(documents)
    if problem:
        lines = [sweep_line(document, folder) for document in documents]
        note = f"Not checked against the runs: {problem}"
        return _command(lines, set(), wanted, (note,))
    lines, keys = [], set[str]()
    for document, runs in sorted(keys_of, key=lambda pair: -len(pair[1] & wanted)):
        if (runs & wanted) - keys:
            lines.append(sweep_line(document, folder))
            keys |= runs
    return _command(lines, keys, wanted, _remarks(documents[0], keys, wanted))


def _is_study(document: Mapping[str, Any]) -> bool:
    """Return whether every entry of a document is one that a study can have."""
    try:
        return not entry_problems(flat(document))
    except InputError:
        return False


def _keys(documents: Sequence[Mapping[str, Any]]) -> tuple[list[tuple[Mapping[str, Any], set[str]]], str]:
    """Return each document with the keys of its runs, or why they are unknown (no data at hand)."""
    try:
        studies = [from_document(document) for document in documents]
        return [(d, {spec.key for spec in s.runs()}) for d, s in zip(documents, studies, strict=True)], ""
    except (InputError, OSError) as error:
        return [], " ".join(str(error).split())


def _command(
    lines: Sequence[str | None], keys: set[str], wanted: set[str], notes: tuple[str, ...]
) -> Command:
    if None in lines:
        note = "The activation or the parameterization was defined in Python: it has no command line."
        return Command("", False, 0, (note,))
    return Command("\n".join(map(str, lines)), wanted <= keys, len(keys), notes)


def _remarks(document: Mapping[str, Any], keys: set[str], wanted: set[str]) -> tuple[str, ...]:
    notes = []
    if not wanted <= keys:
        notes.append(f"It trains {len(wanted & keys)} of the {len(wanted)} runs in this folder.")
    elif len(keys) > len(wanted):
        notes.append(f"It trains {len(keys)} runs; {len(wanted)} of them are in this folder.")
    if document.get("data", "isotropic") not in (*GAUSSIANS, *NAMED):
        notes.append("The path of the data is relative to the folder in which the sweep was started.")
    return tuple(notes)
