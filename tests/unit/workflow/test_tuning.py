"""Goals, the search, its prediction and its price."""

import dataclasses
import json
import math
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import denseam as dam
from denseam.analysis.causes import Cause
from denseam.analysis.prediction import Expected, expected_curve
from denseam.analysis.transfer import Verdict
from denseam.data import Preparation
from denseam.errors import InputError
from denseam.studies.executors import RunsSetAside
from denseam.studies.shards import run_shard
from denseam.studies.store import Store
from denseam.training.progress import Progress
from denseam.workflow import tuning
from denseam.workflow.advice import Advice, Remedy, advise
from denseam.workflow.data_use import data_use
from denseam.workflow.goals import goal
from denseam.workflow.planning import Machine, plan
from denseam.workflow.recipe import FILE, Origin, Recipe, read_recipe, write_result
from denseam.workflow.tuning import rate, tune

SMALL = {"features": 64, "epochs": 6, "kappa": 2.0, "rho": 4.0, "beta": 0.25}


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
    assert whole.study.regime == dam.Proportional(2.0, 5.0, 0.1)
    assert (whole.target, whole.letter, whole.shape) == (64, "N", dam.Shape(64, 128, 320, 32))
    only = goal(vectors, memories=2048)
    assert only.study.regime == dam.MemoriesOnly(64, 540, 54)
    assert (only.target, only.letter, only.shape.K) == (2048, "K", 2048)
    both = goal(vectors, features=64, memories=192, samples=256, batch=64)
    assert both.shape == dam.Shape(64, 192, 256, 64)
    assert both.study.regime.name == "proportional"


def test_as_many_samples_as_there_are(tmp_path):
    np.save(tmp_path / "few.npy", np.random.default_rng(0).standard_normal((200, 64)))
    assert goal(str(tmp_path / "few.npy")).study.regime.rho == 2.8  # 180 to train on, of 64 features


def test_the_ladder_comes_from_the_data(vectors, tmp_path):
    assert goal(vectors).ladder == (8, 16, 32)
    assert goal("isotropic", features=512).ladder == (32, 64, 128, 256)
    assert goal("isotropic", features=1000).ladder == (32, 64, 128, 256, 512)
    images = np.random.default_rng(0).integers(0, 255, (1000, 14, 14), np.uint8)
    np.save(tmp_path / "images.npy", images)
    assert goal(str(tmp_path / "images.npy")).ladder == (16, 25, 49)
    assert goal(str(tmp_path / "images.npy"), scales=(9, 16, 196)).ladder == (9, 16, 196)
    memories = goal("isotropic", regime="memories-only", features=16, memories=1024, samples=64, batch=16)
    assert memories.ladder == (32, 64, 128, 256, 512)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"data": "isotropic"}, "features is needed"),
        ({"regime": "wide"}, "regime must be 'proportional' or 'memories-only'"),
        ({"features": 0}, "features must be a whole number"),
        ({"memories": 2.5}, "memories must be a whole number"),
        ({"regime": "memories-only"}, "memories is needed"),
        (
            {"regime": "memories-only", "memories": 512, "kappa": 2.0},
            "kappa belongs to the regime 'proportional'",
        ),
        ({"features": 64, "memories": 512, "kappa": 2.0}, "memories and kappa mean the same"),
        ({"samples": 100_000}, "540 samples to train on"),
        ({"features": 128}, "only 64 features"),
        ({"scales": (16, 32, 128)}, "target 64 is smaller than the base"),
        ({"scales": (16, 32)}, "scales must be at least 3"),
        ({"features": 16}, "too small to be tuned at smaller sizes"),
        ({"preparation": Preparation(shrink="none")}, "too small to be tuned at smaller sizes"),
        ({"optimizer": "lion"}, "optimizer must be"),
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
        ({"trials": 3}, "trials"),
        ({"tuned": ("eta0", "momentum"), "optimizer": "adam"}, "momentum belongs to the optimizer 'sgd'"),
        ({"tuned": ("eta0", "beta")}, "beta belongs to the activation 'softmax'"),
    ],
)
def test_a_search_that_cannot_be_writes_nothing(tmp_path, options, words):
    with pytest.raises(InputError, match=words):
        tune("isotropic", tmp_path / "out", **SMALL, **options)
    assert not (tmp_path / "out").exists()


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
    return tune("isotropic", folder, activation="relu", optimizer="sgd", **SMALL)


