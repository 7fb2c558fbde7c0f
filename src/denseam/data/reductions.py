"""Reductions of a data set: linear maps D from all N0 features to N of them, and maps L back with D L = 1.

===============  ====================================================================================
plaquettes       images: the mean over j×k blocks of pixels (the paper's D_j has j = k); L copies a block's
                 value
rotated          vectors: the N directions of largest variance, then a random rotation R of these,
                 D x = α R (q_i · x); also at full size, so that every size has the same kind of features
pca              vectors: the N directions of largest variance, D x = α (q_i · x)
orthonormal      vectors: random orthonormal directions q_1 … q_N, D x = α (q_i · x)
none             all N0 features as they are
===============  ====================================================================================

α preserves the mean variance of a feature: ``tr(D Σ Dᵀ)/N = tr(Σ)/N0``. The orthonormal family is nested:
the first features of a larger size are those of a smaller one, up to α.

Leading components keep the problem that a memory can solve; random directions dilute it with noise. The
rotation spreads the variance evenly over the features, so that an optimizer that works entry by entry (Adam)
meets the same kind of features at every size.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from denseam.data.preparation import Shrink
from denseam.ground.errors import NUMBER, InputError, listed_of, read_entries, refuse, whole, whole_number

All = Float[np.ndarray, "n N0"]
Few = Float[np.ndarray, "n N"]
Image = tuple[int, int, int]


def plaquettes(height: int, width: int, j: int, k: int | None = None) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the number of the j×k block of each pixel of a height×width image, row by row; k is j if absent.

    There are ⌈height/j⌉·⌈width/k⌉ blocks; those at the lower and right edge may be partial.
    """
    k = j if k is None else k
    refuse(whole(height=height, width=width, j=j, k=k))
    rows, columns = np.arange(height) // j, np.arange(width) // k
    blocks: np.ndarray[Any, np.dtype[np.int64]] = rows[:, None] * (columns[-1] + 1) + columns[None, :]
    return blocks.ravel()


@runtime_checkable
class Reduction(Protocol):
    """A linear map to fewer features."""

    @property
    def kind(self) -> Shrink:
        """Its name."""

    @property
    def features(self) -> int:
        """N, the number of features after it."""

    @property
    def image(self) -> Image | None:
        """Height, width and channels after it, if its results are images."""

    def reduce(self, x: All) -> Few:
        """Return D x for each row."""

    def lift(self, y: Few) -> All:
        """Return L y for each row; D L y = y."""


@dataclasses.dataclass(frozen=True)
class Whole:
    """All features, as they are."""

    features: int
    image: Image | None = None
    kind: Shrink = dataclasses.field(default="none", init=False)

    def reduce(self, x: All) -> Few:
        """Return x."""
        return x

    def lift(self, y: Few) -> All:
        """Return y."""
        return y


@dataclasses.dataclass(frozen=True)
class Plaquettes:
    """Means over j×k blocks of pixels, separately in each channel."""

    original: Image
    j: int
    k: int
    kind: Shrink = dataclasses.field(default="plaquettes", init=False)

    @property
    def image(self) -> Image:
        """Height, width and channels of the blocks."""
        height, width, channels = self.original
        return math.ceil(height / self.j), math.ceil(width / self.k), channels

    @property
    def features(self) -> int:
        """⌈h/j⌉·⌈w/k⌉ for each channel."""
        return math.prod(self.image)

    @property
    def blocks(self) -> Int[np.ndarray, " N0"]:
        """The block number of each original feature."""
        height, width, channels = self.original
        of_pixel = plaquettes(height, width, self.j, self.k)
        return np.asarray((of_pixel[:, None] * channels + np.arange(channels)).ravel())

    def reduce(self, x: All) -> Few:
        """Return the mean of every block."""
        if self.j == self.k == 1:
            return x
        height, width, channels = self.original
        stacked = x.reshape(len(x), height, width, channels)
        rows, columns = np.arange(0, height, self.j), np.arange(0, width, self.k)
        sums = np.add.reduceat(np.add.reduceat(stacked, rows, axis=1), columns, axis=2)
        heights, widths = np.diff([*rows, height]), np.diff([*columns, width])
        means = sums / (heights[:, None] * widths[None, :])[None, :, :, None]
        return np.asarray(means.reshape(len(x), -1), x.dtype)

    def lift(self, y: Few) -> All:
        """Return the value of each pixel's block."""
        return y[:, self.blocks]


