"""A memory that stores patterns as they are: W, b, s1, s2 and β come from the patterns, without training.

The patterns ξ_1 … ξ_K are the rows of W, and g = ∂G is the activation of the features.

**Softmax.** With s1 = 1/N, s2 = 1 and b_μ = −G(ξ_μ)/N the hidden neurons hold divergences:

``h_μ(x) = [G*(g(x)) − D_μ(x)]/N`` with ``D_μ(x) = G(ξ_μ) − ξ_μ·g(x) + G*(g(x)) ≥ 0``,

where G* is the convex conjugate of G. D_μ is the Bregman divergence between g(x) and g(ξ_μ); it is 0 only for
x = ξ_μ. If g is the identity, it is half the squared distance, ``|x − ξ_μ|²/2``. Softmax ignores what is the
same for all μ, so the update is the mean of the patterns with weights ``exp(−β D_μ(x)/N)``, and the energy is
a soft minimum of the divergences: ``E_eff(x) = −(N/β) log Σ_μ exp(−β D_μ(x)/N)``.

**β** must be so large that the nearest pattern outweighs all others. If ``D_μ(x) − D_ν(x) ≥ γ`` for all
other μ, their weights add up to at most ``(K − 1) exp(−βγ/N)``, and no feature of f(x) differs from ξ_ν by
more than this times the range of that feature. So every such x is recalled in one step up to a tolerance t if

``β = N log((K − 1)/t) / γ``.

At x = ξ_ν the gap is D_μ(ξ_ν) =: δ_μν. Gaussian noise of standard deviation σ makes it smaller: its mean is
``(ξ_ν − ξ_μ)·ḡ(ξ_ν) + G(ξ_μ) − G(ξ_ν)`` with ``ḡ(ξ) = E g(ξ + σn)``, and since g has slopes of at most L, it
is below its mean by more than ``z σ L |ξ_ν − ξ_μ|`` with a probability of at most exp(−z²/2). The gap of
pattern ν is the least over all μ of mean minus deviation, with ``z² = 2 log((K − 1)/α)``: it holds for a cue
with probability 1 − α. γ is the least gap of all patterns; but one that noise nearly closes needs an endless
β, and one that noise leaves open should still have a basin. So each gap counts as at least 1/8 and at most
1/2 of the separation ``δ_ν = min δ_μν``.

**ReLU^p.** With ``s1 = 1/m``, ``m = min ξ_μ·g(ξ_μ)`` and ``b_μ = 1 − s1 ξ_μ·g(ξ_μ) ≤ 0``, every pattern sees
itself with h = 1, and ``f(ξ_ν) ∝ ξ_ν + Σ_{μ≠ν} ξ_μ relu(h_μ(ξ_ν))^p``. The sum is crosstalk. For random signs
its variance is ``K (2p − 1)!! / (2 N^p)``. For N features of the right sign it must be below 1/(2 log N), so
there may be about ``N^p / ((2p − 1)!! log N)`` patterns. The mean of the crosstalk at a state x is along
g(x), as if a feature acted on itself. At the patterns s2 takes this out, on average; at a cue it holds wrong
signs. A pattern whose amplitude grows by a share ε comes back with ``p s1 Σ_i ξ_i² g′(ξ_i) · ε``; small
slopes g′ also keep crosstalk from spreading. So features are tanh with a gain at which this factor is 1/20.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from denseam.ground.errors import InputError, above_zero, at_least_zero, refuse, shown, typed, whole
from denseam.model.lagrangians import Elementwise, Identity, Lagrangian, ReLU, Softmax, Tanh
from denseam.model.pieces import exact_products
from denseam.model.shared import TOLERANCE, what
from denseam.rules.table import relu_constant

#: Probability that a cue of the stated noise is not recalled, for a pattern that is promised.
RISK = 0.01
#: Least and largest share of a pattern's separation that its gap counts as.
SHARES = (1 / 8, 1 / 2)
#: Largest factor of a change of amplitude in one step, under ReLU^p.
SLOPE = 1 / 20
#: Patterns that are compared with all others; of more, so many, spread over all.
COMPARED = 1 << 17
#: Largest deviation of a feature of a state that counts as recalled, in standard deviations of the patterns.
WITHIN = 1 / 2
#: Bytes of the hidden states of the patterns that are compared at once.
PIECE_BYTES = 1 << 27
#: A separation must be so many times the rounding error of a term.
_RESOLVED = 64
#: Patterns over which the mean amplitude of an output is taken.
_SOME = 256
#: Nodes of the quadrature over noise.
_NODES = 33


@dataclasses.dataclass(frozen=True)
class Spacing:
    """How far patterns are apart, and what follows for their recall by softmax.

    Attributes
    ----------
    beta
        The inverse temperature β, the one that was given or the one that follows.
    separation, closest
        The least divergence per feature between two patterns, infinite for a single one, and their indices.
    noise, promised
        The noise σ, and the share of the patterns that are recalled from it in one step, each with a
        probability of at least 0.99.
    compared
        The number of patterns that were compared with all others.
    """

    beta: float
    separation: float
    closest: tuple[int, int]
    noise: float
    promised: float
    compared: int

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        apart = None if math.isinf(self.separation) else self.separation
        return dataclasses.asdict(self) | {"separation": apart, "closest": list(self.closest)}


class Parts(NamedTuple):
    """The parts of a model that stores patterns, and their spacing under softmax."""

    b: Array
    s1: float
    s2: float
    activation: Lagrangian
    features: Elementwise
    spacing: Spacing | None


def store(
    patterns: Array,
    activation: Lagrangian | None = None,
    features: Elementwise | None = None,
    *,
    noise: float = 0.0,
    tolerance: float = TOLERANCE,
    compared: int = COMPARED,
) -> Parts:
    """Return what a model needs, besides W = patterns, to store them; as `DenseAM.from_patterns`."""
    problems = [*at_least_zero(noise=noise), *above_zero(tolerance=tolerance), *whole(compared=compared)]
    if not problems and tolerance >= 1:
        problems.append(f"tolerance must be below 1, got {tolerance!r}")
    if activation is not None:
        problems += typed((Softmax, ReLU), "softmax or relu, which store patterns", activation=activation)
    if features is not None:
        problems += typed(Elementwise, "a Lagrangian of single neurons, such as tanh()", features=features)
    refuse(problems)
    check_patterns(patterns)
    with exact_products():
        if isinstance(activation, ReLU):
            return _rectified(patterns, activation, features)
        g = Identity() if features is None else features
        b = -jax.jit(g.value)(patterns) / patterns.shape[1]
        beta = _checked_beta(activation, b) if isinstance(activation, Softmax) else None
        space = spacing(patterns, g, beta=beta, noise=noise, tolerance=tolerance, compared=compared)
        _check_noise(noise, space.beta, patterns)
        return Parts(b, 1 / patterns.shape[1], 1.0, Softmax(space.beta), g, space)


def _checked_beta(activation: Softmax, b: Array) -> float:
    """Return a β of the user's own; refuse one that makes rounding errors of hidden neurons large."""
    beta, most = float(activation.beta), 1 / (_eps(b) * max(float(jnp.max(jnp.abs(b))), 1e-30))
    if not beta <= most:
        raise InputError(f"beta must be at most {most:.1e} for these patterns, got {beta!r}")
    return beta


