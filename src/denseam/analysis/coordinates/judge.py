"""From slopes to a word, the quantity that breaks, and the likely cause."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

from denseam.analysis.coordinates.expected import TOLERANCE
from denseam.analysis.coordinates.measurements import Measurements
from denseam.analysis.coordinates.slopes import Slope

Status = Literal["PASS", "FAIL", "INCONCLUSIVE"]
DESIDERATA = ("stability", "maximality", "balance", "participation")

#: An eigenvalue that grows at least so fast is a spike.
SPIKE = 0.5


@dataclasses.dataclass(frozen=True)
class Setting:
    """What was checked, as far as the cause of a failure depends on it."""

    name: str
    family: str = "elementwise"
    optimizer: str = ""
    centred: bool | None = None
    letter: str = "N"


@dataclasses.dataclass(frozen=True)
class Check:
    """What a coordinate check found.

    Attributes
    ----------
    status
        PASS, FAIL or INCONCLUSIVE.
    cause
        The likely cause of a failure and what to do about it; '' if there is none.
    desiderata
        The status of each desideratum that was judged.
    slopes
        Every exponent.
    """

    name: str
    status: Status
    cause: str
    desiderata: dict[str, Status]
    slopes: list[Slope]
    measured: Measurements = dataclasses.field(repr=False)
    letter: str = "N"

    def failing(self) -> list[Slope]:
        """Return the judged slopes that are wrong, the earliest step and the worst of it first."""
        return sorted(
            (s for s in self.slopes if s.ok is False), key=lambda s: (s.step, -min(abs(s.excess), 99.0))
        )

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "name": self.name,
            "status": self.status,
            "cause": self.cause or None,
            "desiderata": self.desiderata,
            "size": self.letter,
            "scales": list(self.measured.scales),
            "seeds": self.measured.seeds,
            "quantities": [s.to_json() for s in self.slopes],
        }

    def __str__(self) -> str:
        parts = ", ".join(f"{k} {v}" for k, v in self.desiderata.items())
        return f"{self.name}: {self.status} ({parts}). {self.cause}".strip()


def judge(measured: Measurements, found: list[Slope], setting: Setting) -> Check:
    """Judge the slopes."""
    gone = _gone_everywhere(measured)
    found = [dataclasses.replace(s, judged="", ok=None) if s.step in gone else s for s in found]
    judged = {d: [s for s in found if s.judged == d] for d in DESIDERATA}
    desiderata: dict[str, Status] = {d: _status(slopes) for d, slopes in judged.items() if slopes}
    status: Status = "PASS"
    cause = ""
    if "FAIL" in desiderata.values():
        status, cause = "FAIL", _cause(found, setting)
    elif gone:
        status = "INCONCLUSIVE"
        cause = f"learning rate: at step {min(gone)} runs are gone at the smallest scale too; lower eta0"
    elif "INCONCLUSIVE" in desiderata.values():
        loose = next(s for s in found if s.undecided)
        status = "INCONCLUSIVE"
        cause = f"noise: the interval of {loose.name} at step {loose.step} is too wide; run more seeds"
    return Check(setting.name, status, cause, desiderata, found, measured, setting.letter)


def _status(judged: Sequence[Slope]) -> Status:
    if any(s.ok is False for s in judged):
        return "FAIL"
    return "INCONCLUSIVE" if any(s.undecided for s in judged) else "PASS"


def _gone_everywhere(measured: Measurements) -> set[int]:
    """Return the steps at which the smallest scale has diverged too: no comparison says anything there."""
    sizes = measured.outputs
    return {t for i, t in enumerate(measured.steps) if not any(math.isfinite(v) for v in sizes[i, 0])}


def _cause(found: Sequence[Slope], setting: Setting) -> str:
    """Name the likely cause: what is wrong at the start comes before what follows from it."""
    first = min(s.step for s in found)
    start = {s.name: s for s in found if s.step == first}
    failing = {s.name for s in found if s.ok is False}
    n = setting.letter

    def off(name: str) -> bool:
        return name in start and start[name].ok is False

    def power(name: str) -> str:
        slope = start[name].slope
        return "beyond all bounds" if slope is None else f"as {n}^{slope:.2f}"

    if off("Z"):
        return f"s1: Z goes {power('Z')} at the start; multiply s1 by {_inverse(start['Z'], n)}"
    if off("F"):
        return f"s2: F goes {power('F')} at the start; multiply s2 by {_inverse(start['F'], n)}"
    own = "lambda_max" if setting.centred else "lambda_max_raw"
    grows = own in start and (start[own].slope is None or (start[own].slope or 0.0) > SPIKE)
    if grows and failing & {"dF_outer", "dF11", "dF12", "dZ1", "dF_exact", own}:
        if setting.centred:
            return (
                f"bias offset: the biases shift all samples alike, which centring cannot remove, and λ_max "
                f"grows {power(own)}; start with zero biases"
            )
        return (
            f"spike: the mean activation adds an eigenvalue to SᵀS/K that grows {power(own)}; centre the "
            "activations"
        )
    if setting.family == "softmax" and setting.optimizer == "sgd":
        return (
            "softmax with SGD: rows with a large activation get large updates, which make it larger; use Adam"
        )
    hidden = [start[q] for q in ("dZ_W", "dZ1", "dZ_exact") if q in start and start[q].slope is not None]
    if hidden and failing & {"dZ_W", "dZ1", "dZ_exact"} and abs(hidden[0].excess) > TOLERANCE:
        return (
            f"learning rate: Z and F keep their size, but what a step changes in Z goes "
            f"{power(hidden[0].name)}; multiply eta_W by {_inverse(hidden[0], n)}"
        )
    worst = min((s for s in found if s.ok is False), key=lambda s: (s.step, -min(abs(s.excess), 99.0)))
    slope = "is not finite at some scale" if worst.slope is None else f"goes as {n}^{worst.slope:.2f}"
    wanted = "keep its size" if worst.expected == 0 else f"go as {n}^{worst.expected:g}"
    return f"{worst.name}: at step {worst.step} it {slope} and should {wanted}; no known cause fits"


def _inverse(slope: Slope, letter: str) -> str:
    return f"{letter}^{-(slope.slope or 0.0):+.2f}"
