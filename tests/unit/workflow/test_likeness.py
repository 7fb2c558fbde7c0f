"""Input that is unlike the data of training is noticed; a part of that data is not."""

import hashlib
import json
import warnings

import numpy as np
import pytest

import denseam as dam
from denseam.data import Preparation, source, sources
from denseam.ground.errors import DataWarning
from denseam.workflow.likeness import Unlike
from denseam.workflow.memory import Memory
from tests import ROOT
from tests.sampled import sampled

RNG = np.random.default_rng(0)
N = 24
#: Three kinds of samples near a few directions, with a mean and in units of their own.
DIRECTIONS = RNG.standard_normal((3, 4, N))
KIND = np.repeat([0, 1, 2], 200)
DATA = 50 + 8 * np.concatenate([RNG.normal([2, 0, 0, 0], 1, (200, 4)) @ d for d in DIRECTIONS])
ORDER = RNG.permutation(600)
DATA, KIND = DATA[ORDER], KIND[ORDER]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A memory of that data, as `denseam train` makes it."""
    folder = tmp_path_factory.mktemp("trained")
    np.save(folder / "x.npy", DATA)
    sources._from_file.cache_clear()
    prepared = {"data": str(folder / "x.npy"), "preparation": Preparation(unit_variance=True, shrink="none")}
    study = dam.Study(
        "relu", "adam", [48], [0.05], regime=dam.MemoriesOnly(N, 480, 32), epochs=12, **prepared
    )
    result = dam.train_target(dam.Recipe(study, 0.05), folder / "target")
    assert result.final_mse < 0.5 * result.zero_mse
    return folder, result.memory


def unlike(memory, samples):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (recalled,) = memory.recall(samples, steps=1)
    assert bool(recalled.differences) == any(c.category is DataWarning for c in caught)
    return {d.kind: d.value for d in recalled.differences}


def test_training_leaves_what_its_samples_were_like(trained):
    _, memory = trained
    y = memory.encode(DATA)
    assert memory.reference.square == pytest.approx(np.mean(y**2), rel=0.1)
    noisy = y + memory.noise * RNG.standard_normal(y.shape)
    error = np.mean((np.asarray(memory.model.update(noisy)) - y) ** 2)
    assert memory.reference.error == pytest.approx(error, rel=0.25)


@pytest.mark.parametrize("n", sampled([1, 2, 5, 20, 600], few=[1, 20, 600]))
def test_its_own_data_is_like_itself(trained, n):
    _, memory = trained
    for _ in range(10):
        assert not unlike(memory, DATA[RNG.choice(600, n, replace=False)])


def test_one_kind_of_it_is_no_reason_to_warn(trained):
    _, memory = trained
    for kind in range(3):
        assert not unlike(memory, DATA[kind == KIND])


PERMUTED = DATA[:, RNG.permutation(N)]
FOREIGN = {
    "in other units": (DATA / 100, {Unlike.SPREAD, Unlike.MEAN}),
    "much larger": (10 * DATA, {Unlike.SPREAD, Unlike.MEAN, Unlike.ERROR}),
    "shifted": (DATA + 60, {Unlike.MEAN, Unlike.ERROR}),
    "permuted": (50 + PERMUTED - PERMUTED.mean(0), {Unlike.ERROR}),
    "of the same scale": (50 + DATA.std() * RNG.standard_normal((600, N)), {Unlike.ERROR}),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_other_data_is_noticed(trained, what):
    _, memory = trained
    samples, kinds = FOREIGN[what]
    assert kinds <= set(unlike(memory, samples))


def test_the_program_warns_in_text_and_json_and_goes_on(trained, tmp_path, inside):
    folder, _ = trained
    checkpoint = folder / "target" / "memory.safetensors"
    np.save(tmp_path / "other.npy", DATA + 60)
    found = inside("recall", checkpoint, tmp_path / "other.npy", "--steps", "1", "--json")
    assert found.returncode == 0
    document = json.loads(found.stdout)
    assert set(document["unlike_training"]) == {"mean", "error"}
    assert document["unlike_training"]["mean"] > 2
    (sentence,) = document["warnings"]
    assert "standard deviations away" in sentence
    assert found.stderr == f"warning: {sentence}\n"
    fine = inside("recall", checkpoint, folder / "x.npy", "--steps", "1", "--json")
    document = json.loads(fine.stdout)
    assert (document["unlike_training"], document["warnings"], fine.stderr) == ({}, [], "")


def test_a_memory_without_a_record_of_its_training_says_nothing(trained, tmp_path):
    _, memory = trained
    assert not unlike(Memory(memory.model, memory.encoder, memory.noise), DATA + 60)
    saved = memory.save(tmp_path / "again.safetensors")
    assert Memory.load(saved).reference == memory.reference
    assert dam.DenseAM.load(saved).N == N
    bare = Memory(memory.model, memory.encoder, memory.noise).save(tmp_path / "bare.safetensors")
    assert Memory.load(bare).reference is None


def test_the_same_array_in_parquet_is_the_data_of_training(trained, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    from denseam.workflow.recalling import chosen_samples

    folder, memory = trained
    parquet.write_table(pa.table({str(i): DATA[:, i] for i in range(N)}), tmp_path / "x.parquet")
    ours, theirs = (
        chosen_samples(memory, str(place), heldout=True)
        for place in (folder / "x.npy", tmp_path / "x.parquet")
    )
    np.testing.assert_array_equal(ours.array, theirs.array)
    assert source(str(tmp_path / "x.parquet")).digest == source(str(folder / "x.npy")).digest


def test_a_recipe_holds_for_the_same_array_in_parquet(tmp_path, monkeypatch):
    """As it does for the digest that earlier versions gave a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    base = ROOT / "tests" / "unit" / "compatibility" / "7fe74f3"
    rows = np.load(base / "vectors.npy")
    parquet.write_table(pa.table({"e": pa.array(list(rows))}), "same.parquet")
    recipe = dam.read_recipe(base / "tuned", "same.parquet")
    assert recipe.study.data == "same.parquet"
    parquet.write_table(pa.table({"e": pa.array(list(rows + 1))}), "other.parquet")
    with pytest.raises(dam.InputError, match="its content is not that of the tuning"):
        dam.read_recipe(base / "tuned", "other.parquet")
    document = json.loads((base / "tuned" / "tuned.json").read_text())
    earlier = hashlib.sha256((tmp_path / "same.parquet").read_bytes()).hexdigest()
    preparation = document["recipe"]["data_digest"].partition(" ")[2]
    document["recipe"]["data_digest"] = f"sha256:{earlier} {preparation}"
    (tmp_path / "tuned.json").write_text(json.dumps(document))
    assert dam.read_recipe(tmp_path, "same.parquet").eta0 == recipe.eta0
