"""Data sets of the package `datasets` as input: its folders, its objects, and what it has types of its own for."""

import numpy as np
import pytest

import denseam as dam
from denseam.data.readers import read
from denseam.ground.errors import InputError
from denseam.workflow import tuning

datasets = pytest.importorskip("datasets", reason="needs the extra datasets")

ROWS = np.random.default_rng(0).standard_normal((96, 16)).astype(np.float32)
PIXELS = np.random.default_rng(1).integers(0, 256, (12, 4, 6), np.uint8)


def vectors(rows=ROWS):
    features = datasets.Features(
        {
            "embedding": datasets.Sequence(datasets.Value("float32"), length=16),
            "label": datasets.ClassLabel(names=["a", "b"]),
        }
    )
    return datasets.Dataset.from_dict({"embedding": rows, "label": [0] * len(rows)}, features=features)


def pictures():
    from PIL import Image

    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    rows = {"image": [Image.fromarray(p) for p in PIXELS], "label": range(len(PIXELS))}
    return datasets.Dataset.from_dict(rows, features=features)


def test_a_folder_holds_the_same_samples(tmp_path):
    name = str(tmp_path / "x")
    vectors().shuffle(seed=1).save_to_disk(name, num_shards=3)
    order = np.array(vectors().shuffle(seed=1).with_format("numpy")["embedding"])
    np.testing.assert_array_equal(read(name).array, order)
    datasets.DatasetDict(train=vectors(), test=vectors()).save_to_disk(name + "2")
    np.testing.assert_array_equal(read(f"{name}2/train").array, ROWS)
    with pytest.raises(InputError, match="holds the splits 'test', 'train'"):
        read(name + "2")


def test_images_and_arrays(tmp_path):
    pictures().save_to_disk(tmp_path / "x")
    features = datasets.Features({"pixels": datasets.Array2D((4, 6), "uint8")})
    datasets.Dataset.from_dict({"pixels": PIXELS}, features=features).save_to_disk(tmp_path / "y")
    for name in ("x", "y"):
        raw = read(str(tmp_path / name))
        np.testing.assert_array_equal(raw.array, PIXELS)
        assert raw.unit == 255
    kept = read(dam.data.keep(pictures(), tmp_path / "x.npy"))
    np.testing.assert_array_equal(kept.array, PIXELS)
    assert kept.unit == 255


def test_an_object_is_kept_as_it_is_seen(tmp_path):
    seen = vectors().select(range(10, 40)).filter(lambda row: row["embedding"][0] > 0)
    expected = [row for row in ROWS[10:40] if row[0] > 0]
    for dataset in (seen, seen.to_iterable_dataset()):
        name = dam.data.keep(dataset, tmp_path / "x.npy", column="embedding")
        np.testing.assert_array_equal(np.load(name), expected)
    with pytest.raises(InputError, match=r"dataset: has no column 'e', it holds 'embedding', 'label'"):
        dam.data.keep(seen, tmp_path / "x.npy", column="e")
    with pytest.raises(
        InputError, match=r"dataset: holds the splits 'train'; say which, as in dataset\['train'\]"
    ):
        dam.data.keep(datasets.DatasetDict(train=seen), tmp_path / "x.npy")


def test_a_study_of_an_object_names_the_remedy():
    with pytest.raises(InputError) as caught:
        dam.Study("relu", "sgd", scales=[8, 16], eta0=[0.1], data=vectors())
    assert not any("\n" in problem for problem in caught.value.problems)
    assert "denseam.data.keep(dataset, 'x.npy')" in caught.value.problems[-1]


def test_tune_keeps_an_object_in_its_folder(tmp_path, monkeypatch):
    def search(wanted, *_args, **_options):
        raise KeyboardInterrupt(wanted.study.data)

    monkeypatch.setattr(tuning, "Search", search)
    with pytest.raises(KeyboardInterrupt) as caught:
        dam.tune(vectors(), tmp_path / "tuned", scales=(4, 8, 16))
    name = str(tmp_path / "tuned" / "data.npy")
    assert caught.value.args == (name,)
    np.testing.assert_array_equal(np.load(name), ROWS)


def test_sweep_and_train_take_a_folder(tmp_path):
    name = str(tmp_path / "x")
    vectors().save_to_disk(name)
    study = dam.Study("relu", "adam", scales=[16], eta0=[0.01], seeds=1, epochs=1, data=name)
    assert [row["status"] for row in dam.sweep(study, out=tmp_path / "sweep")] == ["finished"]
    target = dam.target_study(name, features=16, epochs=1)
    assert np.isfinite(dam.train_target(dam.Recipe(target, 0.01), tmp_path / "target").loss).all()
