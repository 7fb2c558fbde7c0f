import contextlib
import csv
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import denseam
from denseam.paper.catalog import find
from tests import ROOT
from tests.program import PROGRAM, refused, run
from tests.table import EXPECTED

pytestmark = pytest.mark.usefixtures("coarsely")


def prescribe(start, regime, activation, optimizer, *more):
    sizes = ("--features", 64, "--memories", 256, "--eta0", 0.1)
    names = ("--activation", activation, "--optimizer", optimizer, "--regime", regime)
    return start("prescribe", *names, *sizes, *more)


@pytest.mark.parametrize("case", EXPECTED, ids="-".join)
def test_prescribe_gives_the_table(case, inside):
    found = prescribe(inside, *case, "--json")
    assert found.returncode == 0
    document = json.loads(found.stdout)
    assert document["schema"] == 1
    assert (document["s1"], document["s2"], document["eta_W"]) == pytest.approx(EXPECTED[case])
    assert (document["eta_b"], document["eta_c"]) == (0.1, 0.1)
    unprescribed = case[1:] == ("softmax", "sgd")
    assert document["prescribed"] == (not unprescribed)
    assert ("not expected to transfer" in found.stderr) == unprescribed
    assert document["rule"]["s1"] == "N^-1/2"


def test_prescribe_prints_a_table_for_people():
    found = prescribe(run, "proportional", "relu", "adam", "--base-features", 16, "--base-memories", 64)
    assert found.returncode == 0
    assert found.stderr == ""
    for part in ("base: N=16, K=64", "s1_0·N^-1/2", "0.25", "0.125", "N^-1/2"):
        assert part in found.stdout


def test_prescribe_prints_the_decay_in_both_units_and_the_schedule(inside):
    options = ("--updates", 50, "--schedule", "cosine", "--warmup", 0.1)
    by_time = prescribe(inside, "proportional", "relu", "sgd", *options, "--decay-time", 2)
    by_decay = prescribe(inside, "proportional", "relu", "sgd", *options, "--decay", 0.1)
    assert by_time.stdout == by_decay.stdout
    assert "λ0 = 0.1, λ_W = 0.000390625; " in by_time.stdout
    assert "a time of 100 steps; decay_time = 2 of the training" in by_time.stdout
    assert "schedule: cosine, 50 steps" in by_time.stdout
    document = json.loads(
        prescribe(inside, "proportional", "relu", "sgd", *options, "--decay-time", 2, "--json").stdout
    )
    assert (document["decay"], document["decay_time"], document["schedule"]) == (
        pytest.approx(0.1),
        2.0,
        "cosine",
    )
    assert document["factors"] == denseam.Timetable("cosine", 50, 0.1).factors()
    plain = json.loads(prescribe(inside, "proportional", "relu", "adamw", "--json").stdout)
    assert (plain["decay"], plain["decay_time"]) == (1e-4, None)
    assert "factors" not in plain


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (
            "prescribe --activation relu --optimizer adam --features 2 --memories 2 --decay 1 --schedule cosin",
            ["decay belongs to the optimizer 'sgd'", "schedule needs updates"],
        ),
        (
            "prescribe --activation relu --optimizer sgd --features 2 --memories 2 --updates 10 --warmup 2",
            ["warmup must be at least 0 and at most 1, got 2"],
        ),
        (
            "prescribe --activation relu --optimizer sgd --features 2 --memories 2 --updates 10 --schedule nope",
            ["schedule must be 'constant'"],
        ),
        (
            "prescribe --activation relu --optimizer sgd --features 2 --memories 2 --updates 10 --cooldown 0.1",
            ["cooldown belongs to the schedule 'wsd', got 'constant'"],
        ),
        (
            "prescribe --activation relu --optimizer sgd --features 2 --memories 2 --updates 0 --decay-time 1",
            ["updates must be a whole number of at least 1, got 0"],
        ),
        (
            "prescribe --activation relu --optimizer sgd --features 2 --memories 2 --updates 9 --decay-time 0.1",
            ["decay_time must be at least 0.111, one of 9 steps"],
        ),
        (
            "prescribe --activation relu --optimizer sgd --features 2 --memories 2 --decay 1 --decay-time 1",
            ["decay and decay_time are two units", "decay_time needs updates"],
        ),
        (
            "train isotropic --features 8 --eta0 0.1 --schedule wsd --warmup 0.9 --out x",
            ["warmup and cooldown"],
        ),
        ("tune isotropic --features 64 --optimizer adam --decay-time 1 --out x", ["decay_time belongs to"]),
        ("check --activation relu --optimizer sgd --decay-time 0.001", ["decay_time must be at least 0.05"]),
        (
            "prescribe --activation gelu --optimizer adagrad --regime wide --features 0 --memories -2 --eta0 -1",
            ["activation", "optimizer", "regime", "features", "memories", "eta0"],
        ),
        ("prescribe --activation relu --power 0.5 --optimizer sgd --features 2 --memories 2", ["power"]),
        ("prescribe --activation softmax --power 2 --optimizer adam --features 2 --memories 2", ["power"]),
        ("prescribe --activation relu --optimizer sgd --features x --memories 2", ["--features"]),
        ("prescribe --activation relu --optimizer sgd --features 2", ["--memories"]),
        (
            "prescribe --activation relu --optimizer sgd --features 2 --memories 2 --base-features 2",
            ["base-memories"],
        ),
        ("prescribe --nonsense", ["--nonsense"]),
        (
            "sweep --activation relu --optimizer adagrad --scales 8 --eta0 1 --out x",
            ["optimizer must be 'sgd', 'adam', 'adamw', 'lion', 'sign' or 'muon', got 'adagrad'"],
        ),
        (
            "sweep --activation relu --optimizer sgd --beta2 0.9 --scales 8 --eta0 1 --out x",
            ["beta2 belongs to the optimizer 'adam', 'adamw', 'lion' or 'muon', got 'sgd'"],
        ),
        ("check --activation relu --optimizer lion --nesterov", ["nesterov belongs to the optimizer"]),
        ("dance", ["dance"]),
    ],
)
def test_bad_input_is_one_line_and_exit_64(arguments, parts, inside):
    refused(inside(*arguments.split()), *parts)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("prescribe --activation relu --optimizer sgd --features 0 --memories 2", "features"),
        ("dance", "dance"),
    ],
)
def test_the_process_ends_with_64_and_one_line(arguments, part):
    refused(run(*arguments.split()), part)


