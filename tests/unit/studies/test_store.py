import io
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import denseam as dam
from denseam.ground.errors import InputError
from denseam.studies import store as store_module
from denseam.studies.records import COLUMNS, OPTIONAL, Records, epochs_of, loss_at, thin
from denseam.studies.runner import run_studies
from denseam.studies.store import Store, _digest
from denseam.studies.study import Study
from tests.sampled import sampled
from tests.synthetic import rows, study

STUDY = Study("relu", "sgd", (16, 24), (0.01, 0.1, 1e5), seeds=2, epochs=2)


def test_records_hold_everything_and_survive_the_disk(tmp_path):
    memory = run_studies(STUDY).records
    disk = run_studies(STUDY, tmp_path / "out").records
    by_key = {row["key"]: row for row in disk}
    assert len(memory) == len(disk) == 12
    for row in memory:
        other = by_key[row["key"]]
        assert set(row) == set(COLUMNS) - set(OPTIONAL) == set(other)
        for name in set(row) - {"seconds"}:
            assert other[name] == row[name] or np.array_equal(other[name], row[name]), name
    diverged = [row for row in disk if row["eta0"] == 1e5]
    assert all(row["final_mse"] == np.inf and row["status"] == "diverged" for row in diverged)
    assert all(row["diverged_at"] is not None for row in diverged)


def test_shards_open_in_one_line(tmp_path):
    run_studies(STUDY, tmp_path)
    table = pq.read_table(tmp_path / "shards")
    assert table.num_rows == 12
    assert table.column("loss")[0].as_py() is not None


def test_a_second_sweep_trains_nothing_and_a_wider_one_only_what_is_new(tmp_path):
    first = run_studies(STUDY, tmp_path)
    assert (first.runs, first.reused) == (12, 0)
    again = run_studies(STUDY, tmp_path)
    assert (again.runs, again.reused) == (12, 12)
    wider = run_studies(replace(STUDY, eta0=(0.01, 0.02, 0.1, 1e5), seeds=3), tmp_path)
    assert (wider.runs, wider.reused) == (24, 12)
    assert len(wider.records) == 24
    assert len(Store(tmp_path).read()) == 24


def test_a_store_that_remembers_reads_each_shard_once_and_sees_what_comes_and_goes(tmp_path, monkeypatch):
    made = [rows(study(scales=(scale,))) for scale in (64, 128)]
    plain, store, opened = Store(tmp_path), Store(tmp_path, remember=True), []
    read = store_module._read_shard
    monkeypatch.setattr(
        store_module, "_read_shard", lambda path, c: opened.append(path.name) or read(path, c)
    )
    store.prepare()
    first = store.write(made[0])
    store.read()[0]["final_mse"] = -1.0  # does not change what is remembered
    assert [dict(row) for row in store.read()] == [dict(row) for row in plain.read()]
    assert opened == [first.name] * 2
    second = plain.write(made[1])
    assert len(store.read()) == len(made[0]) + len(made[1])
    first.unlink()
    assert {row["key"] for row in store.read()} == {row["key"] for row in made[1]}
    assert opened == [first.name] * 2 + [second.name]


def test_doubles_are_read_once(tmp_path):
    records = run_studies(STUDY, tmp_path).records
    Store(tmp_path).write(list(records)[:5])
    assert len(Store(tmp_path).read()) == 12


