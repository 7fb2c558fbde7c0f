"""The program: its group of commands, exit codes, and one-line error messages."""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import io
import json
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from denseam import __version__
from denseam.cli.options import Command, Exemplified
from denseam.ground import arrow
from denseam.ground.errors import DataWarning, InputError, NotWritten, TrackerWarning
from denseam.training.cache import keep_programs, use_no_programs
from denseam.training.stopping import raised_again

if TYPE_CHECKING:
    from denseam.studies.cluster import Cluster
    from denseam.training.progress import Progress
    from denseam.training.stopping import Stop

OK, FAILED, UNDECIDED, BAD_INPUT, INTERNAL, IO_ERROR, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 64, 70, 74, 130, 141
SCHEMA = 1
T = TypeVar("T")


class Group(Exemplified, click.Group):
    """A group that lists its commands in the order of their definition."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the whole summary of every command."""
        rows = [(name, command.get_short_help_str(limit=1000)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(
    "denseam",
    cls=Group,
    invoke_without_command=True,
    examples=(
        "denseam demo",
        "denseam tune digits --unit-variance --out tuned",
        "denseam train digits --tuned tuned",
        "denseam verdict sweep.csv",
    ),
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Print the traceback of an error.")
@click.option("--no-cache", is_flag=True, help="Do not keep or use compiled programs on disk.")
@click.pass_context
def app(context: click.Context, debug: bool, no_cache: bool) -> None:
    """Tune a Dense Associative Memory at small size, train it at large size."""
    context.ensure_object(dict)["debug"] = debug
    if context.invoked_subcommand is None:
        print(context.get_help())
    elif no_cache:
        use_no_programs()
    else:
        keep_programs()


def show(json_: bool, document: dict[str, Any], print_text: Callable[..., Any], *arguments: Any) -> None:
    """Print one JSON document, or the same as text for people."""
    if json_:
        print(json.dumps({"schema": SCHEMA, **document}, allow_nan=False))
    else:
        print_text(*arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    chosen = {"debug": False}

    def command() -> Any:
        _check_streams()
        with _warnings_in_one_line(), raised_again():
            return app.main(args=arguments, prog_name="denseam", standalone_mode=False, obj=chosen)

    return exit_code(command, chosen)


def run_and_leave() -> NoReturn:
    """Run the program in a process of its own, and end the process."""
    arrow.pandas_is_used = False
    # Imports and traced programs make many objects that stay; looking at them so often is a tenth of a start.
    gc.set_threshold(100_000, 20, 100)
    # JAX would take most of a GPU's memory at once, which takes two seconds on a large one.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    _leave(main())


def _leave(code: int) -> NoReturn:
    """End the process as `sys.exit` does, but leave its memory to the system.

    Python would free every object and every compiled program by itself, which takes up to half a second. It
    does so if anything else depends on its end: other threads, a profiler or a debugger, a prompt.
    """
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    if not all(thread.daemon for thread in others) or _observed():
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # full or closed: that has been reported
            stream.flush()
    os._exit(code)


def _observed() -> bool:
    """Return whether a profiler, a debugger or a prompt is waiting for this process to end."""
    monitoring = getattr(sys, "monitoring", None)  # from Python 3.12 on
    tools = monitoring is not None and any(monitoring.get_tool(number) for number in range(6))
    traced = sys.gettrace() is not None or sys.getprofile() is not None
    return bool(tools or traced or sys.flags.interactive)


def exit_code(run: Callable[[], Any], chosen: Mapping[str, bool]) -> int:
    """Return the exit code of a command that runs; an error is printed as one line."""
    try:
        code = run()
        sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except (BrokenPipeError, SystemExit) as ended:
        if isinstance(ended, SystemExit) and not ended.code:  # click has answered the completion of a shell
            return OK
        return _reader_gone()  # click and rich exit with 1, the code of a verdict
    except BaseException as error:
        if chosen["debug"]:
            traceback.print_exc()
        code = _failed(error)
        try:
            sys.stdout.flush()
        except OSError:  # standard output is full or closed
            _write_no_more()
        return code


def _check_streams() -> None:
    """Refuse a closed standard output; let text pass that the locale cannot encode, as escapes.

    The descriptor of a closed stream would be that of the next file, and a message would end up in it.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest descriptor that is free: this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        raise OSError(errno.EBADF, "standard output is closed")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _reader_gone() -> int:
    """Write nothing more; return the exit code."""
    _write_no_more()
    return BROKEN_PIPE


def _write_no_more() -> None:
    """Write nothing more to standard output, not even when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def write_out(content: bytes) -> None:
    """Write a file in UTF-8 to standard output, whatever the locale: it is data, not a message."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
    else:
        sys.stdout.write(content.decode())


@contextlib.contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print warnings about data and trackers as one line on standard error, without the place in the code."""
    ours = (DataWarning, TrackerWarning)
    with warnings.catch_warnings():
        for category in ours:
            warnings.simplefilter("always", category)
        # A kept program that cannot be read is compiled again, and that is all.
        warnings.filterwarnings("ignore", category=UserWarning, module=r"jax\._src\.compiler")
        before = warnings.showwarning

        def say(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, ours):
                print(f"warning: {message}", file=sys.stderr)
            else:
                before(message, category, *where, **more)

        warnings.showwarning = say
        yield


def _failed(error: BaseException) -> int:
    """Print one line about an error; return its exit code."""
    match error:
        case InputError():
            return _fail(str(error), BAD_INPUT)
        case click.ClickException():
            return _fail(error.format_message(), BAD_INPUT)
        case Stopped():
            return _fail(str(error), error.code)
        case KeyboardInterrupt() | click.Abort():
            return _fail("interrupted", INTERRUPTED)
        case OSError():
            where = f" ({error.filename})" if error.filename else ""
            before = "; files written before are intact" if isinstance(error, NotWritten) else ""
            return _fail(f"{error.strerror or error}{where}{before}", IO_ERROR)
        case MemoryError():
            return _fail("not enough memory; files written before are intact", IO_ERROR)
        case Exception():
            hint = "run it again as `denseam --debug …` for a traceback"
            return _fail(f"internal error: {type(error).__name__}: {error}; {hint}", INTERNAL)
    raise error


def _fail(message: str, code: int) -> int:
    print(f"denseam: {' '.join(message.split())}", file=sys.stderr)
    return code


def progress_of(quiet: bool) -> Progress:
    """Return a progress that prints to standard error, or a silent one."""
    from denseam.training.progress import Progress

    if quiet:
        return Progress()
    from denseam.report.progress import Terminal

    return Terminal()


@contextlib.contextmanager
def progress_in(folder: str, quiet: bool, log: Sequence[str]) -> Iterator[Progress]:
    """Yield the progress of `progress_of`, passed on to trackers whose files are in a folder."""
    with contextlib.ExitStack() as stack:
        progress = progress_of(quiet)
        if log:
            from denseam.report.tracking import tracker
            from denseam.training.progress import to_all

            trackers = [stack.enter_context(tracker(name, folder)) for name in dict.fromkeys(log)]
            progress = to_all(progress, *trackers)
        yield progress


@contextlib.contextmanager
def interruptible(folder: str | None) -> Iterator[Stop]:
    """Report on Ctrl-C and SIGTERM what was saved.

    They also set the event, since an exception that is raised during garbage collection is lost.
    """
    from denseam.training.stopping import stop_by_signals

    with stop_by_signals() as stop:
        try:
            yield stop
        except (KeyboardInterrupt, Exception) as error:
            if not isinstance(error, KeyboardInterrupt) and not stop.is_set():
                raise
            kept = f"finished work is in {folder}, run again to resume" if folder else "nothing was kept"
            raise Stopped(stop.signal, kept) from None


@contextlib.contextmanager
def training_on(
    cluster: Cluster,
    out: str | None,
    quiet: bool,
    log: Sequence[str] = (),
    runs: str | os.PathLike[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the arguments of `denseam.sweep` that say where to train, what to report and when to stop.

    Parameters
    ----------
    cluster
        Where the runs are trained.
    out
        The folder of the command; needed unless the runs are trained in this process.
    quiet, log
        As for `progress_in`.
    runs
        The folder of the runs, which workers must see; by default `out`.
    """
    from denseam.studies.dask_executor import connect

    if out is None and cluster.kind != "local":
        raise InputError(f"out is needed with the executor {cluster.kind!r}: workers write their own results")
    threads = cluster.workers if cluster.kind == "local" else None
    with (
        interruptible(out) as stop,  # first of all: a tracker may take seconds to open
        progress_in(out or os.curdir, quiet, log) as progress,
        connect(cluster, runs or out or os.curdir, progress=progress) as executor,
    ):
        yield {"progress": progress, "stop": stop, "workers": threads, "executor": executor}


class Stopped(Exception):
    """Ctrl-C or SIGTERM, with a message on what was saved; click would drop that of a KeyboardInterrupt."""

    def __init__(self, number: int, kept: str) -> None:
        self.code = 128 + number
        super().__init__(f"{'interrupted' if self.code == INTERRUPTED else 'stopped by SIGTERM'}; {kept}")


def needed(value: T | None, message: str) -> T:
    """Return a value, or refuse if it is missing."""
    if value is None:
        raise InputError(message)
    return value


def say_skipped(skipped: Iterable[str], contradictions: Iterable[str] = ()) -> None:
    """Name the files that could not be read, and the runs whose records contradict each other."""
    for what in skipped:
        print(f"warning: skipped {what}", file=sys.stderr)
    for what in contradictions:
        print(f"warning: {what}", file=sys.stderr)
