"""Shards of work, and executors that need no cluster; those on a cluster are in `tests/cluster`."""

import dataclasses
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections import Counter
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest

import denseam as dam
from denseam.cli import main
from denseam.ground.errors import InputError
from denseam.model.lagrangians import Elementwise
from denseam.rules import MemoriesOnly
from denseam.studies import dask_executor, executors, shards, walltime
from denseam.studies.cluster import Cluster, cluster_from
from denseam.studies.dask_executor import connect
from denseam.studies.documents import from_file
from denseam.studies.executors import ExecutorLost, Limited, spread
from denseam.studies.runner import run_studies
from denseam.studies.runs import Interrupted
from denseam.studies.shards import ShardFailed, cut, run_shard
from denseam.studies.store import Store
from denseam.studies.study import Study
from denseam.training.progress import Progress, told

STUDY = Study("relu", "sgd", (16, 24), (0.01, 0.03, 1e5), seeds=2, epochs=2)
#: Half an hour on one core.
LONG = Study("relu", "sgd", (32, 64, 128, 256), dam.logspace(1e-3, 1, 13), seeds=3, epochs=256)
#: Columns that say how a run was trained, not what came out.
HOW = {"seconds", "device"}


@pytest.fixture
def small_shards(monkeypatch):
    """Shards as small as they get: one for each shape and seed."""
    monkeypatch.setattr(shards, "SHORTEST", 0.0)


@pytest.fixture(scope="module")
def local():
    return table(run_studies(STUDY).records)


def table(records):
    return {row["key"]: {k: v for k, v in row.items() if k not in HOW} for row in records}


def rows_on_disk(folder):
    return Counter(key for f in (folder / "shards").iterdir() for key in pq.read_table(f)["key"].to_pylist())


def prepared(folder):
    Store(folder).prepare()
    return folder


# --- cutting -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "kind"), [(1, "cpu"), (4, "cpu"), (400, "cpu"), (2, "gpu")])
@pytest.mark.parametrize(
    "studies", [[LONG], [STUDY], [LONG, STUDY, replace(LONG, optimizer="adam", name="")]]
)
def test_every_run_is_in_one_shard_and_shards_have_the_right_length(studies, workers, kind, tmp_path):
    todo = [(study, study.runs()) for study in studies]
    found = cut(todo, tmp_path, workers=workers, kind=kind)
    asked = [spec.key for _, specs in todo for spec in specs]
    assert sorted(spec.key for shard in found for spec in shard.specs) == sorted(asked)
    lengths = [shard.seconds for shard in found]
    assert lengths == sorted(lengths, reverse=True)
    assert max(lengths) <= shards.LONGEST
    assert sum(length < shards.SHORTEST for length in lengths) <= (sum(lengths) < shards.SHORTEST)


def test_runs_of_a_seed_stay_together_and_small_shapes_share_a_shard(tmp_path):
    (one,) = cut([(STUDY, STUDY.runs())], tmp_path, workers=2)
    assert len(one.specs) == 12
    for shard in cut([(LONG, LONG.runs())], tmp_path, workers=2):
        groups = [k for k, _ in itertools.groupby(shard.specs, key=lambda s: (s.shape, s.seed))]
        assert len(groups) == len(set(groups))
    small = [s for s in cut([(LONG, LONG.runs())], tmp_path, workers=2) if s.specs[0].scale == 32]
    assert len(small) == 1, "13 runs for each of 3 seeds"


def test_a_shard_can_travel_and_is_named(tmp_path, monkeypatch):
    study = replace(LONG, activation=dam.relu(power=2), regime=MemoriesOnly(16, 64, 16), name="cubes")
    shard = cut([(study, study.runs())], tmp_path)[0]
    there = pickle.loads(pickle.dumps(shard))
    assert there == shard
    assert there.parts[0].study.id == study.id
    assert there.name.startswith("cubes at scale ")
    assert there.name.endswith(f"from {shard.specs[0].key[:8]})")


