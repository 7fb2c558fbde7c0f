"""Patterns that are stored without training: what the equations say, and what is promised."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import denseam as dam
from denseam.ground.errors import InputError
from denseam.model import lagrangians, patterns, pieces
from denseam.model.dense_am import DenseAM
from tests import reference
from tests.sampled import sampled

RNG = np.random.default_rng(5)
#: Of different sizes and around another mean, so that nothing cancels.
UNLIKE = RNG.standard_normal((12, 7)) * RNG.uniform(0.5, 2, (12, 1)) + RNG.uniform(-1, 1, 7)
FEATURES = {"identity": (dam.identity(), None), "tanh": (dam.tanh(), 1.0), "steep": (dam.tanh(1.5), 1.5)}


def signs(K, N, seed=0):
    return np.sign(np.random.default_rng(seed).standard_normal((K, N))).astype(np.float32)


# --- softmax, by the equations -------------------------------------------------------------------


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("noise", [0.0, 0.15, 0.2])
def test_beta_and_what_is_promised_are_those_of_the_equations(name, noise):
    features, gain = FEATURES[name]
    beta, promised = reference.Stored(UNLIKE, gain).beta(noise, 1e-3)
    space = patterns.store(jnp.asarray(UNLIKE), features=features, noise=noise, tolerance=1e-3).spacing
    assert space.beta == pytest.approx(beta, rel=1e-4)
    assert space.promised == promised
    assert space.compared == len(UNLIKE)


def test_the_noises_tell_the_promises_apart():
    shares = [patterns.store(jnp.asarray(UNLIKE), noise=noise).spacing.promised for noise in (0, 0.2, 0.4)]
    assert shares[0] == 1 > shares[1] > shares[2]


@pytest.mark.parametrize("name", FEATURES)
def test_update_and_energy_are_a_weighted_mean_and_a_soft_minimum(name):
    features, gain = FEATURES[name]
    model = DenseAM.from_patterns(UNLIKE, dam.softmax(9.0), features=features)
    plain = reference.Stored(UNLIKE, gain)
    for x in UNLIKE[:3] + RNG.standard_normal((3, 7)):
        np.testing.assert_allclose(model(x), plain.weights(x, 9.0) @ UNLIKE, rtol=1e-9, atol=1e-12)
        assert float(model.energy(x)) == pytest.approx(plain.energy(x, 9.0), rel=1e-9)


@pytest.mark.parametrize("name", FEATURES)
def test_completion_weighs_patterns_by_what_is_known(name):
    features, gain = FEATURES[name]
    model = DenseAM.from_patterns(UNLIKE, dam.softmax(9.0), features=features)
    plain, known = reference.Stored(UNLIKE, gain), np.arange(7) < 4
    x = UNLIKE[2] + 0.1 * RNG.standard_normal(7)
    expected = np.where(known, x, plain.weights(x, 9.0, known) @ UNLIKE)
    np.testing.assert_allclose(model.complete(x, known), expected, rtol=1e-9)
    stranger = np.where(known, x, 1e3)  # what the others hold does not matter
    np.testing.assert_allclose(model.complete(stranger, known), expected, rtol=1e-9)


@pytest.mark.parametrize("size", [1e4, 1e7, 1e12])
@pytest.mark.parametrize("cues", [1, 2, 8])
def test_cues_of_an_absurd_size_recall_the_pattern_that_answers_most(cues, size):
    """β h is 10⁹ and more, and its rounding errors are hundreds; the largest exponent must still be 0."""
    X = np.random.default_rng(0).standard_normal((200, 16)).astype(np.float32)
    model = DenseAM.from_patterns(X, dam.softmax(156384.0))
    start = np.float32(size * np.random.default_rng(1).standard_normal((cues, 16)))
    most = np.argmax(X.astype(np.float64) @ start.T.astype(np.float64), axis=0)
    np.testing.assert_array_equal(jax.jit(lambda model, x: model.update(x))(model, start), X[most])
    after = model.recall(start)
    assert {row.tobytes() for row in np.asarray(after.state)} <= {row.tobytes() for row in X}
    assert np.isfinite(after.energies).all()


# --- softmax, what it promises -------------------------------------------------------------------


@given(
    shape=st.sampled_from([(1, 2), (2, 2), (9, 5), (40, 12)]),
    size=st.floats(1e-2, 1e2),
    offset=st.floats(-3, 3),
    seed=st.integers(0, 99),
)
@settings(max_examples=25, deadline=None)
def test_every_pattern_is_a_fixed_point_within_the_tolerance(shape, size, offset, seed):
    X = size * (np.random.default_rng(seed).standard_normal(shape) + offset)
    off = np.abs(np.asarray(DenseAM.from_patterns(X, tolerance=1e-3)(X)) - X).max(axis=0)
    assert (off <= 1e-3 * (X.max(axis=0) - X.min(axis=0)) + 1e-9 * size).all()


def test_what_is_promised_is_kept_in_one_step():
    X, noise = np.random.default_rng(1).standard_normal((200, 64)), 0.35
    W = jnp.asarray(X)
    parts = patterns.store(W, noise=noise)
    assert parts.spacing.promised == 1
    cues = np.repeat(X, 20, axis=0) + noise * RNG.standard_normal((4000, 64))
    back = patterns.recalled(DenseAM.storing(W, parts)(cues), np.repeat(X, 20, axis=0), within=1e-3)
    assert back.mean() >= 0.99


def test_more_noise_needs_a_larger_beta_until_it_cannot_be_promised():
    X = jnp.asarray(np.random.default_rng(1).standard_normal((200, 64)))
    found = [patterns.store(X, noise=noise).spacing for noise in (0.0, 0.35, 0.6, 3.0)]
    assert found[0].beta == found[1].beta < found[2].beta < found[3].beta
    assert found[3].beta <= 4 * found[0].beta * 1.0001  # an eighth of the separation, not half of it
    assert found[3].promised == 0


def test_nothing_is_promised_for_a_beta_that_is_too_small():
    X = jnp.asarray(np.random.default_rng(1).standard_normal((200, 64)))
    chosen = patterns.store(X, noise=0.35).spacing
    small = patterns.store(X, dam.softmax(chosen.beta / 4), noise=0.35).spacing
    assert (chosen.promised, small.promised) == (1, 0)
    assert small.beta == pytest.approx(chosen.beta / 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_noise_and_halves_are_recalled_and_no_step_raises_the_energy(dtype):
    X = np.random.default_rng(2).standard_normal((200, 64)).astype(dtype)
    model = DenseAM.from_patterns(X)
    assert model.W.dtype == dtype
    noisy = model.recall(X + dtype(0.4) * RNG.standard_normal(X.shape).astype(dtype))
    known = RNG.random(X.shape) < 0.5
    start = model.complete(np.where(known, X, 0), known)
    half = model.recall(start, clamp=known)
    for found in (noisy, half):
        assert patterns.recalled(found.state, X).all()
        assert found.converged.all()
        rises = np.diff(np.asarray(found.energies, np.float64), axis=1)
        assert rises.max() < (1e-4 if dtype == np.float32 else 1e-12)
    assert (np.asarray(half.state)[known] == X[known]).all()


def test_the_closest_patterns_are_named_and_a_sample_of_them_is_said():
    X = signs(60, 32)
    X[31] = X[7]
    X[31, 4] *= -1
    space = patterns.store(jnp.asarray(X)).spacing
    assert sorted(space.closest) == [7, 31]
    assert space.separation == pytest.approx(2 / 32)
    few = patterns.store(jnp.asarray(X), compared=10).spacing
    assert few.compared == 10


def test_pieces_give_what_the_whole_gives(monkeypatch):
    X = signs(60, 32)
    cues, known = X.reshape(4, 15, 32) * 0.3, np.arange(32) < 20
    whole = DenseAM.from_patterns(X)
    expected = whole.recall(cues, clamp=known), whole.complete(cues, known)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 7 * 60 * 16)
    monkeypatch.setattr(patterns, "PIECE_BYTES", 7 * 60 * 4)
    parted = DenseAM.from_patterns(X)
    assert float(parted.activation.beta) == pytest.approx(float(whole.activation.beta))
    found = parted.recall(cues, clamp=known), parted.complete(cues, known)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, atol=1e-5)


# --- ReLU^p --------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1, 2, 3])
def test_every_pattern_sees_itself_with_one_and_comes_back_with_its_size(power):
    model = DenseAM.from_patterns(UNLIKE, dam.relu(power))
    own = np.diagonal(np.asarray(model.hidden(jnp.asarray(UNLIKE))))
    np.testing.assert_allclose(own, 1, rtol=1e-9)
    outputs = np.asarray(model(UNLIKE))
    sizes = np.sum(outputs * UNLIKE, axis=1) / np.sum(UNLIKE**2, axis=1)
    assert sizes.mean() == pytest.approx(1, rel=1e-9)
    g = np.tanh(model.features.gain * UNLIKE)
    s1 = 1 / np.min(np.sum(UNLIKE * g, axis=1))
    assert float(model.s1) == pytest.approx(s1)
    slope = power * s1 * np.max(np.sum(UNLIKE**2 * model.features.gain * (1 - g**2), axis=1))
    assert slope <= patterns.SLOPE


@pytest.mark.parametrize("power", sampled([2, 3], [2]))
def test_relu_recalls_a_quarter_of_its_capacity_and_not_ten_times_it(power):
    N = 48
    most = patterns.capacity(N, power)
    assert most == pytest.approx(N**power / ({2: 3, 3: 15}[power] * math.log(N)))

    def kept(K):
        X = signs(round(K), N, seed=power)
        flips = np.where(np.random.default_rng(9).random((50, N)) < 0.1, -1, 1).astype(X.dtype)
        state = DenseAM.from_patterns(X, dam.relu(power)).recall(X[:50] * flips).state
        return (np.sign(state) == X[:50]).all(axis=1).mean()

    assert kept(most / 4) > 0.95
    assert kept(10 * most) < 0.05


# --- what is refused -----------------------------------------------------------------------------

PLAIN = signs(5, 8)
SAME = np.concatenate([PLAIN, PLAIN[2:3]])


@pytest.mark.parametrize(
    ("X", "options", "word"),
    [
        (PLAIN[0], {}, r"patterns × features, got float32 of shape \(8,\)"),
        (PLAIN[None], {}, "patterns × features"),
        ("abc", {}, "patterns must be numbers"),
        (PLAIN * 1j, {}, "real numbers"),
        (np.zeros((0, 4)), {}, "at least one, of at least two features, got 0 of 4"),
        (PLAIN[:, :1], {}, "at least two features, got 5 of 1"),
        (np.where(np.arange(8) == 3, np.nan, PLAIN), {}, "finite, got nan in pattern 0, feature 3"),
        (SAME, {}, "patterns 2 and 5 are the same"),
        (SAME, {"activation": dam.relu(2)}, "patterns 2 and 5 are the same"),
        (np.concatenate([PLAIN, PLAIN[:1] * -0.0, PLAIN[:1] * 0.0]), {}, "patterns 5 and 6 are the same"),
        (1e4 + np.concatenate([PLAIN, PLAIN[1:2] * 1.01]), {}, "can resolve.*centre"),
        (np.float32(1e30) * PLAIN.astype(np.float32), {}, "float32 can hold the squares of their distances"),
        (PLAIN, {"noise": -1}, "noise must be at least 0"),
        (PLAIN, {"noise": 1e30}, "noise must be at most .* for these patterns, got 1e.30"),
        (PLAIN, {"tolerance": 1}, "tolerance must be below 1"),
        (PLAIN, {"tolerance": 0}, "tolerance must be above 0"),
        (PLAIN, {"activation": dam.tanh()}, "activation must be softmax or relu"),
        (
            PLAIN,
            {"activation": dam.softmax(1e18)},
            "beta must be at most 1.7e.07 for these patterns, got 1e.18",
        ),
        (PLAIN.astype(np.float32), {"activation": dam.relu(60)}, "power must be smaller .* the size (0|inf)"),
        (PLAIN, {"activation": dam.relu(3), "features": dam.tanh(0.5)}, "features must saturate"),
        (PLAIN, {"activation": dam.relu(2), "features": dam.identity()}, "features must saturate"),
        (np.vstack([PLAIN, np.zeros(8)]), {"activation": dam.relu(2)}, "must not be zero, as pattern 5 is"),
    ],
)
def test_bad_patterns_are_one_sentence(X, options, word):
    with pytest.raises(InputError, match=word) as error:
        DenseAM.from_patterns(X, **options)
    assert len(error.value.problems) == 1


def test_several_problems_are_reported_together():
    with pytest.raises(InputError) as error:
        DenseAM.from_patterns(PLAIN, dam.tanh(), noise=-1, tolerance=0)
    assert len(error.value.problems) == 3


def test_only_stored_patterns_are_completed():
    with pytest.raises(InputError, match="activation must be softmax"):
        DenseAM.from_patterns(PLAIN, dam.relu(2)).complete(PLAIN, np.ones(8, bool))


def test_one_pattern_is_recalled_from_anything():
    assert np.allclose(DenseAM.from_patterns(PLAIN[:1])(np.zeros(8, PLAIN.dtype)), PLAIN[0])


def test_a_gain_survives_a_file_and_one_is_left_out(tmp_path):
    model = DenseAM.from_patterns(PLAIN, dam.relu(2))
    assert model.features.gain > 1
    again = DenseAM.load(model.save(tmp_path / "m.safetensors"))
    assert again.features == model.features
    np.testing.assert_array_equal(again(PLAIN), model(PLAIN))
    assert lagrangians.to_json(dam.tanh()) == {"name": "tanh"}  # as earlier versions wrote it
    with pytest.raises(InputError, match="gain must be above 0"):
        dam.tanh(0)
