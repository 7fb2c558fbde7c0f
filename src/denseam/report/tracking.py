"""Losses and settings of all runs for a tracker of experiments: W&B, TensorBoard or MLflow.

The tracker works in a thread of its own: training never waits for it, and goes on if it fails.
"""

from __future__ import annotations

import math
import os
import queue
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from denseam.ground.errors import TrackerWarning
from denseam.report.trackers import Facts, TrackedRun, Tracker, open_tracker
from denseam.studies.records import row, settings_of, size_name
from denseam.studies.runs import Outcome
from denseam.studies.study import RunSpec, Study
from denseam.training.progress import Progress

#: Seconds that `Tracking.close` waits for a tracker that writes nothing.
PATIENCE = 60.0
#: What a tracker is told about the end of a run, if it is known.
RESULTS = ("initial_mse", "final_mse", "heldout_mse", "zero_mse", "diverged_at", "seconds")
#: The curve of a run: the mean loss of an epoch, at the number of steps taken.
EPOCH_LOSS = "epoch_loss"


def tracker(name: str, out: str | os.PathLike[str]) -> Tracking:
    """Return a listener that passes settings and losses to a tracker of experiments.

    Pass it as `progress` to `denseam.sweep`, `tune`, `train_target` or `train`, best in a ``with`` statement,
    which waits until everything is written. Every run of a sweep becomes a run of the
    tracker, and so does a training.

    Parameters
    ----------
    name
        'wandb', 'tensorboard' or 'mlflow', each with the extra of that name.
    out
        The folder for what the tracker keeps on this machine: `tensorboard/`, `wandb/` or `mlflow.db`.
        If ``MLFLOW_TRACKING_URI`` is set, MLflow uses that instead; W&B follows its own variables, such
        as ``WANDB_MODE=offline`` and ``WANDB_PROJECT``.
    """
    return Tracking(open_tracker(name, out))


class Tracking(Progress):
    """Passes the losses of sweeps and trainings to a tracker, in a thread of its own."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._studies: dict[str, tuple[Study, str]] = {}
        self._settings: Mapping[str, Any] = {}
        self._training: TrackedRun | None = None
        self._step = 0
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._written, self._failure, self._warned = 0, "", False
        self._thread = threading.Thread(target=self._work, name="denseam-tracker", daemon=True)
        self._thread.start()

    # --- a sweep -----------------------------------------------------------------------------------

    def sweep_begins(self, todo: Sequence[tuple[Study, Sequence[RunSpec]]], reused: int) -> None:
        """Keep the study of every run, and the name of its group: with an id, if two have the same name."""
        ids: dict[str, set[str]] = {}
        for study, _ in todo:
            ids.setdefault(study.name, set()).add(study.id)
        for study, specs in todo:
            group = study.name if len(ids[study.name]) == 1 else f"{study.name} ({study.id[:6]})"
            self._studies |= {spec.key: (study, group) for spec in specs}

    def finished(self, outcomes: Sequence[Outcome]) -> None:
        """Pass every run that has ended."""
        for outcome in outcomes:
            self._submit(self._write_run, *self._studies[outcome.spec.key], outcome)

    def _write_run(self, study: Study, group: str, outcome: Outcome) -> None:
        settings, record = settings_of(study, outcome.spec), row(study, outcome)
        run = self._tracker.begin(group, _name(settings), _facts(settings))
        if record["loss"]:
            per_epoch = study.updates(outcome.spec.shape) // len(record["loss"])
            for epoch, loss in enumerate(record["loss"], start=1):
                _log(run, epoch * per_epoch, {EPOCH_LOSS: loss})
        run.end(outcome.status, _facts(record, RESULTS))

    # --- a training --------------------------------------------------------------------------------

    def training_described(self, settings: Mapping[str, Any]) -> None:
        """Keep the settings of the training."""
        self._settings = settings

    def training_begins(self, name: str, steps: int, epochs: int, done: int = 0) -> None:
        """Begin a run, unless the training was finished before."""
        settings, self._settings, self._step = self._settings, {}, done
        if done < steps:
            self._submit(self._begin_training, name, settings)

    def _begin_training(self, name: str, settings: Mapping[str, Any]) -> None:
        self._end_training("stopped", {})
        group, title = (settings["study"], _name(settings)) if settings else ("training", name)
        self._training = self._tracker.begin(group, title, _facts(settings))

    def training_advanced(self, step: int, loss: float) -> None:
        """Pass the mean loss of the last steps."""
        self._step = step
        self._submit(self._log_training, step, {"loss": loss})

    def epoch_ended(self, epoch: int, loss: float, expected: tuple[float, float] | None = None) -> None:
        """Pass the mean loss of an epoch, and the range that small models predict."""
        low, high = (math.nan, math.nan) if expected is None else expected
        values = {EPOCH_LOSS: loss, "expected_low": low, "expected_high": high}
        self._submit(self._log_training, self._step, values)

    def _log_training(self, step: int, values: Mapping[str, float]) -> None:
        if self._training is not None:
            _log(self._training, step, values)

    def training_finished(self, results: Mapping[str, Any]) -> None:
        """End the run."""
        self._submit(self._end_training, results["status"], _facts(results, RESULTS))

    def _end_training(self, status: str, results: Facts) -> None:
        if self._training is not None:
            self._training.end(status, results)
            self._training = None

    # --- the thread --------------------------------------------------------------------------------

    def _submit(self, write: Callable[..., None], *arguments: Any) -> None:
        self._warn()
        self._waiting.put(lambda: write(*arguments))

    def _work(self) -> None:
        while (write := self._waiting.get()) is not None:
            if not self._failure:
                try:
                    write()
                except BaseException as error:  # whatever a package of others may raise
                    self._failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
            self._written += 1

    def _warn(self) -> None:
        """Warn once that the tracker has failed; in the thread of the training, where it is seen."""
        if self._failure and not self._warned:
            self._warned = True
            name = self._tracker.name
            warnings.warn(
                f"log: {name} failed; training continues without it ({self._failure})",
                TrackerWarning,
                stacklevel=3,
            )

    def close(self) -> None:
        """Wait until everything is written; a training that was not finished ends as 'stopped'."""
        self._waiting.put(lambda: self._end_training("stopped", {}))
        self._waiting.put(None)
        written = -1
        while self._thread.is_alive() and self._written > written:
            written = self._written
            self._thread.join(PATIENCE)
        if self._thread.is_alive():
            self._failure = f"nothing was written for {PATIENCE:.0f} s"
        self._warn()

    def __enter__(self) -> Self:
        """Return the listener itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until everything is written."""
        self.close()


def _name(settings: Mapping[str, Any]) -> str:
    """Return the name of a run: its size, its value on every swept axis, and its seed."""
    parts = {size_name(dict(settings)): settings["scale"]}
    parts |= {axis: settings[axis] for axis in settings["swept"].split(",")}
    parts |= {"seed": settings["seed"]}
    return " ".join(f"{key}={value:.6g}" for key, value in parts.items() if value is not None)


def _facts(values: Mapping[str, Any], keys: Sequence[str] | None = None) -> Facts:
    """Return the text and the finite numbers among these values."""
    chosen = values if keys is None else {key: values.get(key) for key in keys}
    return {
        key: value
        for key, value in chosen.items()
        if isinstance(value, str | bool) or (isinstance(value, int | float) and math.isfinite(value))
    }


def _log(run: TrackedRun, step: int, values: Mapping[str, float]) -> None:
    """Pass the finite numbers: of a run that diverged, the curve ends before."""
    finite = {key: float(value) for key, value in values.items() if math.isfinite(value)}
    if finite:
        run.log(step, finite)