def test_a_search_ends_with_a_value_that_transfers(searched):
    assert searched.status == "TRANSFERS"
    assert searched.scales == (8, 16, 32)
    low, high = searched.eta0_ci
    assert low < searched.eta0 < high
    largest = searched.verdict.optima[32]
    assert searched.eta0 == pytest.approx(10 ** np.mean(np.log10(largest)), rel=0.01)
    target = searched.scales_at_target()
    assert target.eta_W == pytest.approx(searched.eta0 * 128)
    rows = Store(searched.folder / "runs").read()
    spent = sum(searched.goal.operations(r["scale"]) for r in rows)
    assert searched.cost.tuning == spent
    assert searched.cost.runs == len(rows)
    assert searched.cost.share < 0.25


def test_a_search_can_be_repeated_and_resumed(searched, tmp_path):
    again = Counting()
    copy = tmp_path / "copy"
    shutil.copytree(searched.folder, copy)
    tune(searched.goal, copy, progress=again)
    assert again.trained == 0
    assert found_in(copy) == found_in(searched.folder)
    shards = sorted((copy / "runs" / "shards").iterdir())
    for shard in shards[::2]:
        shard.unlink()
    (copy / FILE).unlink()
    tune(searched.goal, copy, progress=again)
    assert 0 < again.trained < searched.cost.runs
    assert found_in(copy) == found_in(searched.folder)


def test_an_executor_gives_the_same_result_and_resumes_what_was_begun_here(searched, tmp_path):
    elsewhere = Counting()
    (tmp_path / "runs" / "shards").mkdir(parents=True)
    first, *_ = sorted((searched.folder / "runs" / "shards").iterdir())
    shutil.copy(first, tmp_path / "runs" / "shards")
    begun = len(Store(tmp_path / "runs").read())
    with ThreadPoolExecutor(2) as pool:
        tune(searched.goal, tmp_path, executor=pool, progress=elsewhere)
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
        tune(searched.goal, tmp_path, executor=pool)
    assert len(caught.value.shards) == 1
    assert str(caught.value).startswith("set aside: relu-sgd at scale 8, ")
    assert str(caught.value).endswith("RuntimeError: a bad GPU; run the same again to resume")
    assert not (tmp_path / FILE).exists()
    kept = len(Store(tmp_path / "runs").read())
    again = Counting()
    tune(searched.goal, tmp_path, progress=again)
    assert again.trained == searched.cost.runs - kept
    assert found_in(tmp_path) == found_in(searched.folder)


def test_the_recipe_survives_the_disk(searched):
    recipe = read_recipe(searched.folder)
    assert recipe.origin is searched.recipe.origin is Origin.TUNED
    assert recipe.study == searched.goal.study
    assert recipe.run() == searched.recipe.run()
    assert np.allclose(recipe.expected.middle, searched.expected.middle, rtol=1e-5)
    _, spec = recipe.run(scale=32, seed=2)
    assert (spec.shape.N, spec.seed, spec.values["eta0"]) == (32, 2, searched.eta0)


def test_a_grid_that_begins_too_low_is_widened(searched, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "SCOUT", (-16, -12))
    monkeypatch.setattr(tuning, "REACH", 2)
    said = []
    found = tune(searched.goal, tmp_path, say=said.append)
    assert found.status == "TRANSFERS"
    assert found.eta0 == pytest.approx(searched.eta0, rel=0.25)


