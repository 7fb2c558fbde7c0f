"""A sweep of any tool gets the verdict of the folder that it came from."""

import csv
import gzip
import io
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import denseam as dam
from denseam.ground.errors import InputError
from denseam.report.contents import contents
from denseam.studies.columns import assign, plain
from denseam.studies.foreign import records_of
from denseam.studies.store import Store, csv_text, parquet_bytes
from tests import ROOT
from tests.program import refused
from tests.synthetic import rows, study

BASE = ROOT / "tests" / "unit" / "compatibility" / "7fe74f3"
#: What a table without curves and with other names cannot have in common with its folder.
OTHERWISE = {"name", "axis", "size", "collapse", "reason", "next", "flags"}


def numbers(verdicts):
    """The verdicts as plain data, apart from names and curves."""
    plain_data = []
    for v in verdicts:
        document = {key: value for key, value in v.to_json().items() if key not in OTHERWISE}
        optimum = document.pop(f"optimum_{v.axis}")
        plain_data.append(document | {"optimum": optimum, "words": v.reason.replace(v.axis, "·")})
    return plain_data


@pytest.fixture(scope="module")
def runs():
    """A sweep with a drift, with seeds that differ and with runs that diverged."""
    made = rows(study(scales=(16, 32, 64, 128)), moves=0.11)
    rng = np.random.default_rng(0)
    for row in made:
        row["final_mse"] *= math.exp(0.01 * rng.standard_normal())
    return dam.Records(made)


@pytest.fixture(scope="module")
def folder(runs, tmp_path_factory):
    """The folder of that sweep."""
    out = tmp_path_factory.mktemp("runs")
    Store(out).prepare()
    Store(out).write(list(runs))
    return out


@pytest.fixture(scope="module")
def expected(folder):
    verdicts = dam.verdict(Store(folder).read())
    assert [v.status in ("DRIFTS", "FAILS") for v in verdicts] == [True]
    return numbers(verdicts)


def told(verdicts, size):
    """The numbers of a verdict, with N for the name of its size."""
    return [d | {"words": d["words"].replace(f"{size} = ", "N = ")} for d in numbers(verdicts)]


def table(runs, size="width", axis="lr", seed="seed", loss="loss", **others):
    """Columns of a tool with these names; `others` are functions of a run."""
    columns = {size: "scale", axis: "eta0", seed: "seed", loss: "final_mse"}
    made = {name: [run[ours] for run in runs] for name, ours in columns.items()}
    return made | {name: [value(run) for run in runs] for name, value in others.items()}


def write(path, columns):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


# --- the same verdict as the folder ----------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["inf", "", "nan", "NaN", "NA", "-Infinity"])
def test_a_csv_by_hand(runs, expected, lost, tmp_path):
    columns = table(runs, "N", "eta0")
    columns["loss"] = [lost if run["status"] == "diverged" else run["final_mse"] for run in runs]
    assert told(dam.verdict(write(tmp_path / "sweep.csv", columns)), "N") == expected


def test_a_flag_is_enough_for_a_divergence(runs, expected, tmp_path):
    """The last finite loss before a blow-up is not a result."""
    columns = table(runs, diverged=lambda run: run["status"] == "diverged")
    columns["loss"] = [0.1 if math.isinf(v) else v for v in columns["loss"]]
    assert told(dam.verdict(write(tmp_path / "sweep.csv", columns)), "width") == expected
    del columns["diverged"]
    assert told(dam.verdict(write(tmp_path / "sweep.csv", columns)), "width") != expected


