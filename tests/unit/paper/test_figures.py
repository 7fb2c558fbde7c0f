import dataclasses
import math
import re

import numpy as np
import pytest
from matplotlib.text import Text

import denseam as dam
import denseam.paper.gallery as gallery
from denseam.ground.errors import InputError
from denseam.paper import curves, decays, drawing, rates
from denseam.paper.catalog import catalog, find
from denseam.paper.claims import All, Claim, Measured, judge
from denseam.paper.drawing import MOST, arranged
from denseam.paper.figure import Sweep
from denseam.paper.gallery import make_figures
from denseam.paper.readings import FROZEN, NORMAL, READINGS, TRAINED
from denseam.paper.results import Results
from denseam.paper.settings import Setting, setting
from denseam.paper.sizes import SIZES
from denseam.paper.statements import STATEMENTS, claims_about
from denseam.rules import MemoriesOnly
from tests import ROOT
from tests.drawn import OTHERS, SGD_ALONE, figures, is_made
from tests.made_up import OTHER, SMALL, SWEEP, gathered, made_up, measure
from tests.sampled import sampled

LABELS = [
    "linear_SGD", "relu1-center-non-center", "transfer-anisotropic-relu", "transfer-mnist",
    "dynamics-relu-sgd-dz", "dynamics-collapse-relu-sgd-detailed", "center-non-center-relu-sgd-eigenvalues",
    "center-non-center-relu-sgd-transfer", "transfer-relu-p-large-p", "center-non-center-relu-adam-eigenvalues",
    "center-non-center-relu-adam-transfer", "adam-update-center-non-center",
    "softmax-adam-center-non-center-transfer-and-mse", "transfer-softmax-sgd-vs-adam",
    "softmax-dynamics-isntability", "transfter-K-only-regime", "mnist-examples",
]  # fmt: skip

INSIDE = SWEEP.but("c", eta0=0.005, probes=("dW", "lambda_max"))


# --- the catalog ---------------------------------------------------------------------------------


def test_all_figures_of_the_paper_are_there():
    assert [f.paper_label for f in catalog() if f.paper_label] == LABELS


def test_rows_are_whole():
    figures = catalog()
    assert len({f.name for f in figures}) == len(figures)
    for figure in figures:
        assert figure.claims, figure.name
        assert figure.panels, figure.name
        assert figure.settings or figure.measurements, figure.name


@pytest.mark.parametrize("size", sampled(["laptop", "paper", "tiny"], ["laptop", "paper"]))
def test_every_study_is_valid_at_every_size(size):
    for chosen in {one.unlabelled for figure in catalog() for one in figure.settings}:
        if chosen.get("data") == "isotropic":
            for reading in READINGS.values():
                assert chosen.runs(SIZES[size], reading)


def test_names_and_labels_are_found_in_the_order_of_the_catalog():
    assert [f.name for f in find(["noise", "linear_SGD"])] == ["linear-sgd", "noise"]
    assert find(["all"]) == catalog()
    with pytest.raises(InputError, match=r"there is no figure 'linear-sdg'; did you mean 'linear-sgd'\?"):
        find(["linear-sdg"])
    with pytest.raises(InputError, match="figure list"):
        find(["qqqq"])


def test_the_largest_scale_of_the_paper_needs_one_seed():
    few, one = SWEEP.studies(SIZES["paper"], TRAINED)
    assert (few.scales, few.seeds) == ((128, 256, 512, 1024), (0, 1, 2))
    assert (one.scales, one.seeds) == ((2048,), (0,))
    assert few.id == one.id
    assert few.name == one.name
    (fewer,) = SWEEP.but("", reach=-1).studies(SIZES["paper"], TRAINED)
    assert fewer.scales == (128, 256, 512, 1024)
    assert SWEEP.but("", reach=1).studies(SIZES["paper"], TRAINED)[1].scales == (2048,)
    assert SWEEP.but("", reach=1).whole_study(SIZES["paper"], TRAINED).scales[-1] == 4096


