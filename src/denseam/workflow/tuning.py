"""Tune small to train large: search at sizes that cost little, forecast the target, recommend or refuse.

A value is recommended if the forecast's bound on its cost at the target is within the tolerance. Two words
say how it got there: TRANSFERS if the optimum of the largest size could be used as it is, DRIFTS if the
forecast had to correct for a drift. The verdict on the sizes alone answers another question, whether the
optimum of the smallest one stays the same.
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
from denseam.analysis.sets import SetForecast, Star, axis_document
from denseam.analysis.thresholds import FEWEST, REGRET_GOOD
from denseam.analysis.transfer import Verdict
from denseam.data.huggingface import is_object, keep
from denseam.ground.errors import collecting, path_of, refuse, together, typed
from denseam.ground.files import make_folder
from denseam.rules import Scales
from denseam.studies.records import By
from denseam.training.progress import Progress, told
from denseam.workflow.advice import Advice, advise, commands
from denseam.workflow.axes import BATCH, ETA0, Space, with_batch
from denseam.workflow.data_use import data_use
from denseam.workflow.goals import Goal, goal
from denseam.workflow.joint import FEWEST_TRIALS, TRIALS
from denseam.workflow.recipe import Recipe, write_result
from denseam.workflow.search import BUDGET, Search, Terms, first_size
from denseam.workflow.together import Together, extra_runs


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
class TunedSet:
    """A set of hyperparameters that were tuned together.

    Attributes
    ----------
    space
        Their axes; its goal has the batch that was asked for.
    forecast
        The forecast of the whole set.
    swept_at
        The values of the axes besides η0 at which η0 was swept.
    sizes, lengths
        What was measured around the best set of every size, and of every length at the size of the search.
    base
        The size of the search.
    """

    space: Space
    forecast: SetForecast
    swept_at: Mapping[str, float]
    sizes: Mapping[int, Star]
    lengths: Mapping[int, Star]
    base: int

    @property
    def values(self) -> dict[str, float]:
        """The value of each axis at the target; that of the batch is a multiple of what was asked for."""
        return self.space.rounded(self.forecast.z)

    def to_json(self, name: str, tolerance: float) -> dict[str, Any]:
        """Return each axis as a plain document."""
        return {
            axis: {"name": name, "axis": axis} | axis_document(made, self.space.spans[axis], tolerance)
            for axis, made in self.forecast.axes.items()
        }


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
    constants
        The values of other tuned axes at the target; the batch is in the goal.
    scales, profiles
        Size → the number of its seeds, and its loss as a function of log10 η0.
    learned
        Whether the best loss at the largest size is well below that of predicting zero.
    remedy
        What would settle a refusal; `advice` is the sentence.
    options
        The options of the search, for the `commands` that would settle a refusal.
    whole
        If several axes were tuned, or for a longer training: the set, and what is known of it.
    """

    goal: Goal
    forecast: Forecast
    tolerance: float
    verdict: Verdict
    constants: Mapping[str, float]
    scales: Mapping[int, int]
    profiles: Mapping[int, Profile]
    learned: bool
    remedy: Advice | None
    cost: Cost
    expected: Expected | None
    folder: Path
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    whole: TunedSet | None = None

    @property
    def recommended(self) -> bool:
        """Whether a value is recommended."""
        return self.forecast.regret_bound <= self.tolerance and self.learned

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
        return self.verdict.status if self.verdict.status in ("FAILS", "DRIFTS") else "INCONCLUSIVE"

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
            options=self.options, described=self.goal if self.whole is None else self.whole.space.goal,
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
            "swept_at": {} if self.whole is None else dict(self.whole.swept_at),
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
            "others": {} if self.whole is None else self.whole.to_json(self.goal.study.name, self.tolerance),
            "epochs": self.goal.study.epochs,
            "tune_epochs": self.goal.short_epochs,
        }


