"""What would make a learning rate hold that does not: the remedy as data."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping

from denseam.analysis.causes import Cause
from denseam.analysis.transfer import Verdict
from denseam.workflow.goals import Goal


class Remedy(enum.Enum):
    """What to change."""

    TAKE_ADAM = "take-adam"
    TAKE_PRESCRIPTION = "take-prescription"
    CENTRE = "centre"
    ZERO_BIASES = "zero-biases"
    LEAVE_AXES = "leave-axes"
    LEARN_MORE = "learn-more"
    CALM_SEEDS = "calm-seeds"
    NEXT_SIZE = "next-size"
    LOOK_INSIDE = "look-inside"


@dataclasses.dataclass(frozen=True)
class Advice:
    """A remedy with what it needs.

    Attributes
    ----------
    names
        The parameterization, or the axes, that should be left out.
    seeds
        How many were not enough.
    letter, scale, budget
        The next size, and the budget that allows it.
    """

    remedy: Remedy
    names: tuple[str, ...] = ()
    seeds: int | None = None
    letter: str = ""
    scale: int | None = None
    budget: float | None = None


def advise(goal: Goal, found: Verdict, others: Mapping[str, Verdict], budget: float) -> Advice:
    """Return what would make it hold: what is known to spoil transfer, else what the verdict rests on.

    Parameters
    ----------
    found
        The verdict of η0.
    others
        Those of further axes.
    budget
        What may be spent, as a share of a sweep at the target.
    """
    known = _known_to_spoil(goal)
    if known is not None:
        return known
    match found.cause:
        case Cause.HOLDS:
            moving = tuple(axis for axis, v in others.items() if v.cause is not Cause.HOLDS)
            return Advice(Remedy.LEAVE_AXES, names=moving)
        case Cause.NOTHING_LEARNED:
            return Advice(Remedy.LEARN_MORE)
        case Cause.SEEDS_DIFFER:
            return Advice(Remedy.CALM_SEEDS, seeds=found.seeds)
    larger = [s for s in goal.ladder if s > max(found.optimum)]
    if not larger:
        return Advice(Remedy.LOOK_INSIDE)
    share = goal.operations(larger[0]) / goal.operations(goal.target)
    enough = math.ceil(100 * (budget + share)) / 100
    return Advice(Remedy.NEXT_SIZE, letter=goal.letter, scale=larger[0], budget=enough)


def _known_to_spoil(goal: Goal) -> Advice | None:
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
