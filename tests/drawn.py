"""Figures at the smallest size, made in two files: those trained by SGD alone share programs, and so do the others.

`make test` trains some of them, and draws and judges others from runs that are made up; `make test-slow` trains all.

Each has its own folder: in one for all, every figure would read the runs of those before it, several times.
"""

import itertools
import json
import math

import numpy as np

from denseam.paper.catalog import catalog, find
from denseam.paper.gallery import make_figures
from denseam.paper.missing import Choice
from denseam.paper.readings import TRAINED
from denseam.paper.sizes import SIZES
from denseam.studies.runs import Outcome
from tests.sampled import covering, sampled


def by_sgd_alone(figure):
    return bool(figure.settings) and all(setting.get("optimizer") == "sgd" for setting in figure.settings)


def trained_kinds(figure):
    """What a figure trains; with every activation and optimizer the engine is tested."""
    keys = ("data", "shrink", "bias_init")
    return {(key, setting.get(key)) for key in keys for setting in figure.settings}


def kinds(figure):
    """What a figure is made of: kinds of panels, claims and measurements, and regimes."""
    tests = [test for claim in figure.claims for _, test in claim.tests]
    tests += itertools.chain.from_iterable(getattr(test, "tests", ()) for test in tests)
    parts = {type(part).__name__ for part in (*figure.panels, *tests, *figure.measurements)}
    return parts | {setting.get("regime") for setting in figure.settings}


SGD_ALONE = [figure.name for figure in catalog() if by_sgd_alone(figure)]
OTHERS = [figure.name for figure in catalog() if not by_sgd_alone(figure)]
#: Figures that train something of every kind, and few programs; the training of the others is slow.
TRAINED_FEW = [f.name for f in covering(catalog(), trained_kinds, lambda figure: 1 + len(figure.settings))]
#: Figures with something of every kind that those have not; with made-up runs, but with measurements of their own.
_SEEN = set().union(*(kinds(figure) for figure in catalog() if figure.name in TRAINED_FEW))
DRAWN = [figure.name for figure in covering(catalog(), lambda figure: kinds(figure) - _SEEN)]


def figures(names):
    """Parameters of a test for each of these figures."""
    return sampled(names, TRAINED_FEW)


def made_up(todo, **_options):
    """Instead of training: outcomes with an optimum, some divergence, and probes that grow with size."""
    for study, specs in todo:
        yield study, [made_up_run(study, spec) for spec in specs]


def made_up_run(study, spec):
    far = math.log10(spec.values["eta0"]) + 1.5
    dead = far > 2.5
    curve = np.linspace(1, 0.3 + 0.1 * far**2, study.epochs_at(spec.shape), dtype=np.float32)
    end, steps = math.inf if dead else float(curve[-1]), study.steps_to_probe(spec.shape)
    return Outcome(
        spec=spec, status="diverged" if dead else "finished", diverged_at=0 if dead else None, initial_mse=1.0,
        final_mse=end, heldout_mse=end, zero_mse=1.0, loss=np.full_like(curve, math.inf) if dead else curve,
        seconds=0.0, device="cpu", probe_steps=steps,
        probes={quantity: np.full(len(steps), spec.shape.N / 8) for quantity in study.probes},
    )  # fmt: skip


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
