"""Parameter groups: the learning rates of `Scales` for any optimizer of `torch.optim`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from denseam.errors import InputError, listed, refuse
from denseam.rules import Scales

#: What a parameter can be: memories, a bias of the hidden neurons, a bias of the features.
ROLES = ("W", "b", "c")


def param_groups(
    model: nn.Module,
    scales: Scales | None = None,
    *,
    roles: Mapping[str, str] | None = None,
    epsilon: float | None = None,
    decay: float | None = None,
) -> list[dict[str, Any]]:
    """Return the groups to make an optimizer of: ``torch.optim.Adam(param_groups(model))``.

    Nothing is changed in the model: a second call returns the same groups. Learning-rate schedulers of
    PyTorch multiply the rates of all groups alike, so that their ratios stay as prescribed.

    Parameters
    ----------
    model
        A `DenseAM`, or any module.
    scales
        The scales of the model's shape; those of the model itself if it has any.
    roles
        For a module of your own: parameter name → 'W', 'b' or 'c'. Every parameter that is trained must have
        one; a matrix that is used in two places is one parameter, under either of its names.
    epsilon
        Adam's ε; for each parameter it is multiplied by its own factor, such as ``scales.epsilon_W``.
    decay
        AdamW's weight decay of W, multiplied by ``scales.decay_W``; biases are not decayed.
    """
    model = _unwrapped(model)
    scales = scales if scales is not None else getattr(model, "scales", None)
    if not isinstance(scales, Scales):
        raise InputError("scales are needed: this model has none of its own")
    named = dict(model.named_parameters(remove_duplicate=False))
    given = dict(roles) if roles is not None else {n: n for n in ROLES if n in named}
    role_of: dict[int, str] = {}
    problems = []
    for name, role in given.items():
        if role not in ROLES:
            problems.append(f"roles: {name!r} must be {listed(ROLES)}, got {role!r}")
        elif name not in named:
            problems.append(f"roles: the model has no parameter {name!r}")
        elif role_of.setdefault(id(named[name]), role) != role:
            problems.append(f"roles: {name!r} is tied to a parameter with another role")
    left = [n for n, p in named.items() if p.requires_grad and id(p) not in role_of]
    problems += [f"parameter {n!r} belongs to no group; give it a role" for n in left]
    refuse(problems)
    rates = {"W": scales.eta_W, "b": scales.eta_b, "c": scales.eta_c}
    factors = {"W": scales.epsilon_W, "b": scales.epsilon_b, "c": scales.epsilon_c}
    if epsilon is None and any(factor != 1 for factor in factors.values()):
        epsilon = 1e-8  # PyTorch's own, which the factors need
    groups = []
    for role in ROLES:
        mine: dict[int, Any] = {id(p): p for p in named.values() if role_of.get(id(p)) == role}
        if not mine:
            continue
        group: dict[str, Any] = {"params": list(mine.values()), "lr": rates[role], "name": role}
        group |= {"prescribed": rates[role], "made_for": scales.optimizer}  # for `verify`
        if epsilon is not None:
            group["eps"] = epsilon * factors[role]
        if decay is not None:
            group["weight_decay"] = decay * scales.decay_W if role == "W" else 0.0
        groups.append(group)
    return groups


def _unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside of what DDP, DataParallel and `torch.compile` put around it."""
    inner: Any = model
    while isinstance(inner, nn.parallel.DistributedDataParallel | nn.DataParallel) or hasattr(
        inner, "_orig_mod"
    ):
        inner = inner._orig_mod if hasattr(inner, "_orig_mod") else inner.module
    own: nn.Module = inner
    return own


def verify(optimizer: Optimizer) -> dict[str, float]:
    """Return the learning rates of an optimizer, after seeing that they still follow the prescription.

    Refused are an optimizer of another kind than the scales were made for (SGD takes steps in proportion to
    the gradient, Adam and its kin normalise them), and rates whose ratios a scheduler or a foreign state has
    changed. Call it whenever you are not sure.
    """
    groups = [g for g in optimizer.param_groups if "prescribed" in g]
    if not groups:
        raise InputError("optimizer must be made from param_groups(model)")
    kind = "sgd" if isinstance(optimizer, torch.optim.SGD) else "adam"
    made_for = groups[0]["made_for"]
    problems = []
    if kind != made_for:
        problems.append(
            f"scales were made for {made_for!r}, but {type(optimizer).__name__} follows the rule of {kind!r}"
        )
    factors = {g["name"]: float(g["lr"]) / g["prescribed"] for g in groups if g["prescribed"] > 0}
    if factors and max(factors.values()) > (1 + 1e-6) * min(factors.values()):
        told = ", ".join(f"{name} {factor:.3g}" for name, factor in factors.items())
        problems.append(
            f"the learning rates have lost their ratios: times the prescribed ones they are {told}"
        )
    refuse(problems)
    return learning_rates(optimizer)


def learning_rates(optimizer: Optimizer) -> dict[str, float]:
    """Return the learning rate that each role has now."""
    return {g["name"]: float(g["lr"]) for g in optimizer.param_groups if g.get("name") in ROLES}
