"""How scales and learning rates must change with size: exponents in one table, and no array framework.

The model is ``f(x) = s2 Wᵀ σ(s1 W g(x) + s_b b) + s_c c`` with ``W`` of shape K×N and entries of
variance ``W_std²``. A *parameterization* says how ``W_std``, the multipliers ``s1, s2, s_b, s_c`` and
the learning rates ``eta_W, eta_b, eta_c`` depend on

====  ==================================================
N     features: the length of x
K     memories: the rows of W
P     samples in the training set
B     samples in a batch
====  ==================================================

The *prescription* (the paper's Table 1) is the parameterization under which training does not depend
on size, so that a learning rate tuned at small size is right at large size.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from denseam.errors import InputError, UnprescribedWarning, listed, refuse, together

OptimizerName = Literal["sgd", "adam"]
RegimeName = Literal["proportional", "memories-only"]

HALF = Fraction(1, 2)

#: The row of the table an activation belongs to. Those called 'elementwise' send order-one
#: pre-activations to order-one activations; 'softmax' sends them to activations of order 1/K.
FAMILIES: Mapping[str, str] = {
    "identity": "elementwise",
    "relu": "elementwise",
    "tanh": "elementwise",
    "softmax": "softmax",
}
OPTIMIZERS: tuple[OptimizerName, ...] = ("sgd", "adam")
REGIMES: tuple[RegimeName, ...] = ("proportional", "memories-only")


# --- sizes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """The four sizes of a problem.

    Parameters
    ----------
    N, K
        Features and memories.
    P, B
        Samples and batch; may be left out where only the model matters.
    """

    N: int
    K: int
    P: int | None = None
    B: int | None = None

    def __post_init__(self) -> None:
        def wrong(name: str, value: object) -> str | None:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                return f"{SIZES[name]} ({name}) must be a whole number of at least 1, got {value!r}"
            return None

        given = {"N": self.N, "K": self.K} | {
            k: v for k, v in (("P", self.P), ("B", self.B)) if v is not None
        }
        problems = [said for name, value in given.items() if (said := wrong(name, value))]
        if not problems and self.P is not None and self.B is not None and self.B > self.P:
            problems.append(f"batch (B) must be at most samples (P) = {self.P}, got {self.B}")
        refuse(problems)

    def __str__(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in asdict(self).items() if v is not None)


#: Letter inside, word at the edges.
SIZES: Mapping[str, str] = {"N": "features", "K": "memories", "P": "samples", "B": "batch"}


@dataclass(frozen=True)
class Proportional:
    """All four sizes grow together: K = κN, P = ρN, B = βP (eq. proportional-regime)."""

    kappa: float
    rho: float
    beta: float
    name: RegimeName = field(default="proportional", init=False)

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be above 0 and finite, got {value!r}"
            for name, value in (("kappa", self.kappa), ("rho", self.rho), ("beta", self.beta))
            if not (0 < value < math.inf)
        ]
        if not problems and self.beta > 1:
            problems.append(f"beta (batch over samples) must be at most 1, got {self.beta!r}")
        refuse(problems)

    def shape(self, N: int) -> Shape:
        """Return the sizes at N features: K = round(κN), P = round(ρN), B = max(1, ⌊βP⌋)."""
        Shape(N, 1)
        P = round(self.rho * N)
        # 0.29 · 100 is 28.999… in floating point; the floor is meant of the exact product.
        B = max(1, math.floor(self.beta * P + 1e-9))
        return Shape(N, round(self.kappa * N), P, B)


@dataclass(frozen=True)
class MemoriesOnly:
    """Only the memories K grow; features N, samples P and batch B stay (App. K-only scaling)."""

    features: int
    samples: int
    batch: int
    name: RegimeName = field(default="memories-only", init=False)

    def __post_init__(self) -> None:
        self.shape(1)

    def shape(self, K: int) -> Shape:
        """Return the sizes at K memories."""
        return Shape(self.features, K, self.samples, self.batch)


Regime = Proportional | MemoriesOnly


# --- powers of the sizes -------------------------------------------------------------------------


@dataclass(frozen=True)
class Power:
    """A product of powers of the sizes, ``N^n K^k P^p B^b``; exponents may be fractions."""

    N: Fraction | float = 0
    K: Fraction | float = 0
    P: Fraction | float = 0
    B: Fraction | float = 0

    def at(self, shape: Shape) -> float:
        """Return the value at a shape."""
        value = 1.0
        for name, exponent in self._exponents():
            size = getattr(shape, name)
            if size is None:
                raise InputError(f"{SIZES[name]} ({name}) is needed by the rule {self}")
            value *= float(size) ** float(exponent)
        return value

    def along(self, regime: RegimeName) -> Fraction | float:
        """Return the exponent in the size that grows: N where all grow in proportion, else K."""
        return self.K if regime == "memories-only" else self.N + self.K + self.P + self.B

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
                if letter in SIZES:
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
        factors = [name if e == 1 else f"{name}^{_exponent(e)}" for name, e in self._exponents()]
        return "·".join(factors) or "1"


def _exponent(e: Fraction | float) -> str:
    nearest = Fraction(e).limit_denominator(8)
    return str(nearest) if abs(float(nearest) - float(e)) < 1e-9 else repr(float(e))


ONE = Power()


# --- scales at a shape ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Constants:
    """The dimensionless numbers that are tuned; the rule multiplies them by powers of the sizes."""

    eta0: float
    s1_0: float = 1.0
    s2_0: float = 1.0
    eta_b0: float | None = None
    eta_c0: float | None = None

    def __post_init__(self) -> None:
        # Frozen biases (eta_b0 = 0) are a study of their own; a scale of zero is no model.
        biases = ("eta_b0", "eta_c0")
        given = {f.name: v for f in fields(self) if (v := getattr(self, f.name)) is not None}
        refuse(
            f"{name} must be {'at least' if name in biases else 'above'} 0 and finite, got {value!r}"
            for name, value in given.items()
            if not ((value >= 0 if name in biases else value > 0) and value < math.inf)
        )
        for name in biases:
            if name not in given:
                object.__setattr__(self, name, self.eta0)


@dataclass(frozen=True)
class Scales:
    """The numbers a model and its optimizer need at one shape.

    Parameters
    ----------
    shape
        The sizes the numbers hold for.
    optimizer
        The optimizer they are meant for: 'sgd' or 'adam' (AdamW too).
    s1, s2
        Inner and outer multiplier of W.
    eta_W, eta_b, eta_c
        Learning rates.
    s_b, s_c
        Multipliers of the biases.
    W_std
        Standard deviation of the entries of W at the start.
    epsilon_W, decay_W
        Factors on Adam's ε and on AdamW's decay for W: 1, unless the abc symmetry or a rule moved them.
    epsilon_b, epsilon_c
        Factors on Adam's ε for the biases.
    rule, constants
        Where the numbers come from; None where they were set by hand.
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
    rule: Parameterization | None = None
    constants: Constants | None = None

    def rescaled(self, theta: float) -> Scales:
        """Return the same training in other units of W: the abc symmetry ``w = θW``.

        The model and its whole trajectory stay as they are when

        ``s1, s2 → s/θ``;  ``W_std → θ W_std``;  ``eta_W → θ² eta_W`` (SGD) or ``θ eta_W`` (Adam);
        ``ε_W → ε_W/θ``;  AdamW's ``λ_W → λ_W/θ``.

        SGD: ∂L/∂W = θ ∂L/∂w, so ΔW = −η ∂L/∂W is Δw = θ ΔW = −θ²η ∂L/∂w. Adam divides the gradient
        by its own size, so one θ is left, and ε is compared with gradients that are θ times smaller.
        """
        if not 0 < theta < math.inf:
            raise InputError(f"theta must be above 0 and finite, got {theta!r}")
        sgd = self.optimizer == "sgd"
        return replace(
            self,
            s1=self.s1 / theta,
            s2=self.s2 / theta,
            W_std=self.W_std * theta,
            eta_W=self.eta_W * (theta**2 if sgd else theta),
            epsilon_W=self.epsilon_W / theta,
            decay_W=self.decay_W if sgd else self.decay_W / theta,
            rule=None,
            constants=None,
        )

    def canonical(self) -> Scales:
        """Return the equivalent scales with W of unit variance."""
        return self if self.W_std == 1 else self.rescaled(1 / self.W_std)

    def explain(self, base: Shape | None = None) -> str:
        """Return a table: per parameter its start, multiplier, learning rate, rule and equation.

        With `base`, the learning rates and multipliers at that shape stand beside those here.
        """
        return _explain(self, base)

    def to_json(self) -> dict[str, Any]:
        """Return a plain document; `from_json` reads it back."""
        document = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("shape", "rule")}
        document["shape"] = asdict(self.shape)
        document["constants"] = asdict(self.constants) if self.constants else None
        document["rule"] = self.rule.to_json() if self.rule else None
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Scales:
        """Read what `to_json` wrote."""
        try:
            values = dict(document)
            values["shape"] = Shape(**values["shape"])
            values["rule"] = Parameterization.from_json(values["rule"]) if values["rule"] else None
            values["constants"] = Constants(**values["constants"]) if values["constants"] else None
            return cls(**values)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"scales: not a document of this library's scales ({error})") from None


