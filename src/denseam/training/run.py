"""Training one model: steps on consecutive batches, an epoch, a run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Float

from denseam.errors import refuse
from denseam.model.dense_am import DenseAM, Parameters
from denseam.training.batches import Batches, draw_batches, noisy_batch
from denseam.training.divergence import Status, ending, infinite_once_blown
from denseam.training.gradient import Columns, Joined, loss, loss_of_columns, mse, step, step_on_columns
from denseam.training.optimizers import Optimizer
from denseam.training.probes import measure
from denseam.training.progress import Progress, calling


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

    def advance_by_one(carry: tuple[Parameters, Any], now: tuple[Columns, Array | None]) -> Any:
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

    carry = parameters, state
    (parameters, state), (errors, measured) = jax.lax.scan(advance_by_one, carry, (segment, due))
    return parameters, state, errors, measured


def evaluate(model: DenseAM, segment: Columns) -> Array:
    """Return the MSE on every batch, without training."""
    errors: Array = jax.lax.map(lambda batch: mse(loss_of_columns(model, batch), model.N), segment)
    return errors


def train_epoch(
    model: DenseAM,
    optimizer: Optimizer,
    state: optax.OptState,
    data: Float[Array, "P N"],
    batches: Batches,
    noise: ArrayLike,
) -> tuple[DenseAM, optax.OptState, Float[Array, " steps"]]:
    """Take one step on each batch of an epoch; return the MSE of every step."""

    def train_on(carry: tuple[Parameters, Any], batch: Batches) -> tuple[tuple[Parameters, Any], Array]:
        parameters, state = carry
        X, Y = noisy_batch(data, batch.samples, batch.noise, noise)
        new, state, error = step(model.with_parameters(parameters), optimizer, state, X, Y)
        return (new.parameters, state), error

    (parameters, state), errors = jax.lax.scan(train_on, (model.parameters, state), batches)
    return model.with_parameters(parameters), state, errors


def evaluate_epoch(
    model: DenseAM, data: Float[Array, "P N"], batches: Batches, noise: ArrayLike
) -> Float[Array, " steps"]:
    """Return the MSE on each batch of an epoch, without training."""

    def error(batch: Batches) -> Any:
        return mse(loss(model, *noisy_batch(data, batch.samples, batch.noise, noise)), model.N)

    errors: Array = jax.lax.map(error, batches)
    return errors


@dataclasses.dataclass(frozen=True)
class Run:
    """The result of one training run.

    Attributes
    ----------
    model
        The trained model.
    mse
        MSE before every step, epochs × steps; infinite from where it diverged.
    initial_mse
        MSE of the untrained model on the batches and noise of the last epoch, so that it and `final_mse`
        differ by the training alone.
    status
        'finished', or 'diverged': the loss became non-finite, or ended above where it began
        (`denseam.training.divergence`).
    diverged_at
        The step at which it diverged, counted from 0; None if it finished.
    optimizer_state
        The optimizer's state after the last step.
    """

    model: DenseAM
    mse: Float[np.ndarray, "epochs steps"]
    initial_mse: float
    status: Status
    diverged_at: int | None
    optimizer_state: optax.OptState

    @property
    def final_mse(self) -> float:
        """Mean MSE over the last epoch; infinite if the run diverged to non-finite values."""
        return float(np.mean(self.mse[-1]))

    @property
    def epochs(self) -> int:
        """The number of epochs requested."""
        return len(self.mse)


def train(
    model: DenseAM,
    data: ArrayLike,
    *,
    optimizer: Optimizer,
    epochs: int,
    noise: float = 0.5,
    batch: int | None = None,
    seed: int = 0,
    progress: Progress | Callable[[int, float], None] | None = None,
) -> Run:
    """Train a model to denoise: minimise ‖f(y + ε) − y‖² over samples y and noise ε.

    Parameters
    ----------
    model
        From `DenseAM.create`.
    data
        Samples × features.
    optimizer
        From `sgd`, `adam`, `adamw` or `scaled`.
    epochs
        Passes over the data, each with a fresh permutation and fresh noise.
    noise
        Standard deviation σ_ε of the noise.
    batch
        Samples in a batch; by default the B of the model's scales.
    seed
        Determines batches and noise; all learning rates of one seed see the same ones.
    progress
        Receives events; a function is called after every epoch with its number, from 1, and its mean MSE.
    """
    if not isinstance(progress, Progress):
        progress = Progress() if progress is None else calling(epoch_ended=progress)
    array, B = _checked(model, data, optimizer, epochs, noise, batch)
    P = array.shape[0]
    # Scales are static: without them, one compiled program serves all learning rates of a shape.
    bare = dataclasses.replace(model, scales=None)

    initial_mse = float(np.mean(_evaluate(bare, array, draw_batches(seed, epochs - 1, P, B), noise)))
    state = optimizer.init(bare.parameters)
    curve = np.full((epochs, P // B), np.inf)
    progress.training_begins(f"memory with N = {model.N}, K = {model.K}", curve.size, epochs)
    try:
        for epoch in range(epochs):
            batches = draw_batches(seed, epoch, P, B)
            bare, state, errors = _train(bare, optimizer, state, array, batches, noise)
            curve[epoch] = infinite_once_blown(np.asarray(errors))
            mean = float(np.mean(curve[epoch]))
            progress.training_advanced((epoch + 1) * curve.shape[1], mean)
            progress.epoch_ended(epoch + 1, mean)
            if np.isinf(curve[epoch, -1]):
                break
    finally:
        progress.training_ends()
    end = ending(curve, initial_mse)
    return Run(
        model=dataclasses.replace(bare, scales=model.scales),
        mse=end.curve,
        initial_mse=initial_mse,
        status=end.status,
        diverged_at=end.diverged_at,
        optimizer_state=state,
    )


_train = jax.jit(train_epoch)
_evaluate = jax.jit(evaluate_epoch)


def _checked(
    model: DenseAM, data: ArrayLike, optimizer: Optimizer, epochs: int, noise: float, batch: int | None
) -> tuple[Float[Array, "P N"], int]:
    """Return the data in the model's precision and the batch size, or report all problems."""
    problems = []
    array = np.asarray(data)
    if array.ndim != 2 or array.shape[1] != model.N or not np.issubdtype(array.dtype, np.number):
        problems.append(
            f"data must be numbers of shape samples × {model.N} features, got {array.dtype} of {array.shape}"
        )
    elif not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        problems.append(f"data must be finite, got {array[row, column]} at sample {row}, feature {column}")
    if not isinstance(optimizer, Optimizer):
        problems.append(
            f"optimizer must come from sgd, adam, adamw or scaled, got {type(optimizer).__name__}"
        )
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
        problems.append(f"epochs must be a whole number of at least 1, got {epochs!r}")
    if not 0 <= noise < math.inf:
        problems.append(f"noise must be at least 0 and finite, got {noise!r}")
    B = batch if batch is not None else (model.scales.shape.B if model.scales else None)
    if B is None:
        problems.append("batch (B) must be given: the model's scales have none")
    elif not isinstance(B, int) or B < 1 or (array.ndim == 2 and array.shape[0] < B):
        problems.append(f"batch (B) must be from 1 to the samples in the data, {array.shape[0]}, got {B!r}")
    refuse(problems)
    assert B is not None
    return jnp.asarray(array, model.W.dtype), B
