"""A memory with its data: what it recalls is the reference's iteration, in the values of the file."""

import dataclasses
import itertools
import json
import shutil

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.image import imread
from safetensors import safe_open
from safetensors.numpy import save_file

import denseam as dam
from denseam.data import Preparation, source, sources
from denseam.data.arrays import held_out
from denseam.data.readers import read
from denseam.ground.errors import InputError
from denseam.report.recalled import write_recalled
from denseam.workflow.agreement import consistency, shrink_between
from denseam.workflow.memory import Memory
from denseam.workflow.recalling import chosen_samples, recall_file
from tests import reference

H, W = 6, 7
RNG = np.random.default_rng(1)
#: Smooth 8-bit images: nearby pixels are alike, so that block means say something.
WAVES = np.sin(
    RNG.uniform(0.3, 1, (40, 1, 1)) * np.arange(H)[:, None] + np.arange(W) + RNG.uniform(0, 6, (40, 1, 1))
)
IMAGES = (255 * (0.5 + 0.4 * WAVES + 0.1 * RNG.uniform(-1, 1, (40, H, W)))).astype(np.uint8)
VECTORS = RNG.standard_normal((40, 9)) @ RNG.standard_normal((9, 9)) + RNG.uniform(-3, 3, 9)
MEAN = IMAGES.reshape(40, -1).mean(axis=0) / 255
D2, L2 = reference.block_means(H, W, 1, 2), reference.block_copies(H, W, 1, 2)
D3 = reference.block_means(H, W, 1, 3)
SOME = IMAGES[:5]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sources._from_file.cache_clear()  # names and times may be those of the last test
    np.save("images.npy", IMAGES)
    np.save("vectors.npy", VECTORS)
    return tmp_path


def model(N, K=16, dtype=jnp.float64, seed=0):
    """Bounded, and far enough from linear that steps change much."""
    scales = dam.prescription("relu", "sgd").at(dam.Shape(N, K), eta0=1, s1_0=3, s2_0=1.5)
    return dam.DenseAM.create(scales, dam.tanh(), seed=seed, bias_init="normal", dtype=dtype)


def memory(N=12, data="images.npy", dtype=jnp.float64, **prepared):
    return Memory(model(N, dtype=dtype), source(data, Preparation(**prepared)).encoder(N), 0.5)


def plain(of):
    """The model in the reference's hands."""
    m = of.model
    arrays = {f: np.asarray(getattr(m, f), np.float64) for f in ("W", "b", "c")}
    scalars = {f: float(getattr(m, f)) for f in ("s1", "s2", "s_b", "s_c")}
    return reference.Model(**arrays, **scalars, activation="tanh", centred=m.centred)


def seen(images, D=D2):
    return (np.asarray(images).reshape(len(images), -1) / 255 - MEAN) @ D.T


def close(a, b, tolerance=1e-11):
    return np.allclose(a, b, rtol=tolerance, atol=tolerance)


def refused(call, *parts):
    with pytest.raises(InputError) as caught:
        call()
    said = str(caught.value)
    assert "\n" not in said
    for part in parts:
        assert part in said


# --- between files and states ----------------------------------------------------------------------


def test_states_are_block_means_of_centred_pixels():
    m = memory()
    assert m.image == (3, 4, 1)
    assert close(m.encode(SOME), seen(SOME))
    assert close(m.encode(SOME[0].ravel()), seen(SOME[:1])), "one sample"
    assert close(m.encode(read("images.npy")), seen(IMAGES)), "a file"
    np.save("floats.npy", IMAGES / 255)
    assert close(m.encode(read("floats.npy")), seen(IMAGES)), "a file with another unit"
    y = RNG.standard_normal((5, 12))
    assert close(m.decode(y), 255 * (MEAN + y @ L2.T))
    single = memory(dtype=jnp.float32)
    assert single.encode(SOME).dtype == np.float32
    assert close(single.encode(SOME), seen(SOME), 1e-6)
    assert close(m.decode(m.encode(SOME)), 255 * (MEAN + seen(SOME) @ L2.T))


def test_input_at_the_memorys_own_size_is_only_centred_and_scaled():
    for unit_variance in (False, True):
        m = memory(unit_variance=unit_variance)
        shrunk = SOME.reshape(5, -1) @ D2.T
        assert close(m.encode(shrunk), m.encode(SOME))
        assert close(m.encode(shrunk.reshape(5, 3, 4)), m.encode(SOME))
    small = memory(4, "vectors.npy")
    D = small.encoder.reduction.reduce(np.eye(9)).T
    assert close(small.encode(VECTORS @ D.T), small.encode(VECTORS))


