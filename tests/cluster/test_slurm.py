"""Jobs of Slurm: the scripts, against dask-jobqueue's own; and a study, with a stand-in for `sbatch`."""

import json
import os
import re
import subprocess
import sys

import pytest
from dask_jobqueue import SLURMCluster

from denseam.ground.errors import InputError
from denseam.studies.cluster import Cluster
from denseam.studies.dask_executor import check_jobs, slurm

#: Runs the job here at once, and keeps its script.
SBATCH = """#!{python}
import os, pathlib, subprocess, sys
if "-p closed" in pathlib.Path(sys.argv[-1]).read_text():
    sys.exit("sbatch: error: invalid partition specified: closed")
if "--test-only" in sys.argv:
    sys.exit()
spool = pathlib.Path({spool!r})
script = spool / f"job-{{os.getpid()}}.sh"
script.write_text(pathlib.Path(sys.argv[-1]).read_text())
job = subprocess.Popen(["bash", script], start_new_session=True, stdout=open(spool / "log", "a"), stderr=subprocess.STDOUT)
print(f"Submitted batch job {{job.pid}}")
"""
SCANCEL = """#!{python}
import os, signal, sys
for job in sys.argv[1:]:
    try:
        os.killpg(int(job), signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


def script_of(made):
    """The job script, but for the address of the scheduler."""
    with made:
        return re.sub(r"tcp://\S+", "ADDRESS", made.job_script())


def directives(script):
    return [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH")]


@pytest.mark.filterwarnings("ignore:.*Port 8787 is already in use")
def test_a_job_without_a_gpu(tmp_path):
    ours = script_of(
        slurm(Cluster("slurm", partition="short", time="02:00:00", memory="8GB", cores=4), tmp_path)
    )
    theirs = SLURMCluster(
        queue="short",
        walltime="02:00:00",
        memory="8GB",
        cores=4,
        processes=1,
        log_directory=str(tmp_path / "logs"),
    )
    assert ours == script_of(theirs)
    found = directives(ours)
    assert {"-p short", "--cpus-per-task=4", "--mem=8G", "-t 02:00:00"} <= set(found)
    assert not any("gres" in line or "gpu" in line for line in found if "logs" not in line)
    assert "--nthreads 4" in ours


@pytest.mark.filterwarnings("ignore:.*Port 8787 is already in use")
def test_a_job_with_a_gpu_has_one_worker_that_trains_one_shard_at_a_time(tmp_path):
    asked = Cluster("slurm", partition="gpu", gpus=1, memory="16GB", cores=8, account="lab",
                    directives=("--constraint=a100",), prologue=("module load cuda",))  # fmt: skip
    ours = script_of(slurm(asked, tmp_path))
    theirs = SLURMCluster(
        queue="gpu", account="lab", memory="16GB", cores=1, job_cpu=8, processes=1,
        job_extra_directives=["--gres=gpu:1", "--constraint=a100"], job_script_prologue=["module load cuda"],
        log_directory=str(tmp_path / "logs"),
    )  # fmt: skip
    assert ours == script_of(theirs)
    assert {"--gres=gpu:1", "--cpus-per-task=8", "-A lab", "--constraint=a100"} <= set(directives(ours))
    assert "--nthreads 1 " in ours
    assert "--nworkers" not in ours
    assert ours.index("module load cuda") < ours.index("dask_worker")


@pytest.mark.filterwarnings("ignore:.*Port 8787 is already in use")
def test_what_is_not_said_is_as_dask_jobqueue_is_configured(tmp_path):
    import dask

    assert {"--cpus-per-task=1", "--mem=4G"} <= set(directives(script_of(slurm(Cluster("slurm"), tmp_path))))
    configured = {
        "jobqueue.slurm.cores": 6,
        "jobqueue.slurm.memory": "2GiB",
        "jobqueue.slurm.queue": "idle",
        "jobqueue.slurm.job-extra-directives": ["--exclusive"],
    }
    with dask.config.set(configured):
        found = directives(script_of(slurm(Cluster("slurm", gpus=1), tmp_path)))
    assert {"--cpus-per-task=6", "--mem=2G", "-p idle", "--exclusive", "--gres=gpu:1"} <= set(found)


@pytest.fixture
def sweep(tmp_path):
    """The program, with stand-ins for Slurm's commands."""
    (tmp_path / "spool").mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        program = tmp_path / name
        program.write_text(text.format(python=sys.executable, spool=str(tmp_path / "spool")))
        program.chmod(0o755)
    path = tmp_path / "study.toml"
    path.write_text(
        'activation = "relu"\noptimizer = "sgd"\nscales = [16]\neta0 = [0.01, 0.03]\nepochs = 4\n'
        '[executor]\nkind = "slurm"\nworkers = 2\npartition = "short"\nmemory = "1GB"\n'
    )

    def call(*arguments):
        command = [sys.executable, "-m", "denseam", "sweep", path, "--out", "out", *arguments]
        environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, timeout=100, env=environment
        )

    return call


def test_a_study_as_jobs(sweep, tmp_path):
    found = sweep("--time", "01:00:00", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["runs"] == 6
    assert "waiting for the first worker" in found.stderr
    jobs = [script.read_text() for script in (tmp_path / "spool").glob("job-*.sh")]
    assert len(jobs) >= 1
    assert all({"-p short", "-t 01:00:00"} <= set(directives(job)) for job in jobs)


def test_a_job_that_slurm_refuses_is_said_in_one_line(sweep):
    found = sweep("--partition", "closed")
    said = "denseam: executor 'slurm': sbatch: error: invalid partition specified: closed\n"
    assert (found.returncode, found.stderr) == (64, said)


def test_without_slurm_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="executor 'slurm': there is no sbatch on this machine"):
        check_jobs("")
