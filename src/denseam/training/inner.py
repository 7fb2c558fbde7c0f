"""What an Optax optimizer of the user does, found by trying it on a constant gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from denseam.ground.errors import InputError, refuse, typed
from denseam.rules import Scales
from denseam.rules.optimizers import OPTIMIZERS, Normalisation

#: Its signs are a matrix of rank one, so that updates entry by entry and orthogonal ones differ.
_GRADIENT = np.array([[1.0, 0.8, 0.5], [0.6, 1.0, 0.9]], np.float32)
#: The sizes of the gradient: below those at which it is clipped, and above a first guess of its size.
_SIZES = (0.01, 1.0)
#: An optimizer may rest for fewer calls than these, since it warms up or accumulates gradients.
_CALLS = 1024

_WORDS = {
    Normalisation.GRADIENT: "proportional to the gradient",
    Normalisation.ENTRIES: "normalised entry by entry",
    Normalisation.ORTHOGONAL: "orthogonal",
}

_Updates = Float[np.ndarray, "calls 2 3"]
#: Factor on the gradient, weight → the updates of a constant gradient at constant weights.
_Trial = Callable[..., _Updates]


def checked(inner: Any, scales: Scales, *, decay: bool, schedule: bool) -> optax.GradientTransformation:
    """Return the user's optimizer as a transformation; refuse one that these scales do not fit."""
    if isinstance(inner, optax.MultiSteps):
        inner = inner.gradient_transformation()
    refuse(typed(optax.GradientTransformation, "an Optax optimizer, such as optax.rmsprop(1.0)", inner=inner))
    trial = _trial(inner)
    updates = trial(1.0)
    steps = _steps(updates)
    if not steps.size or float(np.sum(updates[steps[0]] * _GRADIENT)) >= 0:
        raise InputError(
            "inner must go downhill: pass an optimizer with learning rate 1 (optax.rmsprop(1.0)), "
            "not a bare scale_by_… part"
        )
    refuse([*_own_decay(trial, steps[0]), *_accumulation(steps, decay, schedule), *_size(trial, scales)])
    return inner


def _trial(inner: optax.GradientTransformation) -> _Trial:
    @jax.jit
    def updates(factor: Any, weight: Any) -> Any:
        gradient, weights = factor * jnp.asarray(_GRADIENT), jnp.full(_GRADIENT.shape, weight, jnp.float32)

        def call(state: Any, _: None) -> tuple[Any, Any]:
            update, state = inner.update(gradient, state, weights)
            return state, update

        return jax.lax.scan(call, inner.init(weights), None, length=_CALLS)[1]

    return lambda factor, weight=0.0: np.asarray(updates(factor, weight))


def _steps(updates: _Updates) -> Any:
    """Return the calls whose update is not zero."""
    return np.flatnonzero(updates.any(axis=(1, 2)))


def _own_decay(trial: _Trial, first: int) -> Iterator[str]:
    """Yield a problem if weights without a gradient change."""
    at_zero, at_one = (trial(0.0, weight)[: first + 1] for weight in (0.0, 1.0))
    if not np.array_equal(at_zero, at_one):
        yield (
            "inner must not decay by itself, which would not scale with size: leave out its weight_decay, "
            "and pass decay=… to scaled"
        )


def _accumulation(steps: Any, decay: bool, schedule: bool) -> Iterator[str]:
    """Yield a problem if gradients are accumulated, but decay or schedule would act at every call."""
    given = [name for name, is_given in (("decay", decay), ("schedule", schedule)) if is_given]
    if given and steps[0] + 1 not in steps:
        yield (
            f"inner accumulates gradients, but {' and '.join(given)} would act at every call: accumulate "
            "outside, by optax.MultiSteps(scaled(…).transformation(), k)"
        )


def _size(trial: _Trial, scales: Scales) -> Iterator[str]:
    """Yield a problem if the updates have another size than those that the scales were made for."""
    made_for, measured = OPTIMIZERS[scales.optimizer].normalisation, _normalisation(trial)
    if measured is not None and measured is not made_for:
        yield (
            f"scales were made for {scales.optimizer!r}, whose updates are {_WORDS[made_for]}, but those of "
            f"inner are {_WORDS[measured]}: their learning rates follow another rule"
        )


def _normalisation(trial: _Trial) -> Normalisation | None:
    """Return what sets the size of the updates, at first and at last, of small and of large gradients.

    None if these differ: clipping, for instance, leaves small gradients as they are.
    """
    measured = set()
    for size in _SIZES:
        one, ten = trial(size), trial(10 * size)
        steps = np.intersect1d(_steps(one), _steps(ten))
        if not steps.size:
            return None
        measured |= {_normalisation_of(one[t], ten[t]) for t in (steps[0], steps[-1])}
    return measured.pop() if len(measured) == 1 else None


def _normalisation_of(one: Any, ten: Any) -> Normalisation | None:
    """Return what sets the size of an update, given that of a gradient ten times as large."""
    ratio = np.linalg.norm(ten) / np.linalg.norm(one)
    if abs(ratio / 10 - 1) < 0.01:
        return Normalisation.GRADIENT
    if abs(ratio - 1) > 0.01:
        return None
    if np.ptp(np.abs(one)) < 0.01 * np.abs(one).max():
        return Normalisation.ENTRIES
    values = np.linalg.svd(one, compute_uv=False)
    return Normalisation.ORTHOGONAL if values[0] < 2 * values[-1] else None
