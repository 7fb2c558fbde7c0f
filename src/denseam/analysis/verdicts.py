"""The verdict: what was measured of a study, and what follows from it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from denseam.analysis import sentences
from denseam.analysis.causes import Cause, Flag, Next, Status
from denseam.analysis.statistics import Interval


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """The numbers of one study along one axis.

    Attributes
    ----------
    optimum, best_loss, edge
        Per scale; an edge of None means that nothing diverged (or that all did, if the loss is None).
    optima
        Per scale, the optimum of each seed.
    drift, edge_drift
        Decades per doubling of the scale, with 95 % intervals.
    regret
        Per scale, of the smallest scale's optimum; with 95 % intervals.
    base
        The smallest scale from which the optimum transfers to all larger ones, if there is one.
    collapse
        How far the loss curves of the scales differ, in units of how far seeds differ (1 = as seeds).
    """

    optimum: dict[int, float | None]
    best_loss: dict[int, float | None]
    edge: dict[int, float | None]
    optima: dict[int, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    drift: float | None = None
    drift_ci: Interval | None = None
    edge_drift: float | None = None
    edge_drift_ci: Interval | None = None
    regret: dict[int, float] = dataclasses.field(default_factory=dict)
    regret_ci: dict[int, Interval | None] = dataclasses.field(default_factory=dict)
    base: int | None = None
    collapse: float | None = None

    @property
    def max_regret(self) -> float | None:
        """The largest regret."""
        return max(self.regret.values(), default=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict(Measured):
    """What the records of one study say about one axis; its numbers are those of `Measured`.

    Attributes
    ----------
    cause
        Why; the status follows from it.
    evidence
        The numbers behind the cause that stand nowhere else, by name.
    next
        What to do next, if there is anything.
    notes
        What to keep in mind.
    seeds
        The most that a scale has, of those with every value of the axis.
    """

    name: str
    axis: str
    cause: Cause
    scale_letter: str
    seeds: int
    evidence: Mapping[str, float] = dataclasses.field(default_factory=dict)
    next: Next | None = None
    notes: tuple[Flag, ...] = ()

    @property
    def status(self) -> Status:
        """TRANSFERS, DRIFTS, FAILS or INCONCLUSIVE."""
        return self.cause.status

    @property
    def reason(self) -> str:
        """The cause in a sentence."""
        return sentences.reason(self)

    @property
    def next_step(self) -> str:
        """What to do next in a sentence, '' if there is nothing."""
        return sentences.next_step(self.next)

    @property
    def flags(self) -> tuple[str, ...]:
        """What to keep in mind, a sentence each."""
        return tuple(sentences.flag(self, note) for note in self.notes)

    def to_json(self) -> dict[str, Any]:
        """Return a plain document, with null where a number is infinite or missing."""
        return {
            "name": self.name,
            "axis": self.axis,
            "status": self.status,
            "cause": self.cause.value,
            f"optimum_{self.axis}": _plain(self.optimum),
            "drift_decades_per_doubling": _plain(self.drift),
            "drift_ci": _plain(self.drift_ci),
            "edge": _plain(self.edge),
            "edge_drift": _plain(self.edge_drift),
            "edge_drift_ci": _plain(self.edge_drift_ci),
            "regret": _plain(self.regret),
            "regret_ci": _plain(self.regret_ci),
            "max_regret": _plain(self.max_regret),
            "diverged": any(math.isinf(r) for r in self.regret.values()),
            "best_loss": _plain(self.best_loss),
            "base": self.base,
            "collapse": _plain(self.collapse),
            "seeds": self.seeds,
            "reason": self.reason,
            "next": self.next_step or None,
            "flags": list(self.flags),
        }

    def __str__(self) -> str:
        parts = [f"{self.name}: {self.status}. {self.reason}", *self.flags]
        return " ".join([*parts, self.next_step]).strip()


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value
