"""Samples from files at several sizes: the maps are the reference's matrices, bad files get one line."""

import os
import shutil
import struct
from dataclasses import replace

import numpy as np
import pytest

import denseam as dam
from denseam.data import Encoder, Preparation, arrays, reductions, source, sources
from denseam.data.reductions import Plaquettes, orthonormal
from denseam.ground.errors import InputError
from denseam.model import checkpoint
from denseam.studies.study import Study
from tests import reference

RNG = np.random.default_rng(0)
VECTORS = RNG.standard_normal((40, 9)) @ RNG.standard_normal((9, 9)) + RNG.uniform(-3, 3, 9)
IMAGES = RNG.random((40, 6, 7)) * np.linspace(0.2, 2, 7) + RNG.random((40, 1, 1))
PIXELS = RNG.integers(0, 256, (40, 5, 4, 3), dtype=np.uint8)

#: What is shrunk how, and to which sizes.
FAMILIES = [
    (IMAGES, "plaquettes", (42, 24, 12, 6, 4, 1)),
    (PIXELS, "plaquettes", (60, 18, 12, 3)),
    (VECTORS, "orthonormal", (9, 5, 2)),
    (VECTORS, "pca", (9, 5, 2)),
    (VECTORS, "rotated", (9, 5, 2)),
    (IMAGES, "orthonormal", (42, 7)),
    (PIXELS, "pca", (60, 8)),
    (VECTORS, "none", (9,)),
    (PIXELS, "none", (60,)),
]
every_family = pytest.mark.parametrize(("array", "shrink", "sizes"), FAMILIES)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sources._from_file.cache_clear()  # names and times may be those of the last test
    return tmp_path


def family(array, name="x.npy", **prepared):
    np.save(name, array)
    return source(name, Preparation(**prepared))


def encoded(data, N):
    """All samples at a size, in float64."""
    return data.encoder(N).of_units(data.raw.rows(slice(None), np.float64))


def flat(array):
    unit = 255 if array.dtype == np.uint8 else 1
    return array.reshape(len(array), -1) / unit


def numbers(data, N, rows):
    """Which samples of the file these are."""
    distances = np.sum((encoded(data, N)[None] - np.asarray(rows)[:, None]) ** 2, axis=-1)
    assert np.all(distances.min(axis=1) < 1e-9)
    return np.argmin(distances, axis=1).tolist()


def refused(call, *parts):
    with pytest.raises(InputError) as caught:
        call()
    said = str(caught.value)
    assert "\n" not in said
    for part in parts:
        assert part in said


