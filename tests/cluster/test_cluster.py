"""Studies on a real Dask cluster, whose processes are killed."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from distributed import Client

from denseam.analysis.coordinates.of_study import check_study, checked_study
from denseam.cli import main
from denseam.paper.catalog import find
from denseam.paper.readings import READINGS
from denseam.paper.sizes import SIZES
from denseam.studies.cluster import Cluster
from denseam.studies.dask_executor import connect
from denseam.studies.runner import run_studies
from denseam.studies.store import Store
from denseam.studies.study import Study
from denseam.training.progress import Progress
from tests.driven import after_shards, ended, nothing_lost_nothing_doubled, started, table

#: The program, with shards cut as small as they get, so that a short study has many.
DRIVER = """
import sys
import poisoned
from denseam.studies import dask_executor, shards
shards.SHORTEST, dask_executor.HUNG = 0.0, 4.0
from denseam.cli import main
sys.exit(main(sys.argv[1:]))
"""
STUDY = """
activation = "relu"
optimizer = "sgd"
scales = [16, 24]
eta0 = [0.003, 0.01, 0.03, 1e5]
seeds = 6
epochs = 200
"""


def drive(cluster, *arguments, command=("sweep",), **options):
    where = ("--executor", "dask", "--address", cluster.address)
    return started(DRIVER, *command, *arguments, *where, env=cluster.environment, **options)


def test_the_same_table_as_on_one_machine(cluster, study_file, local, tmp_path):
    found = ended(drive(cluster, study_file, "--out", tmp_path / "out", "--json"))
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    assert (document["runs"], document["reused"], document["diverged"]) == (48, 0, 12)
    nothing_lost_nothing_doubled(tmp_path / "out", local)
    assert "denseam: dashboard at http://" in found.stderr
    assert "48 runs to train" in found.stderr
    assert "% of the work" in found.stderr
    assert len(list((tmp_path / "out" / "shards").iterdir())) == 12, "workers wrote their own shards"
    again = ended(drive(cluster, study_file, "--out", tmp_path / "out", "--json", "--quiet"))
    assert (json.loads(again.stdout)["reused"], again.stderr) == (48, "")


def test_a_killed_workers_shard_runs_again(cluster, study_file, local, tmp_path):
    pids = list(cluster.workers().values())
    driver = drive(cluster, study_file, "--out", tmp_path / "out")
    after_shards(tmp_path / "out", 2, driver)
    os.kill(pids[0], signal.SIGKILL)
    os.kill(pids[1], signal.SIGKILL)
    found = ended(driver)
    assert found.returncode == 0, found.stderr
    nothing_lost_nothing_doubled(tmp_path / "out", local)
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_killed_driver_is_resumed(cluster, study_file, local, tmp_path, how):
    driver = drive(cluster, study_file, "--out", tmp_path / "out")
    after_shards(tmp_path / "out", 3, driver)
    driver.send_signal(how)
    _, said = driver.communicate(timeout=30)
    if how == signal.SIGINT:
        assert driver.returncode == 130
        assert said.endswith(f"interrupted; finished work is in {tmp_path / 'out'}, run again to resume\n")
    found = ended(drive(cluster, study_file, "--out", tmp_path / "out", "--json"))
    assert found.returncode == 0, found.stderr
    assert 0 < json.loads(found.stdout)["reused"] < 48
    nothing_lost_nothing_doubled(tmp_path / "out", local)


def test_a_shard_that_kills_its_worker_three_times_is_set_aside(cluster, tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        'optimizer = "sgd"\nscales = [16]\neta0 = [0.01, 0.03]\nepochs = 4\n[[study]]\nactivation = "relu"\nseeds = 8\n'
        '[[study]]\nactivation = "poison"\nseeds = 1\n'
    )
    cluster.deaths.unlink(missing_ok=True)
    found = ended(drive(cluster, path, "--out", tmp_path / "out", "--json"))
    assert found.returncode == 74
    assert len(cluster.deaths.read_text().splitlines()) == 3
    (line,) = [text for text in found.stderr.splitlines() if "set aside" in text]
    assert "poison-sgd at scale 16, seed 0 (2 runs, from " in line
    document = json.loads(found.stdout)
    assert document["runs"] == 16  # those that are there
    assert len(document["set_aside"]) == 1
    assert {row["study"] for row in Store(tmp_path / "out").read()} == {"relu-sgd"}
    assert len(Store(tmp_path / "out").read()) == 16
    assert "Traceback" not in found.stderr


def test_a_worker_of_another_version_is_refused_by_name(cluster, study_file, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import denseam; denseam.__version__ = '9.9.9'")
    modules = os.pathsep.join([str(tmp_path), cluster.environment["PYTHONPATH"]])
    before = set(cluster.workers())
    odd = cluster.add(1, PYTHONPATH=modules)
    try:
        cluster.ready(5)
        (name,) = set(cluster.workers()) - before
        found = ended(drive(cluster, study_file, "--out", tmp_path / "out"))
    finally:
        cluster.end(odd)
    assert found.returncode == 64
    assert (
        found.stderr.splitlines()[-1]
        == f"denseam: executor: the worker {name} has denseam 9.9.9 (here 0.1.0)"
    )
    assert not Store(tmp_path / "out").names()
    cluster.ready(4)


def test_the_executor_of_a_client_works_too(cluster, tmp_path):
    study = Study("relu", "sgd", (16,), (0.01, 0.03), seeds=2, epochs=4)
    with Client(cluster.address) as client:
        summary = run_studies(study, tmp_path / "out", executor=client.get_executor())
    assert table(summary.records) == table(run_studies(study).records)
    with connect(Cluster("dask", address=cluster.address), tmp_path / "out") as executor:
        assert executor.room() == 4


def test_a_figure_is_trained_there_too(cluster, tmp_path):
    made = ended(
        drive(
            cluster, "many-memories", "--size", "tiny", "--out", tmp_path, "--json", command=("figure", "run")
        )
    )
    assert made.returncode == 0, made.stderr
    document = json.loads(made.stdout)
    assert document["missing"] == {}
    assert "many-memories-frozen.png" in document["files"][0]
    assert "dashboard at" in made.stderr
    rows = Store(tmp_path / "runs").read()
    assert {row["key"] for row in rows} == {spec.key for s in find(["many-memories"])[0].settings
                                            for r in READINGS.values() for spec in s.runs(SIZES["tiny"], r)}  # fmt: skip


#: A search that takes seconds.
GOAL = ("isotropic", "--features", 64, "--epochs", 6, "--rho", 4, "--beta", 0.25, "--optimizer", "sgd")


def result_of(folder):
    document = json.loads((folder / "tuned.json").read_text())
    document["cost"].pop("seconds")
    return document


def test_a_search_gives_the_same_result_there_even_if_a_worker_is_killed(cluster, tmp_path):
    code = main(["tune", *map(str, GOAL), "--out", str(tmp_path / "here"), "-q"])
    assert code in (0, 2)  # so small models may be too noisy to tell
    pid, *_ = cluster.workers().values()
    driver = drive(cluster, *GOAL, "--out", tmp_path / "there", "--json", command=("tune",))
    after_shards(tmp_path / "there" / "runs", 2, driver)
    os.kill(pid, signal.SIGKILL)
    found = ended(driver)
    assert found.returncode == code, found.stderr
    assert "dashboard at" in found.stderr
    assert result_of(tmp_path / "there") == result_of(tmp_path / "here")
    assert len(Store(tmp_path / "there" / "runs").read()) == result_of(tmp_path / "here")["cost"]["runs"]


def test_a_search_whose_runs_kill_their_workers_ends_with_74(cluster, tmp_path):
    poisoned = (*GOAL, "--activation", "poison", "--out", tmp_path, "--json")
    found = ended(drive(cluster, *poisoned, command=("tune",)))
    assert (found.returncode, found.stdout) == (74, "")
    assert "set aside: poison-sgd at scale 8" in found.stderr.splitlines()[-1]
    assert "every worker that took it died; run the same again to resume" in found.stderr.splitlines()[-1]
    assert "Traceback" not in found.stderr
    assert not (tmp_path / "tuned.json").exists()


def test_a_check_gives_the_same_slopes_there(cluster, tmp_path):
    check = (
        "--activation",
        "relu",
        "--optimizer",
        "sgd",
        "--scales",
        "16,64",
        "--updates",
        "2",
        "--seeds",
        "2",
    )
    found = ended(drive(cluster, *check, "--out", tmp_path / "out", "--json", command=("check",)))
    assert found.returncode in (0, 1, 2), found.stderr
    here = check_study(checked_study("relu", "sgd", scales=(16, 64), updates=2, seeds=2)).to_json()
    assert json.loads(found.stdout) == {"schema": 1, **json.loads(json.dumps(here))}


def test_a_cluster_on_this_machine_needs_no_address(tmp_path, monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    study = Study("relu", "sgd", (16,), (0.01, 0.03), seeds=2, epochs=4)
    said = []
    with connect(Cluster("dask", workers=1), tmp_path, say=said.append) as executor:
        summary = run_studies(study, tmp_path, executor=executor)
        assert executor.submit(os.getenv, "NPROC").result() == "1", "a worker takes one core"
    assert "NPROC" not in os.environ
    assert table(summary.records) == table(run_studies(study).records)
    assert said[0].startswith("dashboard at http://127.0.0.1:")


@pytest.mark.parametrize("someone", [False, True], ids=["nobody", "someone who never answers"])
def test_an_address_without_an_answer_is_said_soon(someone, study_file, tmp_path):
    with contextlib.ExitStack() as until_the_end:
        port = 1
        if someone:
            silent = until_the_end.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = silent.getsockname()[1]
        _no_answer_is_said_soon(port, study_file, tmp_path)


def _no_answer_is_said_soon(port, study_file, tmp_path):
    began = time.monotonic()
    where = ("--executor", "dask", "--address", f"tcp://127.0.0.1:{port}")
    command = [sys.executable, "-m", "denseam", "sweep", str(study_file), "--out", str(tmp_path), *where]
    found = subprocess.run(command, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (64, "")
    assert found.stderr == f"denseam: address tcp://127.0.0.1:{port}: no Dask scheduler answers there\n"
    assert time.monotonic() - began < 20
    assert not list(tmp_path.iterdir())


def test_a_worker_that_dies_when_it_is_asked_does_not_stop_the_study(cluster, study_file, local, tmp_path):
    """Its first answer is its death; its nanny starts it again."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal\n"
        "from denseam.studies import shards\n"
        "real = shards.platform_of\n"
        "def dies(device):\n"
        "    if not os.path.exists(os.environ['DIED']):\n"
        "        open(os.environ['DIED'], 'w').close()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return real(device)\n"
        "shards.platform_of = dies\n"
    )
    modules = os.pathsep.join([str(tmp_path), cluster.environment["PYTHONPATH"]])
    weak = cluster.add(1, PYTHONPATH=modules, DIED=str(tmp_path / "died"))
    try:
        cluster.ready(5)
        found = ended(drive(cluster, study_file, "--out", tmp_path / "out"), timeout=180)
    finally:
        cluster.end(weak)
    assert (tmp_path / "died").exists()
    assert found.returncode == 0, found.stderr
    nothing_lost_nothing_doubled(tmp_path / "out", local)
    cluster.ready(4)


