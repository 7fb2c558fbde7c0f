"""Rules and theory: `prescribe`, `theory`."""

from __future__ import annotations

import sys
import warnings

import click

from denseam.cli.options import json_option
from denseam.cli.program import app, show
from denseam.errors import InputError, UnprescribedWarning, together
from denseam.rules import Constants, Parameterization, Scales, Shape, prescription, standard
from denseam.rules.optimizers import OPTIMIZERS
from denseam.rules.regimes import regime_letter
from denseam.studies.description import DOCUMENT


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
    json_: bool,
) -> None:
    """Print the multipliers s1, s2 and the learning rates for a model of a given size."""

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
        )
    for warning in caught:
        print(f"warning: {warning.message}", file=sys.stderr)
    scales = rule.at(shape, eta0=eta0)
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
    show(json_, document, _print_scales, scales, base, standard(activation, optimizer, regime))


def _print_scales(scales: Scales, base: Shape | None, control: Parameterization) -> None:
    print(scales.explain(base))
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