def test_an_error_on_a_worker_can_be_sent_whatever_it_is(tmp_path, monkeypatch):
    """Dask's driver waited forever for one whose traceback it could not load."""

    def deeper(*arguments, **options):
        yield from deeper(*arguments, **options)

    monkeypatch.setattr("denseam.studies.shards.train_runs", deeper)
    (shard,) = cut([(STUDY, STUDY.runs()[:2])], prepared(tmp_path / "out"))
    with pytest.raises(ShardFailed, match="RecursionError: maximum recursion depth exceeded") as raised:
        run_shard(shard)
    assert len(raised.traceback) < 5
    assert raised.value.__context__ is None
    with ThreadPoolExecutor(1) as pool:
        ((_, aside),) = spread([shard], pool)
    assert aside.reason.startswith("RecursionError: ")


def test_files_are_named_so_that_a_worker_elsewhere_finds_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).normal(size=(256, 24)).astype(np.float32))
    study = replace(STUDY, data="x.npy", name="", seeds=1)
    (shard,) = cut([(study, study.runs())], prepared(tmp_path / "out"))
    here = run_studies(study).records
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run_shard(shard)["trained"] == 6
    assert table(Store(tmp_path / "out").read()) == table(here)
    np.save("../x.npy", np.zeros((256, 24), np.float32))
    with pytest.raises(InputError, match="is not the same on the worker"):
        run_shard(replace(shard, folder=str(prepared(tmp_path / "other"))))


# --- on a worker ---------------------------------------------------------------------------------


def test_a_shard_that_is_handed_out_twice_is_trained_once(tmp_path, local):
    (shard,) = cut([(STUDY, STUDY.runs())], prepared(tmp_path))
    first = run_shard(shard)
    before = Store(tmp_path).names()
    again = run_shard(shard)
    assert (first["trained"], again["trained"]) == (12, 0)
    assert first["runs"] == again["runs"]
    assert Store(tmp_path).names() == before
    assert table(Store(tmp_path).read()) == local
    assert len(pickle.dumps(first)) < 200 * 12, "only keys and summaries travel"


def test_what_another_worker_writes_meanwhile_is_not_written_again(tmp_path, monkeypatch, local):
    (shard,) = cut([(STUDY, STUDY.runs())], prepared(tmp_path))
    real, others = shards._trained, []

    def slow(part, specs, *rest):
        for rows in real(part, specs, *rest):
            if not others:
                others.append(Store(tmp_path).write([rows[0] | {"seconds": 0.0}]))
            yield rows

    monkeypatch.setattr(shards, "_trained", slow)
    assert set(run_shard(shard)["runs"]) == set(local)
    assert set(rows_on_disk(tmp_path).values()) == {1}
    assert table(Store(tmp_path).read()) == local


def test_a_worker_of_another_version_trains_nothing(tmp_path):
    (shard,) = cut([(STUDY, STUDY.runs())], prepared(tmp_path))
    with pytest.raises(InputError, match=r"the worker on .* has jax 0\.\d+\.\d+ \(here 0.0.1\)"):
        run_shard(replace(shard, versions=shard.versions | {"jax": "0.0.1"}))
    assert not Store(tmp_path).names()


# --- executors -----------------------------------------------------------------------------------


class Heard(Progress):
    def __init__(self):
        self.steps, self.runs, self.ended = 0, [], 0

    def advanced(self, steps, spec):
        self.steps += steps

    def finished(self, outcomes):
        self.runs += [(o.spec.key, o.status, o.final_mse) for o in outcomes]

    def sweep_ends(self):
        self.ended += 1


def test_threads_give_the_same_table_and_tell_of_progress(tmp_path, local, small_shards):
    heard = Heard()
    with ThreadPoolExecutor(2) as pool:
        summary = run_studies(STUDY, tmp_path, executor=pool, progress=heard)
    assert table(summary.records) == local
    assert (summary.runs, summary.reused, summary.diverged, summary.set_aside) == (12, 0, 4, ())
    assert set(rows_on_disk(tmp_path).values()) == {1}
    assert len(Store(tmp_path).names()) == 4
    assert heard.steps == sum(STUDY.updates(spec.shape) for spec in STUDY.runs())
    assert sorted(heard.runs) == sorted((k, r["status"], r["final_mse"]) for k, r in local.items())
    assert heard.ended == 1
    with ThreadPoolExecutor(1) as pool:
        assert run_studies(STUDY, tmp_path, executor=pool).reused == 12


