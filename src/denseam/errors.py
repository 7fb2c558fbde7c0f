"""Bad input, reported in one line that names the argument and what is allowed."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
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


class UnprescribedWarning(UserWarning):
    """The theory gives no rule for this combination; transfer is not expected."""


class UnboundedEnergyWarning(UserWarning):
    """The energy of this model has no lower bound; recall may diverge."""


class DataWarning(UserWarning):
    """Data is badly scaled, or unlike that of training; the result may mean little."""


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


def together(*makers: Callable[[], Any]) -> list[Any]:
    """Call each maker; return all results, or raise one `InputError` with every problem."""
    results: list[Any] = []
    problems: list[str] = []
    for make in makers:
        with collecting(problems):
            results.append(make())
    refuse(problems)
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
        usable = b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise InputError(f"{argument} must be a path that this system can encode, got {shown(value)}")
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
