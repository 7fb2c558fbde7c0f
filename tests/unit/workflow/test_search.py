"""What a search buys, and what it says: on made-up valleys, so that nothing is trained."""

import dataclasses
import itertools
import json
import math

import pytest

from denseam.analysis.forecast import BOUNDS, Entry, Setting, constants
from denseam.ground.errors import InputError
from denseam.workflow import search
from denseam.workflow.advice import Remedy
from denseam.workflow.goals import goal
from denseam.workflow.planning import Machine, plan
from denseam.workflow.recipe import FILE, read_recipe
from denseam.workflow.search import FULL, PER_DECADE, SHORT, SWEEP_RUNS, Terms, expected_runs, rate
from denseam.workflow.tuning import tune
from tests.synthetic import Landscape, made_up_runs

SETTING = Setting("relu", 1.0, "adam", "proportional")
SGD = Setting("relu", 1.0, "sgd", "proportional")


def steps(q):
    """Limits by which the bound is q times the risk, rounded up."""
    return tuple(bound / q for bound in BOUNDS)


#: Constants as the corpus gives them, but round, and so that a drift is continued.
CONSTANTS = {
    SETTING: Entry(shift=0.0, slope=1.0, edge=0.0, limits=steps(2.0), median=0.1, families=20, studies=40),
    SGD: Entry(0.0, 1.0, 0.5, (0.0,) * len(BOUNDS), 0.3, 10, 10),
    Setting("relu", 1.0, "sgd", "proportional", probe=True): Entry(0.0, 0.1, 0.5, steps(2.0), 0.1, 10, 10),
    Setting("relu", 1.0, "adam", "proportional", by="heldout"): Entry(0.0, 1.0, 0.0, steps(3.0), 0.2, 20, 40),
    Setting("relu", 1.0, "adam", "memories-only"): Entry(0.0, 1.0, 0.0, steps(2.0), 0.1, 20, 40),
}  # fmt: skip
WANTED = {"features": 1024, "epochs": 10}
TARGET = WANTED["features"]


@pytest.fixture(autouse=True)
def _known_constants(monkeypatch):
    monkeypatch.setattr("denseam.analysis.forecast.table", lambda: CONSTANTS)


@pytest.fixture
def searched(monkeypatch, tmp_path):
    """Tune in a landscape; the options are those of `tune`."""
    count = itertools.count()

    def run(landscape, **options):
        monkeypatch.setattr(search, "run_specs", made_up_runs(landscape))
        folder = tmp_path / str(next(count))
        folder.mkdir()
        return tune("isotropic", folder, **{**WANTED, **options})

    return run


def flat(**changes):
    return Landscape(**{"target": TARGET, "epochs": WANTED["epochs"], **changes})


# --- which runs it buys ------------------------------------------------------------------------------


def test_an_optimum_that_stays_needs_three_sizes_and_little_else(searched):
    found = searched(flat())
    assert found.scales == {128: 3, 256: 1, 512: 1}
    assert (found.status, found.exit_code, found.recommended) == ("TRANSFERS", 0, True)
    assert math.log10(found.eta0) == pytest.approx(-1.3, abs=0.002)
    assert not found.drift_corrected
    assert found.forecast.regret_bound == 0.01 > 2.0 * (0.003 + 0.5 * 2.0 * 0.03**2)
    assert found.cost.share < 0.05
    assert (found.advice, found.commands) == ("", ())


def test_the_plan_is_what_the_search_begins_with(searched):
    found = searched(flat())
    made = plan(found.goal, machine=Machine("cpu", "test", 2, 2e11))
    runs = {row.scale: row.runs for row in made.tuning}
    assert runs == expected_runs(found.goal, 3, 0.15) == {128: FULL * 3 + 11, 256: SHORT, 512: SHORT}
    # the fine grid has five or six of the values that were scouted
    assert 5 <= sum(runs.values()) - found.cost.runs <= 6
    assert made.sweep.operations == found.cost.target_sweep
    assert (made.sweep.runs, made.training.operations) == (SWEEP_RUNS, found.cost.target_run)
    assert made.share == pytest.approx(found.cost.share, rel=0.1)


