"""The exponent finder: from the slopes of a parameterization that fails to exponents that work.

Z ∝ s1 and F ∝ s2 at the start, and the first change of Z ∝ eta_W. So s1 is corrected by the slope of Z, then
s2 by that of F with the new s1, then eta_W by that of ΔZ with both. Slopes are measured twice: along the path
of the regime, on which all its sizes grow, and on ladders around its middle, on which one size grows alone.
Along the path an exponent is the sum of those of the sizes. The path decides, since a crossover such as
F² ∝ aK²/N + bK has an exponent of K that changes with K/N; if the exponents of all sizes allow fractions
whose sum is that of the path, the rule is written with them.

If only the steps of recall grow, it is the exponent in T of their size d, and of eta_W. States that recall
for long come to rest, whatever d is. But in a short time the gradient is a sum of T equal terms with the
factor d. So d is corrected by the slope of the gradient where all steps together are short, then eta_W by
that of the change of W with the new d.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from denseam.analysis.coordinates.activity import activity
from denseam.analysis.coordinates.confirmation import SEEDS as SEEDS_OF_SWEEP
from denseam.analysis.coordinates.confirmation import confirm, swept
from denseam.analysis.coordinates.ladders import Measure, Point, ladders, measuring, path
from denseam.analysis.coordinates.laws import Law, asymptotic, local
from denseam.analysis.coordinates.of_study import DEFAULT_SCALES, check_study, checked_study
from denseam.analysis.coordinates.proposal import Exponents, Proposal, split
from denseam.ground.errors import InputError
from denseam.rules import Parameterization, Power, Shape
from denseam.rules.powers import ONE
from denseam.rules.table import FIXED_MODEL
from denseam.studies.store import Store
from denseam.studies.study import Study
from denseam.training.progress import Progress

#: Exponents in K are clean from this many memories per feature on.
CLEAN_FROM = 8
#: The scales along which exponents are measured, where those of a check do not suffice.
SCALES = {"proportional": DEFAULT_SCALES["proportional"], "memories-only": (128, 256, 512, 1024, 2048)}
#: Seeds by which exponents are measured, and by which a rule is checked.
SEEDS, SEEDS_OF_CHECK = 12, 4
#: Digits of an exponent that is no fraction.
DIGITS = 3
#: Folder of the runs from which the exponents are measured, inside that of the check.
MEASURED = "measured"
#: Z and F outside this range get a constant. (Small values do no harm.)
TOO_SMALL, TOO_LARGE = 0.05, 2.0
#: The size that such a constant brings them to. With F of size 1 as of the target Y, their difference could
#: vanish as K grows, and the first step with it.
TARGETS = {"s1": 1.0, "s2": 0.25}
#: The first change of Z over η0 is of order one in every row; outside this range, η0 gets another unit.
SLOW, FAST = 0.2, 5.0
#: The fewest scales from which an exponent and its finite-size correction can be told apart.
FEWEST_SCALES = 3
#: The time of all steps of recall together that counts as short.
SHORT = 0.1

#: In this order, the factors of the rule and the quantities that are proportional to them.
GROWING = (("s1", "Z"), ("s2", "F"), ("eta_W", "dZ_W"))
THROUGH = (("step", "grad_W"), ("eta_W", "dW"))
#: Factor → the constant that multiplies its power, if it is chosen here.
_CONSTANTS = {"s1": "s1_0", "s2": "s2_0"}


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
    activation
        A name or any Lagrangian; the name of its family does not matter.
    optimizer, options
        As in `check`; `parameterization` is the rule to start from, by default 'standard'; `seeds` (12) is
        the number of seeds to measure exponents with.
    verify
        Whether to sweep learning rates with the proposal and judge the transfer.
    out
        A folder that keeps all runs; a search that was stopped resumes there.
    progress
        Receives the events of the training.
    executor
        Trains instead of this process, as in `sweep`; needs `out`.
    """
    study = searched_study(activation, optimizer, **options)
    training = {"progress": progress, "executor": executor}
    return propose(study, verify=verify, out=out, **training)


