"""The loss of a denoiser, its gradient written out, and one step.

Data come as rows. Inside, samples are columns, as in the paper; that is also fastest, since W then stands on
the left of every product:

========  ==================================================================================
X, Y      a noisy batch and its clean version
G         N×B, the columns n ⊙ g(x): what the memories see
Z, S      K×B, pre-activations s1 W̃G + b̃1ᵀ and centred activations Cσ(Z)
F, R      N×B, outputs s2 WᵀS + c1ᵀ and residuals F − Y
========  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from denseam.model.dense_am import DenseAM, Parameters
from denseam.model.lagrangians import Elementwise
from denseam.training.optimizers import Optimizer


def loss(model: DenseAM, X: Float[Array, "B N"], Y: Float[Array, "B N"]) -> Float[Array, ""]:
    """Return L = ‖F − Y‖² / (2B): a sum over features, a mean over the batch (eq. loss)."""
    R = model.update(X) - Y
    return jnp.sum(R * R) / (2 * X.shape[0])


def mse(loss: Any, N: int) -> Any:
    """Return ‖F − Y‖² / (NB), the loss per feature that is reported, from L = ‖F − Y‖² / (2B)."""
    return 2 * loss / N


def gradient(
    model: DenseAM, X: Float[Array, "B N"], Y: Float[Array, "B N"]
) -> tuple[Float[Array, ""], Parameters]:
    """Return L and its gradient, written out (eq. loss-grad, and eq. centered-grad for the centring).

    With J the Jacobian of σ at each sample and ``A = C J C (W R)``, column by column,

    ``∇_W L = (s2/B) [ S Rᵀ + s1 A Gᵀ ]``,  ``∇_b L = (s2 s_b/B) A1``,  ``∇_c L = (s_c/B) R1``.

    W occurs in f twice: the first term comes from its outer place, the second from its inner one.
    """
    return gradient_of_columns(model, Columns(model.drive(X).T, Y.T))


#: How the two products of the gradient are computed: as one, as two, or as one over stacked pairs.
Joined = bool | Literal["stacked"]


class Columns(NamedTuple):
    """A batch as training sees it, samples as columns; shared by all models with the same features."""

    G: Float[Array, "N B"]
    Y: Float[Array, "N B"]


class Passes(NamedTuple):
    """What the passes through the model compute: forward Z, σ(Z), S = Cσ(Z), R; backward A = C J C (W R)."""

    Z: Float[Array, "K B"]
    raw: Float[Array, "K B"]
    S: Float[Array, "K B"]
    R: Float[Array, "N B"]
    A: Float[Array, "K B"]


def loss_of_columns(model: DenseAM, batch: Columns) -> Float[Array, ""]:
    """Return L as `loss` does."""
    _, _, _, R = _forward(model, batch)
    return jnp.sum(R * R) / (2 * R.shape[1])


def gradient_of_columns(
    model: DenseAM, batch: Columns, *, joined: Joined = True
) -> tuple[Float[Array, ""], Parameters]:
    """Return L and its gradient as `gradient` does."""
    passes = forward_and_back(model, batch)
    L = jnp.sum(passes.R * passes.R) / (2 * passes.R.shape[1])
    return L, gradient_of_passes(model, batch, passes, joined=joined)


def forward_and_back(model: DenseAM, batch: Columns) -> Passes:
    """Take a batch forward through the model, and the residuals back."""
    Z, raw, S, R = _forward(model, batch)
    C, _, jacobian_product = column_functions(model)
    return Passes(Z, raw, S, R, A=C(jacobian_product(Z, C(model.W @ R))))


def gradient_of_passes(
    model: DenseAM, batch: Columns, passes: Passes, *, joined: Joined = True
) -> Parameters:
    """Return the gradient from the arrays of both passes.

    S Rᵀ and s1 A Gᵀ have the same shape, so they can be one product of inner dimension 2B. That is faster on
    a CPU; two products (`joined` False) are faster on a GPU. On a mesh that distributes the samples,
    'stacked' pairs are one product too, without moving samples between devices.
    """
    (_, _, S, R, A), G, B = passes, batch.G, batch.G.shape[1]
    if joined == "stacked":
        pairs = jnp.stack([S, A]), jnp.stack([R, model.s1 * G])
        outer_and_inner = jnp.einsum("tkb,tnb->kn", *pairs)
    elif joined:
        outer_and_inner = jnp.concatenate([S, A], axis=1) @ jnp.concatenate([R, model.s1 * G], axis=1).T
    else:
        outer_and_inner = S @ R.T + model.s1 * (A @ G.T)
    return Parameters(
        W=model.s2 / B * outer_and_inner,
        b=model.s2 * model.s_b / B * jnp.sum(A, axis=1),
        c=model.s_c / B * jnp.sum(R, axis=1),
    )


def _forward(model: DenseAM, batch: Columns) -> tuple[Array, Array, Array, Array]:
    """Return Z, σ(Z), S and R of a batch."""
    C, activation, _ = column_functions(model)
    Z = C(model.s1 * (model.W @ batch.G) + (model.s_b * model.b)[:, None])
    raw = activation(Z)
    S = C(raw)
    R = model.s2 * (model.W.T @ S) + (model.s_c * model.c)[:, None] - batch.Y
    return Z, raw, S, R


class ColumnFunctions(NamedTuple):
    """C, σ and (Z, V) ↦ J(Z) V for samples as columns."""

    centre: Callable[[Array], Array]
    activation: Callable[[Array], Array]
    jacobian_product: Callable[[Array, Array], Array]


def column_functions(model: DenseAM) -> ColumnFunctions:
    """Return the functions of a model's hidden neurons, which act along rows, for samples as columns."""

    def centre(V: Array) -> Array:
        return V - jnp.mean(V, axis=0, keepdims=True) if model.centred else V

    def by_column(function: Callable[..., Array]) -> Callable[..., Array]:
        if isinstance(model.activation, Elementwise):
            return function
        return lambda *columns: function(*(V.T for V in columns)).T

    return ColumnFunctions(
        centre, by_column(model.activation.activation), by_column(model.activation.jacobian_product)
    )


def step(
    model: DenseAM,
    optimizer: Optimizer,
    state: optax.OptState,
    X: Float[Array, "B N"],
    Y: Float[Array, "B N"],
) -> tuple[DenseAM, optax.OptState, Float[Array, ""]]:
    """Take one step on one batch; return the model, the optimizer's state, and the MSE before the step."""
    return step_on_columns(model, optimizer, state, Columns(model.drive(X).T, Y.T))


def step_on_columns(
    model: DenseAM, optimizer: Optimizer, state: optax.OptState, batch: Columns, *, joined: Joined = True
) -> tuple[DenseAM, optax.OptState, Float[Array, ""]]:
    """Do what `step` does."""
    L, grads = gradient_of_columns(model, batch, joined=joined)
    updates, state = optimizer.update(grads, state, model.parameters)
    parameters = Parameters(*(p + u for p, u in zip(model.parameters, updates, strict=True)))
    return model.with_parameters(parameters), state, mse(L, model.N)
