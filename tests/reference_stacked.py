"""Two stacked memories in plain NumPy float64, from the energy of docs/stacked.md alone.

The rules of motion are not written here: a block that rests is found by minimising the energy numerically.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from tests.reference import Phi, sigma


@dataclass
class Stacked:
    """x – h1 – h2, with activations by their names; features are tanh."""

    W1: np.ndarray
    W2: np.ndarray
    b1: np.ndarray
    b2: np.ndarray
    c: np.ndarray
    up1: float
    down1: float
    up2: float
    down2: float
    first: tuple
    second: tuple
    centred: bool

    def projected(self, v):
        return v - v.mean() if self.centred else v

    def energy(self, x, h1, h2):
        """E = [g·(x − c) − G]/d₁ + [(h¹ − b¹)·σ¹ − Φ¹]/u₁ + (d₂/u₁u₂)[(h² − b²)·σ² − Φ²] − σ¹ᵀW¹g − (d₂/u₁)σ²ᵀW²σ¹."""
        K1, K2 = len(h1), len(h2)
        C1 = np.eye(K1) - self.centred / K1
        C2 = np.eye(K2) - self.centred / K2
        W1, W2, b1, b2 = C1 @ self.W1, C2 @ self.W2 @ C1, C1 @ self.b1, C2 @ self.b2
        g = np.tanh(x)
        S1, S2 = (sigma(name, h, **own) for (name, own), h in ((self.first, h1), (self.second, h2)))
        P1, P2 = (Phi(name, h, **own) for (name, own), h in ((self.first, h1), (self.second, h2)))
        top = self.down2 / self.up1
        return (
            (np.sum(g * (x - self.c)) - np.sum(np.log(np.cosh(x)))) / self.down1
            + (np.sum((h1 - b1) * S1) - P1) / self.up1
            + top / self.up2 * (np.sum((h2 - b2) * S2) - P2)
            - S1 @ W1 @ g
            - top * S2 @ W2 @ S1
        )

    def lowest(self, block, x, h1, h2):
        """The least energy over one block, the others held; by a search from several starts."""
        state = {"x": x, "h1": h1, "h2": h2}

        def of(v):
            return self.energy(**state | {block: v})

        rng = np.random.default_rng(0)
        starts = [state[block], *rng.standard_normal((3, len(state[block])))]
        return min((minimize(of, v, tol=1e-12) for v in starts), key=lambda found: found.fun).fun