def test_a_reading_sets_the_biases_and_nothing_else():
    frozen, trained, normal = (SWEEP.whole_study(SMALL, r) for r in (FROZEN, TRAINED, NORMAL))
    ratios = {axis: frozen.grid[axis] for axis in ("eta_b_ratio", "eta_c_ratio")}
    assert ratios == {"eta_b_ratio": (0.0,), "eta_c_ratio": (0.0,)}
    assert (frozen.bias_init, trained.bias_init, normal.bias_init) == ("zero", "zero", "normal")
    assert dataclasses.replace(normal, bias_init="zero", name=trained.name).id == trained.id == frozen.id
    pinned = SWEEP.but("", pinned=NORMAL)
    assert pinned.runs(SMALL, FROZEN) == SWEEP.runs(SMALL, NORMAL)
    keys = [{spec.key for spec in SWEEP.runs(SMALL, r)} for r in (FROZEN, TRAINED, NORMAL)]
    assert len(set.union(*keys)) == sum(map(len, keys))


def test_no_two_settings_of_a_figure_are_the_same_runs():
    for figure in catalog():
        if not figure.pinned:
            plain = [dataclasses.replace(s, label="") for s in figure.settings]
            assert len(set(plain)) == len(plain), figure.name


def test_every_threshold_has_its_reason_and_all_have_a_date():
    text = (ROOT / "src" / "denseam" / "paper" / "thresholds.py").read_text()
    assert re.search(r"set on \d{4}-\d\d-\d\d", text)
    lines = text.splitlines()
    for n, line in enumerate(lines):
        if re.match(r"[A-Z_]+ = ", line):
            assert lines[n - 1].startswith("#: "), line


def test_every_statement_is_tested_or_has_a_reason():
    figures = catalog()
    stated = set()
    for statement in STATEMENTS:
        assert statement.claims or statement.otherwise, statement.text
        for reference in statement.claims:
            (*tested,) = claims_about(dataclasses.replace(statement, claims=(reference,)), figures)
            assert tested, f"{statement.text}: {reference}"
            stated |= {(figure.name, claim.text) for figure, claim in tested}
    claimed = {(figure.name, claim.text) for figure in figures if not figure.own for claim in figure.claims}
    assert claimed <= stated


def test_the_tests_that_statements_name_are_there():
    text = "".join(path.read_text() for path in (ROOT / "tests" / "unit").rglob("test_*.py"))
    for statement in STATEMENTS:
        for name in re.findall(r"`(test_\w+)`", statement.otherwise):
            assert f"def {name}(" in text, name


# --- claims, on records that are made up ---------------------------------------------------------


def test_transfer_is_the_verdict():
    still = measure(rates.Transfers(SWEEP), made_up(SWEEP))
    assert still.holds is True
    assert still.text.startswith("TRANSFERS")
    moving = made_up(SWEEP, best=lambda n: -1.75 - 0.35 * math.log2(n / 8))
    assert measure(rates.Transfers(SWEEP), moving).holds is False
    assert measure(rates.DoesNotTransfer(SWEEP), moving).holds is True
    assert measure(rates.DoesNotTransfer(SWEEP), made_up(SWEEP)).holds is False


def decaying(setting, axis, harm):
    """Records whose loss is flat up to a decay that costs 10 %, and then rises; that decay depends on the scale."""
    rows = made_up(setting)
    for row in rows:
        stronger = (1 if axis == "decay" else -1) * math.log10(row[axis] / harm(row["scale"]))
        row |= {"swept": axis, "final_mse": 0.2 * 1.1 ** (10**stronger)}
    return rows


@pytest.mark.parametrize(("axis", "grid"), [("decay", "1e-5:1e-1:17"), ("decay_time", "0.1:10:9")])
def test_the_decay_that_does_harm_is_compared_between_sizes(axis, grid):
    swept = SWEEP.but("decaying", eta0=0.01, **{axis: grid})
    still = decaying(swept, axis, lambda n: 0.01 if axis == "decay" else 0.5)
    found = measure(decays.Bearable(swept, 0.0), still)
    assert found.holds is True
    shown = re.match(rf"{axis} that costs 10 %: (\S+) at N = 8", found.text)
    assert float(shown[1]) == pytest.approx(0.01 if axis == "decay" else 0.5, rel=0.05)
    assert measure(decays.Bearable(swept, -math.log10(2)), still).holds is False
    harm = (lambda n: 0.08 / n) if axis == "decay" else (lambda n: 0.25 * n / 8)
    moving = decaying(swept, axis, harm)
    expected = -math.log10(2) if axis == "decay" else math.log10(2)
    assert measure(decays.Bearable(swept, expected), moving).holds is True
    assert measure(decays.Bearable(swept, 0.0), moving).holds is False
    harmless = decaying(swept, axis, lambda n: 10.0 if axis == "decay" else 1e-3)
    assert measure(decays.Bearable(swept, 0.0), harmless).holds is None


