"""Optax optimizers with a learning rate for each parameter, taken from `Scales`.

An `Optimizer` is plain data: its learning rates, momentum, betas and ε are leaves of a pytree, so
many of them can be one tensor program and a new value needs no compilation. It has the ``init`` and
``update`` of an ``optax.GradientTransformation``, built from Optax's own parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import ArrayLike

from denseam.errors import InputError, at_least_zero, below_one, refuse, typed, whole
from denseam.model.dense_am import Parameters
from denseam.rules import Scales
from denseam.rules.table import OptimizerName

Schedule = Callable[[ArrayLike], ArrayLike]

_LABELS: Any = Parameters("W", "b", "c")  # type: ignore[arg-type]  # names in the places of the arrays


class Optimizer(eqx.Module):
    """An optimizer with its own learning rate for W, b and c.

    Made by `sgd`, `adam`, `adamw` or `scaled`. All parameters follow one `schedule`, a factor that
    multiplies the three learning rates alike, so that their ratios stay as prescribed.
    """

    kind: str = eqx.field(static=True)
    rates: Parameters
    momentum: ArrayLike | None = None
    beta1: ArrayLike = 0.9
    beta2: ArrayLike = 0.999
    epsilon: Parameters | None = None
    decay: ArrayLike | None = None
    schedule: Schedule | None = eqx.field(static=True, default=None)
    inner: optax.GradientTransformation | None = eqx.field(static=True, default=None)

    def transformation(self) -> optax.GradientTransformation:
        """Return it as an Optax transformation."""
        return optax.partition({label: self._chain(label) for label in _LABELS}, _LABELS)

    def init(self, parameters: Parameters) -> optax.OptState:
        """Return the state before the first step."""
        return self.transformation().init(parameters)

    def update(
        self, gradient: Parameters, state: optax.OptState, parameters: Parameters | None = None
    ) -> tuple[Parameters, optax.OptState]:
        """Return the update to add to the parameters, and the next state."""
        updates, state = self.transformation().update(gradient, state, parameters)
        return updates, state

    def _direction(self, label: str) -> list[optax.GradientTransformation]:
        """Return the steps that turn the gradient of one parameter into an unscaled descent direction."""
        if self.kind == "sgd":
            trace = [] if self.momentum is None else [optax.trace(self.momentum)]
            return [*trace, optax.scale(-1.0)]
        if self.kind in ("adam", "adamw"):
            assert self.epsilon is not None
            steps = [optax.scale_by_adam(self.beta1, self.beta2, getattr(self.epsilon, label))]
            if self.decay is not None and label == "W":
                steps.append(optax.add_decayed_weights(self.decay))
            return [*steps, optax.scale(-1.0)]
        assert self.inner is not None
        return [self.inner]

    def _chain(self, label: str) -> optax.GradientTransformation:
        rate = optax.scale(getattr(self.rates, label))
        schedule = [] if self.schedule is None else [optax.scale_by_schedule(self.schedule)]
        return optax.chain(*self._direction(label), rate, *schedule)


def sgd(scales: Scales, *, momentum: float | None = None, schedule: Schedule | None = None) -> Optimizer:
    """Return SGD, ``Δθ = −η_θ ∇_θ L``, with heavy-ball momentum if given."""
    _made_for(scales, "sgd")
    if momentum is not None:
        refuse(below_one(momentum=momentum))
    return Optimizer("sgd", _rates(scales), momentum=momentum, schedule=schedule)


def adam(
    scales: Scales,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    schedule: Schedule | None = None,
) -> Optimizer:
    """Return Adam, ``Δθ = −η_θ M̂/(√V̂ + ε_θ)`` (eq. adam-update)."""
    _made_for(scales, "adam")
    refuse([*below_one(beta1=beta1, beta2=beta2), *at_least_zero(epsilon=epsilon)])
    factors = (scales.epsilon_W, scales.epsilon_b, scales.epsilon_c)
    epsilons = Parameters(*(epsilon * factor for factor in factors))  # type: ignore[arg-type]
    return Optimizer("adam", _rates(scales), beta1=beta1, beta2=beta2, epsilon=epsilons, schedule=schedule)


def adamw(
    scales: Scales,
    *,
    decay: float = 1e-4,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    schedule: Schedule | None = None,
) -> Optimizer:
    """Return AdamW, ``ΔW = −η_W (M̂/(√V̂ + ε_W) + λ_W W)``; the biases are not decayed."""
    refuse(at_least_zero(decay=decay))
    plain = adam(scales, beta1=beta1, beta2=beta2, epsilon=epsilon, schedule=schedule)
    return dataclasses.replace(plain, kind="adamw", decay=decay * scales.decay_W)


def scaled(
    inner: optax.GradientTransformation, scales: Scales, *, schedule: Schedule | None = None
) -> Optimizer:
    """Return any Optax optimizer with the learning rates of `scales`.

    `inner` is an ordinary optimizer made with learning rate 1, such as ``optax.lion(1.0)``; its
    updates are multiplied by η_W, η_b, η_c. Use SGD's scales if its step is proportional to the
    gradient, and Adam's if it normalises each entry.
    """
    refuse(typed(optax.GradientTransformation, "an Optax optimizer, such as optax.lion(1.0)", inner=inner))
    zero = jnp.zeros(2)
    step = inner.update(jnp.ones(2), inner.init(zero), zero)[0]
    if not bool(jnp.all(step < 0)):
        raise InputError(
            "inner must go downhill: pass an optimizer with learning rate 1 (optax.lion(1.0)), "
            "not a bare scale_by_… part"
        )
    return Optimizer("scaled", _rates(scales), schedule=schedule, inner=inner)


def effective_learning_rates(optimizer: Optimizer, step: int = 0) -> dict[str, float]:
    """Measure the learning rates that are really applied at a step.

    The optimizer is run on a constant gradient beside a copy of itself with rates 1 and no schedule;
    the ratio of their updates is the effect of the learning rates, the schedule and the wrapping.
    """
    refuse(typed(Optimizer, "an Optimizer, from sgd, adam, adamw or scaled", optimizer=optimizer))
    refuse(whole(0, step=step))
    probe = Parameters(jnp.ones((1, 1)), jnp.ones(1), jnp.ones(1))
    bare = dataclasses.replace(optimizer, rates=Parameters(1.0, 1.0, 1.0), schedule=None)  # type: ignore[arg-type]

    def last(o: Optimizer) -> Parameters:
        def advance(_: int, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            return o.update(probe, carry[1], probe)

        first = o.update(probe, o.init(probe), probe)
        updates: Parameters = jax.lax.fori_loop(0, step, advance, first)[0]
        return updates

    applied, plain = last(optimizer), last(bare)
    return {name: float(jnp.squeeze(getattr(applied, name) / getattr(plain, name))) for name in _LABELS}


def _rates(scales: Scales) -> Parameters:
    refuse(typed(Scales, "Scales, from a rule at a shape", scales=scales))
    return Parameters(scales.eta_W, scales.eta_b, scales.eta_c)  # type: ignore[arg-type]


def _made_for(scales: Scales, optimizer: OptimizerName) -> None:
    refuse(typed(Scales, "Scales, from a rule at a shape", scales=scales))
    if scales.optimizer != optimizer:
        raise InputError(
            f"scales were made for {scales.optimizer!r}, not for {optimizer!r}: "
            "their learning rates follow another rule"
        )