def test_a_pool_that_dies_is_said_and_the_next_call_resumes(tmp_path, local, small_shards):
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

    class Killer(Progress):
        def finished(self, outcomes):
            os.kill(next(iter(pool._processes)), signal.SIGKILL)

    with pytest.raises(
        ExecutorLost, match="the pool is broken: one of its workers died; run the same command again"
    ):
        run_studies(STUDY, tmp_path, executor=pool, progress=Killer())
    written = sum(rows_on_disk(tmp_path).values())
    assert 0 < written < 12
    with pytest.raises(ExecutorLost, match="the pool is broken"):
        run_studies(STUDY, tmp_path, executor=pool)
    pool.shutdown()
    with ThreadPoolExecutor(1) as fresh:
        summary = run_studies(STUDY, tmp_path, executor=fresh)
    assert summary.reused >= written
    assert table(summary.records) == local
    assert set(rows_on_disk(tmp_path).values()) == {1}


class Faulty(Elementwise):
    name: ClassVar[str] = "faulty"

    def potential(self, h):
        raise RuntimeError("a bad\nGPU")


def test_a_shard_that_fails_is_set_aside_and_the_others_go_on(tmp_path, small_shards):
    both = [Study(Faulty(), "sgd", (16,), (0.01,), seeds=1, epochs=2), replace(STUDY, scales=(16,))]
    with ThreadPoolExecutor(1) as pool, pytest.warns(UserWarning, match="set aside: faulty-sgd at scale 16"):
        records = dam.sweep(both, tmp_path, executor=pool)
    assert {row["study"] for row in records} == {"relu-sgd"}
    assert len(records) == 6
    with ThreadPoolExecutor(1) as pool:
        (lost,) = run_studies(both, tmp_path, executor=pool).set_aside
    assert str(lost).endswith("(1 run, from " + both[0].runs()[0].key[:8] + "): RuntimeError: a bad GPU")


def test_bad_input_and_a_full_disk_end_the_call(tmp_path, small_shards, monkeypatch):
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(InputError, match="needs a GPU"):
            run_studies(replace(STUDY, precision="bf16"), tmp_path, executor=pool)

        def full(fd):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            run_studies(STUDY, tmp_path, executor=pool)


class Idle(Executor):
    """Describes itself, and never does anything else."""

    def __init__(self, **versions):
        self.versions, self.given = versions, []

    def submit(self, fn, /, *arguments):
        future = Future()
        if fn is shards.describe:
            answer = fn(*arguments)
            future.set_result(answer | {"versions": answer["versions"] | self.versions})
        self.given.append(future)
        return future


def test_ctrl_c_and_stop_take_back_what_is_waiting(tmp_path):
    import threading

    idle, stop = Idle(), threading.Event()
    stop.set()
    with pytest.raises(Interrupted):
        run_studies(STUDY, tmp_path, executor=idle, stop=stop)
    found = spread(cut([(STUDY, STUDY.runs())], tmp_path), idle)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, found)
        while len(idle.given) < 2:
            pass
        idle.given[-1].cancel()
        idle.given[-1].set_running_or_notify_cancel()
        with pytest.raises(ExecutorLost, match="the scheduler is gone"):
            waiting.result()


class Narrow(Limited):
    """Takes two shards at a time, and none at the beginning."""

    def __init__(self):
        self.pool, self.asked, self.going, self.most = ThreadPoolExecutor(4), 0, 0, 0

    def room(self):
        self.asked += 1
        return 2 * (self.asked > 2)

    def submit(self, fn, /, *arguments):
        self.going += fn is run_shard
        self.most = max(self.most, self.going)
        future = self.pool.submit(fn, *arguments)
        future.add_done_callback(lambda _: setattr(self, "going", self.going - (fn is run_shard)))
        return future


def test_no_more_shards_are_handed_out_than_there_is_room(tmp_path, small_shards, monkeypatch, local):
    monkeypatch.setattr(executors, "LOOK", 0.01)
    narrow = Narrow()
    assert table(run_studies(STUDY, tmp_path, executor=narrow).records) == local
    assert narrow.most == 2


class Hurried(Executor):
    """Runs of a shard after the first `most` do not end before the job of its worker does."""

    def __init__(self, most, share=0.8):
        self.most, self.share, self.lengths = most, share, []

    def submit(self, fn, /, *arguments):
        future = Future()
        if fn is shards.describe:
            future.set_result(fn(*arguments))
            return future
        (shard,) = arguments
        self.lengths.append(len(shard.specs))
        keys = [spec.key for spec in shard.specs][: self.most]
        future.set_result(
            fn(shard.only(keys))
            if keys and len(shard.specs) <= 3
            else {"runs": {}, "trained": 0, "share": self.share}
        )
        return future


