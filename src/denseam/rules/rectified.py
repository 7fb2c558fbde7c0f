"""The constant of ReLU^p, for every framework."""

from __future__ import annotations

import math


def relu_constant(power: float) -> float:
    """Return C_p = √(2 / (2p−1)!!), so that E[(C_p relu(z)^p)²] = 1 for z ~ N(0, 1).

    E[relu(z)^(2p)] is half of E|z|^(2p) = (2p−1)!! = 2^p Γ(p+½)/√π, which also holds between the
    integers. (The paper prints the inverse.)
    """
    log_double_factorial = power * math.log(2) + math.lgamma(power + 0.5) - 0.5 * math.log(math.pi)
    return math.exp(0.5 * (math.log(2) - log_double_factorial))