@pytest.mark.parametrize("drift", [0.1, -0.1])
def test_a_drift_is_corrected_for_and_said(searched, drift):
    found = searched(flat(drift=drift))
    assert (found.status, found.exit_code) == ("DRIFTS", 0)
    assert found.drift_corrected
    assert math.log10(found.eta0) == pytest.approx(-1.3, abs=0.01)
    small = math.log10(found.verdict.optimum[512])
    assert small == pytest.approx(-1.3 - drift, abs=0.01)


def test_a_drift_that_is_too_large_is_refused(searched):
    found = searched(flat(drift=0.4))
    assert not found.recommended
    assert (found.eta0, found.scales_at_target()) == (None, None)
    assert found.remedy.remedy is Remedy.SWEEP_TARGET
    (line,) = found.commands
    assert line.startswith("denseam sweep ")
    assert f"--scales {TARGET} " in line


@pytest.mark.parametrize(("scatter", "seeds"), [(0.0, 1), (0.08, 2), (0.12, 3), (0.15, 5)])
def test_seeds_that_differ_are_averaged_over(searched, scatter, seeds):
    found = searched(flat(scatter=scatter), budget=0.6)
    assert found.recommended
    assert found.scales[256] == 1
    assert seeds <= found.scales[512] <= seeds + 2
    assert found.forecast.regret_bound <= 0.02


def test_seeds_are_not_bought_beyond_the_budget(searched):
    found = searched(flat(scatter=0.15), budget=0.05)
    assert not found.recommended
    assert found.cost.share <= 0.05
    assert found.remedy.remedy is Remedy.MORE_BUDGET


@pytest.mark.parametrize("budget", [0.0002, 0.001, 0.004, 0.02])
@pytest.mark.parametrize("scatter", [0.0, 0.08])
def test_a_refusal_names_the_budget_that_suffices(searched, budget, scatter):
    landscape = flat(scatter=scatter)
    refused = searched(landscape, budget=budget)
    assert not refused.recommended
    assert (refused.status, refused.exit_code) == ("INCONCLUSIVE", 2)
    assert refused.cost.share <= max(budget, 0.0012)  # three sizes are always trained
    advice = refused.remedy
    assert (advice.remedy, advice.scale) == (Remedy.MORE_BUDGET, 512)
    assert f"--budget {advice.budget:g} " in refused.commands[0]
    again = searched(landscape, budget=advice.budget)
    assert again.recommended
    assert again.cost.share <= advice.budget
    assert again.cost.share > 0.5 * advice.budget or advice.budget <= 0.03


def test_a_bound_that_nothing_lowers_buys_nothing_more(searched):
    found = searched(flat(), optimizer="sgd", budget=1.0)
    assert found.forecast.regret_bound == math.inf
    assert found.scales == {128: 3, 256: 1, 512: 1}
    said = found.to_json()
    assert (said["regret_bound"], said["interval_at_target"], said["eta0"]) == (None, None, None)
    assert found.remedy.remedy is Remedy.PROBE


MEMORIES = {"features": 16, "memories": 2048, "regime": "memories-only", "samples": 64, "batch": 16}


def test_a_larger_size_is_bought_only_if_it_is_needed(searched):
    """Where the cost grows slowly with size, sizes in the middle can suffice."""
    landscape = flat(target=2048)
    strict, loose = (searched(landscape, **MEMORIES, tolerance=t, budget=0.6) for t in (0.02, 0.08))
    assert strict.recommended
    assert loose.recommended
    assert max(strict.scales) == 1024
    assert max(loose.scales) < 1024
    assert loose.cost.tuning < 0.8 * strict.cost.tuning
    assert all(len(found.scales) == 3 for found in (strict, loose))


def test_given_sizes_are_all_swept(searched):
    found = searched(flat(), scales=(64, 128, 256, 512))
    assert found.scales == dict.fromkeys((64, 128, 256, 512), 3)
    assert found.recommended
    assert found.verdict.status == "TRANSFERS"
    runs = plan(found.goal, machine=Machine("cpu", "test", 2, 2e11)).tuning
    assert [row.runs for row in runs] == [38, 27, 27, 27]
    assert 5 <= sum(row.runs for row in runs) - found.cost.runs <= 6


