"""A claim and its judgement: one word for each reading of the experiment.

A claim has a test that gives a number, and perhaps further tests under conditions that the claim does not
state. In each reading the tests are made in this order, and the first that holds decides:

===================  ================================================================================
reproduced           the claim passes its test (or only under the condition that is named)
not reproduced       it fails all of them
undecided            the records do not suffice: more seeds, a finer grid or longer training could tell
not run              the runs are missing
===================  ================================================================================

A claim that is undecided as stated stays so, even if it holds under a condition. Our own claims *hold* or do
not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from denseam.paper.measurement import Measurement
from denseam.paper.readings import FROZEN, NORMAL, READINGS, TRAINED, Reading
from denseam.paper.results import Results
from denseam.paper.settings import FromSettings, Setting

ClaimOutcome = Literal["reproduced", "not reproduced", "undecided", "not run"]

#: Outcome → the word for a claim of our own.
OWN: Mapping[ClaimOutcome, str] = {
    "reproduced": "holds", "not reproduced": "does not hold", "undecided": "undecided", "not run": "not run",
}  # fmt: skip
#: Where the finding of a claim stands that compares readings.
COMPARED = "compared"


@dataclasses.dataclass(frozen=True)
class Measured:
    """The result of a test: whether the claim holds (None if undecided), and the number in words."""

    holds: bool | None
    text: str


@dataclasses.dataclass(frozen=True)
class Evidence(FromSettings):
    """A test on records."""

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What it needs besides runs."""
        return ()

    def missing(self, results: Results) -> int:
        """Return how many runs and measurements of it are missing."""
        lacking = sum(not results.is_measured(measurement) for measurement in self.measurements)
        return lacking + sum(results.missing(setting) for setting in self.settings)

    def measure(self, results: Results) -> Measured:
        """Return what the records show."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class OfOne(Evidence):
    """Evidence from one setting."""

    setting: Setting


@dataclasses.dataclass(frozen=True)
class OfTwo(Evidence):
    """Evidence from two settings, of which the first should be the better one."""

    better: Setting
    worse: Setting


@dataclasses.dataclass(frozen=True)
class All(Evidence):
    """Several tests, all of which must hold."""

    tests: tuple[Evidence, ...]

    def missing(self, results: Results) -> int:
        """Return how many runs of them are missing."""
        return sum(test.missing(results) for test in self.tests)

    def measure(self, results: Results) -> Measured:
        """Measure each test, and name it by its setting."""
        measured = [test.measure(results) for test in self.tests]
        labels = [test.settings[0].label for test in self.tests]
        text = "; ".join(f"{label}: {m.text}" for label, m in zip(labels, measured, strict=True))
        holds = [m.holds for m in measured]
        return Measured(all(holds) if None not in holds or False in holds else None, text)


@dataclasses.dataclass(frozen=True)
class Finding:
    """The outcome of a claim in one reading.

    Attributes
    ----------
    measured
        The numbers, in words.
    condition
        The condition under which it holds, '' for none.
    own
        Whether the claim is ours and not the paper's.
    """

    measured: str
    outcome: ClaimOutcome
    condition: str = ""
    own: bool = False

    @property
    def word(self) -> str:
        """The outcome in a word or two."""
        return OWN[self.outcome] if self.own else self.outcome

    @property
    def verdict(self) -> str:
        """The finding in words."""
        if not self.condition:
            return self.word
        if self.outcome == "reproduced":
            return f"{self.word} only if {self.condition}"
        return f"{self.word}, {'holds' if self.own else 'reproduced'} if {self.condition}"

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "outcome": self.outcome,
            "condition": self.condition or None,
            "verdict": self.verdict,
            "measured": self.measured,
        }


@dataclasses.dataclass(frozen=True)
class Claim:
    """One statement, and its tests, each with its condition ('' for none).

    Attributes
    ----------
    readings
        The readings in which it says something; a claim about trained biases says nothing of frozen ones.
    """

    text: str
    tests: tuple[tuple[str, Evidence], ...]
    readings: tuple[Reading, ...] = (FROZEN, TRAINED, NORMAL)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings that have to be trained for all tests."""
        return tuple(setting for _, test in self.tests for setting in test.settings)

    @property
    def pinned(self) -> bool:
        """Whether it compares readings, so that it is judged once."""
        pins = [setting.pinned is not None for setting in self.settings]
        pins += [m.pinned for _, test in self.tests for m in test.measurements]
        return bool(pins) and all(pins)

    @property
    def reading_names(self) -> tuple[str, ...]:
        """The names under which its findings stand."""
        return (COMPARED,) if self.pinned else tuple(reading.name for reading in self.readings)

    @property
    def question(self) -> tuple[Any, ...]:
        """What is asked of which runs: two claims with the same question count once."""
        return tuple((condition, test.unlabelled()) for condition, test in self.tests)

    def judge(self, results: Results, own: bool = False) -> Finding:
        """Return the finding of the first test that holds, or of all of them."""
        texts: list[str] = []
        undecided = False
        for condition, test in self.tests:
            missing = test.missing(results)
            measured = Measured(None, _lacking(missing)) if missing else test.measure(results)
            texts.append(f"if {condition}: {measured.text}" if condition else measured.text)
            if missing and not undecided:
                return Finding("; ".join(texts), "not run", own=own)
            if measured.holds:
                outcome: ClaimOutcome = "undecided" if undecided else "reproduced"
                return Finding("; ".join(texts), outcome, condition, own)
            undecided = undecided or measured.holds is None
        return Finding("; ".join(texts), "undecided" if undecided else "not reproduced", own=own)


def _lacking(runs: int) -> str:
    return "1 run is missing" if runs == 1 else f"{runs} runs are missing"


@dataclasses.dataclass(frozen=True)
class Judgement:
    """A claim and its finding in each reading (or one under `COMPARED`, if it compares them)."""

    claim: Claim
    findings: Mapping[str, Finding]

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "claim": self.claim.text,
            "readings": {name: finding.to_json() for name, finding in self.findings.items()},
        }


def judge(claim: Claim, by_reading: Mapping[str, Results], own: bool) -> Judgement:
    """Judge a claim in every reading in which it says something."""
    if claim.pinned:
        results = next(iter(by_reading.values()))
        return Judgement(claim, {COMPARED: claim.judge(results, own)})
    return Judgement(
        claim,
        {
            name: claim.judge(results, own)
            for name, results in by_reading.items()
            if READINGS[name] in claim.readings
        },
    )


def claim(text: str, test: Evidence, **options: Any) -> Claim:
    """Return a claim that is tested without a condition."""
    return Claim(text, (("", test),), **options)
