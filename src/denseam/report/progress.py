"""Progress on a terminal: what is running, how much time is left, and the best results so far."""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from denseam.report.wording import duration
from denseam.rules import Shape
from denseam.rules.cost import step_operations
from denseam.studies.runs import Outcome
from denseam.studies.study import RunSpec, Study
from denseam.training.progress import Progress

#: Columns of a bar, so that the text beside it fits on a line of 80.
_BAR = 20


class Terminal(Progress):
    """Show progress on standard error: live on a terminal, otherwise a line every few seconds."""

    def __init__(self, every: float = 5.0) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        # Colours may be forced without a terminal; a live display may not.
        self._interactive = self._console.is_interactive and sys.stderr.isatty()
        self._every, self._last = every, -math.inf
        self._live: Any = None
        self._sweep: _Sweep | None = None
        self._bar: Any = None

    def message(self, text: str) -> None:
        """Print a line."""
        self._print(f"denseam: {text}")

    # --- a sweep -----------------------------------------------------------------------------------

    def sweep_begins(self, todo: Sequence[tuple[Study, Sequence[RunSpec]]], reused: int) -> None:
        """Print what will be trained, and show the table."""
        again, self._sweep = self._sweep is not None, _Sweep(todo)
        if again and not self._sweep.runs:
            return  # a further sweep of a search, with nothing to train
        for study, _ in todo:
            self._print(study.describe())
        kept = f", {reused} reused" if reused else ""
        self._print(f"{self._sweep.runs} runs to train{kept}")
        if self._sweep.runs and self._interactive:
            from rich.live import Live

            self._live = Live(
                console=self._console,
                get_renderable=self._sweep.table,
                refresh_per_second=4,
                redirect_stdout=False,  # it may be a JSON document
            )
            self._live.start()

    def compiling(self, shape: Shape) -> None:
        """Announce a compilation."""
        if self._sweep is not None:
            self._sweep.note = f"compiling for {shape}"
            self._line(self._sweep.line())

    def advanced(self, steps: int, spec: RunSpec) -> None:
        """Advance the bar."""
        if self._sweep is not None:
            self._sweep.advance(steps, spec)
            self._line(self._sweep.line())

    def finished(self, outcomes: Sequence[Outcome]) -> None:
        """Count runs, and keep the best value of each scale."""
        if self._sweep is not None:
            self._sweep.count(outcomes)
            self._line(self._sweep.line())

    def sweep_ends(self) -> None:
        """Stop updating the table."""
        self._stop()

    # --- a training --------------------------------------------------------------------------------

    def training_begins(self, name: str, steps: int, epochs: int, done: int = 0) -> None:
        """Print what is trained, and show the bar."""
        from rich import progress as bars

        self.message(f"{name}, {steps} steps" + (f", resuming at step {done}" if done else ""))
        self._bar = bars.Progress(
            bars.BarColumn(_BAR),
            bars.TaskProgressColumn(),
            bars.TextColumn("{task.description}"),
            bars.TimeElapsedColumn(),
            bars.TimeRemainingColumn(),
            bars.TextColumn("left"),
            console=self._console,
            redirect_stdout=False,
        )
        self._bar.add_task("starting", total=steps, completed=done, epochs=epochs)
        self._last = time.perf_counter()
        if self._interactive and done < steps:
            self._live = self._bar
            self._live.start()

    def training_advanced(self, step: int, loss: float) -> None:
        """Advance the bar."""
        (task,) = self._bar.tasks
        epoch = step * task.fields["epochs"] / task.total
        self._bar.update(
            task.id,
            completed=step,
            description=f"epoch {epoch:.1f} of {task.fields['epochs']}, loss {loss:.4g}",
        )
        left = "" if task.time_remaining is None else f", {_time(task.time_remaining)} left"
        line = f"{task.description}, {task.percentage:.0f} %, {_time(task.elapsed or 0.0)}{left}"
        self._line(line, now=task.finished)

    def left_expected(self, epoch: int, loss: float, expected: tuple[float, float], side: str) -> None:
        """Warn that the loss has left the predicted range."""
        low, high = expected
        advice = "; Ctrl-C keeps the state" if side == "above" else ""
        self.message(
            f"warning: after epoch {epoch} the loss is {loss:.4g}, {side} the {low:.4g} … {high:.4g} "
            f"predicted by the small models{advice}"
        )

    def training_ends(self) -> None:
        """Stop updating the bar."""
        self._stop()

    # --- lines -------------------------------------------------------------------------------------

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def _line(self, text: str, now: bool = False) -> None:
        """Print a line if there is no live display and the last line is some seconds old."""
        if self._live is None and (now or time.perf_counter() - self._last > self._every):
            self._last = time.perf_counter()
            self.message(text)

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