def _check_noise(noise: float, beta: float, patterns: Array) -> None:
    """Refuse a noise in which the exponents β h_μ, about β σ |ξ_μ|/N, have rounding errors of order one."""
    largest = float(jnp.sqrt(jnp.max(jnp.sum(patterns * patterns, axis=1)))) / patterns.shape[1]
    most = 1 / (_eps(patterns) * beta * max(largest, 1e-30))
    if noise > most:
        raise InputError(f"noise must be at most {most:.1e} for these patterns, got {noise!r}")


def _eps(array: Array) -> float:
    return float(jnp.finfo(array.dtype).eps)  # type: ignore[no-untyped-call]


def as_patterns(patterns: Any) -> Array:
    """Return patterns as an array of floats; whole numbers and true and false become float32."""
    try:
        array = jnp.asarray(patterns)
    except (TypeError, ValueError):
        raise InputError(f"patterns must be numbers, patterns × features, got {shown(patterns)}") from None
    if array.ndim != 2 or jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise InputError(f"patterns must be real numbers, patterns × features, got {what(array)}")
    if min(array.shape) < 1 or array.shape[1] < 2:
        K, N = array.shape
        raise InputError(f"patterns must be at least one, of at least two features, got {K} of {N}")
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(jnp.float32)


def check_patterns(patterns: Array) -> None:
    """Refuse patterns that are not finite, and patterns that are equal."""
    seen: dict[int, int] = {}
    for first, rows in _blocks(patterns):
        finite = np.isfinite(rows)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise InputError(
                f"patterns must be finite, got {rows[row, column]} in pattern {first + row}, feature {column}"
            )
        for i, row in enumerate(rows + 0, first):  # -0 becomes 0
            before = seen.setdefault(hash(row.tobytes()), i)
            if before != i and np.array_equal(np.asarray(patterns[before]), row):
                raise InputError(f"patterns must differ, but patterns {before} and {i} are the same")


