"""Results on disk: immutable shards, one row per run; no locks, no server.

A shard is written to a temporary name, synced and renamed, so it is complete or absent. Its name holds
the hash of the keys of its runs and that of its content, so that a changed byte is noticed (Parquet's
own checksums do not cover its footer). Readers skip files they cannot read or whose cells no run can have,
report their names and the runs of which two records contradict each other, and keep one row of each key.
Resuming means: keys requested minus keys present.

Shards are Parquet files with page checksums, and other tools open them as one table::

    pyarrow.parquet.read_table("runs/my-study/shards")      pandas.read_parquet(…)      polars.read_parquet(…)

Shards of early versions may be JSON files, written where pyarrow was missing; they are still read.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from denseam.ground.errors import InputError, listed_of, path_of, read_entries, table_of
from denseam.ground.files import json_table, make_folder, text_of, write_whole
from denseam.studies.cells import check_cells
from denseam.studies.records import (
    COLUMNS,
    LATER,
    OPTIONAL,
    PROBE_COLUMNS,
    Records,
    Row,
    difference,
    with_defaults,
)
from denseam.studies.tables import without_formula

#: The folder beside the shards with the description of every study they came from.
STUDIES = "studies"


class Store:
    """A folder of shards.

    Parameters
    ----------
    folder
        The folder.
    remember
        Keep the rows of each shard in memory once they have been read and checked, for as long as its file is
        there. This is for work that returns to a folder again and again.
    """

    def __init__(self, folder: str | os.PathLike[str], *, remember: bool = False) -> None:
        self.folder = path_of("folder", folder)
        self.shards = self.folder / "shards"
        self._remembered: dict[tuple[str, ...], list[Row]] | None = {} if remember else None

    def prepare(self) -> None:
        """Create the folder and check that it is writable, before any work is done."""
        try:
            make_folder(self.shards)
        except OSError as error:
            raise InputError(f"out {self.folder}: cannot be written ({error.strerror})") from None

    def write(self, rows: Sequence[Row]) -> Path:
        """Write one shard: completely, or not at all."""
        keys = hashlib.sha256("".join(sorted(row["key"] for row in rows)).encode()).hexdigest()[:16]
        content = parquet_bytes(Records(rows))
        target = self.shards / f"{keys}-{_digest(content)}.parquet"
        write_whole(target, content)
        return target

    def names(self) -> set[str]:
        """Return the names of all files that should be shards."""
        return {path.name for path in self.shards.iterdir() if not path.name.startswith(".")}

    def read(
        self,
        columns: Sequence[str] | None = None,
        only: Iterable[str] | None = None,
        *,
        skip_errors: bool = True,
    ) -> Records:
        """Return all rows (of these columns, in these files); name the files that are unreadable.

        If errors of the file system are not skipped, they are raised: the file itself may be right.
        """
        if not self.shards.is_dir():
            raise InputError(f"{self.folder}: holds no results (no folder 'shards' in it)")
        rows: dict[str, tuple[str, Row]] = {}
        skipped: list[str] = []
        contradictions: list[str] = []
        wanted = list(COLUMNS) if columns is None else ["key", *(c for c in columns if c != "key")]
        for name in sorted(self.names() if only is None else only):
            try:
                shard = self._shard(name, wanted)
            except FileNotFoundError:
                if not skip_errors and name in self.names():  # a network file system may say so for a moment
                    raise
                skipped.append(f"{name}: disappeared while the folder was read")
                continue
            except Exception as error:
                if isinstance(error, OSError) and not skip_errors:
                    raise
                reason = " ".join(str(error).split())[:160]
                skipped.append(f"{name}: {reason or type(error).__name__}")
                continue
            for row in shard:
                first, known = rows.setdefault(row["key"], (name, row))
                if known is not row and (differing := difference(known, row)):
                    contradictions.append(
                        f"run {row['key'][:12]}: {differing}, in {first} and {name}; the first is used"
                    )
        return Records((row for _, row in rows.values()), skipped, contradictions)

    def _shard(self, name: str, columns: list[str]) -> list[Row]:
        """Return the rows of a shard: a file of this name always has the same content."""
        if self._remembered is None:
            return _read_shard(self.shards / name, columns)
        which = (name, *columns)
        if which not in self._remembered:
            self._remembered[which] = _read_shard(self.shards / name, columns)
        return [dict(row) for row in self._remembered[which]]

    def write_study(self, study_id: str, document: Mapping[str, Any]) -> None:
        """Write the description of a study beside its runs; the same one only once."""
        content = json.dumps({"study_id": study_id, "study": document}, indent=1, default=str).encode()
        path = self.folder / STUDIES / f"{study_id}-{_digest(content)}.json"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            write_whole(path, content)

    def studies(self, study_id: str) -> list[dict[str, Any]]:
        """Return the stored descriptions of a study as documents; several sweeps may share an id.

        A description that has changed since it was written is left out.
        """
        documents = []
        for path in sorted((self.folder / STUDIES).glob(f"{study_id}-*.json")):
            with contextlib.suppress(InputError, OSError):
                text = text_of(path)
                if _digest(text.encode()) == path.stem.rpartition("-")[2]:
                    documents.append(read_entries(json_table(text), {"study": table_of()})["study"])
        return documents

    def keys(self) -> set[str]:
        """Return the keys of all existing runs.

        Runs in a shard that exists but cannot be read now are not trained again.
        """
        if not self.shards.is_dir():
            return set()
        return {row["key"] for row in self.read(["key"], skip_errors=False)}

    def curves(self, keys: Sequence[str]) -> dict[str, list[float]]:
        """Return the loss curves of the given runs."""
        wanted = set(keys)
        curves: dict[str, list[float]] = {}
        for path in (self.shards / name for name in sorted(self.names())):
            with contextlib.suppress(Exception):  # named by `read` already
                table = _shard_table(path)
                check_cells(table)  # a shard that `read` skips has no curves either
                for row in _chosen(table.select(["key", "loss"]), wanted):
                    curves.setdefault(row["key"], row["loss"])
        if wanted - curves.keys():
            raise OSError(errno.ESTALE, "the folder changed while it was read", str(self.folder))
        return curves


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def parquet_bytes(records: Records) -> bytes:
    """Return all columns as one Parquet file."""
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(records.table(), sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue()


def _read_shard(path: Path, columns: list[str]) -> list[Row]:
    """Return the rows of a shard, after checking that it is one and that its cells are those of runs."""
    table = _shard_table(path)
    check_cells(table)
    present = set(table.column_names)
    chosen = table.select([c for c in columns if c in present])
    empty = [c for c in OPTIONAL if c in chosen.column_names and chosen[c].null_count == len(chosen)]
    rows: list[Row] = chosen.drop_columns(empty).to_pylist()
    _share_texts(rows)
    later = {c: LATER.get(c) for c in columns if c not in present and c not in OPTIONAL}
    if later:
        rows = [row | later for row in rows]
    return with_defaults(rows, [c for c in chosen.column_names if chosen[c].null_count])


def _share_texts(rows: Sequence[Row]) -> None:
    """Make equal texts one object: most rows have the same ones, which would take a tenth of the memory."""
    known: dict[str, str] = {}
    texts = [c for c in rows[0] if COLUMNS.get(c) == "s" and c != "key"] if rows else []
    for row in rows:
        for c in texts:
            row[c] = known.setdefault(row[c], row[c])


def _shard_table(path: Path) -> Any:
    """Return the table of a shard, after checking that no byte has changed."""
    if path.suffix not in (".parquet", ".json") or path.stem.count("-") != 1:
        raise ValueError("not a shard of runs")
    content = path.read_bytes()
    if _digest(content) != path.stem.split("-")[1]:
        raise ValueError("damaged: its content is not what was written")
    if path.suffix == ".parquet":
        return _parquet_table(content)
    return _json_table(content)


def _chosen(table: Any, keys: set[str]) -> list[Row]:
    """Return the rows of a table with these keys."""
    places = [i for i, key in enumerate(table["key"].to_pylist()) if key in keys]
    rows: list[Row] = table.take(places).to_pylist() if places else []
    return rows


def _parquet_table(content: bytes) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)


def _json_table(content: bytes) -> Any:
    import pyarrow as pa

    rows = read_entries(json_table(content), {"rows": listed_of(table_of())})["rows"]
    return pa.Table.from_pylist([_unplain({c: row[c] for c in COLUMNS if c in row}) for row in rows])


def write_export(out: str | os.PathLike[str], content: bytes) -> None:
    """Write a table to a file."""
    write_whole(path_of("out", out), content)


def csv_text(records: Records) -> str:
    """Return the columns of single values as CSV; infinity is `inf`."""
    return _csv({c: [row[c] for row in records] for c in COLUMNS if COLUMNS[c] != "l"})


def probes_csv(records: Records) -> str:
    """Return the probes as CSV, one row for each run and step."""
    named = [(name, c) for name, c in PROBE_COLUMNS.items() if any(row.get(c) for row in records)]
    whose = ("key", "study", "scale", "features", "memories", "samples", "batch", "eta0", "seed")
    table: dict[str, list[Any]] = {c: [] for c in (*whose, "step", *(name for name, _ in named))}
    for row in records:
        steps = row.get("probe_steps") or ()
        table["step"] += map(int, steps)
        for c in whose:
            table[c] += [row[c]] * len(steps)
        for name, c in named:
            table[name] += row[c] if row.get(c) else [None] * len(steps)
    return _csv(table)


def _csv(table: Mapping[str, Sequence[Any]]) -> str:
    """Return columns as CSV; spreadsheets must not take a text for a formula."""
    columns = []
    for name, cells in table.items():
        if COLUMNS.get(name) == "s":
            plain = {text: without_formula(text) if text else text for text in set(cells)}
            columns.append([plain[text] for text in cells])
        else:
            columns.append(list(cells))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*columns, strict=True))
    return file.getvalue()


def _unplain(row: Row) -> Row:
    """Turn the infinities of a row, which are text in a JSON shard, into numbers."""

    def number(value: Any) -> Any:
        return float(value) if isinstance(value, str) else value

    def numbers(values: Any) -> Any:
        return values and [number(v) for v in values]

    kinds = {k: COLUMNS[k] for k in row}
    return {k: number(v) if kinds[k] == "f" else numbers(v) if kinds[k] == "l" else v for k, v in row.items()}
