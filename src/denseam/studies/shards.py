"""A shard of work: runs that one worker trains and saves by itself, described so that it can travel.

A worker looks into the folder first and trains only what is not there, because a cluster may hand out
the same shard twice: when a worker dies, also for shards that it had finished. What comes back are keys
and summaries; the records go straight from the worker to the folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import multiprocessing
import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from denseam import __version__
from denseam.data.readers import NAMED
from denseam.data.sources import GAUSSIANS
from denseam.errors import InputError
from denseam.rules.cost import step_operations
from denseam.studies.engine import train_runs
from denseam.studies.grouping import evenly, sharing_batches
from denseam.studies.outcome import Outcome
from denseam.studies.records import Row, row
from denseam.studies.store import Store
from denseam.studies.study import RunSpec, Study
from denseam.training.devices import CALLING, RATES, platform_of

#: Seconds that a shard should take: long against starting it, short against losing it.
SHORTEST, LONGEST = 10.0, 60.0
#: The most that is aimed at: a shard may get nearly three times as long, if its last runs are long ones.
AIM = 20.0
#: Shards for each worker, if they do not get too short by it; the last ones even out the ends.
SHARDS_PER_WORKER = 3
#: Seconds to compile the programs of one shape.
COMPILING = 2.0

#: Two shards in one process would need twice the memory of its GPU.
_GPU = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Part:
    """Runs of one study; `study_id` and `data` are what the sender calls the study and its data."""

    study: Study
    study_id: str
    data: str
    specs: tuple[RunSpec, ...]


@dataclasses.dataclass(frozen=True)
class Shard:
    """What one worker is asked to train, and the folder that it writes into."""

    folder: str
    parts: tuple[Part, ...]
    versions: Mapping[str, str]
    seconds: float

    @property
    def specs(self) -> tuple[RunSpec, ...]:
        """All of its runs."""
        return tuple(spec for part in self.parts for spec in part.specs)

    @property
    def name(self) -> str:
        """What it is called when something is wrong with it."""
        parts = []
        for part in self.parts:
            scales = ", ".join(map(str, dict.fromkeys(s.scale for s in part.specs)))
            seeds = ", ".join(map(str, dict.fromkeys(s.seed for s in part.specs)))
            parts.append(f"{part.study.name} at scale {scales}, seed {seeds}")
        runs = self.specs
        return f"{'; '.join(parts)} ({len(runs)} run{'s' * (len(runs) > 1)}, from {runs[0].key[:8]})"


def versions() -> dict[str, str]:
    """Return the versions that must be the same wherever runs of one study are trained."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"denseam": __version__, "jax": jax.__version__, "numpy": np.__version__, "python": python}


def describe(sign: str) -> dict[str, Any]:
    """Return what a worker is: versions, kind of device, and whether it sees a file of the driver's."""
    keep_to_own_cores()
    return {
        "where": socket.gethostname(),
        "versions": versions(),
        "platform": platform_of(jax.devices()[0]),
        "sees": os.path.exists(sign),
    }


