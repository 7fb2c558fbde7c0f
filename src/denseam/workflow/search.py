"""The search for a learning rate: which runs to buy, until a bound on the cost at the target is low enough.

1. *Scout*: a coarse grid of η0 at a small size shows where to look.
2. *Sweep* a fine grid there, with several seeds: they show how far seeds differ. Under SGD the valley ends in
   a cliff, so the two values beside the best one are tried, too.
3. *Buy* sizes nearer to the target, a few values and one seed each, and further seeds at the largest one.
   Every purchase is the cheapest that should bring the bound of the forecast below the tolerance; if there
   is none within the budget, the one that lowers it most.
4. *Probe* the target, if the user allows it: a short training with a few values.

Every run is saved as soon as it ends, and every step depends on the runs alone, so that a search that was
killed resumes where it stopped.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from denseam.analysis.forecast import Forecast, Setting, Swept, constants, forecast
from denseam.analysis.profiles import Profile
from denseam.analysis.sentences import at_most
from denseam.analysis.thresholds import FEWEST, LEARNED
from denseam.analysis.transfer import Verdict, verdict
from denseam.ground.errors import InputError, listed, refuse
from denseam.studies.records import LOSSES, By, Records, Row
from denseam.studies.runner import run_specs
from denseam.studies.runs import RunsOfStudies
from denseam.studies.store import Store
from denseam.studies.study import RunSpec, Study
from denseam.training.progress import Progress
from denseam.workflow.advice import obstacle
from denseam.workflow.goals import FEWEST_SIZES, Goal

#: Learning rates are 10^(k/PER_DECADE): one lattice, so that widening a grid trains no run twice. Grids have
#: the multiples of STRIDE; the other k only lie beside a best value.
PER_DECADE, STRIDE = 8, 2
#: The scout tries every second of these in a range; the fine grid extends by REACH of them to each side of
#: the best, the short one of larger sizes by SHORT_REACH, that of a probe by PROBE_REACH.
SCOUT, REACH, SHORT_REACH, PROBE_REACH = (-4 * PER_DECADE, PER_DECADE), 4, 2, 3
#: Limits of the widened grid.
LOWEST, HIGHEST = -10 * PER_DECADE, 4 * PER_DECADE
MOST_SEEDS = 9
#: Maximum cost, as a share of a sweep at the target.
BUDGET = 0.15
#: The share of the budget for the first size, and of all epochs for a probe.
FIRST_SHARE, PROBE_SHARE = 0.2, 0.2
#: A purchase should bring the bound this far below the tolerance, or lower it at least to this share.
MARGIN, WORTH = 0.9, 0.95
#: Values of a full sweep, of a short one and of a probe, and those beside the best one under SGD; runs of a
#: sweep at the target, by which budgets are measured.
FULL, SHORT, PROBE, BESIDE = 2 * REACH + 1, 2 * SHORT_REACH + 1, 2 * PROBE_REACH + 1, 2
SWEEP_RUNS = FULL * FEWEST
#: Values that the scout tries.
SCOUTED = len(range(SCOUT[0], SCOUT[1] + 1, 2 * STRIDE))
#: The cost of a probe in that unit.
PROBE_COST = (PROBE + BESIDE) * PROBE_SHARE / SWEEP_RUNS
RUNS = "runs"


def rate(k: int) -> float:
    """Return the k-th learning rate of the lattice."""
    return float(f"{10 ** (k / PER_DECADE):.12g}")


def around(x: float, reach: int) -> tuple[int, ...]:
    """Return the grid that extends by `reach` values to each side of a coordinate."""
    middle = round(PER_DECADE * x / STRIDE)
    return tuple(STRIDE * k for k in range(middle - reach, middle + reach + 1))


def beside(goal: Goal) -> int:
    """Return the number of values that are tried beside the best one of a grid."""
    return BESIDE if goal.study.update_rule.follows_gradient else 0


def target_sweep(goal: Goal) -> float:
    """Return the operations of a sweep at the target: the unit of the budget."""
    return SWEEP_RUNS * goal.target_operations


def first_runs(goal: Goal, seeds: int) -> int:
    """Return the runs at the first size: a fine grid with all seeds, and the scout."""
    return (FULL + beside(goal)) * seeds + SCOUTED


class Extra(NamedTuple):
    """Runs that other axes than η0 need: at the first size, and at each larger one."""

    first: int = 0
    larger: int = 0


def first_size(goal: Goal, seeds: int, budget: float, extra: Extra = Extra()) -> int:  # noqa: B008
    """Return the largest size whose full sweep costs little, with two above it that the budget allows."""
    allowed = budget * target_sweep(goal)
    affordable = goal.ladder[0]
    for first, *larger in (goal.ladder[i : i + FEWEST_SIZES] for i in range(len(goal.ladder))):
        price = (first_runs(goal, seeds) + extra.first) * goal.operations(first)
        short = (SHORT + beside(goal) + extra.larger) * sum(map(goal.operations, larger))
        if len(larger) + 1 == FEWEST_SIZES and price <= FIRST_SHARE * allowed and price + short <= allowed:
            affordable = first
    return affordable


def expected_runs(goal: Goal, seeds: int, budget: float) -> dict[int, int]:
    """Return size → the number of runs that a search begins with; it may need more."""
    if goal.given:
        scout = {goal.ladder[0]: first_runs(goal, seeds)}
        return dict.fromkeys(goal.ladder, (FULL + beside(goal)) * seeds) | scout
    first = first_size(goal, seeds, budget)
    left = budget * target_sweep(goal) - first_runs(goal, seeds) * goal.operations(first)
    _, least, *more = (_up_to(goal, first, scale) for scale in goal.ladder if scale > first)
    short = SHORT + beside(goal)
    affordable = [sizes for sizes in more if short * sum(map(goal.operations, sizes)) <= left]
    return {first: first_runs(goal, seeds)} | dict.fromkeys([least, *affordable][-1], short)


def _up_to(goal: Goal, first: int, scale: int) -> tuple[int, ...]:
    """Return a size, and one in the middle between the first size and it."""
    middle = _between(goal, first, scale)
    return (scale,) if middle is None else (middle, scale)


def _between(goal: Goal, low: int, high: int) -> int | None:
    """Return the size in the middle of two."""
    inside = [s for s in goal.ladder if low < s < high]
    return min(inside, key=lambda s: abs(s * s / low / high - 1), default=None)


class Sweep(NamedTuple):
    """What was trained at one size: learning rates of the lattice, and a number of seeds."""

    grid: tuple[int, ...]
    seeds: int


@dataclasses.dataclass(frozen=True)
class Terms:
    """What a search may cost, and what it must achieve.

    Attributes
    ----------
    seeds
        The number of seeds at the first size.
    budget
        The maximum number of operations, as a share of a sweep at the target.
    tolerance
        The maximum cost of the recommended value.
    by
        The loss that it is about.
    probe
        Whether the target may be trained shortly.
    """

    seeds: int
    budget: float
    tolerance: float
    by: By
    probe: bool

    def __post_init__(self) -> None:
        problems = []
        if not isinstance(self.seeds, int) or not FEWEST <= self.seeds <= MOST_SEEDS:
            problems.append(f"seeds must be a whole number from {FEWEST} to {MOST_SEEDS}, got {self.seeds!r}")
        if not (isinstance(self.budget, float | int) and self.budget > 0):
            problems.append(f"budget must be above 0, got {self.budget!r}")
        if not (isinstance(self.tolerance, float | int) and 0 < self.tolerance < 1):
            problems.append(f"tolerance must be above 0 and below 1, got {self.tolerance!r}")
        if self.by not in get_args(By):
            problems.append(f"by must be {listed(get_args(By))}, got {self.by!r}")
        refuse(problems)

    @property
    def reserved(self) -> float:
        """The share of a sweep at the target that a probe costs."""
        return PROBE_COST if self.probe else 0.0

    @property
    def below(self) -> float:
        """The budget for sizes below the target."""
        return self.budget - self.reserved


class Search:
    """The search for one goal; `measured` is what has been trained, size by size."""

    def __init__(
        self,
        wanted: Goal,
        out: Path,
        terms: Terms,
        progress: Progress,
        stop: threading.Event | None = None,
        **where: Any,
    ) -> None:
        self.goal, self.out, self.terms = wanted, out, terms
        self.store = Store(out / RUNS, remember=True)  # it is read after every few runs
        self.progress, self.stop, self.where = progress, stop, where
        self.used: dict[str, float] = {}  # key → operations of every run that was used
        self.constants: dict[str, float] = {}
        self.measured: dict[int, Sweep] = {}
        self.profiles: dict[int, Profile] = {}
        self.probed: Profile | None = None
        self.zero: dict[int, float] = {}  # size → the loss of predicting zero
        self.extra = Extra()
        study = wanted.study
        self.setting = Setting(
            study.lagrangian.name, float(getattr(study.lagrangian, "power", 1)), study.optimizer,
            study.regime.name, terms.by, terms.probe,
            obstacle(study) is None and not study.scheduled and study.usual_features,
        )  # fmt: skip

    # --- runs --------------------------------------------------------------------------------------

    def train(self, study: Study, specs: list[RunSpec]) -> Records:
        """Train the missing runs; return the records of all of these runs."""
        return self.train_all([(study, specs)])

    def train_all(self, runs: RunsOfStudies) -> Records:
        """Train the missing runs of several studies; return the records of all of these runs."""
        summary = run_specs(runs, self.store, progress=self.progress, stop=self.stop, **self.where)
        for study, specs in runs:
            self.used |= {spec.key: self.goal.operations(spec.scale, study.epochs) for spec in specs}
        return summary.complete()

    def study(self, scales: tuple[int, ...], grid: Sequence[int], seeds: int) -> Study:
        """Return the study with η0 = rate(k) for each k of the grid."""
        fixed = {axis: (value,) for axis, value in self.constants.items()}
        return self.goal.at(scales, tuple(rate(k) for k in grid), seeds, **fixed)

    def _sweep(self, scale: int, grid: Sequence[int], seeds: int) -> Records:
        study = self.study((scale,), grid, seeds)
        return self.train(study, study.runs())

    @property
    def target_sweep(self) -> float:
        """The operations of a sweep at the target."""
        return target_sweep(self.goal)

    @property
    def spent(self) -> float:
        """The operations so far."""
        return sum(self.used.values())

    @staticmethod
    def rates(grid: Sequence[int]) -> tuple[float, float]:
        """Return the smallest and the largest learning rate of a grid."""
        return rate(grid[0]), rate(grid[-1])

    # --- one size ----------------------------------------------------------------------------------

    def scout(self, scale: int) -> tuple[int, ...]:
        """Return the fine grid around the best rate of a coarse grid at one size."""
        self.progress.message(f"scouting at {self.goal.letter} = {scale}")
        low, high = SCOUT
        while True:
            ks = list(range(low, high + 1, 2 * STRIDE))
            losses = {r["eta0"]: loss_of(r, self.terms.by) for r in self._sweep(scale, ks, 1)}
            best = min(ks, key=lambda k: losses[rate(k)])
            if not math.isfinite(losses[rate(best)]):
                if low <= LOWEST:
                    raise InputError(self._all_diverged(scale))
                low -= PER_DECADE
            elif best == low and low > LOWEST:
                low -= PER_DECADE
            elif best == high and high < HIGHEST:
                high += PER_DECADE
            else:
                return around(best / PER_DECADE, REACH)

    def measure(self, scale: int, grid: Sequence[int], seeds: int) -> None:
        """Sweep a size, widen its grid until the optimum is inside, and try the values beside it."""
        many = "" if seeds == 1 else "s"
        self.progress.message(
            f"sweeping {self.goal.letter} = {scale}: {len(grid)} values, {seeds} seed{many}"
        )
        swept, seen = self._followed(
            tuple(grid), lambda grid: self._profile(self._sweep(scale, grid, seeds), grid)
        )
        if not np.isfinite(seen.best):
            raise InputError(self._all_diverged(scale))
        self.measured[scale], self.profiles[scale] = Sweep(swept, seeds), seen

    def _followed(
        self, grid: tuple[int, ...], profile: Callable[[tuple[int, ...]], Profile]
    ) -> tuple[tuple[int, ...], Profile]:
        """Return a grid with its optimum inside, and its profile."""
        while True:
            seen = profile(grid)
            wider = grid
            if (seen.end == "low" or not np.isfinite(seen.best)) and grid[0] > LOWEST:
                wider = (grid[0] - STRIDE, *grid)
            elif seen.end == "high" and grid[-1] < HIGHEST:
                wider = (*grid, grid[-1] + STRIDE)
            if wider == grid:
                break
            grid = wider
        if beside(self.goal) and np.isfinite(seen.best):
            best = grid[int(np.argmin(seen.mean))]
            grid = tuple(sorted({*grid, best - 1, best + 1}))
            seen = profile(grid)
        return grid, seen

    def _all_diverged(self, scale: int) -> str:
        return (
            f"eta0: at {self.goal.letter} = {scale} runs diverge at every value, down to {rate(LOWEST):.0e}"
        )

    def _profile(self, records: Records, grid: Sequence[int]) -> Profile:
        seeds = sorted({r["seed"] for r in records})
        losses = {(r["eta0"], r["seed"]): loss_of(r, self.terms.by) for r in records}
        self.zero[records[0]["scale"]] = float(np.mean([r["zero_mse"] for r in records]))
        x = np.array([k / PER_DECADE for k in grid])
        return Profile(x, np.array([[losses[rate(k), seed] for seed in seeds] for k in grid]))

    # --- which sizes -------------------------------------------------------------------------------

    def climb(self) -> None:
        """Buy runs until the bound is below the tolerance, or the budget is spent."""
        while (purchase := self._next()) is not None:
            for scale, sweep in purchase.items():
                self.measure(scale, sweep.grid, sweep.seeds)
            made = self.forecast()
            self.progress.message(f"forecast: eta0 = {made.value:.3g}, cost {at_most(made.regret_bound)}")

    def _next(self) -> dict[int, Sweep] | None:
        """Return what to buy next: sizes with their grids and seeds; None if enough is known."""
        missing = len(self.measured) < FEWEST_SIZES
        if not missing and self.forecast().regret_bound <= self.terms.tolerance:
            return None
        offers = [(self._price(p), self._promise(p), p) for p in self._purchases()]
        within = [offer for offer in offers if offer[0] <= self._left]
        if missing and not within and offers:
            within = [min(offers, key=lambda offer: offer[0])]
            self.progress.message("three sizes cost more than the budget allows; the smallest are taken")
        enough = [offer for offer in within if self._suffices(offer[2])]
        if enough:
            return min(enough, key=lambda offer: offer[0])[2]
        best = min(within, key=lambda offer: offer[1], default=None)
        if best is None:
            return None
        worth = math.isfinite(best[1]) and best[1] <= WORTH * self.swept().risk()
        return best[2] if missing or worth else None

    def offer(self) -> tuple[int, float] | None:
        """Return the largest size of the cheapest purchase that should suffice, and the budget it needs."""
        purchases = [p for p in self._purchases() if self._suffices(p)]
        if not purchases:
            return None
        purchase = min(purchases, key=self._price)
        percents = math.ceil(100 * (self.spent + self._price(purchase)) / self.target_sweep)
        while self._anew(purchase, percents / 100) > percents / 100 * self.target_sweep:
            percents += 1
        return max(purchase), percents / 100

    def _anew(self, purchase: Mapping[int, Sweep], budget: float) -> float:
        """Return the operations of a search with another budget, which may begin at another size."""
        runs = expected_runs(self.goal, self.terms.seeds, budget - self.terms.reserved)
        first, scale = min(runs), max(purchase)
        if scale > first and not self.goal.given:
            larger = dict.fromkeys(_up_to(self.goal, first, scale), SHORT + beside(self.goal))
            runs = {first: runs[first], **larger, scale: len(purchase[scale].grid) * purchase[scale].seeds}
        operations = sum(number * self.goal.operations(scale) for scale, number in runs.items())
        return operations + self.terms.reserved * self.target_sweep

    @property
    def _left(self) -> float:
        """The operations that are left for sizes below the target."""
        reserved = self.terms.reserved if self.probed is None else 0.0
        return (self.terms.budget - reserved) * self.target_sweep - self.spent

    def _suffices(self, purchase: Mapping[int, Sweep]) -> bool:
        """Return whether the bound should be within the tolerance, with a margin."""
        risk = self._promise(purchase) / MARGIN
        return constants(self._setting).bound(risk) <= self.terms.tolerance

    def _purchases(self) -> list[dict[int, Sweep]]:
        """Return what could be bought: seeds at the largest size, or a larger size.

        The first purchase has a size in the middle, too, so that there are three.
        """
        largest = max(self.measured)
        here = self.measured[largest]
        short = around(self.profiles[largest].optimum, SHORT_REACH)
        purchases = [{largest: Sweep(here.grid, n)} for n in range(here.seeds + 1, MOST_SEEDS + 1)]
        if len(self.measured) < FEWEST_SIZES:  # sizes say more than seeds
            purchases = []
        for scale in (s for s in self.goal.ladder if s > largest):
            sizes = _up_to(self.goal, largest, scale) if len(self.measured) == 1 else (scale,)
            if len(self.measured) + len(sizes) >= FEWEST_SIZES:
                below = dict.fromkeys(sizes[:-1], Sweep(short, 1))
                purchases += [{**below, scale: Sweep(short, n)} for n in range(1, FEWEST + 1)]
        return purchases

    def _price(self, purchase: Mapping[int, Sweep]) -> float:
        """Return the operations of a purchase, without the runs that exist."""
        total = 0.0
        for scale, sweep in purchase.items():
            present = self.measured.get(scale)
            existing = len(present.grid) * present.seeds if present else 0
            values = len(sweep.grid) if present else len(sweep.grid) + beside(self.goal) + self.extra.larger
            total += (values * sweep.seeds - existing) * self.goal.operations(scale)
        return total

    def _promise(self, purchase: Mapping[int, Sweep]) -> float:
        """Return the risk that a purchase should lead to, if the optimum keeps moving as before."""
        now = self.swept()
        scale = max(purchase)
        doublings, x = now.doublings, now.x
        if scale not in self.measured:
            further = math.log2(scale / self.goal.target)
            x = (*x, x[-1] + now.drift * (further - doublings[-1]))
            doublings = (*doublings, further)
        then = dataclasses.replace(
            now, doublings=doublings, x=x, seeds=purchase[scale].seeds, edge=self.edge(scale),
            at_edge=now.at_edge and scale in self.measured,
        )  # fmt: skip
        return then.risk()

    # --- what is known -----------------------------------------------------------------------------

    @property
    def learned(self) -> bool:
        """Whether the best loss of the largest size is well below that of predicting zero."""
        largest = max(self.profiles)
        return math.exp(self.profiles[largest].best) <= LEARNED * self.zero[largest]

    @property
    def _setting(self) -> Setting:
        """The setting of the forecast as far as it is known now."""
        return dataclasses.replace(self.setting, probe=self.probed is not None)

    def swept(self) -> Swept:
        """Return what is known of the sizes."""
        scale = max(self.measured)
        return Swept.of(self.profiles, self.goal.target, self.edge(scale), self.probed)

    def edge(self, scale: int) -> float:
        """Return how far the edge of stability of SGD moves from a size to the target."""
        study = self.goal.study
        if not study.update_rule.follows_gradient or study.regime.name != "proportional":
            return 0.0
        data, noise = study.source(), study.noise**2
        here, there = (data.largest_eigenvalue(s) + noise for s in (scale, self.goal.target))
        return math.log10(here / there)

    def forecast(self) -> Forecast:
        """Return the forecast at the target."""
        return forecast(self.swept(), self._setting)

    def probe_target(self) -> None:
        """Train the target shortly with a few values around the forecast."""
        epochs = max(1, round(PROBE_SHARE * self.goal.study.epochs))
        self.progress.message(f"probing {self.goal.letter} = {self.goal.target}: {epochs} epochs")

        def profile(grid: tuple[int, ...]) -> Profile:
            short = dataclasses.replace(self.study((self.goal.target,), grid, 1), epochs=epochs, name="")
            return self._profile(self.train(short, short.runs()), grid)

        _, seen = self._followed(around(self.forecast().x, PROBE_REACH), profile)
        self.probed = seen if math.isfinite(seen.optimum) else None

    def common_runs(self) -> list[Row]:
        """Return the runs at learning rates that every size has, with their curves."""
        grid = sorted(set.intersection(*(set(sweep.grid) for sweep in self.measured.values())))
        if not grid:
            return []
        return [
            row for scale, sweep in self.measured.items() for row in self._sweep(scale, grid, sweep.seeds)
        ]

    def verdict(self) -> Verdict:
        """Return the verdict on the sizes alone: whether the optimum of the smallest one stays the same."""
        rows = self.common_runs()
        if len({r["eta0"] for r in rows}) < FEWEST:  # the optimum has left the grid of the smallest size
            grid = sorted({k for sweep in self.measured.values() for k in sweep.grid})
            for scale, sweep in list(self.measured.items()):
                self.measure(scale, grid, sweep.seeds)
            rows = self.common_runs()
        return verdict(rows, axis="eta0", tolerance=self.terms.tolerance)[0]


def loss_of(row: Row, by: By) -> float:
    """Return the loss of a run; infinite if it diverged."""
    loss = row[LOSSES[by]]
    return math.inf if row["status"] == "diverged" or not math.isfinite(loss) else float(loss)
