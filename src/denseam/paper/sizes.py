"""How large the figures of the catalog are made: on a laptop, as in the paper, or just to see them run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from denseam.rules import MemoriesOnly


@dataclasses.dataclass(frozen=True)
class Size:
    """The sizes of a figure's studies.

    Attributes
    ----------
    features
        N of the studies in proportion. Those of our own studies leave the largest out.
    regime, memories
        N, P, B and the values of K where only memories grow.
    pixels
        N of shrunk images: 28 × 28 pixels in blocks, rounded up.
    examples
        N of the two memories whose recall is compared.
    epochs, seeds
        Of every run; the largest scale of the paper (`single`) has only one seed: N in proportion, or K.
    per_decade
        Learning rates per factor of ten.
    precision
        Of the matrix products.
    """

    name: str
    features: tuple[int, ...]
    regime: MemoriesOnly
    memories: tuple[int, ...]
    pixels: tuple[int, ...]
    examples: tuple[int, int]
    epochs: int
    seeds: int
    single: tuple[int, int] | None
    per_decade: int
    precision: str


SIZES: Mapping[str, Size] = {
    size.name: size
    for size in (
        Size(
            name="laptop",
            features=(32, 64, 128, 256),
            regime=MemoriesOnly(32, 64, 6),
            memories=(128, 512, 2048),
            pixels=(25, 49, 100, 196),
            examples=(196, 49),
            epochs=32,
            seeds=3,
            single=None,
            per_decade=4,
            precision="float32",
        ),
        Size(
            name="paper",
            features=(128, 256, 512, 1024, 2048),
            regime=MemoriesOnly(128, 256, 25),
            memories=(512, 2048, 8192, 32768, 131072),
            pixels=(49, 100, 196, 784),
            examples=(784, 196),
            epochs=256,
            seeds=3,
            single=(2048, 131072),
            per_decade=4,
            precision="tf32",
        ),
        Size(
            name="tiny",
            features=(8, 16),
            regime=MemoriesOnly(8, 16, 4),
            memories=(16,),
            pixels=(4,),
            examples=(9, 4),
            epochs=2,
            seeds=1,
            single=None,
            per_decade=1,
            precision="float32",
        ),
    )
}
