"""Training through several steps of recall: the loss of the last state, and its gradient written out.

A model with T steps of size d takes a state through

    x_{t+1} = x_t + d (f(x_t) − x_t),  t = 0 … T − 1,

and is trained on L = ‖x_T − Y‖² / (2B). The adjoint λ_t = B ∂L/∂x_t starts as λ_T = x_T − Y and runs back
through the same products as in one step (`denseam.training.gradient`), with μ_t instead of R:

    μ_t = d λ_{t+1},  A_t = C J_t C (W μ_tᵀ),  λ_t = (1 − d) λ_{t+1} + s1 s2 g′(x_t) [n ⊙ (A_tᵀ W)],

    ∇_W L = (s2/B) Σ_t [ S_t μ_t + s1 A_t G_t ],  ∇_b L = (s2 s_b/B) Σ_t A_t 1,  ∇_c L = (s_c/B) Σ_t μ_tᵀ 1.

g′ is the Jacobian of g, a diagonal matrix if G is a sum over features. A_tᵀW is a sixth product, which t = 0
does not need: T steps take (12T − 2)·K·N·B operations.

A *known* feature keeps its value in every step. It is no output of f then, so its adjoint is 0; the loss is
that of the hidden features, times N over their mean number, so that it is per hidden feature what it is per
feature without a mask. With a weight ω on the steps before the last, L has the term
(ω/T) Σ_{0<t<T} ‖x_t − Y‖² / (2B) more, and λ_t the term (ω/T)(x_t − Y).

With a *burn-in*, x_0 is not the noisy sample but the state that the model itself reaches from it, in a number
of the same steps that is drawn for each sample. It is a constant for the gradient.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from denseam.model.dense_am import DenseAM, Parameters, for_each
from denseam.training.matrices import (
    PLAIN,
    Starts,
    Ways,
    backward,
    centred,
    hidden,
    hidden_functions,
    outer_and_inner,
    outward,
    readout,
)

#: Up to this many steps are written out where that is asked for. On a GPU it saves a sixth of the time at
#: N = 1024, T = 8.
WRITTEN_OUT = 16


class Sums(NamedTuple):
    """What the backward pass accumulates: S μ + s1 A G, A1 and μᵀ1."""

    W: Float[Array, "K N"]
    b: Float[Array, " K"]
    c: Float[Array, " N"]


def loss(model: DenseAM, batch: Starts) -> Float[Array, ""]:
    """Return L."""
    batch = burnt_in(model, batch)
    _, states = _forward(model, batch, keep=False)
    return _loss(model, batch, states)


def gradient(model: DenseAM, batch: Starts, ways: Ways = PLAIN) -> tuple[Float[Array, ""], Parameters]:
    """Return L and its gradient."""
    batch = burnt_in(model, batch)
    assert model.steps is not None
    ways = ways._replace(written_out=ways.written_out and model.steps.T <= WRITTEN_OUT)
    kept, states = _forward(model, batch, keep=not ways.recompute, unroll=ways.written_out)
    sums, B = _back(model, batch, kept, states, ways), len(batch.Y)
    return _loss(model, batch, states), Parameters(
        W=model.s2 / B * sums.W,
        b=model.s2 * model.s_b / B * sums.b,
        c=model.s_c / B * sums.c,
    )


def passed(model: DenseAM, batch: Starts) -> tuple[Float[Array, "T K B"], Float[Array, "T B N"]]:
    """Return Z_0 … Z_{T−1} and x_1 … x_T; a burn-in has to be taken before."""
    Z, states = _forward(model, batch, keep=True)
    assert Z is not None
    return Z, states


def _forward(
    model: DenseAM, batch: Starts, *, keep: bool, unroll: bool = False
) -> tuple[Array | None, Float[Array, "T B N"]]:
    """Return Z_0 … Z_{T−1} if they are to be kept, and x_1 … x_T."""
    assert model.steps is not None

    def step(X: Array, _: None) -> tuple[Array, tuple[Array | None, Array]]:
        Z, new = _step(model, X, batch.known)
        return new, (Z.astype(model.W.dtype) if keep else None, new)

    _, (Z, X) = jax.lax.scan(step, batch.X, None, length=model.steps.T, unroll=unroll)
    return Z, X


def _step(model: DenseAM, X: Float[Array, "B N"], known: Array | None) -> tuple[Array, Array]:
    """Return Z of a state, and the state after it."""
    assert model.steps is not None
    d, activation = model.steps.size, hidden_functions(model).activation
    Z = hidden(model, _drive(model, X))
    # For d = 1 this is f(x) itself, to the last bit.
    moved = (1 - d) * X + d * readout(model, centred(model, activation(Z)))
    return Z, moved if known is None else jnp.where(known, X, moved)


def burnt_in(model: DenseAM, batch: Starts) -> Starts:
    """Return a batch that starts where the burn-in ends: after each sample's own number of steps."""
    assert model.steps is not None
    if batch.delay is None or model.steps.burn_in is None:
        return batch
    fixed = jax.lax.stop_gradient(model)
    steps = jnp.floor(batch.delay * (model.steps.burn_in + 1))

    def step(t: Array, X: Array) -> Array:
        return jnp.where(t < steps, _step(fixed, X, batch.known)[1], X)

    return batch._replace(X=jax.lax.fori_loop(0, jnp.max(steps).astype(int), step, batch.X), delay=None)


