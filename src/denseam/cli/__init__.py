"""The command line: parse, make one library call, print."""

# Importing a module registers its commands; `denseam --help` lists them in this order.
from denseam.cli import rules, studies, finding, workflow, figures, machine  # noqa: F401, I001
from denseam.cli.program import app, main, run_and_leave

__all__ = ["app", "main", "run_and_leave"]
