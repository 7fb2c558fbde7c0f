"""The verdict: the numbers of a study along one axis, and their cause."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from denseam.analysis import sentences
from denseam.analysis.causes import Cause, Flag, Next, Status
from denseam.analysis.statistics import Interval
from denseam.analysis.thresholds import REGRET_GOOD
from denseam.ground.display import Drawn
from denseam.studies.records import LOSS


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
        Decades per doubling of the scale, with 95 % intervals; that of the edge is positive towards bolder
        values.
    regret
        Per scale, of the smallest scale's optimum, with 95 % intervals; infinite where a value beside it
        diverged.
    regret_at_target
        Predicted for the target, if one was given, with its 95 % interval.
    base
        The smallest scale whose optimum transfers to all larger ones, if there is one.
    possible_base
        The smallest scale whose optimum may do so: its cost is surely too high at no larger one.
    collapse
        How far the loss curves of the scales differ, in units of the difference between seeds.
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
    regret_at_target: float | None = None
    regret_at_target_ci: Interval | None = None
    base: int | None = None
    possible_base: int | None = None
    collapse: float | None = None

    @property
    def max_regret(self) -> float | None:
        """The largest regret."""
        return max(self.regret.values(), default=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict(Measured, Drawn):
    """The verdict on one axis of one study; its numbers are those of `Measured`.

    Attributes
    ----------
    cause
        The cause; the status follows from it.
    evidence
        Numbers behind the cause that no other field has, by name; 'scale' is the one that decides.
    next
        What to do next, if anything.
    notes
        What to keep in mind.
    seeds
        The largest number of seeds of a scale, counting those with a run for every value of the axis.
    tolerance
        The regret up to which a value is good.
    scale_letter, loss_name
        The names of the size and of the loss: N, K, B, P or E and 'MSE per feature', or the columns of a
        table.
    """

    name: str
    axis: str
    cause: Cause
    scale_letter: str
    seeds: int
    tolerance: float = REGRET_GOOD
    evidence: Mapping[str, float] = dataclasses.field(default_factory=dict)
    next: Next | None = None
    notes: tuple[Flag, ...] = ()
    loss_name: str = LOSS

    @property
    def status(self) -> Status:
        """TRANSFERS, DRIFTS, FAILS or INCONCLUSIVE."""
        return self.cause.status

    @property
    def scale(self) -> int | None:
        """The scale that decides, if one does."""
        scale = self.evidence.get("scale")
        return None if scale is None else int(scale)

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
        names = (
            "drift_ci", "edge", "edge_drift", "edge_drift_ci", "regret", "regret_ci", "max_regret",
            "regret_at_target", "regret_at_target_ci", "tolerance", "possible_base",
        )  # fmt: skip
        return {
            "name": self.name,
            "axis": self.axis,
            "size": self.scale_letter,
            "status": self.status,
            "cause": self.cause.value,
            "scale": self.scale,
            f"optimum_{self.axis}": _plain(self.optimum),
            "drift_decades_per_doubling": _plain(self.drift),
            **{name: _plain(getattr(self, name)) for name in names},
            "diverged": any(math.isinf(r) for r in self.regret.values()),
            **{name: _plain(getattr(self, name)) for name in ("best_loss", "base", "collapse", "seeds")},
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
