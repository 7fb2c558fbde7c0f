"""The same memory in PyTorch: model, energies, parameter groups, checkpoints, and the check of any model.

Importing `denseam` never imports PyTorch; importing this does. The model computes what the JAX model does
and uses the same files, so that a model trained in one framework can be used in the other.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError("denseam.torch needs PyTorch: pip install 'denseam[torch]'") from None

from denseam.torch.groups import decays, learning_rates, param_groups, verify
from denseam.torch.lagrangians import Identity, Lagrangian, ReLU, Softmax, Tanh, identity, relu, softmax, tanh
from denseam.torch.model import DenseAM, Recall, from_torch, to_torch
from denseam.torch.scaling_check import check, sweep

__all__ = [
    "DenseAM", "Identity", "Lagrangian", "ReLU", "Recall", "Softmax", "Tanh", "check", "decays",
    "from_torch", "identity", "learning_rates", "param_groups", "relu", "softmax", "sweep", "tanh",
    "to_torch", "verify",
]  # fmt: skip
