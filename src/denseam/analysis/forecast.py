"""The forecast at the target: which value to use there, and what it will cost at most.

Sizes n_1 < … < n_m were swept. x_i is log10 of the best value at n_i, g = log2(n_T / n_m) the doublings from
the largest of them to the target. The forecast of the optimum is

    x̂ = x_m + g (μ + w b) + v ℓ,    ℓ = log10((λ_m + σ²) / (λ_T + σ²)),

with b the slope of x_i against doublings. ℓ is how far the edge of stability of SGD moves, for data whose
covariance has the largest eigenvalue λ and noise of variance σ². With a probe, a short training of the target
whose best value is x_p, it is x̂ = x_m + a min(d, 0) + a' max(d, 0) + g μ with d = x_p - x_m. The *risk* is

    u = g² (r + ½ c τ²) + ½ c (s² / k + ¼ (g² Δ² + ℓ²)),

with c the curvature of log-loss around x_m, s the standard deviation of a seed's optimum, k the seeds at n_m,
and Δ the last step of the optimum per doubling. (With a probe: ℓ = 0, Δ = d / g.) u has the size that
errors of the forecast have: the spread between data sets, the seeds at n_m, a drift that goes on. It is
infinite if a neighbour of the best value diverged, at n_m or at the probe: the grid does not show how near
the edge of stability is.

The bound on the cost is the smallest of `BOUNDS` that nearly all studies of the calibration corpus with at
most this risk kept: studies of real data whose truth at the target is known. So a bound says that of the
studies that look no worse, the share `LEVEL` cost at most as much. μ, w, v and the largest risk of each bound
depend on the setting (activation, optimizer, regime). A setting that is not in the corpus gets the smallest
risks of its optimizer (or of the one it resembles) and regime, halved.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from denseam.analysis.profiles import Profile
from denseam.rules.optimizers import OPTIMIZERS
from denseam.studies.records import By

#: The bounds that are given.
BOUNDS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
#: The share of studies of the same or lower risk that keep a bound; with a margin over 95 % under Adam, for
#: which there are enough studies.
LEVEL = {"adam": 0.97, "sgd": 0.95}
#: r, τ and the share ¼ of the last step, chosen once on the corpus: the results hardly depend on them.
FLOOR, SPREAD, CONTINUES = 0.003, 0.03, 0.25
#: a and a': the share of its way to the optimum of a short training that the optimum goes, down and up.
DOWN, UP = 0.7, 0.2
#: A valley flatter than this is taken for noise: no bound may rest on it.
FLATTEST = 0.05
TABLE = "calibration.json"


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the constants of a forecast depend on.

    All models of the corpus are as prescribed, have tanh features, and were trained at a constant rate;
    `prescribed` says that a model is one of these.
    """

    activation: str
    power: float
    optimizer: str
    regime: str
    by: By = "training"
    probe: bool = False
    prescribed: bool = True


@dataclasses.dataclass(frozen=True)
class Entry:
    """The constants of one setting.

    Attributes
    ----------
    shift, slope, edge
        μ, w and v.
    limits
        The largest risk for which each of `BOUNDS` is given; zero for a bound that never is.
    median
        The median of true cost / u.
    families, studies
        The number of data sets and of studies they rest on; 0 if the setting is not in the corpus.
    """

    shift: float
    slope: float
    edge: float
    limits: tuple[float, ...]
    median: float
    families: int
    studies: int

    def bound(self, risk: float) -> float:
        """Return the bound on the cost of a value of this risk; infinite if none is given."""
        return next(
            (bound for bound, limit in zip(BOUNDS, self.limits, strict=True) if risk <= limit), math.inf
        )


