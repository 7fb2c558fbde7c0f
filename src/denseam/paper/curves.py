"""Tests on curves: losses and measured quantities during training, at one learning rate."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from denseam.analysis.statistics import slope
from denseam.paper.claims import Evidence, Measured, OfOne, OfTwo
from denseam.paper.examples import Examples
from denseam.paper.results import Array, Results
from denseam.paper.settings import Setting
from denseam.paper.thresholds import AGREE, CLOSER, COLLAPSED, LOCALISED, ORDER, STAYS, TOGETHER
from denseam.training.quantities import QUANTITIES

#: What is said of a power where a curve has no finite value.
UNFITTED = "some size cannot be fitted"


@dataclasses.dataclass(frozen=True)
class Collapse(OfOne):
    """The curves of all scales lie on that of the largest scale.

    Scales below a share of the largest are left out, and those at which a run diverges.

    Attributes
    ----------
    relative
        Whether each curve is taken over its start, as for a quantity that grows with the size by definition.
    """

    quantities: tuple[str, ...] = ("loss",)
    share: float = 0.0
    relative: bool = False
    eta0: float | None = None

    def measure(self, results: Results) -> Measured:
        """Measure how far the curves are apart."""
        apart = {
            q: distance(results, self.setting, q, self.share, self.eta0, self.relative)
            for q in self.quantities
        }
        if any(math.isnan(d) for d in apart.values()):
            rate = results.rate(self.setting, self.eta0)
            return Measured(None, f"fewer than two sizes have a curve at η₀ = {rate:.2g}")
        worst = max(apart, key=lambda q: apart[q])
        whose = "" if self.quantities == ("loss",) else f" ({symbol(worst)})"
        many = "at most " if len(apart) > 1 else ""
        text = f"curves are {many}{100 * apart[worst]:.1f} % apart{whose}"
        scales = sorted(results.curves(self.setting, self.quantities[0], self.eta0))
        kept = [scale for scale in scales if scale >= self.share * scales[-1]]
        lost = diverging(results, self.setting, self.eta0)
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
        text = f"{self.better.label}: {_apart(a)}; {self.worse.label}: {_apart(b)}"
        for setting, lost in ((self.better, good), (self.worse, bad)):
            if lost:
                where = ", ".join(map(str, lost))
                text += f", and {setting.label} {setting.letter} = {where} diverges"
        if good or bad:
            return Measured(not good, text)
        if math.isnan(a + b) or max(a, b) < CLOSER * min(a, b):
            return Measured(None, text)
        return Measured(a < b, text)


@dataclasses.dataclass(frozen=True)
class Grows(OfOne):
    """Quantities grow with the scale as a power between two bounds, on average over training."""

    quantity: str
    low: float = -math.inf
    high: float = math.inf

    def measure(self, results: Results) -> Measured:
        """Fit the power."""
        power = exponent(results, self.setting, self.quantity)
        if math.isnan(power):
            return Measured(None, UNFITTED)
        text = f"{symbol(self.quantity)} ∝ {self.setting.letter}^{power:.2f}"
        return Measured(self.low <= power <= self.high, text)


@dataclasses.dataclass(frozen=True)
class Begins(OfOne):
    """At the first step the sizes of all these quantities go with the scale as a power between two bounds."""

    quantities: tuple[str, ...]
    low: float = -STAYS
    high: float = STAYS

    def measure(self, results: Results) -> Measured:
        """Fit the powers."""
        powers = {q: exponent(results, self.setting, q, first=True) for q in self.quantities}
        # The worst is the one that is furthest outside of the bounds.
        worst = max(powers, key=lambda q: max(self.low - powers[q], powers[q] - self.high))
        text = f"{symbol(worst)} ∝ {self.setting.letter}^{powers[worst]:.2f} at the first step"
        if any(math.isnan(power) for power in powers.values()):
            return Measured(None, UNFITTED)
        return Measured(self.low <= powers[worst] <= self.high, text)


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
        letter = self.less.letter
        text = f"{self.less.label}: {letter}^{a:.2f}; {self.more.label}: {letter}^{b:.2f}"
        if self.less == self.more:
            text = f"{symbol(self.quantity)}: {letter}^{a:.2f}; {symbol(self.other)}: {letter}^{b:.2f}"
        return Measured(None if math.isnan(a + b) or abs(a - b) <= STAYS else a < b, text)


@dataclasses.dataclass(frozen=True)
class OneOrder(OfOne):
    """Two quantities are of one order of magnitude throughout, at the largest scale."""

    quantity: str
    other: str

    def measure(self, results: Results) -> Measured:
        """Take the largest ratio, either way."""
        means = [_means(results, self.setting, q) for q in (self.quantity, self.other)]
        if not means[0]:
            return Measured(None, "all scales diverge")
        scale = max(means[0])
        ratio = means[0][scale][1] / means[1][scale][1]
        worst = float(np.exp(np.nanmax(np.abs(np.log(ratio)))))
        text = f"{symbol(self.quantity)} and {symbol(self.other)} differ by a factor of up to {worst:.1f}"
        return Measured(worst <= ORDER, f"{text} at {self.setting.letter} = {scale}")


@dataclasses.dataclass(frozen=True)
class Localises(OfOne):
    """The softmax participation ratio falls below a share of its start, at the largest scale."""

    falls: bool

    def measure(self, results: Results) -> Measured:
        """Take the smallest value during training over the first."""
        curves = results.curves(self.setting, "K_eff")
        _, values = curves[max(curves)]
        lowest = float(np.nanmin(values / values[:, :1]))
        text = f"the lowest K_eff is {lowest:.2g} of its start at {self.setting.letter} = {max(curves)}"
        if lowest >= LOCALISED and np.isnan(values[:, 1:]).all():
            return Measured(None, f"{text}, as training diverges immediately")
        return Measured((lowest < LOCALISED) == self.falls, text)


@dataclasses.dataclass(frozen=True)
class GoTogether(OfOne):
    """During training two quantities rise and fall together (or oppositely), in all runs."""

    quantity: str
    other: str
    opposite: bool = False

    def measure(self, results: Results) -> Measured:
        """Take the rank correlation of their changes, as logarithms, from one measured step to the next."""
        first, second = (_changes(results, self.setting, q) for q in (self.quantity, self.other))
        whole = np.isfinite(first) & np.isfinite(second)
        if whole.sum() < 3:
            return Measured(None, "too few steps were measured")
        correlation = _rank_correlation(first[whole], second[whole])
        names = f"{symbol(self.quantity)} and {symbol(self.other)}"
        text = f"rank correlation of changes of {names} {correlation:+.2f}"
        return Measured((-correlation if self.opposite else correlation) >= TOGETHER, text)


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
        return Measured(None if math.isnan(ratio) else ratio > COLLAPSED, text)


@dataclasses.dataclass(frozen=True)
class Agree(Evidence):
    """The small memory's answer correlates with the large one's, shrunk, after some steps."""

    examples: Examples
    steps: int

    @property
    def measurements(self) -> tuple[Examples, ...]:
        """The comparison of the two memories."""
        return (self.examples,)

    def measure(self, results: Results) -> Measured:
        """Compare the correlation with the least that counts as agreement."""
        comparison = results.measured(self.examples)
        at = comparison["steps"].tolist().index(self.steps)
        correlation, chance = float(comparison["correlation"][at]), float(comparison["chance"][at])
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        text = f"correlation {correlation:.2f} after {steps} ({chance:.2f} with another sample's)"
        return Measured(correlation >= AGREE, text)


# --- numbers ---------------------------------------------------------------------------------------


def symbol(quantity: str) -> str:
    """Return the symbol of a quantity."""
    return "MSE" if quantity == "loss" else QUANTITIES[quantity].symbol


def distance(
    results: Results,
    setting: Setting,
    quantity: str,
    share: float = 0.0,
    eta0: float | None = None,
    relative: bool = False,
) -> float:
    """Return the mean |log-ratio| of each scale's curve (mean over seeds) to that of the largest scale.

    Scales below a share of the largest are left out, and those at which a run diverges. Relative curves are
    those over their first values.
    """
    curves = _means(results, setting, quantity, eta0)
    if relative:
        curves = {scale: (x, y / y[0]) for scale, (x, y) in curves.items()}
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


def exponent(results: Results, setting: Setting, quantity: str, first: bool = False) -> float:
    """Return the slope of log quantity against log scale, at the first step or on average over training."""
    if first:
        begins = {s: values[:, 0] for s, (_, values) in results.curves(setting, quantity).items()}
        scales, logs = list(begins), [np.mean(np.log(values)) for values in begins.values()]
        return float(slope(np.log(scales), np.array(logs)[:, None])[0]) if len(scales) > 1 else math.nan
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


def _apart(d: float) -> str:
    """Return a distance in words."""
    return "fewer than two sizes have a curve" if math.isnan(d) else f"{100 * d:.1f} % apart"


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


def _changes(results: Results, setting: Setting, quantity: str) -> Array:
    """Return the changes of log quantity between measured steps, of all scales and seeds."""
    curves = results.curves(setting, quantity).values()
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.concatenate([np.diff(np.log(values), axis=1).ravel() for _, values in curves])


def _rank_correlation(a: Array, b: Array) -> float:
    """Return Spearman's rank correlation."""
    first, second = (np.argsort(np.argsort(values)).astype(float) for values in (a, b))
    return float(np.corrcoef(first, second)[0, 1])
