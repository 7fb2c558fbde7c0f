"""Progress of long work, as events; whoever wants to know of them overrides their methods.

Every call that takes long has an argument `progress`. `denseam.report.progress.Terminal` shows the events to
people; `Progress` itself is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from denseam.errors import InputError

if TYPE_CHECKING:
    from denseam.rules import Shape
    from denseam.studies.outcome import Outcome
    from denseam.studies.study import RunSpec, Study


class Progress:
    """Hear how work goes on. Events of a sweep come from worker threads as well."""

    def message(self, text: str) -> None:
        """Hear a line that people should know."""

    # --- a sweep: many runs ------------------------------------------------------------------------

    def sweep_begins(self, todo: Sequence[tuple[Study, Sequence[RunSpec]]], reused: int) -> None:
        """Hear which runs of which studies will be trained, and how many are there already."""

    def compiling(self, shape: Shape) -> None:
        """Hear that a program for a new shape is being compiled."""

    def advanced(self, steps: int, spec: RunSpec) -> None:
        """Hear that a run took so many more steps (or will not need them)."""

    def finished(self, outcomes: Sequence[Outcome]) -> None:
        """Hear that a chunk of runs has ended."""

    def sweep_ends(self) -> None:
        """Hear that a sweep is done, or was stopped."""

    # --- a training: one model ---------------------------------------------------------------------

    def training_begins(self, name: str, steps: int, epochs: int, done: int = 0) -> None:
        """Hear what is trained, for how long, and how many of the steps were taken before."""

    def training_advanced(self, step: int, loss: float) -> None:
        """Hear how many steps are done in all, and the mean loss of the last ones."""

    def epoch_ended(self, epoch: int, loss: float, expected: tuple[float, float] | None = None) -> None:
        """Hear the mean loss of an epoch (counted from 1), and the range that small models predict."""

    def left_expected(self, epoch: int, loss: float, expected: tuple[float, float], side: str) -> None:
        """Hear that the loss has left that range, and on which side: 'above' or 'below'."""

    def training_ends(self) -> None:
        """Hear that training is done, or was stopped."""


def calling(**functions: Callable[..., None]) -> Progress:
    """Return a progress that calls functions, by the name of the event, as in `calling(message=print)`."""
    progress = Progress()
    for event, function in functions.items():
        if not hasattr(progress, event):
            raise AttributeError(f"no event {event!r}")
        setattr(progress, event, function)
    return progress


def told(progress: Progress | None, say: Callable[[str], None] | None) -> Progress:
    """Return who is told: `progress`, a function that gets the messages alone, or nobody."""
    if progress is not None and say is not None:
        raise InputError("progress and say are told the same; give one of them")
    if say is not None:
        return calling(message=say)
    return progress or Progress()
