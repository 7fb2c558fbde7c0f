"""Tune small to train large: find the learning rate at sizes that cost little, and check that it transfers.

1. *Scout*: a coarse grid of η0 at the smallest size shows where to look.
2. *Sweep* a fine grid there at three sizes and three seeds; widen it until every optimum is inside.
3. *Judge*. If the optimum still moves, climb: add the next size and leave out the smallest. If the seeds
   differ too much for a verdict, add seeds.
4. *Recommend*, or refuse and say what would help.

The base is the smallest size from which the optimum no longer moves. Every run is saved as soon as it ends,
and every step depends on the runs alone, so that a search that was killed resumes where it stopped.
"""

from __future__ import annotations

import dataclasses
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from denseam.analysis.causes import Cause
from denseam.analysis.prediction import Expected, expected_curve
from denseam.analysis.statistics import Interval, mean_interval
from denseam.analysis.transfer import FEWEST, REGRET_GOOD, Verdict, verdict
from denseam.errors import InputError, above_zero, refuse, typed
from denseam.rules import Scales
from denseam.studies.description import AXES
from denseam.studies.records import Records
from denseam.studies.runner import run_specs
from denseam.studies.study import RunSpec, Study
from denseam.training.progress import Progress, told
from denseam.workflow.advice import Advice, advise
from denseam.workflow.goals import FEWEST_SIZES, Goal, goal
from denseam.workflow.joint import best_point, neighbours, prepare
from denseam.workflow.recipe import Recipe, write_result

#: Learning rates are 10^(k/PER_DECADE): one lattice, so that widening a grid trains no run twice.
PER_DECADE = 4
#: The scout tries every second k in this range; the fine grid extends by REACH to each side of the best.
SCOUT, REACH = (-4 * PER_DECADE, PER_DECADE), 4
#: Limits of the widened grid.
LOWEST, HIGHEST = -10 * PER_DECADE, 4 * PER_DECADE
MOST_SEEDS = 9
#: Maximum cost, as a share of a sweep at the target.
BUDGET = 0.1
RUNS = "runs"


