"""What is asked: one plain, validated description of a set of runs, and the key of each run.

A study trains one kind of model over scales × axes × seeds. An *axis* is a dimensionless
hyperparameter with the values to try; ``eta0`` is always one. Runs that differ in axis values alone
share data, initial weights, batches and noise, and are one tensor program.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import itertools
import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from denseam.data.preparation import Preparation
from denseam.data.sources import GAUSSIANS, Source, source
from denseam.errors import InputError, listed, refuse, together
from denseam.model import lagrangians
from denseam.model.dense_am import BIAS_INITS
from denseam.model.lagrangians import Identity, Lagrangian, Softmax
from denseam.rules import MemoriesOnly, Parameterization, Proportional, Regime, Shape, cost, parameterization
from denseam.rules.prescriptions import PARAMETERIZATIONS
from denseam.rules.table import OPTIMIZERS
from denseam.training.quantities import log_spaced, resolve

Precision = Literal["float32", "tf32", "bf16", "float64"]
PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bf16", "float64")

#: Raised whenever a change of the engine changes results beyond rounding; part of every run key.
ENGINE = 1

#: By default one measurement for so many steps of training; it costs about as much as ten of them.
STEPS_PER_PROBE = 128

DEFAULT_PREPARATION = Preparation()
DEFAULT_REGIME = Proportional(kappa=2, rho=5, beta=0.1)

#: Axis → (value if it is not swept, smallest allowed, largest allowed, is the smallest allowed?).
AXES: Mapping[str, tuple[float | None, float, float, bool]] = {
    "eta0": (None, 0.0, math.inf, False),
    "eta_b_ratio": (1.0, 0.0, math.inf, True),  # eta_b0 / eta0
    "eta_c_ratio": (1.0, 0.0, math.inf, True),  # eta_c0 / eta0
    "s1_0": (1.0, 0.0, math.inf, False),
    "s2_0": (1.0, 0.0, math.inf, False),
    "beta": (1.0, 0.0, math.inf, False),  # of softmax
    "momentum": (0.0, 0.0, 1.0, True),  # of SGD
    "beta1": (0.9, 0.0, 1.0, True),  # of Adam
    "beta2": (0.999, 0.0, 1.0, True),
    "epsilon": (1e-8, 0.0, math.inf, True),
    "noise": (0.5, 0.0, math.inf, True),
}


def logspace(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return values from low to high that are evenly spaced in their logarithm."""
    refuse(
        [f"low and high must be above 0 and finite, got {low!r} and {high!r}"]
        * (not (0 < low < math.inf and 0 < high < math.inf))
        + [f"count must be a whole number of at least 1, got {count!r}"]
        * (not isinstance(count, int) or count < 1)
    )
    # Rounded to twelve digits, so that a grid written in a file and one made here have the same keys.
    return tuple(float(f"{v:.12g}") for v in np.geomspace(low, high, count))


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """One run: a shape, a seed, and a value for every axis."""

    key: str
    scale: int
    shape: Shape
    seed: int
    values: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Study:
    """A set of runs over scales × axes × seeds.

    Parameters
    ----------
    activation
        A name or a Lagrangian; `power` belongs to the name 'relu'.
    optimizer
        'sgd' or 'adam'.
    scales
        The sizes to compare: N in the proportional regime, K where only the memories grow. Rising.
    eta0
        The learning rates to try. Rising.
    regime
        `Proportional(κ, ρ, β)` or `MemoriesOnly(N, P, B)`.
    seeds
        How many, or which.
    epochs
        Passes over the data.
    noise
        Standard deviation of the noise.
    data
        'isotropic', 'anisotropic', 'digits', 'mnist', 'fashion-mnist', or the path of a file or of a folder
        of images (`denseam.data.readers`).
    preparation
        What is done to samples from a file: how they shrink, whether they are scaled, how many are held
        out (`denseam.data.Preparation`). They are always centred.
    centred
        By default for every activation but identity.
    bias_init
        'zero' or 'normal'.
    parameterization
        'prescription', 'standard', or a `Parameterization` of your own.
    precision
        'float32', 'float64', or on a GPU 'tf32' and 'bf16' (of the matrix products).
    axes
        Other hyperparameters to sweep, with their values; the runs are the grid of all of them.
    probes
        What to measure while training: 'all', groups ('updates', 'spectra', …) or quantities of
        `denseam.training.quantities`.
    probe_steps
        The steps to measure at, counted from 0: the state before that step, and what it changes. By
        default log-spaced, few enough to cost at most 15 % of the training.
    name
        What it is called in tables; made from the settings by default.
    """

    activation: str | Lagrangian
    optimizer: str
    scales: Sequence[int]
    eta0: Sequence[float]
    regime: Regime = DEFAULT_REGIME
    seeds: int | Sequence[int] = 3
    epochs: int = 64
    noise: float = 0.5
    data: str = "isotropic"
    preparation: Preparation = DEFAULT_PREPARATION
    centred: bool | None = None
    bias_init: str = "zero"
    parameterization: str | Parameterization = "prescription"
    precision: str = "float32"
    axes: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)
    probes: Sequence[str] = ()
    probe_steps: Sequence[int] | None = None
    power: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        """Check everything and say all that is wrong at once."""
        seeds = tuple(range(self.seeds)) if isinstance(self.seeds, int) else tuple(self.seeds)
        axes = {"eta0": self.eta0} | dict(self.axes)
        axes.setdefault("noise", (self.noise,))
        for field, value in (
            ("seeds", seeds),
            ("scales", tuple(self.scales)),
            ("eta0", tuple(map(float, self.eta0))),
            ("axes", {k: tuple(map(float, v)) for k, v in axes.items() if k in AXES and k != "eta0"}),
        ):
            object.__setattr__(self, field, value)
        problems = [
            *_axis_problems(axes, self.activation, self.optimizer),
            *_choice_problems(
                optimizer=(self.optimizer, OPTIMIZERS),
                bias_init=(self.bias_init, BIAS_INITS),
                precision=(self.precision, PRECISIONS),
            ),
            *_rising("scales", self.scales, whole=True),
        ]
        if not seeds or len(set(seeds)) < len(seeds) or any(not isinstance(s, int) or s < 0 for s in seeds):
            problems.append(f"seeds must be at least one, none below 0 and none twice, got {self.seeds!r}")
        if isinstance(self.epochs, bool) or not isinstance(self.epochs, int) or self.epochs < 1:
            problems.append(f"epochs must be a whole number of at least 1, got {self.epochs!r}")
        if not isinstance(self.regime, Proportional | MemoriesOnly):
            problems.append(f"regime must be Proportional(…) or MemoriesOnly(…), got {self.regime!r}")
        elif not any(p.startswith("scales") for p in problems):
            problems += self._shape_problems()
        try:
            lagrangian = _lagrangian(self.activation, self.power)
            object.__setattr__(self, "activation", lagrangian)
            object.__setattr__(self, "power", None)  # the Lagrangian has it now
            if self.centred is None:
                object.__setattr__(self, "centred", not isinstance(lagrangian, Identity))
        except InputError as error:
            problems += error.problems
        refuse(dict.fromkeys(problems))
        together(lambda: self._check_rule(), lambda: self._resolve_probes())
        if not self.name:
            object.__setattr__(self, "name", self._default_name())

    def _check_rule(self) -> None:
        rule = self.rule()
        mine = (self.lagrangian.family, self.optimizer, self.regime.name)
        if (rule.family, rule.optimizer, rule.regime) != mine:
            given = ", ".join((rule.family, rule.optimizer, rule.regime))
            raise InputError(f"parameterization is for {given}, but the study is {', '.join(mine)}")
        by_gradient = isinstance(self.parameterization, str) and "gradient" in self.parameterization
        odd = self.lagrangian.name in ("identity", "tanh")  # no mean that centring would take out
        if by_gradient and not self.centred and not odd:
            raise InputError("parameterization epsilon=gradient holds for centred models only")

    def _resolve_probes(self) -> None:
        asked = [self.probes] if isinstance(self.probes, str) else list(self.probes)
        momentum = self.grid["momentum"] != (0.0,)
        names = resolve(asked, self.lagrangian.family, self.optimizer, momentum)
        steps = self.probe_steps
        refuse(
            ["probe_steps need probes: say what to measure"] * (steps is not None and not names)
            + ([] if steps is None else _rising("probe_steps", [s + 1 for s in steps], whole=True))
        )
        object.__setattr__(self, "probes", names)
        if steps is not None:
            last = min(self.steps(self.regime.shape(scale)) for scale in self.scales) - 1
            refuse(
                [f"probe_steps must be at most {last}, the last step, got {max(steps)}"] * (max(steps) > last)
            )
            object.__setattr__(self, "probe_steps", tuple(steps))

    def steps(self, shape: Shape) -> int:
        """Return the steps of a run at a shape."""
        return cost.steps(shape, self.epochs)

    def steps_to_probe(self, shape: Shape) -> tuple[int, ...]:
        """Return the steps at which a run of a shape is measured."""
        if not self.probes:
            return ()
        if self.probe_steps is not None:
            return tuple(self.probe_steps)
        steps = self.steps(shape)
        return log_spaced(steps, max(1, steps // STEPS_PER_PROBE))

    def _shape_problems(self) -> list[str]:
        problems: list[str] = []
        try:
            data = source(self.data, self.preparation)
        except InputError as error:
            problems += error.problems
            data = None
        for scale in self.scales:
            try:
                shape = self.regime.shape(scale)
            except InputError as error:
                problems += [f"scale {scale}: {p}" for p in error.problems]
                continue
            if isinstance(self.regime, Proportional) and self.regime.beta * (shape.P or 0) < 1 - 1e-9:
                B = self.regime.beta * (shape.P or 0)
                problems.append(f"scale {scale}: its batch (B = β·P = {B:.3g}) is below 1; raise beta or rho")
            if data is not None:
                problems += data.problems(shape)
        return problems

    def _default_name(self) -> str:
        assert isinstance(self.activation, Lagrangian)
        power = getattr(self.activation, "power", 1)
        parts = [self.activation.name + ("" if power == 1 else f"{power:g}"), self.optimizer]
        if self.regime.name != "proportional":
            parts.append(self.regime.name)
        if self.centred != (not isinstance(self.activation, Identity)):
            parts.append("centred" if self.centred else "uncentred")
        if self.data != "isotropic":
            parts.append(self.data if self.data in GAUSSIANS else Path(self.data.rstrip("/")).stem)
        parts += [f"bias-{self.bias_init}"] * (self.bias_init != "zero")
        parts += [self.rule().name] * (self.rule().name != "prescription")
        parts += [self.precision] * (self.precision != "float32")
        return "-".join(parts)

    @property
    def lagrangian(self) -> Lagrangian:
        """The activation as an object."""
        assert isinstance(self.activation, Lagrangian)
        return self.activation

    def rule(self) -> Parameterization:
        """Return the parameterization the scales and learning rates come from."""
        if isinstance(self.parameterization, Parameterization):
            return self.parameterization
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parameterization(self.parameterization, self.lagrangian, self.optimizer, self.regime)

    def source(self) -> Source:
        """Return where the data comes from."""
        return source(self.data, self.preparation)

    @property
    def swept(self) -> tuple[str, ...]:
        """The axes with more than one value; eta0 if there is none."""
        many = [a for a, values in self.grid.items() if len(values) > 1]
        return tuple(many) or ("eta0",)

    @property
    def grid(self) -> dict[str, tuple[float, ...]]:
        """The values of every axis, one each for those that are not swept."""
        given = {"eta0": self.eta0} | dict(self.axes)
        beta = float(self.lagrangian.beta) if isinstance(self.lagrangian, Softmax) else 1.0
        defaults = {a: (beta if a == "beta" else default) for a, (default, *_) in AXES.items()}
        return {a: tuple(given.get(a, (defaults[a],))) for a in AXES}  # type: ignore[arg-type]

    def settings(self) -> dict[str, Any]:
        """Return what all runs share and what changes their results, as a plain document."""
        return {
            "engine": ENGINE,
            "activation": {k: v for k, v in lagrangians.to_json(self.lagrangian).items() if k != "beta"},
            "optimizer": self.optimizer,
            "regime": self.regime.name,
            "parameterization": self._parameterization_key(),
            "epochs": self.epochs,
            "data": self.source().digest,
            "centred": self.centred,
            "bias_init": self.bias_init,
            "precision": self.precision,
        } | ({"probes": self.probes} if self.probes else {})

    def _parameterization_key(self) -> Any:
        """Return the name of a known rule, the exponents of one that was given by hand."""
        if self.parameterization in PARAMETERIZATIONS:
            return self.parameterization
        powers = {k: v for k, v in self.rule().to_json().items() if isinstance(v, dict)}
        # These came later; while they are 1, runs keep the keys they had before.
        return {k: v for k, v in powers.items() if v or k not in ("epsilon_b", "epsilon_c")}

    @property
    def id(self) -> str:
        """A short hash of the settings and of the regime: the same for runs that can be compared."""
        ratios = dataclasses.asdict(self.regime)
        whole = {k: int(v) for k, v in ratios.items() if isinstance(v, float) and v.is_integer()}
        return _hash(self.settings() | {"ratios": ratios | whole})[:12]

    def runs(self) -> list[RunSpec]:
        """Return every run, scale by scale, seed by seed."""
        points = [
            dict(zip(self.grid, point, strict=True)) for point in itertools.product(*self.grid.values())
        ]
        return self.runs_at(points)

    def runs_at(self, points: Iterable[Mapping[str, float]]) -> list[RunSpec]:
        """Return the runs with these values of the axes (the others at their first), all scales and seeds."""
        settings, points = self.settings(), list(points)
        first = {axis: values[0] for axis, values in self.grid.items()}
        specs = []
        for scale in self.scales:
            shape = self.regime.shape(scale)
            for seed in self.seeds:  # type: ignore[union-attr]  # a tuple since __post_init__
                for point in points:
                    values = first | dict(point)
                    asked = settings | {"shape": dataclasses.asdict(shape), "seed": seed, "values": values}
                    if self.probes:
                        asked["probe_steps"] = self.steps_to_probe(shape)
                    specs.append(RunSpec(_hash(asked), scale, shape, seed, values))
        return specs

    def describe(self) -> str:
        """Return one line for people."""
        axes = ", ".join(f"{len(self.grid[a])} {a}" for a in self.swept)
        growing = "N" if self.regime.name == "proportional" else "K"
        scales = ", ".join(map(str, self.scales))
        seeds = len(tuple(self.seeds))  # type: ignore[arg-type]
        many = "" if seeds == 1 else "s"
        return f"{self.name}: {growing} = {scales}; {axes}; {seeds} seed{many}; {self.epochs} epochs"


# --- from text -----------------------------------------------------------------------------------

#: Keys of a study file → what they mean; the flags of `denseam sweep` have the same names.
FILE_KEYS = (
    "name", "activation", "power", "optimizer", "regime", "scales", "eta0", "seeds", "epochs", "kappa", "rho",
    "beta", "features", "samples", "batch", "noise", "data", "shrink", "unit_variance",
    "heldout", "uncentered", "bias_init", "parameterization",
    "precision", "axes", "probes", "probe_steps",
)  # fmt: skip


def grid_values(name: str, given: Any) -> tuple[float, ...]:
    """Read a grid: ``1e-3:1:13`` (log-spaced), ``0.1,0.2``, a number, or a list of numbers."""
    try:
        if isinstance(given, str):
            if ":" in given:
                low, high, count = given.split(":")
                return logspace(float(low), float(high), int(count))
            return tuple(float(v) for v in given.split(",") if v.strip())
        if isinstance(given, int | float):
            return (float(given),)
        return tuple(float(v) for v in given)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    except (TypeError, ValueError):
        raise InputError(f"{name} must be low:high:count, or numbers with commas, got {given!r}") from None


def whole_values(name: str, given: Any) -> tuple[int, ...]:
    """Read whole numbers: ``32,64,128`` or a list of them."""
    values = grid_values(name, given)
    if any(v != int(v) for v in values):
        raise InputError(f"{name} must be whole numbers with commas, got {given!r}")
    return tuple(int(v) for v in values)


def words(name: str, given: Any) -> tuple[str, ...]:
    """Read names: ``updates,spectra`` or a list of them."""
    if isinstance(given, str):
        given = given.split(",")
    if not isinstance(given, Sequence) or not all(isinstance(word, str) for word in given):
        raise InputError(f"{name} must be names with commas, got {given!r}")
    return tuple(word.strip() for word in given if word.strip())


def from_document(document: Mapping[str, Any]) -> Study:
    """Build a study from plain values, as in a file or from flags; unset keys take the defaults."""
    values = {k: v for k, v in document.items() if v is not None}
    problems = [_unknown(key, FILE_KEYS) for key in values if key not in FILE_KEYS]
    problems += [
        f"{name} is needed" for name in ("activation", "optimizer", "scales", "eta0") if name not in values
    ]
    regime_name = values.get("regime", "proportional")
    ours, theirs = ("kappa", "rho", "beta"), ("features", "samples", "batch")
    if regime_name == "memories-only":
        ours, theirs = theirs, ours
        problems += [f"{k} is needed in the regime 'memories-only'" for k in ours if k not in values]
    elif regime_name != "proportional":
        problems.append(f"regime must be 'proportional' or 'memories-only', got {regime_name!r}")
    problems += [f"{k} does not belong to the regime {regime_name!r}" for k in theirs if k in values]
    refuse(problems)

    def regime() -> Regime:
        if regime_name == "memories-only":
            return MemoriesOnly(*(int(values[k]) for k in ours))
        return Proportional(*(float(values.get(k, d)) for k, d in zip(ours, (2, 5, 0.1), strict=True)))

    def axes() -> dict[str, tuple[float, ...]]:
        given = values.get("axes", {})
        if not isinstance(given, Mapping):
            raise InputError(f"axes must be a table of name = values, got {given!r}")
        pairs = together(*(lambda k=k, v=v: (k, grid_values(k, v)) for k, v in given.items()))
        return dict(pairs)

    scales, eta0, made_regime, made_axes, preparation = together(
        lambda: whole_values("scales", values["scales"]),
        lambda: grid_values("eta0", values["eta0"]),
        regime,
        axes,
        lambda: Preparation(**{k: values[k] for k in ("shrink", "unit_variance", "heldout") if k in values}),
    )
    same = ("activation", "power", "optimizer", "seeds", "epochs", "noise", "data", "bias_init", "name")
    options = {k: values[k] for k in (*same, "parameterization", "precision") if k in values}
    if "probes" in values:
        options["probes"] = words("probes", values["probes"])
    if "probe_steps" in values:
        options["probe_steps"] = whole_values("probe_steps", values["probe_steps"])
    if "uncentered" in values:
        options["centred"] = False if values["uncentered"] else None
    return Study(
        scales=scales, eta0=eta0, regime=made_regime, axes=made_axes, preparation=preparation, **options
    )


def from_file(path: str | Path, overrides: Mapping[str, Any] | None = None) -> list[Study]:
    """Read a TOML file: keys for all studies at the top, and any number of ``[[study]]`` tables."""
    try:
        document = tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise InputError(f"study file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"study file {path}: not TOML ({error})") from None
    document.pop("executor", None)  # where it runs, not what is asked: `denseam.studies.cluster` reads it
    tables = document.pop("study", [{}])
    if not isinstance(tables, list):
        raise InputError(f"study file {path}: 'study' must be [[study]] tables")
    given = {k: v for k, v in (overrides or {}).items() if v is not None}

    def build(table: Mapping[str, Any]) -> Study:
        try:
            return from_document({**document, **table, **given})
        except InputError as error:
            raise InputError(*(f"study file {path}: {p}" for p in error.problems)) from None

    return together(*(lambda table=table: build(table) for table in tables))


def _unknown(key: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, list(known), 1, 0.5)
    return f"unknown key {key!r}" + (f" (did you mean {near[0]!r}?)" if near else "")


def _lagrangian(activation: str | Lagrangian, power: float | None) -> Lagrangian:
    if isinstance(activation, Lagrangian):
        if power is not None:
            raise InputError("power belongs to the name 'relu'; a Lagrangian has its own")
        return activation
    known = lagrangians.registered()
    if activation not in known:
        raise InputError(f"activation must be {listed(known)}, got {activation!r}")
    if power is not None and activation != "relu":
        raise InputError(f"power belongs to the activation 'relu', got activation {activation!r}")
    return known[activation](power) if power is not None else known[activation]()


def _choice_problems(**choices: tuple[str, Sequence[str]]) -> list[str]:
    return [
        f"{name} must be {listed(allowed)}, got {value!r}"
        for name, (value, allowed) in choices.items()
        if value not in allowed
    ]


def _rising(name: str, values: Sequence[float], whole: bool = False) -> list[str]:
    if not len(values):
        return [f"{name} must not be empty"]
    if any(b == a for a, b in itertools.pairwise(values)) or len(set(values)) < len(values):
        return [f"{name} must not hold a value twice, got {_short(values)}"]
    if any(b < a for a, b in itertools.pairwise(values)):
        return [f"{name} must rise, got {_short(values)}"]
    if whole and any(isinstance(v, bool) or not isinstance(v, int) or v < 1 for v in values):
        return [f"{name} must be whole numbers of at least 1, got {_short(values)}"]
    return []


def _axis_problems(axes: Mapping[str, Sequence[float]], activation: object, optimizer: str) -> list[str]:
    problems = []
    softmax = activation == "softmax" or getattr(activation, "family", "") == "softmax"
    owner = {"momentum": "sgd", "beta1": "adam", "beta2": "adam", "epsilon": "adam"}
    for axis, values in axes.items():
        if axis not in AXES:
            problems.append(_unknown(axis, AXES).replace("key", "axis"))
            continue
        problems += _rising(axis, values)
        _, low, high, low_allowed = AXES[axis]
        bad = [v for v in values if not ((low <= v if low_allowed else low < v) and v < high)]
        if bad:
            bound = f"{'at least' if low_allowed else 'above'} {low:g}"
            top = "finite" if high == math.inf else f"below {high:g}"
            problems.append(f"{axis} must be {bound} and {top}, got {bad[0]!r}")
        if axis in owner and optimizer != owner[axis]:
            problems.append(f"axis {axis} belongs to the optimizer {owner[axis]!r}, got {optimizer!r}")
        if axis == "beta" and not softmax:
            problems.append("axis beta belongs to the activation 'softmax'")
    return problems


def _short(values: Sequence[float]) -> str:
    shown = ", ".join(f"{v:g}" for v in values[:8])
    return shown + (", …" if len(values) > 8 else "")


def _hash(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()[:32]
