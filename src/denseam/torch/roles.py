"""Which parameter of a model has which role in which memory, and which have none."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from torch import nn

from denseam.ground.errors import InputError, listed, refuse, typed
from denseam.rules import Scales
from denseam.torch.model import DenseAM

#: The roles of a parameter: memories, bias of the hidden neurons, bias of the features.
ROLES = ("W", "b", "c")


@dataclasses.dataclass(frozen=True)
class Place:
    """Trained parameters with the same role and scales, and their name: 'W', or 'memory.W' inside a model."""

    name: str
    role: str
    scales: Scales
    params: list[Any]


class _Claim(NamedTuple):
    """A parameter under one of its names, its place, its role there, and the scales that it needs."""

    name: str
    place: str
    role: str
    parameter: Any
    scales: Scales


def assigned(
    model: nn.Module, scales: Scales | None, roles: Mapping[str, str] | None, *, others: bool
) -> tuple[list[Place], list[Any]]:
    """Return the places of all trained parameters that have a role, and the parameters without one.

    A parameter without a role is refused, unless `others` allows it. Parameters are told apart by their id,
    since a tied one has two names.
    """
    refuse([] if scales is None else typed(Scales, "Scales, from a rule at a shape", scales=scales))
    model = unwrapped(model)
    names = dict(model.named_parameters(remove_duplicate=False))
    claims = _claims(model, names, scales, roles)
    owners: dict[int, _Claim] = {}
    problems = []
    for claim in claims:
        first = owners.setdefault(id(claim.parameter), claim)
        if (first.role, first.scales) != (claim.role, claim.scales):
            problems.append(f"roles: {claim.name!r} is tied to a parameter with another role")
    left = {name: p for name, p in names.items() if p.requires_grad and id(p) not in owners}
    if not others:
        problems += [
            f"parameter {name!r} belongs to no group; give it a role, or rest={{'lr': …}}" for name in left
        ]
    refuse(problems)
    return _places(owners.values()), list({id(p): p for p in left.values()}.values())


def _claims(
    model: nn.Module, names: Mapping[str, Any], scales: Scales | None, roles: Mapping[str, str] | None
) -> list[_Claim]:
    """Return the parameters with a role: given by the user, of a memory, or by their own name."""
    memories = {path: module for path, module in model.named_modules() if isinstance(module, DenseAM)}
    if roles is None and not memories:
        roles = {name: name for name in ROLES if name in names}
    if scales is None and (roles or not memories):
        raise InputError("scales are needed: this model has none of its own")
    own = [] if not roles or scales is None else _claims_of_roles(names, roles, scales)
    given = {id(claim.parameter) for claim in own}
    others = {path: m for path, m in memories.items() if not given & set(map(id, m.parameters()))}
    return own + _claims_of_memories(others, scales)


def _claims_of_roles(names: Mapping[str, Any], roles: Mapping[str, str], scales: Scales) -> list[_Claim]:
    """Return the parameters to which the user gave a role."""
    problems = []
    for name, role in roles.items():
        if role not in ROLES:
            problems.append(f"roles: {name!r} must be {listed(ROLES)}, got {role!r}")
        elif name not in names:
            problems.append(f"roles: the model has no parameter {name!r}")
    refuse(problems)
    ordered = sorted(roles, key=lambda name: ROLES.index(roles[name]))
    return [_Claim(name, roles[name], roles[name], names[name], scales) for name in ordered]


def _claims_of_memories(memories: Mapping[str, DenseAM], scales: Scales | None) -> list[_Claim]:
    """Return the parameters of every `DenseAM` in a model."""
    claims: list[_Claim] = []
    problems = []
    for path, memory in memories.items():
        before = "".join(f"{part}." for part in path.split(".") if part and part != "_orig_mod")
        title = f"the memory {before.rstrip('.')!r}" if before else "this model"
        own = memory.scales if scales is None else scales
        if own is None:
            problems.append(f"scales are needed: {title} has none of its own")
        elif len(memories) > 1 and (own.shape.K, own.shape.N) != (memory.K, memory.N):
            problems.append(f"scales must fit {title}, which has {memory.K} memories of {memory.N} features")
        else:
            claims += [_Claim(before + r, before + r, r, getattr(memory, r), own) for r in ROLES]
    refuse(problems)
    return claims


def _places(claims: Iterable[_Claim]) -> list[Place]:
    """Return one place per memory and role, without parameters that are frozen."""
    places: dict[str, Place] = {}
    for _, place, role, parameter, scales in claims:
        if parameter.requires_grad:
            places.setdefault(place, Place(place, role, scales, [])).params.append(parameter)
    return list(places.values())


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside the wrappers of DDP, DataParallel and `torch.compile`."""
    wrappers = (nn.parallel.DistributedDataParallel, nn.DataParallel)
    inner: Any = model
    while hasattr(inner, "_orig_mod") or isinstance(inner, wrappers):
        inner = inner._orig_mod if hasattr(inner, "_orig_mod") else inner.module
    own: nn.Module = inner
    return own
