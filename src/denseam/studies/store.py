"""Results on disk: immutable shards, one row per run; no locks, no server.

A shard is written to a temporary name, synced and renamed, so it is whole or not there. Its name holds
the hash of the keys of its runs and that of its content, so that a changed byte is noticed (Parquet's
own checksums do not cover its footer). Readers pass over what they cannot read, say so by name, and
keep one row of each key. Resuming means: keys asked for minus keys present.

Shards are Parquet files with page checksums, and open by themselves::

    pyarrow.parquet.read_table("runs/my-study/shards")      pandas.read_parquet(…)      polars.read_parquet(…)

Shards of early versions may be JSON files, written where pyarrow was missing; they are still read.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from denseam.errors import InputError
from denseam.files import write_whole
from denseam.studies.records import Records, Row
from denseam.studies.schema import COLUMNS, LATER, OPTIONAL, PROBE_COLUMNS

#: The folder beside the shards that holds the description of every study they came from.
STUDIES = "studies"


class Store:
    """A folder of shards."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.shards = self.folder / "shards"

    def prepare(self) -> None:
        """Make the folder and see that it can be written, before any work is done."""
        try:
            self.shards.mkdir(parents=True, exist_ok=True)
            probe = self.shards / f".probe-{os.getpid()}"
            probe.write_bytes(b"x" * 4096)
            probe.unlink()
        except OSError as error:
            raise InputError(f"out {self.folder}: cannot be written ({error.strerror})") from None

    def write(self, rows: Sequence[Row]) -> Path:
        """Write one shard: whole, or not at all."""
        asked = hashlib.sha256("".join(sorted(row["key"] for row in rows)).encode()).hexdigest()[:16]
        content = _parquet_bytes(Records(rows))
        target = self.shards / f"{asked}-{_digest(content)}.parquet"
        write_whole(target, content)
        return target

    def names(self) -> set[str]:
        """Return the names of all files that should be shards."""
        return {path.name for path in self.shards.iterdir() if not path.name.startswith(".")}

    def read(self, columns: Sequence[str] | None = None, only: Iterable[str] | None = None) -> Records:
        """Return all rows (of the given columns, in the named files); name the files that are unreadable."""
        if not self.shards.is_dir():
            raise InputError(f"{self.folder}: holds no results (no folder 'shards' in it)")
        rows: list[Row] = []
        skipped: list[str] = []
        wanted = list(COLUMNS) if columns is None else ["key", *(c for c in columns if c != "key")]
        for name in sorted(self.names() if only is None else only):
            path = self.shards / name
            try:
                rows += _read_shard(path, wanted)
            except Exception as error:
                reason = " ".join(str(error).split())[:160]
                skipped.append(f"{path.name}: {reason or type(error).__name__}")
        return Records(rows, skipped)

    def write_study(self, study_id: str, document: Mapping[str, Any]) -> None:
        """Keep the description of a study beside its runs; the same one is kept once."""
        content = json.dumps({"study_id": study_id, "study": document}, indent=1, default=str).encode()
        path = self.folder / STUDIES / f"{study_id}-{_digest(content)}.json"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            write_whole(path, content)

    def studies(self, study_id: str) -> list[dict[str, Any]]:
        """Return the descriptions of a study that lie here, as documents; several sweeps may share an id."""
        documents = []
        for path in sorted((self.folder / STUDIES).glob(f"{study_id}-*.json")):
            with contextlib.suppress(ValueError, KeyError, TypeError, OSError):
                documents.append(dict(json.loads(path.read_bytes())["study"]))
        return documents

    def keys(self) -> set[str]:
        """Return the keys of all runs that are there."""
        if not self.shards.is_dir():
            return set()
        return {row["key"] for row in self.read(["key"])}

    def curves(self, keys: Sequence[str]) -> dict[str, list[float]]:
        """Return the loss curves of the given runs."""
        wanted = set(keys)
        found: dict[str, list[float]] = {}
        for path in sorted(self.shards.iterdir()):
            with contextlib.suppress(Exception):  # named by `read` already
                if not path.name.startswith(".") and wanted & {r["key"] for r in _read_shard(path, ["key"])}:
                    rows = _read_shard(path, ["key", "loss"])
                    found |= {r["key"]: r["loss"] for r in rows if r["key"] in wanted}
        return found


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _parquet_bytes(records: Records) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(records.table(), sink, compression="zstd", write_page_checksum=True)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _read_shard(path: Path, columns: list[str]) -> list[Row]:
    """Return the rows of a shard, after checking that it is one and that no byte of it has changed."""
    if path.suffix not in (".parquet", ".json") or path.stem.count("-") != 1:
        raise ValueError("not a shard of runs")
    content = path.read_bytes()
    if _digest(content) != path.stem.split("-")[1]:
        raise ValueError("damaged: its content is not what was written")
    if path.suffix == ".json":
        return [_unplain({c: row.get(c) for c in columns if c in row or c not in OPTIONAL})
                for row in json.loads(content)["rows"]]  # fmt: skip
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(content))
    there = set(file.schema_arrow.names)
    table = file.read([c for c in columns if c in there], use_threads=False)
    table = table.drop_columns(
        [c for c in OPTIONAL if c in table.column_names and table[c].null_count == len(table)]
    )
    rows: list[Row] = table.to_pylist()
    later = {
        c: LATER.get(c) for c in columns if c not in there and c not in OPTIONAL
    }  # newer than this shard
    return [row | later for row in rows] if later else rows


def write_csv(records: Records, file: Any) -> None:
    """Write the columns that are single values; a number that is infinite is `inf`."""
    columns = [c for c in COLUMNS if COLUMNS[c] != "l"]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(["" if row[c] is None else row[c] for c in columns] for row in records)


def write_probes_csv(records: Records, file: Any) -> None:
    """Write what was measured while training, one row for each run and step."""
    named = [(name, c) for name, c in PROBE_COLUMNS.items() if any(row.get(c) for row in records)]
    whose = ("key", "study", "scale", "features", "memories", "samples", "batch", "eta0", "seed")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*whose, "step", *(name for name, _ in named)])
    for row in records:
        for i, step in enumerate(row.get("probe_steps") or ()):
            values = (row[c][i] if row.get(c) else "" for _, c in named)
            writer.writerow([*(row[c] for c in whose), int(step), *values])


def write_parquet(records: Records, path: str | os.PathLike[str]) -> None:
    """Write all columns as one Parquet file."""
    import pyarrow.parquet as pq

    pq.write_table(records.table(), path, compression="zstd", write_page_checksum=True)


def _unplain(row: Row) -> Row:
    """Return a row of a JSON shard with its infinities, which are text there, as numbers."""

    def number(value: Any) -> Any:
        return float(value) if isinstance(value, str) else value

    def numbers(values: Any) -> Any:
        return values and [number(v) for v in values]

    kinds = {k: COLUMNS[k] for k in row}
    return {k: number(v) if kinds[k] == "f" else numbers(v) if kinds[k] == "l" else v for k, v in row.items()}
