"""Rules and theory: `prescribe`, `theory`."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated

import typer

from denseam.cli.options import Json
from denseam.cli.program import app, print_json
from denseam.errors import InputError, UnprescribedWarning, together
from denseam.rules import Constants, Shape, prescription, standard
from denseam.rules.regimes import regime_letter


@app.command()
def prescribe(
    activation: Annotated[str, typer.Option(help="identity, relu, tanh or softmax.")],
    optimizer: Annotated[str, typer.Option(help="sgd or adam (also for AdamW).")],
    features: Annotated[int, typer.Option(help="N, the length of a sample.")],
    memories: Annotated[int, typer.Option(help="K, the rows of W.")],
    regime: Annotated[str, typer.Option(help="proportional or memories-only.")] = "proportional",
    power: Annotated[float | None, typer.Option(help="p of relu^p, at least 1.")] = None,
    eta0: Annotated[float, typer.Option(help="The tuned, dimensionless learning rate.")] = 1.0,
    base_features: Annotated[int | None, typer.Option(help="N at which eta0 was tuned.")] = None,
    base_memories: Annotated[int | None, typer.Option(help="K at which eta0 was tuned.")] = None,
    json_: Json = False,
) -> None:
    """Print the scales s1, s2 and the learning rates for a model of a given size."""

    def check_power() -> None:
        if power is None:
            return
        if activation != "relu":
            raise InputError(f"power belongs to the activation 'relu', got activation {activation!r}")
        if not 1 <= power < float("inf"):
            raise InputError(f"power (p) must be a finite number of at least 1, got {power!r}")

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
    if json_:
        print_json(
            {name: getattr(scales, name) for name in ("s1", "s2", "eta_W", "eta_b", "eta_c")}
            | {
                "prescribed": rule.prescribed,
                "rule": {name: str(getattr(rule, name)) for name in ("s1", "s2", "eta_W", "eta_b", "eta_c")}
                | {
                    "activation": activation,
                    "optimizer": rule.optimizer,
                    "regime": rule.regime,
                    "source": rule.source,
                    "equations": list(rule.equations),
                },
            }
        )
        return
    print(scales.explain(base))
    control = standard(activation, optimizer, regime)
    drift = control.predicted_drift()
    size = regime_letter(rule.regime)
    if drift is None:
        finding = f"off by powers of {size}: {control.mismatch()}"
    elif drift == 0:
        finding = "the same rule up to constants"
    else:
        finding = f"its best rate moves as {size}^{drift}"
    print(f"\nstandard parameterization (W ~ N(0, 1/N), one rate): {finding}")


@app.command()
def theory(
    kappa: Annotated[float, typer.Option(help="K/N.")],
    rho_b: Annotated[float, typer.Option(help="B/N.")],
    noise: Annotated[
        float | None, typer.Option(help="Noise of the data: adds the sizes with the true residual.")
    ] = None,
    eta0: Annotated[float, typer.Option(help="Learning rate, with --noise.")] = 1.0,
    s1_0: Annotated[float, typer.Option(help="Inner constant, with --noise.")] = 1.0,
    s2_0: Annotated[float, typer.Option(help="Outer constant, with --noise.")] = 1.0,
    json_: Json = False,
) -> None:
    """Print how large the terms of the first SGD step are, from random-matrix theory."""
    from denseam.theory import explain, report

    constants = {"eta0": eta0, "s1_0": s1_0, "s2_0": s2_0}
    if json_:
        print_json(report(kappa, rho_b, noise, **constants))
    else:
        print(explain(kappa, rho_b, noise, **constants))
