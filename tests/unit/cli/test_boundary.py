"""What is read is checked, what is written is whole: the findings of an attack on the program, one test each.

Everything goes through the commands, so that the tests also run with an earlier version.
"""

import contextlib
import hashlib
import io
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import ROOT
from tests.program import refused

BASE = ROOT / "tests" / "unit" / "compatibility" / "7fe74f3"
STUDY = {
    "activation": '"relu"',
    "optimizer": '"sgd"',
    "scales": "[8]",
    "eta0": "[0.01]",
    "seeds": "1",
    "epochs": "1",
}
PROGRAM = [sys.executable, "-m", "denseam"]


def started(*arguments, shell="", **options):
    """The program in a process of its own, after commands of the shell."""
    words = ["bash", "-c", f'{shell}; exec "$@"', "bash", *PROGRAM] if shell else PROGRAM
    return subprocess.run([*words, *map(str, arguments)], capture_output=True, **options)


# --- study files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('kappa = ""', "kappa must be above 0"),
        ("kappa = 1e308", "kappa must be at most"),
        ("noise = [-1]", "noise must be at least 0"),
        ("noise = false", "noise must be"),
        ("data = false", "data must be text"),
        ('data = "\\u0000"', "data must be one line"),
        ("seeds = nan", "seeds must be"),
        (f"seeds = 1{'0' * 30}", "seeds must be at most"),
        ("seeds = [4294967296]", "seeds must be below 2^32"),
        (f"epochs = 1{'0' * 18}", "epochs must be below 2^31"),
        ("epochs = 2000000000", "fewer than 2^31 steps"),
        (f"x = {'[' * 5000}{']' * 5000}", "nested too deeply"),
        (f"x = {'[' * 40}{']' * 40}", "nested too deeply"),
        ('uncentered = "no"', "uncentered must be true or false"),
        ("[axes]\neta0 = [0.3]", "eta0 is given twice"),
        ("scales = [1e30]", "scales must be below 2^31"),
        ('eta0 = "1e-3:1:1000000000"', "count must be"),
        ("seeds = 9999\neta0 = '1e-3:1:9999'", "at most 1000000 runs"),
        ("power = 1e308", "power must be"),
        ("preparation = 3", "preparation must be a table"),
        ("[regime]\nkappa = 1", "regime must have a name"),
        ("[parameterization]\ns1 = 3", "parameterization: "),
        ('parameterization = "s2=K^99999999999999999999"', "K^99999999999999999999"),
        ('name = """a\nb"""', "name must be one line"),
    ],
)
def test_a_study_file_of_wrong_types_is_refused(line, word, tmp_path, inside):
    keys = (
        {**STUDY} if line.startswith("[axes]") else {k: v for k, v in STUDY.items() if f"{k} =" not in line}
    )
    path = tmp_path / "study.toml"
    path.write_text("".join(f"{k} = {v}\n" for k, v in keys.items()) + line + "\n")
    refused(inside("sweep", path, "--out", tmp_path / "out", "-q"), word)
    assert not (tmp_path / "out").exists()


def test_axes_of_a_file_are_not_ignored(tmp_path, inside):
    keys = "".join(f"{k} = {v}\n" for k, v in STUDY.items() if k != "eta0")
    (tmp_path / "study.toml").write_text(f"{keys}[axes]\neta0 = [-1.0]\n")
    refused(inside("sweep", tmp_path / "study.toml", "--out", tmp_path / "out", "-q"), "eta0 must be above 0")


SWEEP = (
    "sweep --activation relu --optimizer sgd --scales 8 --eta0 0.01 --seeds 1 --epochs 1 -q --out none-such"
)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("--scales nan", "scales must be"),
        ("--kappa 1e308", "kappa must be at most"),
        (f"--seeds 1{'0' * 30}", "seeds must be at most"),
        (f"--seeds {'9' * 5000}", "seeds must be"),
        ("--name caf\udce9", "name must be one line of text that UTF-8 can encode"),
        ("--data caf\udce9.npy", "data must be one line of text that UTF-8 can encode"),
    ],
)
def test_options_are_refused_by_the_same_rules(options, word, inside):
    refused(inside(*SWEEP.split(), *options.split()), word)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("--seeds 0", "seeds must be"),
        (f"--seeds 1{'0' * 30}", "seeds must be below 2^31"),
        ("--budget nan", "budget must be finite"),
        ("--kappa 1e308", "kappa must be at most"),
        (f"--memories 1{'0' * 30}", "memories must be below 2^31"),
        (f"--features 512 --devices 1{'0' * 30}", "devices must be below 2^31"),
        ("--features 512 --devices 1000000000", "devices must be at most"),
    ],
)
def test_a_plan_of_impossible_numbers_is_refused(options, word, tmp_path, inside):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((400, 32)).astype(np.float32))
    refused(inside("plan", tmp_path / "x.npy", *options.split()), word)


