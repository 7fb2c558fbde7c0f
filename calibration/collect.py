"""Join the tables that `calibration.corpus` wrote into the records that are judged.

    python -m calibration.collect TABLES [TABLES …] --data FOLDER [--out calibration/records.parquet]

TABLES are folders of `calibration.corpus --out`, FOLDER holds the trimmed arrays. Rows of studies with SGD in
which all sizes grow get the largest eigenvalue of the covariance of their samples at that size.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from calibration.corpus import source_of
from calibration.judge import RECORDS

#: What tells one row from another; the other columns are results.
KEY = (
    "family", "shrink", "activation", "power", "optimizer", "regime", "noise", "samples", "scale", "seed",
)  # fmt: skip


def collect(folders: Iterable[Path], data: Path) -> list[dict[str, Any]]:
    """Return the rows of all tables, sorted, with their eigenvalues."""
    import pyarrow.parquet as pq

    paths = [path for folder in folders for path in sorted(folder.glob("*.parquet"))]
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    twice = [key for key, n in Counter(map(_key, rows)).items() if n > 1]
    if twice:
        described = ", ".join(f"{name} {value}" for name, value in zip(KEY, twice[0], strict=True) if value)
        raise ValueError(f"{len(twice)} rows are there twice, the first with {described}")
    return [row | {"eigenvalue": _eigenvalue(row, data)} for row in sorted(rows, key=_key)]


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def _eigenvalue(row: Mapping[str, Any], data: Path) -> float | None:
    if (row["optimizer"], row["regime"]) != ("sgd", "proportional"):
        return None
    return _largest(data, row["family"], row["shrink"], row["scale"])


@functools.cache
def _largest(data: Path, family: str, shrink: str, N: int) -> float:
    return _source(data, family, shrink).largest_eigenvalue(N)


_source = functools.cache(source_of)


def write(rows: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Write the records, completely or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    losses = pa.list_(pa.float32())
    kinds = {
        **dict.fromkeys(KEY, pa.string()),
        **dict.fromkeys(("power", "noise"), pa.float32()),
        **dict.fromkeys(("samples", "scale", "seed"), pa.int32()),
        "precision": pa.string(),
        **dict.fromkeys(("per_decade", "first_k"), pa.int8()),
        **dict.fromkeys(("eigenvalue", "zero"), pa.float32()),
        **dict.fromkeys(("final", "heldout", "early"), losses),
    }
    temporary = out.with_suffix(".part")
    table = pa.Table.from_pylist([dict(row) for row in rows], pa.schema(list(kinds.items())))
    pq.write_table(table, temporary, compression="zstd")
    os.replace(temporary, out)


def main(arguments: list[str] | None = None) -> int:
    """Collect and write. The exit code is 1 if the tables do not fit together."""
    parser = argparse.ArgumentParser(
        "python -m calibration.collect", description="Join the tables of the corpus."
    )
    parser.add_argument("tables", type=Path, nargs="+", help="folders of tables")
    parser.add_argument("--data", type=Path, required=True, help="folder of the trimmed arrays")
    parser.add_argument("--out", type=Path, default=RECORDS, help="file of the records")
    options = parser.parse_args(arguments)
    try:
        rows = collect(options.tables, options.data)
    except (ValueError, KeyError) as error:
        print(error, file=sys.stderr)
        return 1
    write(rows, options.out)
    print(f"{len(rows)} rows, {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