def spacing(
    patterns: Array,
    features: Elementwise,
    *,
    beta: float | None = None,
    noise: float = 0.0,
    tolerance: float = TOLERANCE,
    compared: int = COMPARED,
) -> Spacing:
    """Return how far patterns are apart, and the β that follows from it, unless one is given.

    All pairs are compared, piece by piece: K² N products, as many as in a step of recall of all patterns.
    """
    K, N = patterns.shape
    if K == 1:
        return Spacing(1.0 if beta is None else beta, math.inf, (0, 0), noise, 1.0, 1)
    which = np.arange(K) if compared >= K else np.linspace(0, K - 1, compared).round().astype(int)
    G = jax.jit(features.value)(patterns)
    deviation = math.sqrt(2 * math.log((K - 1) / RISK)) * noise * _steepest(features, patterns, noise)
    pieces = [
        _nearest(features, patterns, G, jnp.asarray(rows), noise, deviation)
        for rows in np.array_split(which, math.ceil(len(which) * K * 4 / PIECE_BYTES))
    ]
    separations, others, gaps, rounding = (
        np.concatenate([np.asarray(v) for v in c]) for c in zip(*pieces, strict=True)
    )
    if not np.isfinite(separations).all():
        raise InputError(
            f"patterns must be so small that {patterns.dtype} can hold the squares of their distances"
        )
    least = int(np.argmin(separations))
    closest = (int(which[least]), int(others[least]))
    if separations[least] <= _RESOLVED * rounding.max():
        raise InputError(
            f"patterns must differ by more than {patterns.dtype} can resolve, but patterns {min(closest)} "
            f"and {max(closest)} do not; centre the patterns, or leave one of them out"
        )
    weight = math.log((K - 1) / tolerance)
    low, high = (share * separations for share in SHARES)
    if beta is None:
        beta = N * weight / float(np.min(np.clip(gaps, low, high)))
    promised = float(np.mean(beta * gaps / N >= weight * (1 - 1e-6)))
    return Spacing(beta, float(separations[least]) / N, closest, noise, promised, len(which))


