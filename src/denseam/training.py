"""Training one model as a denoiser: loss, gradient, one step, one epoch, one run.

Data comes as rows. What is computed on a batch has samples as columns, as in the paper (and as is
fastest, since W then stands on the left of every product):

========  ==================================================================================
X, Y      a noisy batch and its clean version
G         N×B, the columns n ⊙ g(x): what the memories see
Z, S      K×B, pre-activations s1 W̃G + b̃1ᵀ and centred activations Cσ(Z)
F, R      N×B, outputs s2 WᵀS + c1ᵀ and residuals F − Y
========  ==================================================================================
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Float, Int, Key

from denseam.errors import refuse
from denseam.lagrangians import Elementwise
from denseam.model import DenseAM, Parameters
from denseam.optimizers import Optimizer
from denseam.streams import stream


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

    W stands in f twice: the first term comes from its outer place, the second from its inner one.
    """
    return gradient_of_columns(model, Columns(model.drive(X).T, Y.T))


#: How the two products of the gradient are computed: as one, as two, or as one over stacked pairs.
Joined = bool | Literal["stacked"]


class Columns(NamedTuple):
    """A batch as training sees it, samples as columns; all models with the same features share it."""

    G: Float[Array, "N B"]
    Y: Float[Array, "N B"]


class Passes(NamedTuple):
    """What the passes through the model meet: forward Z, σ(Z), S = Cσ(Z), R; backward A = C J C (W R)."""

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
    met = passes(model, batch)
    return jnp.sum(met.R * met.R) / (2 * met.R.shape[1]), gradient_of_passes(model, batch, met, joined=joined)


def passes(model: DenseAM, batch: Columns) -> Passes:
    """Take a batch forward and the residuals back."""
    Z, raw, S, R = _forward(model, batch)
    C, _, jacobian_product = column_functions(model)
    return Passes(Z, raw, S, R, A=C(jacobian_product(Z, C(model.W @ R))))


def gradient_of_passes(model: DenseAM, batch: Columns, met: Passes, *, joined: Joined = True) -> Parameters:
    """Return the gradient from what the passes met.

    S Rᵀ and s1 A Gᵀ have one shape, so they are one product of inner dimension 2B; that is faster on a
    CPU, while two products (`joined` False) are faster on a GPU. On a mesh that deals out the samples
    'stacked' pairs are one product too, without moving samples between devices.
    """
    (_, _, S, R, A), G, B = met, batch.G, batch.G.shape[1]
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
    """Return the functions of a model that act on hidden neurons, which act along rows, for columns."""

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
    """Take one step on one batch; return the model, the optimizer's state, and the MSE before it."""
    return step_on_columns(model, optimizer, state, Columns(model.drive(X).T, Y.T))


def step_on_columns(
    model: DenseAM, optimizer: Optimizer, state: optax.OptState, batch: Columns, *, joined: Joined = True
) -> tuple[DenseAM, optax.OptState, Float[Array, ""]]:
    """Do what `step` does."""
    L, grads = gradient_of_columns(model, batch, joined=joined)
    updates, state = optimizer.update(grads, state, model.parameters)
    parameters = Parameters(*(p + u for p, u in zip(model.parameters, updates, strict=True)))
    return model.with_parameters(parameters), state, mse(L, model.N)


class Batches(NamedTuple):
    """Consecutive batches: indices into the data, and a key for the noise of each batch."""

    samples: Int[Array, "steps B"]
    noise: Key[Array, " steps"]


def draw_batches(seed: int, epoch: int, P: int, B: int) -> Batches:
    """Return the batches of an epoch: a fresh permutation of the P samples, cut into P // B.

    The rest of the permutation is left out. Every step has its own noise key, numbered through the run.
    """
    n = P // B
    return Batches(
        jnp.asarray(sample_order(seed, epoch, P, B)), noise_keys(stream(seed, "noise"), epoch * n, n)
    )