#: Layouts of other tools: the names of size, hyperparameter, seed and loss, and further columns.
LAYOUTS = {
    "Weights & Biases": (
        ("width", "lr", "seed", "val/loss"),
        {"Name": lambda r: f"run-{r['key']}", "State": lambda r: "finished", "batch_size": lambda r: 32},
    ),
    "Optuna": (
        ("params_width", "params_lr", "user_attrs_seed", "value"),
        {
            "number": lambda r: r["key"],
            "state": lambda r: "COMPLETE",
            "datetime_start": lambda r: "2024-01-01",
        },
    ),
    "mup": (
        ("width", "learning_rate", "seed", "train_loss"),
        {"depth": lambda r: 2, "optimizer": lambda r: "adam"},
    ),
    "Ray Tune": (
        ("config/hidden_size", "config/lr", "config/seed", "loss"),
        {"trial_id": lambda r: r["key"], "training_iteration": lambda r: 10},
    ),
    "MLflow": (("params.d_model", "params.learningRate", "params.seed", "metrics.eval_loss"), {}),
    "the words of the manual": (("size", "value", "seed", "loss"), {}),
}


@pytest.mark.parametrize("tool", LAYOUTS)
def test_the_layouts_of_other_tools(tool, runs, expected, tmp_path):
    names, others = LAYOUTS[tool]
    path = write(tmp_path / "export.csv", table(runs, *names, **others))
    verdicts = dam.verdict(path)
    assert [(v.name, v.axis, v.scale_letter, v.loss_name) for v in verdicts] == [
        ("export", names[1], names[0], names[3])
    ]
    assert told(verdicts, names[0]) == expected


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, pl.DataFrame, pa.table, dict], ids=["pandas", "polars", "arrow", "dict"]
)
def test_frames(frame, runs, expected):
    columns = table(runs, "Width", "LR", "Seed", "Final_MSE")
    before = {name: list(values) for name, values in columns.items()}
    assert told(dam.verdict(frame(columns)), "Width") == expected
    assert columns == before


def test_rows_and_an_index_of_pandas(runs, expected):
    columns = table(runs)
    listed = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    assert told(dam.verdict(listed), "width") == expected
    indexed = pd.DataFrame(columns).set_index(["width", "seed"])
    assert told(dam.verdict(indexed), "width") == expected
    shuffled = pd.DataFrame(columns).sample(frac=1, random_state=0)
    assert told(dam.verdict(shuffled), "width") == expected


def test_parquet_json_lines_and_packed_files(runs, expected, tmp_path):
    columns = table(runs)
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    listed = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, listed)) + "\n")  # Infinity is written bare
    nested = [
        {"config": {"lr": r["lr"], "width": r["width"]}, "summary": {"loss": r["loss"]}, "seed": r["seed"]}
        for r in listed
    ]
    nested = [r | {"summary": {"loss": None}} if math.isinf(r["summary"]["loss"]) else r for r in nested]
    (tmp_path / "c.json").write_text(json.dumps(nested))
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(write(tmp_path / "d.csv", columns).read_bytes()))
    (tmp_path / "e.tsv").write_text((tmp_path / "d.csv").read_text().replace(",", "\t"))
    (tmp_path / "f.csv").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "d.csv").read_bytes())
    for name, size in zip(
        ("a.parquet", "b.jsonl", "c.json", "d.csv.gz", "e.tsv", "f.csv"),
        ["width"] * 2 + ["config.width"] + ["width"] * 3,
        strict=True,
    ):
        assert told(dam.verdict(tmp_path / name), size) == expected, name


@pytest.mark.parametrize("name", sorted(p.name.partition(".")[0] for p in (BASE / "sweeps").iterdir()))
def test_an_export_is_what_it_was(name, tmp_path):
    """All studies, swept axes and letters of a folder, also as an earlier version exported them."""
    records = Store(BASE / "sweeps" / name).read()
    of_folder = [v.to_json() | {"collapse": None} for v in dam.verdict(records)]
    (tmp_path / "x.csv").write_text(csv_text(records))
    for place in (tmp_path / "x.csv", BASE / "exports" / f"{name}.csv.gz"):
        assert [v.to_json() for v in dam.verdict(place)] == of_folder
    (tmp_path / "x.parquet").write_bytes(parquet_bytes(records))
    whole = [v.to_json() for v in dam.verdict(records)]
    assert [v.to_json() for v in dam.verdict(tmp_path / "x.parquet")] == whole, "with curves"
    assert [v.to_json() for v in dam.verdict(records.to_pandas())] == whole
    assert [v.to_json() for v in dam.verdict(pl.from_arrow(records.table()))] == whole


