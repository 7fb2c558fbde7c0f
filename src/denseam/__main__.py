"""Run the program with `python -m denseam`."""

from denseam.cli import run_and_leave

run_and_leave()