def recalled(
    states: Any, patterns: Any, deviation: float = 1.0, within: float = WITHIN
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which states are their pattern: no feature is off by more than `within` deviations."""
    off = np.max(np.abs(np.asarray(states) - np.asarray(patterns)), axis=-1)
    return np.asarray(off <= within * deviation)


def capacity(N: int, power: float) -> float:
    """Return about how many random patterns of signs ReLU^p can store: N^p / ((2p − 1)!! log N)."""
    # C_p normalises relu(h)^p for h ~ N(0, 1): C_p² (2p − 1)!!/2 = 1
    return float(relu_constant(power) ** 2 / 2 * N**power / math.log(N))


# --- softmax ---------------------------------------------------------------------------------------


@eqx.filter_jit
def _nearest(
    features: Elementwise, W: Array, G: Array, rows: Array, noise: float, deviation: float
) -> tuple[Array, Array, Array, Array]:
    """Return the separation δ_ν of some patterns, the nearest others, the gaps, and the rounding errors."""
    own, itself = W[rows], jnp.arange(len(W))[None] == rows[:, None]
    g = features.activation(own)
    overlaps = g @ W.T
    rounding = _eps(W) * (jnp.sum(jnp.abs(own * g), axis=1) + jnp.abs(G[rows]))

    def differences(output: Array, overlaps: Array) -> Array:
        """Return (ξ_ν − ξ_μ)·output(ξ_ν) + G(ξ_μ) − G(ξ_ν); infinite for μ = ν."""
        first = jnp.sum(own * output, axis=1) - G[rows]
        return jnp.where(itself, jnp.inf, first[:, None] - (overlaps - G[None]))

    separations = differences(g, overlaps)
    nearest, least = jnp.argmin(separations, axis=1), jnp.min(separations, axis=1)
    if not noise:
        return least, nearest, least, rounding
    if isinstance(features, Identity):  # the mean of g is g, and the divergence half the squared distance
        gaps = separations - deviation * jnp.sqrt(2 * jnp.maximum(0, separations))
    else:
        squares = jnp.sum(W * W, axis=1)
        distances = jnp.sqrt(jnp.maximum(0, squares[rows][:, None] + squares[None] - 2 * (own @ W.T)))
        mean = _expected(features, own, noise)
        gaps = differences(mean, mean @ W.T) - deviation * distances
    return least, nearest, jnp.min(jnp.where(itself, jnp.inf, gaps), axis=1), rounding


def _expected(features: Elementwise, x: Array, noise: Any) -> Array:
    """Return ḡ(x) = E g(x + σn) with n ~ N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    terms = zip(nodes, weights / weights.sum(), strict=True)
    return sum((w * features.activation(x + noise * n) for n, w in terms), jnp.zeros_like(x))


def _steepest(features: Elementwise, patterns: Array, noise: float) -> float:
    """Return the largest slope of g where states with this noise can be."""
    low, high = float(patterns.min()) - 6 * noise, float(patterns.max()) + 6 * noise
    slopes = features.derivative(jnp.append(jnp.linspace(low, high, 10_001), 0.0))
    return float(jnp.max(slopes))


def _blocks(patterns: Array) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
    """Yield the patterns in pieces, each with the index of its first one."""
    rows = max(1, PIECE_BYTES // (8 * patterns.shape[1]))
    for first in range(0, len(patterns), rows):
        yield first, np.asarray(patterns[first : first + rows])


# --- ReLU^p ----------------------------------------------------------------------------------------


def _rectified(patterns: Array, activation: ReLU, features: Elementwise | None) -> Parts:
    zero = np.flatnonzero(~np.asarray(jnp.any(patterns != 0, axis=1)))
    if len(zero):
        raise InputError(f"patterns must not be zero, as pattern {zero[0]} is: relu stores no such pattern")
    g = _steep(patterns, activation.power) if features is None else features
    overlaps, slope = _amplitudes(patterns, g, activation.power)
    if not slope < 1:
        raise InputError(
            f"features must saturate: with {g.name} and power {activation.power} a change of a pattern's "
            f"amplitude grows by a factor of {slope:.3g} in a step; take tanh with a larger gain"
        )
    s1 = 1 / float(jnp.min(overlaps))
    b = 1 - s1 * overlaps
    some = patterns[np.linspace(0, len(patterns) - 1, min(len(patterns), _SOME)).round().astype(int)]
    amplitude = float(_amplitude(patterns, b, s1, activation, g, some))
    if not 0 < amplitude < math.inf:
        raise InputError(
            f"power must be smaller for these patterns: with relu^{activation.power:g} their outputs have "
            f"the size {amplitude:g} in {patterns.dtype}"
        )
    return Parts(b, s1, 1 / amplitude, activation, g, None)


@eqx.filter_jit
def _amplitude(W: Array, b: Array, s1: float, activation: ReLU, features: Elementwise, some: Array) -> Array:
    """Return the mean of ξ_ν·f(ξ_ν)/|ξ_ν|² over some patterns, for s2 = 1."""
    h = s1 * (features.activation(some) @ W.T) + b[None]
    outputs = activation.activation(h) @ W
    return jnp.mean(jnp.sum(some * outputs, axis=1) / jnp.sum(some * some, axis=1))


def _steep(patterns: Array, power: float) -> Tanh:
    """Return tanh with the least gain, up to a tenth of it, at which amplitudes are stable."""
    gain, slope = (float(v) for v in _gain(patterns, power))
    if not slope <= SLOPE:
        raise InputError(
            "patterns must have similar sizes for relu: no gain of tanh keeps the amplitudes of all; take "
            "softmax"
        )
    return Tanh(gain)


@jax.jit
def _gain(patterns: Array, power: float) -> tuple[Array, Array]:
    """Return the gain, at most 100 times that at which patterns begin to saturate, and the slope there."""
    least = 1 / jnp.sqrt(jnp.mean(patterns * patterns))

    def slope(gain: Array) -> Array:
        g = jnp.tanh(gain * patterns)
        turning = power * gain * jnp.sum(patterns**2 * (1 - g**2), axis=1)
        return jnp.max(turning) / jnp.min(jnp.sum(patterns * g, axis=1))

    def steeper(gain: Array) -> Array:
        return 1.1 * gain

    gain = jax.lax.while_loop(lambda gain: (slope(gain) > SLOPE) & (gain < 100 * least), steeper, least)
    return gain, slope(gain)


@eqx.filter_jit
def _overlaps(patterns: Array, features: Elementwise, power: float) -> tuple[Array, Array]:
    overlaps = jnp.sum(patterns * features.activation(patterns), axis=1)
    turning = power * jnp.sum(patterns**2 * features.derivative(patterns), axis=1)
    return overlaps, jnp.max(turning) / jnp.min(overlaps)


def _amplitudes(patterns: Array, features: Elementwise, power: float) -> tuple[Array, float]:
    """Return ξ_μ·g(ξ_μ) of every pattern, and the largest factor of a change of amplitude in one step."""
    overlaps, slope = _overlaps(patterns, features, power)
    return overlaps, float(slope)
