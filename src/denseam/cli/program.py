"""The program: one Typer application, exit codes, and errors of one line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from denseam._version import __version__
from denseam.errors import InputError

if TYPE_CHECKING:
    from denseam.training.progress import Progress

OK, BAD_INPUT, INTERNAL, IO_ERROR, INTERRUPTED = 0, 64, 70, 74, 130
SCHEMA = 1

app = typer.Typer(
    name="denseam",
    help="Tune a Dense Associative Memory at small size, train it at large size.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _program(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        print(f"denseam {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document."""
    print(json.dumps({"schema": SCHEMA, **document}, allow_nan=False))


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    try:
        _settings()
        result = app(args=arguments, prog_name="denseam", standalone_mode=False)
        return result if isinstance(result, int) else OK
    except InputError as error:
        return _fail(str(error), BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort, Stopped) as error:
        return _fail(str(error) or "interrupted", INTERRUPTED)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return _fail(f"{error.strerror or error}{where}; what was written before is intact", IO_ERROR)
    except Exception as error:
        # Usage errors come from click, or from the copy of it inside newer versions of Typer.
        if hasattr(error, "format_message"):
            return _fail(error.format_message(), BAD_INPUT)
        return _fail(f"internal error: {type(error).__name__}: {error}", INTERNAL)


def _settings() -> None:
    """Keep compiled programs for the next start; harmless where the folder cannot be written."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(cache, "denseam", "programs"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def _fail(message: str, code: int) -> int:
    print(f"denseam: {' '.join(message.split())}", file=sys.stderr)
    return code


def progress_of(quiet: bool) -> Progress:
    """Return who is told of progress: people, on standard error, or nobody."""
    from denseam.training.progress import Progress

    if quiet:
        return Progress()
    from denseam.report.progress import Terminal

    return Terminal()


@contextlib.contextmanager
def interruptible(folder: str | None) -> Iterator[threading.Event]:
    """Say on Ctrl-C what was saved.

    The event given is set by Ctrl-C, too: an exception that arrives while Python collects garbage is lost.
    """
    pressed = threading.Event()

    def on_signal(_number: int, _frame: Any) -> None:
        pressed.set()
        raise KeyboardInterrupt

    here = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, on_signal) if here else None
    try:
        yield pressed
    except (KeyboardInterrupt, Exception) as error:
        if not isinstance(error, KeyboardInterrupt) and not pressed.is_set():
            raise
        kept = f"; what was finished is in {folder}, run again to resume" if folder else "; nothing was kept"
        raise Stopped(f"interrupted{kept}") from None
    finally:
        if here:
            signal.signal(signal.SIGINT, before)


class Stopped(Exception):
    """Ctrl-C, with a word on what was saved; a bare KeyboardInterrupt would lose it on its way up."""


def whole(name: str, given: str | None) -> tuple[int, ...] | None:
    """Read whole numbers, if any were given."""
    from denseam.studies.study import whole_values

    return None if given is None else whole_values(name, given)


def needed(message: str) -> str:
    """Refuse, where a value is missing."""
    raise InputError(message)


def say_skipped(skipped: Iterable[str]) -> None:
    """Name the files that could not be read."""
    for what in skipped:
        print(f"warning: passed over {what}", file=sys.stderr)
