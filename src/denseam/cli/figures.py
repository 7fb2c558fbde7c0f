"""The catalog: `figure list`, `figure run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from denseam.cli.options import (
    Account,
    Address,
    Cores,
    ExecutorOption,
    Gpus,
    Json,
    Memory,
    Partition,
    Quiet,
    Time,
    Workers,
    cluster_options,
)
from denseam.cli.program import (
    IO_ERROR,
    OK,
    app,
    interruptible,
    print_json,
    progress_of,
)
from denseam.cli.text import print_table
from denseam.errors import InputError, refuse, together
from denseam.report.wording import duration

figure = typer.Typer(
    help="The paper's figures and studies of our own: train, draw, judge.", no_args_is_help=True
)
app.add_typer(figure, name="figure")

#: What came out → the sign in front of it.
SIGNS = {"reproduced": "✓", "not reproduced": "✗", "undecided": "?"}


@figure.command("list")
def list_(json_: Json = False) -> int:
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
def run(
    names: Annotated[list[str], typer.Argument(help="Names or labels of figures; all for every one.")],
    size: Annotated[str, typer.Option(help="laptop (two cores), or paper (a large GPU).")] = "laptop",
    out: Annotated[
        str | None, typer.Option(help="The folder (figures-SIZE); runs in it are not trained again.")
    ] = None,
    draw_only: Annotated[
        bool, typer.Option("--draw-only", help="Train nothing: draw and judge what is there.")
    ] = False,
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
    """Make figures: train what is missing, draw, and judge each claim. Run it again to resume."""
    from time import perf_counter

    from denseam.paper.catalog import find
    from denseam.paper.gallery import RUNS, make_figures, size_of, write_findings
    from denseam.studies.cluster import cluster_from, connect

    where = cluster_options(locals())
    figures, chosen, cluster = together(
        lambda: find(names), lambda: size_of(size), lambda: cluster_from(None, where)
    )
    refuse(
        ["workers: a figure is trained on all cores of this machine; leave it out"]
        * (cluster.kind == "local" and bool(cluster.workers))
        + ["executor: --draw-only trains nothing; leave one of them out"]
        * (cluster.kind != "local" and draw_only)
    )
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