def test_version_and_help():
    assert run("--version").stdout == f"denseam {denseam.__version__}\n"
    assert "prescribe" in run().stdout


def test_help_says_what_no_command_says(inside):
    assert inside("--help").stdout == inside().stdout


# --- sweeps --------------------------------------------------------------------------------------

SWEEP = [
    "sweep",
    "--activation",
    "relu",
    "--optimizer",
    "sgd",
    "--scales",
    "16,24,32",
    "--eta0",
    "3e-3:1:6",
    "--kappa",
    "3",
    "--rho",
    "5",
    "--beta",
    "0.1",
    "--seeds",
    "3",
    "--epochs",
    "4",
    "--out",
]


@pytest.fixture(scope="module")
def swept(tmp_path_factory, inside):
    out = tmp_path_factory.mktemp("sweep") / "runs"
    found = inside(*SWEEP, out, "--json")
    assert found.returncode == 0, found.stderr
    return out, found


def test_sweep_reports_in_json_alone_and_resumes(swept, inside):
    out, found = swept
    document = json.loads(found.stdout)
    assert set(document) == {"schema", "out", "runs", "reused", "diverged", "seconds", "times"}
    assert set(document["times"]) == {"compiling", "training", "writing"}
    assert document["times"]["training"] > 0 < document["times"]["writing"]
    assert (document["runs"], document["reused"]) == (54, 0)
    assert "54 runs to train" in found.stderr
    again = inside(*SWEEP, out, "--json", "--quiet")
    assert json.loads(again.stdout)["reused"] == 54
    assert again.stderr == ""


def test_very_many_runs_need_a_yes_and_their_cost_is_said(tmp_path, inside, monkeypatch):
    study = ["sweep", "--activation", "relu", "--optimizer", "sgd", "--scales", "8,16", "--epochs", "1"]
    many = inside(*study, "--eta0", "1e-3:1:50", "--seeds", 10_000, "--out", tmp_path)
    assert (many.returncode, many.stdout) == (64, "")
    (line,) = many.stderr.splitlines()
    assert re.fullmatch(r"denseam: 1,000,000 runs take one core about .*; give --yes to train them", line)

    monkeypatch.setattr("denseam.cli.studies.MOST_UNASKED", 3)
    few = [*study, "--eta0", "0.01,0.1", "--seeds", "1", "--out", tmp_path]
    assert inside(*few).returncode == 64
    agreed = inside(*few, "--yes")
    assert agreed.returncode == 0
    assert "4 runs take one core about" in agreed.stderr


