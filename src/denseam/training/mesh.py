"""One model on many devices: what lies where.

A mesh has two axes. The rows of W are distributed along `memories`, and with them b, the moments of both and
the hidden neurons; the samples are distributed along `batch`. c and all scalars are on every device. The
compiler places the collectives. For M devices along memories and D along the batch a step needs

=======================  ==========================================================  ================
what                     why                                                         entries
=======================  ==========================================================  ================
one sum over memories    of SᵀW, for the outputs                                     N B/D
four more if centred     the means that C takes out: of Z, σ(Z), W Rᵀ and J C W Rᵀ   B/D each
three more for softmax   its maximum, its normalisation, and the one in its slope    B/D each
one sum over the batch   of the gradients, the loss with them                        K N/M + K/M + N + 1
=======================  ==========================================================  ================

Norms of features need none: every device has all features of its samples.

The two products of the gradient are stacked, so that they are summed once (`joined='stacked'`), also where
there are T steps of recall. Each of these needs the first rows again, and that of AᵀW in the backward pass
too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from denseam.ground.errors import InputError, refuse
from denseam.model.dense_am import Parameters
from denseam.rules import Shape

MESH_AXES = ("memories", "batch")


def parse_mesh(text: str) -> dict[str, int]:
    """Read ``memories=4,batch=2``; an axis that is left out has length 1."""
    sizes = dict.fromkeys(MESH_AXES, 1)
    for part in text.split(","):
        axis = re.fullmatch(r"\s*(\w+)\s*=\s*(\d+)\s*", part)
        if not axis or axis[1] not in MESH_AXES or int(axis[2]) < 1:
            raise InputError(f"mesh must be as in memories=4,batch=2, got {text!r}")
        sizes[axis[1]] = int(axis[2])
    return sizes


def make_mesh(sizes: Mapping[str, int], shape: Shape, devices: Sequence[Any] | None = None) -> Mesh:
    """Return a mesh for a model; refuse one that does not divide its shape or needs more devices."""
    M, D = (sizes.get(axis, 1) for axis in MESH_AXES)
    devices = list(devices if devices is not None else jax.devices())
    problems = []
    if shape.K % M:
        problems.append(f"mesh: memories={M} does not divide K = {shape.K}")
    if shape.B is not None and shape.B % D:
        problems.append(f"mesh: batch={D} does not divide B = {shape.B}")
    if len(devices) < M * D:
        problems.append(
            f"mesh: memories={M} times batch={D} is {M * D} devices, but there are {len(devices)}"
        )
    refuse(problems)
    grid = np.array(devices[: M * D]).reshape(M, D)
    return Mesh(grid, MESH_AXES, axis_types=(AxisType.Auto,) * 2)


def check_mesh_of_processes(mesh: Mesh | None) -> None:
    """Refuse to train with several processes if one of them would have nothing to do."""
    if jax.process_count() == 1:
        return
    if mesh is None:
        raise InputError("mesh is needed with several processes, as in memories=4,batch=2")
    idle = set(range(jax.process_count())) - {d.process_index for d in mesh.devices.flat}
    if idle:
        raise InputError(
            f"mesh: process {min(idle)} has none of its {mesh.size} devices; use all {len(jax.devices())}"
        )


class Placement:
    """Where the arrays of a training lie on a mesh."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.everywhere = self._on()
        self.parameters = Parameters(self._on("memories", None), self._on("memories"), self._on())  # type: ignore[arg-type]
        self.batches = self._on(None, "batch", None)  # steps × samples × features

    def state(self, state: Any) -> Any:
        """Return where the state of an optimizer lies: moments where their parameter does."""

        def where(path: tuple[Any, ...], leaf: Any) -> NamedSharding:
            label = next((key.key for key in path if isinstance(key, jax.tree_util.DictKey)), "")
            place = getattr(self.parameters, label, self.everywhere) if np.ndim(leaf) else self.everywhere
            assert isinstance(place, NamedSharding)
            return place

        return jax.tree_util.tree_map_with_path(where, state)

    def put(self, values: Any, places: Any) -> Any:
        """Place values that every process has, each keeping its own part."""

        def put_array(value: Any, place: NamedSharding) -> jax.Array:
            whole = np.asarray(value)
            return jax.make_array_from_callback(whole.shape, place, lambda part: whole[part])

        return jax.tree.map(put_array, values, places)

    def _on(self, *axes: str | None) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec(*axes))  # type: ignore[no-untyped-call]


def gathered(value: Any) -> np.ndarray[Any, Any]:
    """Return all of an array that is distributed over devices, on every process."""
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        if value.is_fully_replicated:
            return np.asarray(value.addressable_data(0))
        return np.asarray(multihost_utils.process_allgather(value, tiled=True))
    return np.asarray(value)
