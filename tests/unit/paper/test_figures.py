import dataclasses
import math

import numpy as np
import pytest

import denseam.paper.gallery as gallery
from denseam.errors import InputError
from denseam.paper import claims
from denseam.paper.catalog import catalog, find
from denseam.paper.claims import Claim, Measured
from denseam.paper.gallery import make_figures
from denseam.paper.results import Results
from denseam.paper.settings import Setting, setting
from denseam.paper.sizes import SIZES
from denseam.rules import MemoriesOnly
from tests import ROOT
from tests.drawn import OTHERS, SGD_ALONE, figures, is_made

LABELS = [
    "linear_SGD", "relu1-center-non-center", "transfer-anisotropic-relu", "transfer-mnist",
    "dynamics-relu-sgd-dz", "dynamics-collapse-relu-sgd-detailed", "center-non-center-relu-sgd-eigenvalues",
    "center-non-center-relu-sgd-transfer", "transfer-relu-p-large-p", "center-non-center-relu-adam-eigenvalues",
    "center-non-center-relu-adam-transfer", "adam-update-center-non-center",
    "softmax-adam-center-non-center-transfer-and-mse", "transfer-softmax-sgd-vs-adam",
    "softmax-dynamics-isntability", "transfter-K-only-regime", "mnist-examples",
]  # fmt: skip

SMALL = dataclasses.replace(
    SIZES["tiny"], features=(8, 16, 32, 64), memories=(8, 16, 32), seeds=3, per_decade=4, epochs=4
)
SWEEP = setting("a", "relu", "sgd", (-3, -0.5))
OTHER = SWEEP.but("b", centred=False)
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
        assert figure.settings or figure.examples, figure.name


@pytest.mark.parametrize("size", ["laptop", "paper", "tiny"])
def test_every_study_is_valid_at_every_size(size):
    for figure in catalog():
        for chosen in figure.settings:
            if chosen.get("data") == "isotropic":
                assert all(study.runs() for study in chosen.studies(SIZES[size]))


def test_names_and_labels_are_found_in_the_order_of_the_catalog():
    assert [f.name for f in find(["noise", "linear_SGD"])] == ["linear-sgd", "noise"]
    assert find(["all"]) == catalog()
    with pytest.raises(InputError, match=r"there is no figure 'linear-sdg'; did you mean 'linear-sgd'\?"):
        find(["linear-sdg"])
    with pytest.raises(InputError, match="figure list"):
        find(["qqqq"])


def test_the_largest_scale_of_the_paper_has_one_seed():
    few, one = SWEEP.studies(SIZES["paper"])
    assert (few.scales, few.seeds) == ((128, 256, 512, 1024), (0, 1, 2))
    assert (one.scales, one.seeds) == ((2048,), (0,))
    assert few.id == one.id
    assert few.name == one.name
    (fewer,) = SWEEP.but("", fewer=True).studies(SIZES["paper"])
    assert fewer.scales == (128, 256, 512, 1024)


# --- claims, on records that are made up ---------------------------------------------------------


def made_up(setting, size=SMALL, best=lambda scale: -1.75, edge=lambda scale: 9.0, level=lambda scale: 0.2,
            probe=lambda scale, step: 1.0):  # fmt: skip
    """Records of a setting whose optimum, edge, loss and measurements are known."""
    rows = []
    for study in setting.studies(size):
        for spec in study.runs():
            x = math.log10(spec.values["eta0"])
            dead = x > edge(spec.scale)
            loss = level(spec.scale) * math.exp(0.5 * (x - best(spec.scale)) ** 2) * (1 + 1e-4 * spec.seed)
            row = {
                "key": spec.key, "study": study.name, "study_id": study.id, "scale": spec.scale,
                "regime": study.regime.name, "seed": spec.seed, "status": "diverged" if dead else "finished",
                "final_mse": math.inf if dead else loss, "zero_mse": 1.0, "swept": "eta0", **spec.values,
                "loss": [math.inf if dead else loss * f for f in (4, 3, 2, 1)],
            }  # fmt: skip
            if study.probes:
                row["probe_steps"] = [0.0, 1.0, 2.0]
                row |= {f"probe_{q}": [probe(spec.scale, t) for t in range(3)] for q in study.probes}
            rows.append(row)
    return rows


def measure(test, *rows, size=SMALL):
    return test.measure(Results({r["key"]: r for some in rows for r in some}, size))