def test_verdict_in_json_and_for_people(swept, inside):
    out, _ = swept
    found = inside("verdict", out, "--json")
    (study,) = json.loads(found.stdout)["studies"]
    contract = {"name", "status", "optimum_eta0", "drift_decades_per_doubling", "drift_ci", "edge", "edge_drift",
                "regret", "max_regret", "collapse", "reason"}  # fmt: skip
    assert contract <= set(study)
    assert set(study["optimum_eta0"]) == {"16", "24", "32"}
    assert found.returncode == {"TRANSFERS": 0, "INCONCLUSIVE": 2}.get(study["status"], 1)
    people = inside("verdict", out, "--horizon", "--plot", out / "figures")
    assert people.returncode == found.returncode
    assert study["status"] in people.stdout
    assert study["reason"] in people.stdout
    assert "the optimum during training" in people.stdout
    assert (out / "figures" / "transfer.png").stat().st_size > 10_000
    assert (out / "figures" / "transfer.svg").read_text().startswith("<?xml")


def test_a_verdict_with_another_tolerance(swept, inside):
    out, _ = swept
    generous = json.loads(inside("verdict", out, "--tolerance", "100", "--json").stdout)["studies"][0]
    assert generous["tolerance"] == 100
    assert generous["status"] != "DRIFTS"
    heldout = json.loads(inside("verdict", out, "--by", "heldout", "--json").stdout)["studies"][0]
    assert heldout["best_loss"] != generous["best_loss"]
    wrong = inside("verdict", out, "--tolerance", "0", "--target", "8")
    refused(wrong, "tolerance must be above 0", "target must be at least the smallest scale, N = 16, got 8")


def test_export_gives_one_row_per_run(swept, inside):
    import csv
    import io

    out, _ = swept
    rows = list(csv.DictReader(io.StringIO(inside("export", out, "--format", "csv").stdout)))
    assert len(rows) == 54
    contract = [
        "study",
        "features",
        "memories",
        "samples",
        "batch",
        "eta0",
        "seed",
        "status",
        "diverged_at",
        "final_mse",
        "heldout_mse",
    ]
    assert set(contract) <= set(rows[0])
    assert {r["final_mse"] for r in rows if r["eta0"] == "1.0"} == {"inf"}
    assert inside("export", out, "--format", "parquet", "--out", out / "all.parquet").returncode == 0
    import pyarrow.parquet as pq

    assert pq.read_table(out / "all.parquet").num_rows == 54


def test_a_study_file_runs_and_its_mistakes_are_named(tmp_path, inside):
    path = tmp_path / "study.toml"
    path.write_text(
        'activation = "identity"\noptimizer = "sgd"\nscales = [16]\neta0 = [0.001, 0.01]\nseeds = 1\nepochs = 1\n'
    )
    found = inside("sweep", path, "--out", tmp_path / "out", "--json", "--quiet")
    assert json.loads(found.stdout)["runs"] == 2
    path.write_text("activaton = 'relu'\nscales = [32, 16]\n")
    refused(inside("sweep", path, "--out", tmp_path / "out"), "did you mean 'activation'")


def test_ctrl_c_that_arrives_where_it_is_lost_stops_all_the_same(tmp_path):
    """As when Python collects garbage: the exception ends there, the event stays."""
    import os
    import signal

    from denseam.cli.program import Stopped, interruptible
    from denseam.studies.runner import run_studies
    from denseam.studies.study import Study

    study = Study("relu", "sgd", (16,), (0.01,), seeds=1, epochs=2)
    before = signal.getsignal(signal.SIGINT)

    def stopped():
        with interruptible("there") as pressed:
            with contextlib.suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
            run_studies(study, tmp_path, stop=pressed)

    with pytest.raises(Stopped, match="interrupted; finished work is in there"):
        stopped()
    assert signal.getsignal(signal.SIGINT) is before
    assert not list((tmp_path / "shards").glob("*.parquet"))