def test_a_shard_that_is_cut_off_by_the_walltime_is_trained_in_parts(tmp_path, local):
    hurried = Hurried(2)
    summary = run_studies(STUDY, tmp_path, executor=hurried)
    assert table(summary.records) == local
    assert not summary.set_aside
    assert sorted(hurried.lengths) == sorted([12, 6, 3, 1, 3, 1, 6, 3, 1, 3, 1])


def test_a_run_longer_than_the_walltime_is_named_as_such(tmp_path):
    hurried = Hurried(0)
    summary = run_studies(replace(STUDY, scales=(16,), seeds=1), tmp_path, executor=hurried)
    assert len(summary.set_aside) == 3
    assert all(
        "it takes longer than a job may; allow jobs more time (--time)" in str(s) for s in summary.set_aside
    )
    assert hurried.lengths.count(1) == 9, "three jobs each"


def test_a_shard_that_was_begun_late_in_a_job_is_not_blamed(tmp_path):
    hurried = Hurried(0, share=0.1)
    found = spread(
        cut([(replace(STUDY, scales=(16,), seeds=1), STUDY.runs()[:1])], prepared(tmp_path)), hurried
    )
    results = [next(found)[1] for _ in range(10)]
    assert results == [{}] * 10


def test_a_worker_stops_before_its_job_ends(tmp_path, monkeypatch):
    (shard,) = cut([(STUDY, STUDY.runs())], prepared(tmp_path))
    monkeypatch.setattr(walltime, "job_ends", lambda: time.time() + walltime.MARGIN)
    ended = run_shard(shard)
    assert (ended["runs"], ended["trained"]) == ({}, 0)
    monkeypatch.setattr(walltime, "job_ends", lambda: time.time() + 1000)
    assert run_shard(shard)["trained"] == 12


@pytest.mark.parametrize(
    ("job", "end", "answer", "expected"),
    [
        (None, None, "", None),
        ("7", "1700000000", "", 1.7e9),
        ("7", None, "echo 1970-01-02T00:00:00", 86400),
        ("7", "soon", "echo Invalid job id; exit 1", None),
        ("7", None, "", None),
    ],
)
def test_the_end_of_a_job_is_told_by_slurm(job, end, answer, expected, tmp_path, monkeypatch):
    for name, value in {"SLURM_JOB_ID": job, "SLURM_JOB_END_TIME": end}.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    if answer:
        (tmp_path / "squeue").write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        assert walltime.job_ends.__wrapped__() == expected
    finally:
        monkeypatch.undo()
        time.tzset()


class Silent:
    """A client of a Dask cluster with so many workers, which answer with what they are given."""

    status, dashboard_link, scheduler = "running", "", SimpleNamespace(ncores=None)

    def __init__(self, workers=0, answer=None):
        self.workers, self.answer = workers, answer

    def get_executor(self, pure):
        return None

    def sync(self, _, callback_timeout):
        if callback_timeout and self.workers < 0:
            raise TimeoutError
        return dict.fromkeys(range(self.workers), 1)

    def run(self, fn, *arguments, on_error):
        return {"tcp://there": self.answer}


def test_a_cluster_without_workers_is_said_once(monkeypatch):
    now, said = [100.0], []
    monkeypatch.setattr(dask_executor.time, "monotonic", lambda: now[0])
    client = Silent()
    executor = dask_executor.DaskExecutor(client, told(None, said.append))
    for later in (0, 10, 10, 10):
        now[0] += later
        assert executor.room() == 0
    assert said == ["no worker is left; waiting for one (Ctrl-C stops and keeps the results)"]
    client.workers = 3
    assert executor.room() == 3
    client.workers = -1
    with pytest.raises(ExecutorLost, match="the scheduler has not answered for 60 s"):
        executor.room()
    client.status = "closed"
    with pytest.raises(ExecutorLost, match="the scheduler is gone"):
        executor.room()


