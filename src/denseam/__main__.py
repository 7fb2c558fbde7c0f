"""Run the program with `python -m denseam`."""

from denseam.cli import run_and_leave

if __name__ == "__main__":
    run_and_leave()