def test_ctrl_c_stops_with_130_and_keeps_what_is_finished(tmp_path):
    import signal
    import time

    out = tmp_path / "runs"
    arguments = "sweep --activation relu --optimizer sgd --scales 8,64 --eta0 1e-3:0.1:8 --epochs 1000 --out"
    child = subprocess.Popen(
        [PROGRAM, *arguments.split(), out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while not list((out / "shards").glob("*.parquet")):
        assert child.poll() is None, child.stderr.read()
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "run again to resume" in errors
    assert "Traceback" not in errors
    assert list((out / "shards").glob("*.parquet"))
    assert not list((out / "shards").glob(".*"))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("sweep --activation relu --optimizer sgd --scales 32,16 --eta0 0.1:0.01:0 --seeds 0 --out x",
         ["eta0", "count"]),
        ("sweep --activation relu --optimizer sgd --scales 32,16 --eta0 0.2,0.1 --epochs 0 --seeds 0 --out x",
         ["scales must be in increasing order", "eta0 must be in increasing order", "epochs", "seeds"]),
        ("sweep --activation relu --optimizer sgd --scales 16 --eta0 0.1", ["out is needed"]),
        ("sweep --activation relu --optimizer sgd --scales 16 --eta0 0.1 --precision tf32 --out /tmp/none-such",
         ["needs a GPU"]),
        ("sweep --activation relu --optimizer sgd --scales 16 --eta0 0.1 --axis s2_0 --out x", ["axis"]),
        ("sweep --activation relu --optimizer sgd --scales 16 --eta0 0.1 --out /proc/none", ["cannot be written"]),
        ("verdict nowhere", ["nowhere"]),
        ("export nowhere", ["nowhere"]),
        ("export . --format xml", ["format"]),
        ("bench --features 2", ["features"]),
        ("sweep --activation relu --optimizer sgd --scales 16 --eta0 0.1 --probes K_eff --out x",
         ["probe K_eff", "needs an activation that sums to one"]),
        ("sweep --activation relu --optimizer sgd --scales 16 --eta0 0.1 --probes Z --probe-steps 0,9999 --out x",
         ["probe_steps must be at most"]),
        ("sweep --activation relu --optimizer sgd --scales 16 --eta0 0.1 --parameterization s2=M --out x",
         ["product of powers"]),
        ("check --activation relu", ["optimizer is needed"]),
        ("check --activation relu --optimizer sgd --seeds 1", ["seeds must be two or more"]),
        ("check --activation relu --optimizer sgd --scales 64", ["scales must be two or more"]),
        ("check --activation relu --optimizer sgd --features 16", ["features does not belong to the regime"]),
        ("check --activation relu --optimizer sgd --regime wide", ["regime must be"]),
        ("sweep --activation relu --optimizer sgd --regime batch-only --scales 4,9 --eta0 0.1 --features 4 --memories 8 "
         "--samples 8 --out x", ["scale 9: batch (B) must be at most samples (P) = 8"]),
        ("sweep --activation relu --optimizer sgd --regime epochs --scales 0,2 --eta0 0.1 --features 4 --memories 8 "
         "--samples 8 --batch 2 --out x", ["scales must be whole numbers of at least 1, got 0, 2"]),
        ("sweep --activation relu --optimizer sgd --regime epochs --scales 2 --eta0 0.1 --features 4 --epochs 3 --kappa 2 "
         "--out x", ["kappa does not belong to the regime 'epochs'", "epochs does not belong", "memories is needed"]),
        ("check --activation relu --optimizer sgd --regime samples-only --samples 9", ["samples does not belong to the"]),
        ("check --activation relu --optimizer sgd --regime epochs --scales 1,2", ["probe_steps must be at most"]),
        ("check nowhere", ["nowhere"]),
        ("find --optimizer sgd", ["activation is needed"]),
        ("find --activation gelu --optimizer adagrad", ["activation must be", "optimizer must be"]),
        ("find --activation relu --optimizer sgd --regime epochs", ["exponents are found where"]),
        ("find --activation relu --optimizer sgd --seeds 1 --scales 64", ["scales must be two", "seeds must be two"]),
        ("find --activation relu --optimizer sgd --scales 64,128", ["scales must be 3 or more to find exponents"]),
        ("find --activation relu --optimizer sgd --executor dask", ["out is needed with the executor"]),
        ("find --activation relu --optimizer sgd --parameterization no.json", ["parameterization no.json: No such"]),
        ("theory --kappa 0 --rho-b -1", ["kappa must be above 0", "rho_b must be above 0"]),
        ("sweep --activation softmax --power 2 --optimizer adam --scales 8 --eta0 1 --out x", ["power belongs to"]),
        ("sweep --activation relu(2) --power 2 --optimizer adam --scales 8 --eta0 1 --out x", ["power is in 'relu(2)'"]),
        ("sweep --activation relu --optimizer sgd --scales 8 --eta0 1 --axis eta0=1,2 --out x", ["eta0 is given twice"]),
        ("export . --format parquet --probes --out x", ["probes are already in the format 'parquet'"]),
        ("bench --mesh all --precision float32", ["precision: --mesh and --steps have their own"]),
    ],
)  # fmt: skip
def test_bad_input_to_sweeps_is_one_line_and_exit_64(arguments, parts, tmp_path, monkeypatch, inside):
    monkeypatch.chdir(tmp_path)
    refused(inside(*arguments.split()), *parts)
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_folder_without_runs_or_probes_is_refused(tmp_path, inside):
    (tmp_path / "shards").mkdir()
    refused(inside("verdict", tmp_path), f"{tmp_path}: contains no runs")
    refused(inside("export", tmp_path, "--probes"), f"{tmp_path}: its runs have no probes")


