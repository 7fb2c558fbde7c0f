"""The calibration: its data families and lists of sources, how tables become records, and what these show."""

import json
import math
import re

import numpy as np
import pytest

from calibration import collect, controls, families, report
from calibration.corpus import FEATURES as SIZES
from calibration.corpus import MEMORIES, write
from calibration.evidence import Evidence, coverage_limit, evidence, failures, tally
from calibration.features import most_varied, participation, with_crossings, with_products
from calibration.judge import PACKAGE, PLANS, Judged, complete, read, risk_limits, table
from calibration.reductions import auc
from calibration.registry import FAMILIES, FEATURES, LIMITS, Family, MissingSource, family, package_files
from denseam.analysis.forecast import Entry, Setting, Swept, forecast, write_table
from tests import ROOT

RECORD = json.loads((ROOT / "calibration" / "families.json").read_text(encoding="utf-8"))
OF_DENSEAM = {"mlxtend", "scikit-learn"}  # its extra `images` has them
OF_DEBIAN = {"apt"}


def listed(name):
    lines = (ROOT / "calibration" / name).read_text(encoding="utf-8").splitlines()
    return {line.split("==")[0] for line in lines if line and not line.startswith("#")}


def needed(manager):
    sources = {source for each in FAMILIES.values() for source in each.needs}
    return {source.split(":")[1] for source in sources if source.startswith(f"{manager}:")}


def made_up(make, kind="vectors"):
    return Family("made-up", kind, (), False, make)


def test_every_source_is_in_a_list():
    assert listed("requirements.txt") == needed("pip") - OF_DENSEAM
    assert listed("packages.txt") == needed("apt") - OF_DEBIAN


def test_the_record_describes_every_family():
    assert set(RECORD) == set(FAMILIES)
    for name, entry in RECORD.items():
        registered = FAMILIES[name]
        assert (entry["kind"], entry["held_aside"]) == (registered.kind, registered.held_aside), name
        assert (entry["needs"], entry["method"]) == (list(registered.needs), registered.method), name
        assert families.FEWEST <= entry["samples"] <= LIMITS[registered.kind], name
        assert 1 <= entry["participation"] <= FEATURES, name


def test_five_families_are_held_aside():
    assert {name for name, entry in RECORD.items() if entry["held_aside"]} == {
        "icons", "instruments", "emails", "chorales", "glosses",
    }  # fmt: skip


def test_samples_are_distinct_shuffled_scaled_and_the_same_every_time():
    numbers = np.random.default_rng(1).normal(3, 5, (2000, FEATURES))
    repeated = made_up(lambda rng: np.repeat(numbers, 3, axis=0))
    samples = families.samples_of(repeated)
    assert samples.shape == (2000, FEATURES)
    assert samples.dtype == np.float32
    assert samples.var(axis=0).mean() == pytest.approx(1, abs=1e-3)
    assert not np.array_equal(samples, samples[np.argsort(samples[:, 0])])
    np.testing.assert_array_equal(samples, samples.astype(np.float16))
    np.testing.assert_array_equal(samples, families.samples_of(repeated))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x: x[:100], "100 samples are fewer than 1500"),
        (lambda x: x[:, :9], r"samples have shape \(9,\)"),
        (lambda x: np.where(np.arange(FEATURES) < 2, 0, x), "2 features are constant"),
        (lambda x: np.where(np.arange(len(x)) == 5, np.nan, x.T).T, "not all values are finite"),
    ],
)
def test_samples_that_break_a_promise_are_refused(spoil, message):
    numbers = np.random.default_rng(1).normal(size=(2000, FEATURES))
    with pytest.raises(ValueError, match=message):
        families.samples_of(made_up(lambda rng: spoil(numbers)))


def test_a_missing_source_names_what_to_install(tmp_path, capsys, monkeypatch):
    def make(rng):
        return package_files("no_such_module", "*", "no-such-package")

    monkeypatch.setitem(FAMILIES, "made-up", made_up(make))
    assert families.main(["--out", str(tmp_path), "--only", "made-up"]) == 1
    error = capsys.readouterr().err
    assert error == "made-up: no Python package no_such_module: pip install no-such-package\n"
    with pytest.raises(MissingSource):
        make(None)


