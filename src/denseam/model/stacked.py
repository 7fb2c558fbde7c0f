"""Two stacked memories, x – h¹ – h², with one energy.

========  ==================================================================================
x         state of the N feature neurons, g = g(x), G with ∂G = g
h¹, h²    states of the K₁ and K₂ hidden neurons, σ¹ and σ², Φ¹ and Φ² with ∂Φ = σ
W¹, W²    K₁ × N and K₂ × K₁, both centred: W̃¹ = C¹W¹, W̃² = C²W²C¹, b̃¹ = C¹b¹, b̃² = C²b²
u₁, u₂    multipliers on the way up, x → h¹ → h²
d₁, d₂    multipliers on the way down, h² → h¹ → x
========  ==================================================================================

``E(x, h¹, h²) = [g·(x − c) − G]/d₁ + [(h¹ − b̃¹)·σ¹ − Φ¹]/u₁ + (d₂/u₁u₂)[(h² − b̃²)·σ² − Φ²]
− σ¹ᵀW̃¹g − (d₂/u₁) σ²ᵀW̃²σ¹``

Each layer rests where its input is, given the others:

``x = d₁W̃¹ᵀσ¹ + c``,  ``h¹ = u₁W̃¹g + d₂W̃²ᵀσ² + b̃¹``,  ``h² = u₂W̃²σ¹ + b̃²``.

**Descent.** As a function of one layer alone the energy is, up to a factor and a constant,
``(h − z)·σ(h) − Φ(h)`` with z its input. By convexity this is at least −Φ(z), its value at h = z, and along
h + δ(z − h) it falls with the slope −(1 − δ)(z − h)ᵀJ(z − h). So moving any layer towards its input by a
share δ of at most 1 never raises the energy, in any order, for any weights and any convex Lagrangians. x and
h² do not act on each other: given h¹ they move at once.

**Bounds.** The energy has a lower bound if the features are bounded, as tanh is, and one of the hidden layers
is too; or if the top is weak: without h² the energy of h¹ is at least ``|σ¹|²/2L₁u₁ − u₂d₂L₂|W̃²σ¹|²/2u₁``, up
to terms that grow more slowly, where L are the largest slopes of σ. So ``u₂d₂L₁L₂‖W̃²‖² < 1`` suffices.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from denseam.ground.errors import InputError, UnboundedEnergyWarning, refuse, together, typed, whole
from denseam.model.dense_am import array_of, for_each
from denseam.model.lagrangians import Elementwise, Lagrangian, Tanh
from denseam.model.normals import normal
from denseam.model.shared import recall_problems, what
from denseam.model.streams import stream
from denseam.rules import Shape
from denseam.rules.optimizers import OPTIMIZERS
from denseam.rules.table import MULTIPLIERS, RATES, SUMS_TO_ONE


class StackedParameters(NamedTuple):
    """The trained parameters of a stacked memory, or a learning rate for each."""

    W1: Any
    W2: Any
    b1: Any
    b2: Any
    c: Any


class StackedState(NamedTuple):
    """The states of all layers."""

    x: Float[Array, "*samples N"]
    h1: Float[Array, "*samples K1"]
    h2: Float[Array, "*samples K2"]


class StackedRecall(NamedTuple):
    """The last state of a recall, and the energy before the first step and after every step."""

    state: StackedState
    energies: Float[Array, "*samples steps"]


class StackedAM(eqx.Module):
    """A memory whose hidden neurons are the features of a second memory.

    Parameters
    ----------
    W1, W2, b1, b2, c
        Weights and biases.
    multipliers
        u₁, d₁, u₂, d₂. With d₂ = 0 the second layer does not act on the first, and x and h¹
        are a `DenseAM` with s1 = u₁ and s2 = d₁.
    first, second
        The Lagrangians of the two hidden layers.
    features
        The Lagrangian of the features; tanh by default.
    centred
        Whether both hidden layers are centred.
    sweeps
        The number of times that `update` goes up to h² and back to h¹.
    """

    W1: Float[Array, "K1 N"]
    W2: Float[Array, "K2 K1"]
    b1: Float[Array, " K1"]
    b2: Float[Array, " K2"]
    c: Float[Array, " N"]
    up1: Float[Array, ""]
    down1: Float[Array, ""]
    up2: Float[Array, ""]
    down2: Float[Array, ""]
    first: Lagrangian
    second: Lagrangian
    features: Elementwise
    centred: bool = eqx.field(static=True)
    sweeps: int = eqx.field(static=True)

    def __init__(
        self,
        W1: ArrayLike,
        W2: ArrayLike,
        b1: ArrayLike,
        b2: ArrayLike,
        c: ArrayLike,
        multipliers: Sequence[ArrayLike],
        first: Lagrangian,
        second: Lagrangian | None = None,
        *,
        features: Elementwise | None = None,
        centred: bool = True,
        sweeps: int = 1,
    ) -> None:
        second = first if second is None else second
        problems = [*typed(Lagrangian, "a Lagrangian, such as relu()", first=first, second=second)]
        if features is not None:
            problems += typed(
                Elementwise, "a Lagrangian of single neurons, such as tanh()", features=features
            )
        refuse([*problems, *whole(sweeps=sweeps)])
        given = {"W1": W1, "W2": W2, "b1": b1, "b2": b2, "c": c, "multipliers": multipliers}
        arrays: list[Array] = together(
            *(functools.partial(array_of, name, value) for name, value in given.items())
        )
        refuse(_shape_problems(*arrays))
        self.W1, self.W2, self.b1, self.b2, self.c, factors = arrays
        self.up1, self.down1, self.up2, self.down2 = factors.astype(self.W1.dtype)
        self.first, self.second = first, second
        self.features = Tanh() if features is None else features
        self.centred, self.sweeps = bool(centred), sweeps

    @classmethod
    def create(
        cls,
        sizes: tuple[int, int, int],
        first: Lagrangian,
        second: Lagrangian | None = None,
        *,
        seed: int = 0,
        constants: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
        dtype: Any = jnp.float32,
        **options: Any,
    ) -> StackedAM:
        """Return an untrained model with `scales`: entries of W ~ N(0, 1), biases zero.

        Parameters
        ----------
        sizes
            N, K₁ and K₂.
        first, second
            The Lagrangians of the hidden layers; the same by default.
        seed
            The integer that all random numbers come from.
        constants
            Factors on u₁, d₁, u₂, d₂.
        dtype, options
            float32 or float64; and `features`, `centred`, `sweeps` as in the class.
        """
        N, K1, K2 = sizes
        top = first if second is None else second
        powers = scales(sizes, first, top)
        multipliers = [power * constant for power, constant in zip(powers, constants, strict=True)]
        _warn_if_unbounded(first, top, multipliers, (K1, K2))
        return cls(
            normal(stream(seed, "W"), (K1, N), dtype), normal(stream(seed, "W2"), (K2, K1), dtype),
            jnp.zeros(K1, dtype), jnp.zeros(K2, dtype), jnp.zeros(N, dtype),
            multipliers, first, second, **options,
        )  # fmt: skip

    @property
    def parameters(self) -> StackedParameters:
        """The trained parameters."""
        return StackedParameters(self.W1, self.W2, self.b1, self.b2, self.c)

    def with_parameters(self, parameters: StackedParameters) -> StackedAM:
        """Return this model with other parameters."""
        model: StackedAM = eqx.tree_at(lambda m: (m.W1, m.W2, m.b1, m.b2, m.c), self, tuple(parameters))
        return model

    # --- the inputs of the layers ------------------------------------------------------------------

    def centre(self, v: Float[Array, "*samples K"]) -> Float[Array, "*samples K"]:
        """Return Cv = v − mean(v); v itself if the model is not centred."""
        return v - jnp.mean(v, axis=-1, keepdims=True) if self.centred else v

    def outputs(self, h1: Float[Array, "*samples K1"]) -> Float[Array, "*samples K1"]:
        """Return C¹σ¹, what the first hidden layer sends in both directions."""
        return self.centre(self.first.activation(h1))

    def into_x(self, h1: Float[Array, "*samples K1"]) -> Float[Array, "*samples N"]:
        """Return d₁W̃¹ᵀσ¹ + c."""
        y = self.down1 * (self.outputs(h1) @ self.W1)
        return y + for_each(self.c, y)

    def into_h2(self, h1: Float[Array, "*samples K1"]) -> Float[Array, "*samples K2"]:
        """Return u₂W̃²σ¹ + b̃²."""
        z = self.up2 * (self.outputs(h1) @ self.W2.T)
        return self.centre(z + for_each(self.b2, z))

    def into_h1(
        self, x: Float[Array, "*samples N"], h2: Float[Array, "*samples K2"] | None = None
    ) -> Float[Array, "*samples K1"]:
        """Return u₁W̃¹g + d₂W̃²ᵀσ² + b̃¹; without the second layer if it is not given."""
        z = self.up1 * (self.features.activation(x) @ self.W1.T)
        z += for_each(self.b1, z)
        if h2 is not None:
            z += self.down2 * (self.centre(self.second.activation(h2)) @ self.W2)
        return self.centre(z)

    # --- update, energy, recall --------------------------------------------------------------------

    def settle(self, x: Float[ArrayLike, "*samples N"]) -> StackedState:
        """Return the hidden layers after `sweeps` sweeps with x held, from h¹ as x alone drives it."""
        x = self._samples(x)
        h1 = self.into_h1(x)
        for _ in range(self.sweeps):
            h2 = self.into_h2(h1)
            h1 = self.into_h1(x, h2)
        return StackedState(x, h1, h2)

    def _samples(self, x: Any) -> Array:
        """Return states of the features as floats; refuse what is none."""
        states, N = array_of("x", x), self.W1.shape[1]
        if states.shape[-1:] != (N,):
            raise InputError(f"x must have {N} features along its last axis, got {what(states)}")
        return states if jnp.issubdtype(states.dtype, jnp.floating) else states.astype(self.W1.dtype)

    def hidden(self, x: Float[ArrayLike, "*samples N"]) -> Float[Array, "*samples K1"]:
        """Return h¹ after the sweeps."""
        return self.settle(x).h1

    def update(self, x: Float[ArrayLike, "*samples N"]) -> Float[Array, "*samples N"]:
        """Return f(x) = d₁W̃¹ᵀσ¹ + c after the sweeps."""
        return self.into_x(self.hidden(x))

    __call__ = update

    def energy(self, state: StackedState) -> Float[Array, "*samples"]:
        """Return E(x, h¹, h²)."""
        x, h1, h2 = map(jnp.asarray, state)
        g, S1, S2 = self.features.activation(x), self.first.activation(h1), self.second.activation(h2)
        # What h¹ adds with its couplings to both sides is (h¹ − z¹)·σ¹ − Φ¹, over u₁, with z¹ its input.
        first = jnp.sum((h1 - self.into_h1(x, h2)) * S1, axis=-1) - self.first.value(h1)
        second = jnp.sum((h2 - for_each(self.centre(self.b2), h2)) * S2, axis=-1) - self.second.value(h2)
        own = jnp.sum(g * (x - for_each(self.c, x)) - self.features.potential(x), axis=-1)
        return own / self.down1 + (first + self.down2 / self.up2 * second) / self.up1

    def step(self, state: StackedState, damping: float = 1.0) -> StackedState:
        """Move x and h² towards their inputs, then h¹; the energy never rises for a damping up to 1."""
        x, h1, h2 = state
        x, h2 = x + damping * (self.into_x(h1) - x), h2 + damping * (self.into_h2(h1) - h2)
        return StackedState(x, h1 + damping * (self.into_h1(x, h2) - h1), h2)

    def recall(
        self, x: Float[ArrayLike, "*samples N"], steps: int = 10, damping: float = 1.0
    ) -> StackedRecall:
        """Iterate `step` from x, with the hidden layers where `settle` leaves them."""
        refuse(recall_problems(steps, damping, tolerance=0.0))
        start = self.settle(x)

        def one(state: StackedState, _: None) -> tuple[StackedState, Array]:
            state = self.step(state, damping)
            return state, self.energy(state)

        last, energies = jax.lax.scan(one, start, None, length=steps)
        energies = jnp.concatenate([self.energy(start)[None], energies])
        return StackedRecall(last, jnp.moveaxis(energies, 0, -1))


#: Elementwise activations whose outputs are bounded.
_BOUNDED = ("tanh", "sigmoid")
#: Where the slopes of an activation are looked at.
_FAR = 100.0


def _warn_if_unbounded(
    first: Lagrangian, second: Lagrangian, multipliers: Sequence[float], hidden: tuple[int, int]
) -> None:
    """Warn if nothing bounds the energy of the hidden layers; W² is as large as a random matrix."""
    if any(layer.family in SUMS_TO_ONE or layer.name in _BOUNDED for layer in (first, second)):
        return
    K1, K2 = hidden
    _, _, up2, down2 = multipliers
    gain = up2 * down2 * (K1**0.5 + K2**0.5) ** 2 * _steepest(first) * _steepest(second)
    if gain >= 1:
        warnings.warn(
            f"with {first.name} and {second.name} the energy may have no lower bound and recall may diverge: "
            f"u2 d2 |W2|^2 times the largest slopes is {gain:.2g}, not below 1. Take a bounded activation in "
            "one of the hidden layers, such as tanh, or a smaller constant of d2",
            UnboundedEnergyWarning,
            stacklevel=3,
        )


def _steepest(activation: Lagrangian) -> float:
    """Return the largest slope of σ, up to where a steeper one makes no difference."""
    h = jnp.linspace(-_FAR, _FAR, 2001)
    return float(jnp.max(activation.jacobian_product(h, jnp.ones_like(h))))


def _shape_problems(W1: Array, W2: Array, b1: Array, b2: Array, c: Array, multipliers: Array) -> list[str]:
    if W1.ndim != 2 or W2.ndim != 2:
        return [f"W1 and W2 must be matrices, got the shapes {W1.shape} and {W2.shape}"]
    given = {"W1": W1, "W2": W2, "b1": b1, "b2": b2, "c": c}
    (K1, N), K2 = W1.shape, W2.shape[0]
    expected = {"W2": (K2, K1), "b1": (K1,), "b2": (K2,), "c": (N,)}
    problems = [
        f"{name} must have the shape {shape}, got {given[name].shape}"
        for name, shape in expected.items()
        if given[name].shape != shape
    ]
    problems += [
        f"{name} must be floats, got {what(array)}"
        for name, array in given.items()
        if not jnp.issubdtype(array.dtype, jnp.floating)
    ]
    if multipliers.shape != (4,) or jnp.iscomplexobj(multipliers):
        problems.append(f"multipliers must be four numbers, got {what(multipliers)}")
    return problems


# --- exponents -------------------------------------------------------------------------------------


def scales(
    sizes: tuple[int, int, int], first: Lagrangian, second: Lagrangian
) -> tuple[float, float, float, float]:
    """Return u₁, d₁, u₂, d₂ if all sizes grow in proportion.

    u₁ is s1 of the prescription. What reads a hidden layer, up or down, has the s2 of its family at its size:
    d₁ and u₂ that of the first layer, d₂ that of the second.
    """
    N, K1, K2 = sizes
    up1, read1, _ = MULTIPLIERS["proportional", _family(first)]
    _, read2, _ = MULTIPLIERS["proportional", _family(second)]
    of_first, of_second = (read.at(Shape(N, K)) for read, K in ((read1, K1), (read2, K2)))
    return up1.at(Shape(N, K1)), of_first, of_first, of_second


def _family(activation: Lagrangian) -> str:
    if ("proportional", activation.family) not in MULTIPLIERS:
        raise InputError(f"{activation.name} has no row; give the multipliers themselves")
    return activation.family


def learning_rates(sizes: tuple[int, int, int], optimizer: str, eta0: float) -> StackedParameters:
    """Return the learning rate of each parameter: that of W¹ and W² as prescribed for W at their shapes."""
    N, K1, K2 = sizes
    power = RATES[OPTIMIZERS[optimizer].normalisation]
    of_first, of_second = (eta0 * power.at(Shape(*shape)) for shape in ((N, K1), (K1, K2)))
    return StackedParameters(of_first, of_second, eta0, eta0, eta0)
