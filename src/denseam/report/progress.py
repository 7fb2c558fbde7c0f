"""Work seen from outside: what runs, how long it will take, how good it is so far."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from denseam.analysis.prediction import Expected
from denseam.rules import Shape
from denseam.rules.cost import step_operations
from denseam.studies.outcome import Outcome
from denseam.studies.runner import SweepListener
from denseam.studies.study import RunSpec, Study
from denseam.workflow.target import TrainListener


class Progress(SweepListener):
    """Shows a sweep on standard error: a live table on a terminal, a line now and then elsewhere."""

    def __init__(self, every: float = 5.0) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._live: Any = None
        self._every, self._last = every, 0.0
        self._lock = threading.Lock()
        self._cost = self._done_cost = 0.0
        self._runs = self._done = self._diverged = 0
        self._began = time.perf_counter()
        self._note = ""
        self._begun = False
        self._study: Study | None = None
        self._best: dict[tuple[str, int], tuple[float, float]] = {}
        self._counts: dict[tuple[str, int], list[int]] = {}

    def begin(
        self, studies: Sequence[Study], todo: Sequence[tuple[Study, list[RunSpec]]], reused: int
    ) -> None:
        """Say what will be trained."""
        self._cost = self._done_cost = 0.0
        self._done = self._diverged = 0
        self._best, self._counts = {}, {}
        again, self._begun = self._begun, True
        if again and not any(specs for _, specs in todo):
            return  # one of several sweeps of a search, and all of it is there
        for study, specs in todo:
            self._console.print(study.describe(), highlight=False)
            for spec in specs:
                self._cost += self._price(spec) * study.steps(spec.shape)
                self._counts.setdefault((study.name, spec.scale), [0, 0])[1] += 1
        self._runs = sum(len(specs) for _, specs in todo)
        kept = f", {reused} already there" if reused else ""
        self._console.print(f"{self._runs} runs to train{kept}", highlight=False)
        self._began = time.perf_counter()
        if self._runs and self._console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, get_renderable=self._table, refresh_per_second=4)
            self._live.start()

    @staticmethod
    def _price(spec: RunSpec) -> float:
        """Return the operations of one step, and a little for calling it."""
        return step_operations(spec.shape) + 1e5

    def study(self, study: Study) -> None:
        """Remember which study runs."""
        self._study = study

    def compiling(self, shape: Shape) -> None:
        """Announce a compilation."""
        self._note = f"compiling for {shape}"
        self._line()

    def advanced(self, steps: int, spec: RunSpec) -> None:
        """Move the bar."""
        with self._lock:
            self._done_cost += steps * self._price(spec)
            self._note = ""
        self._line()

    def finished(self, outcomes: Sequence[Outcome]) -> None:
        """Count runs, and keep the best value of each scale."""
        with self._lock:
            for outcome in outcomes:
                assert self._study is not None
                place = (self._study.name, outcome.spec.scale)
                self._done += 1
                self._counts[place][0] += 1
                self._diverged += outcome.status == "diverged"
                loss = math.inf if outcome.status == "diverged" else outcome.final_mse
                if loss < self._best.get(place, (math.inf, 0.0))[0]:
                    self._best[place] = (loss, outcome.spec.values["eta0"])
        self._line()

    def end(self) -> None:
        """Take the table down."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _status(self) -> str:
        share = self._done_cost / self._cost if self._cost else 1.0
        spent = time.perf_counter() - self._began
        left = f"{spent * (1 - share) / share:.0f} s left" if share > 0.02 else "time left unknown"
        text = f"{self._done}/{self._runs} runs, {100 * share:.0f} % of the work, {spent:.0f} s, {left}"
        return text + (f"; {self._diverged} diverged" if self._diverged else "")

    def _line(self) -> None:
        now = time.perf_counter()
        if self._live is None and now - self._last > self._every:
            self._last = now
            print(f"denseam: {self._status()}{'; ' if self._note else ''}{self._note}", file=sys.stderr)

    def _table(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0))
        for title in ("study", "scale", "runs", "best eta0 so far", "loss"):
            table.add_column(title, justify="left" if title == "study" else "right", style="none")
        with self._lock:
            for (study, scale), (done, asked) in self._counts.items():
                loss, eta0 = self._best.get((study, scale), (math.inf, 0.0))
                known = math.isfinite(loss)
                table.add_row(
                    study,
                    str(scale),
                    f"{done}/{asked}",
                    f"{eta0:.3g}" if known else "",
                    f"{loss:.4g}" if known else "",
                )
            bar = ProgressBar(total=self._cost or 1, completed=self._done_cost, width=40)
            line = Table.grid(padding=(0, 2, 0, 0))
            line.add_row(bar, Text(self._status()))
            return Group(table, line, Text(self._note, style="dim"))


class TrainProgress(TrainListener):
    """Shows the training of one model on standard error, and warns when its loss is not as expected."""

    def __init__(self, every: float = 5.0) -> None:
        self._every, self._last, self._began = every, 0.0, time.perf_counter()
        self._steps = self._first = 0
        self._per_epoch = 1
        self._terminal = sys.stderr.isatty()

    def begin(self, study: Study, spec: RunSpec, done: int, expected: Expected | None) -> None:
        """Say what is trained."""
        self._steps, self._first = study.steps(spec.shape), done
        self._per_epoch = self._steps // study.epochs
        going = f", going on at step {done}" if done else ""
        self._print(
            f"{study.name} at {spec.shape}, eta0 = {spec.values['eta0']:.3g}, {self._steps} steps{going}"
        )
        self._began = self._last = time.perf_counter()

    def advanced(self, step: int, loss: float) -> None:
        """Say now and then how far it is."""
        now = time.perf_counter()
        if now - self._last < (0.5 if self._terminal else self._every) and step < self._steps:
            return
        self._last = now
        share = (step - self._first) / max(1, self._steps - self._first)
        left = f"{(now - self._began) * (1 - share) / share:.0f} s left" if share > 0 else ""
        text = (
            f"epoch {step / self._per_epoch:.1f} of {self._steps // self._per_epoch}, "
            f"{100 * step / self._steps:.0f} %, loss {loss:.4g}, {now - self._began:.0f} s, {left}"
        )
        if self._terminal:
            print(f"\r\x1b[Kdenseam: {text}", end="", file=sys.stderr, flush=True)
        else:
            self._print(text)

    def left(self, epoch: int, loss: float, expected: tuple[float, float], side: str) -> None:
        """Warn."""
        low, high = expected
        advice = "; Ctrl-C keeps the state" if side == "above" else ""
        self._print(
            f"warning: after epoch {epoch} the loss is {loss:.4g}, {side} the {low:.4g} … {high:.4g} that "
            f"the small models predict{advice}"
        )

    def end(self) -> None:
        """End the line."""
        if self._terminal:
            print(file=sys.stderr)

    def _print(self, text: str) -> None:
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr)
        print(f"denseam: {text}", file=sys.stderr, flush=True)
