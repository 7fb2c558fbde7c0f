"""Studies: `sweep`, `verdict`, `check`, `export`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from denseam.cli.options import (
    Account,
    Activation,
    Address,
    Beta,
    BiasInitOption,
    Cores,
    Data,
    ExecutorOption,
    Gpus,
    Heldout,
    Json,
    Kappa,
    Memory,
    Noise,
    OptimizerOption,
    ParameterizationOption,
    Partition,
    Power,
    Precision,
    Quiet,
    RegimeOption,
    Rho,
    Shrink,
    Time,
    Uncentered,
    UnitVariance,
    Workers,
    cluster_options,
)
from denseam.cli.program import (
    IO_ERROR,
    OK,
    app,
    interruptible,
    needed,
    print_json,
    progress_of,
    say_skipped,
    whole,
)
from denseam.cli.text import print_table, print_verdicts
from denseam.errors import InputError, refuse, together
from denseam.report.wording import number
from denseam.studies.schema import COLUMNS as RECORD_COLUMNS

#: The columns of a table that fits a spreadsheet: all but the loss curves.
SCALAR_COLUMNS = tuple(name for name, kind in RECORD_COLUMNS.items() if kind != "l")


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
    uncentered: Uncentered = None,
    bias_init: BiasInitOption = None,
    parameterization: ParameterizationOption = None,
    data: Data = None,
    shrink: Shrink = None,
    unit_variance: UnitVariance = None,
    heldout: Heldout = None,
    probes: Annotated[str | None, typer.Option(help="What to measure: all, or as in updates,K_eff.")] = None,
    probe_steps: Annotated[str | None, typer.Option(help="When, as in 0,1,2,4 (log-spaced).")] = None,
    precision: Precision = None,
    axis: Annotated[list[str] | None, typer.Option(help="Another axis, as in s2_0=0.5:2:5.")] = None,
    name: Annotated[str | None, typer.Option(help="What the study is called.")] = None,
    out: Annotated[str | None, typer.Option(help="The folder for results; runs in it are kept.")] = None,
    executor: ExecutorOption = None,
    address: Address = None,
    workers: Workers = None,
    gpus: Gpus = None,
    partition: Partition = None,
    account: Account = None,
    time: Time = None,
    memory: Memory = None,
    cores: Cores = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Train every run of a study: learning rates × scales × seeds. Run it again to resume."""
    from denseam.studies import study as asked
    from denseam.studies.cluster import cluster_from

    given = {
        "activation": activation, "power": power, "optimizer": optimizer, "regime": regime, "scales": scales,
        "eta0": eta0, "seeds": seeds, "epochs": epochs, "kappa": kappa, "rho": rho, "beta": beta,
        "features": features, "samples": samples, "batch": batch, "noise": noise, "uncentered": uncentered,
        "bias_init": bias_init, "parameterization": parameterization, "data": data, "precision": precision,
        "shrink": shrink, "unit_variance": unit_variance, "heldout": heldout,
        "name": name, "axes": _axes(axis), "probes": probes, "probe_steps": probe_steps,
    }  # fmt: skip
    where = cluster_options(locals())
    studies, folder, cluster = together(
        lambda: asked.from_file(study_file, given) if study_file else [asked.from_document(given)],
        lambda: out if out is not None else needed("out is needed: a folder for the results"),
        lambda: cluster_from(study_file, where),
    )
    for one in studies:
        if not one.rule().prescribed and one.rule().name == "prescription":
            print(f"warning: {one.name}: softmax with SGD has no prescription", file=sys.stderr)
    summary = _run(studies, folder, cluster, quiet)
    if json_:
        print_json(
            {
                "out": folder,
                "runs": summary.runs,
                "reused": summary.reused,
                "diverged": summary.diverged,
                "seconds": round(summary.seconds, 3),
            }
            | ({"set_aside": [one.shard.name for one in summary.set_aside]} if summary.set_aside else {})
        )
    else:
        print(
            f"{summary.runs} runs in {folder}: {summary.reused} were there, {summary.diverged} diverged, "
            f"{summary.seconds:.1f} s\nnow: denseam verdict {folder}"
        )
    return IO_ERROR if summary.set_aside else OK


