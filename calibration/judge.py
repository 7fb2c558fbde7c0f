"""What bounds the corpus supports: fit the constants of the forecast, and judge them on families left out.

    python -m calibration.judge [--write]

reads `calibration/records.parquet`, fits the constants of every setting, prints how often the bound holds
when all constants are fitted without the judged family, and with --write stores the constants in the package
and the tables in the docs. Nothing is trained.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import denseam
from denseam.analysis.forecast import (
    BOUNDS,
    LEVEL,
    TABLE,
    Entry,
    Forecast,
    Setting,
    Swept,
    forecast,
    write_table,
)
from denseam.analysis.profiles import Profile
from denseam.studies.records import By
from denseam.workflow.search import BESIDE, FULL, PROBE, PROBE_COST, SCOUTED, SHORT, SWEEP_RUNS

RECORDS = Path(__file__).with_name("records.parquet")
FAMILIES = Path(__file__).with_name("families.json")
PACKAGE = Path(denseam.__file__).parent / "analysis" / TABLE
#: Sizes of a case, the target included.
SIZES = 4
#: Seeds that a complete sweep of a size has.
SEEDS = 3
TOLERANCE = 0.02


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One study of the corpus: losses of every size (value × seed), the largest of which is the target.

    Attributes
    ----------
    eigenvalues
        λ of every size: the largest eigenvalue of the data's covariance.
    """

    family: str
    shrink: str
    setting: Setting
    noise: float
    samples: int
    x: np.ndarray[Any, Any]
    losses: Mapping[str, Mapping[int, np.ndarray[Any, Any]]]
    eigenvalues: Mapping[int, float]

    @property
    def first(self) -> int:
        """The place of the first learning rate on the lattice."""
        return round(self.x[0] / (self.x[1] - self.x[0]))

    @property
    def scales(self) -> list[int]:
        """The sizes, rising."""
        return sorted(self.losses["final"])

    @functools.cache  # noqa: B019  # cases live as long as the process
    def truth(self, by: By) -> Profile:
        """Return the profile at the target."""
        return Profile(self.x, self.losses[COLUMN[by]][self.scales[-1]])

    @functools.cache  # noqa: B019
    def below(self, by: By, scale: int, seeds: int, around: float | None = None) -> Profile:
        """Return the profile of a size with so many seeds, on all values or on a few around a coordinate."""
        return self._searched(self.losses[COLUMN[by]][scale][:, :seeds], around, SHORT)

    @functools.cache  # noqa: B019
    def probe(self, around: float) -> Profile:
        """Return the profile of a short training of the target with one seed."""
        return self._searched(self.losses["early"][self.scales[-1]][:, :1], around, PROBE)

    def _searched(self, losses: np.ndarray[Any, Any], around: float | None, values: int) -> Profile:
        """Return the profile that a search would see.

        It tries four values per decade, follows the minimum, and adds the two beside the best value if the
        corpus has eight.
        """
        stride = round(1 / (4 * (self.x[1] - self.x[0])))
        coarse = np.arange(-self.first % stride, len(self.x), stride)
        if around is not None:
            first = int(np.argmin(np.abs(self.x[coarse] - around))) - values // 2
            first = min(max(first, 0), len(coarse) - values)
            chosen = range(first, first + values)
            while True:
                profile = Profile(self.x[coarse[chosen]], losses[coarse[chosen]])
                if profile.end == "low" or not np.isfinite(profile.best):
                    wider = range(max(chosen[0] - 1, 0), chosen[-1] + 1)
                elif profile.end == "high":
                    wider = range(chosen[0], min(chosen[-1] + 2, len(coarse)))
                else:
                    break
                if wider == chosen:
                    break
                chosen = wider
            coarse = coarse[chosen]
        best = coarse[int(np.argmin(np.mean(np.log(losses[coarse]), axis=1)))]
        beside = [i for i in (best - 1, best + 1) if stride > 1 and 0 <= i < len(self.x)]
        points = np.union1d(coarse, beside).astype(int)
        return Profile(self.x[points], losses[points])

    def edge(self, scale: int) -> float:
        """Return ℓ from a size to the target."""
        if self.setting.regime == "memories-only" or not self.eigenvalues:
            return 0.0
        here, there = (self.eigenvalues[s] + self.noise**2 for s in (scale, self.scales[-1]))
        return math.log10(here / there)

    @functools.cache  # noqa: B019  # families left out in turn mostly lead to the same value
    def regret(self, x: float, by: By) -> float:
        """Return the true cost of a value at the target."""
        return float(self.truth(by).regret(x))


