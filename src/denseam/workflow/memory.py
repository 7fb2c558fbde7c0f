"""A trained memory with the preparation of its data: recall in the values of the user's own files."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from denseam.data.encoder import Encoder
from denseam.data.raw import Raw
from denseam.data.reductions import Projection
from denseam.ground.errors import (
    AT_LEAST_0,
    FLAG,
    DataWarning,
    InputError,
    at_least_zero,
    named,
    read_entries,
    refuse,
    table_of,
    typed,
    whole,
)
from denseam.ground.files import ALONE, Writers
from denseam.model import checkpoint, pretrained, shared
from denseam.model.dense_am import DenseAM, Recall
from denseam.model.lagrangians import Elementwise, Softmax
from denseam.workflow.course import Hint, hint
from denseam.workflow.likeness import Difference, Reference, differences, unlike_training

#: The file of a memory in its folder.
MODEL = "memory.safetensors"
#: Maximum number of steps of recall of a memory that was trained to denoise in one: many lead to its own
#: attractors, which need not be near the sample.
STEPS = 10
#: Largest number of steps: the energy of every sample is kept for each.
MOST_STEPS = 100_000
#: Maximum size of the hidden states of the samples that are recalled at once, in bytes.
PIECE_BYTES = 1 << 28
#: Two states are one rest point if no entry differs by more than this times max(1, max|x|): a state that
#: counts as at rest may still be many of its small steps away from it.
SAME_POINT = 0.01
#: Index along recall of the start, of one step and of the end.
TIMES = {"start": 0, "once": 1, "end": -1}

#: What the document of a checkpoint says beside the model itself.
_ENTRIES = {
    "data": table_of().or_none(),
    "training": table_of({"square": AT_LEAST_0, "error": AT_LEAST_0}).or_none(),
    "noise": AT_LEAST_0.or_none(),
    "stored": FLAG.or_none(),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Memory:
    """A model, the preparation of its data, and the noise and the samples of its training.

    `model` acts on prepared samples; the methods here take and return samples as they are in files.
    `reference` is None if the model was saved by an earlier version, or not trained by `denseam train`.
    `stored` says that it was not trained at all, but stores patterns (`denseam memorize`).
    """

    model: DenseAM
    encoder: Encoder | None
    noise: float
    reference: Reference | None = None
    stored: bool = False

    def __post_init__(self) -> None:
        refuse(typed(DenseAM, "a DenseAM", model=self.model))

    @property
    def image(self) -> tuple[int, int, int] | None:
        """Height, width and channels of the images that the memory itself sees; None for vectors."""
        return self.encoder.reduction.image if self.encoder else None

    @property
    def features(self) -> int:
        """The number of features in the file on which the memory was trained."""
        return self.model.N if self.encoder is None else self.encoder.original

    def save(self, path: str | os.PathLike[str], writers: Writers = ALONE) -> Path:
        """Write a safetensors file, all writers together; `DenseAM.load` reads the model from it, too."""
        return checkpoint.write(path, *self.to_document(), writers)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Memory:
        """Read a file written by `save`, or a folder with one; folders of `save_pretrained` work too.

        A bare model has no encoder, so its samples must be prepared.
        """
        if isinstance(path, str | os.PathLike) and os.path.isdir(path):
            folder, path = path, Path(path) / MODEL
            if not path.exists() and pretrained.is_pretrained(folder):
                return cls.from_pretrained(folder)
        return cls._of_document(*checkpoint.read(path), path)

    def save_pretrained(
        self, folder: str | os.PathLike[str], *, facts: Mapping[str, str] | None = None
    ) -> Path:
        """Write a folder for the Hugging Face Hub (`DenseAM.save_pretrained`), with the preparation."""
        return pretrained.write_pretrained(folder, *self.to_document(), facts, type(self).__name__)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> Memory:
        """Read a folder of `save_pretrained`; that of a bare model gives a memory without an encoder."""
        return cls._of_document(*pretrained.read_pretrained(folder), folder)

    def to_document(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the memory as tensors and plain values."""
        tensors, document = self.model.to_document()
        document["noise"] = self.noise
        if self.stored:
            document["stored"] = True
        if self.reference is not None:
            document["training"] = dataclasses.asdict(self.reference)
        if self.encoder is not None:
            document["data"], mine = self.encoder.to_document()
            tensors |= {f"data.{k}": v for k, v in mine.items()}
        return tensors, document

    @classmethod
    def _of_document(
        cls, tensors: Mapping[str, Any], document: Mapping[str, Any], path: str | os.PathLike[str]
    ) -> Memory:
        """Read what `to_document` returned; errors name the path."""
        model = DenseAM.from_document(tensors, document, path)
        encoder = None
        with named(f"checkpoint {path}"):
            values = read_entries(document, _ENTRIES)
            if values["data"]:
                mine = {k.removeprefix("data."): v for k, v in tensors.items() if k.startswith("data.")}
                encoder = Encoder.from_document(values["data"], mine)
                if encoder.features != model.N:
                    raise InputError(f"its data has {encoder.features} features, its model {model.N}")
        samples = values["training"]
        reference = Reference(samples["square"], samples["error"]) if samples else None
        return cls(model, encoder, float(values["noise"] or 0.0), reference, bool(values["stored"]))

    # --- between files and states ------------------------------------------------------------------

    def encode(self, x: Any) -> Float[np.ndarray, "n N"]:
        """Return samples as the memory sees them.

        `x` has the features of the file on which the memory was trained, in its values; or those of the
        memory itself, if its data were shrunk: such samples are only centred and scaled.
        """
        array = np.asarray(x.array if isinstance(x, Raw) else x)
        e, rows = self.encoder, self._rows(array)
        unit = x.unit if isinstance(x, Raw) else 1.0 if e is None else e.unit
        with np.errstate(over="ignore"):  # gives infinity, which is refused
            values = np.asarray(rows, self.model.W.dtype) / unit
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise InputError(
                f"input must be finite, got {values[row, column]} at sample {row}, feature {column}"
            )
        if e is None:
            return values
        if values.shape[1] == e.original:
            return e.of_units(values)
        return np.asarray((values - e.reduction.reduce(e.mean[None])) / e.scale, values.dtype)

    def _rows(self, array: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
        """Return an array as samples × features, after checking its shape."""
        if array.ndim == 0 or not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
            raise InputError(f"input must be numbers, samples × features, got {array.dtype} of {array.shape}")
        if len(array) == 0:
            raise InputError(f"input must contain at least one sample, got shape {array.shape}")
        rows = array.reshape(len(array), -1) if array.ndim > 1 else array[None]
        if rows.shape[1] not in (self.features, self.model.N):
            raise InputError(f"input must have {self.expects()}, got {rows.shape[1]} ({array.shape})")
        image, own = None if self.encoder is None else self.encoder.image, (*array.shape[1:], 1)[:3]
        if image not in (None, own) and array.ndim > 2 and rows.shape[1] == self.features:
            raise InputError(f"input must have {self.expects()}, got images of {own[0]}×{own[1]}")
        return rows

    def decode(self, y: Any) -> Float[np.ndarray, "n N0"]:
        """Return states in the values of the file."""
        y = np.asarray(y)
        return y if self.encoder is None else self.encoder.decode(y)

    def expects(self) -> str:
        """Describe the samples that the memory takes."""
        e = self.encoder
        if e is None:
            return f"{self.model.N} features"
        shape = "" if e.image is None else f" ({e.image[0]}×{e.image[1]} images)"
        own = f", or {e.features} of the shrunk ones" if e.features != e.original else ""
        return f"{e.original} features{shape}{own}"

    def clamp(self, known: Any, rows: int) -> Bool[np.ndarray, "rows N"]:
        """Return which features of the memory are known, from a mask over those of the file.

        A block of pixels is known if all of its pixels are. Projections and norms mix all features, so that
        no single feature can be held: such memories take no mask.
        """
        shared.check_single("mask", self.model.features, Elementwise)
        mask, sizes = np.asarray(known), (self.features, self.model.N)
        flat = mask.reshape(1, -1) if mask.size in (0, 1, *sizes) else mask.reshape(len(mask), -1)
        if flat.shape[1] not in sizes or len(flat) not in (1, rows):
            raise InputError(
                f"mask must be true or false for each of {self.features} features, of all or of each sample, "
                f"got {mask.shape}"
            )
        if not (flat.dtype == bool or np.isin(flat, (0, 1, 255)).all()):
            raise InputError("mask must contain only true and false (or 1 and 0)")
        held = flat != 0
        if self.encoder is not None and isinstance(self.encoder.reduction, Projection):
            raise InputError(
                f"mask: this memory sees {self.encoder.reduction.kind} projections, in which no single "
                "feature can be held; train one with --shrink none"
            )
        if self.encoder is not None and held.shape[1] != self.model.N:
            held = self.encoder.reduction.reduce(held.astype(np.float32)) > 1 - 1e-6
        return np.broadcast_to(held, (rows, self.model.N))

    # --- recall ------------------------------------------------------------------------------------

    def recall(
        self,
        x: Any,
        *,
        steps: int | None = None,
        tolerance: float = 1e-5,
        damping: float | None = None,
        noise: float | Sequence[float] = 0.0,
        known: Any = None,
        seed: int = 0,
    ) -> list[Recalled]:
        """Recall samples as they are in files; return one result for each level of noise.

        Parameters
        ----------
        x
            Samples, in the values of the file on which the memory was trained.
        steps, tolerance, damping
            As in `DenseAM.recall`; by default the steps are those of the training, or at most 10 of size 1 if
            it was one update.
        noise
            Standard deviations of the noise to add first, in the units of training.
        known
            True where a feature is known and keeps its value; the others start at their mean. If the memory
            stores patterns by softmax, the first step ignores them (`DenseAM.complete`).
        seed
            The seed of the noise.

        A `DataWarning` is given if the samples are unlike those of training (`Recalled.differences`).
        """
        levels = [noise] if isinstance(noise, int | float) else list(noise)
        steps, damping = shared.steps_of_recall(self.model.steps, steps, damping, STEPS)
        refuse([*recall_problems(levels, steps, tolerance, damping), *whole(0, seed=seed)])
        clean = self.encode(x)
        held = None if known is None else self.clamp(known, len(clean))
        results = []
        for level in levels:
            rng = np.random.default_rng(seed)  # the same directions at every level
            added = np.float32(level) * rng.standard_normal(clean.shape, np.float32)
            start = clean + added if held is None else np.where(held, clean, added)
            results.append(self.recall_from(clean, start, level, held, steps, tolerance, damping))
        unlike = self.differences(clean)
        if unlike:
            warnings.warn(unlike_training(unlike), DataWarning, stacklevel=2)
        return [dataclasses.replace(result, differences=unlike) for result in results]

    def differences(self, clean: Float[np.ndarray, "n N"]) -> tuple[Difference, ...]:
        """Return how samples, as the memory sees them, differ from those of training."""
        known = self.reference
        return () if known is None else differences(known, self.model, self.noise, clean)

    def recall_from(
        self,
        clean: Float[np.ndarray, "n N"],
        start: Float[np.ndarray, "n N"],
        level: float = 0.0,
        held: Bool[np.ndarray, "n N"] | None = None,
        steps: int | None = None,
        tolerance: float = 1e-5,
        damping: float | None = None,
    ) -> Recalled:
        """Recall from `start`, and compare with `clean`; both as the memory sees them."""
        steps, damping = shared.steps_of_recall(self.model.steps, steps, damping, STEPS)
        refuse(recall_problems([level], steps, tolerance, damping))
        clean, start = (np.asarray(v, self.model.W.dtype) for v in (clean, start))
        size = max(1, PIECE_BYTES // (4 * (4 * self.model.K + steps)))
        free = np.ones(clean.shape, bool) if held is None else ~held
        parts, squares, cosines, moves = [], *np.zeros((3, steps + 1))
        for begin in range(0, len(start), size):
            piece = slice(begin, begin + size)
            mask = None if held is None else held[piece]

            def compare(t: int, state: Any, piece: slice = piece) -> None:
                a, b = (np.where(free[piece], v, 0).astype(np.float64) for v in (state, clean[piece]))
                squares[t] += np.sum((a - b) ** 2)
                norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
                cosines[t] += np.sum(np.sum(a * b, axis=1) / np.maximum(norms, 1e-30))

            state, once, rests = start[piece], start[piece], np.zeros(len(start[piece]), bool)
            first = np.asarray(self.model.energy(state))
            _check_energies(first, begin, level)
            energies = np.repeat(first[:, None], steps + 1, axis=1)
            taken = np.zeros(len(state), int)
            compare(0, state)
            for t in range(1, steps + 1):
                if not rests.all():
                    step = self._step(state, mask, t, tolerance, damping)
                    before, state = state, np.where(rests[:, None], state, np.asarray(step.state))
                    moves[t] += np.sum((state - before) ** 2, dtype=np.float64)
                    energies[~rests, t:] = np.asarray(step.energies)[~rests, 1:]
                    taken += ~rests
                    rests = rests | np.asarray(step.converged)
                once = state if t == 1 else once
                compare(t, state)
            parts.append((state, energies, taken, rests, once))
        state, energies, taken, rests, once = (np.concatenate(v) for v in zip(*parts, strict=True))
        errors = squares / max(1, int(free.sum()))
        moved = np.sqrt(moves / max(1, int(free.sum())))
        cosines /= len(clean)
        return Recalled(
            self, level, clean, start, once, state, energies, errors, cosines, moved, taken, rests, held
        )

    def _step(
        self, state: Float[np.ndarray, "n N"], mask: Any, t: int, tolerance: float, damping: float
    ) -> Recall:
        """Take step t of recall: the first one may complete stored patterns from what is known of them."""
        model = self.model
        if t > 1 or mask is None or not (self.stored and isinstance(model.activation, Softmax)):
            return model.recall(state, 1, tolerance, damping=damping, clamp=mask)
        completed = model.complete(state, mask)
        energies = jnp.stack([model.energy(state), model.energy(completed)], axis=-1)
        moving = jnp.zeros(len(state), bool)
        return Recall(completed, energies, jnp.ones(len(state), int), moving)


def _check_energies(energies: Float[np.ndarray, " n"], begin: int, level: float) -> None:
    """Refuse states that are so large that their energies, which hold squares, overflow."""
    wrong = np.flatnonzero(~np.isfinite(energies))
    if len(wrong):
        raise InputError(
            f"samples must be so small that {energies.dtype} can hold their energies, but the energy of "
            f"sample {begin + wrong[0]} is {energies[wrong[0]]} with noise {level:g}"
        )


def recall_problems(
    noise: Sequence[float],
    steps: int | None = None,
    tolerance: float = 0.0,
    damping: float | None = None,
) -> Iterator[str]:
    """Yield a problem for each number with which `Memory.recall` makes no sense."""
    if not len(noise):
        yield "noise must not be empty"
    for level in noise:
        yield from at_least_zero(noise=level)
    if isinstance(steps, int) and steps > MOST_STEPS:
        yield f"steps must be at most {MOST_STEPS}, got {steps}"
    yield from shared.recall_problems(*shared.steps_of_recall(None, steps, damping), tolerance)


@dataclasses.dataclass(frozen=True, eq=False)
class Recalled:
    """The result of recall at one level of noise; states are as the memory sees them.

    Attributes
    ----------
    clean, start, once, state
        The given samples, the states at the start, after one step, and after all steps.
    energies
        The energy of every sample, before the first and after every step.
    errors
        The mean squared difference from the given samples at the same times, over the features not held.
    cosines
        The mean cosine of the angle between a sample and its state, over the same features. It ignores
        contrast, which many steps increase.
    moved
        The root mean square of what every step changes, over the same features; 0 at the start.
    steps, converged
        The number of steps of each sample, and whether it is at rest.
    held
        True where a feature was known and kept its value; None if none was.
    differences
        How the given samples differ from those of training; empty if they do not, or if this is unknown.
    """

    memory: Memory
    noise: float
    clean: Float[np.ndarray, "n N"]
    start: Float[np.ndarray, "n N"]
    once: Float[np.ndarray, "n N"]
    state: Float[np.ndarray, "n N"]
    energies: Float[np.ndarray, "n T"]
    errors: Float[np.ndarray, " T"]
    cosines: Float[np.ndarray, " T"]
    moved: Float[np.ndarray, " T"]
    steps: np.ndarray[Any, np.dtype[Any]]
    converged: np.ndarray[Any, np.dtype[Any]]
    held: np.ndarray[Any, np.dtype[Any]] | None
    differences: tuple[Difference, ...] = ()

    @property
    def output(self) -> Float[np.ndarray, "n N0"]:
        """The final states in the values of the file."""
        return self.memory.decode(self.state)

    @property
    def largest_rise(self) -> float:
        """The largest rise of an energy in one step, relative to its largest size along the steps.

        Beyond rounding errors it should be 0. The energy of a stored pattern is nearly 0 itself.
        """
        rises, sizes = np.diff(self.energies, axis=1), np.max(np.abs(self.energies), axis=1, keepdims=True)
        return float(np.max(rises / np.maximum(1e-12, sizes), initial=0.0))

    @property
    def best_step(self) -> int:
        """The number of steps after which the error is least."""
        return int(np.argmin(self.errors))

    @property
    def at_rest(self) -> Float[np.ndarray, " T"]:
        """The share of samples at rest, before the first and after every step."""
        return np.asarray([np.mean(self.converged & (self.steps <= t)) for t in range(len(self.errors))])

    @property
    def rest_points(self) -> int:
        """The number of distinct states among those at rest (`SAME_POINT`)."""
        points: list[Any] = []
        for state in self.state[self.converged]:
            near = SAME_POINT * max(1.0, float(np.max(np.abs(state))))
            if not points or np.min(np.max(np.abs(np.asarray(points) - state), axis=1)) > near:
                points.append(state)
        return len(points)

    @property
    def hint(self) -> Hint | None:
        """How the error changed over the steps, and a remedy; None if nothing was added or hidden."""
        return hint(self)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a plain document."""
        advice = self.hint
        return {
            "noise": self.noise,
            "samples": len(self.state),
            **{f"error_{time}": float(self.errors[t]) for time, t in TIMES.items()},
            **{f"cosine_{time}": float(self.cosines[t]) for time, t in TIMES.items()},
            "best_step": self.best_step,
            "error_best": float(self.errors[self.best_step]),
            "energy_start": float(np.mean(self.energies[:, 0])),
            "energy_end": float(np.mean(self.energies[:, -1])),
            "largest_rise": self.largest_rise,
            "converged": int(self.converged.sum()),
            "rest_points": self.rest_points,
            "steps_mean": float(np.mean(self.steps)),
            "course": advice.course.value if advice else None,
            "hint": advice.describe() if advice else None,
        }