def _run(studies: list[Any], folder: str, cluster: Any, quiet: bool) -> Any:
    from denseam.studies.cluster import connect
    from denseam.studies.runner import run_studies

    threads = cluster.workers if cluster.kind == "local" else None
    progress = progress_of(quiet)
    with interruptible(folder) as pressed, connect(cluster, folder, progress=progress) as executor:
        summary = run_studies(
            studies, folder, progress=progress, stop=pressed, workers=threads, executor=executor
        )
    say_skipped(summary.records.skipped)
    for shard in summary.set_aside:
        print(f"denseam: {shard}", file=sys.stderr)
    return summary


def _axes(given: list[str] | None) -> dict[str, str] | None:
    if not given:
        return None
    wrong = [text for text in given if "=" not in text]
    if wrong:
        raise InputError(f"axis must be name=values, as in s2_0=0.5:2:5, got {wrong[0]!r}")
    return dict(text.split("=", 1) for text in given)


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
    from denseam.analysis.transfer import COLUMNS, exit_code
    from denseam.analysis.transfer import horizon as horizons
    from denseam.analysis.transfer import verdict as judge
    from denseam.studies.store import Store

    store = Store(folder)
    records = store.read(None if horizon or plot else COLUMNS)
    say_skipped(records.skipped)
    if not len(records):
        raise InputError(f"{folder}: holds no runs")
    curves = None if horizon or plot else (lambda keys: store.curves(keys))
    verdicts = judge(records, axis=axis, target=target, curves=curves)
    document: dict[str, Any] = {"studies": [v.to_json() for v in verdicts]}
    if horizon:
        document["horizon"] = horizons(records, axis=axis)
    if plot:
        from denseam.report.plots import draw_transfer

        document["figures"] = [str(f) for f in draw_transfer(records, plot, verdicts=verdicts)]
    if json_:
        print_json(document)
    else:
        print_verdicts(verdicts)
        for study, table in document.get("horizon", {}).items():
            _print_horizon(study, table)
        for file in document.get("figures", []):
            print(file)
    return exit_code(verdicts)


def _print_horizon(study: str, table: dict[int, dict[int, float | None]]) -> None:
    scales = sorted(next(iter(table.values())))
    print_table(
        f"{study}: the optimum as training goes on",
        ["epoch", *map(str, scales)],
        [[str(epoch), *(number(row[s]) for s in scales)] for epoch, row in table.items()],
    )
    print()


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
    from denseam.analysis.coordinates import check_records, check_study, checked_study, propose
    from denseam.analysis.coordinates.of_study import regime_from

    if folder is not None:
        if find or activation or optimizer:
            raise InputError("folder: its runs are judged as they are; leave out the other options")
        from denseam.studies.store import Store

        records = Store(folder).read()
        say_skipped(records.skipped)
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
            scales=whole("scales", scales),
            eta0=eta0,
            seeds=seeds,
            steps=steps,
            **{k: v for k, v in given.items() if v is not None},
        )
        progress = progress_of(quiet)
        with interruptible(out):
            checks = [check_study(study, out=out, progress=progress)]
            proposal = propose(study, checks[0], out=out, progress=progress) if find else None
    document: dict[str, Any] = checks[0].to_json() if len(checks) == 1 else {"status": _worst(checks)}
    if len(checks) > 1:
        document["checks"] = [c.to_json() for c in checks]
    if proposal is not None:
        document["found"] = proposal.to_json()
    if plot:
        from denseam.report.plots import draw_coordinates

        document["figures"] = [str(file) for c in checks for file in draw_coordinates(c, plot)]
    if json_:
        print_json(document)
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
    print_table(
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
    print_table(
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
    from denseam.studies.store import Store, write_csv, write_parquet, write_probes_csv

    if format_ not in ("csv", "parquet"):
        raise InputError(f"format must be 'csv' or 'parquet', got {format_!r}")
    if format_ == "parquet" and (out is None or probes):
        raise InputError(
            "out is needed for the format 'parquet'"
            if out is None
            else "probes are lists in the format 'parquet' already; leave --probes out"
        )
    records = Store(folder).read(None if format_ == "parquet" or probes else SCALAR_COLUMNS)
    say_skipped(records.skipped)
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
