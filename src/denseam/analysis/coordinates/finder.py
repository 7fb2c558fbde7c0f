"""The exponent finder: from the slopes of a parameterization that fails to exponents that work.

Z ∝ s1 and F ∝ s2 at the start, and the first change of Z ∝ eta_W. So s1 is corrected by the slope of Z, then
s2 by that of F with the new s1, then eta_W by that of ΔZ with both. In the proportional regime only the joint
exponent in N can be found, since K, P and B grow with N; if only the memories grow it is the exponent in K,
which must be well above N.

If only the steps of recall grow, it is the exponent in T of their size d, and of eta_W. States that recall
for long come to rest, whatever d is. But in a short time the gradient is a sum of T equal terms with the
factor d. So d is corrected by the slope of the gradient where all steps together are short, then eta_W by
that of the change of W with the new d.
"""

from __future__ import annotations

import dataclasses
import os
from concurrent.futures import Executor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from denseam.analysis.coordinates.expected import Expectation
from denseam.analysis.coordinates.judge import Check
from denseam.analysis.coordinates.of_study import check_study, checked_study
from denseam.analysis.coordinates.slopes import Measurements, from_records, slope_of
from denseam.analysis.statistics import Interval
from denseam.analysis.transfer import Verdict, verdict
from denseam.errors import InputError
from denseam.rules import Parameterization, Power
from denseam.rules.fields import logspace
from denseam.rules.table import FIXED_MODEL
from denseam.studies.runner import run_studies
from denseam.studies.study import Study
from denseam.training.progress import Progress

#: Exponents in K are clean from this many memories per feature on.
CLEAN_FROM = 8
#: Exponents are rounded to a multiple of the first if it is no further away than the second.
SIMPLE, NEAR = Fraction(1, 2), 0.1
#: Folder of the runs from which the exponents are measured, inside that of the check.
MEASURED = "measured"
#: Z and F outside this range get a constant that brings them to 1. (Small values do no harm.)
TOO_SMALL, TOO_LARGE = 0.05, 2.0
#: The time of all steps of recall together that counts as short.
SHORT = 0.1

#: In this order, the factors of the rule and the quantities that are proportional to them.
_GROWING = (("s1", "Z"), ("s2", "F"), ("eta_W", "dZ_W"))
_THROUGH = (("step", "grad_W"), ("eta_W", "dW"))


@dataclasses.dataclass(frozen=True)
class Proposal:
    """Exponents that keep the sizes of Z, F and ΔZ, and how well they work.

    Attributes
    ----------
    exponents
        The measured exponents of s1, s2 and eta_W, or of step and eta_W, in the size that grows.
    intervals
        Their 95 % intervals over seeds.
    constants
        s1_0 and s2_0 that bring Z and F to order one, if they were far from it.
    parameterization
        The proposed rule, with half-integer exponents where the measured ones are within 0.1 of them.
    start, check, verdict
        The check of the initial rule, that of the proposal, and the verdict of a sweep with it.
    """

    letter: str
    exponents: dict[str, float]
    intervals: dict[str, Interval]
    constants: dict[str, float]
    parameterization: Parameterization
    start: Check
    check: Check
    verdict: Verdict | None

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        rule = self.parameterization
        return {
            "size": self.letter,
            "exponents": self.exponents,
            "intervals": {k: list(v) for k, v in self.intervals.items()},
            "constants": self.constants,
            "proposal": {name: str(getattr(rule, name)) for name in self.exponents},
            "check": self.check.status,
            "verdict": None if self.verdict is None else self.verdict.status,
        }


def find_exponents(
    activation: Any,
    optimizer: str,
    *,
    verify: bool = True,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
    **options: Any,
) -> Proposal:
    """Propose exponents of s1, s2 and eta_W (or step and eta_W) for a rule, and verify them by a sweep.

    Parameters
    ----------
    activation, optimizer, options
        As in `check`; `parameterization` is the initial rule.
    verify
        Whether to sweep learning rates with the proposal and judge the transfer.
    out
        A folder that keeps all runs; a search that was stopped resumes there.
    progress
        Receives the events of the training.
    executor
        Trains instead of this process, as in `sweep`; needs `out`.
    """
    study = checked_study(activation, optimizer, **options)
    _check_regime(study)
    training = {"progress": progress, "executor": executor}
    return propose(study, check_study(study, out=out, **training), verify=verify, out=out, **training)