def test_another_axis_of_an_export_can_be_judged(tmp_path):
    asked = study(eta0=(0.01, 0.03, 0.1), axes={"s2_0": (0.5, 1.0, 2.0)})
    records = dam.Records(rows(asked))
    frame = records.to_pandas().drop(columns=["key", "loss"])
    assert [v.to_json() | {"collapse": 0} for v in dam.verdict(frame, axis="s2_0")] == [
        v.to_json() | {"collapse": 0} for v in dam.verdict(records, axis="s2_0")
    ]
    with pytest.raises(InputError, match="axis must be"):
        dam.verdict(frame, axis="lr")


# --- choosing columns ------------------------------------------------------------------------------------


def test_names_can_be_given(runs, expected):
    columns = table(runs, "breadth", "wd", "replica", "score")
    with pytest.raises(InputError, match="no column is the size of the model; name it with --size"):
        dam.verdict(columns)
    roles = {"size": "breadth", "loss": "score", "seed": "replica"}
    assert told(dam.verdict(columns, axis="wd", columns=roles), "breadth") == expected
    with pytest.raises(InputError, match="there is no column 'Score'"):
        dam.verdict(columns, axis="wd", columns=roles | {"loss": "Score"})
    with pytest.raises(InputError, match=r"columns must name .* got 'sizes'"):
        dam.verdict(columns, columns={"sizes": "breadth"})
    with pytest.raises(InputError, match="size: only a table needs names of columns"):
        dam.verdict(runs, columns={"size": "scale"})


def test_two_losses_are_refused_with_their_names_and_the_option(runs, expected):
    columns = table(runs, val_loss=lambda r: 2 * r["final_mse"])
    with pytest.raises(
        InputError, match="the final loss could be 'loss' or 'val_loss'; name its column with --loss"
    ):
        dam.verdict(columns)
    assert told(dam.verdict(columns, columns={"loss": "loss"}), "width") == expected


def test_of_two_sizes_the_one_that_grows_or_the_first_in_proportion(runs):
    n, twice, square = [16, 32, 64], [32, 64, 128], [256, 1024, 4096]
    rest = {"lr": [0.1, 0.2, 0.3], "loss": [1.0, 1.0, 1.0]}
    assert assign({"width": n, "depth": [2, 2, 2]} | rest, {})["size"] == "width"
    assert assign({"memories": twice, "features": n} | rest, {})["size"] == "features"
    with pytest.raises(InputError, match="could be 'width' or 'n_params'; name its column with --size"):
        assign({"width": n, "n_params": square} | rest, {})


@pytest.mark.parametrize(
    ("name", "known"),
    [("LR", "lr"), ("learningRate", "learning_rate"), ("config.optimizer.lr", "lr"), ("val/loss", "val_loss"),
     ("params_lr", "lr"), ("Final MSE", "final_mse"), ("params", "params"), ("summary/loss", "loss")],
)  # fmt: skip
def test_names_are_made_plain(name, known):
    assert plain(name) == known


def test_without_a_seed_there_is_one(runs):
    one = dam.Records(run for run in runs if run["seed"] == 0)
    columns = table(one)
    del columns["seed"]
    (judged,) = dam.verdict(columns)
    assert judged.seeds == 1


def test_seeds_that_are_words_and_values_with_other_digits(runs, expected):
    columns = table(runs)
    columns["seed"] = [f"seed-{v}" for v in columns["seed"]]
    columns["lr"] = [
        v * (1 + 1e-9 * seed) for v, seed in zip(columns["lr"], (r["seed"] for r in runs), strict=True)
    ]
    assert told(dam.verdict(columns), "width")[0]["regret"] == pytest.approx(expected[0]["regret"], rel=1e-6)


