"""A request to stop: by a signal, by the caller, or by another process that trains along.

After the first SIGINT or SIGTERM, work that checks for the request saves its state; everything else ends
immediately. A second one ends the process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

#: The signals that ask to stop.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Seconds within which two signals are one: Slurm may send SIGTERM both to a job step and to its srun.
ONE_REQUEST = 1.0
#: Seconds after which an exception that was lost is raised again.
AGAIN = 0.02


class Stop(threading.Event):
    """Whether to stop, and because of which signal."""

    def __init__(self) -> None:
        super().__init__()
        self.signal: int = signal.SIGINT
        self._noted = False
        self._looking = 0

    def is_set(self) -> bool:
        """Return whether it is set, or a signal has been noted."""
        return self._noted or super().is_set()

    def note(self, number: int) -> None:
        """Note a signal, in its handler: the code that it interrupts may hold the lock that `ask` takes."""
        if not self.is_set():
            self.signal, self._noted = number, True

    def ask(self, number: int) -> None:
        """Set the event, because of a signal, and wake who waits for it."""
        self.note(number)
        self.set()

    @property
    def looked_at(self) -> bool:
        """Whether work is under way that looks at the event and saves before it ends."""
        return self._looking > 0

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Promise to look at the event: inside, a signal raises no exception."""
        self._looking += 1
        try:
            yield
        finally:
            self._looking -= 1


def looking(stop: threading.Event | None) -> contextlib.AbstractContextManager[None]:
    """Promise to look at an event, if signals set it."""
    return stop.looking() if isinstance(stop, Stop) else contextlib.nullcontext()


def signal_of(stop: threading.Event | None) -> int:
    """Return the signal that an event was set by, SIGINT if it was set by hand; 0 if it is not set."""
    if stop is None or not stop.is_set():
        return 0
    return stop.signal if isinstance(stop, Stop) else signal.SIGINT


@contextlib.contextmanager
def stop_by_signals() -> Iterator[Stop]:
    """Yield an event that SIGINT and SIGTERM set; where nothing looks at it, they raise `KeyboardInterrupt`.

    Python handles a signal only between two steps of its main thread, which may be inside a compiler or wait
    for another process. So a second thread receives the signals, too, and ends the process at the second one.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_signal(number: int, _frame: Any) -> None:
        stop.note(number)
        if not stop.looked_at:
            raise KeyboardInterrupt

    with _watched(stop), raised_again():
        before = {number: signal.signal(number, on_signal) for number in SIGNALS}
        try:
            yield stop
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def raised_again() -> Iterator[None]:
    """Raise a `KeyboardInterrupt` again, and do not print it, if Python had to drop it.

    It does so where nobody could catch it: in a callback of the garbage collector, or in a destructor.
    """
    before = sys.unraisablehook
    timers: list[threading.Timer] = []

    def hook(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            before(dropped)
            return
        # A real signal, which ends a wait, too; a `Stop` keeps its first one.
        main = threading.main_thread().ident
        timers.append(threading.Timer(AGAIN, signal.pthread_kill, (main, signal.SIGINT)))
        timers[-1].daemon = True
        timers[-1].start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in timers:
            timer.cancel()


@contextlib.contextmanager
def _watched(stop: Stop) -> Iterator[None]:
    """Receive signals in a thread of its own."""
    end, ours = os.pipe()
    os.set_blocking(ours, False)
    thread = threading.Thread(target=_watch, args=(end, stop), name="denseam-signals", daemon=True)
    thread.start()
    before = signal.set_wakeup_fd(ours, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(ours)  # the thread reads the end of the pipe
        thread.join()
        os.close(end)


def _watch(end: int, stop: Stop) -> None:
    first = 0.0
    while numbers := os.read(end, 64):
        for number in numbers:
            if number not in SIGNALS:
                continue
            first = first or time.monotonic()
            if time.monotonic() - first > ONE_REQUEST:
                with contextlib.suppress(OSError):
                    os.write(sys.stderr.fileno(), b"denseam: stopped immediately\n")
                os._exit(128 + number)
            stop.ask(number)
