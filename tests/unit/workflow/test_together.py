"""Several hyperparameters tuned together: on made-up surfaces, so that nothing is trained but at the end."""

import dataclasses
import itertools
import json
import math
from collections.abc import Mapping

import numpy as np
import pytest

from denseam.analysis.forecast import BOUNDS, Entry, Setting
from denseam.ground.errors import InputError
from denseam.studies.runs import optimizer_of, scales_of
from denseam.workflow import search
from denseam.workflow.advice import Remedy
from denseam.workflow.axes import BATCH, Space, tunable
from denseam.workflow.goals import goal
from denseam.workflow.recipe import FILE, read_recipe
from denseam.workflow.together import lengths
from denseam.workflow.tuning import tune
from tests.program import run as denseam
from tests.synthetic import made_up_runs

#: As for a setting that the corpus has; a set needs half of these risks.
LIMITS = tuple(bound / 1.5 for bound in BOUNDS)
SETTING = Setting("relu", 1.0, "adam", "proportional")
CONSTANTS = {
    dataclasses.replace(SETTING, prescribed=p): Entry(0.0, 1.0, 0.0, LIMITS, 0.1, 20, 40)
    for p in (True, False)
}
WANTED = {"features": 1024, "epochs": 64}
SET = ("eta0", "beta1", "beta2", "batch")


@pytest.fixture(autouse=True)
def _known_constants(monkeypatch):
    monkeypatch.setattr("denseam.analysis.forecast.table", lambda: CONSTANTS)


@dataclasses.dataclass(frozen=True)
class Surface:
    """ln loss = ln 0.2 + ½ δᵀHδ, with δ the offset of a run from the best set of its size and length.

    Attributes
    ----------
    optimum
        Axis → its best value at the target, as a coordinate.
    drift, law
        How far it moves with every doubling of the size, and of the epochs.
    curvature, mixed
        H_ii of every axis, and the correlation of η0 with every other axis.
    scatter
        The distance between the optima of seeds.
    """

    optimum: Mapping[str, float]
    drift: Mapping[str, float] = dataclasses.field(default_factory=dict)
    law: Mapping[str, float] = dataclasses.field(default_factory=dict)
    curvature: float = 1.0
    mixed: float = 0.0
    scatter: float = 0.0
    flat: tuple[str, ...] = ()
    wanted: Mapping[str, int] = dataclasses.field(default_factory=lambda: WANTED)

    def best(self, axis, scale, epochs):
        size = math.log2(scale / self.wanted["features"])
        length = math.log2(epochs / self.wanted["epochs"])
        return self.optimum[axis] + size * self.drift.get(axis, 0.0) + length * self.law.get(axis, 0.0)

    def __call__(self, asked, spec):
        given = spec.shape.P * 0.1
        value = {**spec.values, BATCH: spec.shape.B / given}
        offsets = [
            tunable()[axis].coordinate(value[axis]) - self.best(axis, spec.scale, asked.epochs)
            for axis in self.optimum
            if axis not in self.flat
        ]
        offsets[0] -= self.scatter * (0, 1, -1)[spec.seed % 3]
        delta = np.array(offsets)
        H = self.curvature * np.eye(len(delta))
        H[0, 1:] = H[1:, 0] = self.mixed * self.curvature
        return (0.2 * math.exp(0.5 * delta @ H @ delta),) * 2


BEST = {"eta0": -1.4, "beta1": -0.8, "beta2": -1.9, "batch": -0.2}


@pytest.fixture
def searched(monkeypatch, tmp_path):
    """Tune on a surface; the options are those of `tune`."""
    count = itertools.count()

    def run(surface, **options):
        monkeypatch.setattr(search, "run_specs", made_up_runs(surface))
        folder = tmp_path / str(next(count))
        folder.mkdir()
        return tune("isotropic", folder, **{"tuned": SET, **WANTED, **options})

    return run


def coordinates(found):
    return dict(zip(found.whole.space.axes, found.whole.forecast.z, strict=True))


# --- the set at the target ---------------------------------------------------------------------------


@pytest.mark.parametrize("mixed", [0.0, 0.4])
def test_a_set_that_stays_is_found_and_recommended(searched, mixed):
    found = searched(Surface(BEST, mixed=mixed))
    assert found.recommended, found.advice
    assert (found.status, found.exit_code) == ("TRANSFERS", 0)
    assert coordinates(found) == pytest.approx(BEST, abs=0.03)
    assert set(found.constants) == {"beta1", "beta2"}
    assert found.constants["beta1"] == pytest.approx(1 - 10**-0.8, abs=0.02)
    # the batch is a share of the samples: that of the target follows
    assert pytest.approx(0.1 * 10**-0.2, rel=0.1) == found.goal.shape.B / 5120
    assert found.forecast.regret_bound == 0.02
    assert found.cost.share < 0.15
    assert {v["status"] for v in found.to_json()["others"].values()} == {"TRANSFERS"}