def test_sizes_need_not_be_whole(runs):
    columns = table(runs, "width_mult")
    columns["width_mult"] = [v / 64 for v in columns["width_mult"]]
    (judged,) = dam.verdict(columns)
    assert list(judged.optimum) == [0.25, 0.5, 1, 2]
    assert "width_mult = 0.25" in judged.reason


def test_a_table_may_hold_several_studies(runs, expected, tmp_path):
    columns = table(runs)
    both = {name: values * 2 for name, values in columns.items()} | {
        "study": ["a"] * len(runs) + ["b"] * len(runs)
    }
    verdicts = dam.verdict(both)
    assert [v.name for v in verdicts] == ["a", "b"]
    assert told(verdicts, "width") == expected * 2


def test_a_foreign_loss_is_not_compared_with_that_of_predicting_zero(runs):
    """Only our own runs know that of predicting zero: a high loss means nothing, and it may rise with size."""
    large = [run | {"final_mse": 5 * run["scale"] * run["final_mse"]} for run in rows(study())]
    assert dam.verdict(large)[0].cause.value == "nothing-learned"
    assert dam.verdict(table(large))[0].cause.value == "holds"


# --- everything that works on a folder --------------------------------------------------------------------


def test_the_program_judges_draws_and_reports_a_table(runs, expected, folder, tmp_path, inside, coarsely):
    path = write(tmp_path / "sweep.csv", table(runs, loss="val_loss"))
    whole, part = (
        json.loads(inside("verdict", place, "--target", 4096, "--json").stdout) for place in (folder, path)
    )
    assert inside("verdict", path).returncode == inside("verdict", folder).returncode
    (a,), (b,) = whole["studies"], part["studies"]
    assert (b["axis"], b["size"], b["name"]) == ("lr", "width", "sweep")
    assert b["optimum_lr"] == a["optimum_eta0"]
    assert {k: b[k] for k in ("status", "cause", "regret", "edge")} == {
        k: a[k] for k in ("status", "cause", "regret", "edge")
    }
    text = inside("verdict", path, "--plot", tmp_path / "figures").stdout
    assert "best lr" in text
    assert "width = 16" in text
    figure = (tmp_path / "figures" / "transfer.svg").read_text()
    assert all(f">{word}<" in figure for word in ("lr", "val_loss", "width = 64"))
    assert "epoch" not in figure
    page = json.loads(inside("report", path, "--json").stdout)
    assert page == {"schema": 1, "html": str(tmp_path / "sweep.html"), "figures": ["sweep: transfer"]}
    html = Path(page["html"]).read_text()
    assert b["reason"] in html.replace("\N{NO-BREAK SPACE}", " ")
    assert "Loss (val_loss) against lr" in html
    assert "Horizon" not in html
    assert "Collapse" not in html


def test_a_report_on_an_export_has_its_settings_and_its_curves(runs, folder, tmp_path):
    records = Store(folder).read()
    (tmp_path / "x.parquet").write_bytes(parquet_bytes(records))
    (own,), (table_,) = contents(folder)["studies"], contents(tmp_path / "x.parquet")["studies"]
    differ = {"command", "table"}
    assert {k: v for k, v in own.items() if k not in differ} == {
        k: v for k, v in table_.items() if k not in differ
    }
    assert (own["table"], table_["table"]) == (False, True)
    (tmp_path / "y.csv").write_text(csv_text(records))
    (bare,) = contents(tmp_path / "y.csv")["studies"]
    assert bare["settings"] == own["settings"]
    assert (bare["curves"], bare["epochs"]) == ([], [])