@dataclasses.dataclass(frozen=True, eq=False)
class Projection:
    """Coordinates along orthonormal directions, times α."""

    directions: Float[np.ndarray, "N N0"]
    alpha: float
    kind: Shrink
    image: Image | None = dataclasses.field(default=None, init=False)

    @property
    def features(self) -> int:
        """N, the number of directions."""
        return len(self.directions)

    def reduce(self, x: All) -> Few:
        """Return α (q_i · x)."""
        return np.asarray(self.alpha * (x @ self.directions.T.astype(x.dtype)), x.dtype)

    def lift(self, y: Few) -> All:
        """Return Σ_i y_i q_i / α."""
        return np.asarray((y @ self.directions.astype(y.dtype)) / self.alpha, y.dtype)


def orthonormal(N: int, N0: int) -> Float[np.ndarray, "N N0"]:
    """Return N random orthonormal directions; those of a smaller N are the first of a larger one.

    They are the Gram–Schmidt basis of Gaussian vectors, drawn one after the other from a fixed stream.
    """
    gaussian = np.random.Generator(np.random.Philox(key=0)).standard_normal((N, N0))
    q, r = np.linalg.qr(gaussian.T)
    return np.asarray((q * np.sign(np.diag(r))).T)


def blocks(image: Image) -> dict[int, tuple[int, int]]:
    """Return features → (j, k) for every size that blocks of pixels can have.

    Blocks are square, or up to twice as wide as high: then there is a size about half of every other one.
    A square block, and then the smaller one, is preferred where several give the same size.
    """
    height, width, _ = image
    shapes = [(j, k) for j in range(1, max(height, width) + 1) for k in range(j, 2 * j + 1)]
    shapes.sort(key=lambda shape: (shape[0] != shape[1], shape), reverse=True)
    return {Plaquettes(image, j, k).features: (j, k) for j, k in shapes}


def to_document(reduction: Reduction) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, np.dtype[Any]]]]:
    """Return a reduction as plain values and tensors."""
    if isinstance(reduction, Plaquettes):
        original = list(reduction.original)
        return {"kind": reduction.kind, "original": original, "j": reduction.j, "k": reduction.k}, {}
    if isinstance(reduction, Projection):
        document = {"kind": reduction.kind, "alpha": reduction.alpha}
        return document, {"directions": np.asarray(reduction.directions, np.float32)}
    image = list(reduction.image) if reduction.image else None
    return {"kind": "none", "features": reduction.features, "image": image}, {}


def from_document(
    document: Mapping[str, Any], tensors: Mapping[str, np.ndarray[Any, np.dtype[Any]]]
) -> Whole | Plaquettes | Projection:
    """Read what `to_document` wrote."""
    kind = document.get("kind")
    if kind == "plaquettes":
        values = read_entries(document, _PLAQUETTES)
        height, width, channels = values["original"]
        return Plaquettes((height, width, channels), values["j"], values["k"] or values["j"])
    if kind in ("orthonormal", "pca", "rotated"):
        if "directions" not in tensors:
            raise InputError("the tensor data.directions is missing")
        return Projection(tensors["directions"], read_entries(document, _PROJECTION)["alpha"], kind)
    if kind == "none":
        values = read_entries(document, _WHOLE)
        return Whole(values["features"], tuple(values["image"]) if values["image"] else None)
    raise InputError(f"data: shrink {kind!r} is unknown to this version")


#: Height, width and channels.
IMAGE = listed_of(whole_number(1), length=3)
_SIZE = whole_number(1)
_PLAQUETTES = {"original": IMAGE, "j": _SIZE, "k": _SIZE.or_none()}  # early ones were square
_PROJECTION = {"alpha": NUMBER}
_WHOLE = {"features": _SIZE, "image": IMAGE.or_none()}