COLUMN: Mapping[str, str] = {"training": "final", "heldout": "heldout"}


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a search buys: the doublings between the largest size and the target, and how it is swept."""

    name: str
    gap: int
    seeds: int
    short: bool
    probe: bool = False

    @functools.cache  # noqa: B019
    def swept(self, case: Case, by: By) -> Swept:
        """Return what the search would know of a case."""
        scales = case.scales[: -self.gap]
        profiles = {scale: case.below(by, scale, SEEDS) for scale in scales[:-1]}
        around = profiles[scales[-2]].optimum if self.short else None
        profiles[scales[-1]] = case.below(by, scales[-1], self.seeds, around)
        edge = case.edge(scales[-1])
        probe = case.probe(profiles[scales[-1]].optimum + EDGE * edge) if self.probe else None
        return Swept.of(profiles, case.scales[-1], edge, probe)

    def cost(self, setting: Setting) -> float:
        """Return its operations as a share of a sweep of the target: nine values, three seeds."""
        power = 3 if setting.regime == "proportional" else 1
        beside = BESIDE if setting.optimizer == "sgd" else 0
        runs = dict.fromkeys(range(self.gap + 1, SIZES), (FULL + beside) * SEEDS)
        runs[self.gap] = ((SHORT if self.short else FULL) + beside) * self.seeds
        runs[SIZES - 1] += SCOUTED
        below = sum(number * 2.0 ** (-power * g) for g, number in runs.items()) / SWEEP_RUNS
        return below + (PROBE_COST if self.probe else 0.0)


PLANS = (
    Plan("half size, 9 values, 3 seeds", 1, 3, False),
    Plan("half size, 5 values, 1 seed", 1, 1, True),
    Plan("quarter size, 9 values, 3 seeds", 2, 3, False),
    Plan("quarter size, 5 values, 1 seed", 2, 1, True),
)
PROBED = (Plan("half size, 5 values, 1 seed, probe", 1, 1, True, probe=True),)
#: What is judged: a probe says nothing about held-out losses.
JUDGED: tuple[tuple[By, tuple[Plan, ...]], ...] = (
    ("training", PLANS),
    ("training", PROBED),
    ("heldout", PLANS),
)


@dataclasses.dataclass(frozen=True)
class Judged:
    """A study that was judged with its family left out."""

    case: Case
    plan: Plan
    forecast: Forecast
    regret: float

    @property
    def holds(self) -> bool:
        """Whether the truth is at most the bound."""
        return self.regret <= self.forecast.regret_bound

    @property
    def recommended(self) -> bool:
        """Whether the bound is within the tolerance."""
        return self.forecast.regret_bound <= TOLERANCE

    @property
    def good(self) -> bool:
        """Whether the forecast's value truly costs at most the tolerance."""
        return self.regret <= TOLERANCE


def read(path: Path = RECORDS) -> list[Case]:
    """Read the corpus: a case for each largest size that has three below it."""
    import pyarrow.parquet as pq

    names = ("family", "shrink", "activation", "power", "optimizer", "regime", "noise", "samples")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in pq.read_table(path).to_pylist():
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    cases = []
    for (family, shrink, activation, power, optimizer, regime, noise, samples), rows in groups.items():
        all_scales = sorted({row["scale"] for row in rows})
        for last in range(min(SIZES, len(all_scales)), len(all_scales) + 1):
            scales = all_scales[max(0, last - SIZES) : last]
            share = scales[-1] / all_scales[-1] if regime == "proportional" else 1.0
            losses = {
                name: {s: _losses(rows, s, name) for s in scales} for name in ("final", "heldout", "early")
            }
            setting = Setting(activation, power, optimizer, regime)
            cases.append(
                Case(
                    family, shrink, setting, noise, round(share * samples),
                    (rows[0]["first_k"] + np.arange(len(rows[0]["final"]))) / rows[0]["per_decade"], losses,
                    {row["scale"]: row["eigenvalue"] for row in rows if row["eigenvalue"] is not None},
                )
            )  # fmt: skip
    return cases


def _losses(rows: Iterable[Mapping[str, Any]], scale: int, name: str) -> np.ndarray[Any, Any]:
    seeds = sorted((row["seed"], row[name]) for row in rows if row["scale"] == scale)
    return np.array([losses for _, losses in seeds], float).T


