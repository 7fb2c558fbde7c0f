"""The command line: parse, one library call, print."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from denseam._version import __version__
from denseam.errors import InputError, UnprescribedWarning, refuse, together
from denseam.scaling import Constants, Shape, prescription, standard
from denseam.schema import COLUMNS as RECORD_COLUMNS

OK, BAD_INPUT, INTERNAL, IO_ERROR, INTERRUPTED = 0, 64, 70, 74, 130
SCHEMA = 1
#: The columns of a table that fits a spreadsheet: all but the loss curves.
SCALAR_COLUMNS = tuple(name for name, kind in RECORD_COLUMNS.items() if kind != "l")

app = typer.Typer(
    name="denseam",
    help="Tune a Dense Associative Memory at small size, train it at large size.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

# Options of more than one command.
Activation = Annotated[str | None, typer.Option(help="identity, relu, tanh or softmax.")]
Power = Annotated[float | None, typer.Option(help="p of relu^p, at least 1.")]
OptimizerOption = Annotated[str | None, typer.Option(help="sgd or adam.")]
RegimeOption = Annotated[str | None, typer.Option(help="proportional (default) or memories-only.")]
Kappa = Annotated[float | None, typer.Option(help="K/N, proportional (2).")]
Rho = Annotated[float | None, typer.Option(help="P/N, proportional (5).")]
Beta = Annotated[float | None, typer.Option(help="B/P, proportional (0.1).")]
Noise = Annotated[float | None, typer.Option(help="Standard deviation of the noise (0.5).")]
BiasInitOption = Annotated[str | None, typer.Option(help="zero (default) or normal.")]
ParameterizationOption = Annotated[
    str | None, typer.Option(help="prescription (default), standard, or changes as in s2=K^-1.")
]
Data = Annotated[str | None, typer.Option(help="isotropic (default), anisotropic or a .npy file.")]
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
        _print_json(report(kappa, rho_b, noise, **constants))
    else:
        print(explain(kappa, rho_b, noise, **constants))


# --- sweeps --------------------------------------------------------------------------------------

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing about progress.")]


@app.command()
def sweep(
    study_file: Annotated[str | None, typer.Argument(help="A study file (TOML); flags override it.")] = None,
    activation: Activation = None,
    power: Power = None,
    optimizer: OptimizerOption = None,
    regime: RegimeOption = None,
    scales: Annotated[str | None, typer.Option(help="N (or K, memories-only), as in 32,64,128.")] = None,
    eta0: Annotated[str | None, typer.Option(help="low:high:count, log-spaced, or 0.01,0.02.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds (3).")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data (64).")] = None,
    kappa: Kappa = None,
    rho: Rho = None,
    beta: Beta = None,
    features: Annotated[int | None, typer.Option(help="N, memories-only.")] = None,
    samples: Annotated[int | None, typer.Option(help="P, memories-only.")] = None,
    batch: Annotated[int | None, typer.Option(help="B, memories-only.")] = None,
    noise: Noise = None,
    uncentered: Annotated[bool | None, typer.Option("--uncentered", help="Do not centre.")] = None,
    bias_init: BiasInitOption = None,
    parameterization: ParameterizationOption = None,
    data: Data = None,
    probes: Annotated[str | None, typer.Option(help="What to measure: all, or as in updates,K_eff.")] = None,
    probe_steps: Annotated[str | None, typer.Option(help="When, as in 0,1,2,4 (log-spaced).")] = None,
    precision: Annotated[str | None, typer.Option(help="float32 (default), float64, tf32, bf16.")] = None,
    axis: Annotated[list[str] | None, typer.Option(help="Another axis, as in s2_0=0.5:2:5.")] = None,
    name: Annotated[str | None, typer.Option(help="What the study is called.")] = None,
    out: Annotated[str | None, typer.Option(help="The folder for results; runs in it are kept.")] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Train every run of a study: learning rates × scales × seeds. Run it again to resume."""
    from denseam import study as asked

    given = {
        "activation": activation, "power": power, "optimizer": optimizer, "regime": regime, "scales": scales,
        "eta0": eta0, "seeds": seeds, "epochs": epochs, "kappa": kappa, "rho": rho, "beta": beta,
        "features": features, "samples": samples, "batch": batch, "noise": noise, "uncentered": uncentered,
        "bias_init": bias_init, "parameterization": parameterization, "data": data, "precision": precision,
        "name": name, "axes": _axes(axis), "probes": probes, "probe_steps": probe_steps,
    }  # fmt: skip
    studies, folder = together(
        lambda: asked.from_file(study_file, given) if study_file else [asked.from_document(given)],
        lambda: out if out is not None else _needed("out is needed: a folder for the results"),
    )
    for one in studies:
        if not one.rule().prescribed and one.rule().name == "prescription":
            print(f"warning: {one.name}: softmax with SGD has no prescription", file=sys.stderr)
    summary = _run(studies, folder, quiet)
    if json_:
        _print_json(
            {
                "out": folder,
                "runs": summary.runs,
                "reused": summary.reused,
                "diverged": summary.diverged,
                "seconds": round(summary.seconds, 3),
            }
        )
    else:
        print(
            f"{summary.runs} runs in {folder}: {summary.reused} were there, {summary.diverged} diverged, "
            f"{summary.seconds:.1f} s\nnow: denseam verdict {folder}"
        )
    return OK