LENGTHS = {
    "batch-only": ("2,4,16", "B", {"memories": 8, "samples": 32}),
    "samples-only": ("16,32,64", "P", {"memories": 8, "batch": 8}),
    "epochs": ("1,2,4", "E", {"memories": 8, "samples": 32, "batch": 8}),
}


@pytest.mark.parametrize("regime", LENGTHS)
def test_a_sweep_along_any_size_is_judged_drawn_and_exported(regime, tmp_path, inside):
    scales, letter, fixed = LENGTHS[regime]
    sizes = [word for key, value in fixed.items() for word in (f"--{key}", value)]
    asked = (
        "--activation",
        "relu",
        "--optimizer",
        "sgd",
        "--regime",
        regime,
        "--scales",
        scales,
        "--features",
        4,
    )
    length = () if regime == "epochs" else ("--epochs", 2)
    folder = tmp_path / "runs"
    swept = inside(
        "sweep", *asked, *sizes, *length, "--eta0", "0.01:1:5", "--seeds", 2, "--out", folder, "--json"
    )
    assert swept.returncode == 0, swept.stderr
    assert ("up to about B = 2·N = 8, got 16" in swept.stderr) == (regime == "batch-only")
    assert json.loads(swept.stdout)["runs"] == 30
    (judged,) = json.loads(inside("verdict", folder, "--plot", tmp_path / "plot", "--json").stdout)["studies"]
    assert (judged["size"], [*judged["best_loss"]]) == (letter, scales.split(","))
    assert (tmp_path / "plot" / "transfer.png").is_file()
    assert inside("report", folder).returncode == 0
    rows = list(csv.DictReader(inside("export", folder).stdout.splitlines()))
    column = {"B": "batch", "P": "samples", "E": "epochs"}[letter]
    assert {row["scale"] for row in rows} == set(scales.split(","))
    assert all(row[column] == row["scale"] for row in rows)


def test_prescribe_follows_the_batch(inside):
    sizes = ("--batch", 64, "--base-batch", 16)
    found = prescribe(inside, "batch-only", "relu", "adam", *sizes)
    assert found.returncode == 0
    for part in ("base: N=64, K=256, B=16", "η_W = eta0·N^-1/2·B^1/2", "1 − beta1", "moves as B^1/2"):
        assert part in found.stdout
    lacking = prescribe(inside, "batch-only", "relu", "adam")
    assert (lacking.returncode, lacking.stderr) == (
        64,
        "denseam: batch (B) is needed by the rule N^-1/2·B^1/2\n",
    )


def test_doctor_examines(inside):
    document = json.loads(inside("doctor", "--json").stdout)
    assert document["machine"]["product works"] == "yes"
    assert document["versions"]["denseam"] == denseam.__version__


