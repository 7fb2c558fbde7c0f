"""Studies and trainings as jobs of a real Slurm: cancelled, out of time, with a driver that is killed."""

import json
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from denseam.model.checkpoint import opened
from denseam.studies.store import Store
from denseam.workflow.memory import Memory
from tests.driven import after_shards, ended, nothing_lost_nothing_doubled, started

#: 100 runs, in shards as small as they get.
STUDY = """
activation = "relu"
optimizer = "sgd"
scales = [16, 24]
eta0 = [0.003, 0.01, 0.03, 0.1, 1e5]
seeds = 10
epochs = 60
"""
DRIVER = """
import sys
from denseam.studies import shards
shards.SHORTEST, shards.SHARDS_PER_WORKER = 0.0, 20
from denseam.cli import main
sys.exit(main(sys.argv[1:]))
"""
JOBS = ("--executor", "slurm", "--workers", "2", "--memory", "1GB", "--partition", "main")


def drive(slurm, *arguments, **environment):
    return started(DRIVER, *arguments, env=slurm.environment | environment, cwd=slurm.folder)


def after_a_cancelled_job_and_a_killed_driver(slurm, out, command, **environment):
    """Run a command again whose first driver was killed after one of its jobs was cancelled."""
    driver = drive(slurm, *command, **environment)
    after_shards(out, 2, driver)
    slurm.call("scancel", slurm.jobs("running")[0])
    after_shards(out, 5, driver)
    driver.kill()
    driver.communicate()
    slurm.cancel_all()
    before = set(slurm.jobs())
    again = ended(drive(slurm, *command, **environment), timeout=900)
    assert again.returncode == 0, again.stderr
    return json.loads(again.stdout), len(set(slurm.jobs()) - before)


def test_a_hundred_runs_with_a_cancelled_job_and_a_killed_driver_equal_local_ones(
    slurm, study_file, local, tmp_path
):
    out = tmp_path / "out"
    command = ("sweep", study_file, "--out", out, *JOBS, "--time", "00:30:00", "--json")
    document, _ = after_a_cancelled_job_and_a_killed_driver(slurm, out, command)
    assert document["runs"] == 100
    assert 0 < document["reused"] < 100
    nothing_lost_nothing_doubled(out, local)
    assert list((out / "logs").iterdir()), "logs of jobs are in a folder of their own"
    assert not list(slurm.folder.glob("slurm-*.out"))


#: A module that workers load: each run takes two seconds longer, without using a core.
SLOWLY = """
import time
from denseam.studies import engine, shards

def slowly(*arguments, **options):
    for outcomes in engine.train_runs(*arguments, **options):
        time.sleep(2 * len(outcomes))
        yield outcomes

shards.train_runs = slowly
"""


@pytest.mark.slow
def test_a_hundred_runs_in_jobs_of_one_minute_equal_local_ones_too(slurm, study_file, local, tmp_path):
    """They take three minutes; jobs that are over are replaced."""
    out, module = tmp_path / "out", tmp_path / "slowly.py"
    module.write_text(SLOWLY)
    command = ("sweep", study_file, "--out", out, *JOBS, "--time", "00:01:00", "--json")
    preload = {"DASK_DISTRIBUTED__WORKER__PRELOAD": repr([str(module)])}
    document, jobs = after_a_cancelled_job_and_a_killed_driver(slurm, out, command, **preload)
    assert document["runs"] == 100
    assert 0 < document["reused"] < 100
    assert "set_aside" not in document or not document["set_aside"]
    assert jobs > 2, "two workers at a time"
    nothing_lost_nothing_doubled(out, local)


#: A study of two runs that each take longer than a minute, and of short ones.
LONG = """
optimizer = "sgd"
eta0 = [0.01]
seeds = 2
activation = "relu"
[[study]]
scales = [16]
epochs = 40
[[study]]
name = "long"
scales = [256]
epochs = 100000
"""


@pytest.mark.slow
def test_runs_longer_than_the_walltime_are_not_taken_for_poison(slurm, tmp_path):
    path, out = tmp_path / "study.toml", tmp_path / "out"
    path.write_text(LONG)
    driver = drive(slurm, "sweep", path, "--out", out, *JOBS, "--time", "00:01:00", "--json")
    after_shards(out, 1, driver)
    found = ended(driver, timeout=900)
    assert found.returncode == 74, found.stderr
    aside = [line for line in found.stderr.splitlines() if "set aside" in line]
    assert aside
    assert all("it takes longer than a job may; allow jobs more time (--time)" in line for line in aside), (
        aside
    )
    assert "every worker that took it died" not in found.stderr
    assert {row["study"] for row in Store(out).read()} == {"relu-sgd"}
    assert len(Store(out).read()) == 2


