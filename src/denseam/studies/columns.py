"""Which column of a table holds what: recognised by its name, or given by the user."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from denseam.ground.errors import InputError, listed, refuse
from denseam.studies.tables import Table


@dataclasses.dataclass(frozen=True)
class Role:
    """What a column holds.

    Attributes
    ----------
    meaning
        For help and messages, as in 'the size of the model'.
    names
        Its usual names, as `plain` writes them.
    spare
        Names that count only if no column has one of `names`.
    """

    meaning: str
    names: tuple[str, ...]
    spare: tuple[str, ...] = ()
    needed: bool = False


ROLES: Mapping[str, Role] = {
    "size": Role(
        "the size of the model",
        (
            "scale", "width", "size", "n", "k", "features", "memories", "n_features", "d_model", "d", "dim",
            "hidden", "hidden_size", "hidden_dim", "n_hidden", "units", "neurons", "channels", "embed_dim",
            "embedding_dim", "n_embd", "width_mult", "width_multiplier", "depth", "layers", "n_layers",
            "num_layers", "params", "parameters", "n_params", "num_params",
        ),
        needed=True,
    ),
    "axis": Role(
        "the hyperparameter",
        ("eta0", "eta", "lr", "learning_rate", "lr0", "base_lr", "max_lr", "peak_lr", "init_lr", "initial_lr",
         "step_size"),
        ("value",),
        needed=True,
    ),
    "loss": Role(
        "the final loss",
        ("loss", "final_loss", "final_mse", "mse", "train_loss", "val_loss", "valid_loss", "validation_loss",
         "eval_loss", "test_loss", "nll", "cross_entropy"),
        ("objective", "value"),
        needed=True,
    ),
    "seed": Role("the seed", ("seed", "random_seed", "rng_seed", "random_state", "replicate", "repeat")),
    "diverged": Role("divergence", ("diverged",), ("status", "state")),
    "study": Role("the study", ("study",)),
}  # fmt: skip

#: Maximum number of columns that a message names.
MOST_NAMED = 20

#: What tools put in front of the name of a column, as in `params_lr`, `config.lr` and `summary/val_loss`.
_PREFIXES = (
    "params", "param", "config", "cfg", "args", "hparams", "hyperparameters", "user_attrs", "summary",
    "metrics", "model", "optimizer", "optim", "training",
)  # fmt: skip
_PREFIX = re.compile(rf"^(?:(?:{'|'.join(_PREFIXES)})_)+")


def plain(name: str) -> str:
    """Return a name in lower case with underscores, without the prefix of a tool."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return _PREFIX.sub("", re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_"))


def assign(table: Table, given: Mapping[str, str]) -> dict[str, str]:
    """Return role → column, or refuse a table in which a needed column is missing or not the only one.

    Parameters
    ----------
    table
        Columns of single values.
    given
        Role → column, as the user named them; exact names.
    """
    problems = [f"there is no column {name!r}" for name in given.values() if name not in table]
    chosen = dict(given)
    for tier in ("names", "spare"):
        for role, described in ROLES.items():
            if role in chosen:
                continue
            usual = getattr(described, tier)
            fitting = [c for c in table if plain(c) in usual and c not in chosen.values()]
            candidates = _told_apart(table, fitting, role)
            if len(candidates) > 1:
                problems.append(
                    f"{described.meaning} could be {listed(candidates)}; name its column with --{role}"
                )
            if candidates:
                chosen[role] = candidates[0]
    problems += [
        f"no column is {role.meaning}; name it with --{name}"
        for name, role in ROLES.items()
        if role.needed and name not in chosen
    ]
    if len(set(chosen.values())) < len(chosen):
        named = ", ".join(f"{role} {column!r}" for role, column in chosen.items())
        problems.append(f"one column cannot be two things, got {named}")
    if problems:
        there = ", ".join(map(repr, list(table)[:MOST_NAMED]))
        more = f" and {len(table) - MOST_NAMED} more" if len(table) > MOST_NAMED else ""
        problems[-1] += f" (there are {there}{more})"
    refuse(problems)
    return chosen


def check_roles(given: Mapping[str, str]) -> None:
    """Refuse names of roles that do not exist."""
    unknown = [name for name in given if name not in ROLES]
    if unknown:
        raise InputError(f"columns must name {listed(ROLES)}, got {unknown[0]!r}")


def _told_apart(table: Table, fitting: list[str], role: str) -> list[str]:
    """Return the columns among which there is no choice: one that varies, or sizes that grow together."""
    varying = [column for column in fitting if len(set(table[column])) > 1]
    candidates = varying if len(fitting) > 1 and varying else fitting
    if role == "size" and len(candidates) > 1 and _in_proportion(table, candidates):
        usual = ROLES[role].names
        return [min(candidates, key=lambda column: usual.index(plain(column)))]
    return candidates


def _in_proportion(table: Table, columns: Sequence[str]) -> bool:
    """Return whether sizes have nearly the same ratio in every row, so that any of them stands for all."""
    first, *others = (table[column] for column in columns)
    try:
        ratios = [[float(b) / float(a) for a, b in zip(first, other, strict=True)] for other in others]
    except (TypeError, ValueError, ZeroDivisionError):
        return False
    return all(0 < max(r) <= 1.05 * min(r) for r in ratios)