def test_a_bare_model_takes_prepared_samples():
    m = Memory(model(12), None, 0.0)
    y = RNG.standard_normal((5, 12))
    assert np.array_equal(m.encode(y), y)
    assert np.array_equal(m.decode(y), y)
    (found,) = m.recall(y, steps=2, tolerance=0)
    assert close(found.output, [reference.recall(plain(m), v, 2)[0][-1] for v in y])
    refused(lambda: m.encode(np.zeros((2, 42))), "12 features", "42")


def test_a_folder_for_the_hub_holds_the_preparation_too(here):
    m = memory()
    m.save_pretrained("hub", facts={"data": "images"})
    (expected,) = m.recall(SOME, steps=2)
    for copy in (Memory.from_pretrained("hub"), Memory.load("hub")):
        (found,) = copy.recall(SOME, steps=2)
        assert np.array_equal(found.output, expected.output)
        assert copy.noise == m.noise
    assert np.array_equal(dam.DenseAM.from_pretrained("hub").W, m.model.W)
    assert "denseam.Memory.from_pretrained(" in (here / "hub" / "README.md").read_text()
    m.model.save_pretrained("bare")
    assert Memory.from_pretrained("bare").encoder is None
    (here / "empty").mkdir()
    refused(lambda: Memory.load("empty"), "memory.safetensors: no such file")


def test_bad_samples_are_refused():
    m = memory()
    refused(lambda: m.encode(np.zeros((3, 41))), "42 features (6×7 images), or 12 of the shrunk ones", "41")
    refused(lambda: memory(42).encode(np.zeros((3, 12))), "42 features", "12")
    for bad in (np.nan, np.inf, 1e300):
        x = SOME.astype(float)
        x[3, 2, 1] = bad
        refused(lambda x=x: memory(dtype=jnp.float32).recall(x), "finite", "sample 3", "feature 15")
    refused(lambda: m.encode(np.array([["a"] * 42])), "numbers")
    refused(lambda: m.encode(np.float64(3)), "numbers")
    refused(lambda: m.encode(np.zeros((0, 42))), "at least one sample")
    refused(lambda: m.recall(SOME, noise=(0.1, -1)), "noise", "-1")
    refused(lambda: m.recall(SOME, noise=float("nan")), "noise")
    stored = Memory(dam.DenseAM.from_patterns(np.eye(4, dtype=np.float32)), None, 0.0)
    refused(lambda: stored.recall(np.eye(4), noise=1e30), "samples", "float32", "energies", "noise 1e+30")
    refused(lambda: m.recall(SOME, steps=0), "steps")
    refused(lambda: m.recall(SOME, steps=10**9), "steps must be at most 100000")
    refused(lambda: m.recall(SOME, damping=1.5), "damping")
    refused(lambda: m.recall(SOME, tolerance=-1), "tolerance")


# --- recall ----------------------------------------------------------------------------------------

KNOWN = RNG.random((5, H * W)) < 0.8
KNOWN[0, :] = True
KNOWN[1, :21] = False


@pytest.mark.parametrize("damping", [1.0, 0.4])
@pytest.mark.parametrize("masked", [False, True])
def test_recall_is_the_references_iteration(masked, damping):
    m = memory()
    known = KNOWN if masked else None
    # A block is known if all its pixels are; what is not known begins at its mean, which is zero.
    held = KNOWN @ (D2 > 0).T.astype(int) == np.sum(D2 > 0, axis=1)
    (found,) = m.recall(SOME, steps=4, tolerance=0.0, damping=damping, noise=0.3, known=known, seed=3)
    added = 0.3 * np.random.default_rng(3).standard_normal((5, 12), np.float32)
    start = np.where(held, seen(SOME), added) if masked else seen(SOME) + added
    assert close(found.clean, seen(SOME))
    assert close(found.start, start, 1e-7)
    expected = [
        reference.recall(plain(m), x, 4, damping, known=h if masked else None)
        for x, h in zip(found.start, held, strict=True)
    ]
    states = np.array([states for states, _ in expected])
    assert close(found.once, states[:, 1])
    assert close(found.state, states[:, -1])
    assert close(found.energies, [energies for _, energies in expected])
    assert close(found.output, 255 * (MEAN + states[:, -1] @ L2.T), 1e-9)
    free = ~held if masked else np.ones_like(held)
    errors = [np.mean((states[:, t] - seen(SOME))[free] ** 2) for t in range(5)]
    assert close(found.errors, errors)
    moved = [np.sqrt(np.mean((states[:, t] - states[:, t - 1])[free] ** 2)) for t in range(1, 5)]
    assert close(found.moved, [0.0, *moved])
    assert np.array_equal(found.steps, np.where(masked & held.all(axis=1), 1, 4))
    assert np.abs(found.state - found.start).max() > 0.1, "something did move"
    if masked:
        assert 0 < held.mean() < 0.9
        assert np.array_equal(found.held, held)
        assert np.array_equal(found.state[held], found.clean[held])