# --- linear maps -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("j", "k"), [(1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (5, 5), (4, 7), (7, 7)])
@pytest.mark.parametrize("image", [(6, 6, 1), (6, 7, 1), (5, 4, 3), (1, 9, 4), (7, 2, 1)])
def test_plaquettes_are_the_matrices(image, j, k):
    D, L = reference.block_means(*image, j, k), reference.block_copies(*image, j, k)
    plaquettes = Plaquettes(image, j, k)
    height, width, channels = image
    assert plaquettes.features == len(D) == -(-height // j) * -(-width // k) * channels
    x, y = RNG.standard_normal((3, len(L))), RNG.standard_normal((3, len(D)))
    assert np.allclose(plaquettes.reduce(x), x @ D.T, rtol=1e-13, atol=1e-13)
    assert np.array_equal(plaquettes.lift(y), y @ L.T)
    assert np.allclose(plaquettes.reduce(plaquettes.lift(y)), y, rtol=1e-13, atol=1e-13)
    assert np.allclose(D @ L, np.eye(len(D)), atol=1e-14)
    assert plaquettes.reduce(x.astype(np.float32)).dtype == np.float32


def test_sizes_of_images_are_those_of_the_paper_and_sizes_between_them():
    sizes = reductions.blocks((28, 28, 1))
    squares = {N: j for N, (j, k) in sizes.items() if j == k}
    assert squares == {784: 1, 196: 2, 100: 3, 49: 4, 36: 5, 25: 6, 16: 7, 9: 10, 4: 14, 1: 28}
    assert (sizes[392], sizes[140], sizes[98]) == ((1, 2), (2, 3), (2, 4))
    assert all(j <= k <= 2 * j for j, k in sizes.values())
    assert all(Plaquettes((28, 28, 1), *shape).features == N for N, shape in sizes.items())
    assert family(np.zeros((2, 28, 28), np.uint8)).sizes() == tuple(sorted(sizes))
    assert family(np.zeros((2, 6, 7))).sizes() == (1, 2, 4, 6, 9, 12, 24, 42)
    assert family(np.zeros((2, 5, 4, 3))).sizes() == (3, 6, 9, 12, 18, 30, 60)


def test_directions_are_orthonormal_and_nested():
    Q = orthonormal(9, 9)
    assert np.allclose(Q @ Q.T, np.eye(9), atol=1e-13)
    for N in (1, 4, 8):
        assert np.allclose(orthonormal(N, 9), Q[:N], atol=1e-13)
    # Nothing in them knows the axes: the entries of many look Gaussian.
    many = orthonormal(40, 200) * np.sqrt(200)
    assert abs(many.mean()) < 0.05
    assert np.mean(many**4) == pytest.approx(3, abs=0.2)


def test_sizes_of_vectors_are_nested_up_to_a_factor():
    data = family(VECTORS, shrink="orthonormal")
    large, small = encoded(data, 7), encoded(data, 3)
    ratio = small / large[:, :3]
    assert np.allclose(ratio, ratio[0, 0], rtol=1e-10)


@pytest.mark.parametrize("shrink", ["orthonormal", "pca", "rotated"])
def test_projections_keep_the_mean_variance(shrink):
    data = family(VECTORS, shrink=shrink)
    for N in (1, 4, 8, 9):
        Q = data.encoder(N).reduction.directions
        assert np.allclose(Q @ Q.T, np.eye(N), atol=1e-12)
        D = reference.projection(Q, VECTORS.T)
        y = encoded(data, N)
        assert np.allclose(y, (VECTORS - VECTORS.mean(axis=0)) @ D.T, rtol=1e-10, atol=1e-10)
        assert np.mean(np.var(y, axis=0)) == pytest.approx(np.mean(np.var(VECTORS, axis=0)), rel=1e-12)


@pytest.mark.parametrize("array", [VECTORS, PIXELS])
def test_principal_directions_are_those_of_the_singular_vectors(array):
    data = family(array, shrink="pca")
    x = flat(array)
    values, V = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[1:]
    Q = data.encoder(6).reduction.directions
    assert np.all(np.diff(values[:7]) < 0)
    assert np.allclose(np.abs(Q @ V[:6].T), np.eye(6), atol=1e-8)
    spread = np.var(encoded(data, 6), axis=0)
    assert np.allclose(spread / spread[0], values[:6] ** 2 / values[0] ** 2, rtol=1e-9)


def test_a_rotation_mixes_the_leading_directions_and_spreads_their_variance():
    wide = RNG.standard_normal((4000, 64)) * np.linspace(1, 0.01, 64)
    data, leading = family(wide, "wide.npy"), family(wide, "wide.npy", shrink="pca")
    for N in (16, 64):
        Q, L = (d.encoder(N).reduction.directions for d in (data, leading))
        assert np.allclose(Q @ L.T @ L @ Q.T, np.eye(N), atol=1e-10), "the same subspace"
        spread = np.var(encoded(data, N), axis=0)
        assert spread.max() / spread.min() < 4
        assert np.mean(spread) == pytest.approx(np.mean(np.var(wide, axis=0)), rel=1e-10)
    assert spread.max() / spread.min() < 0.01 * np.divide(*np.var(wide, axis=0)[[0, -1]])


def test_standardized_features_have_variance_one_before_they_are_shrunk(tmp_path):
    x = VECTORS * 10.0 ** np.arange(-4, 5)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    data = family(x, shrink="none", standardize=True)
    assert np.allclose(encoded(data, 9), z, rtol=1e-9)
    for shrink in ("rotated", "pca", "orthonormal"):
        shrunk, same = family(x, shrink=shrink, standardize=True), family(z, "z.npy", shrink=shrink)
        assert np.allclose(encoded(shrunk, 4), encoded(same, 4), rtol=1e-7, atol=1e-9)
    encoder = family(x, standardize=True, unit_variance=True).encoder(9)
    assert np.allclose(encoder.decode(encoder.of_units(x)), x, rtol=1e-9)
    assert encoder.scale == pytest.approx(1, rel=1e-12)
    document, tensors = encoder.to_document()
    assert np.allclose(Encoder.from_document(document, tensors).deviation, x.std(axis=0))
    assert "standardized" in data.describe()
    refused(lambda: family(IMAGES, standardize=True), "standardize", "images")


# --- centring and scale ----------------------------------------------------------------------------


@every_family
def test_every_size_is_centred_over_the_whole_set(array, shrink, sizes):
    x = flat(array)
    for unit_variance in (False, True):
        data = family(array, shrink=shrink, unit_variance=unit_variance)
        for N in sizes:
            y = encoded(data, N)
            assert y.shape == (len(array), N)
            assert np.abs(y.mean(axis=0)).max() < 1e-12
            encoder = data.encoder(N)
            once = encoder.encode(array)
            assert once.dtype == np.float32
            assert np.allclose(once, y, atol=1e-5)
            shrunk = encoder.reduction.reduce(x) / encoder.scale
            assert np.allclose(y, shrunk - shrunk.mean(axis=0), atol=1e-12), "D is linear"
            if unit_variance:
                assert np.mean(np.var(y, axis=0)) == pytest.approx(1, rel=1e-12)
            else:
                assert encoder.scale == 1


def test_images_are_shrunk_by_the_mean_over_blocks_and_divided_by_their_unit():
    x = PIXELS.reshape(40, -1) / 255
    y = (x - x.mean(axis=0)) @ reference.block_means(5, 4, 3, 2).T
    data = family(PIXELS)
    assert np.allclose(encoded(data, 18), y, atol=1e-14)
    assert np.allclose(data.encoder(18).encode(PIXELS), y, atol=1e-6)
    assert data.encoder(18).reduction.image == (3, 2, 3)
    pictures = data.encoder(18).pictures(y)
    assert np.allclose(pictures.reshape(40, -1), x @ reference.block_means(5, 4, 3, 2).T, atol=1e-12)
    refused(lambda: family(VECTORS).encoder(3).pictures(np.zeros((1, 3))), "not images")


# --- and back --------------------------------------------------------------------------------------


@every_family
def test_decoding_is_the_best_guess(array, shrink, sizes):
    data = family(array, shrink=shrink, unit_variance=shrink != "none")
    x = array.reshape(len(array), -1).astype(float)
    for N in sizes:
        encoder = data.encoder(N)
        back = encoder.decode(encoded(data, N))
        L = np.stack([encoder.decode(e[None])[0] for e in np.eye(N)]) - encoder.decode(np.zeros((1, N)))
        d = x - x.mean(axis=0)
        best = x.mean(axis=0) + (L.T @ np.linalg.lstsq(L.T, d.T, rcond=None)[0]).T
        assert np.allclose(back, best, atol=1e-9 * np.abs(x).max())
        if data.features == N:
            assert np.allclose(back, x, atol=1e-9 * np.abs(x).max())
        single = encoder.decode(encoder.encode(array))
        assert single.dtype == np.float32
        assert np.allclose(single, back, atol=1e-5 * np.abs(x).max())


@every_family
def test_an_encoder_survives_a_file(array, shrink, sizes):
    data = family(array, shrink=shrink, unit_variance=True, heldout=0.25)
    for N in sizes:
        encoder = data.encoder(N)
        document, tensors = encoder.to_document()
        path = checkpoint.write("e.safetensors", tensors, {"data": document})
        tensors, document = checkpoint.read(path)
        back = Encoder.from_document(document["data"], tensors)
        for name in ("scale", "unit", "image", "origin", "digest", "heldout", "features", "original"):
            assert getattr(back, name) == getattr(encoder, name)
        assert back.reduction.kind == encoder.reduction.kind
        assert back.reduction.image == encoder.reduction.image
        assert back.describe() == encoder.describe()
        x = data.raw.rows(slice(None), np.float64)
        assert np.allclose(back.of_units(x), encoder.of_units(x), atol=1e-5)
    refused(
        lambda: Encoder.from_document({**document["data"], "reduction": {"kind": "fold"}}, tensors), "fold"
    )


# --- statistics of large files ---------------------------------------------------------------------


@pytest.fixture
def pieces(monkeypatch):
    """Let a piece be seven samples of nine features."""
    monkeypatch.setattr(arrays, "PIECE_BYTES", 7 * 9 * 8)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_far_from_zero_are_centred_and_scaled_right(dtype):
    x = (1e6 + RNG.standard_normal((40, 9)) * np.linspace(1, 2, 9)).astype(dtype)
    x64 = x.astype(np.float64)
    data = family(x, shrink="none", unit_variance=True)
    encoder = data.encoder(9)
    assert np.allclose(encoder.mean, x64.mean(axis=0), rtol=1e-14)
    assert encoder.scale == pytest.approx(np.sqrt(np.mean(np.var(x64, axis=0))), rel=1e-8)
    shape = dam.Shape(9, 5, 36, 4)
    y = data.samples(shape, 0, np.float64)
    order = numbers(data, 9, y)
    assert np.allclose(y, (x64 - x64.mean(axis=0))[order] / encoder.scale, atol=1e-8)
    # float32 tells values near 1e6 apart by 1/16, but their mean is not rounded.
    single = data.samples(shape, 0, np.float32)
    assert np.abs(single - y).max() < (1e-6 if dtype == np.float32 else 0.04)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("shrink", ["orthonormal", "pca", "rotated"])
def test_pieces_change_nothing(shrink, monkeypatch, tmp_path):
    data = family(VECTORS, "pieces.npy", shrink=shrink, unit_variance=True)
    y, shape = encoded(data, 4), dam.Shape(4, 5, 30, 4)
    rows = data.samples(shape, 1, np.float64)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)  # undone with the rest
    whole = family(VECTORS, "whole.npy", shrink=shrink, unit_variance=True)
    assert np.allclose(y, encoded(whole, 4), rtol=1e-10, atol=1e-10)
    assert np.allclose(rows, whole.samples(shape, 1, np.float64), rtol=1e-10, atol=1e-10)