def test_a_falling_edge_leaves_transfer_open():
    falling = made_up(SWEEP, edge=lambda n: -0.6 - 0.25 * math.log2(n / 8))
    for test in (rates.Transfers(SWEEP), rates.DoesNotTransfer(SWEEP)):
        found = measure(test, falling)
        assert found.holds is None
        assert "TRANSFERS" in found.text
        assert "edge falls by 0.25" in found.text
    assert measure(rates.MoreStable(OTHER, SWEEP), falling, made_up(OTHER)).holds is True
    assert measure(rates.MoreStable(SWEEP, OTHER), falling, made_up(OTHER)).holds is False
    assert measure(rates.MoreStable(SWEEP, OTHER), made_up(SWEEP), made_up(OTHER)).holds is None


def test_one_seed_that_diverges_decides_nothing():
    gone = made_up(SWEEP)
    for row in gone:
        if row["scale"] == 64 and row["eta0"] > 0.0179 * 0.99 and row["seed"] == 0:
            row |= {"status": "diverged", "final_mse": math.inf}
    assert measure(rates.Transfers(SWEEP), gone).holds is None
    for row in gone:
        if row["scale"] == 64 and row["eta0"] > 0.0179 * 0.99:
            row |= {"status": "diverged", "final_mse": math.inf}
    assert measure(rates.Transfers(SWEEP), gone).holds is False


def test_what_learns_nothing_decides_nothing():
    found = measure(rates.Transfers(SWEEP), made_up(SWEEP, level=lambda n: 0.95))
    assert found.holds is None
    assert "nothing is learned at N = 8" in found.text
    fails = made_up(SWEEP, level=lambda n: 0.95, edge=lambda n: -1.2 - 0.5 * math.log2(n / 8))
    assert measure(rates.DoesNotTransfer(SWEEP), fails).holds is None


def test_a_base_further_up():
    late = made_up(SWEEP, best=lambda n: -1.0 if n == 8 else -1.75)
    assert measure(rates.Transfers(SWEEP), late).holds is False
    found = measure(rates.TransfersFrom(SWEEP), late)
    assert found.holds is True
    assert found.text.startswith("from N = 16 on TRANSFERS")
    never = made_up(SWEEP, best=lambda n: -1.0 - 0.3 * math.log2(n / 8))
    assert measure(rates.TransfersFrom(SWEEP), never).holds is False


def test_regrets_and_edges_are_compared():
    good, bad = made_up(SWEEP), made_up(OTHER, best=lambda n: -1.75 - 0.3 * math.log2(n / 8))
    assert measure(rates.LowerRegret(SWEEP, OTHER), good, bad).holds is True
    assert measure(rates.LowerRegret(OTHER, SWEEP), good, bad).holds is False
    assert measure(rates.LowerRegret(SWEEP, OTHER), good, made_up(OTHER)).holds is None
    third = SWEEP.but("c", noise=1.0)
    lowest = rates.LowestRegret(SWEEP, (OTHER, third))
    assert measure(lowest, good, bad, made_up(third)).holds is None
    assert measure(rates.LowestRegret(OTHER, (SWEEP, third)), good, bad, made_up(third)).holds is False
    low = made_up(OTHER, edge=lambda n: -1.2)
    assert measure(rates.EdgeFallsAlong((SWEEP, OTHER)), good, low).holds is True
    assert measure(rates.EdgeFallsAlong((SWEEP, OTHER), falls=False), good, low).holds is False
    # Where nothing of the grid stays finite, no edge is known.
    nothing = made_up(SWEEP, edge=lambda n: -9.0)
    found = measure(rates.EdgeFallsAlong((SWEEP, OTHER)), nothing, low)
    assert found.holds is None
    assert "a: below the grid" in found.text