def _loss(model: DenseAM, batch: Starts, states: Float[Array, "T B N"]) -> Float[Array, ""]:
    assert model.steps is not None
    squares = jnp.sum(residual(batch, states[-1]) * (states[-1] - batch.Y))
    if model.steps.early is not None:
        earlier = jnp.sum(residual(batch, states[:-1]) * (states[:-1] - batch.Y[None]))
        squares += model.steps.early / model.steps.T * earlier
    return squares / (2 * len(batch.Y))


def _back(model: DenseAM, batch: Starts, kept: Array | None, states: Array, ways: Ways) -> Sums:
    """Take the adjoint back from the last state to the first, and sum up the gradient."""
    assert model.steps is not None
    d, early, T = model.steps.size, model.steps.early, model.steps.T
    activation = hidden_functions(model).activation

    def through(mu: Array, X: Array, Z: Array | None) -> tuple[Array, Array, Array]:
        """Return S, A and G of a step."""
        G = _drive(model, X)
        Z = hidden(model, G) if Z is None else Z.astype(model.b.dtype)
        return centred(model, activation(Z)), backward(model, Z, mu), G

    def step(carry: tuple[Array, Sums | None], at: tuple[Array, Array | None]) -> tuple[Any, Any]:
        (adjoint, sums), (X, Z) = carry, at
        mu = d * adjoint
        S, A, G = through(mu, X, Z)
        before = (1 - d) * adjoint + model.s1 * model.s2 * _through_features(model, X, outward(model, A))
        if early is not None:
            before += early / T * residual(batch, X)
        if batch.known is not None:
            before = jnp.where(batch.known, 0, before)
        if sums is None:
            return (before, None), (S, mu, A, G)
        return (before, _added(sums, model, S, mu, A, G)), None

    # x_1 … x_{T−1} with their pre-activations, the last one first; x_0 needs no sixth product.
    later = (states[:-1], None if kept is None else kept[1:])
    adjoint = residual(batch, states[-1])
    none = Sums(*(jnp.zeros(p.shape, model.b.dtype) for p in model.parameters))
    start = None if ways.stacked else none
    back = jax.lax.scan(step, (adjoint, start), later, reverse=True, unroll=ways.written_out)
    (adjoint, sums), parts = back
    mu = d * adjoint
    S, A, G = through(mu, batch.X, None if kept is None else kept[0])
    if sums is not None:
        return _added(sums, model, S, mu, A, G)
    # All steps at once, so that devices sum their gradients once.
    S, mu, A, G = (jnp.concatenate([V[None], Vs]) for V, Vs in zip((S, mu, A, G), parts, strict=True))
    W = outer_and_inner(model, S, mu, A, G, stacked=True)
    return Sums(W, jnp.sum(A, axis=(0, 2), dtype=model.b.dtype), jnp.sum(mu, axis=(0, 1)))


def _added(sums: Sums, model: DenseAM, S: Array, mu: Array, A: Array, G: Array) -> Sums:
    return Sums(
        W=sums.W + outer_and_inner(model, S, mu, A, G, stacked=False),
        b=sums.b + jnp.sum(A, axis=1, dtype=sums.b.dtype),
        c=sums.c + jnp.sum(mu, axis=0),
    )


def residual(batch: Starts, X: Float[Array, "*steps B N"]) -> Float[Array, "*steps B N"]:
    """Return X − Y, with a mask only where features are hidden, times N over their mean number."""
    R = X - for_each(batch.Y, X)
    if batch.known is None:
        return R
    share = jnp.mean(~batch.known, dtype=R.dtype)
    return jnp.where(for_each(batch.known, R), 0, R / share)


def _drive(model: DenseAM, X: Float[Array, "B N"]) -> Float[Array, "B N"]:
    """Return n ⊙ g(x) of every row."""
    G = model.features.activation(X)
    return G if model.counts is None else model.counts[None] * G


def _through_features(model: DenseAM, X: Float[Array, "B N"], V: Float[Array, "B N"]) -> Float[Array, "B N"]:
    """Return g′(x) (n ⊙ v) of every row; the Jacobian g′ is symmetric."""
    V = V if model.counts is None else model.counts[None] * V
    return model.features.jacobian_product(X, V)
