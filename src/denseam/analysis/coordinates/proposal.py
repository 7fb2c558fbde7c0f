"""The result of a search for exponents: laws of each factor, the rule, and whether it works."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from denseam.analysis import sentences
from denseam.analysis.causes import FindCause, FindStatus
from denseam.analysis.coordinates.activity import Activity
from denseam.analysis.coordinates.judge import Check
from denseam.analysis.coordinates.laws import Law
from denseam.analysis.coordinates.slopes import Slope
from denseam.analysis.verdicts import Verdict
from denseam.rules import Parameterization, Power
from denseam.studies.study import Study


def split(along: Law, apart: Mapping[str, Law]) -> dict[str, Fraction] | None:
    """Return the fraction of each size; None unless all have one and they sum to that of the path."""
    fractions = {letter: law.fraction for letter, law in apart.items()}
    known = {letter: fraction for letter, fraction in fractions.items() if fraction is not None}
    if not apart or len(known) < len(fractions) or along.fraction is None:
        return None
    return known if sum(known.values()) == along.fraction else None


@dataclasses.dataclass(frozen=True)
class Exponents:
    """The exponents of one factor of the rule.

    Attributes
    ----------
    quantity
        The quantity that it keeps.
    before
        The exponent along the path with which the search began.
    along
        The law along the path of the regime.
    apart
        Size → its law where it grows alone.
    power
        The power that is taken.
    """

    quantity: str
    before: float
    along: Law
    apart: Mapping[str, Law]
    power: Power

    @property
    def told_apart(self) -> bool:
        """Whether the fractions of all sizes together are that of the path."""
        return split(self.along, self.apart) is not None

    @property
    def total(self) -> float | None:
        """The sum of the exponents of all sizes; None if they were not measured."""
        return sum(law.exponent for law in self.apart.values()) if self.apart else None

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "quantity": self.quantity,
            "before": self.before,
            **self.along.to_json(),
            "apart": {letter: law.to_json() for letter, law in self.apart.items()},
            "sum": self.total,
            "power": str(self.power),
        }


@dataclasses.dataclass(frozen=True)
class Proposal:
    """Exponents that keep the sizes of Z, F and ΔZ, and how well they work.

    Attributes
    ----------
    study
        The sweep that verifies the proposal.
    factors
        The exponents of s1, s2 and eta_W, or of step and eta_W.
    constants
        s1_0 and s2_0 that bring Z and F near 1, if they were far from it.
    unit
        The factor on all learning rates η0 that brings the first change of Z to the order of η0; 1 if it was.
    parameterization
        The proposed rule, with fractions where the intervals allow them.
    activity
        How the activation follows K, from which its family is found.
    start, check, verdict
        The check of the initial rule, that of the proposal, and the verdict of a sweep with it; the last two
        have seeds that were not used before.
    """

    study: Study
    factors: Mapping[str, Exponents]
    constants: dict[str, float]
    unit: float
    parameterization: Parameterization
    activity: Activity
    start: Check
    check: Check
    verdict: Verdict | None

    @property
    def letter(self) -> str:
        """The size that stands for the path of the regime."""
        return self.study.regime.letter

    @property
    def exponents(self) -> dict[str, float]:
        """The measured exponents along the path."""
        return {name: found.along.exponent for name, found in self.factors.items()}

    @property
    def cause(self) -> FindCause:
        """Why exponents are found, or not."""
        laws = [found.along for found in self.factors.values()]
        if any(law.is_wide for law in laws):
            return FindCause.NOISE
        works = self.check.status == "PASS" and (self.verdict is None or self.verdict.status == "TRANSFERS")
        if self.activity.few and not works:
            return FindCause.FEW_ACTIVE
        if not all(law.is_power for law in laws):
            return FindCause.NO_POWER
        if self.check.status != "PASS":
            return FindCause.TERMS_LEFT if self.check.status == "FAIL" else FindCause.CHECK_UNDECIDED
        if works:
            return FindCause.HOLDS
        undecided = self.verdict is not None and self.verdict.status == "INCONCLUSIVE"
        return FindCause.SWEEP_UNDECIDED if undecided else FindCause.NO_TRANSFER

    @property
    def status(self) -> FindStatus:
        """FOUND, NONE or INCONCLUSIVE."""
        return self.cause.status

    @property
    def reason(self) -> str:
        """The cause in a sentence."""
        return sentences.find_reason(self)

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "name": self.study.name,
            "status": self.status,
            "cause": self.cause.value,
            "reason": self.reason,
            "size": self.letter,
            "factors": {name: found.to_json() for name, found in self.factors.items()},
            "constants": self.constants,
            "unit": self.unit,
            "parameterization": self.parameterization.to_json(),
            "activity": self.activity.to_json(),
            "off": [slope.to_json() for slope in _first_of_each(self.start)],
            "left": [slope.to_json() for slope in _first_of_each(self.check)],
            "start": self.start.status,
            "check": self.check.status,
            "verdict": None if self.verdict is None else self.verdict.status,
        }


def _first_of_each(check: Check) -> list[Slope]:
    """Return the wrong slopes of a check, of each quantity the first."""
    return list({slope.name: slope for slope in reversed(check.failing())}.values())[::-1]
