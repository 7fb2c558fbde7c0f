"""Bad input, reported in one line that names the argument and what is allowed; the checks that find it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

#: Counts and sizes must fit the 32-bit integers of array frameworks.
COUNTS_BELOW = 2**31


class InputError(ValueError):
    """One or more problems with the input; nothing was done.

    Attributes
    ----------
    problems
        One sentence per problem, each naming its argument.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class ProcessLost(ConnectionError):
    """One of the processes that train a model together is gone, or has failed.

    Attributes
    ----------
    reason
        How this was noticed.
    """

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        detail = f" ({reason})" if reason else ""
        super().__init__(f"a process of the mesh is gone{detail}; start all of them again to resume")


class UnprescribedWarning(UserWarning):
    """The theory gives no rule for this combination; transfer is not expected."""


class UnboundedEnergyWarning(UserWarning):
    """The energy of this model has no lower bound; recall may diverge."""


class DataWarning(UserWarning):
    """Data is badly scaled, or unlike that of training; the result may mean little."""


class TrackerWarning(UserWarning):
    """A tracker of experiments has failed; the training continues without it."""


class NotWritten(OSError):
    """A file could not be written; what was there before is intact."""


def refuse(problems: Iterable[str]) -> None:
    """Raise one `InputError` with all problems, if there are any."""
    sentences = tuple(problems)
    if sentences:
        raise InputError(*sentences)


@contextlib.contextmanager
def collecting(problems: list[str], prefix: str = "") -> Iterator[None]:
    """Add the problems of an `InputError` raised inside to a list, instead of raising it."""
    try:
        yield
    except InputError as error:
        problems += [prefix + problem for problem in error.problems]


@contextlib.contextmanager
def named(where: str) -> Iterator[None]:
    """Put the name of a file before each problem of what is read from it."""
    try:
        yield
    except InputError as error:
        raise InputError(*(f"{where}: {problem}" for problem in error.problems)) from None


def together(*makers: Callable[[], Any]) -> list[Any]:
    """Call each maker; return all results, or raise one `InputError` with every problem, each once."""
    results: list[Any] = []
    problems: list[str] = []
    for make in makers:
        with collecting(problems):
            results.append(make())
    refuse(dict.fromkeys(problems))
    return results