@dataclasses.dataclass
class _Row:
    """The runs of a study at one size, and the best of them."""

    total: int = 0
    done: int = 0
    diverged: int = 0
    loss: float = math.inf
    eta0: float = math.nan


class _Sweep:
    """The state of a running sweep."""

    def __init__(self, todo: Sequence[tuple[Study, Sequence[RunSpec]]]) -> None:
        self.runs = sum(len(specs) for _, specs in todo)
        self.note = "starting"
        self._began = time.perf_counter()
        self._lock = threading.Lock()
        self._cost = self._done_cost = 0.0
        self._rows: dict[tuple[str, int], _Row] = {}
        #: The rows that wait for a run, by its key; two studies may share a run.
        self._waiting: dict[str, tuple[_Row, ...]] = {}
        for study, specs in todo:
            scales = {spec.scale: spec.shape for spec in specs}
            updates = {scale: study.updates(shape) for scale, shape in scales.items()}
            rows = {scale: (self._rows.setdefault((study.name, scale), _Row()),) for scale in scales}
            for spec in specs:
                rows[spec.scale][0].total += 1
                self._waiting[spec.key] = self._waiting.get(spec.key, ()) + rows[spec.scale]
                self._cost += updates[spec.scale] * _price(spec)

    def advance(self, steps: int, spec: RunSpec) -> None:
        with self._lock:
            self._done_cost += steps * _price(spec)
            self.note = ""

    def count(self, outcomes: Sequence[Outcome]) -> None:
        with self._lock:
            for outcome in outcomes:
                row, *others = self._waiting[outcome.spec.key]
                self._waiting[outcome.spec.key] = tuple(others)
                row.done += 1
                if outcome.status == "diverged":
                    row.diverged += 1
                elif outcome.final_mse < row.loss:
                    row.loss, row.eta0 = outcome.final_mse, outcome.spec.values["eta0"]

    def status(self) -> str:
        share = self._done_cost / self._cost if self._cost else 1.0
        spent = time.perf_counter() - self._began
        left = f"{_time(spent * (1 - share) / share)} left" if share > 0.02 else "time left unknown"
        done = sum(row.done for row in self._rows.values())
        return f"{done}/{self.runs} runs, {100 * share:.0f} % of the work, {_time(spent)}, {left}"

    def line(self) -> str:
        diverged = sum(row.diverged for row in self._rows.values())
        parts = [self.status(), f"{diverged} diverged" if diverged else "", self.note]
        return "; ".join(part for part in parts if part)

    def table(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0))
        for title in ("study", "scale", "runs", "diverged", "best eta0 so far", "loss"):
            table.add_column(title, justify="left" if title == "study" else "right", style="none")
        with self._lock:
            for (study, scale), row in self._rows.items():
                best = (f"{row.eta0:.3g}", f"{row.loss:.4g}") if math.isfinite(row.loss) else ()
                diverged = str(row.diverged) if row.diverged else ""
                table.add_row(Text(study), str(scale), f"{row.done}/{row.total}", diverged, *best)
            line = Table.grid(padding=(0, 2, 0, 0))
            line.add_row(
                ProgressBar(total=self._cost or 1, completed=self._done_cost, width=_BAR), Text(self.status())
            )
            return Group(table, line, Text(self.note, style="dim"))


def _time(seconds: float) -> str:
    """Return a time in whole seconds, or in larger units."""
    return duration(round(seconds))


def _price(spec: RunSpec) -> float:
    """Return the operations of one step, with a small overhead for the call."""
    return _operations(spec.shape, spec.values["burn_in"]) + 1e5


@functools.lru_cache(maxsize=1024)
def _operations(shape: Shape, burn_in: float) -> float:
    return step_operations(shape, burn_in=burn_in)