def test_a_drift_is_compared_with_what_is_expected():
    rows = made_up(SWEEP, best=lambda n: -1.2 - 0.15 * math.log2(n / 8))
    assert measure(rates.DriftIs(SWEEP, -0.15), rows).holds is True
    assert measure(rates.DriftIs(SWEEP, 0.0), rows).holds is False


def test_collapse_is_the_mean_distance_to_the_largest_scale():
    apart = made_up(SWEEP, level=lambda n: 0.2 if n == 64 else 0.2 * math.exp(0.3))
    found = measure(curves.Collapse(SWEEP), apart)
    assert (found.holds, found.text) == (False, "curves are 30.0 % apart")
    assert measure(curves.Collapse(SWEEP), made_up(SWEEP)).holds is True
    probed = made_up(INSIDE, probe=lambda n, t: 2.0)
    assert measure(curves.Collapse(INSIDE, ("dW", "lambda_max")), probed).holds is True
    better = measure(curves.CollapsesBetter(OTHER, SWEEP), apart, made_up(OTHER))
    assert better.holds is True
    even = measure(curves.CollapsesBetter(OTHER, SWEEP), apart, made_up(OTHER, level=lambda n: 0.2 * n**0.18))
    assert even.holds is None
    growing = made_up(INSIDE, probe=lambda n, t: n * (1 + t))
    assert measure(curves.Collapse(INSIDE, ("dW",)), growing).holds is False
    assert measure(curves.Collapse(INSIDE, ("dW",), relative=True), growing).holds is True


def test_growth_is_a_power():
    rows = made_up(INSIDE, probe=lambda n, t: (1 + t) * n**0.7)
    found = measure(curves.Grows(INSIDE, "lambda_max", 0.6, 0.8), rows)
    assert (found.holds, found.text) == (True, "λ_max ∝ N^0.70")
    assert measure(curves.Grows(INSIDE, "lambda_max", 0.8), rows).holds is False
    slower = INSIDE.but("d", centred=False)
    less = curves.GrowsLess(slower, "lambda_max", INSIDE, "lambda_max")
    assert measure(less, rows, made_up(slower, probe=lambda n, t: n**0.1)).holds is True
    assert measure(less, rows, made_up(slower, probe=lambda n, t: n**0.9)).holds is False
    assert measure(less, rows, made_up(slower, probe=lambda n, t: n**0.65)).holds is None


def test_sizes_at_the_first_step():
    rows = made_up(INSIDE, probe=lambda n, t: n ** (0.5 * t))
    assert measure(curves.Begins(INSIDE, ("dW", "lambda_max")), rows).holds is True
    grown = made_up(INSIDE, probe=lambda n, t: n**0.5)
    found = measure(curves.Begins(INSIDE, ("dW",)), grown)
    assert (found.holds, found.text) == (False, "ΔW ∝ N^0.50 at the first step")
    assert measure(curves.Begins(INSIDE, ("dW",), 0.1, math.inf), grown).holds is True
    assert measure(curves.OneOrder(INSIDE, "dW", "lambda_max"), grown).holds is True
    for row in grown:
        row["probe_lambda_max"] = [20 * v for v in row["probe_dW"]]
    assert measure(curves.OneOrder(INSIDE, "dW", "lambda_max"), grown).holds is False


def test_what_rises_and_falls_together():
    rows = made_up(INSIDE, probe=lambda n, t: n ** (t * t))
    assert measure(curves.GoTogether(INSIDE, "dW", "lambda_max"), rows).holds is True
    assert measure(curves.GoTogether(INSIDE, "dW", "lambda_max", opposite=True), rows).holds is False
    for row in rows:
        row["probe_lambda_max"] = [1 / v for v in row["probe_dW"]]
    assert measure(curves.GoTogether(INSIDE, "dW", "lambda_max", opposite=True), rows).holds is True