def searched_study(activation: Any, optimizer: str, **options: Any) -> Study:
    """Return the study from which exponents are found; arguments as in `find_exponents`."""
    given = {key: value for key, value in options.items() if value is not None}
    along_steps = getattr(given.get("regime"), "name", given.get("regime")) == "steps-only"
    defaults = {"seeds": SEEDS, "parameterization": "step=1" if along_steps else "standard"}
    study = checked_study(activation, optimizer, **defaults | given)
    if "scales" not in given and study.regime.name in SCALES:
        study = dataclasses.replace(study, scales=SCALES[study.regime.name], name="")
    _check_regime(study)
    return study


def propose(
    study: Study,
    *,
    verify: bool = True,
    out: str | os.PathLike[str] | None = None,
    **training: Any,
) -> Proposal:
    """Do what `find_exponents` does, from a study made by `searched_study`.

    `training` are further arguments of `sweep`. The runs of the search are in a folder of their own, so that
    `check_records` of the folder judges only the check itself.
    """
    kept, measured_in = None, None
    if out is not None:  # both are read after every few runs
        kept, measured_in = Store(out, remember=True), Store(Path(out) / MEASURED, remember=True)
    seen = tuple(study.seeds)  # type: ignore[arg-type]  # a tuple since its construction
    few = dataclasses.replace(study, seeds=seen[:SEEDS_OF_CHECK], name="")
    start = check_study(few, out=kept, **training)
    quantities = [quantity for _, quantity in factors_of(study)]
    search = Search(study, measuring(study, quantities, measured_in, **training))
    rule = search.run()
    proposal = _with(study, rule, search.constants, search.unit)
    unseen = tuple(range(max(seen) + 1, max(seen) + 1 + SEEDS_OF_SWEEP))
    checked = dataclasses.replace(proposal, seeds=unseen[:SEEDS_OF_CHECK], name="")
    passes = check_study(checked, out=measured_in, **training)
    sweep = swept(proposal, search.unit, unseen)
    sweep, judged = confirm(sweep, study.scales, kept, **training) if verify else (sweep, None)
    return Proposal(
        sweep,
        search.factors,
        search.constants,
        search.unit,
        rule,
        activity(study.lagrangian),
        start,
        passes,
        judged,
    )


def factors_of(study: Study) -> tuple[tuple[str, str], ...]:
    """Return the factors to correct, in their order, and the quantities that are proportional to them."""
    return THROUGH if "T" in study.regime.grows else GROWING


