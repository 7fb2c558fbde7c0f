"""What a field of a description is: its default, bounds, unit and help, stated once.

A description is a dataclass whose fields are made by `parameter`. The command-line option, the key in TOML
and JSON, the column of a record, the entry in a run's key, the row of the reference page and the message
about an invalid value are all derived from the same `Parameter`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import numbers
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from denseam.ground.errors import COUNTS_BELOW, InputError, above_zero, listed, refuse, shown

_METADATA = "denseam"

SEEDS_BELOW = 2**32
#: Numbers that are no counts are at most this, so that products of a few of them are finite; and 0 or at
#: least that, since smaller ones are 0 in float32.
LARGEST, SMALLEST = 1e30, 1e-30
#: The most values of a grid, and the most seeds.
MOST_VALUES = 10_000


class Kind(enum.Enum):
    """What the values of a parameter are; the value of a member is its name on help pages."""

    NUMBER = "number"
    WHOLE = "whole number"
    FLAG = "true or false"
    CHOICE = "name"
    TEXT = "text"
    WORDS = "comma-separated names"
    NUMBERS = "low:high:count, or comma-separated numbers"
    WHOLES = "comma-separated whole numbers"
    SEEDS = "a count, or comma-separated seeds"
    #: Checked by the description itself.
    OBJECT = "text or object"


class Needed(enum.Enum):
    """The value of a field that was not given and has no default."""

    NEEDED = "needed"

    def __repr__(self) -> str:
        return self.value


NEEDED = Needed.NEEDED


def is_given(value: Any) -> bool:
    """Return whether a field that has no default was given."""
    return value is not NEEDED


class Part(enum.Enum):
    """What a parameter is about; help pages group by it."""

    MODEL = "model"
    DATA = "data"
    TRAINING = "training"
    GROWTH = "what grows"
    SWEEP = "what is swept and measured"
    EXECUTOR = "where it runs"


class InKey(enum.Enum):
    """When a parameter is part of a run's key.

    A key must change exactly if the result does. So a new parameter enters the key only where it differs from
    its default, and runs that were trained before it existed keep their keys.
    """

    ALWAYS = "always"
    IF_SET = "if set"
    NEVER = "never"


class Spacing(enum.Enum):
    """The coordinate in which the values of a parameter are compared."""

    #: x = log10(value).
    LOG = "the value, on a log scale"
    #: x = log10(1 - value).
    FROM_ONE = "the distance from 1, on a log scale"
    #: x = (value - low) / (high - low).
    LINEAR = "the value"


@dataclasses.dataclass(frozen=True)
class Span:
    """The values among which a parameter is tuned: a lattice x = k·step of its coordinate x.

    Attributes
    ----------
    low, high
        The smallest and the largest value.
    spacing
        The coordinate.
    step
        The distance of two neighbours, as a coordinate.
    relative
        Whether values are multiples of the one that the user gives.
    """

    low: float
    high: float
    spacing: Spacing = Spacing.LOG
    step: float = 1 / 8
    relative: bool = False

    def value(self, x: float) -> float:
        """Return the value of a coordinate, to twelve digits, so that it has one key."""
        match self.spacing:
            case Spacing.LOG:
                value = 10**x
            case Spacing.FROM_ONE:
                value = 1 - float(f"{10**x:.12g}")
            case Spacing.LINEAR:
                value = self.low + x * (self.high - self.low)
        return float(f"{value:.12g}")

    def coordinate(self, value: float) -> float:
        """Return the coordinate of a value; minus infinity where it has none, as the logarithm of 0."""
        if self.spacing is Spacing.LINEAR:
            return (value - self.low) / (self.high - self.low)
        size = value if self.spacing is Spacing.LOG else 1 - value
        return math.log10(size) if size > 0 else -math.inf

    @property
    def lattice(self) -> tuple[int, int]:
        """The first and the last k of the lattice."""
        ends = sorted(self.coordinate(value) / self.step for value in (self.low, self.high))
        return math.ceil(ends[0] - 1e-9), math.floor(ends[1] + 1e-9)

    def rounded(self, x: float) -> float:
        """Return the value of a coordinate as it is recommended: to three digits, of its distance from 1."""
        value = self.value(x)
        if self.spacing is Spacing.FROM_ONE:
            return float(f"{1 - float(f'{1 - value:.3g}'):.12g}")
        return float(f"{value:.3g}")


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One field of a description."""

    part: Part
    kind: Kind
    help: str
    #: The name of the field, of its column in records and of its axis.
    name: str = ""
    #: Its key in TOML and JSON; with dashes, its command-line option.
    document: str = ""
    #: The default value, None if it follows from other fields; `default_text` is then shown.
    default: Any = None
    required: bool = False
    default_text: str = ""
    #: Bounds, and whether a bound itself is excluded.
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = True
    #: The allowed names.
    choices: tuple[str, ...] = ()
    unit: str = ""
    #: Whether it can be swept, and whether its smaller values are the bolder ones, which may diverge.
    swept: bool = False
    bold_below: bool = False
    #: The field, and the values of that field of which this one requires one, as in ('optimizer', 'sgd').
    belongs: tuple[str, ...] | None = None
    key: InKey = InKey.IF_SET
    #: The name of the opposite of a flag.
    off: str = ""
    #: The values among which it is tuned; None if it cannot be.
    span: Span | None = None

    @property
    def option(self) -> str:
        """The command-line option."""
        return f"--{self.document.replace('_', '-')}"

    @property
    def requirement(self) -> str:
        """What a value must be, as in 'above 0 and finite'."""
        if self.kind is Kind.CHOICE:
            return listed(self.choices)
        if self.kind not in (Kind.NUMBER, Kind.WHOLE, Kind.NUMBERS):
            return str(self.kind.value)
        bounds = []
        if self.low > -math.inf:
            bounds.append(f"{'above' if self.open_low else 'at least'} {self.low:g}")
        if self.high < math.inf:
            bounds.append(f"{'below' if self.open_high else 'at most'} {self.high:g}")
        elif self.kind is not Kind.WHOLE:
            bounds.append("finite")
        if self.kind is Kind.WHOLE:
            return " of ".join(["a whole number", *bounds[:1]]) + "".join(f" and {b}" for b in bounds[1:])
        return " and ".join(bounds)

    def default_shown(self) -> str:
        """Return the default as help pages show it; '' if there is none."""
        if self.default_text or self.required or self.default in (None, ()):
            return self.default_text
        if self.kind is Kind.FLAG:
            return "yes" if self.default else "no"
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    def problem(self, value: Any) -> str:
        """Return the message about an invalid value."""
        return f"{self.document} must be {self.requirement}, got {shown(value)}"

    def belonging_problem(self, value: str) -> str:
        """Return the message about a parameter that belongs to another model, optimizer or schedule."""
        assert self.belongs is not None
        field, *wanted = self.belongs
        return f"{self.document} belongs to the {field} {listed(wanted)}, got {value!r}"

    @property
    def of_one(self) -> Parameter:
        """The parameter with one value instead of several to try."""
        return dataclasses.replace(self, kind=Kind.NUMBER, swept=False) if self.swept else self

    def parse(self, text: str) -> Any:
        """Return the plain value of a command-line argument; `read` checks it."""
        if self.kind is Kind.NUMBER:
            return _number(text)
        if self.kind in (Kind.WHOLE, Kind.SEEDS):
            number = _number(text)
            return number if isinstance(number, int) else text
        return text

    def read(self, value: Any) -> Any:
        """Return a value from a document or from Python, converted to its own type, or refuse it."""
        match self.kind:
            case Kind.WORDS:
                return self._words(value)
            case Kind.NUMBERS:
                return self._numbers(value)
            case Kind.WHOLES:
                return self._wholes(value)
            case Kind.SEEDS:
                return self._seeds(value)
        if not self._allows(value):
            raise InputError(self.problem(value))
        refuse(self._excess(value))
        return {Kind.NUMBER: float, Kind.WHOLE: int}.get(self.kind, lambda v: v)(value)

    def _allows(self, value: Any) -> bool:
        match self.kind:
            case Kind.NUMBER:
                return _is_number(value) and self._inside(value)
            case Kind.WHOLE:
                return _is_whole(value) and self._inside(value)
            case Kind.FLAG:
                return isinstance(value, bool)
            case Kind.CHOICE:
                return value in self.choices
            case Kind.TEXT:
                return isinstance(value, str)
        return True

    def _excess(self, value: Any) -> Iterator[str]:
        """Yield the problem of a value of the right type that is larger, or closer to 0, than makes sense."""
        if self.kind in (Kind.WHOLE, Kind.WHOLES) and value >= COUNTS_BELOW:
            yield f"{self.document} must be below 2^31, got {shown(value)}"
        elif self.kind in (Kind.NUMBER, Kind.NUMBERS) and abs(value) > LARGEST:
            yield f"{self.document} must be at most {LARGEST:g}, got {shown(value)}"
        elif self.kind in (Kind.NUMBER, Kind.NUMBERS) and 0 < abs(value) < SMALLEST:
            either = "" if self.open_low else "0 or "
            yield f"{self.document} must be {either}at least {SMALLEST:g}, got {shown(value)}"
        elif self.kind is Kind.TEXT and not _is_line(value):
            yield f"{self.document} must be one line of text that UTF-8 can encode, got {shown(value)}"

    def _inside(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below  # false for NaN

    def _words(self, value: Any) -> tuple[str, ...]:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, Sequence) or not all(isinstance(w, str) and _is_line(w) for w in words):
            raise InputError(self.problem(value))
        return tuple(word.strip() for word in words if word.strip())

    def _numbers(self, value: Any) -> tuple[float, ...]:
        grid = grid_values(self.document, value)
        problems = _order_problems(self.document, grid)
        bad = [v for v in grid if not self._inside(v)]
        if bad:
            problems.append(self.problem(bad[0]))
        ends = dict.fromkeys([*[v for v in grid if v][:1], *grid[-1:]])  # they are in increasing order
        refuse([*problems, *(excess for v in ends for excess in self._excess(v))])
        return grid

    def _wholes(self, value: Any) -> tuple[int, ...]:
        grid = grid_values(self.document, value, self.kind)
        if not all(v.is_integer() for v in grid):
            raise InputError(self.problem(value))
        problems = _order_problems(self.document, grid)
        if not problems and not all(map(self._inside, grid)):
            problems.append(
                f"{self.document} must be whole numbers of at least {self.low:g}, got {short(grid)}"
            )
        refuse(problems or [*self._excess(max(grid))])
        return tuple(map(int, grid))

    def _seeds(self, value: Any) -> tuple[int, ...]:
        if _is_whole(value) and value > MOST_VALUES:
            raise InputError(f"{self.document} must be at most {MOST_VALUES}, got {shown(value)}")
        seeds = [*range(value)] if _is_whole(value) else grid_values(self.document, value)
        if not seeds or len(set(seeds)) < len(seeds) or not all(v >= 0 and v % 1 == 0 for v in seeds):
            raise InputError(
                f"{self.document} must be one or more distinct whole numbers of at least 0, got "
                f"{shown(value)}"
            )
        if max(seeds) >= SEEDS_BELOW:
            raise InputError(f"{self.document} must be below 2^32, got {max(seeds):g}")
        return tuple(map(int, seeds))