def test_bench_measures_and_reports(inside, monkeypatch):
    rivals = {"loop": lambda shape, optimizer: 1e6}  # PyTorch may be installed or not
    monkeypatch.setattr("denseam.cli.bench.rivals", lambda models, gpu, precision: rivals)
    monkeypatch.setattr("denseam.cli.bench._epochs", lambda *_: 2)
    document = json.loads(
        inside("bench", "--features", "16", "--repeats", "1", "--seconds", "0.01", "--json").stdout
    )
    assert [(r["features"], r["optimizer"]) for r in document["rows"]] == [(16, "sgd"), (16, "adam")]
    assert all(0 < r["peak_fraction"] < 2 for r in document["rows"])
    assert all(r["speedup_vs_torch_loop"] > 1e6 for r in document["rows"])
    assert all(r["speedup_vs_torch_batched"] is None for r in document["rows"])
    assert document["cost_exponent"] is None, "one size has no slope"
    refused = inside("bench", "--precision", "bf16")
    assert (refused.returncode, "needs a GPU" in refused.stderr) == (64, True)


def test_bench_compares_steps_of_recall_with_one(inside, monkeypatch):
    monkeypatch.setattr("denseam.cli.bench._epochs", lambda *_: 2)
    arguments = ("bench", "--features", "16", "--repeats", "1", "--seconds", "0.01", "--steps")
    document = json.loads(inside(*arguments, "2", "--json").stdout)
    assert [(r["features"], r["optimizer"], r["steps"]) for r in document["rows"]] == [
        (16, "sgd", 2),
        (16, "adam", 2),
    ]
    assert all(0.01 < r["per_operation"] < 100 for r in document["rows"])
    for wrong, words in ((("1",), "steps must be"), (("2", "--mesh", "all"), "mesh and steps")):
        refused = inside(*arguments, *wrong)
        assert refused.returncode == 64
        assert words in refused.stderr


SMALL_CHECK = (
    "--activation",
    "relu",
    "--optimizer",
    "sgd",
    "--scales",
    "16,128",
    "--updates",
    "2",
    "--quiet",
)


def test_check_says_pass_or_fail_by_word_number_and_exit_code(tmp_path, inside):
    right = inside("check", *SMALL_CHECK, "--out", tmp_path / "runs", "--plot", tmp_path, "--json")
    assert right.returncode == 0, right.stderr
    document = json.loads(right.stdout)
    assert document["status"] == "PASS"
    assert document["cause"] is None
    assert document["reason"] is None
    assert {"name", "step", "slope", "ci", "expected", "ok"} <= set(document["quantities"][0])
    assert len(document["figures"]) == 2
    assert all(Path(file).exists() for file in document["figures"])
    again = inside("check", tmp_path / "runs")
    assert "relu-sgd: PASS" in again.stdout
    table = inside("export", tmp_path / "runs", "--probes").stdout.splitlines()
    assert table[0].startswith("key,study,scale")
    assert "lambda_max" in table[0]
    assert len(table) == 1 + 2 * 4 * 3, "scales × seeds × steps"
    wrong = inside("check", *SMALL_CHECK, "--uncentered")
    assert wrong.returncode == 1
    assert "relu-sgd-uncentred: FAIL" in wrong.stdout
    assert "spike: the mean activation" in wrong.stdout
    assert "first to break" in wrong.stdout


SMALL_SEARCH = (
    *("find", "--activation", "relu", "--optimizer", "sgd", "--regime", "memories-only", "--quiet"),
    *("--features", "8", "--scales", "64,256,1024", "--seeds", "4", "--updates", "2", "--no-sweep"),
)


def test_find_writes_a_rule_that_a_sweep_takes(tmp_path, inside, monkeypatch):
    monkeypatch.setattr("denseam.analysis.coordinates.activity.MEMORIES", (64, 256, 1024))
    found = inside(*SMALL_SEARCH, "--out", tmp_path / "found", "--json")
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    assert (document["schema"], document["status"], document["cause"]) == (1, "FOUND", "holds")
    assert document["factors"]["s2"]["fraction"] == "-1"
    assert document["off"], "the standard parameterization is wrong here"
    assert document["left"] == []
    assert document["activity"]["family"] == "order one"
    assert document["verdict"] is None
    rule, *pictures = map(Path, document["files"])
    assert [picture.suffix for picture in pictures] == [".png", ".svg"]
    assert all(picture.stat().st_size > 1000 for picture in pictures)
    text = inside(*SMALL_SEARCH, "--out", tmp_path / "found")  # nothing is trained again
    assert text.returncode == 0
    assert "relu-sgd-memories-only-found: FOUND" in text.stdout
    assert "left: nothing" in text.stdout
    assert text.stdout.rstrip().splitlines()[-1].startswith("next: denseam sweep --activation relu")
    assert f"--parameterization {rule}" in text.stdout
    line = "--features 8 --samples 16 --batch 8 --scales 64,128 --eta0 0.01 --seeds 1 --epochs 1 --quiet"
    common = (
        "sweep",
        "--activation",
        "relu",
        "--regime",
        "memories-only",
        *line.split(),
        "--out",
        tmp_path / "runs",
    )
    swept = inside(*common, "--optimizer", "sgd", "--parameterization", rule)
    assert swept.returncode == 0, swept.stderr
    wrong = inside(*common, "--optimizer", "adam", "--parameterization", rule)
    assert wrong.returncode == 64
    assert "parameterization is for elementwise, sgd, memories-only" in wrong.stderr


