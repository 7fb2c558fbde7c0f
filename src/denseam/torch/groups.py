"""Parameter groups: the learning rates of `Scales` for any optimizer of `torch.optim`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from denseam.errors import InputError, listed, refuse
from denseam.rules import Scales
from denseam.rules.optimizers import OPTIMIZERS, Normalisation

#: The roles of a parameter: memories, bias of the hidden neurons, bias of the features.
ROLES = ("W", "b", "c")

#: Optimizer of `torch.optim` → what the size of its update is set by.
KNOWN: Mapping[str, Normalisation] = {
    "SGD": Normalisation.GRADIENT,
    **dict.fromkeys(
        ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop", "Rprop", "SparseAdam"),
        Normalisation.ENTRIES,
    ),
    "Muon": Normalisation.ORTHOGONAL,
}


def param_groups(
    model: nn.Module,
    scales: Scales | None = None,
    *,
    roles: Mapping[str, str] | None = None,
    epsilon: float | None = None,
    decay: float | None = None,
    only: Collection[str] = ROLES,
) -> list[dict[str, Any]]:
    """Return the parameter groups for an optimizer: ``torch.optim.Adam(param_groups(model))``.

    Muon trains matrices only, so it shares the model with Adam::

        muon = torch.optim.Muon(param_groups(model, only="W"))
        adam = torch.optim.Adam(param_groups(model, only="bc"))

    The factor on the learning rate that `torch.optim.Muon` has of its own is divided out.

    The model is not changed: a second call returns the same groups. PyTorch's learning-rate schedulers
    multiply the rates of all groups by the same factor, so that their ratios stay as prescribed. The
    schedules of this library are functions for one of them::

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, denseam.Timetable("cosine", steps=640))

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
        Decoupled weight decay of W, multiplied by ``scales.decay_W``; biases are not decayed. By default
        that of the optimizer, which scales made for 'adamw' or 'muon' set to their own: 1e-4 and none. A
        time is translated by ``scales.decay(decay_time, steps)``. `torch.optim.SGD` adds the decay before
        the momentum, which multiplies it by 1/(1 − momentum).
    only
        The roles whose groups are returned.
    """
    refuse(f"only must be roles among {listed(ROLES)}, got {role!r}" for role in only if role not in ROLES)
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
    rule = OPTIMIZERS[scales.optimizer]
    if decay is None and rule.name in _DECAYING:
        decay = rule.defaults["decay"]
    groups = []
    for role in ROLES:
        members: dict[int, Any] = {id(p): p for p in named.values() if role_of.get(id(p)) == role}
        if not members or role not in only:
            continue
        own = rule if role == "W" else rule.of_biases
        params = list(members.values())
        factor = _factor(params[0]) if own.normalisation is Normalisation.ORTHOGONAL else 1.0
        rate = rates[role] / factor
        group: dict[str, Any] = {"params": params, "lr": rate, "name": role}
        group |= {"prescribed": rate, "made_for": own.name, "factor": factor}  # for `verify`
        if epsilon is not None and "epsilon" in own.defaults and factor == 1:
            group["eps"] = epsilon * factors[role]
        own_decay = factor * (decay or 0.0) * scales.decay_W if role == "W" else 0.0
        if decay is not None:
            group["weight_decay"] = own_decay
        group["prescribed_decay"] = own_decay
        if own.normalisation is Normalisation.ORTHOGONAL:
            group["adjust_lr_fn"] = "original"
        groups.append(group)
    return groups


#: PyTorch decays with these by default.
_DECAYING = ("adamw", "muon")


def _factor(W: Any) -> float:
    """Return the factor by which `torch.optim.Muon` multiplies the learning rate of its update."""
    return math.sqrt(max(1.0, W.shape[0] / W.shape[1]))


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


def verify(*optimizers: Optimizer, like: str | None = None) -> dict[str, float]:
    """Return the learning rates of optimizers after checking that they still follow the prescription.

    An `InputError` is raised for an optimizer of another kind than the scales were made for (the steps of SGD
    are proportional to the gradient, those of Adam normalised entry by entry, those of Muon orthogonal), for
    rates whose ratios a scheduler or a loaded state has changed, for a decay that is added to the gradient
    and then normalised, and for one that does not scale with size although it must.

    Parameters
    ----------
    optimizers
        All optimizers of a model: one, or with Muon two.
    like
        The name of an optimizer of this library whose rule the updates follow, for those that are not in
        `torch.optim`.
    """
    groups = [g for optimizer in optimizers for g in optimizer.param_groups if "prescribed" in g]
    if not groups:
        raise InputError("optimizer must be made from param_groups(model)")
    if like is not None and like not in OPTIMIZERS:
        raise InputError(f"like must be {listed(OPTIMIZERS)}, got {like!r}")
    problems = [p for optimizer in optimizers for p in _kind_problems(optimizer, like)]
    factors = {g["name"]: float(g["lr"]) / g["prescribed"] for g in groups if g["prescribed"] > 0}
    if factors and max(factors.values()) > (1 + 1e-6) * min(factors.values()):
        ratios = ", ".join(f"{name} {factor:.3g}" for name, factor in factors.items())
        problems.append(f"the learning rates have lost their ratios: relative to the prescription {ratios}")
    refuse(problems)
    return learning_rates(*optimizers)


def _kind_problems(optimizer: Optimizer, like: str | None) -> list[str]:
    """Return what the kind of an optimizer does not fit, a sentence each."""
    title = type(optimizer).__name__
    known = _normalisation(optimizer)
    if known is None and like is not None:
        known = OPTIMIZERS[like].normalisation
    if known is None:
        return [
            f"optimizer must be {listed(KNOWN)}, got {title}; if it follows a rule, say which: like='adam'"
        ]
    made_for = {g["made_for"]: None for g in optimizer.param_groups if "made_for" in g}
    problems = [
        f"scales were made for {name!r}, but {title} follows another rule"
        for name in made_for
        if OPTIMIZERS[name].normalisation is not known
    ]
    coupled = any(
        g.get("weight_decay") and not g.get("decoupled_weight_decay") for g in optimizer.param_groups
    )
    if coupled and known is Normalisation.ENTRIES and like is None:
        problems.append(f"weight_decay: {title} normalises it away with the gradient; use AdamW")
    if known is not Normalisation.ENTRIES:
        problems += [
            f"weight_decay of {g['name']} must be {g['prescribed_decay']:.6g}, that of its group, got "
            f"{g['weight_decay']:.6g}: param_groups(model, decay=…) scales it with size"
            for g in optimizer.param_groups
            if "prescribed_decay" in g and not math.isclose(g.get("weight_decay", 0.0), g["prescribed_decay"])
        ]
    return problems


def _normalisation(optimizer: Optimizer) -> Normalisation | None:
    """Return what sets the size of the updates of an optimizer of `torch.optim`, or one derived from it."""
    bases = (base for base in type(optimizer).__mro__ if base.__module__.startswith("torch.optim"))
    return next((KNOWN[base.__name__] for base in bases if base.__name__ in KNOWN), None)


def learning_rates(*optimizers: Optimizer) -> dict[str, float]:
    """Return the current learning rate of each role, with the factor that `torch.optim.Muon` puts on it."""
    groups = (g for optimizer in optimizers for g in optimizer.param_groups)
    return {g["name"]: float(g["lr"]) * g.get("factor", 1.0) for g in groups if g.get("name") in ROLES}


def decays(*optimizers: Optimizer) -> dict[str, float]:
    """Return the share of each role that a step takes away now, η_W λ_W for W, if there is no gradient.

    `torch.optim.SGD` sends the decay through the momentum μ: after some steps its share is 1/(1 − μ) times
    larger, which is counted here.
    """
    shares = {}
    for group in (g for optimizer in optimizers for g in optimizer.param_groups if g.get("name") in ROLES):
        momentum = group.get("momentum", 0.0) if group.get("made_for") == "sgd" else 0.0
        shares[group["name"]] = float(group["lr"]) * group.get("weight_decay", 0.0) / (1 - momentum)
    return shares
