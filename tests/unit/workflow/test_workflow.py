"""From data to a trained memory, through the installed program."""

import contextlib
import inspect
import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from denseam.cli import app, main
from denseam.studies import dask_executor
from denseam.studies.shards import run_shard
from denseam.workflow.planning import Machine, plan
from denseam.workflow.tuning import tune
from tests.program import PROGRAM, refused
from tests.sampled import sampled
from tests.synthetic import Landscape, made_up_runs

pytestmark = pytest.mark.usefixtures("coarsely")
GOAL = ("--features", 64, "--epochs", 6, "--rho", 4, "--beta", 0.25, "--optimizer", "sgd")
#: So small models are too noisy for the usual one.
LOOSE = ("--tolerance", 0.5)


def document(found):
    """The one JSON document on standard output."""
    assert found.stderr == "" or "denseam" in found.stderr or "runs" in found.stderr
    return json.loads(found.stdout)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """1200 pictures of clouds, 12×12: Gaussian fields with a power-law spectrum."""
    rng, k = np.random.default_rng(0), np.fft.fftfreq(12)
    amplitude = (k[:, None] ** 2 + k**2 + 1 / 144) ** -0.5
    clouds = np.fft.ifft2(amplitude * np.fft.fft2(rng.standard_normal((1200, 12, 12)))).real
    path = tmp_path_factory.mktemp("images") / "clouds.npy"
    np.save(path, (127 + 50 * clouds / clouds.std()).clip(0, 255).astype(np.uint8))
    return path


@pytest.fixture(scope="module")
def tuned(images, tmp_path_factory, inside):
    """A search at blocks of 1×2, 2×2 and 2×4 pixels, and what the program said."""
    folder = tmp_path_factory.mktemp("tuned")
    found = inside("tune", images, "--epochs", 12, "--unit-variance", *LOOSE, "--out", folder, "--json")
    return folder, found


@pytest.fixture(scope="module")
def trained(images, tuned, inside):
    folder, _ = tuned
    return folder / "target" / "memory.safetensors", inside("train", images, "--tuned", folder, "--json")


def test_tune_says_what_was_chosen_and_why(tuned):
    _, found = tuned
    said = document(found)
    assert found.returncode == 0
    assert said["status"] in ("TRANSFERS", "DRIFTS")
    assert (said["status"] == "DRIFTS") == said["drift_corrected"]
    assert said["eta0"] == said["forecast_eta0"]
    low, high = said["interval_at_target"]
    assert low < said["eta0"] < high
    assert 0 < said["predicted_regret"] < said["regret_bound"] < said["tolerance"] == 0.5
    assert said["by"] == "training"
    assert said["target"] == {"N": 144, "K": 288, "P": 1080, "B": 72}
    assert (said["scales"], said["seeds"][0]) == ([18, 36, 72], 3)
    assert said["parameters"]["s1"] == pytest.approx(1 / 12)
    assert said["data"].endswith("clouds.npy, plaquettes, centred, unit variance, 0.1 held out")
    assert said["cost"]["share"] < 0.15
    assert (said["few_directions"], said["participation"] > 5) == (False, True)
    assert (said["samples_available"], said["samples_heldout"]) == (1080, 120)
    assert said["samples_used"] == said["target"]["P"]
    for file in said["files"]:
        assert os.path.getsize(file) > 1000


