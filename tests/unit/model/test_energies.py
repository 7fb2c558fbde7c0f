"""The Lagrangians beyond the paper's: against the reference, their limits, and descent over many models."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import spence

import denseam as dam
from denseam.cli import main
from denseam.ground.errors import InputError
from denseam.model import lagrangians
from denseam.model.lagrangians.simplex import threshold
from denseam.rules.activations import read_activation
from denseam.rules.table import FAMILIES
from denseam.testing import random_model
from denseam.training.gradient import gradient
from tests import reference
from tests.descent import largest_rise
from tests.models import FURTHER, plain

every = pytest.mark.parametrize("name", FURTHER)


@every
def test_value_activation_and_jacobian_equal_the_reference(name):
    lagrangian, own = FURTHER[name]
    rng = np.random.default_rng(0)

    @jax.jit
    def sides(h):
        J = jax.vmap(lagrangian.jacobian_product, (None, 0))(h, jnp.eye(len(h)))
        return lagrangian.value(h), lagrangian.activation(h), J

    for size in (0.1, 1.0, 5.0):
        h = size * rng.standard_normal(9)
        value, S, J = sides(h)
        assert float(value) == pytest.approx(reference.Phi(lagrangian.name, h, **own), rel=1e-11, abs=1e-11)
        assert np.allclose(S, reference.sigma(lagrangian.name, h, **own), rtol=1e-11, atol=1e-13)
        assert np.allclose(J, reference.jacobian(lagrangian.name, h, **own), rtol=1e-8, atol=1e-9)


@every
def test_update_energies_and_gradient_equal_the_reference(name):
    model = random_model(FURTHER[name][0], True, counts=None)
    ref = plain(model, name)
    rng = np.random.default_rng(3)
    X, Y, h = rng.standard_normal((4, 5)), rng.standard_normal((4, 5)), rng.standard_normal(7)

    @eqx.filter_jit
    def seen(model, X, Y, h):
        return model.update(X[0]), model.energy(X[0]), model.energy(X[0], h), gradient(model, X, Y)

    update, effective, energy, (L, grads) = seen(model, X, Y, h)
    assert np.allclose(update, ref.f(X[0]), rtol=1e-11, atol=1e-12)
    assert float(effective) == pytest.approx(ref.effective_energy(X[0]), rel=1e-10, abs=1e-11)
    assert float(energy) == pytest.approx(ref.energy(X[0], h), rel=1e-10, abs=1e-11)
    assert float(L) == pytest.approx(ref.loss(X.T, Y.T), rel=1e-11)
    for found, expected in zip(grads, ref.gradient(X.T, Y.T), strict=True):
        assert np.allclose(found, expected, rtol=1e-8, atol=1e-9 * np.max(np.abs(expected)))


@every
def test_the_energy_falls_over_a_thousand_models_and_three_decades_of_multipliers(name):
    assert largest_rise(FURTHER[name][0], (0.1, 1.0)) <= 1e-11


def test_too_long_steps_raise_the_energy():
    assert largest_rise(dam.relative_entmax(1.3), (2.0, 3.0)) > 1e-3


# --- limits and special cases ----------------------------------------------------------------------


def projection(z):
    """The nearest point of the simplex, by sorting."""
    ordered = np.sort(z)[::-1]
    excess = np.cumsum(ordered) - 1
    k = np.nonzero(ordered - excess / np.arange(1, len(z) + 1) > 0)[0][-1] + 1
    return np.clip(z - excess[k - 1] / k, 0, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [1, 2, 1000])
def test_entmax_of_two_is_the_projection_to_the_simplex(K, dtype):
    for size in (1e-6, 1.0, 1e4):
        z = (size * np.random.default_rng(K).standard_normal(K)).astype(dtype)
        found = np.asarray(dam.entmax(2).activation(jnp.asarray(z)))
        assert np.allclose(
            found, projection(z.astype(np.float64)), atol=4 * np.finfo(dtype).eps * max(1, size)
        )
        assert found.dtype == dtype


@pytest.mark.parametrize("r", [1 / 3, 0.5, 1, 2, 3.7, 100])
def test_the_threshold_has_norm_one_for_any_exponent(r):
    rng, eps = np.random.default_rng(0), np.finfo(np.float64).eps  # an entry at the edge counts eps^r
    for z in (rng.standard_normal((3, 2000)), np.zeros((3, 50)), 1e3 * rng.standard_normal((3, 5))):
        tau, q = map(np.asarray, jax.jit(threshold, static_argnums=1)(jnp.asarray(z), r))
        assert np.allclose(
            np.sum(np.where(q > 0, q, 0) ** r, axis=-1), 1, atol=max(1e-12, 10 * eps ** min(r, 1))
        )
        assert np.allclose(np.maximum(z - tau[:, None], 0), q, atol=1e-12)


def test_entmax_goes_to_softmax():
    h = jnp.asarray(np.random.default_rng(0).standard_normal(20))
    soft = dam.softmax().activation(h)
    assert np.allclose(dam.relative_entmax(1.001).activation(h), soft, atol=1e-3)
    assert np.allclose(dam.entmax(1.001).activation(h), soft, atol=1e-3)
    assert not np.allclose(dam.entmax(1.5).activation(h), soft, atol=1e-2)


def test_relative_supports_grow_with_the_memories_and_others_do_not():
    rng = np.random.default_rng(0)
    for relative, other in (
        (dam.relative_entmax(1.5), dam.entmax(1.5)),
        (dam.relative_normmax(), dam.normmax()),
    ):
        shares, counts = [], []
        for K in (100, 10_000):
            h = jnp.asarray(rng.standard_normal(K))
            shares.append(float(jnp.mean(relative.activation(h) > 0)))
            counts.append(float(jnp.sum(other.activation(h) > 0)))
        assert shares[1] == pytest.approx(shares[0], rel=0.2)
        assert counts[1] < 3 * counts[0]


def test_ghostmax_leaves_room_for_no_answer():
    assert float(jnp.sum(dam.ghostmax().activation(jnp.full(5, -30.0)))) < 1e-12
    h = jnp.asarray([1e4, 0.0], jnp.float32)
    assert np.allclose(dam.ghostmax().activation(h), [1, 0])
    assert float(dam.ghostmax().value(h)) == 1e4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dilogarithm_is_exact_everywhere(dtype):
    h = np.concatenate([-np.geomspace(1e-3, 80, 200), [0.0], np.geomspace(1e-3, 80, 200)]).astype(dtype)
    found = np.asarray(dam.softplus().potential(jnp.asarray(h)), np.float64)
    exact = -spence(1 + np.exp(h.astype(np.float64)))
    small = h < -1  # where 1 + e^h loses digits: −Li₂(−x) = x − x²/4 + x³/9 − …
    x = np.exp(h.astype(np.float64)[small])
    exact[small] = -sum((-x) ** n / n**2 for n in range(60, 0, -1))
    assert float(np.max(np.abs(found / exact - 1))) < 40 * np.finfo(dtype).eps


@pytest.mark.parametrize("lagrangian", [dam.exp(), dam.softplus(), dam.sigmoid()])
def test_large_inputs_stay_finite(lagrangian):
    h = jnp.asarray([-1e6, -100, 29.99, 30.01, 100, 1e6], jnp.float32)
    for function in (lagrangian.potential, lagrangian.activation, lagrangian.derivative):
        assert np.all(np.isfinite(function(h)))
    steps = np.diff(np.asarray(lagrangian.activation(jnp.linspace(25.0, 35.0, 2001))))
    assert np.all(steps >= 0)


def test_exp_has_unit_second_moment():
    node, weight = np.polynomial.hermite_e.hermegauss(80)
    second = weight @ np.asarray(dam.exp().activation(jnp.asarray(node))) ** 2 / np.sqrt(2 * np.pi)
    assert second == pytest.approx(1, abs=1e-9)


# --- construction and text -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: dam.entmax(1), "alpha must be above 1"),
        (lambda: dam.normmax(float("inf")), "alpha must be above 1"),
        (lambda: dam.topk(0), "k must be a whole number"),
        (lambda: dam.topk(2.5), "k must be a whole number"),
        (lambda: dam.topshare(1.5), "share must be above 0"),
        (lambda: dam.polynomial((0, 0, 1)), "falls nowhere"),
        (lambda: dam.polynomial((0, 1, 0, -1)), "falls nowhere"),
        (lambda: dam.polynomial((0, 1, 2, 1)), "falls nowhere"),
        (lambda: dam.polynomial((1,)), "one beside the first not 0"),
        (lambda: dam.polynomial((0.0, float("nan"))), "coefficients must be finite"),
    ],
)
def test_bad_parameters_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_polynomials_at_the_edge_are_accepted():
    assert dam.polynomial((0, 3, -3, 1)).coefficients == (0, 3, -3, 1)  # (h − 1)³ + 1, flat at h = 1
    assert dam.polynomial((0, 1, 0, 0)).coefficients == (0, 1)


def test_every_activation_is_read_from_its_text():
    for name, cls in lagrangians.registered().items():
        if name in FAMILIES:
            assert FAMILIES[name] == cls.family
            assert lagrangians.to_text(lagrangians.from_text(read_activation(name))) == (name, ())
    for text in ("entmax(2.5)", "relu(3)", "topk(7)", "topshare(0.1)", "polynomial(0,2,0,1)", "tanh(2)"):
        found = dam.Study(text, "adam", (8,), (0.1,)).lagrangian
        assert str(lagrangians.to_text(found)) == text
    assert dam.prescription("relative-entmax(2)", "sgd").family == "entmax"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("entmax(two)", "its parameters must be numbers"),
        ("entmax(1.5,2)", "'entmax' takes alpha, got entmax\\(1.5,2\\)"),
        ("sigmoid(2)", "'sigmoid' has no parameters"),
        ("entmax(0.5)", "alpha must be above 1"),
        ("entmix(1.5)", "activation must be"),
    ],
)
def test_bad_text_is_refused(text, words):
    with pytest.raises(InputError, match=words):
        dam.Study(text, "adam", (8,), (0.1,))


@pytest.mark.parametrize("text", ["entmax(two)", "entmax(0.5)"])
def test_prescribe_refuses_bad_parameters_once(text, capsys):
    asked = ["prescribe", "--activation", text, "--optimizer", "adam", "--features", "8", "--memories", "8"]
    assert main(asked) == 64
    said = capsys.readouterr().err
    assert ("its parameters must be numbers" if "two" in text else "alpha must be above 1") in said
    assert said.count("must be") == 1


def test_softmax_beta_belongs_to_softmax_alone():
    with pytest.raises(InputError, match="softmax_beta belongs to the activation 'softmax'"):
        dam.Study("ghostmax", "adam", (8,), (0.1,), axes={"beta": (2.0,)})


def test_sparse_activations_have_no_prescription():
    for optimizer in ("sgd", "adam", "muon"):
        with pytest.warns(dam.UnprescribedWarning, match="use one relative to K"):
            assert not dam.prescription("entmax(1.5)", optimizer).prescribed
        assert dam.prescription("relative-entmax(1.5)", optimizer).prescribed
