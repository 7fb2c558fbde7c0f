"""Train one large model: batches are read as they are needed, and the whole state is saved regularly.

The run is the one that a sweep would train at this size, with the same initial weights, batches and noise.
But its samples are never all in memory (a thread reads the next batches while the device works), all cores
work on one model, and the state of the training is on disk: parameters, moments, step, random keys, losses.
A run that was killed resumes from its last state and ends with the same model.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from denseam import __version__
from denseam.analysis.prediction import Expected
from denseam.data.sources import Source
from denseam.ground.errors import InputError, collecting, refuse, typed
from denseam.ground.files import ALONE, write_whole
from denseam.model import checkpoint
from denseam.model.dense_am import DenseAM, Parameters
from denseam.model.steps import Steps
from denseam.model.streams import stream
from denseam.rules.cost import recomputes
from denseam.studies.documents import to_document
from denseam.studies.records import settings_of
from denseam.studies.runs import activation_of, build, scales_of
from denseam.studies.study import RunSpec, Study, decays
from denseam.training.batches import View, mean_square, noise_keys, sample_order
from denseam.training.devices import check_precision, dtype_of, memory, numbers, platform_of, products
from denseam.training.divergence import ending
from denseam.training.matrices import Batch
from denseam.training.mesh import Placement, check_mesh_of_processes, gathered, make_mesh, parse_mesh
from denseam.training.optimizers import Optimizer
from denseam.training.places import OneDevice, OnMesh, named
from denseam.training.processes import as_the_first_says, check_folder, joined_processes, largest, writers
from denseam.training.progress import Progress
from denseam.training.run import evaluate
from denseam.training.stopping import Stop, looking, signal_of
from denseam.workflow.likeness import Reference
from denseam.workflow.memory import MODEL as MODEL
from denseam.workflow.memory import Memory
from denseam.workflow.recipe import Origin, Recipe

STATE, LOG = "state.safetensors", "training.json"
#: Seconds between saves of the state; saving takes at most a tenth of the time.
SAVE_SECONDS = 20.0
#: Bytes of the batches that are read at once.
SEGMENT_BYTES = 1 << 23
SEGMENT_SECONDS = 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
    """The result of training the target.

    Attributes
    ----------
    eta0, eta0_from, tuned_eta0
        The learning rate, whether it was tuned or given, and the one that a search has forecast (or None).
    regret_bound
        The forecast's bound on its cost against the best one; None without a forecast or without a bound.
    loss
        The mean MSE of every epoch.
    initial_mse
        The MSE of the untrained model on the last epoch's batches; None if the loss became non-finite.
    left_at
        The epoch after which the loss was first outside the range that the small models predict; or None.
    recalls
        Whether the memory was trained through steps of recall, which recall then takes by default.
    """

    status: str
    diverged_at: int | None
    eta0: float
    eta0_from: Origin
    tuned_eta0: float | None
    regret_bound: float | None
    loss: Float[np.ndarray, " epochs"]
    initial_mse: float | None
    zero_mse: float
    heldout_mse: float | None
    left_at: int | None
    left_side: str
    expected: Expected | None
    seconds: float
    operations: float
    noise: float
    float64: bool
    files: tuple[Path, ...]
    recalls: bool = False

    @functools.cached_property
    def memory(self) -> Memory | None:
        """The trained memory, read from its file (which must still exist); None if it diverged."""
        if self.status == "diverged":
            return None
        with jax.enable_x64(True) if self.float64 else contextlib.nullcontext():
            return Memory.load(self.files[0])

    @property
    def final_mse(self) -> float:
        """The mean MSE of the last epoch."""
        return float(self.loss[-1])

    @property
    def predicted_mse(self) -> tuple[float, float] | None:
        """The range of the final MSE that the small models predict; None if they predict none."""
        if self.expected is None:
            return None
        return self.zero_mse * float(self.expected.low[-1]), self.zero_mse * float(self.expected.high[-1])

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""

        def number(value: float | None) -> float | None:
            return value if value is not None and math.isfinite(value) else None

        return {
            "status": self.status,
            "diverged": self.status == "diverged",
            "diverged_at": self.diverged_at,
            "eta0": self.eta0,
            "eta0_from": self.eta0_from.value,
            "tuned_eta0": self.tuned_eta0,
            "regret_bound": self.regret_bound,
            "initial_mse": number(self.initial_mse),
            "final_mse": number(self.final_mse),
            "heldout_mse": number(self.heldout_mse),
            "zero_mse": number(self.zero_mse),
            "predicted_mse": None if self.predicted_mse is None else [*map(number, self.predicted_mse)],
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
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    device: Any = None,
    mesh: str | Mapping[str, int] | None = None,
) -> Trained:
    """Train the model of a recipe; with the same folder, a killed training resumes.

    Parameters
    ----------
    recipe
        From `tune(…).recipe`, or `read_recipe(folder)`; or without a search `Recipe(goal(…).study, eta0)`,
        or `Recipe(target_study(…), eta0)` if the target is too small to be tuned at smaller sizes.
    out
        The folder for the model (`memory.safetensors`), the state of the training and its losses.
    scale
        Another size of the family instead of the target.
    seed
        The seed of initial weights, batches and noise.
    progress
        Receives the progress, and a warning when the loss leaves the predicted range.
    stop
        When set, training ends as with Ctrl-C: the state is saved, and `KeyboardInterrupt` is raised.
    device
        The device; by default the first one.
    mesh
        Several devices instead, as in ``memories=4,batch=2`` (`denseam.training.mesh`); those of all
        processes that `jax.distributed` joins. A training may resume on another mesh.
    """
    refuse(typed(Recipe, "a Recipe, from tune(…).recipe or read_recipe(…)", recipe=recipe))
    study, spec = recipe.run(scale, seed)
    placement = None
    if mesh is not None:
        sizes = parse_mesh(mesh) if isinstance(mesh, str) else dict(mesh)
        placement = Placement(make_mesh(sizes, spec.shape))
        device = device or jax.local_devices()[0]
    check_mesh_of_processes(None if placement is None else placement.mesh)
    device = device or jax.devices()[0]
    check_precision(study.precision, platform_of(device))
    progress = progress or Progress()
    with joined_processes(), jax.default_device(device), numbers(study.precision):
        return _Training(recipe, study, spec, Path(out), progress, device, placement, stop).run()


class _State(NamedTuple):
    """Everything that a step changes."""

    parameters: Parameters
    optimizer: Any
    step: int


class _Training:
    """One run, from its current state."""

    def __init__(
        self,
        recipe: Recipe,
        study: Study,
        spec: RunSpec,
        out: Path,
        progress: Progress,
        device: Any,
        placement: Placement | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self.recipe, self.study, self.spec, self.out = recipe, study, spec, out
        at_target = spec.scale == recipe.target
        self.expected = recipe.expected if at_target else None
        self.regret_bound = recipe.regret_bound if at_target else None
        self.progress, self.device, self.platform, self.stop = progress, device, platform_of(device), stop
        self.writers = writers()
        self.dtype = dtype_of(study.precision)
        size = jnp.dtype(self.dtype).itemsize
        recompute = recomputes(spec.shape, study.optimizer, memory(self.platform), size)
        self.on = (
            OneDevice(self.platform, recompute=recompute)
            if placement is None
            else OnMesh(placement, recompute=recompute)
        )
        self.source: Source = study.source()
        assert spec.shape.P is not None
        assert spec.shape.B is not None
        self.P, self.B = spec.shape.P, spec.shape.B
        self.per_epoch, self.steps = self.P // self.B, study.updates(spec.shape)
        self.epochs = study.epochs_at(spec.shape)
        self.T = self._segment_steps()
        self.noise = jnp.asarray(spec.values["noise"], self.dtype)
        self.key = stream(spec.seed, "noise")
        self.losses = np.full(self.steps, np.nan)
        self.squares = np.full(self.steps, np.nan)  # of the clean batches: the loss of predicting zero
        self.left_at: int | None = None
        self.left_side = ""

    def run(self) -> Trained:
        check_folder(self.out)  # and clear it: a killed save may have left a file as large as the model
        began, saved, saving = time.perf_counter(), time.perf_counter(), 0.0
        frame, optimizer = self.on.begin(lambda start: build(self.study, self.spec, start, self.dtype))
        saved_before = as_the_first_says((self.out / STATE).exists())
        at = self._resume() if saved_before else _State(*self.on.draw(), 0)
        self.progress.training_described(settings_of(self.study, self.spec))
        self.progress.training_begins(self._name(), self.steps, self.epochs, at.step)
        alive, all_stop = True, False
        try:
            with looking(self.stop):
                for first, segment in self._segments(at.step, frame):
                    at, error = self._advance(at, frame, optimizer, segment)
                    self.losses[first : at.step] = error
                    self.squares[first : at.step] = gathered(mean_square(segment.Y))
                    self.progress.training_advanced(at.step, float(np.mean(error)))
                    alive = bool(np.isfinite(error).all())
                    if not alive:
                        break
                    if at.step % self.per_epoch == 0:
                        self._epoch_ended(at.step // self.per_epoch)
                    all_stop = self._asked_to_stop()
                    if all_stop:
                        raise KeyboardInterrupt
                    now = time.perf_counter()
                    if as_the_first_says(now - saved > max(SAVE_SECONDS, 10 * saving)):
                        self._save(at)
                        saving, saved = time.perf_counter() - now, time.perf_counter()
        except KeyboardInterrupt:
            # In the middle of a step its arrays are gone, but the last saved state is not. Of several
            # processes only this one may have been interrupted: the others would not join in saving.
            if all_stop or self.writers is ALONE:
                with contextlib.suppress(RuntimeError):
                    self._save(at)
            raise
        finally:
            self.progress.training_ends()
        if alive:
            self._save(at)
        model = frame.with_parameters(at.parameters)
        del at  # frees the optimizer's state: the untrained parameters need memory
        initial = self._initial(frame) if alive else None
        heldout = self._heldout(model) if alive else None
        return self._finish(model, initial, heldout, time.perf_counter() - began)

    def _name(self) -> str:
        """Return what is trained, and whether anything is known of how it should go."""
        origin = self.recipe.origin.value
        known = origin if self.expected is not None else f"{origin}; no loss curve is predicted"
        return f"{self.study.name} at {self.spec.shape}, eta0 = {self.recipe.eta0:.3g} ({known})"

    def _asked_to_stop(self) -> bool:
        """Return whether any of the processes was asked to stop; all of them learn by which signal."""
        number = largest(signal_of(self.stop))
        if number and isinstance(self.stop, Stop):
            self.stop.ask(number)
        return number > 0

    # --- batches -----------------------------------------------------------------------------------

    def _segment_steps(self) -> int:
        """Return the number of steps that are read and taken at once, within an epoch."""
        rate = 1e11 if self.platform == "cpu" else 5e13
        seconds = self.study.step_operations(self.spec.shape) / rate + 2e-5
        size = self.B * self.spec.shape.N * jnp.dtype(self.dtype).itemsize
        return int(max(1, min(self.per_epoch, SEGMENT_SECONDS / seconds, SEGMENT_BYTES / size)))

    def _segments(self, done: int, frame: DenseAM) -> Iterator[tuple[int, Batch]]:
        """Give the batches from step `done` on; the next ones are read meanwhile."""
        pieces: list[tuple[int, int]] = []
        for epoch in range(done // self.per_epoch, self.epochs):
            begin, end = epoch * self.per_epoch, (epoch + 1) * self.per_epoch
            pieces += [(t, min(t + self.T, end)) for t in range(max(begin, done), end, self.T)]
        with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="denseam-read") as pool:
            coming = [pool.submit(self._read, *piece) for piece in pieces[:2]]
            try:
                for i, (first, last) in enumerate(pieces):
                    clean = coming.pop(0).result()
                    if i + 2 < len(pieces):
                        coming.append(pool.submit(self._read, *pieces[i + 2]))
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
        # The thread that reads does not inherit these.
        with jax.default_device(self.device), numbers(self.study.precision):
            rows = self.source.rows(self.spec.shape, self.spec.seed, which.ravel(), self.dtype)
        return np.asarray(rows).reshape(*which.shape, -1)

    def _draw(self, clean: Any, first: int, steps: int, frame: DenseAM) -> Batch:
        keys = noise_keys(self.key, jnp.asarray(first, jnp.int32), steps)
        return self.on.batches(clean, keys, self.noise, self._view(frame))

    def _view(self, model: DenseAM) -> View:
        """Return how training sees its batches."""
        return View.of(model, self.study.hidden(self.spec.shape), self.study.hide_by)

    def _advance(
        self, at: _State, frame: DenseAM, optimizer: Optimizer, segment: Batch
    ) -> tuple[_State, Float[np.ndarray, " T"]]:
        with products(self.study.precision):
            parameters, state, error = self.on.advance(at.parameters, at.optimizer, frame, optimizer, segment)
        return _State(parameters, state, at.step + len(error)), gathered(error).astype(np.float64)

    def _initial(self, frame: DenseAM) -> float:
        """Return the MSE of the untrained model on the last epoch's batches.

        It is evaluated at the end, so that interruptions do not change it and nothing about it must be saved.
        """
        model, errors = frame.with_parameters(self.on.untrained()), []
        for _, segment in self._segments(self.steps - self.per_epoch, frame):
            with products(self.study.precision):
                errors.append(gathered(_evaluate(model, segment)))
        return float(np.mean(np.concatenate(errors)))

    def _heldout(self, model: DenseAM) -> float | None:
        """Return the MSE on held-out samples; None if there are none."""
        fresh = np.asarray(self.source.heldout(self.spec.shape, self.spec.seed, self.dtype))
        n, size = len(fresh) // self.B, self.B
        if not len(fresh):
            return None
        if not n:
            n, size = 1, len(fresh)
        # The same noise as in a sweep: one draw for all samples.
        key = stream(self.spec.seed, "heldout-noise")
        batches = self._view(model).cut(jnp.asarray(fresh), key, self.noise, n, size)
        total = 0.0
        for i in range(n):
            batch = jax.tree.map(lambda V, i=i: V[i : i + 1], batches)
            with products(self.study.precision):
                total += float(gathered(_evaluate(model, self.on.share(batch)))[0])
        return total / n

    def _epoch_ended(self, epochs: int) -> None:
        steps = epochs * self.per_epoch
        curve = self.losses[:steps].reshape(epochs, -1).mean(axis=1)
        zero, e = float(np.mean(self.squares[:steps])), self.expected
        band = None if e is None else (zero * float(e.low[epochs - 1]), zero * float(e.high[epochs - 1]))
        self.progress.epoch_ended(epochs, float(curve[-1]), band)
        if e is None or band is None or self.left_at is not None:
            return
        side = e.leaves(curve.tolist(), zero)
        if side:
            self.left_at, self.left_side = epochs, side
            self.progress.left_expected(epochs, float(curve[-1]), band, side)

    # --- files -------------------------------------------------------------------------------------

    def _check_data(self) -> None:
        if self.study.source().digest != self.source.digest:
            raise InputError(f"data {self.study.data}: changed during the training; start in another folder")

    def _save(self, at: _State) -> None:
        """Write the state of the training, completely or not at all."""
        self._check_data()
        tensors = {
            **named(at.parameters, at.optimizer),
            "losses": self.losses[: at.step],
            "squares": self.squares[: at.step],
            "noise_key": np.asarray(jax.random.key_data(self.key)),
        }
        document = {
            "kind": "training", "version": __version__, "run": self.spec.key, "seed": self.spec.seed,
            "eta0": self.recipe.eta0,
            "step": at.step, "left_at": self.left_at, "left_side": self.left_side,
        }  # fmt: skip
        checkpoint.write(self.out / STATE, tensors, document, self.writers)

    def _resume(self) -> _State:
        """Return the state that an earlier call saved in this folder."""
        with checkpoint.opened(self.out / STATE) as file:
            self._verify(file)
            return self._resume_from(file)

    def _verify(self, file: checkpoint.Opened) -> None:
        """Let the first process check the whole file, of which each process reads only its own part."""
        problems: list[str] = []
        if self.writers.first:
            with collecting(problems):
                file.verify()
        if not self.writers.all_well(not problems):
            raise InputError(*(problems or [f"checkpoint {self.out / STATE}: damaged"]))

    def _resume_from(self, file: checkpoint.Opened) -> _State:
        document = file.document
        if document.get("kind") != "training" or document.get("run") != self.spec.key:
            raise InputError(self._other_training(document))
        try:
            if not np.array_equal(file.read("noise_key"), np.asarray(jax.random.key_data(self.key))):
                raise InputError(f"out {self.out}: its random keys are not those of seed {self.spec.seed}")
            step = int(document["step"])
            if not self.writers.all_well(step == as_the_first_says(step)):
                raise InputError(f"out {self.out}: processes see different states in it; run it again")
            self.losses[:step], self.squares[:step] = file.read("losses"), file.read("squares")
            self.left_at, self.left_side = document["left_at"], document["left_side"]
            return _State(*self.on.read(file), step)
        except InputError:
            raise
        except (KeyError, ValueError) as error:
            raise InputError(f"checkpoint {self.out / STATE}: damaged or foreign ({error})") from None

    def _other_training(self, document: Mapping[str, Any]) -> str:
        """Return what the saved training differs in: the learning rate alone, or the model."""
        before = document.get("eta0")  # states of earlier versions have none
        if isinstance(before, float):
            (spec,) = dataclasses.replace(self.study, eta0=(before,)).runs()
            if spec.key == document.get("run"):
                return (
                    f"eta0 must be {before!r}, with which the training in {self.out} began, got "
                    f"{self.recipe.eta0!r}; use another folder for another value"
                )
        return f"out {self.out}: contains the training of another model; use another folder"

    def _finish(
        self, model: DenseAM, initial: float | None, heldout: float | None, seconds: float
    ) -> Trained:
        """Write the model and the losses."""
        self._check_data()
        losses = self.losses.reshape(self.epochs, self.per_epoch)
        known = self.squares[np.isfinite(self.squares)]
        forgotten = float(known.mean()) if decays(self.spec.values) else None
        end = ending(losses, math.nan if initial is None else initial, forgotten)
        files = [self.out / LOG]
        if end.status == "finished":
            scales = scales_of(self.study, self.spec)
            model = dataclasses.replace(
                model,
                scales=scales,
                activation=activation_of(self.study, self.spec),
                features=self.study.features,
                steps=Steps(self.spec.shape.T, scales.step) if self.study.recalls(self.spec.shape) else None,
            )
            error = end.curve[-1].mean() if heldout is None else heldout
            reference = Reference(square=_short(known.mean()), error=_short(error))
            encoder = self.source.encoder(self.spec.shape.N)
            memory = Memory(model, encoder, float(self.noise), reference)
            files.insert(0, memory.save(self.out / MODEL, self.writers))
        result = Trained(
            status=end.status,
            diverged_at=end.diverged_at,
            eta0=self.recipe.eta0,
            eta0_from=self.recipe.origin,
            tuned_eta0=self.recipe.tuned_eta0,
            regret_bound=self.regret_bound,
            loss=end.curve.mean(axis=1),
            initial_mse=initial,
            zero_mse=float(known.mean()),
            heldout_mse=heldout,
            left_at=self.left_at,
            left_side=self.left_side,
            expected=self.expected,
            seconds=seconds,
            operations=self.study.operations(self.spec.shape),
            noise=float(self.noise),
            float64=self.dtype == jnp.float64,
            files=tuple(files),
            recalls=self.study.recalls(self.spec.shape),
        )
        trained = {"version": __version__, "run": self.spec.key, "study": to_document(self.study)}
        document = trained | result.to_json()
        if self.writers.first:
            write_whole(self.out / LOG, json.dumps(document, indent=1, allow_nan=False).encode())
        self.progress.training_finished(result.to_json())
        return result


def _short(value: float) -> float:
    """Return six digits, on which all processes that write one file agree."""
    return float(f"{value:.6g}")


_evaluate = jax.jit(evaluate)