def test_train_recall_and_consistency(images, tuned, trained, tmp_path, inside):
    folder, _ = tuned
    model, found = trained
    said = document(found)
    assert found.returncode == 0
    assert said["status"] == "finished"
    assert said["final_mse"] < 0.5 * said["zero_mse"]
    assert len(said["loss"]) == 12
    assert all(os.path.exists(file) for file in said["files"])

    recalled = inside(
        "recall", model, images, "--heldout", "--samples", 20, "--noise", "1,2", "--steps", 3,
        "--out", tmp_path / "recalled", "--json",
    )  # fmt: skip
    levels = document(recalled)["levels"]
    assert [level["noise"] for level in levels] == [1, 2]
    for level in levels:
        assert level["error_once"] < 0.9 * level["error_start"]
        assert level["energy_end"] < level["energy_start"]
        assert level["largest_rise"] < 1e-5
    with np.load(tmp_path / "recalled" / "recalled.npz") as arrays:
        output = arrays["output"]
    assert output.shape == (2, 20, 12, 12)
    assert 100 < output.mean() < 150  # in the values of the file
    assert len(list((tmp_path / "recalled" / "images").iterdir())) == 40
    assert (tmp_path / "recalled" / "recall.png").stat().st_size > 5000

    hidden = inside("recall", model, images, "--samples", 20, "--hide", "left", "--steps", 4)
    assert hidden.returncode == 0
    assert "20 samples, 288 memories" in hidden.stdout

    assert inside("train", images, "--tuned", folder, "--scale", 36, "-q").returncode == 0
    small = folder / "scale-36" / "memory.safetensors"
    compared = document(
        inside("consistency", model, small, images, "--steps", 1, "--out", tmp_path / "c", "--json")
    )
    assert compared["correlation"] > 0.8
    assert compared["correlation"] > compared["chance"] + 0.3
    assert compared["relative_error"] < 0.7
    assert (tmp_path / "c" / "consistency.png").stat().st_size > 5000


def test_train_takes_a_learning_rate_without_a_tuning(images, tuned, tmp_path, inside):
    folder, found = tuned
    options = ("--epochs", 12, "--unit-variance", "--eta0", 0.02, "--out", tmp_path / "given", "--json")
    said = document(inside("train", images, *options))
    assert (said["eta0"], said["eta0_from"], said["tuned_eta0"]) == (0.02, "given", None)
    assert said["predicted_mse"] is None
    replaced = inside("train", images, "--tuned", folder, "--eta0", 0.02, "--out", tmp_path / "replaced")
    assert replaced.returncode == 0
    assert "eta0 = 0.02 (given; no loss curve is predicted)" in replaced.stderr
    assert "no loss curve was predicted for eta0 = 0.02, which was given, not tuned" in replaced.stdout
    record = json.loads((tmp_path / "replaced" / "training.json").read_text())
    assert (record["eta0"], record["eta0_from"]) == (0.02, "given")
    assert record["tuned_eta0"] == document(found)["eta0"]
    assert record["loss"] == said["loss"]  # the same model: only its learning rate came another way
    again = inside("train", images, *options[:3], "--eta0", 0.03, *options[5:])
    refused(again, "eta0 must be 0.02, with which the training in")


def test_plan_comes_before_anything(images, inside):
    found = inside("plan", images, "--json")
    said = document(found)
    assert [row["features"] for row in said["tuning"]["sizes"]] == [18, 36, 72]
    assert [row["runs"] for row in said["tuning"]["sizes"]] == [38, 5, 5]
    assert (said["samples_used"], said["few_directions"]) == (1080, False)
    assert said["training"]["memories"] == 288
    assert 0 < said["share"] < 0.1
    assert said["target_sweep"]["seconds"] > said["tuning"]["seconds"]
    people = inside("plan", images, "--rho", 5, "--seeds", 5)
    assert people.returncode == 0
    assert "sweep the target" in people.stdout
    assert "the target is trained on 720 of 1080 samples; 120 more are held out" in people.stdout
    assert people.stderr == ""


def test_data_of_few_directions_are_warned_of(tmp_path, inside, monkeypatch):
    monkeypatch.setattr(Machine, "here", lambda: Machine("cpu", "", 2, 2e11))
    table = np.random.default_rng(0).standard_normal((300, 64))
    table[:, 3] *= 1000
    np.save(tmp_path / "table.npy", table)
    found = inside("plan", tmp_path / "table.npy", "--json")
    assert "warning: the data vary in few directions (participation 1.00, below 1.5)" in found.stderr
    said = json.loads(found.stdout)
    assert (said["few_directions"], said["participation"]) == (True, pytest.approx(1, abs=0.01))
    better = inside("plan", tmp_path / "table.npy", "--standardize")
    assert (better.returncode, better.stderr) == (0, "")
    assert ", rotated, centred, standardized" in better.stdout