def _run(studies: list[Any], folder: str, quiet: bool) -> Any:
    from denseam.runner import run_studies

    with _interruptible(folder):
        summary = run_studies(studies, folder, listener=_listener(quiet))
    _say_skipped(summary.records.skipped)
    return summary


def _listener(quiet: bool) -> Any:
    if quiet:
        from denseam.runner import SweepListener

        return SweepListener()
    from denseam.progress import Progress

    return Progress()


@contextlib.contextmanager
def _interruptible(folder: str | None) -> Iterator[None]:
    """Say on Ctrl-C what was saved."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"; what was finished is in {folder}, run again to resume" if folder else "; nothing was kept"
        raise _Stopped(f"interrupted{kept}") from None


class _Stopped(Exception):
    """Ctrl-C, with a word on what was saved; a bare KeyboardInterrupt would lose it on its way up."""


def _axes(given: list[str] | None) -> dict[str, str] | None:
    if not given:
        return None
    wrong = [text for text in given if "=" not in text]
    if wrong:
        raise InputError(f"axis must be name=values, as in s2_0=0.5:2:5, got {wrong[0]!r}")
    return dict(text.split("=", 1) for text in given)


def _whole(name: str, given: str | None) -> tuple[int, ...] | None:
    from denseam.study import whole_values

    return None if given is None else whole_values(name, given)


def _needed(message: str) -> str:
    raise InputError(message)


def _say_skipped(skipped: Iterable[str]) -> None:
    for what in skipped:
        print(f"warning: passed over {what}", file=sys.stderr)


@app.command()
def verdict(
    folder: Annotated[str, typer.Argument(help="A folder of results.")],
    axis: Annotated[str | None, typer.Option(help="The hyperparameter to judge (eta0).")] = None,
    target: Annotated[int | None, typer.Option(help="The scale it will be used at.")] = None,
    horizon: Annotated[bool, typer.Option("--horizon", help="Also: the optimum against the epoch.")] = False,
    plot: Annotated[str | None, typer.Option(help="A folder to draw the transfer figure into.")] = None,
    json_: Json = False,
) -> int:
    """Say whether the best hyperparameter stays put across scales."""
    from denseam.judgement import COLUMNS, exit_code
    from denseam.judgement import horizon as horizons
    from denseam.judgement import verdict as judge
    from denseam.store import Store

    store = Store(folder)
    records = store.read(None if horizon or plot else COLUMNS)
    _say_skipped(records.skipped)
    if not len(records):
        raise InputError(f"{folder}: holds no runs")
    curves = None if horizon or plot else (lambda keys: store.curves(keys))
    verdicts = judge(records, axis=axis, target=target, curves=curves)
    document: dict[str, Any] = {"studies": [v.to_json() for v in verdicts]}
    if horizon:
        document["horizon"] = horizons(records, axis=axis)
    if plot:
        from denseam.figures import draw_transfer

        document["figures"] = [str(f) for f in draw_transfer(records, plot, verdicts=verdicts)]
    if json_:
        _print_json(document)
    else:
        _print_verdicts(verdicts)
        for study, table in document.get("horizon", {}).items():
            _print_horizon(study, table)
        for file in document.get("figures", []):
            print(file)
    return exit_code(verdicts)


def _print_verdicts(verdicts: list[Any]) -> None:
    for v in verdicts:
        _print_table(
            f"{v.name}: {v.status}",
            [v.scale_letter, f"best {v.axis}", "best loss", "regret", "edge of stability"],
            [
                [
                    str(scale),
                    _number(v.optimum[scale]),
                    _number(v.best_loss[scale]),
                    "(base)" if scale == min(v.optimum) else _regret(v.regret.get(scale)),
                    "beyond the grid" if v.edge[scale] is None else _number(v.edge[scale]),
                ]
                for scale in sorted(v.optimum)
            ],
        )
        lines = [v.reason, *v.flags, v.next_step]
        if v.collapse is not None:
            lines.append(
                f"Loss curves of the scales differ {v.collapse:.2g} times as much as those of seeds."
            )
        print(*(line for line in lines if line), sep="\n", end="\n\n")


def _print_horizon(study: str, table: dict[int, dict[int, float | None]]) -> None:
    scales = sorted(next(iter(table.values())))
    _print_table(
        f"{study}: the optimum as training goes on",
        ["epoch", *map(str, scales)],
        [[str(epoch), *(_number(row[s]) for s in scales)] for epoch, row in table.items()],
    )
    print()


def _print_table(title: str, head: list[str], rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    print(title)
    for row in (head, ["─" * w for w in widths], *rows):
        print("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)))


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _regret(value: float | None) -> str:
    return "" if value is None else "diverges" if value == float("inf") else f"{100 * value:.2f} %"


@app.command()
def check(
    folder: Annotated[str | None, typer.Argument(help="Judge the probes of these runs instead.")] = None,
    activation: Activation = None,
    power: Power = None,
    optimizer: OptimizerOption = None,
    regime: RegimeOption = None,
    scales: Annotated[str | None, typer.Option(help="N (or K, memories-only), as in 64,128,256.")] = None,
    eta0: Annotated[float | None, typer.Option(help="The learning rate (0.1; for adam 0.03).")] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 4,
    steps: Annotated[int, typer.Option(help="How many steps to train.")] = 16,
    kappa: Kappa = None,
    rho: Rho = None,
    beta: Beta = None,
    features: Annotated[int | None, typer.Option(help="N, memories-only (16).")] = None,
    samples: Annotated[int | None, typer.Option(help="P, memories-only (64).")] = None,
    batch: Annotated[int | None, typer.Option(help="B, memories-only (16).")] = None,
    noise: Noise = None,
    uncentered: Annotated[bool, typer.Option("--uncentered", help="Do not centre.")] = False,
    bias_init: BiasInitOption = None,
    parameterization: ParameterizationOption = None,
    data: Data = None,
    find: Annotated[
        bool, typer.Option("--find", help="Also find exponents that work, and sweep them.")
    ] = False,
    out: Annotated[str | None, typer.Option(help="A folder that keeps the runs.")] = None,
    plot: Annotated[str | None, typer.Option(help="A folder to draw the slopes into.")] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Check that every part of a step keeps its size as the model grows; exit code 1 if not."""
    from denseam.coordinates import check_records, check_study, checked_study, propose
    from denseam.coordinates.of_study import regime_from

    if folder is not None:
        if find or activation or optimizer:
            raise InputError("folder: its runs are judged as they are; leave out the other options")
        from denseam.store import Store

        records = Store(folder).read()
        _say_skipped(records.skipped)
        checks, proposal = check_records(records), None
    else:
        refuse(
            [f"{k} is needed" for k, v in (("activation", activation), ("optimizer", optimizer)) if v is None]
        )
        given = {
            "power": power, "noise": noise, "bias_init": bias_init, "parameterization": parameterization,
            "data": data, "centred": False if uncentered else None,
        }  # fmt: skip
        study = checked_study(
            activation,
            str(optimizer),
            regime=regime_from(regime, kappa, rho, beta, features, samples, batch),
            scales=_whole("scales", scales),
            eta0=eta0,
            seeds=seeds,
            steps=steps,
            **{k: v for k, v in given.items() if v is not None},
        )
        listener = _listener(quiet)
        with _interruptible(out):
            checks = [check_study(study, out=out, listener=listener)]
            proposal = propose(study, checks[0], out=out, listener=listener) if find else None
    document: dict[str, Any] = checks[0].to_json() if len(checks) == 1 else {"status": _worst(checks)}
    if len(checks) > 1:
        document["checks"] = [c.to_json() for c in checks]
    if proposal is not None:
        document["found"] = proposal.to_json()
    if plot:
        from denseam.figures import draw_coordinates

        document["figures"] = [str(file) for c in checks for file in draw_coordinates(c, plot)]
    if json_:
        _print_json(document)
    else:
        for c in checks:
            _print_check(c)
        if proposal is not None:
            _print_proposal(proposal)
        print(*document.get("figures", []), sep="\n", end="\n" if plot else "")
    return {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 2}[_worst(checks)]


