"""How a memory recalls: in steps of a size, and how it is trained through them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from denseam.model.shared import number_and_size
from denseam.rules import Scales


class Steps(eqx.Module):
    """T steps ``x ← x + d (f(x) − x)`` of recall.

    Attributes
    ----------
    T
        Their number.
    size
        d = τ/T, in (0, 1].
    early
        The weight of the loss of the steps before the last, in training; None if there is none.
    burn_in
        The most steps without gradient before the T that are trained; None if there are none.
    """

    T: int = eqx.field(static=True)
    size: float | Float[Array, ""]
    early: float | Float[Array, ""] | None = None
    burn_in: float | Float[Array, ""] | None = None

    @classmethod
    def of(cls, scales: Scales) -> Steps | None:
        """Return the steps that scales are for; None for one update, which is a step of size 1."""
        return None if scales.shape.T == 1 and scales.step == 1 else cls(scales.shape.T, scales.step)

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> Steps | None:
        """Read what `to_json` wrote; None if there is nothing."""
        steps = number_and_size(document)
        return None if steps is None else cls(*steps)

    def to_json(self) -> dict[str, Any]:
        """Return what recall needs, as a plain document."""
        return {"number": self.T, "size": float(self.size)}
