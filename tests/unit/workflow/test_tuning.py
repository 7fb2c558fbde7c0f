"""Goals, the search, its prediction and its price."""

import json
import math
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import denseam as dam
from denseam.analysis.prediction import Expected, expected_curve
from denseam.data import Preparation
from denseam.ground.errors import InputError
from denseam.studies.executors import RunsSetAside
from denseam.studies.shards import run_shard
from denseam.studies.store import Store
from denseam.training.progress import Progress
from denseam.workflow.advice import Advice, Remedy, advise
from denseam.workflow.data_use import data_use
from denseam.workflow.goals import goal
from denseam.workflow.planning import Machine, plan
from denseam.workflow.recipe import FILE, Origin, Recipe, read_recipe, write_result
from denseam.workflow.tuning import tune

SMALL = {"features": 64, "epochs": 6, "kappa": 2.0, "rho": 4.0, "beta": 0.25}
#: So small models are too noisy for the usual one.
TOLERANCE = 0.9


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """Clustered vectors of 64 features, in a file."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((12, 64))
    x = centres[rng.integers(12, size=600)] + 0.3 * rng.standard_normal((600, 64))
    path = tmp_path_factory.mktemp("vectors") / "vectors.npy"
    np.save(path, x.astype(np.float32))
    return str(path)


# --- goals -------------------------------------------------------------------------------------------


def test_the_regime_follows_from_what_is_asked(vectors):
    whole = goal(vectors)
    assert whole.study.regime == dam.Proportional(2.0, 540 / 64, 32 / 540)
    assert (whole.target, whole.letter, whole.shape) == (64, "N", dam.Shape(64, 128, 540, 32))
    few = goal(vectors, rho=5.0)
    assert few.study.regime == dam.Proportional(2.0, 5.0, 0.1)
    only = goal(vectors, memories=2048)
    assert only.study.regime == dam.MemoriesOnly(64, 540, 32)
    assert (only.target, only.letter, only.shape.K) == (2048, "K", 2048)
    both = goal(vectors, features=64, memories=192, samples=256, batch=64)
    assert both.shape == dam.Shape(64, 192, 256, 64)
    assert both.study.regime.name == "proportional"


def test_a_regime_of_one_size_takes_that_of_the_target(vectors):
    batch = goal(vectors, regime="batch-only", batch=256, memories=100)
    assert batch.study.regime == dam.BatchOnly(64, 100, 540)
    assert (batch.target, batch.letter, batch.ladder) == (256, "B", (32, 64, 128))
    # The same samples cross the same weights, however many there are in a batch.
    assert batch.operations(64) == pytest.approx(batch.operations(128))
    samples = goal(vectors, regime="samples-only")
    assert samples.study.regime == dam.SamplesOnly(64, 128, 32)
    assert (samples.target, samples.letter, samples.ladder) == (540, "P", (34, 68, 135, 270))
    longer = goal("isotropic", regime="epochs", features=16, epochs=256)
    assert longer.study.regime == dam.Epochs(16, 32, 80, 8)
    assert (longer.target, longer.letter, longer.ladder) == (256, "E", (32, 64, 128))
    assert longer.operations(64) * 2 == longer.operations(128)


def test_all_samples_are_used_and_the_batch_stays_what_it_is(tmp_path):
    for samples, batch in ((200, 32), (4000, 32), (30, 27)):
        np.save(tmp_path / f"{samples}.npy", np.random.default_rng(0).standard_normal((samples, 64)))
        wanted = goal(str(tmp_path / f"{samples}.npy"))
        assert wanted.shape == dam.Shape(64, 128, round(0.9 * samples), batch)
        half = wanted.study.regime.shape(32)
        assert (round(0.45 * samples), round(batch / 2)) == (half.P, half.B)
    assert goal(str(tmp_path / "4000.npy"), batch=100, samples=500).shape == dam.Shape(64, 128, 500, 100)
    assert goal("isotropic", features=64).shape == dam.Shape(64, 128, 320, 32)


def test_the_ladder_comes_from_the_data(vectors, tmp_path):
    assert goal(vectors).ladder == (8, 16, 32)
    assert goal(vectors, features=50).ladder == (8, 15, 27)  # in shorter steps: they would end at 6
    assert goal("isotropic", features=512).ladder == (32, 64, 128, 256)
    assert goal("isotropic", features=1000).ladder == (31, 62, 125, 250, 500)
    memories = goal("isotropic", regime="memories-only", features=16, memories=1024, samples=64, batch=16)
    assert memories.ladder == (32, 64, 128, 256, 512)


@pytest.mark.parametrize(
    ("image", "ladder"),
    [
        ((28, 28), (49, 98, 196, 392)),  # blocks of 1×2, 2×2, 2×4 and 4×4
        ((14, 14), (25, 49, 98)),
        ((12, 12, 3), (27, 54, 108, 216)),
    ],
)
def test_images_shrink_by_blocks_to_about_a_half_a_quarter_and_so_on(image, ladder, tmp_path):
    np.save(tmp_path / "images.npy", np.random.default_rng(0).integers(0, 255, (1000, *image), np.uint8))
    assert goal(str(tmp_path / "images.npy")).ladder == ladder
    given = goal(str(tmp_path / "images.npy"), scales=ladder[:3])
    assert (given.ladder, given.given) == (ladder[:3], True)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"data": "isotropic"}, "features is needed"),
        (
            {"regime": "wide"},
            "regime must be 'proportional', 'memories-only', 'batch-only', 'samples-only', 'epochs', 'steps-only' or 'proportional-steps'",
        ),
        ({"features": 0}, "features must be a whole number"),
        ({"memories": 2.5}, "memories must be a whole number"),
        ({"regime": "memories-only"}, "memories is needed"),
        (
            {"regime": "memories-only", "memories": 512, "kappa": 2.0},
            "kappa belongs to the regime 'proportional'",
        ),
        ({"regime": "batch-only"}, "batch is needed: the size of the target"),
        ({"regime": "epochs"}, "epochs is needed: the size of the target"),
        ({"regime": "epochs", "epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"regime": "batch-only", "batch": 541}, r"batch \(B\) must be at most samples \(P\) = 540"),
        ({"regime": "samples-only", "rho": 2.0}, "rho belongs to the regime 'proportional'"),
        ({"features": 64, "memories": 512, "kappa": 2.0}, "memories and kappa mean the same"),
        ({"samples": 100_000}, "540 samples to train on"),
        ({"features": 128}, "only 64 features"),
        ({"scales": (16, 32, 128)}, "target 64 is smaller than the base"),
        ({"scales": (16, 32)}, "scales must be at least 3"),
        ({"features": 16}, "too small to be tuned at smaller sizes"),
        ({"features": 4}, "too small to be tuned at smaller sizes"),  # below the smallest there is
        ({"preparation": Preparation(shrink="none")}, "too small to be tuned at smaller sizes"),
        ({"optimizer": "adagrad"}, "optimizer must be"),
        ({"kappa": 0.0}, "kappa must be above 0"),
        ({"beta": 0.0}, "beta must be above 0"),
        ({"rho": 0.0}, "rho must be above 0"),
        (
            {"noise": (0.25, 0.5)},
            "noise must be one value, since one model is trained in the end, got 0.25, 0.5",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(vectors, asked, words):
    with pytest.raises(InputError, match=words) as caught:
        goal(**{"data": vectors, **asked})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tuned": ("eta0", "gamma")}, "tune must name axes among"),
        ({"tuned": ("s1_0",)}, "must name eta0"),
        ({"seeds": 2}, "seeds must be a whole number from 3"),
        ({"budget": 0.0}, "budget must be above 0"),
        ({"tolerance": 0.0}, "tolerance must be above 0 and below 1"),
        ({"by": "validation"}, "by must be 'training' or 'heldout'"),
        ({"probe": True}, "probe is for the optimizer 'sgd'"),
        ({"trials": 3}, "trials"),
        ({"tuned": ("eta0", "momentum"), "optimizer": "adam"}, "momentum belongs to the optimizer 'sgd'"),
        ({"tuned": ("eta0", "beta")}, "beta belongs to the activation 'softmax'"),
    ],
)
def test_a_search_that_cannot_be_writes_nothing(tmp_path, options, words):
    with pytest.raises(InputError, match=words):
        tune("isotropic", tmp_path / "out", **SMALL, **options)
    assert not (tmp_path / "out").exists()


def test_what_is_not_held_out_cannot_be_tuned_for(vectors, tmp_path):
    whole = {"preparation": Preparation(heldout=0.0)}
    with pytest.raises(InputError, match="by 'heldout' needs held-out samples: heldout must be above 0"):
        tune(vectors, tmp_path / "out", by="heldout", **whole)


# --- the search --------------------------------------------------------------------------------------


class Counting(Progress):
    """Counts the runs that are trained."""

    def __init__(self):
        self.trained = 0

    def finished(self, outcomes):
        self.trained += len(outcomes)


def found_in(folder):
    document = json.loads((folder / FILE).read_text())
    document["cost"].pop("seconds")
    return document


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("searched")
    return tune("isotropic", folder, tolerance=TOLERANCE, **SMALL)


def test_a_search_ends_with_a_value_for_the_target(searched):
    assert searched.recommended, searched.advice
    assert tuple(searched.scales) == (8, 16, 32)
    assert searched.scales[8] == 3
    low, high = searched.forecast.interval
    assert low < searched.eta0 < high
    assert searched.eta0 == pytest.approx(10 ** searched.profiles[32].optimum, rel=0.5)
    target = searched.scales_at_target()
    assert (target.eta_W, target.s1) == (searched.eta0, pytest.approx(1 / 8))
    rows = Store(searched.folder / "runs").read()
    spent = sum(searched.goal.operations(r["scale"]) for r in rows)
    assert searched.cost.tuning == spent
    assert searched.cost.runs == len(rows)
    assert searched.cost.share < 0.15


def test_the_target_is_about_as_good_as_predicted(searched):
    """With the value of the search, and with values to both sides of it."""
    at = {factor: searched.eta0 * factor for factor in (0.3, 1.0, 3.0)}
    study = searched.goal.at((64,), tuple(at.values()), 2)
    losses = {}
    for row in dam.sweep(study):
        losses.setdefault(row["eta0"], []).append(
            math.inf if row["status"] == "diverged" else row["final_mse"]
        )
    means = {factor: np.mean(losses[value]) for factor, value in at.items()}
    assert means[1.0] < min(means[0.3], means[3.0])


def test_a_search_can_be_repeated_and_resumed(searched, tmp_path):
    again = Counting()
    copy = tmp_path / "copy"
    shutil.copytree(searched.folder, copy)
    tune(searched.goal, copy, progress=again, tolerance=TOLERANCE)
    assert again.trained == 0
    assert found_in(copy) == found_in(searched.folder)
    shards = sorted((copy / "runs" / "shards").iterdir())
    for shard in shards[::2]:
        shard.unlink()
    (copy / FILE).unlink()
    tune(searched.goal, copy, progress=again, tolerance=TOLERANCE)
    assert 0 < again.trained < searched.cost.runs
    assert found_in(copy) == found_in(searched.folder)


def test_an_executor_gives_the_same_result_and_resumes_what_was_begun_here(searched, tmp_path):
    elsewhere = Counting()
    (tmp_path / "runs" / "shards").mkdir(parents=True)
    first, *_ = sorted((searched.folder / "runs" / "shards").iterdir())
    shutil.copy(first, tmp_path / "runs" / "shards")
    begun = len(Store(tmp_path / "runs").read())
    with ThreadPoolExecutor(2) as pool:
        tune(searched.goal, tmp_path, executor=pool, progress=elsewhere, tolerance=TOLERANCE)
    assert elsewhere.trained == searched.cost.runs - begun
    assert found_in(tmp_path) == found_in(searched.folder)


class Losing(ThreadPoolExecutor):
    """Its workers fail with every shard after the first so many."""

    def __init__(self, shards):
        super().__init__(1)
        self.shards = shards

    def submit(self, fn, /, *arguments):
        if fn is run_shard:
            self.shards -= 1
        return super().submit(fn if self.shards >= 0 else self.fail, *arguments)

    @staticmethod
    def fail(*_):
        raise RuntimeError("a bad GPU")


def test_a_search_that_loses_runs_ends_there_and_can_be_resumed(searched, tmp_path):
    with Losing(1) as pool, pytest.raises(RunsSetAside) as caught:
        tune(searched.goal, tmp_path, executor=pool, tolerance=TOLERANCE)
    assert len(caught.value.shards) == 1
    assert str(caught.value).startswith("set aside: relu-adam at scale 8, ")
    assert str(caught.value).endswith("RuntimeError: a bad GPU; run the same again to resume")
    assert not (tmp_path / FILE).exists()
    kept = len(Store(tmp_path / "runs").read())
    again = Counting()
    tune(searched.goal, tmp_path, progress=again, tolerance=TOLERANCE)
    assert again.trained == searched.cost.runs - kept
    assert found_in(tmp_path) == found_in(searched.folder)


def test_the_recipe_survives_the_disk(searched):
    recipe = read_recipe(searched.folder)
    assert recipe.origin is searched.recipe.origin is Origin.TUNED
    assert recipe.study == searched.goal.study
    assert recipe.run() == searched.recipe.run()
    assert (recipe.regret_bound, recipe.recommended) == (searched.forecast.regret_bound, True)
    assert np.allclose(recipe.expected.middle, searched.expected.middle, rtol=1e-5)
    _, spec = recipe.run(scale=32, seed=2)
    assert (spec.shape.N, spec.seed, spec.values["eta0"]) == (32, 2, searched.eta0)


def test_data_that_changed_is_not_trained_on(vectors, tmp_path):
    copy = tmp_path / "mine.npy"
    array = np.load(vectors)
    np.save(copy, array)
    write_result(tmp_path, {"status": "TRANSFERS"}, Recipe(goal(str(copy)).study, 0.1))
    elsewhere = tmp_path / "moved.npy"
    copy.rename(elsewhere)
    assert read_recipe(tmp_path, str(elsewhere)).study.data == str(elsewhere)
    array[0, 0] += 1
    np.save(elsewhere, array)
    with pytest.raises(InputError, match="not that of the tuning"):
        read_recipe(tmp_path, str(elsewhere))


# --- advice ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "remedy", "words"),
    [
        ({"activation": "softmax", "optimizer": "sgd"}, Remedy.TAKE_ADAM, "adam"),
        ({"centred": False}, Remedy.CENTRE, "centre"),
        ({"bias_init": "normal"}, Remedy.ZERO_BIASES, "biases"),
        ({"parameterization": "standard"}, Remedy.TAKE_PRESCRIPTION, "'standard' is not the prescription"),
    ],
)
def test_advice_names_what_is_known_to_spoil_transfer(settings, remedy, words):
    wanted = goal("isotropic", features=1024, epochs=2, **settings)
    given = advise(wanted, (512, 0.3), learned=True, may_probe=True)
    assert given.remedy is remedy
    assert words in given.describe()


OFFER = (512, 0.25)


@pytest.mark.parametrize(
    ("changes", "remedy", "words"),
    [
        ({"learned": False}, Remedy.LEARN_MORE, "more --epochs"),
        ({"moving": ("s2_0",)}, Remedy.LEAVE_AXES, "tune without s2_0"),
        ({"tune_epochs": 1}, Remedy.TUNE_LONGER, "leave out --tune-epochs"),
        ({}, Remedy.MORE_BUDGET, "runs at N = 512 should settle it: allow them with --budget 0.25"),
        ({"offer": None}, Remedy.SWEEP_TARGET, "sweep the target itself"),
        ({"offer": None, "may_probe": True}, Remedy.PROBE, "--probe"),
        ({"offer": None, "scales": (64, 128, 256)}, Remedy.OTHER_SIZES, "--scales 64,128,256,512"),
    ],
)
def test_advice_follows_what_is_missing(changes, remedy, words):
    asked = {"offer": OFFER, "learned": True, "may_probe": False, **changes}
    settings = {key: asked.pop(key) for key in ("scales", "tune_epochs") if key in asked}
    given = advise(goal("isotropic", features=1024, epochs=2, **settings), **asked)
    assert given.remedy is remedy
    assert words in given.describe()


def test_advice_has_the_numbers():
    wanted = goal("isotropic", features=1024, epochs=2)
    given = advise(wanted, OFFER, learned=True, may_probe=False)
    assert given == Advice(Remedy.MORE_BUDGET, letter="N", scale=512, budget=0.25)


# --- prediction --------------------------------------------------------------------------------------


def rows_of(law, scales=(32, 64, 128), seeds=3, grid=(0.01, 0.1), epochs=5, noise=0.0):
    rng = np.random.default_rng(0)
    return [
        {"scale": n, "seed": s, "eta0": e, "zero_mse": 2.0,
         "loss": 2.0 * law(n, e, np.arange(1, epochs + 1)) * np.exp(noise * rng.standard_normal(epochs))}
        for n in scales for s in range(seeds) for e in grid
    ]  # fmt: skip


def test_the_curve_is_continued_in_the_logarithm_of_the_size():
    found = expected_curve(rows_of(lambda n, e, t: n**-0.3 * t**-0.5), 0.1, 1024)
    assert np.allclose(found.middle, 1024**-0.3 * np.arange(1, 6) ** -0.5)
    assert np.all(found.low < found.middle)
    assert np.all(found.middle < found.high)
    half = expected_curve(rows_of(lambda n, e, t: e**0.4 / t), 10**-1.5, 128)  # between the two rates
    assert np.allclose(half.middle, (10**-1.5) ** 0.4 / np.arange(1, 6))
    assert expected_curve(rows_of(lambda n, e, t: 1 / t), 0.5, 1024) is None  # outside of what was trained
    assert expected_curve(rows_of(lambda n, e, t: 1 / t, scales=(32,)), 0.1, 1024) is None


def test_noise_between_seeds_widens_the_range():
    quiet, noisy = (expected_curve(rows_of(lambda n, e, t: 1 / t, noise=sd), 0.1, 128) for sd in (0.001, 0.2))
    assert np.allclose(quiet.high / quiet.middle, 1.05)
    assert np.all(noisy.high / noisy.middle > 1.15)


def test_a_loss_leaves_the_curve_after_two_epochs_outside():
    e = Expected(np.full(4, 0.4), np.full(4, 0.5), np.full(4, 0.6))
    assert e.leaves([1.0], 2.0) == ""
    assert e.leaves([9.0], 2.0) == ""
    assert e.leaves([1.0, 1.3], 2.0) == ""
    assert e.leaves([1.3, 1.3], 2.0) == "above"
    assert e.leaves([1.0, 0.7, 0.7], 2.0) == "below"
    assert e.leaves([1.0, math.inf, math.inf], 2.0) == "above"
    assert e.leaves([1.0, math.nan, math.nan], 2.0) == "above"


# --- price -------------------------------------------------------------------------------------------


def test_it_is_said_how_much_of_the_data_the_target_sees(vectors, searched):
    machine = Machine("cpu", "test", 2, 2e11)
    for settings, numbers, words in (
        ({}, (540, 540, 60), "the target is trained on all 540 samples; 60 more are held out"),
        ({"rho": 5.0}, (320, 540, 60), "the target is trained on 320 of 540 samples; 60 more are held out"),
        ({"memories": 512}, (540, 540, 60), "the target is trained on all 540 samples; 60 more are held out"),
        ({"heldout": 0.0, "samples": 100}, (100, 600, 0), "the target is trained on 100 of 600 samples; none are held out"),
    ):  # fmt: skip
        made = plan(goal(vectors, **settings), machine=machine)
        assert made.use.describe() == words
        names = ("samples_used", "samples_available", "samples_heldout")
        assert tuple(made.to_json()[name] for name in names) == numbers
    said = searched.to_json()
    assert (said["samples_used"], said["samples_available"], said["samples_heldout"]) == (256, None, None)
    assert data_use(searched.goal).describe() == "the target is trained on 256 generated samples"


def test_data_of_few_directions_are_warned_of(vectors, tmp_path):
    enough = data_use(goal(vectors))
    assert enough.participation > 3
    assert (enough.few_directions, enough.warning()) == (False, "")
    table = np.load(vectors).copy()
    table[:, 0] *= 100  # one column in other units
    np.save(tmp_path / "table.npy", table)
    few = data_use(goal(str(tmp_path / "table.npy")))
    assert 1 <= few.participation < 1.1
    assert few.warning().startswith("the data vary in few directions (participation 1.0")
    assert few.to_json()["few_directions"]
    standardized = data_use(goal(str(tmp_path / "table.npy"), standardize=True))
    assert standardized.participation == pytest.approx(enough.participation, rel=0.1)
    assert data_use(goal("isotropic", features=64)).warning() == ""


def test_a_plan_counts_what_the_search_trains(searched):
    machine = Machine("cpu", "test", 2, 2e11)
    made = plan(searched.goal, seeds=3, machine=machine)
    assert {row.scale: row.runs for row in made.tuning} == {8: 38, 16: 5, 32: 5}
    assert made.training.operations == searched.cost.target_run == 10 * 64 * 128 * 64 * 6 * 4
    assert made.sweep.operations == searched.cost.target_sweep == 27 * made.training.operations
    document = json.loads(json.dumps(made.to_json(), allow_nan=False))
    assert document["training"]["features"] == 64
    assert document["tuning"]["seconds"] > 0


@pytest.mark.parametrize(
    ("budget", "sizes"),
    [(0.15, (128, 256, 512)), (0.03, (128, 256, 512)), (0.02, (64, 128, 256)), (0.001, (32, 64, 128)), (1e-6, (32, 64, 128))],
)  # fmt: skip
def test_a_plan_keeps_within_its_budget_if_three_sizes_do(budget, sizes):
    made = plan(goal("isotropic", features=1024), budget=budget, machine=Machine("cpu", "test", 2, 2e11))
    assert tuple(row.scale for row in made.tuning) == sizes
    assert made.share <= max(budget, 0.00052)


def test_twice_the_runs_take_twice_the_time_and_a_gpu_less():
    from denseam.workflow.planning import seconds

    shape = dam.Shape(256, 512, 1280, 128)
    cpu, gpu = Machine("cpu", "", 2, 2e11), Machine("gpu", "", 16, 4e14)
    assert seconds(shape, 8, 20, cpu, True) == pytest.approx(2 * seconds(shape, 8, 10, cpu, True))
    assert seconds(shape, 8, 20, gpu, True) < seconds(shape, 8, 20, cpu, True) / 20
    floor = 20 * 8 * 10 * 10 * 256 * 512 * 128 / 2e11
    assert floor < seconds(shape, 8, 20, cpu, True) < 1.5 * floor