# --- parameterizations ---------------------------------------------------------------------------


class Mismatch(NamedTuple):
    """Exponents by which a parameterization differs from the prescription, in canonical form."""

    s1: Fraction | float
    s2: Fraction | float
    eta_W: Fraction | float

    def __str__(self) -> str:
        return ", ".join(f"{name} {_exponent(e)}" for name, e in self._asdict().items())


@dataclass(frozen=True)
class Parameterization:
    """How the start, the multipliers and the learning rates depend on the sizes.

    Every parameterization has a `canonical` form with W of unit variance, in which two of them can
    be compared; `mismatch` compares with the prescription.
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
    prescribed: bool = False
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
    ) -> Scales:
        """Return the scales at a shape, from the constants that were tuned.

        ``eta_b0`` and ``eta_c0`` are ``eta0`` unless given.
        """
        constants = Constants(eta0, s1_0, s2_0, eta_b0, eta_c0)
        assert constants.eta_b0 is not None
        assert constants.eta_c0 is not None
        return Scales(
            shape=shape,
            optimizer=self.optimizer,
            s1=constants.s1_0 * self.s1.at(shape),
            s2=constants.s2_0 * self.s2.at(shape),
            eta_W=constants.eta0 * self.eta_W.at(shape),
            eta_b=constants.eta_b0 * self.eta_b.at(shape),
            eta_c=constants.eta_c0 * self.eta_c.at(shape),
            s_b=self.s_b.at(shape),
            s_c=self.s_c.at(shape),
            W_std=self.W_std.at(shape),
            epsilon_W=self.epsilon_W.at(shape),
            decay_W=self.decay_W.at(shape),
            epsilon_b=self.epsilon_b.at(shape),
            epsilon_c=self.epsilon_c.at(shape),
            rule=self,
            constants=constants,
        )

    def canonical(self) -> Parameterization:
        """Return the equivalent parameterization with W of unit variance (`Scales.rescaled`)."""
        if self.W_std == ONE:
            return self
        sgd = self.optimizer == "sgd"
        return replace(
            self,
            name=f"{self.name} (canonical)",
            s1=self.s1 * self.W_std,
            s2=self.s2 * self.W_std,
            eta_W=self.eta_W / (self.W_std**2 if sgd else self.W_std),
            epsilon_W=self.epsilon_W * self.W_std,
            decay_W=self.decay_W if sgd else self.decay_W * self.W_std,
            W_std=ONE,
        )

    def mismatch(self) -> Mismatch:
        """Return how far (s1, s2, eta_W) grow faster than prescribed, as exponents.

        The exponents are those in N in the proportional regime, where K, P and B follow N, and
        those in K where only the memories grow.
        """
        mine, right = self.canonical(), _row(self.family, self.optimizer, self.regime)
        return Mismatch(
            *(
                (getattr(mine, name) / getattr(right, name)).along(self.regime)
                for name in ("s1", "s2", "eta_W")
            )
        )

    def predicted_drift(self) -> Fraction | float | None:
        """Return the exponent with which the best eta0 moves, or None where none is predicted.

        If s1 and s2 grow as prescribed, the same effective learning rate is reached at
        ``eta0 ∝ size^(−mismatch of eta_W)``. If they do not, the function itself changes with size
        and no learning rate mends that. Nothing is predicted against an unprescribed row either.
        """
        mismatch = self.mismatch()
        if mismatch.s1 or mismatch.s2 or not _row(self.family, self.optimizer, self.regime).prescribed:
            return None
        return -mismatch.eta_W

    def to_json(self) -> dict[str, Any]:
        """Return a plain document; `from_json` reads it back."""

        def plain(value: object) -> object:
            if isinstance(value, Power):
                return {name: _exponent(e) for name, e in value._exponents()}
            return value

        return {f.name: plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Parameterization:
        """Read what `to_json` wrote."""
        return cls(
            **{
                k: Power(**{s: Fraction(e) for s, e in v.items()}) if isinstance(v, dict) else v
                for k, v in document.items()
            }
            | {"equations": tuple(document["equations"])}
        )


# --- the paper's Table 1, as data ----------------------------------------------------------------

_K = Power(K=1)
_INV_SQRT_N, _SQRT_N = Power(N=-HALF), Power(N=HALF)
_INV_SQRT_K, _SQRT_K, _INV_K = Power(K=-HALF), Power(K=HALF), Power(K=-1)

#: (regime, family, optimizer) → the powers of s1, s2, eta_W, and the paper's equations for them.
TABLE: Mapping[tuple[str, str, str], tuple[Power, Power, Power, tuple[str, str, str]]] = {
    ("proportional", "elementwise", "sgd"): (
        _INV_SQRT_N, _INV_SQRT_K, _K, ("s1-scaling", "s2-proportional-linear", "linear-sgd-prescription"),
    ),
    ("proportional", "elementwise", "adam"): (
        _INV_SQRT_N, _INV_SQRT_K, ONE,
        ("s1-scaling", "s2-proportional-linear", "adam-centered-elementwise-prescription"),
    ),
    ("proportional", "softmax", "adam"): (
        _INV_SQRT_N, _SQRT_K, ONE, ("softmax-s1", "softmax-s2", "softmax-adam-dz-scaling"),
    ),
    ("memories-only", "elementwise", "sgd"): (
        _INV_SQRT_N, _INV_K, _K, ("s1-scaling", "s2-onlyK-linear", "only-K-scaling-final"),
    ),
    ("memories-only", "elementwise", "adam"): (
        _INV_SQRT_N, _INV_K, ONE, ("s1-scaling", "s2-onlyK-linear", "adam-df1-scale"),
    ),
    # Table 1 prints s2 = 1 and the appendix √N; N is fixed here, so they differ by a constant, and
    # the figures use √N.
    ("memories-only", "softmax", "adam"): (
        _INV_SQRT_N, _SQRT_N, ONE, ("softmax-s1", "K-only-scaling, softmax", "softmax-adam-dz-scaling"),
    ),
    # Softmax with SGD has no prescription: rows with a large activation get large updates, which
    # make it larger (eq. softmax-row-gradient). These are the scales of the paper's experiments.
    ("proportional", "softmax", "sgd"): (
        _INV_SQRT_N, _SQRT_K, _K, ("softmax-s1", "softmax-s2", "none (as in the experiments)"),
    ),
    ("memories-only", "softmax", "sgd"): (
        _INV_SQRT_N, _SQRT_N, _K,
        ("softmax-s1", "K-only-scaling, softmax", "none (as in the experiments)"),
    ),
}  # fmt: skip
_UNPRESCRIBED = ("softmax", "sgd")

#: regime → how large an entry of the gradient of W, b, c is in a centred model with the prescribed s1, s2.
#: Each is a mean over B samples with random signs (B^-1/2 in proportion) of, for W, s2 times one neuron's S
#: and one feature's R; for b, s2 times one row of W R, which sums N terms (N^1/2); for c, one feature's R.
#: Softmax has the same powers: its s2 is K times larger, its S and its slope are K times smaller. Without
#: centring all samples share a part of S and R, whose signs are not random.
GRADIENT: Mapping[str, Mapping[str, Power]] = {
    "proportional": {"W": Power(N=-1), "b": _INV_SQRT_N, "c": _INV_SQRT_N},
    "memories-only": {"W": _INV_K, "b": _INV_K, "c": ONE},
}


def _row(family: str, optimizer: OptimizerName, regime: RegimeName) -> Parameterization:
    s1, s2, eta_W, equations = TABLE[regime, family, optimizer]
    prescribed = (family, optimizer) != _UNPRESCRIBED
    return Parameterization(
        name="prescription",
        family=family,
        optimizer=optimizer,
        regime=regime,
        s1=s1,
        s2=s2,
        eta_W=eta_W,
        prescribed=prescribed,
        source="Table 1 of the paper" if prescribed else "the paper's experiments; not prescribed",
        equations=(*equations, "etab-cases", "etac-cases"),
    )


@runtime_checkable
class HasFamily(Protocol):
    """Anything that says which row of the table it belongs to: every Lagrangian does."""

    @property
    def family(self) -> str:
        """Either 'elementwise' or 'softmax'."""
        ...


def _family(activation: str | HasFamily) -> str:
    if isinstance(activation, str):
        if activation not in FAMILIES:
            raise InputError(f"activation must be {listed(FAMILIES)}, got {activation!r}")
        return FAMILIES[activation]
    family = getattr(activation, "family", None)
    if family not in FAMILIES.values():
        raise InputError(
            f"activation must be {listed(FAMILIES)} or a Lagrangian whose family is "
            f"{listed(sorted(set(FAMILIES.values())))}, got {activation!r}"
        )
    return str(family)


def _one_of(argument: str, value: object, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise InputError(f"{argument} must be {listed(allowed)}, got {value!r}")
    return str(value)


def _resolve(
    activation: str | HasFamily, optimizer: str, regime: str | Regime
) -> tuple[str, OptimizerName, RegimeName]:
    family, optimizer, regime = together(
        lambda: _family(activation),
        lambda: _one_of("optimizer", optimizer, OPTIMIZERS),
        lambda: _one_of("regime", getattr(regime, "name", regime), REGIMES),
    )
    return family, optimizer, regime  # type: ignore[return-value]  # checked just above


def prescription(
    activation: str | HasFamily, optimizer: str, regime: str | Regime = "proportional"
) -> Parameterization:
    """Return the row of the paper's Table 1 for an activation, an optimizer and a regime.

    Softmax with SGD has no prescription: the scales of the paper's experiments are returned with
    ``prescribed`` False, and an `UnprescribedWarning` says so.

    Parameters
    ----------
    activation
        'identity', 'relu', 'tanh', 'softmax', or any Lagrangian.
    optimizer
        'sgd' or 'adam' (which is also AdamW's).
    regime
        'proportional' or 'memories-only', or one of the regime objects.
    """
    row = _row(*_resolve(activation, optimizer, regime))
    if not row.prescribed:
        warnings.warn(
            "softmax with SGD has no prescription: these are the scales of the paper's experiments, "
            "and their learning rate is not expected to transfer; use Adam",
            UnprescribedWarning,
            stacklevel=2,
        )
    return row


def standard(
    activation: str | HasFamily, optimizer: str, regime: str | Regime = "proportional"
) -> Parameterization:
    """Return what a plain layer does: W ~ N(0, 1/N), no multipliers, one constant learning rate.

    The control. For elementwise activations in proportion it is the prescription up to constants
    under SGD, and drifts as N^-1/2 under Adam. Softmax with memories only agrees as well, since nothing
    prescribed there grows with K. Elsewhere its s2 is off (see `mismatch`).
    """
    family, optimizer, regime = _resolve(activation, optimizer, regime)
    return Parameterization(
        name="standard",
        family=family,
        optimizer=optimizer,
        regime=regime,
        s1=ONE,
        s2=ONE,
        eta_W=ONE,
        W_std=_INV_SQRT_N,
        source="W ~ N(0, 1/N), no multipliers, one learning rate",
    )


#: What may be changed besides while the gradient keeps its size.
_GRADIENT_STAYS = {"eta_W", "eta_b", "eta_c", "epsilon_W", "epsilon_b", "epsilon_c", "decay_W"}

PARAMETERIZATIONS: Mapping[str, Any] = {"prescription": prescription, "standard": standard}


def parameterization(
    text: str, activation: str | HasFamily, optimizer: str, regime: str | Regime = "proportional"
) -> Parameterization:
    """Return a parameterization by its name, or by how it differs from the prescription.

    ``s2=K^-1, eta_W=1`` is the prescription with another s2 and another learning rate;
    ``epsilon=gradient`` is the prescription with an ε of Adam that shrinks as the gradient does.
    """
    if text in PARAMETERIZATIONS:
        named: Parameterization = PARAMETERIZATIONS[text](activation, optimizer, regime)
        return named
    row = _row(*_resolve(activation, optimizer, regime))
    allowed = [f.name for f in fields(Parameterization) if isinstance(getattr(row, f.name), Power)]
    changes: dict[str, Power] = {}
    for part in text.split(","):
        name, equals, power = (piece.strip() for piece in part.partition("="))
        if (name, power) == ("epsilon", "gradient") and row.optimizer == "adam":
            changes |= {f"epsilon_{label}": size for label, size in GRADIENT[row.regime].items()}
            continue
        if not equals or name not in allowed:
            raise InputError(
                f"parameterization must be {listed(PARAMETERIZATIONS)} or changes to the prescription, as in "
                f"s2=K^-1 (of {', '.join(allowed)}) or epsilon=gradient (Adam), got {text!r}"
            )
        changes[name] = Power.parse(power)
    if "epsilon=gradient" in text.replace(" ", "") and not _GRADIENT_STAYS.issuperset(changes):
        raise InputError(
            f"parameterization: the gradient is known for the prescribed s1 and s2 only, got {text!r}"
        )
    name = ", ".join(f"{k}={v}" for k, v in changes.items())
    only_epsilon = all(k.startswith("epsilon_") for k in changes)
    prescribed = row.prescribed and only_epsilon  # ε is not in the paper's table
    return replace(row, **changes, name=name, prescribed=prescribed, source="given by hand")  # type: ignore[arg-type]


# --- explain -------------------------------------------------------------------------------------


def _explain(scales: Scales, base: Shape | None) -> str:
    rule, constants = scales.rule, scales.constants
    if base is not None and (rule is None or constants is None):
        raise InputError("base needs scales that come from a rule; these were set by hand")
    columns = [scales]
    if base is not None and rule is not None and constants is not None:
        columns.insert(0, rule.at(base, **asdict(constants)))

    def cells(name: str, symbol: str) -> list[str]:
        if name == "":
            return ["", *("" for _ in columns)]
        power = str(getattr(rule, name)) if rule else "set by hand"
        if rule:
            constant = {"s1": "s1_0", "s2": "s2_0", "eta_W": "eta0", "eta_b": "eta_b0", "eta_c": "eta_c0"}
            factor = constant.get(name)
            power = (factor if power == "1" else f"{factor}·{power}") if factor else power
        return [f"{symbol} = {power}", *(f"{getattr(s, name):.6g}" for s in columns)]

    start_W = "N(0, 1)" if scales.W_std == 1 else f"N(0, {scales.W_std:.4g}²)"
    of = dict(zip(("s1", "s2", "eta_W", "eta_b", "eta_c"), rule.equations if rule else (), strict=False))
    rows = [
        ("W, inner", start_W, cells("s1", "s1"), cells("eta_W", "η_W"), ("s1", "eta_W")),
        ("W, outer", "(tied)", cells("s2", "s2"), cells("", ""), ("s2",)),
        ("b", "0", cells("s_b", "s_b"), cells("eta_b", "η_b"), ("eta_b",)),
        ("c", "0", cells("s_c", "s_c"), cells("eta_c", "η_c"), ("eta_c",)),
    ]
    at = [f"at {name}" for name in (["base", "target"] if base else ["target"])]
    table = [["parameter", "start", "multiplier", *at, "learning rate", *at, "equations"]]
    table += [
        [name, start, *multiplier, *rate, "; ".join(of[q] for q in quantities if q in of)]
        for name, start, multiplier, rate, quantities in rows
    ]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table]
    lines.insert(1, "  ".join("─" * w for w in widths))

    kind = {"proportional": "N, K, P, B grow in proportion", "memories-only": "only K grows"}
    head = []
    if rule:
        head.append(f"{rule.name}: {rule.family}, {rule.optimizer}, {rule.regime} ({kind[rule.regime]})")
        head.append(f"from: {rule.source}")
    if base is not None:
        head.append(f"base: {base}")
    head.append(f"target: {scales.shape}")
    if constants:
        head.append("constants: " + ", ".join(f"{k} = {v:.6g}" for k, v in asdict(constants).items()))
    if rule and not rule.prescribed and rule.name == "prescription":
        head.append("warning: not prescribed; not expected to transfer")
    return "\n".join([*head, "", *lines])