def listed(names: Iterable[str]) -> str:
    """Return the names as in ``'a', 'b' or 'c'``."""
    quoted = [f"'{name}'" for name in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else quoted[0]


def above_zero(**values: Any) -> Iterator[str]:
    """Yield a problem for each value that is not above 0 and finite."""
    for name, value in values.items():
        if not (_is_number(value) and 0 < value < math.inf):
            yield f"{name} must be above 0 and finite, got {value!r}"


def at_least_zero(**values: Any) -> Iterator[str]:
    """Yield a problem for each value that is negative or not finite."""
    for name, value in values.items():
        if not (_is_number(value) and 0 <= value < math.inf):
            yield f"{name} must be at least 0 and finite, got {value!r}"


def below_one(**values: Any) -> Iterator[str]:
    """Yield a problem for each value that is negative, or 1 or more."""
    for name, value in values.items():
        if not (_is_number(value) and 0 <= value < 1):
            yield f"{name} must be at least 0 and below 1, got {value!r}"


def whole(least: int = 1, **values: Any) -> Iterator[str]:
    """Yield a problem for each value that is not a whole number of at least `least`."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            yield f"{name} must be a whole number of at least {least}, got {value!r}"
        elif value >= COUNTS_BELOW:
            yield f"{name} must be below 2^31, got {shown(value)}"


def typed(kind: type[Any] | tuple[type[Any], ...], what: str, **values: Any) -> Iterator[str]:
    """Yield a problem for each value of another type; `what` says in words what it must be."""
    for name, value in values.items():
        if not isinstance(value, kind):
            yield f"{name} must be {what}, got {shown(value)}"


def path_of(argument: str, value: str | os.PathLike[str]) -> Path:
    """Return an argument as a path, or refuse what cannot be one."""
    refuse(typed((str, os.PathLike), "a path", **{argument: value}))
    try:
        usable = os.fsencode(value) != b"" and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise InputError(f"{argument} must be a path that this system can have, got {shown(value)}")
    return Path(value)


def shown(value: object) -> str:
    """Return a value as text of one line, at most about 60 characters long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # a whole number of thousands of digits
        text = f"{type(value).__name__} of more digits than can be shown"
    return text if len(text) <= 60 else f"{text[:50]} … ({type(value).__name__})"


def _is_number(value: object) -> bool:
    try:
        math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return False
    return not isinstance(value, bool)


# --- entries of documents ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Entry:
    """What a value of a document must be.

    Attributes
    ----------
    types, what
        The types of the value, and their name in messages. True is not a number.
    low, high
        The bounds of a number, which must be finite.
    of
        What the values of a list or of a table must be; or the entries of a table by name.
    names
        The texts that are allowed, if not all are.
    length
        The length of a list, if it is fixed.
    optional
        Whether it may be missing or null.
    """

    types: tuple[type, ...]
    what: str
    low: float = -math.inf
    high: float = math.inf
    of: Entry | Mapping[str, Entry] | None = None
    names: tuple[str, ...] = ()
    length: int | None = None
    optional: bool = False

    def or_none(self) -> Entry:
        """Return an entry that may also be missing or null."""
        return dataclasses.replace(self, optional=True)

    def problems(self, name: str, value: Any) -> Iterator[str]:
        """Yield a sentence for each problem of a value."""
        if value is None and self.optional:
            return
        if not self._allows(value):
            yield f"{name} must be {self.what}, got {shown(value)}"
        elif isinstance(self.of, Mapping):
            yield from _problems(value, self.of, f"{name}.")
        elif self.of is not None and isinstance(value, dict | list | tuple):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                yield from self.of.problems(f"{name}.{key}", item)

    def _allows(self, value: Any) -> bool:
        if not isinstance(value, self.types) or (isinstance(value, bool) and bool not in self.types):
            return False
        if isinstance(value, int | float):
            return self.low <= value <= self.high and abs(value) < math.inf
        if isinstance(value, list | tuple):
            return self.length in (None, len(value))
        return not self.names or value in self.names


def number(what: str = "a number", low: float = -math.inf, high: float = math.inf) -> Entry:
    """Return the entry of a number."""
    return Entry((int, float), what, low, high)


def whole_number(low: int = 0) -> Entry:
    """Return the entry of a whole number."""
    return Entry((int,), f"a whole number of at least {low}", low)


def listed_of(of: Entry | None = None, length: int | None = None) -> Entry:
    """Return the entry of a list, of any length or of a given one."""
    return Entry((list, tuple), "a list" if length is None else f"a list of {length}", of=of, length=length)


def table_of(of: Entry | Mapping[str, Entry] | None = None) -> Entry:
    """Return the entry of a table."""
    return Entry((dict,), "a table", of=of)


def one_of(names: Iterable[str]) -> Entry:
    """Return the entry of a name."""
    known = tuple(names)
    return Entry((str,), listed(known), names=known)


TEXT = Entry((str,), "text")
FLAG = Entry((bool,), "true or false")
NUMBER = number()
POSITIVE = number("above 0", low=math.ulp(0))
AT_LEAST_0 = number("at least 0", low=0)


def read_entries(document: Mapping[str, Any], entries: Mapping[str, Entry]) -> dict[str, Any]:
    """Return the entries of a document, None for those that may be missing; refuse wrong ones, all together.

    Other keys are left out: later versions may add some.
    """
    refuse(_problems(document, entries))
    return {name: document.get(name) for name in entries}


def _problems(document: Mapping[str, Any], entries: Mapping[str, Entry], before: str = "") -> Iterator[str]:
    for name, entry in entries.items():
        if name not in document and not entry.optional:
            yield f"{before}{name} is missing"
        else:
            yield from entry.problems(f"{before}{name}", document.get(name))
