"""The installed program."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("denseam")


def run(*arguments):
    """The installed program, as a user starts it."""
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)


def refused(result, *parts):
    """The program has refused its input: exit code 64, nothing but one line, with all of these parts."""
    assert result.returncode == 64, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("denseam: ")
    assert len(result.stderr.splitlines()) == 1, result.stderr
    for part in parts:
        assert part in result.stderr
