"""Samples of a file as patterns, stored without training: through the command, and back through recall."""

import errno
import json
from pathlib import Path

import numpy as np
import pytest

import denseam as dam
from denseam.ground.errors import InputError, NotWritten
from denseam.workflow import memorizing
from denseam.workflow.memory import Memory
from denseam.workflow.storing import Storing

RNG = np.random.default_rng(3)
X = (5 + 2 * RNG.standard_normal((80, 24))).astype(np.float32)
SIGNS = np.sign(RNG.standard_normal((40, 24)))
IMAGES = RNG.integers(0, 256, (30, 5, 4), np.uint8)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, array in {"x": X, "signs": SIGNS, "images": IMAGES}.items():
        np.save(f"{name}.npy", array)


def test_the_command_stores_and_recall_gives_the_patterns_back(inside):
    stored = inside("memorize", "x.npy", "--noise", 0.5, "--out", "memory")
    assert (stored.returncode, stored.stderr) == (0, "")
    assert "80 patterns of 24 features, stored without training" in stored.stdout
    assert "next: denseam recall memory INPUT" in stored.stdout
    back = inside("recall", "memory", "x.npy", "--hide", 0.5, "--out", "filled.npy", "--json")
    assert (back.returncode, back.stderr) == (0, "")
    np.testing.assert_allclose(np.load("filled.npy"), X, atol=1e-3)
    (level,) = json.loads(back.stdout)["levels"]
    assert level["error_start"] > 1
    assert level["error_end"] < 1e-6
    assert level["largest_rise"] < 1e-5
    assert level["converged"] == 80


