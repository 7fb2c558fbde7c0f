"""Figures at the smallest size, made in two files: those trained by SGD alone share programs, and so do the others.

Each has its own folder: in one for all, every figure would read the runs of those before it, several times.
"""

import itertools
import json

from denseam.paper.catalog import catalog, find
from denseam.paper.gallery import make_figures
from denseam.paper.missing import Choice
from denseam.paper.readings import TRAINED
from denseam.paper.sizes import SIZES
from tests.sampled import covering, sampled


def by_sgd_alone(figure):
    return bool(figure.settings) and all(setting.get("optimizer") == "sgd" for setting in figure.settings)


def kinds(figure):
    """What a figure is made of: kinds of panels and of claims, activations, optimizers, regimes and data."""
    tests = [test for claim in figure.claims for _, test in claim.tests]
    tests += itertools.chain.from_iterable(getattr(test, "tests", ()) for test in tests)
    parts = {type(part).__name__ for part in (*figure.panels, *tests, *figure.measurements)}
    keys = ("activation", "optimizer", "regime", "data", "shrink", "bias_init", "probes")
    return parts | {(key, setting.get(key)) for key in keys for setting in figure.settings}


SGD_ALONE = [figure.name for figure in catalog() if by_sgd_alone(figure)]
OTHERS = [figure.name for figure in catalog() if not by_sgd_alone(figure)]
#: Figures with something of every kind; the others are slow.
FEW = [figure.name for figure in covering(catalog(), kinds)]


def figures(names):
    """Parameters of a test for each of these figures."""
    return sampled(names, FEW)


def is_made(name, parent):
    """Train, draw and judge a figure in one reading, in a folder of its own; look at all that is written."""
    folder = parent / name
    (figure,) = find([name])
    choice = Choice() if figure.pinned else Choice((TRAINED,))
    (made,) = make_figures([figure], SIZES["tiny"], folder, choice=choice, formats=("png",))
    assert not made.missing
    stem = name if figure.pinned else f"{name}-trained"
    assert [file.name for file in made.files] == [f"{stem}.png"]
    assert made.files[0].read_bytes().startswith(b"\x89PNG")
    document = json.loads((folder / f"{name}.json").read_text())
    assert len(document["claims"]) == len(figure.claims)
    words = {"holds", "does not hold"} if figure.own else {"reproduced", "not reproduced"}
    for claim in document["claims"]:
        ((reading, finding),) = claim["readings"].items()
        assert reading in ("trained", "compared")
        assert finding["verdict"].split(" only")[0].split(",")[0] in words | {"undecided"}
