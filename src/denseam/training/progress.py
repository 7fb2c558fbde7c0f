"""Progress of long work as events: a listener overrides the methods of the events it wants.

Every call that may take long has an argument `progress`. `denseam.report.progress.Terminal` prints the
events, `denseam.report.tracking.Tracking` passes them to a tracker; `Progress` itself is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from denseam.ground.errors import InputError

if TYPE_CHECKING:
    from denseam.rules import Shape
    from denseam.studies.runs import Outcome
    from denseam.studies.study import RunSpec, Study


class Progress:
    """Receives the events of long work. Events of a sweep come from worker threads as well."""

    def message(self, text: str) -> None:
        """Receive a line to show to people."""

    # --- a sweep: many runs ------------------------------------------------------------------------

    def sweep_begins(self, todo: Sequence[tuple[Study, Sequence[RunSpec]]], reused: int) -> None:
        """Receive the runs of each study to be trained, and how many existing runs are reused."""

    def compiling(self, shape: Shape) -> None:
        """Note that a program for a new shape is being compiled."""

    def advanced(self, steps: int, spec: RunSpec) -> None:
        """Note that a run has taken this many more steps (or will not need them)."""

    def finished(self, outcomes: Sequence[Outcome]) -> None:
        """Receive the outcomes of a chunk of runs that has ended."""

    def sweep_ends(self) -> None:
        """Note that a sweep is done, or was stopped."""

    # --- a training: one model ---------------------------------------------------------------------

    def training_described(self, settings: Mapping[str, Any]) -> None:
        """Receive the settings of the training that is about to begin, by the names of a record's columns."""

    def training_begins(self, name: str, steps: int, epochs: int, done: int = 0) -> None:
        """Receive the name of the model, the length of the training, and the steps taken before."""

    def training_advanced(self, step: int, loss: float) -> None:
        """Receive the number of steps done in all, and the mean loss of the last ones."""

    def epoch_ended(self, epoch: int, loss: float, expected: tuple[float, float] | None = None) -> None:
        """Receive the mean loss of an epoch (counted from 1), and the range that small models predict."""

    def left_expected(self, epoch: int, loss: float, expected: tuple[float, float], side: str) -> None:
        """Note that the loss has left that range, and on which side: 'above' or 'below'."""

    def training_ends(self) -> None:
        """Note that training is done, or was stopped."""

    def training_finished(self, results: Mapping[str, Any]) -> None:
        """Receive `status`, `final_mse` and other results of a training that was not stopped."""


#: The names of all events.
EVENTS = tuple(name for name in vars(Progress) if not name.startswith("_"))


def calling(**functions: Callable[..., None]) -> Progress:
    """Return a listener that calls a function for each event named, as in `calling(message=print)`."""
    progress = Progress()
    for event, function in functions.items():
        if event not in EVENTS:
            raise AttributeError(f"no event {event!r}")
        setattr(progress, event, function)
    return progress


def to_all(*listeners: Progress) -> Progress:
    """Return a listener that passes every event to each of these, in their order."""

    def passing(event: str) -> Callable[..., None]:
        def receive(*arguments: Any, **named: Any) -> None:
            for listener in listeners:
                getattr(listener, event)(*arguments, **named)

        return receive

    return calling(**{event: passing(event) for event in EVENTS})


def told(progress: Progress | None, say: Callable[[str], None] | None) -> Progress:
    """Return the listener: `progress`, or a function that receives the messages alone, or a silent one."""
    if progress is not None and say is not None:
        raise InputError("progress and say receive the same messages; give one of them")
    if say is not None:
        return calling(message=say)
    return progress or Progress()
