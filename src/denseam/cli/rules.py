"""Rules and theory: `prescribe`, `theory`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import click

from denseam.cli.options import json_option, option_of, takes
from denseam.cli.program import app, show
from denseam.ground.errors import InputError, UnprescribedWarning, collecting, refuse, together, whole
from denseam.rules import (
    Constants,
    Parameterization,
    Scales,
    Shape,
    Timetable,
    prescription,
    standard,
)
from denseam.rules.activations import read_activation
from denseam.rules.fields import Part
from denseam.rules.optimizers import OPTIMIZERS
from denseam.rules.regimes import REGIMES, regime_letter
from denseam.rules.schedules import TWO_UNITS, decay_time_problems
from denseam.rules.sizes import WORDS
from denseam.rules.table import FAMILIES, is_prescribed, unprescribed
from denseam.studies.description import DOCUMENT

#: The parameters of one training.
_ONE = {key: p.of_one for key, p in DOCUMENT.items()}


def _sizes(prefix: str, meaning: Mapping[str, str], required: tuple[str, ...] = ()) -> Callable[[Any], Any]:
    """Give a command an option for each size, as in --features or --base-features."""

    def decorate(function: Any) -> Any:
        for letter, word in reversed([*WORDS.items()]):
            text = f"{letter}, {meaning.get(letter, 'if the rule of the regime needs it')}."
            facts: dict[str, Any] = {"type": int, "required": letter in required, "help": text}
            heading = "sizes at which eta0 was tuned" if prefix else "sizes"
            function = option_of(heading, f"--{prefix}{word}", **facts)(function)
        return function

    return decorate


@app.command(
    examples=(
        "denseam prescribe --activation relu --optimizer adam --features 4096 --memories 8192 --eta0 0.03",
    ),
)
@option_of(Part.MODEL, "--activation", required=True, help=f"{', '.join(FAMILIES)}.")
@option_of(Part.TRAINING, "--optimizer", required=True, help=f"{', '.join(OPTIMIZERS)}.")
@_sizes("", {"N": "the length of a sample", "K": "the rows of W"}, required=("N", "K"))
@option_of(Part.GROWTH, "--regime", default="proportional", show_default=True, help=f"{', '.join(REGIMES)}.")
@option_of(Part.MODEL, "--power", type=float, help="p of relu^p, at least 1.")
@click.option("--eta0", type=float, default=1.0, show_default=True, help="The tuned learning rate η0.")
@_sizes("base-", dict.fromkeys(WORDS, "at which eta0 was tuned"))
@option_of(
    Part.TRAINING, "--updates", type=int, help="Number of updates in training, for schedule and decay time."
)
@takes([_ONE[key] for key in ("schedule", "warmup", "cooldown", "decay", "decay_time")], name="course")
@json_option
def prescribe(
    activation: str,
    optimizer: str,
    regime: str,
    power: float | None,
    eta0: float,
    updates: int | None,
    course: dict[str, Any],
    json_: bool,
    **sizes: int | None,
) -> None:
    """Print the multipliers s1, s2, the learning rates and the decay for a model of a given size."""
    target, of_base = (
        {letter: size for letter, word in WORDS.items() if (size := sizes[f"{of}{word}"]) is not None}
        for of in ("", "base_")
    )

    def check_power() -> None:
        if power is None:
            return
        if activation != "relu":
            raise InputError(f"power belongs to the activation 'relu', got {activation!r}")
        DOCUMENT["power"].read(power)

    def check_parameters() -> None:
        if read_activation(activation).parameters:
            from denseam.studies.study import lagrangian_of  # imports JAX, which the rule does not need

            lagrangian_of(activation, power)

    def base_shape() -> Shape | None:
        if ("N" in of_base) != ("K" in of_base):
            raise InputError("base-features and base-memories must be given together")
        return Shape(**(target | of_base)) if of_base else None

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnprescribedWarning)
        rule, shape, base, *_ = together(
            lambda: prescription(activation, optimizer, regime),
            lambda: Shape(**target),
            base_shape,
            lambda: Constants(eta0),
            check_power,
            check_parameters,
            lambda: _check_course(course, optimizer, updates),
        )
    prescribed = rule.prescribed and is_prescribed(rule.family, rule.optimizer, shape.T)
    messages = [str(warning.message) for warning in caught]
    if rule.prescribed and not prescribed:
        messages.append(unprescribed(rule.family, rule.optimizer))
    for message in messages:
        print(f"warning: {message}", file=sys.stderr)
    scales = rule.at(shape, eta0=eta0)
    timetable, decay = _timetable(course, updates), _decay(course, scales, updates)
    names = ("s1", "s2", "eta_W", "eta_b", "eta_c", *(("step",) if shape.T > 1 else ()))
    facts = {
        "activation": activation,
        "optimizer": rule.optimizer,
        "regime": rule.regime,
        "source": rule.source,
        "equations": list(rule.equations),
    }
    document = {
        **{name: getattr(scales, name) for name in names},
        "prescribed": prescribed,
        "rule": {name: str(getattr(rule, name)) for name in names} | facts,
    }
    document |= _course_facts(course, scales, timetable, decay)
    control = standard(activation, optimizer, regime)
    show(json_, document, _print_scales, scales, base, control, timetable, decay)


def _check_course(course: Mapping[str, Any], optimizer: str, updates: int | None) -> None:
    """Refuse what a training cannot be, or what needs its number of updates."""
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
    if updates is None:
        needing = [key for key in course if key != "decay"]
        problems += [f"{key} needs updates, the length of the training" for key in needing]
    elif not (wrong := [*problems, *whole(updates=updates)]):
        with collecting(problems):
            _timetable(course, updates)
        if "decay_time" in course and not problems:
            problems += decay_time_problems(course["decay_time"], updates)
    else:
        problems = wrong
    refuse(problems)


def _timetable(course: Mapping[str, Any], updates: int | None) -> Timetable | None:
    if updates is None:
        return None
    shares = {key: course[key] for key in ("warmup", "cooldown") if key in course}
    return Timetable(course.get("schedule", "constant"), updates, **shares)


def _decay(course: Mapping[str, Any], scales: Scales, updates: int | None) -> float | None:
    """Return the decay λ0, also where its time is given."""
    if "decay_time" in course and updates is not None:
        return scales.decay(course["decay_time"], updates)
    decay: float | None = course.get("decay", OPTIMIZERS[scales.optimizer].defaults.get("decay"))
    return decay


def _course_facts(
    course: Mapping[str, Any], scales: Scales, timetable: Timetable | None, decay: float | None
) -> dict[str, Any]:
    """Return the decay in both units, if the optimizer has one, and the factors of the schedule."""
    facts: dict[str, Any] = {}
    if decay is not None:
        facts = {"decay": decay, "decay_W": decay * scales.decay_W, "decay_time": None}
    if timetable is None:
        return facts
    if decay:
        facts["decay_time"] = course.get("decay_time", scales.decay_time(decay, timetable.steps))
    return facts | {"schedule": timetable.row.name, "factors": timetable.factors()}


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


@app.command(
    examples=(
        "denseam theory --kappa 2 --rho-b 0.5",
        "denseam theory --kappa 2 --rho-b 0.5 --noise 0.5",
    ),
)
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
