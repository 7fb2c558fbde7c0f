"""The figures that are not trained by SGD alone, made at the smallest size; and what is drawn again from a folder."""

import pytest
from drawn import OTHERS, is_made

import denseam.figures.gallery as gallery
from denseam.errors import InputError
from denseam.figures.catalog import find
from denseam.figures.gallery import make_figures
from denseam.figures.sizes import SIZES


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_figure_is_trained_drawn_and_judged(name, folder, coarsely):
    is_made(name, folder)


def test_drawing_never_trains(folder, coarsely, monkeypatch):
    def refuse(*_args, **_options):
        raise AssertionError("trained")

    figures = find(["many-memories", "mnist-examples"])
    make_figures(figures, SIZES["tiny"], folder, formats=("png",))
    monkeypatch.setattr(gallery, "run_specs", refuse)
    monkeypatch.setattr("denseam.figures.examples.train_target", refuse)
    made = make_figures(figures, SIZES["tiny"], folder, formats=("png",))
    assert all(one.files for one in made)


def test_examples_that_are_damaged_are_named(folder, coarsely):
    (figure,) = find(["mnist-examples"])
    make_figures([figure], SIZES["tiny"], folder, formats=("png",))
    path = figure.examples[0].path(SIZES["tiny"], folder)
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:100])
        with pytest.raises(InputError, match="damaged"):
            make_figures([figure], SIZES["tiny"], folder, train=False)
    finally:
        path.write_bytes(whole)
