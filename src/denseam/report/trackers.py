"""The trackers of experiments, each an extra: what of it is used, in the order in which it is called."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import re
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from denseam.ground.errors import InputError, listed, path_of, refuse, shown, together
from denseam.ground.files import make_folder, write_whole

#: What a tracker keeps of a run besides its curves: text, flags and finite numbers.
Facts = Mapping[str, str | bool | int | float]

#: The project of W&B, and the experiment of MLflow, unless their variables name another.
PROJECT = "denseam"
#: MLflow is a database: numbers are passed to it after so many, or so many seconds.
MOST_WAITING, LONGEST_WAIT = 500, 5.0


class TrackedRun(Protocol):
    """A run of a tracker."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add finite numbers at a step."""

    def end(self, status: str, results: Facts) -> None:
        """End the run with its status and its results."""


class Tracker(Protocol):
    """A tracker that is ready to receive runs."""

    name: str

    def begin(self, group: str, name: str, settings: Facts) -> TrackedRun:
        """Begin a run of a group, such as a study."""


# --- TensorBoard ------------------------------------------------------------------------------------


class TensorBoard:
    """A folder `tensorboard/GROUP/RUN` for each run, with its curves and its hyperparameters."""

    name = "tensorboard"

    def __init__(self, out: Path) -> None:
        self._writers = importlib.import_module("tensorboardX")
        self._folder = out / self.name

    def begin(self, group: str, name: str, settings: Facts) -> TrackedRun:
        """Open the files of a run."""
        folder = self._folder / _file_name(group) / _file_name(name)
        # Of two files that begin in the same second, one would replace the other.
        writer = self._writers.SummaryWriter(str(folder), filename_suffix=f".{uuid.uuid4().hex[:8]}")
        return _TensorBoardRun(writer, settings)


class _TensorBoardRun:
    def __init__(self, writer: Any, settings: Facts) -> None:
        self._writer, self._settings = writer, settings

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for key, value in values.items():
            self._writer.add_scalar(key, value, step)
        self._writer.flush()

    def end(self, status: str, results: Facts) -> None:
        hparams = importlib.import_module("tensorboardX.summary").hparams
        for key, value in results.items():
            self._writer.add_scalar(key, value)
        # `add_hparams` of the writer would open a second file.
        for summary in hparams(dict(self._settings) | {"status": status}, dict(results)):
            self._writer.file_writer.add_summary(summary)
        self._writer.close()


# --- W&B --------------------------------------------------------------------------------------------


class WandB:
    """A run of W&B for each run; those of a study are a group. It follows the variables of W&B."""

    name = "wandb"

    def __init__(self, out: Path) -> None:
        self._wandb = importlib.import_module("wandb")
        self._folder = out
        try:
            mode = self._wandb.setup().settings.mode
        except Exception as error:  # its settings come from variables of the environment, too
            raise InputError(f"log wandb: {_in_one_line(error)}") from None
        if mode not in ("offline", "dryrun", "disabled"):
            try:
                self._wandb.login()
            except self._wandb.Error as error:
                raise InputError(f"log wandb: {_in_one_line(error)} Or set WANDB_MODE=offline.") from None

    def begin(self, group: str, name: str, settings: Facts) -> TrackedRun:
        """Begin a run beside those that are open."""
        run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            dir=str(self._folder),
            group=group,
            name=name,
            config=dict(settings),
            reinit="create_new",
            settings=self._wandb.Settings(silent=True, console="off"),
        )
        return _WandBRun(run)


class _WandBRun:
    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def end(self, status: str, results: Facts) -> None:
        self._run.summary.update({"status": status, **results})
        self._run.finish()


# --- MLflow -----------------------------------------------------------------------------------------


