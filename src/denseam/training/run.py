"""Training one model: steps on consecutive batches, and a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Float

from denseam.data.concerns import concerns_of, warn
from denseam.ground.errors import InputError, at_least_zero, refuse, shown, typed, whole
from denseam.model.dense_am import DenseAM, Parameters
from denseam.training.batches import Batches, draw_batches, mean_square, noisy_batch
from denseam.training.devices import for_products
from denseam.training.divergence import EndStatus, ending, infinite_once_blown
from denseam.training.gradient import loss_of_batch, mse, step_on_batch
from denseam.training.matrices import PLAIN, Batch, Ways, batch_of
from denseam.training.optimizers import Optimizer
from denseam.training.probes import measure
from denseam.training.progress import Progress, calling


def advance(
    parameters: Parameters,
    state: Any,
    frame: DenseAM,
    optimizer: Optimizer,
    segment: Batch,
    due: Array | None = None,
    *,
    ways: Ways = PLAIN,
    probes: tuple[str, ...] = (),
) -> tuple[Parameters, Any, Array, Array | None]:
    """Take a step on every batch; return parameters, state, the MSE before each step, and the probes.

    `frame` is the model without its parameters: what does not change in training. `due` says at which
    steps the probes are measured; at the others their values are NaN, and cost nothing.
    """

    def advance_by_one(carry: tuple[Parameters, Array | None, Any, Array], is_due: Array | None) -> Any:
        parameters, W, state, t = carry
        # By number: what a scan slices itself is copied on a GPU, outside of the graph of the other kernels.
        batch = jax.tree.map(lambda V: V[t], segment)
        model, state = frame.with_parameters(parameters), optimizer.counting_once(state)
        new, after, error = step_on_batch(model, optimizer, state, batch, ways, W)
        measured = None
        if probes:
            measured = jax.lax.cond(
                is_due,
                lambda: measure(model, optimizer, state, batch, probes),
                lambda: jnp.full(len(probes), jnp.nan, model.W.dtype),
            )
        return (new.parameters, for_products(new.W), after, t + 1), (error, measured)

    carry = parameters, for_products(parameters.W), state, jnp.int32(0)
    (parameters, _, state, _), (errors, measured) = jax.lax.scan(
        advance_by_one, carry, due, length=len(segment.Y)
    )
    return parameters, optimizer.counting_once(state), errors, measured


def evaluate(model: DenseAM, segment: Batch) -> Array:
    """Return the MSE on every batch, without training, in the precision of training."""
    W = for_products(model.W)
    if W is not None:
        model = model.with_parameters(model.parameters._replace(W=W))
    errors: Array = jax.lax.map(lambda batch: mse(loss_of_batch(model, batch), model.N), segment)
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
    status: EndStatus
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
    state: optax.OptState | None = None,
    progress: Progress | Callable[[int, float], None] | None = None,
) -> Run:
    """Train a model to denoise: minimise ‖f(y + ε) − y‖² over samples y and noise ε.

    Parameters
    ----------
    model
        From `DenseAM.create`.
    data
        Samples × features, of order 1; otherwise a `DataWarning` is given.
    optimizer
        From `sgd`, `adam`, `adamw`, `lion`, `sign`, `muon` or `scaled`.
    epochs
        Passes over the data, each with a fresh permutation and fresh noise.
    noise
        Standard deviation σ_ε of the noise.
    batch
        Samples in a batch; by default the B of the model's scales.
    seed
        Determines batches and noise; all learning rates of one seed see the same ones.
    state
        The optimizer's state to continue from, as in an earlier `Run`; by default a new one.
    progress
        Receives events; a function is called after every epoch with its number, from 1, and its mean MSE.
    """
    refuse(whole(0, seed=seed))
    if not isinstance(progress, Progress):
        progress = Progress() if progress is None else calling(epoch_ended=progress)
    array, B = _checked(model, data, optimizer, epochs, noise, batch)
    warn(concerns_of(np.asarray(array), noise), "data")
    P = array.shape[0]
    # Scales are static: without them, one compiled program serves all learning rates of a shape.
    bare = dataclasses.replace(model, scales=None)

    initial_mse = float(np.mean(_evaluate(bare, array, draw_batches(seed, epochs - 1, P, B), noise)))
    state = optimizer.init(bare.parameters) if state is None else state
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
    decays = optimizer.decay is not None and bool(np.any(np.asarray(optimizer.decay) > 0))
    forgotten = float(mean_square(array[None])[0]) if decays else None
    trained, end = dataclasses.replace(bare, scales=model.scales), ending(curve, initial_mse, forgotten)
    losses = {"initial_mse": initial_mse, "final_mse": float(end.curve[-1].mean())}
    progress.training_finished({"status": end.status, "diverged_at": end.diverged_at, **losses})
    return Run(trained, end.curve, initial_mse, end.status, end.diverged_at, state)


@jax.jit
def _train(model: DenseAM, optimizer: Optimizer, state: Any, *epoch: Any) -> tuple[DenseAM, Any, Array]:
    """Take a step on each batch of an epoch; return the model, the state and the MSE before each step."""
    frame, segment = model.without_parameters(), _batches(model, *epoch)
    parameters, state, errors, _ = advance(model.parameters, state, frame, optimizer, segment)
    return model.with_parameters(parameters), state, errors


@jax.jit
def _evaluate(model: DenseAM, *epoch: Any) -> Array:
    return evaluate(model, _batches(model, *epoch))


def _batches(model: DenseAM, data: Array, batches: Batches, noise: ArrayLike) -> Batch:
    """Return the batches of an epoch as the model sees them, which may count features more than once."""
    X, Y = jax.vmap(noisy_batch, in_axes=(None, 0, 0, None))(data, *batches, noise)
    return jax.vmap(lambda X, Y: batch_of(model, X, Y))(X, Y)


def _data_problems(data: Any, N: int) -> list[str]:
    if data.ndim != 2 or data.shape[1] != N or not np.issubdtype(data.dtype, np.number):
        return [f"data must be numbers of shape samples × {N} features, got {data.dtype} of {data.shape}"]
    if not np.isfinite(data).all():
        row, column = np.argwhere(~np.isfinite(data))[0]
        return [f"data must be finite, got {data[row, column]} at sample {row}, feature {column}"]
    return []


def _checked(
    model: DenseAM, data: ArrayLike, optimizer: Optimizer, epochs: int, noise: float, batch: int | None
) -> tuple[Float[Array, "P N"], int]:
    """Return the data in the model's precision and the batch size, or report all problems."""
    refuse(typed(DenseAM, "a DenseAM", model=model))
    try:
        array = np.asarray(data)
    except ValueError:
        raise InputError(f"data must be samples × features of one length, got {shown(data)}") from None
    problems = _data_problems(array, model.N)
    if not isinstance(optimizer, Optimizer):
        problems.append(f"optimizer must be one such as sgd(scales), got {type(optimizer).__name__}")
    problems += [*whole(epochs=epochs), *at_least_zero(noise=noise)]
    B = batch if batch is not None else (model.scales.shape.B if model.scales else None)
    if B is None:
        problems.append("batch (B) must be given: the model's scales have none")
    elif not isinstance(B, int) or B < 1 or (array.ndim == 2 and array.shape[0] < B):
        problems.append(f"batch (B) must be from 1 to the samples in the data, {array.shape[0]}, got {B!r}")
    refuse(problems)
    assert B is not None
    steps = epochs * (array.shape[0] // B)
    if optimizer.factors is not None and len(optimizer.factors) != steps:
        raise InputError(
            f"optimizer: its schedule is for {len(optimizer.factors)} steps, but the training has {steps}"
        )
    return jnp.asarray(array, model.W.dtype), B
