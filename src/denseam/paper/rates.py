"""Tests on learning rates: whether the best one carries over, and where training becomes unstable."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from denseam.analysis.causes import Cause, Caution
from denseam.analysis.thresholds import LEARNED
from denseam.analysis.transfer import Verdict
from denseam.paper.claims import Evidence, Measured, OfOne, OfTwo
from denseam.paper.results import Results
from denseam.paper.settings import Setting
from denseam.paper.thresholds import EARLY, FALLING, SAME_OPTIMUM, SEEDS, SEEDS_AGREE, SLOPE

#: Causes that name the scale at which runs diverge.
DIVERGENCES = (Cause.DIVERGES, Cause.DIVERGES_BELOW, Cause.EDGE_UNRESOLVED)


@dataclasses.dataclass(frozen=True)
class Transfers(OfOne):
    """The best learning rate of the smallest scale is good at all scales, after a share of the epochs.

    Good means TRANSFERS, and an edge of stability that does not fall. It is undecided where nothing is
    learned, and where a single seed that diverges decides.
    """

    share: float = 1.0

    def measure(self, results: Results) -> Measured:
        """Judge by the verdict and its flags."""
        if self.share == 1:
            return transfer(results, self.setting)
        epoch = max(1, round(self.share * results.size.epochs))
        measured = transfer(results, self.setting, epoch=epoch)
        return dataclasses.replace(measured, text=f"{measured.text} after {epoch} epochs")


@dataclasses.dataclass(frozen=True)
class DoesNotTransfer(OfOne):
    """The opposite of `Transfers`."""

    def measure(self, results: Results) -> Measured:
        """Judge by the verdict and its flags."""
        measured = transfer(results, self.setting)
        return dataclasses.replace(measured, holds=None if measured.holds is None else not measured.holds)


@dataclasses.dataclass(frozen=True)
class TransfersFrom(OfOne):
    """The best learning rate of some scale below the two largest is good at all larger ones."""

    def measure(self, results: Results) -> Measured:
        """Judge from each scale on, the smallest first."""
        letter, perhaps = self.setting.letter, ""
        for base in sorted(results.verdict(self.setting).optimum)[1:-2]:
            measured = transfer(results, self.setting, base=base)
            if measured.holds:
                return Measured(True, f"from {letter} = {base} on {measured.text}")
            if measured.holds is None and not perhaps:
                perhaps = f"perhaps from {letter} = {base} on ({measured.text})"
        return Measured(None, perhaps) if perhaps else Measured(False, "no such base")


@dataclasses.dataclass(frozen=True)
class LowerRegret(OfTwo):
    """The transferred learning rate costs less in the first setting than in the second, by intervals."""

    def measure(self, results: Results) -> Measured:
        """Compare the largest regrets."""
        a, b = results.verdict(self.better), results.verdict(self.worse)
        text = f"{self.better.label}: {regret(a)}; {self.worse.label}: {regret(b)}"
        pairs = ((self.better, a), (self.worse, b))
        (low_a, high_a), (low_b, high_b) = (_regret_interval(results, setting, v) for setting, v in pairs)
        holds = True if high_a < low_b else False if high_b < low_a else None
        return Measured(holds, text)


@dataclasses.dataclass(frozen=True)
class LowestRegret(Evidence):
    """The transferred learning rate costs less in the first setting than in any other, by their intervals."""

    best: Setting
    others: tuple[Setting, ...]

    def measure(self, results: Results) -> Measured:
        """Compare it with each of the others."""
        pairs = [LowerRegret(self.best, other).measure(results) for other in self.others]
        text = "; ".join(f"{s.label}: {regret(results.verdict(s))}" for s in (self.best, *self.others))
        if any(pair.holds is False for pair in pairs):
            return Measured(False, text)
        return Measured(True if all(pair.holds for pair in pairs) else None, text)


@dataclasses.dataclass(frozen=True)
class LowerLoss(OfTwo):
    """At the largest scale the best loss is lower in the first setting than in the second, by some share."""

    share: float = 0.0

    def measure(self, results: Results) -> Measured:
        """Compare the best losses; one that diverges at every rate is infinite."""
        settings = (self.better, self.worse)
        losses = [results.verdict(s).best_loss for s in settings]
        scale = max(set(losses[0]) & set(losses[1]))
        a, b = (
            math.inf if _all_diverged(results, s, scale) else loss[scale]
            for s, loss in zip(settings, losses, strict=True)
        )
        if a is None or b is None or a == b == math.inf:
            return Measured(None, f"no best loss at {self.better.letter} = {scale}")
        words = (f"{s.label}: {_loss(x)}" for s, x in zip(settings, (a, b), strict=True))
        text = f"{'; '.join(words)} at {self.better.letter} = {scale}"
        limit = (1 - self.share) * b
        return Measured(None if abs(a / limit - 1) <= SEEDS_AGREE else a < limit, text)


@dataclasses.dataclass(frozen=True)
class LossFalls(OfOne):
    """From the smallest to the largest scale the best loss falls by at least a share."""

    share: float

    def measure(self, results: Results) -> Measured:
        """Compare the best losses."""
        losses = results.verdict(self.setting).best_loss
        ends = min(losses), max(losses)
        first, last = (losses[scale] for scale in ends)
        if first is None or last is None:
            return Measured(None, f"no best loss at {self.setting.letter} = {ends[first is not None]}")
        change = f"{last / first - 1:+.0%}"
        text = f"{first:.3g} at {self.setting.letter} = {ends[0]}, {last:.3g} at {ends[1]} ({change})"
        return Measured(last <= (1 - self.share) * first, text)


@dataclasses.dataclass(frozen=True)
class AsGood(OfTwo):
    """At the largest scale the best losses of two settings are nearly the same."""

    def measure(self, results: Results) -> Measured:
        """Compare the best losses."""
        measured = LowerLoss(self.better, self.worse).measure(results)
        return dataclasses.replace(measured, holds=measured.holds is None)


@dataclasses.dataclass(frozen=True)
class MoreStable(OfTwo):
    """At the largest scale the edge of stability is higher in the first setting than in the second."""

    def measure(self, results: Results) -> Measured:
        """Compare the edges, and say how they move."""
        verdicts = [results.verdict(s) for s in (self.better, self.worse)]
        a, b = (_edge_at_largest(v) for v in verdicts)
        parts = []
        for setting, v in zip((self.better, self.worse), verdicts, strict=True):
            falls = falling(v)
            words = f", falls by {falls:.2f} decades per doubling" if falls else ""
            parts.append(f"{setting.label}: {_edge_in_words(v)}{words}")
        return Measured(None if a == b else a > b, f"edge of stability: {'; '.join(parts)}")


@dataclasses.dataclass(frozen=True)
class EdgeFallsAlong(Evidence):
    """The stability edge at the largest common scale is lower in the last setting than in the first."""

    along: tuple[Setting, ...]
    falls: bool = True

    def measure(self, results: Results) -> Measured:
        """Compare the edges."""
        verdicts = [results.verdict(setting) for setting in self.along]
        words = ", ".join(
            f"{s.label}: {_edge_in_words(v)}" for s, v in zip(self.along, verdicts, strict=True)
        )
        first, last = _edge_at_largest(verdicts[0]), _edge_at_largest(verdicts[-1])
        text = f"edge of stability: {words}"
        if first == 0.0:  # below the grid: where, and whether the last is lower, is not known
            return Measured(None, text)
        return Measured((last < first) if self.falls else last >= first, text)


@dataclasses.dataclass(frozen=True)
class DriftIs(OfOne):
    """The optimum moves with this slope, in decades per doubling."""

    expected: float

    def measure(self, results: Results) -> Measured:
        """Compare the drift."""
        v = results.verdict(self.setting)
        if v.drift is None:
            return Measured(None, "some scale has no optimum")
        text = f"{v.drift:+.3f} decades per doubling, expected {self.expected:+.3f}"
        return Measured(abs(v.drift - self.expected) <= SLOPE, text)


@dataclasses.dataclass(frozen=True)
class HorizonAgrees(OfOne):
    """From a share of the epochs on, the best rates of all scales agree at every epoch."""

    def measure(self, results: Results) -> Measured:
        """Take the largest difference between scales, and how far the optimum moves with the epoch."""
        by_epoch = results.best_by_epoch(self.setting)
        last = max(by_epoch)
        late = {
            e: np.log10([v for v in best.values() if v]) for e, best in by_epoch.items() if e >= EARLY * last
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
        return Measured(max(apart) <= SAME_OPTIMUM, text)


@dataclasses.dataclass(frozen=True)
class SeedsAgree(Evidence):
    """The best losses of the seeds of a scale are nearly the same, in all of these settings."""

    all_of: tuple[Setting, ...]

    def measure(self, results: Results) -> Measured:
        """Take the largest standard deviation over seeds, at the best learning rate of the smallest scale.

        Where all seeds diverge there is nothing to compare; where some do, they do not agree.
        """
        worst, where = 0.0, ""
        for setting in self.all_of:
            rate = results.rate(setting)
            ends: dict[int, list[float]] = {}
            for row in results.rows(setting):
                if row["eta0"] == rate:
                    ends.setdefault(row["scale"], []).append(row["final_mse"])
            for scale, losses in ends.items():
                place = f"{setting.label}, {setting.letter} = {scale}"
                diverged = len(losses) - int(np.isfinite(losses).sum())
                if diverged:
                    agree = None if diverged == len(losses) else False
                    return Measured(agree, f"{diverged} of {len(losses)} seeds diverge ({place})")
                spread = float(np.std(losses, ddof=1) / np.mean(losses)) if len(losses) > 1 else 0.0
                if spread >= worst:
                    worst, where = spread, place
        return Measured(worst <= SEEDS_AGREE, f"seeds differ by at most {100 * worst:.1f} % ({where})")


def _all_diverged(results: Results, setting: Setting, scale: int) -> bool:
    """Return whether all runs of a setting diverged at a scale."""
    return all(row["status"] == "diverged" for row in results.rows(setting) if row["scale"] == scale)


def _loss(loss: float) -> str:
    return f"{loss:.3g}" if math.isfinite(loss) else "diverges"


# --- words for verdicts ----------------------------------------------------------------------------


def transfer(
    results: Results, setting: Setting, epoch: int | None = None, base: int | None = None
) -> Measured:
    """Return whether the learning rate transfers, with the numbers and flags of the verdict."""
    v = results.verdict(setting, epoch, base)
    text, falls = f"{v.status}, {regret(v)}{_few_seeds(v)}", falling(v)
    if falls:
        text += f", the edge falls by {falls:.2f} decades per doubling"
    unlearned = _unlearned(results, setting, v)
    if unlearned:
        return Measured(None, f"{text}, but almost nothing is learned at {v.scale_letter} = {unlearned}")
    if v.status in ("FAILS", "DRIFTS"):
        if v.cause in DIVERGENCES and len(diverged_seeds(results, setting, v)) < SEEDS:
            return Measured(None, f"{text}, in one seed alone")
        return Measured(False, text)
    return Measured(True if v.status == "TRANSFERS" and not falls else None, text)


def falling(v: Verdict) -> float:
    """Return by how many decades per doubling the edge of stability surely falls; 0 if it does not."""
    flagged = any(note.kind is Caution.EDGE_FALLS for note in v.notes)
    falls = -(v.edge_drift or 0.0)
    return falls if flagged and falls > FALLING else 0.0


def diverged_seeds(results: Results, setting: Setting, v: Verdict) -> set[tuple[int, int]]:
    """Return scale and seed of the runs that diverged at the transferred learning rate or below."""
    rate = v.optimum[min(v.optimum)] or math.inf
    return {
        (row["scale"], row["seed"])
        for row in results.rows(setting)
        if row["status"] == "diverged" and row[v.axis] <= rate * (1 + 1e-9) and row["scale"] in v.optimum
    }


def regret(v: Verdict) -> str:
    """Return the largest regret in words."""
    if v.max_regret is None:
        return "no regret"
    if math.isinf(v.max_regret):
        first = next(scale for scale, cost in v.regret.items() if math.isinf(cost))
        at = f"at {v.scale_letter} = {v.scale if v.cause in DIVERGENCES else first}"
        return f"a value beside it diverges {at}" if v.cause is Cause.EDGE_UNRESOLVED else f"diverges {at}"
    text = f"largest regret {100 * v.max_regret:.1f} %" if v.max_regret < 10 else "a regret above 1000 %"
    if v.status != "INCONCLUSIVE":
        return text
    bounds = [interval[1] for interval in v.regret_ci.values() if interval]
    return f"{text}, at most {100 * max(bounds):.1f} %" if bounds and max(bounds) < math.inf else text


def _regret_interval(results: Results, setting: Setting, v: Verdict) -> tuple[float, float]:
    """Return the interval of the largest regret; nothing is known where none could be measured."""
    if v.max_regret is None or v.cause is Cause.EDGE_UNRESOLVED:
        return 0.0, math.inf
    if math.isinf(v.max_regret):
        return (math.inf if len(diverged_seeds(results, setting, v)) >= SEEDS else 0.0), math.inf
    worst = max(v.regret, key=lambda scale: v.regret[scale])
    return v.regret_ci[worst] or (0.0, math.inf)


def _few_seeds(v: Verdict) -> str:
    """Return the flag on scales with fewer seeds, in words."""
    few = [note.numbers for note in v.notes if note.kind is Caution.FEWER_SEEDS]
    if not few:
        return ""
    parts = [f"{n:.0f} seed{'s' if n > 1 else ''} at {v.scale_letter} = {s}" for s, n in few[0].items()]
    return f" ({', '.join(parts)})"


def _unlearned(results: Results, setting: Setting, v: Verdict) -> int | None:
    """Return the first scale at which the best loss is close to that of predicting zero."""
    zeros: dict[int, list[float]] = {}
    for row in results.rows(setting):
        zeros.setdefault(row["scale"], []).append(row["zero_mse"])
    for scale, loss in v.best_loss.items():
        if loss is not None and loss > LEARNED * float(np.mean(zeros[scale])):
            return scale
    return None


def _edge_at_largest(v: Verdict) -> float:
    """Return the edge at the largest scale; 0 if every run diverges, ∞ if none does."""
    edge, loss = v.edge[max(v.edge)], v.best_loss[max(v.edge)]
    if edge is not None:
        return edge
    return 0.0 if loss is None else math.inf


def _edge_in_words(v: Verdict) -> str:
    edge = _edge_at_largest(v)
    if edge == 0.0:
        return "below the grid"
    return "beyond the grid" if math.isinf(edge) else f"{edge:.2g}"
