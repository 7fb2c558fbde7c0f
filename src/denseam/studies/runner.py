"""Joins study, engine, store and executor: runs what is not there yet, saves it chunk by chunk."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import jax

from denseam.errors import InputError, refuse
from denseam.studies.documents import to_document
from denseam.studies.engine import train_runs
from denseam.studies.executors import SetAside, check_executor, enlist, spread
from denseam.studies.records import Records, Row, row
from denseam.studies.shards import Shard, cut, outcome
from denseam.studies.store import Store
from denseam.studies.study import RunSpec, Study
from denseam.training.devices import platform_of
from denseam.training.precision import check_precision
from denseam.training.progress import Progress


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a sweep did; `set_aside` are the shards that workers could not train."""

    runs: int
    reused: int
    diverged: int
    seconds: float
    records: Records
    set_aside: tuple[SetAside, ...] = ()


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
        What is asked.
    out
        A folder; runs that are in it already are not trained again, and each chunk of runs is saved
        as soon as it ends. Without it the records are only returned.
    progress
        Told how it goes.
    stop, devices, workers
        As in `denseam.studies.engine.train_runs`.
    executor
        Who trains instead of this process: any `concurrent.futures.Executor` whose workers see the folder,
        such as a process pool that spawns, or that of `denseam.studies.cluster.connect`.
    """
    summary = run_studies(
        study, out, progress=progress, stop=stop, devices=devices, workers=workers, executor=executor
    )
    for shard in summary.set_aside:
        warnings.warn(str(shard), stacklevel=2)
    return summary.records


def run_studies(
    study: Study | Sequence[Study],
    out: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    devices: Sequence[Any] | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
) -> Summary:
    """Do what `sweep` does, and also say how much was done."""
    studies = [study] if isinstance(study, Study) else list(study)
    refuse(["study must not be an empty list"] * (not studies))
    asked = [(one, one.runs()) for one in studies]
    return run_specs(
        asked, out, progress=progress, stop=stop, devices=devices, workers=workers, executor=executor
    )


def run_specs(
    asked: Sequence[tuple[Study, list[RunSpec]]],
    out: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    devices: Sequence[Any] | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
) -> Summary:
    """Do the same for chosen runs of each study."""
    progress = progress or Progress()
    began = time.perf_counter()
    if executor is None:
        for one, _ in asked:
            check_precision(one.precision, platform_of((devices or jax.devices())[0]))
    else:
        check_executor(executor)
        if out is None:
            raise InputError("out is needed with an executor: workers write their own results")
        refuse(
            f"{name} belongs to this process; leave it out with an executor"
            for name, given in (("devices", devices), ("workers", workers))
            if given is not None
        )
    store = None if out is None else Store(out)
    present: set[str] = set()
    if store is not None:
        store.prepare()
        for study, _ in asked:
            store.write_study(study.id, to_document(study))
        present = store.keys()
    keys = {spec.key for _, specs in asked for spec in specs}
    todo = [(one, [spec for spec in specs if spec.key not in present]) for one, specs in asked]
    rows: list[Row] = []
    set_aside: list[SetAside] = []
    progress.sweep_begins(todo, len(keys & present))
    try:
        if executor is not None:
            assert out is not None
            set_aside = _elsewhere(todo, out, executor, progress, stop)
            todo = []
        for one, specs in todo:
            for outcomes in train_runs(
                one, specs, progress=progress, stop=stop, devices=devices, workers=workers
            ):
                fresh = [row(one, ended) for ended in outcomes]
                if store is not None:
                    store.write(fresh)
                rows += fresh
    finally:
        progress.sweep_ends()
    records = Records(rows)
    if store is not None:
        everything = store.read()
        records = Records([r for r in everything if r["key"] in keys], everything.skipped)
    diverged = sum(r["status"] == "diverged" for r in records)
    seconds = time.perf_counter() - began
    return Summary(len(keys), len(keys & present), diverged, seconds, records, tuple(set_aside))


def _elsewhere(
    todo: Sequence[tuple[Study, list[RunSpec]]],
    out: str | os.PathLike[str],
    executor: Executor,
    progress: Progress,
    stop: threading.Event | None,
) -> list[SetAside]:
    """Have an executor train; tell of each shard that ends; return those set aside."""
    if not any(specs for _, specs in todo):
        return []
    crew = enlist(executor, out)
    set_aside = []
    for shard, ended in spread(cut(todo, out, workers=crew.workers, kind=crew.kind), executor, stop=stop):
        if isinstance(ended, SetAside):
            set_aside.append(ended)
        else:
            _tell(progress, shard, ended)
    return set_aside


def _tell(progress: Progress, shard: Shard, runs: Mapping[str, tuple[str, float]]) -> None:
    for part in shard.parts:
        for spec in part.specs:
            progress.advanced(part.study.steps(spec.shape), spec)
        progress.finished([outcome(spec, runs[spec.key]) for spec in part.specs])