class Search:
    """The correction of one factor after the other."""

    def __init__(self, study: Study, measure: Measure) -> None:
        self.regime, self.letter = study.regime.name, study.regime.letter
        self.path, self.ladders = path(study), ladders(study)
        self.measure = measure
        self.middle = self.path[(len(self.path) - 1) // 2]
        #: The rule along the path, and that with an exponent of each size apart, for the ladders.
        self.along_path = self.on_ladders = _in_sizes(study.rule().canonical(), self.middle)
        self.order = factors_of(study)
        self.eta0 = study.eta0[0]
        self.constants = {name: study.axes[name][0] for name in _CONSTANTS.values() if name in study.axes}
        self.unit = 1.0
        self.factors: dict[str, Exponents] = {}

    def run(self) -> Parameterization:
        """Correct all factors in turn; return the rule, with λ_W ∝ 1/η_W."""
        for factor, quantity in self.order:
            self._correct(factor, quantity)
        rule = dataclasses.replace(self.along_path, decay_W=ONE / self.along_path.eta_W)
        return dataclasses.replace(rule, name="found", prescribed=False, source="measured slopes")

    def _correct(self, factor: str, quantity: str) -> None:
        held = self.constants | ({"tau": self._short_time()} if factor == "step" else {})
        points = [Point(shape, self.along_path, held) for shape in self.path]
        rungs = [(letter, shape) for letter, ladder in self.ladders.items() for shape in ladder]
        alike = held | self._alike()
        points += [Point(shape, self.on_ladders, alike) for _, shape in rungs]
        values = self.measure(points, quantity)
        of_path, of_ladders = values[: len(self.path)], values[len(self.path) :]
        before = getattr(self.along_path, factor)
        exponent = float(before.along(self.regime))
        scales = [getattr(shape, self.letter) for shape in self.path]
        along = asymptotic(quantity, scales, of_path).remedy(exponent)
        apart: dict[str, Law] = {}
        on_ladders = getattr(self.on_ladders, factor)
        for letter, ladder in self.ladders.items():
            own = of_ladders[[name == letter for name, _ in rungs]]
            sizes = [getattr(shape, letter) for shape in ladder]
            apart[letter] = local(quantity, sizes, own).remedy(float(getattr(on_ladders, letter)))
        power = _taken(before, along, apart, self.regime)
        self.factors[factor] = Exponents(quantity, exponent, along, apart, power)
        self._bring_to_one(factor, quantity, before, power, of_path)
        self.along_path = _replaced(self.along_path, factor, power)
        exact = {letter: law.exponent for letter, law in apart.items()}
        self.on_ladders = _replaced(self.on_ladders, factor, dataclasses.replace(on_ladders, **exact))

    def _bring_to_one(self, factor: str, quantity: str, before: Power, power: Power, sizes: Any) -> None:
        """Choose the constant of a factor, or the unit of η0, if what it multiplies would be far from 1."""
        ratios = np.array([power.at(shape) / before.at(shape) for shape in self.path])
        size = float(np.exp(np.mean(np.log(sizes * ratios[:, None]))))
        if factor in _CONSTANTS and not TOO_SMALL <= size <= TOO_LARGE:
            name = _CONSTANTS[factor]
            self.constants[name] = _rounded(self.constants.get(name, 1.0) * TARGETS[factor] / size)
        if quantity == "dZ_W" and not SLOW <= size / self.eta0 <= FAST:
            self.unit = _rounded(self.eta0 / size)

    def _alike(self) -> dict[str, float]:
        """Return constants with which both rules agree in the middle, where the ladders meet the path."""
        alike = {}
        for factor, constant in _CONSTANTS.items():
            of_path, of_ladders = getattr(self.along_path, factor), getattr(self.on_ladders, factor)
            ratio = of_path.at(self.middle) / of_ladders.at(self.middle)
            alike[constant] = self.constants.get(constant, 1.0) * ratio
        return alike

    def _short_time(self) -> float:
        """Return a τ with which all steps together are short at every scale."""
        times = [shape.T * self.along_path.step.at(shape) for shape in self.path]
        return min(1.0, SHORT / max(times))


def _rounded(value: float) -> float:
    """Return a constant to two digits: it need not be known better."""
    return float(f"{value:.2g}")


def _check_regime(study: Study) -> None:
    if len(study.scales) < FEWEST_SCALES:
        raise InputError(
            f"scales must be {FEWEST_SCALES} or more to find exponents, "
            f"got {', '.join(map(str, study.scales))}"
        )
    if min(study.scales) < 2:
        raise InputError(f"scales must be at least 2 to find exponents, got {min(study.scales)}")
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


def _with(study: Study, rule: Parameterization, constants: Mapping[str, float], unit: float) -> Study:
    """Return the study with another parameterization, other constants and another unit of η0."""
    axes = dict(study.axes) | {name: (value,) for name, value in constants.items()}
    rates = tuple(unit * eta0 for eta0 in study.eta0)
    return dataclasses.replace(study, parameterization=rule, axes=axes, eta0=rates, name="")


def _in_sizes(rule: Parameterization, middle: Shape) -> Parameterization:
    """Return a rule without powers of max(K, N): of that size instead which is larger in the middle."""
    larger = "K" if middle.K >= middle.N else "N"
    for factor, _ in (*GROWING, *THROUGH):
        power = getattr(rule, factor)
        if power.larger:
            exact = {larger: getattr(power, larger) + power.larger, "larger": 0}
            rule = _replaced(rule, factor, dataclasses.replace(power, **exact))
    return rule


def _replaced(rule: Parameterization, factor: str, power: Power) -> Parameterization:
    return dataclasses.replace(rule, **{factor: power})  # type: ignore[arg-type]  # a power only


def _taken(before: Power, along: Law, apart: Mapping[str, Law], regime: str) -> Power:
    """Return the power of a factor: in all sizes if they can be told apart, else in that of the path."""
    fractions = split(along, apart)
    if fractions is not None:
        return dataclasses.replace(before, **fractions)
    fraction = along.fraction
    exponent = round(along.exponent, DIGITS) if fraction is None else fraction
    if regime == "steps-only":
        return dataclasses.replace(before, T=exponent)
    return dataclasses.replace(before, K=exponent) if regime == "memories-only" else Power(N=exponent)
