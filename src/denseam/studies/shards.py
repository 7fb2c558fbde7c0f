"""A shard of work: runs that one worker trains and saves, described so that they can be sent to it.

A worker first looks into the folder and trains only missing runs, because a cluster may hand out the same
shard twice: when a worker dies, even shards that it had finished. The worker returns keys and summaries; the
records go straight from the worker to the folder.
"""

from __future__ import annotations

import collections
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
from denseam.ground.errors import InputError
from denseam.studies.engine import train_runs
from denseam.studies.records import Row, row
from denseam.studies.runs import Interrupted, Outcome, evenly, sharing_batches
from denseam.studies.store import Store
from denseam.studies.study import RunSpec, Study
from denseam.studies.walltime import Job
from denseam.training.devices import CALLING, RATES, platform_of
from denseam.training.progress import Progress

#: Seconds that a shard should take: long compared with starting it, short enough to lose.
SHORTEST, LONGEST = 10.0, 60.0
#: The longest aim: a shard may take nearly three times as long, if its last runs are long.
AIM = 20.0
#: Shards for each worker, unless they become too short; several even out when workers end.
SHARDS_PER_WORKER = 3
#: Seconds between two reports of a worker.
EVERY = 1.0
#: Seconds to compile the programs of one shape.
COMPILING = 2.0

#: Runs of studies.
Pieces = list[tuple[Study, list[RunSpec]]]

#: Two shards in one process would need twice the memory of its GPU.
_GPU = threading.Lock()


@dataclasses.dataclass(frozen=True)
class StudyRuns:
    """Runs of one study; `study_id` and `data` are the sender's names of the study and its data."""

    study: Study
    study_id: str
    data: str
    specs: tuple[RunSpec, ...]


@dataclasses.dataclass(frozen=True)
class Shard:
    """The runs that one worker should train, and the folder that it writes to."""

    folder: str
    parts: tuple[StudyRuns, ...]
    versions: Mapping[str, str]
    seconds: float
    #: The name under which a Dask worker reports its steps; '' if nobody listens.
    topic: str = ""

    @property
    def specs(self) -> tuple[RunSpec, ...]:
        """All of its runs."""
        return tuple(spec for part in self.parts for spec in part.specs)

    def only(self, keys: Iterable[str]) -> Shard:
        """Return the part of the shard with these runs."""
        kept = set(keys)
        parts = [(part, tuple(spec for spec in part.specs if spec.key in kept)) for part in self.parts]
        return dataclasses.replace(
            self, parts=tuple(dataclasses.replace(part, specs=specs) for part, specs in parts if specs)
        )

    @property
    def name(self) -> str:
        """Its name in messages."""
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
    """Describe a worker: its versions, kind of device, and whether it sees a file of the driver."""
    keep_to_own_cores()
    return {
        "where": socket.gethostname(),
        "versions": versions(),
        "platform": platform_of(jax.devices()[0]),
        "sees": os.path.exists(sign),
    }


