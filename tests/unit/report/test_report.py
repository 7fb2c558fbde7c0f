"""The page on a folder: what it holds, what it says of what is not there, and that nothing escapes it."""

import dataclasses
import json
import math
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from jinja2 import UndefinedError

import denseam
from denseam import BatchOnly, Epochs, MemoriesOnly, Proportional, SamplesOnly, logspace
from denseam.cli import main
from denseam.ground.errors import InputError
from denseam.report.command import sweep_command
from denseam.report.contents import contents
from denseam.report.page import environment, write_report
from denseam.report.wording import unbroken
from denseam.rules import prescription
from denseam.studies.documents import to_document
from denseam.studies.store import Store
from tests.sampled import sampled
from tests.synthetic import rows, study

PROGRAM = Path(sys.executable).with_name("denseam")
EVIL = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>&\u2028'\""


def stored(folder, *many):
    store = Store(folder)
    store.prepare()
    for part in many:
        store.write(part)
    return folder


def described(folder, *studies):
    """A folder with the documents of studies, as a sweep leaves them."""
    store = Store(folder)
    store.prepare()
    for asked in studies:
        store.write_study(asked.id, to_document(asked))
    return str(folder)


def page_of(folder, **options):
    report = write_report(folder, **options)
    return report.html.read_text(encoding="utf-8"), report