def test_steps_are_heard_while_a_shard_is_trained(cluster, tmp_path):
    """Two long runs: between none and all of them there is something to see."""
    study = Study("relu", "sgd", (64,), (0.001, 0.002), seeds=1, epochs=1500)
    heard = []

    class Heard(Progress):
        def advanced(self, steps, spec):
            heard.append((spec.key, steps))

    with connect(Cluster("dask", address=cluster.address), tmp_path / "out") as executor:
        summary = run_studies(study, tmp_path / "out", executor=executor, progress=Heard())
    steps = study.updates(study.runs()[0].shape)
    assert {key: sum(n for k, n in heard if k == key) for key, _ in heard} == {
        row["key"]: steps for row in summary.records
    }
    assert len(heard) > 4


def test_a_scheduler_that_hangs_is_said(cluster, study_file, tmp_path):
    driver = drive(cluster, study_file, "--out", tmp_path / "out")
    after_shards(tmp_path / "out", 1, driver)
    os.kill(cluster.scheduler.pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        found = ended(driver, timeout=60)
    finally:
        os.kill(cluster.scheduler.pid, signal.SIGCONT)
    assert found.returncode == 74
    assert time.monotonic() - began < 40
    assert found.stderr.splitlines()[-1].startswith(
        "denseam: the scheduler has not answered for 4 s; run the same"
    )
    assert "Traceback" not in found.stderr


def test_a_killed_scheduler_is_said_and_the_study_resumed(cluster, study_file, local, tmp_path):
    driver = drive(cluster, study_file, "--out", tmp_path / "out")
    after_shards(tmp_path / "out", 2, driver)
    cluster.scheduler.kill()
    found = ended(driver)
    assert found.returncode == 74
    assert found.stderr.splitlines()[-1] == (
        "denseam: the scheduler is gone; run the same command again to resume"
    )
    assert "Traceback" not in found.stderr
    cluster.stop()
    cluster.start()
    resumed = ended(drive(cluster, study_file, "--out", tmp_path / "out", "--json"))
    assert resumed.returncode == 0, resumed.stderr
    assert 0 < json.loads(resumed.stdout)["reused"] < 48
    nothing_lost_nothing_doubled(tmp_path / "out", local)
