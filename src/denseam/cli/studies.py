"""Studies: `sweep`, `verdict`, `check`, `export`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from denseam.analysis.thresholds import REGRET_GOOD
from denseam.cli.options import (
    RESULTS_HELP,
    checked_options,
    cluster_options,
    json_option,
    log_option,
    paths,
    quiet_option,
    study_options,
    table_options,
    takes,
)
from denseam.cli.program import (
    IO_ERROR,
    OK,
    app,
    needed,
    progress_of,
    say_skipped,
    show,
    training_on,
    write_out,
)  # fmt: skip
from denseam.cli.text import print_check, print_files, print_horizon, print_verdicts
from denseam.ground.errors import InputError, refuse, together
from denseam.rules.table import unprescribed

if TYPE_CHECKING:
    from denseam.studies.engine.times import Times
    from denseam.studies.records import By, Records
    from denseam.studies.study import Study

#: The most runs that `sweep` trains without asking.
MOST_UNASKED = 100_000


@app.command(
    examples=(
        "denseam sweep --activation relu --optimizer adam --scales 32,64,128 --eta0 0.003:0.3:9 --out runs",
        "denseam sweep study.toml --seeds 5 --out runs",
    ),
)
@click.argument("study_file", required=False, shell_complete=paths)
@takes(cluster_options(), "where")
@takes(study_options())
@click.option("--axis", multiple=True, help="Sweep another axis, as in s2_0=0.5:2:5 (the same as --s2-0).")
@click.option("--out", shell_complete=paths, help="Folder for the results; existing runs are kept.")
@click.option("--yes", is_flag=True, help=f"Train more than {MOST_UNASKED:,} runs without asking.")
@log_option
@json_option
@quiet_option
def sweep(
    study_file: str | None,
    settings: dict[str, Any],
    where: dict[str, Any],
    axis: Sequence[str],
    out: str | None,
    yes: bool,
    log: Sequence[str],
    json_: bool,
    quiet: bool,
) -> int:
    """Train every run of a study: learning rates × scales × seeds. Run again to resume.

    A study is given by options, or by a TOML file (STUDY_FILE) whose keys are the options. Options override
    the file.
    """
    from denseam.report.trackers import check_trackers
    from denseam.studies.cluster import cluster_from
    from denseam.studies.documents import from_document, from_file
    from denseam.studies.runner import run_studies

    if axis:
        settings["axes"] = _axes(axis)
    studies, folder, cluster, _ = together(
        lambda: from_file(study_file, settings) if study_file else [from_document(settings)],
        lambda: needed(out, "out is needed: a folder for the results"),
        lambda: cluster_from(study_file, where),
        lambda: check_trackers(log),
    )
    for study in studies:
        if not study.rule().prescribed and study.rule().name == "prescription":
            why = unprescribed(study.lagrangian.family, study.optimizer)
            print(f"warning: {study.name}: {why}", file=sys.stderr)
        for limit in study.regime.limits(max(study.scales)):
            print(f"warning: {study.name}: {limit}", file=sys.stderr)
    _agree(studies, yes=yes, quiet=quiet)
    with training_on(cluster, folder, quiet, log) as training:
        summary = run_studies(studies, folder, **training)
    say_skipped(summary.records.skipped, summary.records.contradictions)
    for shard in summary.set_aside:
        print(f"denseam: {shard}", file=sys.stderr)
    counts = {"runs": summary.runs, "reused": summary.reused, "diverged": summary.diverged}
    document = {"out": folder, **counts, "seconds": round(summary.seconds, 3)}
    if summary.times is not None:
        document["times"] = summary.times.to_json()
    if summary.set_aside:
        document["set_aside"] = [aside.shard.name for aside in summary.set_aside]
    text = (
        f"{summary.runs} runs in {folder}: {summary.reused} reused, {summary.diverged} diverged, "
        f"{summary.seconds:.1f} s{_parts(summary.times)}\nnext: denseam verdict {shlex.quote(folder)}"
    )
    show(json_, document, print, text)
    return IO_ERROR if summary.set_aside else OK


def _agree(studies: Sequence[Study], *, yes: bool, quiet: bool) -> None:
    """Print what a very large sweep will cost, and ask for confirmation; refuse it if nobody can answer."""
    from denseam.report.wording import duration
    from denseam.studies.runner import expense
    from denseam.training.devices import here

    if sum(study.count for study in studies) <= MOST_UNASKED:
        return
    together(*(study.check_count for study in studies))
    platform = here()
    one = "one core" if platform == "cpu" else "one GPU"
    cost = expense(studies, platform)
    text = f"{cost.runs:,} runs take {one} about {duration(cost.seconds)}"
    if yes:
        progress_of(quiet).message(text)
    elif not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(f"{text}; give --yes to train them")
    elif not click.confirm(f"{text}. Train them?", err=True):
        raise InputError("nothing was trained")


def _parts(times: Times | None) -> str:
    """Return where the time went; nothing if nothing was trained here."""
    if times is None or not times.training:
        return ""
    seconds = (f"{name} {value:.1f} s" for name, value in times.to_json().items())
    return f" (summed over threads: {', '.join(seconds)})"


def _axes(texts: Sequence[str]) -> dict[str, str]:
    wrong = [text for text in texts if "=" not in text]
    if wrong:
        raise InputError(f"axis must be name=values, as in s2_0=0.5:2:5, got {wrong[0]!r}")
    return {name: values for name, _, values in (text.partition("=") for text in texts)}


@app.command(
    epilog=RESULTS_HELP,
    examples=(
        "denseam verdict runs --target 4096",
        "denseam verdict sweep.csv --axis lr --loss val_loss --size width",
    ),
)
@click.argument("results", shell_complete=paths)
@click.option(
    "--axis", show_default="the one that was swept", help="Hyperparameter to judge; in a table, its column."
)
@table_options
@click.option("--target", type=int, help="Scale at which the value will be used.")
@click.option(
    "--tolerance", type=float, default=REGRET_GOOD, show_default=True, help="Regret that is good enough."
)
@click.option("--by", default="training", show_default=True, help="Loss to judge: training or heldout.")
@click.option("--horizon", is_flag=True, help="Also print the optimum at each epoch.")
@click.option("--plot", help="Folder for the transfer figure.")
@json_option
def verdict(
    results: str,
    axis: str | None,
    columns: dict[str, str],
    target: int | None,
    tolerance: float,
    by: By,
    horizon: bool,
    plot: str | None,
    json_: bool,
) -> int:
    """Judge whether the best hyperparameter stays the same across the scales in RESULTS."""
    from denseam.analysis.transfer import exit_code
    from denseam.analysis.transfer import horizon as horizons
    from denseam.analysis.transfer import verdict as judge

    records, curves = _judged(results, axis, columns, whole=horizon or plot is not None)
    say_skipped(records.skipped, records.contradictions)
    if not len(records):
        raise InputError(f"{results}: contains no runs")
    verdicts = judge(records, axis=axis, target=target, curves=curves, tolerance=tolerance, by=by)
    document: dict[str, Any] = {"studies": [v.to_json() for v in verdicts]}
    if horizon:
        document["horizon"] = horizons(records, axis=axis)
    if plot:
        from denseam.report.plots import draw_transfer
        from denseam.studies.records import by_loss

        document["figures"] = [str(f) for f in draw_transfer(by_loss(records, by), plot, verdicts=verdicts)]

    def print_text() -> None:
        print_verdicts(verdicts)
        for study, table in document.get("horizon", {}).items():
            print_horizon(study, table)
        print_files(document.get("figures", []))

    show(json_, document, print_text)
    return exit_code(verdicts)


def _judged(results: str, axis: str | None, columns: dict[str, str], whole: bool) -> tuple[Records, Any]:
    """Return the runs of a folder or table, and a reader of loss curves if they are left in the folder."""
    from denseam.analysis.transfer import COLUMNS
    from denseam.studies.foreign import records_of
    from denseam.studies.store import Store

    if whole or columns or not os.path.isdir(results):
        return records_of(results, axis=axis, columns=columns), None
    store = Store(results)
    return store.read(COLUMNS), store.curves


@app.command(
    examples=(
        "denseam check --activation relu --optimizer sgd",
        "denseam check --activation relu --optimizer adam --parameterization standard",
    ),
)
@click.argument("folder", required=False, shell_complete=paths)
@takes(cluster_options(), "where")
@takes(checked_options())
@click.option("--updates", type=int, default=16, show_default=True, help="Number of updates in training.")
@click.option("--out", shell_complete=paths, help="Folder for the runs.")
@click.option("--plot", help="Folder for the picture of the slopes.")
@json_option
@quiet_option
def check(
    folder: str | None,
    settings: dict[str, Any],
    where: dict[str, Any],
    updates: int,
    out: str | None,
    plot: str | None,
    json_: bool,
    quiet: bool,
) -> int:
    """Check that every part of a step keeps its size as the model grows; exit code 1 if not.

    With a FOLDER, judge the probes of its runs instead.
    """
    from denseam.analysis.coordinates.of_study import check_records, check_study, checked_study
    from denseam.studies.cluster import cluster_from

    if folder is not None:
        if settings or where:
            raise InputError("folder: its runs are judged as they are; leave out the other options")
        from denseam.studies.store import Store

        records = Store(folder).read()
        say_skipped(records.skipped, records.contradictions)
        checks = check_records(records)
    else:
        refuse(f"{key} is needed" for key in ("activation", "optimizer") if key not in settings)
        study, cluster = together(
            lambda: checked_study(updates=updates, **settings), lambda: cluster_from(None, where)
        )
        with training_on(cluster, out, quiet) as training:
            checks = [check_study(study, out=out, **training)]
    document: dict[str, Any] = checks[0].to_json() if len(checks) == 1 else {"status": _worst(checks)}
    if len(checks) > 1:
        document["checks"] = [c.to_json() for c in checks]
    if plot:
        from denseam.report.plots import draw_coordinates

        document["figures"] = [str(file) for c in checks for file in draw_coordinates(c, plot)]

    def print_text() -> None:
        for c in checks:
            print_check(c)
        print_files(document.get("figures", []))

    show(json_, document, print_text)
    return {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 2}[_worst(checks)]


def _worst(checks: list[Any]) -> str:
    statuses = {c.status for c in checks}
    return next(status for status in ("FAIL", "INCONCLUSIVE", "PASS") if status in statuses)


@app.command(
    examples=(
        "denseam export runs --out runs.csv",
        "denseam export runs --probes --out probes.csv",
    ),
)
@click.argument("folder", shell_complete=paths)
@click.option("--format", "format_", default="csv", show_default=True, help="csv or parquet.")
@click.option("--probes", is_flag=True, help="Write the probes: one row per run and step.")
@click.option("--out", shell_complete=paths, show_default="standard output, for CSV", help="File to write.")
def export(folder: str, format_: str, probes: bool, out: str | None) -> int:
    """Write all runs in a FOLDER as one table, one row per run."""
    from denseam.studies.records import COLUMNS
    from denseam.studies.store import Store, csv_text, parquet_bytes, probes_csv, write_export

    if format_ not in ("csv", "parquet"):
        raise InputError(f"format must be 'csv' or 'parquet', got {format_!r}")
    if format_ == "parquet":
        path = needed(out, "out is needed for the format 'parquet'")
        if probes:
            raise InputError("probes are already in the format 'parquet', as lists; leave out --probes")
        records = Store(folder).read()
        say_skipped(records.skipped, records.contradictions)
        write_export(path, parquet_bytes(records))
        return OK
    # Everything except the loss curves fits into a spreadsheet.
    scalars = [name for name, kind in COLUMNS.items() if kind != "l"]
    records = Store(folder).read(None if probes else scalars)
    say_skipped(records.skipped, records.contradictions)
    if probes and not any(row.get("probe_steps") for row in records):
        raise InputError(f"{folder}: its runs have no probes; sweep with --probes all")
    content = (probes_csv if probes else csv_text)(records).encode()
    if out is None:
        write_out(content)
    else:
        write_export(out, content)
    return OK
