"""The states of a linear memory along steps of recall.

For identity activation and features, without centring, f(x) = A x with A = WᵀW/√(NK). Its eigenvalues are √κ
times those of WᵀW/K, whose law is that of Marchenko and Pastur with ratio 1/κ. So a state of independent
entries has, after T steps of size d = τ/T, the mean square

    E x_T² = E x_0² · ∫ (1 − d + d √κ m)^{2T} dμ(m),

a sum of moments, which for T → ∞ goes to ∫ exp(2τ(√κ m − 1)) dμ(m): it does not depend on N, and on T only
by O(1/T).
"""

from __future__ import annotations

import math

from denseam.ground.errors import above_zero, refuse, whole
from denseam.theory.moments import marchenko_pastur_moment


def linear_growth(kappa: float, T: int, tau: float = 1.0) -> float:
    """Return E x_T² / E x_0² of an untrained linear memory in T steps of size τ/T.

    Parameters
    ----------
    kappa
        K/N.
    """
    refuse([*above_zero(kappa=kappa, tau=tau), *whole(T=T)])
    d = tau / T
    return sum(
        math.comb(2 * T, k)
        * (1 - d) ** (2 * T - k)
        * (d * math.sqrt(kappa)) ** k
        * marchenko_pastur_moment(k, 1 / kappa)
        for k in range(2 * T + 1)
    )
