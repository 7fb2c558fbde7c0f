"""A segment of a run: consecutive batches, and the steps that are taken on them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from denseam.model.dense_am import DenseAM, Parameters
from denseam.model.lagrangians import Elementwise
from denseam.training.batches import noise_keys, noisy_batch
from denseam.training.gradient import Columns, Joined, loss_of_columns, mse, step_on_columns
from denseam.training.optimizers import Optimizer
from denseam.training.probes import measure


def draw(
    data: Float[Array, "P N"],
    samples: Array,
    key: Array,
    first: Array,
    noise: Array,
    features: Elementwise,
) -> Columns:
    """Return the steps from `first` on, for the given indices of samples."""
    keys = noise_keys(key, first, samples.shape[0])
    X, Y = jax.vmap(lambda s, k: noisy_batch(data, s, k, noise))(samples, keys)
    return Columns(jnp.swapaxes(features.activation(X), -1, -2), jnp.swapaxes(Y, -1, -2))


def advance(
    parameters: Parameters,
    state: Any,
    frame: DenseAM,
    optimizer: Optimizer,
    segment: Columns,
    due: Array | None = None,
    *,
    joined: Joined,
    probes: tuple[str, ...] = (),
) -> tuple[Parameters, Any, Array, Array | None]:
    """Take a step on every batch; return parameters, state, the MSE before each step, and the probes.

    `frame` is the model without its parameters: what does not change in training. `due` says at which
    steps the probes are measured; at the others their values are NaN, and cost nothing.
    """

    def one(carry: tuple[Parameters, Any], now: tuple[Columns, Array | None]) -> Any:
        (parameters, state), (batch, is_due) = carry, now
        model = frame.with_parameters(parameters)
        new, after, error = step_on_columns(model, optimizer, state, batch, joined=joined)
        measured = None
        if probes:
            measured = jax.lax.cond(
                is_due,
                lambda: measure(model, optimizer, state, batch, probes),
                lambda: jnp.full(len(probes), jnp.nan, model.W.dtype),
            )
        return (new.parameters, after), (error, measured)

    (parameters, state), (errors, measured) = jax.lax.scan(one, (parameters, state), (segment, due))
    return parameters, state, errors, measured


def evaluate(model: DenseAM, segment: Columns) -> Array:
    """Return the MSE of every batch, without training."""

    def one(batch: Columns) -> Array:
        error: Array = mse(loss_of_columns(model, batch), model.N)
        return error

    errors: Array = jax.lax.map(one, segment)
    return errors


@jax.jit
def mean_square(batches: Float[Array, "*groups T N B"]) -> Float[Array, "*groups T"]:
    """Return the MSE of predicting zero for every batch, from its clean samples."""
    return jnp.mean(batches * batches, axis=(-1, -2))
