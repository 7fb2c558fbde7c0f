"""Several hyperparameters at once, at the smallest size: Optuna proposes points, the engine trains them.

Points are proposed and reported in batches that fill the machine, so that the search proceeds by whole tensor
programs. Proposals depend only on the reported losses, so the search can be repeated.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from denseam.errors import InputError
from denseam.studies.description import AXES
from denseam.workflow.goals import Goal

if TYPE_CHECKING:
    from denseam.workflow.search import Search

#: Points of one batch.
BATCH = 16
#: The value of a diverged run, as the logarithm of its loss over that of predicting zero.
DIVERGED = 5.0


class Range(NamedTuple):
    """The range of an axis, searched in the logarithm of its value or of its distance from 1."""

    low: float
    high: float
    of: Literal["value", "distance from 1"] = "value"


RANGES: Mapping[str, Range] = {
    "s1_0": Range(0.25, 4.0),
    "s2_0": Range(0.25, 4.0),
    "eta_b_ratio": Range(0.1, 10.0),
    "eta_c_ratio": Range(0.1, 10.0),
    "beta": Range(0.25, 4.0),
    "momentum": Range(0.02, 1.0, "distance from 1"),
    "beta1": Range(0.02, 1.0, "distance from 1"),
    "beta2": Range(1e-4, 0.5, "distance from 1"),
    "epsilon": Range(1e-12, 1e-4),
    "decay": Range(1e-5, 1.0),
    "decay_time": Range(0.1, 100.0),
    "warmup": Range(0.01, 0.5),
    "cooldown": Range(0.05, 0.5),
}


def prepare(goal: Goal, axes: Sequence[str]) -> None:
    """Refuse axes that the model or its optimizer does not have, and a missing Optuna."""
    if importlib.util.find_spec("optuna") is None:
        raise InputError("tune: several axes need Optuna; pip install 'denseam[tune]'")
    middle = {axis: (_value(math.sqrt(RANGES[axis].low * RANGES[axis].high), RANGES[axis]),) for axis in axes}
    goal.at(goal.study.scales, goal.study.eta0, 1, **middle)  # type: ignore[arg-type]  # refuses wrong axes


def best_point(
    search: Search, scale: int, axes: Sequence[str], grid: Sequence[int], trials: int
) -> dict[str, float]:
    """Return the best values of the axes other than eta0, at one size."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    low, high = search.rates(grid)
    ranges = {"eta0": Range(low / 10, high * 10), **{axis: RANGES[axis] for axis in axes}}
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0, n_startup_trials=2 * BATCH))
    search.progress.message(
        f"searching {', '.join(ranges)} at {search.goal.letter} = {scale}: {trials} points"
    )
    for first in range(0, trials, BATCH):
        batch = [study.ask() for _ in range(min(BATCH, trials - first))]
        points = [{axis: _suggest(trial, axis, r) for axis, r in ranges.items()} for trial in batch]
        for trial, value in zip(batch, _losses(search, scale, points), strict=True):
            study.tell(trial, value)
    best = study.best_trial
    if best.value is None or best.value >= DIVERGED:
        raise InputError(f"tune: every point at {search.goal.letter} = {scale} diverged")
    return {axis: _value(best.params[axis], ranges[axis]) for axis in axes}


def _suggest(trial: Any, axis: str, where: Range) -> float:
    return _value(trial.suggest_float(axis, where.low, where.high, log=True), where)


def _value(coordinate: float, where: Range) -> float:
    """Return the value of an axis, to three digits: finer differences are noise."""
    short = float(f"{coordinate:.3g}")
    return short if where.of == "value" else float(f"{1 - short:.12g}")


def _losses(search: Search, scale: int, points: Sequence[Mapping[str, float]]) -> list[float]:
    """Return log(loss / loss of predicting zero) of each point, averaged over seeds."""
    # The study must have the axes of its runs: it says whether they have a momentum, a decay, a schedule.
    tried = {axis: tuple(sorted({point[axis] for point in points})) for axis in points[0]}
    study = search.goal.at((scale,), tried.pop("eta0"), search.terms.seeds, **tried)
    specs = study.runs_at(points)
    rows = {row["key"]: row for row in search.train(study, specs)}

    def value(r: Mapping[str, Any]) -> float:
        return DIVERGED if r["status"] == "diverged" else math.log(r["final_mse"] / r["zero_mse"])

    per_seed = [[value(rows[s.key]) for s in specs if s.seed == seed] for seed in range(search.terms.seeds)]
    return [float(v) for v in np.mean(per_seed, axis=0)]


def neighbours(axis: str, value: float) -> tuple[float, ...]:
    """Return values around a value, in factors of two (of the distance from 1, if that is searched)."""
    where = RANGES[axis]
    factors = (0.25, 0.5, 1.0, 2.0, 4.0)
    if where.of == "value":
        around = (float(f"{value * f:.12g}") for f in factors)
        return tuple(v for v in around if v <= AXES[axis].high)
    below = {float(f"{1 - (1 - value) * f:.12g}") for f in factors}
    return tuple(sorted(v for v in below if 0 <= v < 1))