def test_best_losses_and_seeds():
    low, high = made_up(SWEEP), made_up(OTHER, level=lambda n: 0.3)
    assert measure(rates.LowerLoss(SWEEP, OTHER), low, high).holds is True
    assert measure(rates.LowerLoss(OTHER, SWEEP), low, high).holds is False
    assert measure(rates.LowerLoss(SWEEP, OTHER, share=0.3), low, high).holds is True
    assert measure(rates.LowerLoss(SWEEP, OTHER, share=0.4), low, high).holds is False
    gone = [row | {"status": "diverged", "final_mse": math.inf} for row in high]
    assert measure(rates.LowerLoss(SWEEP, OTHER), low, gone).holds is True
    assert measure(rates.LowerLoss(OTHER, SWEEP), low, gone).holds is False
    assert measure(rates.AsGood(OTHER, SWEEP), low, high).holds is False
    assert measure(rates.AsGood(OTHER, SWEEP), low, made_up(OTHER)).holds is True
    assert measure(rates.SeedsAgree((SWEEP,)), low).holds is True
    for row in low:
        row["final_mse"] *= 1 + 0.1 * row["seed"]
    assert measure(rates.SeedsAgree((SWEEP,)), low).holds is False
    largest = max(row["scale"] for row in low)
    at_largest = [row for row in low if row["scale"] == largest]
    for row in at_largest:
        row["final_mse"] = math.inf
    assert measure(rates.SeedsAgree((SWEEP,)), low).holds is None
    for row in at_largest:
        row["final_mse"] = math.inf if row["seed"] else 0.2
    assert measure(rates.SeedsAgree((SWEEP,)), low).holds is False


def test_localisation_and_slowness():
    inside = setting("s", "softmax", "sgd", 0.08, probes=("K_eff",))
    rows = made_up(inside, probe=lambda n, t: n / 100**t)
    assert measure(curves.Localises(inside, True), rows).holds is True
    assert measure(curves.Localises(inside, False), rows).holds is False
    gone = made_up(inside, probe=lambda n, t: math.nan if t else n)
    assert measure(curves.Localises(inside, False), gone).holds is None
    slow = made_up(SWEEP, level=lambda n: 0.2 * (n / 8) ** 0.2)
    assert measure(curves.SlowsDown(SWEEP), slow).holds is True
    assert measure(curves.SlowsDown(SWEEP), made_up(SWEEP)).holds is False


def test_the_optimum_at_every_epoch():
    assert measure(rates.HorizonAgrees(SWEEP), made_up(SWEEP)).holds is True
    moving = made_up(SWEEP, best=lambda n: -1.2 - 0.2 * math.log2(n / 8))
    assert measure(rates.HorizonAgrees(SWEEP), moving).holds is False


@dataclasses.dataclass(frozen=True)
class Fixed:
    holds: bool | None
    lacking: int = 0
    settings: tuple[Setting, ...] = ()

    def missing(self, results):
        return self.lacking

    def measure(self, results):
        return Measured(self.holds, str(self.holds))


ABSENT = "absent"


@pytest.mark.parametrize(
    ("tests", "verdict"),
    [
        ((("", True), ("so", True)), "reproduced"),
        ((("", False), ("so", True)), "reproduced only if so"),
        ((("", None), ("so", True)), "undecided, reproduced if so"),
        ((("", False), ("so", False)), "not reproduced"),
        ((("", None), ("so", False)), "undecided"),
        ((("", False), ("so", None)), "undecided"),
        ((("", None),), "undecided"),
        ((("", ABSENT), ("so", True)), "not run"),
        ((("", False), ("so", ABSENT)), "not run"),
        ((("", None), ("so", ABSENT)), "undecided"),
    ],
)
def test_the_first_test_that_holds_decides(tests, verdict):
    claim = Claim(
        "It is so.",
        tuple((when, Fixed(None, 1) if holds is ABSENT else Fixed(holds)) for when, holds in tests),
    )
    found = claim.judge(Results({}, SMALL, TRAINED))
    assert found.verdict == verdict
    assert claim.judge(Results({}, SMALL, TRAINED), own=True).verdict == verdict.replace(
        "not reproduced", "does not hold"
    ).replace("reproduced", "holds")


