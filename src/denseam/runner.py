"""Joins study, engine and store: runs what is not there yet, saves it chunk by chunk."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import jax

from denseam._version import __version__
from denseam.engine import Listener, Outcome, check_precision, train_runs
from denseam.errors import refuse
from denseam.schema import PROBE_COLUMNS
from denseam.store import Records, Row, Store, as_floats
from denseam.study import RunSpec, Study


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a sweep did."""

    runs: int
    reused: int
    diverged: int
    seconds: float
    records: Records


class SweepListener(Listener):
    """A listener that is also told what is about to happen."""

    def begin(
        self, studies: Sequence[Study], todo: Sequence[tuple[Study, list[RunSpec]]], reused: int
    ) -> None:
        """Say which runs will be trained, and how many are there already."""

    def study(self, study: Study) -> None:
        """Say that a study begins."""

    def end(self) -> None:
        """Say that all is done, or was stopped."""


def sweep(
    study: Study | Sequence[Study],
    out: str | os.PathLike[str] | None = None,
    *,
    listener: SweepListener | None = None,
    stop: threading.Event | None = None,
    devices: Sequence[Any] | None = None,
    workers: int | None = None,
) -> Records:
    """Train all runs of one or several studies, and return their records.

    Parameters
    ----------
    study
        What is asked.
    out
        A folder; runs that are in it already are not trained again, and each chunk of runs is saved
        as soon as it ends. Without it the records are only returned.
    listener, stop, devices, workers
        As in `denseam.engine.train_runs`.
    """
    return run_studies(study, out, listener=listener, stop=stop, devices=devices, workers=workers).records


def run_studies(
    study: Study | Sequence[Study],
    out: str | os.PathLike[str] | None = None,
    *,
    listener: SweepListener | None = None,
    stop: threading.Event | None = None,
    devices: Sequence[Any] | None = None,
    workers: int | None = None,
) -> Summary:
    """Do what `sweep` does, and also say how much was done."""
    studies = [study] if isinstance(study, Study) else list(study)
    refuse(["study must not be an empty list"] * (not studies))
    asked = [(one, one.runs()) for one in studies]
    return run_specs(asked, out, listener=listener, stop=stop, devices=devices, workers=workers)


def run_specs(
    asked: Sequence[tuple[Study, list[RunSpec]]],
    out: str | os.PathLike[str] | None = None,
    *,
    listener: SweepListener | None = None,
    stop: threading.Event | None = None,
    devices: Sequence[Any] | None = None,
    workers: int | None = None,
) -> Summary:
    """Do the same for chosen runs of each study."""
    listener = listener or SweepListener()
    began = time.perf_counter()
    for one, _ in asked:
        check_precision(one, (devices or jax.devices())[0].platform)
    store = None if out is None else Store(out)
    present: set[str] = set()
    if store is not None:
        store.prepare()
        present = store.keys()
    keys = {spec.key for _, specs in asked for spec in specs}
    todo = [(one, [spec for spec in specs if spec.key not in present]) for one, specs in asked]
    rows: list[Row] = []
    listener.begin([one for one, _ in asked], todo, len(keys & present))
    try:
        for one, specs in todo:
            listener.study(one)
            for outcomes in train_runs(
                one, specs, listener=listener, stop=stop, devices=devices, workers=workers
            ):
                fresh = [row(one, outcome) for outcome in outcomes]
                if store is not None:
                    store.write(fresh)
                rows += fresh
    finally:
        listener.end()
    records = Records(rows)
    if store is not None:
        everything = store.read()
        records = Records([r for r in everything if r["key"] in keys], everything.skipped)
    diverged = sum(r["status"] == "diverged" for r in records)
    return Summary(len(keys), len(keys & present), diverged, time.perf_counter() - began, records)


def row(study: Study, outcome: Outcome) -> Row:
    """Return the record of one run."""
    spec, shape = outcome.spec, outcome.spec.shape
    return {
        "key": spec.key,
        "study": study.name,
        "study_id": study.id,
        "scale": spec.scale,
        "features": shape.N,
        "memories": shape.K,
        "samples": shape.P,
        "batch": shape.B,
        "seed": spec.seed,
        "status": outcome.status,
        "diverged_at": outcome.diverged_at,
        "initial_mse": outcome.initial_mse,
        "final_mse": outcome.final_mse,
        "heldout_mse": outcome.heldout_mse,
        "zero_mse": outcome.zero_mse,
        "activation": study.lagrangian.name,
        "power": float(getattr(study.lagrangian, "power", 1)),
        "optimizer": study.optimizer,
        "regime": study.regime.name,
        "parameterization": study.rule().name,
        "data": study.source().describe(),
        "centred": "yes" if study.centred else "no",
        "bias_init": study.bias_init,
        "precision": study.precision,
        "epochs": study.epochs,
        **spec.values,
        "swept": ",".join(study.swept),
        "seconds": outcome.seconds,
        "device": outcome.device,
        "version": __version__,
        "jax": jax.__version__,
        "loss": as_floats(outcome.loss),
        **({"probe_steps": as_floats(outcome.probe_steps)} if outcome.probes else {}),
        **{PROBE_COLUMNS[name]: as_floats(values) for name, values in outcome.probes.items()},
    }