def test_variances_of_large_sets_are_measured_on_samples_spread_over_the_file(pieces, monkeypatch):
    monkeypatch.setattr(arrays, "ENOUGH", 500)
    growing = np.linspace(0.1, 2, 4000)[:, None]
    data = family(growing * RNG.standard_normal((4000, 9)), shrink="orthonormal", unit_variance=True)
    looked = []

    class Watched:
        def __getattr__(self, name):
            return getattr(raw, name)

        def rows(self, which, dtype):
            looked.append(len(range(raw.samples)[which]))
            return raw.rows(which, dtype)

    raw = data.raw
    _ = data._statistics
    data.raw = Watched()
    scale = data.encoder(4).scale
    assert 2 * 450 < sum(looked) < 2 * 750, "once for α, once for the scale"
    data.raw = raw
    y = encoded(data, 4)
    assert np.mean(np.var(y, axis=0)) == pytest.approx(1, rel=0.1)
    assert scale**2 == pytest.approx(np.mean(growing**2), rel=0.15)


# --- the spectrum --------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [2048, 260])
@pytest.mark.parametrize("shrink", ["rotated", "orthonormal", "none"])
def test_eigenvalues_are_those_of_the_covariance(shrink, most, monkeypatch):
    monkeypatch.setattr(arrays, "FOR_SPECTRUM", most)
    x = RNG.standard_normal((700, 9)) * np.linspace(1, 4, 9) + 7
    data = family(x, shrink=shrink)
    trained = data._training
    if most < len(trained):  # spread over the file
        trained = trained[np.linspace(0, len(trained) - 1, most).round().astype(int)]
    for N in (9,) if shrink == "none" else (9, 5):
        y = data.encoder(N).of_units(x[trained])
        covariance = np.cov(y.T, ddof=0)
        assert data.largest_eigenvalue(N) == pytest.approx(np.linalg.eigvalsh(covariance)[-1], rel=1e-5)
    covariance = np.cov(x[trained].T, ddof=0)
    expected = np.trace(covariance) ** 2 / np.trace(covariance @ covariance)
    assert data.participation() == pytest.approx(expected, rel=1e-6)


