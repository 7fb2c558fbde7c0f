"""One model on many devices: what lies where.

A mesh has two axes. Along `memories` the rows of W are dealt out, with them b, the moments of both, and the
hidden neurons; along `batch` the samples. c and all numbers are everywhere. The compiler places the
collectives. For M devices along memories and D along the batch a step needs

=======================  ==========================================================  ================
what                     why                                                         entries
=======================  ==========================================================  ================
one sum over memories    of WᵀS, for the outputs                                     N B/D
four more if centred     the means that C takes out: of Z, σ(Z), W R and J C (W R)   B/D each
three more for softmax   its maximum, its normalisation, and the one in its slope    B/D each
one sum over the batch   of the gradients, the loss with them                        K N/M + K/M + N + 1
=======================  ==========================================================  ================

The two products of the gradient are stacked, so that they are summed once (`joined='stacked'`).
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from denseam.errors import InputError, refuse
from denseam.files import ALONE, Writers, each
from denseam.model.dense_am import Parameters
from denseam.rules import Shape

AXES = ("memories", "batch")


def parse_mesh(text: str) -> dict[str, int]:
    """Read ``memories=4,batch=2``; an axis that is not named has length 1."""
    sizes = dict.fromkeys(AXES, 1)
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\w+)\s*=\s*(\d+)\s*", part)
        if not found or found[1] not in AXES or int(found[2]) < 1:
            raise InputError(f"mesh must be as in memories=4,batch=2, got {text!r}")
        sizes[found[1]] = int(found[2])
    return sizes


def make_mesh(sizes: Mapping[str, int], shape: Shape, devices: Sequence[Any] | None = None) -> Mesh:
    """Return a mesh for a model of some shape; refuse one that does not divide it or needs more devices."""
    M, D = (sizes.get(axis, 1) for axis in AXES)
    devices = list(devices if devices is not None else jax.devices())
    refuse(
        [f"mesh: memories={M} does not divide K = {shape.K}"] * (shape.K % M != 0)
        + [f"mesh: batch={D} does not divide B = {shape.B}"] * (shape.B is not None and shape.B % D != 0)
        + [f"mesh: memories={M} times batch={D} is {M * D} devices, but there are {len(devices)}"]
        * (len(devices) < M * D)
    )
    grid = np.array(devices[: M * D]).reshape(M, D)
    return Mesh(grid, AXES, axis_types=(AxisType.Auto,) * 2)


def join_processes(coordinator: str, processes: int | None = None, process: int | None = None) -> None:
    """Let this process train together with others (`jax.distributed`).

    Parameters
    ----------
    coordinator
        HOST:PORT of the first process, or 'auto' where a cluster's scheduler tells (Slurm, MPI, TPUs).
    processes, process
        How many there are, and which one this is.
    """
    auto = coordinator == "auto"
    refuse(
        ["coordinator must be HOST:PORT or auto"] * (not auto and not re.fullmatch(r".+:\d+", coordinator))
        + ["processes and process are needed: how many there are, and which one this is"]
        * (not auto and (processes is None or process is None))
        + [f"process must be at least 0 and below processes = {processes}, got {process}"]
        * (processes is not None and process is not None and not 0 <= process < processes)
    )
    try:
        with stdout_apart():
            if auto:
                jax.distributed.initialize()
            else:
                jax.distributed.initialize(coordinator, processes, process, initialization_timeout=60)
            jax.devices()
    except (RuntimeError, ValueError) as error:
        raise InputError(f"coordinator {coordinator}: {' '.join(str(error).split())[:200]}") from None


class Processes:
    """The processes that `jax.distributed` has joined."""

    @property
    def first(self) -> bool:
        """Whether this is the first of them."""
        return jax.process_index() == 0

    def all_well(self, well: bool) -> bool:
        """Wait until all of them have come here; return whether all are well."""
        return bool(np.all(multihost_utils.process_allgather(np.asarray(well))))


def writers() -> Writers:
    """Return those who train together."""
    return ALONE if jax.process_count() == 1 else Processes()


def as_the_first_says(value: float) -> float:
    """Return the value that the first process has, so that all decide alike."""
    if jax.process_count() == 1:
        return value
    return float(multihost_utils.broadcast_one_to_all(np.float32(value)))


def check_folder(folder: Path) -> None:
    """Make a folder; refuse one that cannot be written or that is not the same for all processes."""
    together, number = writers(), int(as_the_first_says(int.from_bytes(os.urandom(2), "big")))
    sign, own = folder / f".sign-{number}", folder / f".probe-{uuid.uuid4().hex}"

    def probe() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            own.write_bytes(b"x" * 4096)
        finally:
            own.unlink(missing_ok=True)
        if together.first:
            sign.touch()

    try:
        each(together, folder, probe)
        if not together.all_well(sign.exists()):
            raise InputError(
                f"out {folder}: not the same folder for all processes; take one that all of them see"
            )
    except OSError as error:
        raise InputError(f"out {folder}: cannot be written ({error.strerror})") from None
    finally:
        if together.first:
            sign.unlink(missing_ok=True)


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


@contextlib.contextmanager
def stdout_apart() -> Iterator[None]:
    """Send what libraries print on standard output to standard error, as gloo does when processes meet."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


class Placement:
    """Where the arrays of a training lie on a mesh."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.everywhere = self._on()
        self.parameters = Parameters(self._on("memories", None), self._on("memories"), self._on())  # type: ignore[arg-type]
        self.batches = self._on(None, None, "batch")  # steps × features × samples

    def state(self, state: Any) -> Any:
        """Return where the state of an optimizer lies: moments with their parameter."""

        def where(path: tuple[Any, ...], leaf: Any) -> NamedSharding:
            label = next((key.key for key in path if isinstance(key, jax.tree_util.DictKey)), "")
            place = getattr(self.parameters, label, self.everywhere) if np.ndim(leaf) else self.everywhere
            assert isinstance(place, NamedSharding)
            return place

        return jax.tree_util.tree_map_with_path(where, state)

    def put(self, values: Any, places: Any) -> Any:
        """Place values that every process has, each keeping its own part."""

        def one(value: Any, place: NamedSharding) -> jax.Array:
            whole = np.asarray(value)
            return jax.make_array_from_callback(whole.shape, place, lambda part: whole[part])

        return jax.tree.map(one, values, places)

    def _on(self, *axes: str | None) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec(*axes))  # type: ignore[no-untyped-call]


def whole(value: Any) -> np.ndarray[Any, Any]:
    """Return an array as it is for all devices together, on every process."""
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        if value.is_fully_replicated:
            return np.asarray(value.addressable_data(0))
        return np.asarray(multihost_utils.process_allgather(value, tiled=True))
    return np.asarray(value)