@pytest.mark.slow
def test_find_says_so_if_nothing_works(inside):
    """Softmax with SGD: rows with a large activation get large updates."""
    found = inside(
        *("find", "--activation", "softmax", "--optimizer", "sgd", "--regime", "memories-only", "--quiet"),
        *("--scales", "128,512,2048", "--seeds", "4", "--updates", "16", "--no-sweep"),
    )
    assert found.returncode == 1, found.stdout
    assert "NONE" in found.stdout
    assert "still" in found.stdout


def test_theory_prints_the_sizes(inside):
    document = json.loads(inside("theory", "--kappa", "2", "--rho-b", "0.5", "--json").stdout)
    sizes = {"Z1": 63, "Z2": 121, "F11": 217, "F12": 279, "F21": 217, "F22": 495}
    assert {k: document[k] for k in sizes} == pytest.approx(sizes)
    assert "true_residual" not in document
    noisy = json.loads(inside("theory", "--kappa", 2, "--rho-b", 0.5, "--noise", 0.5, "--json").stdout)
    assert set(noisy["true_residual"]) == set(sizes)
    assert "R→F" in inside("theory", "--kappa", 2, "--rho-b", 0.5).stdout


def test_figure_list_has_every_label(inside):
    found = inside("figure", "list", "--json")
    assert found.returncode == 0
    rows = json.loads(found.stdout)["figures"]
    labels = [row["paper_label"] for row in rows if row["paper_label"]]
    assert len(labels) == 17
    assert {"linear_SGD", "transfter-K-only-regime", "softmax-dynamics-isntability"} <= set(labels)
    assert all(row["panels"] and row["claims"] and row["name"] for row in rows)
    transfer = next(row for row in rows if row["name"] == "sgd-transfer")
    assert all(list(claim["readings"]) == ["frozen", "trained", "normal"] for claim in transfer["claims"])
    text = inside("figure", "list").stdout
    assert all(row["name"] in text for row in rows)


def test_figure_list_says_how_claims_are_judged_from_runs(inside, monkeypatch):
    few = find(["sgd-transfer", "linear-sgd"])
    monkeypatch.setattr("denseam.paper.catalog.catalog", lambda: few)
    gallery = ROOT / "docs" / "gallery"
    rows = json.loads(inside("figure", "list", "--out", gallery, "--json").stdout)["figures"]
    transfer = next(row for row in rows if row["name"] == "sgd-transfer")
    assert transfer["claims"][1]["readings"]["trained"]["outcome"] == "reproduced"


