"""Numbers for people, on a terminal and on a page."""

from __future__ import annotations


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with a few digits, or 'none'."""
    return "none" if value is None else f"{value:.{digits}g}"


def duration(seconds: float) -> str:
    """Return a time in a suitable unit."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def quantity(value: float, unit: str) -> str:
    """Return a number with a suitable prefix of its unit."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def unbroken(text: str) -> str:
    """Return a text whose per-cent signs stay on the line of their number."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")