@pytest.fixture
def made_up(monkeypatch):
    """Searches train nothing: the loss is a valley whose optimum moves."""

    def use(**landscape):
        monkeypatch.setattr("denseam.workflow.search.run_specs", made_up_runs(Landscape(64, **landscape)))

    return use


def test_a_refusal_is_an_answer(tmp_path, inside, made_up):
    made_up(drift=0.5)
    (tmp_path / "t").mkdir()
    options = ("--parameterization", "eta_W=K^3", "--by", "heldout", "--out", tmp_path / "t", "-q")
    found = inside("tune", "isotropic", *GOAL, *options)
    assert found.returncode == 2
    assert "relu-sgd-eta_W=K^3: not a prescribed rule, so not expected to transfer" in found.stderr
    assert "no learning rate is recommended" in found.stdout
    assert "forecast: eta0 = " in found.stdout
    assert "no calibration exists for this setting" in found.stdout
    assert "the sizes alone" not in found.stdout  # one seed each
    assert "the target is trained on 256 generated samples" in found.stdout
    assert "not the prescription" in found.stdout
    lines = found.stdout.partition("commands that would settle it:\n")[2].splitlines()[:3]
    assert [line.split()[:3] for line in lines[:2]] == [
        ["denseam", "tune", "isotropic"], ["denseam", "sweep", "--activation"]
    ]  # fmt: skip
    assert "--parameterization" not in lines[0]
    assert "--by heldout" in lines[0]
    assert "--scales 64 " in lines[1]
    assert lines[2] == f"to train anyway: denseam train isotropic --tuned {tmp_path / 't'} --accept"
    written = json.loads((tmp_path / "t" / "tuned.json").read_text())
    assert written["commands"] == [line.strip() for line in lines[:2]]
    refused(inside("train", "isotropic", "--tuned", tmp_path / "t"), "no learning rate is recommended")
    accepted = inside("train", "isotropic", "--tuned", tmp_path / "t", "--accept", "-q", "--json")
    said = json.loads(accepted.stdout)
    assert said["regret_bound"] == written["regret_bound"]
    assert said["regret_bound"] is None or said["regret_bound"] > written["tolerance"]
    assert (said["eta0"], said["eta0_from"]) == (written["forecast_eta0"], "tuned")
    record = json.loads((tmp_path / "t" / "target" / "training.json").read_text())
    assert record["regret_bound"] == said["regret_bound"]
    given = inside(
        "train", "isotropic", "--tuned", tmp_path / "t", "--eta0", 0.01, "--out", tmp_path / "g", "--json"
    )
    assert json.loads(given.stdout)["regret_bound"] is None


@pytest.mark.parametrize(
    ("drift", "options", "code", "words"),
    [
        (
            0.0,
            LOOSE,
            0,
            "relu-adam: TRANSFERS, tuned at N = 8 (3 seeds), 16 (1 seed), 32 (1 seed) for N = 64",
        ),
        (0.0, ("--tolerance", 0.001), 2, "relu-adam: INCONCLUSIVE"),
        (0.5, ("--scales", "8,16,32"), 1, "relu-adam: FAILS"),
    ],
)
def test_exit_codes_of_a_search(drift, options, code, words, tmp_path, inside, made_up):
    made_up(drift=drift)
    (tmp_path / "t").mkdir()
    goal = ("--features", 64, "--epochs", 6)
    found = inside("tune", "isotropic", *goal, *options, "--out", tmp_path / "t", "-q")
    assert found.returncode == code
    assert found.stdout.startswith(words)
    assert ("next: denseam train isotropic --tuned" in found.stdout) == (code == 0)
    assert "at N = 64; its best value there is expected in [" in found.stdout
    assert ("the sizes alone: FAILS. With eta0 = " in found.stdout) == (code == 1)
    assert (tmp_path / "t" / "tuned.png").stat().st_size > 5000


