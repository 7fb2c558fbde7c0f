"""The one description: every field of a study with its default, bounds, unit and help.

Command-line options, TOML and JSON keys, record columns, run keys, figure panels and the reference page are
derived from these fields (`denseam.studies.documents`, `denseam.studies.records`, `denseam.cli.options`). To
add a hyperparameter that can be swept, add a field to `Hyperparameters`; to add a setting that all runs of a
study share, add a field to `Description`. What it does to training goes into `studies/runs.py`.

Plain data: no array framework is imported here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from denseam.data.preparation import DEFAULT_PREPARATION, Preparation
from denseam.rules.fields import NEEDED, InKey, Kind, Parameter, Part, Spacing, Span, parameter, parameters
from denseam.rules.optimizers import OPTIMIZERS, having
from denseam.rules.regimes import DEFAULT_REGIME, REGIMES, Regime, regime_parameters
from denseam.rules.schedules import COOLDOWN, SCHEDULES
from denseam.rules.table import BIAS_INITS, FAMILIES

Precision = Literal["float32", "tf32", "bf16", "float64"]
PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bf16", "float64")

#: Which features of a sample are hidden.
HideBy = Literal["features", "block", "last"]
HIDE_BY: tuple[HideBy, ...] = ("features", "block", "last")

_ALWAYS, _NEVER = InKey.ALWAYS, InKey.NEVER


def described_elsewhere() -> Any:
    """Return a required field that `Hyperparameters` describes."""
    return dataclasses.field(default=NEEDED)


def _of_optimizer(name: str, help: str, **facts: Any) -> Any:
    """Return a hyperparameter of those optimizers that have it (`denseam.rules.optimizers`)."""
    owners = having(name)
    defaults = {owner: OPTIMIZERS[owner].defaults[name] for owner in owners}
    usual = facts["default"]
    others = [f"{owner} {value:g}" for owner, value in defaults.items() if value != usual]
    shown = f"{usual:g}, {', '.join(others)}" if others else ""
    return _axis(Part.TRAINING, help, belongs=("optimizer", *owners), default_text=shown, **facts)


def _axis(part: Part, help: str, default: Any = dataclasses.MISSING, **facts: Any) -> Any:
    """Return a field that can be swept: its values are numbers of at least 0."""
    return parameter(part, Kind.NUMBERS, help, default, **{"low": 0.0, "swept": True} | facts)


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """The dimensionless numbers of one run; a study has one value for each, or several to try."""

    eta0: float = _axis(
        Part.TRAINING, "Learning rates η0, dimensionless.", open_low=True, key=_ALWAYS, span=Span(1e-10, 1e4)
    )
    eta_b_ratio: float = _axis(
        Part.TRAINING, "Learning rate of b over η0.", 1.0, unit="η0", key=_ALWAYS, span=Span(0.1, 10)
    )
    eta_c_ratio: float = _axis(
        Part.TRAINING, "Learning rate of c over η0.", 1.0, unit="η0", key=_ALWAYS, span=Span(0.1, 10)
    )
    s1_0: float = _axis(
        Part.MODEL,
        "Constant of the inner multiplier s1.",
        1.0,
        open_low=True,
        key=_ALWAYS,
        span=Span(0.25, 4),
    )
    s2_0: float = _axis(
        Part.MODEL,
        "Constant of the outer multiplier s2.",
        1.0,
        open_low=True,
        key=_ALWAYS,
        span=Span(0.25, 4),
    )
    beta: float = _axis(
        Part.MODEL, "Inverse temperature of softmax.", 1.0, document="softmax_beta", open_low=True,
        belongs=("activation", "softmax"), key=_ALWAYS, span=Span(0.25, 4),
    )  # fmt: skip
    momentum: float = _of_optimizer(
        "momentum", "Momentum.", default=0.0, high=1, key=_ALWAYS, span=Span(0, 0.98, Spacing.FROM_ONE)
    )
    beta1: float = _of_optimizer(
        "beta1", "β1, of the first moment.", default=0.9, high=1, key=_ALWAYS,
        span=Span(0, 0.98, Spacing.FROM_ONE),
    )  # fmt: skip
    beta2: float = _of_optimizer(
        "beta2", "β2, of the second moment.", default=0.999, high=1, key=_ALWAYS,
        span=Span(0.5, 0.9999, Spacing.FROM_ONE),
    )  # fmt: skip
    epsilon: float = _of_optimizer("epsilon", "ε of Adam.", default=1e-8, key=_ALWAYS, span=Span(1e-12, 1e-4))
    decay: float = _of_optimizer(
        "decay", "Decoupled weight decay λ of W, dimensionless.", default=0.0, span=Span(1e-5, 1)
    )
    decay_time: float | None = _axis(
        Part.TRAINING, "Decay time of W: 1/(η_W λ_W), over the steps of training; replaces decay.",
        None, open_low=True, unit="the training", default_text="from decay",
        belongs=("optimizer", *having("decay")), bold_below=True, span=Span(0.1, 100),
    )  # fmt: skip
    warmup: float = _axis(
        Part.TRAINING, "Share of training in which the learning rate rises from 0.", 0.0,
        high=1, open_high=False, unit="the training", span=Span(0, 0.5, Spacing.LINEAR),
    )  # fmt: skip
    cooldown: float = _axis(
        Part.TRAINING, "Share of training in which the learning rate falls to 0.", COOLDOWN,
        open_low=True, high=1, open_high=False, unit="the training", span=Span(0.05, 0.5, Spacing.LINEAR),
        belongs=("schedule", *(row.name for row in SCHEDULES.values() if "cooldown" in row.parameters)),
    )  # fmt: skip
    noise: float = _axis(
        Part.TRAINING, "Standard deviation of the noise.", 0.5, unit="that of the data", key=_ALWAYS
    )
    tau: float = _axis(
        Part.TRAINING, "Total time τ of the steps of recall: a step has the size τ/T.", 1.0, open_low=True,
        span=Span(0.25, 4),
    )  # fmt: skip
    early: float = _axis(Part.TRAINING, "Weight of the mean loss of all steps of recall but the last.", 0.0)
    burn_in: float = _axis(
        Part.TRAINING, "Maximum burn-in, in units of T: steps without gradient before the trained ones.", 0.0,
        unit="T",
    )  # fmt: skip


#: The axes of a study: everything that can be swept.
AXES: Mapping[str, Parameter] = parameters(Hyperparameters)


#: The learning rate of one training; that of a study may have several values.
ETA0 = dataclasses.replace(
    AXES["eta0"], kind=Kind.NUMBER, swept=False, required=False,
    help="Learning rate η0: trains without tuning, or replaces the tuned value.",
)  # fmt: skip


#: The optimizers whose momentum can look ahead.
_LOOKING_AHEAD = tuple(name for name, rule in OPTIMIZERS.items() if rule.nesterov is not None)


@dataclasses.dataclass(frozen=True)
class Description:
    """The fields of a study; `denseam.Study` says what they mean."""

    activation: Any = parameter(  # noqa: RUF009  # it returns a field
        Part.MODEL,
        Kind.OBJECT,
        f"Hidden activation: {', '.join(FAMILIES)}; with parameters as in 'entmax(1.5)'.",
        key=_NEVER,
    )
    optimizer: str = parameter(
        Part.TRAINING, Kind.CHOICE, f"Optimizer: {', '.join(OPTIMIZERS)}.",
        choices=tuple(OPTIMIZERS), key=_ALWAYS,
    )  # fmt: skip
    scales: Sequence[int] = parameter(
        Part.GROWTH, Kind.WHOLES, "Values of the size that grows (N, K, B, P, T or epochs), as in 32,64,128.",
        low=1, key=_NEVER,
    )  # fmt: skip
    eta0: Sequence[float] = described_elsewhere()
    regime: Regime = DEFAULT_REGIME
    seeds: int | Sequence[int] = parameter(
        Part.SWEEP, Kind.SEEDS, "Number of seeds, or the seeds themselves.", 3, low=0, key=_NEVER
    )
    epochs: int = parameter(Part.TRAINING, Kind.WHOLE, "Passes over the data.", 64, low=1, key=_ALWAYS)
    noise: float = AXES["noise"].default
    data: str = parameter(
        Part.DATA, Kind.TEXT, "Samples: isotropic, anisotropic, the name of a data set, or a path.",
        "isotropic", key=_NEVER,
    )  # fmt: skip
    preparation: Preparation = DEFAULT_PREPARATION
    centred: bool | None = parameter(
        Part.MODEL, Kind.FLAG, "Whether to centre the activations over the memories.", None,
        default_text="yes, except for identity", off="uncentered", key=_ALWAYS,
    )  # fmt: skip
    bias_init: str = parameter(
        Part.MODEL, Kind.CHOICE, "How the biases start: zero or normal.", "zero",
        choices=BIAS_INITS, key=_ALWAYS,
    )  # fmt: skip
    parameterization: Any = parameter(  # noqa: RUF009
        Part.MODEL, Kind.OBJECT,
        "Scaling rule: prescription, standard, changes to it as in s2=K^-1, or a file written by find.",
        "prescription", key=_NEVER,
    )  # fmt: skip
    precision: str = parameter(
        Part.TRAINING, Kind.CHOICE,
        "Precision of matrix products: float32 or float64; on a GPU also tf32 or bf16.",
        "float32", choices=PRECISIONS, key=_ALWAYS,
    )  # fmt: skip
    axes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    probes: Sequence[str] = parameter(
        Part.SWEEP, Kind.WORDS, "Quantities to measure while training: all, or names as in updates,K_eff.", ()
    )
    probe_steps: Sequence[int] | None = parameter(
        Part.SWEEP, Kind.WHOLES, "Steps to measure at, as in 0,1,2,4.", None, low=0,
        default_text="log-spaced", key=_NEVER,
    )  # fmt: skip
    power: float | None = parameter(
        Part.MODEL, Kind.NUMBER, "p of relu^p.", None, low=1, high=64, open_high=False, default_text="1",
        belongs=("activation", "relu"), key=_NEVER,
    )  # fmt: skip
    name: str = parameter(
        Part.SWEEP, Kind.TEXT, "Name of the study.", "", default_text="made from the settings", key=_NEVER
    )
    steps: int = parameter(
        Part.TRAINING, Kind.WHOLE, "Steps of recall T that the memory is trained through.", 1, low=1
    )
    overshoot: bool = parameter(
        Part.TRAINING, Kind.FLAG, "Allow τ/T above 1, where a step can raise the energy.", False,
        key=_NEVER,
    )  # fmt: skip
    hide: float = parameter(
        Part.TRAINING, Kind.NUMBER, "Share of features that are hidden; the others keep their values.", 0.0,
        low=0, high=1,
    )  # fmt: skip
    hide_by: str = parameter(
        Part.TRAINING, Kind.CHOICE,
        "Which features are hidden: random ones (features), neighbours (block), or the last ones (last).",
        "features", choices=HIDE_BY,
    )  # fmt: skip
    nesterov: bool | None = parameter(
        Part.TRAINING, Kind.FLAG, "Whether to use Nesterov momentum.", None, off="heavy-ball",
        default_text="no, muon yes", belongs=("optimizer", *_LOOKING_AHEAD),
    )  # fmt: skip
    schedule: Any = parameter(  # noqa: RUF009
        Part.TRAINING, Kind.OBJECT,
        f"How the learning rate changes during training: {', '.join(SCHEDULES)}.", "constant", key=_NEVER,
    )  # fmt: skip
    feature_activation: Any = parameter(  # noqa: RUF009
        Part.MODEL, Kind.OBJECT,
        "Activation g of the features: tanh, identity, layer-norm, spherical-norm, 'tanh(2)'.", "tanh",
        key=_NEVER,
    )  # fmt: skip


#: The name of the regime in a document; a study holds the regime itself.
REGIME = Parameter(
    Part.GROWTH, Kind.CHOICE, f"What grows: all sizes, or one of them ({', '.join(REGIMES)}).",
    name="regime", document="regime", default="proportional", choices=tuple(REGIMES), key=_ALWAYS,
)  # fmt: skip


def _document() -> dict[str, Parameter]:
    """Return every key of a study's document with its parameter, in the order of the help pages."""
    described = [
        *parameters(Description).values(),
        *parameters(Preparation).values(),
        REGIME,
        *regime_parameters().values(),
        *AXES.values(),
    ]
    order = list(Part)
    return {p.document: p for p in sorted(described, key=lambda p: order.index(p.part))}


#: Key of a document and option of the command line → its parameter.
DOCUMENT: Mapping[str, Parameter] = _document()
