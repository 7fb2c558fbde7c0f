"""Data whose scale a memory can hardly learn is warned of, other data is not."""

import json
import warnings

import numpy as np
import pytest

import denseam as dam
from denseam.data import Preparation, source
from denseam.data.concerns import Unscaled, concerns_of
from denseam.ground.errors import DataWarning

RNG = np.random.default_rng(0)
EVEN = RNG.standard_normal((300, 24))
#: Incomes, ages and a rate, say: the first column decides everything.
TABLE = EVEN * np.repeat([3e4, 10.0, 0.1], 8)
#: Counts of words, most of them rare.
COUNTS = (RNG.random((300, 24)) < np.geomspace(0.003, 0.5, 24)) * RNG.integers(1, 4, (300, 24)) * 1.0
BORDERED = np.pad(RNG.random((300, 3, 8)), ((0, 0), (1, 2), (0, 0)))
BORDERED[0, 0, 0] = 1.0  # a pixel that is hardly ever on


def kinds(samples, noise=0.5):
    return [concern.kind for concern in concerns_of(samples, noise)]


@pytest.mark.parametrize(
    ("samples", "noise", "expected"),
    [
        (EVEN, 0.5, []),
        (EVEN, 0.0, []),
        (5 * EVEN, 0.5, []),
        (0.2 * EVEN, 0.5, []),
        (EVEN * np.arange(1, 25) ** -1.0, 0.5, []),  # as principal components are
        (COUNTS, 0.5, []),
        (BORDERED.reshape(300, -1), 0.5, []),
        (TABLE, 0.5, [Unscaled.UNEVEN, Unscaled.LARGE]),
        (TABLE / 3e4, 0.5, [Unscaled.UNEVEN]),
        (20 * EVEN, 0.5, [Unscaled.LARGE]),
        (EVEN + 20, 0.5, [Unscaled.LARGE]),
        (EVEN / np.linalg.norm(EVEN, axis=1, keepdims=True), 2.0, [Unscaled.HIDDEN]),
        (np.zeros((5, 4)), 0.5, []),
    ],
    ids=str,
)
def test_what_is_unscaled(samples, noise, expected):
    assert kinds(samples, noise) == expected


def test_the_sentence_has_the_number_and_the_remedy():
    (concern,) = concerns_of(20 * EVEN, 0.5)
    assert concern.value == pytest.approx(20, rel=0.05)
    assert "of size 20 " in concern.describe()
    assert "unit variance" in concern.describe()


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = RNG.standard_normal((400, 64))
    np.save("even.npy", rows)
    np.save("table.npy", rows * np.repeat([3e4, 10.0, 0.1, 1.0], 16))
    np.save("images.npy", RNG.integers(0, 256, (400, 8, 8), dtype=np.uint8))
    return tmp_path


def test_a_file_is_judged_as_it_is_prepared(files):
    def of(name, noise=0.5, **prepared):
        return [concern.kind for concern in source(name, Preparation(**prepared)).concerns(noise)]

    assert of("even.npy") == of("images.npy") == of("isotropic") == []
    assert of("table.npy") == [Unscaled.UNEVEN, Unscaled.LARGE]
    assert of("table.npy", unit_variance=True) == [Unscaled.UNEVEN]
    assert of("images.npy", noise=3.0) == [Unscaled.HIDDEN]
    assert of("images.npy", noise=3.0, unit_variance=True) == []


def test_training_warns_and_goes_on():
    scales = dam.prescription("relu", "sgd").at(dam.Shape(24, 8, 300, 100), eta0=1e-3)
    model = dam.DenseAM.create(scales, dam.relu())
    with pytest.warns(DataWarning, match=r"^data: its features are of size 20"):
        run = dam.train(model, 20 * EVEN, optimizer=dam.sgd(scales), epochs=1)
    assert run.epochs == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dam.train(model, EVEN, optimizer=dam.sgd(scales), epochs=1)


def test_plan_and_tune_warn_in_one_line_each(files, inside):
    found = inside("plan", "table.npy", "--json")
    assert found.returncode == 0
    sentences = json.loads(found.stdout)["warnings"]
    assert [s.split()[0] for s in sentences] == ["its", "its"]
    assert found.stderr.splitlines() == [f"warning: data table.npy: {s}" for s in sentences]
    fine = inside("plan", "even.npy", "--json")
    assert (json.loads(fine.stdout)["warnings"], fine.stderr) == ([], "")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        goal = dam.goal("table.npy", noise=0.5)
    assert [str(c.message) for c in caught] == [f"data table.npy: {s}" for s in sentences]
    assert {c.category for c in caught} == {DataWarning}
    assert [c.describe() for c in goal.concerns] == sentences
    tuned = inside("tune", "table.npy", "--tune", "gamma", "--out", files / "out")
    assert tuned.returncode == 64
    assert tuned.stderr.splitlines()[:2] == found.stderr.splitlines()
