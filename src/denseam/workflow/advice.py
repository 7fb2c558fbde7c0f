"""What would make a learning rate transfer: the remedy as data, and the sentence made from it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from denseam.rules.table import is_prescribed
from denseam.studies.description import AXES
from denseam.studies.study import Study
from denseam.workflow.command_lines import sweep_target_line, tune_line
from denseam.workflow.goals import Goal, default_ladder

#: The folder of a sweep at the target, inside that of the search.
TARGET_SWEEP = "target-sweep"


class Remedy(enum.Enum):
    """What to change; the value is a sentence to be filled in from the `Advice`."""

    TAKE_ADAM = "{names} has no prescription: take --optimizer adam"
    TAKE_RELATIVE = "a sparse activation has no prescription: take one relative to K, as in relative-entmax"
    TAKE_ONE_STEP = "{names} through several steps of recall has no prescription: take --steps 1"
    TAKE_PRESCRIPTION = "the parameterization '{names}' is not the prescription: leave it out"
    CENTRE = "centre the activations: leave out --uncentered"
    ZERO_BIASES = "start the biases at zero: leave out --bias-init"
    LEAVE_AXES = "eta0 alone would be within the tolerance: tune without {names}"
    TUNE_LONGER = "train the small models as long as the target: leave out --tune-epochs"
    LEARN_MORE = "train for more --epochs, with less --noise, or scale the data (--unit-variance)"
    MORE_BUDGET = (
        "runs at {letter} = {scale} should settle it: allow them with --budget {budget:g} (run again with "
        "the same folder to resume)"
    )
    OTHER_SIZES = "tune at {letter} = {scale}, too: --scales {scales}"
    PROBE = "allow a short training of the target: --probe"
    SWEEP_TARGET = "nothing below the target would settle it: sweep the target itself"


@dataclasses.dataclass(frozen=True)
class Advice:
    """A remedy and its numbers.

    Attributes
    ----------
    names
        The parameterization, or the axes, to leave out.
    scale, budget, scales
        The size to train, of the kind that `letter` names, the budget that allows it, and all sizes with it.
    """

    remedy: Remedy
    names: tuple[str, ...] = ()
    letter: str = ""
    scale: int | None = None
    budget: float | None = None
    scales: tuple[int, ...] = ()

    def describe(self) -> str:
        """Return the advice as a sentence."""
        listed = {"names": ", ".join(self.names), "scales": ",".join(map(str, self.scales))}
        return self.remedy.value.format(**vars(self) | listed)


def advise(
    goal: Goal,
    offer: tuple[int, float] | None,
    *,
    moving: tuple[str, ...] = (),
    learned: bool,
    may_probe: bool,
) -> Advice:
    """Return what would settle a refusal: the remedy of a known obstacle, or else of what is missing.

    Parameters
    ----------
    offer
        The size whose runs should bring the bound below the tolerance, and the budget that allows them.
    moving
        The tuned axes besides η0 without which the bound should be within the tolerance.
    learned
        Whether anything was learned at the largest size.
    may_probe
        Whether a short training of the target was not tried and could help.
    """
    known = obstacle(goal.study)
    if known is not None:
        return known
    if not learned:
        return Advice(Remedy.LEARN_MORE)
    if goal.tune_epochs is not None:
        return Advice(Remedy.TUNE_LONGER)
    if moving:
        return Advice(Remedy.LEAVE_AXES, names=moving)
    if offer is not None:
        scale, budget = offer
        return Advice(Remedy.MORE_BUDGET, letter=goal.letter, scale=scale, budget=budget)
    larger = [s for s in default_ladder(goal.study) if s > max(goal.ladder)]
    if larger:
        scales = (*goal.ladder, larger[0])
        return Advice(Remedy.OTHER_SIZES, letter=goal.letter, scale=larger[0], scales=scales)
    if may_probe:
        return Advice(Remedy.PROBE)
    return Advice(Remedy.SWEEP_TARGET)


def obstacle(study: Study) -> Advice | None:
    """Return what is known to spoil transfer in a study; None if it is as the theory prescribes."""
    rule = study.rule()
    if not rule.prescribed:
        if rule.family == "sparse":
            return Advice(Remedy.TAKE_RELATIVE)
        if not is_prescribed(rule.family, rule.optimizer):
            return Advice(Remedy.TAKE_ADAM, names=(f"{rule.family} with {study.update_rule.title}",))
        if not is_prescribed(rule.family, rule.optimizer, study.shape(max(study.scales)).T):
            return Advice(Remedy.TAKE_ONE_STEP, names=(rule.family,))
        return Advice(Remedy.TAKE_PRESCRIPTION, names=(rule.name,))
    if study.centred is False and study.lagrangian.name != "identity":
        return Advice(Remedy.CENTRE)
    if study.bias_init != "zero":
        return Advice(Remedy.ZERO_BIASES)
    return None


def commands(
    advice: Advice,
    goal: Goal,
    out: Path,
    *,
    around: float | None,
    constants: Mapping[str, float],
    options: Mapping[str, Any],
    described: Goal | None = None,
) -> tuple[str, ...]:
    """Return the commands that would settle a refusal.

    They are the search again with the remedy, unless no search helps, and a sweep of the target itself.

    Parameters
    ----------
    out
        The folder of the search.
    around
        The best learning rate at the largest size; without one there is no sweep.
    constants
        The values of other tuned axes.
    options
        The options of the search, as in `denseam.workflow.command_lines.tune_line`.
    described
        The goal as it was described, if the search changed its batch.
    """
    again = _remedied(described or goal, advice)
    lines = [None if again is None else tune_line(again, out, **_changed(options, advice))]
    if around is not None:
        lines.append(sweep_target_line(goal, out / TARGET_SWEEP, around, constants=constants))
    return tuple(line for line in lines if line is not None)


def _remedied(goal: Goal, advice: Advice) -> Goal | None:
    """Return the goal with the remedy; None if no search helps."""
    study = goal.study
    changes: dict[str, Any] = {}
    match advice.remedy:
        case Remedy.TAKE_ADAM:
            own = {axis: values for axis, values in study.axes.items() if not _belongs(axis, "optimizer")}
            changes = {"optimizer": "adam", "parameterization": "prescription", "axes": own}
        case Remedy.TAKE_ONE_STEP:
            changes = {"steps": 1}
        case Remedy.TAKE_PRESCRIPTION:
            changes = {"parameterization": "prescription"}
        case Remedy.CENTRE:
            changes = {"centred": True}
        case Remedy.ZERO_BIASES:
            changes = {"bias_init": "zero"}
        case Remedy.LEARN_MORE:
            changes = {"epochs": 2 * study.epochs}
        case Remedy.OTHER_SIZES:
            return dataclasses.replace(goal, ladder=advice.scales, given=True)
        case Remedy.TUNE_LONGER:
            return dataclasses.replace(goal, tune_epochs=None)
        case Remedy.SWEEP_TARGET:
            return None
    return dataclasses.replace(goal, study=dataclasses.replace(study, **changes, name=""))


def _changed(options: Mapping[str, Any], advice: Advice) -> dict[str, Any]:
    """Return the options of the search with the remedy."""
    if advice.remedy is Remedy.MORE_BUDGET:
        return {**options, "budget": advice.budget}
    if advice.remedy is Remedy.PROBE:
        return {**options, "probe": True}
    if advice.remedy is Remedy.LEAVE_AXES and "tune" in options:
        return {**options, "tune": tuple(axis for axis in options["tune"] if axis not in advice.names)}
    return dict(options)


def _belongs(axis: str, field: str) -> bool:
    belongs = AXES[axis].belongs
    return belongs is not None and belongs[0] == field
