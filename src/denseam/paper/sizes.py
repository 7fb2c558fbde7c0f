"""The sizes at which figures are made: for a laptop, as in the paper, or tiny, for tests."""

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
        The values of N in the proportional regime. Our own studies leave out the largest.
    beyond
        Larger values of N that count where they are, for settings that reach so far.
    regime, memories
        N, P, B and the values of K if only memories grow.
    pixels
        The values of N for shrunk images: 28 × 28 pixels in blocks, rounded up.
    examples
        The values of N of the two memories whose recall is compared.
    epochs, seeds
        Epochs and seeds of every run.
    most_seeds
        The seeds that count where they are.
    single
        The scales from which on one seed suffices: N in the proportional regime, and K if only memories
        grow. Further seeds count where they are.
    per_decade
        Learning rates per factor of ten.
    precision
        The precision of matrix products.
    """

    name: str
    features: tuple[int, ...]
    beyond: tuple[int, ...]
    regime: MemoriesOnly
    memories: tuple[int, ...]
    pixels: tuple[int, ...]
    examples: tuple[int, int]
    epochs: int
    seeds: int
    most_seeds: int
    single: tuple[int, int] | None
    per_decade: int
    precision: str


SIZES: Mapping[str, Size] = {
    size.name: size
    for size in (
        Size(
            name="laptop",
            features=(32, 64, 128, 256),
            beyond=(),
            regime=MemoriesOnly(32, 64, 6),
            memories=(128, 512, 2048),
            pixels=(25, 49, 100, 196),
            examples=(196, 49),
            epochs=32,
            seeds=3,
            most_seeds=3,
            single=None,
            per_decade=4,
            precision="float32",
        ),
        Size(
            name="paper",
            features=(128, 256, 512, 1024, 2048),
            beyond=(4096,),
            regime=MemoriesOnly(128, 256, 25),
            memories=(512, 2048, 8192, 32768, 131072),
            pixels=(49, 100, 196, 784),
            examples=(784, 196),
            epochs=256,
            seeds=3,
            most_seeds=6,
            single=(2048, 131072),
            per_decade=4,
            precision="tf32",
        ),
        Size(
            name="tiny",
            features=(8, 16),
            beyond=(),
            regime=MemoriesOnly(8, 16, 4),
            memories=(16,),
            pixels=(4,),
            examples=(9, 4),
            epochs=2,
            seeds=1,
            most_seeds=1,
            single=None,
            per_decade=1,
            precision="float32",
        ),
    )
}
