"""Contracts that every Lagrangian must satisfy, this library's and your own.

In your test file::

    @pytest.mark.parametrize("check", denseam.testing.lagrangian_checks(MyLagrangian()))
    def test_contract(check):
        check()

`lagrangian_checks` are for the hidden neurons, `feature_checks` for the features. All checks run in float64,
which they enable only for themselves, and raise `AssertionError`. The numbers of a check are one compiled
program, which takes less time than operations one by one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from denseam.model.dense_am import DenseAM, for_each
from denseam.model.lagrangians import Elementwise, Lagrangian, ReLU, Softmax
from denseam.model.steps import Steps
from denseam.training.gradient import gradient, gradient_of_batch, loss
from denseam.training.matrices import Ways, batch_of

_K, _N, _B = 7, 5, 4


def lagrangian_checks(lagrangian: Lagrangian) -> list[Callable[[], None]]:
    """Return the contracts of hidden neurons: functions without arguments, for `pytest.mark.parametrize`."""
    models = [functools.partial(check, lagrangian, c) for check in _of_models() for c in (True, False)]
    return [_in_float64(check) for check in (*_of_functions(lagrangian), *models)]


def feature_checks(lagrangian: Lagrangian) -> list[Callable[[], None]]:
    """Return the contracts of features, as `lagrangian_checks`; their hidden neurons are ReLU or softmax."""
    hidden = ((ReLU(), True), (Softmax(), False))
    models = [functools.partial(check, *of, features=lagrangian) for check in _of_models() for of in hidden]
    return [_in_float64(check) for check in (*_of_functions(lagrangian), *models)]


def _of_functions(lagrangian: Lagrangian) -> list[functools.partial[None]]:
    """Return the contracts of Φ, σ and J."""
    checks: list[Callable[..., None]] = [
        activation_is_the_gradient_of_the_value,
        jacobian_product_is_the_derivative_of_the_activation,
        jacobian_is_symmetric,
        value_is_convex,
        leading_axes_are_samples,
        total_is_that_of_the_activations,
    ]
    if isinstance(lagrangian, Elementwise):
        checks.append(potential_acts_on_each_neuron)
    else:
        checks.append(conjugate_is_the_value_subtracted)
    return [functools.partial(check, lagrangian) for check in checks]


def _of_models() -> list[Callable[..., None]]:
    """Return the contracts of models that have a Lagrangian."""
    return [
        written_gradient_is_the_derivative_of_the_loss,
        written_gradient_is_the_derivative_through_steps,
        energy_gradient_is_the_step,
        update_never_raises_the_energy,
        effective_energy_is_the_minimum_over_hidden_states,
    ]


def _in_float64(check: functools.partial[None]) -> Callable[[], None]:
    @functools.wraps(check.func)
    def run() -> None:
        with jax.enable_x64(True):
            check()

    return run


def _draws(*shapes: tuple[int, ...], seed: int = 0, scale: float = 1.5) -> list[jax.Array]:
    rng = np.random.default_rng(seed)
    return [jnp.asarray(scale * rng.standard_normal(shape)) for shape in shapes]


def random_model(lagrangian: Lagrangian, centred: bool, seed: int = 0, **kwargs: object) -> DenseAM:
    """Return a small model with random weights, biases and multipliers, in float64."""
    W, b, c, counts = _draws((_K, _N), (_K,), (_N,), (_N,), seed=seed, scale=1.0)
    rng = np.random.default_rng(seed + 1)
    s1, s2, s_b, s_c = 10 ** rng.uniform(-1, 0.5, 4)
    options = {"s1": s1, "s2": s2, "s_b": s_b, "s_c": s_c, "counts": 1 + jnp.abs(counts)} | kwargs
    if not _single(kwargs.get("features")):
        options["counts"] = None
    return DenseAM(W, b, c, activation=lagrangian, centred=centred, **options)


def _single(features: object) -> bool:
    """Return whether features are functions of one neuron each; None are tanh."""
    return features is None or isinstance(features, Elementwise)


def _close(actual: object, expected: object, tolerance: float, what: str) -> None:
    a, b = np.asarray(actual), np.asarray(expected)
    error = np.max(np.abs(a - b)) / max(1.0, float(np.max(np.abs(b))))
    assert error <= tolerance, f"{what}: relative error {error:.1e}, allowed {tolerance:.0e}"


def activation_is_the_gradient_of_the_value(lagrangian: Lagrangian) -> None:
    """σ = ∂Φ/∂h, by autodiff to 1e-12 and by central differences to 1e-6."""
    t = 1e-5

    @jax.jit
    def sides(h: jax.Array) -> tuple[jax.Array, ...]:
        steps = t * jnp.eye(_K)
        differences = (lagrangian.value(h[None] + steps) - lagrangian.value(h[None] - steps)) / (2 * t)
        return lagrangian.activation(h), jax.grad(lambda h: jnp.sum(lagrangian.value(h)))(h), differences

    sigma, derivative, differences = sides(*_draws((_K,)))
    _close(sigma, derivative, 1e-12, "σ against autodiff of Φ")
    _close(sigma, differences, 1e-6, "σ against differences of Φ")


def jacobian_product_is_the_derivative_of_the_activation(lagrangian: Lagrangian) -> None:
    """J v is the directional derivative of σ, by autodiff to 1e-12 and by differences to 1e-6."""
    t = 1e-5

    @jax.jit
    def sides(h: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
        differences = (lagrangian.activation(h + t * v) - lagrangian.activation(h - t * v)) / (2 * t)
        derivative = jax.jvp(lagrangian.activation, (h,), (v,))[1]
        return lagrangian.jacobian_product(h, v), derivative, differences

    product, derivative, differences = sides(*_draws((_B, _K), (_B, _K)))
    _close(product, derivative, 1e-12, "Jv against autodiff of σ")
    _close(product, differences, 1e-6, "Jv against differences of σ")


def jacobian_is_symmetric(lagrangian: Lagrangian) -> None:
    """u·Jv = v·Ju, since J is a Hessian."""

    @jax.jit
    def product(h: jax.Array, u: jax.Array, v: jax.Array) -> jax.Array:
        return jnp.dot(u, lagrangian.jacobian_product(h, v))

    h, u, v = _draws((_K,), (_K,), (_K,))
    _close(product(h, u, v), product(h, v, u), 1e-12, "u·Jv against v·Ju")


def total_is_that_of_the_activations(lagrangian: Lagrangian) -> None:
    """If `total` is given, Σ_k σ_k = total at any h: training then leaves out C before σ and around J."""
    if lagrangian.total is None:
        return
    (h,) = _draws((_B, _K), scale=3.0)
    sums = jnp.sum(lagrangian.activation(h), axis=-1)
    _close(sums, jnp.full(_B, lagrangian.total), 1e-12, "Σσ against total")


def value_is_convex(lagrangian: Lagrangian) -> None:
    """Φ(a) ≥ Φ(b) + σ(b)·(a − b), on which the descent of the energy relies."""

    @jax.jit
    def least_slack(a: jax.Array, b: jax.Array) -> jax.Array:
        tangent = lagrangian.value(b) + jnp.sum(lagrangian.activation(b) * (a - b), axis=-1)
        return jnp.min(lagrangian.value(a) - tangent)

    slack = float(least_slack(*_draws((1000, _K), (1000, _K), scale=3.0)))
    assert slack >= -1e-10, f"Φ lies below its tangent by {-slack:.1e}"


def leading_axes_are_samples(lagrangian: Lagrangian) -> None:
    """A batch gives the same results as its samples one by one."""

    @jax.jit
    def sides(h: jax.Array, v: jax.Array) -> dict[str, tuple[jax.Array, jax.Array]]:
        both = {}
        for function, arguments in (
            (lagrangian.value, (h,)),
            (lagrangian.activation, (h,)),
            (lagrangian.jacobian_product, (h, v)),
        ):
            both[function.__name__] = (function(*arguments), jax.vmap(jax.vmap(function))(*arguments))
        return both

    for name, (together, one_by_one) in sides(*_draws((3, _B, _K), (3, _B, _K))).items():
        _close(together, one_by_one, 1e-12, f"{name} of a batch")


def potential_acts_on_each_neuron(lagrangian: Elementwise) -> None:
    """Φ is the sum of φ over neurons, and σ′ the derivative of σ neuron by neuron."""

    @jax.jit
    def sides(h: jax.Array) -> tuple[jax.Array, ...]:
        each = jax.vmap(lambda h_k: lagrangian.potential(h_k[None])[0])(h)
        return lagrangian.value(h), lagrangian.potential(h), each

    value, potential, each = sides(*_draws((_K,)))
    _close(value, np.sum(potential), 1e-12, "Φ against Σφ")
    _close(potential, each, 1e-12, "φ neuron by neuron")


def conjugate_is_the_value_subtracted(lagrangian: Lagrangian) -> None:
    """The conjugate is σ(h)·h − Φ(h), in whatever form it is written."""

    @jax.jit
    def sides(h: jax.Array) -> tuple[jax.Array, jax.Array]:
        return lagrangian.conjugate(h), jnp.sum(lagrangian.activation(h) * h, axis=-1) - lagrangian.value(h)

    written, expected = sides(*_draws((_B, _K)))
    _close(written, expected, 1e-12, "Φ* at σ(h)")


def written_gradient_is_the_derivative_of_the_loss(
    lagrangian: Lagrangian, centred: bool, features: Lagrangian | None = None
) -> None:
    """The hand-written ∇L equals autodiff of L to 1e-10, on a batch, with biases and multipliers."""

    @eqx.filter_jit
    def sides(model: DenseAM, X: jax.Array, Y: jax.Array) -> tuple[Any, Any]:
        by_autodiff = jax.value_and_grad(lambda p: loss(model.with_parameters(p), X, Y))(model.parameters)
        return gradient(model, X, Y), by_autodiff

    (L, written), (expected_L, expected) = sides(
        random_model(lagrangian, centred, features=features), *_draws((_B, _N), (_B, _N), seed=5)
    )
    _close(L, expected_L, 1e-12, "L")
    for name in written._fields:
        _close(getattr(written, name), getattr(expected, name), 1e-10, f"∇_{name} L")


def written_gradient_is_the_derivative_through_steps(
    lagrangian: Lagrangian, centred: bool, features: Lagrangian | None = None
) -> None:
    """The adjoint through 1, 2 and 7 steps of recall equals autodiff to 1e-10, also with known features.

    Only features that are functions of one neuron each can be known.

    It is computed in several ways.
    """

    @eqx.filter_jit
    def sides(model: DenseAM, X: jax.Array, Y: jax.Array, known: jax.Array | None) -> tuple[Any, Any]:
        by_autodiff = jax.value_and_grad(lambda p: loss(model.with_parameters(p), X, Y, known))
        batch = batch_of(model, X, Y, known)
        ways = Ways(), Ways(written_out=True, recompute=True), Ways(stacked=True)
        written = [gradient_of_batch(model, batch, way) for way in ways]
        return written, by_autodiff(model.parameters)

    X, Y, hidden = _draws((_B, _N), (_B, _N), (_B, _N), seed=5)
    # Small multipliers, since a state that grows from step to step loses digits.
    options: Any = {"s1": 0.3, "s2": 0.3, "features": features}
    some = hidden > 0 if _single(features) else None
    for T, early, known in ((1, None, some), (2, 0.7, None), (7, None, None), (7, 0.7, some)):
        model = random_model(lagrangian, centred, steps=Steps(T, 0.9 / T, early), **options)
        written, (expected_L, expected) = sides(model, X, Y, known)
        for L, way in written:
            _close(L, expected_L, 1e-12, f"L through {T} steps")
            for name in way._fields:
                _close(getattr(way, name), getattr(expected, name), 1e-10, f"∇_{name} L through {T} steps")


def energy_gradient_is_the_step(
    lagrangian: Lagrangian, centred: bool, features: Lagrangian | None = None
) -> None:
    """∂E_eff/∂x = g′ [n ⊙ (x − f(x))]/s2, so that fixed points of f are those of the energy."""

    @eqx.filter_jit
    def sides(model: DenseAM, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        counts = 1 if model.counts is None else model.counts
        step = model.features.jacobian_product(x, counts * (x - model.update(x))) / model.s2
        return jax.grad(model.energy)(x), step

    slope, step = sides(random_model(lagrangian, centred, features=features), *_draws((_N,), seed=6))
    _close(slope, step, 1e-10, "∂E_eff/∂x")


def update_never_raises_the_energy(
    lagrangian: Lagrangian, centred: bool, features: Lagrangian | None = None
) -> None:
    """E_eff(f(x)) ≤ E_eff(x) for plain, damped and clamped steps, over random models and states.

    Only features that are functions of one neuron each can be clamped.
    """

    @eqx.filter_jit
    def largest_rise(model: DenseAM, x: jax.Array, damping: jax.Array, mask: jax.Array) -> jax.Array:
        moved = jnp.where(for_each(mask, x), x, x + damping * (model.update(x) - x))
        return jnp.max((model.energy(moved) - model.energy(x)) / energy_size(model, x))

    for seed in range(20):
        model = random_model(lagrangian, centred, seed, features=features)
        some = (np.arange(_N) % 2 == 0) & _single(features)
        (x,) = _draws((50, _N), seed=seed + 100, scale=2.0)
        for damping, mask in ((1.0, np.zeros(_N, bool)), (0.3, some)):
            rise = float(largest_rise(model, x, jnp.asarray(damping), jnp.asarray(mask)))
            assert rise <= 1e-12, f"the energy rose by {rise:.1e} of its terms (seed {seed}, {damping=})"


def energy_size(model: DenseAM, x: jax.Array) -> jax.Array:
    """Return the sum of the absolute terms of E_eff, the scale of its rounding error."""
    g = model.features.activation(x)
    counts = 1 if model.counts is None else for_each(model.counts, x)
    offset = for_each(model.s_c * model.c, x)
    linear = jnp.sum(counts * jnp.abs(g * (x - offset)), axis=-1)
    features = linear + _value_size(model.features, x, counts)
    return features / model.s2 + _value_size(model.activation, model.hidden(x)) / model.s1


def _value_size(lagrangian: Lagrangian, h: jax.Array, counts: Any = 1) -> jax.Array:
    """Return |Φ(h)|, or the sum of the absolute terms of a sum over neurons."""
    if isinstance(lagrangian, Elementwise):
        return jnp.sum(counts * jnp.abs(lagrangian.potential(h)), axis=-1)
    return jnp.abs(lagrangian.value(h))


def effective_energy_is_the_minimum_over_hidden_states(
    lagrangian: Lagrangian, centred: bool, features: Lagrangian | None = None
) -> None:
    """E(x, h) ≥ E_eff(x), with equality where the hidden neurons are at rest."""

    @eqx.filter_jit
    def gaps(model: DenseAM, x: jax.Array, shift: jax.Array) -> jax.Array:
        gap = model.energy(x, model.hidden(x) + shift) - model.energy(x)
        return gap / energy_size(model, x)

    model = random_model(lagrangian, centred, features=features)
    x, shift = _draws((200, _N), (200, _K), seed=7)
    _close(gaps(model, x, 0 * shift), 0.0, 1e-12, "E(x, h) at rest against E_eff(x)")
    for far in (0.01, 1.0, 10.0):
        least = float(np.min(gaps(model, x, far * shift)))
        assert least >= -1e-12, f"E(x, h) is below E_eff(x) by {-least:.1e}"