def test_a_value_beside_a_cliff_has_no_bound(tmp_path, inside, made_up):
    made_up(edge=-1.2)
    (tmp_path / "t").mkdir()
    found = inside("tune", "isotropic", "--features", 64, "--epochs", 6, "--out", tmp_path / "t", "-q")
    assert found.returncode == 2
    assert found.stdout.splitlines()[1].endswith(" at N = 64")
    assert "its cost has no bound: training diverges at a value beside the best one" in found.stdout
    assert (tmp_path / "t" / "tuned.png").stat().st_size > 5000
    said = json.loads((tmp_path / "t" / "tuned.json").read_text())
    assert (said["interval_at_target"], said["regret_bound"], said["predicted_regret"]) == (None, None, None)
    assert said["at_edge"]


@pytest.mark.parametrize(("command", "function"), [("tune", tune), ("plan", plan)])
def test_the_program_has_the_defaults_of_the_library(command, function):
    options = {option.name: option.default for option in app.commands[command].params}
    defaults = {name: p.default for name, p in inspect.signature(function).parameters.items()}
    shared = {"seeds", "budget", "tolerance", "by", "trials"} & defaults.keys()
    assert len(shared) >= 2
    assert {name: options[name] for name in shared} == {name: defaults[name] for name in shared}


class Failing(ThreadPoolExecutor):
    """Answers, and cannot train anything."""

    def submit(self, fn, /, *arguments):
        return super().submit(fn if fn is not run_shard else lambda _: 1 / 0, *arguments)


