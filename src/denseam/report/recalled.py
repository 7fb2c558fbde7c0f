"""The results of recall as files: arrays and pictures."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from denseam.ground.files import write_whole
from denseam.report.plots.recall import draw_recall
from denseam.workflow.memory import Recalled
from denseam.workflow.recalling import check_target, folder_of

#: Maximum number of samples with a picture of their own.
MOST_PICTURES = 200
#: Results of each level that are written as they are.
_ARRAYS = ("energies", "steps", "converged", "noise")


def write_recalled(results: Sequence[Recalled], out: str | os.PathLike[str]) -> list[Path]:
    """Write the results of recall; return the files.

    A `.npy` file gets the output alone: levels × samples × features, without the first axis if there is only
    one level. A `.npz` file, or `recalled.npz` in a folder, gets `output`, `start`, `energies`, `steps`,
    `converged` and `noise`. Values and shapes are those of the file on which the memory was trained. One
    picture of all levels is drawn beside them; a folder also gets a picture of each recalled image.
    """
    check_target(out)
    path, memory = Path(out), results[0].memory
    folder_of(path).mkdir(parents=True, exist_ok=True)
    image = None if memory.encoder is None else memory.encoder.image
    shape: tuple[int, ...] = () if image is None else image[:2] if image[2] == 1 else image

    def shaped(values: Any) -> np.ndarray[Any, Any]:
        stacked = np.stack([memory.decode(v) for v in values])
        return stacked.reshape(*stacked.shape[:2], *shape) if shape else stacked

    output = shaped([r.state for r in results])
    content = io.BytesIO()
    if path.suffix == ".npy":
        np.save(content, output[0] if len(results) == 1 else output)
        target = path
    else:
        arrays: dict[str, Any] = {"output": output, "start": shaped([r.start for r in results])}
        arrays |= {name: np.stack([getattr(r, name) for r in results]) for name in _ARRAYS}
        np.savez_compressed(content, **arrays)
        target = path if path.suffix else path / "recalled.npz"
    write_whole(target, content.getvalue())
    files = [target]
    folder, name = (path.parent, path.stem) if path.suffix else (path, "recall")
    files += draw_recall(results, folder, name)
    if not path.suffix and memory.image is not None:
        files += _pictures(results, folder)
    return files


def _pictures(results: Sequence[Recalled], folder: Path) -> list[Path]:
    """Write one PNG for each recalled image, in grey values from 0 to 255."""
    from matplotlib.image import imsave

    target = folder / "images"
    target.mkdir(exist_ok=True)
    for level, result in enumerate(results):
        encoder = result.memory.encoder
        assert encoder is not None
        pictures = np.clip(encoder.pictures(result.state[:MOST_PICTURES]), 0, 1)
        for i, picture in enumerate(pictures):
            grey = np.repeat(picture[..., :1], 3, axis=-1) if picture.shape[-1] != 3 else picture
            content = io.BytesIO()
            imsave(content, grey, format="png")
            write_whole(target / f"{level}-{i:04d}.png", content.getvalue())
    return [target]
