"""What would make a learning rate transfer: the remedy as data, and the sentence made from it."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping

from denseam.analysis.causes import Cause
from denseam.analysis.transfer import Verdict
from denseam.workflow.goals import Goal


class Remedy(enum.Enum):
    """What to change; the value is a sentence to be filled in from the `Advice`."""

    TAKE_ADAM = "softmax with SGD has no prescription: take --optimizer adam"
    TAKE_PRESCRIPTION = "the parameterization '{names}' is not the prescription: leave it out"
    CENTRE = "centre the activations: leave out --uncentered"
    ZERO_BIASES = "start the biases at zero: leave out --bias-init"
    LEAVE_AXES = "eta0 transfers, {names} does not: leave it at its default"
    LEARN_MORE = "train for more --epochs, with less --noise, or scale the data (--unit-variance)"
    CALM_SEEDS = (
        "{seeds} seeds still differ too much for a verdict: train for more --epochs, or on more --samples"
    )
    NEXT_SIZE = (
        "continue with {letter} = {scale}: allow more with --budget {budget:g} (run again with the same "
        "folder to resume)"
    )
    LOOK_INSIDE = (
        "no size below the target is left: look inside with `denseam check`, or sweep the target itself"
    )


@dataclasses.dataclass(frozen=True)
class Advice:
    """A remedy and its numbers.

    Attributes
    ----------
    names
        The parameterization, or the axes, to leave out.
    seeds
        The number of seeds that was too small.
    scale, budget
        The next size, of the kind that `letter` names, and the budget that allows it.
    """

    remedy: Remedy
    names: tuple[str, ...] = ()
    seeds: int | None = None
    letter: str = ""
    scale: int | None = None
    budget: float | None = None

    def describe(self) -> str:
        """Return the advice as a sentence."""
        return self.remedy.value.format(**vars(self) | {"names": ", ".join(self.names)})


def advise(goal: Goal, verdict: Verdict, others: Mapping[str, Verdict], budget: float) -> Advice:
    """Return what would make the rate transfer: a known obstacle, or else a remedy for the verdict's cause.

    Parameters
    ----------
    verdict, others
        The verdict on η0, and those on other axes.
    budget
        The maximum cost, as a share of a sweep at the target.
    """
    obstacle = _known_obstacle(goal)
    if obstacle is not None:
        return obstacle
    match verdict.cause:
        case Cause.HOLDS:
            moving = tuple(axis for axis, v in others.items() if v.cause is not Cause.HOLDS)
            return Advice(Remedy.LEAVE_AXES, names=moving)
        case Cause.NOTHING_LEARNED:
            return Advice(Remedy.LEARN_MORE)
        case Cause.SEEDS_DIFFER:
            return Advice(Remedy.CALM_SEEDS, seeds=verdict.seeds)
    larger = [s for s in goal.ladder if s > max(verdict.optimum)]
    if not larger:
        return Advice(Remedy.LOOK_INSIDE)
    share = goal.operations(larger[0]) / goal.operations(goal.target)
    enough = math.ceil(100 * (budget + share)) / 100
    return Advice(Remedy.NEXT_SIZE, letter=goal.letter, scale=larger[0], budget=enough)


def _known_obstacle(goal: Goal) -> Advice | None:
    study, rule = goal.study, goal.study.rule()
    if not rule.prescribed:
        if rule.family == "softmax" and rule.optimizer == "sgd":
            return Advice(Remedy.TAKE_ADAM)
        return Advice(Remedy.TAKE_PRESCRIPTION, names=(rule.name,))
    if study.centred is False and study.lagrangian.name != "identity":
        return Advice(Remedy.CENTRE)
    if study.bias_init != "zero":
        return Advice(Remedy.ZERO_BIASES)
    return None