def test_workers_that_cannot_be_used_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"tcp://there cannot run this version of denseam \(no such thing\)"):
        dask_executor.check_workers(Silent(answer=ImportError("no such\nthing")), tmp_path)
    dask_executor.check_workers(Silent(answer=OSError("it died")), tmp_path)
    monkeypatch.setattr(dask_executor, "FIRST_WORKER", 0.0)
    said = []
    with pytest.raises(InputError, match="address tcp://x: the scheduler has no workers"):
        dask_executor._wait_for_a_worker(
            Silent(), Cluster("dask", address="tcp://x"), told(None, said.append)
        )
    assert said == ["waiting for the first worker (Ctrl-C stops)"]


def test_executors_that_cannot_work_are_refused_in_one_line(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"must be a concurrent\.futures\.Executor, got str"):
        run_studies(STUDY, tmp_path, executor="dask")
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as forked,
        pytest.raises(InputError, match="JAX hangs in forked processes"),
    ):
        run_studies(STUDY, tmp_path, executor=forked)
    with pytest.raises(InputError, match="out is needed with an executor"):
        run_studies(STUDY, executor=Idle())
    with pytest.raises(InputError, match="workers belongs to this process"):
        run_studies(STUDY, tmp_path, executor=Idle(), workers=2)
    with pytest.raises(InputError, match=r"the worker .* has numpy 1\.0 \(here .*\), python 2\.7 \(here 3"):
        run_studies(STUDY, tmp_path, executor=Idle(numpy="1.0", python="2.7"))
    monkeypatch.setattr(executors, "describe", lambda sign: shards.describe(sign + "-of-another-disk"))
    with ThreadPoolExecutor(1) as pool, pytest.raises(InputError, match="does not see this folder"):
        run_studies(STUDY, tmp_path, executor=pool)
    assert not any(Store(tmp_path).shards.iterdir()), "and nothing is left behind"


# --- the options ---------------------------------------------------------------------------------


def test_the_table_of_a_study_file_says_where_it_runs(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        'activation = "relu"\noptimizer = "sgd"\nscales = [16]\neta0 = [0.1]\n'
        '[executor]\nkind = "slurm"\nworkers = 8\npartition = "gpu"\ngpus = 1\nprologue = ["module load cuda"]\n'
    )
    assert len(from_file(path)) == 1
    found = cluster_from(path, {"workers": 2, "time": "01:00:00", "memory": None})
    assert (found.kind, found.workers, found.partition, found.gpus) == ("slurm", 2, "gpu", 1)
    assert (found.time, found.memory, list(found.prologue)) == ("01:00:00", None, ["module load cuda"])
    assert cluster_from(path, {"kind": "local"}) == Cluster()
    assert cluster_from(None, {}) == Cluster()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--executor", "ray"), "executor must be 'local', 'dask' or 'slurm', got 'ray'"),
        (("--address", "tcp://a:1"), "address belongs to the executor 'dask', got 'local'"),
        (
            ("--executor", "dask", "--gpus", "2"),
            "gpus must be a whole number of at least 0 and at most 1, got 2",
        ),
        (("--executor", "slurm", "--time", "soon"), "time must be as in 02:00:00, got 'soon'"),
        (("--executor", "slurm", "--memory", "much"), "memory must be as in 8GB, got 'much'"),
        (("--workers", "0"), "workers must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_options_are_said_in_one_line(options, said, tmp_path, capsys):
    study = ("--activation", "relu", "--optimizer", "sgd", "--scales", "16", "--eta0", "0.1")
    assert main(["sweep", *study, "--out", str(tmp_path / "out"), *options]) == 64
    assert capsys.readouterr().err == f"denseam: {said}\n"
    assert not (tmp_path / "out").exists()


def test_without_dask_its_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with (
        pytest.raises(InputError, match=r"dask is not installed; pip install 'denseam\[cluster\]'"),
        connect(Cluster("dask"), tmp_path),
    ):
        pass


def test_unknown_keys_of_the_table_are_named(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text("[executor]\nnodes = 3\n")
    with pytest.raises(InputError, match=r"unknown key 'nodes' in \[executor\]; it must be 'kind', "):
        cluster_from(path, {})
    path.write_text('executor = "dask"\n')
    with pytest.raises(InputError, match="executor must be a table"):
        cluster_from(path, {})
    assert {f.name for f in dataclasses.fields(Cluster)} >= {"partition", "gpus", "time", "memory"}