# --- shards --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sweep():
    """Options of a sweep: two scales, two values, one seed each."""
    return [
        "sweep",
        "--activation",
        "relu",
        "--optimizer",
        "sgd",
        "--scales",
        "8,16",
        "--eta0",
        "0.01,0.03",
        "--seeds",
        "2",
        "--epochs",
        "1",
        "-q",
    ]


@pytest.fixture(scope="module")
def swept(sweep, tmp_path_factory, inside):
    folder = tmp_path_factory.mktemp("swept") / "runs"
    assert inside(*sweep, "--out", folder).returncode == 0
    return folder


@pytest.fixture
def runs(swept, tmp_path):
    return Path(shutil.copytree(swept, tmp_path / "runs"))


def shards(folder):
    return sorted((folder / "shards").glob("[!.]*.parquet"))


def put(folder, table, name="0" * 16):
    """Write a table as a shard whose digest is right."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    content = sink.getvalue().to_pybytes()
    path = folder / "shards" / f"{name}-{hashlib.blake2b(content, digest_size=8).hexdigest()}.parquet"
    path.write_bytes(content)
    return path


def column(table, name, values):
    return table.set_column(table.column_names.index(name), name, pa.array(values))


WRONG = {
    "an axis that is none": lambda t: column(t, "swept", ["x"] * len(t)),
    "a column is missing": lambda t: t.drop_columns(["final_mse"]),
    "no learning rates": lambda t: t.drop_columns(["eta0"]),
    "NaN": lambda t: column(t, "final_mse", [float("nan")] * len(t)),
    "negative": lambda t: column(t, "final_mse", [-1.0] * len(t)),
    "text": lambda t: column(t, "final_mse", ["0.5"] * len(t)),
    "no size": lambda t: column(t, "scale", [0] * len(t)),
    "empty cells": lambda t: column(t, "study", [None] * len(t)),
    "a foreign status": lambda t: column(t, "status", ["maybe"] * len(t)),
    "a foreign regime": lambda t: column(t, "regime", ["../../etc"] * len(t)),
    "infinite but finished": lambda t: column(t, "final_mse", [float("inf")] * len(t)),
    "curves with gaps": lambda t: column(t, "loss", [[None]] * len(t)),
    "curves of another length": lambda t: column(t, "loss_epochs", [[1.0, 2.0, 3.0]] * len(t)),
    "probes of another length": lambda t: column(
        column(t, "probe_steps", [[0.0]] * len(t)), "probe_Z", [[]] * len(t)
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_shard_of_wrong_content_is_passed_over_and_named(wrong, runs, inside):
    alone = inside("verdict", runs, "--json")
    bad = put(runs, WRONG[wrong](column(pq.read_table(shards(runs)[0]), "key", ["ab" * 16] * 2)))
    result = inside("verdict", runs, "--json")
    assert (result.returncode, result.stdout) == (alone.returncode, alone.stdout)
    assert f"warning: skipped {bad.name}: the column" in result.stderr
    if wrong == "a column is missing":
        for command in (["report", runs], ["export", runs], ["check", runs]):
            named = inside(*map(str, command))
            assert named.returncode in (0, 2, 64)
            assert f"skipped {bad.name}" in named.stderr


def test_runs_of_a_shard_that_cannot_be_believed_are_trained_again(runs, sweep, inside):
    first = shards(runs)[0]
    bad = put(runs, column(pq.read_table(first), "loss", [[None]] * 2))
    first.unlink()
    result = inside(*sweep, "--out", runs, "--json")
    assert json.loads(result.stdout)["runs"] == 8
    assert json.loads(result.stdout)["reused"] == 6
    assert bad.name in result.stderr


def test_records_that_contradict_each_other_are_named(runs, inside):
    alone = inside("verdict", runs, "--json")
    table = pq.read_table(shards(runs)[0])
    losses = table["final_mse"].to_pylist()
    again = put(runs, column(table, "final_mse", [loss * (1 + 1e-6) for loss in losses]), "f" * 16)
    assert not inside("verdict", runs).stderr  # rounding is no contradiction
    again.unlink()
    other = put(runs, column(table, "final_mse", [loss / 2 for loss in losses]), "f" * 16)
    for command in (["verdict", runs, "--json"], ["report", runs], ["export", runs]):
        result = inside(*map(str, command))
        assert result.returncode != 70
        assert f"run {table['key'][0].as_py()[:12]}: " in result.stderr
        assert "contradict each other" in result.stderr
        assert shards(runs)[0].name in result.stderr
        assert other.name in result.stderr
    assert inside("verdict", runs, "--json").stdout == alone.stdout  # the first is used


def test_a_sweep_counts_what_it_reads_back(sweep, tmp_path, inside, monkeypatch):
    """Shards that vanish during the sweep are not counted, and it does not end well."""
    replace = os.replace

    def vanish(source, target):
        replace(source, target)
        if "shards" in str(target):
            os.unlink(target)

    monkeypatch.setattr(os, "replace", vanish)
    result = inside(*sweep, "--out", tmp_path / "runs", "--json")
    assert (result.returncode, result.stdout) == (74, "")
    assert "8 of 8 runs are not in the folder any more" in result.stderr


def test_data_that_changes_during_a_training_is_noticed(tmp_path, inside, monkeypatch):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.standard_normal((400, 8)).astype(np.float32))
    from denseam.studies import runner

    trained = runner.train_studies

    def change(*arguments, **options):
        for outcomes in trained(*arguments, **options):
            np.save(tmp_path / "x.npy", rng.standard_normal((401, 8)).astype(np.float32))
            yield outcomes

    monkeypatch.setattr(runner, "train_studies", change)
    words = [
        "sweep",
        "--activation",
        "relu",
        "--optimizer",
        "sgd",
        "--scales",
        "8",
        "--eta0",
        "0.01",
        "--seeds",
        "1",
        "--epochs",
        "1",
        "-q",
    ]
    result = inside(*words, "--data", tmp_path / "x.npy", "--out", tmp_path / "runs")
    refused(result, "changed during the training")
    assert not shards(tmp_path / "runs")


def test_curves_that_vanish_while_a_folder_is_judged_are_noticed(runs):
    from denseam.studies.store import Store

    store = Store(runs)
    keys = [row["key"] for row in store.read(["key"])]
    assert len(store.curves(keys)) == 8
    shards(runs)[0].unlink()
    with pytest.raises(OSError, match="changed while it was read"):
        store.curves(keys)


# --- files that are written ----------------------------------------------------------------------


def test_an_export_that_fails_leaves_the_earlier_file(runs, tmp_path, inside):
    for kind in ("csv", "parquet"):
        target = tmp_path / f"x.{kind}"
        target.write_bytes(b"precious")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            result = inside("export", runs, "--format", kind, "--out", target)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert result.returncode == 74
        assert "files written before are intact" in result.stderr
        assert target.read_bytes() == b"precious"
        assert sorted(p.name for p in tmp_path.glob("*x*")) == sorted(p.name for p in tmp_path.glob("x.*"))
        assert inside("export", runs, "--format", kind, "--out", target).returncode == 0
        assert target.read_bytes() != b"precious"


def test_a_rename_is_followed_by_a_sync_of_the_folder(runs, tmp_path, inside, monkeypatch):
    done = []
    replace, sync = os.replace, os.fsync

    def named(descriptor):
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        sync(descriptor)

    monkeypatch.setattr(os, "replace", lambda *a: (done.append("rename"), replace(*a)))
    monkeypatch.setattr(os, "fsync", named)
    assert inside("export", runs, "--out", tmp_path / "x.csv").returncode == 0
    assert done == ["file", "rename", "folder"]


def test_what_killed_processes_left_is_cleared(runs, sweep, inside):
    import fcntl

    left = [
        runs / "shards" / name
        for name in (".a.parquet.123.tmp", ".b.parquet.456.tmp", ".probe-77", ".seen-78")
    ]
    for path in left:
        path.write_bytes(b"half")
        os.utime(path, (time.time() - 7200,) * 2)
    fresh = runs / "shards" / ".seen-79"  # a driver waits for its workers
    fresh.touch()
    with open(left[1], "rb+") as file:  # it is being written
        fcntl.flock(file, fcntl.LOCK_EX)
        assert inside(*sweep, "--out", runs).returncode == 0
        assert [path.exists() for path in (*left, fresh)] == [False, True, False, False, True]
    assert inside(*sweep, "--out", runs).returncode == 0
    assert not left[1].exists()


def test_cells_of_csv_are_no_formulas_and_come_back(runs, tmp_path, inside):
    names = ["=1+1", "+x", "@x", "-x", "'=x", "plain", "it's", "'tis"]
    table = pq.read_table(shards(runs)[0])
    for path in shards(runs):
        path.unlink()
    for i, name in enumerate(names):
        keys = [f"{i:02}" * 16, f"{i:02}" * 15 + "ff"]
        put(runs, column(column(table, "study", [name] * 2), "key", keys), f"{i:016}")
    assert inside("export", runs, "--out", tmp_path / "x.csv").returncode == 0
    text = (tmp_path / "x.csv").read_text()
    cells = [cell for line in text.splitlines()[1:] for cell in line.split(",")]
    assert not [cell for cell in cells if cell[0:1] in ("=", "+", "@", "-")]
    studies = [
        {s["name"] for s in json.loads(inside("verdict", source, "--json").stdout)["studies"]}
        for source in (runs, tmp_path / "x.csv")
    ]
    assert studies[0] == studies[1] == set(names)


# --- documents and arrays ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda d: d["recipe"].update(eta0="0.01"), "eta0 must be above 0"),
        (lambda d: d["recipe"].update(eta0=True), "eta0 must be above 0"),
        (lambda d: d["recipe"].update(eta0=1e400), "eta0 must be above 0"),
        (lambda d: d["recipe"]["study"].update(centred="../../../etc"), "centred must be true or false"),
        (lambda d: d["recipe"]["study"].update(epochs="8"), "epochs must be a whole number"),
        (lambda d: d["recipe"].update(constants={"s1_0": "x"}), "constants.s1_0 must be a number"),
        (lambda d: d["recipe"].update(constants={"none": 1.0}), "unknown axis 'none'"),
        (lambda d: d["recipe"]["expected"].update(low=["x"]), "expected.low.0 must be a number"),
        (lambda d: d["recipe"]["expected"].update(low=[1.0]), "must have the same length"),
        (lambda d: d["recipe"].update(recommended="no"), "recommended must be true or false"),
        (lambda d: d["recipe"].update(data_digest=3), "data_digest must be text"),
        (lambda d: d["recipe"].pop("eta0"), "eta0 is missing"),
        (lambda d: d.update(recipe=[1]), "recipe must be a table"),
        (lambda d: d.update(advice={}), "advice must be text"),
    ],
)  # fmt: skip
def test_a_recipe_of_wrong_types_is_refused(change, word, tmp_path, inside):
    document = json.loads((BASE / "tuned" / "tuned.json").read_text())
    change(document)
    (tmp_path / "tuned.json").write_text(json.dumps(document))
    refused(inside("train", BASE / "vectors.npy", "--tuned", tmp_path), word)
    assert inside("report", tmp_path).returncode == 64 or (tmp_path / "report.html").is_file()


def flip(path, place, bit=4):
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_flipped_bit_in_samples_is_noticed(save, tmp_path, inside):
    path = tmp_path / "x.npz"
    save(path, np.random.default_rng(0).standard_normal((100, 32)).astype(np.float32))
    flip(path, path.stat().st_size // 2)
    refused(inside("plan", path), "is damaged")


def test_a_flipped_bit_in_what_was_recalled_is_noticed(runs, inside):
    path = runs / "recalled.npz"
    arrays = {"noise": np.zeros(2), "energies": np.zeros((2, 50, 3)), "steps": np.ones((2, 50))}
    np.savez(path, **arrays, converged=np.ones((2, 50), bool))
    assert not inside("report", runs).stderr
    with zipfile.ZipFile(path) as archive:
        (place,) = (i.header_offset for i in archive.infolist() if i.filename == "energies.npy")
    flip(path, place + 1000)
    assert "recalled.npz" in inside("report", runs).stderr
    np.savez(path, **arrays)
    assert "converged is missing" in inside("report", runs).stderr
    np.savez(path, **arrays | {"noise": np.array(["x", "y"])}, converged=np.ones((2, 50), bool))
    assert "noise must be numbers" in inside("report", runs).stderr


def test_a_flipped_bit_in_a_memory_is_noticed(tmp_path):
    import denseam as dam

    scales = dam.prescription("relu", "sgd").at(dam.Shape(8, 16), eta0=0.1)
    path = dam.DenseAM.create(scales, dam.relu(), seed=0).save(tmp_path / "memory.safetensors")
    whole = path.read_bytes()
    assert dam.DenseAM.load(path).N == 8
    start, written = 8 + int.from_bytes(whole[:8], "little"), whole.index(b"version") + 14
    for place in (start, start + 300, len(whole) - 1, written):  # numbers, and a letter of the document
        flip(path, place, bit=0)
        with pytest.raises(dam.InputError, match="is not what was written"):
            dam.DenseAM.load(path)
        path.write_bytes(whole)


def test_a_memory_of_an_early_version_has_no_checksums_and_is_read():
    from denseam.workflow.memory import Memory

    path = BASE / "tuned" / "target" / "memory.safetensors"
    assert b"checksums" not in path.read_bytes()
    assert Memory.load(path).encoder is not None


# --- streams and places --------------------------------------------------------------------------

PRESCRIBE = [
    "prescribe",
    "--activation",
    "relu",
    "--optimizer",
    "sgd",
    "--features",
    "8",
    "--memories",
    "16",
    "--eta0",
    "0.1",
]
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def in_ascii(*arguments):
    """The exit code, and the bytes on a standard output that takes no other letters."""
    from denseam.cli import main

    content = io.BytesIO()
    with (
        contextlib.redirect_stdout(io.TextIOWrapper(content, "ascii")) as out,
        contextlib.redirect_stderr(io.StringIO()),
    ):
        code = main([str(a) for a in arguments])
        out.flush()
        return code, content.getvalue()


def test_a_locale_without_utf8_loses_nothing(runs):
    """What it cannot encode is printed as an escape; a file is in UTF-8."""
    table = pq.read_table(shards(runs)[0])
    put(runs, column(column(table, "study", ["café η"] * 2), "key", ["cd" * 16, "ef" * 16]), "f" * 16)
    code, text = in_ascii(*PRESCRIBE)
    assert code == 0
    assert rb"\u03b7_W" in text
    code, text = in_ascii("verdict", runs)
    assert code in (0, 1, 2)
    assert rb"caf\xe9 \u03b7" in text
    code, text = in_ascii("export", runs)
    assert code == 0
    assert "café η" in text.decode("utf-8")
    assert in_ascii("figure", "list")[0] == 0


@pytest.mark.slow
def test_a_real_locale_without_utf8(swept):
    for arguments in (
        PRESCRIBE,
        ["verdict", swept],
        ["export", swept],
        ["figure", "list"],
        ["doctor"],
        ["plan", "--help"],
    ):
        assert started(*arguments, env=os.environ | ASCII).returncode in (0, 1, 2)


@pytest.mark.slow
def test_a_file_that_the_locale_cannot_name_is_refused(tmp_path):
    keys = "".join(f"{k} = {v}\n" for k, v in STUDY.items())
    (tmp_path / "study.toml").write_text(f'{keys}data = "café.npy"\n', encoding="utf-8")
    result = started("sweep", "study.toml", "--out", "runs", env=os.environ | ASCII, cwd=tmp_path)
    assert result.returncode == 64
    assert b"there is no such file" in result.stderr


@pytest.mark.parametrize(
    ("shell", "code", "word"),
    [
        ("exec >&-", 74, b"standard output is closed"),
        ("exec >/dev/full", 74, b"No space left on device"),
        ("exec 2>&-", 0, b""),
        ("unset HOME XDG_CACHE_HOME", 0, b""),
        ("ulimit -n 20", 0, b""),
    ],
)
def test_streams_and_places_have_their_exit_code(shell, code, word):
    result = started(*PRESCRIBE, shell=shell)
    assert result.returncode == code
    assert word in result.stderr
    assert result.stderr.count(b"\n") == (code != 0)


@pytest.mark.parametrize("arguments", [PRESCRIBE, ["--help"]])
def test_a_reader_that_is_gone_is_no_verdict(arguments):
    words = ["bash", "-c", '"$@" | true; exit ${PIPESTATUS[0]}', "bash", *PROGRAM, *arguments]
    assert subprocess.run(words, capture_output=True).returncode == 141


@pytest.mark.slow
def test_few_descriptors_are_enough_to_judge(swept):
    assert started("verdict", swept, shell="ulimit -n 20").returncode in (0, 1, 2)


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    from denseam.ground.files import write_whole

    """Renaming a file onto /dev/null would replace the device."""
    real, link, pipe = (tmp_path / name for name in ("real", "link", "pipe"))
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
