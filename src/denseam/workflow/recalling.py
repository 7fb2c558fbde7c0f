"""Recall from files: the choice of samples, and what is hidden of them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from denseam.data.arrays import held_out
from denseam.data.raw import Raw
from denseam.data.readers import read
from denseam.ground.errors import InputError, collecting, refuse, whole
from denseam.workflow.memory import Memory, Recalled, recall_problems

SIDES = ("top", "bottom", "left", "right")


def recall_file(
    checkpoint: str | os.PathLike[str],
    data: str,
    *,
    noise: Sequence[float] = (0.0,),
    mask: str | None = None,
    hide: str | None = None,
    heldout: bool = False,
    samples: int | None = None,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    **options: Any,
) -> list[Recalled]:
    """Recall samples from a file with a trained memory; return one result for each level of noise.

    Parameters
    ----------
    checkpoint
        The file written by `denseam train`.
    data
        The samples, as for `denseam tune`; in the values of the data on which the memory was trained.
    mask
        A file that is true where a feature is known: one mask for all samples, or one for each.
    hide
        Instead of a mask: 'top', 'bottom', 'left' or 'right' for half of an image, or a share of the
        features, chosen at random for each sample.
    heldout
        Whether to take only samples that were never trained on.
    out
        Where results will be written; only checked here, before any work.
    options
        As in `Memory.recall`.
    """
    problems = [*recall_problems(noise, **options), *whole(0, seed=seed)]
    if samples is not None:
        problems += whole(samples=samples)
    if mask is not None and hide is not None:
        problems.append("mask and hide mean the same; give only one of them")
    if out is not None:
        with collecting(problems):
            check_target(out)
    refuse(problems)
    memory = Memory.load(checkpoint)
    raw = chosen_samples(memory, data, heldout=heldout, samples=samples)
    known = None
    if mask is not None:
        known = _mask(mask)
    elif hide is not None:
        known = _known(memory, hide, raw.samples, seed)
    return memory.recall(raw, noise=noise, known=known, seed=seed, **options)


def _mask(path: str) -> np.ndarray[Any, Any]:
    """Read a mask; unlike samples it may be a single row."""
    try:
        alone = np.load(path, allow_pickle=False) if path.endswith(".npy") else None
    except (OSError, ValueError):
        alone = None  # `read` reports what is wrong with it
    return alone if alone is not None and alone.ndim == 1 else np.asarray(read(path).array)


def chosen_samples(
    memory: Memory, data: str, *, heldout: bool | None = False, samples: int | None = None
) -> Raw:
    """Return the chosen samples of a file.

    `heldout` takes only samples that were never trained on, which are known if the memory was trained on this
    file; None takes them if they are known, and all samples otherwise.
    """
    raw = read(data)
    if samples is not None:
        refuse(whole(samples=samples))
    which: Any = np.arange(raw.samples)
    e = memory.encoder
    own = e is not None and raw.has_digest(e.digest.partition(" ")[0])
    held = held_out(raw.samples, e.heldout) if e is not None and own else which[:0]
    if heldout and not len(held):
        why = "none of its samples was held out" if own else "this memory was not trained on it"
        raise InputError(f"heldout: {data}: {why}")
    if heldout is not False and len(held):
        which = held
    if samples is not None and samples < len(which):
        # Spread over the file: many are sorted by class.
        which = which[np.linspace(0, len(which) - 1, samples).round().astype(int)]
    return dataclasses.replace(raw, array=raw.array[which])


def _known(memory: Memory, hide: str, rows: int, seed: int) -> np.ndarray[Any, Any]:
    if hide in SIDES:
        image = None if memory.encoder is None else memory.encoder.image
        if image is None:
            raise InputError(f"hide {hide!r} is for images; for vectors give a share, as in 0.3")
        known = np.ones(image, bool)
        height, width, _ = image
        half: Any = {
            "top": np.s_[: height // 2], "bottom": np.s_[height - height // 2 :],
            "left": np.s_[:, : width // 2], "right": np.s_[:, width - width // 2 :],
        }[hide]  # fmt: skip
        known[half] = False
        return known.ravel()
    try:
        share = float(hide)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise InputError(f"hide must be 'top', 'bottom', 'left', 'right' or a share below 1, got {hide!r}")
    return np.random.default_rng(seed + 1).random((rows, memory.features)) >= share


def check_target(out: str | os.PathLike[str]) -> None:
    """Refuse a place to which results cannot be written."""
    path = Path(out)
    if path.suffix and path.suffix not in (".npz", ".npy"):
        raise InputError(f"out must be a folder, or a file that ends in .npz or .npy, got {str(out)!r}")
    folder = folder_of(path)
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if path.suffix and path.is_dir():
        raise InputError(f"out {out}: is a folder; give the name of a file in it")
    if not existing.is_dir():
        raise InputError(f"out {out}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"out {out}: cannot be written (no permission in {existing})")


def folder_of(out: Path) -> Path:
    """Return the folder of the results: `out` itself, or the folder of the file."""
    return out.parent if out.suffix else out