def test_what_is_written_is_the_same_in_both_formats(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(FAMILIES, "made-up", made_up(lambda rng: rng.normal(size=(2000, FEATURES))))
    folders = tmp_path / "full", tmp_path / "small"
    assert families.main(["--out", str(folders[0]), "--compact", str(folders[1]), "--only", "made-up"]) == 0
    full, small = (np.load(folder / "made-up.npy") for folder in folders)
    assert (full.dtype, small.dtype) == (np.float32, np.float16)
    np.testing.assert_array_equal(full, small)
    assert "made-up" in capsys.readouterr().out
    assert "made-up" not in json.loads(families.RECORD.read_text(encoding="utf-8"))


def test_names_and_kinds_are_checked():
    with pytest.raises(ValueError, match="two families are named digits"):
        family("digits", kind="images", needs=())(lambda rng: None)
    with pytest.raises(ValueError, match="kind must be one of images, vectors"):
        made_up(lambda rng: None, kind="sounds")


def test_participation_counts_the_directions():
    numbers = np.random.default_rng(0).normal(size=(20000, 12))
    assert participation(numbers) == pytest.approx(12, rel=0.01)
    assert participation(np.repeat(numbers[:, :3], 4, axis=1)) == pytest.approx(3, rel=0.01)


def test_tables_are_extended_to_the_number_of_features():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(500, 30))
    products = with_products(table, rng)
    np.testing.assert_array_equal(products[:, :30], table)
    np.testing.assert_allclose(products[:, 30:].var(axis=0), 1)
    assert with_crossings((table > 0).astype(float)).shape == products.shape == (500, FEATURES)
    np.testing.assert_array_equal(most_varied(table * np.arange(30), 2), (table * np.arange(30))[:, [28, 29]])


# --- from tables to records --------------------------------------------------------------------------


def made_up_rows(seed=0, **changes):
    """Rows as `calibration.corpus` writes them: one size and seed of two optimizers."""
    losses = [0.5, 0.25, math.inf]
    same = {
        "regime": "proportional", "samples": 1280, "activation": "relu", "power": 1.0,
        "noise": 0.5, "family": "anisotropic", "shrink": "", "scale": 16, "seed": seed, "precision": "float32",
        "per_decade": 4, "first_k": -13, "zero": 1.0, "final": losses, "heldout": losses, "early": losses,
    }  # fmt: skip
    return [same | {"optimizer": optimizer} | changes for optimizer in ("sgd", "adam")]


def test_tables_are_joined_into_records_with_eigenvalues(tmp_path, capsys):
    write(made_up_rows(0), tmp_path / "a" / "one.parquet")
    write(made_up_rows(1), tmp_path / "a" / "two.parquet")
    write(made_up_rows(2, regime="memories-only"), tmp_path / "b" / "one.parquet")
    out = tmp_path / "records.parquet"
    folders = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert collect.main([*folders, "--data", str(tmp_path), "--out", str(out)]) == 0
    assert "6 rows" in capsys.readouterr().out
    rows = collect.collect(map(tmp_path.joinpath, "ab"), tmp_path)
    known = {(row["optimizer"], row["regime"]): row["eigenvalue"] for row in rows}
    spectrum = np.arange(1, 17) ** -0.4
    assert known.pop(("sgd", "proportional")) == pytest.approx(16 / spectrum.sum(), rel=1e-6)
    assert set(known.values()) == {None}
    sgd, adam = (
        next(c for c in read(out) if (c.setting.optimizer, c.setting.regime) == (o, "proportional"))
        for o in ("sgd", "adam")
    )
    assert sgd.eigenvalues == {16: pytest.approx(16 / spectrum.sum(), rel=1e-6)}
    assert adam.eigenvalues == {}
    np.testing.assert_array_equal(adam.losses["final"][16], np.array([[0.5, 0.25, math.inf]] * 2).T)
    np.testing.assert_array_equal(adam.x, [-3.25, -3.0, -2.75])


def test_a_row_that_is_there_twice_is_refused(tmp_path, capsys):
    write(made_up_rows(3), tmp_path / "one.parquet")
    write(made_up_rows(3)[:1], tmp_path / "two.parquet")
    out = tmp_path / "records.parquet"
    assert collect.main([str(tmp_path), "--data", str(tmp_path), "--out", str(out)]) == 1
    assert re.match(
        r"1 rows are there twice, the first with family anisotropic, .*seed 3\n", capsys.readouterr().err
    )
    assert not out.exists()


# --- what is counted ---------------------------------------------------------------------------------

FLAT = Swept(doublings=(-2.0, -1.0), x=(-1.0, -1.0), seeds=3, deviation=0.02, curvature=1.0)