def test_torn_truncated_and_foreign_files_are_named_and_passed_over(tmp_path):
    run_studies(STUDY, tmp_path)
    store = Store(tmp_path)
    shards = sorted(store.shards.glob("*.parquet"))
    rows = {path.name: pq.read_table(path).num_rows for path in shards}
    torn = shards[0]
    torn.write_bytes(torn.read_bytes()[:-30])
    flipped = bytearray(shards[1].read_bytes())
    flipped[len(flipped) // 3] ^= 0xFF
    shards[1].write_bytes(bytes(flipped))
    (store.shards / "notes.txt").write_text("hello")
    (store.shards / "other.json").write_text('{"a": 1}')
    (store.shards / "sub").mkdir()
    pq.write_table(pq.read_table(shards[2]).select(["key"]), store.shards / "foreign.parquet")
    pq.write_table(pq.read_table(shards[2]).select(["key"]), store.shards / "foreign-0123.parquet")
    read = store.read()
    for name in (
        torn.name,
        shards[1].name,
        "notes.txt",
        "other.json",
        "foreign.parquet",
        "foreign-0123",
        "sub",
    ):
        assert any(name in skipped for skipped in read.skipped), name
    assert len(read) == sum(rows[path.name] for path in shards[2:])
    assert len(run_studies(STUDY, tmp_path).records) == 12, "what was lost is trained again"


def test_no_changed_byte_goes_unnoticed(tmp_path):
    rows = run_studies(replace(STUDY, scales=(16,), seeds=1)).records
    store = Store(tmp_path)
    store.prepare()
    path = store.write(list(rows))
    content = path.read_bytes()
    for i in range(0, len(content), 37):
        changed = bytearray(content)
        changed[i] ^= 1
        path.write_bytes(bytes(changed))
        read = store.read()
        assert not len(read)
        assert path.name in read.skipped[0]


def test_half_written_files_are_not_read(tmp_path):
    run_studies(STUDY, tmp_path)
    (tmp_path / "shards" / ".abc.123.tmp").write_bytes(b"half")
    assert Store(tmp_path).read().skipped == ()


def test_json_shards_of_early_versions_are_read(tmp_path):
    """They stood in for a missing pyarrow, with infinities as text."""

    def plain(value):
        if isinstance(value, float) and not math.isfinite(value):
            return repr(value)
        return [plain(v) for v in value] if isinstance(value, list) else value

    study = replace(STUDY, eta0=(0.02, 1e6))
    rows = run_studies(study).records
    document = {"denseam": 1, "rows": [{k: plain(v) for k, v in row.items()} for row in rows]}
    content = json.dumps(document, allow_nan=False).encode()
    store = Store(tmp_path)
    store.prepare()
    (store.shards / f"{'0' * 16}-{_digest(content)}.json").write_bytes(content)
    read = {row["key"]: row for row in store.read()}
    for row in rows:
        assert {k: repr(v) for k, v in read[row["key"]].items()} == {k: repr(v) for k, v in row.items()}
    assert run_studies(study, tmp_path).reused == len(rows)


def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        run_studies(STUDY, blocked / "out")
    with pytest.raises(InputError, match="holds no results"):
        Store(tmp_path / "nothing").read()


def test_records_know_their_studies():
    a, b = (run_studies(replace(STUDY, centred=c, name="same"), None).records for c in (True, False))
    assert len((a + b).studies()) == 2
    assert len((a + a).studies()) == 1
    assert len(Records([*a, *a])) == len(a)


SLOW = """
import sys
from denseam.studies.study import Study
from denseam.studies import store as store_module
from denseam.studies.runner import run_studies
from denseam.studies import engine
study = Study("relu", "sgd", (16, 24), (0.003, 0.01, 0.03, 0.1), seeds=3, epochs=4)
from denseam.studies.engine import chunks
real = engine.train_chunk
def slow(*arguments):
    import time
    time.sleep(0.15)
    return real(*arguments)
engine.train_chunk = slow
chunks.evenly = lambda group, count: [[spec] for spec in group]  # a shard for each run
run_studies(study, sys.argv[1])
print("done")
"""


@pytest.mark.parametrize("times", sampled([1, 5], few=[1]))
def test_kill_nine_again_and_again_loses_and_doubles_nothing(times, tmp_path):
    study = Study("relu", "sgd", (16, 24), (0.003, 0.01, 0.03, 0.1), seeds=3, epochs=4)
    undisturbed = {row["key"]: row for row in run_studies(study).records}
    out = tmp_path / "out"
    before, kills = 0, 0
    for _ in range(times):
        child = subprocess.Popen([sys.executable, "-c", SLOW, str(out)], stdout=subprocess.DEVNULL)
        # killed as soon as it has written something new
        shards = out / "shards"
        while child.poll() is None and (not shards.is_dir() or len(list(shards.glob("*.parquet"))) <= before):
            time.sleep(0.005)
        if child.poll() is None:
            child.kill()
            kills += 1
        child.wait()
        now = len(list(shards.glob("*.parquet")))
        assert now >= before
        before = now
    assert kills == times
    finished = run_studies(study, out)
    assert finished.reused >= before
    assert len(Store(out).read()) == len(undisturbed) == 24
    for row in finished.records:
        same = undisturbed[row["key"]]
        assert (row["final_mse"], row["status"]) == (same["final_mse"], same["status"])
        assert np.array_equal(row["loss"], same["loss"])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_said_and_earlier_shards_stay(tmp_path, monkeypatch):
    records = run_studies(STUDY, tmp_path).records
    before = sorted(p.name for p in (tmp_path / "shards").iterdir())
    real = os.fsync

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        run_studies(replace(STUDY, seeds=3), tmp_path)
    monkeypatch.setattr(os, "fsync", real)
    assert sorted(p.name for p in (tmp_path / "shards").iterdir()) == before
    assert len(Store(tmp_path).read()) == len(records)


def test_the_library_example_of_the_readme_in_short(tmp_path):
    study = dam.Study(
        activation=dam.relu(), optimizer="sgd", scales=[16, 24], eta0=dam.logspace(1e-3, 1, 3), epochs=2
    )
    records = dam.sweep(study, out=tmp_path)
    (judged,) = dam.verdict(records)
    assert judged.status in ("TRANSFERS", "DRIFTS", "FAILS", "INCONCLUSIVE")


def test_a_shard_that_is_gone_for_a_moment_is_not_trained_again(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.prepare()
    path = store.write(rows(study(scales=(16,), seeds=1)))

    def gone(*_):
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr("denseam.studies.store._read_shard", gone)
    with pytest.raises(FileNotFoundError):
        store.keys()
    assert "disappeared" in store.read().skipped[0]
    monkeypatch.setattr(Store, "names", lambda self: set())
    assert not store.read(["key"], [path.name], skip_errors=False)


def test_an_empty_cell_of_a_later_field_is_its_default(tmp_path):
    store = Store(tmp_path)
    store.prepare()
    store.write([row | {"tau": None, "decay_time": None} for row in rows(study(scales=(16,), seeds=1))])
    assert {(row["tau"], row["decay_time"]) for row in store.read()} == {(1.0, None)}


def test_probes_survive_the_disk_and_older_shards_can_be_read(tmp_path):
    import pyarrow.parquet as pq

    study = Study(
        "softmax",
        "adam",
        (16,),
        (0.01,),
        seeds=1,
        epochs=2,
        probes=("K_eff", "lambda_max"),
        probe_steps=(0, 9),
    )
    (row,) = dam.sweep(study, tmp_path / "new")
    assert row["probe_steps"] == [0, 9]
    assert len(row["probe_K_eff"]) == 2
    assert 1 < row["probe_K_eff"][0] <= 32
    assert "probe_dZ1" not in row
    (shard,) = (tmp_path / "new" / "shards").iterdir()
    table = pq.read_table(shard)
    old = table.drop_columns([c for c in table.column_names if c.startswith("probe")])
    (tmp_path / "old" / "shards").mkdir(parents=True)
    pq.write_table(old, tmp_path / "old" / "old.parquet")
    content = (tmp_path / "old" / "old.parquet").read_bytes()
    (tmp_path / "old" / "shards" / f"{'0' * 16}-{_digest(content)}.parquet").write_bytes(content)
    records = Store(tmp_path / "old").read()
    assert not records.skipped
    assert "probe_K_eff" not in records[0]
    assert records[0]["final_mse"] == row["final_mse"]


def test_a_shard_that_is_skipped_has_no_curves_either(tmp_path):
    """It has the name of its content, but losses that are no curves, of runs that another shard has."""
    store = Store(tmp_path)
    store.prepare()
    store.write(rows(study()))
    before = {row["key"]: row["loss"] for row in store.read()}
    table = pq.read_table(next(store.shards.iterdir()))
    content = io.BytesIO()
    wrong = pa.array([float("nan")] * len(table))
    pq.write_table(table.set_column(table.column_names.index("loss"), "loss", wrong), content)
    (store.shards / f"{'0' * 16}-{_digest(content.getvalue())}.parquet").write_bytes(content.getvalue())
    assert len(store.read().skipped) == 1
    assert store.curves(list(before)) == before


def test_thinned_curves_keep_their_ends_and_say_their_epochs(tmp_path):
    row = {"key": "a", "loss": [float(256 - e) for e in range(256)]}
    (thinned,) = thin([row], 12)
    epochs = epochs_of(thinned)
    assert epochs[0] == 1
    assert epochs[-1] == 256
    assert len(epochs) == len(thinned["loss"]) <= 12
    assert all(loss_at(row, e) == loss_at(thinned, e) for e in epochs)
    # Between two epochs that are left, the one before.
    gap = next(e for e in range(1, 256) if e not in epochs)
    assert loss_at(thinned, gap) == row["loss"][max(e for e in epochs if e < gap) - 1]
    assert epochs_of(row) == list(range(1, 257))
    assert loss_at(row, 1000) == row["loss"][-1]
    assert thin([{"key": "b", "loss": [1.0, 2.0]}])[0].get("loss_epochs") is None