@dataclasses.dataclass(frozen=True)
class Swept:
    """What a search knows of the sizes below the target.

    Attributes
    ----------
    doublings
        log2 of each size over the target's; negative, rising.
    x
        The optimum of each size.
    seeds
        The number of seeds at the largest size.
    deviation
        The standard deviation of a seed's optimum, pooled over the sizes with several seeds.
    curvature
        Of log-loss around the optimum of the largest size.
    edge
        ℓ, the predicted shift of the edge of stability from the largest size to the target.
    probe
        The best value of a short training of the target, as a coordinate.
    at_edge
        Whether a neighbour of the best value diverged; at the probe if there is one.
    """

    doublings: tuple[float, ...]
    x: tuple[float, ...]
    seeds: int
    deviation: float
    curvature: float
    edge: float = 0.0
    probe: float | None = None
    at_edge: bool = False

    @classmethod
    def of(
        cls, profiles: Mapping[int, Profile], target: int, edge: float = 0.0, probe: Profile | None = None
    ) -> Swept:
        """Return what profiles of several sizes say, and that of a short training of the target."""
        scales = sorted(profiles)
        several = [p.optima for p in profiles.values() if len(p.optima) > 1]
        squares = sum(float(np.sum((optima - np.mean(optima)) ** 2)) for optima in several)
        freedom = sum(len(optima) - 1 for optima in several)
        largest = profiles[scales[-1]]
        return cls(
            doublings=tuple(math.log2(scale / target) for scale in scales),
            x=tuple(profiles[scale].optimum for scale in scales),
            seeds=len(largest.optima),
            deviation=math.sqrt(squares / freedom) if several else math.inf,
            curvature=max(largest.curvature, FLATTEST),
            edge=edge,
            probe=None if probe is None else probe.optimum,
            at_edge=(probe or largest).rough,
        )

    @property
    def gap(self) -> float:
        """g, the doublings from the largest size to the target."""
        return -self.doublings[-1]

    @property
    def drift(self) -> float:
        """b, the slope of the optimum against doublings."""
        return (self.x[-1] - self.x[0]) / (self.doublings[-1] - self.doublings[0]) if len(self.x) > 1 else 0.0

    @property
    def last_step(self) -> float:
        """Δ, the last step of the optimum per doubling, or from the largest size to the probe."""
        if self.probe is not None:
            return (self.probe - self.x[-1]) / self.gap
        if len(self.x) < 2:
            return 0.0
        return (self.x[-1] - self.x[-2]) / (self.doublings[-1] - self.doublings[-2])

    def predicted(self, entry: Entry) -> float:
        """Return x̂."""
        if self.probe is not None:
            way = self.probe - self.x[-1]
            return self.x[-1] + DOWN * min(way, 0.0) + UP * max(way, 0.0) + self.gap * entry.shift
        return self.x[-1] + self.gap * (entry.shift + entry.slope * self.drift) + entry.edge * self.edge

    def risk(self) -> float:
        """Return u; infinite at an edge of stability that the grid does not resolve."""
        if self.at_edge:
            return math.inf
        between = FLOOR + 0.5 * self.curvature * SPREAD**2
        moves = (self.gap * self.last_step) ** 2
        if self.probe is None:
            moves += self.edge**2
        here = self.deviation**2 / self.seeds + CONTINUES * moves
        return self.gap**2 * between + 0.5 * self.curvature * here