def test_a_claim_has_a_word_in_each_reading():
    test = rates.Transfers(SWEEP)
    rows = [
        *made_up(SWEEP, reading=FROZEN),
        *made_up(SWEEP, reading=TRAINED, best=lambda n: -1.75 - 0.35 * math.log2(n / 8)),
    ]
    by_reading = {name: gathered(rows, reading=reading) for name, reading in READINGS.items()}
    judgement = judge(Claim("It transfers.", (("", test),)), by_reading, own=False)
    words = {name: finding.word for name, finding in judgement.findings.items()}
    assert words == {"frozen": "reproduced", "trained": "not reproduced", "normal": "not run"}
    assert list(judgement.to_json()["readings"]) == list(READINGS)
    partly = judge(Claim("It transfers.", (("", test),), readings=(TRAINED,)), by_reading, own=False)
    assert list(partly.findings) == ["trained"]
    pinned = Claim("It transfers.", (("", rates.Transfers(SWEEP.but("", pinned=FROZEN))),))
    assert judge(pinned, by_reading, own=True).findings["compared"].word == "holds"


def test_equal_questions_are_recognised_whatever_they_are_called():
    a, b = (Claim(text, (("", rates.Transfers(SWEEP.but(text))),)) for text in "ab")
    assert a.question == b.question
    assert a.question != Claim("a", (("", rates.Transfers(OTHER)),)).question


def test_where_the_model_stays_it_has_the_sizes_of_one_in_proportion():
    paper, reading = SIZES["paper"], READINGS["trained"]
    (study,) = SWEEP.but("length", regime="epochs", width=3).studies(paper, reading)
    assert (study.regime, study.scales) == (dam.Epochs(1024, 2048, 5120, 512), (32, 64, 128, 256))
    (study,) = SWEEP.but("batch", regime="batch-only").studies(paper, reading)
    assert (study.regime, study.scales) == (dam.BatchOnly(128, 256, 640), (8, 16, 32, 64, 128))
    (study,) = SWEEP.but("samples", regime="samples-only", width=9).studies(SIZES["tiny"], reading)
    assert (study.regime, study.scales) == (dam.SamplesOnly(16, 32, 8), (320, 640))


def test_further_seeds_and_scales_count_where_they_are_whole():
    size = dataclasses.replace(
        SMALL, single={"proportional": 64, "memories-only": 99}, most_seeds=3, beyond=(128,)
    )
    reaching = SWEEP.but("far", reach=1)
    needed, whole = made_up(reaching, size), made_up(reaching, size, whole=True)
    assert {r["seed"] for r in gathered(needed, size=size).rows(reaching) if r["scale"] == 64} == {0}
    results = gathered(whole, size=size)
    assert {r["scale"] for r in results.rows(reaching)} == {8, 16, 32, 64, 128}
    assert {r["seed"] for r in results.rows(reaching) if r["scale"] == 64} == {0, 1, 2}
    partly = [r for r in whole if not (r["scale"] == 64 and r["seed"] == 2 and r["eta0"] > 0.1)]
    seeds = {r["seed"] for r in gathered(partly, size=size).rows(reaching) if r["scale"] == 64}
    assert seeds == {0, 1}
    assert gathered(partly, size=size).missing(reaching) == 0


def test_all_of_several():
    both = All((rates.Transfers(SWEEP), rates.Transfers(OTHER)))
    assert measure(both, made_up(SWEEP), made_up(OTHER)).holds is True
    lost = made_up(OTHER, best=lambda n: -1.0 - 0.4 * math.log2(n / 8))
    assert measure(both, made_up(SWEEP), lost).holds is False


def test_curves_of_a_run_that_diverged_end():
    rows = made_up(SWEEP, edge=lambda n: -1.8 if n == 64 else 9)
    results = gathered(rows)
    losses = results.curves(SWEEP, "loss")
    assert np.isnan(losses[64][1]).all()
    assert np.isfinite(losses[32][1]).all()
    assert curves.diverging(results, SWEEP) == [64]


# --- making them ---------------------------------------------------------------------------------


