"""The commands that are printed mean what was asked: each is read back by the program itself."""

import dataclasses
import os
import shlex

import numpy as np
import pytest

import denseam as dam
from denseam.cli import main
from denseam.ground.errors import InputError
from denseam.studies.documents import to_document
from denseam.workflow.advice import TARGET_SWEEP, Advice, Remedy, commands
from denseam.workflow.command_lines import sweep_target_line, train_line, tune_line
from denseam.workflow.goals import goal


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Data under names that a shell would take apart."""
    folder = tmp_path_factory.mktemp("my data; (1)")
    rng = np.random.default_rng(0)
    np.save(folder / "it's $HOME.npy", rng.standard_normal((600, 64)).astype(np.float32))
    np.save(folder / "-x.npy", rng.standard_normal((600, 64)).astype(np.float32))
    np.save(folder / "images.npy", rng.integers(0, 255, (1000, 14, 14), np.uint8))
    before = os.getcwd()
    os.chdir(folder)  # where relative paths begin
    yield {"vectors": str(folder / "it's $HOME.npy"), "dash": "-x.npy", "images": str(folder / "images.npy")}
    os.chdir(before)


GOALS = {
    "gaussian": {"data": "isotropic", "features": 512, "optimizer": "sgd", "momentum": 0.9, "epochs": 3},
    "odd ratios": {"data": "anisotropic", "features": 500, "kappa": 2.37, "rho": 5.1, "beta": 0.08, "noise": 0.123},
    "sizes": {"data": "isotropic", "features": 300, "memories": 451, "samples": 1234, "batch": 77},
    "a file": {"data": "vectors"},
    "prepared": {"data": "vectors", "shrink": "pca", "unit_variance": True, "heldout": 0.25, "epochs": 5},
    "standardized": {"data": "vectors", "shrink": "orthonormal", "standardize": True, "batch": 50},
    "all samples": {"data": "vectors", "heldout": 0.0, "rho": 9.3},
    "a path with a dash": {"data": "dash"},
    "images, given sizes": {"data": "images", "scales": (9, 16, 196), "eta_c_ratio": 0.0},
    "memories-only": {"data": "vectors", "memories": 2048, "heldout": 0.0, "shrink": "none"},
    "memories-only, gaussian": {
        "data": "isotropic", "regime": "memories-only", "features": 16, "memories": 1024, "samples": 64, "batch": 16,
        "activation": "softmax", "scales": "128,256,512",
    },
    "batch-only": {"data": "vectors", "regime": "batch-only", "batch": 128, "memories": 99, "optimizer": "sgd"},
    "samples-only": {"data": "isotropic", "regime": "samples-only", "features": 16, "samples": 512, "epochs": 5},
    "epochs": {"data": "isotropic", "regime": "epochs", "features": 16, "samples": 64, "epochs": 512},
    "a rule by hand": {
        "data": "isotropic", "features": 512, "parameterization": "s2=K^-1, eta_W=1", "bias_init": "normal",
        "centred": False,
    },
    "softmax": {"data": "vectors", "activation": "softmax", "softmax_beta": 2.5, "beta1": 0.5, "epsilon": 1e-06},
    "softmax as an object": {"data": "vectors", "activation": dam.softmax(0.3)},
    "relu squared": {"data": "isotropic", "features": 512, "power": 2.0, "precision": "float64", "s1_0": 0.75},
    "identity, centred": {"data": "isotropic", "features": 512, "activation": "identity", "centred": True},
}  # fmt: skip


@pytest.fixture(params=GOALS)
def wanted(request, files):
    settings = dict(GOALS[request.param])
    data = settings.pop("data")
    return goal(files.get(data, data), **settings)


@pytest.fixture
def understood(monkeypatch):
    """What the program would do, given a command: the arguments of the function that it calls."""
    called = []

    def instead(*arguments, **options):
        called.append((arguments, options))
        raise InputError("enough")

    for function in ("tuning.tune", "target.train_target"):
        monkeypatch.setattr(f"denseam.workflow.{function}", instead)
    monkeypatch.setattr("denseam.studies.runner.run_studies", instead)

    def read(line):
        assert "\n" not in line
        program, *words = shlex.split(line)
        assert program == "denseam"
        called.clear()
        assert main(words) == 64
        assert called, f"not understood: {line}"
        return called[0]

    return read


def same(one, other):
    """Whether two goals are trained and tuned alike."""
    keys = [[spec.key for spec in each.study.runs()] for each in (one, other)]
    return (
        keys[0] == keys[1]
        and to_document(one.study) == to_document(other.study)
        and (one.ladder, one.given) == (other.ladder, other.given)
    )


def test_tune_means_the_same_goal(wanted, understood, tmp_path):
    out = tmp_path / "a folder"
    line = tune_line(wanted, out, seeds=5, budget=0.15)
    (found, folder), options = understood(line)
    assert same(found, wanted), line
    assert folder == str(out)
    assert (options["seeds"], options["budget"], options["tuned"]) == (5, 0.15, ["eta0"])


def test_sizes_are_shorter_than_ratios(files, tmp_path):
    assert " --kappa 2 --samples 540 --batch 32 " in tune_line(goal(files["vectors"]), tmp_path)
    odd = goal("isotropic", features=500, rho=5.1234567)  # not a whole number of samples
    assert " --rho 5.1234567 " in tune_line(odd, tmp_path)


def test_the_sweep_means_the_same_target(wanted, understood, tmp_path):
    line = sweep_target_line(wanted, tmp_path / "s", 0.0312, constants={"s2_0": 0.5})
    (((found,), folder), _) = understood(line)
    assert folder == str(tmp_path / "s")
    assert found.scales == (wanted.target,)
    assert found.regime.shape(wanted.target) == wanted.shape
    assert (found.eta0[0], found.eta0[-1], len(found.eta0)) == (0.0031, 0.31, 9)
    expected = wanted.at((wanted.target,), found.eta0, 3, s2_0=(0.5,))
    assert [spec.key for spec in found.runs()] == [spec.key for spec in expected.runs()]


def test_train_means_the_same_model(wanted, understood, tmp_path):
    (recipe, folder), _ = understood(train_line(wanted, tmp_path / "model", 0.0123))
    assert folder == str(tmp_path / "model")
    assert recipe.run()[1].key == dam.Recipe(wanted.study, 0.0123).run()[1].key


def test_what_was_defined_in_python_has_no_line(tmp_path):
    rule = dataclasses.replace(
        dam.prescription("relu", "adam"), name="mine", s2=dam.Power(K=0.4), prescribed=False
    )
    wanted = goal("isotropic", features=512, parameterization=rule)
    assert tune_line(wanted, tmp_path) is None
    assert train_line(wanted, tmp_path, 0.1) is None
    assert sweep_target_line(wanted, tmp_path, 0.1) is None
    given = commands(Advice(Remedy.SWEEP_TARGET), wanted, tmp_path, around=0.1, constants={}, options={})
    assert given == ()


# --- the commands of a refusal -----------------------------------------------------------------------


REFUSED = {
    "features": 512, "epochs": 3, "activation": "softmax", "optimizer": "sgd", "momentum": 0.5, "softmax_beta": 2.0,
    "parameterization": "eta_W=K^3", "bias_init": "normal", "centred": False,
}  # fmt: skip
SIMPLE = {"features": 512, "epochs": 3, "optimizer": "sgd"}
OPTIONS = {
    "seeds": 5, "budget": 0.1, "tolerance": 0.03, "by": "heldout", "probe": False, "tune": ("eta0", "s1_0", "s2_0"),
    "trials": 32,
}  # fmt: skip


@pytest.mark.parametrize(
    ("remedy", "settings", "changes"),
    [
        (
            Advice(Remedy.TAKE_ADAM), REFUSED,
            {"optimizer": "adam", "momentum": None, "parameterization": None},
        ),
        (Advice(Remedy.TAKE_PRESCRIPTION, names=("eta_W=K^3",)), REFUSED, {"parameterization": None}),
        (Advice(Remedy.CENTRE), SIMPLE | {"centred": False}, {"centred": None}),
        (Advice(Remedy.ZERO_BIASES), SIMPLE | {"bias_init": "normal"}, {"bias_init": None}),
        (Advice(Remedy.LEARN_MORE), SIMPLE, {"epochs": 6}),
        (Advice(Remedy.LEAVE_AXES, names=("s2_0",)), SIMPLE, {"tune": ["eta0", "s1_0"]}),
        (Advice(Remedy.MORE_BUDGET, letter="N", scale=256, budget=0.25), SIMPLE, {"budget": 0.25}),
        (Advice(Remedy.PROBE), SIMPLE, {"probe": True}),
        (
            Advice(Remedy.OTHER_SIZES, letter="N", scale=256, scales=(32, 64, 128, 256)),
            SIMPLE | {"scales": (32, 64, 128)}, {"scales": (32, 64, 128, 256)},
        ),
    ],
    ids=lambda value: value.remedy.name if isinstance(value, Advice) else None,
)  # fmt: skip
def test_a_refusal_gives_the_search_with_its_remedy(remedy, settings, changes, understood, tmp_path):
    wanted = goal("isotropic", **settings)
    again, sweep = commands(remedy, wanted, tmp_path, around=0.1, constants={"s1_0": 2.0}, options=OPTIONS)
    changes = dict(changes)
    own = {key: changes.pop(key) for key in ("tune", "budget", "probe") if key in changes}
    (found, folder), options = understood(again)
    expected = goal("isotropic", **settings | changes)
    assert same(found, expected), again
    assert folder == str(tmp_path), "the same folder, so that it resumes"
    assert options["tuned"] == own.get("tune", list(OPTIONS["tune"]))
    assert options["budget"] == own.get("budget", OPTIONS["budget"])
    assert (options["seeds"], options["trials"]) == (5, 32)
    assert (options["tolerance"], options["by"]) == (0.03, "heldout")
    assert options["probe"] is own.get("probe", False)
    (((target,), where), _) = understood(sweep)
    assert where == str(tmp_path / TARGET_SWEEP)
    assert target.id == wanted.study.id, "the target as it was asked for"
    assert target.grid["s1_0"] == (2.0,)
    assert remedy.describe()


def test_where_no_size_is_left_only_the_target_can_tell(tmp_path):
    wanted = goal("isotropic", **SIMPLE)
    (line,) = commands(Advice(Remedy.SWEEP_TARGET), wanted, tmp_path, around=0.1, constants={}, options={})
    assert line.startswith("denseam sweep ")
    none = commands(Advice(Remedy.SWEEP_TARGET), wanted, tmp_path, around=None, constants={}, options={})
    assert none == ()
