"""Joins study, engine, store and executor: trains the runs that are missing, saves them chunk by chunk."""

from __future__ import annotations

import dataclasses
import errno
import os
import threading
import time
import warnings
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import jax

from denseam.ground.errors import InputError, refuse, typed
from denseam.studies.documents import to_document
from denseam.studies.engine import train_studies
from denseam.studies.engine.times import Times
from denseam.studies.executors import Limited, RunsSetAside, SetAside, check_executor, enlist, spread
from denseam.studies.records import Records, Row, row
from denseam.studies.runs import RunsOfStudies
from denseam.studies.shards import cut, outcome
from denseam.studies.store import Store
from denseam.studies.study import Study
from denseam.training.devices import PREPARING, RATES, check_precision, platform_of
from denseam.training.progress import Progress
from denseam.training.stopping import looking


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a sweep did.

    Attributes
    ----------
    runs, reused, diverged
        The number of runs in `records`, of those that existed before, and of those that diverged.
    records
        The requested runs, as they were read back from the folder.
    times
        Where the time went; None if workers elsewhere trained.
    set_aside
        The shards that workers could not train.
    """

    runs: int
    reused: int
    diverged: int
    seconds: float
    records: Records
    set_aside: tuple[SetAside, ...] = ()
    times: Times | None = None

    def complete(self) -> Records:
        """Return the records of all runs; raise `RunsSetAside` if workers could not train some of them."""
        if self.set_aside:
            raise RunsSetAside(self.set_aside)
        return self.records


@dataclasses.dataclass(frozen=True)
class Expense:
    """What studies will cost, roughly.

    Attributes
    ----------
    runs
        Their number.
    seconds
        The time that one core, or one GPU, needs for all of them.
    """

    runs: int
    seconds: float


def expense(studies: Sequence[Study], platform: str) -> Expense:
    """Return what the runs of studies will cost on a CPU or a GPU, at its usual rate."""
    seconds = 0.0
    for study in studies:
        of_scale = study.count / len(study.scales)
        for shape in map(study.shape, study.scales):
            seconds += of_scale * (study.operations(shape) / RATES[platform] + PREPARING)
    return Expense(sum(study.count for study in studies), seconds)


class RunsLost(OSError):
    """Runs that were trained and written are not in the folder any more, or cannot be read."""

    def __init__(self, lost: int, runs: int, folder: Path, skipped: Sequence[str] = ()) -> None:
        unreadable = f" ({'; '.join(skipped)})" if skipped else ""
        super().__init__(
            errno.EIO,
            f"{lost} of {runs} runs are not in the folder any more, or cannot be read{unreadable}; "
            "run it again to train them",
            str(folder),
        )


def sweep(
    study: Study | Sequence[Study],
    out: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    devices: Sequence[Any] | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
) -> Records:
    """Train all runs of one or several studies, and return their records.

    Parameters
    ----------
    study
        One study or several.
    out
        A folder; existing runs in it are not trained again, and each chunk of runs is saved as soon as it
        ends. Without a folder the records are only returned.
    progress
        Receives the events of the sweep.
    stop, devices, workers
        As in `denseam.studies.engine.train_studies`.
    executor
        Trains instead of this process: any `concurrent.futures.Executor` whose workers see the folder,
        such as a process pool that spawns, or that of `denseam.studies.dask_executor.connect`.
    """
    summary = run_studies(
        study, out, progress=progress, stop=stop, devices=devices, workers=workers, executor=executor
    )
    for shard in summary.set_aside:
        warnings.warn(str(shard), stacklevel=2)
    return summary.records


def run_studies(
    study: Study | Sequence[Study], out: str | os.PathLike[str] | Store | None = None, **options: Any
) -> Summary:
    """Do what `sweep` does, with the same options, and report how much was done."""
    studies = list(study) if isinstance(study, Sequence) and not isinstance(study, str) else [study]
    if not studies:
        raise InputError("study must not be an empty list")
    for each in studies:
        refuse(typed(Study, "a Study, or a list of them", study=each))
    return run_specs([(each, each.runs()) for each in studies], out, **options)


def run_specs(
    requested: RunsOfStudies,
    out: str | os.PathLike[str] | Store | None = None,
    *,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    devices: Sequence[Any] | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
) -> Summary:
    """Do what `run_studies` does for chosen runs of each study; `out` may be a store that remembers."""
    progress, began = progress or Progress(), time.perf_counter()
    if executor is None:
        _check_precisions(requested, devices)
    else:
        _check_executor(executor, out is None, devices=devices, workers=workers)
    store = out if out is None or isinstance(out, Store) else Store(out)
    present = set() if store is None else _prepare(store, requested)
    keys = {spec.key for _, specs in requested for spec in specs}
    todo = _missing(requested, present)
    rows: list[Row] = []
    set_aside: list[SetAside] = []
    times = Times() if executor is None else None
    progress.sweep_begins(todo, len(keys & present))
    try:
        if executor is not None:
            assert store is not None
            set_aside = _train_elsewhere(todo, store.folder, executor, progress, stop)
        else:
            assert times is not None
            options = {"progress": progress, "stop": stop, "devices": devices, "workers": workers}
            with looking(stop):
                rows = _train_here(todo, store, times, **options)
    finally:
        progress.sweep_ends()
    records = Records(rows) if store is None else _read_back(store, keys, set_aside)
    read = {record["key"] for record in records}
    diverged = sum(record["status"] == "diverged" for record in records)
    seconds = time.perf_counter() - began
    return Summary(len(read), len(read & present), diverged, seconds, records, tuple(set_aside), times)


def _check_precisions(requested: RunsOfStudies, devices: Sequence[Any] | None) -> None:
    """Refuse a precision that the devices do not have."""
    platform = platform_of((devices or jax.devices())[0])
    for study, _ in requested:
        check_precision(study.precision, platform)


def _check_executor(executor: Executor, homeless: bool, **own: Any) -> None:
    """Refuse an executor that cannot work, and options that belong to this process."""
    check_executor(executor)
    if homeless:
        raise InputError("out is needed with an executor: workers write their own results")
    refuse(
        f"{name} belongs to this process; leave it out with an executor"
        for name, value in own.items()
        if value is not None
    )


def _prepare(store: Store, requested: RunsOfStudies) -> set[str]:
    """Write the description of every study; return the keys of existing runs."""
    store.prepare()
    for study, _ in requested:
        store.write_study(study.id, to_document(study))
    return store.keys()


def _missing(requested: RunsOfStudies, present: Collection[str]) -> RunsOfStudies:
    """Return the runs that do not exist yet, each once, with the first study that asks for it."""
    seen, missing = set(present), []
    for study, specs in requested:
        fresh = {spec.key: spec for spec in specs if spec.key not in seen}
        seen |= fresh.keys()
        missing.append((study, list(fresh.values())))
    return missing


def _read_back(store: Store, keys: set[str], set_aside: Sequence[SetAside]) -> Records:
    """Return the records of the runs with these keys; raise `RunsLost` if there are none of some."""
    records = store.read()
    chosen = [record for record in records if record["key"] in keys]
    aside = {spec.key for shard in set_aside for spec in shard.shard.specs}
    if lost := keys - aside - {record["key"] for record in chosen}:
        raise RunsLost(len(lost), len(keys), store.folder, records.skipped)
    return Records(chosen, records.skipped, records.contradictions)


def _train_here(todo: RunsOfStudies, store: Store | None, times: Times, **options: Any) -> list[Row]:
    """Train in this process, and save each chunk as soon as it ends."""
    rows: list[Row] = []
    digests = {id(study): study.source().digest for study, _ in todo}  # study.id has the digest in it
    for study, outcomes in train_studies(todo, times=times, **options):
        if study.source().digest != digests[id(study)]:
            raise InputError(f"data {study.data}: changed during the training; run it again")
        fresh = [row(study, outcome) for outcome in outcomes]
        if store is not None:
            with times.saving():
                store.write(fresh)
        rows += fresh
    return rows


def _train_elsewhere(
    todo: RunsOfStudies,
    out: Path,
    executor: Executor,
    progress: Progress,
    stop: threading.Event | None,
) -> list[SetAside]:
    """Train by an executor, report each shard that ends, and return those set aside."""
    if not any(specs for _, specs in todo):
        return []
    workers, kind = enlist(executor, out)
    steps = _Steps(todo, progress)
    topic = executor.listen(steps.hear) if isinstance(executor, Limited) else ""
    set_aside = []
    shards = cut(todo, out, workers=workers, kind=kind, topic=topic)
    for shard, runs in spread(shards, executor, stop=stop):
        if isinstance(runs, SetAside):
            set_aside.append(runs)
            continue
        ended = [spec for spec in shard.specs if spec.key in runs]
        steps.hear({spec.key: steps.left[spec.key] for spec in ended})
        progress.finished([outcome(spec, runs[spec.key]) for spec in ended])
    return set_aside


class _Steps:
    """The steps that are left of each run; what is heard twice, since a worker has died, counts once."""

    def __init__(self, todo: RunsOfStudies, progress: Progress) -> None:
        self._progress = progress
        self._specs = {spec.key: spec for _, specs in todo for spec in specs}
        self.left = {spec.key: study.updates(spec.shape) for study, specs in todo for spec in specs}

    def hear(self, taken: Mapping[str, int]) -> None:
        for key, steps in taken.items():
            fresh = min(steps, self.left[key])
            self.left[key] -= fresh
            if fresh:
                self._progress.advanced(fresh, self._specs[key])
