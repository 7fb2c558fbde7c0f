"""A process per command that can be killed, forked from one that has imported everything and computed nothing."""

import multiprocessing
import os
import sys
import time
from pathlib import Path

#: Imported once, before processes are forked from it.
PRELOADED = ["tests.faults.kills", "denseam.cli", "denseam.studies.runner", "denseam.workflow.target",
             "denseam.workflow.tuning", "denseam.report.plots", "denseam.report.page", "denseam.paper.gallery",
             "pyarrow.parquet", "matplotlib.figure", "safetensors.numpy"]  # fmt: skip
#: Kills of each command: in full, and in the sample.
KILLS = {
    "sweep": (70, 1),
    "tune": (20, 0),
    "train": (80, 1),
    "figure": (20, 0),
    "export csv": (10, 0),
    "report": (20, 0),
}
#: Seconds that a sync and a rename take, so that many kills come between them.
DELAY = 0.02


def run(arguments, log):
    """Run the program; its words go to a file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    _slow_down()
    from denseam.cli import main
    from denseam.workflow import target

    target.SAVE_SECONDS = 0.0
    code = main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _slow_down():
    def slow(function):
        def slowly(*arguments, **options):
            time.sleep(DELAY)
            return function(*arguments, **options)

        return slowly

    os.fsync, os.replace = slow(os.fsync), slow(os.replace)


def context():
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(PRELOADED)
    return forking


def start(forking, arguments, log):
    process = forking.Process(target=run, args=([str(a) for a in arguments], str(log)))
    process.start()
    return process


def ended(process, seconds):
    """Wait for a process; None if it takes longer."""
    process.join(seconds)
    return process.exitcode


def words(log):
    return Path(log).read_text()
