"""Parameter groups: the learning rates of `Scales` for any optimizer of `torch.optim`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from denseam.ground.errors import InputError, listed, refuse
from denseam.rules import Scales
from denseam.rules.optimizers import AVERAGES, OPTIMIZERS, Normalisation, UpdateRule
from denseam.torch.roles import ROLES, Place, assigned

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
    rest: Mapping[str, Any] | None = None,
    epsilon: float | None = None,
    decay: float | None = None,
    only: Collection[str] = (*ROLES, "rest"),
) -> list[dict[str, Any]]:
    """Return the parameter groups for an optimizer: ``torch.optim.Adam(param_groups(model))``.

    Every `DenseAM` inside the model has the learning rates of its own scales. Frozen parameters are in no
    group. If the model has other parameters, `rest` is their group::

        torch.optim.Adam(param_groups(model, rest={"lr": 1e-3}))

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
        A `DenseAM`, or any module with some inside, or with `roles`; it may be wrapped by DDP, FSDP2 or
        `torch.compile`.
    scales
        The scales at the model's shape; by default those of each memory itself.
    roles
        For your own module: parameter name → 'W', 'b' or 'c'. Every trained parameter must have a role,
        unless there is a `rest`; a matrix that is used in two places is one parameter, under either of its
        names.
    rest
        Options of the group of all other parameters. No rule changes them with size.
    epsilon
        Adam's ε; for each parameter it is multiplied by its own factor, such as ``scales.epsilon_W``.
    decay
        Decoupled weight decay of W, multiplied by ``scales.decay_W``; biases are not decayed. By default
        that of the optimizer, which scales made for 'adamw' or 'muon' set to their own: 1e-4 and none. A
        time is translated by ``scales.decay(decay_time, steps)``. `torch.optim.SGD` adds the decay before
        the momentum, which multiplies it by 1/(1 − momentum).
    only
        The groups that are returned: roles, and 'rest'.

    Where the rule changes averages with the batch, the groups also have PyTorch's default betas or momentum
    at this shape; set others by `scales.average`.
    """
    names = (*ROLES, "rest")
    problems = [
        f"only must be roles among {listed(names)}, got {role!r}" for role in only if role not in names
    ]
    if rest is not None and "params" in rest:
        problems.append("rest must be the options of a group, without 'params'")
    refuse(problems)
    places, left = assigned(model, scales, roles, others=rest is not None)
    groups = [_group(place, epsilon, decay) for place in places if place.role in only]
    if rest is not None and left and "rest" in only:
        groups.append({"name": "rest", **rest, "params": left})
    return groups


def _group(place: Place, epsilon: float | None, decay: float | None) -> dict[str, Any]:
    """Return the group of the parameters at one place."""
    role, scales = place.role, place.scales
    rates = {"W": scales.eta_W, "b": scales.eta_b, "c": scales.eta_c}
    factors = {"W": scales.epsilon_W, "b": scales.epsilon_b, "c": scales.epsilon_c}
    if epsilon is None and any(factor != 1 for factor in factors.values()):
        epsilon = 1e-8  # PyTorch's default, which the factors apply to
    rule = OPTIMIZERS[scales.optimizer]
    if decay is None and rule.name in _DECAYING:
        decay = rule.defaults["decay"]
    own = rule if role == "W" else rule.of_biases
    factor = _factor(place.params[0]) if own.normalisation is Normalisation.ORTHOGONAL else 1.0
    rate = rates[role] / factor
    own_decay = factor * (decay or 0.0) * scales.decay_W if role == "W" else 0.0
    group: dict[str, Any] = {"params": place.params, "lr": rate, "name": place.name}
    group |= {"prescribed": rate, "made_for": own.name, "factor": factor}  # for `verify`
    if epsilon is not None and "epsilon" in own.defaults and factor == 1:
        group["eps"] = epsilon * factors[role]
    group |= _averages(own, scales)
    if decay is not None:
        group["weight_decay"] = own_decay
    group["prescribed_decay"] = own_decay
    if own.normalisation is Normalisation.ORTHOGONAL:
        group["adjust_lr_fn"] = "original"
    return group


def _averages(own: UpdateRule, scales: Scales) -> dict[str, Any]:
    """Return PyTorch's default averages at this shape, if the rule changes them with it."""
    averages = {name: scales.average(name, own.defaults[name]) for name in AVERAGES if name in own.defaults}
    if all(value == own.defaults[name] for name, value in averages.items()):
        return {}
    if own.normalisation is Normalisation.ENTRIES and "beta1" in averages:
        return {"betas": (averages["beta1"], averages["beta2"])}
    return {"momentum": averages["momentum"]}


#: PyTorch decays with these by default.
_DECAYING = ("adamw", "muon")


def _factor(W: Any) -> float:
    """Return the factor by which `torch.optim.Muon` multiplies the learning rate of its update."""
    return math.sqrt(max(1.0, W.shape[0] / W.shape[1]))


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
    optimizers = tuple(_unwrapped(optimizer) for optimizer in optimizers)
    groups = _prescribed(optimizers)
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
    groups = _prescribed([optimizer])
    coupled = any(g.get("weight_decay") and not g.get("decoupled_weight_decay") for g in groups)
    if coupled and known is Normalisation.ENTRIES and like is None:
        problems.append(f"weight_decay: {title} normalises it away with the gradient; use AdamW")
    if known is not Normalisation.ENTRIES:
        problems += [
            f"weight_decay of {g['name']} must be {g['prescribed_decay']:.6g}, that of its group, got "
            f"{g['weight_decay']:.6g}: param_groups(model, decay=…) scales it with size"
            for g in groups
            if "prescribed_decay" in g and not math.isclose(g.get("weight_decay", 0.0), g["prescribed_decay"])
        ]
    return problems


def _normalisation(optimizer: Optimizer) -> Normalisation | None:
    """Return what sets the size of the updates of an optimizer of `torch.optim`, or one derived from it."""
    bases = (base for base in type(optimizer).__mro__ if base.__module__.startswith("torch.optim"))
    return next((KNOWN[base.__name__] for base in bases if base.__name__ in KNOWN), None)


def _unwrapped(optimizer: Optimizer) -> Optimizer:
    """Return the optimizer inside the wrappers of accelerate and Lightning."""
    while isinstance(inner := getattr(optimizer, "optimizer", None), Optimizer):
        optimizer = inner
    return optimizer


def _prescribed(optimizers: Iterable[Optimizer]) -> list[dict[str, Any]]:
    """Return the groups whose rates follow a rule, those of memories."""
    return [g for optimizer in optimizers for g in optimizer.param_groups if "prescribed" in g]


def learning_rates(*optimizers: Optimizer) -> dict[str, float]:
    """Return the current learning rate of each group of a memory, by its name.

    The name is the role, such as 'W'; of a memory inside a model it has its place before it, 'memory.W'. The
    factor that `torch.optim.Muon` puts on the rate is included.
    """
    return {g["name"]: float(g["lr"]) * g.get("factor", 1.0) for g in _prescribed(optimizers)}


def decays(*optimizers: Optimizer) -> dict[str, float]:
    """Return the share of each group that a step takes away now, η_W λ_W for W, if there is no gradient.

    `torch.optim.SGD` sends the decay through the momentum μ: after some steps its share is 1/(1 − μ) times
    larger, which is counted here.
    """
    shares = {}
    for group in _prescribed(optimizers):
        momentum = group.get("momentum", 0.0) if group.get("made_for") == "sgd" else 0.0
        shares[group["name"]] = float(group["lr"]) * group.get("weight_decay", 0.0) / (1 - momentum)
    return shares