def test_given_sizes_that_drift_end_with_one(searched):
    found = searched(flat(drift=0.4), scales=(128, 256, 512))
    assert not found.recommended
    assert (found.status, found.exit_code) == ("FAILS", 1)


def test_sizes_that_were_not_given_are_left(searched):
    found = searched(flat(), scales=(64, 128, 256))
    assert not found.recommended
    assert found.remedy.remedy is Remedy.OTHER_SIZES
    assert "--scales 64,128,256,512" in found.advice
    assert searched(flat(), scales=found.remedy.scales).recommended


# --- the grid ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimum", [-7.1, -4.2, 1.6, 3.05])
def test_the_optimum_is_found_far_from_where_it_is_expected(searched, optimum):
    found = searched(flat(optimum=optimum))
    assert found.recommended
    assert math.log10(found.eta0) == pytest.approx(optimum, abs=0.005)


@pytest.mark.parametrize("drift", [0.7, -0.7])
def test_a_grid_is_widened_until_the_optimum_is_inside(searched, drift):
    landscape = flat(drift=drift)
    found = searched(landscape)
    for scale, profile in found.profiles.items():
        assert profile.end is None
        assert profile.optimum == pytest.approx(landscape.best(scale), abs=1e-6)
    lengths = [len(profile.x) for profile in found.profiles.values()]
    assert lengths[0] == FULL
    assert min(lengths[1:]) > SHORT
    assert len(found.verdict.optimum) == 3  # the verdict is on values that all sizes have


def test_a_cliff_beside_the_optimum_is_no_end_of_the_grid(searched):
    found = searched(flat(edge=-1.2))
    assert all(profile.end is None and profile.rough for profile in found.profiles.values())
    assert found.eta0 is None or math.log10(found.eta0) <= -1.2


def test_if_everything_diverges_it_is_said_in_one_line(searched):
    with pytest.raises(
        InputError, match="eta0: at N = 128 runs diverge at every value, down to 1e-10"
    ) as caught:
        searched(flat(edge=-math.inf))
    assert "\n" not in str(caught.value)
    only_large = {128: math.inf, 256: math.inf, 512: -math.inf}
    with pytest.raises(InputError, match="at N = 512 runs diverge"):
        searched(flat(edge=only_large))


@pytest.mark.parametrize(("edge", "rough"), [(-1.2, False), (-1.25, True)])
def test_under_sgd_the_values_beside_the_best_one_are_tried(searched, edge, rough):
    """The grid of quarters has its best value at -1.25; -1.375 and -1.125 lie beside it."""
    found = searched(flat(edge=edge, optimum=-1.27 if rough else -1.35), optimizer="sgd")
    for profile in found.profiles.values():
        best = profile.x[profile.mean.argmin()]
        assert min(abs(profile.x - best)[abs(profile.x - best) > 0]) == pytest.approx(0.125)
        assert profile.rough == rough
    assert found.forecast.at_edge == rough


def test_a_flat_valley_in_which_nothing_was_learned_is_not_recommended(searched):
    landscape = flat(curvature=0.1)

    def law(asked, spec):
        return tuple(4.9 * loss for loss in landscape(asked, spec))

    found = searched(law)
    assert found.forecast.regret_bound <= 0.02
    assert (found.recommended, found.eta0, found.status) == (False, None, "INCONCLUSIVE")
    assert found.remedy.remedy is Remedy.LEARN_MORE
    assert searched(landscape).recommended


# --- the loss, the tolerance, the probe --------------------------------------------------------------


def test_the_tolerance_decides(searched):
    assert searched(flat(), tolerance=0.012).recommended
    assert not searched(flat(), tolerance=0.006, budget=1.0).recommended


def test_by_heldout_is_about_the_held_out_loss(searched):
    landscape = flat(heldout=-0.5)
    found = searched(landscape, by="heldout")
    assert math.log10(found.eta0) == pytest.approx(-1.8, abs=0.01)
    said = found.to_json()
    assert (said["by"], said["regret_bound"]) == ("heldout", 0.02)  # at least 3.0 * 0.0039
    assert math.log10(searched(landscape).eta0) == pytest.approx(-1.3, abs=0.01)


