"""What a field of a description is: its default, bounds, unit and help, said once and used at every edge.

A description is a dataclass whose fields are made by `parameter`. The option of the command line, the key
in TOML and JSON, the column of a record, the entry in a run's key, the row of the reference page and the
sentence about a value that is not allowed are all made from the same `Parameter`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

from denseam.errors import InputError, listed

_METADATA = "denseam"


class Kind(enum.Enum):
    """What the values of a parameter are; the value of a member is how help pages call it."""

    NUMBER = "number"
    WHOLE = "whole number"
    FLAG = "true or false"
    CHOICE = "name"
    TEXT = "text"
    WORDS = "names with commas"
    NUMBERS = "low:high:count, or numbers with commas"
    WHOLES = "whole numbers with commas"
    SEEDS = "how many, or which with commas"
    #: Checked by the description itself.
    OBJECT = "text or object"


class Part(enum.Enum):
    """What a parameter is about; help pages group by it."""

    MODEL = "model"
    DATA = "data"
    TRAINING = "training"
    GROWTH = "what grows"
    SWEEP = "what is swept and measured"
    EXECUTOR = "where it runs"


class InKey(enum.Enum):
    """When a parameter is a part of a run's key.

    A key must change exactly if the result does. So whatever is added to a description enters the key only
    where it is not at its default, and runs that were trained before it existed keep their keys.
    """

    ALWAYS = "always"
    IF_SET = "if set"
    NEVER = "never"


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One field of a description.

    Attributes
    ----------
    name
        The name of the field; that of its column in records and of its axis.
    document
        Its key in TOML and JSON; with dashes, its option on the command line.
    part, kind, help
        What it is about, what its values are, and a line for people.
    default
        The value where none is given; None where it follows from other fields.
    default_text
        How the default is shown, where it follows from other fields.
    low, high, open_low, open_high
        Bounds, and whether a bound itself is excluded.
    choices
        The names that are allowed.
    unit
        What one unit of it is.
    swept
        Whether several values can be tried.
    belongs
        The field and the value of it that this one belongs to, as in ('optimizer', 'sgd').
    key
        When it is a part of a run's key.
    off
        The name of the opposite of a flag.
    """

    part: Part
    kind: Kind
    help: str
    name: str = ""
    document: str = ""
    default: Any = None
    required: bool = False
    default_text: str = ""
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = True
    choices: tuple[str, ...] = ()
    unit: str = ""
    swept: bool = False
    belongs: tuple[str, str] | None = None
    key: InKey = InKey.IF_SET
    off: str = ""

    @property
    def option(self) -> str:
        """The option of the command line."""
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
        """Return the sentence about a value that is not allowed."""
        return f"{self.document} must be {self.requirement}, got {value!r}"

    def parse(self, text: str) -> Any:
        """Return the plain value that a word of the command line stands for; `read` checks it."""
        if self.kind is Kind.NUMBER:
            return _number(text)
        if self.kind in (Kind.WHOLE, Kind.SEEDS):
            number = _number(text)
            return number if isinstance(number, int) else text
        return text

    def read(self, value: Any) -> Any:
        """Return a value from a document or from Python in its own type, or refuse it."""
        match self.kind:
            case Kind.NUMBER:
                if not _is_number(value) or not self._inside(value):
                    raise InputError(self.problem(value))
                return float(value)
            case Kind.WHOLE:
                if not _is_whole(value) or not self._inside(value):
                    raise InputError(self.problem(value))
                return int(value)
            case Kind.FLAG:
                if not isinstance(value, bool):
                    raise InputError(self.problem(value))
                return value
            case Kind.CHOICE:
                if value not in self.choices:
                    raise InputError(self.problem(value))
                return value
            case Kind.TEXT:
                if not isinstance(value, str):
                    raise InputError(self.problem(value))
                return value
            case Kind.WORDS:
                return self._words(value)
            case Kind.NUMBERS:
                return self._numbers(value)
            case Kind.WHOLES:
                return self._wholes(value)
            case Kind.SEEDS:
                return self._seeds(value)
            case Kind.OBJECT:
                return value

    def _inside(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below  # false for NaN

    def _words(self, value: Any) -> tuple[str, ...]:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
            raise InputError(self.problem(value))
        return tuple(word.strip() for word in words if word.strip())

    def _numbers(self, value: Any) -> tuple[float, ...]:
        grid = grid_values(self.document, value)
        problems = _order_problems(self.document, grid)
        bad = [v for v in grid if not self._inside(v)]
        if bad:
            problems.append(self.problem(bad[0]))
        if problems:
            raise InputError(*problems)
        return grid

    def _wholes(self, value: Any) -> tuple[int, ...]:
        grid = grid_values(self.document, value)
        if not all(v.is_integer() for v in grid):
            raise InputError(self.problem(value))
        problems = _order_problems(self.document, grid)
        if not problems and not all(map(self._inside, grid)):
            problems.append(
                f"{self.document} must be whole numbers of at least {self.low:g}, got {short(grid)}"
            )
        if problems:
            raise InputError(*problems)
        return tuple(map(int, grid))

    def _seeds(self, value: Any) -> tuple[int, ...]:
        many = [*range(value)] if _is_whole(value) else grid_values(self.document, value)
        if not many or len(set(many)) < len(many) or not all(v >= 0 and v % 1 == 0 for v in many):
            raise InputError(
                f"{self.document} must be at least one, none below 0 and none twice, got {value!r}"
            )
        return tuple(map(int, many))


def parameter(
    part: Part,
    kind: Kind,
    help: str,
    default: Any = dataclasses.MISSING,
    *,
    factory: Any = None,
    **facts: Any,
) -> Any:
    """Return a dataclass field that carries its description; without a default it is required."""
    required = default is dataclasses.MISSING and factory is None
    described = Parameter(part, kind, help, required=required, default=None if required else default, **facts)
    if factory is not None:
        described = dataclasses.replace(described, default=factory())
        return dataclasses.field(default_factory=factory, metadata={_METADATA: described})
    return dataclasses.field(default=default, metadata={_METADATA: described})


@functools.cache
def parameters(description: Any) -> dict[str, Parameter]:
    """Return the parameters of a description by the names of their fields."""
    found = {
        f.name: f.metadata[_METADATA] for f in dataclasses.fields(description) if _METADATA in f.metadata
    }
    return {name: dataclasses.replace(p, name=name, document=p.document or name) for name, p in found.items()}


def read_fields(description: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a description as they were read, and a sentence for each that is not allowed.

    A field may be None where None is its default.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    kind: Any = type(description)
    for name, described in parameters(kind).items():
        value = getattr(description, name)
        if value is None and described.default is None and not described.required:
            continue
        try:
            values[name] = described.read(value)
        except InputError as error:
            problems += error.problems
    return values, problems


def check_fields(description: Any) -> None:
    """Refuse a frozen description whose fields are not allowed; put what was read into its fields."""
    values, problems = read_fields(description)
    if problems:
        raise InputError(*problems)
    for name, value in values.items():
        object.__setattr__(description, name, value)


def logspace(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return values from low to high that are evenly spaced in their logarithm."""
    problems = []
    if not (_is_number(low) and _is_number(high) and 0 < low < math.inf and 0 < high < math.inf):
        problems.append(f"low and high must be above 0 and finite, got {low!r} and {high!r}")
    if not _is_whole(count) or count < 1:
        problems.append(f"count must be a whole number of at least 1, got {count!r}")
    if problems:
        raise InputError(*problems)
    if count == 1:
        return (float(f"{low:.12g}"),)
    start, step = math.log10(low), (math.log10(high) - math.log10(low)) / (count - 1)
    inner = [10 ** (start + i * step) for i in range(1, count - 1)]
    # Rounded to twelve digits, so that a grid written in a file and one made here have the same keys.
    return tuple(float(f"{v:.12g}") for v in (low, *inner, high))


def grid_values(name: str, given: Any) -> tuple[float, ...]:
    """Read a grid: ``1e-3:1:13`` (log-spaced), ``0.1,0.2``, a number, or a list of numbers."""
    problem = f"{name} must be {Kind.NUMBERS.value}, got {given!r}"
    if isinstance(given, str):
        ends = [_number(word) for word in given.split(":")]
        if len(ends) == 3 and all(map(_is_number, ends)):
            try:
                return logspace(*ends)  # type: ignore[arg-type]  # checked there
            except InputError as error:
                raise InputError(*(f"{name}: {p}" for p in error.problems)) from None
        given = [_number(word) for word in given.split(",") if word.strip()]
    values = [given] if _is_number(given) else given
    if not isinstance(values, Iterable) or not all(map(_is_number, values := list(values))):
        raise InputError(problem)
    return tuple(float(v) for v in values)


def short(values: Sequence[float]) -> str:
    """Return the first few of many numbers."""
    shown = ", ".join(f"{v:g}" for v in values[:8])
    return shown + (", …" if len(values) > 8 else "")


def _order_problems(name: str, values: Sequence[float]) -> list[str]:
    if not len(values):
        return [f"{name} must not be empty"]
    if len(set(values)) < len(values):
        return [f"{name} must not hold a value twice, got {short(values)}"]
    if list(values) != sorted(values):
        return [f"{name} must rise, got {short(values)}"]
    return []


def _number(text: str) -> int | float | str:
    """Return the number that a text is; the text itself if it is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_number(value: Any) -> bool:
    """Whether a value is a number; numpy's are, True is not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
