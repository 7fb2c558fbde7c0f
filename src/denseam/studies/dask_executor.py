"""Executors of a cluster: Dask by the address of its scheduler, on this machine, or as jobs of Slurm.

A worker has one core or one GPU and trains one shard at a time (a Dask worker with several threads: one
per thread). All workers need the versions of the driver and must see the folder of results.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import subprocess
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from denseam.ground.errors import InputError
from denseam.studies.cluster import Cluster
from denseam.studies.executors import ExecutorLost, Limited, check_worker, token
from denseam.studies.shards import describe
from denseam.training.devices import cores
from denseam.training.progress import Progress, told

#: Seconds to wait for a scheduler, for its first worker, and for an answer of a scheduler that was there.
REACH, FIRST_WORKER, HUNG = 6.0, 60.0, 60.0
#: The folder for the logs of Slurm jobs, beside the shards.
LOGS = "logs"
#: A shard is set aside after this many workers have died of it.
DEATHS = 3
#: What a Slurm job gets if neither the options nor the configuration of dask-jobqueue set it.
CORES, MEMORY = 1, "4GB"


class DaskExecutor(Limited):
    """The workers of a Dask cluster, one shard for each of their threads.

    Dask blames the death of a worker on every task that it held. So no worker is given more shards than it
    can train at once, and no shard is blamed that only waited.
    """

    def __init__(self, client: Any, progress: Progress) -> None:
        self._client, self._progress = client, progress
        self._executor = client.get_executor(pure=False)
        self._alone = 0.0

    @property
    def dashboard(self) -> str:
        """The address of the dashboard; empty if there is none."""
        try:
            return str(self._client.dashboard_link or "")
        except (KeyError, AttributeError):
            return ""

    def submit(self, fn: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        """Submit a call."""
        with self._reaching_the_scheduler():
            future: Future[Any] = self._executor.submit(fn, *arguments, **options)
        return future

    def room(self) -> int:
        """Return the number of threads of all workers; report if there have been none for a while."""
        with self._reaching_the_scheduler():
            threads = _threads(self._client)
        if threads:
            self._alone = 0.0
        elif not self._alone:
            self._alone = time.monotonic() + 15
        elif 0 < self._alone < time.monotonic():
            self._alone = -1.0
            self._progress.message("no worker is left; waiting for one (Ctrl-C stops and keeps the results)")
        return threads

    @contextlib.contextmanager
    def _reaching_the_scheduler(self) -> Iterator[None]:
        """Turn every failure to reach the scheduler into one error."""
        try:
            if self._client.status != "running":
                raise ConnectionError(self._client.status)
            yield
        except TimeoutError as error:
            raise ExecutorLost(f"the scheduler has not answered for {HUNG:.0f} s") from error
        except Exception as error:
            raise ExecutorLost("the scheduler is gone") from error

    def listen(self, hear: Callable[[dict[str, int]], None]) -> str:
        """Have workers report the steps of each run, by its key; return the name under which they report."""
        topic = f"denseam-{uuid.uuid4().hex}"
        with self._reaching_the_scheduler():
            self._client.subscribe_topic(topic, lambda event: hear(event[1]))
        return topic


@contextlib.contextmanager
def connect(
    cluster: Cluster,
    folder: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> Iterator[DaskExecutor | None]:
    """Yield an executor for `denseam.sweep`, or None for this process; close it at the end.

    Parameters
    ----------
    cluster
        Where the study runs.
    folder
        Where the results go; every worker must see it.
    progress
        Receives messages for people, such as the address of the dashboard.
    say
        Instead of `progress`: called with each such message.
    """
    progress = told(progress, say)
    if cluster.kind == "local":
        yield None
        return
    dask = _load("dask")
    with _silence(), contextlib.ExitStack() as stack:
        # Dask's number is the deaths it allows: one more is too many.
        stack.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": DEATHS - 1}))
        target: Any = cluster.address
        if target is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # another dashboard may use the default port
                made = slurm(cluster, folder) if cluster.kind == "slurm" else _here(cluster)
                target = stack.enter_context(made)
        if cluster.kind == "slurm":
            check_jobs(target.job_script())
            jobs = cluster.workers or 1
            target.adapt(minimum_jobs=jobs, maximum_jobs=jobs)  # a job that ends is replaced
        client = stack.enter_context(_client(target))
        if cluster.address is not None:
            try:
                client.run_on_scheduler(_allow_failures, DEATHS - 1)
            except ImportError as error:
                raise InputError(f"address {target}: the scheduler cannot load denseam ({error})") from None
        executor = DaskExecutor(client, progress)
        if executor.dashboard:
            progress.message(f"dashboard at {executor.dashboard}")
        _wait_for_a_worker(client, cluster, progress)
        check_workers(client, folder)
        yield executor


def check_workers(client: Any, folder: str | os.PathLike[str]) -> None:
    """Refuse workers whose versions differ from the driver's or that do not see the folder.

    A worker that dies meanwhile is not asked again: every worker checks every shard that it takes.
    """
    with token(folder) as sign:
        answers = client.run(describe, sign, on_error="return")
    for name, answer in answers.items():
        if isinstance(answer, OSError):
            continue
        if isinstance(answer, BaseException):
            reason = " ".join(str(answer).split())
            raise InputError(f"executor: the worker {name} cannot run this version of denseam ({reason})")
        check_worker(name, answer, folder)


def slurm(cluster: Cluster, folder: str | os.PathLike[str]) -> Any:
    """Return a cluster of Slurm jobs: one worker in each, with one GPU if requested; logs go to a folder."""
    dask, jobqueue = _load("dask"), _load("dask_jobqueue")

    def configured(name: str, default: Any) -> Any:
        return dask.config.get(f"jobqueue.slurm.{name}", None) or default

    wanted = cluster.cores or configured("cores", CORES)
    options: dict[str, Any] = {
        "queue": cluster.partition,
        "account": cluster.account,
        "walltime": cluster.time,
        "memory": cluster.memory or configured("memory", MEMORY),
        "processes": 1,
        "log_directory": configured("log-directory", str(Path(folder).absolute() / LOGS)),
        # A GPU is for one shard at a time, however many cores come with it.
        "cores": 1 if cluster.gpus else wanted,
        "job_cpu": wanted if cluster.gpus else None,
        "job_extra_directives": [
            *configured("job-extra-directives", []),
            *(["--gres=gpu:1"] if cluster.gpus else []),
            *cluster.directives,
        ],
        "job_script_prologue": [*configured("job-script-prologue", []), *cluster.prologue],
    }
    return jobqueue.SLURMCluster(**{k: v for k, v in options.items() if v is not None})


def check_jobs(script: str) -> None:
    """Have Slurm check a job script without running it; report why it would be refused."""
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
        file.write(script)
        file.flush()
        try:
            test = subprocess.run(["sbatch", "--test-only", file.name], capture_output=True, text=True)
        except FileNotFoundError:
            raise InputError("executor 'slurm': there is no sbatch on this machine") from None
    if test.returncode:
        raise InputError(f"executor 'slurm': {' '.join(test.stderr.split()) or 'sbatch refuses the job'}")


def _here(cluster: Cluster) -> Any:
    distributed = _load("distributed")

    def options(i: int) -> dict[str, Any]:
        seen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        gpus = seen.split(",") if seen else [str(n) for n in range(i + 1)]
        if cluster.gpus and i >= len(gpus):
            raise InputError(f"workers must be at most {len(gpus)}, one for each GPU, got {cluster.workers}")
        env = {"CUDA_VISIBLE_DEVICES": gpus[i]} if cluster.gpus else {}
        return {"nthreads": 1, "host": "127.0.0.1", "env": env, "silence_logs": logging.CRITICAL}

    count = cluster.workers or (1 if cluster.gpus else cores())
    return distributed.SpecCluster(
        scheduler={
            "cls": distributed.Scheduler,
            "options": {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"},
        },
        workers={i: {"cls": distributed.Nanny, "options": options(i)} for i in range(count)},
    )


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(f"executor: {name} is not installed; pip install 'denseam[cluster]'") from None


def _client(target: Any) -> Any:
    distributed = _load("distributed")
    try:
        if isinstance(target, str):
            # In a thread of its own, since a notebook has a running loop.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, _asked(distributed, target)).result()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # versions are compared below
            return distributed.Client(target, timeout=REACH)
    except (OSError, ValueError, RuntimeError):
        raise InputError(f"address {target}: no Dask scheduler answers there") from None


async def _asked(distributed: Any, address: str) -> None:
    """Ask a scheduler who it is; a `Client` would wait forever for one that accepts but never answers."""
    arguments = distributed.Security().get_connection_args("client")
    async with distributed.rpc(address, timeout=REACH, connection_args=arguments) as scheduler:
        await asyncio.wait_for(scheduler.identity(), REACH)


def _allow_failures(deaths: int, dask_scheduler: Any = None) -> None:
    dask_scheduler.allowed_failures = min(dask_scheduler.allowed_failures, deaths)


def _threads(client: Any) -> int:
    """Return the number of threads of all workers; `TimeoutError` if the scheduler does not answer."""
    return int(sum(client.sync(client.scheduler.ncores, callback_timeout=HUNG).values()))


def _wait_for_a_worker(client: Any, cluster: Cluster, progress: Progress) -> None:
    if _threads(client):
        return
    progress.message("waiting for the first worker (Ctrl-C stops)")
    patience = None if cluster.kind == "slurm" else FIRST_WORKER  # a queue may be long
    began = time.monotonic()
    while not _threads(client):
        if patience is not None and time.monotonic() - began > patience:
            raise InputError(f"address {cluster.address}: the scheduler has no workers")
        time.sleep(0.2)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep Dask's own messages off standard error: those that matter are reported in one line here."""
    names = ("distributed", "distributed.client", "dask_jobqueue", "tornado.application", "asyncio")
    _load("distributed")  # sets its own levels when it is first imported
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
