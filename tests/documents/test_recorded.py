"""Numbers in README and docs that come from the records of the gallery are those of the records."""

import re

import pytest

from docs import recorded
from tests import ROOT

DOCS = ROOT / "docs"
#: Sections of 'measurements' whose runs were not kept; the page says so.
NOT_KEPT = {
    "Exponents up to N = 2048",
    "PyTorch",
    "Precision",
}
#: Percentages of these pages that are thresholds, not results.
THRESHOLDS = {"2 %", "95 %", "10 %"}


def page(name):
    """A page without code and includes."""
    text = (DOCS / name).read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def test_readme_says_what_the_records_say():
    """If it fails, the records or the claims have changed: `python docs/recorded.py` writes README anew."""
    assert recorded.in_readme() == recorded.readme()


@pytest.mark.parametrize("name", recorded.FRAGMENTS)
def test_every_fragment_is_shown_on_a_page(name):
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    assert f"_generated/{name}" in pages
    assert recorded.FRAGMENTS[name]().strip()


def test_rows_of_further_activations_are_as_the_page_says():
    """Those with a row do not fail, and what is sparse or wrong does not transfer."""
    from docs import energies

    verdicts, found = energies.verdicts(), energies.exponents()
    words = {case: verdicts[case.name].status for case in energies.cases() if case.name in verdicts}
    assert len(words) > 10
    for case, status in words.items():
        wrong = case.rule != "prescription" or case.activation in energies.SPARSE
        if not wrong and not energies.rule_of(case).prescribed:
            continue
        assert status != ("TRANSFERS" if wrong else "FAILS"), (case, status)
    prescribed = [case for case, status in words.items() if status == "TRANSFERS" and case.name in found]
    assert len(prescribed) >= 5
    for case in prescribed:
        for name, exponent in found[case.name]["exponents"].items():
            expected = float(getattr(energies.rule_of(case), name).along(case.regime))
            assert exponent == pytest.approx(expected, abs=0.1), (case, name)
    wrong_gain = [c for c in energies.CONTROLS if c.features != "tanh"]
    assert {words[c] for c in wrong_gain} == {"DRIFTS", "FAILS"}
    searched = [c for c in wrong_gain if c.name in found]
    assert searched
    for case in searched:
        assert found[case.name]["check"] == "FAIL"
        row = energies.rule_of(case._replace(rule="prescription"))
        for name, exponent in found[case.name]["exponents"].items():
            assert exponent == pytest.approx(float(getattr(row, name).along(case.regime)), abs=0.05), case


@pytest.mark.parametrize(
    "name",
    [
        "best-energy.md",
        "energies.md",
        "energies-evidence.md",
        "energies-sparse.md",
        "feature-norms.md",
        "gallery.md",
        "gallery-exceptions.md",
        "regimes.md",
        "samples-and-epochs.md",
    ],
)
def test_results_of_these_pages_are_generated(name):
    assert set(re.findall(r"\d[\d.]*\s%", page(name))) <= THRESHOLDS
    assert not re.findall(r"\\?η_?₀?[^.\n]{0,12}= ?\d\.\d+ (?:for|at) \$?K", page(name))


def test_every_section_of_measurements_is_generated_or_says_that_its_runs_were_not_kept():
    text = (DOCS / "measurements.md").read_text(encoding="utf-8")
    assert "Records of other sections were not kept" in " ".join(text.split())
    sections = re.split(r"^## (.*)$", text, flags=re.M)[1:]
    generated = {
        title for title, body in zip(sections[::2], sections[1::2], strict=True) if "_generated/" in body
    }
    assert generated | NOT_KEPT == set(sections[::2])
    assert not generated & NOT_KEPT


@pytest.mark.parametrize("name", ["batch-and-length.md", "verdict-errors.md"])
def test_pages_without_records_say_so(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    assert "_generated/" not in text
    assert "not kept" in " ".join(text.split())


def test_a_changed_record_changes_the_numbers(monkeypatch):
    """The fragments are computed, not copied."""
    from denseam.paper.experiments import RELU_SGD
    from denseam.paper.results import Results

    trained = recorded.results()["trained"]
    rows = {row["key"]: row | {"final_mse": row["final_mse"] * 1.5} for row in trained.rows(RELU_SGD)}
    changed = Results(dict(trained.all_rows) | rows, trained.size, trained.reading)
    before = recorded.best_losses()
    monkeypatch.setattr(recorded, "results", lambda: {"trained": changed})
    assert "0.306" in recorded.best_losses()
    assert "0.306" not in before


def contested(loss):
    """Records of the comparison of optimizers at the smallest size, whose losses are known."""
    from denseam.paper.compared import DATA, SCHEDULES, contest
    from denseam.paper.readings import TRAINED
    from denseam.paper.results import Results
    from denseam.paper.sizes import SIZES
    from tests.made_up import made_up

    size, rows = SIZES["tiny"], []
    for data in DATA:
        for schedule in SCHEDULES:
            for name, setting in contest(data, "training", schedule).items():
                for row in made_up(setting, size):
                    row["heldout_mse"] = row["final_mse"] = loss(name, schedule, row)
                    rows.append(row)
    return {"trained": Results({row["key"]: row for row in rows}, size, TRAINED)}


def test_the_optimizer_to_take_is_that_of_the_records(monkeypatch):
    def loss(name, schedule, row):
        level = {"Lion": 0.2, "Muon": 0.202}.get(name, 0.3)
        return level * (1 + 0.1 * (schedule == "constant rate") + 0.1 * row["decay"])

    monkeypatch.setattr(recorded, "results", lambda: contested(loss))
    text = recorded.compared()
    assert text.count("**0.200** (") == 4
    assert "By held-out loss take **Lion, linear to zero**: it is at most 0.0 % above the best" in text
    assert text.count("These cost at most 2 % more: Muon, linear to zero.") == 2
    assert recorded.NOT_RUN not in text


def test_without_its_runs_no_optimizer_is_named(monkeypatch):
    results = contested(lambda name, schedule, row: 0.2)["trained"]
    some = {key: row for key, row in results.all_rows.items() if row["study"].startswith("relu-muon")}
    partly = type(results)(some, results.size, results.reading)
    monkeypatch.setattr(recorded, "results", lambda: {"trained": partly})
    text = recorded.compared()
    assert "0.200 (" in text
    assert "**" not in text
    assert text.count("not decided, since runs are missing") == 2