def test_what_slurm_refuses_is_one_line(slurm, study_file, tmp_path):
    for options, words in (
        (("--partition", "closed"), "partition"),
        (("--partition", "none-such"), "invalid partition"),
        (("--time", "10-00:00:00"), "time limit"),
        (("--memory", "900GB"), ""),
        (("--account", "x", "--cores", "64"), ""),
    ):
        found = ended(drive(slurm, "sweep", study_file, "--out", tmp_path / "out", *JOBS, *options), 300)
        assert found.returncode == 64, (options, found.stderr)
        assert len(found.stderr.splitlines()) == 1
        assert found.stderr.startswith("denseam: executor 'slurm': ")
        assert words in found.stderr.lower()
    assert not list((tmp_path / "out").glob("shards/*"))


#: A training as docs/cluster.md shows it: it is asked to stop before its time is up, and goes on in a second job.
TRAINING = """#!/bin/bash
#SBATCH --time={time} --signal=TERM@{before} --requeue --open-mode=append
#SBATCH --ntasks={tasks} --mem=2G --output={log}
srun {program} train {data} --features 16 --eta0 0.01 --optimizer sgd --epochs {epochs} --out {out} {more}
code=$?
echo "ended with $code"
if [ $code = 143 ]; then scontrol requeue $SLURM_JOB_ID; fi
"""


def submitted(slurm, folder, **values):
    np.save(folder / "x.npy", np.random.default_rng(0).standard_normal((400, 16)).astype(np.float32))
    script = folder / "train.sh"
    program = f"{sys.executable} -m denseam"
    values = {"time": "00:30:00", "before": 10, "tasks": 1, "more": "--quiet", "epochs": 100} | values
    script.write_text(
        TRAINING.format(
            log=folder / "log", data=folder / "x.npy", out=folder / "out", program=program, **values
        )
    )
    return re.search(r"\d+", slurm.call("sbatch", "--parsable", str(script)).stdout)[0]


def finished(slurm, job, seconds=600):
    until = time.monotonic() + seconds
    while job in slurm.jobs("pending,running,completing"):
        assert time.monotonic() < until, slurm.call("scontrol", "show", "job", job).stdout
        time.sleep(0.5)


def step_of(folder):
    with opened(folder / "state.safetensors") as file:
        return file.document["step"]


def test_scancel_saves_the_state_of_a_training(slurm, tmp_path):
    job, log = submitted(slurm, tmp_path, epochs=1000000, more=""), tmp_path / "log"
    until = time.monotonic() + 300
    while not (log.exists() and "denseam: epoch " in log.read_text()):  # said every 5 seconds
        assert time.monotonic() < until, slurm.call("scontrol", "show", "job", job).stdout
        time.sleep(0.2)
    assert not (tmp_path / "out" / "state.safetensors").exists(), "it saves every 20 seconds"
    slurm.call("scancel", job)
    finished(slurm, job)
    said = log.read_text()
    assert "stopped by SIGTERM; finished work is in" in said, said
    assert step_of(tmp_path / "out") > 0


def test_processes_of_a_job_find_each_other(slurm, tmp_path):
    job = submitted(slurm, tmp_path, tasks=2, epochs=3, more="--coordinator auto --mesh memories=2 --quiet")
    finished(slurm, job)
    said = (tmp_path / "log").read_text()
    assert "ended with 0" in said, said
    assert Memory.load(tmp_path / "out" / "memory.safetensors").model.W.shape[1] == 16


@pytest.mark.slow
def test_a_job_that_is_asked_to_stop_is_queued_again_and_resumes(slurm, tmp_path):
    job = submitted(
        slurm, tmp_path, time="00:02:00", before=85, epochs=1000000
    )  # about 35 seconds after it began
    log, state, steps = tmp_path / "log", tmp_path / "out" / "state.safetensors", {}
    until = time.monotonic() + 400
    while len(steps) < 2:
        assert time.monotonic() < until, log.read_text()
        time.sleep(1)
        ends = log.read_text().count("ended with 143") if log.exists() else 0
        if (
            ends and ends not in steps and state.exists()
        ):  # a slow machine may not have begun in its first job
            steps[ends] = step_of(tmp_path / "out")
    slurm.call("scancel", job)
    finished(slurm, job)
    assert sorted(steps.values()) == list(steps.values())
    assert len(set(steps.values())) == 2


def test_a_missing_slurm_is_the_reason_of_a_skip(tmp_path):
    environment = os.environ | {"PATH": str(tmp_path)}
    environment.pop("SLURM_NEEDED", None)
    code = "import tests.slurm.conftest as c; c.os.environ['PATH'] = 'nowhere'; print(c.missing())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "sbatch" in found.stdout, found.stderr
