"""A Hopfield layer and an energy transformer, as they are usually built and rescaled: checks and sweeps.

python examples/layers.py --out docs/layers.json      # some minutes on two cores

Needs the extra `torch`. The page docs/layers.md shows the results.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import denseam as dam
import denseam.torch as dt

SIZES = (32, 64, 128, 256)
SEEDS, UPDATES, EPOCHS, CHECK_RATE = 4, 16, 16, 0.003
RATES = dam.logspace(1e-4, 0.3162, 15)
TOKENS, STEPS = 4, 4  # of the energy transformer


def normal(*shape: int, std: float) -> nn.Parameter:
    """Return a matrix to be trained."""
    return nn.Parameter(std * torch.randn(shape))


def centred(v: Tensor) -> Tensor:
    """Return v without its mean over the memories."""
    return v - v.mean(-1, keepdim=True)


class Hopfield(nn.Module):
    """The layer with learned patterns Y: ``f(x) = softmax(β q Kᵀ) V W_O``, q = x̂ W_Q, K = Ŷ W_K, V = Ŷ W_V.

    Hats are layer norms, β = N^-1/2. As it is usually built all entries start with standard deviation 0.02.
    Rescaled they have 1, each product has the factor N^-1/2, the sum over the K memories K^1/2, and the
    weights of the memories are centred.
    """

    def __init__(self, N: int, K: int, *, rescaled: bool) -> None:
        super().__init__()
        std, self.s1, self.s2 = (1.0, N**-0.5, K**0.5) if rescaled else (0.02, 1.0, 1.0)
        self.beta, self.rescaled = N**-0.5, rescaled
        self.state_norm, self.key_norm, self.value_norm = (nn.LayerNorm(N) for _ in range(3))
        self.patterns = normal(K, N, std=std)
        self.query, self.key, self.value, self.out = (normal(N, N, std=std) for _ in range(4))

    def hidden(self, x: Tensor) -> Tensor:
        """Return the similarities β q Kᵀ of samples and memories."""
        q = self.s1 * self.state_norm(x) @ self.query
        k = self.s1 * self.key_norm(self.patterns) @ self.key
        return self.beta * q @ k.T

    def forward(self, x: Tensor) -> Tensor:
        """Return f(x)."""
        weights = torch.softmax(self.hidden(x), -1)
        if self.rescaled:
            weights = centred(weights)
        v = self.s1 * self.value_norm(self.patterns) @ self.value
        return self.s1 * (self.s2 * weights @ v) @ self.out


class EnergyTransformer(nn.Module):
    """Tokens that descend an energy, x ← x − α ∂E/∂g with g = LayerNorm(x), in T steps of size α = 1/T.

    ``E = −(1/β) Σ_C log Σ_{B≠C} exp(β k_B·q_C) − (s2/2s1) Σ_B ‖relu(s1 ξ g_B)‖²`` with q = s1 W_Q g,
    k = s1 W_K g, β = D^-1/2, D features of a token. As it is usually built entries have variance 1/D and
    s1 = s2 = 1. Rescaled they have variance 1, s1 = D^-1/2, s2 = M^-1/2 for M memories, and ξ g and its
    activations are centred over the memories.
    """

    def __init__(self, N: int, K: int, *, rescaled: bool) -> None:
        super().__init__()
        D, M = N // TOKENS, K // TOKENS
        std, self.s1, self.s2 = (1.0, D**-0.5, M**-0.5) if rescaled else (D**-0.5, 1.0, 1.0)
        self.D, self.beta, self.rescaled = D, D**-0.5, rescaled
        self.norm = nn.LayerNorm(D)
        self.query, self.key = (normal(D, D, std=std) for _ in range(2))
        self.memories = normal(M, D, std=std)

    def _tokens(self, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys, and β k·q between different tokens."""
        q, k = self.s1 * g @ self.query.T, self.s1 * g @ self.key.T
        itself = torch.eye(TOKENS, dtype=torch.bool, device=g.device)
        return q, k, (self.beta * q @ k.mT).masked_fill(itself, -torch.inf)

    def _centred(self, v: Tensor) -> Tensor:
        return centred(v) if self.rescaled else v

    def energy(self, g: Tensor) -> Tensor:
        """Return E for tokens g, samples × tokens × D."""
        attention = torch.logsumexp(self._tokens(g)[2], -1).sum(-1) / self.beta
        activations = torch.relu(self._centred(self.s1 * g @ self.memories.T))
        return -attention - self.s2 / (2 * self.s1) * activations.square().sum((-1, -2))

    def force(self, g: Tensor) -> Tensor:
        """Return −∂E/∂g."""
        q, k, similarities = self._tokens(g)
        A = torch.softmax(similarities, -1)
        attention = self.s1 * ((A @ k) @ self.query + (A.mT @ q) @ self.key)
        activations = torch.relu(self._centred(self.s1 * g @ self.memories.T))
        return attention + self.s2 * self._centred(activations) @ self.memories

    def forward(self, x: Tensor) -> Tensor:
        """Return the tokens after T steps."""
        tokens = x.reshape(len(x), TOKENS, self.D)
        for _ in range(STEPS):
            tokens = tokens + self.force(self.norm(tokens)) / STEPS
        return tokens.reshape(x.shape)