def test_each_sample_stops_when_it_rests():
    m = memory()
    (found,) = m.recall(SOME, steps=60, tolerance=1e-3, damping=0.7, noise=0.5)
    assert found.converged.all()
    assert len(set(found.steps.tolist())) > 1
    assert found.energies.shape == (5, 61)
    for i, x in enumerate(found.start):
        states, energies = reference.recall(plain(m), x, 60, 0.7)
        moved = [np.abs(b - a).max() / max(1, np.abs(b).max()) for a, b in itertools.pairwise(states)]
        last = next(t for t, v in enumerate(moved) if v <= 1e-3) + 1
        assert found.steps[i] == last
        assert close(found.state[i], states[last])
        assert close(found.energies[i], energies[: last + 1] + [energies[last]] * (60 - last))
    assert found.errors[-1] == pytest.approx(np.mean((found.state - found.clean) ** 2), rel=1e-12)
    assert close(found.at_rest, [np.mean(found.steps <= t) for t in range(61)])
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["converged"] == document["samples"] == 5
    assert document["rest_points"] == found.rest_points
    assert document["error_best"] == min(found.errors)


def test_rest_points_are_distinct_states_at_rest():
    (found,) = memory().recall(SOME, steps=2, tolerance=0.0)
    far = np.arange(12.0)
    state = np.stack([far, far + 0.05, 0 * far, 1 - far, 0 * far + 0.005])  # 0.05 is below 0.01 · 11
    at_rest = np.array([True, True, True, False, True])
    assert dataclasses.replace(found, state=state, converged=at_rest).rest_points == 2
    assert dataclasses.replace(found, state=state, converged=~at_rest).rest_points == 1
    assert dataclasses.replace(found, state=state, converged=np.zeros(5, bool)).rest_points == 0
    assert found.at_rest.tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_energies_never_rise_beyond_rounding(dtype):
    m = memory(dtype=dtype)
    for known in (None, KNOWN):
        for found in m.recall(SOME, steps=20, noise=(0.0, 1.0), known=known, damping=0.8):
            assert found.energies.dtype == found.state.dtype == dtype
            assert found.largest_rise < (1e-5 if dtype == jnp.float32 else 1e-13)
            assert np.all(found.energies[:, -1] <= found.energies[:, 0] + 1e-5)
    assert found.energies[1:, -1].max() < found.energies[1:, 0].max()


def test_levels_of_noise_share_their_directions():
    m = memory()
    a, b, c = m.recall(SOME, steps=1, noise=(0.0, 0.5, 2.0), seed=7)
    assert [r.noise for r in (a, b, c)] == [0.0, 0.5, 2.0]
    assert np.array_equal(a.start, a.clean)
    assert close((b.start - b.clean) / 0.5, (c.start - c.clean) / 2.0, 1e-6)
    assert np.std(c.start - c.clean) == pytest.approx(2, rel=0.3)
    (other,) = m.recall(SOME, steps=1, noise=0.5, seed=8)
    assert not np.allclose(other.start, b.start)
    (alone,) = m.recall(SOME, steps=1, noise=0.5, seed=7)
    assert np.array_equal(alone.state, b.state)


def test_many_samples_are_recalled_piece_by_piece(monkeypatch):
    m = memory()
    (whole,) = m.recall(SOME, steps=3, noise=0.5, known=KNOWN)
    monkeypatch.setattr("denseam.workflow.memory.PIECE_BYTES", 4 * (4 * 16 + 3))
    (pieces,) = m.recall(SOME, steps=3, noise=0.5, known=KNOWN)
    for name in ("state", "once", "energies", "errors", "steps", "converged"):
        assert close(getattr(whole, name), getattr(pieces, name))