def _worst(checks: list[Any]) -> str:
    found = {c.status for c in checks}
    return next(status for status in ("FAIL", "INCONCLUSIVE", "PASS") if status in found)


def _print_check(check: Any) -> None:
    steps = check.measured.steps
    rows = []
    for name in dict.fromkeys(s.name for s in check.slopes):
        mine = {s.step: s for s in check.slopes if s.name == name}
        first = next(iter(mine.values()))
        if first.expected is None:
            continue
        wrong = any(s.ok is False for s in mine.values())
        cells = [
            "gone" if s.slope is None else f"{s.slope:+.2f}" + ("!" if s.ok is False else "")
            for s in mine.values()
        ]
        judged = next((s.judged for s in mine.values() if s.judged), "")
        rows.append(
            [name, f"{first.expected:+g}", *cells, "WRONG" if wrong else "ok" if judged else "", judged]
        )
    _print_table(
        f"{check.name}: {check.status}\nexponents in {check.letter} over "
        f"{', '.join(map(str, check.measured.scales))}; {check.measured.seeds} seeds; at steps",
        ["quantity", "expected", *map(str, steps), "", "judged for"],
        rows,
    )
    print(", ".join(f"{k} {v}" for k, v in check.desiderata.items()))
    if check.cause:
        worst = check.failing()
        if worst and worst[0].slope is not None and worst[0].ci is not None:
            w = worst[0]
            print(
                f"first to break: {w.name} at step {w.step}, {check.letter}^{w.slope:.2f} "
                f"[{w.ci[0]:.2f}, {w.ci[1]:.2f}]"
            )
        print(check.cause)
    print()


