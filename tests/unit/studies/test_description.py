"""One description: what is added to it appears everywhere, and is refused by one sentence wherever it comes from."""

import dataclasses
import json
import math
import os
import shutil
import subprocess
import sys

import pytest

import denseam as dam
from denseam.ground.errors import InputError
from denseam.rules.fields import InKey, parameters
from denseam.studies.description import AXES, DOCUMENT, Description
from denseam.studies.documents import from_document, from_file, sweep_line, to_document
from denseam.studies.records import COLUMNS
from denseam.studies.study import Study
from tests import ROOT
from tests.program import refused

BASE = {
    "activation": "relu",
    "optimizer": "adam",
    "scales": [8, 16],
    "eta0": [0.01, 0.1],
    "epochs": 2,
    "seeds": 2,
}

#: One field each: a hyperparameter that can be swept, and settings that all runs share.
HYPERPARAMETER = '    clip: float = _axis(Part.TRAINING, "Size that gradients are cut to.", 7.5, unit="their usual size")\n'
SETTING = '    shuffle: str = parameter(Part.DATA, Kind.CHOICE, "Order of samples.", "fresh", choices=("fresh", "same"))\n'
FLAG = '    ahead: bool = parameter(Part.TRAINING, Kind.FLAG, "Whether to look ahead.", False)\n'