def test_transfer_is_the_verdict():
    still = measure(claims.Transfers(SWEEP), made_up(SWEEP))
    assert still.holds is True
    assert still.text.startswith("TRANSFERS")
    moving = made_up(SWEEP, best=lambda n: -1.75 - 0.35 * math.log2(n / 8))
    assert measure(claims.Transfers(SWEEP), moving).holds is False
    assert measure(claims.DoesNotTransfer(SWEEP), moving).holds is True
    assert measure(claims.DoesNotTransfer(SWEEP), made_up(SWEEP)).holds is False


def test_a_falling_edge_is_no_transfer():
    falling = made_up(SWEEP, edge=lambda n: -0.6 - 0.25 * math.log2(n / 8))
    found = measure(claims.DoesNotTransfer(SWEEP), falling)
    assert found.holds is True
    assert "edge falls by 0.25" in found.text


def test_a_base_further_up():
    late = made_up(SWEEP, best=lambda n: -1.0 if n == 8 else -1.75)
    assert measure(claims.Transfers(SWEEP), late).holds is False
    found = measure(claims.TransfersFrom(SWEEP), late)
    assert (found.holds, found.text) == (True, "from N = 16 on")
    never = made_up(SWEEP, best=lambda n: -1.0 - 0.3 * math.log2(n / 8))
    assert measure(claims.TransfersFrom(SWEEP), never).holds is False


def test_regrets_and_edges_are_compared():
    good, bad = made_up(SWEEP), made_up(OTHER, best=lambda n: -1.75 - 0.3 * math.log2(n / 8))
    assert measure(claims.LowerRegret(SWEEP, OTHER), good, bad).holds is True
    assert measure(claims.LowerRegret(OTHER, SWEEP), good, bad).holds is False
    low = made_up(OTHER, edge=lambda n: -1.2)
    assert measure(claims.EdgeFallsAlong((SWEEP, OTHER)), good, low).holds is True
    assert measure(claims.EdgeFallsAlong((SWEEP, OTHER), falls=False), good, low).holds is False


def test_a_drift_is_compared_with_what_is_expected():
    rows = made_up(SWEEP, best=lambda n: -1.2 - 0.15 * math.log2(n / 8))
    assert measure(claims.DriftIs(SWEEP, -0.15), rows).holds is True
    assert measure(claims.DriftIs(SWEEP, 0.0), rows).holds is False


def test_collapse_is_the_mean_distance_to_the_largest_scale():
    apart = made_up(SWEEP, level=lambda n: 0.2 if n == 64 else 0.2 * math.exp(0.3))
    found = measure(claims.Collapse(SWEEP), apart)
    assert (found.holds, found.text) == (False, "curves are 30.0 % apart")
    assert measure(claims.Collapse(SWEEP), made_up(SWEEP)).holds is True
    probed = made_up(INSIDE, probe=lambda n, t: 2.0)
    assert measure(claims.Collapse(INSIDE, ("dW", "lambda_max")), probed).holds is True
    better = measure(claims.CollapsesBetter(OTHER, SWEEP), apart, made_up(OTHER))
    assert better.holds is True


def test_growth_is_a_power():
    rows = made_up(INSIDE, probe=lambda n, t: (1 + t) * n**0.7)
    found = measure(claims.Grows(INSIDE, "lambda_max", 0.6, 0.8), rows)
    assert (found.holds, found.text) == (True, "λ_max ∝ N^0.70")
    assert measure(claims.Grows(INSIDE, "lambda_max", 0.8), rows).holds is False
    slower = INSIDE.but("d", centred=False)
    less = claims.GrowsLess(slower, "lambda_max", INSIDE, "lambda_max")
    assert measure(less, rows, made_up(slower, probe=lambda n, t: n**0.1)).holds is True
    assert measure(less, rows, made_up(slower, probe=lambda n, t: n**0.9)).holds is False


def test_localisation_and_slowness():
    inside = setting("s", "softmax", "sgd", 0.08, probes=("K_eff",))
    rows = made_up(inside, probe=lambda n, t: n / 100**t)
    assert measure(claims.Localises(inside, 0.1, True), rows).holds is True
    assert measure(claims.Localises(inside, 0.1, False), rows).holds is False
    slow = made_up(SWEEP, level=lambda n: 0.2 * (n / 8) ** 0.2)
    assert measure(claims.SlowsDown(SWEEP), slow).holds is True
    assert measure(claims.SlowsDown(SWEEP), made_up(SWEEP)).holds is False


