"""Causes of verdicts, checks and searches, as data to branch on; `sentences` puts them into words."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, Literal, Self

Status = Literal["TRANSFERS", "DRIFTS", "FAILS", "INCONCLUSIVE"]
Side = Literal["low", "high"]


class _WithStatus(enum.Enum):
    """A cause: its value is a word, and a status follows from it."""

    status: Any

    def __new__(cls, value: str, status: str) -> Self:
        """Make the word alone the value."""
        member = object.__new__(cls)
        member._value_, member.status = value, status
        return member


class Cause(_WithStatus):
    """The cause of a verdict, with the status that follows from it. The first that applies counts."""

    RUNS_MISSING = "runs-missing", "INCONCLUSIVE"
    BASE_DIVERGED = "base-diverged", "INCONCLUSIVE"
    DIVERGES = "diverges", "FAILS"
    DIVERGES_BELOW = "diverges-below", "FAILS"
    EDGE_FALLS = "edge-falls", "FAILS"
    OPTIMUM_AT_END = "optimum-at-end", "INCONCLUSIVE"
    TOO_FEW_VALUES = "too-few-values", "INCONCLUSIVE"
    TOO_FEW_SCALES = "too-few-scales", "INCONCLUSIVE"
    TOO_FEW_SEEDS = "too-few-seeds", "INCONCLUSIVE"
    NOTHING_LEARNED = "nothing-learned", "INCONCLUSIVE"
    TOO_COSTLY = "too-costly", "FAILS"
    COSTLY_AT_TARGET = "costly-at-target", "FAILS"
    LOSS_RISES = "loss-rises", "FAILS"
    OPTIMUM_MOVES = "optimum-moves", "DRIFTS"
    MOVES_BEFORE_TARGET = "moves-before-target", "DRIFTS"
    MAY_DIVERGE = "may-diverge", "INCONCLUSIVE"
    EDGE_UNRESOLVED = "edge-unresolved", "INCONCLUSIVE"
    HOLDS = "holds", "TRANSFERS"
    TOO_COARSE = "too-coarse", "INCONCLUSIVE"
    SEEDS_DIFFER = "seeds-differ", "INCONCLUSIVE"
    UNSURE_AT_TARGET = "unsure-at-target", "INCONCLUSIVE"

    status: Status


class Action(enum.Enum):
    """What to do next."""

    RESUME = "resume"
    LOWER_GRID = "lower-grid"
    EXTEND_GRID = "extend-grid"
    REFINE_GRID = "refine-grid"
    ADD_VALUES = "add-values"
    ADD_RUNS = "add-runs"
    ADD_SEEDS = "add-seeds"
    ADD_SCALE = "add-scale"
    TRAIN_LONGER = "train-longer"
    CHECK_RULE = "check-rule"


@dataclasses.dataclass(frozen=True)
class Next:
    """What to do next, with its numbers.

    Attributes
    ----------
    axis, side, value
        The axis whose grid does not suffice, the side to extend it to, and its last value there.
    finer
        The factor by which the steps of the grid should be smaller.
    values, scales, seeds
        The minimum numbers needed.
    scale
        A further scale to run.
    """

    action: Action
    axis: str = ""
    side: Side | None = None
    value: float | None = None
    finer: int | None = None
    values: int | None = None
    scales: int | None = None
    seeds: int | None = None
    scale: int | None = None

    @property
    def command(self) -> str:
        """The command that does it."""
        return "denseam prescribe" if self.action is Action.CHECK_RULE else "denseam sweep"


class Caution(enum.Enum):
    """What to keep in mind about a verdict."""

    OTHERS_HELD = "others-held"
    RUNS_MISSING = "runs-missing"
    FEWER_SEEDS = "fewer-seeds"
    OPTIMUM_IS_GRID_POINT = "optimum-is-grid-point"
    EDGE_FALLS = "edge-falls"


@dataclasses.dataclass(frozen=True)
class Flag:
    """Something to keep in mind, with its numbers.

    ======================  ===================================================================
    OTHERS_HELD             axis → the value it was held at
    RUNS_MISSING            'runs' → how many
    FEWER_SEEDS             scale → how many seeds it has
    OPTIMUM_IS_GRID_POINT   'scale' → where
    EDGE_FALLS              'decades' → per doubling of the scale
    ======================  ===================================================================
    """

    kind: Caution
    numbers: Mapping[str, float]


class CheckCause(enum.Enum):
    """The likely cause of the result of a coordinate check."""

    S1 = "s1"
    S2 = "s2"
    BIAS_OFFSET = "bias-offset"
    SPIKE = "spike"
    SOFTMAX_SGD = "softmax-sgd"
    SPARSE = "sparse"
    LEARNING_RATE = "learning-rate"
    UNKNOWN = "unknown"
    RUNS_GONE = "runs-gone"
    NOISE = "noise"
    TOO_FEW = "too-few"


class Growth(enum.Enum):
    """How a quantity follows a size."""

    #: As a power.
    POWER = "power"
    #: As a power that small sizes approach.
    APPROACH = "approach"
    #: As a power of the logarithm.
    LOGARITHM = "logarithm"
    #: As no power: its exponent changes along the size.
    BENT = "bent"


FindStatus = Literal["FOUND", "NONE", "INCONCLUSIVE"]


class FindCause(_WithStatus):
    """The cause of the result of a search for exponents, with its status. The first that applies counts."""

    NOISE = "noise", "INCONCLUSIVE"
    FEW_ACTIVE = "few-active", "NONE"
    NO_POWER = "no-power", "NONE"
    TERMS_LEFT = "terms-left", "NONE"
    NO_TRANSFER = "no-transfer", "NONE"
    CHECK_UNDECIDED = "check-undecided", "INCONCLUSIVE"
    SWEEP_UNDECIDED = "sweep-undecided", "INCONCLUSIVE"
    HOLDS = "holds", "FOUND"

    status: FindStatus
