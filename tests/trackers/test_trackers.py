"""What W&B, TensorBoard and MLflow keep on this machine, read back with their own packages."""

import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import denseam as dam
from denseam.cli import main
from denseam.report.trackers import TRACKERS
from tests import ROOT
from tests.trackers.readers import READERS

#: Inside of MLflow, with SQLAlchemy 2.1.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")

STUDY = dam.Study(
    activation="relu", optimizer="sgd", scales=(8, 16), eta0=(0.01, 1e4), seeds=2, epochs=3, name="a/b"
)  # fmt: skip


@pytest.fixture(params=TRACKERS)
def name(request):
    pytest.importorskip(TRACKERS[request.param][1], reason=f"needs the extra {request.param!r}")
    return request.param


def test_the_losses_of_a_sweep_are_kept(name, tmp_path):
    with dam.tracker(name, tmp_path) as log:
        records = dam.sweep(STUDY, progress=log)
    kept = {run.name: run for run in READERS[name](tmp_path)}
    assert len(kept) == len(records) == 8
    for row in records:
        run = kept[f"N={row['scale']} eta0={row['eta0']:.6g} seed={row['seed']}"]
        assert run.group in ("a/b", "a_b")
        assert run.status == row["status"]
        assert float(run.settings["eta0"]) == row["eta0"]
        assert int(run.settings["memories"]) == row["memories"]
        assert run.settings["activation"] == "relu"
        per_epoch = row["samples"] // row["batch"]
        curve = {(i + 1) * per_epoch: loss for i, loss in enumerate(row["loss"]) if math.isfinite(loss)}
        assert run.curves.get("epoch_loss", {}) == pytest.approx(curve, rel=1e-6)
        if row["status"] == "finished":
            assert len(curve) == 3
            assert run.results["final_mse"] == pytest.approx(row["final_mse"], rel=1e-6)
            assert run.results["heldout_mse"] == pytest.approx(row["heldout_mse"], rel=1e-6)
        else:
            assert "final_mse" not in run.results
    assert {run.status for run in kept.values()} == {"finished", "diverged"}