def parameter(part: Part, kind: Kind, help: str, default: Any = dataclasses.MISSING, **facts: Any) -> Any:
    """Return a dataclass field with its `Parameter`; without a default it is required."""
    required = default is dataclasses.MISSING
    described = Parameter(part, kind, help, required=required, default=None if required else default, **facts)
    return dataclasses.field(default=NEEDED if required else default, metadata={_METADATA: described})


@functools.cache
def parameters(description: Any) -> dict[str, Parameter]:
    """Return the parameters of a description by field name."""
    return {
        f.name: dataclasses.replace(p, name=f.name, document=p.document or f.name)
        for f in dataclasses.fields(description)
        if (p := f.metadata.get(_METADATA))
    }


def read_fields(description: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a description, converted by `Parameter.read`, and a message for each invalid one.

    A field may be None if None is its default.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    kind: Any = type(description)
    for name, described in parameters(kind).items():
        value = getattr(description, name)
        if not is_given(value):
            problems.append(f"{described.document} is needed")
            continue
        if value is None and described.default is None and not described.required:
            continue
        try:
            values[name] = described.read(value)
        except InputError as error:
            problems += error.problems
    return values, problems


def check_fields(description: Any) -> None:
    """Refuse a frozen description with invalid fields; set its fields to the converted values."""
    values, problems = read_fields(description)
    refuse(problems)
    for name, value in values.items():
        object.__setattr__(description, name, value)


def logspace(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return values from low to high, evenly spaced on a log scale."""
    problems = []
    if [*above_zero(low=low, high=high)]:
        problems.append(f"low and high must be above 0 and finite, got {low!r} and {high!r}")
    if not _is_whole(count) or not 1 <= count <= MOST_VALUES:
        problems.append(f"count must be a whole number from 1 to {MOST_VALUES}, got {count!r}")
    refuse(problems)
    if count == 1:
        return (float(f"{low:.12g}"),)
    start, step = math.log10(low), (math.log10(high) - math.log10(low)) / (count - 1)
    inner = [10 ** (start + i * step) for i in range(1, count - 1)]
    # Rounded to twelve digits, so that a grid written in a file and one made here have the same keys.
    return tuple(float(f"{v:.12g}") for v in (low, *inner, high))


def grid_values(name: str, grid: Any, kind: Kind = Kind.NUMBERS) -> tuple[float, ...]:
    """Read a grid: ``1e-3:1:13`` (log-spaced), ``0.1,0.2``, a number, or a list of numbers."""
    values = grid = grid.item() if getattr(grid, "shape", None) == () else grid  # a NumPy number
    if isinstance(grid, str):
        ends = [_number(word) for word in grid.split(":")]
        if len(ends) == 3 and all(map(_is_number, ends)):
            try:
                return logspace(*ends)  # type: ignore[arg-type]  # checked there
            except InputError as error:
                raise InputError(*(f"{name}: {p}" for p in error.problems)) from None
        values = [_number(word) for word in grid.split(",") if word.strip()]
    elif _is_number(grid):
        values = [grid]
    listed_values = list(values) if isinstance(values, Iterable) else [values]
    if not all(map(_is_number, listed_values)):
        raise InputError(f"{name} must be {kind.value}, got {shown(grid)}")
    if len(listed_values) > MOST_VALUES:
        raise InputError(f"{name} must be at most {MOST_VALUES} values, got {len(listed_values)}")
    try:
        return tuple(float(v) for v in listed_values)
    except OverflowError:
        raise InputError(f"{name} must be at most {LARGEST:g}, got {shown(grid)}") from None


def short(values: Sequence[float]) -> str:
    """Return the first eight numbers as text."""
    shown = ", ".join(f"{v:g}" for v in values[:8])
    return shown + (", …" if len(values) > 8 else "")


def _order_problems(name: str, values: Sequence[float]) -> list[str]:
    if not len(values):
        return [f"{name} must not be empty"]
    if len(set(values)) < len(values):
        return [f"{name} must not contain duplicates, got {short(values)}"]
    if list(values) != sorted(values):
        return [f"{name} must be in increasing order, got {short(values)}"]
    return []


def _number(text: str) -> int | float | str:
    """Return a text as a number if it is one, otherwise unchanged."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_line(text: str) -> bool:
    """Whether a text is one line that a file can hold: no control characters, no halves of characters."""
    return all(unicodedata.category(letter) not in ("Cc", "Cs") for letter in text)


def _is_number(value: Any) -> bool:
    """Whether a value is a number; NumPy's are, True is not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
