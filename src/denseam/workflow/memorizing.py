"""Store the samples of a file as patterns, without training, and try how well they are recalled."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from denseam import __version__
from denseam.data.encoder import Encoder
from denseam.data.raw import Raw
from denseam.data.readers import read
from denseam.data.reductions import Whole
from denseam.ground.errors import InputError, named, path_of
from denseam.ground.files import make_folder, write_whole
from denseam.model import patterns
from denseam.model.dense_am import DenseAM
from denseam.model.lagrangians import Lagrangian, ReLU, Softmax, to_json
from denseam.model.patterns import Spacing, as_patterns, recalled, store
from denseam.rules import Shape
from denseam.training.mesh import Placement, make_mesh, parse_mesh
from denseam.workflow.memory import MODEL, Memory, Recalled
from denseam.workflow.storing import Storing

LOG = "memorized.json"
#: Numbers of a file that are read at a time.
_PIECE = 1 << 22


@dataclasses.dataclass(frozen=True)
class Trial:
    """How stored patterns were recalled from cues of one kind.

    Attributes
    ----------
    noise, hidden
        The noise that was added, and the share of the features that was hidden.
    cues, recalled
        The number of patterns, and the share that came back: no feature is off by more than half a standard
        deviation of the patterns.
    error
        The mean squared error at the end, per feature that was not known.
    steps, at_rest
        The mean number of steps, and the share of the states that are at rest.
    """

    noise: float
    hidden: float
    cues: int
    recalled: float
    error: float
    steps: float
    at_rest: float


@dataclasses.dataclass(frozen=True, eq=False)
class Memorized:
    """Stored patterns.

    Attributes
    ----------
    memory
        The memory, which recalls in the values of the file.
    origin
        Where the patterns came from.
    spacing
        How far they are apart, and the β that follows; None for ReLU^p.
    capacity
        For ReLU^p, about how many random patterns of signs could be stored; None for softmax.
    trials
        How patterns were recalled: as they are, from noise, and with hidden features.
    files
        The files that were written.
    """

    memory: Memory
    origin: str
    spacing: Spacing | None
    capacity: float | None
    trials: tuple[Trial, ...]
    files: tuple[Path, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a plain document."""
        model = self.memory.model
        return {
            "data": self.origin,
            "patterns": model.K,
            "features": model.N,
            "activation": to_json(model.activation),
            "spacing": None if self.spacing is None else self.spacing.to_json(),
            "capacity": self.capacity,
            "trials": [dataclasses.asdict(trial) for trial in self.trials],
        }


def memorize(data: str, out: str | os.PathLike[str] | None = None, **options: Any) -> Memorized:
    """Store the samples of a file as patterns, and test how well they are recalled.

    Parameters
    ----------
    data
        The patterns, as for `denseam tune`. They are centred, so that a hidden feature starts at its mean.
    out
        A folder for `memory.safetensors`, which `denseam recall` reads, and `memorized.json`.
    options
        The fields of `Storing`.
    """
    storing = Storing(**options)
    folder = None if out is None else path_of("out", out)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"out {folder}: is not a folder")
    raw = read(data)
    with named(f"data {raw.origin}"):
        encoder = _encoder(raw, storing.unit_variance)
        W = as_patterns(_encoded(raw, encoder))
        if storing.mesh is not None:
            mesh = make_mesh(parse_mesh(storing.mesh), Shape(N=W.shape[1], K=W.shape[0]))
            place = Placement(mesh)
            W = place.put(W, place.parameters.W)
        sigma = _lagrangian(storing)
        parts = store(W, sigma, noise=storing.noise, tolerance=storing.tolerance)
    memory = Memory(DenseAM.storing(W, parts), encoder, storing.noise, stored=True)
    most = patterns.capacity(memory.model.N, sigma.power) if isinstance(sigma, ReLU) else None
    result = Memorized(memory, raw.origin, parts.spacing, most, tuple(_trials(memory, raw, storing)))
    return result if folder is None else _written(result, folder)


def _lagrangian(storing: Storing) -> Lagrangian | None:
    """Return the activation; None for softmax with the β that follows from the patterns."""
    if storing.activation == "relu":
        return ReLU(2 if storing.power is None else storing.power)
    return None if storing.softmax_beta is None else Softmax(storing.softmax_beta)


def _written(result: Memorized, folder: Path) -> Memorized:
    make_folder(folder)
    model = result.memory.save(folder / MODEL)
    document = {"version": __version__, **result.to_json()}
    try:
        write_whole(folder / LOG, json.dumps(document, indent=1, allow_nan=False).encode())
    except OSError:
        (folder / LOG).unlink(missing_ok=True)  # that of an earlier memory does not describe this one
        raise
    return dataclasses.replace(result, files=(model, folder / LOG))


def _encoder(raw: Raw, unit_variance: bool) -> Encoder:
    """Return the transformation that centres the samples, and makes their mean variance 1 if asked to."""
    total, squares = np.zeros(raw.features), 0.0
    for first, x in _pieces(raw):
        if not np.isfinite(x).all():
            row, column = np.argwhere(~np.isfinite(x))[0]
            raise InputError(
                f"patterns must be finite, got {x[row, column]} in pattern {first + row}, feature {column}"
            )
        total += x.sum(axis=0)
    mean = total / raw.samples
    for _, x in _pieces(raw):
        with np.errstate(over="ignore"):
            squares += float(np.sum((x - mean) ** 2))
    if not np.isfinite(squares):
        raise InputError("patterns must be so small that float64 can hold the sum of their squares")
    variance = squares / (raw.samples * raw.features)
    scale = float(np.sqrt(variance)) if unit_variance and variance > 0 else 1.0
    digest = f"{raw.digest} none unit_variance={unit_variance} heldout=0"
    return Encoder(Whole(raw.features, raw.image), mean, scale, raw.unit, raw.image, raw.origin, digest, 0.0)


def _pieces(raw: Raw) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
    rows = max(1, _PIECE // raw.features)
    for first in range(0, raw.samples, rows):
        yield first, raw.rows(slice(first, first + rows), np.float64)


def _encoded(raw: Raw, encoder: Encoder) -> np.ndarray[Any, Any]:
    W = np.empty((raw.samples, raw.features), np.float32)
    for first, x in _pieces(raw):
        W[first : first + len(x)] = encoder.of_units(x)
    return W


def _trials(memory: Memory, raw: Raw, storing: Storing) -> Iterator[Trial]:
    """Recall some patterns as they are, with noise if there is any, and with hidden features."""
    if not storing.cues:
        return
    count = min(storing.cues, raw.samples)
    which = np.linspace(0, raw.samples - 1, count).round().astype(int)
    some = dataclasses.replace(raw, array=raw.array[which])
    levels = [0.0, storing.noise] if storing.noise else [0.0]
    for result in memory.recall(some, noise=levels, seed=storing.seed):
        yield _trial(result, 0.0)
    if storing.hide:
        draws = np.random.default_rng(storing.seed + 1).random((count, raw.features))
        (result,) = memory.recall(some, known=draws >= storing.hide)
        yield _trial(result, storing.hide)


def _trial(result: Recalled, hidden: float) -> Trial:
    W = result.memory.model.W
    deviation = float(jnp.sqrt(jnp.mean(W * W)))  # of centred patterns
    back = recalled(result.state, result.clean, deviation)
    return Trial(
        result.noise, hidden, len(back), float(back.mean()), float(result.errors[-1]),
        float(result.steps.mean()), float(result.converged.mean()),
    )  # fmt: skip