def test_the_losses_of_a_training_are_kept(name, tmp_path, capsys):
    np.save(tmp_path / "data.npy", np.random.default_rng(0).standard_normal((80, 8)).astype(np.float32))
    line = f"train {tmp_path / 'data.npy'} --eta0 0.03 --memories 16 --epochs 3 --out {tmp_path / 'memory'}"
    assert main([*line.split(), "--log", name, "--json", "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    (run,) = READERS[name](tmp_path / "memory")
    document = json.loads(printed.out)
    assert list(run.curves["epoch_loss"].values()) == pytest.approx(document["loss"], rel=1e-6)
    assert list(run.curves["loss"])[-1] == list(run.curves["epoch_loss"])[-1]
    assert run.status == "finished"
    assert run.results["final_mse"] == pytest.approx(document["final_mse"], rel=1e-6)
    assert float(run.settings["eta0"]) == 0.03


def test_the_runs_of_all_sweeps_of_a_tuning_are_kept(tmp_path):
    pytest.importorskip("tensorboardX", reason="needs the extra 'tensorboard'")
    pytest.importorskip("tensorboard", reason="needs the extra 'tensorboard'")
    file = tmp_path / "data.npy"
    np.save(file, np.random.default_rng(0).standard_normal((160, 32)).astype(np.float32))
    goal = dam.goal(str(file), optimizer="adam", epochs=2)
    with dam.tracker("tensorboard", tmp_path) as log:
        dam.tune(goal, tmp_path / "tuned", seeds=3, progress=log)
    runs = dam.Store(tmp_path / "tuned" / "runs").read()
    assert len(runs) > 5
    assert len(list(READERS["tensorboard"](tmp_path))) == len(runs)


def test_wandb_without_a_key_is_refused_before_any_training(tmp_path, monkeypatch, capsys):
    pytest.importorskip("wandb", reason="needs the extra 'wandb'")
    import wandb

    def no_key():
        raise wandb.errors.UsageError("No API key configured.")

    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setattr(wandb, "setup", lambda: type("S", (), {"settings": wandb.Settings(mode="online")}))
    monkeypatch.setattr(wandb, "login", no_key)
    line = f"sweep --activation relu --optimizer sgd --scales 8 --eta0 0.1 --out {tmp_path} --log wandb"
    assert main(line.split()) == 64
    assert (
        capsys.readouterr().err == "denseam: log wandb: No API key configured. Or set WANDB_MODE=offline.\n"
    )
    assert not (tmp_path / "shards").exists()


def test_an_mlflow_server_that_cannot_be_used_is_refused(tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="needs the extra 'mlflow'")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://here")
    with pytest.raises(dam.InputError, match=r"^log mlflow: nonsense://here cannot be used"):
        dam.tracker("mlflow", tmp_path)


def test_the_example_of_the_page_runs_as_printed(tmp_path):
    pytest.importorskip("tensorboardX", reason="needs the extra 'tensorboard'")
    page = (ROOT / "docs" / "trackers.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    subprocess.run([sys.executable, "-W", "error", "-c", block], check=True, cwd=tmp_path)
    assert len(list(READERS["tensorboard"](tmp_path / "runs"))) == len(dam.Store(tmp_path / "runs").read())


def test_a_database_whose_making_is_killed_is_never_there(tmp_path, monkeypatch):
    """MLflow cannot go on with half of one: the same command would fail for ever."""
    mlflow = pytest.importorskip("mlflow", reason="needs the extra 'mlflow'")

    class Killed:
        def __init__(self, tracking_uri):
            Path(tracking_uri.removeprefix("sqlite:///")).write_bytes(b"half")
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(mlflow, "MlflowClient", Killed)
        with pytest.raises(KeyboardInterrupt):
            dam.tracker("mlflow", tmp_path)
    assert not list(tmp_path.iterdir())
    with dam.tracker("mlflow", tmp_path) as log:
        records = dam.sweep(STUDY, progress=log)
    assert len(list(READERS["mlflow"](tmp_path))) == len(records)
    assert not list(tmp_path.glob(".*"))


def test_a_folder_in_the_place_of_the_database_is_refused_at_once(tmp_path):
    pytest.importorskip("mlflow", reason="needs the extra 'mlflow'")
    (tmp_path / "mlflow.db").mkdir()
    began = time.monotonic()
    with pytest.raises(dam.InputError, match=r"mlflow.db cannot be used .*Is a directory"):
        dam.tracker("mlflow", tmp_path)
    assert time.monotonic() - began < 60  # MLflow would try for almost two minutes


def test_a_tracker_that_is_named_twice_keeps_every_run_once(name, tmp_path):
    words = (
        "sweep --activation relu --optimizer sgd --scales 8,16 --eta0 0.01,0.03 --seeds 1 --epochs 1 --quiet"
    )
    assert main([*words.split(), "--log", name, "--log", name, "--out", str(tmp_path)]) == 0
    kept = [run.name for run in READERS[name](tmp_path)]
    assert len(kept) == len(set(kept)) == 4


@pytest.mark.parametrize(("variable", "value"), [("WANDB_MODE", "nonsense"), ("WANDB_PROJECT", "a/b:?")])
def test_settings_that_wandb_refuses_are_one_line(variable, value, tmp_path):
    pytest.importorskip("wandb", reason="needs the extra 'wandb'")
    words = "sweep --activation relu --optimizer sgd --scales 8,16 --eta0 0.01 --log wandb --quiet --out out"
    found = subprocess.run(
        [sys.executable, "-m", "denseam", *words.split()], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, variable: value},
    )  # fmt: skip
    assert found.returncode == 64, found.stderr
    assert found.stderr.count("\n") == 1
    assert found.stderr.startswith("denseam: log wandb: ")
    assert value in found.stderr