def judged(family, regret, bound):
    """A judged study with a given truth and bound."""
    setting = Setting("relu", 1.0, "adam", "proportional")
    entry = Entry(0.0, 0.0, 0.0, (1.0,) * 6, 1.0, 1, 1)
    made = forecast(FLAT, setting, entry)
    case = type("Case", (), {"family": family, "setting": setting, "noise": 0.5, "samples": 1})()
    return Judged(case, PLANS[0], type(made)(**vars(made) | {"regret_bound": bound}), regret)


def test_recommended_good_and_covered_are_counted():
    studies = [
        judged("a", 0.001, 0.01), judged("a", 0.015, 0.01), judged("b", 0.03, 0.015), judged("b", 0.001, 0.05),
        judged("c", 0.5, 0.9),
    ]  # fmt: skip
    t = tally(studies)
    assert (t.studies, t.families, t.recommended, t.covered, t.beyond) == (5, 3, 3, 1, 1)
    assert (t.good, t.good_recommended) == (3, 2)
    assert (t.median, t.worst) == (0.015, 0.03)
    assert [j.regret for j in failures(studies)] == [0.03, 0.015]
    assert t.limit == coverage_limit([("a", True), ("a", False), ("b", False)])
    page = report.failures_table(Evidence([], frozenset("b"), studies, 0))
    assert "2 of 3 recommendations" in page
    assert "| 3.00 % | 1.50 % | bound, tolerance |" in page
    assert "b (held aside)" in page


def test_the_limit_counts_families_not_studies():
    clean = [(str(i % 29), True) for i in range(290)]
    assert coverage_limit(clean) == pytest.approx(0.05 ** (1 / 29))
    one = [(name, name != "0") for name, _ in clean]
    half = [(name, not (name == "0" and i < 145)) for i, (name, _) in enumerate(clean)]
    assert coverage_limit(one) < coverage_limit(half) < coverage_limit(clean)
    # Clopper and Pearson: with p at the limit, at most one of 29 fails with probability 5 %.
    p = coverage_limit(one)
    assert p**29 + 29 * p**28 * (1 - p) == pytest.approx(1 - 0.95, abs=1e-9)
    assert coverage_limit([("a", False)]) == 0
    assert math.isnan(coverage_limit([]))


def test_an_alarm_is_as_good_as_its_order():
    assert auc([1, 2, 3, 4], [False, False, True, True]) == 1
    assert auc([1, 2, 3, 4], [True, False, False, True]) == 0.5
    assert auc([1, 1], [True, False]) == 0.5
    assert math.isnan(auc([1, 2], [False, False]))


def made_up_design(curve):
    """Rows of a design whose log-loss at a size index is curve(x, index)."""
    design, rng = controls.DESIGNS[0], np.random.default_rng(0)
    x = np.array(design.lattice) / 4
    return [
        {"design": design.name, "scale": scale, "seed": seed, "first_k": design.first_k, "zero": 1.0,
         "final": list(0.2 * np.exp(curve(x + 0.01 * rng.standard_normal(), i)))}
        for i, scale in enumerate((24, 48, 96)) for seed in range(6)
    ]  # fmt: skip


@pytest.mark.parametrize(("drift", "transfers"), [(0.0, True), (0.15, False)])
def test_controls_know_the_truth_and_count_wrong_verdicts(tmp_path, drift, transfers):
    middle = controls.DESIGNS[0].first_k / 4 + 0.9
    write(made_up_design(lambda x, i: 0.8 * (x - middle - drift * i) ** 2), tmp_path / "made.parquet")
    (control,) = controls.controls(tmp_path / "made.parquet")
    assert control.regret == pytest.approx(math.expm1(0.8 * (2 * drift) ** 2), abs=0.01)
    assert (control.transfers, len(control.verdicts)) == (transfers, 2)
    assert (control.decided, control.wrong) == (2, 0)
    opposite = "DRIFTS" if transfers else "TRANSFERS"
    assert type(control)(control.design, control.regret, 0.0, (opposite, "INCONCLUSIVE")).wrong == 1


# --- what the records show ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found():
    return evidence()


def test_the_constants_of_the_package_follow_from_the_records(found):
    fitted = write_table(table(complete(found.cases), found.aside))
    kept = json.loads(PACKAGE.read_text(encoding="utf-8"))
    assert len(fitted) == len(kept)
    for entry, shipped in zip(fitted, kept, strict=True):
        assert entry.keys() == shipped.keys()
        for name, value in entry.items():
            is_number = isinstance(value, float | list)
            expected = pytest.approx(value, rel=2e-3, abs=1e-6) if is_number else value
            assert shipped[name] == expected, "to be written again by python -m calibration.judge --write"


