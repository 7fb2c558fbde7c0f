"""One of every file that earlier versions wrote is read, and means the same (`make_release.py` has written them)."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from denseam.model.checkpoint import opened
from denseam.workflow.recipe import read_recipe

RELEASES = sorted((Path(__file__).parent / "releases").iterdir())


@pytest.fixture(params=RELEASES, ids=lambda folder: folder.name)
def release(request, tmp_path, monkeypatch):
    """A copy of its files, where it may be written, and what it said of them."""
    shutil.copytree(request.param, tmp_path / "release")
    monkeypatch.chdir(tmp_path / "release")
    return json.loads(Path("said.json").read_text())


def table(text):
    head, *rows = [line.split(",") for line in text.splitlines()]
    return {row[head.index("key")]: dict(zip(head, row, strict=True)) for row in rows}


def test_its_runs_are_read_and_none_is_trained_again(release, inside):
    before, now = table(release["export"]), table(inside("export", "runs").stdout)
    assert before.keys() == now.keys()
    for key, row in before.items():
        assert row.items() <= now[key].items(), "columns may come, none may go"
    again = inside(*release["sweep"].split(), "--out", "runs", "--quiet", "--json")
    document = json.loads(again.stdout)
    assert (document["runs"], document["reused"]) == (len(before), len(before)), again.stderr
    judged = json.loads(inside("verdict", "runs", "--json").stdout)
    assert judged["studies"][0]["status"] == release["verdict"]["studies"][0]["status"]


def test_its_memory_recalls_the_same(release, inside):
    options = ("--samples", 4, "--steps", 2, "--out", "out.npz", "--json")
    recalled = inside("recall", "trained/memory.safetensors", "x.npy", *options)
    assert recalled.returncode == 0, recalled.stderr
    with np.load("out.npz") as arrays:
        np.testing.assert_allclose(arrays["output"], release["outputs"], atol=1e-5)


def test_its_stopped_training_resumes_and_ends_as_it_would_have(release, inside):
    with opened("stopped/state.safetensors") as file:
        assert 0 < file.document["step"] < 40
    resumed = inside(*release["train"].split(), "--out", "stopped", "--quiet", "--json")
    assert resumed.returncode == 0, resumed.stderr
    np.testing.assert_allclose(json.loads(resumed.stdout)["loss"], release["loss"], rtol=1e-3)


def test_its_recipe_is_read(release):
    before, recipe = release["tuned"], read_recipe("tuned", "x.npy", accept=True)
    assert recipe.eta0 == before["eta0"]
    assert recipe.target == before["study"]["scales"][0]
    assert recipe.study.epochs == before["study"]["epochs"]
    np.testing.assert_array_equal(recipe.expected.middle, before["expected"]["middle"])
