"""What the predictions can be asked for: a sentence for each number that is out of range."""

from __future__ import annotations

import math
from collections.abc import Iterator


def above_zero(**given: float) -> Iterator[str]:
    """Yield a problem for each value that is not above 0 and finite."""
    for name, value in given.items():
        if not (_is_number(value) and 0 < value < math.inf):
            yield f"{name} must be above 0 and finite, got {value!r}"


def at_least_zero(**given: float) -> Iterator[str]:
    """Yield a problem for each value that is negative or not finite."""
    for name, value in given.items():
        if not (_is_number(value) and 0 <= value < math.inf):
            yield f"{name} must be at least 0 and finite, got {value!r}"


def whole(least: int = 1, **given: int) -> Iterator[str]:
    """Yield a problem for each value that is not a whole number of at least `least`."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            yield f"{name} must be a whole number of at least {least}, got {value!r}"


def _is_number(value: object) -> bool:
    try:
        math.isfinite(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return not isinstance(value, bool)
