import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests import FAST, ROOT

os.environ["XLA_FLAGS"] = FAST
os.environ["NPROC"] = "1"
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(ROOT / ".pytest_cache" / "programs")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"

import pytest

from tests.driven import local as local
from tests.driven import study_file as study_file

#: Debian's packages slurm-wlm and munge.
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "squeue")
#: One node; without cgroups, accounting or a service manager.
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
KillWait=5
EnforcePartLimits=ALL
ReturnToService=2
JobRequeue=1
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=6000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=02:00:00 State=UP
PartitionName=closed Nodes={host} State=INACTIVE
"""


def missing():
    """The programs of Slurm that are not installed."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


class Slurm:
    """A controller and one node on this machine."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = os.environ | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"]),
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }

    def start(self):
        folder = self.folder
        for name in ("state", "spool"):
            (folder / name).mkdir()
        (folder / "munge.key").write_bytes(os.urandom(1024))
        (folder / "munge.key").chmod(0o600)
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        host = socket.gethostname().partition(".")[0]
        text = CONFIGURATION.format(host=host, user=user, folder=folder, ports=(_free_port(), _free_port()))
        (folder / "slurm.conf").write_text(text)
        self.call(
            "munged", "--force", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.socket",
            f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed",
        )  # fmt: skip
        self.call("slurmctld")
        self.call("slurmd")
        until = time.monotonic() + 60
        while (
            self.call("sinfo", "--noheader", "--partition=main", "--format=%t", check=False).stdout.strip()
            != "idle"
        ):
            assert time.monotonic() < until, (folder / "slurmctld.log").read_text()[-2000:]
            time.sleep(0.3)

    def call(self, *command, check=True):
        ended = subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=120)
        assert not check or ended.returncode == 0, (command, ended.stderr)
        return ended

    def jobs(self, states="all"):
        """The number of each job."""
        return self.call("squeue", "--noheader", "--format=%i", f"--states={states}").stdout.split()

    def cancel_all(self):
        self.call("scancel", "--user", str(os.getuid()), check=False)
        until = time.monotonic() + 60
        while self.jobs("pending,running,completing") and time.monotonic() < until:
            time.sleep(0.3)

    def stop(self):
        self.cancel_all()
        for name in ("slurmd", "slurmctld", "munged"):
            pid = self.folder / f"{name}.pid"
            if pid.is_file():
                os.kill(int(pid.read_text()), signal.SIGTERM)


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="session")
def one_slurm(tmp_path_factory):
    lacking = missing()
    if lacking:
        reason = f"no Slurm on this machine ({', '.join(lacking)}): apt-get install slurm-wlm munge"
        assert not os.environ.get("SLURM_NEEDED"), reason
        pytest.skip(reason)
    made = Slurm(tmp_path_factory.mktemp("slurm"))
    made.folder.chmod(0o755)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def slurm(one_slurm):
    """Slurm, without the jobs of the test before."""
    one_slurm.cancel_all()
    return one_slurm
