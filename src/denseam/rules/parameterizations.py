"""A rule for how scales and learning rates depend on the sizes, and its numbers at one shape."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Any, NamedTuple

from denseam.ground.display import Shown
from denseam.ground.errors import (
    FLAG,
    NUMBER,
    TEXT,
    Entry,
    above_zero,
    at_least_zero,
    listed_of,
    named,
    one_of,
    read_entries,
    refuse,
    table_of,
    typed,
    whole,
    whole_number,
)
from denseam.rules.explain import explain
from denseam.rules.optimizers import OPTIMIZERS, OptimizerName
from denseam.rules.powers import ONE, Power, exponent_text
from denseam.rules.regimes import REGIMES, RegimeName
from denseam.rules.schedules import Timetable, decay_time_problems
from denseam.rules.sizes import Shape
from denseam.rules.table import CONSTANTS, STEP, TABLE, is_prescribed


@dataclass(frozen=True)
class Constants:
    """The dimensionless numbers that are tuned; the rule multiplies them by powers of the sizes."""

    eta0: float
    s1_0: float = 1.0
    s2_0: float = 1.0
    eta_b0: float | None = None
    eta_c0: float | None = None
    tau: float = 1.0

    def __post_init__(self) -> None:
        # Biases may be frozen (eta_b0 = 0); a multiplier of zero is not a model.
        biases = {k: v for k in ("eta_b0", "eta_c0") if (v := getattr(self, k)) is not None}
        positive = {"eta0": self.eta0, "s1_0": self.s1_0, "s2_0": self.s2_0, "tau": self.tau}
        refuse([*above_zero(**positive), *at_least_zero(**biases)])
        for name in {"eta_b0", "eta_c0"} - biases.keys():
            object.__setattr__(self, name, self.eta0)


@dataclass(frozen=True)
class Scales(Shown):
    """The numbers a model and its optimizer need at one shape.

    Parameters
    ----------
    shape
        The sizes that the numbers hold for.
    optimizer
        The optimizer that they are for.
    s1, s2
        Inner and outer multiplier of W.
    eta_W, eta_b, eta_c
        Learning rates.
    s_b, s_c
        Multipliers of the biases.
    W_std
        Initial standard deviation of the entries of W.
    epsilon_W, decay_W
        Factors on Adam's ε and on the decay of W. Under the table's rules ε has none, and the decay has that
        which makes ``η_W λ_W`` independent of the sizes.
    epsilon_b, epsilon_c
        Factors on Adam's ε for the biases.
    forget_momentum, forget_beta1, forget_beta2
        Factors on 1 − μ, 1 − β1 and 1 − β2, the rates at which averages forget.
    step
        The size d of a step of recall, τ/T under the table's rules.
    rule, constants
        Where the numbers come from; None if they were set by hand.
    """

    shape: Shape
    optimizer: OptimizerName
    s1: float
    s2: float
    eta_W: float
    eta_b: float
    eta_c: float
    s_b: float = 1.0
    s_c: float = 1.0
    W_std: float = 1.0
    epsilon_W: float = 1.0
    decay_W: float = 1.0
    epsilon_b: float = 1.0
    epsilon_c: float = 1.0
    forget_momentum: float = 1.0
    forget_beta1: float = 1.0
    forget_beta2: float = 1.0
    step: float = 1.0
    rule: Parameterization | None = None
    constants: Constants | None = None

    def rescaled(self, theta: float) -> Scales:
        """Return the scales of the same training in other units of W: the abc symmetry ``w = θW``.

        The model and its whole trajectory do not change under

        ``s1, s2 → s/θ``;  ``W_std → θ W_std``;  ``eta_W → θ² eta_W`` (SGD) or ``θ eta_W`` (all others);
        ``ε_W → ε_W/θ``;  ``λ_W → λ_W/θ²`` (SGD) or ``λ_W/θ``, so that ``η_W λ_W`` stays.

        SGD: ∂L/∂W = θ ∂L/∂w, so ΔW = −η ∂L/∂W is Δw = θ ΔW = −θ²η ∂L/∂w. The others divide the gradient
        by its own size, so one factor θ remains, and ε is compared with gradients that are θ times smaller.
        """
        refuse(above_zero(theta=theta))
        return replace(self, **_in_units(self, theta), rule=None, constants=None)

    def average(self, name: str, value: float) -> float:
        """Return μ, β1 or β2 at this shape, ``1 − (1 − value)·factor``, and 0 if that is negative."""
        factor = getattr(self, f"forget_{name}")
        return value if factor == 1 else max(0.0, 1 - (1 - value) * factor)

    def canonical(self) -> Scales:
        """Return the equivalent scales with W of unit variance."""
        return self if self.W_std == 1 else self.rescaled(1 / self.W_std)

    def decay_time(self, decay: float, steps: int) -> float:
        """Return the time of a decay λ0 at the peak rate, over the steps T of a training.

        ``τ = 1/(η_W λ_W T)`` with ``λ_W = λ0 · decay_W``; infinite without decay. Where ``η_W λ_W`` has no
        size in it, τ has none either.
        """
        refuse([*at_least_zero(decay=decay), *whole(steps=steps)])
        return 1 / (self.eta_W * self.decay_W * decay * steps) if decay else math.inf

    def decay(self, decay_time: float, steps: int) -> float:
        """Return the decay λ0 with this time, in trainings of T steps: the inverse of `decay_time`.

        A time shorter than a step is refused: W would change its sign.
        """
        refuse([*above_zero(decay_time=decay_time), *whole(steps=steps)])
        refuse(decay_time_problems(decay_time, steps))
        return 1 / (self.eta_W * self.decay_W * decay_time * steps)

    def explain(
        self, base: Shape | None = None, *, timetable: Timetable | None = None, decay: float | None = None
    ) -> str:
        """Return a table: the start, multiplier, learning rate, rule and equation of each parameter.

        Parameters
        ----------
        base
            A shape at which learning rates and multipliers are shown too.
        timetable
            The schedule of a training; its learning rates are shown during training.
        decay
            The decay λ0 of W; shown as λ_W, as a share of W in each step, and as a time.
        """
        return explain(self, base, timetable, decay)

    def to_json(self) -> dict[str, Any]:
        """Return a plain document; `from_json` reads it back."""
        document = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("shape", "rule")}
        document["shape"] = self.shape.to_json()
        document["constants"] = asdict(self.constants) if self.constants else None
        document["rule"] = self.rule.to_json() if self.rule else None
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Scales:
        """Read what `to_json` wrote."""
        with named("scales"):
            refuse(f"{key} is unknown" for key in document if key not in _SCALES)
            values = _given(document, _SCALES)
            values["shape"] = Shape(**_given(values["shape"], _SHAPE))
            if "rule" in values:
                values["rule"] = Parameterization.from_json(values["rule"])
            if "constants" in values:
                values["constants"] = Constants(**_given(values["constants"], _CONSTANTS))
            return cls(**values)


def _given(document: Any, entries: Mapping[str, Entry]) -> dict[str, Any]:
    """Return what a document has; what later versions have added may be missing."""
    return {k: v for k, v in read_entries(document, entries).items() if v is not None}


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING


def _in_units(scales: Any, theta: Any) -> dict[str, Any]:
    """Return what changes under w = θW (`Scales.rescaled`), for numbers and for powers of the sizes."""
    rate = theta**2 if OPTIMIZERS[scales.optimizer].follows_gradient else theta
    return {
        "s1": scales.s1 / theta,
        "s2": scales.s2 / theta,
        "W_std": scales.W_std * theta,
        "eta_W": scales.eta_W * rate,
        "epsilon_W": scales.epsilon_W / theta,
        "decay_W": scales.decay_W / rate,
    }


class Mismatch(NamedTuple):
    """The exponents by which a parameterization differs from the prescription, both in canonical form."""

    s1: Fraction | float
    s2: Fraction | float
    eta_W: Fraction | float

    def __str__(self) -> str:
        return ", ".join(f"{name} {exponent_text(e)}" for name, e in self._asdict().items())


@dataclass(frozen=True)
class Parameterization:
    """How the start, the multipliers and the learning rates depend on the sizes.

    Parameterizations are compared in their `canonical` form, with W of unit variance; `mismatch` compares
    with the prescription.
    """

    name: str
    family: str
    optimizer: OptimizerName
    regime: RegimeName
    s1: Power
    s2: Power
    eta_W: Power
    eta_b: Power = ONE
    eta_c: Power = ONE
    s_b: Power = ONE
    s_c: Power = ONE
    W_std: Power = ONE
    epsilon_W: Power = ONE
    decay_W: Power = ONE
    epsilon_b: Power = ONE
    epsilon_c: Power = ONE
    forget_momentum: Power = ONE
    forget_beta1: Power = ONE
    forget_beta2: Power = ONE
    step: Power = STEP
    prescribed: bool = False
    #: Whether it was derived for centred activations only.
    centred_only: bool = False
    source: str = ""
    #: Labels of the paper's equations for s1, s2, eta_W, eta_b, eta_c.
    equations: tuple[str, ...] = ()

    def at(
        self,
        shape: Shape,
        eta0: float,
        *,
        s1_0: float = 1.0,
        s2_0: float = 1.0,
        eta_b0: float | None = None,
        eta_c0: float | None = None,
        tau: float = 1.0,
    ) -> Scales:
        """Return the scales at a shape, from the tuned constants.

        ``eta_b0`` and ``eta_c0`` are ``eta0`` by default; ``tau`` is the time of all steps of recall.
        """
        refuse(typed(Shape, "a Shape", shape=shape))
        constants = Constants(eta0, s1_0, s2_0, eta_b0, eta_c0, tau)
        numbers = {
            f.name: power.at(shape) * (getattr(constants, CONSTANTS[f.name]) if f.name in CONSTANTS else 1)
            for f in fields(self)
            if isinstance(power := getattr(self, f.name), Power)
        }
        return Scales(shape, self.optimizer, **numbers, rule=self, constants=constants)

    def canonical(self) -> Parameterization:
        """Return the equivalent parameterization with W of unit variance (`Scales.rescaled`)."""
        if self.W_std == ONE:
            return self
        return replace(self, **_in_units(self, ONE / self.W_std), name=f"{self.name} (canonical)")

    def mismatch(self) -> Mismatch:
        """Return by which exponents (s1, s2, eta_W) grow faster than prescribed.

        They are exponents of the size that stands for the scale: of N in the proportional regime, where K, P
        and B follow N, and of K, B, P or E where only that grows.
        """
        mine, row = self.canonical(), TABLE[self.regime, self.family, self.optimizer]
        ratios = (mine.s1 / row.s1, mine.s2 / row.s2, mine.eta_W / row.eta_W)
        return Mismatch(*(ratio.along(self.regime) for ratio in ratios))

    def predicted_drift(self) -> Fraction | float | None:
        """Return the exponent with which the best eta0 changes with size, or None if none is predicted.

        If s1, s2 and the step of recall grow as prescribed, the same effective learning rate is reached at
        ``eta0 ∝ size^(−mismatch of eta_W)``. If they do not, the function itself changes with size, and no
        learning rate compensates for that. Nothing is predicted relative to an unprescribed row either.
        """
        mismatch, step = self.mismatch(), (self.step / STEP).along(self.regime)
        if mismatch.s1 or mismatch.s2 or step or not is_prescribed(self.family, self.optimizer):
            return None
        return -mismatch.eta_W

    def to_json(self) -> dict[str, Any]:
        """Return a plain document; `from_json` reads it back."""

        def plain(value: object) -> object:
            if isinstance(value, Power):
                return {name: exponent_text(e) for name, e in value._exponents()}
            return value

        return {f.name: plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Parameterization:
        """Read what `to_json` wrote."""
        with named("parameterization"):
            refuse(f"{key} is unknown" for key in document if key not in _RULE)
            values = _given(document, _RULE)
            powers = {k: Power.from_json(v) for k, v in values.items() if isinstance(v, dict)}
            return cls(**values | powers | {"equations": tuple(values["equations"])})


# --- their documents -------------------------------------------------------------------------------

_POWER = table_of(TEXT)
_NAMES = ("name", "family", "source")
_OF_TABLE = {
    "optimizer": one_of(OPTIMIZERS),
    "regime": one_of(REGIMES),
    "prescribed": FLAG,
    "centred_only": FLAG.or_none(),
    "equations": listed_of(TEXT),
}
#: Powers and numbers that later versions have added may be missing.
_RULE: Mapping[str, Entry] = {
    f.name: _OF_TABLE.get(f.name)
    or (TEXT if f.name in _NAMES else _POWER if _is_required(f) else _POWER.or_none())
    for f in fields(Parameterization)
}
_SHAPE = {f.name: whole_number(1) if _is_required(f) else whole_number(1).or_none() for f in fields(Shape)}
_CONSTANTS = {f.name: NUMBER if f.default is not None else NUMBER.or_none() for f in fields(Constants)} | {
    "tau": NUMBER.or_none()
}
_SCALES: Mapping[str, Entry] = {
    f.name: NUMBER if _is_required(f) else NUMBER.or_none() for f in fields(Scales)
} | {
    "shape": table_of(),
    "optimizer": one_of(OPTIMIZERS),
    "rule": table_of().or_none(),
    "constants": table_of().or_none(),
}