def test_a_wrong_rule_is_refused_with_advice(tmp_path):
    found = tune("isotropic", tmp_path, optimizer="sgd", parameterization="eta_W=K^3", **SMALL)
    assert found.status in ("FAILS", "DRIFTS")
    assert not found.recommended
    assert (found.eta0, found.eta0_ci, found.base) == (None, None, None)
    assert "not the prescription" in found.advice
    with pytest.raises(InputError, match="no learning rate was recommended"):
        _ = found.recipe
    with pytest.raises(InputError, match=r"no learning rate is recommended.*not the prescription"):
        read_recipe(tmp_path)


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


def test_several_axes_at_once(tmp_path):
    options = {"tuned": ("eta0", "s2_0"), "trials": 32, "optimizer": "sgd", **SMALL}
    found = tune("isotropic", tmp_path / "a", **options)
    assert set(found.constants) == {"s2_0"}
    assert 0.25 <= found.constants["s2_0"] <= 4
    assert set(found.others) == {"s2_0"}
    assert found.others["s2_0"].axis == "s2_0"
    # of all points that were proposed, the one with the smallest mean over seeds was taken
    lattice = {rate(k) for k in range(-40, 17)}
    points = {}
    for row in Store(tmp_path / "a" / "runs").read():
        if row["eta0"] not in lattice:
            loss = 5.0 if row["status"] == "diverged" else math.log(row["final_mse"] / row["zero_mse"])
            points.setdefault((row["eta0"], row["s2_0"]), []).append(loss)
    assert len(points) == 32
    assert {len(losses) for losses in points.values()} == {3}
    assert min(points, key=lambda p: np.mean(points[p]))[1] == found.constants["s2_0"]
    again = tune("isotropic", tmp_path / "b", **options)
    assert again.constants == found.constants


# --- how it climbs -----------------------------------------------------------------------------------


def judged(scales, cause, regret=0.05):
    nothing = dict.fromkeys(scales)
    return Verdict(
        name="", axis="eta0", cause=cause, scale_letter="N", seeds=3, optimum=nothing, best_loss=nothing, edge=nothing,
        regret={scales[-1]: regret},
    )  # fmt: skip


def climber(monkeypatch, tmp_path, judge, budget=1.0):
    """A search whose sweeps train nothing and whose verdicts are given."""
    wanted = goal("isotropic", features=1024, epochs=2)
    search = tuning.Search(wanted, tmp_path, 3, budget, Progress())
    monkeypatch.setattr(search, "_widened", lambda scales, grid: grid)

    def sweep(scales, grid, seeds):
        spent = {f"{s}-{k}-{i}": wanted.operations(s) for s in scales for k in grid for i in range(seeds)}
        search.used |= spent
        return []

    monkeypatch.setattr(search, "_sweep", sweep)
    monkeypatch.setattr(search, "_judge", lambda records, scales: judge(search, scales))
    return search


def test_it_climbs_until_three_sizes_agree(monkeypatch, tmp_path):
    search = climber(
        monkeypatch,
        tmp_path,
        lambda s, scales: judged(scales, Cause.HOLDS if scales[0] >= 64 else Cause.OPTIMUM_MOVES),
    )
    found, _ = search._climb((32, 64, 128), range(9))
    assert tuple(found.optimum) == (64, 128, 256)


def test_it_takes_more_seeds_where_they_could_tell(monkeypatch, tmp_path):
    search = climber(
        monkeypatch,
        tmp_path,
        lambda s, scales: judged(scales, Cause.HOLDS if s.seeds >= 7 else Cause.SEEDS_DIFFER, 0.01),
    )
    found, _ = search._climb((32, 64, 128), range(9))
    assert (search.seeds, tuple(found.optimum)) == (7, (32, 64, 128))