def test_every_figure_is_made_in_this_file_or_the_next():
    assert sorted([*SGD_ALONE, *OTHERS]) == sorted(f.name for f in catalog())


@pytest.mark.parametrize("name", figures(SGD_ALONE))
def test_every_figure_of_sgd_is_trained_drawn_and_judged(name, folder, coarsely):
    is_made(name, folder)


def test_panels_are_arranged_to_fit_on_a_page():
    for figure in catalog():
        rows = arranged(figure.rows)
        assert max(map(len, rows)) <= MOST, figure.name
        assert len(rows) <= 8
        assert sorted(map(id, (p for row in rows for p in row))) == sorted(map(id, figure.panels))
    a, b, c, d, e = "abcde"
    assert arranged(((a, b, c), (d, e))) == ((a, b, c), (d, e)), "as they are"
    assert arranged(((a, b, c, d), (e, a, b, c))) == ((a, e), (b, a), (c, b), (d, c)), "rows become columns"
    assert arranged(((a, b, c, d, e),)) == ((a, b, c), (d, e)), "cut"
    assert arranged(((a, b, c, d), (e,))) == ((a, b), (c, d), (e,))


def test_a_picture_holds_no_claims_and_no_label_runs_into_a_panel(tmp_path, monkeypatch):
    """Nor does a title: with the longest label of the catalog in every panel of a wide figure."""
    labels = [p.setting.label for figure in catalog() for p in figure.panels if hasattr(p, "setting")]
    pictures = []
    monkeypatch.setattr(drawing, "save", lambda figure, *_: pictures.append(figure))
    sweep = Sweep(dataclasses.replace(SWEEP, label=max(labels, key=len)))
    results = gathered(made_up(sweep.setting, edge=lambda scale: -1.0))
    figure = dataclasses.replace(find(["large-p"])[0], rows=((sweep,) * 3,) * 2)
    drawing.draw_figure(figure, results, tmp_path, ("png",))
    (picture,) = pictures
    assert picture.get_figwidth() == drawing.WIDTH
    picture.draw_without_rendering()
    panels = [ax.get_window_extent() for ax in picture.axes]
    for text in (text for ax in picture.axes for text in (ax.xaxis.label, ax.yaxis.label, ax._left_title)):
        box = text.get_window_extent()
        assert not text.get_text() or not any(box.overlaps(panel) for panel in panels), text.get_text()
        assert box.x1 <= picture.bbox.x1
    claims = [claim.text for claim in find(["large-p"])[0].claims]
    words = "".join(text.get_text() for text in picture.findobj(Text))
    assert not any(claim in words for claim in claims)


def test_what_is_not_there_is_counted_not_drawn(tmp_path):
    (made,) = make_figures(find(["linear-sgd"]), SIZES["tiny"], tmp_path, train=False)
    assert made.files == ()
    runs = len(made.figure.settings[0].runs(SIZES["tiny"], TRAINED))
    assert made.missing == dict.fromkeys(READINGS, runs)
    words = {finding.word for judgement in made.judgements for finding in judgement.findings.values()}
    assert words == {"not run"}


def test_sizes_say_what_the_issue_of_time_is():
    assert SIZES["paper"].features[-1] == 2048
    assert SIZES["paper"].epochs == 256
    assert SIZES["paper"].regime == MemoriesOnly(128, 256, 25)
    with pytest.raises(InputError, match="size must be"):
        gallery.size_of("huge")


GALLERY = ROOT / "docs" / "gallery"


def test_the_gallery_holds_every_run_of_biases_trained_from_zero():
    """So that anybody redraws and judges without a GPU; fails if a row of the catalog was changed alone."""
    results = Results(gallery.rows_in(GALLERY), SIZES["paper"], TRAINED, GALLERY)
    for figure in catalog():
        if figure.section is None and not figure.pinned:
            assert sum(results.missing(setting) for setting in figure.settings) == 0, figure.name
            assert all(results.is_measured(one) for one in figure.measurements), figure.name
    size = sum(path.stat().st_size for path in GALLERY.rglob("*") if path.suffix in (".parquet", ".npz"))
    assert size < 10e6
