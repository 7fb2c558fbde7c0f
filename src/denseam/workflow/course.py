"""The course of the error along recall, and what it suggests."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from denseam.workflow.memory import Recalled

#: The error rises again if it ends above this multiple of its least value; it still falls if the last step
#: lowers it by more than this share.
RISES, FALLS = 1.2, 0.01


class Course(enum.Enum):
    """How the error goes along the steps of recall."""

    FALLS = "falls"
    FALLS_STILL = "falls-still"
    RISES_AGAIN = "rises-again"
    NEVER_FALLS = "never-falls"


_SENTENCES = {
    Course.FALLS: "{of} falls from {start:.3g} to {least:.3g} after {steps_of_least}",
    Course.FALLS_STILL: "{of} still falls in step {steps}, to {end:.3g}: allow more --steps",
    Course.RISES_AGAIN: "{of} is least after {steps_of_least}, {least:.3g}, and rises to {end:.3g} on the "
    "way to an attractor of the memory: take --steps {best}",
    Course.NEVER_FALLS: "{of} is least at the start, {start:.3g}: {remedy}",
}
#: What to do if no step helps: (whether features are hidden, whether the memory stores patterns) → words.
_REMEDIES = {
    (True, False): "their mean is the better guess; hide less, or train with more --noise than {trained:g}",
    (False, False): "no step removes noise of {noise:g}; the memory was trained with {trained:g}",
    (True, True): "too little is known to tell the stored patterns apart; hide less",
    (False, True): "the stored patterns are too close for noise of {noise:g}, or none of them is meant",
}


@dataclasses.dataclass(frozen=True)
class Hint:
    """What the error of one level of noise did, and its numbers.

    Attributes
    ----------
    hidden
        Whether it is the error of hidden features, which start at their mean.
    start, least, end
        The error at the start, its least value and the last one.
    best, steps
        The number of steps after which it is least, and of all steps.
    noise, trained
        The noise that was added, and that of training.
    stored
        Whether the memory stores patterns.
    """

    course: Course
    hidden: bool
    start: float
    least: float
    end: float
    best: int
    steps: int
    noise: float
    trained: float
    stored: bool = False

    def describe(self) -> str:
        """Return what was measured as a sentence, with advice if it could be better."""
        numbers = vars(self)
        return _SENTENCES[self.course].format(
            **numbers,
            of="the error of the hidden features" if self.hidden else "the error",
            steps_of_least=_counted(self.best),
            remedy=_REMEDIES[self.hidden, self.stored].format(**numbers),
        )


def hint(recalled: Recalled) -> Hint | None:
    """Return how the error went at one level of noise; None if nothing had been added or hidden."""
    errors, best = recalled.errors, recalled.best_step
    if not errors[0] > 0:
        return None
    last, start, least, end = len(errors) - 1, *(float(errors[t]) for t in (0, best, -1))
    if best == 0:
        course = Course.NEVER_FALLS
    elif end > RISES * least:
        course = Course.RISES_AGAIN
    elif best == last and errors[-2] - end > FALLS * errors[-2] and not recalled.converged.all():
        course = Course.FALLS_STILL
    else:
        course = Course.FALLS
    hidden, memory = recalled.held is not None, recalled.memory
    return Hint(course, hidden, start, least, end, best, last, recalled.noise, memory.noise, memory.stored)


def _counted(steps: int) -> str:
    return f"{steps} step{'' if steps == 1 else 's'}"
