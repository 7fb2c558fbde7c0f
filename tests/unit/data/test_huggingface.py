"""Folders as `datasets.Dataset.save_to_disk` writes them, written here by pyarrow alone; tests/trackers has the package."""

import io
import json

import numpy as np
import pyarrow as pa
import pytest

import denseam as dam
from denseam.data.readers import read
from denseam.ground.errors import InputError

VECTORS = np.arange(60, dtype=np.float32).reshape(20, 3)


def folder(path, *tables, state=None):
    """Write a folder with one file for each table."""
    path.mkdir(parents=True, exist_ok=True)
    names = [f"data-{i:05}-of-{len(tables):05}.arrow" for i in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        with pa.OSFile(str(path / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table, max_chunksize=7)
    state = {"_data_files": [{"filename": name} for name in names]} if state is None else state
    (path / "state.json").write_text(json.dumps(state))
    return str(path)


def vectors(rows=VECTORS, **others):
    return pa.table({"embedding": pa.array(rows.tolist(), pa.list_(pa.float32(), 3)), **others})


def encoded(pixels):
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return {"bytes": content.getvalue(), "path": None}


def refused(name, *parts):
    with pytest.raises(InputError) as caught:
        read(name)
    (problem,) = caught.value.problems
    assert problem.startswith(f"data {name}: "), problem
    assert all(part in problem for part in parts), problem
    assert "\n" not in problem


def test_lists_of_several_files_are_the_same_data_as_an_array(tmp_path):
    name = folder(tmp_path / "x", vectors(VECTORS[:9], label=[1] * 9), vectors(VECTORS[9:], label=[0] * 11))
    np.testing.assert_array_equal(read(name).array, VECTORS)
    np.testing.assert_array_equal(read(f"{name}:embedding").array, VECTORS)
    np.testing.assert_array_equal(read(f"{name}:label").array[:, 0], [1] * 9 + [0] * 11)
    np.save(tmp_path / "x.npy", VECTORS)
    assert read(name).digest == read(str(tmp_path / "x.npy")).digest


def test_columns_of_numbers_are_features(tmp_path):
    table = pa.table({"a": pa.array([1, 2], pa.int8()), "b": [0.5, 1.5]})
    np.testing.assert_array_equal(read(folder(tmp_path / "x", table)).array, [[1, 0.5], [2, 1.5]])


def test_images(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 6), np.uint8)
    table = pa.table({"image": [encoded(p) for p in pixels], "label": range(5)})
    raw = read(folder(tmp_path / "x", table))
    np.testing.assert_array_equal(raw.array, pixels)
    assert (raw.unit, raw.image) == (255.0, (4, 6, 1))
    nested = pa.table({"image": pa.array(pixels.tolist(), pa.list_(pa.list_(pa.uint8())))})
    raw = read(folder(tmp_path / "y", nested))
    np.testing.assert_array_equal(raw.array, pixels)
    assert raw.unit == 255.0


def test_a_study_takes_a_folder(tmp_path):
    rows = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    name = folder(tmp_path / "x", vectors(rows))
    np.save(tmp_path / "x.npy", rows)
    keys = [
        [run.key for run in dam.Study("relu", "sgd", scales=[2, 3], eta0=[0.1], data=data).runs()]
        for data in (name, str(tmp_path / "x.npy"))
    ]
    assert keys[0] == keys[1]


def test_bad_folders(tmp_path):
    x = tmp_path / "x"
    for path in (x / "train", x / "test"):
        folder(path, vectors())
    (x / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    refused(str(x), "holds the splits 'test', 'train'; say which, as in", f"{x}/test")
    read(f"{x}/train:embedding")
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "dataset_dict.json").write_text('{"splits": []}')
    refused(str(tmp_path / "none"), "holds no splits")
    pixels = np.zeros((2, 2), np.uint8)
    both = vectors(VECTORS[:3], image=[encoded(pixels)] * 3)
    refused(folder(tmp_path / "both", both), "holds 'image', 'embedding'; say which, as in", "both:image")
    y = tmp_path / "y"
    refused(folder(y, vectors(other=VECTORS.tolist())), f"say which, as in {y}:embedding")
    refused(f"{y}:nothing", "has no column 'nothing', it holds 'embedding', 'other'")
    refused(folder(y, vectors(VECTORS[:0])), "at least one sample")
    refused(folder(y, pa.table({"text": ["a"]})), "column 'text' must be numbers")
    image = {"bytes": None, "path": "/etc/passwd"}
    refused(
        folder(y, pa.table({"image": [encoded(np.zeros((2, 2), np.uint8)), image]})),
        "row 1",
        "only names an image",
    )
    broken = {"bytes": b"no", "path": None}
    refused(folder(y, pa.table({"image": [broken]})), "row 0 cannot be read (not an image)")
    refused(folder(y, vectors(), state={}), "state.json: _data_files")
    refused(
        folder(y, vectors(), state={"_data_files": [{"filename": "../x"}]}), "files of its folder", "'../x'"
    )
    name = folder(y, vectors())
    (y / "data-00000-of-00001.arrow").write_bytes(b"\0" * 50)
    refused(name, "is damaged or not of the package datasets")


def test_what_is_not_of_the_package_cannot_be_kept(tmp_path):
    with pytest.raises(InputError, match=r"dataset: must be a Dataset of the package datasets, got list"):
        dam.data.keep([1, 2], tmp_path / "x.npy")
    with pytest.raises(InputError, match=r"path must end in \.npy"):
        dam.data.keep([1, 2], tmp_path / "x.parquet")
    with pytest.raises(InputError, match="data must be a path, the name of a data set, a Goal, or a Dataset"):
        dam.tune([1, 2], tmp_path)