# --- masks -----------------------------------------------------------------------------------------


def test_a_block_is_known_if_all_its_pixels_are():
    m = memory()
    one = np.ones((H, W), bool)
    one[2, 6] = False  # in a block of two pixels, at the edge
    one[5, 0] = False
    held = np.ones((3, 4), bool)
    held[1, 3] = held[2, 0] = False
    for mask in (
        one,
        one.ravel(),
        one[None],
        255 * one.astype(np.uint8),
        one.astype(float),
        np.stack([one] * 5),
    ):
        assert np.array_equal(m.clamp(mask, 5), np.broadcast_to(held.ravel(), (5, 12)))
    assert np.array_equal(m.clamp(held, 5), np.broadcast_to(held.ravel(), (5, 12))), "at the memory's size"
    each = np.stack([np.roll(held, i) for i in range(5)])
    assert np.array_equal(m.clamp(each, 5), each.reshape(5, 12))
    whole = memory(42, shrink="none")
    assert np.array_equal(whole.clamp(one, 1), one.reshape(1, -1))


def test_bad_masks_are_refused():
    m = memory()
    for shape in ((H, W + 1), (4, H, W), (3, 42), (13,), (0,), ()):
        refused(
            lambda shape=shape: m.recall(SOME, known=np.ones(shape, bool)), "mask", "42 features", str(shape)
        )
    for value in (2, 0.5, np.nan, -1):
        mask = np.ones((H, W))
        mask[2, 3] = value
        refused(lambda mask=mask: m.recall(SOME, known=mask), "mask", "true and false")


@pytest.mark.parametrize("shrink", ["orthonormal", "pca"])
@pytest.mark.parametrize("N", [4, 9])
def test_projections_take_no_mask(shrink, N):
    m = memory(N, "vectors.npy", shrink=shrink)
    for size in {9, N}:
        refused(
            lambda size=size: m.recall(VECTORS[:5], known=np.arange(size) < 2),
            "mask",
            shrink,
            "--shrink none",
        )


# --- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("N", "data", "prepared"),
    [
        (12, "images.npy", {"unit_variance": True}),
        (42, "images.npy", {"shrink": "none"}),
        (4, "vectors.npy", {"heldout": 0.25}),
        (9, "vectors.npy", {"shrink": "pca"}),
    ],
)
def test_a_memory_survives_a_file(N, data, prepared):
    m = memory(N, data, dtype=jnp.float32, **prepared)
    x = np.load(data)[:5]
    path = m.save("m.safetensors")
    back = Memory.load(path)
    assert back.noise == 0.5
    assert eqx.tree_equal(back.model, m.model)
    assert eqx.tree_equal(dam.DenseAM.load(path), m.model), "the model can be had alone"
    assert back.encoder.describe() == m.encoder.describe()
    assert back.encoder.digest == m.encoder.digest
    assert np.allclose(back.encode(x), m.encode(x), atol=1e-5)
    y = m.encode(x)
    assert np.allclose(back.decode(y), m.decode(y), rtol=1e-5, atol=1e-4)


def test_a_bare_model_is_a_memory_without_data():
    bare = Memory.load(model(12).save("bare.safetensors"))
    assert bare.encoder is None
    assert bare.noise == 0
    assert bare.image is None


def test_damaged_and_foreign_checkpoints_are_refused(here):
    def altered(name, change=lambda document: None, drop=()):
        good = memory().save("good.safetensors")
        with safe_open(good, framework="numpy") as file:
            document = json.loads(file.metadata()["denseam"])
            tensors = {k: file.get_tensor(k) for k in file.keys() if k not in drop}  # noqa: SIM118
        change(document)
        save_file(tensors, name, metadata={"denseam": json.dumps(document)})

    altered("kind.safetensors", lambda d: d.update(kind="training"))
    altered("mean.safetensors", drop=("data.mean",))
    altered("shrunk.safetensors", lambda d: d["data"].pop("reduction"))
    altered("plaquettes.safetensors", lambda d: d["data"]["reduction"].update(j=3, k=3))
    torn = here / "torn.safetensors"
    torn.write_bytes((here / "good.safetensors").read_bytes()[:-9])
    for name, *parts in (
        ("kind.safetensors", "'training'", "not a model"),
        ("mean.safetensors", "mean"),
        ("shrunk.safetensors", "reduction"),
        ("plaquettes.safetensors", "6 features", "12"),
        ("torn.safetensors", "safetensors"),
        ("missing.safetensors", "no such file"),
        ("images.npy", "safetensors"),
    ):
        refused(lambda name=name: Memory.load(name), f"checkpoint {name}", *parts)


