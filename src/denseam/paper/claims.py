"""The claims of a figure, as tests on its records: each test gives a number and says whether the claim holds.

A claim is first tested as the paper states it, then under conditions of our own. The first test that holds
decides: the claim is *reproduced*, or *reproduced only if* the condition is met. If none holds, it is *not
reproduced*, or *undecided* if more runs could decide it. Our own claims *hold* or do not.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import numpy as np

from denseam.analysis.causes import Cause
from denseam.analysis.statistics import slope
from denseam.paper.examples import Examples
from denseam.paper.results import Array, Results
from denseam.paper.settings import FromSettings, Setting
from denseam.training.quantities import QUANTITIES

#: An edge counts as falling if its slope is below minus this, in decades per doubling.
FALLING = 0.02
#: Causes that name the scale at which runs diverge.
DIVERGENCES = (Cause.DIVERGES, Cause.DIVERGES_BELOW, Cause.EDGE_UNRESOLVED)
#: Curves collapse if their mean distance from the largest scale's is at most this.
COLLAPSED = 0.10


@dataclasses.dataclass(frozen=True)
class Measured:
    """The result of a test: whether the claim holds (None if undecided), and the number in words."""

    holds: bool | None
    text: str


@dataclasses.dataclass(frozen=True)
class Evidence(FromSettings):
    """A test on records."""

    def measure(self, results: Results) -> Measured:
        """Return what the records show."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Claim:
    """One sentence of a caption, and its tests, each with its condition ('' for none)."""

    text: str
    tests: tuple[tuple[str, Evidence], ...]

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings that have to be trained for all tests."""
        return tuple(setting for _, test in self.tests for setting in test.settings)

    def judge(self, results: Results) -> Finding:
        """Return the finding of the first test that holds, or of all of them."""
        texts: list[str] = []
        undecided = False
        for condition, test in self.tests:
            measured = test.measure(results)
            texts.append(f"if {condition}: {measured.text}" if condition else measured.text)
            undecided = undecided or measured.holds is None
            if measured.holds:
                return Finding(self.text, "; ".join(texts), "reproduced", condition)
        return Finding(self.text, "; ".join(texts), "undecided" if undecided else "not reproduced")


ClaimOutcome = Literal["reproduced", "not reproduced", "undecided"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """The outcome of a claim; `own` if the claim is ours and not the paper's."""

    claim: str
    measured: str
    outcome: ClaimOutcome
    condition: str = ""
    own: bool = False

    @property
    def verdict(self) -> str:
        """The finding in words."""
        own = {"reproduced": "holds", "not reproduced": "does not hold", "undecided": "undecided"}
        word = own[self.outcome] if self.own else self.outcome
        return f"{word} only if {self.condition}" if self.condition else word

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "claim": self.claim,
            "measured": self.measured,
            "verdict": self.verdict,
            "outcome": self.outcome,
            "condition": self.condition or None,
        }


def claim(text: str, test: Evidence) -> Claim:
    """Return a claim that is tested without a condition."""
    return Claim(text, (("", test),))


@dataclasses.dataclass(frozen=True)
class OfOne(Evidence):
    """Evidence from one setting."""

    setting: Setting


@dataclasses.dataclass(frozen=True)
class OfTwo(Evidence):
    """Evidence from two settings, of which the first should be the better one."""

    better: Setting
    worse: Setting


# --- tests on learning rates -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Transfers(OfOne):
    """The best learning rate of the smallest scale is good at all scales, after a share of the epochs."""

    share: float = 1.0

    def measure(self, results: Results) -> Measured:
        """Judge by the verdict."""
        epoch = max(1, round(self.share * results.size.epochs))
        v = results.verdict(self.setting, None if self.share == 1 else epoch)
        text = f"{v.status}, {_regret(v)}" + ("" if self.share == 1 else f" after {epoch} epochs")
        if v.status == "TRANSFERS":
            return Measured(True, text)
        if v.base is not None and v.status == "DRIFTS":
            text += f", from {v.scale_letter} = {v.base} on it transfers"
        return Measured(None if v.status == "INCONCLUSIVE" else False, text)