def tune(
    data: str | Goal | Any,
    out: str | os.PathLike[str],
    *,
    tuned: Sequence[str] = ("eta0",),
    seeds: int = FEWEST,
    budget: float = BUDGET,
    tolerance: float = REGRET_GOOD,
    by: By = "training",
    probe: bool = False,
    trials: int = TRIALS,
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
        Where the samples come from; or a `Dataset` of the package `datasets`, which is kept as `data.npy` in
        the folder; or a `Goal`.
    out
        The folder for all runs and the result; with the same folder the search resumes.
    tuned
        The axes to tune; besides 'eta0' those of `denseam.workflow.axes.tunable`, the batch among them.
    seeds
        The number of seeds at the first size.
    budget
        The maximum number of operations, as a share of a sweep at the target.
    tolerance
        The maximum cost of the recommended value at the target, relative to the best value there.
    by
        The loss to minimise: 'training' or 'heldout'.
    probe
        Whether to allow short trainings of the target: few values, one seed, a fifth of the epochs. It helps
        under SGD, whose optimum lies at the edge of stability; under Adam it says nothing.
    trials
        The maximum number of points to try at the smallest size if several axes are tuned.
    progress, stop, devices, workers, executor
        As in `sweep`. If workers cannot train a run, the search ends with `RunsSetAside` and can be resumed.
    say
        Instead of `progress`: called with a line for every step of the search.
    target
        The goal, as the arguments of `denseam.workflow.goals.goal`.
    """
    if is_object(data):
        make_folder(path_of("out", out))
        data = keep(data, Path(out) / "data.npy")
    known = "a path, the name of a data set, a Goal, or a Dataset of the package datasets"
    refuse([*typed((str, Goal), known, data=data), *typed(Sequence, "names of axes", tuned=tuned)])
    wanted = goal(data, **target) if isinstance(data, str) else data
    terms, space, _ = together(
        lambda: Terms(seeds, budget, tolerance, by, probe),
        lambda: _space(wanted, tuned, trials),
        lambda: refuse(_unfit(wanted, by, probe)),
    )
    if probe and (len(space.axes) > 1 or wanted.tune_epochs):
        refuse(["probe is for eta0 alone, tuned at the epochs of the target"])
    where = {"devices": devices, "workers": workers, "executor": executor}
    search = Search(wanted, Path(out), terms, told(progress, say), stop, **where)
    result = _tuned(search, space, trials)
    write_result(out, result.to_json(), result.recipe)
    return result


def _space(wanted: Goal, tuned: Sequence[str], trials: int) -> Space:
    """Return the axes to tune."""
    names = tuned.split(",") if isinstance(tuned, str) else tuned
    problems = []
    if not isinstance(trials, int) or trials < FEWEST_TRIALS:
        problems.append(f"trials must be a whole number of at least {FEWEST_TRIALS}, got {trials!r}")
    space: list[Space] = []
    with collecting(problems):
        space.append(Space.of(wanted, names))
    refuse(problems)
    return space[0]


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


def _tuned(search: Search, space: Space, trials: int) -> Tuned:
    """Search, and return the result."""
    began = time.perf_counter()
    wanted, terms = search.goal, search.terms
    search.extra = extra_runs(len(space.axes), terms.seeds)
    several = Together(search, space, trials)
    several.settle()
    first = wanted.ladder[0]
    if not wanted.given:
        first = first_size(wanted, terms.seeds, terms.below, search.extra)
    grid = search.scout(first)
    for scale in wanted.ladder if wanted.given else (first,):
        search.measure(scale, grid, terms.seeds)
    search.climb()
    if terms.probe:
        search.probe_target()
        search.climb()
    whole = _whole(several) if len(space.axes) > 1 or wanted.tune_epochs else None
    made = search.forecast() if whole is None else whole.forecast.forecast
    values = {} if whole is None else whole.values
    goal_there = with_batch(space.goal, values.get(BATCH, 1.0))
    curve = expected_curve(search.common_runs(), made.value, wanted.target)
    result = Tuned(
        goal=goal_there,
        forecast=made,
        tolerance=terms.tolerance,
        verdict=search.verdict(),
        constants={axis: v for axis, v in values.items() if axis not in (ETA0, BATCH)},
        scales={scale: search.measured[scale].seeds for scale in sorted(search.measured)},
        profiles=dict(sorted(search.profiles.items())),
        learned=search.learned,
        remedy=None,
        cost=Cost(
            runs=len(search.used),
            tuning=search.spent,
            target_run=wanted.target_operations,
            target_sweep=search.target_sweep,
            seconds=time.perf_counter() - began,
        ),
        expected=None if wanted.tune_epochs else curve,
        folder=search.out,
        options=dataclasses.asdict(terms) | _own_options(space, trials),
        whole=whole,
    )
    if result.recommended:
        return result
    may_probe = whole is None and not terms.probe and not any(_unfit(wanted, terms.by, probe=True))
    moving = () if whole is None else _moving(whole.forecast, search, terms.tolerance)
    remedy = advise(goal_there, search.offer(), moving=moving, learned=result.learned, may_probe=may_probe)
    return dataclasses.replace(result, remedy=remedy)


def _own_options(space: Space, trials: int) -> dict[str, Any]:
    """Return the options of a search that tunes several axes."""
    return {"tune": space.axes, "trials": trials} if len(space.axes) > 1 else {}


def _whole(several: Together) -> TunedSet:
    """Judge every axis along size and length; return the set for the target."""
    several.judge_sizes()
    several.judge_lengths()
    return TunedSet(
        space=several.space,
        forecast=several.forecast(),
        swept_at=dict(several.search.constants),
        sizes=several.sizes,
        lengths=several.lengths if len(several.lengths) > 1 else {},
        base=several.base,
    )


def _moving(made: SetForecast, search: Search, tolerance: float) -> tuple[str, ...]:
    """Return the axes without which the bound should be within the tolerance, the riskiest first."""
    if search.forecast().regret_bound > tolerance:
        return ()
    others = [axis for axis in made.axes if axis != ETA0 and made.axes[axis].risk > made.axes[ETA0].risk]
    return tuple(sorted(others, key=lambda axis: -made.axes[axis].risk))
