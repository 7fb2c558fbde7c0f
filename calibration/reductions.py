"""The reductions of data compared on the corpus, and whether two that disagree raise a useful alarm.

Some families were also trained with another reduction. Only principal components that are not rotated have
a target of their own; random directions, and rotated components of images, are judged at the target of the
default.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np

from calibration.evidence import Costs, Evidence
from calibration.judge import PLANS, SEEDS, TOLERANCE, Case, Judged

#: Reductions whose features are not those of the default at the target, so that they have their own.
OWN_TARGET = {"pca"}


@dataclasses.dataclass(frozen=True)
class Pair:
    """One study with the default reduction and with another, and the forecast from the default."""

    default: Case
    other: Case
    forecast: Judged

    @property
    def scales(self) -> list[int]:
        """The sizes below the target, which both have."""
        return self.default.scales[:-1]

    def costs(self) -> tuple[float, float]:
        """Return the cost at the target of the half size's optimum: by the default, by the other."""
        target = self.other if self.other.shrink in OWN_TARGET else self.default
        here, there = self.optima(self.scales[-1])
        return self.default.regret(here, "training"), target.regret(there, "training")

    def optima(self, scale: int) -> tuple[float, float]:
        """Return the best value of a size: by the default, by the other."""
        here, there = (case.below("training", scale, SEEDS).optimum for case in (self.default, self.other))
        return here, there

    def disagreement(self, scale: int) -> float:
        """Return how far apart the optima of a size are, in decades."""
        here, there = self.optima(scale)
        return abs(there - here)


def pairs(found: Evidence) -> dict[tuple[str, str], list[Pair]]:
    """Return optimizer and reduction → the studies that have it and the default."""
    plan = PLANS[0]
    judged = {
        _key(j.case): j for j in found.where(lambda j: j.plan is plan and j.forecast.setting.by == "training")
    }
    groups: dict[tuple[str, str], list[Pair]] = {}
    for case in found.cases:
        forecast = judged.get(_key(case))
        if case.shrink and forecast is not None:
            pair = Pair(forecast.case, case, forecast)
            if np.isfinite([pair.disagreement(scale) for scale in pair.scales]).all():
                groups.setdefault((case.setting.optimizer, case.shrink), []).append(pair)
    return dict(sorted(groups.items()))


def _key(case: Case) -> tuple[object, ...]:
    return case.family, case.setting, case.noise, case.samples, case.scales[0]


def costs(group: Sequence[Pair]) -> tuple[Costs, Costs]:
    """Return what the optimum of the half size costs: by the default, by the other reduction."""
    default, other = zip(*(pair.costs() for pair in group), strict=True)
    return Costs(default), Costs(other)


@dataclasses.dataclass(frozen=True)
class Alarm:
    """How well a disagreement at one size tells bad studies from good ones.

    Attributes
    ----------
    size
        The size as a share of the target.
    pairs, bad
        The studies, and those of them that are bad.
    auc
        The probability that a bad study has the larger disagreement; 0.5 is worth nothing.
    """

    event: str
    size: float
    pairs: int
    bad: int
    auc: float


def alarms(group: Sequence[Pair]) -> list[Alarm]:
    """Return the alarms of each size for three events, of which the first two matter to a user."""
    events = {
        "forecast above tolerance": [p.forecast.regret > TOLERANCE for p in group],
        "forecast above bound": [p.forecast.regret > p.forecast.forecast.regret_bound for p in group],
        "other reduction's value above tolerance": [p.costs()[1] > TOLERANCE for p in group],
    }
    shares = [scale / group[0].default.scales[-1] for scale in group[0].scales]
    return [
        Alarm(event, share, len(group), sum(bad), auc([p.disagreement(p.scales[i]) for p in group], bad))
        for event, bad in events.items()
        for i, share in enumerate(shares)
    ]


def auc(scores: Sequence[float], bad: Sequence[bool]) -> float:
    """Return the probability that a bad study scores higher than a good one; NaN without one of each."""
    high = [s for s, b in zip(scores, bad, strict=True) if b]
    low = [s for s, b in zip(scores, bad, strict=True) if not b]
    wins = [float(h > g) + 0.5 * float(h == g) for h, g in itertools.product(high, low)]
    return float(np.mean(wins)) if wins else math.nan