def test_the_spectrum_of_more_features_than_samples():
    x = RNG.standard_normal((30, 50)) * np.linspace(1, 3, 50)
    data = family(x, shrink="none", heldout=0.0)
    covariance = np.cov(x.T, ddof=0)
    assert data.largest_eigenvalue(50) == pytest.approx(np.linalg.eigvalsh(covariance)[-1], rel=1e-5)
    assert data.participation() == pytest.approx(np.trace(covariance) ** 2 / np.sum(covariance**2), rel=1e-6)


def test_participation_counts_directions_of_standardized_features():
    x = RNG.standard_normal((2000, 12)) * np.array([1000, *[1] * 11])
    assert family(x).participation() == pytest.approx(1, abs=0.01)
    assert family(x, standardize=True).participation() == pytest.approx(12, rel=0.02)
    assert source("isotropic").participation() is None


@pytest.mark.parametrize("name", ["isotropic", "anisotropic"])
def test_the_largest_eigenvalue_of_a_gaussian_family(name):
    samples = np.asarray(source(name).samples(dam.Shape(8, 16, 200_000, 16), 0, np.float64))
    measured = np.linalg.eigvalsh(samples.T @ samples / len(samples))[-1]
    assert source(name).largest_eigenvalue(8) == pytest.approx(measured, rel=0.02)


