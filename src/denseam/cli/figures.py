"""Pictures and pages: `figure list`, `figure run`, `report`."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from denseam.cli.options import (
    RESULTS_HELP,
    cluster_options,
    json_option,
    paths,
    quiet_option,
    table_options,
    takes,
)
from denseam.cli.program import IO_ERROR, OK, Group, app, interruptible, progress_of, say_skipped, show
from denseam.cli.text import print_table
from denseam.ground.errors import InputError, refuse, together
from denseam.report.wording import duration

#: The sign in front of each outcome.
SIGNS = {"reproduced": "✓", "not reproduced": "✗", "undecided": "?", "not run": "·"}


def _names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of figures that a shell offers."""
    from denseam.paper.catalog import catalog

    return [name for name in ("all", *(f.name for f in catalog())) if name.startswith(incomplete)]


def choice_options(command: Any) -> Any:
    """Give a command the options that choose runs: readings, seeds, scales, costs."""
    options = (
        click.option(
            "--reading", default="all", show_default=True,
            help="Readings, as in frozen,trained: biases frozen at zero, trained from zero, or trained from "
            "normal.",
        ),
        click.option(
            "--seeds", type=int, show_default="those that a verdict needs", help="Seeds at every scale."
        ),
        click.option("--undecided", is_flag=True, help="Add seeds only for undecided verdicts."),
        click.option("--beyond", is_flag=True, help="Include scales beyond those that a verdict needs."),
        click.option(
            "--max-operations",
            type=float,
            show_default="no limit",
            help="Skip runs with more operations than this.",
        ),
        click.option(
            "--part", default="1/1", show_default=True,
            help="Part of the runs, as in 3/8, for several processes with one folder.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _choice(
    reading: str, seeds: int | None, undecided: bool, beyond: bool, max_operations: float | None, part: str
) -> Any:
    """Return the choice that these options describe."""
    from denseam.paper.missing import Choice
    from denseam.paper.readings import readings_of

    names = [name.strip() for name in reading.split(",") if name.strip()]
    which, of = together(lambda: readings_of(names), lambda: _part(part))
    problems = [] if seeds is None or seeds > 0 else [f"seeds must be at least 1, got {seeds}"]
    if max_operations is not None and not max_operations > 0:
        problems.append(f"max-operations must be above 0, got {max_operations}")
    refuse(problems)
    return Choice(
        which, seeds, undecided, beyond, math.inf if max_operations is None else max_operations, *of
    )


def _part(text: str) -> tuple[int, int]:
    """Return the numbers of a part such as 3/8."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"part must be like 3/8, got {text!r}")
    return int(match[1]), int(match[2])


#: Title of a part of the list → what belongs to it.
KINDS: dict[str, Callable[[Any], bool]] = {
    "Figures of the paper": lambda f: f.paper_label is not None,
    "Claims of its text": lambda f: f.section is not None,
    "Our own studies": lambda f: f.own,
}


@app.group(cls=Group, examples=("denseam figure list", "denseam figure run linear-sgd"))
def figure() -> None:
    """Train, draw and judge the paper's figures and our own studies."""


@figure.command(
    "list",
    examples=(
        "denseam figure list",
        "denseam figure list --out figures-laptop --size laptop",
    ),
)
@click.option("--out", shell_complete=paths, help="Folder with runs from which to judge each claim.")
@click.option("--size", default="paper", show_default=True, help="Size of these runs: laptop or paper.")
@json_option
def list_(out: str | None, size: str, json_: bool) -> int:
    """List all figures: name, title, label in the paper, and their claims in each reading."""
    from denseam.paper.catalog import catalog
    from denseam.paper.gallery import judged_in, size_of

    figures, chosen = catalog(), size_of(size)
    words = {} if out is None else judged_in(Path(out), chosen, figures)
    rows = [
        {
            "name": f.name,
            "paper_label": f.paper_label,
            "section": f.section,
            "title": f.title,
            "panels": [panel.describe() for panel in f.panels],
            "claims": [
                words[f.name][n].to_json()
                if words
                else {"claim": c.text, "readings": dict.fromkeys(c.reading_names)}
                for n, c in enumerate(f.claims)
            ],
        }
        for f in figures
    ]
    show(json_, {"figures": rows}, _print_list, figures, words)
    return OK


def _print_list(figures: Any, words: Any) -> None:
    width = max(len(f.name) for f in figures)
    for title, kind in KINDS.items():
        print(title)
        for f in figures:
            if kind(f):
                print(f"  {f.name:<{width}}  {f.title}")
                if f.paper_label not in (None, f.name):
                    print(f"  {'':<{width}}  label in the paper: {f.paper_label}")
                for judgement in words.get(f.name, ()):
                    said = ", ".join(f"{name}: {found.verdict}" for name, found in judgement.findings.items())
                    print(f"  {'':<{width}}  - {judgement.claim.text} {said}")
        print()
    print("next: denseam figure run NAME --out figures")


@figure.command(
    examples=(
        "denseam figure run linear-sgd",
        "denseam figure run all --size paper --out figures-paper --draw-only",
    ),
)
@click.argument("names", nargs=-1, required=True, shell_complete=_names)
@takes(cluster_options(), "where")
@click.option(
    "--size", default="laptop", show_default=True, help="laptop (two cores) or paper (a large GPU)."
)
@click.option(
    "--out",
    shell_complete=paths,
    show_default="figures-SIZE",
    help="Folder; runs in it are not trained again.",
)
@choice_options
@click.option("--draw-only", is_flag=True, help="Train nothing: draw and judge the existing runs.")
@click.option("--train-only", is_flag=True, help="Train the missing runs; draw and judge nothing.")
@json_option
@quiet_option
def run(
    names: tuple[str, ...],
    where: dict[str, Any],
    size: str,
    out: str | None,
    draw_only: bool,
    train_only: bool,
    json_: bool,
    quiet: bool,
    **chosen_runs: Any,
) -> int:
    """Make figures: train missing runs, draw, and judge each claim in each reading. Run again to resume.

    NAMES are names or labels of figures; `all` stands for every one.
    """
    from denseam.paper.catalog import find
    from denseam.paper.gallery import RUNS, make_figures, size_of, train_figures, write_findings
    from denseam.studies.cluster import cluster_from
    from denseam.studies.dask_executor import connect

    figures, chosen, cluster, choice = together(
        lambda: find(names), lambda: size_of(size), lambda: cluster_from(None, where),
        lambda: _choice(**chosen_runs),
    )  # fmt: skip
    folder = Path(out or f"figures-{size}")
    problems = []
    if cluster.kind == "local" and cluster.workers:
        problems.append("workers: a figure is trained on all cores of this machine; leave it out")
    if cluster.kind != "local" and draw_only:
        problems.append("executor: --draw-only trains nothing; leave one of them out")
    if draw_only and train_only:
        problems.append("draw-only: --train-only draws nothing; leave one of them out")
    if choice.parts > 1 and not train_only:
        problems.append("part: a part of the runs is no figure; add --train-only")
    if folder.exists() and not folder.is_dir():
        problems.append(f"out {folder}: is not a folder")
    refuse(problems)
    began, progress = time.perf_counter(), progress_of(quiet)
    with (
        interruptible(str(folder)) as stop,
        connect(cluster, folder / RUNS, progress=progress) as executor,
    ):
        if train_only:
            summary = train_figures(
                figures, chosen, folder, choice, progress=progress, stop=stop, executor=executor
            )
            return _trained(summary, json_)
        made = make_figures(
            figures, chosen, folder, choice=choice, train=not draw_only, progress=progress, stop=stop,
            executor=executor, made=(lambda _: None) if json_ else _print_made,
        )  # fmt: skip
    table = write_findings(folder, chosen) if any(m.files for m in made) else None
    _warn(made, "run without --draw-only" if draw_only else "run the same command again")
    show(json_, _document(made, table), _print_outcomes, made, time.perf_counter() - began, table)
    return IO_ERROR if any(m.set_aside for m in made) else OK


def _trained(summary: Any, json_: bool) -> int:
    """Print what was trained."""
    runs = 0 if summary is None else summary.runs - summary.reused
    aside = () if summary is None else tuple(map(str, summary.set_aside))
    show(json_, {"runs": runs, "set_aside": list(aside)}, print, f"{runs} runs trained")
    return IO_ERROR if aside else OK


@figure.command(examples=("denseam figure missing all --size paper --out figures-paper",))
@click.argument("names", nargs=-1, required=True, shell_complete=_names)
@click.option("--size", default="paper", show_default=True, help="laptop or paper.")
@click.option("--out", shell_complete=paths, show_default="figures-SIZE", help="Folder with runs.")
@choice_options
@json_option
def missing(names: tuple[str, ...], size: str, out: str | None, json_: bool, **chosen_runs: Any) -> int:
    """List the missing runs of figures: their cost, and the verdicts that wait for them."""
    from denseam.paper.catalog import find
    from denseam.paper.gallery import rows_in, size_of
    from denseam.paper.missing import gaps

    figures, chosen, choice = together(
        lambda: find(names), lambda: size_of(size), lambda: _choice(**chosen_runs)
    )
    todo = gaps(figures, chosen, rows_in(Path(out or f"figures-{size}")), choice)
    document = {
        "runs": sum(len(gap.specs) for gap in todo),
        "operations": sum(gap.operations for gap in todo),
        "gaps": [gap.to_json() for gap in todo],
    }
    show(json_, document, _print_missing, todo)
    return OK


def _print_missing(todo: list[Any]) -> None:
    rows = [
        [
            gap.study.name, gap.reading.name, f"{gap.setting.letter} = {gap.scale}", str(len(gap.specs)),
            f"{gap.operations:.1e}", ", ".join(gap.outcomes),
            ", ".join(gap.figures),
        ]
        for gap in todo
    ]  # fmt: skip
    runs, operations = sum(len(gap.specs) for gap in todo), sum(gap.operations for gap in todo)
    heads = ["study", "reading", "size", "runs", "operations", "now", "figures"]
    print_table(f"{runs} runs are missing, {operations:.2g} operations", heads, rows)


def _warn(made: list[Any], remedy: str) -> None:
    for m in made:
        for shard in m.set_aside:
            print(f"denseam: {shard}", file=sys.stderr)
        if m.missing:
            parts = ", ".join(f"{n} runs ({reading})" for reading, n in m.missing.items())
            print(f"warning: {m.figure.name}: missing: {parts}; {remedy}", file=sys.stderr)


def _document(made: list[Any], table: Path | None) -> dict[str, Any]:
    return {
        "files": [str(file) for m in made for file in m.files],
        "verdicts": [
            {"figure": m.figure.name, "paper_label": m.figure.paper_label, "own": m.figure.own, **j.to_json()}
            for m in made
            for j in m.judgements
        ],
        "missing": {m.figure.name: dict(m.missing) for m in made if m.missing},
        "set_aside": [shard for m in made for shard in m.set_aside],
        "table": str(table) if table else None,
    }


def _print_made(made: Any) -> None:
    print(f"{made.figure.name}: {made.figure.title}")
    for judgement in made.judgements:
        print(f"  {judgement.claim.text}")
        for reading, finding in judgement.findings.items():
            print(f"    {SIGNS[finding.outcome]} {reading}: {finding.verdict}: {finding.measured}")
    if made.figure.remark:
        print(f"  {made.figure.remark}")
    print(*(f"  {file}" for file in made.files), sep="\n", end="\n\n", flush=True)


def _print_outcomes(made: list[Any], seconds: float, table: Path | None) -> None:
    from denseam.paper.summary import KINDS as WORDS
    from denseam.paper.summary import tally

    claims = sum(len(m.judgements) for m in made)
    title = f"{claims} claims of {sum(bool(m.files) for m in made)} figures in {duration(seconds)}"
    rows = [
        [whose, reading, *(str(counter[word]) for word in WORDS)]
        for whose, own in (("the paper's", False), ("our own", True))
        for reading, counter in tally([(m.figure, m.judgements) for m in made], own).items()
    ]
    print_table(title, ["claims", "reading", *WORDS], rows)
    if table:
        print(table)


@app.command(
    epilog=RESULTS_HELP,
    examples=(
        "denseam report runs",
        "denseam report sweep.csv --out page.html",
    ),
)
@click.argument("results", shell_complete=paths)
@click.option(
    "--out",
    shell_complete=paths,
    show_default="report.html in the folder, or TABLE.html",
    help="File to write.",
)
@click.option(
    "--axis", show_default="the one that was swept", help="Hyperparameter to judge; in a table, its column."
)
@table_options
@click.option("--target", type=int, help="Scale at which the value will be used.")
@json_option
def report(
    results: str,
    out: str | None,
    axis: str | None,
    columns: dict[str, str],
    target: int | None,
    json_: bool,
) -> int:
    """Write one self-contained HTML page on everything in RESULTS."""
    from denseam.report.page import write_report

    page = write_report(results, out, axis=axis, target=target, columns=columns)
    say_skipped(page.skipped)
    show(json_, {"html": str(page.html), "figures": list(page.figures)}, print, page.html)
    return OK
