"""The loss of a denoiser, its gradient written out, and one step.

The letters and shapes are those of `denseam.training.matrices`. R = F − Y are the residuals. A model with
steps of recall is trained through them (`denseam.training.trajectory`); all others through one update, which
is here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from denseam.model.dense_am import DenseAM, Parameters
from denseam.training import trajectory
from denseam.training.matrices import (
    PLAIN,
    Batch,
    Driven,
    Starts,
    Ways,
    backward,
    batch_of,
    centred,
    hidden,
    hidden_functions,
    outer_and_inner,
    readout,
)
from denseam.training.optimizers import Optimizer
from denseam.training.stored import stored


def loss(
    model: DenseAM,
    X: Float[Array, "B N"],
    Y: Float[Array, "B N"],
    known: Bool[Array, "B N"] | None = None,
) -> Float[Array, ""]:
    """Return L = ‖F − Y‖² / (2B): a sum over features, a mean over the batch (eq. loss).

    If the model takes several steps, the last state stands for F; `known` features keep their value in every
    step, and the loss is that of the others, times N over their mean number.
    """
    return loss_of_batch(model, batch_of(model, X, Y, known))


def mse(loss: Any, N: int) -> Any:
    """Return ‖F − Y‖² / (NB), the loss per feature that is reported, from L = ‖F − Y‖² / (2B)."""
    return 2 * loss / N


def gradient(
    model: DenseAM,
    X: Float[Array, "B N"],
    Y: Float[Array, "B N"],
    known: Bool[Array, "B N"] | None = None,
) -> tuple[Float[Array, ""], Parameters]:
    """Return L and its gradient, written out (eq. loss-grad, and eq. centered-grad for the centring).

    With J the Jacobian of σ at each sample and ``A = C J C (W Rᵀ)``, column by column,

    ``∇_W L = (s2/B) [ S R + s1 A G ]``,  ``∇_b L = (s2 s_b/B) A1``,  ``∇_c L = (s_c/B) Rᵀ1``.

    W occurs in f twice: the first term comes from its outer place, the second from its inner one.
    """
    return gradient_of_batch(model, batch_of(model, X, Y, known))


class Passes(NamedTuple):
    """What the passes through the model compute: forward Z, σ(Z), S = Cσ(Z), R; backward A = C J C (W Rᵀ).

    Z is not centred where σ does not see it.
    """

    Z: Float[Array, "K B"]
    raw: Float[Array, "K B"]
    S: Float[Array, "K B"]
    R: Float[Array, "B N"]
    A: Float[Array, "K B"]


def loss_of_batch(model: DenseAM, batch: Batch) -> Float[Array, ""]:
    """Return L as `loss` does."""
    if isinstance(batch, Starts):
        return trajectory.loss(model, batch)
    _, _, _, R = _forward(model, batch)
    return jnp.sum(R * R) / (2 * len(R))


def gradient_of_batch(
    model: DenseAM, batch: Batch, ways: Ways = PLAIN
) -> tuple[Float[Array, ""], Parameters]:
    """Return L and its gradient as `gradient` does, in one of several ways."""
    if isinstance(batch, Starts):
        return trajectory.gradient(model, batch, ways)
    passes = forward_and_back(model, batch)
    squares = passes.R * passes.R
    if not ways.stacked:  # on a GPU: in the kernel that sums R over samples for the gradient of c
        squares = stored(jnp.sum(squares, axis=0))
    return jnp.sum(squares) / (2 * len(passes.R)), gradient_of_passes(model, batch, passes, ways)


def forward_and_back(model: DenseAM, batch: Driven) -> Passes:
    """Take a batch forward through the model, and the residuals back."""
    Z, raw, S, R = _forward(model, batch)
    return Passes(Z, raw, S, R, A=backward(model, Z, R))


def gradient_of_passes(model: DenseAM, batch: Driven, passes: Passes, ways: Ways = PLAIN) -> Parameters:
    """Return the gradient from the arrays of both passes."""
    (_, _, S, R, A), G, B = passes, batch.G, len(batch.G)
    return Parameters(
        W=model.s2 / B * outer_and_inner(model, S, R, A, G, stacked=ways.stacked),
        b=model.s2 * model.s_b / B * jnp.sum(A, axis=1, dtype=model.b.dtype),
        c=model.s_c / B * jnp.sum(R, axis=0),
    )


def _forward(model: DenseAM, batch: Driven) -> tuple[Array, Array, Array, Array]:
    """Return Z, σ(Z), S and R of a batch."""
    Z = hidden(model, batch.G)
    raw = hidden_functions(model).activation(Z)
    S = centred(model, raw)
    return Z, raw, S, readout(model, S) - batch.Y


def step(
    model: DenseAM,
    optimizer: Optimizer,
    state: optax.OptState,
    X: Float[Array, "B N"],
    Y: Float[Array, "B N"],
    known: Bool[Array, "B N"] | None = None,
) -> tuple[DenseAM, optax.OptState, Float[Array, ""]]:
    """Take one step on one batch; return the model, the optimizer's state, and the MSE before the step."""
    return step_on_batch(model, optimizer, state, batch_of(model, X, Y, known))


def step_on_batch(
    model: DenseAM,
    optimizer: Optimizer,
    state: optax.OptState,
    batch: Batch,
    ways: Ways = PLAIN,
    W: Float[Array, "K N"] | None = None,
) -> tuple[DenseAM, optax.OptState, Float[Array, ""]]:
    """Do what `step` does; `W` are the memories in the type of the products, if that is another."""
    seen = model if W is None else model.with_parameters(model.parameters._replace(W=W))
    L, grads = gradient_of_batch(seen, batch, ways)
    updates, state = optimizer.update(grads, state, model.parameters)
    parameters = Parameters(*(p + u for p, u in zip(model.parameters, updates, strict=True)))
    return model.with_parameters(parameters), state, mse(L, model.N)