@dataclasses.dataclass(frozen=True)
class TransfersFrom(OfOne):
    """The best learning rate of some scale below the two largest is good at all larger ones."""

    def measure(self, results: Results) -> Measured:
        """Judge by the smallest base."""
        v = results.verdict(self.setting)
        scales = sorted(v.optimum)
        allowed = scales[:-2]
        if v.base in allowed:
            return Measured(True, f"from {v.scale_letter} = {v.base} on")
        if v.possible_base in allowed:
            return Measured(None, f"perhaps from {v.scale_letter} = {v.possible_base} on")
        return Measured(False, "no such base")


@dataclasses.dataclass(frozen=True)
class DoesNotTransfer(OfOne):
    """The learning rate does not carry over: it diverges, costs too much, or its edge falls."""

    def measure(self, results: Results) -> Measured:
        """Judge by the verdict, or by the edge of stability."""
        v = results.verdict(self.setting)
        text = f"{v.status}, {_regret(v)}"
        ci = v.edge_drift_ci
        falls = v.edge_drift is not None and v.edge_drift < -FALLING and (ci is None or ci[1] < 0)
        if falls and v.edge_drift is not None:
            text += f", the edge falls by {-v.edge_drift:.2f} decades per doubling"
        if v.status in ("FAILS", "DRIFTS") or falls:
            return Measured(True, text)
        return Measured(None if v.status == "INCONCLUSIVE" else False, text)


@dataclasses.dataclass(frozen=True)
class LowerRegret(OfTwo):
    """The transferred learning rate costs less in the first setting than in the second."""

    def measure(self, results: Results) -> Measured:
        """Compare the largest regrets."""
        a, b = results.verdict(self.better), results.verdict(self.worse)
        if a.max_regret is None or b.max_regret is None:
            return Measured(None, "no regret could be measured")
        text = f"{self.better.label}: {_regret(a)}; {self.worse.label}: {_regret(b)}"
        return Measured(a.max_regret < b.max_regret, text)


