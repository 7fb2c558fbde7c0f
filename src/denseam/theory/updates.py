"""How large the outputs and their first changes under SGD are: identity activation, zero biases.

With samples as columns, the terms by which one step changes Z = s1 W G and F = s2 Wᵀ Z are (eqs. dZ-expanded,
dF-11 … dF-22, with σ = identity)

======  =======================================  ======================================
name    term                                     with A = WᵀW/K, D = GGᵀ/B and R = QG
======  =======================================  ======================================
Z1      −η s1² s2/B · W G Rᵀ G                   ∝ W D Q G
Z2      −η s1² s2/B · W R Gᵀ G                   ∝ W Q D G
F11     −η s1² s2²/B · R Gᵀ WᵀW G                ∝ Q D A G
F12     −η s1² s2²/B · G Rᵀ WᵀW G                ∝ D Q A G
F21     −η s1² s2²/B · WᵀW G Rᵀ G                ∝ A D Q G
F22     −η s1² s2²/B · WᵀW R Gᵀ G                ∝ A Q D G
======  =======================================  ======================================

Their sizes are E‖·‖² over the number of entries, in the limit of large N at fixed κ = K/N, ρ_B = B/N, where
A and D are free with the moments m_j(1/κ) and v_gʲ m_j(1/ρ_B). Corrections are of relative order 1/N.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import groupby, product
from typing import NamedTuple

import numpy as np

from denseam.ground.errors import above_zero, at_least_zero, refuse, whole
from denseam.theory.gaussian import Function, feature_moments
from denseam.theory.moments import marchenko_pastur_moment, mixed_moment


class UpdateSizes(NamedTuple):
    """Mean squared entries of the six terms of the first step."""

    Z1: float
    Z2: float
    F11: float
    F12: float
    F21: float
    F22: float


def output_size(N: int, K: int, s1: float, s2: float, v_g: float = 1.0, *, centred: bool = False) -> float:
    """Return E‖F‖²/(NB) at the start, exactly at every size.

    E (WᵀW)² = K (K + N + 1) I gives s1² s2² v_g K (K + N + 1) (eq. F-frob-final). Centring removes one of the
    K directions: K → K − 1.
    """
    refuse([*whole(N=N, K=K), *above_zero(s1=s1, s2=s2), *at_least_zero(v_g=v_g)])
    rows = K - 1 if centred else K
    return s1**2 * s2**2 * v_g * rows * (rows + N + 1)


# --- the residual replaced by F ------------------------------------------------------------------


def update_sizes(kappa: float, rho_b: float) -> UpdateSizes:
    """Return the sizes with R replaced by F, in units η_W s2² = 1, s2² K = 1, s1² N = 1, v_g = 1.

    With d = 1/ρ_B:

    * Z1 = 1 + 3κ(1 + d) + κ²(1 + 3d + d²)
    * Z2 = (1 + 3κ + κ²)(1 + 3d + d²)
    * F11 = F21 = 1 + κ(6 + 3d) + κ²(6 + 8d + d²) + κ³(1 + 3d + d²)
    * F12 = 1 + d + κ(6 + 8d + d²) + κ²(6 + 10d + 2d²) + κ³(1 + 3d + d²)
    * F22 = (1 + 6κ + 6κ² + κ³)(1 + 3d + d²)
    """
    refuse(above_zero(kappa=kappa, rho_b=rho_b))
    k, d = kappa, 1 / rho_b
    m3 = 1 + 3 * d + d**2
    F11 = 1 + k * (6 + 3 * d) + k**2 * (6 + 8 * d + d**2) + k**3 * m3
    return UpdateSizes(
        Z1=1 + 3 * k * (1 + d) + k**2 * m3,
        Z2=(1 + 3 * k + k**2) * m3,
        F11=F11,
        F12=1 + d + k * (6 + 8 * d + d**2) + k**2 * (6 + 10 * d + 2 * d**2) + k**3 * m3,
        F21=F11,
        F22=(1 + 6 * k + 6 * k**2 + k**3) * m3,
    )


def update_sizes_at(
    N: int, K: int, B: int, *, eta_W: float, s1: float, s2: float, v_g: float = 1.0
) -> UpdateSizes:
    """Return the sizes with R replaced by F in the units of a model, to leading order in 1/N.

    These are the sizes of `update_sizes` times (η_W s2²)² (s1² N)³ v_g³, and the F-terms times s2² K as well.
    """
    refuse([*whole(N=N, K=K, B=B), *above_zero(eta_W=eta_W, s1=s1, s2=s2, v_g=v_g)])
    unit = (eta_W * s2**2) ** 2 * (s1**2 * N) ** 3 * v_g**3
    sizes = update_sizes(K / N, B / N)
    return UpdateSizes(
        *(s * unit * (s2**2 * K if name[0] == "F" else 1) for name, s in sizes._asdict().items())
    )


# --- the true residual ---------------------------------------------------------------------------

#: For R = QG − τH: the word whose φ is the part with Q, and the words whose product of φ's, times τ²/ρ_B,
#: is the part with H. Each norm holds H once and Hᵀ once, and E Hᵀ X H = tr(X) I, E H X Hᵀ = tr(X) I.
WORDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Z1": ("ADQDQD", ("D", "AD")),
    "Z2": ("AQDDDQ", ("A", "DD")),
    "F11": ("QDADADQ", ("ADAD",)),
    "F12": ("DQADAQD", ("D", "AAD")),
    "F21": ("ADQDQDA", ("D", "AAD")),
    "F22": ("AQDDDQA", ("AA", "DD")),
}


def residual_update_sizes(
    kappa: float,
    rho_b: float,
    noise: float,
    *,
    eta0: float = 1.0,
    s1_0: float = 1.0,
    s2_0: float = 1.0,
    g: Function = np.tanh,
) -> UpdateSizes:
    """Return the sizes with the true residual R = F − Y, for isotropic data y ~ N(0, 1), x = y + σ_ε ε.

    The scales are the prescription's: s1 = s1_0/√N, s2 = s2_0/√K, η_W = eta0·K.

    Only second moments of the data matter to leading order, so Y may be replaced by a G + τ H with H
    independent, a = E[y g]/v_g and τ² = 1 − a² v_g. Then R = QG − τH with Q = s1 s2 K A − a. The parts with Q
    and with H add up. With f = s1_0 s2_0 √κ, a unit of (eta0 s1_0² s2_0)² κ for Z and (eta0 s1_0² s2_0²)² κ²
    for F, and `WORDS`:

    size / unit = φ(word with Q = fA − a) + (τ²/ρ_B) Π φ(words).
    """
    constants = {"eta0": eta0, "s1_0": s1_0, "s2_0": s2_0}
    refuse([*above_zero(kappa=kappa, rho_b=rho_b, **constants), *at_least_zero(noise=noise)])
    data = feature_moments(noise, g)
    f = s1_0 * s2_0 * math.sqrt(kappa)
    A = [marchenko_pastur_moment(j, 1 / kappa) for j in range(1, 5)]
    D = [data.v_g**j * marchenko_pastur_moment(j, 1 / rho_b) for j in range(1, 4)]
    units = {"Z": (eta0 * s1_0**2 * s2_0) ** 2 * kappa, "F": (eta0 * s1_0**2 * s2_0**2 * kappa) ** 2}

    def phi(word: str) -> float:
        total = 0.0
        choices = [(("A", f), ("", -data.slope)) if letter == "Q" else ((letter, 1.0),) for letter in word]
        for chosen in product(*choices):
            letters = "".join(letter for letter, _ in chosen)
            total += math.prod(factor for _, factor in chosen) * mixed_moment(_exponents(letters), A, D)
        return total

    def size(name: str) -> float:
        word, rest = WORDS[name]
        return units[name[0]] * (phi(word) + data.rest / rho_b * math.prod(phi(part) for part in rest))

    return UpdateSizes(*(size(name) for name in UpdateSizes._fields))


def residual_size(
    kappa: float, noise: float, *, s1_0: float = 1.0, s2_0: float = 1.0, g: Function = np.tanh
) -> float:
    """Return E‖R‖²/(NB), the loss per feature before training: identity activation, isotropic data.

    v_g φ(Q²) + τ² = v_g f² (1 + 1/κ) − 2 f E[y g] + 1, with f = s1_0 s2_0 √κ.
    """
    refuse([*above_zero(kappa=kappa, s1_0=s1_0, s2_0=s2_0), *at_least_zero(noise=noise)])
    data = feature_moments(noise, g)
    f = s1_0 * s2_0 * math.sqrt(kappa)
    return data.v_g * f**2 * (1 + 1 / kappa) - 2 * f * data.cross + 1


def _exponents(letters: str) -> list[tuple[int, int]]:
    """Return the word as exponents: 'AADAD' → [(2, 1), (1, 1)]."""
    return [(len(list(run)), 0) if letter == "A" else (0, len(list(run))) for letter, run in groupby(letters)]
