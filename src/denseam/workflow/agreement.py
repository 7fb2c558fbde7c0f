"""Agreement of a large and a small memory of one family (fig. mnist-examples).

A corrupted sample x is denoised by the large memory and then shrunk, D f_large^n(x); or it is first shrunk
and then denoised by the small memory, f_small^n(D x). If training transfers between the sizes, both agree.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from denseam.ground.errors import InputError
from denseam.workflow.memory import Memory, Recalled


@dataclasses.dataclass(frozen=True, eq=False)
class Consistency:
    """How well two memories agree.

    Attributes
    ----------
    correlation
        Of D f_large^n(x) with f_small^n(D x), over all features of all samples.
    relative_error
        ‖D f_large^n(x) − f_small^n(D x)‖ / ‖D f_large^n(x)‖.
    chance
        The correlation with the small memory's output for another sample, as a baseline.
    large, small
        The recall of each memory.
    shrunk
        D f_large^n(x), as the small memory sees it.
    """

    correlation: float
    relative_error: float
    chance: float
    steps: int
    noise: float
    large: Recalled
    small: Recalled
    shrunk: Float[np.ndarray, "n N"]

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a plain document."""
        names = ("correlation", "relative_error", "chance", "steps", "noise")
        recalls = {"large": self.large.to_json(), "small": self.small.to_json()}
        return {name: getattr(self, name) for name in names} | {"samples": len(self.shrunk)} | recalls


def shrink_between(large: Memory, small: Memory, y: Float[np.ndarray, "n N"]) -> Float[np.ndarray, "n M"]:
    """Return D y: states of the large memory as the small one sees them.

    ``D = D_small L_large``. For plaquettes this is the mean over blocks of blocks, each counted by its
    pixels, so that partial blocks at the edges weigh what they should.
    """
    assert large.encoder is not None
    assert small.encoder is not None
    original = large.encoder.reduction.lift(np.asarray(y) * large.encoder.scale)
    return np.asarray(small.encoder.reduction.reduce(original) / small.encoder.scale)


def consistency(
    large: Memory, small: Memory, x: Any, *, steps: int = 200, noise: float | None = None, seed: int = 0
) -> Consistency:
    """Compare two memories on the same corrupted samples.

    Parameters
    ----------
    large, small
        Memories of one family: trained on the same data, shrunk to different sizes.
    x
        Samples, in the values of the file.
    steps
        n, the number of times f is applied.
    noise
        Standard deviation of the corruption at the large size; by default that of its training.
    """
    a, b = large.encoder, small.encoder
    if a is None or b is None:
        raise InputError("consistency needs memories that know their data: from denseam train")
    if a.digest != b.digest:
        raise InputError(
            f"memories see different data, or data prepared differently: {a.origin} and {b.origin}"
        )
    if b.features >= a.features:
        raise InputError(f"small must have fewer features than large, got {b.features} and {a.features}")
    level = large.noise if noise is None else noise
    (of_large,) = large.recall(x, steps=steps, tolerance=0.0, noise=level, seed=seed)
    start = shrink_between(large, small, of_large.start)
    clean = small.encode(x)
    of_small = small.recall_from(clean, start, level, steps=steps, tolerance=0.0)
    shrunk, output = shrink_between(large, small, of_large.state), of_small.state
    others = np.roll(output, 1, axis=0)
    return Consistency(
        correlation=_correlation(shrunk, output),
        relative_error=float(np.linalg.norm(shrunk - output) / np.linalg.norm(shrunk)),
        chance=_correlation(shrunk, others) if len(output) > 1 else float("nan"),
        steps=steps,
        noise=level,
        large=of_large,
        small=of_small,
        shrunk=shrunk,
    )


def _correlation(a: Float[np.ndarray, "n N"], b: Float[np.ndarray, "n N"]) -> float:
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])
