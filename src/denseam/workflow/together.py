"""Several hyperparameters tuned together: the best set at a small size, then along size and length.

1. *Search* the best set (`denseam.workflow.joint`), by the mean over seeds, at the largest size at which this
   takes at most half of the budget: seeds scatter less there. Then vary each axis around it and take Newton's
   step, until the best set is inside.
2. *Sizes*: η0 is swept at several sizes as always. Around its best value there, every other axis is varied by
   one step to each side, and further if it is best at an end.
3. *Lengths*: if the target is trained longer than the small models, the best set is followed at the size of
   the search through longer and longer trainings, up to that of the target if the budget allows it.

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
from denseam.workflow.goals import Goal
from denseam.workflow.joint import SURVEYED, USUAL, Array, Descended, Descent, Point
from denseam.workflow.search import (
    HIGHEST,
    LOWEST,
    STRIDE,
    Extra,
    Search,
    Terms,
    beside,
    loss_of,
    target_sweep,
)

#: The share of the budget for the search and for longer trainings.
SEARCH_SHARE = 0.5
#: η0 is searched by this many steps of the lattice to each side of the best one for the other axes' defaults,
#: and further by WIDER if the best set is at that limit, this many times.
ETA0_REACH, WIDER, WIDENED = 12, 8, 4
#: The distance between the values of an axis is one over which log-loss should change by about this.
CHANGE = 0.02
#: Values to each side of the best one at the first size and at longer trainings, and at larger sizes.
WIDE, NARROW = 2, 1
#: How often the values of a star are moved to where its best set lies, and the most values of an axis.
MOVES, LONGEST = 3, 12


def extra_runs(axes: int, seeds: int) -> Extra:
    """Return the runs at each size that tuning this many axes needs besides those of η0."""
    return Extra(2 * WIDE * (axes - 1) * seeds, 2 * NARROW * (axes - 1))


def search_size(goal: Goal, axes: int, terms: Terms, trials: int) -> int:
    """Return the largest size at which the search and its longer trainings cost their share of the budget."""
    allowed = SEARCH_SHARE * terms.budget * target_sweep(goal)
    points = min(trials, USUAL * axes) if axes > 1 else 0
    star = 2 * WIDE * axes + 1
    longer = lengths(goal.short_epochs, goal.study.epochs)[1:]

    def price(scale: int) -> float:
        runs = points * goal.operations(scale) + sum(star * goal.operations(scale, e) for e in longer)
        return terms.seeds * runs

    affordable = [scale for scale in goal.ladder if price(scale) <= allowed]
    return max(affordable, default=goal.ladder[0])


def lengths(short: int, long: int) -> tuple[int, ...]:
    """Return the lengths of training from the short to the long one, about doubling."""
    if short == long:
        return (short,)
    steps = max(1, round(math.log2(long / short)))
    return tuple(dict.fromkeys(round(short * (long / short) ** (i / steps)) for i in range(steps + 1)))


class Together:
    """The search for the best set of a space; `sizes` and `lengths` are what has been measured."""

    def __init__(self, search: Search, space: Space, trials: int) -> None:
        self.search, self.space, self.trials = search, space, trials
        self.base = search_size(search.goal, len(space.axes), search.terms, trials)
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

    # --- the search --------------------------------------------------------------------------------

    def settle(self) -> None:
        """Find the best set, and let η0 be swept there."""
        if len(self.axes) == 1:
            return
        scouted = self.search.scout(self.base)
        middle = scouted[len(scouted) // 2]
        low, high = self.space.box((middle - ETA0_REACH, middle + ETA0_REACH))
        own = self.axes.index(BATCH) if BATCH in self.axes else None
        descent = Descent(self._log_losses, low, high, own=own)
        descent.survey([self.space.start(middle)], SURVEYED * len(self.axes))
        self.found = descent.descend(self.trials)
        for _ in range(WIDENED):
            at = self.found.point[0]
            if descent.low[0] < at < descent.high[0]:
                break
            descent.low[0] -= WIDER * (at == descent.low[0])
            descent.high[0] += WIDER * (at == descent.high[0])
            self.found = descent.descend(len(descent.seen) + self.trials // 2)
        epochs, z = self.search.goal.short_epochs, np.array(self.found.point) * self.space.steps
        star = self._followed(epochs, z)
        self.lengths[epochs], self.centre = star, self._lattice(star.centre)
        values = self.space.values(self.centre)
        self.search.constants = {a: v for a, v in values.items() if a not in (ETA0, BATCH)}
        self.search.goal = with_batch(self.space.goal, values.get(BATCH, 1.0))

    def _log_losses(self, points: Sequence[Point]) -> list[float]:
        """Return the mean log-loss over seeds of each point, at the size of the search."""
        goal, seeds = self.search.goal, self.search.terms.seeds
        self.search.progress.message(
            f"searching {', '.join(self.axes)} at {goal.letter} = {self.base}: {len(points)} points"
        )
        losses = self._losses(points, self.base, seeds, goal.short_epochs)
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

    def _arm(self, i: int, centre: Point, reach: int) -> list[int]:
        """Return the values along an axis through a centre; next to a limit, more to the other side."""
        far = [centre[i] + j * self.spacing[i] for j in range(-2 * reach, 2 * reach + 1)]
        inside = {self._inside(i, k) for k in far}
        return sorted(sorted(inside, key=lambda k: abs(k - centre[i]))[: 2 * reach + 1])

    def _inside(self, i: int, k: int) -> int:
        """Return the value of an axis, or the limit that it is beyond."""
        low, high = self._limits
        return min(max(k, low[i]), high[i])

    def _star(
        self, centre: Point, scale: int, epochs: int, seeds: int, reach: int, eta0: Profile | None = None
    ) -> Star:
        """Vary each axis around a point, as far as needed to have the best value inside.

        `eta0` is the profile of η0, if it has been swept.
        """
        steps = self.space.steps
        arms = {i: self._arm(i, centre, reach) for i in range(0 if eta0 is None else 1, len(self.axes))}
        profiles: dict[int, Profile] = {} if eta0 is None else {0: eta0}
        open_ = dict(arms)
        while open_:
            points = {i: [(*centre[:i], k, *centre[i + 1 :]) for k in arm] for i, arm in open_.items()}
            losses = self._losses([p for arm in points.values() for p in arm], scale, seeds, epochs)
            for i, arm in points.items():
                x = np.array([p[i] for p in arm]) * steps[i]
                profiles[i] = Profile(x, np.array([losses[p] for p in arm]))
            open_ = {i: wider for i, arm in open_.items() if (wider := self._widened(i, arm, profiles[i]))}
        low, high = (np.array(limit) * steps for limit in self._limits)
        return Star(
            centre=np.array(centre) * steps,
            profiles={axis: profiles[i] for i, axis in enumerate(self.axes)},
            correlations=self._correlations,
            low=low,
            high=high,
        )

    def _widened(self, i: int, arm: list[int], profile: Profile) -> list[int] | None:
        """Return an arm with one value more where it is best at its end; None if that is its limit."""
        ends = {"low": arm[0] - self.spacing[i], "high": arm[-1] + self.spacing[i]}
        if profile.end is None or len(arm) >= LONGEST:
            return None
        beyond = self._inside(i, ends[profile.end])
        return None if beyond in arm else sorted([*arm, beyond])

    def _followed(self, epochs: int, z: Array) -> Star:
        """Return the star around the best set at the size of the search, from where it is expected."""
        centre = self._lattice(z)
        for _ in range(MOVES):
            star = self._star(centre, self.base, epochs, self.search.terms.seeds, WIDE)
            offset = np.abs(star.optimum / self.space.steps - centre)
            if (offset <= np.array(self.spacing)).all():
                break
            centre = self._lattice(star.optimum)
        return star

    # --- along size and length ---------------------------------------------------------------------

    def judge_sizes(self) -> None:
        """Vary the other axes around the best η0 of every size that was swept."""
        search, first = self.search, min(self.search.measured)
        epochs = search.goal.short_epochs
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
            self.sizes[scale] = self._star((k, *self.centre[1:]), scale, epochs, sweep.seeds, reach, profile)

    def judge_lengths(self) -> None:
        """Follow the best set through longer trainings, as far as the budget allows."""
        search, goal, seeds = self.search, self.search.goal, self.search.terms.seeds
        longer = lengths(goal.short_epochs, goal.study.epochs)[1:]
        if longer and not self.lengths:  # η0 alone
            x = search.profiles[min(search.profiles)].optimum
            self.lengths[goal.short_epochs] = self._followed(goal.short_epochs, np.array([x]))
        points = 2 * WIDE * len(self.axes) + 1
        for epochs in longer:
            price = points * seeds * goal.operations(self.base, epochs)
            beyond = search.spent + price > search.terms.budget * search.target_sweep
            if beyond and len(self.lengths) > 1:
                search.progress.message(f"trainings of {epochs} epochs cost more than the budget allows")
                return
            search.progress.message(
                f"following the best values at {goal.letter} = {self.base}: {epochs} epochs, {seeds} seeds"
            )
            last = self.lengths[max(self.lengths)]
            self.lengths[epochs] = self._followed(epochs, last.optimum)

    def forecast(self) -> SetForecast:
        """Return the forecast at the target."""
        goal = self.search.goal
        swept = SweptSet.of(
            self.sizes, goal.target, self.lengths, goal.study.epochs, self.search.edge(max(self.sizes))
        )
        return forecast_set(self.sizes, self.lengths, swept, self.search.setting)
