"""Where one model is trained: on one device, or distributed over many, with the same interface."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from denseam.model.checkpoint import Opened
from denseam.model.dense_am import DenseAM, Parameters
from denseam.training.batches import View, noisy_batches
from denseam.training.matrices import Batch, Ways
from denseam.training.mesh import Placement
from denseam.training.optimizers import Optimizer
from denseam.training.run import advance

#: Makes the model and the optimizer of the run, with the given parameters or those of its seed.
Build = Callable[[Parameters | None], tuple[DenseAM, Optimizer]]
#: Parameters, and the optimizer's state.
Trainable = tuple[Parameters, Any]


def named(parameters: Parameters, state: Any) -> dict[str, Any]:
    """Return everything that a step changes, by its name in a file."""
    moments = {f"optimizer.{i}": leaf for i, leaf in enumerate(jax.tree.leaves(state))}
    return {**parameters._asdict(), **moments}


class OneDevice:
    """Training on the default device."""

    def __init__(self, platform: str, *, recompute: bool = False) -> None:
        self._noisy: Any = _noisy_batches
        self._step: Any = functools.partial(
            _advance, ways=Ways(written_out=platform == "gpu", recompute=recompute)
        )

    def begin(self, build: Build) -> tuple[DenseAM, Optimizer]:
        """Return the model without parameters, and the optimizer; nothing is drawn yet."""
        self._build = build
        # Everything but the parameters has no size, so it comes from a model with one memory.
        dtype = jax.eval_shape(lambda: build(None)[0].W).dtype
        smallest = Parameters(*(jnp.zeros(shape, dtype) for shape in ((1, 1), (1,), (1,))))
        model, self._optimizer = build(smallest)
        return model.without_parameters(), self._optimizer

    def draw(self) -> Trainable:
        """Return the parameters of the seed, and the state before the first step."""
        parameters = self.untrained()
        return parameters, self._optimizer.init(parameters)

    def untrained(self) -> Parameters:
        """Return the parameters of the seed."""
        return self._build(None)[0].parameters

    def read(self, file: Opened) -> Trainable:
        """Return the parameters and the state that a file holds."""
        like = self._like()
        leaves = [self._placed(file, name, leaf) for name, leaf in named(*like).items()]
        return jax.tree.unflatten(jax.tree.structure(like), leaves)  # type: ignore[no-any-return]

    def batches(self, clean: np.ndarray[Any, Any], keys: Array, noise: Array, view: View) -> Batch:
        """Return clean batches with noise."""
        batches: Batch = self._noisy(clean, keys, noise, view)
        return batches

    def advance(self, *now: Any) -> tuple[Parameters, Any, Array]:
        """Take a step on every batch."""
        parameters, state, error, _ = self._step(*now)
        return parameters, state, error

    def share(self, batches: Batch) -> Batch:
        """Return batches as they are evaluated."""
        return batches

    def _like(self) -> Trainable:
        """Return the shapes and types of parameters and state."""

        def draw() -> Trainable:
            parameters = self._build(None)[0].parameters
            return parameters, self._optimizer.init(parameters)

        return jax.eval_shape(draw)  # type: ignore[no-any-return]

    def _placed(self, file: Opened, name: str, leaf: Any) -> Array:
        return jnp.asarray(_checked(file, name, leaf).read(name), leaf.dtype)


class OnMesh(OneDevice):
    """Training on many devices: every array is created where it belongs; the compiler does the rest."""

    def __init__(self, placement: Placement, *, recompute: bool = False) -> None:
        self._at, self._ways = placement, Ways(stacked=True, recompute=recompute)
        # One place for all arrays of a batch.
        self._noisy = jax.jit(noisy_batches, out_shardings=placement.batches)

    def begin(self, build: Build) -> tuple[DenseAM, Optimizer]:
        """Return the model without parameters, and the optimizer; nothing is drawn yet."""
        frame_and_optimizer = super().begin(build)
        _, state = self._like()
        self._places = (self._at.parameters, self._at.state(state))
        self._step = jax.jit(
            functools.partial(advance, ways=self._ways),
            out_shardings=(*self._places, self._at.everywhere, None),
            donate_argnums=(0, 1),
        )
        return frame_and_optimizer

    def draw(self) -> Trainable:
        """Return the parameters of the seed, and the state before the first step, distributed."""
        parameters = self.untrained()
        init = jax.jit(lambda p: self._optimizer.init(p), out_shardings=self._places[1])
        return parameters, init(parameters)

    def untrained(self) -> Parameters:
        """Draw every row on its own device, so that no device ever holds all of W."""
        draw = jax.jit(lambda: self._build(None)[0].parameters, out_shardings=self._places[0])
        parameters: Parameters = draw()
        return parameters

    def share(self, batches: Batch) -> Batch:
        """Return batches as they are evaluated: all of each, on every device."""
        return self._at.put(batches, jax.tree.map(lambda _: self._at.everywhere, batches))  # type: ignore[no-any-return]

    def _placed(self, file: Opened, name: str, leaf: Any) -> Array:
        """Read the rows of this process's devices, one device after the other."""
        source, place = _checked(file, name, leaf), named(*self._places)[name]
        return jax.make_array_from_callback(
            leaf.shape, place, lambda part: np.asarray(source.read(name, part or ()), leaf.dtype)
        )


def _checked(file: Opened, name: str, leaf: Any) -> Opened:
    if file.shape(name) != leaf.shape:
        raise ValueError(f"{name} has the shape {file.shape(name)}, not {leaf.shape}")
    return file


_noisy_batches = jax.jit(noisy_batches)
_advance = jax.jit(advance, static_argnames=("ways", "probes"), donate_argnums=(0, 1))
