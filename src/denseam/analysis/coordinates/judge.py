"""From slopes to a status, the quantity that breaks, and the likely cause."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from denseam.analysis import sentences
from denseam.analysis.causes import CheckCause
from denseam.analysis.coordinates.expected import TOLERANCE
from denseam.analysis.coordinates.slopes import Measurements, Slope
from denseam.ground.display import Drawn
from denseam.rules.table import is_prescribed

CheckStatus = Literal["PASS", "FAIL", "INCONCLUSIVE"]
DESIDERATA = ("stability", "maximality", "balance", "participation")

#: An eigenvalue whose exponent is above this is a spike.
SPIKE = 0.5
#: Quantities that a spike makes grow, and the changes of Z.
_MOVED_BY_SPIKES, _OF_Z = ("dF_outer", "dF11", "dF12", "dZ1", "dF_exact"), ("dZ_W", "dZ1", "dZ_exact")


@dataclasses.dataclass(frozen=True)
class Conditions:
    """The properties of what was checked that the cause of a failure depends on.

    `fewest` is the number of sizes, and of seeds, below which there is no verdict.
    """

    name: str
    family: str = "elementwise"
    optimizer: str = ""
    centred: bool | None = None
    letter: str = "N"
    fewest: int = 2


@dataclasses.dataclass(frozen=True)
class Check(Drawn):
    """The result of a coordinate check.

    Attributes
    ----------
    cause, culprit
        The likely cause of a failure, and the slope that shows it; None if there is none.
    desiderata
        The status of each desideratum that was judged.
    slopes
        Every exponent.
    """

    name: str
    status: CheckStatus
    cause: CheckCause | None
    culprit: Slope | None
    desiderata: dict[str, CheckStatus]
    slopes: list[Slope]
    measured: Measurements = dataclasses.field(repr=False)
    letter: str = "N"

    @property
    def reason(self) -> str:
        """The likely cause and the remedy in a sentence, '' if there is none."""
        return sentences.check_reason(self)

    def failing(self) -> list[Slope]:
        """Return the judged slopes that are wrong: the earliest step first, and within a step the worst."""
        return _failing(self.slopes)

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "name": self.name,
            "status": self.status,
            "cause": self.cause and self.cause.value,
            "reason": self.reason or None,
            "desiderata": self.desiderata,
            "size": self.letter,
            "scales": list(self.measured.scales),
            "seeds": self.measured.seeds,
            "quantities": [s.to_json() for s in self.slopes],
        }

    def __str__(self) -> str:
        parts = ", ".join(f"{k} {v}" for k, v in self.desiderata.items())
        return f"{self.name}: {self.status} ({parts}). {self.reason}".strip()


def judge(measured: Measurements, slopes: list[Slope], setting: Conditions) -> Check:
    """Judge the slopes, except at steps where the smallest scale has diverged too."""
    gone = _gone_everywhere(measured)
    slopes = [dataclasses.replace(s, judged="", ok=None) if s.step in gone else s for s in slopes]
    judged = {d: [s for s in slopes if s.judged == d] for d in DESIDERATA}
    desiderata = {d: _status(own) for d, own in judged.items() if own}
    status: CheckStatus = "PASS"
    cause: CheckCause | None = None
    culprit: Slope | None = None
    if min(len(measured.scales), measured.seeds) < setting.fewest:
        status, cause = "INCONCLUSIVE", CheckCause.TOO_FEW
    elif "FAIL" in desiderata.values():
        status = "FAIL"
        cause, culprit = _cause(slopes, setting)
    elif gone:
        status, cause = "INCONCLUSIVE", CheckCause.RUNS_GONE
        culprit = next(s for s in slopes if s.step == min(gone))
    elif "INCONCLUSIVE" in desiderata.values():
        status, cause = "INCONCLUSIVE", CheckCause.NOISE
        culprit = next(s for s in slopes if s.undecided)
    return Check(setting.name, status, cause, culprit, desiderata, slopes, measured, setting.letter)


def _status(judged: Sequence[Slope]) -> CheckStatus:
    if any(s.ok is False for s in judged):
        return "FAIL"
    return "INCONCLUSIVE" if any(s.undecided for s in judged) else "PASS"


def _gone_everywhere(measured: Measurements) -> set[int]:
    """Return the steps at which all runs of the smallest scale have diverged."""
    sizes = measured.outputs
    return {t for i, t in enumerate(measured.steps) if not any(math.isfinite(v) for v in sizes[i, 0])}


def _failing(slopes: Sequence[Slope]) -> list[Slope]:
    wrong = [s for s in slopes if s.ok is False]
    return sorted(wrong, key=lambda s: (s.step, -min(abs(s.excess), 99.0)))


def _cause(slopes: Sequence[Slope], setting: Conditions) -> tuple[CheckCause, Slope]:
    """Return the likely cause and the slope that shows it; errors at the start come before their effects."""
    first = min(s.step for s in slopes)
    start = {s.name: s for s in slopes if s.step == first}
    failing = _failing(slopes)
    names = {s.name for s in failing}
    for state, cause in (("Z", CheckCause.S1), ("F", CheckCause.S2)):
        if state in start and start[state].ok is False:
            return cause, start[state]
    if spike := _spike(start, names, setting.centred):
        return (CheckCause.BIAS_OFFSET if setting.centred else CheckCause.SPIKE), spike
    if setting.optimizer and not is_prescribed(setting.family, setting.optimizer):
        sparse = setting.family == "sparse"
        return (CheckCause.SPARSE if sparse else CheckCause.SOFTMAX_SGD), failing[0]
    if hidden := _moved_hidden(start, names):
        return CheckCause.LEARNING_RATE, hidden
    return CheckCause.UNKNOWN, failing[0]


def _spike(start: Mapping[str, Slope], failing: set[str], centred: bool | None) -> Slope | None:
    """Return the eigenvalue that grows, if quantities fail that such a spike moves."""
    eigenvalue = start.get("lambda_max" if centred else "lambda_max_raw")
    if eigenvalue is None or not failing & {*_MOVED_BY_SPIKES, eigenvalue.name}:
        return None
    return eigenvalue if eigenvalue.slope is None or eigenvalue.slope > SPIKE else None


def _moved_hidden(start: Mapping[str, Slope], failing: set[str]) -> Slope | None:
    """Return the change of Z whose exponent is wrong at the start, if changes of Z fail."""
    hidden = next((start[q] for q in _OF_Z if q in start and start[q].slope is not None), None)
    wrong = hidden is not None and abs(hidden.excess) > TOLERANCE
    return hidden if wrong and failing.intersection(_OF_Z) else None