def weighted_quantile(values: Sequence[float], families: Sequence[str], level: float) -> float:
    """Return a quantile in which every family has the same weight, however many studies it has."""
    counts = {family: families.count(family) for family in set(families)}
    order = np.argsort(values)
    weights = np.cumsum([1 / counts[families[i]] for i in order]) / len(counts)
    return float(values[order[min(int(np.searchsorted(weights, level - 1e-9)), len(order) - 1)]])


def fit(studies: Sequence[tuple[Case, Swept]], by: By, probe: bool) -> dict[Setting, Entry]:
    """Return the constants of every setting among the studies; a study may appear with several plans."""
    groups: dict[Setting, list[tuple[Case, Swept]]] = {}
    for case, swept in studies:
        if math.isfinite(swept.risk()):
            setting = dataclasses.replace(case.setting, by=by, probe=probe)
            groups.setdefault(setting, []).append((case, swept))
    entries: dict[Setting, Entry] = {}
    costs: dict[Setting, list[float]] = {}
    scales: dict[Setting, float] = {}
    for setting, members in groups.items():
        entry = _location(setting, members, by)
        costs[setting] = [case.regret(s.predicted(entry), by) for case, s in members]
        ratios = [cost / s.risk() for cost, (_, s) in zip(costs[setting], members, strict=True)]
        names = [case.family for case, _ in members]
        # The upper quartile sets the scale of a setting; the limits are common to all that are alike.
        scales[setting] = weighted_quantile(ratios, names, 0.75)
        entries[setting] = dataclasses.replace(
            entry,
            median=weighted_quantile(ratios, names, 0.5),
            families=len(set(names)),
            studies=len({(c.family, c.noise, c.samples, c.shrink, c.scales[-1]) for c, _ in members}),
        )
    for kind in sorted({_kind(s) for s in entries}):
        alike = [s for s in entries if _kind(s) == kind]
        middle = math.exp(float(np.mean([math.log(scales[s]) for s in alike])))
        unit = {s: math.sqrt(middle * scales[s]) for s in alike}
        limits = risk_limits(
            [swept.risk() * unit[s] for s in alike for _, swept in groups[s]],
            [cost for s in alike for cost in costs[s]],
            [case.family for s in alike for case, _ in groups[s]],
            sum(entries[s].studies for s in alike),
            LEVEL[alike[0].optimizer],
        )
        for s in alike:
            entries[s] = dataclasses.replace(entries[s], limits=tuple(limit / unit[s] for limit in limits))
    return entries


def _kind(setting: Setting) -> tuple[str, ...]:
    """Return what settings with common limits share.

    Under SGD what moves the edge of stability depends on the regime; where only memories grow, the edge of
    ReLU² falls, and that of ReLU does not.
    """
    if setting.optimizer == "adam":
        return ("adam",)
    power = f"{setting.power:g}" if setting.regime == "memories-only" else ""
    return setting.optimizer, setting.regime, power


def risk_limits(
    risks: Sequence[float], costs: Sequence[float], families: Sequence[str], studies: int, level: float
) -> list[float]:
    """Return, for each of BOUNDS, the largest risk up to which the share `level` of studies keeps it.

    Every family has the same weight, and one more study is taken to exceed the bound: the one to come.
    """
    order = np.argsort(risks)
    counts = {family: families.count(family) for family in set(families)}
    weights = np.array([1 / counts[families[i]] for i in order]) * studies / len(counts)
    all_so_far = np.cumsum(weights)
    limits = []
    for bound in BOUNDS:
        beyond = np.cumsum(weights * (np.asarray(costs)[order] > bound))
        kept = np.flatnonzero(beyond + 1 <= (1 - level) * (all_so_far + 1))
        limits.append(float(np.asarray(risks)[order[kept[-1]]]) if len(kept) else 0.0)
    return limits


#: w where all sizes grow, and where only memories do; v under SGD, where ℓ says what moves instead of μ.
SLOPE = {"proportional": 0.1, "memories-only": 0.4}
EDGE = 0.75
#: μ is this quantile over families. Under SGD a value that is too large diverges, so it is a low one.
MIDDLE, LOW = 0.5, 0.3