def _print_proposal(proposal: Any) -> None:
    rule = proposal.parameterization
    _print_table(
        "proposed exponents, from the slopes of Z, F and ΔZ",
        ["", f"in {proposal.letter}", "interval", "taken as"],
        [
            [
                name,
                f"{value:+.3f}",
                "[{:+.3f}, {:+.3f}]".format(*proposal.intervals[name]),
                str(getattr(rule, name)),
            ]
            for name, value in proposal.exponents.items()
        ],
    )
    if proposal.constants:
        print("with", ", ".join(f"{k} = {v:.3g}" for k, v in proposal.constants.items()))
    print(f"check with these: {proposal.check.status} {proposal.check.cause}".rstrip())
    if proposal.verdict is not None:
        print(f"sweep with these: {proposal.verdict.status}. {proposal.verdict.reason}")


@app.command()
def export(
    folder: Annotated[str, typer.Argument(help="A folder of results.")],
    format_: Annotated[str, typer.Option("--format", help="csv or parquet.")] = "csv",
    probes: Annotated[
        bool, typer.Option("--probes", help="What was measured: a row per run and step.")
    ] = False,
    out: Annotated[str | None, typer.Option(help="The file; CSV goes to standard output without it.")] = None,
) -> int:
    """Write all runs as one table, one row per run."""
    from denseam.store import Store, write_csv, write_parquet, write_probes_csv

    if format_ not in ("csv", "parquet"):
        raise InputError(f"format must be 'csv' or 'parquet', got {format_!r}")
    if format_ == "parquet" and (out is None or probes):
        raise InputError(
            "out is needed for the format 'parquet'"
            if out is None
            else "probes are lists in the format 'parquet' already; leave --probes out"
        )
    records = Store(folder).read(None if format_ == "parquet" or probes else SCALAR_COLUMNS)
    _say_skipped(records.skipped)
    if probes and not any(row.get("probe_steps") for row in records):
        raise InputError(f"{folder}: nothing was measured there; sweep with --probes all")
    write = write_probes_csv if probes else write_csv
    if format_ == "parquet":
        assert out is not None
        write_parquet(records, out)
    elif out is None:
        write(records, sys.stdout)
    else:
        with open(out, "w", newline="") as file:
            write(records, file)
    return OK


