"""What was done to the data at one size, and how it is undone.

``y = (D (x/u − m)) / s`` with u the unit of the file (255 for 8-bit pixels), m the mean of each feature
over the whole set, D the reduction to N features, and s = 1 or what gives features of mean variance 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from denseam.data import reductions
from denseam.data.reductions import Image, Reduction
from denseam.errors import InputError

Tensors = dict[str, np.ndarray[Any, np.dtype[Any]]]


@dataclasses.dataclass(frozen=True, eq=False)
class Encoder:
    """From samples as they lie in a file to what a memory of N features sees, and back.

    Attributes
    ----------
    reduction
        D.
    mean
        m, in units of u.
    scale
        s.
    unit
        u.
    image
        Height, width and channels of a sample, where it is an image.
    origin, digest
        Where the data came from, and what identifies it.
    heldout
        The share of its samples that was never trained on (`denseam.data.arrays.held_out`).
    """

    reduction: Reduction
    mean: Float[np.ndarray, " N0"]
    scale: float
    unit: float
    image: Image | None
    origin: str
    digest: str
    heldout: float

    @property
    def original(self) -> int:
        """N0, the features of a sample in the file."""
        return len(self.mean)

    @property
    def features(self) -> int:
        """N, the features that the memory sees."""
        return self.reduction.features

    def encode(self, x: np.ndarray[Any, np.dtype[Any]]) -> Float[np.ndarray, "n N"]:
        """Return samples as the memory sees them, from the values of the file."""
        return self.of_units(np.asarray(x, np.float32).reshape(len(x), -1) / np.float32(self.unit))

    def of_units(self, x: Float[np.ndarray, "n N0"]) -> Float[np.ndarray, "n N"]:
        """Return samples as the memory sees them, from values that were divided by the unit already."""
        # Subtracted in float64: of values far from zero a rounded mean would leave an offset.
        y = self.reduction.reduce(np.asarray(x - self.mean, x.dtype))
        return y if self.scale == 1 else y / np.asarray(self.scale, x.dtype)

    def decode(self, y: Float[np.ndarray, "n N"]) -> Float[np.ndarray, "n N0"]:
        """Return what a state means in the values of the file: ``u (m + L(s y))``."""
        lifted = self.reduction.lift(np.asarray(y) * np.asarray(self.scale, y.dtype))
        return np.asarray(self.unit * (self.mean.astype(y.dtype) + lifted), y.dtype)

    def pictures(self, y: Float[np.ndarray, "n N"]) -> Float[np.ndarray, "n h w c"]:
        """Return states as images at the memory's own resolution, in units of u; only for images."""
        if self.reduction.image is None:
            raise InputError("these states are not images")
        mean = self.reduction.reduce(self.mean[None].astype(y.dtype))
        return np.asarray(mean + self.scale * np.asarray(y)).reshape(len(y), *self.reduction.image)

    def describe(self) -> str:
        """Return what was done, in a line."""
        parts = [self.origin, f"{self.original} features"]
        if self.reduction.kind != "none" and self.features != self.original:
            parts.append(f"{self.reduction.kind} to {self.features}")
        elif isinstance(self.reduction, reductions.Projection):
            parts.append(f"{self.reduction.kind} axes")
        parts.append("centred")
        return ", ".join(parts + ([f"divided by {self.scale:.4g}"] if self.scale != 1 else []))

    def to_document(self) -> tuple[dict[str, Any], Tensors]:
        """Return it as plain values and tensors, for a checkpoint."""
        reduction, tensors = reductions.to_document(self.reduction)
        document = {
            "reduction": reduction, "scale": self.scale, "unit": self.unit, "origin": self.origin,
            "image": list(self.image) if self.image else None, "digest": self.digest, "heldout": self.heldout,
        }  # fmt: skip
        return document, {"mean": np.asarray(self.mean, np.float64), **tensors}

    @classmethod
    def from_document(cls, document: Mapping[str, Any], tensors: Mapping[str, Any]) -> Encoder:
        """Read what `to_document` wrote."""
        return cls(
            reduction=reductions.from_document(document["reduction"], tensors),
            mean=tensors["mean"],
            scale=document["scale"],
            unit=document["unit"],
            image=tuple(document["image"]) if document["image"] else None,
            origin=document["origin"],
            digest=document["digest"],
            heldout=document["heldout"],
        )
