"""The search for exponents: `find`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from denseam.cli.options import checked_options, cluster_options, json_option, paths, quiet_option, takes
from denseam.cli.program import FAILED, OK, UNDECIDED, app, show, training_on
from denseam.cli.text import print_proposal
from denseam.ground.errors import refuse, together

#: The rule that is found, in the folder of the search.
RULE = "parameterization.json"
CODES = {"FOUND": OK, "NONE": FAILED, "INCONCLUSIVE": UNDECIDED}

_RULE_HELP = f"The rule is written to OUT/{RULE}, which `denseam sweep --parameterization` takes."


@app.command(
    epilog=_RULE_HELP,
    examples=(
        "denseam find --activation tanh --optimizer adam --out found",
        "denseam find --activation softmax --optimizer adam --regime memories-only --no-sweep",
    ),
)
@takes(cluster_options(), "where")
@takes(
    checked_options(
        parameterization={
            "default": None,
            "default_text": "standard; step=1 in the regime steps-only",
            "help": "Scaling rule to begin with: prescription, standard, changes as in s2=K^-1, or a file.",
        },
        scales={"default_text": "64,128,256,512; others in other regimes"},
        seeds={"default": 12, "help": "Number of seeds to measure exponents with."},
    )
)
@click.option("--updates", type=int, default=16, show_default=True, help="Number of updates in checks.")
@click.option("--no-sweep", is_flag=True, help="Do not confirm the exponents by a sweep of learning rates.")
@click.option(
    "--out", shell_complete=paths, help="Folder for the rule, the picture and the runs; run again to resume."
)
@json_option
@quiet_option
def find(
    settings: dict[str, Any],
    where: dict[str, Any],
    updates: int,
    no_sweep: bool,
    out: str | None,
    json_: bool,
    quiet: bool,
) -> int:
    """Find the exponents of s1, s2 and the learning rate; exit code 1 if no power keeps all terms."""
    from denseam.analysis.coordinates.finder import propose, searched_study
    from denseam.studies.cluster import cluster_from

    refuse(f"{key} is needed" for key in ("activation", "optimizer") if key not in settings)
    study, cluster = together(
        lambda: searched_study(updates=updates, **settings), lambda: cluster_from(None, where)
    )
    with training_on(cluster, out, quiet) as training:
        proposal = propose(study, verify=not no_sweep, out=out, **training)
    files = _write(proposal, out)
    next_line = _sweep_line(proposal, out) if out is not None and proposal.status == "FOUND" else None
    document = proposal.to_json() | {"out": out, "files": files}
    show(json_, document, print_proposal, proposal, files, next_line)
    return CODES[proposal.status]


def _write(proposal: Any, out: str | None) -> list[str]:
    """Write the rule and its picture; return the files."""
    if out is None:
        return []
    from denseam.report.plots import draw_exponents
    from denseam.studies.rule_files import write_rule

    rule = Path(out) / RULE
    write_rule(rule, proposal.parameterization)
    return [str(file) for file in (rule, *draw_exponents(proposal, out))]


def _sweep_line(proposal: Any, out: str) -> str | None:
    """Return the command that sweeps learning rates with the rule; None if the activation has no name."""
    from denseam.studies.documents import sweep_line, to_document

    document = to_document(proposal.study) | {"parameterization": str(Path(out) / RULE)}
    return sweep_line(document, str(Path(out) / "sweep"))