def different(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """Return in which versions two places differ; empty if in none."""
    pairs = [(name, theirs.get(name, "unknown"), ours[name]) for name in ours]
    return ", ".join(f"{name} {there} (here {here})" for name, there, here in pairs if there != here)


# --- cutting -------------------------------------------------------------------------------------


def cut(
    todo: Iterable[tuple[Study, Sequence[RunSpec]]],
    folder: str | os.PathLike[str],
    *,
    workers: int = 1,
    kind: str = "cpu",
) -> list[Shard]:
    """Cut runs into shards of 10 to 60 seconds, the longest first.

    Runs of one seed share their batches and stay together as far as they can; small shapes share a shard.

    Parameters
    ----------
    todo
        Studies, and the runs of each that are to be trained.
    folder
        Where workers write.
    workers
        How many shards can be trained at the same time.
    kind
        'cpu' (a worker is a core) or 'gpu'.
    """
    groups = [
        (study, group)
        for study, specs in todo
        for group in sharing_batches(sorted(specs, key=lambda spec: spec.scale))  # seeds stay in their order
    ]
    compiled = {(id(study), group[0].shape) for study, group in groups}
    total = sum(_seconds(study, group, kind) for study, group in groups) + COMPILING * len(compiled)
    aim = min(AIM, max(SHORTEST, total / (SHARDS_PER_WORKER * workers)))
    held: list[tuple[Study, list[RunSpec]]] = []
    full: list[tuple[float, list[tuple[Study, list[RunSpec]]]]] = []
    spent = 0.0
    for study, group in groups:
        for piece in evenly(group, int(_seconds(study, group, kind) / aim)):
            fresh = not any(s is study and p[0].shape == piece[0].shape for s, p in held)
            held.append((study, piece))
            spent += _seconds(study, piece, kind) + COMPILING * fresh
            if spent >= aim:
                full.append((spent, held))
                held, spent = [], 0.0
    if held and full and spent < SHORTEST and full[-1][0] + spent <= LONGEST:
        before, pieces = full.pop()
        held, spent = pieces + held, before + spent
    if held:
        full.append((spent, held))
    described: dict[int, Part] = {}
    longest_first = sorted(full, key=lambda timed: -timed[0])
    return [_shard(pieces, folder, described, seconds) for seconds, pieces in longest_first]


def _seconds(study: Study, group: Sequence[RunSpec], kind: str) -> float:
    """Return about how long runs of one shape take; on a GPU they advance together."""
    shape, calls = group[0].shape, len(group) if kind == "cpu" else 1
    return study.steps(shape) * (len(group) * step_operations(shape) / RATES[kind] + calls * CALLING[kind])


def _shard(
    held: Sequence[tuple[Study, list[RunSpec]]],
    folder: str | os.PathLike[str],
    described: dict[int, Part],
    seconds: float,
) -> Shard:
    parts: dict[int, Part] = {}
    for study, specs in held:
        if id(study) not in described:
            described[id(study)] = Part(_anywhere(study), study.id, study.source().describe(), ())
        part = parts.get(id(study), described[id(study)])
        parts[id(study)] = dataclasses.replace(part, specs=(*part.specs, *specs))
    return Shard(os.path.abspath(folder), tuple(parts.values()), versions(), seconds)


def _anywhere(study: Study) -> Study:
    """Return the study with its file named by a path that does not depend on where a worker starts."""
    family, colon, path = study.data.partition(":")
    if study.data in (*GAUSSIANS, *NAMED):
        return study
    whole = f"{family}:{os.path.abspath(path)}" if colon and family in NAMED else os.path.abspath(study.data)
    return dataclasses.replace(study, data=whole)


# --- on a worker ---------------------------------------------------------------------------------


def keep_to_own_cores() -> None:
    """Let a worker use as many cores as it trains shards at a time; call it before JAX starts.

    XLA takes every core that it sees (unless NPROC tells otherwise), so that workers of one machine would
    get in each other's way.
    """
    threads = 1 if multiprocessing.parent_process() is not None else None
    if "distributed" in sys.modules:
        from distributed import get_worker

        with contextlib.suppress(ValueError):  # this is no Dask worker
            threads = get_worker().state.nthreads
    if threads:
        os.environ.setdefault("NPROC", str(threads))


def run_shard(shard: Shard) -> dict[str, Any]:
    """Train what is not there yet and write it; return the status and loss of each run by its key."""
    keep_to_own_cores()
    began = time.perf_counter()
    wrong = different(shard.versions, versions())
    if wrong:
        raise InputError(f"executor: the worker on {socket.gethostname()} has {wrong}")
    store = _Watched(shard.folder)
    runs = store.look()
    trained = 0
    for part in shard.parts:
        todo = [spec for spec in part.specs if spec.key not in runs]
        if not todo:
            continue
        if part.study.id != part.study_id:
            raise InputError(f"data {part.study.data}: is not the same on the worker {socket.gethostname()}")
        for rows in _trained(part, todo):
            # Another worker may have been given the same runs, by a driver that died since.
            runs |= store.look()
            store.write([row for row in rows if row["key"] not in runs])
            runs |= {row["key"]: (row["status"], row["final_mse"]) for row in rows if row["key"] not in runs}
            trained += len(rows)
    asked = {spec.key for spec in shard.specs}
    return {
        "runs": {key: run for key, run in runs.items() if key in asked},
        "trained": trained,
        "seconds": time.perf_counter() - began,
        "where": socket.gethostname(),
    }


def _trained(part: Part, specs: Sequence[RunSpec]) -> Iterator[list[Row]]:
    """Train on one core, or on the GPU; how many shards run at once is the executor's affair."""
    gpu = platform_of(jax.devices()[0]) == "gpu"
    with _GPU if gpu else contextlib.nullcontext():
        for outcomes in train_runs(part.study, specs, workers=1):
            yield [row(part.study, outcome) | {"data": part.data} for outcome in outcomes]


class _Watched:
    """A folder of results, of which every file is read once."""

    def __init__(self, folder: str) -> None:
        self._store, self._seen = Store(folder), set[str]()

    def look(self) -> dict[str, tuple[str, float]]:
        """Return status and loss of the runs that have come since the last look."""
        there = self._store.names()
        fresh = self._store.read(["status", "final_mse"], only=there - self._seen)
        self._seen = there
        return {row["key"]: (row["status"], row["final_mse"]) for row in fresh}

    def write(self, rows: Sequence[Row]) -> None:
        if rows:
            self._seen.add(self._store.write(rows).name)


def outcome(spec: RunSpec, run: tuple[str, float], device: str = "") -> Outcome:
    """Return what a driver knows of a run that was trained elsewhere: status and loss."""
    nothing, (status, loss) = math.nan, run
    curve = np.zeros(0, np.float32)
    return Outcome(spec, status, None, nothing, loss, nothing, nothing, curve, nothing, device)
