"""What the page says of the exponent finder is in its records, and they are as good as it says."""

import json

import pytest

from docs import found
from tests import ROOT

PAGES = "".join(
    (ROOT / "docs" / page).read_text(encoding="utf-8")
    for page in ("find-evidence.md", "energies-evidence.md")
)
KEPT = found.kept()
ENERGIES = {f"{activation} {optimizer} {regime}" for regime, activation, optimizer in found.ENERGIES}
#: "A row in five minutes on two cores", in seconds of one core.
LONGEST = 600


def test_every_case_of_the_page_was_searched():
    assert set(KEPT) == set(found.cases())
    for name, case in found.cases().items():
        assert KEPT[name]["case"] == case, f"{name} was searched with other arguments"


@pytest.mark.parametrize("name", [n for n, one in KEPT.items() if one["prescribed"] and n not in ENERGIES])
def test_every_row_is_recovered(name):
    """Along its path, and as the sum of the sizes that grow one at a time."""
    one = KEPT[name]
    assert one["start"] == "FAIL", "the start is wrong"
    for key, factor in one["factors"].items():
        assert factor["exponent"] == pytest.approx(one["row"][key], abs=found.NEAR), key
        if factor["apart"]:
            assert factor["sum"] == pytest.approx(one["row"][key], abs=found.NEAR), key
    assert one["status"] == "FOUND"


def test_rows_of_further_activations_are_found_from_the_standard_parameterization():
    """At least eight of them, with all exponents; the page shows what is missing for the others."""

    def is_near(one):
        return all(abs(f["exponent"] - one["row"][key]) <= found.NEAR for key, f in one["factors"].items())

    good = {name for name in ENERGIES if KEPT[name]["status"] == "FOUND" and is_near(KEPT[name])}
    assert len(good) >= 8
    assert {(KEPT[name]["check"], KEPT[name]["verdict"]) for name in good} == {("PASS", "TRANSFERS")}
    rest = [
        line
        for line in found.table(of_energies=True).splitlines()
        if line.split(" | ")[0][2:] in ENERGIES - good
    ]
    assert len(rest) == len(ENERGIES - good)
    assert all("✗" in line or "INCONCLUSIVE" in line for line in rest)


def test_no_search_took_longer_than_the_page_says():
    assert all(one.get("core_seconds", 2 * one["seconds"]) <= LONGEST for one in KEPT.values())


@pytest.mark.parametrize("fragment", found.FRAGMENTS)
def test_every_fragment_is_shown_and_made_from_the_records(fragment, monkeypatch, tmp_path):
    assert f"_generated/{fragment}" in PAGES
    before = found.FRAGMENTS[fragment]()
    changed = json.loads(json.dumps(KEPT))
    for one in changed.values():
        one["reason"] = "changed"
        for factor in one["factors"].values():
            factor["exponent"] = 7.0
            for law in factor["apart"].values():
                law["exponent"] = 7.0
    monkeypatch.setattr(found, "KEPT", tmp_path / "found.json")
    found.KEPT.write_text(json.dumps(changed), encoding="utf-8")
    assert found.FRAGMENTS[fragment]() != before


def test_a_wrong_exponent_is_marked(monkeypatch, tmp_path):
    changed = json.loads(json.dumps(KEPT))
    changed["relu sgd proportional"]["factors"]["s1"]["exponent"] = -0.44
    monkeypatch.setattr(found, "KEPT", tmp_path / "found.json")
    found.KEPT.write_text(json.dumps(changed), encoding="utf-8")
    assert found.table().count("✗") == 1
