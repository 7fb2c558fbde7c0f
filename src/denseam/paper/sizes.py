"""The sizes at which figures are made: for a laptop, as in the paper, or tiny, for tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from denseam.rules import MemoriesOnly, Regime
from denseam.rules.fields import parameters
from denseam.rules.regimes import DEFAULT_REGIME, REGIMES
from denseam.rules.sizes import WORDS


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
    digits
        The values of N for the small digits that come with the library: 8 × 8 pixels in blocks.
    examples
        The values of N of the two memories whose recall is compared.
    capacities, cues, halvings
        How many values of N a capacity is measured at, with how many cues, and how often the interval in
        which it lies, a factor of two, is halved.
    epochs, seeds
        Epochs and seeds of every run.
    most_seeds
        The seeds that count where they are.
    single
        Regime → the scale from which on one seed suffices. Further seeds count where they are.
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
    digits: tuple[int, ...]
    examples: tuple[int, int]
    capacities: int
    cues: int
    halvings: int
    epochs: int
    seeds: int
    most_seeds: int
    single: Mapping[str, int] | None
    per_decade: int
    precision: str

    def fixed(self, regime: str, width: int) -> Regime:
        """Return a regime in which only one size grows.

        Where only memories grow it is this size's own; elsewhere the sizes that stay are those in proportion
        at one of the `features`.
        """
        if regime == self.regime.name:
            return self.regime
        shape, kind = DEFAULT_REGIME.shape(self.features_of(width)), REGIMES[regime]
        sizes = {word: getattr(shape, letter) for letter, word in WORDS.items() if word in parameters(kind)}
        fixed: Regime = kind(**sizes)
        return fixed

    def features_of(self, width: int) -> int:
        """Return one of the `features`; the largest, if there are fewer."""
        return self.features[min(width, len(self.features) - 1)]

    def scales(self, regime: str, width: int) -> tuple[int, ...]:
        """Return the scales of a regime; `width` says which of the `features` a model has that does not grow.

        Batches go up to N, samples up to eight times those in proportion, epochs up to those of the other
        regimes, and steps of recall up from one.
        """
        N = self.features_of(width)
        P = DEFAULT_REGIME.shape(N).P
        assert P is not None
        count = len(self.features)
        return {
            "proportional": self.features,
            "memories-only": self.memories,
            "batch-only": _halves(N, count),
            "samples-only": _halves(8 * P, count),
            "epochs": _halves(self.epochs, min(count, 4)),
            "steps-only": tuple(2**k for k in range(count)),
            "proportional-steps": self.features,
        }[regime]


def _halves(largest: int, count: int) -> tuple[int, ...]:
    """Return this many sizes, each half of the next, as far as there are."""
    return tuple(s for k in reversed(range(count)) if (s := largest >> k))


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
            digits=(64,),
            examples=(196, 49),
            capacities=5,
            cues=200,
            halvings=2,
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
            digits=(64,),
            examples=(784, 196),
            capacities=5,
            cues=200,
            halvings=2,
            epochs=256,
            seeds=3,
            most_seeds=6,
            single={
                "proportional": 2048,
                "memories-only": 131072,
                "steps-only": 8,
                "proportional-steps": 1024,
            },
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
            digits=(4,),
            examples=(9, 4),
            capacities=1,
            cues=16,
            halvings=0,
            epochs=2,
            seeds=1,
            most_seeds=1,
            single=None,
            per_decade=1,
            precision="float32",
        ),
    )
}
