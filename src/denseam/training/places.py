"""Where one model is trained: on a device, or dealt out over many. Both do the same things."""

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
from denseam.training.gradient import Columns
from denseam.training.mesh import Placement
from denseam.training.optimizers import Optimizer
from denseam.training.segments import advance

#: Makes model and optimizer of the run, with the given parameters or with those of its seed.
Build = Callable[[Parameters | None], tuple[DenseAM, Optimizer]]
#: Parameters, and the optimizer's state.
Trainable = tuple[Parameters, Any]


def named(parameters: Parameters, state: Any) -> dict[str, Any]:
    """Return all that a step changes by the names that it has in a file."""
    moments = {f"optimizer.{i}": leaf for i, leaf in enumerate(jax.tree.leaves(state))}
    return {**parameters._asdict(), **moments}


class OneDevice:
    """Training on the device at hand."""

    def __init__(self, platform: str) -> None:
        self._joined = platform == "cpu"

    def begin(self, build: Build) -> tuple[DenseAM, Optimizer]:
        """Return the model without parameters, and the optimizer; nothing is drawn yet."""
        self._build = build
        # What is not a parameter has no size, so it comes from a model of one memory.
        dtype = jax.eval_shape(lambda: build(None)[0].W).dtype
        one = Parameters(*(jnp.zeros(shape, dtype) for shape in ((1, 1), (1,), (1,))))
        model, self._optimizer = build(one)
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
        names = named(*like)
        read = {name: self._placed(file, name, leaf) for name, leaf in names.items()}
        return jax.tree.unflatten(jax.tree.structure(like), list(read.values()))  # type: ignore[no-any-return]

    def batches(self, clean: Any, keys: Array, noise: Array, features: Any) -> Columns:
        """Return clean batches with noise."""
        drawn: Columns = _add_noise(jnp.asarray(clean), keys, noise, features)
        return drawn

    def advance(self, *now: Any) -> tuple[Parameters, Any, Array]:
        """Take a step on every batch."""
        parameters, state, error, _ = _advance(*now, joined=self._joined)
        return parameters, state, error

    def share(self, columns: Columns) -> Columns:
        """Return batches as they are evaluated."""
        return columns

    def _like(self) -> Trainable:
        """Return shapes and types of parameters and state."""

        def drawn() -> Trainable:
            parameters = self._build(None)[0].parameters
            return parameters, self._optimizer.init(parameters)

        return jax.eval_shape(drawn)  # type: ignore[no-any-return]

    def _placed(self, file: Opened, name: str, leaf: Any) -> Array:
        return jnp.asarray(_checked(file, name, leaf).read(name), leaf.dtype)


class OnMesh(OneDevice):
    """Training on many devices: every array is made where it belongs, the compiler does the rest."""

    def __init__(self, placement: Placement) -> None:
        self._at = placement
        shared = Columns(placement.batches, placement.batches)  # type: ignore[arg-type]
        self._noisy = jax.jit(_noisy, out_shardings=shared)

    def begin(self, build: Build) -> tuple[DenseAM, Optimizer]:
        """Return the model without parameters, and the optimizer; nothing is drawn yet."""
        begun = super().begin(build)
        _, state = self._like()
        self._places = (self._at.parameters, self._at.state(state))
        self._step = jax.jit(
            functools.partial(advance, joined="stacked"),
            out_shardings=(*self._places, self._at.everywhere, None),
            donate_argnums=(0, 1),
        )
        return begun

    def draw(self) -> Trainable:
        """Return the parameters of the seed, and the state before the first step, dealt out."""
        parameters = self.untrained()
        return parameters, jax.jit(lambda p: self._optimizer.init(p), out_shardings=self._places[1])(
            parameters
        )

    def untrained(self) -> Parameters:
        """Draw every row where it stays, so that no device ever holds all of W."""
        drawn: Parameters = jax.jit(lambda: self._build(None)[0].parameters, out_shardings=self._places[0])()
        return drawn

    def batches(self, clean: Any, keys: Array, noise: Array, features: Any) -> Columns:
        """Return clean batches with noise, dealt out."""
        drawn: Columns = self._noisy(np.asarray(clean), keys, noise, features)
        return drawn

    def advance(self, *now: Any) -> tuple[Parameters, Any, Array]:
        """Take a step on every batch."""
        parameters, state, error, _ = self._step(*now)
        return parameters, state, error

    def share(self, columns: Columns) -> Columns:
        """Return batches as they are evaluated: whole, on every device."""
        return self._at.put(columns, Columns(self._at.everywhere, self._at.everywhere))  # type: ignore[arg-type, no-any-return]

    def _placed(self, file: Opened, name: str, leaf: Any) -> Array:
        """Read the rows that belong to the devices of this process, for one device after the other."""
        source, place = _checked(file, name, leaf), named(*self._places)[name]
        return jax.make_array_from_callback(
            leaf.shape, place, lambda part: np.asarray(source.read(name, part or ()), leaf.dtype)
        )


def _checked(file: Opened, name: str, leaf: Any) -> Opened:
    if file.shape(name) != leaf.shape:
        raise ValueError(f"{name} has the shape {file.shape(name)}, not {leaf.shape}")
    return file


def _noisy(clean: Array, keys: Array, noise: Array, features: Any) -> Columns:
    drawn = jax.vmap(lambda key, Y: Y + noise * jax.random.normal(key, Y.shape, Y.dtype))(keys, clean)
    return Columns(jnp.swapaxes(features.activation(drawn), -1, -2), jnp.swapaxes(clean, -1, -2))


_add_noise = jax.jit(_noisy)
_advance = jax.jit(advance, static_argnames=("joined", "probes"), donate_argnums=(0, 1))
