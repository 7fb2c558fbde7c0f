"""The hint after recall says what was measured."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import denseam as dam
from denseam.workflow.course import Course, hint
from denseam.workflow.memory import Memory


def recalled(errors, *, hidden=False, at_rest=False, noise=0.5, stored=False):
    """What a hint needs of the result of recall."""
    errors = np.array(errors)
    return SimpleNamespace(
        errors=errors, best_step=int(np.argmin(errors)), converged=np.array([at_rest]), noise=noise,
        held=np.ones(1, bool) if hidden else None, memory=SimpleNamespace(noise=0.25, stored=stored),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("errors", "at_rest", "course", "words"),
    [
        ([1.0, 0.2, 0.21], False, Course.FALLS, "falls from 1 to 0.2 after 1 step"),
        ([1.0, 0.4, 0.3], False, Course.FALLS_STILL, "still falls in step 2, to 0.3: allow more --steps"),
        ([1.0, 0.4, 0.3], True, Course.FALLS, "falls from 1 to 0.3 after 2 steps"),
        ([1.0, 0.301, 0.3], False, Course.FALLS, "after 2 steps"),
        ([1.0, 0.4, 0.3, 0.9], False, Course.RISES_AGAIN, "is least after 2 steps, 0.3, and rises to 0.9"),
        ([0.1, 0.4], False, Course.NEVER_FALLS, "is least at the start, 0.1"),
    ],
)
@pytest.mark.parametrize("hidden", [False, True])
def test_the_hint_follows_the_error(errors, at_rest, course, words, hidden):
    found = hint(recalled(errors, hidden=hidden, at_rest=at_rest))
    assert found.course is course
    sentence = found.describe()
    assert words in sentence
    assert sentence.startswith("the error of the hidden features" if hidden else "the error ")


def test_the_advice_has_the_numbers():
    rises = hint(recalled([1.0, 0.4, 0.3, 0.9])).describe()
    assert rises.endswith("take --steps 2")
    never = hint(recalled([0.1, 0.4], noise=0.05)).describe()
    assert "no step removes noise of 0.05; the memory was trained with 0.25" in never
    assert "train with more --noise than 0.25" in hint(recalled([0.1, 0.4], hidden=True)).describe()


def test_the_advice_for_stored_patterns_does_not_speak_of_training():
    noisy, hidden = (hint(recalled([0.1, 0.4], hidden=h, stored=True)).describe() for h in (False, True))
    assert noisy.endswith("the stored patterns are too close for noise of 0.5, or none of them is meant")
    assert hidden.endswith("too little is known to tell the stored patterns apart; hide less")
    assert "trained" not in noisy + hidden


def test_nothing_is_said_of_clean_input():
    assert hint(recalled([0.0, 0.1])) is None


def test_the_program_says_it_for_each_level(tmp_path, inside):
    x = np.random.default_rng(0).standard_normal((20, 12)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    scales = dam.prescription("relu", "sgd").at(dam.Shape(12, 16), eta0=1)
    memory = Memory(dam.DenseAM.create(scales, dam.relu()), None, 0.5)
    path = memory.save(tmp_path / "memory.safetensors")
    arguments = ("recall", path, tmp_path / "x.npy", "--hide", "0.3", "--noise", "0,1", "--steps", "3")
    levels = json.loads(inside(*arguments, "--json").stdout)["levels"]
    results = memory.recall(
        x, known=np.random.default_rng(1).random((20, 12)) >= 0.3, noise=[0.0, 1.0], steps=3
    )
    assert [level["course"] for level in levels] == [r.hint.course.value for r in results]
    text = inside(*arguments).stdout
    for level, result in zip((0, 1), results, strict=True):
        assert f"noise {level}: {result.hint.describe()}" in text
        assert "the error of the hidden features" in result.hint.describe()
    one = inside(*arguments[:-4], "--steps", "3").stdout.splitlines()[-1]
    assert one == results[0].hint.describe(), "a single level needs no name"
