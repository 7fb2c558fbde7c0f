"""How many random patterns of signs a memory stores: measured, and what the laws say.

A memory `DenseAM.from_patterns` gets K patterns of N random signs. K½ is the number of patterns at which half
of those that are tried are

- *minima*: flipping any one of their signs raises the energy; or
- *recalled*: a share q of their signs is flipped, and recall gives every sign back.

**ReLU^p.** With a share q of flipped signs the own pattern has the weight (1 − 2q)^p, and the crosstalk of
the others the variance ``K (2p − 1)!! / (2 N^p)``. N signs are right if that is below
``(1 − 2q)^2p / (2 log N)``, so

``K½ ≈ (1 − 2q)^2p N^p / ((2p − 1)!! log N)``.

This leaves out that a feature also acts on itself, by ``K p E[relu(m)^(p−1)] / N ∝ K / N^((p+1)/2)`` with
m ~ N(0, 1/N). It holds a flipped sign where it is, and so matters for recall, but not for minima: there the
two signs of one feature are compared, the others being right.

**Softmax** with a large β finds the nearest pattern. One of K − 1 others is nearer than the own one, which is
d = qN flips away, if it differs from the cue in fewer than d signs, or, by chance, in as many:

``(K½ − 1) [P(X < d) + P(X = d)/2] = log 2``, with X binomial of N fair signs.

This grows as ``exp(N I)`` with ``I = log 2 + q log q + (1 − q) log(1 − q)``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from denseam.model.dense_am import DenseAM
from denseam.model.lagrangians import Lagrangian, ReLU, Softmax
from denseam.model.patterns import capacity
from denseam.paper.claims import Evidence, Measured
from denseam.paper.measurement import Measurement
from denseam.paper.readings import Reading
from denseam.paper.results import Results
from denseam.paper.sizes import Size
from denseam.paper.thresholds import EXPONENT, NEAR, ORDER, STAYS
from denseam.training.progress import Progress

#: Changes if what is measured does.
_VERSION = 1
#: The most patterns that are tried.
_MOST = 1 << 16
#: Steps of recall.
_STEPS = 30
_ONE = Measured(None, "measured at one N only")


@dataclasses.dataclass(frozen=True)
class Capacity(Measurement):
    """The number of stored patterns of which half of the cues are recalled, against N.

    Attributes
    ----------
    label
        Its name in the figure.
    features
        The values of N, increasing; a small size takes the first ones.
    flips
        The share q of flipped signs in cues; 0 to count minima of the energy instead.
    power
        p of ReLU^p; None for softmax.
    beta
        β of softmax; None for the one that follows from the patterns.
    """

    label: str
    features: tuple[int, ...]
    flips: float
    power: int | None = None
    beta: float | None = None

    @property
    def pinned(self) -> bool:
        """It trains no biases, so that it is the same in every reading."""
        return True

    def law(self, N: int) -> float:
        """Return the K½ that is expected."""
        if self.power is not None:
            return float((1 - 2 * self.flips) ** (2 * self.power) * capacity(N, self.power))
        from scipy.stats import binom

        d = round(self.flips * N)
        return float(1 + math.log(2) / (binom.cdf(d - 1, N, 0.5) + binom.pmf(d, N, 0.5) / 2))

    def key(self, size: Size, reading: Reading) -> str:
        """Return a hash of everything that changes the result."""
        parts = [
            _VERSION,
            self.features_at(size),
            self.flips,
            self.power,
            self.beta,
            size.cues,
            size.halvings,
        ]
        return hashlib.sha256(json.dumps(["capacity", *parts]).encode()).hexdigest()[:16]

    def features_at(self, size: Size) -> tuple[int, ...]:
        """Return the values of N at a size."""
        return self.features[: size.capacities]

    def make(self, size: Size, reading: Reading, out: Path, progress: Progress | None = None) -> None:
        """Measure K½ at every N."""
        sizes = self.features_at(size)
        halves = [self._half(N, size) for N in sizes]
        columns = {
            "features": sizes,
            "half": halves,
            "law": [self.law(N) for N in sizes],
        }
        self.write(size, reading, out, {name: np.array(values) for name, values in columns.items()})

    def _half(self, N: int, size: Size) -> float:
        """Return K½: doubled or halved until the share crosses one half, then between the last two."""
        shares: dict[float, float] = {}

        def share(exponent: float) -> float:
            if exponent not in shares:
                shares[exponent] = self.share(round(2**exponent), N, size.cues)
            return shares[exponent]

        # On a lattice, so that shapes repeat and are compiled once.
        low = min(round(math.log2(max(4, self.law(N)))), math.log2(_MOST))
        while low > 1 and share(low) < 0.5:
            low -= 1
        high = low + 1
        while 2**high < _MOST and share(high) >= 0.5:
            low, high = high, high + 1
        for _ in range(size.halvings):
            middle = (low + high) / 2
            low, high = (middle, high) if share(middle) >= 0.5 else (low, middle)
        above, below = share(low), share(high)
        inside = (above - 0.5) / (above - below) if above > 0.5 > below else 0.5
        return float(2 ** (low + inside * (high - low)))

    def share(self, K: int, N: int, cues: int) -> float:
        """Return the share of patterns that are minima, or are recalled in every sign."""
        rng = np.random.default_rng([K, N])
        patterns = np.where(rng.random((K, N)) < 0.5, -1, 1).astype(np.float32)
        model = DenseAM.from_patterns(patterns, self._activation())
        some = patterns[: min(K, cues)]
        if not self.flips:
            return float(np.mean([_is_minimum(model, pattern) for pattern in some]))
        order = np.argsort(rng.random(some.shape), axis=1)
        cue = np.where(order < round(self.flips * N), -some, some)
        state = model.recall(cue, _STEPS).state
        return float(np.mean(np.all(np.sign(state) == some, axis=1)))

    def _activation(self) -> Lagrangian | None:
        if self.power is not None:
            return ReLU(self.power)
        return None if self.beta is None else Softmax(self.beta)


@eqx.filter_jit
def _is_minimum(model: DenseAM, pattern: Any) -> Any:
    """Return whether flipping any one sign raises the energy."""
    flipped = pattern * (1 - 2 * jnp.eye(len(pattern), dtype=pattern.dtype))
    return jnp.all(model.energy(flipped) > model.energy(pattern))


@dataclasses.dataclass(frozen=True)
class _OfCapacity(Evidence):
    """Evidence from one capacity."""

    capacity: Capacity

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """The capacity."""
        return (self.capacity,)

    def _arrays(self, results: Results) -> tuple[Any, Any, Any]:
        arrays = results.measured(self.capacity)
        return arrays["features"].astype(float), arrays["half"], arrays["law"]


class GrowsAsPower(_OfCapacity):
    """K½ log N grows as N^p, for ReLU^p."""

    def measure(self, results: Results) -> Measured:
        """Fit the exponent on a log-log scale."""
        N, half, _ = self._arrays(results)
        if len(N) < 2:
            return _ONE
        assert self.capacity.power is not None
        slope = float(np.polyfit(np.log(N), np.log(half * np.log(N)), 1)[0])
        text = f"K½ log N grows as N^{slope:.2f} over N = {N[0]:g} … {N[-1]:g}, to K½ = {half[-1]:.3g}"
        return Measured(abs(slope - self.capacity.power) <= EXPONENT, text)


class NearLaw(_OfCapacity):
    """K½ is that of the law, up to a factor."""

    def measure(self, results: Results) -> Measured:
        """Compare at every N."""
        _, half, law = self._arrays(results)
        ratios = half / law
        text = f"{ratios.min():.2f} to {ratios.max():.2f} times the law, K½ = {half[0]:.3g} … {half[-1]:.3g}"
        return Measured(bool((ratios <= NEAR).all() and (ratios >= 1 / NEAR).all()), text)


class GrowsExponentially(_OfCapacity):
    """log K½ grows linearly with N, at the rate of the law."""

    def measure(self, results: Results) -> Measured:
        """Fit both rates."""
        N, half, law = self._arrays(results)
        if len(N) < 2:
            return _ONE
        rate, expected = (float(np.polyfit(N, np.log(v), 1)[0]) for v in (half, law))
        text = f"K½ grows as exp({rate:.4f} N), the law as exp({expected:.4f} N)"
        return Measured(abs(rate / expected - 1) <= STAYS, text)


class FarBelowLaw(_OfCapacity):
    """At the largest N, K½ is far below the law."""

    def measure(self, results: Results) -> Measured:
        """Compare at the largest N."""
        N, half, law = self._arrays(results)
        text = f"K½ = {half[-1]:.3g} at N = {N[-1]:g}, where the law has {law[-1]:.3g}"
        return Measured(bool(half[-1] < law[-1] / ORDER), text)
