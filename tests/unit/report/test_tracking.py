"""What a tracker is told, and that training goes on without it."""

import json
import sys
import threading
import time
import types
from dataclasses import replace

import numpy as np
import pytest

import denseam as dam
from denseam.cli import main
from denseam.ground.errors import TrackerWarning
from denseam.report import tracking
from denseam.report.trackers import TRACKERS
from denseam.report.tracking import Tracking, tracker
from denseam.studies.shards import outcome
from denseam.training.progress import EVENTS, Progress, calling, to_all
from tests.synthetic import study

STUDY = study(scales=(16,), eta0=(0.01, 0.1), seeds=2, name="one")


class Recorded:
    """A tracker that keeps what it is told, until it fails, and takes some time for each run."""

    name = "recorded"

    def __init__(self, fails_after=None, seconds=0.0):
        self.runs, self._fails_after, self._seconds = [], fails_after, seconds

    def begin(self, group, name, settings):
        time.sleep(self._seconds)
        if len(self.runs) == self._fails_after:
            raise ConnectionError("the server\nis gone")
        self.runs.append(RecordedRun(group, name, settings))
        return self.runs[-1]


class RecordedRun:
    def __init__(self, group, name, settings):
        self.group, self.name, self.settings, self.logged, self.ending = group, name, settings, [], None

    def log(self, step, values):
        self.logged.append((step, values))

    def end(self, status, results):
        assert self.ending is None, "a run ends once"
        self.ending = status, results


def swept(told, asked=STUDY, closes=1):
    """Tell a tracker of a sweep, as trained elsewhere: without curves."""
    with Tracking(told) as listener:
        listener.sweep_begins([(asked, asked.runs())], 0)
        for spec in asked.runs():
            diverged = spec.values["eta0"] > 0.05
            listener.finished([outcome(spec, ("diverged", np.inf) if diverged else ("finished", 0.25))])
        listener.sweep_ends()
        for _ in range(closes - 1):
            listener.close()
    return told.runs


def test_a_run_of_a_sweep_is_a_run_of_the_tracker():
    runs = swept(Recorded())
    names = {f"N=16 eta0={eta0:g} seed={seed}" for seed in (0, 1) for eta0 in (0.01, 0.1)}
    assert {run.name for run in runs} == names
    assert len(runs) == len(names)
    assert {run.group for run in runs} == {"one"}
    for run in runs:
        assert run.settings["optimizer"] == "sgd"
        good = run.settings["eta0"] == 0.01
        assert run.ending == (("finished", {"final_mse": 0.25}) if good else ("diverged", {}))


def test_two_studies_of_one_name_are_two_groups():
    """Else TensorBoard would join the curves of their runs, which have the same names."""
    told, both = Recorded(), [STUDY, replace(STUDY, centred=False)]
    with Tracking(told) as listener:
        listener.sweep_begins([(each, each.runs()) for each in both], 0)
        for each in both:
            listener.finished([outcome(spec, ("finished", 0.25)) for spec in each.runs()])
    assert {run.group for run in told.runs} == {f"one ({each.id[:6]})" for each in both}
    assert len({(run.group, run.name) for run in told.runs}) == 8


def test_a_training_of_ones_own_model_is_a_run():
    told, data = Recorded(), np.random.default_rng(0).standard_normal((40, 8), np.float32)
    scales = dam.prescription("relu", "sgd").at(dam.Shape(8, 16, 40, 4), eta0=0.1)
    with Tracking(told) as listener:
        model, optimizer = dam.DenseAM.create(scales, dam.relu()), dam.sgd(scales)
        run = dam.train(model, data, optimizer=optimizer, epochs=2, noise=0.5, batch=4, progress=listener)
    (kept,) = told.runs
    losses = [(step, values["epoch_loss"]) for step, values in kept.logged if "epoch_loss" in values]
    assert losses == [(10 * (i + 1), pytest.approx(run.mse[i].mean())) for i in range(2)]
    status, results = kept.ending
    assert status == "finished"
    assert results["final_mse"] == pytest.approx(run.mse[-1].mean())


