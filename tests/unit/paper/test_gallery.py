"""The figures that are not trained by SGD alone, made at the smallest size; and what is drawn again from a folder."""

import shutil

import pytest

import denseam.paper.gallery as gallery
from denseam.ground.errors import InputError
from denseam.paper.catalog import find
from denseam.paper.gallery import make_figures, write_findings
from denseam.paper.missing import Choice
from denseam.paper.readings import READINGS, TRAINED
from denseam.paper.sizes import SIZES
from tests.drawn import DRAWN, OTHERS, figures, is_made, made_up
from tests.sampled import sampled

ONE = Choice((TRAINED,))


@pytest.mark.parametrize("name", figures(OTHERS))
def test_every_other_figure_is_trained_drawn_and_judged(name, folder, coarsely):
    is_made(name, folder)


#: They measure for themselves, and for long; `test_capacity` and `test_recall_curves` test what they measure.
LONG = {"recall-curves", "storage"}


#: `make docs` judges all figures, from their records; here every other one is enough.
HERE = set(DRAWN[::2]) - LONG


@pytest.mark.parametrize("name", sampled(DRAWN, HERE))
def test_figures_of_every_kind_are_drawn_and_judged(name, folder, coarsely, monkeypatch):
    monkeypatch.setattr("denseam.studies.runner.train_studies", made_up)
    is_made(name, folder / "made-up")


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
    path = figure.measurements[0].path(SIZES["tiny"], TRAINED, folder)
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:100])
        with pytest.raises(InputError, match="damaged"):
            make_figures([figure], SIZES["tiny"], folder, choice=ONE, train=False)
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


def test_compact_records_hold_all_readings(folder, coarsely, tmp_path):
    (figure,) = find(["linear-sgd"])
    make_figures([figure], SIZES["tiny"], folder, formats=("png",))
    gallery.compact([figure], SIZES["tiny"], folder, tmp_path)
    (made,) = make_figures([figure], SIZES["tiny"], tmp_path, train=False, formats=("png",))
    assert not made.missing
    assert [file.stem for file in made.files] == [f"linear-sgd-{name}" for name in READINGS]
