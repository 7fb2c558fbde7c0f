"""Several hyperparameters tuned together: the best set at the smallest size, then along size and length.

1. *Search* the best set at the first size (`denseam.workflow.joint`), by the mean over seeds; then vary each
   axis around it and take Newton's step, until the best set is inside.
2. *Sizes*: η0 is swept at larger sizes as always. Around its best value there, every other axis is varied by
   one step to each side.
3. *Lengths*: if the target is trained longer than the small models, the best set is followed at the first
   size through longer and longer trainings, up to that of the target if the budget allows it.

Nothing is decided by anything but runs, and runs are stored, so that a search that was killed resumes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from denseam.analysis.profiles import Profile
from denseam.analysis.sets import SetForecast, Star, SweptSet, correlations, forecast_set
from denseam.workflow.axes import BATCH, ETA0, Space, with_batch
from denseam.workflow.joint import SURVEYED, USUAL, Array, Descended, Descent, Point
from denseam.workflow.search import HIGHEST, LOWEST, REACH, STRIDE, Extra, Search, around, beside, loss_of

#: η0 is searched by this many steps of the lattice to each side of the best one for the other axes' defaults,
#: and further by WIDER if the best set is at that limit, this many times.
ETA0_REACH, WIDER, WIDENED = 12, 8, 4
#: The distance between the values of an axis is one over which log-loss should change by about this.
CHANGE = 0.02
#: Values to each side of the best one at the first size and at longer trainings, and at larger sizes.
WIDE, NARROW = 2, 1
#: How often the values of a star are moved to where its best set lies.
MOVES = 3


def extra_runs(axes: int, seeds: int, trials: int) -> Extra:
    """Return the runs that tuning so many axes needs besides those of η0."""
    if axes == 1:
        return Extra()
    points = min(trials, USUAL * axes) + 2 * WIDE * (axes - 1)
    return Extra(points * seeds, 2 * NARROW * (axes - 1))


def lengths(short: int, long: int) -> tuple[int, ...]:
    """Return the lengths of training from the short to the long one, about doubling."""
    steps = max(1, round(math.log2(long / short)))
    return tuple(dict.fromkeys(round(short * (long / short) ** (i / steps)) for i in range(steps + 1)))


class Together:
    """The search for the best set of a space; `sizes` and `lengths` are what has been measured."""

    def __init__(self, search: Search, space: Space, trials: int) -> None:
        self.search, self.space, self.trials = search, space, trials
        self.sizes: dict[int, Star] = {}
        self.lengths: dict[int, Star] = {}
        self.centre: Point = ()  # the set at which η0 is swept
        self.found: Descended | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that are tuned."""
        return self.space.axes

    @functools.cached_property
    def _limits(self) -> tuple[Point, Point]:
        return self.space.box((LOWEST, HIGHEST))

    # --- the first size ----------------------------------------------------------------------------

    def settle(self, scale: int, grid: Sequence[int]) -> tuple[int, ...]:
        """Find the best set at the first size; return the grid of η0 around it."""
        middle = grid[len(grid) // 2]
        if len(self.axes) == 1:
            self.centre = (middle,)
            return tuple(grid)
        low, high = self.space.box((middle - ETA0_REACH, middle + ETA0_REACH))
        descent = Descent(lambda points: self._first_losses(scale, points), low, high)
        descent.survey([self.space.start(middle)], SURVEYED * len(self.axes))
        self.found = descent.descend(self.trials)
        for _ in range(WIDENED):
            at = self.found.point[0]
            if descent.low[0] < at < descent.high[0]:
                break
            descent.low[0] -= WIDER * (at == descent.low[0])
            descent.high[0] += WIDER * (at == descent.high[0])
            self.found = descent.descend(len(descent.seen) + self.trials // 2)
        self._settled(scale, self.found.point)
        return around(self.space.spans[ETA0].step * self.centre[0], REACH)

    def _settled(self, scale: int, point: Point) -> None:
        """Move to the best set of all seeds, and let η0 be swept there."""
        seeds = self.search.terms.seeds
        star = self._followed(scale, self.search.goal.short_epochs, np.array(point) * self.space.steps, seeds)
        self.centre = self._lattice(star.centre)
        values = self.space.values(self.centre)
        self.search.constants = {a: v for a, v in values.items() if a not in (ETA0, BATCH)}
        self.search.goal = with_batch(self.space.goal, values.get(BATCH, 1.0))

    def _first_losses(self, scale: int, points: Sequence[Point]) -> list[float]:
        self.search.progress.message(
            f"searching {', '.join(self.axes)} at {self.search.goal.letter} = {scale}: {len(points)} points"
        )
        losses = self._losses(points, scale, self.search.terms.seeds, self.search.goal.short_epochs)
        return [float(np.mean(np.log(losses[p]))) for p in points]

    def _losses(
        self, points: Sequence[Point], scale: int, seeds: int, epochs: int
    ) -> dict[Point, list[float]]:
        """Train the runs of these points that are missing; return the losses of each point, seed by seed."""
        runs, keys = self.space.runs(list(dict.fromkeys(points)), scale, seeds, epochs)
        rows = {row["key"]: row for row in self.search.train_all(runs)}
        return {p: [loss_of(rows[key], self.search.terms.by) for key in keys[p]] for p in keys}

    # --- stars -------------------------------------------------------------------------------------

    def _lattice(self, z: Array) -> Point:
        low, high = self._limits
        return tuple(int(k) for k in np.clip(np.rint(z / self.space.steps), low, high))

    @functools.cached_property
    def spacing(self) -> tuple[int, ...]:
        """The distance between the values of each axis, in steps of its lattice."""
        low, high = self._limits
        spacing = [1 if beside(self.search.goal) else STRIDE]
        for i in range(1, len(self.axes)):
            assert self.found is not None
            curvature = max(float(self.found.hessian[i, i]), 1e-6)
            most = max(1, (high[i] - low[i]) // (2 * WIDE))
            least = min(2, most)
            spacing.append(int(np.clip(round(math.sqrt(2 * CHANGE / curvature)), least, most)))
        return tuple(spacing)

    @functools.cached_property
    def _correlations(self) -> Array:
        return np.eye(1) if self.found is None else correlations(self.found.hessian)

    def _arms(self, centre: Point, reach: int) -> dict[str, list[Point]]:
        """Return the points along each axis through a centre, as far as its limits allow."""
        low, high = self._limits
        arms = {}
        for i, axis in enumerate(self.axes):
            ks = [centre[i] + j * self.spacing[i] for j in range(-reach, reach + 1)]
            inside = sorted({min(max(k, low[i]), high[i]) for k in ks})
            arms[axis] = [(*centre[:i], k, *centre[i + 1 :]) for k in inside]
        return arms

    def _star(
        self, centre: Point, scale: int, epochs: int, seeds: int, reach: int, eta0: Profile | None = None
    ) -> Star:
        """Vary each axis around a point; `eta0` is the profile of η0, if it has been swept."""
        arms = self._arms(centre, reach)
        if eta0 is not None:
            del arms[ETA0]
        points = [p for arm in arms.values() for p in arm]
        losses = self._losses(points, scale, seeds, epochs) if points else {}
        steps = self.space.steps
        profiles = {} if eta0 is None else {ETA0: eta0}
        for axis, arm in arms.items():
            i = self.axes.index(axis)
            x = np.array([p[i] for p in arm]) * steps[i]
            profiles[axis] = Profile(x, np.array([losses[p] for p in arm]))
        low, high = (np.array(limit) * steps for limit in self._limits)
        reach_of = reach * np.array(self.spacing) * steps
        reach_of[0] = max(reach_of[0], WIDE * STRIDE * steps[0])
        return Star(np.array(centre) * steps, profiles, self._correlations, low, high, reach_of)

    def _followed(self, scale: int, epochs: int, z: Array, seeds: int) -> Star:
        """Return the star around the best set, from where it is expected."""
        centre = self._lattice(z)
        for _ in range(MOVES):
            star = self._star(centre, scale, epochs, seeds, WIDE)
            offset = np.abs(star.optimum / self.space.steps - centre)
            if (offset <= np.array(self.spacing)).all():
                break
            centre = self._lattice(star.optimum)
        return star

    # --- along size and length ---------------------------------------------------------------------

    def judge_sizes(self) -> None:
        """Vary the other axes around the best η0 of every size that was swept."""
        search, first = self.search, min(self.search.measured)
        for scale, sweep in sorted(search.measured.items()):
            if len(self.axes) > 1:
                many = "" if sweep.seeds == 1 else "s"
                search.progress.message(
                    f"varying {', '.join(self.axes[1:])} at {search.goal.letter} = {scale}: "
                    f"{sweep.seeds} seed{many}"
                )
            profile, step = search.profiles[scale], self.space.steps[0]
            k = min(sweep.grid, key=lambda k: abs(k * step - profile.optimum))
            reach = WIDE if scale == first else NARROW
            self.sizes[scale] = self._star(
                (k, *self.centre[1:]), scale, search.goal.short_epochs, sweep.seeds, reach, profile
            )

    def judge_lengths(self) -> None:
        """Follow the best set of the first size through longer trainings, as far as the budget allows."""
        search, goal = self.search, self.search.goal
        if goal.tune_epochs is None:
            return
        first, seeds = min(search.measured), search.terms.seeds
        self.lengths[goal.short_epochs] = self.sizes[first]
        points = 2 * WIDE * len(self.axes) + 1
        for epochs in lengths(goal.short_epochs, goal.study.epochs)[1:]:
            price = points * seeds * goal.operations(first, epochs)
            beyond = search.spent + price > search.terms.budget * search.target_sweep
            if beyond and len(self.lengths) > 1:
                search.progress.message(f"trainings of {epochs} epochs cost more than the budget allows")
                return
            search.progress.message(
                f"following the best values at {goal.letter} = {first}: {epochs} epochs, {seeds} seeds"
            )
            last = self.lengths[max(self.lengths)]
            self.lengths[epochs] = self._followed(first, epochs, last.optimum, seeds)

    def forecast(self) -> SetForecast:
        """Return the forecast at the target."""
        goal = self.search.goal
        swept = SweptSet.of(
            self.sizes, goal.target, self.lengths, goal.study.epochs, self.search.edge(max(self.sizes))
        )
        return forecast_set(self.sizes, self.lengths, swept, self.search.setting)