@dataclasses.dataclass(frozen=True)
class EdgeFallsAlong(Evidence):
    """The stability edge at the largest common scale is lower in the last setting than in the first."""

    along: tuple[Setting, ...]
    falls: bool = True

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings that have to be trained for it."""
        return self.along

    def measure(self, results: Results) -> Measured:
        """Compare the edges."""
        edges = []
        for setting in self.along:
            edge = results.verdict(setting).edge
            edges.append(edge[max(edge)])
        words = ", ".join(
            f"{s.label}: {'beyond the grid' if e is None else f'{e:.2g}'}"
            for s, e in zip(self.along, edges, strict=True)
        )
        first, last = (math.inf if e is None else e for e in (edges[0], edges[-1]))
        return Measured((last < first) if self.falls else last >= first, f"edge of stability: {words}")


@dataclasses.dataclass(frozen=True)
class DriftIs(OfOne):
    """The optimum moves with this slope, in decades per doubling."""

    expected: float
    tolerance: float = 0.05

    def measure(self, results: Results) -> Measured:
        """Compare the drift."""
        v = results.verdict(self.setting)
        if v.drift is None:
            return Measured(None, "some scale has no optimum")
        text = f"{v.drift:+.3f} decades per doubling, expected {self.expected:+.3f}"
        return Measured(abs(v.drift - self.expected) <= self.tolerance, text)


@dataclasses.dataclass(frozen=True)
class HorizonAgrees(OfOne):
    """From a share of the epochs on, the best rates of all scales agree at every epoch."""

    share: float = 0.1
    decades: float = 0.15

    def measure(self, results: Results) -> Measured:
        """Take the largest difference between scales, and how far the optimum moves with the epoch."""
        by_epoch = results.best_by_epoch(self.setting)
        last = max(by_epoch)
        late = {
            e: np.log10([v for v in best.values() if v])
            for e, best in by_epoch.items()
            if e >= self.share * last
        }
        apart = [float(np.ptp(logs)) for logs in late.values() if len(logs) > 1]
        if not apart:
            return Measured(None, "no optimum at some epoch")
        means = {e: float(np.mean(logs)) for e, logs in late.items() if len(logs)}
        first = min(means)
        moved = means[last] - means[first]
        text = (
            f"from epoch {first} to {last} it moves by {moved:+.2f} decades, "
            f"at no time are scales more than {max(apart):.2f} decades apart"
        )
        return Measured(max(apart) <= self.decades, text)


# --- tests on curves -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Collapse(OfOne):
    """The curves of all scales lie on that of the largest scale.

    Scales below a share of the largest are left out, and those at which a run diverges.
    """

    quantities: tuple[str, ...] = ("loss",)
    share: float = 0.0

    def measure(self, results: Results) -> Measured:
        """Measure how far the curves are apart."""
        apart = {q: distance(results, self.setting, q, self.share) for q in self.quantities}
        if any(math.isnan(d) for d in apart.values()):
            return Measured(None, "a curve ends at once")
        worst = max(apart, key=lambda q: apart[q])
        whose = "" if self.quantities == ("loss",) else f" ({symbol(worst)})"
        many = "at most " if len(apart) > 1 else ""
        text = f"curves are {many}{100 * apart[worst]:.1f} % apart{whose}"
        scales = self.setting.scales(results.size)
        kept = [scale for scale in scales if scale >= self.share * scales[-1]]
        lost = diverging(results, self.setting)
        if self.share:
            text += f" from {self.setting.letter} = {kept[0]} on"
        if lost:
            text += f", without {self.setting.letter} = {', '.join(map(str, lost))}, which diverges"
        return Measured(apart[worst] <= COLLAPSED, text)


@dataclasses.dataclass(frozen=True)
class CollapsesBetter(OfTwo):
    """The curves of one setting lie closer together than those of another, at one learning rate."""

    quantity: str = "loss"
    eta0: float | None = None

    def measure(self, results: Results) -> Measured:
        """Compare the distances; a setting with diverging runs is the worse one."""
        pair = (self.better, self.worse)
        a, b = (distance(results, s, self.quantity, eta0=self.eta0) for s in pair)
        good, bad = (diverging(results, s, self.eta0) for s in pair)
        text = f"{self.better.label}: {100 * a:.1f} % apart; {self.worse.label}: {100 * b:.1f} %"
        for setting, lost in ((self.better, good), (self.worse, bad)):
            if lost:
                where = ", ".join(map(str, lost))
                text += f", and {setting.label} {setting.letter} = {where} diverges"
        return Measured(not good and (a < b or bool(bad)), text)


@dataclasses.dataclass(frozen=True)
class Grows(OfOne):
    """A quantity grows with the scale as a power between two bounds, on average over training."""

    quantity: str
    low: float = -math.inf
    high: float = math.inf

    def measure(self, results: Results) -> Measured:
        """Fit the power."""
        power = exponent(results, self.setting, self.quantity)
        text = f"{symbol(self.quantity)} ∝ {self.setting.letter}^{power:.2f}"
        return Measured(None if math.isnan(power) else self.low <= power <= self.high, text)


@dataclasses.dataclass(frozen=True)
class GrowsLess(Evidence):
    """A quantity grows with a smaller power in one setting than another quantity does in another."""

    less: Setting
    quantity: str
    more: Setting
    other: str

    def measure(self, results: Results) -> Measured:
        """Compare the powers."""
        a = exponent(results, self.less, self.quantity)
        b = exponent(results, self.more, self.other)
        text = f"{self.less.label}: N^{a:.2f}; {self.more.label}: N^{b:.2f}"
        return Measured(None if math.isnan(a + b) else a < b, text)


@dataclasses.dataclass(frozen=True)
class Localises(OfOne):
    """The softmax participation ratio falls below a share of its start, at the largest scale."""

    share: float
    falls: bool

    def measure(self, results: Results) -> Measured:
        """Take the smallest value during training over the first."""
        curves = results.curves(self.setting, "K_eff")
        _, values = curves[max(curves)]
        lowest = float(np.nanmin(values / values[:, :1]))
        text = f"K_eff falls to {lowest:.2g} of its start"
        return Measured((lowest < self.share) == self.falls, text)


@dataclasses.dataclass(frozen=True)
class SlowsDown(OfOne):
    """Larger scales reach the final loss of the smallest scale later, or never."""

    def measure(self, results: Results) -> Measured:
        """Compare the losses at the end, at one learning rate."""
        ends = {s: float(np.nanmean(v[:, -1])) for s, (_, v) in results.curves(self.setting, "loss").items()}
        scales = sorted(ends)
        ratio = ends[scales[-1]] / ends[scales[0]] - 1
        letter = self.setting.letter
        text = f"the loss at {letter} = {scales[-1]} ends {100 * ratio:+.0f} % from that at {scales[0]}"
        return Measured(ratio > COLLAPSED, text)


@dataclasses.dataclass(frozen=True)
class All(Evidence):
    """Several tests, all of which must hold."""

    tests: tuple[Evidence, ...]

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings that have to be trained for them."""
        return tuple(s for test in self.tests for s in test.settings)

    def measure(self, results: Results) -> Measured:
        """Measure each test, and name it by its setting."""
        measured = [test.measure(results) for test in self.tests]
        labels = [test.settings[0].label for test in self.tests]
        text = "; ".join(f"{label}: {m.text}" for label, m in zip(labels, measured, strict=True))
        holds = [m.holds for m in measured]
        return Measured(all(holds) if None not in holds or False in holds else None, text)