def rate(k: int) -> float:
    """Return the k-th learning rate of the lattice."""
    return float(f"{10 ** (k / PER_DECADE):.12g}")


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
    verdict
        The verdict on η0 over the sizes from the base on (over all sizes if there is no base).
    others
        The verdicts on other tuned axes.
    eta0, eta0_ci
        The value to use, and its 95 % interval over seeds; None if none is recommended.
    constants
        The values of other tuned axes.
    base, scales, seeds
        The smallest size from which the optimum no longer moves, all sizes used, and the number of seeds.
    remedy
        What would make the rate transfer, if it does not; `advice` is the sentence.
    """

    goal: Goal
    verdict: Verdict
    others: Mapping[str, Verdict]
    eta0: float | None
    eta0_ci: Interval | None
    constants: Mapping[str, float]
    base: int | None
    scales: tuple[int, ...]
    seeds: int
    remedy: Advice | None
    cost: Cost
    expected: Expected | None
    folder: Path

    @property
    def recommended(self) -> bool:
        """Whether a value is recommended."""
        return self.eta0 is not None

    @property
    def status(self) -> str:
        """The worst verdict of all axes."""
        statuses = {v.status for v in (self.verdict, *self.others.values())}
        return next(s for s in ("FAILS", "DRIFTS", "INCONCLUSIVE", "TRANSFERS") if s in statuses)

    @property
    def recipe(self) -> Recipe:
        """The recipe for training the target."""
        if self.eta0 is None:
            raise InputError(f"{self.folder}: no learning rate was recommended there ({self.verdict.reason})")
        return Recipe(self.goal.study, self.eta0, dict(self.constants), self.expected)

    @property
    def advice(self) -> str:
        """What would make the rate transfer; '' if it does."""
        return "" if self.remedy is None else self.remedy.describe()

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
            "eta0_ci": list(self.eta0_ci) if self.eta0_ci else None,
            "constants": dict(self.constants),
            "base": self.base,
            "scales": list(self.scales),
            "seeds": self.seeds,
            "advice": self.advice or None,
            "target": dataclasses.asdict(self.goal.shape),
            "parameters": {n: getattr(target, n) for n in names} if target else None,
            "cost": dataclasses.asdict(self.cost) | {"share": self.cost.share},
            "data": self.goal.study.source().describe(),
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
    trials: int = 96,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    say: Callable[[str], None] | None = None,
    devices: Sequence[Any] | None = None,
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
        The number of seeds to begin with.
    budget
        The maximum number of operations, as a share of a sweep at the target.
    trials
        The number of points to try at the smallest size if several axes are tuned.
    progress, stop, devices
        As in `sweep`.
    say
        Instead of `progress`: called with a line for every step of the search.
    target
        The goal, as the arguments of `denseam.workflow.goals.goal`.
    """
    of_data = typed((str, Goal), "a path, the name of a data set, or a Goal", data=data)
    refuse([*of_data, *typed(Sequence, "names of axes", tuned=tuned)])
    wanted = goal(data, **target) if isinstance(data, str) else data
    axes = tuple(dict.fromkeys(tuned.split(",") if isinstance(tuned, str) else tuned))
    known = ("eta0", *(a for a in AXES if a not in ("eta0", "noise")))
    problems = [f"tune must name axes among {', '.join(known)}, got {a!r}" for a in axes if a not in known]
    if "eta0" not in axes:
        problems.append("tune must name eta0: everything else depends on it")
    if not isinstance(seeds, int) or not FEWEST <= seeds <= MOST_SEEDS:
        problems.append(f"seeds must be a whole number from {FEWEST} to {MOST_SEEDS}, got {seeds!r}")
    problems += above_zero(budget=budget)
    if not isinstance(trials, int) or trials < 16:
        problems.append(f"trials must be a whole number of at least 16, got {trials!r}")
    refuse(problems)
    others = tuple(a for a in axes if a != "eta0")
    if others:
        prepare(wanted, others)  # before anything is trained
    return Search(wanted, Path(out), seeds, budget, told(progress, say), stop, devices).run(others, trials)