def test_figure_run_draws_judges_and_reuses(tmp_path, inside):
    arguments = ("figure", "run", "relu-sgd-dynamics", "--size", "tiny", "--out", tmp_path, "--json")
    readings = ("frozen", "trained", "normal")
    found = inside(*arguments)
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    names = [f"relu-sgd-dynamics-{reading}.{kind}" for reading in readings for kind in ("png", "svg")]
    assert [Path(f).name for f in document["files"]] == names
    assert all(Path(f).is_file() for f in document["files"])
    assert {v["figure"] for v in document["verdicts"]} == {"relu-sgd-dynamics"}
    assert all(set(v) >= {"claim", "paper_label", "readings"} for v in document["verdicts"])
    findings = [v["readings"][reading] for v in document["verdicts"] for reading in readings]
    assert all(set(f) == {"outcome", "condition", "verdict", "measured"} for f in findings)
    assert "claim | frozen | trained | normal" in Path(document["table"]).read_text()
    shards = sorted((tmp_path / "runs" / "shards").iterdir())
    again = inside("figure", "run", "dynamics-relu-sgd-dz", "--size", "tiny", "--out", tmp_path, "--quiet")
    assert again.returncode == 0
    assert "The loss goes the same way at every size." in again.stdout
    assert sorted((tmp_path / "runs" / "shards").iterdir()) == shards


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run linear-sdg", "did you mean 'linear-sgd'?"),
        ("run linear-sgd --size huge", "size must be 'laptop' or 'paper'"),
        ("run linear-sgd --reading cold", "reading must be 'frozen', 'trained', 'normal' or 'all', got cold"),
        ("run linear-sgd --part 3/2", "part must be like 3/8, got '3/2'"),
        ("run linear-sgd --part 1/2", "part: a part of the runs is no figure; add --train-only"),
        ("missing linear-sgd --seeds 0", "seeds must be at least 1, got 0"),
        ("missing linear-sgd --max-operations 0", "max-operations must be above 0, got 0"),
        ("run linear-sgd --workers 2", "workers: a figure is trained on all cores of this machine"),
        ("run linear-sgd --executor dask --draw-only", "executor: --draw-only trains nothing"),
        ("run linear-sgd --draw-only --train-only", "draw-only: --train-only draws nothing"),
        ("run linear-sgd --out /dev/null", "out /dev/null: is not a folder"),
        ("run", "Missing argument"),
        ("draw", "No such command 'draw'"),
    ],
)
def test_figure_says_what_is_wrong_in_one_line(arguments, said, inside):
    refused(inside("figure", *arguments.split()), said)


def test_figure_draw_only_says_what_is_missing(tmp_path, inside):
    found = inside("figure", "run", "horizon", "--draw-only", "--out", tmp_path / "new", "--json")
    assert found.returncode == 0
    document = json.loads(found.stdout)
    assert document["files"] == []
    assert document["missing"]["horizon"]["frozen"] > 0
    assert "horizon: missing: " in found.stderr


def test_figure_missing_lists_what_to_train_and_parts_share_it(tmp_path, inside):
    """Every missing run is in exactly one part; trained runs are not listed again."""
    arguments = ("sgd-eigenvalues", "--size", "tiny", "--out", tmp_path)

    def listed(*options):
        return json.loads(inside("figure", "missing", *arguments, *options, "--json").stdout)

    whole = listed()
    assert whole["runs"] == sum(gap["runs"] for gap in whole["gaps"]) > 0
    assert whole["operations"] == pytest.approx(sum(gap["operations"] for gap in whole["gaps"]))
    assert {gap["reading"] for gap in whole["gaps"]} == {"frozen", "trained", "normal"}
    assert all(gap["outcomes"] == ["not run"] for gap in whole["gaps"])
    parts = [listed("--part", f"{i}/3")["gaps"] for i in (1, 2, 3)]
    rows = [tuple(map(str, gap.values())) for part in parts for gap in part]
    assert sorted(rows) == sorted(tuple(map(str, gap.values())) for gap in whole["gaps"])
    cheapest = min(gap["operations"] / gap["runs"] for gap in whole["gaps"])
    assert {gap["scale"] for gap in listed("--max-operations", cheapest)["gaps"]} == {8}
    trained = inside("figure", "run", *arguments, "--train-only", "--reading", "frozen", "--json")
    assert json.loads(trained.stdout)["runs"] == sum(
        g["runs"] for g in whole["gaps"] if g["reading"] == "frozen"
    )
    assert {gap["reading"] for gap in listed()["gaps"]} == {"trained", "normal"}


def test_debug_adds_a_traceback(inside, tmp_path):
    plain, debugged = inside("export", tmp_path), inside("--debug", "export", tmp_path)
    assert (plain.returncode, debugged.returncode) == (64, 64)
    assert plain.stderr.count("\n") == 1
    assert debugged.stderr.startswith("Traceback (most recent call last):")
    assert debugged.stderr.endswith(plain.stderr)


@pytest.mark.parametrize(
    "arguments", ["--help", "prescribe --activation relu --optimizer sgd --features 8 --memories 8"]
)
def test_a_reader_that_leaves_is_not_a_verdict(arguments):
    """As with `denseam … | head`: exit code 1 would say that a hyperparameter drifts."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([PROGRAM, *arguments.split()], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
