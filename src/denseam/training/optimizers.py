"""Optax optimizers with a learning rate for each parameter, taken from `Scales`.

An `Optimizer` is plain data: its learning rates, momentum, betas and ε are leaves of a pytree, so
many of them can be one tensor program and a new value needs no compilation. It has the ``init`` and
``update`` of an ``optax.GradientTransformation``, built from Optax's own parts.

What an optimizer is called, which hyperparameters it has and how its rates scale is in
`denseam.rules.optimizers`; here is what it does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.tree_util import GetAttrKey
from jaxtyping import Array, ArrayLike, Float

from denseam.ground.errors import InputError, at_least_zero, below_one, listed, refuse, typed, whole
from denseam.model.dense_am import Parameters
from denseam.rules import Scales, Timetable
from denseam.rules.cost import NEWTON_SCHULZ_STEPS
from denseam.rules.optimizers import AVERAGES, OPTIMIZERS, Normalisation, having
from denseam.training.inner import checked
from denseam.training.roles import LABELS, REST, labels_of

#: The factor of a step: a `Timetable`, or any function of the step that JAX can trace.
StepSchedule = Callable[[Any], Any]

#: The coefficients of a step of Newton–Schulz.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


class Optimizer(eqx.Module):
    """An optimizer with its own learning rate for W, b and c.

    Made by `sgd`, `adam`, `adamw`, `lion`, `sign`, `muon` or `scaled`. All parameters follow one
    schedule, a factor that multiplies the three learning rates alike, so that their ratios stay as
    prescribed: `factors` has that of every step, or `schedule` is a function of the step.
    """

    kind: str = eqx.field(static=True)
    rates: Parameters
    momentum: ArrayLike | None = None
    beta1: ArrayLike = 0.9
    beta2: ArrayLike = 0.999
    epsilon: Parameters | None = None
    decay: ArrayLike | None = None
    factors: Float[np.ndarray, " steps"] | Float[Array, " steps"] | None = None
    schedule: StepSchedule | None = eqx.field(static=True, default=None)
    inner: optax.GradientTransformation | None = eqx.field(static=True, default=None)
    nesterov: bool = eqx.field(static=True, default=False)

    @property
    def normalisation(self) -> Normalisation | None:
        """What the size of its update of W is set by; None if it is `scaled` and so not known."""
        return OPTIMIZERS[self.kind].normalisation if self.kind in OPTIMIZERS else None

    @property
    def follows_gradient(self) -> bool:
        """Whether its update of W is proportional to the gradient, or to its momentum."""
        return self.normalisation is Normalisation.GRADIENT

    def transformation(
        self, roles: Mapping[str, str] | None = None, rest: optax.GradientTransformation | None = None
    ) -> optax.GradientTransformation:
        """Return it as an Optax transformation, of `Parameters` or of any tree of arrays.

        Parameters
        ----------
        roles
            Name of an array in the tree → 'W', 'b' or 'c', such as ``{"layer.memories": "W"}``. By default an
            array has the role that is its own name.
        rest
            The optimizer of all other arrays. Without it they are refused.
        """
        refuse([] if rest is None else typed(optax.GradientTransformation, "an Optax optimizer", rest=rest))
        chains = {label: self._chain(label) for label in LABELS}
        if rest is not None:
            chains[REST] = rest
        return optax.partition(chains, lambda tree: labels_of(tree, roles, others=rest is not None))

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
        decay: list[optax.GradientTransformation] = []
        if self.decay is not None and label == "W":
            decay.append(optax.add_decayed_weights(self.decay))
        if self.inner is not None:
            return (
                [optax.chain(self.inner, optax.scale(-1.0), *decay, optax.scale(-1.0))]
                if decay
                else [self.inner]
            )
        rule = OPTIMIZERS[self.kind]
        steps = _UPDATES[self.kind if label == "W" else rule.of_biases.name](self, label)
        return [*steps, *decay, optax.scale(-1.0)]

    def _chain(self, label: str) -> optax.GradientTransformation:
        rate = optax.scale(getattr(self.rates, label))
        schedule = [optax.scale_by_schedule(self._factor_of_step)] if self.scheduled else []
        return optax.chain(*self._direction(label), rate, *schedule)

    @property
    def scheduled(self) -> bool:
        """Whether it has a schedule."""
        return self.factors is not None or self.schedule is not None

    def _factor_of_step(self, step: ArrayLike) -> ArrayLike:
        if self.factors is not None:
            factors = jnp.asarray(self.factors)
            return factors[jnp.minimum(step, len(factors) - 1)]
        return 1.0 if self.schedule is None else self.schedule(step)

    def counting_once(self, state: Any) -> Any:
        """Return the state with one count of steps in place of those of W, b and c, which are equal.

        What depends on the step, such as the corrections of Adam's moments, is then computed once.
        """
        if self.inner is not None:
            return state  # its counts may be of other things
        first: dict[Any, Array] = {}

        def same(path: tuple[Any, ...], leaf: Any) -> Any:
            _, _, *place = path  # inner_states, and the label
            is_count = place[-1] == GetAttrKey("count")
            return first.setdefault(tuple(place), leaf) if is_count else leaf

        return jax.tree_util.tree_map_with_path(same, state)

    def factor(self, state: Any) -> ArrayLike:
        """Return the factor of the schedule in the step that follows a state; 1 without a schedule."""
        if not self.scheduled:
            return 1.0
        return self._factor_of_step(state.inner_states["W"].inner_state[-1].count)


# --- what each makes of the gradient of one parameter ------------------------------------------------


def _momentum(o: Optimizer, label: str) -> list[optax.GradientTransformation]:
    """M ← μM + ∇; the update is M, or with Nesterov μM + ∇."""
    return [] if o.momentum is None else [optax.trace(o.momentum, nesterov=o.nesterov)]


def _adam(o: Optimizer, label: str) -> list[optax.GradientTransformation]:
    """M̂/(√V̂ + ε)."""
    assert o.epsilon is not None
    return [optax.scale_by_adam(o.beta1, o.beta2, getattr(o.epsilon, label))]


def _lion(o: Optimizer, label: str) -> list[optax.GradientTransformation]:
    """sign(β1 M + (1 − β1) ∇), then M ← β2 M + (1 − β2) ∇."""
    return [optax.scale_by_lion(o.beta1, o.beta2)]


def _sign(o: Optimizer, label: str) -> list[optax.GradientTransformation]:
    """sign(M)."""
    return [*_momentum(o, label), optax.scale_by_sign()]


def _muon(o: Optimizer, label: str) -> list[optax.GradientTransformation]:
    """UVᵀ of the momentum M = UΣVᵀ, nearly."""
    return [
        *_momentum(o, label),
        optax.stateless(lambda update, _: jax.tree.map(orthogonalised, update)),
    ]


#: Name → the steps from the gradient of a parameter to its update, before the decay and the learning rate.
_UPDATES: Mapping[str, Callable[[Optimizer, str], list[optax.GradientTransformation]]] = {
    "sgd": _momentum,
    "adam": _adam,
    "adamw": _adam,
    "lion": _lion,
    "sign": _sign,
    "muon": _muon,
}


def orthogonalised(M: Float[Array, "K N"]) -> Float[Array, "K N"]:
    """Return M with all singular values near 1, by five steps of Newton–Schulz.

    ``X ← aX + b(XXᵀ)X + c(XXᵀ)²X`` with X = M/‖M‖ at first: each singular value x goes to
    ``ax + bx³ + cx⁵``. The coefficients are those of Muon's authors and of Optax. They lift small values
    quickly and then leave them between 0.7 and 1.2 (`docs/numerics.md` says how small they may be).
    """
    a, b, c = NEWTON_SCHULZ
    tall = M.shape[0] > M.shape[1]
    X = (M.T if tall else M) / (jnp.linalg.norm(M) + 1e-30)
    for _ in range(NEWTON_SCHULZ_STEPS):
        A = X @ X.T
        X = a * X + (b * A + c * (A @ A)) @ X
    orthogonal: Array = X.T if tall else X
    return orthogonal


# --- by name ---------------------------------------------------------------------------------------


def make(kind: str, scales: Scales, *, schedule: StepSchedule | None = None, **values: Any) -> Optimizer:
    """Return an optimizer by its name.

    Parameters
    ----------
    kind
        A name of `denseam.rules.optimizers.OPTIMIZERS`.
    scales
        The learning rates, made for this optimizer or one whose updates are normalised alike.
    schedule
        A factor on all learning rates: a `Timetable`, or a function of the step.
    values
        Its hyperparameters, and `nesterov`; by default those of its row. Those that it lacks are refused.
    """
    if kind not in OPTIMIZERS:
        raise InputError(f"optimizer must be {listed(OPTIMIZERS)}, got {kind!r}")
    _made_for(scales, kind)
    rule = OPTIMIZERS[kind]
    nesterov = values.pop("nesterov", rule.nesterov)
    refuse(
        f"{name} belongs to the optimizer {listed(having(name))}, got {kind!r}"
        for name in values
        if name not in rule.defaults
    )
    given: dict[str, Any] = {**rule.defaults, **values}
    numbers = {name: value for name, value in given.items() if value is not None}
    given |= {name: scales.average(name, numbers[name]) for name in AVERAGES if name in numbers}
    shares = {name: numbers[name] for name in ("momentum", "beta1", "beta2") if name in numbers}
    sizes = {name: numbers[name] for name in ("epsilon", "decay") if name in numbers}
    refuse([*below_one(**shares), *at_least_zero(**sizes)])
    if "epsilon" in given:
        factors = (scales.epsilon_W, scales.epsilon_b, scales.epsilon_c)
        given["epsilon"] = Parameters(*(given["epsilon"] * factor for factor in factors))
    if given.get("decay") is not None:
        given["decay"] = given["decay"] * scales.decay_W
    return Optimizer(kind, _rates(scales), **given, nesterov=bool(nesterov), **_scheduled(schedule))


def _scheduled(schedule: StepSchedule | None) -> dict[str, Any]:
    """Return the fields of an optimizer that hold a schedule.

    The factors of a timetable are data: trainings of one length with different schedules share a program.
    """
    if isinstance(schedule, Timetable):
        return {"factors": np.asarray(schedule.factors())}
    if schedule is not None and not callable(schedule):
        raise InputError(
            f"schedule must be a Timetable, which knows the steps, or a function of them, got {schedule!r}"
        )
    return {"schedule": schedule}


def sgd(
    scales: Scales,
    *,
    momentum: float | None = None,
    nesterov: bool = False,
    decay: float | None = None,
    schedule: StepSchedule | None = None,
) -> Optimizer:
    """Return SGD, ``Δθ = −η_θ ∇_θ L``.

    With momentum, ``M ← μM + ∇`` takes the place of the gradient, or with `nesterov` ``μM + ∇``. With decay,
    ``−η_W λ_W W`` is added to ΔW.
    """
    values = {"momentum": momentum, "nesterov": nesterov, "decay": decay}
    return make("sgd", scales, **values, schedule=schedule)


def adam(
    scales: Scales,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    schedule: StepSchedule | None = None,
) -> Optimizer:
    """Return Adam, ``Δθ = −η_θ M̂/(√V̂ + ε_θ)`` (eq. adam-update)."""
    return make("adam", scales, beta1=beta1, beta2=beta2, epsilon=epsilon, schedule=schedule)


def adamw(
    scales: Scales,
    *,
    decay: float = 1e-4,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    schedule: StepSchedule | None = None,
) -> Optimizer:
    """Return AdamW, ``ΔW = −η_W (M̂/(√V̂ + ε_W) + λ_W W)``; the biases are not decayed."""
    values = {"decay": decay, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}
    return make("adamw", scales, **values, schedule=schedule)


def lion(
    scales: Scales,
    *,
    beta1: float = 0.9,
    beta2: float = 0.99,
    decay: float | None = None,
    schedule: StepSchedule | None = None,
) -> Optimizer:
    """Return Lion, ``Δθ = −η_θ sign(β1 M + (1 − β1)∇)``, then ``M ← β2 M + (1 − β2)∇``."""
    return make("lion", scales, beta1=beta1, beta2=beta2, decay=decay, schedule=schedule)


def sign(
    scales: Scales,
    *,
    momentum: float | None = 0.9,
    nesterov: bool = False,
    decay: float | None = None,
    schedule: StepSchedule | None = None,
) -> Optimizer:
    """Return the descent by signs, ``Δθ = −η_θ sign(M)`` with ``M ← μM + ∇``."""
    values = {"momentum": momentum, "nesterov": nesterov, "decay": decay}
    return make("sign", scales, **values, schedule=schedule)


def muon(
    scales: Scales,
    *,
    momentum: float | None = 0.95,
    nesterov: bool = True,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    decay: float | None = None,
    schedule: StepSchedule | None = None,
) -> Optimizer:
    """Return Muon, ``ΔW = −η_W UVᵀ`` of the momentum ``UΣVᵀ`` (`orthogonalised`); the biases are by Adam.

    It has no factor of its own: that is in ``η_W = η0 max(K, N)^1/2``.
    """
    values = {"momentum": momentum, "nesterov": nesterov, "decay": decay}
    moments = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}
    return make("muon", scales, **values, **moments, schedule=schedule)


def scaled(
    inner: optax.GradientTransformation | optax.MultiSteps,
    scales: Scales,
    *,
    decay: float | None = None,
    schedule: StepSchedule | None = None,
) -> Optimizer:
    """Return any Optax optimizer with the learning rates of `scales`.

    `inner` is an ordinary optimizer made with learning rate 1, such as ``optax.rmsprop(1.0)``; its
    updates are multiplied by η_W, η_b, η_c. Use SGD's scales if its step is proportional to the
    gradient, Adam's if it normalises each entry, and Muon's if it makes the update of W orthogonal. An
    `inner` that does otherwise is refused, if a trial shows it. It may warm up from zero, or accumulate
    gradients (`optax.MultiSteps`).

    `decay` adds ``−η_W λ_W W`` to the update of W, with ``λ_W = λ0 · decay_W``. An `inner` with a decay of
    its own is refused: it would not be scaled, or would be normalised with the gradient.
    """
    refuse([*typed(Scales, "Scales, from a rule at a shape", scales=scales)])
    inner = checked(inner, scales, decay=decay is not None, schedule=schedule is not None)
    if decay is not None:
        refuse(at_least_zero(decay=decay))
        decay = decay * scales.decay_W
    return Optimizer("scaled", _rates(scales), decay=decay, inner=inner, **_scheduled(schedule))


# --- what is really applied --------------------------------------------------------------------------

_ONES: Any = Parameters(1.0, 1.0, 1.0)  # type: ignore[arg-type]


def effective_learning_rates(optimizer: Optimizer, step: int = 0) -> dict[str, float]:
    """Measure the learning rates that are actually applied in a step.

    The optimizer is run on a constant gradient beside a copy of itself with rates 1 and no schedule;
    the ratio of their updates is the effect of the learning rates, the schedule and the wrapping.
    """
    _measurable(optimizer, step)
    bare = dataclasses.replace(optimizer, rates=_ONES, factors=None, schedule=None)
    applied, plain = (_update_at(o, step, gradient=1.0) for o in (optimizer, bare))
    if not all(bool(jnp.all(update != 0)) for update in plain):
        raise InputError(
            f"step must be one in which the optimizer moves: it rests in step {step}, since it warms up from "
            "zero or accumulates gradients"
        )
    return {name: float(jnp.squeeze(getattr(applied, name) / getattr(plain, name))) for name in LABELS}


def effective_decays(optimizer: Optimizer, step: int = 0) -> dict[str, float]:
    """Measure the share by which decay shrinks each parameter in a step: η_W λ_W for W.

    The optimizer is run on parameters equal to one, with zero gradients, so that only decay changes them. The
    inverse of the share at the peak rate is the decay time, in steps.
    """
    _measurable(optimizer, step)
    updates = _update_at(optimizer, step, gradient=0.0)
    return {name: 0.0 - float(jnp.squeeze(getattr(updates, name))) for name in LABELS}


def _measurable(optimizer: Optimizer, step: int) -> None:
    refuse(typed(Optimizer, "an Optimizer, such as sgd(scales)", optimizer=optimizer))
    refuse(whole(0, step=step))


@jax.jit
def _update_at(optimizer: Optimizer, step: ArrayLike, gradient: ArrayLike) -> Parameters:
    """Return the update of a step, with parameters of one and a gradient that stays the same."""
    parameters = Parameters(jnp.ones((1, 1)), jnp.ones(1), jnp.ones(1))
    constant = jax.tree.map(lambda p: gradient * p, parameters)

    def advance(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        return optimizer.update(constant, carry[1], parameters)

    first = optimizer.update(constant, optimizer.init(parameters), parameters)
    updates: Parameters = jax.lax.fori_loop(0, step, advance, first)[0]
    return updates


def _rates(scales: Scales) -> Parameters:
    refuse(typed(Scales, "Scales, from a rule at a shape", scales=scales))
    return Parameters(scales.eta_W, scales.eta_b, scales.eta_c)  # type: ignore[arg-type]


def _made_for(scales: Scales, kind: str) -> None:
    refuse(typed(Scales, "Scales, from a rule at a shape", scales=scales))
    if OPTIMIZERS[scales.optimizer].normalisation is not OPTIMIZERS[kind].normalisation:
        raise InputError(
            f"scales were made for {scales.optimizer!r}, not for {kind!r}: their learning rates follow "
            "another rule"
        )