@dataclasses.dataclass(frozen=True)
class Forecast:
    """The value to use at the target, and its cost.

    Attributes
    ----------
    x, value
        The forecast of the optimum as a coordinate, and as a value to three digits.
    predicted_regret, regret_bound
        Half of the studies of the corpus with this risk cost at most the first, nearly all with at most this
        risk at most the second.
    uncorrected_bound
        The bound for x_m, taken as it is: for the risk u + ½ c (x̂ - x_m)².
    interval
        The values whose optimum at the target would be compatible with the bound.
    at_edge
        Whether there is no bound because training diverges at a value beside the best one.
    setting, entry
        The setting and its constants.
    """

    x: float
    predicted_regret: float
    regret_bound: float
    uncorrected_bound: float
    interval: tuple[float, float]
    at_edge: bool
    setting: Setting
    entry: Entry

    @property
    def value(self) -> float:
        """The value to use."""
        return float(f"{10**self.x:.3g}")

    def drift_corrected(self, tolerance: float) -> bool:
        """Whether the bound is only met with the predicted drift."""
        return self.regret_bound <= tolerance < self.uncorrected_bound

    def to_json(self, tolerance: float) -> dict[str, Any]:
        """Return the fields that `tune --json` has."""
        return {
            "interval_at_target": list(self.interval) if math.isfinite(self.regret_bound) else None,
            "predicted_regret": _finite(self.predicted_regret),
            "regret_bound": _finite(self.regret_bound),
            "drift_corrected": self.drift_corrected(tolerance),
            "at_edge": self.at_edge,
            "by": self.setting.by,
            "calibrated_on": self.entry.families,
        }


def forecast(swept: Swept, setting: Setting, entry: Entry | None = None) -> Forecast:
    """Return the forecast at the target; `entry` replaces the constants that come with the package."""
    entry = entry or constants(setting)
    x, risk = swept.predicted(entry), swept.risk()
    bound = entry.bound(risk)
    c = swept.curvature
    half = math.sqrt(2 * math.log1p(bound) / c) if math.isfinite(bound) else math.inf
    return Forecast(
        x=x,
        predicted_regret=min(entry.median * risk, bound),
        regret_bound=bound,
        uncorrected_bound=entry.bound(risk + 0.5 * c * (x - swept.x[-1]) ** 2),
        interval=(10 ** (x - min(half, 300.0)), 10 ** min(x + half, 300.0)),
        at_edge=swept.at_edge,
        setting=setting,
        entry=entry,
    )


def constants(setting: Setting) -> Entry:
    """Return the constants of a setting; wider ones if the corpus does not have it."""
    known = table()
    return known[setting] if setting in known else uncalibrated(setting)


def uncalibrated(setting: Setting, of: Entry | None = None) -> Entry:
    """Return wider constants: for a setting like this one that the corpus does not have.

    `of` gives its shift and slope, if they are known and only the limits are not.
    """
    known = table()
    kind = (OPTIMIZERS[setting.optimizer].calibrated, setting.regime, setting.by, setting.probe)
    alike = [e for s, e in known.items() if (s.optimizer, s.regime, s.by, s.probe) == kind]
    limits = [0.5 * min((e.limits[i] for e in alike), default=0.0) for i in range(len(BOUNDS))]
    median = max((e.median for e in alike), default=math.inf)
    shift, slope, edge = (0.0, 0.5, 0.0) if of is None else (of.shift, of.slope, of.edge)
    return Entry(shift, slope, edge, tuple(limits), median, 0, 0)


@functools.cache
def table() -> Mapping[Setting, Entry]:
    """Return the constants that come with the package."""
    text = importlib.resources.files("denseam.analysis").joinpath(TABLE).read_text()
    return read_table(json.loads(text))


def read_table(document: Sequence[Mapping[str, Any]]) -> dict[Setting, Entry]:
    """Read what `write_table` wrote."""
    names = [f.name for f in dataclasses.fields(Setting)]
    read = {}
    for row in document:
        numbers: dict[str, Any] = {k: v for k, v in row.items() if k not in names}
        numbers["limits"] = tuple(numbers["limits"])
        read[Setting(**{k: row[k] for k in names if k in row})] = Entry(**numbers)
    return read


def write_table(entries: Mapping[Setting, Entry]) -> list[dict[str, Any]]:
    """Return constants as a plain document, to four digits."""
    return [
        dataclasses.asdict(setting) | {k: _short(v) for k, v in dataclasses.asdict(entry).items()}
        for setting, entry in entries.items()
    ]


def _short(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_short(v) for v in value]
    return value if isinstance(value, int) else float(f"{value:.4g}")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
