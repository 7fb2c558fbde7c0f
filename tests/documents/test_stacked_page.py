"""What the page says of stacked memories is in its records, and they are as good as it says."""

import json

import pytest

from denseam.analysis.coordinates.expected import TOLERANCE
from docs import stacked
from tests import ROOT

PAGE = (ROOT / "docs" / "stacked.md").read_text(encoding="utf-8")
RULES = {f"{rule.pair}; {rule.optimizer}": rule for rule in stacked.rules()}


def test_every_rule_was_searched_and_checked():
    assert set(stacked.kept("found.json")) == set(RULES)
    assert set(RULES) < set(stacked.kept("checks.json"))
    for name, factors in stacked.kept("found.json").items():
        assert {f: law["predicted"] for f, law in factors.items()} == RULES[name].exponents
        assert all(tuple(law["sizes"]) == stacked.FOUND_AT for law in factors.values())


@pytest.mark.parametrize("name", [name for name in RULES if "ReLU" in name])
def test_the_exponents_of_relu_are_found(name):
    for factor, law in stacked.kept("found.json")[name].items():
        low, high = law["interval"]
        assert low <= law["predicted"] <= high, factor
        assert law["exponent"] == pytest.approx(law["predicted"], abs=0.1), factor


def test_two_softmax_layers_need_a_weak_top():
    found = stacked.kept("found.json")
    strong, weak = (found[f"softmax, softmax{top}; adam"]["down1"] for top in ("", ", weak top"))
    assert strong["interval"][1] < 0.5
    assert weak["interval"][0] <= 0.5 <= weak["interval"][1]


def test_the_checks_are_as_the_page_says():
    checks = stacked.kept("checks.json")
    assert checks["ReLU, tanh; adam"]["status"] == "PASS"
    (one,) = checks["ReLU, tanh; sgd"]["failing"]
    assert one["name"] == "dF by matrix W2"
    assert f"exponent of {one['exponent']:.2f} where {TOLERANCE:g} is allowed" in " ".join(PAGE.split())
    softmax = [checks[name] for name in RULES if "softmax" in name]
    assert all(made["failing"][0]["step"] == 0 for made in softmax)


def test_controls_fail_the_check():
    checks = stacked.kept("checks.json")
    controls = set(checks) - set(RULES)
    assert len(controls) == len(stacked.CONTROLS) == 2
    assert all(checks[name]["status"] == "FAIL" for name in controls)


def test_the_sweeps_are_complete():
    judged = stacked.verdicts()
    assert len(judged) == 2 * len(stacked.STUDIES)
    for v in judged.values():
        assert tuple(sorted(v.optimum)) == stacked.SWEPT_AT


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_stacked_memory_transfers_but_one_memory_is_better(optimizer):
    own, *singles = (stacked.verdicts()[f"ReLU, tanh; {optimizer}: {study}"] for study in stacked.STUDIES)
    assert own.status == "TRANSFERS"
    for single in singles:
        assert all(single.best_loss[N] < own.best_loss[N] for N in stacked.SWEPT_AT)


@pytest.mark.parametrize("fragment", stacked.FRAGMENTS)
def test_every_fragment_is_shown(fragment):
    assert f"_generated/{fragment}" in PAGE
    assert stacked.FRAGMENTS[fragment]().count("\n") > 2


def test_tables_are_made_from_the_records(monkeypatch, tmp_path):
    before = stacked.found_table()
    changed = json.loads(json.dumps(stacked.kept("found.json")))
    changed["ReLU, tanh; sgd"]["up1"]["exponent"] = 7.0
    monkeypatch.setattr(stacked, "kept", lambda name: changed)
    assert stacked.found_table() != before
    assert "7.00 (" in stacked.found_table()
