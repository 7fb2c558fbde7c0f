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
from denseam.torch.lagrangians import (
    Entmax,
    Exp,
    Ghostmax,
    Identity,
    Lagrangian,
    LayerNorm,
    Normmax,
    Polynomial,
    RelativeEntmax,
    RelativeNormmax,
    ReLU,
    Sigmoid,
    Softmax,
    Softplus,
    SphericalNorm,
    Tanh,
    TopK,
    TopShare,
    entmax,
    exp,
    ghostmax,
    identity,
    layer_norm,
    normmax,
    polynomial,
    relative_entmax,
    relative_normmax,
    relu,
    sigmoid,
    softmax,
    softplus,
    spherical_norm,
    tanh,
    topk,
    topshare,
)
from denseam.torch.model import DenseAM, Recall, from_torch, to_torch
from denseam.torch.scaling_check import check, sweep

__all__ = [
    "DenseAM", "Entmax", "Exp", "Ghostmax", "Identity", "Lagrangian", "LayerNorm", "Normmax", "Polynomial",
    "ReLU", "Recall", "RelativeEntmax", "RelativeNormmax", "Sigmoid", "Softmax", "Softplus", "SphericalNorm",
    "Tanh", "TopK", "TopShare", "check", "decays", "entmax", "exp", "from_torch", "ghostmax", "identity",
    "layer_norm", "learning_rates", "normmax", "param_groups", "polynomial", "relative_entmax",
    "relative_normmax", "relu", "sigmoid", "softmax", "softplus", "spherical_norm", "sweep", "tanh",
    "to_torch", "topk", "topshare", "verify",
]  # fmt: skip
