"""Pictures and pages: `figure list`, `figure run`, `report`."""

from __future__ import annotations

import collections
import sys
import time
from pathlib import Path
from typing import Any

import click

from denseam.cli.options import RESULTS_HELP, cluster_options, json_option, quiet_option, table_options, takes
from denseam.cli.program import IO_ERROR, OK, Group, app, interruptible, progress_of, say_skipped, show
from denseam.cli.text import print_table
from denseam.errors import refuse, together
from denseam.report.wording import duration

#: The sign in front of each outcome.
SIGNS = {"reproduced": "✓", "not reproduced": "✗", "undecided": "?"}


@app.group(cls=Group)
def figure() -> None:
    """Train, draw and judge the paper's figures and our own studies."""


@figure.command("list")
@json_option
def list_(json_: bool) -> int:
    """List all figures: name, title and label in the paper."""
    from denseam.paper.catalog import catalog

    figures = catalog()
    rows = [
        {
            "name": f.name,
            "paper_label": f.paper_label,
            "title": f.title,
            "panels": [panel.describe() for panel in f.panels],
            "claims": [c.text for c in f.claims],
        }
        for f in figures
    ]
    show(json_, {"figures": rows}, _print_list, figures)
    return OK


def _print_list(figures: Any) -> None:
    width = max(len(f.name) for f in figures)
    for title, ours in (("Figures of the paper", False), ("Our own studies", True)):
        print(title)
        for f in figures:
            if (f.paper_label is None) is ours:
                print(f"  {f.name:<{width}}  {f.title}")
                if f.paper_label not in (None, f.name):
                    print(f"  {'':<{width}}  label in the paper: {f.paper_label}")
        print()
    print("next: denseam figure run NAME --out figures")


@figure.command()
@click.argument("names", nargs=-1, required=True)
@takes(cluster_options(), "where")
@click.option(
    "--size", default="laptop", show_default=True, help="laptop (two cores) or paper (a large GPU)."
)
@click.option("--out", show_default="figures-SIZE", help="Folder; runs in it are not trained again.")
@click.option("--draw-only", is_flag=True, help="Train nothing: draw and judge the existing runs.")
@json_option
@quiet_option
def run(
    names: tuple[str, ...],
    where: dict[str, Any],
    size: str,
    out: str | None,
    draw_only: bool,
    json_: bool,
    quiet: bool,
) -> int:
    """Make figures: train missing runs, draw, and judge each claim. Run again to resume.

    NAMES are names or labels of figures; `all` stands for every one.
    """
    from denseam.paper.catalog import find
    from denseam.paper.gallery import RUNS, make_figures, size_of, write_findings
    from denseam.studies.cluster import cluster_from
    from denseam.studies.dask_executor import connect

    figures, chosen, cluster = together(
        lambda: find(names), lambda: size_of(size), lambda: cluster_from(None, where)
    )
    folder = Path(out or f"figures-{size}")
    problems = []
    if cluster.kind == "local" and cluster.workers:
        problems.append("workers: a figure is trained on all cores of this machine; leave it out")
    if cluster.kind != "local" and draw_only:
        problems.append("executor: --draw-only trains nothing; leave one of them out")
    if folder.exists() and not folder.is_dir():
        problems.append(f"out {folder}: is not a folder")
    refuse(problems)
    began, progress = time.perf_counter(), progress_of(quiet)
    with (
        interruptible(str(folder)) as pressed,
        connect(cluster, folder / RUNS, progress=progress) as executor,
    ):
        made = make_figures(
            figures, chosen, folder, train=not draw_only, progress=progress, stop=pressed,
            executor=executor, made=(lambda _: None) if json_ else _print_made,
        )  # fmt: skip
    table = write_findings(folder, chosen) if any(m.files for m in made) else None
    _warn(made, "run without --draw-only" if draw_only else "run the same command again")
    show(json_, _document(made, table), _print_outcomes, made, time.perf_counter() - began, table)
    return IO_ERROR if any(m.set_aside for m in made) else OK


def _warn(made: list[Any], remedy: str) -> None:
    for m in made:
        for shard in m.set_aside:
            print(f"denseam: {shard}", file=sys.stderr)
        if m.missing:
            print(f"warning: {m.figure.name}: {m.missing} runs are missing; {remedy}", file=sys.stderr)


def _document(made: list[Any], table: Path | None) -> dict[str, Any]:
    return {
        "files": [str(file) for m in made for file in m.files],
        "verdicts": [
            {"figure": m.figure.name, "paper_label": m.figure.paper_label, **finding.to_json()}
            for m in made
            for finding in m.findings
        ],
        "missing": {m.figure.name: m.missing for m in made if m.missing},
        "set_aside": [shard for m in made for shard in m.set_aside],
        "table": str(table) if table else None,
    }


def _print_made(made: Any) -> None:
    if made.missing:
        return
    print(f"{made.figure.name}: {made.figure.title}")
    for finding in made.findings:
        print(f"  {SIGNS[finding.outcome]} {finding.claim}")
        print(f"      {finding.verdict}: {finding.measured}")
    if made.figure.remark:
        print(f"  {made.figure.remark}")
    print(*(f"  {file}" for file in made.files), sep="\n", end="\n\n", flush=True)


def _print_outcomes(made: list[Any], seconds: float, table: Path | None) -> None:
    findings = [finding for m in made for finding in m.findings]
    counts = collections.Counter(
        "reproduced under a condition" if finding.condition else finding.outcome for finding in findings
    )
    if counts:
        print_table(
            f"{len(findings)} claims of {sum(bool(m.files) for m in made)} figures in {duration(seconds)}",
            ["claims", "verdict"],
            [[str(n), kind] for kind, n in counts.items()],
        )
        print(table)


@app.command(epilog=RESULTS_HELP)
@click.argument("results")
@click.option("--out", show_default="report.html in the folder, or TABLE.html", help="File to write.")
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
