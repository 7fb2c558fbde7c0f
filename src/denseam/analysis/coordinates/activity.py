"""The family of an activation, found by measuring it: how σ follows K and the spread of Z.

Pre-activations are z ~ N(0, spread²). Two laws decide the family: that of the size of an activation, and that
of the number of active memories K_eff = (Σ_k |σ_k|)² / Σ_k σ_k², which is 1/Σ_k σ_k² if they sum to one.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from denseam.analysis.coordinates.laws import Law, asymptotic
from denseam.ground.errors import InputError

if TYPE_CHECKING:
    from denseam.model.lagrangians import Lagrangian

#: Numbers of memories, samples of each seed, and seeds.
MEMORIES, SAMPLES, SEEDS = (256, 1024, 4096, 16384), 32, 8
#: The spread of Z: where the rules put it, and on both sides.
SPREADS = (0.5, 1.0, 2.0)
#: If K_eff grows with a smaller exponent, few memories are active; they are a share of K otherwise.
FEW = 0.5


class Family(enum.Enum):
    """What an activation is proportional to."""

    ORDER_ONE = "order one"
    PER_MEMORY = "1/K"
    PER_ACTIVE = "1/K_eff"
    OTHER = "another power of K"


@dataclasses.dataclass(frozen=True)
class Activity:
    """How σ follows K, at each spread of Z.

    Attributes
    ----------
    size, active
        Spread → the law of the root mean square of σ, and of K_eff.
    share
        Spread → K_eff/K with the most memories.
    """

    size: dict[float, Law]
    active: dict[float, Law]
    share: dict[float, float]

    @property
    def few(self) -> bool:
        """Whether few memories are active however many there are."""
        return self.active[1.0].exponent < FEW

    @property
    def family(self) -> Family:
        """What an activation is proportional to, where Z is of order one."""
        if self.few:
            return Family.PER_ACTIVE
        low, high = self.size[1.0].interval
        if low <= 0 <= high:
            return Family.ORDER_ONE
        return Family.PER_MEMORY if low <= -1 <= high else Family.OTHER

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "family": self.family.value,
            "spreads": [
                {
                    "spread": spread,
                    "size": self.size[spread].to_json(),
                    "active": self.active[spread].to_json(),
                    "share": self.share[spread],
                }
                for spread in self.size
            ],
        }


def activity(lagrangian: Lagrangian) -> Activity:
    """Measure how the activation of a Lagrangian follows K and the spread of its input."""
    size, active, share = {}, {}, {}
    measured = np.array([[_measure(lagrangian, K, s) for s in range(SEEDS)] for K in MEMORIES])
    for spread, here in zip(SPREADS, np.moveaxis(measured, 2, 0), strict=True):
        if not np.isfinite(here).all():
            raise InputError(f"activation: {lagrangian.name} is not finite for inputs of size {spread:g}")
        size[spread] = asymptotic("σ", MEMORIES, here[..., 0])
        active[spread] = asymptotic("K_eff", MEMORIES, here[..., 1])
        share[spread] = float(np.mean(here[-1, :, 1]) / MEMORIES[-1])
    return Activity(size, active, share)


def _measure(lagrangian: Lagrangian, K: int, seed: int) -> list[tuple[float, float]]:
    """Return the root mean square of σ and the mean of K_eff over the same samples, at each spread."""
    drawn = jax.random.normal(jax.random.key(seed), (SAMPLES, K))
    found = []
    for spread in SPREADS:
        sigma = lagrangian.activation(spread * drawn)
        squares = jnp.sum(sigma**2, axis=-1)
        size = jnp.sqrt(jnp.mean(squares) / K)
        active = jnp.mean(jnp.sum(jnp.abs(sigma), axis=-1) ** 2 / squares)
        found.append((float(size), float(active)))
    return found
