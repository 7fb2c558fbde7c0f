"""Bad input, said in one line that names the argument and what is allowed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class InputError(ValueError):
    """One or more problems with what was asked; nothing was done.

    Attributes
    ----------
    problems
        A sentence for each problem, each naming its argument.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class UnprescribedWarning(UserWarning):
    """The theory gives no rule for this combination; transfer is not expected."""


class UnboundedEnergyWarning(UserWarning):
    """The energy of this model has no lower bound; recall may run away."""


def refuse(problems: Iterable[str]) -> None:
    """Raise one `InputError` with all of the problems, if there are any."""
    found = tuple(problems)
    if found:
        raise InputError(*found)


@contextlib.contextmanager
def collecting(problems: list[str], prefix: str = "") -> Iterator[None]:
    """Add the problems of an `InputError` raised inside to a list, instead of raising it."""
    try:
        yield
    except InputError as error:
        problems += [prefix + problem for problem in error.problems]


def together(*makers: Callable[[], Any]) -> list[Any]:
    """Call each maker; return all results, or raise one `InputError` with every problem found."""
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
