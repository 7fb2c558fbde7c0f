"""Training one large model: the same as in a sweep, from a stream of batches, through any interruption."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

import denseam as dam
from denseam.analysis.prediction import Expected
from denseam.ground.errors import InputError
from denseam.studies.documents import from_document
from denseam.studies.study import Study
from denseam.training.progress import Progress
from denseam.workflow import target
from denseam.workflow.recipe import Recipe
from denseam.workflow.target import LOG, MODEL, STATE, train_target

SGD = Study("relu", "sgd", (16,), (1.0,), seeds=1, epochs=5, regime=dam.Proportional(2, 5, 0.1))
CASES = {
    "relu-sgd": Recipe(SGD, 0.05),
    "softmax-adam": Recipe(
        Study("softmax", "adam", (16,), (1.0,), seeds=1, epochs=5), 0.05, {"beta": 2.0, "s2_0": 0.5}
    ),
    "scheduled": Recipe(
        replace(SGD, optimizer="adamw", schedule="cosine", axes={"warmup": (0.3,)}, name=""),
        0.05,
        {"decay_time": 2.0},
    ),
    "relu-adam-float64": Recipe(
        Study("relu", "adam", (16,), (1.0,), seeds=1, epochs=5, precision="float64", data="anisotropic"), 0.03
    ),
}


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("case", CASES)
def test_the_target_is_the_run_that_a_sweep_would_train(case, tmp_path):
    recipe = CASES[case]
    study, spec = recipe.run(seed=3)
    (row,) = dam.sweep(study)
    found = train_target(recipe, tmp_path, seed=3)
    assert spec.key == row["key"]
    assert np.allclose(found.loss, row["loss"], rtol=2e-5)
    assert found.heldout_mse == pytest.approx(row["heldout_mse"], rel=2e-5)
    assert found.initial_mse == pytest.approx(row["initial_mse"], rel=2e-5)
    assert found.zero_mse == pytest.approx(row["zero_mse"], rel=0.2)  # over all epochs, there over the last
    assert found.status == "finished"
    assert found.operations == 10 * 16 * 32 * 8 * 10 * 5
    log = json.loads((tmp_path / LOG).read_text())
    assert [run.key for run in from_document(log["study"]).runs()] == [log["run"]] == [spec.key]


def test_samples_from_a_file_are_those_of_a_sweep(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.standard_normal((200, 24)) @ rng.standard_normal((24, 24)) / 4 + 3)
    recipe = Recipe(replace(SGD, data=str(tmp_path / "x.npy"), name=""), 0.02)
    (row,) = dam.sweep(recipe.run()[0])
    found = train_target(recipe, tmp_path / "out")
    assert np.allclose(found.loss, row["loss"], rtol=2e-5)
    assert found.memory.encoder.describe() == f"{tmp_path / 'x.npy'}, 24 features, rotated to 16, centred"
    loaded = dam.Memory.load(tmp_path / "out" / MODEL)
    assert np.array_equal(loaded.model.W, found.memory.model.W)
    assert loaded.model.scales.eta_W == pytest.approx(0.02 * 32)
    assert loaded.noise == 0.5


def test_an_event_stops_it_and_the_state_is_saved(tmp_path):
    stop = threading.Event()
    stop.set()
    with pytest.raises(KeyboardInterrupt):
        train_target(CASES["relu-sgd"], tmp_path, stop=stop)
    assert (tmp_path / STATE).exists()
    assert not (tmp_path / MODEL).exists()


class StopAt(Progress):
    """Ctrl-C after so many steps."""

    def __init__(self, step):
        self.step = step

    def training_advanced(self, step, loss):
        if step >= self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("case", ["relu-sgd", "softmax-adam", "scheduled"])
def test_an_interrupted_training_ends_with_the_same_model(case, tmp_path, monkeypatch):
    monkeypatch.setattr(target, "SEGMENT_BYTES", 3 * 8 * 16 * 4)  # three steps at once, of ten in an epoch
    recipe = CASES[case]
    whole = train_target(recipe, tmp_path / "whole")
    for step in (3, 10, 17, 49):
        with pytest.raises(KeyboardInterrupt):
            train_target(recipe, tmp_path / "parts", progress=StopAt(step))
        assert (tmp_path / "parts" / STATE).exists()
        assert not (tmp_path / "parts" / MODEL).exists()
    parts = train_target(recipe, tmp_path / "parts")
    assert np.array_equal(parts.loss, whole.loss)
    for name in ("W", "b", "c"):
        assert np.array_equal(getattr(parts.memory.model, name), getattr(whole.memory.model, name))
    assert parts.heldout_mse == whole.heldout_mse
    assert parts.initial_mse == whole.initial_mse


def test_a_state_is_saved_as_it_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(target, "SEGMENT_BYTES", 8 * 16 * 4)
    monkeypatch.setattr(target, "SAVE_SECONDS", 0.0)
    saved = []
    real = target.checkpoint.write
    monkeypatch.setattr(
        target.checkpoint, "write", lambda path, *a: (saved.append(path.name), real(path, *a))[1]
    )
    train_target(CASES["relu-sgd"], tmp_path)
    assert saved.count(STATE) > 1


def test_a_finished_training_is_not_trained_again(tmp_path):
    first = train_target(CASES["relu-sgd"], tmp_path)
    seen = []

    class Seen(Progress):
        def training_described(self, settings):
            seen.append((settings["study"], settings["eta0"]))

        def training_advanced(self, step, loss):
            seen.append(step)

        def training_finished(self, results):
            seen.append((results["status"], results["final_mse"]))

    second = train_target(CASES["relu-sgd"], tmp_path, progress=Seen())
    assert seen == [(CASES["relu-sgd"].study.name, 0.05), ("finished", first.final_mse)], "no step"
    assert np.array_equal(first.loss, second.loss)
    with pytest.raises(InputError, match="contains the training of another model"):
        train_target(CASES["softmax-adam"], tmp_path)


def test_the_record_says_where_the_learning_rate_comes_from(tmp_path):
    curve = Expected(*(np.ones(5) for _ in range(3)))
    tuned = replace(CASES["relu-sgd"], tuned_eta0=0.05, expected=curve, regret_bound=0.07, recommended=False)
    for recipe, eta0, origin, predicted in (
        (tuned, 0.05, "tuned", True),
        (tuned.with_eta0(0.05), 0.05, "tuned", True),
        (tuned.with_eta0(0.02), 0.02, "given", False),
        (Recipe(SGD, 0.01), 0.01, "given", False),
    ):
        folder = tmp_path / f"{eta0}-{origin}"
        found = train_target(recipe, folder)
        document = json.loads((folder / LOG).read_text())
        assert (document["eta0"], document["eta0_from"], document["tuned_eta0"]) == (
            eta0, origin, recipe.tuned_eta0,
        )  # fmt: skip
        assert (found.expected is not None) == (document["predicted_mse"] is not None) == predicted
        assert found.regret_bound == document["regret_bound"] == (0.07 if predicted else None)
        assert from_document(document["study"]) == recipe.run()[0]


def test_a_training_is_not_resumed_with_another_learning_rate(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train_target(CASES["relu-sgd"], tmp_path, progress=StopAt(1))
    before = (tmp_path / STATE).read_bytes()
    with pytest.raises(InputError) as caught:
        train_target(CASES["relu-sgd"].with_eta0(0.02), tmp_path)
    assert str(caught.value) == (
        f"eta0 must be 0.05, with which the training in {tmp_path} began, got 0.02; "
        "use another folder for another value"
    )
    with pytest.raises(InputError, match="contains the training of another model"):  # not only eta0 differs
        train_target(Recipe(replace(SGD, epochs=6), 0.02), tmp_path)
    with pytest.raises(InputError, match="contains the training of another model"):
        train_target(CASES["relu-sgd"].with_eta0(0.02), tmp_path, seed=1)
    assert (tmp_path / STATE).read_bytes() == before


@pytest.mark.parametrize("eta0", [0, -0.1, np.inf, np.nan, "0.1", None, True])
def test_a_recipe_has_a_learning_rate(eta0):
    with pytest.raises(InputError, match="eta0 must be above 0 and finite, got"):
        Recipe(SGD, eta0)


def test_a_damaged_state_is_said(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train_target(CASES["relu-sgd"], tmp_path, progress=StopAt(1))
    (tmp_path / STATE).write_bytes((tmp_path / STATE).read_bytes()[:-8])
    with pytest.raises(InputError, match="not a readable safetensors file"):
        train_target(CASES["relu-sgd"], tmp_path)


def test_divergence_is_data_and_leaves_no_model(tmp_path):
    found = train_target(Recipe(SGD, 300.0), tmp_path)
    assert found.status == "diverged"
    assert found.diverged_at is not None
    assert found.memory is None
    assert not (tmp_path / MODEL).exists()
    document = json.loads((tmp_path / LOG).read_text())
    assert document["diverged"]
    assert document["final_mse"] is None


@pytest.mark.parametrize(
    ("optimizer", "eta0", "status"),
    [("sgd", 1e-4, "finished"), ("sgd", 0.3, "diverged"), ("adam", 3.0, "diverged")],
)
def test_it_diverges_where_a_sweep_does(optimizer, eta0, status, tmp_path):
    """Also a run that hardly moves from where it began, and one that ends above, finite."""
    recipe = Recipe(replace(SGD, optimizer=optimizer, name=""), eta0)
    (row,) = dam.sweep(recipe.run()[0])
    found = train_target(recipe, tmp_path)
    assert found.status == row["status"] == status
    assert found.diverged_at == row["diverged_at"]
    assert np.isfinite(found.final_mse) == (eta0 != 0.3)


@pytest.mark.parametrize(("middle", "side"), [(0.01, "above"), (30.0, "below"), (None, "")])
def test_a_word_when_the_loss_leaves_what_was_expected(middle, side, tmp_path):
    plain = train_target(CASES["relu-sgd"], tmp_path / "plain")
    curve = plain.loss / plain.zero_mse if middle is None else np.full(5, middle)
    recipe = replace(CASES["relu-sgd"], expected=Expected(0.9 * curve, curve, 1.1 * curve))
    told = []

    class Told(Progress):
        def left_expected(self, epoch, loss, expected, where):
            told.append((epoch, where))

    found = train_target(recipe, tmp_path / "out", progress=Told())
    assert told == ([(2, side)] if side else [])
    assert (found.left_at, found.left_side) == ((2, side) if side else (None, ""))


def test_another_size_of_the_family_has_no_expectation(tmp_path):
    curve = Expected(*(np.zeros(5) for _ in range(3)))
    recipe = replace(CASES["relu-sgd"], expected=curve, tuned_eta0=0.05, regret_bound=0.01)
    found = train_target(recipe, tmp_path, scale=24)
    assert (found.memory.model.N, found.left_at, found.regret_bound) == (24, None, None)


MEASURE = """
import sys, threading, time
import denseam as dam
from denseam.workflow.recipe import Recipe
from denseam.studies.study import Study
from denseam.workflow.target import train_target

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) / 1024