@pytest.mark.parametrize("early", [-0.2, 0.3])
def test_a_probe_trains_the_target_shortly(searched, early):
    probed = []
    landscape = flat(early=early)

    def law(asked, spec):
        if spec.scale == TARGET:
            probed.append((asked.epochs, spec.seed, spec.values["eta0"]))
        return landscape(asked, spec)

    found = searched(law, optimizer="sgd", probe=True, tolerance=0.1)
    assert {(epochs, seed) for epochs, seed, _ in probed} == {(2, 0)}
    assert len({eta0 for *_, eta0 in probed}) == 9  # seven, and two beside the best
    assert found.recommended
    # nearer to what is stable at the target than to what was best at the small sizes
    assert math.log10(found.eta0) == pytest.approx(-1.3 + (0.7 if early < 0 else 0.2) * early, abs=0.02)
    assert found.cost.tuning >= 9 * 0.2 * found.cost.target_run
    assert found.cost.share <= 0.15


def test_seeds_are_bought_after_a_probe_too(searched):
    refused = searched(flat(scatter=0.1), optimizer="sgd", probe=True, budget=0.075)
    assert refused.cost.share <= 0.075  # the probe has its share
    assert len(refused.scales) == 3
    assert refused.remedy.remedy is Remedy.MORE_BUDGET
    assert " --probe " in refused.commands[0]
    again = searched(flat(scatter=0.1), optimizer="sgd", probe=True, budget=refused.remedy.budget)
    assert again.recommended
    assert again.cost.share <= refused.remedy.budget
    assert max(again.scales.values()) > 1


def test_a_probe_keeps_its_share_of_the_budget(searched, monkeypatch):
    wide = {**CONSTANTS, SGD: dataclasses.replace(CONSTANTS[SGD], limits=steps(30.0))}
    monkeypatch.setattr("denseam.analysis.forecast.table", lambda: wide)
    found = searched(flat(scatter=0.15), optimizer="sgd", probe=True, tolerance=0.005)
    assert found.scales[512] > 1  # seeds were bought before the probe
    assert 0.1 < found.cost.share <= 0.15


# --- what it says ------------------------------------------------------------------------------------


def test_the_document_has_the_value_and_its_bound(searched):
    found = searched(flat(drift=0.1))
    said = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (said["status"], said["recommended"], said["drift_corrected"]) == ("DRIFTS", True, True)
    assert said["eta0"] == said["forecast_eta0"] == found.eta0
    low, high = said["interval_at_target"]
    assert low < said["eta0"] < high
    assert 0 < said["predicted_regret"] < said["regret_bound"] <= said["tolerance"] == 0.02
    assert (said["by"], said["calibrated_on"]) == ("training", 20)
    assert said["target"] == {"N": 1024, "K": 2048, "P": 5120, "B": 512}
    assert (said["scales"], said["seeds"]) == ([128, 256, 512], [3, 1, 1])
    assert said["cost"]["share"] == found.cost.share
    assert said["verdict"]["name"] == "relu-adam"
    recipe = read_recipe(found.folder)
    assert (recipe.eta0, recipe.regret_bound, recipe.recommended) == (
        said["eta0"],
        said["regret_bound"],
        True,
    )


def test_a_refusal_keeps_a_recipe_that_must_be_accepted(searched):
    found = searched(flat(), budget=0.004)
    said = json.loads((found.folder / FILE).read_text())
    assert (said["eta0"], said["parameters"]) == (None, None)
    assert said["forecast_eta0"] == pytest.approx(10**-1.3, rel=0.02)
    assert said["commands"] == list(found.commands)
    with pytest.raises(
        InputError, match=r"no learning rate is recommended; runs at N = 512 .*--accept"
    ) as caught:
        read_recipe(found.folder)
    assert "\n" not in str(caught.value)
    accepted = read_recipe(found.folder, accept=True)
    assert (accepted.eta0, accepted.recommended) == (said["forecast_eta0"], False)
    assert accepted.regret_bound == said["regret_bound"] > 0.02


