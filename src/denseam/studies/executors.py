"""Sends shards of work to a `concurrent.futures.Executor`, and handles the deaths of workers and executors.

- A shard whose worker ran out of time is handed out again, in smaller parts. Only a single run that does not
  end in several jobs is given up.
- A shard that repeatedly kills its worker, or fails there, is set aside and named; the others continue.
- An executor that dies as a whole (its scheduler, its pool) ends the call; the results so far are kept, and
  the same call resumes there.
- Bad input and a full disk end the call as they do in one process.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from typing import Any

from denseam.ground.errors import InputError
from denseam.studies.runs import Interrupted
from denseam.studies.shards import Shard, ShardFailed, describe, different, run_shard, versions
from denseam.studies.store import Store
from denseam.training.devices import cores

#: Seconds between two checks for a stop and for more workers.
LOOK = 0.5
#: The share of a job that is enough to blame a run for not ending in it.
LARGE = 0.4
#: A run is given up after this many jobs have ended before it did; and the reason.
JOBS, LATE = 3, "it takes longer than a job may; allow jobs more time (--time)"

Runs = dict[str, tuple[str, float]]


class ExecutorLost(ConnectionError):
    """The executor died with shards under way."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; run the same command again to resume")


@dataclasses.dataclass(frozen=True)
class SetAside:
    """A shard that was given up, and the reason."""

    shard: Shard
    reason: str

    def __str__(self) -> str:
        return f"set aside: {self.shard.name}: {self.reason}"


class RunsSetAside(OSError):
    """Workers could not train all runs; those that they did train are kept."""

    #: How many shards are named.
    SHOWN = 3

    def __init__(self, shards: Sequence[SetAside]) -> None:
        self.shards = tuple(shards)
        named = "; ".join(map(str, self.shards[: self.SHOWN]))
        more = len(self.shards) - self.SHOWN
        super().__init__(f"{named}{f'; and {more} more' if more > 0 else ''}; run the same again to resume")


class Limited(Executor):
    """An executor that knows how many shards it can train at once, and takes no more."""

    def room(self) -> int:
        """Return how many shards can be trained at the same time now."""
        raise NotImplementedError

    def listen(self, hear: Callable[[dict[str, int]], None]) -> str:
        """Have workers report the steps of runs, by their keys, under a name; '' if they cannot."""
        return ""


def check_executor(executor: Executor) -> None:
    """Refuse anything but an executor, and a pool that forks: its workers hang in JAX."""
    if not isinstance(executor, Executor):
        raise InputError(f"executor must be a concurrent.futures.Executor, got {type(executor).__name__}")
    context = getattr(executor, "_mp_context", None)
    if isinstance(executor, ProcessPoolExecutor) and context and context.get_start_method() == "fork":
        raise InputError(
            "executor: JAX hangs in forked processes; "
            "make the pool with mp_context=multiprocessing.get_context('spawn')"
        )


def enlist(executor: Executor, folder: str | os.PathLike[str]) -> tuple[int, str]:
    """Return how many workers an executor has, and the kind of their device.

    A worker is asked for it, and refused if its versions differ or it does not see the folder.
    """
    with token(folder) as sign, _one_line():
        worker = executor.submit(describe, sign).result()
    check_worker(worker["where"], worker, folder)
    room = executor.room() if isinstance(executor, Limited) else getattr(executor, "_max_workers", cores())
    return max(1, room), worker["platform"]


@contextlib.contextmanager
def token(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Create a file in the folder that workers should see."""
    store = Store(folder)
    store.prepare()
    sign = store.shards.resolve() / f".seen-{uuid.uuid4().hex}"
    sign.touch()
    try:
        yield str(sign)
    finally:
        sign.unlink(missing_ok=True)


def check_worker(name: str, worker: Mapping[str, Any], folder: str | os.PathLike[str]) -> None:
    """Refuse a worker whose results would differ, or go elsewhere."""
    wrong = different(versions(), worker["versions"])
    if wrong:
        raise InputError(f"executor: the worker {name} has {wrong}")
    if not worker["sees"]:
        raise InputError(f"out {os.path.abspath(folder)}: the worker {name} does not see this folder")


def spread(
    shards: Sequence[Shard], executor: Executor, *, stop: threading.Event | None = None
) -> Iterator[tuple[Shard, Runs | SetAside]]:
    """Have every shard trained; yield each with the results of its runs that have ended."""
    waiting = list(reversed(shards))
    going: dict[Future[dict[str, Any]], Shard] = {}
    late = collections.Counter[str]()  # of a run that was alone
    try:
        while waiting or going:
            if stop is not None and stop.is_set():
                raise Interrupted
            room = executor.room() if isinstance(executor, Limited) else len(shards)
            while waiting and len(going) < room:
                with _one_line():
                    going[executor.submit(run_shard, waiting[-1])] = waiting[-1]
                waiting.pop()
            if not going:
                time.sleep(LOOK)  # no worker is there now
            ended, _ = concurrent.futures.wait(going, LOOK, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ended:
                shard = going.pop(future)
                result, share = _result(future, shard)
                yield shard, result
                left = [] if isinstance(result, SetAside) else _unfinished(shard, result)
                # A shard that was begun late in a job says nothing about the length of its run.
                late.update(part.specs[0].key for part in left if len(shard.specs) == 1 and share > LARGE)
                for part in left:
                    if late[part.specs[0].key] < JOBS:
                        waiting.insert(0, part)  # others come first
                    else:
                        yield part, SetAside(part, LATE)
    finally:
        for future in going:
            future.cancel()


def _unfinished(shard: Shard, runs: Runs) -> list[Shard]:
    """Return what a worker has left of a shard: in halves, if nothing of it has ended."""
    keys = [spec.key for spec in shard.specs if spec.key not in runs]
    if not keys:
        return []
    parts = [keys] if runs or len(keys) == 1 else [keys[: len(keys) // 2], keys[len(keys) // 2 :]]
    return [shard.only(part) for part in parts]


def _result(future: Future[dict[str, Any]], shard: Shard) -> tuple[Runs | SetAside, float]:
    """Return the runs of a shard that have ended, and the share of its job that it had if others have not."""
    try:
        with _one_line():
            result = future.result()
            return result["runs"], result["share"]
    except (InputError, OSError):
        raise
    except ShardFailed as error:
        return SetAside(shard, str(error)), 0.0
    except Exception as error:
        if type(error).__name__ == "KilledWorker":  # by its name, so that Dask need not be installed
            return SetAside(shard, "every worker that took it died"), 0.0
        return SetAside(shard, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"), 0.0


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Turn the ways in which an executor dies into one error."""
    try:
        yield
    except CancelledError:
        raise ExecutorLost("the scheduler is gone") from None
    except concurrent.futures.BrokenExecutor:
        raise ExecutorLost("the pool is broken: one of its workers died") from None