def different(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """Return the versions in which two places differ; empty if there are none."""
    pairs = [(name, theirs.get(name, "unknown"), ours[name]) for name in ours]
    return ", ".join(f"{name} {there} (here {here})" for name, there, here in pairs if there != here)


# --- cutting -------------------------------------------------------------------------------------


def cut(
    todo: Iterable[tuple[Study, Sequence[RunSpec]]],
    folder: str | os.PathLike[str],
    *,
    workers: int = 1,
    kind: str = "cpu",
    topic: str = "",
) -> list[Shard]:
    """Cut runs into shards of 10 to 60 seconds, the longest first.

    Runs of one seed share their batches and stay together as far as possible; small shapes share a shard.

    Parameters
    ----------
    todo
        The runs of each study to be trained.
    folder
        Where workers write.
    workers
        The number of shards that can be trained at the same time.
    kind
        'cpu' (a worker is a core) or 'gpu'.
    topic
        The name under which workers report their steps.
    """
    groups = [
        (study, group)
        for study, specs in todo
        for group in sharing_batches(sorted(specs, key=lambda spec: spec.scale))  # seeds stay in their order
    ]
    compiled = {(id(study), group[0].shape) for study, group in groups}
    total = sum(_seconds(study, group, kind) for study, group in groups) + COMPILING * len(compiled)
    aim = min(AIM, max(SHORTEST, total / (SHARDS_PER_WORKER * workers)))
    described: dict[int, StudyRuns] = {}
    longest_first = sorted(_pack(groups, aim, kind), key=lambda pack: -pack[0])
    shards = [_shard(pieces, folder, described, seconds) for seconds, pieces in longest_first]
    return [dataclasses.replace(shard, topic=topic) for shard in shards]


def _pack(groups: Pieces, aim: float, kind: str) -> list[tuple[float, Pieces]]:
    """Collect pieces of groups until they take `aim` seconds; return each collection with its seconds."""
    packs: list[tuple[float, Pieces]] = []
    pieces: Pieces = []
    spent = 0.0
    for study, group in groups:
        for piece in evenly(group, int(_seconds(study, group, kind) / aim)):
            fresh = not any(s is study and p[0].shape == piece[0].shape for s, p in pieces)
            pieces.append((study, piece))
            spent += _seconds(study, piece, kind) + COMPILING * fresh
            if spent >= aim:
                packs.append((spent, pieces))
                pieces, spent = [], 0.0
    if pieces and packs and spent < SHORTEST and packs[-1][0] + spent <= LONGEST:
        before, last = packs.pop()
        pieces, spent = last + pieces, before + spent
    return [*packs, (spent, pieces)] if pieces else packs


def _seconds(study: Study, group: Sequence[RunSpec], kind: str) -> float:
    """Return approximately how long runs of one shape take; on a GPU they advance together."""
    shape, calls = group[0].shape, len(group) if kind == "cpu" else 1
    step = study.step_operations(shape)
    return study.updates(shape) * (len(group) * step / RATES[kind] + calls * CALLING[kind])


def _shard(
    pieces: Pieces, folder: str | os.PathLike[str], described: dict[int, StudyRuns], seconds: float
) -> Shard:
    parts: dict[int, StudyRuns] = {}
    for study, specs in pieces:
        if id(study) not in described:
            described[id(study)] = StudyRuns(_anywhere(study), study.id, study.source().describe(), ())
        part = parts.get(id(study), described[id(study)])
        parts[id(study)] = dataclasses.replace(part, specs=(*part.specs, *specs))
    return Shard(os.path.abspath(folder), tuple(parts.values()), versions(), seconds)


def _anywhere(study: Study) -> Study:
    """Return the study with the absolute path of its file, which holds wherever a worker starts."""
    family, colon, path = study.data.partition(":")
    if study.data in (*GAUSSIANS, *NAMED):
        return study
    whole = f"{family}:{os.path.abspath(path)}" if colon and family in NAMED else os.path.abspath(study.data)
    return dataclasses.replace(study, data=whole)


# --- on a worker ---------------------------------------------------------------------------------


def keep_to_own_cores() -> None:
    """Let a worker use one core for each shard that it trains at a time; call it before JAX starts.

    XLA takes every core that it sees (unless NPROC is set), so that workers on one machine would get in each
    other's way.
    """
    threads = 1 if multiprocessing.parent_process() is not None else None
    if "distributed" in sys.modules:
        from distributed import get_worker

        with contextlib.suppress(ValueError):  # this is no Dask worker
            threads = get_worker().state.nthreads
    if threads:
        os.environ.setdefault("NPROC", str(threads))


class ShardFailed(RuntimeError):
    """What went wrong with a shard on its worker, in words."""


def run_shard(shard: Shard) -> dict[str, Any]:
    """Train the missing runs and write them, as `_run_shard` does; an error comes as one that can be sent.

    Dask's driver waits forever for an error that it cannot load, such as one with a traceback of a thousand
    frames or of a class that it does not have.
    """
    try:
        return _run_shard(shard)
    except (InputError, OSError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    raise ShardFailed(reason)


def _run_shard(shard: Shard) -> dict[str, Any]:
    """Train the missing runs and write them.

    Return the status and loss of each run by its key, and the number of runs trained. If the job of this
    worker ends before, return those runs that have ended, and the share of the job's time that they had.
    """
    keep_to_own_cores()
    wrong = different(shard.versions, versions())
    if wrong:
        raise InputError(f"executor: the worker on {socket.gethostname()} has {wrong}")
    store = _Watched(shard.folder)
    runs = store.look()
    trained = 0
    steps = _Steps(shard.topic)
    share = 0.0
    with Job() as job:
        try:
            for part in shard.parts:
                todo = [spec for spec in part.specs if spec.key not in runs]
                for rows in _trained(part, todo, job.over, steps):
                    _check_data(part)  # it may have changed meanwhile
                    # Another worker may have been given the same runs by a driver that has died since.
                    runs |= store.look()
                    store.write([row for row in rows if row["key"] not in runs])
                    runs |= {
                        row["key"]: (row["status"], row["final_mse"])
                        for row in rows
                        if row["key"] not in runs
                    }
                    trained += len(rows)
        except Interrupted:
            share = job.share()
            job.leave()
    return {
        "runs": {spec.key: runs[spec.key] for spec in shard.specs if spec.key in runs},
        "trained": trained,
        "share": share,
    }


def _check_data(part: StudyRuns) -> None:
    if part.study.id != part.study_id:
        raise InputError(f"data {part.study.data}: is not the same on the worker {socket.gethostname()}")


def _trained(
    part: StudyRuns, specs: Sequence[RunSpec], stop: threading.Event, progress: Progress
) -> Iterator[list[Row]]:
    """Train on one core, or on the GPU; the executor decides how many shards run at once."""
    if not specs:
        return
    _check_data(part)
    gpu = platform_of(jax.devices()[0]) == "gpu"
    with _GPU if gpu else contextlib.nullcontext():
        for outcomes in train_runs(part.study, specs, workers=1, stop=stop, progress=progress):
            yield [row(part.study, outcome) | {"data": part.data} for outcome in outcomes]


class _Steps(Progress):
    """Reports the steps of runs to the driver, at most once a second."""

    def __init__(self, topic: str) -> None:
        self._topic, self._steps, self._sent = topic, collections.Counter[str](), time.monotonic()
        self._worker = None
        if topic:
            from distributed import get_worker

            self._worker = get_worker()

    def advanced(self, steps: int, spec: RunSpec) -> None:
        if self._worker is None:
            return
        self._steps[spec.key] += steps
        if time.monotonic() - self._sent > EVERY:
            self._worker.log_event(self._topic, dict(self._steps))
            self._steps.clear()
            self._sent = time.monotonic()


class _Watched:
    """A folder of results whose files are read only once."""

    def __init__(self, folder: str) -> None:
        self._store, self._seen = Store(folder), set[str]()

    def look(self) -> dict[str, tuple[str, float]]:
        """Return status and loss of the runs added since the last look."""
        names = self._store.names()
        fresh = self._store.read(["status", "final_mse"], only=names - self._seen, skip_errors=False)
        self._seen = names
        return {row["key"]: (row["status"], row["final_mse"]) for row in fresh}

    def write(self, rows: Sequence[Row]) -> None:
        if rows:
            self._seen.add(self._store.write(rows).name)


def outcome(spec: RunSpec, run: tuple[str, float], device: str = "") -> Outcome:
    """Return what a driver knows of a run that was trained elsewhere: status and loss."""
    unknown, (status, loss) = math.nan, run
    curve = np.zeros(0, np.float32)
    return Outcome(spec, status, None, unknown, loss, unknown, unknown, curve, unknown, device)