def test_no_document_of_an_earlier_memory_stays_beside_a_new_one(inside, monkeypatch):
    assert inside("memorize", "x.npy", "--out", "memory").returncode == 0

    def full(target, content):
        raise NotWritten(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr(memorizing, "write_whole", full)
    failed = inside("memorize", "signs.npy", "--out", "memory")
    assert (failed.returncode, failed.stderr.count("\n")) == (74, 1)
    assert sorted(path.name for path in Path("memory").iterdir()) == ["memory.safetensors"]


def test_the_document_says_what_the_text_says(inside):
    found = inside("memorize", "x.npy", "--noise", 0.5, "--cues", 20, "--out", "memory", "--json")
    document = json.loads(found.stdout)
    assert (document["schema"], document["patterns"], document["features"]) == (1, 80, 24)
    assert document["activation"] == {"name": "softmax", "beta": document["spacing"]["beta"]}
    assert document["capacity"] is None
    assert [(t["noise"], t["hidden"], t["cues"]) for t in document["trials"]] == [
        (0, 0, 20),
        (0.5, 0, 20),
        (0, 0.5, 20),
    ]
    assert [t["recalled"] for t in document["trials"]] == [1, 1, 1]
    kept = json.loads(Path("memory/memorized.json").read_text())
    assert {key: document[key] for key in ("spacing", "trials")} == {
        key: kept[key] for key in ("spacing", "trials")
    }
    assert document["files"] == ["memory/memory.safetensors", "memory/memorized.json"]


def test_relu_stores_and_says_its_capacity(inside):
    found = inside("memorize", "signs.npy", "--activation", "relu", "--power", 3, "--hide", 0.2, "--out", "m")
    assert "ReLU^3: about 290 random patterns of signs" in found.stdout
    document = json.loads(Path("m/memorized.json").read_text())
    assert document["spacing"] is None
    assert document["capacity"] == pytest.approx(24**3 / (15 * np.log(24)))
    assert [t["recalled"] for t in document["trials"]] == [1, 1]


def test_images_come_back_as_they_are(inside):
    assert inside("memorize", "images.npy", "--out", "m").returncode == 0
    assert inside("recall", "m", "images.npy", "--hide", "bottom", "--out", "back.npy").returncode == 0
    back = np.load("back.npy")
    assert back.shape == IMAGES.shape
    np.testing.assert_allclose(back, IMAGES, atol=0.05)
    memory = Memory.load("m")
    assert memory.stored
    assert memory.image == (5, 4, 1)


def test_unit_variance_and_a_beta_of_ones_own():
    result = dam.memorize("x.npy", unit_variance=True, softmax_beta=7.0, cues=0)
    W = np.asarray(result.memory.model.W)
    assert np.mean(W**2) == pytest.approx(1, rel=1e-5)
    assert np.abs(W.mean(axis=0)).max() < 1e-6
    assert float(result.memory.model.activation.beta) == 7
    assert (result.trials, result.files) == ((), ())


def test_constant_features_and_a_single_pattern_are_stored_too(inside):
    np.save("few.npy", [[1.0, 2.0, 3.0], [1.0, 5.0, 4.0]])
    assert [t.recalled for t in dam.memorize("few.npy", hide=0).trials] == [1]
    np.save("one.npy", [[1.0, 2.0, 3.0]])
    assert [t.recalled for t in dam.memorize("one.npy").trials] == [1, 1]
    assert "a single pattern" in inside("memorize", "one.npy", "--out", "m").stdout
    assert (
        json.loads(inside("memorize", "one.npy", "--out", "m", "--json").stdout)["spacing"]["separation"]
        is None
    )


def test_a_hint_does_not_speak_of_training(inside):
    dam.memorize("signs.npy", "m", softmax_beta=1e-3)  # far too soft: every recall ends in the middle
    said = inside("recall", "m", "signs.npy", "--noise", 0.1).stdout
    assert "the stored patterns are too close for noise of 0.1" in said
    assert "trained" not in said


SAME = np.concatenate([X[:5], X[2:3]])


@pytest.mark.parametrize(
    ("array", "options", "word"),
    [
        (SAME, (), "data bad.npy: patterns must differ, but patterns 2 and 5 are the same"),
        (np.where(X[4, 6] == X, np.nan, X), (), "patterns must be finite, got nan in pattern 4, feature 6"),
        (X[:, :1], (), "at least two features, got 80 of 1"),
        (X[0], (), "must be samples × features"),
        (X[None, None, None], (), "must be samples × features"),
        (X, ("--noise", "-1"), "noise must be at least 0"),
        (X, ("--noise", "loud"), "noise must be at least 0 and finite, got 'loud'"),
        (X, ("--power", "2"), "power belongs to the activation 'relu', got 'softmax'"),
        (
            X,
            ("--activation", "relu", "--softmax-beta", "2"),
            "softmax_beta belongs to the activation 'softmax'",
        ),
        (X, ("--activation", "tanh"), "activation must be 'softmax' or 'relu'"),
        (X, ("--mesh", "memories=3"), "memories=3 does not divide K = 80"),
        (X, ("--mesh", "rows=2"), "mesh must be as in memories=4"),
        (X, ("--hide", "1"), "hide must be at least 0 and below 1"),
        (X, ("--softmax-beta", "1e-320"), "softmax_beta must be at least 1e-30, got 1e-320"),
        (X, ("--tolerance", "1e-320"), "tolerance must be at least 1e-30, got 1e-320"),
        (X, ("--noise", "1e-320"), "noise must be 0 or at least 1e-30, got 1e-320"),
        (1e200 * X.astype(float), (), "data bad.npy: patterns must be so small that float64"),
    ],
)
def test_bad_input_is_one_line(array, options, word, inside):
    np.save("bad.npy", array)
    found = inside("memorize", "bad.npy", *options, "--out", "m")
    assert found.returncode == 64
    assert found.stderr.count("\n") == 1
    assert word in found.stderr
    assert found.stdout == ""


def test_no_folder_and_a_file_in_its_place_are_refused(inside):
    assert "out is needed" in inside("memorize", "x.npy").stderr
    assert "is not a folder" in inside("memorize", "x.npy", "--out", "x.npy").stderr
    assert inside("recall", ".", "x.npy").returncode == 64


def test_all_problems_are_reported_together():
    with pytest.raises(InputError) as error:
        Storing(noise=-1, cues=-1, hide=2)
    assert len(error.value.problems) == 3
