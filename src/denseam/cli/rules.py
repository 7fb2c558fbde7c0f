"""Rules and theory: `prescribe`, `theory`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

import click

from denseam.cli.options import json_option, takes
from denseam.cli.program import app, show
from denseam.errors import InputError, UnprescribedWarning, collecting, refuse, together
from denseam.rules import (
    Constants,
    Parameterization,
    Scales,
    Shape,
    Timetable,
    prescription,
    standard,
)
from denseam.rules.optimizers import OPTIMIZERS
from denseam.rules.regimes import regime_letter
from denseam.rules.schedules import TWO_UNITS, decay_time_problems
from denseam.studies.description import DOCUMENT

#: The parameters of one training.
_ONE = {key: p.of_one for key, p in DOCUMENT.items()}


@app.command()
@click.option("--activation", required=True, help="identity, relu, tanh or softmax.")
@click.option("--optimizer", required=True, help=f"{', '.join(OPTIMIZERS)}.")
@click.option("--features", type=int, required=True, help="N, the length of a sample.")
@click.option("--memories", type=int, required=True, help="K, the rows of W.")
@click.option("--regime", default="proportional", show_default=True, help="proportional or memories-only.")
@click.option("--power", type=float, help="p of relu^p, at least 1.")
@click.option("--eta0", type=float, default=1.0, show_default=True, help="The tuned learning rate η0.")
@click.option("--base-features", type=int, help="N at which eta0 was tuned.")
@click.option("--base-memories", type=int, help="K at which eta0 was tuned.")
@click.option("--steps", type=int, help="Steps of the training, for its schedule and its decay time.")
@takes([_ONE[key] for key in ("schedule", "warmup", "cooldown", "decay", "decay_time")], name="course")
@json_option
def prescribe(
    activation: str,
    optimizer: str,
    features: int,
    memories: int,
    regime: str,
    power: float | None,
    eta0: float,
    base_features: int | None,
    base_memories: int | None,
    steps: int | None,
    course: dict[str, Any],
    json_: bool,
) -> None:
    """Print the multipliers s1, s2, the learning rates and the decay for a model of a given size."""

    def check_power() -> None:
        if power is None:
            return
        if activation != "relu":
            raise InputError(f"power belongs to the activation 'relu', got {activation!r}")
        DOCUMENT["power"].read(power)

    def base_shape() -> Shape | None:
        if (base_features is None) != (base_memories is None):
            raise InputError("base-features and base-memories must be given together")
        return None if base_features is None or base_memories is None else Shape(base_features, base_memories)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnprescribedWarning)
        rule, shape, base, *_ = together(
            lambda: prescription(activation, optimizer, regime),
            lambda: Shape(features, memories),
            base_shape,
            lambda: Constants(eta0),
            check_power,
            lambda: _check_course(course, optimizer, steps),
        )
    for warning in caught:
        print(f"warning: {warning.message}", file=sys.stderr)
    scales = rule.at(shape, eta0=eta0)
    timetable, decay = _timetable(course, steps), _decay(course, scales, steps)
    names = ("s1", "s2", "eta_W", "eta_b", "eta_c")
    facts = {
        "activation": activation,
        "optimizer": rule.optimizer,
        "regime": rule.regime,
        "source": rule.source,
        "equations": list(rule.equations),
    }
    document = {
        **{name: getattr(scales, name) for name in names},
        "prescribed": rule.prescribed,
        "rule": {name: str(getattr(rule, name)) for name in names} | facts,
    }
    if decay is not None:
        document |= {"decay": decay, "decay_W": decay * scales.decay_W, "decay_time": None}
        if steps is not None and decay:
            document["decay_time"] = course.get("decay_time", scales.decay_time(decay, steps))
    if timetable is not None:
        document |= {"schedule": timetable.row.name, "factors": timetable.factors()}
    control = standard(activation, optimizer, regime)
    show(json_, document, _print_scales, scales, base, control, timetable, decay)


def _check_course(course: Mapping[str, Any], optimizer: str, steps: int | None) -> None:
    """Refuse what a training cannot be, or what needs its number of steps."""
    problems: list[str] = []
    chosen = {"optimizer": optimizer, "schedule": course.get("schedule", "constant")}
    for key, value in course.items():
        with collecting(problems):
            _ONE[key].read(value)
        field, *owners = DOCUMENT[key].belongs or ("",)
        if owners and chosen[field] not in owners:
            problems.append(DOCUMENT[key].belonging_problem(chosen[field]))
    if "decay" in course and "decay_time" in course:
        problems.append(TWO_UNITS)
    if steps is None:
        needing = [key for key in course if key != "decay"]
        problems += [f"{key} needs steps, the length of the training" for key in needing]
    elif not problems:
        with collecting(problems):
            _timetable(course, steps)
        if "decay_time" in course and not problems:
            problems += decay_time_problems(course["decay_time"], steps)
    refuse(problems)


def _timetable(course: Mapping[str, Any], steps: int | None) -> Timetable | None:
    if steps is None:
        return None
    shares = {key: course[key] for key in ("warmup", "cooldown") if key in course}
    return Timetable(course.get("schedule", "constant"), steps, **shares)


def _decay(course: Mapping[str, Any], scales: Scales, steps: int | None) -> float | None:
    """Return the decay λ0, also where its time is given."""
    if "decay_time" in course and steps is not None:
        return scales.decay(course["decay_time"], steps)
    decay: float | None = course.get("decay", OPTIMIZERS[scales.optimizer].defaults.get("decay"))
    return decay


def _print_scales(
    scales: Scales,
    base: Shape | None,
    control: Parameterization,
    timetable: Timetable | None,
    decay: float | None,
) -> None:
    print(scales.explain(base, timetable=timetable, decay=decay))
    drift, size = control.predicted_drift(), regime_letter(control.regime)
    if drift is None:
        comparison = f"off by powers of {size}: {control.mismatch()}"
    elif drift == 0:
        comparison = "the same rule up to constants"
    else:
        comparison = f"its best rate moves as {size}^{drift}"
    print(f"\nstandard parameterization (W ~ N(0, 1/N), one rate): {comparison}")


@app.command()
@click.option("--kappa", type=float, required=True, help="K/N.")
@click.option("--rho-b", type=float, required=True, help="B/N.")
@click.option("--noise", type=float, help="Noise of the data; adds the sizes for the true residual.")
@click.option("--eta0", type=float, default=1.0, show_default=True, help="Learning rate η0, for --noise.")
@click.option(
    "--s1-0", "s1_0", type=float, default=1.0, show_default=True, help="Constant of s1, for --noise."
)
@click.option(
    "--s2-0", "s2_0", type=float, default=1.0, show_default=True, help="Constant of s2, for --noise."
)
@json_option
def theory(
    kappa: float, rho_b: float, noise: float | None, eta0: float, s1_0: float, s2_0: float, json_: bool
) -> None:
    """Predict the sizes of the terms of the first SGD step by random-matrix theory."""
    from denseam.theory import explain, report

    constants = {"eta0": eta0, "s1_0": s1_0, "s2_0": s2_0}
    arguments = (kappa, rho_b, noise)
    show(json_, report(*arguments, **constants), lambda: print(explain(*arguments, **constants)))