class Search:
    """The search for one goal."""

    def __init__(
        self,
        wanted: Goal,
        out: Path,
        seeds: int,
        budget: float,
        progress: Progress,
        stop: threading.Event | None,
        devices: Sequence[Any] | None,
    ) -> None:
        self.goal, self.out, self.seeds, self.budget = wanted, out, seeds, budget
        self.progress, self.stop, self.devices = progress, stop, devices
        self.used: dict[str, float] = {}  # key → operations of every run that was used
        self.seconds = 0.0
        self.constants: dict[str, float] = {}

    def run(self, others: tuple[str, ...], trials: int) -> Tuned:
        """Search, and write the result."""
        began = time.perf_counter()
        scales = self.goal.ladder[: self.goal.first]
        grid = self._scout(scales[0])
        share = sum(map(self.goal.operations, scales)) / self.goal.operations(self.goal.target)
        if share > self.budget:
            self.progress.message(
                f"these sizes alone take {100 * share:.0f} % of a sweep at the target, above the budget"
            )
        if others:
            self.constants = best_point(self, scales[0], others, grid, trials)
            grid = self._scout(scales[0])
        best, grid = self._climb(scales, grid)
        judged = {}
        if best.status == "TRANSFERS":  # otherwise there is no η0 at which to vary the other axes
            judged = {axis: self._judge_axis(axis, best) for axis in others}
        self.seconds = time.perf_counter() - began
        result = self._result(best, judged, grid)
        write_result(self.out, result.to_json(), result.recipe if result.recommended else None)
        return result

    # --- runs --------------------------------------------------------------------------------------

    def train(self, study: Study, specs: list[RunSpec]) -> Records:
        """Train the missing runs; return the records of all of these runs."""
        summary = run_specs(
            [(study, specs)], self.out / RUNS, progress=self.progress, stop=self.stop, devices=self.devices
        )
        self.used |= {spec.key: self.goal.operations(spec.scale) for spec in specs}
        return summary.records

    def study(self, scales: tuple[int, ...], grid: Sequence[int], seeds: int) -> Study:
        """Return the study with η0 = rate(k) for each k of the grid."""
        fixed = {axis: (value,) for axis, value in self.constants.items()}
        return self.goal.at(scales, tuple(rate(k) for k in grid), seeds, **fixed)

    def _sweep(self, scales: tuple[int, ...], grid: Sequence[int], seeds: int) -> Records:
        study = self.study(scales, grid, seeds)
        return self.train(study, study.runs())

    @staticmethod
    def rates(grid: range) -> tuple[float, float]:
        """Return the smallest and the largest learning rate of a grid."""
        return rate(grid[0]), rate(grid[-1])

    # --- the grid ----------------------------------------------------------------------------------

    def _scout(self, scale: int) -> range:
        """Return the fine grid around the best rate of a coarse grid at the smallest size."""
        self.progress.message(f"scouting at {self.goal.letter} = {scale}")
        low, high = SCOUT
        while True:
            ks = list(range(low, high + 1, 2))
            losses = _by_rate(self._sweep((scale,), ks, 1))
            best = min(ks, key=lambda k: losses[rate(k)])
            if not math.isfinite(losses[rate(best)]):
                low -= PER_DECADE
                if low < LOWEST:
                    raise InputError(
                        f"eta0: every run at {self.goal.letter} = {scale} diverged, down to {rate(low):.1g}"
                    )
            elif best == low and low > LOWEST:
                low -= PER_DECADE
            elif best == high and high < HIGHEST:
                high += PER_DECADE
            else:
                return range(best - REACH, best + REACH + 1)

    def _widened(self, scales: tuple[int, ...], grid: range) -> range:
        """Return the grid, widened until the optimum of every size is inside."""
        while True:
            records = self._sweep(scales, grid, self.seeds)
            best = {s: _best_k(grid, [r for r in records if r["scale"] == s]) for s in scales}
            low = min((k for k in best.values() if k is not None), default=grid[0])
            high = max((k for k in best.values() if k is not None), default=grid[-1])
            wider = range(
                grid[0] - 2 * (low == grid[0] and low > LOWEST),
                grid[-1] + 1 + 2 * (high == grid[-1] and high < HIGHEST),
            )
            if wider == grid:
                return grid
            first, last = self.rates(wider)
            self.progress.message(f"widening the grid of eta0 to {first:.2g} … {last:.2g}")
            grid = wider

    # --- the sizes ---------------------------------------------------------------------------------

    def _climb(self, scales: tuple[int, ...], grid: range) -> tuple[Verdict, range]:
        """Return the verdict on the longest series of sizes that transfers; on the last ones if none does."""
        while True:
            sizes = f"{self.goal.letter} = {', '.join(map(str, scales))}"
            self.progress.message(f"sweeping {sizes} with {self.seeds} seeds")
            grid = self._widened(scales, grid)
            records = self._sweep(scales, grid, self.seeds)
            every = [self._judge(records, scales[i:]) for i in range(len(scales) - FEWEST_SIZES + 1)]
            good = [v for v in every if v.status == "TRANSFERS"]
            if good:
                return good[0], grid
            self.progress.message(f"{every[-1].status}: {every[-1].reason}")
            if any(_nearly(v) for v in every) and self.seeds < MOST_SEEDS:
                self.seeds = min(MOST_SEEDS, self.seeds + 2)
            elif (following := self._following(scales, grid)) is not None:
                scales = (*scales, following)
            else:
                return every[-1], grid

    def _judge(self, records: Records, scales: tuple[int, ...]) -> Verdict:
        rows = [r for r in records if r["scale"] in scales]
        target = self.goal.target if self.goal.target > scales[-1] else None
        return verdict(rows, axis="eta0", target=target)[0]

    def _following(self, scales: tuple[int, ...], grid: range) -> int | None:
        """Return the next size of the ladder, if there is one and the budget allows it."""
        rest = [s for s in self.goal.ladder if s > scales[-1]]
        if not rest:
            return None
        more = len(grid) * self.seeds * self.goal.operations(rest[0])
        allowed = self.budget * len(grid) * self.seeds * self.goal.operations(self.goal.target)
        return rest[0] if sum(self.used.values()) + more <= allowed else None

    def _judge_axis(self, axis: str, best: Verdict) -> Verdict:
        """Return whether the best value of another axis also stays put, at the best η0."""
        scales = tuple(sorted(best.optimum))
        k = round(PER_DECADE * math.log10(_chosen(best)))
        values = neighbours(axis, self.constants[axis])
        fixed = {a: (v,) for a, v in self.constants.items() if a != axis}
        study = self.goal.at(scales, (rate(k),), self.seeds, **fixed, **{axis: values})
        self.progress.message(f"checking that {axis} = {self.constants[axis]:.3g} transfers, too")
        return verdict(self.train(study, study.runs()), axis=axis)[0]

    # --- the result --------------------------------------------------------------------------------

    def _result(self, best: Verdict, judged: dict[str, Verdict], grid: range) -> Tuned:
        holds = all(v.status == "TRANSFERS" for v in (best, *judged.values()))
        scales = tuple(sorted(best.optimum))
        eta0, interval = (_chosen(best), _interval(best)) if holds else (None, None)
        curve = None
        if eta0 is not None:
            rows = self._sweep(scales, grid, self.seeds)
            curve = expected_curve(list(rows), eta0, self.goal.target)
        runs = len(grid) * self.seeds
        return Tuned(
            goal=self.goal,
            verdict=best,
            others=judged,
            eta0=eta0,
            eta0_ci=interval,
            constants=dict(self.constants),
            base=scales[0] if holds else None,
            scales=tuple(sorted({int(s) for s in self.goal.ladder if s <= scales[-1]})),
            seeds=self.seeds,
            remedy=None if holds else advise(self.goal, best, judged, self.budget),
            cost=Cost(
                runs=len(self.used),
                tuning=sum(self.used.values()),
                target_run=self.goal.operations(self.goal.target),
                target_sweep=runs * self.goal.operations(self.goal.target),
                seconds=self.seconds,
            ),
            expected=curve,
            folder=self.out,
        )


