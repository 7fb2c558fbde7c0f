"""The command line: parse, one library call, print."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Annotated, Any

import typer

from denseam._version import __version__
from denseam.errors import InputError, UnprescribedWarning, together
from denseam.scaling import Constants, Shape, prescription, standard

OK, BAD_INPUT, INTERNAL, IO_ERROR, INTERRUPTED = 0, 64, 70, 74, 130
SCHEMA = 1

app = typer.Typer(
    name="denseam",
    help="Tune a Dense Associative Memory at small size, train it at large size.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@app.callback(invoke_without_command=True)
def _program(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        print(f"denseam {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


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
        _print_json(
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
    size = "N" if rule.regime == "proportional" else "K"
    print()
    if drift is None:
        print(
            "standard parameterization (W ~ N(0, 1/N), one rate): "
            f"off by powers of {size}: {control.mismatch()}"
        )
    else:
        print(f"standard parameterization (W ~ N(0, 1/N), one rate): its best rate moves as {size}^{drift}")


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps({"schema": SCHEMA, **document}, allow_nan=False))


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    try:
        result = app(args=arguments, prog_name="denseam", standalone_mode=False)
        return result if isinstance(result, int) else OK
    except InputError as error:
        return _fail(str(error), BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INTERRUPTED)
    except OSError as error:
        return _fail(str(error), IO_ERROR)
    except Exception as error:
        # Usage errors come from click, or from the copy of it inside newer versions of Typer.
        if hasattr(error, "format_message"):
            return _fail(error.format_message(), BAD_INPUT)
        return _fail(f"internal error: {type(error).__name__}: {error}", INTERNAL)


def _fail(message: str, code: int) -> int:
    print(f"denseam: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