def propose(
    study: Study,
    start: Check,
    *,
    verify: bool = True,
    out: str | os.PathLike[str] | None = None,
    **training: Any,
) -> Proposal:
    """Do what `find_exponents` does, from a study made by `checked_study` and its check.

    `training` are further arguments of `sweep`. The runs of the search are in a folder of their own, so that
    `check_records` of the folder judges only the check itself.
    """
    _check_regime(study)
    measured_in = None if out is None else Path(out) / MEASURED
    regime = study.regime.name
    rule = study.rule().canonical()
    along_steps = "T" in study.regime.grows
    factors = _THROUGH if along_steps else _GROWING
    probes = tuple(quantity for _, quantity in factors)
    first = dataclasses.replace(study, probes=probes, probe_steps=(0,), epochs=1, name="")
    exponents: dict[str, float] = {}
    intervals: dict[str, Interval] = {}
    constants: dict[str, float] = {}

    def measure(**held: float) -> Measurements:
        summary = run_studies(_with(first, rule, constants | held), measured_in, **training)
        return from_records(summary.complete())

    for factor, quantity in factors:
        measured = measure(tau=_short_time(study, rule)) if factor == "step" else measure()
        slope = slope_of(quantity, 0, measured.scales, measured.values[quantity][0], Expectation(0.0))
        if slope.slope is None or slope.ci is None:
            raise InputError(f"parameterization: {quantity} is not finite at every scale; lower eta0")
        power = getattr(rule, factor)
        exponent = float(power.along(regime))
        exponents[factor] = exponent - slope.slope
        intervals[factor] = (exponent - slope.ci[1], exponent - slope.ci[0])
        corrected = _corrected(power, exponents[factor], regime)
        rule = dataclasses.replace(rule, **{factor: corrected})  # type: ignore[arg-type]
        if factor in ("s1", "s2"):
            size = float(np.exp(np.mean(np.log(measure().values[quantity][0]))))
            if not TOO_SMALL <= size <= TOO_LARGE:
                constants[f"{factor}_0"] = 1 / size
    rule = dataclasses.replace(rule, name="proposal", prescribed=False, source="measured slopes")
    proposal = _with(study, rule, constants)
    return Proposal(
        study.regime.letter,
        exponents,
        intervals,
        constants,
        rule,
        start,
        check_study(proposal, out=measured_in, **training),
        _transfer(proposal, out, **training) if verify else None,
    )


def _check_regime(study: Study) -> None:
    if study.regime.grows == ("T",):
        return
    if study.regime.name in FIXED_MODEL:
        raise InputError(
            f"regime {study.regime.name!r}: exponents are found where the model or its steps grow; "
            "judge rates by a sweep"
        )
    if any(study.recalls(study.shape(scale)) for scale in study.scales):
        raise InputError(
            "exponents are found with one step of recall, of size 1, or in the regime steps-only"
        )
    N = study.regime.shape(1).N
    if study.regime.name == "memories-only" and min(study.scales) < CLEAN_FROM * N:
        raise InputError(
            f"scales must be at least {CLEAN_FROM} memories per feature to find exponents, "
            f"got {min(study.scales)} for {N} features"
        )


def _with(study: Study, rule: Parameterization, constants: dict[str, float]) -> Study:
    """Return the study with another parameterization and other constants."""
    axes = dict(study.axes) | {name: (value,) for name, value in constants.items()}
    return dataclasses.replace(study, parameterization=rule, axes=axes, name="")


def _corrected(power: Power, exponent: float, regime: str) -> Power:
    """Return the power with this exponent, rounded if it is near, in the size that grows."""
    near = SIMPLE * round(exponent / float(SIMPLE))
    simple = near if abs(float(near) - exponent) <= NEAR else exponent
    if regime == "steps-only":
        return dataclasses.replace(power, T=simple)
    return dataclasses.replace(power, K=simple, larger=0) if regime == "memories-only" else Power(N=simple)


def _short_time(study: Study, rule: Parameterization) -> float:
    """Return a τ with which all steps together are short at every scale."""
    times = [shape.T * rule.step.at(shape) for shape in map(study.shape, study.scales)]
    return min(1.0, SHORT / max(times))


def _transfer(study: Study, out: str | os.PathLike[str] | None, **training: Any) -> Verdict:
    """Sweep learning rates with the proposed rule over the smaller scales, and judge."""
    wider = dataclasses.replace(
        study,
        scales=tuple(study.scales)[:3],
        eta0=logspace(1e-3, 1.0, 10),
        seeds=6,
        epochs=max(16, study.epochs),
        probes=(),
        probe_steps=None,
        name="",
    )
    return verdict(run_studies(wider, out, **training).complete())[0]
