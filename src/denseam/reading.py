"""The one boundary for documents that are read: JSON and TOML, their size, nesting, types and bounds.

A document may come from anywhere. What passes here is plain data of known types; everything else is an
`InputError` with one sentence for each problem. (Fields of a study are read by `denseam.rules.fields`.)
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from denseam.errors import InputError, listed, refuse, shown

#: The largest document, in bytes, and the deepest: those of this library have five levels.
MOST_BYTES, MOST_LEVELS = 64 << 20, 32


@contextlib.contextmanager
def named(where: str) -> Iterator[None]:
    """Put the name of a file before each problem of what is read from it."""
    try:
        yield
    except InputError as error:
        raise InputError(*(f"{where}: {problem}" for problem in error.problems)) from None


def text_of(path: Path) -> str:
    """Return a text file; refuse one that is not UTF-8, or too large for a document."""
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise InputError(f"larger than {MOST_BYTES >> 20} MiB, so not a document of this library")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not text in UTF-8 (byte {error.start})") from None


def json_value(text: str | bytes) -> Any:
    """Return the value of a JSON text."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise InputError("nested too deeply") from None
    except ValueError as error:
        raise InputError(f"not JSON ({error})") from None
    _check_nesting(value)
    return value


def json_table(text: str | bytes) -> dict[str, Any]:
    """Return the table in a JSON text."""
    value = json_value(text)
    if not isinstance(value, dict):
        raise InputError("not a document of this library")
    return value


def toml_table(text: str) -> dict[str, Any]:
    """Return the table in a TOML text."""
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise InputError("nested too deeply") from None
    except ValueError as error:
        raise InputError(f"not TOML ({error})") from None
    _check_nesting(table)
    return table


def _check_nesting(value: Any) -> None:
    level = [value]
    for _ in range(MOST_LEVELS):
        inner = [v for v in level if isinstance(v, dict | list)]
        level = [w for v in inner for w in (v.values() if isinstance(v, dict) else v)]
        if not level:
            return
    raise InputError("nested too deeply")


# --- entries ---------------------------------------------------------------------------------------


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
        elif self.of is not None and isinstance(value, dict | list):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                yield from self.of.problems(f"{name}.{key}", item)

    def _allows(self, value: Any) -> bool:
        if not isinstance(value, self.types) or (isinstance(value, bool) and bool not in self.types):
            return False
        if isinstance(value, int | float):
            return self.low <= value <= self.high and abs(value) < math.inf
        if isinstance(value, list):
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
    return Entry((list,), "a list" if length is None else f"a list of {length}", of=of, length=length)


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
