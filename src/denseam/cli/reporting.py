"""The page on a folder of results: `report`."""

from __future__ import annotations

from typing import Annotated

import typer

from denseam.cli.options import Json
from denseam.cli.program import OK, app, print_json, say_skipped


@app.command()
def report(
    folder: Annotated[str, typer.Argument(help="A folder of sweep, demo, tune, train or recall.")],
    out: Annotated[str | None, typer.Option(help="The file (report.html in the folder).")] = None,
    axis: Annotated[str | None, typer.Option(help="The hyperparameter to judge (eta0).")] = None,
    target: Annotated[int | None, typer.Option(help="The scale it will be used at.")] = None,
    json_: Json = False,
) -> int:
    """Write one self-contained HTML page on all that a folder holds."""
    from denseam.report import write_report

    written = write_report(folder, out, axis=axis, target=target)
    say_skipped(written.skipped)
    if json_:
        print_json({"html": str(written.html), "figures": list(written.figures)})
    else:
        print(written.html)
    return OK
