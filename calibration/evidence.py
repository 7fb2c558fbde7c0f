"""What the corpus says about the forecast: shares, their limits and the failures, as numbers.

Every study is judged with constants that were fitted without its family (`calibration.judge`). A value is
*recommended* if its bound is within the tolerance, *good* if it truly costs at most the tolerance, and
*covered* if it truly costs at most the bound.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import beta

from calibration.controls import small_sweep, status
from calibration.judge import (
    JUDGED,
    PLANS,
    PROBED,
    RECORDS,
    SEEDS,
    TOLERANCE,
    Case,
    Judged,
    Plan,
    complete,
    held_aside,
    judge,
    read,
)
from denseam.analysis.forecast import Setting
from denseam.studies.records import By

LOSSES: tuple[By, ...] = ("training", "heldout")
CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The corpus, judged.

    Attributes
    ----------
    cases
        All cases, also those with a further reduction of the data.
    aside
        Families on which nothing is fitted.
    judged
        Every complete case with every plan and loss.
    left_out
        The number of studies without a forecast: at some size every value diverges.
    """

    cases: Sequence[Case]
    aside: frozenset[str]
    judged: Sequence[Judged]
    left_out: int

    def where(self, keep: Callable[[Judged], bool]) -> list[Judged]:
        """Return some of the judged studies."""
        return [j for j in self.judged if keep(j)]


@functools.cache
def evidence(path: Path = RECORDS) -> Evidence:
    """Return the judged corpus."""
    cases, aside = read(path), frozenset(held_aside())
    whole = complete(cases)
    judged: list[Judged] = []
    asked = 0
    for by, plans in JUDGED:
        known = [c for c in whole if c.setting.optimizer == "sgd" or not plans[0].probe]
        judged += judge(known, plans, by, aside)
        asked += len(known) * len(plans)
    return Evidence(cases, aside, judged, asked - len(judged))


# --- shares and their limits -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Tally:
    """What a set of judged studies shows.

    Attributes
    ----------
    good, good_recommended
        The studies whose forecast truly costs at most the tolerance, and those of them with a recommendation.
    recommended, covered, beyond
        The recommended values, those that cost at most the bound, and those above the tolerance.
    limit
        The lower limit of the coverage, see `coverage_limit`.
    median, worst
        Of the true cost of recommended values.
    """

    studies: int
    families: int
    good: int
    good_recommended: int
    recommended: int
    covered: int
    beyond: int
    limit: float
    median: float
    worst: float

    @property
    def share(self) -> float:
        """The share of good values that are recommended."""
        return self.good_recommended / self.good if self.good else math.nan

    @property
    def coverage(self) -> float:
        """The share of recommended values that are covered."""
        return self.covered / self.recommended if self.recommended else math.nan


def tally(judged: Sequence[Judged]) -> Tally:
    """Count."""
    recommended = [j for j in judged if j.recommended]
    regrets = [j.regret for j in recommended] or [math.nan]
    return Tally(
        studies=len(judged),
        families=len({j.case.family for j in judged}),
        good=sum(j.good for j in judged),
        good_recommended=sum(j.good for j in recommended),
        recommended=len(recommended),
        covered=sum(j.holds for j in recommended),
        beyond=sum(not j.good for j in recommended),
        limit=coverage_limit([(j.case.family, j.holds) for j in recommended]),
        median=float(np.median(regrets)),
        worst=max(regrets),
    )


def coverage_limit(outcomes: Iterable[tuple[str, bool]], confidence: float = CONFIDENCE) -> float:
    """Return the lower confidence limit of a share of studies, with the family as the unit.

    Studies of one family may fail together, so F families count as F trials, however many studies they have.
    A family fails by the share of its studies that do, and k is the sum of these shares. The limit is that of
    Clopper and Pearson: the quantile 1 - confidence of Beta(F - k, k + 1). Without any failure it is
    (1 - confidence)^(1/F), 90.2 % for 29 families.
    """
    families: dict[str, list[bool]] = {}
    for family, holds in outcomes:
        families.setdefault(family, []).append(holds)
    F = len(families)
    k = sum(1 - float(np.mean(holds)) for holds in families.values())
    if F == 0:
        return math.nan
    return float(beta.ppf(1 - confidence, F - k, k + 1)) if k < F else 0.0


def failures(judged: Iterable[Judged]) -> list[Judged]:
    """Return the recommended values that cost more than the bound or the tolerance, the dearest first."""
    failed = [j for j in judged if j.recommended and not (j.holds and j.good)]
    return sorted(failed, key=lambda j: -j.regret)


def grouped(judged: Iterable[Judged]) -> dict[tuple[Setting, Plan], list[Judged]]:
    """Return the studies of each setting and plan, in the order of the page."""
    groups: dict[tuple[Setting, Plan], list[Judged]] = {}
    for j in judged:
        groups.setdefault((j.forecast.setting, j.plan), []).append(j)
    plans = [*PLANS, *PROBED]
    order = sorted(groups, key=lambda key: (_order(key[0]), plans.index(key[1])))
    return {key: groups[key] for key in order}


def _order(s: Setting) -> tuple[object, ...]:
    """Adam before SGD, all sizes before memories only, training before held out."""
    return s.optimizer, s.regime != "proportional", s.probe, s.by != "training", s.activation, s.power


# --- what other rules would have cost --------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Costs:
    """True costs at the target of the values that one rule gives."""

    regrets: tuple[float, ...]

    @property
    def within(self) -> float:
        """The share within the tolerance."""
        return float(np.mean(np.array(self.regrets) <= TOLERANCE))

    def quantile(self, level: float) -> float:
        """Return a quantile, an observed value."""
        return float(np.quantile(self.regrets, level, method="inverted_cdf"))


def rules(found: Evidence, by: By) -> dict[tuple[str, str], dict[str, Costs]]:
    """Return optimizer and regime → rule → what its values cost, on the same studies.

    Three sizes are swept with three seeds, up to half of the target. The rules: the optimum of the smallest
    size, that of the largest as it is, and the forecast.
    """
    plan = PLANS[0]
    groups: dict[tuple[str, str], dict[str, list[float]]] = {}
    for j in found.where(lambda j: j.plan is plan and j.forecast.setting.by == by):
        case, group = j.case, (j.case.setting.optimizer, j.case.setting.regime)
        x = {
            "smallest": case.below(by, case.scales[0], SEEDS).optimum,
            "largest": case.below(by, case.scales[-2], SEEDS).optimum,
            "forecast": j.forecast.x,
        }
        for rule, value in x.items():
            groups.setdefault(group, {}).setdefault(rule, []).append(case.regret(value, by))
    return {
        group: {rule: Costs(tuple(regrets)) for rule, regrets in by_rule.items()}
        for group, by_rule in sorted(groups.items())
    }


def transfers_then_costs(found: Evidence) -> Mapping[str, Costs]:
    """Return optimizer → the cost at the target of what was recommended before there was a forecast.

    That is the optimum of the largest swept size, if the verdict on the swept sizes is TRANSFERS.
    """
    costs: dict[str, list[float]] = {}
    for case in complete(found.cases):
        small = {scale: case.losses["final"][scale][:, :SEEDS] for scale in case.scales[:-1]}
        if status(small_sweep(case.x, small, case.setting.regime)) == "TRANSFERS":
            x = case.below("training", case.scales[-2], SEEDS).optimum
            costs.setdefault(case.setting.optimizer, []).append(case.regret(x, "training"))
    return {optimizer: Costs(tuple(regrets)) for optimizer, regrets in sorted(costs.items())}