@pytest.mark.parametrize(
    "command",
    [
        ("tune", "isotropic", *GOAL),
        (
            "check",
            "--activation",
            "relu",
            "--optimizer",
            "sgd",
            "--scales",
            "8,16",
            "--steps",
            1,
            "--seeds",
            2,
        ),
    ],
    ids=["tune", "check"],
)
def test_runs_that_a_cluster_could_not_train_end_the_command_with_74(command, tmp_path, inside, monkeypatch):
    where = []

    @contextlib.contextmanager
    def failing(cluster, folder, *, progress):
        where.append((cluster.kind, cluster.workers, os.path.basename(folder)))
        with Failing(1) as pool:
            yield pool

    monkeypatch.setattr(dask_executor, "connect", failing)
    found = inside(*command, "--executor", "dask", "--workers", 2, "--out", tmp_path / "out", "-q", "--json")
    assert (found.returncode, found.stdout) == (74, "")
    (line,) = found.stderr.splitlines()
    assert line.startswith("denseam: set aside: relu-sgd at scale 8")
    assert "ZeroDivisionError" in line
    assert "run the same again to resume" in line
    assert where == [("dask", 2, "runs" if command[0] == "tune" else "out")]
    assert not (tmp_path / "out" / "tuned.json").exists()


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((100, 64))
    np.save(folder / "good.npy", vectors)
    holes, constant = vectors.copy(), vectors.copy()
    holes[3, 5] = np.nan
    constant[:, 7] = 2.0
    np.save(folder / "nan.npy", holes)
    np.save(folder / "constant.npy", constant)
    np.save(folder / "objects.npy", np.array([{"a": 1}, [2, 3]], dtype=object), allow_pickle=True)
    (folder / "text.npy").write_text("not an array")
    (folder / "pictures").mkdir()
    from PIL import Image

    for name, size in (("a.png", (8, 8)), ("b.png", (9, 8))):
        Image.new("L", size).save(folder / "pictures" / name)
    return folder


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("tune {bad}/nan.npy --out {out}", "must be finite, got nan at sample 3, feature 5"),
        ("tune {bad}/constant.npy --out {out}", "feature 7 is constant"),
        ("tune {bad}/objects.npy --out {out}", "never unpickled"),
        ("tune {bad}/text.npy --out {out}", "text.npy"),
        ("tune {bad}/pictures --out {out}", "a.png"),
        ("tune {bad}/good.npy --samples 1000 --out {out}", "90 samples to train on (10 more are held out)"),
        ("tune {bad}/good.npy --scales 16,32,128 --out {out}", "target 64 is smaller than the base"),
        ("tune {bad}/good.npy", "out is needed"),
        ("tune {bad}/good.npy --out {out} --executor ray", "executor must be 'local', 'dask' or 'slurm'"),
        (
            "tune {bad}/good.npy --optimizer adagrad --address tcp://a:1",
            "out is needed: a folder for the runs",
        ),
        (
            "tune {bad}/good.npy --optimizer adagrad --address tcp://a:1",
            "optimizer must be 'sgd', 'adam', 'adamw'",
        ),
        (
            "tune {bad}/good.npy --optimizer adagrad --address tcp://a:1",
            "address belongs to the executor 'dask'",
        ),
        ("check --activation relu --optimizer sgd --executor dask", "out is needed with the executor 'dask'"),
        ("check {bad} --executor dask", "its runs are judged as they are"),
        ("tune {bad}/good.npy --tune eta0,gamma --out {out}", "gamma"),
        ("tune {bad}/good.npy --tolerance 2 --out {out}", "tolerance must be above 0 and below 1, got 2.0"),
        ("tune {bad}/good.npy --by test --out {out}", "by must be 'training' or 'heldout', got 'test'"),
        ("tune {bad}/good.npy --by heldout --heldout 0 --out {out}", "by 'heldout' needs held-out samples"),
        ("tune {bad}/good.npy --probe --out {out}", "probe is for the optimizer 'sgd', got 'adam'"),
        ("tune isotropic --features 64 --standardize --out {out}", "standardize belongs to data from a file"),
        ("tune {images} --standardize --out {out}", "standardize is for vectors"),
        ("tune {bad}/good.npy --shrink plaquettes --out {out}", "plaquettes"),
        ("tune nowhere.npy --out {out}", "nowhere.npy"),
        ("plan {bad}/good.npy --regime memories-only", "memories is needed"),
        ("train {bad}/good.npy", "tuned is needed: the folder of denseam tune; or eta0, to train without"),
        ("train {bad}/good.npy --eta0 0.1", "out is needed without a tuning"),
        (
            "train {bad}/good.npy --eta0 fast --samples 1000 --out {out}",
            "eta0 must be above 0 and finite, got 'fast'",
        ),
        ("train {bad}/good.npy --eta0 fast --samples 1000 --out {out}", "90 samples to train on"),
        ("train {bad}/good.npy --eta0 0.1 --noise 0.1,0.2 --out {out}", "noise must be one value"),
        (
            "train {bad}/good.npy --tuned {bad} --unit-variance --epochs 3 --eta0 0.1 --out {out}",
            "epochs comes from the tuning in {bad}; leave it out",
        ),
        (
            "train {bad}/good.npy --tuned {bad} --unit-variance --epochs 3 --eta0 0.1 --out {out}",
            "unit_variance comes from the tuning in {bad}; leave it out",
        ),
        ("train {bad}/good.npy --tuned {bad}", "has no tuned.json"),
        (
            "train {bad}/good.npy --eta0 0.1 --hide 0.5 --out {out}",
            "hide: data {bad}/good.npy is seen in rotated projections, in which no single feature can be hidden",
        ),
        ("tune {bad}/good.npy --hide 0.5 --out {out}", "rotated projections"),
        ("recall {bad}/good.npy {bad}/good.npy", "not a readable safetensors file"),
        ("recall {model} {bad}/good.npy --out {out}", "144 features (12×12 images)"),
        ("recall {model} {images} --mask {bad}/good.npy --out {out}", "mask"),
        ("recall {model} {images} --hide middle --out {out}", "hide must be"),
        ("recall {model} {images} --noise=-1 --out {out}", "noise must be at least 0"),
        ("recall {model} {images} --out {out}.txt", "out must be a folder"),
        ("recall {model} {images} --steps 0 --out {out}", "steps must be"),
        ("recall {model} {images} --noise -1 --steps 0 --samples 0 --out {out}", "got 0; samples must be"),
        ("consistency {model} {model} {images}", "fewer features"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(arguments, words, bad, images, trained, tmp_path, capsys):
    out = tmp_path / "out"
    text = arguments.format(bad=bad, images=images, model=trained[0], out=out)
    assert main(text.split()) == 64
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert words.format(bad=bad) in said.err
    assert not out.exists()


# --- kill -9 -----------------------------------------------------------------------------------------


#: What is killed is another process; what it is compared with, and what resumes it, runs in this one.
AS_HERE = os.environ | {"JAX_ENABLE_X64": "1"}


def killed(arguments, times, rng, begun, longest):
    """Start the program and kill it a moment after it has begun, so many times; return how often it was running."""
    kills = 0
    for _ in range(times):
        before = begun()
        child = subprocess.Popen(
            [PROGRAM, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=AS_HERE
        )
        while child.poll() is None and begun() == before:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, longest))
        kills += child.poll() is None
        child.kill()
        child.wait()
    return kills