# --- tests on recall --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Agree(Evidence):
    """The small memory's answer correlates with the large one's, shrunk, after some steps."""

    examples: Examples
    steps: int
    least: float = 0.9

    def measure(self, results: Results) -> Measured:
        """Compare the correlation with the least that counts as agreement."""
        comparison = results.examples(self.examples)
        at = comparison["steps"].tolist().index(self.steps)
        correlation, chance = float(comparison["correlation"][at]), float(comparison["chance"][at])
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        text = f"correlation {correlation:.2f} after {steps} ({chance:.2f} with another sample's)"
        return Measured(correlation >= self.least, text)


# --- numbers ---------------------------------------------------------------------------------------


def symbol(quantity: str) -> str:
    """Return the symbol of a quantity."""
    return "MSE" if quantity == "loss" else QUANTITIES[quantity].symbol


def distance(
    results: Results, setting: Setting, quantity: str, share: float = 0.0, eta0: float | None = None
) -> float:
    """Return the mean |log-ratio| of each scale's curve (mean over seeds) to that of the largest scale.

    Scales below a share of the largest are left out, and those at which a run diverges.
    """
    curves = _means(results, setting, quantity, eta0)
    if len(curves) < 2:
        return math.nan
    *others, (last, largest) = curves.items()
    ratios = []
    for scale, (x, y) in others:
        _, here, there = np.intersect1d(x, largest[0], return_indices=True)
        if scale >= share * last:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios.append(np.abs(np.log(y[here] / largest[1][there])))
    values = np.concatenate(ratios) if ratios else np.array([])
    values = values[np.isfinite(values)]
    return float(np.mean(values)) if len(values) else math.nan


def exponent(results: Results, setting: Setting, quantity: str) -> float:
    """Return the slope of log quantity against log scale, averaged over the steps that all scales have."""
    curves = _means(results, setting, quantity)
    scales = list(curves)
    if len(scales) < 2:
        return math.nan
    x = curves[scales[0]][0]
    table = np.array([np.interp(x, *curve) for curve in curves.values()])
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(table)
    whole = np.isfinite(logs).all(axis=0)
    if not whole.any():
        return math.nan
    return float(np.mean(slope(np.log(scales), logs[:, whole])))


def diverging(results: Results, setting: Setting, eta0: float | None = None) -> list[int]:
    """Return the scales at which a loss curve ends before training does."""
    curves = results.curves(setting, "loss", eta0)
    return [scale for scale, (_, values) in curves.items() if not np.isfinite(values[:, -1]).all()]


def _means(
    results: Results, setting: Setting, quantity: str, eta0: float | None = None
) -> dict[int, tuple[Array, Array]]:
    lost = diverging(results, setting, eta0)
    return {
        scale: (x, np.exp(np.mean(np.log(values), axis=0)))
        for scale, (x, values) in results.curves(setting, quantity, eta0).items()
        if scale not in lost
    }


def _regret(v: Any) -> str:
    if v.max_regret is None:
        return "no regret"
    if math.isinf(v.max_regret):
        first = next(scale for scale, regret in v.regret.items() if math.isinf(regret))
        at = f"at {v.scale_letter} = {v.scale if v.cause in DIVERGENCES else first}"
        return f"a value beside it diverges {at}" if v.cause is Cause.EDGE_UNRESOLVED else f"diverges {at}"
    text = f"largest regret {100 * v.max_regret:.1f} %"
    if v.status != "INCONCLUSIVE":
        return text
    bounds = [interval[1] for interval in v.regret_ci.values() if interval]
    return f"{text}, at most {100 * max(bounds):.1f} %" if bounds and max(bounds) < math.inf else text