# --- a large memory and a small one ----------------------------------------------------------------


@pytest.mark.parametrize(("large", "small", "D"), [(42, 12, D2), (12, 6, D3 @ L2)])
def test_consistency_is_the_references(large, small, D):
    a, b = memory(large), memory(small)
    for noise in (None, 0.2):
        found = consistency(a, b, SOME, steps=3, noise=noise, seed=2)
        assert found.noise == (noise or 0.5)
        assert close(found.small.start, found.large.start @ D.T)
        assert close(found.small.clean, seen(SOME, {12: D2, 6: D3}[small]))
        expected = reference.agreement(plain(a), plain(b), D, found.large.start.T, 3)
        for name, value in expected.items():
            assert getattr(found, name) == pytest.approx(value, rel=1e-9)
        assert np.std(found.large.start - found.large.clean) == pytest.approx(found.noise, rel=0.3)
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["steps"] == 3
    assert document["samples"] == 5


def test_shrinking_a_state_is_encoding_at_the_smaller_size():
    """D takes the large memory's view of a sample to the small one's, with its factors and scales."""
    for data, shrink, sizes in (
        ("images.npy", "plaquettes", (42, 12)),
        ("vectors.npy", "orthonormal", (7, 4)),
        ("vectors.npy", "pca", (9, 4)),
    ):
        x = np.load(data)
        for unit_variance in (False, True):
            a, b = (memory(N, data, shrink=shrink, unit_variance=unit_variance) for N in sizes)
            assert close(shrink_between(a, b, a.encode(x)), b.encode(x), 1e-9)


def test_memories_agree_where_one_is_the_other_coarse_grained():
    """D f(L y) is the coarse model's f(y): exactly so for inputs L y, and for one step."""
    blocks = dam.data.plaquettes(H, W, 2)
    a, b = memory(42), memory(12)
    coarse = dataclasses.replace(b, model=a.model.coarse_grain(blocks))
    blocky = 255 * (MEAN + RNG.standard_normal((5, 12)) @ L2.T)
    found = consistency(a, coarse, blocky, steps=1, noise=0.0)
    assert found.correlation == pytest.approx(1, abs=1e-12)
    assert found.relative_error < 1e-12
    assert found.chance < 0.9
    # Such an answer is no longer of the form L y; neither is a sample.
    assert consistency(a, coarse, blocky, steps=2, noise=0.0).relative_error > 1e-3
    assert consistency(a, coarse, SOME, steps=1, noise=0.5).relative_error > 1e-3
    # A large memory that knows only blocks never leaves that form.
    flat = eqx.tree_at(lambda m: (m.W, m.c), a.model, (b.model.W[:, blocks], b.model.c[blocks]))
    a = dataclasses.replace(a, model=flat)
    coarse = dataclasses.replace(b, model=flat.coarse_grain(blocks))
    found = consistency(a, coarse, blocky, steps=7, noise=0.0)
    assert found.correlation == pytest.approx(1, abs=1e-12)
    assert found.relative_error < 1e-11


def test_what_cannot_be_compared():
    a, b = memory(42), memory(12)
    refused(lambda: consistency(b, a, SOME), "small", "42 and 12")
    refused(lambda: consistency(a, a, SOME), "small", "42 and 42")
    refused(lambda: consistency(a, memory(4, "vectors.npy"), SOME), "different data", "vectors.npy")
    refused(lambda: consistency(a, memory(12, unit_variance=True), SOME), "different data")
    refused(lambda: consistency(a, Memory(model(12), None, 0.0), SOME), "know their data")


# --- from files to files ---------------------------------------------------------------------------


@pytest.fixture
def saved(here):
    return str(memory(dtype=jnp.float32, heldout=0.25).save(here / "m.safetensors"))