def test_the_predicted_range_and_a_stop_are_passed():
    told = Recorded()
    with Tracking(told) as listener:
        listener.training_described({"study": "large", "scale": 64, "regime": "proportional", "swept": "eta0",
                                     "eta0": 0.1, "seed": 3, "decay": None})  # fmt: skip
        listener.training_begins("a memory", 20, 2)
        listener.training_advanced(10, 0.5)
        listener.epoch_ended(1, 0.5, (0.4, 0.6))
        listener.training_advanced(20, np.inf)
        listener.training_ends()
    (run,) = told.runs
    assert (run.group, run.name) == ("large", "N=64 eta0=0.1 seed=3")
    assert "decay" not in run.settings
    assert run.logged == [
        (10, {"loss": 0.5}),
        (10, {"epoch_loss": 0.5, "expected_low": 0.4, "expected_high": 0.6}),
    ], "what is not finite is left out"
    assert run.ending == ("stopped", {})


def test_training_goes_on_without_a_tracker_that_fails():
    told = Recorded(fails_after=1)
    with pytest.warns(TrackerWarning) as caught:
        swept(told, closes=2)
    (warning,) = caught
    cause = "ConnectionError: the server is gone"  # in one line
    assert str(warning.message) == f"log: recorded failed; training continues without it ({cause})"
    assert len(told.runs) == 1


def test_the_program_says_so_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", types.ModuleType("wandb"))
    monkeypatch.setattr(tracking, "open_tracker", lambda name, out: Recorded(fails_after=1))
    line = f"sweep --activation relu --optimizer sgd --scales 8 --eta0 0.1 --epochs 2 --out {tmp_path}"
    assert main([*line.split(), "--seeds", "2", "--log", "wandb", "--json", "--quiet"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["runs"] == len(dam.Store(tmp_path).read()) == 2
    assert printed.err == (
        "warning: log: recorded failed; training continues without it (ConnectionError: the server is gone)\n"
    )


def test_a_training_that_was_finished_before_is_no_run():
    told = Recorded()
    with Tracking(told) as listener:
        listener.training_begins("a memory", 20, 2, done=20)
        listener.training_ends()
        listener.training_finished({"status": "finished", "final_mse": 0.5})
    assert not told.runs


def test_a_slow_tracker_is_waited_for(monkeypatch):
    monkeypatch.setattr(tracking, "PATIENCE", 0.3)
    assert len(swept(Recorded(seconds=0.15))) == 4


def test_a_hung_tracker_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(tracking, "PATIENCE", 0.1)
    hung, release = Recorded(), threading.Event()
    monkeypatch.setattr(hung, "begin", lambda *_: release.wait())
    with pytest.warns(TrackerWarning, match="nothing was written for 0 s"):
        swept(hung)
    release.set()


@pytest.mark.parametrize("command", ["sweep", "tune digits", "train digits --eta0 0.1"])
@pytest.mark.parametrize("name", TRACKERS)
def test_a_tracker_that_is_not_installed_names_its_extra(name, command, tmp_path, monkeypatch, capsys):
    package = TRACKERS[name][1]
    monkeypatch.setitem(sys.modules, package, None)
    options = "--activation relu --optimizer sgd --scales 8 --eta0 0.1" if command == "sweep" else ""
    assert main([*f"{command} {options} --out {tmp_path / 'out'} --log {name}".split()]) == 64
    problem = f"log: {package} is not installed; pip install 'denseam[{name}]'"
    assert capsys.readouterr().err == f"denseam: {problem}\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("sweep --optimizer sgd --scales 8 --eta0 0.1", "activation is needed"),
        ("tune digits --epochs 0", "epochs must be"),
        ("train digits", "tuned is needed"),
    ],
)
def test_other_problems_are_reported_with_it(command, problem, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main([*command.split(), "--log", "wandb", "--log", "aim"]) == 64
    (line,) = capsys.readouterr().err.splitlines()
    for part in (problem, "denseam[wandb]", "log must be 'wandb'", "got 'aim'"):
        assert part in line


@pytest.mark.parametrize("name", ["aim", None, ["wandb"]])
def test_other_names_are_refused(name, tmp_path):
    with pytest.raises(dam.InputError, match=r"^log must be 'wandb', 'tensorboard' or 'mlflow', got "):
        tracker(name, tmp_path)


def test_every_event_reaches_all_listeners():
    heard = []
    listeners = [
        calling(**{event: lambda *_, event=event, i=i: heard.append((event, i)) for event in EVENTS})
        for i in (0, 1)
    ]
    both = to_all(*listeners)
    for event in EVENTS:
        getattr(both, event)(1)
    assert heard == [(event, i) for event in EVENTS for i in (0, 1)]
    assert "training_finished" in EVENTS
    assert isinstance(both, Progress)
