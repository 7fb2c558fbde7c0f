"""The check of any Equinox module with a method `update`, with any Optax optimizer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from denseam.analysis.coordinates.expected import Expectation
from denseam.analysis.coordinates.judge import Check, Conditions, judge
from denseam.analysis.coordinates.slopes import Measurements, Slope, slopes, too_few
from denseam.analysis.thresholds import FEWEST
from denseam.data.gaussian import isotropic
from denseam.ground.errors import InputError, refuse, typed, whole
from denseam.rules import Regime, Shape
from denseam.rules.regimes import DEFAULT_REGIME, regime_letter
from denseam.training.batches import draw_batches, noisy_batch
from denseam.training.probes import leading, rms
from denseam.training.quantities import log_spaced

MakeModel = Callable[[Shape, int], Any]
MakeOptimizer = Callable[[Shape], Any]
#: Model, batch (samples as rows) → activations of the hidden neurons (samples as rows).
Activations = Callable[[Any, Array], Array]


def check_model(
    model: MakeModel,
    optimizer: MakeOptimizer,
    *,
    regime: Regime = DEFAULT_REGIME,
    scales: Sequence[int] = (64, 128, 256),
    seeds: int = 4,
    updates: int = 16,
    noise: float = 0.5,
    activations: Activations | None = None,
    name: str = "own model",
) -> Check:
    """Check a model and an optimizer of your own, trained as denoisers on isotropic data.

    Parameters
    ----------
    model
        Shape, seed → an Equinox module with ``update(X)`` for samples as rows. If it has ``hidden(X)``,
        pre-activations are checked too. Its floating arrays are trained; or, if it has `parameters` and
        `with_parameters` as a `DenseAM` does, those.
    optimizer
        Shape → an object with the ``init`` and ``update`` of Optax, with the learning rates of that shape.
    regime, scales, seeds, updates, noise
        What grows, how far, and how long it is trained.
    activations
        Model, X → activations of the hidden neurons, to look for a spike in their Gram matrix. By default
        those of ``model.activation`` at ``model.hidden(X)``, if it has both.

    The result is PASS or FAIL only with three sizes and three seeds or more.
    """
    refuse(typed(Callable, "a function of a shape", model=model, optimizer=optimizer))  # type: ignore[arg-type]
    probed = updates_to_measure(scales, seeds, updates)
    runs: dict[tuple[int, int], list[dict[str, float]]] = {}
    matrices: set[str] = set()
    for scale in scales:
        shape = regime.shape(scale)
        own_optimizer = optimizer(shape)
        for seed in range(seeds):
            own = model(shape, seed)
            runs[scale, seed] = _run(own, own_optimizer, shape, seed, probed, noise, activations)
            matrices |= {
                change_by(label, array) for label, array in _labelled(_parts(own)[0]) if array.ndim > 1
            }
    return judge_runs(runs, probed, scales, seeds, regime, name, matrices)


def updates_to_measure(scales: Sequence[int], seeds: int, updates: int) -> tuple[int, ...]:
    """Return the updates to measure at, after checking that there are enough scales and seeds."""
    refuse([*too_few(scales, seeds), *whole(updates=updates)])
    return (*log_spaced(updates), updates)


def judge_runs(
    runs: Mapping[tuple[int, int], Sequence[Mapping[str, float]]],
    probed: Sequence[int],
    scales: Sequence[int],
    seeds: int,
    regime: Regime,
    name: str,
    matrices: Collection[str],
) -> Check:
    """Judge the runs of a user's model, in any framework.

    `runs` maps scale and seed to the sizes of all quantities at each step that was measured (`probed`);
    `matrices` are those quantities that are changes of F by a matrix (`change_by`). A quantity that some run
    does not have is left out.
    """
    steps = [step for run in runs.values() for step in run]
    names = [name for name in steps[0] if all(name in step for step in steps)]
    values = {
        q: np.array([[[runs[n, s][i][q] for s in range(seeds)] for n in scales] for i in range(len(probed))])
        for q in names
    }
    measured = Measurements(tuple(probed), tuple(scales), values)
    exponents = [
        _unless_zero(s, measured) for s in slopes(measured, {q: _expected(q, matrices) for q in names})
    ]
    # Whether it is centred is unknown; the Gram matrix of its own activations is called 'lambda_max_raw'.
    letter = regime_letter(regime.name)
    return judge(measured, exponents, Conditions(name, centred=False, letter=letter, fewest=FEWEST))


def change_by(label: str, array: Any) -> str:
    """Return the name of the change of F by one array of the model."""
    return f"dF by {'matrix' if array.ndim > 1 else 'vector'} {label}"


def _expected(quantity: str, matrices: Collection[str]) -> Expectation:
    """Return the expectation of a quantity: states and changes by matrices keep their size."""
    if quantity in ("Z", "F"):
        return Expectation(0.0, "stability")
    if quantity in ("dZ_exact", "dF_exact"):
        return Expectation(0.0, "maximality")
    return Expectation(0.0, "balance") if quantity in matrices else Expectation(None)


def _unless_zero(slope: Slope, measured: Measurements) -> Slope:
    """Return the slope, not judged where all sizes are 0 and later are not, as of weights that start at 0."""
    values = measured.values[slope.name]
    here = values[measured.steps.index(slope.step)]
    if (here == 0).all() and values.any():
        return dataclasses.replace(slope, judged="", ok=None)
    return slope


def _run(
    model: Any,
    optimizer: Any,
    shape: Shape,
    seed: int,
    probed: Sequence[int],
    noise: float,
    activations: Activations | None,
) -> list[dict[str, float]]:
    """Train one model with autodiff and measure it at the given steps."""
    if not callable(getattr(model, "update", None)):
        raise InputError(f"model must have a method update(x), got {type(model).__name__}")
    assert shape.P is not None
    assert shape.B is not None
    trained, frame = _parts(model)
    state = optimizer.init(trained)
    data = isotropic(shape.N, shape.P, seed=seed)
    per_epoch = shape.P // shape.B
    sizes = []
    for t in range(max(probed) + 1):
        batches = draw_batches(seed, t // per_epoch, shape.P, shape.B)
        X, Y = noisy_batch(data, batches.samples[t % per_epoch], batches.noise[t % per_epoch], noise)
        if t in probed:
            measured = _measure(trained, frame, optimizer, state, X, Y, activations)
            sizes.append({k: float(v) for k, v in measured.items()})
        trained, state = _step(trained, frame, optimizer, state, X, Y)
    return sizes


def _parts(model: Any) -> tuple[Any, Any]:
    """Return the trained part of a model, and the rest."""
    if hasattr(model, "parameters") and hasattr(model, "with_parameters"):
        return model.parameters, model
    trained, rest = eqx.partition(model, eqx.is_inexact_array)
    return trained, rest


def _labelled(arrays: Any) -> list[tuple[str, Array]]:
    """Return the arrays of a tree, each with its path in the model."""
    paths, _ = jax.tree_util.tree_flatten_with_path(arrays)
    return [
        (jax.tree_util.keystr(path).strip(".[]'") or str(i), array) for i, (path, array) in enumerate(paths)
    ]


def _whole(trained: Any, frame: Any) -> Any:
    """Undo `_parts`."""
    if hasattr(frame, "with_parameters"):
        return frame.with_parameters(trained)
    return eqx.combine(trained, frame)


def _change(trained: Any, frame: Any, optimizer: Any, state: Any, X: Array, Y: Array) -> tuple[Any, Any, Any]:
    """Return the gradient, the optimizer's update, and its next state."""

    def loss(trained: Any) -> Array:
        R = _whole(trained, frame).update(X) - Y
        return jnp.sum(R * R) / (2 * X.shape[0])

    gradient = jax.grad(loss)(trained)
    change, state = optimizer.update(gradient, state, trained)
    return gradient, change, state


