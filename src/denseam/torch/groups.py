"""Parameter groups: the learning rates of `Scales` for any optimizer of `torch.optim`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from denseam.errors import InputError, listed, refuse
from denseam.rules import Scales

#: The roles of a parameter: memories, bias of the hidden neurons, bias of the features.
ROLES = ("W", "b", "c")


def param_groups(
    model: nn.Module,
    scales: Scales | None = None,
    *,
    roles: Mapping[str, str] | None = None,
    epsilon: float | None = None,
    decay: float | None = None,
) -> list[dict[str, Any]]:
    """Return the parameter groups for an optimizer: ``torch.optim.Adam(param_groups(model))``.

    The model is not changed: a second call returns the same groups. PyTorch's learning-rate schedulers
    multiply the rates of all groups by the same factor, so that their ratios stay as prescribed.

    Parameters
    ----------
    model
        A `DenseAM`, or any module.
    scales
        The scales at the model's shape; by default those of the model itself.
    roles
        For your own module: parameter name → 'W', 'b' or 'c'. Every trained parameter must have a role; a
        matrix that is used in two places is one parameter, under either of its names.
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
    role_of = _roles_by_id(named, roles)
    rates = {"W": scales.eta_W, "b": scales.eta_b, "c": scales.eta_c}
    factors = {"W": scales.epsilon_W, "b": scales.epsilon_b, "c": scales.epsilon_c}
    if epsilon is None and any(factor != 1 for factor in factors.values()):
        epsilon = 1e-8  # PyTorch's default, which the factors apply to
    groups = []
    for role in ROLES:
        members: dict[int, Any] = {id(p): p for p in named.values() if role_of.get(id(p)) == role}
        if not members:
            continue
        group: dict[str, Any] = {"params": list(members.values()), "lr": rates[role], "name": role}
        group |= {"prescribed": rates[role], "made_for": scales.optimizer}  # for `verify`
        if epsilon is not None:
            group["eps"] = epsilon * factors[role]
        if decay is not None:
            group["weight_decay"] = decay * scales.decay_W if role == "W" else 0.0
        groups.append(group)
    return groups


def _roles_by_id(named: Mapping[str, Any], roles: Mapping[str, str] | None) -> dict[int, str]:
    """Return the role of each parameter by its id, since `named` may list a tied one under two names."""
    if roles is None:
        roles = {name: name for name in ROLES if name in named}
    role_of: dict[int, str] = {}
    problems = []
    for name, role in roles.items():
        if role not in ROLES:
            problems.append(f"roles: {name!r} must be {listed(ROLES)}, got {role!r}")
        elif name not in named:
            problems.append(f"roles: the model has no parameter {name!r}")
        elif role_of.setdefault(id(named[name]), role) != role:
            problems.append(f"roles: {name!r} is tied to a parameter with another role")
    left = [n for n, p in named.items() if p.requires_grad and id(p) not in role_of]
    problems += [f"parameter {n!r} belongs to no group; give it a role" for n in left]
    refuse(problems)
    return role_of


def _unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside the wrappers of DDP, DataParallel and `torch.compile`."""
    wrappers = (nn.parallel.DistributedDataParallel, nn.DataParallel)
    inner: Any = model
    while hasattr(inner, "_orig_mod") or isinstance(inner, wrappers):
        inner = inner._orig_mod if hasattr(inner, "_orig_mod") else inner.module
    own: nn.Module = inner
    return own


def verify(optimizer: Optimizer) -> dict[str, float]:
    """Return the learning rates of an optimizer after checking that they still follow the prescription.

    An `InputError` is raised for an optimizer of another kind than the scales were made for (the steps of SGD
    are proportional to the gradient, those of Adam and its relatives are normalised), and for rates whose
    ratios a scheduler or a loaded state has changed.
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
        ratios = ", ".join(f"{name} {factor:.3g}" for name, factor in factors.items())
        problems.append(f"the learning rates have lost their ratios: relative to the prescription {ratios}")
    refuse(problems)
    return learning_rates(optimizer)


def learning_rates(optimizer: Optimizer) -> dict[str, float]:
    """Return the current learning rate of each role."""
    return {g["name"]: float(g["lr"]) for g in optimizer.param_groups if g.get("name") in ROLES}