def test_axes_that_drift_with_size_are_continued_by_half(searched):
    drift = {"beta2": 0.1}
    found = searched(Surface(BEST, drift=drift), tolerance=0.2)
    seen = coordinates(found)
    doublings = math.log2(WANTED["features"] / max(found.scales))
    assert seen["beta2"] == pytest.approx(BEST["beta2"] - 0.05 * doublings, abs=0.03)
    assert seen["eta0"] == pytest.approx(BEST["eta0"], abs=0.03)


def test_the_length_moves_the_set_by_a_law_that_is_measured_and_applied(searched):
    law = {"eta0": -0.12, "beta2": -0.2}
    found = searched(Surface(BEST, law=law), tune_epochs=8, budget=0.4)
    assert list(found.whole.lengths) == [8, 16, 32, 64]
    assert coordinates(found) == pytest.approx(BEST, abs=0.04)
    powers = {a: v["power_of_length"][0] for a, v in found.to_json()["others"].items()}
    assert powers["eta0"] == pytest.approx(-0.12 / math.log10(2), abs=0.05)
    assert powers["beta1"] == pytest.approx(0.0, abs=0.05)
    assert found.to_json()["others"]["eta0"]["status"] == "DRIFTS"
    assert (found.to_json()["epochs"], found.to_json()["tune_epochs"]) == (64, 8)
    study, spec = found.recipe.run()
    assert (study.epochs, spec.scale) == (64, 1024)
    assert found.expected is None  # the small models were trained shorter


def test_one_rate_may_be_tuned_short_too(searched):
    found = searched(Surface({"eta0": -1.4}, law={"eta0": -0.1}), tuned=("eta0",), tune_epochs=16)
    assert coordinates(found)["eta0"] == pytest.approx(-1.4, abs=0.03)
    assert found.forecast.entry.families == 0  # no calibration for lengths


def test_a_law_that_is_only_noise_is_not_applied(searched):
    def noisy(asked, spec):
        loss, _ = Surface(BEST)(asked, spec)
        chance = np.random.default_rng([int(spec.key[:8], 16), asked.epochs]).standard_normal()
        return (loss * math.exp(0.004 * chance),) * 2

    found = searched(noisy, tune_epochs=16, budget=0.4)
    law = found.whole.forecast.law
    assert (np.abs(law.slope) < np.abs(law.measured_slope)).all()
    offset = np.array(list(coordinates(found).values())) - np.array(list(BEST.values()))
    assert 0.5 * offset @ offset < 0.02


def test_a_budget_ends_the_lengths_and_the_rest_is_extrapolated(searched):
    found = searched(Surface(BEST, law={"eta0": -0.1}), tune_epochs=1, scales=(64, 128, 256), budget=0.0006)
    assert 1 < len(found.whole.lengths) < 7
    assert coordinates(found)["eta0"] == pytest.approx(BEST["eta0"], abs=0.1)


def test_seeds_that_differ_raise_the_risk(searched):
    calm, wild = (searched(Surface(BEST, scatter=s), tolerance=0.2) for s in (0.0, 0.2))
    assert wild.forecast.predicted_regret > 2 * calm.forecast.predicted_regret


def test_an_axis_that_does_nothing_costs_nothing(searched):
    found = searched(Surface(BEST, flat=("beta2",)))
    assert found.recommended, found.advice
    seen = coordinates(found)
    assert all(seen[a] == pytest.approx(BEST[a], abs=0.05) for a in ("eta0", "beta1", "batch"))


def test_a_limit_of_a_range_is_said(searched):
    found = searched(Surface({**BEST, "batch": -1.5}))
    batch = found.to_json()["others"]["batch"]
    assert batch["at_bound"]
    assert batch["value"] == 0.25
    assert "limit of its range" in batch["reason"]


def test_eta0_is_found_far_from_where_the_defaults_have_it(searched):
    """The survey begins at the best rate for β1 = 0.9; the box is widened until the optimum is inside."""
    found = searched(Surface({**BEST, "eta0": -3.3, "beta1": 0.0}, mixed=0.4), tolerance=0.2)
    assert coordinates(found)["eta0"] == pytest.approx(-3.3, abs=0.1)


