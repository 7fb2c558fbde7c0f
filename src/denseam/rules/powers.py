"""Powers of the sizes: exponents as data."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, fields
from fractions import Fraction

from denseam.errors import InputError, refuse, typed
from denseam.rules.regimes import REGIMES, RegimeName
from denseam.rules.sizes import WORDS, Shape


@dataclass(frozen=True)
class Power:
    """A product of powers of the sizes, ``N^n K^k P^p B^b``; exponents may be fractions."""

    N: Fraction | float = 0
    K: Fraction | float = 0
    P: Fraction | float = 0
    B: Fraction | float = 0

    def __post_init__(self) -> None:
        exponents = {name: getattr(self, name) for name in WORDS}
        refuse(typed(numbers.Real, "a number or a fraction, the exponent", **exponents))

    def at(self, shape: Shape) -> float:
        """Return the value at a shape."""
        refuse(typed(Shape, "a Shape", shape=shape))
        value = 1.0
        for name, exponent in self._exponents():
            size = getattr(shape, name)
            if size is None:
                raise InputError(f"{WORDS[name]} ({name}) is needed by the rule {self}")
            value *= float(size) ** float(exponent)
        return value

    def along(self, regime: RegimeName) -> Fraction | float:
        """Return the exponent of the scale in a regime: the sum over all sizes that grow with it."""
        return sum((getattr(self, letter) for letter in REGIMES[regime].grows), start=Fraction(0))

    def __mul__(self, other: Power) -> Power:
        return Power(self.N + other.N, self.K + other.K, self.P + other.P, self.B + other.B)

    def __truediv__(self, other: Power) -> Power:
        return self * other ** (-1)

    def __pow__(self, k: int) -> Power:
        return Power(self.N * k, self.K * k, self.P * k, self.B * k)

    @classmethod
    def parse(cls, text: str) -> Power:
        """Read what `str` writes, as in ``N^-1/2·K`` or ``N^0.5*K^-1`` or ``1``."""
        power = cls()
        for factor in text.replace("*", "·").replace(" ", "").split("·"):
            letter, _, exponent = factor.partition("^")
            try:
                if letter in WORDS:
                    power *= cls(**{letter: Fraction(exponent or 1)})
                    continue
            except (ValueError, ZeroDivisionError):
                pass
            if factor != "1":
                raise InputError(f"{text!r} must be a product of powers of N, K, P, B, as in N^-1/2·K, or 1")
        return power

    def _exponents(self) -> list[tuple[str, Fraction | float]]:
        return [(f.name, e) for f in fields(self) if (e := getattr(self, f.name)) != 0]

    def __str__(self) -> str:
        factors = [name if e == 1 else f"{name}^{exponent_text(e)}" for name, e in self._exponents()]
        return "·".join(factors) or "1"


def exponent_text(e: Fraction | float) -> str:
    """Return an exponent as a fraction if it is a simple one, otherwise as a decimal."""
    nearest = Fraction(e).limit_denominator(8)
    return str(nearest) if abs(float(nearest) - float(e)) < 1e-9 else repr(float(e))


ONE = Power()
