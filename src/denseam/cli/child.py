"""A command in a process of its own, so that its end is reported even if a library ends it.

When a process of a mesh is gone, a thread of JAX prints a trace and aborts the others. Python cannot prevent
that, but a parent sees it. The parent only waits: it imports nothing, and passes signals on.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, NoReturn

from denseam.cli.program import IO_ERROR, OK, exit_code
from denseam.ground.errors import ProcessLost
from denseam.training.stopping import SIGNALS

#: Seconds in which a child may take leave of others after an error, which they may not have had.
GRACE = 10.0
#: After success: the first process may still draw.
PATIENCE = 300.0


def in_child(work: Callable[[], int], leave: Callable[[], None], chosen: Mapping[str, bool]) -> int:
    """Do the work of a command in a child process; return its exit code.

    `ProcessLost` is raised if the child was aborted.

    Parameters
    ----------
    work
        Returns an exit code, or raises.
    leave
        Called when the exit code is certain, whatever becomes of the child then; not if a process is lost.
    chosen
        With `debug`, what libraries write to standard error is shown at once; else only if the child is
        killed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    hidden = not chosen["debug"]
    with tempfile.TemporaryFile() as notes:
        (result, report), (parent, ours) = os.pipe(), os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        with warnings.catch_warnings():
            # JAX warns of its threads. It has none yet: processes can only be joined before it is used.
            warnings.simplefilter("ignore", RuntimeWarning)
            child = os.fork()
        if not child:
            os.close(ours)
            threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
            _be(work, leave, report, notes if hidden else None, chosen)
        os.close(report)
        os.close(parent)
        with _passing_signals_to(child):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            _, status = os.waitpid(child, 0)
        code, reason = os.read(result, 1), os.read(result, 1000).decode()
        os.close(result)
        os.close(ours)
        if reason:
            raise ProcessLost(reason)
        if code:
            return code[0]
        if os.waitstatus_to_exitcode(status) == -signal.SIGABRT:
            raise ProcessLost("JAX ended this one" + "; denseam --debug shows why" * hidden)
        notes.seek(0)
        shutil.copyfileobj(notes, getattr(sys.stderr, "buffer", io.BytesIO()))
        return 128 + abs(os.waitstatus_to_exitcode(status))


def _be(
    work: Callable[[], int], leave: Callable[[], None], report: int, notes: IO[bytes] | None,
    chosen: Mapping[str, bool],
) -> NoReturn:  # fmt: skip
    """Be the child."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    if notes is not None:  # Python keeps standard error; what libraries write to its descriptor goes there
        sys.stderr = open(os.dup(2), "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
        os.dup2(notes.fileno(), 2)

    def reported() -> int:
        try:
            return work()
        except ProcessLost as error:  # the parent says so: before this one could, JAX may end it
            os.write(report, bytes([IO_ERROR]) + (error.reason or "no reason").encode())
            os._exit(1)

    try:
        code = exit_code(reported, chosen)
        sys.stderr.flush()
        os.write(report, bytes([code]))
        leaving = threading.Thread(target=leave, daemon=True)
        leaving.start()
        leaving.join(PATIENCE if code == OK else GRACE)
    finally:
        os._exit(1)  # the code is in the report


def _end_with(parent: int) -> None:
    """End this process if the parent does: its end of the pipe is then closed."""
    os.read(parent, 1)
    os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def _passing_signals_to(child: int) -> Iterator[None]:
    def pass_on(number: int, _frame: Any) -> None:
        os.kill(child, number)

    before = {number: signal.signal(number, pass_on) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