def test_a_setting_without_a_calibration_is_refused_unless_it_is_very_sure(searched):
    found = searched(flat(), activation="tanh")
    assert found.forecast.entry == constants(Setting("tanh", 1.0, "adam", "proportional"))
    assert found.forecast.entry.families == 0
    assert found.forecast.regret_bound == 0.02  # at least 2 * 2.0 * 0.0039: twice that of relu
    norms = searched(flat(), feature_activation="layer-norm")  # the corpus has tanh
    assert (norms.forecast.entry.families, norms.forecast.regret_bound) == (0, 0.02)


LENGTHS = {
    "batch-only": {"features": 64, "samples": 2048, "batch": 128},
    "samples-only": {"features": 16, "samples": 1024},
    "epochs": {"features": 16, "epochs": 512},
}


@pytest.mark.parametrize("regime", LENGTHS)
def test_where_the_model_stays_the_drift_is_followed_but_no_bound_is_given(searched, regime):
    sizes, letter = LENGTHS[regime], {"batch-only": "B", "samples-only": "P", "epochs": "E"}[regime]
    target = max(sizes.values()) if regime != "batch-only" else 128
    found = searched(flat(target=target, drift=-0.1), regime=regime, **sizes, budget=2.0)
    assert (found.goal.letter, found.goal.target) == (letter, target)
    assert len(found.scales) == 3
    # A setting that is not in the corpus takes half of the drift: 0.05 of the last tenth of a decade.
    assert found.forecast.x == pytest.approx(-1.25, abs=0.01)
    assert (found.forecast.regret_bound, found.recommended) == (math.inf, False)
    assert found.remedy.remedy is Remedy.SWEEP_TARGET
    (line,) = found.commands
    assert f"--regime {regime} " in line
    assert f"--scales {target} " in line
    if regime == "epochs":
        with pytest.raises(InputError, match="not for the regime 'epochs'"):
            searched(flat(target=target), regime=regime, **sizes, optimizer="sgd", probe=True)


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"parameterization": "eta_W=K^0.1"}, Remedy.TAKE_PRESCRIPTION),
        ({"bias_init": "normal"}, Remedy.ZERO_BIASES),
        ({"centred": False}, Remedy.CENTRE),
    ],
)
def test_what_the_theory_does_not_prescribe_has_no_calibration_either(searched, changes, remedy):
    found = searched(flat(drift=0.07), **changes)
    assert (found.forecast.entry.families, found.forecast.setting.prescribed) == (0, False)
    assert not found.recommended
    assert found.remedy.remedy is remedy
    assert searched(flat(drift=0.07)).recommended


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"seeds": 2}, "seeds must be a whole number from 3 to 9, got 2"),
        ({"budget": math.nan}, "budget must be above 0"),
        ({"tolerance": 1.0}, "tolerance must be above 0 and below 1, got 1.0"),
        ({"tolerance": "2 %"}, "tolerance must be above 0 and below 1, got '2 %'"),
        ({"by": "test"}, "by must be 'training' or 'heldout', got 'test'"),
    ],
)
def test_terms_are_checked_when_they_are_made(terms, words):
    with pytest.raises(InputError, match=words):
        Terms(**{"seeds": 3, "budget": 0.1, "tolerance": 0.02, "by": "training", "probe": False, **terms})


def test_all_that_is_wrong_is_said_together(tmp_path):
    with pytest.raises(InputError) as caught:
        tune(
            goal("isotropic", features=512),
            tmp_path / "out",
            probe=True,
            seeds=1,
            tuned=("gamma",),
            by="both",
        )
    assert len(caught.value.problems) == 5
    assert "probe is for the optimizer 'sgd', got 'adam'" in str(caught.value)
    with pytest.raises(InputError, match="probe is for by 'training'"):
        tune(goal("isotropic", features=512, optimizer="sgd"), tmp_path / "out", probe=True, by="heldout")
    assert not (tmp_path / "out").exists()


def test_rates_are_one_lattice():
    assert rate(0) == 1.0
    assert [rate(k) for k in (-PER_DECADE, -4, PER_DECADE)] == [0.1, pytest.approx(10**-0.5), 10.0]
