"""Lagrangians: the convex functions that define a memory, by what they are sums or maxima of."""

from denseam.model.lagrangians.base import (
    Elementwise,
    Lagrangian,
    Scalar,
    Vector,
    from_json,
    from_text,
    register,
    registered,
    to_json,
    to_text,
)
from denseam.model.lagrangians.elementwise import (
    Exp,
    Identity,
    Polynomial,
    ReLU,
    Sigmoid,
    Softplus,
    Tanh,
)
from denseam.model.lagrangians.norms import LayerNorm, Norm, SphericalNorm
from denseam.model.lagrangians.simplex import (
    Entmax,
    Ghostmax,
    Normmax,
    RelativeEntmax,
    RelativeNormmax,
    Softmax,
    TopK,
    TopShare,
)

# The names people type: relu(power=2), softmax(beta=4), entmax(alpha=1.5).
identity, relu, tanh, sigmoid, softplus = Identity, ReLU, Tanh, Sigmoid, Softplus
exp, polynomial = Exp, Polynomial
softmax, ghostmax, topk, topshare = Softmax, Ghostmax, TopK, TopShare
entmax, normmax, relative_entmax, relative_normmax = Entmax, Normmax, RelativeEntmax, RelativeNormmax
layer_norm, spherical_norm = LayerNorm, SphericalNorm

__all__ = [
    "Elementwise", "Entmax", "Exp", "Ghostmax", "Identity", "Lagrangian", "LayerNorm", "Norm", "Normmax",
    "Polynomial", "ReLU", "RelativeEntmax", "RelativeNormmax", "Scalar", "Sigmoid", "Softmax", "Softplus",
    "SphericalNorm", "Tanh", "TopK", "TopShare", "Vector", "entmax", "exp", "from_json", "from_text",
    "ghostmax", "identity", "layer_norm", "normmax", "polynomial", "register", "registered",
    "relative_entmax", "relative_normmax", "relu", "sigmoid", "softmax", "softplus", "spherical_norm", "tanh",
    "to_json", "to_text", "topk", "topshare",
]  # fmt: skip