def _nearly(v: Verdict) -> bool:
    """Return whether the mean cost of transfer is small, and only its uncertainty is not."""
    small = v.max_regret is not None and v.max_regret <= REGRET_GOOD
    return small and v.cause in (Cause.OPTIMUM_MOVES, Cause.SEEDS_DIFFER)


def _by_rate(records: Records) -> dict[float, float]:
    return {r["eta0"]: math.inf if r["status"] == "diverged" else r["final_mse"] for r in records}


def _best_k(grid: range, rows: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the k with the smallest mean log-loss over seeds; None if all diverged."""
    losses: dict[float, list[float]] = {}
    for row in rows:
        loss = math.inf if row["status"] == "diverged" else row["final_mse"]
        losses.setdefault(row["eta0"], []).append(math.log(loss) if loss > 0 else -math.inf)
    best = min(grid, key=lambda k: float(np.mean(losses[rate(k)])))
    return best if math.isfinite(np.mean(losses[rate(best)])) else None


def _chosen(best: Verdict) -> float:
    """Return the optimum at the largest size, nearest to the target: the mean over seeds, to three digits."""
    return float(f"{10 ** float(np.mean(_logs(best))):.3g}")


def _interval(best: Verdict) -> Interval | None:
    interval = mean_interval(_logs(best))[1]
    return None if interval is None else (float(10 ** interval[0]), float(10 ** interval[1]))


def _logs(best: Verdict) -> np.ndarray[Any, Any]:
    """Return log10 of every seed's optimum at the largest size."""
    return np.log10(best.optima[max(best.optima)])