# --- refusals and recipes ----------------------------------------------------------------------------


def test_a_refusal_says_without_which_axes_it_would_hold(searched):
    found = searched(Surface(BEST, drift={"beta1": 0.25}))
    assert not found.recommended
    assert found.remedy.remedy is Remedy.LEAVE_AXES
    assert "beta1" in found.remedy.names
    again, sweep = found.commands
    assert "--tune eta0," in again
    assert "beta1" not in again
    assert f"--beta1 {found.constants['beta1']:g}" in sweep
    assert "--batch 512" in again  # as it was asked for
    with pytest.raises(InputError, match="--accept"):
        read_recipe(found.folder)


def test_a_refusal_after_short_trainings_suggests_longer_ones(searched):
    found = searched(Surface(BEST, law={"eta0": -0.4}), tuned=("eta0", "beta1"), tune_epochs=8)
    assert not found.recommended
    assert found.remedy.remedy is Remedy.TUNE_LONGER
    again, sweep = found.commands
    assert "--tune-epochs" not in again
    assert "epochs" not in sweep  # 64 are the default


def test_the_recipe_trains_the_whole_set(searched):
    found = searched(Surface(BEST))
    recipe = read_recipe(found.folder)
    _, spec = recipe.run()
    assert spec.shape == found.goal.shape
    assert spec.values["eta0"] == found.eta0
    assert {a: spec.values[a] for a in found.constants} == found.constants


def test_an_older_result_is_still_read(searched):
    found = searched(Surface(BEST), tuned=("eta0", "beta1"))
    path = found.folder / FILE
    document = json.loads(path.read_text())
    for key in ("swept_at", "epochs", "tune_epochs"):
        del document[key]
    document["others"] = {"beta1": {"name": "x", "axis": "beta1", "status": "TRANSFERS", "reason": ""}}
    path.write_text(json.dumps(document))
    assert read_recipe(found.folder).constants == found.constants


# --- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tuned": "eta0,beta3"}, "tune must name axes among .*, batch, got 'beta3'"),
        ({"tuned": "beta1"}, "tune must name eta0"),
        ({"tuned": "eta0,noise"}, "got 'noise'"),
        ({"tuned": "eta0,momentum"}, "momentum belongs to the optimizer"),
        ({"tuned": "eta0,decay_time"}, "decay_time belongs to the optimizer"),
        ({"tuned": "eta0,cooldown"}, "cooldown belongs to the schedule"),
        ({"tuned": "eta0,tau", "steps": 2}, "tau/T must be at most 1, .* overshoot allows it"),
        ({"tuned": "eta0,decay,decay_time", "optimizer": "adamw"}, "decay"),
        ({"tuned": "eta0,beta1", "trials": 3}, "trials must be a whole number of at least 16"),
        (
            {"tuned": "eta0,batch", "rho": 1.0, "beta": 1.0, "scales": (1, 2, 4)},
            "batch has one possible value",
        ),
        ({"tune_epochs": 0}, "tune_epochs must be a whole number of at least 1"),
        ({"tune_epochs": 65}, "tune_epochs must be at most the epochs of the target, 64, got 65"),
        ({"tuned": "eta0,beta1", "optimizer": "sgd", "probe": True}, "probe is for eta0 alone|beta1 belongs"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_anything_is_trained(tmp_path, options, words):
    with pytest.raises(InputError, match=words) as caught:
        tune("isotropic", tmp_path / "out", **{**WANTED, **options})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"regime": "batch-only", "batch": 64, "tuned": "eta0,batch"}, "the batch grows in the regime"),
        ({"regime": "epochs", "epochs": 32, "batch": 8, "tune_epochs": 4}, "tune_epochs does not belong"),
    ],
)
def test_what_grows_is_not_tuned_beside(tmp_path, options, words):
    sizes = {"features": 16, "memories": 32, "samples": 64}
    with pytest.raises(InputError, match=words):
        tune("isotropic", tmp_path / "out", **sizes, **options)


def test_a_batch_above_the_samples_is_refused():
    with pytest.raises(InputError, match=r"batch \(B\) must be at most samples \(P\) = 64"):
        goal("isotropic", regime="memories-only", features=16, memories=512, samples=64, batch=65)


def test_all_that_is_wrong_is_said_together(tmp_path):
    with pytest.raises(InputError) as caught:
        tune("isotropic", tmp_path / "out", tuned="beta3", trials=1, **WANTED)
    assert len(caught.value.problems) == 3


# --- the space ---------------------------------------------------------------------------------------