@pytest.mark.parametrize("by", ["training", "heldout"])
@pytest.mark.parametrize("plan", PLANS[:2], ids=lambda plan: plan.name)
def test_the_bound_holds_for_adam(found, by, plan):
    counts = report.pooled(found, "adam", "proportional", plan, by)
    assert counts.studies >= 120
    assert counts.families >= 20
    assert counts.coverage >= 0.95


@pytest.mark.parametrize(("plan", "most", "share"), [(PLANS[0], 0.15, 0.85), (PLANS[1], 0.05, 0.75)])
def test_good_values_are_recommended_for_adam(found, plan, most, share):
    counts = report.pooled(found, "adam", "proportional", plan, "training")
    assert plan.cost(Setting("relu", 1.0, "adam", "proportional")) <= most
    assert counts.share >= share
    assert counts.median <= 0.002


def test_the_bound_holds_and_good_values_are_recommended_under_sgd(found):
    sgd = found.where(lambda j: j.case.setting.optimizer == "sgd" and j.plan.gap == 1)
    for probe, share in ((False, 0.3), (True, 0.6)):
        counts = tally([j for j in sgd if j.plan.probe == probe and j.forecast.setting.by == "training"])
        assert counts.coverage >= 0.95
        assert counts.share >= share
        assert counts.median <= 0.002
    assert tally([j for j in sgd if j.forecast.setting.by == "heldout"]).coverage >= 0.95


def test_of_all_recommendations_the_bound_holds(found):
    assert tally(found.judged).coverage >= 0.95


@pytest.mark.parametrize(
    ("costs", "limits"),
    [
        ([0.0] * 100, [99.0] * 6),  # all keep the smallest bound
        ([0.0] * 18, [0.0] * 6),  # too few to say so of 95 %
        ([0.0] * 60 + [0.04] * 40, [61.0] * 3 + [99.0] * 3),  # the second failure is one too many
        ([math.inf, *[0.0] * 99], [99.0] * 6),
        ([math.inf, *[0.0] * 30], [0.0] * 6),
    ],
)
def test_limits_are_the_largest_risks_that_keep_a_bound(costs, limits):
    risks, names = np.arange(len(costs)), [str(i) for i in range(len(costs))]
    assert risk_limits(list(risks), costs, names, len(costs), 0.95) == limits


def test_bounds_hold_for_families_held_aside(found):
    assert found.aside == {name for name, entry in RECORD.items() if entry["held_aside"]}
    aside = found.where(lambda j: j.case.family in found.aside and j.case.setting.optimizer == "adam")
    counts = tally([j for j in aside if j.plan.gap == 1])
    assert counts.families == 5
    assert counts.coverage >= 0.95


def test_the_readme_has_the_numbers_of_the_records(found):
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert report.headline(found) in text


def test_verdicts_on_controls_are_right():
    known = controls.controls()
    verdicts = sum(len(control.verdicts) for control in known)
    assert [control.design for control in known] == list(controls.DESIGNS)
    assert verdicts >= 300
    assert sum(control.wrong for control in known) <= 1
    assert sum(control.decided for control in known) >= 0.7 * verdicts
    clear = [control for control in known if control.clear]
    studies = sum(len(control.verdicts) for control in clear)
    assert studies >= 300
    assert sum(control.decided for control in clear) >= 0.8 * studies
    truths = [control.transfers for control in clear]
    assert min(truths.count(True), truths.count(False)) >= 8


def test_the_page_shows_every_part_and_picture():
    pages = [*sorted((ROOT / "docs").glob("calibration*.md")), ROOT / "docs" / "verdict-controls.md"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert sorted(re.findall(r"_generated/calibration/(\w+)\.md", text)) == sorted(report.PARTS)
    assert sorted(re.findall(r"_generated/calibration/(\w+)\.png", text)) == sorted(report.PICTURES)
    first = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
    assert first.index("calibration-failures.md") < first.index("headline.md"), "the failures come first"


def test_the_page_names_what_the_records_have(found):
    failed = report.failures_table(found)
    for j in failures(found.judged):
        assert j.case.family in failed
    for text in (report.headline(found), failed, report.whole_table(found, "heldout")):
        assert "nan" not in text
    sizes = {tuple(case.scales) for case in complete(found.cases)}
    more = ((16, *SIZES[:-1]), (256, *MEMORIES[:-1]))  # under SGD
    assert sizes == {SIZES, MEMORIES, *more}
