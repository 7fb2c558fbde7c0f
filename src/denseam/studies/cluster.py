"""Where a study runs: this process, Dask, or jobs of Slurm. Plain data."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from denseam.ground.errors import InputError, listed, named, path_of, refuse
from denseam.ground.files import text_of, toml_table
from denseam.rules.fields import Kind, Part, parameter, parameters, read_fields

KINDS = ("local", "dask", "slurm")

#: Field → the kinds of executor that it belongs to.
_BELONGS = {
    "address": ("dask",),
    "gpus": ("dask", "slurm"),
    **dict.fromkeys(
        ("partition", "account", "time", "memory", "cores", "directives", "prologue"), ("slurm",)
    ),
}

#: Field → the pattern of its text, and an example.
_FORMATS = {
    "time": (r"(\d+-)?\d+(:\d\d){0,2}", "02:00:00"),
    "memory": (r"\d+(\.\d+)? *[KMGT]i?B?", "8GB"),
}


def _field(kind: Kind, help: str, default: Any = None, **facts: Any) -> Any:
    return parameter(Part.EXECUTOR, kind, help, default, **facts)


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Where a study runs; 'local' is this process.

    What a Slurm job should have and is not set here comes from the configuration of dask-jobqueue.
    """

    kind: str = _field(Kind.CHOICE, "local, dask or slurm.", "local", choices=KINDS, document="executor")
    address: str | None = _field(
        Kind.TEXT, "Dask scheduler, as in tcp://host:8786; without it Dask runs on this machine."
    )
    workers: int | None = _field(
        Kind.WHOLE,
        "Threads (local), processes (dask) or jobs (slurm).",
        low=1,
        default_text="one for each core",
    )
    gpus: int = _field(
        Kind.WHOLE, "GPUs of each worker, 0 or 1 (dask, slurm).", 0, low=0, high=1, open_high=False
    )
    partition: str | None = _field(Kind.TEXT, "Slurm partition.")
    account: str | None = _field(Kind.TEXT, "Slurm account.")
    time: str | None = _field(Kind.TEXT, "Time limit of a Slurm job, as in 02:00:00.")
    memory: str | None = _field(Kind.TEXT, "Memory of a Slurm job, as in 8GB.")
    cores: int | None = _field(Kind.WHOLE, "Cores of a Slurm job.", low=1, default_text="1")
    directives: tuple[str, ...] = _field(Kind.OBJECT, "More #SBATCH lines (study file).", ())
    prologue: tuple[str, ...] = _field(Kind.OBJECT, "Shell commands before the worker (study file).", ())

    def __post_init__(self) -> None:
        """Check everything; report all problems together."""
        _, problems = read_fields(self)
        if self.kind not in KINDS:
            raise InputError(*problems)
        problems += [
            f"{name} belongs to the executor {listed(kinds)}, got {self.kind!r}"
            for name, kinds in _BELONGS.items()
            if getattr(self, name) and self.kind not in kinds
        ]
        if self.address and (self.workers or self.gpus):
            problems.append("workers and gpus are set by the cluster at the address; leave them out")
        for name, (pattern, example) in _FORMATS.items():
            value = getattr(self, name)
            if value is not None and not re.fullmatch(pattern, str(value)):
                problems.append(f"{name} must be as in {example}, got {value!r}")
        for name in ("directives", "prologue"):
            value = getattr(self, name)
            if not isinstance(value, list | tuple) or not all(isinstance(line, str) for line in value):
                problems.append(f"{name} must be a list of lines, got {value!r}")
        refuse(problems)


def file_table(path: str | Path) -> dict[str, Any]:
    """Return the table in a study file."""
    with named(f"study file {path}"):
        try:
            return toml_table(text_of(path_of("path", path)))
        except OSError as error:
            raise InputError(str(error.strerror)) from None


def cluster_from(path: str | Path | None, options: Mapping[str, Any]) -> Cluster:
    """Read the table ``[executor]`` of a study file; options that are given override it."""
    table: Any = {}
    if path is not None:
        # Problems of the file as a whole are reported by `documents.from_file`.
        with contextlib.suppress(InputError):
            table = file_table(path).get("executor", {})
    if not isinstance(table, dict):
        raise InputError(f"study file {path}: executor must be a table, as in [executor] kind = 'dask'")
    known = [field.name for field in dataclasses.fields(Cluster)]
    refuse(
        f"study file {path}: unknown key {key!r} in [executor]; it must be {listed(known)}"
        for key in table
        if key not in known
    )
    fields = {p.document: name for name, p in parameters(Cluster).items()}
    overrides = {fields.get(key, key): value for key, value in options.items() if value is not None}
    if "kind" in overrides and overrides["kind"] != table.get("kind", "local"):
        table = {}  # it was written for another kind
    return Cluster(**{**table, **overrides})
