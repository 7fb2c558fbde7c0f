"""A study: one plain, validated description of a set of runs, and the key of each run.

A study trains one kind of model over scales × axes × seeds. An *axis* is a dimensionless hyperparameter with
the values to try; ``eta0`` is always one. Runs that differ only in axis values share data, initial weights,
batches and noise, and are one tensor program.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import math
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from denseam.data.sources import GAUSSIANS, Source, source
from denseam.ground.display import Shown
from denseam.ground.errors import COUNTS_BELOW, InputError, collecting, listed, refuse, shown, together
from denseam.model import lagrangians
from denseam.model.lagrangians import Elementwise, Identity, Lagrangian, Softmax, Tanh
from denseam.model.shared import check_single
from denseam.rules import Parameterization, Shape, cost, parameterization
from denseam.rules.activations import read_activation
from denseam.rules.fields import InKey, Parameter, is_given, parameters, read_fields
from denseam.rules.optimizers import AVERAGES, OPTIMIZERS, UpdateRule
from denseam.rules.prescriptions import PARAMETERIZATIONS
from denseam.rules.regimes import REGIMES, Regime
from denseam.rules.schedules import (
    TWO_UNITS,
    Schedule,
    Timetable,
    decay_time_problems,
    schedule_of,
    schedule_problems,
)
from denseam.rules.table import STEP, is_prescribed
from denseam.studies.description import AXES, Description
from denseam.studies.keys import Documents, digest
from denseam.studies.rule_files import is_rule_file, read_rule
from denseam.training.quantities import log_spaced, resolve

#: Increased whenever a change of the engine changes results beyond rounding; part of every run key.
ENGINE = 1

#: By default there is one measurement per this many steps; it costs about as much as ten of them.
STEPS_PER_PROBE = 128
#: Somebody's own schedule is recognised by its values at this many fractions of training.
_SAMPLED = 1000

#: The regimes, as they are written in Python.
_REGIMES = ", ".join(f"{regime.__name__}(…)" for regime in REGIMES.values())

#: The most runs of a study: all of them are described in memory.
MOST_RUNS = 1_000_000


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """One run: a shape, a seed, and a value for every axis."""

    key: str
    scale: int
    shape: Shape
    seed: int
    values: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Study(Description, Shown):
    """A set of runs over scales × axes × seeds.

    Parameters
    ----------
    activation
        A name or a Lagrangian; `power` belongs to the name 'relu'.
    optimizer
        A name of `denseam.rules.optimizers.OPTIMIZERS`: 'sgd', 'adam', 'adamw', 'lion', 'sign' or 'muon'.
    scales
        The sizes to compare, in increasing order: N in the proportional regime, otherwise K, B, P or the
        epochs, whichever grows.
    eta0
        The learning rates to try, in increasing order.
    regime
        `Proportional(κ, ρ, β)`, `MemoriesOnly(N, P, B)`, `BatchOnly(N, K, P)`, `SamplesOnly(N, K, B)`,
        `StepsOnly(N, K, P, B)`, `ProportionalSteps(κ, ρ, β, θ)` or
        `Epochs(N, K, P, B)`.
    seeds
        Their number, or a list of them.
    epochs
        Passes over the data; no effect in the regime `Epochs`, whose scales they are.
    noise
        Standard deviation of the noise.
    data
        'isotropic', 'anisotropic', 'digits', 'mnist', 'fashion-mnist', or the path of a file or of a folder
        of images (`denseam.data.readers`).
    preparation
        How samples from a file are prepared: reduced, scaled, and how many are held out
        (`denseam.data.Preparation`). They are always centred.
    centred
        By default for every activation but identity.
    bias_init
        'zero' or 'normal'.
    parameterization
        'prescription', 'standard', changes such as 's2=K^-1', a file written by `denseam find`, or a
        `Parameterization` of your own.
    precision
        'float32', 'float64', or on a GPU 'tf32' and 'bf16' (of the matrix products).
    axes
        Other hyperparameters to sweep, with their values; the runs are the grid of all of them.
    probes
        What to measure while training: 'all', groups ('updates', 'spectra', …) or quantities of
        `denseam.quantities`.
    probe_steps
        The steps to measure at, counted from 0: the state before that step, and what it changes. By
        default log-spaced, few enough to cost at most 15 % of the training.
    name
        Its name in tables; made from the settings by default.
    steps
        T, the steps of recall ``x ← x + (τ/T)(f(x) − x)`` that the memory is trained through; the loss is
        that of the last state. τ is the axis ``tau``. The axis ``burn_in`` is the longest burn-in, in units
        of T: each sample first takes up to that many steps without gradient.
    overshoot
        Whether τ/T may be above 1, where a step can raise the energy.
    hide, hide_by
        The share of features that are hidden in training: they start from noise, the others keep their values
        in every step of recall, and the loss is that of the hidden ones. They are drawn for each sample, as
        single features or as a block of neighbours; or they are the last ones, for targets beside inputs.
    nesterov
        Whether to use Nesterov momentum; by default only with Muon.
    schedule
        'constant', 'cosine', 'linear', 'wsd', or a `Schedule` of your own, from `register_schedule`. The axes
        `warmup` and `cooldown` are shares of the training.
    feature_activation
        g, what the memories see of the features: a name or a Lagrangian. Its entries must be of order one.
    """

    def __post_init__(self) -> None:
        """Check everything; report all problems together."""
        values, problems = read_fields(self)
        self._set(values)
        problems += self._read_axes()
        if is_rule_file(self.parameterization):
            with collecting(problems):
                self._set({"parameterization": read_rule(self.parameterization)})
        lagrangian: Lagrangian | None = None
        if is_given(self.activation):
            with collecting(problems):
                lagrangian = lagrangian_of(self.activation, self.power)
        features: Lagrangian | None = None
        with collecting(problems):
            features = lagrangian_of(self.feature_activation, None, "feature_activation")
        if not isinstance(self.regime, Regime):
            problems.append(f"regime must be one of {_REGIMES}, got {self.regime!r}")
        elif "scales" in values:
            problems += self._shape_problems()
        schedule: Schedule | None = None
        with collecting(problems):
            schedule = schedule_of(self.schedule)
        if schedule is not None and schedule.own:
            self._set({"schedule": schedule})  # a worker elsewhere does not know its name
        problems += self._belonging_problems(lagrangian, schedule)
        refuse(dict.fromkeys(problems))
        assert lagrangian is not None
        assert features is not None
        # The Lagrangian holds its power.
        self._set({"activation": lagrangian, "power": None})
        text = lagrangians.to_text(features)
        self._set({"feature_activation": features if text is None else str(text)})
        if "E" in self.regime.grows:  # every run has its own
            self._set({"epochs": parameters(Description)["epochs"].default})
        if "T" in self.regime.grows:
            self._set({"steps": parameters(Description)["steps"].default})
        if self.centred is None:
            self._set({"centred": not isinstance(lagrangian, Identity)})
        together(
            self._read_nesterov, self._check_rule, self._check_steps, self._check_times, self._resolve_probes
        )
        if not self.name:
            self._set({"name": self.default_name()})

    def _set(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _read_axes(self) -> list[str]:
        """Set the axes to the values read; return the problems."""
        values: dict[str, Any] = {"eta0": self.eta0, "noise": self.noise}
        problems = [] if is_given(self.eta0) else ["eta0 is needed"]
        if not isinstance(self.axes, Mapping):
            problems.append(f"axes must map the names of axes to their values, got {shown(self.axes)}")
            self._set({"axes": {}})
        for axis, axis_values in dict(self.axes).items():
            if axis == "eta0":
                problems.append("axes must not contain eta0: it is a separate argument")
            elif axis in AXES:
                values[axis] = axis_values
            else:
                problems.append(unknown("axis", axis, AXES))
        axes: dict[str, tuple[float, ...]] = {}
        for axis, axis_values in values.items():
            if is_given(axis_values):
                with collecting(problems):
                    axes[axis] = AXES[axis].read(axis_values)
        self._set({"eta0": axes.pop("eta0", ()), "axes": axes})
        if "noise" in axes:
            self._set({"noise": axes["noise"][0]})
        return problems

    def _belonging_problems(self, lagrangian: Lagrangian | None, schedule: Schedule | None) -> list[str]:
        """Return the axes that this model, this optimizer or this schedule does not have, a sentence each."""
        known: dict[str, tuple[str, ...]] = {}
        if is_given(self.optimizer):
            known["optimizer"] = (self.optimizer,)
        if lagrangian is not None:
            known["activation"] = (lagrangian.name,)
        if schedule is not None:
            known["schedule"] = (schedule.name,)
        return [
            AXES[axis].belonging_problem(known[field][0])
            for axis in self.axes
            if (belongs := AXES[axis].belongs) and (field := belongs[0]) in known
            if not set(belongs[1:]) & set(known[field])
        ]

    def _read_nesterov(self) -> None:
        """Refuse a momentum that cannot look ahead; forget one that does as it would by default."""
        if self.nesterov is None:
            return
        if self.update_rule.nesterov is None:
            raise InputError(parameters(Description)["nesterov"].belonging_problem(self.optimizer))
        if self.nesterov and self.grid["momentum"] == (0.0,):
            raise InputError("nesterov needs a momentum above 0")
        if self.nesterov is self.update_rule.nesterov:
            self._set({"nesterov": None})

    def _check_rule(self) -> None:
        rule = self.rule()
        own = (self.lagrangian.family, self.optimizer, self.regime.name)
        rules = (rule.family, rule.optimizer, rule.regime)
        if rules != own:
            raise InputError(f"parameterization is for {', '.join(rules)}, but the study is {', '.join(own)}")
        # Odd activations have no mean that centring would remove.
        if rule.centred_only and not self.centred and not isinstance(self.lagrangian, Identity | Tanh):
            raise InputError(f"parameterization {self.parameterization} holds for centred models only")

    def _check_steps(self) -> None:
        """Refuse steps of recall that are longer than the update itself, unless they are asked for."""
        tau, shortest = max(self.grid["tau"]), min(self.shape(scale).T for scale in self.scales)
        problems = []
        if tau > shortest and not self.overshoot:
            problems.append(
                f"tau/T must be at most 1, or a step can raise the energy, got {tau:g}/{shortest}; "
                "overshoot allows it"
            )
        if self.uses("early") and shortest < 2:
            problems.append("early needs at least 2 steps of recall")
        if self.hide:
            with collecting(problems):
                check_single("hide", self.features, Elementwise)
            if (kind := self.source().mixing) is not None:
                problems.append(
                    f"hide: data {self.data} is seen in {kind} projections, in which no single feature can "
                    "be hidden; take shrink 'none'"
                )
            for scale in self.scales:
                N, count = self.shape(scale).N, self.hidden(self.shape(scale))
                if not 0 < count < N:
                    problems.append(f"hide must leave some features and hide some, got {count} of {N}")
        elif self.hide_by != "features":
            problems.append("hide_by needs hide: the share of the features that are hidden")
        refuse(problems)

    def _check_times(self) -> None:
        """Refuse two units of one decay, a decay faster than a step, and a schedule that cannot be."""
        problems = schedule_problems(self.learning_schedule, self.grid["warmup"], self.grid["cooldown"])
        if "decay" in self.axes and "decay_time" in self.axes:
            problems.append(TWO_UNITS)
        for steps in sorted({self.updates(self.shape(scale)) for scale in self.scales}):
            if self.uses("decay_time"):
                problems += decay_time_problems(min(self.grid["decay_time"]), steps)
            if not problems and self.learning_schedule.own:
                with collecting(problems):
                    Timetable(self.schedule, steps)
        refuse(problems)

    def _resolve_probes(self) -> None:
        plain = not self.uses("momentum") and not self.decays
        through = any(self.recalls(self.shape(scale)) for scale in self.scales)
        names = resolve(self.probes, self.lagrangian.family, self.optimizer, plain=plain, through=through)
        self._set({"probes": names})
        if self.probe_steps is None:
            return
        if not names:
            raise InputError("probe_steps need probes: say what to measure")
        last = min(self.updates(self.shape(scale)) for scale in self.scales) - 1
        if (largest := max(self.probe_steps)) > last:
            raise InputError(f"probe_steps must be at most {last}, the last step, got {largest}")

    def _shape_problems(self) -> list[str]:
        problems: list[str] = []
        data: Source | None = None
        with collecting(problems):
            data = self.source()
        for scale in self.scales:
            with collecting(problems, f"scale {scale}: "):
                shape = self.shape(scale)
                problems += [f"scale {scale}: {p}" for p in self.regime.problems(scale)]
                if isinstance(self.epochs, int) and (steps := self.updates(shape)) >= COUNTS_BELOW:
                    problems.append(f"scale {scale}: a run must have fewer than 2^31 steps, got {steps}")
                if data is not None:
                    problems += data.problems(shape)
        return problems

    def default_name(self) -> str:
        """Return the name made from the settings."""
        parts = [self._activation_name(), self.optimizer]
        if self.regime.name != "proportional":
            parts.append(self.regime.name)
        if self.centred != (not isinstance(self.lagrangian, Identity)):
            parts.append("centred" if self.centred else "uncentred")
        if self.data != "isotropic":
            parts.append(self.data if self.data in GAUSSIANS else Path(self.data.rstrip("/")).stem)
        if self.bias_init != "zero":
            parts.append(f"bias-{self.bias_init}")
        if self.hide:
            parts.append(f"hidden-{self.hide:g}")
        if self.steps != 1:
            parts.append(f"{self.steps}-steps")
        if self.nesterov is not None:
            parts.append("nesterov" if self.nesterov else "heavy-ball")
        if not self.usual_features:
            parts.append(f"{_plain_name(self.features)}-features")
        if self.learning_schedule.name != "constant":
            parts.append(self.learning_schedule.name)
        if self.rule().name != "prescription":
            parts.append(self.rule().name)
        if self.precision != "float32":
            parts.append(self.precision)
        return "-".join(parts)

    def _activation_name(self) -> str:
        """Return the name of the activation, with parameters that are not the usual ones but for β."""
        return self.lagrangian.name if isinstance(self.lagrangian, Softmax) else _plain_name(self.lagrangian)

    # --- its parts ---------------------------------------------------------------------------------

    @property
    def lagrangian(self) -> Lagrangian:
        """The activation as an object."""
        assert isinstance(self.activation, Lagrangian)
        return self.activation

    @property
    def features(self) -> Lagrangian:
        """The Lagrangian of the features."""
        return lagrangian_of(self.feature_activation, None, "feature_activation")

    @property
    def usual_features(self) -> bool:
        """Whether the features are tanh."""
        return bool(self.feature_activation == parameters(Description)["feature_activation"].default)

    def rule(self) -> Parameterization:
        """Return the parameterization of the scales and learning rates."""
        if isinstance(self.parameterization, Parameterization):
            return self.parameterization
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rule = parameterization(self.parameterization, self.lagrangian, self.optimizer, self.regime)
        known = is_prescribed(rule.family, rule.optimizer, self.steps)
        return rule if known else dataclasses.replace(rule, prescribed=False)

    @property
    def update_rule(self) -> UpdateRule:
        """How the optimizer turns a gradient into an update."""
        return OPTIMIZERS[self.optimizer]

    def uses(self, axis: str) -> bool:
        """Return whether any run has a value other than 0 on an axis."""
        return any(self.grid[axis])

    @property
    def decays(self) -> bool:
        """Whether W decays in any run."""
        return self.uses("decay") or self.uses("decay_time")

    @property
    def learning_schedule(self) -> Schedule:
        """The schedule as an object."""
        return schedule_of(self.schedule)

    @property
    def scheduled(self) -> bool:
        """Whether the learning rate of any run changes during training."""
        return self.learning_schedule.name != "constant" or self.uses("warmup")

    def timetable(self, spec: RunSpec) -> Timetable:
        """Return the schedule of a run, step by step."""
        shares = {axis: spec.values[axis] for axis in ("warmup", "cooldown")}
        return Timetable(self.schedule, self.updates(spec.shape), **shares)

    def source(self) -> Source:
        """Return the source of the data."""
        return source(self.data, self.preparation)

    def shape(self, scale: int) -> Shape:
        """Return all sizes at a scale: those of the regime, and the study's steps of recall."""
        shape = self.regime.shape(scale)
        return shape if "T" in self.regime.grows else dataclasses.replace(shape, T=self.steps)

    def recalls(self, shape: Shape) -> bool:
        """Return whether runs of a shape are trained through steps of recall, and not on one update f(x)."""
        return shape.T > 1 or self.grid["tau"] != (1.0,) or self.hide > 0 or self.uses("burn_in")

    def hidden(self, shape: Shape) -> int:
        """Return the number of features that are hidden in training."""
        return round(self.hide * shape.N)

    def updates(self, shape: Shape) -> int:
        """Return the number of updates of a run at a shape."""
        return cost.updates(shape, self.epochs_at(shape))

    def operations(self, shape: Shape) -> float:
        """Return the floating-point operations of a run at a shape."""
        return self.updates(shape) * self.step_operations(shape)

    def step_operations(self, shape: Shape, *, recompute: bool = False) -> float:
        """Return the operations of one update at a shape, with the longest burn-in of any run."""
        longest = max(self.grid["burn_in"])
        return cost.step_operations(shape, self.optimizer, recompute=recompute, burn_in=longest)

    def epochs_at(self, shape: Shape) -> int:
        """Return the epochs of a run at a shape: those of the study, unless they are one of its sizes."""
        return self.epochs if shape.E is None else shape.E

    def steps_to_probe(self, shape: Shape) -> tuple[int, ...]:
        """Return the steps at which a run of a shape is measured."""
        if not self.probes:
            return ()
        if self.probe_steps is not None:
            return tuple(self.probe_steps)
        updates = self.updates(shape)
        return log_spaced(updates, max(1, updates // STEPS_PER_PROBE))

    @property
    def swept(self) -> tuple[str, ...]:
        """The axes with more than one value; eta0 if there is none."""
        return tuple(axis for axis, values in self.grid.items() if len(values) > 1) or ("eta0",)

    @property
    def grid(self) -> dict[str, tuple[float, ...]]:
        """The values of every axis, one for each axis that is not swept."""
        held = {axis: p.default for axis, p in AXES.items()} | dict(self.update_rule.defaults)
        if isinstance(self.lagrangian, Softmax):
            held["beta"] = float(self.lagrangian.beta)
        if "decay_time" in self.axes:
            held["decay"] = None  # it follows from the time
        axes = {"eta0": tuple(self.eta0)} | dict(self.axes)
        return {axis: axes.get(axis, (held[axis],)) for axis in AXES}

    # --- runs and their keys -----------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Return the settings that all runs share and that affect their results, as a plain document."""
        plain = {
            name: getattr(self, name)
            for name, p in parameters(Description).items()
            if _in_key(p, getattr(self, name))
        }
        return (
            {
                "engine": ENGINE,
                "activation": {k: v for k, v in lagrangians.to_json(self.lagrangian).items() if k != "beta"},
                "regime": self.regime.name,
                "parameterization": self._parameterization_key(),
                "data": self.source().digest,
            }
            | plain
            | self._schedule_key()
            | self._features_key()
        )

    def _features_key(self) -> dict[str, Any]:
        """Return the activation of the features, unless it is the usual one."""
        return {} if self.usual_features else {"features": lagrangians.to_json(self.features)}

    def _schedule_key(self) -> dict[str, Any]:
        """Return the name of a schedule that is not constant, and what somebody's own function gives."""
        schedule = self.learning_schedule
        if schedule.own:
            return {"schedule": {"name": schedule.name, "digest": Timetable(schedule, _SAMPLED).digest()}}
        return {} if schedule.name == "constant" else {"schedule": schedule.name}

    def _parameterization_key(self) -> Any:
        """Return the name of a known rule, or the exponents of any other."""
        if self.parameterization in PARAMETERIZATIONS:
            return self.parameterization
        powers = {k: v for k, v in self.rule().to_json().items() if isinstance(v, dict)}
        if self.update_rule.follows_gradient and not self.uses("decay"):
            powers["decay_W"] = {}  # it has no effect, and was 1 before SGD had a decay
        # These were added later; while they are as before, runs keep their earlier keys.
        later = ("epsilon_b", "epsilon_c", *(f"forget_{name}" for name in AVERAGES))
        if self.rule().step == STEP:
            del powers["step"]
        return {k: v for k, v in powers.items() if v or k not in later}

    @property
    def id(self) -> str:
        """A short hash of the settings and of the regime: the same for runs that can be compared."""
        ratios = dataclasses.asdict(self.regime)  # type: ignore[call-overload]  # every regime is a dataclass
        whole = {k: int(v) for k, v in ratios.items() if isinstance(v, float) and v.is_integer()}
        return digest(self.settings() | {"ratios": ratios | whole})[:12]

    @property
    def count(self) -> int:
        """The number of runs."""
        axes = (*self.grid.values(), self.scales, tuple(self.seeds))  # type: ignore[arg-type]
        return math.prod(map(len, axes))

    def check_count(self) -> None:
        """Refuse more runs than a study can have."""
        if self.count > MOST_RUNS:
            raise InputError(
                f"a study must have at most {MOST_RUNS} runs, got {self.count}: fewer seeds or values"
            )

    def runs(self) -> list[RunSpec]:
        """Return every run, scale by scale, seed by seed; refuse more than a study can have.

        A search along many axes has few of their values in common, and takes its runs from `runs_at`.
        """
        self.check_count()
        return self.runs_at(
            dict(zip(self.grid, point, strict=True)) for point in itertools.product(*self.grid.values())
        )

    def runs_at(self, points: Iterable[Mapping[str, float]]) -> list[RunSpec]:
        """Return the runs at these axis values (first values for other axes), for all scales and seeds."""
        first = {axis: values[0] for axis, values in self.grid.items()}
        valued = [first | dict(point) for point in points]
        keyed = [{axis: v for axis, v in values.items() if _in_key(AXES[axis], v)} for values in valued]
        specs = []
        for scale in self.scales:
            shape, documents = self.shape(scale), Documents(self._document(scale), keyed)
            for seed in self.seeds:  # type: ignore[union-attr]  # a tuple since __post_init__
                keys = documents.digests(seed)
                specs += [RunSpec(k, scale, shape, seed, v) for k, v in zip(keys, valued, strict=True)]
        return specs

    def _document(self, scale: int) -> dict[str, Any]:
        """Return what the key of a run at a scale is made of, besides its seed and its values."""
        shape = self.shape(scale)
        document = self.settings() | {
            "shape": {letter: getattr(shape, letter) for letter in "NKPB"},
            "epochs": self.epochs_at(shape),
        }
        if shape.T > 1:
            document["steps"] = shape.T
        if self.probes:
            document["probe_steps"] = self.steps_to_probe(shape)
        if self.learning_schedule.own:
            document["factors"] = Timetable(self.schedule, self.updates(shape)).digest()
        return document

    def describe(self) -> str:
        """Return one line for people."""
        axes = ", ".join(f"{len(self.grid[a])} {a}" for a in self.swept)
        scales = ", ".join(map(str, self.scales))
        seeds = len(tuple(self.seeds))  # type: ignore[arg-type]
        many = "" if seeds == 1 else "s"
        epochs = "" if "E" in self.regime.grows else f"; {self.epochs} epochs"
        return f"{self.name}: {self.regime.letter} = {scales}; {axes}; {seeds} seed{many}{epochs}"


def decays(values: Mapping[str, float | None]) -> bool:
    """Return whether W decays in a run with these axis values."""
    return bool(values.get("decay") or values.get("decay_time"))


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the message about an unknown name, with a guess at what was meant."""
    near = difflib.get_close_matches(str(name), list(known), 1, 0.5)
    return f"unknown {what} {name!r}" + (f" (did you mean {near[0]!r}?)" if near else "")


def _in_key(described: Parameter, value: Any) -> bool:
    if described.key is InKey.IF_SET:
        return bool(value != described.default)
    return described.key is InKey.ALWAYS


def _plain_name(lagrangian: Lagrangian) -> str:
    """Return the name of a Lagrangian with parameters that are not the usual ones."""
    text = lagrangians.to_text(lagrangian)
    return lagrangian.name if text is None else text.name + "-".join(f"{p:g}" for p in text.parameters)


def lagrangian_of(activation: str | Lagrangian, power: float | None, field: str = "activation") -> Lagrangian:
    """Return an activation as an object, or refuse a name that is not registered."""
    if isinstance(activation, Lagrangian):
        if power is not None:
            raise InputError("power belongs to the name 'relu'; a Lagrangian has its own")
        return activation
    known = lagrangians.registered()
    text = read_activation(activation) if isinstance(activation, str) else None
    if text is None or text.name not in known:
        raise InputError(f"{field} must be {listed(known)}, got {activation!r}")
    if power is None:
        return lagrangians.from_text(text)
    described = parameters(Description)["power"]
    if text.name != "relu":
        raise InputError(described.belonging_problem(text.name))
    if text.parameters:
        raise InputError(f"power is in {activation!r} already")
    return known[text.name](power)