def training(data, out):
    # the work without the data: everything is compiled and imported when it ends
    study = Study("relu", "sgd", (32,), (1.0,), seeds=1, epochs=1, data=data, regime=dam.MemoriesOnly(1024, P, 512))
    return train_target(Recipe(study, 0.002), out)

folder, P = sys.argv[1], int(sys.argv[2])
most, going = 0.0, True
def watch():
    global most
    while going:
        most = max(most, anonymous())
        time.sleep(0.01)
P, whole = 2048, P
training(folder + "/small.npy", folder + "/a")
before = anonymous()
thread = threading.Thread(target=watch); thread.start()
P = whole
found = training(folder + "/large.npy", folder + "/b")
going = False; thread.join()
print(found.status, most - before)
"""


@pytest.mark.slow
def test_data_larger_than_allowed_memory_is_streamed(tmp_path):
    rng = np.random.default_rng(0)
    block = (rng.standard_normal((4096, 8)) @ rng.standard_normal((8, 1024)) / 3).astype(np.float32)
    np.save(tmp_path / "small.npy", block)
    large = np.lib.format.open_memmap(tmp_path / "large.npy", "w+", np.float32, (120 * 1024, 1024))
    for first in range(0, len(large), len(block)):
        large[first : first + len(block)] = block
    del large  # 480 MB
    optimized = {
        name: value for name, value in os.environ.items() if name != "XLA_FLAGS"
    }  # 10⁸ random numbers
    # What is freed goes back at once, so that what is counted is in use.
    optimized["MALLOC_MMAP_THRESHOLD_"] = str(1 << 20)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path), "110000"],
        capture_output=True, text=True, check=False, env=optimized,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    status, grown = done.stdout.split()
    assert status == "finished"
    assert float(grown) < 330, grown  # MB; the samples alone are 430
