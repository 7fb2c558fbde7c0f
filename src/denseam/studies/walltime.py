"""The end of a Slurm job, as seen by a worker in it: what does not end before it is handed back in time."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import subprocess
import sys
import threading
import time

#: Seconds before the end of its job at which a worker stops training; after them it has sent what it has.
MARGIN, SENT = 15.0, 4.0

#: Whether this worker is about to end.
_LEAVING = threading.Event()
#: When this module was loaded, soon after the job began.
_LOADED = time.time()


@functools.cache
def job_ends() -> float | None:
    """Return when the job of this process ends, in seconds since 1970; None outside of Slurm."""
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        return None
    told = os.environ.get("SLURM_JOB_END_TIME", "")  # only by recent versions
    if told.isdigit():
        return float(told)
    command = ["squeue", "--noheader", "--jobs", job, "--format", "%e"]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
        return datetime.datetime.fromisoformat(answer.strip()).timestamp()
    return None


class Job:
    """The job of a worker, while it trains a shard; endless outside of Slurm.

    Attributes
    ----------
    over
        An event that is set shortly before the job ends.
    """

    def __init__(self) -> None:
        self.over = threading.Event()
        self._began, self._ends = time.time(), job_ends()
        self._timer: threading.Timer | None = None
        if self._ends is not None:
            self._timer = threading.Timer(max(0.0, self._ends - MARGIN - time.time()), self.over.set)
            self._timer.daemon = True
            self._timer.start()

    def share(self) -> float:
        """Return how much of the time that the job had for training the shard got."""
        if self._ends is None:
            return 1.0
        return (time.time() - self._began) / max(1.0, self._ends - MARGIN - _LOADED)

    def leave(self) -> None:
        """Let the worker take nothing more, and end when its results are sent; another job replaces its own.

        A shard that it still held when it ends would be blamed for its end.
        """
        if "distributed" in sys.modules and not _LEAVING.is_set():
            from distributed import Status, get_worker

            with contextlib.suppress(ValueError):  # this is no Dask worker
                worker = get_worker()
                worker.loop.add_callback(setattr, worker, "status", Status.paused)
                worker.loop.add_callback(worker.loop.call_later, SENT, worker.close_gracefully)
                _LEAVING.set()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