def test_spans_come_from_the_fields():
    assert tunable()["beta2"].value(-2.0) == 0.99
    assert tunable()["eta0"].value(-3 / 8) == search.rate(-3)
    for span in tunable().values():
        low, high = span.lattice
        for k in {low, (low + high) // 2, high}:
            value = span.value(k * span.step)
            assert span.low * (1 - 1e-9) <= value <= span.high * (1 + 1e-9)
            assert span.coordinate(value) == pytest.approx(k * span.step, abs=1e-6)


def test_a_batch_has_only_values_that_every_size_can_have():
    wanted = goal("isotropic", features=64, scales=(8, 16, 32), rho=5.0, beta=0.05)
    assert (
        Space.of(wanted, ("eta0", "batch")).batches == (1, 2)
        or min(Space.of(wanted, ("eta0", "batch")).batches) >= -1
    )
    whole = goal("isotropic", features=64, rho=5.0, beta=0.5)
    assert max(Space.of(whole, ("eta0", "batch")).batches) == 1


def test_every_axis_of_a_point_reaches_its_optimizer():
    """Also those that are zero by default: a study must have the axes of its runs."""
    wanted = goal("isotropic", features=32, scales=(8, 12, 16), optimizer="sgd", epochs=8)
    space = Space.of(wanted, ("eta0", "momentum", "decay_time", "warmup", "batch"))
    points = [(-12, -4, 4, 1, 0), (-14, -8, 0, 2, 1)]
    runs, keys = space.runs(points, 8, 2, 8)
    specs = {spec.key: (study, spec) for study, specs in runs for spec in specs}
    for point in points:
        values = space.values(point)
        for seed, key in enumerate(keys[point]):
            study, spec = specs[key]
            optimizer = optimizer_of(study, spec, scales_of(study, spec))
            assert spec.seed == seed
            assert optimizer.momentum == values["momentum"]
            rate, steps = scales_of(study, spec).eta_W, study.updates(spec.shape)
            assert rate * optimizer.decay == pytest.approx(1 / (values["decay_time"] * steps))
            assert spec.values["warmup"] == values["warmup"]
            assert 4 * values["batch"] == spec.shape.B


@pytest.mark.parametrize(
    ("short", "long", "expected"),
    [(8, 64, (8, 16, 32, 64)), (8, 12, (8, 12)), (10, 45, (10, 21, 45)), (1, 2, (1, 2))],
)
def test_lengths_about_double(short, long, expected):
    assert lengths(short, long) == expected


# --- trained -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_set_is_tuned_and_trained_by_the_program(tmp_path):
    line = [
        "isotropic", "--features", "64", "--epochs", "4", "--tune-epochs", "2", "--scales", "8,12,16",
        "--tune", "eta0,beta1,batch", "--trials", "16", "--tolerance", "0.9", "--budget", "1",
    ]  # fmt: skip
    folder = tmp_path / "set"
    ran = denseam("tune", *line, "--out", str(folder), "--quiet")
    assert "best values at each size, 2 epochs; and at N = 16 with more epochs" in ran.stdout
    assert (folder / "axes.png").stat().st_size > 10_000
    document = json.loads((folder / FILE).read_text())
    again = denseam("tune", *line, "--out", str(folder), "--json")
    repeated = json.loads(again.stdout)
    assert repeated["others"] == document["others"]
    assert "runs to train" not in again.stderr.replace("0 runs to train", "")
    trained = denseam("train", "isotropic", "--tuned", str(folder), "--accept", "--json")
    assert trained.returncode == 0
    assert json.loads(trained.stdout)["eta0"] == pytest.approx(document["forecast_eta0"])


def test_a_search_has_the_runs_of_its_points_and_not_of_their_grid():
    """Forty points of six axes would be a grid of more runs than a study can have."""
    target = goal("isotropic", features=64, epochs=8, optimizer="adamw", schedule="linear")
    space = Space.of(target, ("eta0", "decay_time", "warmup", "beta1", "beta2"))
    low, high = space.box((-40, 40))
    points = [tuple(int(v) for v in np.rint(np.linspace(low, high, 40)[k])) for k in range(40)]
    points = list(dict.fromkeys(points))
    runs, keys = space.runs(points, 16, 3, 4)
    assert sum(len(specs) for _, specs in runs) == 3 * len(points)
    assert {key for of_point in keys.values() for key in of_point} == {
        s.key for _, specs in runs for s in specs
    }
    ((study, _),) = runs
    with pytest.raises(InputError, match="at most 1000000 runs"):
        study.runs()