def test_which_samples_are_taken(here):
    m = memory(heldout=0.25)
    held = held_out(40, 0.25)
    assert len(held) == 10
    assert np.array_equal(chosen_samples(m, "images.npy").array, IMAGES)
    assert np.array_equal(chosen_samples(m, "images.npy", heldout=True).array, IMAGES[held])
    shutil.copy("images.npy", "copy.npy")
    assert np.array_equal(chosen_samples(m, "copy.npy", heldout=True).array, IMAGES[held]), (
        "its content counts"
    )
    np.save("other.npy", IMAGES[::-1])
    assert np.array_equal(chosen_samples(m, "other.npy", heldout=None).array, IMAGES[::-1])
    refused(
        lambda: chosen_samples(m, "other.npy", heldout=True), "heldout", "this memory was not trained on it"
    )
    assert np.array_equal(chosen_samples(m, "images.npy", samples=4).array, IMAGES[[0, 13, 26, 39]])
    some = chosen_samples(m, "images.npy", heldout=True, samples=2)
    assert np.array_equal(some.array, IMAGES[held[[0, -1]]])
    assert some.unit == 255
    assert len(chosen_samples(m, "images.npy", samples=99).array) == 40
    refused(lambda: chosen_samples(m, "images.npy", samples=0), "samples", "0")
    for share in (0.0, 0.01):  # none could be held out
        assert len(chosen_samples(memory(heldout=share), "images.npy", heldout=None).array) == 40
        none = memory(heldout=share)
        refused(lambda m=none: chosen_samples(m, "images.npy", heldout=True), "held out")


@pytest.mark.parametrize(
    ("hide", "hidden"),
    [("top", np.s_[:3]), ("bottom", np.s_[3:]), ("left", np.s_[:, :3]), ("right", np.s_[:, 4:])],
)
def test_half_of_an_image_is_hidden(saved, hide, hidden):
    known = np.ones((H, W))
    known[hidden] = 0
    held = np.isclose(D2 @ known.ravel(), 1)
    assert 0 < held.sum() < 12
    (found,) = recall_file(saved, "images.npy", hide=hide, samples=5, steps=2)
    assert np.array_equal(found.held, np.broadcast_to(held, (5, 12)))
    assert np.array_equal(found.state[:, held], found.clean[:, held])
    assert np.all(found.start[:, ~held] == 0)
    np.save("mask.npy", known)
    (same,) = recall_file(saved, "images.npy", mask="mask.npy", samples=5, steps=2)
    assert np.array_equal(same.state, found.state)


def test_a_share_is_hidden_at_random_for_each_sample():
    whole = str(memory(42, shrink="none", dtype=jnp.float32).save("whole.safetensors"))
    (found,) = recall_file(whole, "images.npy", hide="0.3", steps=1, seed=4)
    assert found.held.mean() == pytest.approx(0.7, abs=0.05)
    assert len({tuple(row) for row in found.held.tolist()}) == 40
    again, other = (recall_file(whole, "images.npy", hide="0.3", steps=1, seed=s)[0] for s in (4, 5))
    assert np.array_equal(again.held, found.held)
    assert not np.array_equal(other.held, found.held)
    np.save("masks.npy", found.held.reshape(40, H, W))
    (same,) = recall_file(whole, "images.npy", mask="masks.npy", steps=1, seed=4)
    assert np.array_equal(same.state, found.state)


def test_an_array_is_written(saved):
    results = recall_file(saved, "images.npy", samples=5, steps=3, noise=(0.5,), out="new/out.npy")
    files = write_recalled(results, "new/out.npy")
    assert str(files[0]) == "new/out.npy"
    assert all(file.is_file() for file in files)
    written = np.load("new/out.npy")
    assert written.shape == (5, H, W)
    start = results[0].start.astype(np.float64)
    expected = [reference.recall(plain(results[0].memory), x, 3)[0][-1] for x in start]
    assert np.allclose(written.reshape(5, -1), 255 * (MEAN + np.array(expected) @ L2.T), atol=0.01)


