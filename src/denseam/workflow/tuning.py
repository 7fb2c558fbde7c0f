"""Tune small to train large: search at sizes that cost little, forecast the target, recommend or refuse.

A value is recommended if the forecast's bound on its cost at the target is within the tolerance. Two words
say how it got there: TRANSFERS if the optimum of the largest size could be used as it is, DRIFTS if the
forecast had to correct for a drift. The verdict on the sizes alone answers another question, whether the
optimum of the smallest one stays put.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from denseam.analysis.forecast import Forecast
from denseam.analysis.prediction import Expected, expected_curve
from denseam.analysis.profiles import Profile
from denseam.analysis.thresholds import FEWEST, REGRET_GOOD
from denseam.analysis.transfer import Verdict, verdict
from denseam.errors import refuse, together, typed
from denseam.rules import Scales
from denseam.studies.description import AXES
from denseam.studies.records import By
from denseam.training.progress import Progress, told
from denseam.workflow.advice import Advice, advise, commands
from denseam.workflow.data_use import data_use
from denseam.workflow.goals import FEWEST_SIZES, Goal, goal
from denseam.workflow.joint import best_point, neighbours, prepare
from denseam.workflow.recipe import Recipe, write_result
from denseam.workflow.search import BUDGET, Search, Terms, around, first_size, rate


@dataclasses.dataclass(frozen=True)
class Cost:
    """The operations of tuning, of one run at the target, and of a sweep with the same grid there."""

    runs: int
    tuning: float
    target_run: float
    target_sweep: float
    seconds: float

    @property
    def share(self) -> float:
        """The cost of tuning relative to the sweep at the target."""
        return self.tuning / self.target_sweep


@dataclasses.dataclass(frozen=True)
class Tuned:
    """The result of a search.

    Attributes
    ----------
    goal
        The model that was tuned for.
    forecast
        The forecast at the target.
    tolerance
        The maximum cost of a recommended value.
    verdict
        The verdict on η0 over the sizes that were trained.
    others
        The verdicts on other tuned axes.
    constants
        The values of other tuned axes.
    scales, profiles
        Size → the number of its seeds, and its loss as a function of log10 η0.
    learned
        Whether the best loss at the largest size is well below that of predicting zero.
    remedy
        What would settle a refusal; `advice` is the sentence.
    options
        The options of the search, for the `commands` that would settle a refusal.
    """

    goal: Goal
    forecast: Forecast
    tolerance: float
    verdict: Verdict
    others: Mapping[str, Verdict]
    constants: Mapping[str, float]
    scales: Mapping[int, int]
    profiles: Mapping[int, Profile]
    learned: bool
    remedy: Advice | None
    cost: Cost
    expected: Expected | None
    folder: Path
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def recommended(self) -> bool:
        """Whether a value is recommended."""
        within = self.forecast.regret_bound <= self.tolerance
        return within and self.learned and all(v.status == "TRANSFERS" for v in self.others.values())

    @property
    def eta0(self) -> float | None:
        """The value to use; None if none is recommended."""
        return self.forecast.value if self.recommended else None

    @property
    def drift_corrected(self) -> bool:
        """Whether the recommended value contains a drift that the bound needs."""
        return self.recommended and self.forecast.drift_corrected(self.tolerance)

    @property
    def status(self) -> str:
        """TRANSFERS, or DRIFTS if a drift was corrected for; of a refusal, what the sizes alone say."""
        if self.recommended:
            return "DRIFTS" if self.drift_corrected else "TRANSFERS"
        statuses = {v.status for v in (self.verdict, *self.others.values())}
        return next((s for s in ("FAILS", "DRIFTS") if s in statuses), "INCONCLUSIVE")

    @property
    def exit_code(self) -> int:
        """0 if a value is recommended, else 1 if it drifts or fails, else 2."""
        return 0 if self.recommended else {"INCONCLUSIVE": 2}.get(self.status, 1)

    @property
    def recipe(self) -> Recipe:
        """The recipe for training the target with the forecast's value, recommended or not."""
        return Recipe(
            self.goal.study, self.forecast.value, dict(self.constants), self.expected,
            tuned_eta0=self.forecast.value, regret_bound=self.forecast.regret_bound,
            recommended=self.recommended,
        )  # fmt: skip

    @property
    def advice(self) -> str:
        """What would make the rate transfer; '' if it does."""
        return "" if self.remedy is None else self.remedy.describe()

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that would settle a refusal; none if a value is recommended."""
        if self.remedy is None:
            return ()
        return commands(
            self.remedy, self.goal, self.folder, around=self.forecast.value, constants=self.constants,
            options=self.options,
        )  # fmt: skip

    def scales_at_target(self) -> Scales | None:
        """Return the multipliers and learning rates of the target."""
        if self.eta0 is None:
            return None
        constants = {k: v for k, v in self.constants.items() if k in ("s1_0", "s2_0")}
        return self.goal.study.rule().at(self.goal.shape, eta0=self.eta0, **constants)

    def to_json(self) -> dict[str, Any]:
        """Return the choice and its reasons as a plain document."""
        target = self.scales_at_target()
        names = ("s1", "s2", "eta_W", "eta_b", "eta_c")
        return {
            "status": self.status,
            "recommended": self.recommended,
            "eta0": self.eta0,
            "forecast_eta0": self.forecast.value,
            **self.forecast.to_json(self.tolerance),
            "tolerance": self.tolerance,
            "constants": dict(self.constants),
            "base": self.verdict.base,
            "scales": list(self.scales),
            "seeds": list(self.scales.values()),
            "advice": self.advice or None,
            "commands": list(self.commands),
            "target": self.goal.shape.to_json(),
            "parameters": {n: getattr(target, n) for n in names} if target else None,
            "cost": dataclasses.asdict(self.cost) | {"share": self.cost.share},
            "data": self.goal.study.source().describe(),
            **data_use(self.goal).to_json(),
            "warnings": [concern.describe() for concern in self.goal.concerns],
            "verdict": self.verdict.to_json(),
            "others": {k: v.to_json() for k, v in self.others.items()},
        }


def tune(
    data: str | Goal,
    out: str | os.PathLike[str],
    *,
    tuned: Sequence[str] = ("eta0",),
    seeds: int = FEWEST,
    budget: float = BUDGET,
    tolerance: float = REGRET_GOOD,
    by: By = "training",
    probe: bool = False,
    trials: int = 96,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    say: Callable[[str], None] | None = None,
    devices: Sequence[Any] | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    **target: Any,
) -> Tuned:
    """Find the learning rate of a large model at small sizes.

    Parameters
    ----------
    data
        Where the samples come from, or a `Goal`.
    out
        The folder for all runs and the result; with the same folder the search resumes.
    tuned
        The axes to tune; axes besides 'eta0' need the extra `tune` (Optuna).
    seeds
        The number of seeds at the first size.
    budget
        The maximum number of operations, as a share of a sweep at the target.
    tolerance
        The maximum cost of the recommended value at the target, relative to the best value there.
    by
        The loss that this is about: 'training' or 'heldout'.
    probe
        Whether the target may be trained shortly: a few values, one seed, a fifth of the epochs. It helps
        under SGD, whose optimum lies at the edge of stability; under Adam it says nothing.
    trials
        The number of points to try at the smallest size if several axes are tuned.
    progress, stop, devices, workers, executor
        As in `sweep`. If workers cannot train a run, the search ends with `RunsSetAside` and can be resumed.
    say
        Instead of `progress`: called with a line for every step of the search.
    target
        The goal, as the arguments of `denseam.workflow.goals.goal`.
    """
    of_data = typed((str, Goal), "a path, the name of a data set, or a Goal", data=data)
    refuse([*of_data, *typed(Sequence, "names of axes", tuned=tuned)])
    wanted = goal(data, **target) if isinstance(data, str) else data
    terms, others, _ = together(
        lambda: Terms(seeds, budget, tolerance, by, probe),
        lambda: _other_axes(tuned, trials),
        lambda: refuse(_unfit(wanted, by, probe)),
    )
    if others:
        prepare(wanted, others)  # before anything is trained
    where = {"devices": devices, "workers": workers, "executor": executor}
    search = Search(wanted, Path(out), terms, told(progress, say), stop, **where)
    result = _tuned(search, others, trials)
    write_result(out, result.to_json(), result.recipe)
    return result


def _other_axes(tuned: Sequence[str], trials: int) -> tuple[str, ...]:
    """Return the axes to tune besides η0."""
    known = ("eta0", *(a for a in AXES if a not in ("eta0", "noise")))
    axes = tuple(dict.fromkeys(tuned.split(",") if isinstance(tuned, str) else tuned))
    problems = [f"tune must name axes among {', '.join(known)}, got {a!r}" for a in axes if a not in known]
    if "eta0" not in axes:
        problems.append("tune must name eta0: everything else depends on it")
    if not isinstance(trials, int) or trials < 16:
        problems.append(f"trials must be a whole number of at least 16, got {trials!r}")
    refuse(problems)
    return tuple(a for a in axes if a != "eta0")


def _unfit(wanted: Goal, by: By, probe: bool) -> Iterator[str]:
    """Give what a goal cannot be tuned by."""
    use, rule = data_use(wanted), wanted.study.update_rule
    if by == "heldout" and use.used == use.available and not use.heldout:
        yield "by 'heldout' needs held-out samples: heldout must be above 0"
    if probe and by == "heldout":
        yield "probe is for by 'training': a short training says nothing about the held-out optimum"
    if probe and "E" in wanted.study.regime.grows:
        yield "probe is for a fixed length of training, not for the regime 'epochs'"
    if probe and not rule.follows_gradient:
        yield (
            f"probe is for the optimizer 'sgd', got {rule.name!r}: a short training says nothing about its "
            "optimum"
        )


def _tuned(search: Search, others: tuple[str, ...], trials: int) -> Tuned:
    """Search, and return the result."""
    began = time.perf_counter()
    wanted, terms = search.goal, search.terms
    first = wanted.ladder[0] if wanted.given else first_size(wanted, terms.seeds, terms.below)
    grid = search.scout(first)
    if others:
        search.constants = best_point(search, first, others, grid, trials)
        grid = search.scout(first)
    for scale in wanted.ladder if wanted.given else (first,):
        search.measure(scale, grid, terms.seeds)
    search.climb()
    if terms.probe:
        search.probe_target()
        search.climb()
    of_sizes = search.verdict()
    made, judged = search.forecast(), {}
    if made.regret_bound <= terms.tolerance:  # otherwise there is no η0 at which to vary the other axes
        judged = {axis: _judge_axis(search, axis, made.x) for axis in others}
    axes = {"tune": ("eta0", *others), "trials": trials} if others else {}
    result = Tuned(
        goal=wanted,
        forecast=made,
        tolerance=terms.tolerance,
        verdict=of_sizes,
        others=judged,
        constants=dict(search.constants),
        scales={scale: search.measured[scale].seeds for scale in sorted(search.measured)},
        profiles=dict(sorted(search.profiles.items())),
        learned=search.learned,
        remedy=None,
        cost=Cost(
            runs=len(search.used),
            tuning=search.spent,
            target_run=wanted.operations(wanted.target),
            target_sweep=search.target_sweep,
            seconds=time.perf_counter() - began,
        ),
        expected=expected_curve(search.common_runs(), made.value, wanted.target),
        folder=search.out,
        options=dataclasses.asdict(terms) | axes,
    )
    if result.recommended:
        return result
    may_probe = not terms.probe and not any(_unfit(wanted, terms.by, probe=True))
    remedy = advise(wanted, judged, search.offer(), learned=result.learned, may_probe=may_probe)
    return dataclasses.replace(result, remedy=remedy)


def _judge_axis(search: Search, axis: str, x: float) -> Verdict:
    """Return whether the best value of another axis also stays put, at the best η0."""
    scales = tuple(sorted(search.measured))[:FEWEST_SIZES]
    values = neighbours(axis, search.constants[axis])
    fixed = {a: (v,) for a, v in search.constants.items() if a != axis}
    study = search.goal.at(scales, (rate(*around(x, 0)),), search.terms.seeds, **fixed, **{axis: values})
    search.progress.message(f"checking that {axis} = {search.constants[axis]:.3g} transfers, too")
    return verdict(search.train(study, study.runs()), axis=axis)[0]
