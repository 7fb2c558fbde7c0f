"""The page on a folder of results: `report`."""

from __future__ import annotations

import click

from denseam.cli.options import json_option
from denseam.cli.program import OK, app, print_json, say_skipped


@app.command()
@click.argument("folder")
@click.option("--out", show_default="report.html in the folder", help="File to write.")
@click.option("--axis", show_default="the one that was swept", help="Hyperparameter to judge.")
@click.option("--target", type=int, help="Scale it will be used at.")
@json_option
def report(folder: str, out: str | None, axis: str | None, target: int | None, json_: bool) -> int:
    """Write one self-contained HTML page on all that a FOLDER of results holds."""
    from denseam.report.write import write_report

    written = write_report(folder, out, axis=axis, target=target)
    say_skipped(written.skipped)
    if json_:
        print_json({"html": str(written.html), "figures": list(written.figures)})
    else:
        print(written.html)
    return OK