def data_in(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


# --- what it holds -------------------------------------------------------------------------------


def test_a_sweep_gives_verdict_curves_settings_and_command(tmp_path):
    asked = study()
    page, report = page_of(stored(tmp_path / "runs", rows(asked)))
    assert report.html == tmp_path / "runs" / "report.html"
    assert report.figures == ("relu-sgd: transfer", "relu-sgd: collapse")
    (judged,) = denseam.verdict(Store(tmp_path / "runs").read())
    assert judged.status == "TRANSFERS"
    assert unbroken(judged.reason) in page
    assert page.index(unbroken(judged.reason)) < page.index("Transfer</h3>"), "the verdict comes first"
    for part in (
        "regret, 95 % interval",
        "Collapse: ",
        "proportional",
        "eta_b_ratio",
        "denseam sweep",
        "63 runs",
    ):
        assert part in page
    assert "--probes all" in page, "says how to measure what was not"
    (drawn,) = data_in(page)["studies"]
    assert drawn["scales"] == [16, 32, 64]
    assert len(drawn["runs"]["key"]) == len(drawn["curves"]) == 63
    assert all(len(key) == 8 for key in drawn["runs"]["key"])
    assert drawn["runs"]["loss"].count(None) == 9, "nine runs diverged"
    assert len(set(drawn["colours"]["light"])) == len(set(drawn["colours"]["dark"])) == 3


def test_the_horizon_is_judged_at_about_twelve_epochs(tmp_path):
    asked = study(epochs=100)
    (found,) = contents(stored(tmp_path, rows(asked)))["studies"]
    epochs = [stop["epoch"] for stop in found["stops"]]
    assert 8 <= len(epochs) <= 12
    assert (epochs[0], epochs[-1]) == (1, 100)
    assert set(epochs) <= set(found["epochs"])
    assert len(found["epochs"]) <= 64
    records = Store(tmp_path).read()
    for stop in found["stops"][:-1]:
        (v,) = denseam.verdict(records, epoch=stop["epoch"])
        assert stop["status"] == v.status
        assert stop["optimum"] == pytest.approx(list(v.optimum.values()), rel=1e-3)
    assert found["stops"][-1]["status"] == found["verdict"]["status"]


def test_thinned_curves_are_drawn_as_far_as_they_go(tmp_path):
    from denseam.studies.records import thin

    asked = study(epochs=100)
    whole = rows(asked)
    (found,) = contents(stored(tmp_path, list(thin(whole, 8))[:30], whole[30:]))["studies"]
    assert found["epochs"][-1] == 100
    lost = [curve[0] is None for curve in found["curves"]]
    assert all((None in curve) == gone for curve, gone in zip(found["curves"], lost, strict=True))
    assert lost.count(True) == 9


def test_runs_of_growing_length_are_drawn_to_their_ends_and_judged_there(tmp_path):
    asked = study(regime=Epochs(16, 32, 80, 8), scales=(4, 8, 16))
    (found,) = contents(stored(tmp_path, rows(asked, moves=-0.1)))["studies"]
    assert (found["letter"], found["scales"], found["epochs"][-1]) == ("E", [4, 8, 16], 16)
    assert [stop["epoch"] for stop in found["stops"]] == [16], "no horizon: it is what grows"
    lengths = {found["scales"][scale]: set() for scale in found["runs"]["scale"]}
    for scale, curve in zip(found["runs"]["scale"], found["curves"], strict=True):
        if curve[0] is not None:
            ends = [e for e, loss in zip(found["epochs"], curve, strict=True) if loss is not None]
            lengths[found["scales"][scale]].add(ends[-1])
    assert lengths == {4: {4}, 8: {8}, 16: {16}}
    assert found["verdict"]["rows"][-1]["optimum"] < found["verdict"]["rows"][0]["optimum"]


def test_axis_and_target_reach_the_verdict(tmp_path):
    asked = study(eta0=(0.01, 0.03, 0.1), axes={"s1_0": (0.5, 1.0, 2.0)})
    stored(tmp_path, rows(asked))
    (by_rate,) = contents(tmp_path)["studies"]
    assert by_rate["axis"] == "eta0"
    assert "s1_0" in " ".join(by_rate["verdict"]["flags"]), "says where the other axis was held"
    assert len(by_rate["runs"]["key"]) == 27, "only runs at the held value are drawn"
    (by_scale,) = contents(tmp_path, axis="s1_0")["studies"]
    assert (by_scale["axis"], by_scale["values"]) == ("s1_0", [0.5, 1.0, 2.0])
    with pytest.raises(InputError, match="axis must be"):
        contents(tmp_path, axis="width")


def test_probes_are_means_over_seeds_by_quantity_value_and_scale(tmp_path):
    asked = study(probes=("Z", "dF11"), probe_steps=(0, 1, 2, 4))
    (found,) = contents(stored(tmp_path, rows(asked)))["studies"]
    probes = found["probes"]
    assert [q["name"] for q in probes["quantities"]] == ["Z", "dF11"]
    assert probes["steps"] == [[0, 1, 2, 4]] * 3
    assert probes["values"] == list(asked.eta0)
    assert probes["quantities"][0]["sizes"][0][2] == pytest.approx([1.14, 1.24, 1.34, 1.54])


def test_a_search_a_training_and_a_recall_are_shown(tmp_path):
    asked = study()
    stored(tmp_path / "runs", rows(asked), rows(study(scales=(16,), eta0=(1e-4,), seeds=1)))
    (v,) = denseam.verdict(rows(asked))
    low, high = [0.3] * 20, [0.5] * 20
    tuned = {
        "format": 2, "version": "0", "status": "TRANSFERS", "recommended": True, "eta0": 0.0316,
        "forecast_eta0": 0.0316, "interval_at_target": [0.027, 0.041], "predicted_regret": 0.001, "regret_bound": 0.0123,
        "tolerance": 0.02, "constants": {}, "base": 16, "scales": [16, 32, 64], "seeds": [3, 1, 1], "advice": None,
        "target": {"N": 512, "K": 1024, "P": 2560, "B": 256}, "parameters": {"s1": 0.04}, "data": "isotropic",
        "cost": {"runs": 64, "share": 0.02, "seconds": 3.0}, "verdict": v.to_json(), "others": {},
        "recipe": {"expected": {"low": low, "middle": low, "high": high}},
    }  # fmt: skip
    (tmp_path / "tuned.json").write_text(json.dumps(tuned))
    target = tmp_path / "target"
    target.mkdir()
    log = {"status": "finished", "diverged_at": None, "final_mse": 0.4, "heldout_mse": 0.41, "zero_mse": 1.0,
           "left_expected_at": None, "left_expected": None, "seconds": 2.0, "loss": [0.4] * 20}  # fmt: skip
    (target / "training.json").write_text(json.dumps(log))
    recalled = tmp_path / "recalled"
    recalled.mkdir()
    np.savez(recalled / "recalled.npz", noise=np.array([0.5]), energies=np.ones((1, 4, 3)), steps=np.full((1, 4), 2),
             converged=np.ones((1, 4), bool))  # fmt: skip
    png = b"\x89PNG\r\n\x1a\n" + b"0" * 50
    (recalled / "recall.png").write_bytes(png)
    (tmp_path / "tuned.png").write_bytes(png)
    page, report = page_of(tmp_path)
    assert report.figures[-3:] == ("target: training", "tuned.png", "recalled/recall.png")
    for part in ("Tuned recipe", "use η₀</dt><dd>0.0316", "expected in [0.027, 0.041]", "at most 1.2 % (tolerance 2 %)",
                 "within the range predicted by the small models", "data:image/png;base64,",
                 "63 of 64 runs are shown"):  # fmt: skip
        assert part in page
    (training,) = data_in(page)["trainings"]
    assert training["band"]["high"][0] == 0.5
    found = contents(tmp_path)
    assert found["studies"][0]["verdict"]["reason"] == unbroken(v.reason), (
        "only the judged runs, as the search saw them"
    )
    assert found["recalls"][0]["levels"][0]["at_rest"] == 4
    alone = contents(target)
    assert alone["trainings"][0]["band"], "the search lies above"
    assert not alone["studies"]
    assert "denseam sweep" in alone["absent"][0]["command"]


def search_document(**changes):
    """What `denseam tune` writes, without the runs."""
    (v,) = denseam.verdict(rows(study()))
    return {
        "format": 2, "version": "0", "status": "INCONCLUSIVE", "recommended": False, "eta0": None, "forecast_eta0": 0.05,
        "interval_at_target": [0.03, 0.09], "predicted_regret": 0.004, "regret_bound": 0.051, "tolerance": 0.02,
        "constants": {}, "scales": [16, 32, 64], "seeds": [3, 1, 1], "advice": "sweep the target itself",
        "target": {"N": 512, "K": 1024, "P": 2560, "B": 256}, "parameters": None, "data": "isotropic",
        "cost": {"runs": 64, "share": 0.02, "seconds": 3.0}, "verdict": v.to_json(), "others": {}, **changes,
    }  # fmt: skip


def test_a_search_that_refuses_shows_what_it_forecast(tmp_path):
    (tmp_path / "tuned.json").write_text(json.dumps(search_document()))
    page, _ = page_of(tmp_path)
    for part in ("No learning rate is recommended. sweep the target itself", "at most 5.1 % (tolerance 2 %)",
                 "forecast of η₀, not recommended</dt><dd>0.05"):  # fmt: skip
        assert part in page
    (tmp_path / "tuned.json").write_text(json.dumps(search_document(regret_bound=None)))
    assert "its cost" not in page_of(tmp_path)[0]


def test_a_search_of_an_earlier_version_is_shown(tmp_path):
    new = ("forecast_eta0", "interval_at_target", "predicted_regret", "regret_bound", "tolerance")
    early = {key: value for key, value in search_document().items() if key not in new}
    early |= {
        "format": 1,
        "status": "TRANSFERS",
        "recommended": True,
        "eta0": 0.0316,
        "eta0_ci": [0.03, 0.04],
        "seeds": 3,
    }
    (tmp_path / "tuned.json").write_text(json.dumps(early))
    page, report = page_of(tmp_path)
    assert not report.skipped
    assert "use η₀</dt><dd>0.0316" in page


def test_a_training_that_was_stopped_says_so(tmp_path):
    from denseam.model import checkpoint

    losses = np.linspace(1, 0.5, 300)
    checkpoint.write(tmp_path / "state.safetensors", {"losses": losses}, {"kind": "training", "step": 300})
    page, _ = page_of(tmp_path)
    assert "Not finished: 300 steps are saved" in page
    (training,) = data_in(page)["trainings"]
    assert len(training["x"]) <= 64
    assert training["loss"][-1] == 0.5


# --- what is not there ---------------------------------------------------------------------------


def test_a_half_finished_sweep_says_which_runs_are_missing(tmp_path):
    made = rows(study())
    gone = [r for r in made if r["scale"] == 64 and r["seed"] == 2 and r["eta0"] > 0.02]
    stored(tmp_path, [r for r in made if r not in gone])
    page, _ = page_of(described(tmp_path, study()))
    assert "4 runs missing" in page
    assert "N = 64, seed 2: eta0 = 0.0316, 0.1, 0.316, 1" in page
    assert "It trains 63 runs; 59 of them are in this folder." in page
    whole, _ = page_of(stored(tmp_path, gone))
    assert "runs missing" not in whole


def test_a_sweep_that_has_just_begun_gives_a_page(tmp_path):
    (tmp_path / "shards").mkdir()
    page, report = page_of(tmp_path)
    assert "There is no verdict" in page
    assert "none of its runs can be read" in page
    assert report.figures == ()


def test_damaged_files_are_passed_over_and_named(tmp_path):
    stored(tmp_path, rows(study()), rows(study(eta0=(2.0,))))
    shard = max((tmp_path / "shards").iterdir(), key=lambda p: p.stat().st_size)
    content = bytearray(shard.read_bytes())
    content[200] ^= 1
    shard.write_bytes(content)
    (tmp_path / "tuned.json").write_text("{")
    (tmp_path / "picture.png").write_text("no picture")
    (tmp_path / "recalled.npz").write_text("no archive")
    page, report = page_of(tmp_path)
    assert len(report.skipped) == 4
    for name in (shard.name, "tuned.json", "picture.png", "recalled.npz"):
        assert any(name in what for what in report.skipped)
        assert name in page
    assert "Skipped files" in page


@pytest.mark.parametrize("content", ["[]", "{}", '{"verdict": 3}', '{"loss": "x"}', "\x00"])
def test_foreign_documents_do_not_stop_it(tmp_path, content):
    stored(tmp_path, rows(study()))
    (tmp_path / "tuned.json").write_text(content)
    (tmp_path / "training.json").write_text(content)
    page, _ = page_of(tmp_path)
    assert "relu-sgd" in page


def test_nothing_of_ours_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        write_report(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="must be a folder of results or a table"):
        write_report(tmp_path / "file")
    with pytest.raises(InputError, match="contains nothing to report on"):
        write_report(tmp_path)
    stored(tmp_path / "inner", rows(study()))
    with pytest.raises(InputError, match="give one of its folders: inner"):
        write_report(tmp_path)
    with pytest.raises(InputError, match="is a folder"):
        write_report(tmp_path / "inner", tmp_path)
    with pytest.raises(InputError, match="there is no folder"):
        write_report(tmp_path / "inner", tmp_path / "none" / "x.html")
    assert not list(tmp_path.rglob("*.html"))


# --- nothing gets out, nothing gets in -----------------------------------------------------------


def test_text_from_files_is_escaped(tmp_path):
    made = [r | {"data": EVIL, "device": EVIL} for r in rows(study(name=EVIL))]
    page, _ = page_of(stored(tmp_path, made))
    assert "<img src=x" not in page
    assert "\u2028" not in data_text(page)
    assert page.count("<script") == page.count("</script") == 2
    assert data_in(page)["studies"][0]["name"] == EVIL


def data_text(page):
    return re.search(r'id="data">(.*?)</script>', page, re.S)[1]


def test_templates_escape_refuse_unknown_names_and_embed_json():
    def filled(template, **values):
        return environment().from_string(template).render(values)

    assert (
        filled('<a href="{{ x }}">{{ x }}</a>', x='"><i>')
        == '<a href="&#34;&gt;&lt;i&gt;">&#34;&gt;&lt;i&gt;</a>'
    )
    with pytest.raises(UndefinedError, match="'y' is undefined"):
        filled("{{ y }}", x=1)
    text = filled("{{ x|tojson }}", x={"x": "</script><!-- \u2028 & é"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"x": "</script><!-- \u2028 & é"}
    with pytest.raises(ValueError, match="JSON"):
        filled("{{ x|tojson }}", x=math.inf)


def test_the_page_asks_for_nothing_from_outside(tmp_path):
    page, _ = page_of(stored(tmp_path, rows(study())))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg|http-equiv", "", page)
    assert not re.findall(r"<[^>]*\s(?:style|on\w+)=", page), "the policy would not let them work"


@pytest.mark.parametrize("seeds", sampled([5, 50], few=[5]))
def test_a_page_on_twenty_thousand_runs_stays_small(seeds, tmp_path):
    """With five seeds it is two thousand runs."""
    asked = study(eta0=logspace(1e-4, 10, 100), seeds=seeds, scales=(16, 32, 64, 128), epochs=64)
    stored(tmp_path, rows(asked, edge=3.0))
    began = time.perf_counter()
    page, _ = page_of(tmp_path)
    assert len(page.encode()) < 1.2e5 * seeds
    assert time.perf_counter() - began < 60
    (drawn,) = data_in(page)["studies"]
    assert len(drawn["runs"]["key"]) == 400 * seeds
    assert sum(map(len, drawn["curves"])) <= 360_000, "curves are thinned, however long they were"
    assert len(drawn["stops"]) > 8


def test_beyond_that_seeds_are_left_out_of_the_drawing_and_it_says_so(monkeypatch, tmp_path):
    from denseam.report import studies

    monkeypatch.setattr(studies, "MOST_RUNS", 30)
    page, _ = page_of(stored(tmp_path, rows(study())))
    assert "21 of 63 runs are drawn" in page
    assert len(data_in(page)["studies"][0]["runs"]["key"]) == 21


# --- the command that reproduces it --------------------------------------------------------------


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "my 'data' (1).npy"
    np.save(path, np.random.default_rng(0).normal(size=(600, 40)).astype(np.float32))
    return str(path)


STUDIES = {
    "proportional": {},
    "odd ratios": {"regime": Proportional(2.37, 5.1, 0.08), "scales": (17, 33, 71)},
    "whole ratios": {"regime": Proportional(3, 5, 1)},
    "memories-only": {"regime": MemoriesOnly(16, 64, 16), "scales": (64, 128, 256), "activation": "softmax", "optimizer": "adam"},
    "batch-only": {"regime": BatchOnly(16, 32, 80), "scales": (4, 8, 16), "optimizer": "adam"},
    "samples-only": {"regime": SamplesOnly(16, 32, 8), "scales": (80, 160, 320)},
    "epochs": {"regime": Epochs(16, 32, 80, 8), "scales": (1, 2, 4)},
    "uncentred": {"centred": False},
    "identity": {"activation": "identity"},
    "power": {"power": 2.5},
    "axes": {"axes": {"s1_0": (0.5, 1.0), "momentum": (0.5,)}, "eta0": (0.01, 0.1)},
    "noise": {"noise": 0.123},
    "noise as an axis": {"axes": {"noise": (0.1, 0.7)}, "eta0": (0.01, 0.1)},
    "softmax": {"activation": "softmax", "optimizer": "adam", "axes": {"beta": (2.0,)}},
    "standard": {"parameterization": "standard", "bias_init": "normal"},
    "by hand": {"parameterization": "s2=K^-1, eta_W=1"},
    "grid": {"eta0": (0.001, 0.0123456789012345, 3.0)},
    "probes": {"probes": ("all",)},
    "some probes": {"probes": ("Z", "spectra"), "probe_steps": (0, 3)},
    "anisotropic": {"data": "anisotropic", "name": "-x; rm -rf '$HOME'"},
    "float64": {"precision": "float64"},
}  # fmt: skip


def asked_by(command, monkeypatch):
    """The studies that the program understands when it is given the command."""
    from denseam.cli import main

    taken = []

    def keep(asked, folder, **_options):
        taken.append((asked, folder))
        raise InputError("enough")

    monkeypatch.setattr("denseam.studies.runner.run_studies", keep)
    words = shlex.split(command)
    assert words[:2] == ["denseam", "sweep"]
    assert main(words[1:]) == 64
    ((asked, folder),) = taken
    return asked, folder


@pytest.mark.parametrize("case", STUDIES)
def test_the_command_gives_the_same_run_keys(case, monkeypatch, tmp_path):
    made = study(**STUDIES[case])
    out = described(tmp_path / "out dir", made)
    command = sweep_command(rows(made), out)
    assert command.checked, command.notes
    (asked,), folder = asked_by(command.text, monkeypatch)
    assert folder == out
    assert {s.key for s in asked.runs()} == {s.key for s in made.runs()}
    assert asked.name == made.name


@pytest.mark.parametrize(
    "prepared", [{}, {"unit_variance": True}, {"shrink": "pca", "heldout": 0.25}, {"heldout": 0.0}]
)
def test_the_command_rebuilds_data_and_its_preparation(vectors, prepared, monkeypatch, tmp_path):
    made = study(data=vectors, preparation=denseam.data.Preparation(**prepared), scales=(10, 20, 40))
    command = sweep_command(rows(made), described(tmp_path, made))
    assert command.checked, command.notes
    (asked,), _ = asked_by(command.text, monkeypatch)
    assert {s.key for s in asked.runs()} == {s.key for s in made.runs()}


def test_the_command_is_honest_about_what_it_cannot_give(vectors, tmp_path):
    def command_of(asked, made=None):
        return sweep_command(made or rows(asked), described(tmp_path / "out", asked))

    by_hand = dataclasses.replace(prescription("relu", "sgd"), name="mine", prescribed=False)
    command = command_of(study(parameterization=by_hand))
    assert (command.text, command.checked) == ("", False)
    assert "defined in Python" in command.notes[0]
    old = sweep_command(rows(study()), str(tmp_path / "old"))
    assert (old.text, old.checked) == ("", False)
    assert "no description of this study" in old.notes[0]
    other = [r | {"key": r["key"][::-1]} for r in rows(study())]
    assert command_of(study(), other).notes == ("It trains 0 of the 63 runs in this folder.",)
    moved = tmp_path / "moved.npy"
    moved.write_bytes(Path(vectors).read_bytes())
    asked = study(data=str(moved), scales=(10, 20, 40))
    gone = rows(asked)
    described(tmp_path / "out", asked)
    moved.unlink()
    command = sweep_command(gone, str(tmp_path / "out"))
    assert "Not checked" in command.notes[0]
    assert not command.checked
    assert "moved.npy" in command.text
    assert command_of(study(seeds=(4, 7))).checked


def test_a_damaged_or_senseless_description_gives_no_command(tmp_path):
    made = study()
    described(tmp_path / "out", made)
    (path,) = (tmp_path / "out" / "studies").iterdir()
    whole = path.read_text()
    path.write_text(whole.replace("scales", "wcales"))
    assert sweep_command(rows(made), str(tmp_path / "out")).text == ""
    path.write_text(whole)
    assert sweep_command(rows(made), str(tmp_path / "out")).checked
    path.unlink()
    for senseless in ({"wcales": [8]}, {"eta0": ["x"]}, {"axes": 1}, {"regime": {}}):
        Store(tmp_path / "out").write_study(made.id, to_document(made) | senseless)
        (path,) = (tmp_path / "out" / "studies").iterdir()
        assert "damaged" in sweep_command(rows(made), str(tmp_path / "out")).notes[0], senseless
        path.unlink()


# --- the program ---------------------------------------------------------------------------------


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)


def test_the_program_writes_the_page_and_says_where(tmp_path, capsys):
    folder = stored(tmp_path / "runs", rows(study()))
    found = run("report", folder, "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == {
        "schema": 1,
        "html": str(folder / "report.html"),
        "figures": ["relu-sgd: transfer", "relu-sgd: collapse"],
    }
    assert found.stderr == ""
    (folder / "shards" / "0123456789abcdef-0123456789abcdef.parquet").write_text("broken")
    capsys.readouterr()
    assert main(["report", str(folder), "--out", str(tmp_path / "page.html"), "--target", "4096"]) == 0
    people = capsys.readouterr()
    assert people.out == f"{tmp_path / 'page.html'}\n"
    assert "skipped 0123456789abcdef" in people.err
    (tmp_path / "empty").mkdir()
    for wrong, part in (("nowhere", "no such folder"), (tmp_path / "empty", "contains nothing")):
        assert main(["report", str(wrong)]) == 64
        said = capsys.readouterr()
        assert said.out == ""
        assert part in said.err
        assert len(said.err.strip().splitlines()) == 1


def test_a_real_sweep_is_reported_and_its_command_checked(tmp_path):
    asked = study(scales=(8, 12), eta0=(0.01, 0.1), seeds=2, epochs=2, probes=("Z",))
    denseam.sweep(asked, out=tmp_path)
    page, _ = page_of(tmp_path)
    assert "it trains exactly the runs on this page" in page
    assert "INCONCLUSIVE" in page
    assert data_in(page)["studies"][0]["probes"]["quantities"][0]["name"] == "Z"


def test_claims_of_figures_come_first(tmp_path):
    stored(tmp_path / "runs", rows(study()))
    claim = {"claim": f"It is so {EVIL}", "measured": "1.0 % apart", "verdict": "reproduced only if small"}
    figure = {"name": "a-figure", "paper_label": None, "claims": [claim]}
    (tmp_path / "a-figure.json").write_text(json.dumps(figure))
    finding = {"measured": "2.0 % apart", "verdict": "undecided"}
    read = {"claim": "It stays so.", "readings": {"frozen": finding, "normal": finding}}
    (tmp_path / "b-figure.json").write_text(json.dumps(figure | {"name": "b-figure", "claims": [read]}))
    (tmp_path / "other.json").write_text(json.dumps({"name": "something else"}))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "wrong.json").write_text(json.dumps(figure | {"claims": [{"claim": "without the rest"}]}))
    page, report = page_of(tmp_path)
    assert "reproduced only if small" in page
    assert page.count("It stays so.") == 2
    assert "<td>frozen</td><td>2.0 % apart</td>" in page
    assert EVIL not in page
    assert page.index(">Claims</h2>") < page.index(">Verdict</h2>")
    assert sorted(s.split(":")[0] for s in report.skipped) == ["broken.json", "wrong.json"]
    (tmp_path / "a-figure.json").unlink()
    (tmp_path / "b-figure.json").unlink()
    assert ">Claims</h2>" not in page_of(tmp_path)[0]
