"""The installed program."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("denseam")


def run(*arguments):
    """The installed program, as a user starts it."""
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