def without_seconds(text):
    found = json.loads(text)
    found.get("cost", {}).pop("seconds", None)
    found.pop("seconds", None)
    return found


@pytest.mark.slow  # `tests/faults` kills searches, too
@pytest.mark.parametrize("times", [1, 5])
def test_killed_searches_end_the_same(times, images, tuned, tmp_path):
    rng = random.Random(0)
    search = ["tune", images, "--epochs", 12, "--unit-variance", *LOOSE, "-q"]
    here = [str(word) for word in search]
    shards = tmp_path / "parts" / "runs" / "shards"
    assert (
        killed([*search, "--out", tmp_path / "parts"], times, rng, lambda: len(list(shards.glob("*"))), 0.5)
        > 0
    )
    assert main([*here, "--out", str(tmp_path / "parts")]) == 0
    whole, parts = (without_seconds((p / "tuned.json").read_text()) for p in (tuned[0], tmp_path / "parts"))
    assert parts == whole


SLOW = """
import sys, time
from denseam.workflow import target
from denseam.cli import app, main
target.SAVE_SECONDS, target.SEGMENT_BYTES = 0.0, {segment}  # a state after nearly every step, of 120
real = target._Training._advance
def slow(*arguments):
    time.sleep(0.03)
    return real(*arguments)
target._Training._advance = slow
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("times", sampled([1, 3], few=[1]))
def test_a_killed_training_goes_on_from_its_state(times, images, tuned, tmp_path, monkeypatch):
    """Killed as soon as it has saved a later state, so that every start resumes one."""
    from denseam.model import checkpoint
    from denseam.workflow.target import STATE

    folder, _ = tuned
    train = ["train", str(images), "--tuned", str(folder), "-q", "--out"]
    segment = 72 * 144 * 4
    slow = [sys.executable, "-c", SLOW.format(segment=segment), *train]
    monkeypatch.setattr("denseam.workflow.target.SEGMENT_BYTES", segment)
    assert main([*train, str(tmp_path / "whole")]) == 0
    out, steps = tmp_path / "parts", [0]
    for _ in range(times):
        child = subprocess.Popen([*slow, out], stdout=subprocess.DEVNULL, env=AS_HERE)
        while child.poll() is None:
            if (out / STATE).exists() and (now := checkpoint.read(out / STATE)[1]["step"]) > steps[-1] + 3:
                break
            time.sleep(0.005)
        assert child.poll() is None, "it ended before it was killed"
        child.kill()
        child.wait()
        steps.append(now)
    assert not (out / "memory.safetensors").exists()
    assert main([*train, str(out)]) == 0
    whole, parts = ((p / "memory.safetensors").read_bytes() for p in (tmp_path / "whole", out))
    assert parts == whole
