"""The figures that are not trained by SGD alone, made at the smallest size; and what is drawn again from a folder."""

import collections
import re
import shutil

import pytest

import denseam.paper.gallery as gallery
from denseam.errors import InputError
from denseam.paper.catalog import catalog, find
from denseam.paper.gallery import judge, make_figures, write_findings
from denseam.paper.results import Results
from denseam.paper.sizes import SIZES
from denseam.studies.store import Store
from tests import ROOT
from tests.drawn import OTHERS, figures, is_made


@pytest.mark.parametrize("name", figures(OTHERS))
def test_every_other_figure_is_trained_drawn_and_judged(name, folder, coarsely):
    is_made(name, folder)


def test_drawing_never_trains(folder, coarsely, monkeypatch):
    def refuse(*_args, **_options):
        raise AssertionError("trained")

    names = ("many-memories", "mnist-examples")
    for name in names:
        is_made(name, folder)
    monkeypatch.setattr(gallery, "run_specs", refuse)
    monkeypatch.setattr("denseam.paper.examples.train_target", refuse)
    for name in names:
        is_made(name, folder)


def test_examples_that_are_damaged_are_named(folder, coarsely):
    is_made("mnist-examples", folder)
    (figure,), folder = find(["mnist-examples"]), folder / "mnist-examples"
    path = figure.examples[0].path(SIZES["tiny"], folder)
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:100])
        with pytest.raises(InputError, match="damaged"):
            make_figures([figure], SIZES["tiny"], folder, train=False)
    finally:
        path.write_bytes(whole)


def test_the_table_of_findings_keeps_figures_of_earlier_calls(folder, coarsely):
    for name in ("many-memories", "mnist-examples"):
        is_made(name, folder)
        shutil.copytree(folder / name, folder / "both", dirs_exist_ok=True)
    text = write_findings(folder / "both", SIZES["tiny"]).read_text()
    for figure in find(["many-memories", "mnist-examples"]):
        assert text.count(f"`{figure.paper_label or figure.name}`") == 1
        assert all(claim.text in text for claim in figure.claims)


def test_the_documents_say_what_the_records_say():
    """README and gallery count the claims; the records beside the gallery are judged anew here."""
    records = ROOT / "docs" / "gallery"
    rows = {row["key"]: row for row in Store(records / "runs").read()}
    results = Results(rows, SIZES["paper"], records)
    counts = {True: collections.Counter(), False: collections.Counter()}
    for figure in catalog():
        for found in judge(figure, results):
            kind = "only if" if found.condition else found.outcome
            counts[figure.paper_label is not None][kind] += 1
    paper = counts[True]
    readme, page = ((ROOT / name).read_text() for name in ("README.md", "docs/gallery.md"))
    said = re.search(
        r"of (\d+) claims (\d+) are reproduced, (\d+) under a\s+condition.*?, (\d+) are not, and (\d+)\s+are undecided",
        readme,
        re.S,
    )
    assert [int(n) for n in said.groups()] == [
        paper.total(), paper["reproduced"], paper["only if"], paper["not reproduced"], paper["undecided"],
    ]  # fmt: skip
    assert f"{len(rows):,} runs" in page
    assert f"of the {counts[True].total() + counts[False].total()} claims" in page
