"""Powers of the sizes: exponents as data."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction

from denseam.ground.errors import InputError, refuse, shown, typed
from denseam.rules.regimes import REGIMES, RegimeName
from denseam.rules.sizes import WORDS, Shape

#: The larger of K and N, as it is written, and with spaces left out as `Power.parse` reads it.
LARGER = "max(K, N)"
#: How a factor is written → the field of its exponent.
_FIELDS = {**{letter: letter for letter in WORDS}, LARGER.replace(" ", ""): "larger"}


#: The largest exponent: sizes are below 2³¹, so that a power of each is finite.
LARGEST = 16


@dataclass(frozen=True)
class Power:
    """A product of powers of the sizes, ``N^n K^k P^p B^b E^e T^t max(K, N)^m``, also with fractions."""

    N: Fraction | float = 0
    K: Fraction | float = 0
    P: Fraction | float = 0
    B: Fraction | float = 0
    #: The exponent of max(K, N), the longer side of W.
    larger: Fraction | float = 0
    E: Fraction | float = 0
    T: Fraction | float = 0

    def __post_init__(self) -> None:
        exponents = {f.name: getattr(self, f.name) for f in fields(self)}
        refuse(typed(numbers.Real, "a number or a fraction, the exponent", **exponents))
        refuse(
            f"the exponent of {name} must be from -{LARGEST} to {LARGEST}, got {shown(exponent)}"
            for name, exponent in exponents.items()
            if not abs(exponent) <= LARGEST
        )

    def at(self, shape: Shape) -> float:
        """Return the value at a shape."""
        refuse(typed(Shape, "a Shape", shape=shape))
        value = 1.0
        for name, exponent in self._exponents():
            size = max(shape.K, shape.N) if name == "larger" else getattr(shape, name)
            if size is None:
                raise InputError(f"{WORDS[name]} ({name}) is needed by the rule {self}")
            value *= float(size) ** float(exponent)
        return value

    def along(self, regime: RegimeName) -> Fraction | float:
        """Return the exponent of the scale in a regime: the sum over all sizes that grow with it.

        max(K, N) grows with K; where only the memories grow, from K = N on.
        """
        grows = REGIMES[regime].grows
        larger = self.larger if "K" in grows else 0
        return sum((getattr(self, letter) for letter in grows), start=larger + Fraction(0))

    def __mul__(self, other: Power) -> Power:
        return Power(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __truediv__(self, other: Power) -> Power:
        return self * other ** (-1)

    def __pow__(self, k: Fraction | int) -> Power:
        return Power(*(getattr(self, f.name) * k for f in fields(self)))

    @classmethod
    def from_json(cls, document: Mapping[str, str]) -> Power:
        """Read the exponents of a document, by their fields."""
        known = {f.name for f in fields(cls)}
        try:
            refuse(f"{name!r} is not a size" for name in document if name not in known)
            return cls(**{name: Fraction(text) for name, text in document.items()})
        except (ValueError, ZeroDivisionError) as error:
            raise InputError(f"{shown(document)} is not a power of the sizes ({error})") from None

    @classmethod
    def parse(cls, text: str) -> Power:
        """Read what `str` writes, as in ``N^-1/2·K``, ``N^0.5*K^-1``, ``max(K, N)^1/2`` or ``1``."""
        power = cls()
        for factor in text.replace("*", "·").replace(" ", "").split("·"):
            letter, _, exponent = factor.partition("^")
            try:
                if letter in _FIELDS:
                    power *= cls(**{_FIELDS[letter]: Fraction(exponent or 1)})
                    continue
            except (ValueError, ZeroDivisionError):
                pass
            if factor != "1":
                raise InputError(
                    f"{text!r} must be a product of powers of {', '.join(WORDS)} or {LARGER}, "
                    "as in N^-1/2·K, or 1"
                )
        return power

    def _exponents(self) -> list[tuple[str, Fraction | float]]:
        return [(f.name, e) for f in fields(self) if (e := getattr(self, f.name)) != 0]

    def __str__(self) -> str:
        written = ((LARGER if name == "larger" else name, e) for name, e in self._exponents())
        return "·".join(name if e == 1 else f"{name}^{exponent_text(e)}" for name, e in written) or "1"


def exponent_text(e: Fraction | float) -> str:
    """Return an exponent as a fraction if it is a simple one, otherwise as a decimal."""
    nearest = Fraction(e).limit_denominator(8)
    return str(nearest) if abs(float(nearest) - float(e)) < 1e-9 else repr(float(e))


ONE = Power()