def test_the_optimum_at_every_epoch():
    assert measure(claims.HorizonAgrees(SWEEP), made_up(SWEEP)).holds is True
    moving = made_up(SWEEP, best=lambda n: -1.2 - 0.2 * math.log2(n / 8))
    assert measure(claims.HorizonAgrees(SWEEP), moving).holds is False


@dataclasses.dataclass(frozen=True)
class Fixed:
    holds: bool | None
    settings: tuple[Setting, ...] = ()

    def measure(self, results):
        return Measured(self.holds, str(self.holds))


@pytest.mark.parametrize(
    ("tests", "verdict"),
    [
        ((("", True), ("so", True)), "reproduced"),
        ((("", False), ("so", True)), "reproduced only if so"),
        ((("", None), ("so", True)), "reproduced only if so"),
        ((("", False), ("so", False)), "not reproduced"),
        ((("", None), ("so", False)), "undecided"),
        ((("", None),), "undecided"),
    ],
)
def test_the_first_test_that_holds_decides(tests, verdict):
    claim = Claim("It is so.", tuple((condition, Fixed(holds)) for condition, holds in tests))
    found = claim.judge(Results({}, SMALL))
    assert found.verdict == verdict
    assert found.to_json()["claim"] == "It is so."
    assert dataclasses.replace(found, own=True).verdict == verdict.replace(
        "not reproduced", "does not hold"
    ).replace("reproduced", "holds")


def test_all_of_several():
    both = claims.All((claims.Transfers(SWEEP), claims.Transfers(OTHER)))
    assert measure(both, made_up(SWEEP), made_up(OTHER)).holds is True
    lost = made_up(OTHER, best=lambda n: -1.0 - 0.4 * math.log2(n / 8))
    assert measure(both, made_up(SWEEP), lost).holds is False


def test_curves_of_a_run_that_diverged_end():
    rows = made_up(SWEEP, edge=lambda n: -1.8 if n == 64 else 9)
    results = Results({r["key"]: r for r in rows}, SMALL)
    curves = results.curves(SWEEP, "loss")
    assert np.isnan(curves[64][1]).all()
    assert np.isfinite(curves[32][1]).all()
    assert claims.diverging(results, SWEEP) == [64]


# --- making them ---------------------------------------------------------------------------------


def test_every_figure_is_made_in_this_file_or_the_next():
    assert sorted([*SGD_ALONE, *OTHERS]) == sorted(f.name for f in catalog())


@pytest.mark.parametrize("name", figures(SGD_ALONE))
def test_every_figure_of_sgd_is_trained_drawn_and_judged(name, folder, coarsely):
    is_made(name, folder)


def test_what_is_not_there_is_counted_not_drawn(tmp_path):
    (made,) = make_figures(find(["linear-sgd"]), SIZES["tiny"], tmp_path, train=False)
    assert made.files == made.findings == ()
    assert made.missing == sum(len(s.runs()) for s in made.figure.settings[0].studies(SIZES["tiny"]))


def test_sizes_say_what_the_issue_of_time_is():
    assert SIZES["paper"].features[-1] == 2048
    assert SIZES["paper"].epochs == 256
    assert SIZES["paper"].regime == MemoriesOnly(128, 256, 25)
    with pytest.raises(InputError, match="size must be"):
        gallery.size_of("huge")


GALLERY = ROOT / "docs" / "gallery"


def test_the_gallery_holds_every_run_of_the_paper_size():
    """So that anybody redraws and judges without a GPU; fails if a row of the catalog was changed alone."""
    results = Results(gallery._rows(GALLERY), SIZES["paper"], GALLERY)
    for figure in catalog():
        assert sum(results.missing(setting) for setting in figure.settings) == 0, figure.name
        assert all(one.read(SIZES["paper"], GALLERY) is not None for one in figure.examples), figure.name
    (figure,) = find(["sgd-transfer"])
    outcomes = [claim.judge(results).verdict for claim in figure.claims]
    assert outcomes == ["reproduced", "reproduced only if biases start at zero", "reproduced"]
    size = sum(path.stat().st_size for path in GALLERY.rglob("*") if path.suffix in (".parquet", ".npz"))
    assert size < 10e6
