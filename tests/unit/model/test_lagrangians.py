import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import denseam as dam
from denseam.ground.errors import InputError
from denseam.model import lagrangians
from denseam.model.lagrangians import registered
from denseam.rules.table import relu_constant
from denseam.testing import lagrangian_checks
from tests.models import FURTHER


class Soft(dam.Elementwise):
    """A Lagrangian as a user would write it: only the potential."""

    name: ClassVar[str] = "soft"

    def potential(self, h):
        return jnp.sqrt(1 + h * h)


class Blend(dam.Lagrangian):
    """A contrastive one with only its value written."""

    name: ClassVar[str] = "blend"
    family: ClassVar[str] = "softmax"

    def value(self, h):
        return jax.nn.logsumexp(h, axis=-1) + jnp.sum(h * h, axis=-1) / 20


CASES = {name: make() for name, make in registered().items()}
CASES |= {f"relu^{p}": dam.relu(p) for p in (1.5, 2, 2.7, 3, 10)}
CASES |= {"tanh-gain-3": dam.tanh(3.0), "tanh-gain-half": dam.tanh(0.5)}
CASES |= {"sparsemax": dam.entmax(2), "relative-entmax2": dam.relative_entmax(2)}
CASES |= {"softmax-beta-3": dam.softmax(3.0), "soft": Soft(), "blend": Blend()}


#: Those whose models are compared with the reference in `test_energies`: their contracts of models are slow.
COMPARED = {type(lagrangian) for lagrangian, _ in FURTHER.values()}
OF_MODELS = 10
#: Others between or beside which are of the same kind.
ALIKE = {"relu^2", "relu^2.7", "relu^3", "tanh-gain-half"}
THROUGH_STEPS = ("relu", "blend")


def contracts():
    """All contracts. A model knows an activation by Φ, σ and J alone, so many of those of models are slow.

    One of each kind of activation has them in `make test`, centred or not in turn; the longest, through steps of recall, for
    two of them; `test_trajectory` compares others with the reference. Of the powers of ReLU two are enough.
    That J is symmetric follows from two others, and is checked here for the same two.
    """
    seen = set(COMPARED)
    for n, (name, lagrangian) in enumerate(CASES.items()):
        checks, known = lagrangian_checks(lagrangian), type(lagrangian) in seen
        seen.add(type(lagrangian))
        for i, check in enumerate(checks):
            of_models = i >= len(checks) - OF_MODELS
            steps = check.__name__ == "written_gradient_is_the_derivative_through_steps"
            slow = (of_models and (known or (n + i) % 2 == 0)) or (steps and name not in THROUGH_STEPS)
            slow |= name in ALIKE or (check.__name__ == "jacobian_is_symmetric" and name not in THROUGH_STEPS)
            yield pytest.param(
                check, id=f"{name}-{check.__name__}-{i}", marks=pytest.mark.slow if slow else ()
            )


@pytest.mark.parametrize("check", list(contracts()))
def test_contract(check):
    check()


class NotConvex(dam.Elementwise):
    name: ClassVar[str] = "sine"

    def potential(self, h):
        return jnp.sin(h)


class WrongSlope(dam.Elementwise):
    name: ClassVar[str] = "wrong"

    def potential(self, h):
        return h * h / 2

    def activation(self, h):
        return 1.001 * h


class WrongTotal(lagrangians.Ghostmax):
    """Its further state has a share of the sum."""

    name: ClassVar[str] = "wrong-total"
    total: ClassVar[float | None] = 1.0


@pytest.mark.parametrize(
    ("bad", "failing"),
    [
        (NotConvex(), {"value_is_convex", "update_never_raises_the_energy"}),
        (WrongSlope(), {"activation_is_the_gradient_of_the_value", "energy_gradient_is_the_step"}),
        (WrongTotal(), {"total_is_that_of_the_activations"}),
    ],
    ids=["not-convex", "wrong-slope", "wrong-total"],
)
def test_the_contracts_can_fail(bad, failing):
    checks = {check.__name__: check for check in lagrangian_checks(bad)}
    for name in failing:
        with pytest.raises(AssertionError):
            checks[name]()


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1.5, 2.25, 7.9])
def test_relu_powers_have_unit_second_moment(p):
    node, weight = np.polynomial.legendre.leggauss(400)  # on (−1, 1)
    z = 20 * (1 + node)
    second = 20 * weight @ (np.asarray(dam.relu(p).activation(jnp.asarray(z))) ** 2 * stats.norm.pdf(z))
    assert second == pytest.approx(1, abs=1e-9)


def test_the_constant_is_the_double_factorial_at_integers():
    for p, factorial in ((1, 1), (2, 3), (3, 15), (4, 105), (10, 654729075)):
        assert relu_constant(p) == pytest.approx(math.sqrt(2 / factorial), rel=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_cosh_is_finite_and_exact_everywhere(dtype):
    x = np.concatenate([-np.geomspace(1e-6, 1e4, 400), [0.0], np.geomspace(1e-6, 1e4, 400)]).astype(dtype)
    found = np.asarray(dam.tanh().potential(jnp.asarray(x)), np.float64)
    a = np.abs(x.astype(np.longdouble))
    exact = np.where(a < 1, np.log1p(2 * np.sinh(a / 2) ** 2), a + np.log1p(np.exp(-2 * a)) - np.log(2))
    error = np.abs(found - exact) / np.maximum(exact, np.finfo(dtype).tiny)
    assert found[400] == 0
    assert float(np.max(np.delete(error, 400))) < 8 * np.finfo(dtype).eps


def test_derivatives_of_relu_are_finite_at_and_below_zero():
    for p in (1, 1.5, 2):
        relu = dam.relu(p)
        h = jnp.asarray([-1.0, 0.0])
        for order in (relu.activation, relu.derivative):
            assert np.all(np.asarray(order(h)) == 0)
        second = jax.jvp(relu.derivative, (h,), (jnp.ones(2),))[1]
        assert np.all(np.isfinite(second))


def test_softmax_keeps_its_head_at_large_inputs():
    h = jnp.asarray([1e4, 0.0, -1e4], jnp.float32)
    assert np.allclose(dam.softmax().activation(h), [1, 0, 0])
    assert float(dam.softmax().value(h)) == 1e4


def test_lagrangians_survive_json():
    for name, lagrangian in CASES.items():
        if name in ("soft", "blend"):
            continue
        back = lagrangians.from_json(lagrangians.to_json(lagrangian))
        assert type(back) is type(lagrangian)
        h = jnp.linspace(-1, 2, 5)
        assert np.array_equal(back.activation(h), lagrangian.activation(h))
    with pytest.raises(InputError, match="'gelu'"):
        lagrangians.from_json({"name": "gelu"})
    with pytest.raises(InputError, match="relu"):
        lagrangians.from_json({"name": "relu", "slope": 3})


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: dam.relu(0.5), "power"),
        (lambda: dam.relu(math.nan), "power"),
        (lambda: dam.softmax(0.0), "beta"),
        (lambda: dam.softmax(-math.inf), "beta"),
    ],
)
def test_bad_input(make, word):
    with pytest.raises(InputError, match=word):
        make()
