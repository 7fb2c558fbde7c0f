"""The transformation of the data at one size, and its inverse.

``y = D ((x/u − m) / d) / s`` with u the unit of the file (255 for 8-bit pixels), m the mean of each feature
over the whole set, d = 1 or the standard deviation of each feature, D the reduction to N features, and s = 1
or the number that gives mean variance 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from denseam.data import reductions
from denseam.data.reductions import Image, Reduction
from denseam.ground.errors import POSITIVE, TEXT, InputError, number, read_entries, refuse, table_of

Tensors = dict[str, np.ndarray[Any, np.dtype[Any]]]

_ENTRIES = {
    "reduction": table_of(), "scale": POSITIVE, "unit": POSITIVE, "origin": TEXT, "digest": TEXT,
    "heldout": number("at least 0 and at most 1", 0, 1), "image": reductions.IMAGE.or_none(),
}  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class Encoder:
    """The map from the samples of a file to the N features of a memory, and back."""

    reduction: Reduction  # D
    mean: Float[np.ndarray, " N0"]  # m, in units of u
    scale: float  # s
    unit: float  # u
    #: Height, width and channels of a sample, if it is an image.
    image: Image | None
    #: Where the data came from, and its identity.
    origin: str
    digest: str
    #: The share of its samples that was never trained on (`denseam.data.arrays.held_out`).
    heldout: float
    deviation: Float[np.ndarray, " N0"] | None = None  # d, None for 1

    @property
    def original(self) -> int:
        """N0, the features of a sample in the file."""
        return len(self.mean)

    @property
    def features(self) -> int:
        """N, the features of the memory."""
        return self.reduction.features

    def encode(self, x: np.ndarray[Any, np.dtype[Any]]) -> Float[np.ndarray, "n N"]:
        """Return the features of samples given in the values of the file."""
        return self.of_units(np.asarray(x, np.float32).reshape(len(x), -1) / np.float32(self.unit))

    def of_units(self, x: Float[np.ndarray, "n N0"]) -> Float[np.ndarray, "n N"]:
        """Return the features of samples that are already divided by the unit."""
        # Subtracted in float64: for values far from zero a rounded mean would leave an offset.
        centred = x - self.mean
        if self.deviation is not None:
            centred = centred / self.deviation
        y = self.reduction.reduce(np.asarray(centred, x.dtype))
        return y if self.scale == 1 else y / np.asarray(self.scale, x.dtype)

    def decode(self, y: Float[np.ndarray, "n N"]) -> Float[np.ndarray, "n N0"]:
        """Return states in the values of the file: ``u (m + d L(s y))``."""
        lifted = self.reduction.lift(np.asarray(y) * np.asarray(self.scale, y.dtype))
        if self.deviation is not None:
            lifted = lifted * self.deviation.astype(y.dtype)
        return np.asarray(self.unit * (self.mean.astype(y.dtype) + lifted), y.dtype)

    def pictures(self, y: Float[np.ndarray, "n N"]) -> Float[np.ndarray, "n h w c"]:
        """Return states as images at the memory's own resolution, in units of u; only for images."""
        if self.reduction.image is None:
            raise InputError("these states are not images")
        mean = self.reduction.reduce(self.mean[None].astype(y.dtype))
        return np.asarray(mean + self.scale * np.asarray(y)).reshape(len(y), *self.reduction.image)

    def describe(self) -> str:
        """Return a description in one line."""
        parts = [self.origin, f"{self.original} features"]
        if self.reduction.kind != "none" and self.features != self.original:
            parts.append(f"{self.reduction.kind} to {self.features}")
        elif isinstance(self.reduction, reductions.Projection):
            parts.append(f"{self.reduction.kind} axes")
        parts.append("centred" if self.deviation is None else "standardized")
        if self.scale != 1:
            parts.append(f"divided by {self.scale:.4g}")
        return ", ".join(parts)

    def to_document(self) -> tuple[dict[str, Any], Tensors]:
        """Return the encoder as plain values and tensors, for a checkpoint."""
        reduction, tensors = reductions.to_document(self.reduction)
        document = {
            "reduction": reduction, "scale": self.scale, "unit": self.unit, "origin": self.origin,
            "image": list(self.image) if self.image else None, "digest": self.digest, "heldout": self.heldout,
        }  # fmt: skip
        tensors["mean"] = np.asarray(self.mean, np.float64)
        if self.deviation is not None:
            tensors["deviation"] = np.asarray(self.deviation, np.float64)
        return document, tensors

    @classmethod
    def from_document(cls, document: Mapping[str, Any], tensors: Mapping[str, Any]) -> Encoder:
        """Read what `to_document` wrote."""
        values = read_entries(document, _ENTRIES)
        reduction, image = values.pop("reduction"), values.pop("image")
        missing = [name for name in ("mean",) if name not in tensors]
        refuse(f"the tensor data.{name} is missing" for name in missing)
        return cls(
            **values,
            reduction=reductions.from_document(reduction, tensors),
            mean=tensors["mean"],
            deviation=tensors.get("deviation"),
            image=tuple(image) if image else None,
        )