def _location(setting: Setting, members: Sequence[tuple[Case, Swept]], by: By) -> Entry:
    """Return the constants of the forecast itself."""
    sgd = setting.optimizer == "sgd"
    slope = 0.0 if sgd else SLOPE[setting.regime]
    edge = EDGE if sgd and setting.regime == "proportional" and not setting.probe else 0.0
    bare = Entry(0.0, slope, edge, (), 1.0, 0, 0)
    shifts = [(case.truth(by).optimum - s.predicted(bare)) / s.gap for case, s in members]
    shift = weighted_quantile(shifts, [case.family for case, _ in members], LOW if sgd else MIDDLE)
    return dataclasses.replace(bare, shift=shift)


def judge(cases: Sequence[Case], plans: Sequence[Plan], by: By, aside: Iterable[str] = ()) -> list[Judged]:
    """Judge every case and plan with constants that were fitted without its family.

    Families in `aside` are judged, and never fitted on.
    """
    probe = plans[0].probe
    known = [(case, plan, plan.swept(case, by)) for case in cases for plan in plans]
    usable = [(c, p, s) for c, p, s in known if _usable(c, s, by)]
    judged = []
    for family in sorted({case.family for case in cases}):
        others = [(c, s) for c, p, s in usable if _fitted(c, p, {family, *aside})]
        entries = fit(others, by, probe)
        for case, plan, swept in usable:
            setting = dataclasses.replace(case.setting, by=by, probe=probe)
            if case.family == family and setting in entries:
                made = forecast(swept, setting, entries[setting])
                judged.append(Judged(case, plan, made, case.regret(made.x, by)))
    return judged


def summary(judged: Sequence[Judged]) -> dict[str, float]:
    """Return how often the bound holds, and how often a good value is recommended."""
    recommended = [j for j in judged if j.recommended]
    good = [j for j in judged if j.good]
    share: Callable[[Sequence[bool]], float] = lambda flags: float(np.mean(flags)) if flags else math.nan  # noqa: E731
    return {
        "studies": len(judged),
        "families": len({j.case.family for j in judged}),
        "recommended": len(recommended),
        "holds": share([j.holds for j in recommended]),
        "recommended_if_good": share([j.recommended for j in good]),
        "median_regret": float(np.median([j.regret for j in recommended])) if recommended else math.nan,
        "worst": max((j.regret for j in recommended), default=math.nan),
        "wrong": sum(not j.good for j in recommended),
    }


def table(cases: Sequence[Case], aside: Iterable[str]) -> dict[Setting, Entry]:
    """Return the constants of all settings, fitted on all families that are not held aside."""
    entries: dict[Setting, Entry] = {}
    for by, plans in JUDGED:
        studies = [
            (case, plan.swept(case, by)) for case in cases for plan in plans if _fitted(case, plan, aside)
        ]
        usable = [(c, s) for c, s in studies if _usable(c, s, by)]
        entries |= fit(usable, by, plans[0].probe)
    return entries


def _fitted(case: Case, plan: Plan, without: Iterable[str]) -> bool:
    """Return whether a case with a plan serves to fit constants.

    Under SGD a probe is of use. Where all sizes grow, only half of the target's size then says where the edge
    of stability will be.
    """
    if case.family in set(without):
        return False
    if case.setting.optimizer == "adam":
        return not plan.probe
    return plan.gap == 1 or case.setting.regime == "memories-only"


def _usable(case: Case, swept: Swept, by: By) -> bool:
    """Return whether a study has an optimum at every size."""
    return bool(np.isfinite([*swept.x, swept.deviation, case.truth(by).optimum]).all())


def held_aside() -> set[str]:
    """Return the families on which nothing is fitted."""
    families = json.loads(FAMILIES.read_text())
    return {name for name, family in families.items() if family["held_aside"]}


def complete(cases: Iterable[Case]) -> list[Case]:
    """Return the cases with the default way to shrink that have all sizes."""
    return [case for case in cases if not case.shrink and len(case.scales) == SIZES]


def main() -> None:
    """Fit, judge, print, and store if asked to."""
    parser = argparse.ArgumentParser(description="Fit and judge the constants of the forecast.")
    parser.add_argument("--write", action="store_true", help="store the constants in the package")
    options = parser.parse_args()
    cases, aside = complete(read()), held_aside()
    entries = table(cases, aside)
    if options.write:
        document = write_table(entries)
        PACKAGE.write_text(json.dumps(document, indent=1) + "\n")
    for setting, entry in entries.items():
        print(setting, entry)


if __name__ == "__main__":
    main()