LAYERS: dict[str, type[nn.Module]] = {"Hopfield layer": Hopfield, "energy transformer": EnergyTransformer}


def maker(layer: type[nn.Module], rescaled: bool) -> Callable[[dam.Shape, int], nn.Module]:
    """Return the function of shape and seed that makes a layer."""

    def make(shape: dam.Shape, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return layer(shape.N, shape.K, rescaled=rescaled)

    return make


def adam(model: nn.Module, shape: dam.Shape, eta0: float = CHECK_RATE) -> torch.optim.Optimizer:
    """Return Adam with one rate at every size: the rule of this library, if all entries have variance 1."""
    return torch.optim.Adam(model.parameters(), lr=eta0)


def checked(layer: type[nn.Module], rescaled: bool, name: str) -> dict[str, Any]:
    """Return the check of a layer: its status, and the exponents at the first and the last step."""
    check = dt.check(maker(layer, rescaled), adam, scales=SIZES, seeds=SEEDS, updates=UPDATES, name=name)
    judged = [s for s in check.slopes if s.judged]
    exponents = {
        s.name: {str(t.step): t.slope for t in judged if t.name == s.name and t.step in (0, 4, UPDATES)}
        for s in judged
    }
    return {"status": check.status, "reason": check.reason, "exponents": exponents} | {
        "desiderata": check.desiderata
    }


def swept(layer: type[nn.Module], rescaled: bool, name: str) -> dict[str, Any]:
    """Return the verdict on the best learning rate of a layer."""
    records = dt.sweep(maker(layer, rescaled), adam, RATES, scales=SIZES, seeds=3, epochs=EPOCHS, name=name)
    (verdict,) = dam.verdict(records)
    return verdict.to_json()


def main() -> None:
    """Check and sweep every layer, before and after."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file for the results")
    out = parser.parse_args().out
    settings = {"sizes": SIZES, "check_seeds": SEEDS, "sweep_seeds": 3, "epochs": EPOCHS, "rates": RATES}
    results: list[dict[str, Any]] = []
    for title, layer in LAYERS.items():
        for rescaled in (False, True):
            name = f"{title}, {'rescaled' if rescaled else 'as usual'}"
            result = {"layer": title, "rescaled": rescaled}
            result |= {"check": checked(layer, rescaled, name), "verdict": swept(layer, rescaled, name)}
            results.append(result)
            print(name, result["check"]["status"], result["verdict"]["status"], flush=True)
            document = {"torch": torch.__version__, "settings": settings, "layers": results}
            out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