@eqx.filter_jit
def _step(trained: Any, frame: Any, optimizer: Any, state: Any, X: Array, Y: Array) -> tuple[Any, Any]:
    _, change, state = _change(trained, frame, optimizer, state, X, Y)
    return optax.apply_updates(trained, change), state


@eqx.filter_jit
def _measure(
    trained: Any,
    frame: Any,
    optimizer: Any,
    state: Any,
    X: Float[Array, "B N"],
    Y: Float[Array, "B N"],
    activations: Activations | None,
) -> dict[str, Array]:
    gradient, change, _ = _change(trained, frame, optimizer, state, X, Y)
    model, new = _whole(trained, frame), _whole(optax.apply_updates(trained, change), frame)
    F = model.update(X)
    sizes = {"F": rms(F), "dF_exact": rms(new.update(X) - F)}
    if hasattr(model, "hidden"):
        Z = model.hidden(X)
        sizes |= {"Z": rms(Z), "dZ_exact": rms(new.hidden(X) - Z)}
        if activations is None and hasattr(model, "activation") and hasattr(model.activation, "activation"):
            centre = getattr(model, "centre", lambda V: V)
            activations = lambda m, X: centre(m.activation.activation(m.hidden(X)))  # noqa: E731
    if activations is not None:
        values, _ = leading(activations(model, X).T)
        sizes |= {"lambda_max_raw": values[0], "lambda_2_raw": values[1]}
    (here, tree), gradients = jax.tree.flatten(trained), jax.tree.leaves(gradient)
    for i, (label, step) in enumerate(_labelled(change)):

        def outputs(array: Array, i: int = i) -> Array:
            moved = jax.tree.unflatten(tree, [*here[:i], array, *here[i + 1 :]])
            F: Array = _whole(moved, frame).update(X)
            return F

        # The derivative of F along the change of this array alone. Zero changes of the others would be
        # equivalent, but XLA 0.10 on the CPU then gives wrong numbers from N = 96 on.
        _, part = jax.jvp(outputs, (here[i],), (step,))
        sizes[change_by(label, step)] = rms(part)
        sizes[f"gradient of {label}"] = rms(gradients[i])
    return sizes
