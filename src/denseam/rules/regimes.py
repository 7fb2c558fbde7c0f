"""Which sizes grow, and how the others follow: a regime maps one scale to all sizes.

A regime is a row of `REGIMES`: a class whose fields are the ratios or sizes that stay, with what grows and a
`shape`. Options, keys of files, records and messages follow from its fields.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from denseam.ground.errors import InputError, listed, refuse
from denseam.rules.fields import Kind, Parameter, Part, check_fields, parameter, parameters
from denseam.rules.sizes import WORDS, Shape

RegimeName = Literal[
    "proportional",
    "memories-only",
    "batch-only",
    "samples-only",
    "epochs",
    "steps-only",
    "proportional-steps",
]

#: At a fixed number of epochs, rates follow the batch up to about this many samples per feature.
CRITICAL_BATCH = 2


def _ratio(help: str, default: float, **bounds: Any) -> Any:
    return parameter(Part.GROWTH, Kind.NUMBER, help, default, low=0, open_low=True, **bounds)


def _size(help: str) -> Any:
    return parameter(Part.GROWTH, Kind.WHOLE, help, low=1)


#: The length of a sample, the rows of W, and the numbers of samples in all and in a batch.
_FEATURES, _MEMORIES = "N, the length of a sample.", "K, the number of memories."
_SAMPLES, _BATCH = "P, the number of training samples.", "B, the number of samples in a batch."


class Regime(abc.ABC):
    """A map from one scale to all sizes."""

    #: Its name on the command line and in records.
    name: RegimeName
    #: The size that stands for the scale, and all that grow with it.
    letter: ClassVar[str]
    grows: ClassVar[tuple[str, ...]]
    #: What grows, in a few words.
    summary: ClassVar[str]
    #: P/N of a target whose samples are generated, unless it is given.
    samples_per_feature: ClassVar[float] = 5.0

    @abc.abstractmethod
    def shape(self, scale: int) -> Shape:
        """Return all sizes at a scale."""

    def problems(self, scale: int) -> list[str]:
        """Return why a model of this scale cannot be trained, apart from problems with its shape."""
        return []

    def limits(self, scale: int) -> list[str]:
        """Return why the rule of the learning rates is not expected to hold up to this scale."""
        return []


@dataclass(frozen=True)
class Proportional(Regime):
    """All four sizes grow together: K = κN, P = ρN, B = βP (eq. proportional-regime)."""

    kappa: float = _ratio("κ = K/N, memories per feature.", 2.0)
    rho: float = _ratio("ρ = P/N, samples per feature.", 5.0)
    beta: float = _ratio("β = B/P, the batch as a share of the samples.", 0.1, high=1, open_high=False)
    name: RegimeName = field(default="proportional", init=False)
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
class ProportionalSteps(Proportional):
    """The steps of recall grow with all other sizes: T = θN."""

    theta: float = _ratio("θ = T/N, steps of recall per feature.", 1 / 64, default_text="1/64")
    name: RegimeName = field(default="proportional-steps", init=False)
    grows: ClassVar[tuple[str, ...]] = ("N", "K", "P", "B", "T")
    summary: ClassVar[str] = "N, K, P, B and the steps of recall T grow in proportion"

    def shape(self, N: int) -> Shape:
        """Return the sizes at N features: those in proportion, and T = max(1, round(θN))."""
        return dataclasses.replace(super().shape(N), T=max(1, round(self.theta * N)))


class OneSize(Regime):
    """One size grows, that of its letter; the fields are the sizes that stay."""

    def __post_init__(self) -> None:
        check_fields(self)
        self.shape(getattr(self, "batch", 1))  # whatever grows, the samples must hold a batch

    def shape(self, scale: int) -> Shape:
        """Return all sizes at a scale."""
        fixed = {letter: getattr(self, word) for letter, word in WORDS.items() if hasattr(self, word)}
        return Shape(**(fixed | {self.letter: scale}))


@dataclass(frozen=True)
class MemoriesOnly(OneSize):
    """Only the memories K grow; features N, samples P and batch B stay (App. K-only scaling)."""

    features: int = _size(_FEATURES)
    samples: int = _size(_SAMPLES)
    batch: int = _size(_BATCH)
    name: RegimeName = field(default="memories-only", init=False)
    letter: ClassVar[str] = "K"
    grows: ClassVar[tuple[str, ...]] = ("K",)
    summary: ClassVar[str] = "only K grows"
    samples_per_feature: ClassVar[float] = 2.0


@dataclass(frozen=True)
class BatchOnly(OneSize):
    """Only the batch B grows, at a fixed number of epochs: fewer and larger steps."""

    features: int = _size(_FEATURES)
    memories: int = _size(_MEMORIES)
    samples: int = _size(_SAMPLES)
    name: RegimeName = field(default="batch-only", init=False)
    letter: ClassVar[str] = "B"
    grows: ClassVar[tuple[str, ...]] = ("B",)
    summary: ClassVar[str] = "only B grows, at a fixed number of epochs"

    def limits(self, B: int) -> list[str]:
        """Return whether a batch is above the critical one."""
        most = CRITICAL_BATCH * self.features
        if most < B:
            return [f"rates follow the batch up to about B = {CRITICAL_BATCH}·N = {most}, got {B}"]
        return []


@dataclass(frozen=True)
class SamplesOnly(OneSize):
    """Only the samples P grow, at a fixed number of epochs: more steps."""

    features: int = _size(_FEATURES)
    memories: int = _size(_MEMORIES)
    batch: int = _size(_BATCH)
    name: RegimeName = field(default="samples-only", init=False)
    letter: ClassVar[str] = "P"
    grows: ClassVar[tuple[str, ...]] = ("P",)
    summary: ClassVar[str] = "only P grows, at a fixed number of epochs"


@dataclass(frozen=True)
class Epochs(OneSize):
    """Only the length of training grows: the epochs E."""

    features: int = _size(_FEATURES)
    memories: int = _size(_MEMORIES)
    samples: int = _size(_SAMPLES)
    batch: int = _size(_BATCH)
    name: RegimeName = field(default="epochs", init=False)
    letter: ClassVar[str] = "E"
    grows: ClassVar[tuple[str, ...]] = ("E",)
    summary: ClassVar[str] = "only the epochs E grow"


@dataclass(frozen=True)
class StepsOnly(OneSize):
    """Only the steps of recall T grow, so that each takes a smaller part of the same time."""

    features: int = _size(_FEATURES)
    memories: int = _size(_MEMORIES)
    samples: int = _size(_SAMPLES)
    batch: int = _size(_BATCH)
    name: RegimeName = field(default="steps-only", init=False)
    letter: ClassVar[str] = "T"
    grows: ClassVar[tuple[str, ...]] = ("T",)
    summary: ClassVar[str] = "only the steps of recall T grow"


DEFAULT_REGIME = Proportional()

REGIMES: Mapping[str, Any] = {
    "proportional": Proportional,
    "memories-only": MemoriesOnly,
    "batch-only": BatchOnly,
    "samples-only": SamplesOnly,
    "epochs": Epochs,
    "steps-only": StepsOnly,
    "proportional-steps": ProportionalSteps,
}
assert tuple(REGIMES) == get_args(RegimeName)


def regime_letter(name: str) -> str:
    """Return the size that stands for the scale in a regime: N, K, B, P, E or T."""
    return str(REGIMES[name].letter)


def regime_parameters() -> dict[str, Parameter]:
    """Return the ratios and sizes of all regimes, each with the regimes that have it."""
    owners: dict[str, list[str]] = {}
    described: dict[str, Parameter] = {}
    for name, regime in REGIMES.items():
        for key, p in parameters(regime).items():
            owners.setdefault(key, []).append(name)
            described[key] = p
    return {key: dataclasses.replace(p, belongs=("regime", *owners[key])) for key, p in described.items()}


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
    by_scales = WORDS[regime_letter(name)]
    growing = [by_scales, *(word for letter, word in WORDS.items() if letter in REGIMES[name].grows)]
    problems = [
        f"{key} does not belong to the regime {name!r}" + (": give it by scales" if key == by_scales else "")
        for key in dict.fromkeys((*regime_parameters(), *growing))
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
