"""Spectra of the activations S (K×B): the spike of their mean, of their biases, and the bulk.

Rows of S are neurons, z ~ N(0, v) are pre-activations, v = s1² N v_g. In Hermite polynomials of x = z/√v,

σ(z) = m + c1 x + c2 (x² − 1)/√2 + …,   Var σ = c1² + c2² + …

In the Gram matrix SᵀS the mean m causes one eigenvalue of order K·B, the *spike*; the others, the *bulk*,
are of order K. Centring over the neurons removes this spike, but not the one that biases cause.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from denseam.ground.errors import InputError, above_zero, at_least_zero, refuse, whole
from denseam.theory.gaussian import Function, gaussian_mean


class ActivationMoments(NamedTuple):
    """The averages of σ(√v x) over x ~ N(0, 1) that the spectra depend on.

    Attributes
    ----------
    mean, second
        m = E σ and E σ².
    linear, quadratic, quartic
        c1, c2 and c4: E of σ times the normalized Hermite polynomial of that degree.
    """

    mean: float
    second: float
    linear: float
    quadratic: float
    quartic: float

    @property
    def variance(self) -> float:
        """Var σ, at least 0."""
        return max(self.second - self.mean**2, 0.0)

    @property
    def rest(self) -> float:
        """The nonlinear part: c*² = Var σ − c1²."""
        return max(self.variance - self.linear**2, 0.0)


def activation_moments(
    sigma: Function, variance: float = 1.0, *, kinks: Iterable[float] = (0.0,)
) -> ActivationMoments:
    """Return the moments of an element-wise activation at z ~ N(0, v), by quadrature.

    Parameters
    ----------
    sigma
        A function that acts on each entry of an array.
    kinks
        Where σ is not smooth.
    """
    refuse(above_zero(variance=variance))
    kinks = tuple(kinks)

    def mean(weight: Function, power: int = 1) -> float:
        x = math.sqrt(variance)
        return gaussian_mean(lambda z: weight(z / x) * np.asarray(sigma(z)) ** power, variance, kinks=kinks)

    return ActivationMoments(
        mean=mean(lambda x: 1),
        second=mean(lambda x: 1, 2),
        linear=mean(lambda x: x),
        quadratic=mean(lambda x: (x**2 - 1) / math.sqrt(2)),
        quartic=mean(lambda x: (x**4 - 6 * x**2 + 3) / math.sqrt(24)),
    )


def relu_moments(power: float = 1.0, variance: float = 1.0) -> ActivationMoments:
    """Return the moments of σ = C_p max(z, 0)^p, C_p² = 2/(2p−1)!!, in closed form.

    E max(x, 0)^q = 2^(q/2 − 1) Γ((q+1)/2)/√π =: M_q, so m = C_p v^(p/2) M_p and E σ² = v^p.
    """
    refuse(above_zero(power=power, variance=variance))

    def M(q: float) -> float:
        return 2 ** (q / 2 - 1) * math.gamma((q + 1) / 2) / math.sqrt(math.pi)

    p = power
    unit = variance ** (p / 2) / math.sqrt(M(2 * p))
    return ActivationMoments(
        mean=unit * M(p),
        second=variance**p,
        linear=unit * M(p + 1),
        quadratic=unit * (M(p + 2) - M(p)) / math.sqrt(2),
        quartic=unit * (M(p + 4) - 6 * M(p + 2) + 3 * M(p)) / math.sqrt(24),
    )


# --- spikes --------------------------------------------------------------------------------------


def mean_spike(moments: ActivationMoments, K: int, B: int) -> float:
    """Return λ_max(SᵀS) ≈ K (B m² + Var σ) of the uncentred activations.

    The paper's K B m² (eq. lambda-spike-elementwise), plus the contribution of the fluctuations in the same
    direction. `mean_spike_finite` includes the other terms of relative order 1/N.
    """
    refuse(whole(K=K, B=B))
    return K * (B * moments.mean**2 + moments.variance)


def mean_spike_finite(moments: ActivationMoments, N: int, K: int, B: int, *, kurtosis: float = 3.0) -> float:
    """Return λ_max(SᵀS) of the uncentred activations with all terms of relative order 1/N.

    λ ≈ K B m² + (K + B) Var σ + (K B/N) [c2² + (k − 1) (c2²/2 + √(3/2) m c4)].

    Second-order perturbation of K m² 11ᵀ. The term B Var σ comes from the tilt of the spike towards the
    noise. Samples have overlaps of variance 1/N, which c2 rectifies to a common one. Their norms differ,
    Var(v_μ)/v² = (k − 1)/N, and so do their means: E m(v_μ)² is not m².

    Parameters
    ----------
    kurtosis
        k = E g⁴/v_g² of the features (`FeatureMoments.kurtosis`).
    """
    refuse([*whole(N=N, K=K, B=B), *above_zero(kurtosis=kurtosis)])
    m, c2, c4 = moments.mean, moments.quadratic, moments.quartic
    norms = (kurtosis - 1) * (c2**2 / 2 + math.sqrt(1.5) * m * c4)
    return K * B * (m**2 + (c2**2 + norms) / N) + (K + B) * moments.variance


def bias_spike(
    sigma: Function,
    K: int,
    B: int,
    *,
    variance: float = 1.0,
    bias_variance: float = 1.0,
    kinks: Iterable[float] = (0.0,),
) -> float:
    """Return λ_max(S̃ᵀS̃) of centred activations with biases b_k ~ N(0, σ_b²): the spike that centring leaves.

    With m(b) = E_z σ(z + b) and V_b = Var_b m(b),

    λ ≈ K B V_b + K E_b Var_z σ(z + b) + B E_b[(m(b) − E m)² Var_z σ(z + b)]/V_b.

    The first term is the spike; the others, of relative order 1/B and 1/K, come from fluctuations. Neglected
    are terms of relative order 1/N from overlaps and norms of samples (as in `mean_spike_finite`), and the
    scatter of V_b over the K drawn biases, of relative size √((k_b − 1)/K), k_b the kurtosis of m(b).
    """
    refuse([*whole(K=K, B=B), *above_zero(variance=variance, bias_variance=bias_variance)])
    kinks = tuple(kinks)
    # m(b) is smoothed by z, so few nodes suffice.
    x, weight = np.polynomial.hermite_e.hermegauss(64)
    weight = weight / weight.sum()
    biases = math.sqrt(bias_variance) * x

    def averages(f: Function) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([gaussian_mean(f, variance, mean=float(b), kinks=kinks) for b in biases])

    m = averages(sigma)
    within = averages(lambda z: np.asarray(sigma(z)) ** 2) - m**2
    apart = (m - weight @ m) ** 2
    between = float(weight @ apart)
    if not between > 0:
        return float(K * (weight @ within))
    return float(K * B * between + K * (weight @ within) + B * (weight @ (apart * within)) / between)


# --- the bulk ------------------------------------------------------------------------------------


def gram_edge(moments: ActivationMoments, kappa: float, rho_b: float) -> float:
    """Return the upper edge of the bulk of S̃ᵀS̃/K, S̃ centred over the neurons (or σ of mean 0).

    The bulk is that of the Gaussian equivalent c1 W Ĝ/√N + c* Θ, Ĝ = G/√v_g, with Θ independent. Its rows are
    independent, of covariance Σ = c1² ĜᵀĜ/N + c*², whose eigenvalues τ follow Marchenko–Pastur at ρ_B, scaled
    and shifted. A sample covariance of K such rows has the edge (Silverstein)

    min over t > τ_max of  z(t) = t [1 + (B/K) E τ/(t − τ)],

    which is found numerically. In the limit of large N it is exact for the identity (c* = 0). For other σ it
    relies on Gaussian equivalence; with heavy tails (ReLU^p, p > 2) practical sizes are far from that limit.
    For c1 = 0 it is the edge of pure noise, Var σ (1 + √(B/K))².
    """
    refuse(above_zero(kappa=kappa, rho_b=rho_b))
    return _sample_covariance(moments, rho_b, rho_b / kappa)[1]


def gram_top(moments: ActivationMoments, kappa: float, rho_b: float) -> float:
    """Return the largest eigenvalue of S̃ᵀS̃/K: the edge of the bulk, or an outlier above it.

    c2 rectifies the overlaps of samples, c2² ρ_μν² with E ρ_μν² = 1/N, which adds c2² ρ_B along the all-ones
    direction to the covariance Σ of `gram_edge`. This causes an outlier z(t) where 1 = c2² ρ_B E 1/(t − τ),
    if that t is beyond the minimum of z.
    """
    refuse(above_zero(kappa=kappa, rho_b=rho_b))
    best, edge = _sample_covariance(moments, rho_b, rho_b / kappa)
    strength = moments.quadratic**2 * rho_b
    if not strength * _resolvent(moments, rho_b, best) > 1:
        return edge
    low, high = best, _largest(moments, rho_b) + strength  # E 1/(t − τ) ≤ 1/(t − τ_max)
    for _ in range(200):
        t = (low + high) / 2
        low, high = (t, high) if strength * _resolvent(moments, rho_b, t) > 1 else (low, t)
    return _image(moments, rho_b, rho_b / kappa, high)


def _largest(moments: ActivationMoments, rho_b: float) -> float:
    return moments.linear**2 * (1 + math.sqrt(rho_b)) ** 2 + moments.rest


def _resolvent(moments: ActivationMoments, rho_b: float, t: float) -> float:
    """Return E 1/(t − τ) for τ = c1² x + c*², x ~ Marchenko–Pastur at ρ_B, t > τ_max."""
    c = moments.linear**2
    u = t - moments.rest
    root = math.sqrt(max((u - c * (1 + rho_b)) ** 2 - 4 * rho_b * c**2, 0.0))
    return 2 / (u - c * (1 - rho_b) + root)


def _image(moments: ActivationMoments, rho_b: float, ratio: float, t: float) -> float:
    return t * (1 + ratio * (t * _resolvent(moments, rho_b, t) - 1))


def _sample_covariance(moments: ActivationMoments, rho_b: float, ratio: float) -> tuple[float, float]:
    """Return where z(t) is smallest, and its value there.

    z is convex, and z′ = 1 − (B/K) E τ²/(t − τ)² is positive for t > τ_max (1 + √(B/K)).
    """
    if not moments.variance > 0:
        raise InputError("moments must be those of an activation that is not constant")
    low = _largest(moments, rho_b)
    high = low * (1 + math.sqrt(ratio))
    for _ in range(200):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        if _image(moments, rho_b, ratio, a) < _image(moments, rho_b, ratio, b):
            high = b
        else:
            low = a
    return high, _image(moments, rho_b, ratio, high)


# --- softmax -------------------------------------------------------------------------------------


def softmax_spike(K: int, B: int) -> float:
    """Return B/K: the eigenvalue of SᵀS due to the mean 1/K of every column (eq. softmax-spike)."""
    refuse(whole(K=K, B=B))
    return B / K


def softmax_concentration(K: int, variance: float, beta: float = 1.0) -> float:
    """Return E‖σ‖² for softmax of K logits β z, z ~ N(0, v): E e^(2βz)/(K (E e^(βz))²) = e^(β²v)/K.

    The limit of many memories; β²v must stay well below log K.
    """
    refuse([*whole(K=K), *at_least_zero(variance=variance), *above_zero(beta=beta)])
    if beta**2 * variance >= math.log(K):
        raise InputError(
            f"variance must be below log(K)/beta² = {math.log(K) / beta**2:.4g}, got {variance!r}"
        )
    return math.exp(beta**2 * variance) / K


def softmax_gain(K: int, variance: float, *, s1: float, s2: float, beta: float = 1.0) -> float:
    """Return the factor of g in E_W[f − c | g] = β s1 s2 E[1 − ‖σ‖²] g, with v = s1² ‖g‖².

    By Gaussian integration by parts it is exact, centred or not (centring does not change E‖σ‖²), apart from
    E‖σ‖², which is taken from `softmax_concentration`.
    """
    refuse(above_zero(s1=s1, s2=s2))
    return beta * s1 * s2 * (1 - softmax_concentration(K, variance, beta))
