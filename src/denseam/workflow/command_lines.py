"""A goal as command lines: tune it, sweep its target, train its target.

Each line has every option that differs from its default, and all sizes, so that it means the same goal
wherever it is typed. There is no line (None) if the activation or the parameterization was defined in Python.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Mapping
from typing import Any

from denseam.rules.fields import Kind, Parameter, Part, logspace, parameters
from denseam.rules.regimes import REGIMES, Proportional
from denseam.rules.sizes import WORDS
from denseam.studies.description import DOCUMENT, ETA0, REGIME
from denseam.studies.documents import option_words, sweep_line, to_document, words_of
from denseam.workflow.goals import Goal, default_ladder
from denseam.workflow.target_sizes import TUNE_EPOCHS, TargetSizes

#: The grid of a sweep at the target: a decade to each side of the expected optimum, four values per decade.
DECADES, VALUES = 1, 9
SEEDS = 3
Folder = str | os.PathLike[str]


def sweep_target_line(
    goal: Goal,
    out: Folder,
    around: float,
    *,
    seeds: int = SEEDS,
    constants: Mapping[str, float] | None = None,
) -> str | None:
    """Return the `denseam sweep` of the target itself.

    Parameters
    ----------
    out
        The folder of its runs.
    around
        The learning rate in the middle of the grid.
    constants
        The values of other axes.
    """
    low, high = (float(f"{around * 10.0**d:.2g}") for d in (-DECADES, DECADES))
    held = {axis: (value,) for axis, value in (constants or {}).items()}
    study = goal.at((goal.target,), logspace(low, high, VALUES), seeds, **held)
    study = dataclasses.replace(study, epochs=goal.study.epochs)
    return sweep_line(to_document(study), str(out))


def tune_line(goal: Goal, out: Folder, **options: Any) -> str | None:
    """Return the `denseam tune` of a goal; `options` are the command's own, as in ``budget=0.2``."""
    by_default = not goal.given and goal.ladder == default_ladder(goal.study)
    more: dict[str, Any] = {} if by_default else {"scales": goal.ladder}
    if goal.tune_epochs is not None:
        more[TUNE_EPOCHS.document] = goal.tune_epochs
    return _line("tune", goal, more, options | {"out": str(out)})


def train_line(goal: Goal, out: Folder, eta0: float) -> str | None:
    """Return the `denseam train` of the target with a given learning rate."""
    return _line("train", goal, {ETA0.document: eta0}, {"out": str(out)})


def _line(command: str, goal: Goal, more: Mapping[str, Any], options: Mapping[str, Any]) -> str | None:
    """Return a command on the data of a goal: what describes the goal, and the command's own options."""
    described: dict[str, Parameter] = {
        **DOCUMENT, **parameters(TargetSizes), ETA0.document: ETA0, TUNE_EPOCHS.document: TUNE_EPOCHS
    }  # fmt: skip
    words = words_of({**_document(goal), **more}, described)
    if words is None:
        return None
    own = [word for name, value in options.items() for word in option_words(_plain(name, value), value)]
    data = goal.study.data
    rest = [*words, *own, "--", data] if data.startswith("-") else [data, *words, *own]
    return shlex.join(["denseam", command, *rest])


def _document(goal: Goal) -> dict[str, Any]:
    """Return the keys that describe a goal, with its sizes; `denseam.workflow.goals.goal` reads them."""
    regime, elsewhere = goal.study.regime, ("data", "scales", ETA0.document, REGIME.document)
    of_regime = parameters(REGIMES[regime.name])
    plain = {
        key: value
        for key, value in to_document(goal.study).items()
        if DOCUMENT[key].part is not Part.SWEEP and key not in (*elsewhere, *of_regime)
    }
    sizes = {name: getattr(regime, name) for name in of_regime}
    if not isinstance(regime, Proportional):
        return plain | {REGIME.document: regime.name, WORDS[regime.letter]: goal.target} | sizes
    numbers = TargetSizes(kappa=sizes["kappa"], samples=goal.shape.P, batch=goal.shape.B)
    if numbers.ratios(goal.target, None) == regime:  # samples and batch are shorter than their ratios
        sizes = {name: getattr(numbers, name) for name in ("kappa", "samples", "batch")}
    return plain | {"features": goal.target} | sizes


def _plain(name: str, value: Any) -> Parameter:
    """Return the parameter of an option that is not part of a goal."""
    kind = Kind.FLAG if isinstance(value, bool) else Kind.TEXT
    return Parameter(Part.SWEEP, kind, "", name=name, document=name)