# --- which samples ---------------------------------------------------------------------------------


def test_held_out_samples_are_never_trained_on():
    held = None
    for shrink, sizes in (("none", (9,)), ("orthonormal", (9, 3)), ("pca", (2,))):
        data = family(VECTORS, shrink=shrink, heldout=0.2)
        assert data.available == 32
        for N in sizes:
            for seed in (0, 1, 7):
                shape = dam.Shape(N, 5, 32, 4)
                apart = numbers(data, N, data.heldout(shape, seed, np.float64))
                held = held or apart
                assert apart == held, "the same for every seed, size and map"
                assert len(set(apart)) == 8
                trained = numbers(data, N, data.samples(shape, seed, np.float64))
                assert sorted(trained + apart) == list(range(40))


def test_without_held_out_samples_the_rest_is_looked_at():
    data = family(VECTORS, heldout=0.0)
    for seed in (0, 3):
        shape = dam.Shape(5, 5, 25, 5)
        trained = numbers(data, 5, data.samples(shape, seed, np.float64))
        fresh = numbers(data, 5, data.heldout(shape, seed, np.float64))
        assert sorted(trained + fresh) == list(range(40))
        assert data.heldout(dam.Shape(5, 5, 40, 5), seed, np.float64).shape == (0, 5)


def test_few_held_out_samples_are_spread_over_the_file(monkeypatch):
    """A file sorted by class must not be judged by its first class."""
    data = family(np.arange(4000.0).reshape(1000, 4) ** 1.5, shrink="none", heldout=0.3)
    several = numbers(data, 4, data.heldout(dam.Shape(4, 5, 10, 5), 0, np.float64))
    assert len(set(several)) == 10
    assert np.histogram(several, [0, 250, 500, 750, 1000])[0].min() >= 2
    monkeypatch.setattr(arrays, "HELDOUT_BYTES", 4 * 4 * 6)
    assert len(data.heldout(dam.Shape(4, 5, 10, 5), 0, np.float64)) == 6


def test_rows_are_some_of_the_samples():
    data, shape = family(VECTORS), dam.Shape(5, 5, 20, 4)
    which = np.array([3, 19, 0, 3])
    for dtype in (np.float32, np.float64):
        samples, rows = data.samples(shape, 2, dtype), data.rows(shape, 2, which, dtype)
        assert rows.dtype == samples.dtype == dtype
        assert np.allclose(rows, samples[which], rtol=1e-5, atol=1e-5)
    made = source("isotropic")
    samples = np.asarray(made.samples(shape, 2, np.float32))
    assert np.array_equal(made.rows(shape, 2, which, np.float32), samples[which])


def test_seeds_choose_different_samples():
    data, shape = family(VECTORS), dam.Shape(9, 5, 20, 4)
    chosen = [numbers(data, 9, data.samples(shape, seed, np.float64)) for seed in (0, 1, 0)]
    assert len(set(chosen[0])) == 20
    assert chosen[0] == chosen[2]
    assert set(chosen[0]) != set(chosen[1])
    more = numbers(data, 9, data.samples(replace(shape, P=30), 0, np.float64))
    assert set(chosen[0]) < set(more), "more samples are those and others"


# --- what identifies data --------------------------------------------------------------------------


def test_the_digest_is_that_of_content_and_preparation(here):
    prepared = [
        {}, {"shrink": "orthonormal"}, {"shrink": "pca"}, {"shrink": "none"}, {"unit_variance": True},
        {"standardize": True}, {"heldout": 0.2},
    ]  # fmt: skip
    digests = [family(VECTORS, **p).digest for p in prepared]
    assert len(set(digests)) == len(digests)
    assert family(VECTORS, shrink="rotated", heldout=0.1).digest == digests[0], "as by default"
    (here / "elsewhere").mkdir()
    shutil.copy("x.npy", "elsewhere/y.npy")
    assert source("elsewhere/y.npy").digest == digests[0]
    changed = VECTORS.copy()
    changed[17, 3] += 1e-9
    assert family(changed, "z.npy").digest != digests[0]


