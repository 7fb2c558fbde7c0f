import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

from tests import FAST, ROOT

# As in the other tests; what one has compiled, others read.
os.environ["XLA_FLAGS"] = FAST
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(ROOT / ".pytest_cache" / "programs")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"

import pytest
from distributed import Client

from tests.driven import local as local
from tests.driven import study_file as study_file

#: A module that workers can load and that kills them when its activation is traced; it notes each death.
POISON = """
import os, signal
from typing import ClassVar
from denseam.model.lagrangians import Elementwise, register

@register
class Poison(Elementwise):
    name: ClassVar[str] = "poison"

    def potential(self, h):
        with open(os.environ["DEATHS"], "a") as file:
            print(os.getpid(), file=file)
        os.kill(os.getpid(), signal.SIGKILL)
"""


class Cluster:
    """A scheduler and four workers, as separate processes that can be killed."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.deaths = folder / "deaths"
        (folder / "modules").mkdir()
        (folder / "modules" / "poisoned.py").write_text(POISON)
        modules = [str(folder / "modules"), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(modules),
            "DEATHS": str(self.deaths),
            "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False",
        }
        self.started = []
        self.scheduler = self.crew = None

    def start(self, workers=4):
        self.scheduler = self.process("scheduler", "--port", self.port, "--dashboard-address", "127.0.0.1:0")
        self.crew = self.add(workers)
        self.ready(workers)

    def process(self, *arguments, **environment):
        command = [sys.executable, "-m", "dask", *map(str, arguments), "--host", "127.0.0.1"]
        with open(self.folder / f"{arguments[0]}.log", "a") as log:
            started = subprocess.Popen(
                command, stdout=log, stderr=log, env=self.environment | environment, start_new_session=True
            )
        self.started.append(started)
        return started

    def add(self, count, **environment):
        scratch = ("--local-directory", self.folder / "scratch")
        return self.process(
            "worker",
            self.address,
            "--nthreads",
            1,
            "--nworkers",
            count,
            "--no-dashboard",
            *scratch,
            **environment,
        )

    def ready(self, workers, timeout=60):
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                if len(self.workers()) == workers:
                    return
            time.sleep(0.1)
        raise AssertionError((self.folder / "worker.log").read_text()[-2000:])

    def workers(self):
        """The process of each worker."""
        with Client(self.address, timeout=3) as client:
            return client.run(os.getpid)

    def alive(self):
        return self.scheduler is not None and self.scheduler.poll() is None and self.crew.poll() is None

    def end(self, process):
        """Kill a process and those that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self):
        for process in self.started:
            self.end(process)
        self.started.clear()


@pytest.fixture(scope="session")
def one_cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()


@pytest.fixture
def cluster(one_cluster):
    """The cluster, started again if the test before has killed it."""
    if not one_cluster.alive():
        one_cluster.stop()
        one_cluster.start()
    one_cluster.ready(4)
    return one_cluster
