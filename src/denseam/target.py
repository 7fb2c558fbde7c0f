"""Training one large model: batches read as they are needed, the whole state saved as it goes.

The run is the one that a sweep would train at this size: the same initial weights, batches and noise. But
its samples are never all in memory (a thread reads the next batches while the device works on these), all
cores work on the one model, and the state of the training is on disk: parameters, moments, step, random
keys, losses. A run that was killed goes on from its last state and ends with the same model.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from denseam import checkpoint
from denseam._version import __version__
from denseam.cost import operations, step_operations
from denseam.data.sources import Source
from denseam.engine import MATMUL, advance, build, check_precision, evaluate, scales_of
from denseam.errors import InputError
from denseam.files import write_whole
from denseam.memory import Memory
from denseam.mesh import Placement, make_mesh, parse_mesh, whole
from denseam.model import DenseAM, Parameters
from denseam.optimizers import Optimizer
from denseam.prediction import Expected
from denseam.recipe import Recipe
from denseam.streams import stream
from denseam.study import RunSpec, Study
from denseam.training import Columns, noise_keys, sample_order

MODEL, STATE, LOG = "memory.safetensors", "state.safetensors", "training.json"
#: A state is written this often, but never for more than a tenth of the time.
SAVE_SECONDS = 20.0
#: Batches read at once.
SEGMENT_BYTES = 1 << 23
SEGMENT_SECONDS = 1.0


class TrainListener:
    """Hears how training goes; override what you want to know."""

    def begin(self, study: Study, spec: RunSpec, done: int, expected: Expected | None) -> None:
        """Say what is trained, and how many steps of it are there already."""

    def advanced(self, step: int, loss: float) -> None:
        """Say how many steps are done, and the loss of the last ones."""

    def epoch(self, epoch: int, loss: float, expected: tuple[float, float] | None) -> None:
        """Say that an epoch ended, with its mean loss and the range that was expected."""

    def left(self, epoch: int, loss: float, expected: tuple[float, float], side: str) -> None:
        """Say that the loss has left the curve that the small models predict."""

    def end(self) -> None:
        """Say that training has ended, or was stopped."""


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
    """What became of the target.

    Attributes
    ----------
    memory
        The trained memory; None if it diverged.
    loss
        The mean MSE of every epoch.
    left_at
        The epoch after which the loss was first found outside of what the small models predict, if it was.
    """

    memory: Memory | None
    status: str
    diverged_at: int | None
    loss: Float[np.ndarray, " epochs"]
    zero_mse: float
    heldout_mse: float | None
    left_at: int | None
    left_side: str
    expected: Expected | None
    seconds: float
    operations: float
    files: tuple[Path, ...]

    @property
    def final_mse(self) -> float:
        """Mean MSE of the last epoch."""
        return float(self.loss[-1])

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""

        def number(value: float | None) -> float | None:
            return value if value is not None and math.isfinite(value) else None

        return {
            "status": self.status,
            "diverged": self.status == "diverged",
            "diverged_at": self.diverged_at,
            "final_mse": number(self.final_mse),
            "heldout_mse": number(self.heldout_mse),
            "zero_mse": number(self.zero_mse),
            "left_expected_at": self.left_at,
            "left_expected": self.left_side or None,
            "loss": [number(float(v)) for v in self.loss],
            "seconds": round(self.seconds, 3),
            "operations": self.operations,
            "files": [str(f) for f in self.files],
        }


def train_target(
    recipe: Recipe,
    out: str | os.PathLike[str],
    *,
    scale: int | None = None,
    seed: int = 0,
    listener: TrainListener | None = None,
    device: Any = None,
    mesh: str | Mapping[str, int] | None = None,
) -> Trained:
    """Train the model that a recipe describes; with the same folder a killed training goes on.

    Parameters
    ----------
    recipe
        From `tune(…).recipe`, or `read_recipe(folder)`.
    out
        A folder for the model (`memory.safetensors`), the state of the training and its losses.
    scale
        Another size of the family than the target.
    seed
        The integer that initial weights, batches and noise come from.
    listener
        Told how it goes, and when the loss leaves what the small models predict.
    device
        Where to train; by default the first one.
    mesh
        Many devices instead, as in ``memories=4,batch=2`` (`denseam.mesh`); of all processes, where
        `jax.distributed` joins several. A training may go on on another mesh than it began on.
    """
    study, spec = recipe.run(scale, seed)
    placement = None
    if mesh is not None:
        sizes = parse_mesh(mesh) if isinstance(mesh, str) else dict(mesh)
        placement = Placement(make_mesh(sizes, spec.shape))
        device = device or jax.local_devices()[0]
    device = device or jax.devices()[0]
    check_precision(study, device.platform)
    expected = recipe.expected if spec.scale == recipe.target else None
    x64 = jax.enable_x64(True) if study.precision == "float64" else contextlib.nullcontext()
    with jax.default_device(device), x64:
        heard = listener or TrainListener()
        return _Training(study, spec, expected, Path(out), heard, device.platform, placement).run()


#: Makes model and optimizer of the run, with the given parameters or with those of its seed.
_Build = Callable[[Parameters | None], tuple[DenseAM, Optimizer]]


class _State(NamedTuple):
    """All that a step changes."""

    parameters: Parameters
    optimizer: Any
    step: int


class _Training:
    """One run, from where it is."""

    def __init__(
        self,
        study: Study,
        spec: RunSpec,
        expected: Expected | None,
        out: Path,
        listener: TrainListener,
        platform: str,
        placement: Placement | None = None,
    ) -> None:
        self.study, self.spec, self.expected, self.out = study, spec, expected, out
        self.listener, self.platform = listener, platform
        self.on: _OneDevice | _OnMesh = _OneDevice(platform) if placement is None else _OnMesh(placement)
        self.writes = jax.process_index() == 0  # the others only compute
        self.dtype = jnp.float64 if study.precision == "float64" else jnp.float32
        self.source: Source = study.source()
        assert spec.shape.P is not None
        assert spec.shape.B is not None
        self.P, self.B = spec.shape.P, spec.shape.B
        self.per_epoch, self.steps = self.P // self.B, study.steps(spec.shape)
        self.T = self._segment_steps()
        self.noise = jnp.asarray(spec.values["noise"], self.dtype)
        self.key = stream(spec.seed, "noise")
        self.losses = np.full(self.steps, np.nan)
        self.squares = np.full(self.steps, np.nan)  # of the clean batches: the loss of predicting zero
        self.left_at: int | None = None
        self.left_side = ""

    def run(self) -> Trained:
        self._prepare_folder()
        began, saved, saving = time.perf_counter(), time.perf_counter(), 0.0
        start, frame, optimizer = self.on.begin(lambda start: build(self.study, self.spec, start, self.dtype))
        at = self._resume(*start)
        self.listener.begin(self.study, self.spec, at.step, self.expected)
        alive = True
        try:
            for first, segment in self._segments(at.step, frame):
                at, error = self._advance(at, frame, optimizer, segment)
                self.losses[first : at.step] = error
                self.squares[first : at.step] = whole(_mean_square(segment.Y))
                self.listener.advanced(at.step, float(np.mean(error)))
                alive = bool(np.isfinite(error).all())
                if not alive:
                    break
                if at.step % self.per_epoch == 0:
                    self._epoch_ended(at.step // self.per_epoch)
                now = time.perf_counter()
                if now - saved > max(SAVE_SECONDS, 10 * saving):
                    self._save(at)
                    saving, saved = time.perf_counter() - now, time.perf_counter()
        except KeyboardInterrupt:
            # In the middle of a step its arrays are gone; what was saved before still is.
            with contextlib.suppress(RuntimeError):
                self._save(at)
            raise
        finally:
            self.listener.end()
        if alive:
            self._save(at)
        model = frame.with_parameters(at.parameters)
        heldout = self._heldout(model) if alive else None
        model = self.on.gather(model)
        return self._finish(model, heldout, time.perf_counter() - began)

    # --- batches -----------------------------------------------------------------------------------

    def _segment_steps(self) -> int:
        """Return how many steps are read and taken at once, within an epoch."""
        rate = 1e11 if self.platform == "cpu" else 5e13
        seconds = step_operations(self.spec.shape) / rate + 2e-5
        size = self.B * self.spec.shape.N * jnp.dtype(self.dtype).itemsize
        return int(max(1, min(self.per_epoch, SEGMENT_SECONDS / seconds, SEGMENT_BYTES / size)))

    def _segments(self, done: int, frame: DenseAM) -> Iterator[tuple[int, Columns]]:
        """Give the batches from a step on; the next ones are read meanwhile."""
        firsts: list[tuple[int, int]] = []
        for epoch in range(done // self.per_epoch, self.study.epochs):
            begin, end = epoch * self.per_epoch, (epoch + 1) * self.per_epoch
            firsts += [(t, min(t + self.T, end)) for t in range(max(begin, done), end, self.T)]
        with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="denseam-read") as pool:
            coming = [pool.submit(self._read, *ends) for ends in firsts[:2]]
            try:
                for i, (first, last) in enumerate(firsts):
                    clean = coming.pop(0).result()
                    if i + 2 < len(firsts):
                        coming.append(pool.submit(self._read, *firsts[i + 2]))
                    yield first, self._draw(clean, first, last - first, frame)
            finally:
                for future in coming:
                    future.cancel()

    def _read(self, first: int, last: int) -> Float[np.ndarray, "T B N"]:
        """Return the clean batches of steps first … last − 1, all of one epoch."""
        epoch, begin = first // self.per_epoch, first % self.per_epoch
        if getattr(self, "_order_of", None) != epoch:
            self._order, self._order_of = sample_order(self.spec.seed, epoch, self.P, self.B), epoch
        which = self._order[begin : begin + last - first]
        rows = self.source.rows(self.spec.shape, self.spec.seed, which.ravel(), self.dtype)
        return np.asarray(rows).reshape(*which.shape, -1)

    def _draw(self, clean: Any, first: int, steps: int, frame: DenseAM) -> Columns:
        keys = noise_keys(self.key, jnp.asarray(first, jnp.int32), steps)
        return self.on.batches(clean, keys, self.noise, frame.features)

    def _advance(
        self, at: _State, frame: DenseAM, optimizer: Optimizer, segment: Columns
    ) -> tuple[_State, Float[np.ndarray, " T"]]:
        with jax.default_matmul_precision(MATMUL[self.study.precision]):
            parameters, state, error = self.on.advance(at.parameters, at.optimizer, frame, optimizer, segment)
        return _State(parameters, state, at.step + len(error)), whole(error).astype(np.float64)

    def _heldout(self, model: DenseAM) -> float | None:
        """Return the MSE on samples that were not trained on."""
        fresh = np.asarray(self.source.heldout(self.spec.shape, self.spec.seed, self.dtype))
        n, size = len(fresh) // self.B, self.B
        if not len(fresh):
            return None
        if not n:
            n, size = 1, len(fresh)
        # The noise a sweep adds: one draw for all of them.
        drawn = jax.random.normal(stream(self.spec.seed, "heldout-noise"), fresh.shape, self.dtype)
        total = 0.0
        for i in range(n):
            piece = slice(i * size, (i + 1) * size)
            Y = jnp.asarray(fresh[piece])
            G = model.features.activation(Y + self.noise * drawn[piece])
            with jax.default_matmul_precision(MATMUL[self.study.precision]):
                columns = self.on.share(Columns(G.T[None], Y.T[None]))
                total += float(whole(_evaluate(model, columns))[0])
        return total / n

    # --- the curve ---------------------------------------------------------------------------------

    def _curve(self, epochs: int) -> Float[np.ndarray, " epochs"]:
        return np.asarray(self.losses[: epochs * self.per_epoch].reshape(epochs, -1).mean(axis=1))

    def _zero(self, epochs: int) -> float:
        return float(np.mean(self.squares[: epochs * self.per_epoch]))

    def _epoch_ended(self, epochs: int) -> None:
        curve, zero, e = self._curve(epochs), self._zero(epochs), self.expected
        room = None if e is None else (zero * float(e.low[epochs - 1]), zero * float(e.high[epochs - 1]))
        self.listener.epoch(epochs, float(curve[-1]), room)
        if e is None or room is None or self.left_at is not None:
            return
        side = e.leaves(curve.tolist(), zero)
        if side:
            self.left_at, self.left_side = epochs, side
            self.listener.left(epochs, float(curve[-1]), room, side)

    # --- files -------------------------------------------------------------------------------------

    def _prepare_folder(self) -> None:
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / f".probe-{os.getpid()}").write_bytes(b"x" * 4096)
            (self.out / f".probe-{os.getpid()}").unlink()
        except OSError as error:
            raise InputError(f"out {self.out}: cannot be written ({error.strerror})") from None

    def _save(self, at: _State) -> None:
        """Write the whole state of the training: whole, or not at all."""
        leaves = jax.tree.leaves(at.optimizer)
        tensors = {
            **{k: whole(v) for k, v in at.parameters._asdict().items()},
            **{f"optimizer.{i}": whole(leaf) for i, leaf in enumerate(leaves)},
            "losses": self.losses[: at.step],
            "squares": self.squares[: at.step],
            "noise_key": np.asarray(jax.random.key_data(self.key)),
        }
        document = {
            "kind": "training", "version": __version__, "run": self.spec.key, "seed": self.spec.seed,
            "step": at.step, "left_at": self.left_at, "left_side": self.left_side,
        }  # fmt: skip
        if self.writes:
            checkpoint.write(self.out / STATE, tensors, document)

    def _resume(self, parameters: Parameters, state: Any) -> _State:
        """Return the state of an earlier call in this folder, or the given one."""
        path = self.out / STATE
        if not path.exists():
            return _State(parameters, state, 0)
        tensors, document = checkpoint.read(path)
        if document.get("kind") != "training" or document.get("run") != self.spec.key:
            raise InputError(f"out {self.out}: holds the training of another model; take another folder")
        leaves, tree = jax.tree.flatten(state)
        try:
            if not np.array_equal(tensors["noise_key"], np.asarray(jax.random.key_data(self.key))):
                raise InputError(f"out {self.out}: its random keys are not those of seed {self.spec.seed}")
            moments = [np.asarray(tensors[f"optimizer.{i}"], leaf.dtype) for i, leaf in enumerate(leaves)]
            read = Parameters(*(np.asarray(tensors[k], self.dtype) for k in Parameters._fields))  # type: ignore[arg-type]
            step = int(document["step"])
            self.losses[:step], self.squares[:step] = tensors["losses"], tensors["squares"]
            self.left_at, self.left_side = document["left_at"], document["left_side"]
        except (KeyError, ValueError) as error:
            raise InputError(f"checkpoint {path}: damaged or foreign ({error})") from None
        return _State(*self.on.place(read, jax.tree.unflatten(tree, moments)), step)

    def _finish(self, model: DenseAM, heldout: float | None, seconds: float) -> Trained:
        """Write the model and the losses."""
        bad = ~np.isfinite(self.losses)
        diverged_at = int(np.argmax(bad)) if bad.any() else None
        filled = np.where(np.arange(self.steps) >= (self.steps if diverged_at is None else diverged_at),
                          np.inf, self.losses)  # fmt: skip
        curve = filled.reshape(self.study.epochs, self.per_epoch).mean(axis=1)
        if diverged_at is None and not curve[-1] <= self.losses[0]:
            diverged_at = self.steps - 1  # ended above where it began
        known = self.squares[np.isfinite(self.squares)]
        memory, files = None, [self.out / LOG]
        if diverged_at is None:
            scales = scales_of(self.study, self.spec)
            model = dataclasses.replace(model, scales=scales, activation=self._activation())
            memory = Memory(model, self.source.encoder(self.spec.shape.N), float(self.noise))
            files.insert(0, memory.save(self.out / MODEL) if self.writes else self.out / MODEL)
        result = Trained(
            memory=memory,
            status="finished" if diverged_at is None else "diverged",
            diverged_at=diverged_at,
            loss=curve,
            zero_mse=float(known.mean()),
            heldout_mse=heldout,
            left_at=self.left_at,
            left_side=self.left_side,
            expected=self.expected,
            seconds=seconds,
            operations=operations(self.spec.shape, self.study.epochs),
            files=tuple(files),
        )
        document = {"version": __version__, "run": self.spec.key, **result.to_json()}
        if self.writes:
            write_whole(self.out / LOG, json.dumps(document, indent=1, allow_nan=False).encode())
        return result

    def _activation(self) -> Any:
        """Return the activation with plain numbers, as a checkpoint keeps it."""
        from denseam.lagrangians import Softmax

        lagrangian = self.study.lagrangian
        return Softmax(self.spec.values["beta"]) if isinstance(lagrangian, Softmax) else lagrangian


class _OneDevice:
    """Training on the device at hand."""

    def __init__(self, platform: str) -> None:
        self._joined = platform == "cpu"

    def begin(self, build: _Build) -> tuple[tuple[Parameters, Any], DenseAM, Optimizer]:
        """Return initial parameters and state, the model without parameters, and the optimizer."""
        model, optimizer = build(None)
        start = model.parameters, optimizer.init(model.parameters)
        return start, model.without_parameters(), optimizer

    def place(self, parameters: Parameters, state: Any) -> tuple[Parameters, Any]:
        """Put what was read to where it belongs."""
        return jax.tree.map(jnp.asarray, (parameters, state))  # type: ignore[no-any-return]

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

    def gather(self, model: DenseAM) -> DenseAM:
        """Return the trained model."""
        return model


class _OnMesh:
    """Training on many devices: every array is made where it belongs, the compiler does the rest."""

    def __init__(self, placement: Placement) -> None:
        self._at = placement
        self._step: Any = None
        shared = Columns(placement.batches, placement.batches)  # type: ignore[arg-type]
        self._noisy = jax.jit(_noisy, out_shardings=shared)

    def begin(self, build: _Build) -> tuple[tuple[Parameters, Any], DenseAM, Optimizer]:
        # No device ever holds all of W: its rows are drawn where they stay. What is not a parameter has no
        # size, so it comes from a model of one memory.
        model, optimizer = build(Parameters(jnp.zeros((1, 1)), jnp.zeros(1), jnp.zeros(1)))
        begun = jax.jit(lambda: build(None)[0].parameters, out_shardings=self._at.parameters)
        start, frame = begun(), model.without_parameters()
        self._places = self._at.state(jax.eval_shape(optimizer.init, start))
        state = jax.jit(lambda p: optimizer.init(p), out_shardings=self._places)(start)
        return (start, state), frame, optimizer

    def place(self, parameters: Parameters, state: Any) -> tuple[Parameters, Any]:
        return self._at.put(parameters, self._at.parameters), self._at.put(state, self._places)

    def batches(self, clean: Any, keys: Array, noise: Array, features: Any) -> Columns:
        drawn: Columns = self._noisy(np.asarray(clean), keys, noise, features)
        return drawn

    def advance(self, *now: Any) -> tuple[Parameters, Any, Array]:
        if self._step is None:
            places = (self._at.parameters, self._places, self._at.everywhere, None)
            self._step = jax.jit(
                functools.partial(advance, joined="stacked"), out_shardings=places, donate_argnums=(0, 1)
            )
        parameters, state, error, _ = self._step(*now)
        return parameters, state, error

    def share(self, columns: Columns) -> Columns:
        return self._at.put(columns, Columns(self._at.everywhere, self._at.everywhere))  # type: ignore[arg-type, no-any-return]

    def gather(self, model: DenseAM) -> DenseAM:
        return model.with_parameters(Parameters(*map(whole, model.parameters)))  # type: ignore[arg-type]


def _noisy(clean: Array, keys: Array, noise: Array, features: Any) -> Columns:
    drawn = jax.vmap(lambda key, Y: Y + noise * jax.random.normal(key, Y.shape, Y.dtype))(keys, clean)
    return Columns(jnp.swapaxes(features.activation(drawn), -1, -2), jnp.swapaxes(clean, -1, -2))


_add_noise = jax.jit(_noisy)
_evaluate = jax.jit(evaluate)
_advance = jax.jit(advance, static_argnames=("joined", "probes"), donate_argnums=(0, 1))


@jax.jit
def _mean_square(batches: Array) -> Array:
    return jnp.mean(batches * batches, axis=(-1, -2))
