"""The role of each array in a tree of parameters: W, b or c, or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from jax.tree_util import GetAttrKey, keystr

from denseam.ground.errors import listed, refuse
from denseam.model.dense_am import Parameters

#: Names in the places of the arrays.
LABELS: Any = Parameters("W", "b", "c")  # type: ignore[arg-type]
#: The label of an array without a role.
REST = "rest"


def labels_of(tree: Any, roles: Mapping[str, str] | None, *, others: bool) -> Any:
    """Return the tree with the role of each array in its place, 'rest' for those without one.

    `roles` maps names, such as 'layer.memories', to roles. Without it an array has the role that is its name.
    An array without a role is refused, unless `others` allows it.
    """
    if isinstance(tree, Parameters) and roles is None:
        return LABELS
    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    names = [_name(path) for path, _ in paths]
    given = {name: last for name in names if (last := name.split(".")[-1]) in LABELS}
    role_of = given if roles is None else dict(roles)
    problems = []
    for name, role in role_of.items():
        if role not in LABELS:
            problems.append(f"roles: {name!r} must be {listed(LABELS)}, got {role!r}")
        if name not in names:
            problems.append(f"roles: the tree has no array {name!r}, only {listed(names)}")
    if not others:
        problems += [
            f"array {name!r} has no role; name it in roles, or pass rest=optax.sgd(…) for all others"
            for name in names
            if name not in role_of
        ]
    refuse(problems)
    return jax.tree_util.tree_unflatten(structure, [role_of.get(name, REST) for name in names])


def _name(path: tuple[Any, ...]) -> str:
    """Return the place of an array in a tree: 'layer.W'. The variables of nnx have their array inside."""
    if len(path) > 1 and path[-1] == GetAttrKey("value"):
        path = path[:-1]
    return keystr(path, simple=True, separator=".")
