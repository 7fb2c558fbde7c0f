"""What figures need of trained memories, and not of records: only what drawing needs is kept.

`Examples` are two memories of one family, compared on the same corrupted images (fig. mnist-examples).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from denseam.data.arrays import held_out
from denseam.data.readers import read
from denseam.ground.errors import InputError
from denseam.paper.measurement import Measurement
from denseam.paper.readings import Reading
from denseam.paper.settings import Setting
from denseam.paper.sizes import Size
from denseam.training.progress import Progress
from denseam.workflow.agreement import consistency
from denseam.workflow.recipe import Recipe
from denseam.workflow.target import train_target

MEMORIES = "memories"


@dataclasses.dataclass(frozen=True)
class OfMemories(Measurement):
    """Numbers and pictures made with memories of a setting that has one learning rate."""

    setting: Setting

    def scales(self, size: Size) -> tuple[int, ...]:
        """Return the sizes of the memories."""
        raise NotImplementedError

    @property
    def pinned(self) -> bool:
        """Whether its setting is trained in one reading alone."""
        return self.setting.pinned is not None

    def key(self, size: Size, reading: Reading) -> str:
        """Return a hash of everything that changes the result."""
        parts: list[Any] = [self.recipe(size, reading).run(scale)[1].key for scale in self.scales(size)]
        for field in dataclasses.fields(self):
            if field.name != "setting":
                value = getattr(self, field.name)
                parts += value if isinstance(value, tuple) else [value]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def memory(self, size: Size, reading: Reading, scale: int, out: Path, progress: Progress | None) -> Any:
        """Return the trained memory of a size."""
        folder = out / MEMORIES / f"{self.setting.label}-{reading.name}-{size.name}-{scale}".replace(" ", "-")
        trained = train_target(self.recipe(size, reading), folder, scale=scale, progress=progress)
        if trained.memory is None:
            raise InputError(f"the memory with N = {scale} diverged; lower the learning rate of the figure")
        return trained.memory

    def recipe(self, size: Size, reading: Reading) -> Recipe:
        """Return how the memories are trained."""
        study = self.setting.whole_study(size, reading)
        assert not isinstance(self.setting.eta0, tuple)
        return Recipe(dataclasses.replace(study, scales=(max(self.scales(size)),)), self.setting.eta0)


@dataclasses.dataclass(frozen=True)
class Examples(OfMemories):
    """A comparison of recall: a setting with one learning rate, numbers of steps, and numbers of samples."""

    steps: tuple[int, ...] = (1, 10, 200)
    samples: int = 100
    shown: int = 8

    def scales(self, size: Size) -> tuple[int, ...]:
        """Return the sizes of the large and the small memory."""
        return size.examples

    def make(self, size: Size, reading: Reading, out: Path, progress: Progress | None = None) -> None:
        """Train both memories (or resume their training), recall with both, and write what is drawn."""
        large, small = (self.memory(size, reading, scale, out, progress) for scale in size.examples)
        raw = read(self.setting.get("data"))
        which = held_out(raw.samples, self.recipe(size, reading).study.preparation.heldout)
        which = which[np.linspace(0, len(which) - 1, min(self.samples, len(which))).round().astype(int)]
        x = dataclasses.replace(raw, array=raw.array[which])
        kept: dict[str, Any] = {"steps": np.array(self.steps), "features": np.array(size.examples)}
        numbers: dict[str, list[float]] = {"correlation": [], "chance": [], "relative_error": []}
        for steps in self.steps:
            comparison = consistency(large, small, x, steps=steps)
            for name, values in numbers.items():
                values.append(getattr(comparison, name))
        # The samples are spread over the file, so these are too.
        some = np.linspace(0, len(which) - 1, self.shown).round().astype(int)
        assert large.encoder is not None
        assert small.encoder is not None
        of_large, of_small = large.encoder.pictures, small.encoder.pictures
        pictures = {
            "clean": of_large(comparison.large.clean[some]),
            "corrupted": of_large(comparison.large.start[some]),
            "large": of_large(comparison.large.state[some]),
            "small_clean": of_small(comparison.small.clean[some]),
            "small_corrupted": of_small(comparison.small.start[some]),
            "small": of_small(comparison.small.state[some]),
            "large_shrunk": of_small(comparison.shrunk[some]),
        }
        kept |= {k: np.array(v) for k, v in numbers.items()}
        kept |= {k: v.astype(np.float16) for k, v in pictures.items()}
        self.write(size, reading, out, kept)