#: What the program says with these fields, as one JSON document.
LOOK = """
import importlib.util, json, math, sys
from click.testing import CliRunner
from denseam.cli import app
from denseam.analysis.transfer import verdict
from denseam.studies.documents import from_document, from_file, sweep_line, to_document
from denseam.studies.records import row
from denseam.studies.runs import Outcome
from denseam.studies.records import COLUMNS
from denseam.studies.store import Store

base, folder, docs, *old = json.loads(sys.argv[1]), *sys.argv[2:]
new = ("clip", "shuffle", "ahead")
path = folder + "/study.toml"
with open(path, "w") as file:
    file.write("clip = [1.0, 2.0, 4.0]\\nshuffle = 'same'\\nahead = true\\n")
(study,) = from_file(path, base | {"scales": [8, 16, 32], "seeds": 3})
def outcome(spec):
    loss = 0.1 + math.log2(spec.values["clip"] / 2) ** 2 + abs(math.log10(spec.values["eta0"] / 0.1))
    return Outcome(spec, "finished", None, 1.0, loss, loss, 1.0, [1.0, loss], 0.1, "cpu")
rows = [row(study, outcome(spec)) for spec in study.runs()]
store = Store(folder + "/runs")
store.prepare()
store.write(rows)
(judged,) = verdict(store.read(), axis="clip")
spec = importlib.util.spec_from_file_location("generate", docs + "/generate.py")
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)
try:
    from_document(base | {"clip": -1, "shuffle": "no"})
except Exception as error:
    problem = str(error)
print(json.dumps({
    "help": CliRunner().invoke(app, ["sweep", "--help"]).output,
    "tune": CliRunner().invoke(app, ["tune", "--help"]).output,
    "document": to_document(study),
    "line": sweep_line(to_document(study), "out"),
    "swept": study.swept,
    "keys": [[s.key for s in from_document(base | more).runs()] for more in ({}, {"clip": 1}, {"shuffle": "same"})],
    "columns": {name: COLUMNS[name] for name in new},
    "row": {name: rows[0][name] for name in new},
    "earlier": [{name: Store(path).read()[0][name] for name in new} for path in old],
    "optimum": judged.optimum,
    "reference": generate.commands(),
    "problem": problem,
}))
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """The program with three more fields, each added by one line of its source."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(
        ROOT / "src" / "denseam", folder / "denseam", ignore=shutil.ignore_patterns("__pycache__")
    )
    path = folder / "denseam" / "studies" / "description.py"
    source = path.read_text(encoding="utf-8")
    for line, before in (
        (HYPERPARAMETER, "\n\n#: The axes of a study"),
        (SETTING + FLAG, "\n\n#: The name of the regime"),
    ):
        assert source.count(before) == 1
        source = source.replace(before, line + before)
    path.write_text(source, encoding="utf-8")
    sweeps = ROOT / "tests" / "unit" / "compatibility" / "7fe74f3" / "sweeps"
    old = [str(sweeps / name) for name in ("relu-sgd", "tanh-anisotropic-json")]  # a shard of each format
    done = subprocess.run(
        [sys.executable, "-c", LOOK, json.dumps(BASE), str(folder), str(ROOT / "docs"), *old],
        env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_field_is_an_option_with_its_help(extended):
    # a sweep tries several values; the target of a search has one
    for page, values in ((extended["help"], "VALUES"), (extended["tune"], "NUMBER")):
        words = " ".join(page.split())
        assert f"--clip {values} Size that gradients are cut to. [default: 7.5]" in words
        assert "--shuffle NAME Order of samples. [default: fresh]" in words


def test_a_field_is_a_key_of_documents_and_of_the_command(extended):
    assert extended["document"]["clip"] == [1.0, 2.0, 4.0]
    assert extended["document"]["shuffle"] == "same"
    assert "--clip 1:4:3" in extended["line"]
    assert "--shuffle same" in extended["line"]
    assert extended["swept"] == ["eta0", "clip"]


def test_a_field_changes_keys_only_where_it_is_set(extended):
    default, clipped, shuffled = extended["keys"]
    assert default == [spec.key for spec in from_document(BASE).runs()]
    assert not set(default) & set(clipped)
    assert not set(default) & set(shuffled)
    assert not set(clipped) & set(shuffled)


def test_a_field_is_a_column_and_an_axis_of_the_verdict(extended):
    assert extended["columns"] == {"clip": "f", "shuffle": "s", "ahead": "s"}
    assert extended["row"] == {"clip": 1.0, "shuffle": "same", "ahead": "yes"}
    earlier = {"clip": 7.5, "shuffle": "fresh", "ahead": "no"}  # runs from before the fields were there
    assert extended["earlier"] == [earlier, earlier]
    assert extended["optimum"] == {"8": 2.0, "16": 2.0, "32": 2.0}


def test_a_field_is_on_the_reference_page_and_checked(extended):
    assert "`--clip`" in extended["reference"]
    assert "Size that gradients are cut to." in extended["reference"]
    assert "clip must be at least 0 and finite, got -1" in extended["problem"]
    assert "shuffle must be 'fresh' or 'same', got 'no'" in extended["problem"]


# --- what there is -----------------------------------------------------------------------------------


def test_every_parameter_is_described():
    for key, p in DOCUMENT.items():
        assert p.help.endswith("."), key
        assert p.document == key
        assert p.required or p.default is not None or p.default_shown(), f"{key} has no default to show"


def test_what_existed_first_is_always_in_the_key():
    """A field that is in no key, or only where it is set, was added with that decision."""
    assert {name for name, p in AXES.items() if p.key is not InKey.ALWAYS} == {
        "decay",
        "decay_time",
        "warmup",
        "cooldown",
        "tau",
        "early",
        "burn_in",
    }
    always = {name for name, p in parameters(Description).items() if p.key is InKey.ALWAYS}
    assert always == {"optimizer", "epochs", "centred", "bias_init", "precision"}
    assert {name for name, p in parameters(Description).items() if p.key is InKey.IF_SET} == {
        "probes",
        "nesterov",
        "steps",
        "hide",
        "hide_by",
    }


STUDIES = [
    {},
    {"activation": "softmax", "softmax_beta": [0.5, 2.0], "noise": 0.3},
    {"activation": "relu", "power": 3, "centred": False, "bias_init": "normal", "seeds": [0, 4]},
    {
        "optimizer": "sgd",
        "momentum": [0, 0.9],
        "eta_b_ratio": 0,
        "name": "of my own",
        "probes": ["dW"],
        "probe_steps": [0, 1],
    },
    {
        "optimizer": "muon",
        "nesterov": False,
        "decay": [0.1, 0.3],
        "parameterization": "eta_W=max(K, N)^1/2*N^-1/2",
    },
    {"optimizer": "sgd", "momentum": 0.9, "nesterov": True},
    {"optimizer": "adamw", "schedule": "wsd", "warmup": [0, 0.1], "cooldown": 0.3, "decay_time": [1, 2, 4]},
    {"regime": "memories-only", "features": 8, "samples": 16, "batch": 4, "parameterization": "s2=K^-1/2"},
    {"kappa": 1.5, "rho": 3, "beta": 0.25, "precision": "float64", "data": "anisotropic"},
    {"activation": "identity", "centred": True, "noise": [0.25, 0.5], "epsilon": 1e-6},
]


@pytest.mark.parametrize("changes", STUDIES)
def test_documents_and_command_lines_give_the_same_study(changes, tmp_path):
    study = from_document(BASE | changes)
    document = to_document(study)
    again = from_document(json.loads(json.dumps(document)))
    assert again == study
    assert [s.key for s in again.runs()] == [s.key for s in study.runs()]
    line = sweep_line(document, "out")
    typed = typed_options(line)
    assert from_document(typed) == study
    file = tmp_path / "study.toml"
    file.write_text("\n".join(f"{k} = {json.dumps(v)}" for k, v in document.items()))
    assert from_file(file) == [study]


def typed_options(line):
    """The document that the program makes of a line, without running it."""
    import shlex

    from denseam.cli import app

    words = shlex.split(line)[2:]
    command = app.commands["sweep"]
    context = command.make_context("sweep", list(words))
    values = {k: v for k, v in context.params.items() if k in DOCUMENT and v is not None}
    return {k: DOCUMENT[k].parse(v) if isinstance(v, str) else v for k, v in values.items()}


def test_objects_travel_in_documents_but_not_on_the_command_line():
    rule = dataclasses.replace(dam.prescription("softmax", "adam"), name="mine", s2=dam.Power(K=0.4))
    study = from_document(BASE | {"activation": dam.softmax(1.7), "parameterization": rule})
    document = json.loads(json.dumps(to_document(study)))
    again = from_document(document)
    assert [s.key for s in again.runs()] == [s.key for s in study.runs()]
    assert sweep_line(document, "out") is None


BAD = [
    ("epochs", "0", 0, "epochs must be a whole number of at least 1, got 0"),
    ("epochs", "ten", "ten", "epochs must be a whole number of at least 1, got 'ten'"),
    ("noise", "-1", -1, "noise must be at least 0 and finite, got -1.0"),
    ("beta1", "1", 1, "beta1 must be at least 0 and below 1, got 1.0"),
    ("eta0", "0.1,x", "0.1,x", "eta0 must be low:high:count, or comma-separated numbers, got '0.1,x'"),
    ("eta0", "nan", math.nan, "eta0 must be above 0 and finite, got nan"),
    ("scales", "32,16", [32, 16], "scales must be in increasing order, got 32, 16"),
    ("seeds", "0", 0, "seeds must be one or more distinct whole numbers of at least 0, got 0"),
    ("precision", "f8", "f8", "precision must be 'float32', 'tf32', 'bf16' or 'float64', got 'f8'"),
    ("bias_init", "one", "one", "bias_init must be 'zero' or 'normal', got 'one'"),
    ("activation", "gelu", "gelu", "activation must be "),
    ("schedule", "cosin", "cosin", "schedule must be 'constant', 'cosine', 'linear' or 'wsd', or a function"),
    ("warmup", "1.5", 1.5, "warmup must be at least 0 and at most 1, got 1.5"),
    ("decay_time", "0", 0, "decay_time must be above 0 and finite, got 0.0"),
    (
        "decay_time",
        "1",
        1,
        "decay_time belongs to the optimizer 'sgd', 'adamw', 'lion', 'sign' or 'muon', got",
    ),
    ("cooldown", "0.1", 0.1, "cooldown belongs to the schedule 'wsd', got 'constant'"),
]


@pytest.mark.parametrize(("key", "word", "value", "sentence"), BAD)
def test_a_bad_value_gets_one_sentence_wherever_it_comes_from(key, word, value, sentence, tmp_path, inside):
    base = BASE | {key: value}
    file = tmp_path / "study.toml"
    lines = [f"{k} = {'nan' if v != v else json.dumps(v)}" for k, v in base.items()]
    file.write_text("\n".join(lines))
    typed = [w for k, v in (BASE | {key: word}).items()
             for w in (f"--{k.replace('_', '-')}", v if isinstance(v, str) else ",".join(map(str, v)) if isinstance(v, list) else v)]  # fmt: skip
    from_flags = inside("sweep", *typed, "--out", tmp_path / "out")
    from_toml = inside("sweep", file, "--out", tmp_path / "out")
    axes = {key: value} if key in AXES and key not in ("eta0", "noise") else {}
    with pytest.raises(InputError) as from_python:
        Study(**{k: v for k, v in base.items() if k not in axes}, axes=axes)
    assert (from_flags.returncode, from_toml.returncode) == (64, 64)
    assert sentence in from_flags.stderr
    assert sentence in from_toml.stderr
    assert sentence in str(from_python.value)
    assert not (tmp_path / "out").exists()


def test_types_of_a_file_are_checked(tmp_path, inside):
    """Each of these used to pass, or to end as an internal error."""
    for line, sentence in (
        ("noise = false", "noise must be low:high:count, or comma-separated numbers, got False"),
        ('uncentered = "no"', "uncentered must be true or false, got 'no'"),
        ('kappa = ""', "kappa must be above 0 and finite, got ''"),
        ("data = false", "data must be text, got False"),
        ("seeds = nan", "seeds must be"),
        ("[axes]\neta0 = [0.5]", "eta0 is given twice"),
    ):
        file = tmp_path / "study.toml"
        file.write_text('activation = "relu"\noptimizer = "sgd"\nscales = [8]\neta0 = 0.1\n' + line)
        refused(inside("sweep", file, "--out", tmp_path / "out"), sentence)


def test_every_setting_of_a_run_is_a_column():
    for name, p in {**parameters(Description), **AXES}.items():
        if name not in ("scales", "seeds", "probes", "name"):
            assert name in COLUMNS, p
