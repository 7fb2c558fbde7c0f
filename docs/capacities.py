"""How many patterns of random signs each energy stores, at the best of its constants.

K patterns ξ_μ of N signs are the rows of W, without training. With s1 = β/N and b = −βθ a hidden neuron has
``h_μ = β (m_μ − θ)``, where m_μ = ξ_μ·x/N is the overlap of the state with its pattern. A quarter of the
signs of a pattern is flipped, and the state follows ``x ← sign f(x)``, the limit of features with a large
gain. It is recalled if every sign comes back. K½ is the number of patterns at which half of the cues are
recalled, for the best β and θ on a grid; once for θ = 0 alone, so without a bias.

No rule can do better than to name the nearest pattern, and that has a law (`denseam.paper.capacity`).
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from denseam.model.dense_am import DenseAM
from denseam.model.lagrangians import Identity, from_text
from denseam.paper.capacity import Capacity
from denseam.rules.activations import read_activation
from denseam.rules.table import FAMILIES, SUMS_TO_ONE

KEPT = Path(__file__).resolve().parent / "best-energy" / "capacities.json"

N, FLIPS = 64, 0.25
BETAS = tuple(4.0**k for k in range(11))
THRESHOLDS = (0.0, 0.25, 0.4)
CUES, SETS, STEPS = 64, 3, 10
#: log2 of the fewest and the most patterns that are tried.
FEWEST, MOST = 2, 16

Constants = tuple[float, float]


def limit() -> float:
    """Return K½ of the nearest pattern, which no memory exceeds."""
    return Capacity("", (N,), FLIPS).law(N)


def half(activation: str) -> dict[str, float | None]:
    """Return K½ without a bias and with one; None if not even the fewest patterns are recalled."""
    found = {pair: crossing(activation, pair) for pair in itertools.product(BETAS, thresholds(activation))}
    plain = [K for (_, theta), K in found.items() if theta == 0 and K is not None]
    every = [K for K in found.values() if K is not None]
    return {"plain": max(plain, default=None), "biased": max(every, default=None)}


def thresholds(activation: str) -> tuple[float, ...]:
    """Return the values of θ to try; activations that sum to one ignore what all neurons have in common."""
    name = read_activation(activation).name
    return (0.0,) if FAMILIES[name] in SUMS_TO_ONE and name != "ghostmax" else THRESHOLDS


def crossing(activation: str, constants: Constants) -> float | None:
    """Return K½ for one β and θ: doubled until less than half are recalled, then between the last two."""
    before = None
    for exponent in range(FEWEST, MOST + 1):
        share = recalled_share(activation, 2**exponent, *constants)
        if share < 0.5:
            if before is None:
                return None
            return float(2 ** (exponent - 1 + (before - 0.5) / (before - share)))
        before = share
    return float(2**MOST)


def recalled_share(activation: str, K: int, beta: float, theta: float) -> float:
    """Return the share of cues that are recalled in every sign, over several sets of patterns."""
    shares = []
    for patterns, cues in (_patterns(K, seed) for seed in range(SETS)):
        model = DenseAM(
            patterns, np.full(K, -beta * theta, np.float32), np.zeros(N, np.float32), beta / N, 1.0,
            from_text(read_activation(activation)), features=Identity(), centred=False,
        )  # fmt: skip
        shares.append(float(_recalled(model, cues, patterns[: len(cues)])))
    return float(np.mean(shares))


@functools.lru_cache(maxsize=64)
def _patterns(K: int, seed: int) -> tuple[Any, Any]:
    """Return patterns, and cues of the first of them with a share of their signs flipped."""
    rng = np.random.default_rng([K, N, seed])
    patterns = np.where(rng.random((K, N)) < 0.5, -1, 1).astype(np.float32)
    some = patterns[:CUES]
    order = np.argsort(rng.random(some.shape), axis=1)
    return patterns, np.where(order < round(FLIPS * N), -some, some)


@eqx.filter_jit
def _recalled(model: DenseAM, cues: Any, patterns: Any) -> Any:
    def step(_: Any, x: Any) -> Any:
        return jnp.sign(model.update(x))

    state = jax.lax.fori_loop(0, STEPS, step, cues)
    return jnp.mean(jnp.all(state == patterns, axis=1))


def make(activations: Sequence[str], check_time: Callable[[], None]) -> None:
    """Measure what is missing, and keep it."""
    for activation in activations:
        if activation in _read():
            continue
        check_time()
        own = half(activation)
        print(f"capacity of {activation}: {own}", flush=True)
        KEPT.parent.mkdir(exist_ok=True)
        found = {**_read(), activation: own}  # other parts may have written meanwhile
        KEPT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _read() -> Mapping[str, Mapping[str, float | None]]:
    return dict(json.loads(KEPT.read_text(encoding="utf-8"))) if KEPT.is_file() else {}


class Kept(NamedTuple):
    """The capacities that were measured."""

    halves: Mapping[str, Mapping[str, float | None]]

    @property
    def head(self) -> tuple[str, ...]:
        """The titles of the two columns."""
        return ("patterns, b = 0", "patterns, best b")

    def cells(self, activation: str) -> tuple[str, ...]:
        """Return K½ without and with a bias."""
        own = self.halves.get(activation)
        if own is None:
            return ("not run", "not run")
        return tuple(_shown(own[kind]) for kind in ("plain", "biased"))


def _shown(K: float | None) -> str:
    if K is None:
        return f"< {2**FEWEST}"
    return f"≥ {2**MOST:,}" if K >= 2**MOST else f"{float(f'{K:.3g}'):,g}"


def kept() -> Kept:
    """Return the capacities that were measured."""
    return Kept(_read())