def test_missing_runs_of_a_table_are_named(runs, tmp_path):
    columns = table([run for run in runs if not (run["scale"] == 64 and run["seed"] == 1)])
    (document,) = contents(write(tmp_path / "x.csv", columns))["studies"]
    assert document["missing"]["named"] == ["width = 64, seed 1: every lr"]
    assert document["grids"] == {
        "width": [16, 32, 64, 128], "lr": sorted({r["eta0"] for r in runs}), "seed": [0, 1, 2]
    }  # fmt: skip
    assert document["settings"] == {}


# --- bad input -------------------------------------------------------------------------------------------

GOOD = (
    "width,lr,seed,loss\n"
    + "\n".join(f"{w},{lr},{s},1" for w in (8, 16) for lr in (0.1, 0.2) for s in (0, 1))
    + "\n"
)

BAD = {
    "no loss": (GOOD.replace("loss", "accuracy"), ["no column is the final loss", "--loss", "(there are 'width', 'lr', 'seed', 'accuracy')"]),
    "no size and no value": (GOOD.replace("width", "a").replace("lr", "b"), ["--size", "--axis"]),
    "sizes of text": (GOOD.replace("\n8,", "\nsmall,"), ["width must be numbers above 0 and finite, got 'small' in row 1"]),
    "a missing size": (GOOD.replace("\n8,", "\n,"), ["width must be numbers", "got ''"]),
    "one size": (GOOD.replace("\n16,", "\n8,"), ["width must have several sizes to compare, got only 8"]),
    "one value": (GOOD.replace("0.2", "0.1"), ["lr must have several values to compare, got only 0.1"]),
    "a value of zero": (GOOD.replace("0.2", "0"), ["lr must be numbers above 0 and finite, got '0' in row 3"]),
    "a negative value": (GOOD.replace("0.2", "-0.2"), ["lr must be numbers above 0 and finite, got '-0.2' in row 3"]),
    "an infinite value": (GOOD.replace("0.2", "inf"), ["lr must be numbers above 0"]),
    "losses of text": (GOOD.replace(",1\n", ",good\n"), ["loss must be numbers, got 'good' in row 1"]),
    "a negative loss": (GOOD.replace(",1\n", ",-1\n"), ["loss must be above 0", "got -1 in row 1"]),
    "a seed that is missing": (GOOD.replace("0.1,0,", "0.1,,"), ["seed must be present in every row, got none in row 1"]),
    "all problems together": (GOOD.replace("\n8,", "\nsmall,").replace("0.2", "-0.2").replace(",1\n", ",good\n"), ["width", "lr", "loss"]),
    "one run twice": (GOOD + "8,0.1,0,2\n", ["rows 1 and 9 are one run (width = 8, lr = 0.1, seed = 0)", "keep one"]),
    "no seed but several": (GOOD.replace("seed", "what"), ["rows 1 and 2 are one run (width = 8, lr = 0.1); they differ in 'what'"]),
    "another hyperparameter": (
        "".join(f"{line},{'wd' if i == 0 else 0.1 * (i % 2)}\n" for i, line in enumerate(GOOD.replace(",1,1", ",0,1").splitlines())),
        ["rows 1 and 2", "they differ in 'wd': keep the rows of one setting"],
    ),
    "no rows": ("width,lr,seed,loss\n", ["is empty"]),
    "nothing": ("", ["is empty"]),
    "a short row": (GOOD + "8,0.3\n", ["row 9 has 2 values, the header has 4"]),
    "a column twice": (GOOD.replace("seed", "lr"), ["must have different columns, got 'lr' more than once"]),
    "a state that says neither": (GOOD.replace("seed", "state").replace(",1,1", ",crashed,1"), ["state must be true or false", "'crashed'", "--diverged"]),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_tables_are_refused_in_one_line(what, tmp_path, inside):
    text, parts = BAD[what]
    path = tmp_path / "sweep.csv"
    path.write_text(text)
    found = inside("verdict", path)
    refused(found, f"denseam: table {path}: ", *parts)
    assert inside("report", path).returncode == 64
    assert not list(tmp_path.glob("*.html"))


FILES = {
    "x.parquet": (b"PAR1 and no more", "is damaged or not a Parquet file"),
    "x.csv": (b"\xff\xfe\x00width", "not text in UTF-8"),
    "x.csv.gz": (b"not packed", "cannot be read"),
    "x.jsonl": (b'{"width": 8}\n{"width": ', "line 2: not JSON"),
    "y.jsonl": (b"[1, 2]", "every row must be an object"),
    "x.txt": (b"width,lr", "must be a folder of results or a table (.csv, .tsv, .parquet, .jsonl"),
    "x": (b"", "must be a folder of results or a table"),
    "q.csv": (b'"width,lr', "cannot be read as CSV"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_cannot_be_read_are_refused_in_one_line(name, tmp_path, inside):
    content, part = FILES[name]
    (tmp_path / name).write_bytes(content)
    found = inside("verdict", tmp_path / name, "--json")
    refused(found, part)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ("--target 4", "target must be at least the smallest scale, width = 8, got 4"),
        ("--horizon", "horizon needs the loss curves"),
        ("--loss acc", "there is no column 'acc'"),
        ("--loss width --size width", "one column cannot be two things"),
        ("--axis seed --seed lr", "a hyperparameter cannot be called 'seed' here; rename its column"),
    ],
)
def test_bad_options_for_a_table_are_refused_in_one_line(options, part, tmp_path, inside):
    path = tmp_path / "sweep.csv"
    path.write_text(GOOD)
    found = inside("verdict", path, *options.split())
    refused(found, part)


@pytest.mark.parametrize(
    ("column", "cell", "part"),
    [
        ("scale", "inf", "scale must be whole numbers"),
        ("scale", "16.5", "scale must be whole numbers"),
        ("seed", "1e300", "seed must be whole numbers"),
        ("eta0", "-1", "eta0 must be at least 0"),
        ("swept", "x", "swept must name axes of a study"),
        ("status", "gone", "status must be one of finished, diverged"),
        ("final_mse", "-3", "final_mse must be at least 0"),
    ],
)
def test_a_wrong_cell_in_a_table_of_ours_is_refused(column, cell, part, folder, tmp_path, inside):
    names, *lines = csv.reader(io.StringIO(csv_text(Store(folder).read())))
    lines[2][names.index(column)] = cell
    path = tmp_path / "sweep.csv"
    path.write_text("".join(",".join(line) + "\n" for line in (names, *lines)))
    refused(inside("verdict", path), part)


@pytest.mark.parametrize("size", [1e308, 10**30, 2**60])
def test_sizes_beyond_whole_numbers_are_sizes(size):
    made = [
        {"width": w, "lr": lr, "seed": s, "loss": (math.log10(lr) + 2) ** 2 + 0.1 + 0.01 * s}
        for w in (64, 128, size)
        for lr in (1e-3, 1e-2, 1e-1)
        for s in range(3)
    ]
    (found,) = dam.verdict(made)
    assert found.to_json()["scale"] in (64, 128, float(size))
    with pytest.raises(InputError, match="width must be numbers above 0"):
        dam.verdict([row | {"width": 10**400} for row in made])


def test_a_target_below_the_base_of_a_folder_is_refused(folder, inside):
    found = inside("verdict", folder, "--target", 8)
    refused(found, "target must be at least the smallest scale, N = 16, got 8")
    assert inside("verdict", folder, "--target", 16).returncode != 64


def test_what_is_no_table_is_refused():
    for nothing in (3, None, [1, 2], [], {}, pd.DataFrame(), "nowhere.csv"):
        with pytest.raises(InputError):
            records_of(nothing)
    with pytest.raises(InputError, match="Arrow"):
        dam.verdict({"width": [1, 2], "lr": [1]})
