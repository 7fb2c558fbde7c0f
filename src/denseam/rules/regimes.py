"""Which sizes grow, and how the others follow: a regime maps one scale to all four sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from denseam.errors import InputError, listed, refuse
from denseam.rules.fields import Kind, Part, check_fields, parameter, parameters
from denseam.rules.sizes import Shape

RegimeName = Literal["proportional", "memories-only"]


def _ratio(help: str, default: float, **bounds: Any) -> Any:
    belongs = ("regime", "proportional")
    return parameter(Part.GROWTH, Kind.NUMBER, help, default, low=0, open_low=True, belongs=belongs, **bounds)


def _size(help: str) -> Any:
    return parameter(Part.GROWTH, Kind.WHOLE, help, low=1, belongs=("regime", "memories-only"))


@dataclass(frozen=True)
class Proportional:
    """All four sizes grow together: K = κN, P = ρN, B = βP (eq. proportional-regime)."""

    kappa: float = _ratio("κ = K/N, memories per feature.", 2.0)
    rho: float = _ratio("ρ = P/N, samples per feature.", 5.0)
    beta: float = _ratio("β = B/P, the batch as a share of the samples.", 0.1, high=1, open_high=False)
    name: RegimeName = field(default="proportional", init=False)
    #: The size that stands for the scale, and all that grow with it.
    letter: ClassVar[str] = "N"
    grows: ClassVar[tuple[str, ...]] = ("N", "K", "P", "B")
    summary: ClassVar[str] = "N, K, P, B grow in proportion"

    def __post_init__(self) -> None:
        check_fields(self)

    def shape(self, N: int) -> Shape:
        """Return the sizes at N features: K = round(κN), P = round(ρN), B = max(1, ⌊βP⌋)."""
        Shape(N, 1)
        P = round(self.rho * N)
        # 0.29 · 100 is 28.999… in floating point; the floor of the exact product is meant.
        B = max(1, math.floor(self.beta * P + 1e-9))
        return Shape(N, round(self.kappa * N), P, B)

    def problems(self, N: int) -> list[str]:
        """Return why a model of this size cannot be trained, apart from problems with its shape."""
        B = self.beta * round(self.rho * N)
        if B < 1 - 1e-9:
            return [f"its batch (B = β·P = {B:.3g}) is below 1; raise beta or rho"]
        return []


@dataclass(frozen=True)
class MemoriesOnly:
    """Only the memories K grow; features N, samples P and batch B stay (App. K-only scaling)."""

    features: int = _size("N, the length of a sample.")
    samples: int = _size("P, the number of training samples.")
    batch: int = _size("B, the number of samples in a batch.")
    name: RegimeName = field(default="memories-only", init=False)
    letter: ClassVar[str] = "K"
    grows: ClassVar[tuple[str, ...]] = ("K",)
    summary: ClassVar[str] = "only K grows"

    def __post_init__(self) -> None:
        check_fields(self)
        self.shape(1)

    def shape(self, K: int) -> Shape:
        """Return the sizes at K memories."""
        return Shape(self.features, K, self.samples, self.batch)

    def problems(self, K: int) -> list[str]:
        """Return why a model of this size cannot be trained, apart from problems with its shape."""
        return []


Regime = Proportional | MemoriesOnly
DEFAULT_REGIME = Proportional()

REGIMES: Mapping[str, Any] = {"proportional": Proportional, "memories-only": MemoriesOnly}


def regime_letter(name: str) -> str:
    """Return the size that stands for the scale in a regime: N or K."""
    return str(REGIMES[name].letter)


def regime_from(values: Mapping[str, Any], defaults: Mapping[str, Regime] | None = None) -> Regime:
    """Return the regime that plain values describe; other keys of `values` are ignored.

    Parameters
    ----------
    values
        ``regime`` (by default 'proportional') and its ratios or sizes; those of another regime are refused.
    defaults
        For each regime, where missing values are taken from; by default from the defaults of its fields.
    """
    name = values.get("regime", "proportional")
    if name not in REGIMES:
        raise InputError(f"regime must be {listed(REGIMES)}, got {name!r}")
    own = parameters(REGIMES[name])
    problems = [
        f"{key} does not belong to the regime {name!r}"
        for other, regime in REGIMES.items()
        if other != name
        for key in parameters(regime)
        if key in values and key not in own
    ]
    default = (defaults or {}).get(name)
    chosen = {key: values[key] if key in values else getattr(default, key, None) for key in own}
    chosen = {key: value for key, value in chosen.items() if value is not None}
    problems += [
        f"{key} is needed in the regime {name!r}"
        for key, p in own.items()
        if p.required and key not in chosen
    ]
    refuse(problems)
    regime: Regime = REGIMES[name](**chosen)
    return regime