def test_it_stops_at_the_budget_and_says_so(monkeypatch, tmp_path):
    search = climber(
        monkeypatch, tmp_path, lambda s, scales: judged(scales, Cause.OPTIMUM_MOVES), budget=0.02
    )
    found, _ = search._climb((32, 64, 128), range(9))
    assert tuple(found.optimum) == (64, 128, 256)  # (1/4)³ = 1.6 % is allowed, (1/2)³ is not
    spent = sum(search.used.values()) / (27 * search.goal.operations(1024))
    given = advise(search.goal, found, {}, spent)
    assert given == Advice(Remedy.NEXT_SIZE, letter="N", scale=512, budget=0.15)
    assert "N = 512" in given.describe()
    assert "--budget 0.15" in given.describe()
    again = climber(monkeypatch, tmp_path, lambda s, scales: judged(scales, Cause.OPTIMUM_MOVES), budget=0.15)
    found, _ = again._climb((32, 64, 128), range(9))
    assert max(found.optimum) == 512


@pytest.mark.parametrize(
    ("scales", "given"),
    [
        ((32, 64, 128), Advice(Remedy.OTHER_SIZES, letter="N", scale=256, scales=(32, 64, 128, 256))),
        ((32, 64, 600), Advice(Remedy.LOOK_INSIDE)),
    ],
)
def test_sizes_that_were_not_given_are_left_too(scales, given):
    wanted = goal("isotropic", features=1024, epochs=2, scales=scales)
    assert advise(wanted, judged(scales, Cause.OPTIMUM_MOVES), {}, 0.1) == given


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
    given = advise(wanted, judged((32, 64, 128), Cause.TOO_COSTLY), {}, 0.1)
    assert given.remedy is remedy
    assert words in given.describe()


@pytest.mark.parametrize(
    ("cause", "remedy", "words"),
    [
        (Cause.NOTHING_LEARNED, Remedy.LEARN_MORE, "more --epochs"),
        (Cause.SEEDS_DIFFER, Remedy.CALM_SEEDS, "3 seeds still differ"),
        (Cause.HOLDS, Remedy.LEAVE_AXES, "s2_0 does not"),
        (Cause.OPTIMUM_MOVES, Remedy.LOOK_INSIDE, "`denseam check`"),
    ],
)
def test_advice_follows_the_cause_of_the_verdict(cause, remedy, words):
    wanted = goal("isotropic", features=1024, epochs=2)
    found = judged((128, 256, 512), cause)
    given = advise(wanted, found, {"s2_0": judged((128, 256, 512), Cause.OPTIMUM_MOVES)}, 0.1)
    assert given.remedy is remedy
    assert words in given.describe()


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


def test_a_plan_counts_what_the_search_trains(searched):
    machine = Machine("cpu", "test", 2, 2e11)
    made = plan(searched.goal, seeds=searched.seeds, machine=machine)
    # the search reuses what the scout trained on the lattice of the fine grid
    assert sum(r.runs for r in made.tuning) >= searched.cost.runs
    assert sum(r.runs for r in made.tuning) - searched.cost.runs <= 11
    assert made.training.operations == searched.cost.target_run == 10 * 64 * 128 * 64 * 6 * 4
    assert made.sweep.operations == searched.cost.target_sweep
    assert made.share == pytest.approx(searched.cost.share, rel=0.2)
    document = json.loads(json.dumps(made.to_json(), allow_nan=False))
    assert document["training"]["features"] == 64
    assert document["tuning"]["seconds"] > 0


def test_twice_the_runs_take_twice_the_time_and_a_gpu_less():
    from denseam.workflow.planning import seconds

    shape = dam.Shape(256, 512, 1280, 128)
    cpu, gpu = Machine("cpu", "", 2, 2e11), Machine("gpu", "", 16, 4e14)
    assert seconds(shape, 8, 20, cpu, True) == pytest.approx(2 * seconds(shape, 8, 10, cpu, True))
    assert seconds(shape, 8, 20, gpu, True) < seconds(shape, 8, 20, cpu, True) / 20
    floor = 20 * 8 * 10 * 10 * 256 * 512 * 128 / 2e11
    assert floor < seconds(shape, 8, 20, cpu, True) < 1.5 * floor


def test_rates_are_one_lattice():
    assert rate(0) == 1.0
    assert [rate(k) for k in (-4, -2, 4)] == [0.1, pytest.approx(10**-0.5), 10.0]
    assert dataclasses.replace(goal("isotropic", features=512), first=4).first == 4
