"""The catalog: `figure list`, `figure run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from denseam.cli.options import cluster_options, json_option, quiet_option, takes
from denseam.cli.program import (
    IO_ERROR,
    OK,
    Group,
    app,
    interruptible,
    print_json,
    progress_of,
)
from denseam.cli.text import print_table
from denseam.errors import InputError, together
from denseam.report.wording import duration


@app.group(cls=Group)
def figure() -> None:
    """Train, draw and judge the paper's figures and studies of our own."""


#: What came out → the sign in front of it.
SIGNS = {"reproduced": "✓", "not reproduced": "✗", "undecided": "?"}


@figure.command("list")
@json_option
def list_(json_: bool) -> int:
    """List all figures: name, label in the paper, what it shows."""
    from denseam.paper.catalog import catalog

    figures = catalog()
    if json_:
        print_json(
            {
                "figures": [
                    {
                        "name": f.name,
                        "paper_label": f.paper_label,
                        "title": f.title,
                        "panels": [part.describe() for part in f.parts],
                        "claims": [c.text for c in f.claims],
                    }
                    for f in figures
                ]
            }
        )
        return OK
    for title, some in (
        ("of the paper", [f for f in figures if f.paper_label]),
        ("of our own", [f for f in figures if not f.paper_label]),
    ):
        width = max(len(f.name) for f in figures)
        print(f"Figures {title}")
        for f in some:
            print(f"  {f.name:<{width}}  {f.title}")
            if f.paper_label and f.paper_label != f.name:
                print(f"  {'':<{width}}  label in the paper: {f.paper_label}")
        print()
    print("now: denseam figure run NAME --out figures")
    return OK


@figure.command()
@click.argument("names", nargs=-1, required=True)
@takes(cluster_options(), "where")
@click.option(
    "--size", default="laptop", show_default=True, help="laptop (two cores), or paper (a large GPU)."
)
@click.option("--out", show_default="figures-SIZE", help="Folder; runs in it are not trained again.")
@click.option("--draw-only", is_flag=True, help="Train nothing: draw and judge what is there.")
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
    """Make figures: train what is missing, draw, and judge each claim. Run it again to resume.

    NAMES are names or labels of figures; `all` stands for every one.
    """
    from time import perf_counter

    from denseam.paper.catalog import find
    from denseam.paper.gallery import RUNS, make_figures, size_of, write_findings
    from denseam.studies.cluster import cluster_from
    from denseam.studies.dask_executor import connect

    figures, chosen, cluster = together(
        lambda: find(names), lambda: size_of(size), lambda: cluster_from(None, where)
    )
    if cluster.kind == "local" and cluster.workers:
        raise InputError("workers: a figure is trained on all cores of this machine; leave it out")
    if cluster.kind != "local" and draw_only:
        raise InputError("executor: --draw-only trains nothing; leave one of them out")
    folder = Path(out or f"figures-{size}")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"out {folder}: is not a folder")
    began = perf_counter()

    def said(one: Any) -> None:
        if not json_:
            _print_made(one)

    progress = progress_of(quiet)
    with (
        interruptible(str(folder)) as pressed,
        connect(cluster, folder / RUNS, progress=progress) as elsewhere,
    ):
        made = make_figures(
            figures, chosen, folder, train=not draw_only, progress=progress, stop=pressed,
            executor=elsewhere, made=said,
        )  # fmt: skip
    table = write_findings(folder, chosen) if any(one.files for one in made) else None
    again = "run without --draw-only" if draw_only else "run the same again"
    for one in made:
        for shard in one.set_aside:
            print(f"denseam: {shard}", file=sys.stderr)
        if one.missing:
            print(f"warning: {one.figure.name}: {one.missing} runs are not there; {again}", file=sys.stderr)
    code = IO_ERROR if any(one.set_aside for one in made) else OK
    if json_:
        print_json(
            {
                "files": [str(file) for one in made for file in one.files],
                "verdicts": [
                    {"figure": one.figure.name, "paper_label": one.figure.paper_label, **finding.to_json()}
                    for one in made
                    for finding in one.findings
                ],
                "missing": {one.figure.name: one.missing for one in made if one.missing},
                "set_aside": [shard for one in made for shard in one.set_aside],
                "table": str(table) if table else None,
            }
        )
        return code
    outcomes = [finding for one in made for finding in one.findings]
    counts: dict[str, int] = {}
    for finding in outcomes:
        kind = "reproduced under a condition" if finding.condition else finding.outcome
        counts[kind] = counts.get(kind, 0) + 1
    if counts:
        print_table(
            f"{len(outcomes)} claims of {sum(bool(one.files) for one in made)} figures in "
            f"{duration(perf_counter() - began)}",
            ["claims", "verdict"],
            [[str(n), kind] for kind, n in counts.items()],
        )
        print(table)
    return code


def _print_made(one: Any) -> None:
    if one.missing:
        return
    print(f"{one.figure.name}: {one.figure.title}")
    for finding in one.findings:
        print(f"  {SIGNS[finding.outcome]} {finding.claim}")
        print(f"      {finding.verdict}: {finding.measured}")
    if one.figure.remark:
        print(f"  {one.figure.remark}")
    print(*(f"  {file}" for file in one.files), sep="\n", end="\n\n", flush=True)