def test_arrays_of_several_levels_are_written(saved, monkeypatch):
    monkeypatch.setattr("denseam.report.recalled.draw_recall", lambda *_: [])
    results = recall_file(saved, "images.npy", samples=5, steps=3, noise=(0.0, 0.5))
    write_recalled(results, "out.npz")
    with np.load("out.npz") as written:
        assert set(written) == {"output", "start", "energies", "steps", "converged", "noise"}
        assert written["output"].shape == written["start"].shape == (2, 5, H, W)
        assert np.array_equal(written["noise"], [0.0, 0.5])
        for i, result in enumerate(results):
            assert np.allclose(written["output"][i].reshape(5, -1), result.output)
            assert np.allclose(written["start"][i].reshape(5, -1), result.memory.decode(result.start))
            for name in ("energies", "steps", "converged"):
                assert np.array_equal(written[name][i], getattr(result, name))
    shrunk = 255 * (MEAN + seen(IMAGES[[0, 10, 20, 29, 39]]) @ L2.T)
    with np.load("out.npz") as written:
        assert np.allclose(written["start"][0].reshape(5, -1), shrunk, atol=0.01), "in values of the file"
    write_recalled(results, "out.npy")
    assert np.load("out.npy").shape == (2, 5, H, W)
    vectors = str(memory(4, "vectors.npy", dtype=jnp.float32).save("v.safetensors"))
    write_recalled(recall_file(vectors, "vectors.npy", samples=5, steps=3), "v.npy")
    assert np.load("v.npy").shape == (5, 9)


def test_a_folder_gets_arrays_and_pictures(saved, here):
    results = recall_file(saved, "images.npy", samples=5, steps=3, noise=(0.0, 0.5), out="deep/folder")
    assert not (here / "deep").exists(), "only checked so far"
    files = write_recalled(results, "deep/folder")
    folder = here / "deep" / "folder"
    assert {f.name for f in folder.iterdir()} == {"recalled.npz", "recall.png", "recall.svg", "images"}
    assert {here / f for f in files} == set(folder.iterdir())
    with np.load(folder / "recalled.npz") as written:
        assert written["output"].shape == (2, 5, H, W)
    assert len(list((folder / "images").iterdir())) == 10
    picture = imread(folder / "images" / "1-0003.png")[..., 0]
    expected = np.clip(D2 @ MEAN + results[1].state[3], 0, 1).reshape(3, 4)
    assert np.abs(picture - expected).max() < 1 / 200


def test_projected_images_are_written_without_single_pictures(here, monkeypatch):
    monkeypatch.setattr("denseam.report.recalled.draw_recall", lambda *_: [])
    path = str(memory(12, shrink="pca", dtype=jnp.float32).save("pca.safetensors"))
    write_recalled(recall_file(path, "images.npy", samples=5, steps=3), "folder")
    assert [f.name for f in (here / "folder").iterdir()] == ["recalled.npz"]
    with np.load("folder/recalled.npz") as arrays:
        assert arrays["output"].shape == (1, 5, H, W)


def test_nothing_is_written_when_the_input_is_bad(saved, here):
    np.save("wrong.npy", np.zeros((3, 5)))
    bad = IMAGES.astype(float)
    bad[2, 1, 1] = np.nan
    np.save("nan.npy", bad)
    np.save("mask.npy", np.ones((H, W)))
    np.save("numbers.npy", np.full((H, W), 3))
    vectors = str(memory(4, "vectors.npy").save("v.safetensors"))
    before = sorted(here.iterdir())

    def refuse(*parts, checkpoint=saved, data="images.npy", out="new/out.npz", **options):
        refused(lambda: recall_file(checkpoint, data, out=out, **options), *parts)
        assert sorted(here.iterdir()) == before

    refuse("42 features", "5", data="wrong.npy")
    refuse("finite", "sample 2", data="nan.npy")
    refuse("missing.npy", data="missing.npy")
    refuse("no such file", checkpoint="missing.safetensors", out="folder")
    refuse("mask and hide", mask="mask.npy", hide="top")
    refuse("mask", "true and false", mask="numbers.npy")
    refuse("mask", mask="wrong.npy")
    for hide in ("middle", "0", "1", "-0.5", "nan", ""):
        refuse("hide", "'top'", repr(hide), hide=hide)
    refuse("hide 'top'", "for images", checkpoint=vectors, data="vectors.npy", hide="top")
    refuse("mask", "rotated", checkpoint=vectors, data="vectors.npy", hide="0.3")
    refuse("noise", noise=(-1.0,))
    refuse("out", ".npz or .npy", "out.csv", out="new/out.csv")
    refuse("images.npy", "not a folder", out="images.npy/inside/out.npz")
    (here / "there.npz").mkdir()
    before = sorted(here.iterdir())
    refuse("is a folder", out="there.npz")