@app.command()
def doctor(json_: Json = False) -> int:
    """Say what this installation can do: versions, devices, memory, optional parts."""
    from denseam.doctor import examine

    document = examine()
    if json_:
        _print_json(document)
        return OK
    for part, facts in document.items():
        print(part)
        for name, fact in facts.items():
            print(f"  {name:<18} {fact}")
    return OK


@app.command()
def bench(
    features: Annotated[str, typer.Option(help="The N to measure, as in 64,128,256.")] = "64,128,256",
    repeats: Annotated[int, typer.Option(help="Repetitions; medians are reported.")] = 5,
    seconds: Annotated[float, typer.Option(help="Seconds of work per measurement.")] = 4.0,
    json_: Json = False,
) -> int:
    """Measure this engine against the product peak of this machine and a plain PyTorch loop."""
    from denseam.bench import benchmark
    from denseam.study import whole_values

    def say(text: str) -> None:
        print(f"denseam: {text}", file=sys.stderr)

    document = benchmark(whole_values("features", features), repeats, seconds, say)
    if json_:
        _print_json(document)
        return OK
    _print_table(
        f"peak {document['peak_gflops']:.0f} GFLOP/s on {document['device']}; {document['models']} models",
        ["N", "optimizer", "ms per step of all", "of peak", "times a PyTorch loop"],
        [
            [
                str(r["features"]),
                r["optimizer"],
                f"{r['ms_per_step']:.3g}",
                f"{100 * r['peak_fraction']:.0f} %",
                "torch not installed"
                if r["speedup_vs_torch_loop"] is None
                else f"{r['speedup_vs_torch_loop']:.1f}",
            ]
            for r in document["rows"]
        ],
    )
    print(
        f"cost grows as N^{document['cost_exponent']:.2f} per step; twice the runs cost "
        f"{document['runs_ratio']:.2f} times as much; peak memory {document['peak_memory_mb']:.0f} MB"
    )
    return OK


@app.command()
def demo(
    out: Annotated[str, typer.Option(help="The folder for results and figures.")] = "demo",
    quiet: Quiet = False,
) -> int:
    """Show transfer with centring, and its failure without: two studies, two verdicts, one figure."""
    from denseam.demo import demo as show

    shown = show(out, _listener(quiet))
    _print_verdicts(shown.verdicts)
    print(f"{shown.summary.runs} runs in {shown.summary.seconds:.0f} s; drawn in", *shown.files)
    return OK


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps({"schema": SCHEMA, **document}, allow_nan=False))


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    try:
        _program_settings()
        result = app(args=arguments, prog_name="denseam", standalone_mode=False)
        return result if isinstance(result, int) else OK
    except InputError as error:
        return _fail(str(error), BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort, _Stopped) as error:
        return _fail(str(error) or "interrupted", INTERRUPTED)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return _fail(f"{error.strerror or error}{where}; what was written before is intact", IO_ERROR)
    except Exception as error:
        # Usage errors come from click, or from the copy of it inside newer versions of Typer.
        if hasattr(error, "format_message"):
            return _fail(error.format_message(), BAD_INPUT)
        return _fail(f"internal error: {type(error).__name__}: {error}", INTERNAL)


def _program_settings() -> None:
    """Keep compiled programs for the next start; harmless where the folder cannot be written."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(cache, "denseam", "programs"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def _fail(message: str, code: int) -> int:
    print(f"denseam: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