def test_a_changed_file_is_read_again(here):
    def idx(array):
        return struct.pack(">4B3I", 0, 0, 8, 3, *array.shape) + array.tobytes()

    def write(name, array):
        if name.startswith("mnist:"):
            (here / "original").mkdir(exist_ok=True)
            path = here / "original" / "train-images-idx3-ubyte"
            path.write_bytes(idx(array))
        elif name.endswith(":b"):
            path = here / name[:-2]
            np.savez(path, a=array[:1], b=array)
        else:
            path = here / name
            np.save(path, array)
        write.time += 10**9
        os.utime(path, ns=(write.time, write.time))

    write.time = 10**18
    one, two = RNG.integers(0, 256, (2, 20, 3, 4), dtype=np.uint8)
    for name in ("x.npy", "x.npz:b", "mnist:original", "mnist:original/train-images-idx3-ubyte"):
        write(name, one)
        before = source(name)
        assert source(name) is before, "read once"
        digest = before.digest
        assert np.allclose(before.encoder(12).mean, one.reshape(20, 12).mean(axis=0) / 255)
        write(name, two)
        after = source(name)
        assert np.allclose(after.encoder(12).mean, two.reshape(20, 12).mean(axis=0) / 255)
        assert after.digest != digest


# --- bad input -------------------------------------------------------------------------------------


def study(data="x.npy", N=4, **options):
    return Study("relu", "sgd", (N,), (0.1,), data=data, regime=dam.Proportional(2, 5, 0.2), **options)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_named(bad, pieces):
    x = VECTORS.copy()
    x[23, 4] = bad
    family(x)
    refused(study, "x.npy", f"{bad}", "sample 23", "feature 4")
    refused(lambda: source("x.npy").encoder(4), "sample 23", "feature 4")


def test_features_that_never_change_are_named():
    x = VECTORS.copy()
    x[:, 6] = 1e5
    family(x)
    refused(study, "x.npy", "feature 6 is constant")
    x[:, 2] = 0
    family(x, "y.npy")
    refused(lambda: study("y.npy"), "features 2, 6 (2 of 9) are constant")
    family(np.ones((40, 9)), "z.npy")
    refused(lambda: study("z.npy"), "all features are constant")
    family(np.full((40, 3, 4), 7, np.uint8), "images.npy")
    refused(lambda: study("images.npy"), "all features are constant")


def test_pixels_that_never_change_are_fine():
    x = IMAGES.copy()
    x[:, :2, :] = 0.5
    data = family(x, unit_variance=True)
    for N in (42, 12):
        assert np.all(np.isfinite(encoded(data, N)))
    study(N=6, preparation=Preparation(unit_variance=True))


def test_what_cannot_be_asked_of_data():
    family(VECTORS)
    refused(lambda: study(preparation=Preparation(shrink="plaquettes")), "plaquettes", "x.npy", "vectors")
    refused(lambda: Preparation(shrink="fold"), "shrink", "'pca'", "'fold'")
    for share in (-0.1, 1, 1.5, float("nan")):
        refused(lambda share=share: Preparation(heldout=share), "heldout", "below 1", repr(share))
    refused(lambda: Preparation(shrink="fold", heldout=2), "shrink", "heldout")
    refused(lambda: study(N=10), "only 9 features", "10")
    refused(lambda: study(preparation=Preparation(shrink="none")), "9 features", "4")
    refused(lambda: study(N=8), "36 samples", "4 more are held out", "40")
    family(IMAGES, "images.npy")
    refused(lambda: study("images.npy", 5), "plaquettes of 4, 6, 9, 12, … features", "not of 5")
    for prepared in ({"shrink": "pca"}, {"unit_variance": True}):
        for name in ("isotropic", "anisotropic"):
            refused(
                lambda name=name, prepared=prepared: study(name, preparation=Preparation(**prepared)),
                next(iter(prepared)), "from a file", name,
            )  # fmt: skip


def test_principal_directions_of_very_many_features_are_refused(monkeypatch):
    monkeypatch.setattr(arrays, "MOST_FOR_PCA", 8)
    refused(lambda: family(VECTORS, shrink="pca"), "at most 8 features", "has 9", "orthonormal")
    refused(lambda: family(VECTORS, shrink="rotated"), "at most 8 features", "has 9", "orthonormal")
    monkeypatch.setattr(arrays, "MOST_BY_DEFAULT", 8)
    assert family(VECTORS).shrink == "orthonormal"