class MLflow:
    """A run of MLflow for each run, in `mlflow.db` or where its variable MLFLOW_TRACKING_URI says."""

    name = "mlflow"

    def __init__(self, out: Path) -> None:
        mlflow = importlib.import_module("mlflow")
        for noisy in ("mlflow", "alembic"):  # they report each table of a new database
            logging.getLogger(noisy).setLevel(logging.WARNING)
        database = out.absolute() / "mlflow.db"
        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{database}"
        project = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        try:
            if not os.environ.get("MLFLOW_TRACKING_URI"):
                _make_database(database, mlflow)
            self._client = mlflow.MlflowClient(tracking_uri=uri)
            known = self._client.get_experiment_by_name(project)
            artifacts = (
                None if os.environ.get("MLFLOW_TRACKING_URI") else (out / "mlruns").absolute().as_uri()
            )
            self._experiment = (
                self._client.create_experiment(project, artifact_location=artifacts)
                if known is None
                else known.experiment_id
            )
        except Exception as error:
            raise InputError(f"log mlflow: {uri} cannot be used ({_in_one_line(error)})") from None

    def begin(self, group: str, name: str, settings: Facts) -> TrackedRun:
        """Begin a run."""
        run = self._client.create_run(self._experiment, run_name=name, tags={"study": group})
        return _MLflowRun(self._client, run.info.run_id, settings)


def _make_database(target: Path, mlflow: Any) -> None:
    """Make a database of MLflow unless there is one, as a whole: MLflow cannot go on with half of one.

    Of several processes that make it, the first one wins.
    """
    if target.is_dir():  # MLflow would try again and again
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists():
        return
    with tempfile.TemporaryDirectory() as elsewhere:
        empty = Path(elsewhere) / target.name
        mlflow.MlflowClient(tracking_uri=f"sqlite:///{empty}").search_experiments(max_results=1)
        content = empty.read_bytes()
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.tmp")
    write_whole(temporary, content)
    try:
        os.link(temporary, target)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        os.replace(temporary, target)
    temporary.unlink(missing_ok=True)


class _MLflowRun:
    def __init__(self, client: Any, run: str, settings: Facts) -> None:
        self._entities = importlib.import_module("mlflow.entities")
        self._client, self._run = client, run
        self._waiting: list[Any] = []
        self._passed = time.monotonic()
        params = [self._entities.Param(key, str(value)) for key, value in settings.items()]
        client.log_batch(run, params=params)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        now = int(1000 * time.time())
        self._waiting += [self._entities.Metric(key, value, now, step) for key, value in values.items()]
        if len(self._waiting) >= MOST_WAITING or time.monotonic() - self._passed > LONGEST_WAIT:
            self._pass_on()

    def _pass_on(self) -> None:
        self._client.log_batch(self._run, metrics=self._waiting)
        self._waiting, self._passed = [], time.monotonic()

    def end(self, status: str, results: Facts) -> None:
        self.log(0, {key: float(value) for key, value in results.items()})
        self._pass_on()
        self._client.set_tag(self._run, "status", status)
        self._client.set_terminated(self._run, "KILLED" if status == "stopped" else "FINISHED")


# --- by name ----------------------------------------------------------------------------------------

#: Name of a tracker, and of its extra → what opens it, and the package that is imported.
TRACKERS: Mapping[str, tuple[type[TensorBoard] | type[WandB] | type[MLflow], str]] = {
    "wandb": (WandB, "wandb"),
    "tensorboard": (TensorBoard, "tensorboardX"),
    "mlflow": (MLflow, "mlflow"),
}


def check_trackers(names: Sequence[str]) -> None:
    """Refuse names that are not those of trackers, and trackers that are not installed."""
    problems = []
    for name in names:
        if not isinstance(name, str) or name not in TRACKERS:
            problems.append(f"log must be {listed(TRACKERS)}, got {shown(name)}")
            continue
        package = TRACKERS[name][1]
        try:
            importlib.import_module(package)
        except ImportError:
            problems.append(f"log: {package} is not installed; pip install 'denseam[{name}]'")
    refuse(problems)


def open_tracker(name: str, out: str | os.PathLike[str]) -> Tracker:
    """Return the tracker of this name, with its files in a folder."""
    folder, _ = together(lambda: path_of("out", out), lambda: check_trackers([name]))
    try:
        make_folder(folder)
    except OSError as error:
        raise InputError(f"out {folder}: cannot be written ({error.strerror})") from None
    return TRACKERS[name][0](folder)


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _file_name(name: str) -> str:
    """Return a name without characters that separate folders."""
    return re.sub(r"[^\w.,=+ -]", "_", name).lstrip(".") or "_"