def sample_order(seed: int, epoch: int, P: int, B: int) -> Int[np.ndarray, "steps B"]:
    """Return the permutation of an epoch as batches of indices.

    Drawn on the host from Philox's raw words, which never change: it is the same on every device.
    """
    words = np.random.Philox(key=seed, counter=[0, 0, epoch, 1]).random_raw(P)
    return np.argsort(words, kind="stable")[: P // B * B].reshape(-1, B).astype(np.int32)


def noise_keys(key: Key[Array, ""], first: ArrayLike, steps: int) -> Key[Array, " steps"]:
    """Return the noise keys of consecutive steps."""
    return jax.vmap(lambda t: jax.random.fold_in(key, t))(first + jnp.arange(steps))


def noisy_batch(
    data: Float[Array, "P N"], samples: Int[Array, " B"], key: Key[Array, ""], noise: ArrayLike
) -> tuple[Float[Array, "B N"], Float[Array, "B N"]]:
    """Return one batch as (noisy, clean): X = Y + σ_ε ε with ε ~ N(0, I) drawn anew."""
    Y = data[samples]
    return Y + noise * jax.random.normal(key, Y.shape, Y.dtype), Y


def train_epoch(
    model: DenseAM,
    optimizer: Optimizer,
    state: optax.OptState,
    data: Float[Array, "P N"],
    batches: Batches,
    noise: ArrayLike,
) -> tuple[DenseAM, optax.OptState, Float[Array, " steps"]]:
    """Take one step on each batch of an epoch; return the MSE of every step."""

    def one(carry: tuple[Parameters, Any], batch: Batches) -> tuple[tuple[Parameters, Any], Array]:
        parameters, state = carry
        X, Y = noisy_batch(data, batch.samples, batch.noise, noise)
        new, state, error = step(model.with_parameters(parameters), optimizer, state, X, Y)
        return (new.parameters, state), error

    (parameters, state), errors = jax.lax.scan(one, (model.parameters, state), batches)
    return model.with_parameters(parameters), state, errors


def evaluate_epoch(
    model: DenseAM, data: Float[Array, "P N"], batches: Batches, noise: ArrayLike
) -> Float[Array, " steps"]:
    """Return the MSE on each batch of an epoch, without training."""

    def one(batch: Batches) -> Array:
        X, Y = noisy_batch(data, batch.samples, batch.noise, noise)
        error: Array = mse(loss(model, X, Y), model.N)
        return error

    errors: Array = jax.lax.map(one, batches)
    return errors


@dataclasses.dataclass(frozen=True)
class Run:
    """What became of one training run.

    Attributes
    ----------
    model
        The trained model.
    mse
        MSE of every step before it is taken, epochs × steps; infinite from where it diverged.
    initial_mse
        MSE of the untrained model on the very batches and noise of the last epoch, so that it and
        `final_mse` differ by the training alone.
    status
        'finished', or 'diverged': the loss became non-finite, or ended above where it began.
    diverged_at
        The first step, counted from 0, whose loss is not finite (or the last step of a run that
        ended above where it began); None if it finished.
    optimizer_state
        The optimizer's state after the last step.
    """

    model: DenseAM
    mse: Float[np.ndarray, "epochs steps"]
    initial_mse: float
    status: Literal["finished", "diverged"]
    diverged_at: int | None
    optimizer_state: optax.OptState

    @property
    def final_mse(self) -> float:
        """Mean MSE over the last epoch; infinite if the run diverged to non-finite values."""
        return float(np.mean(self.mse[-1]))

    @property
    def epochs(self) -> int:
        """Epochs asked for."""
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
    progress: Callable[[int, float], None] | None = None,
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
        The integer that batches and noise come from; two learning rates of one seed see the same.
    progress
        Called after every epoch with its number, from 1, and its mean MSE.
    """
    array, B = _checked(model, data, optimizer, epochs, noise, batch)
    P = array.shape[0]
    # Scales are static; without them one compiled program serves all learning rates of a shape.
    bare = dataclasses.replace(model, scales=None)

    initial_mse = float(np.mean(_evaluate(bare, array, draw_batches(seed, epochs - 1, P, B), noise)))
    state = optimizer.init(bare.parameters)
    curve = np.full((epochs, P // B), np.inf)
    for epoch in range(epochs):
        bare, state, errors = _train(bare, optimizer, state, array, draw_batches(seed, epoch, P, B), noise)
        finite = np.isfinite(errors)
        healthy = finite.size if finite.all() else int(np.argmin(finite))
        curve[epoch, :healthy] = errors[:healthy]
        if progress is not None:
            progress(epoch + 1, float(np.mean(curve[epoch])))
        if healthy < finite.size:
            break
    blown = np.isinf(curve).ravel()
    diverged = not np.mean(curve[-1]) <= initial_mse
    first_bad = int(np.argmax(blown)) if blown.any() else curve.size - 1
    return Run(
        model=dataclasses.replace(bare, scales=model.scales),
        mse=curve,
        initial_mse=initial_mse,
        status="diverged" if diverged else "finished",
        diverged_at=first_bad if diverged else None,
        optimizer_state=state,
    )


_train = jax.jit(train_epoch)
_evaluate = jax.jit(evaluate_epoch)


def _checked(
    model: DenseAM, data: ArrayLike, optimizer: Optimizer, epochs: int, noise: float, batch: int | None
) -> tuple[Float[Array, "P N"], int]:
    """Return the data in the model's precision and the batch size, or say all that is wrong."""
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
