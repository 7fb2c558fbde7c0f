"""Recall far beyond the trained steps, judged from made-up curves."""

import numpy as np

from denseam.paper.catalog import find
from denseam.paper.readings import FROZEN, TRAINED
from denseam.paper.recall_curves import EndsLower, NeverRises, RunsAway, StaysNear
from denseam.paper.recall_steps import BEYOND
from denseam.paper.sizes import SIZES

ONE, MANY = BEYOND[1, 1.0, 0.0], BEYOND[16, 1.0, 12.0]


class Recalled:
    """Errors at the end of training and of recall, and the largest rise of an energy, by memory."""

    def __init__(self, kept):
        self.kept = kept

    def is_measured(self, curve):
        return curve in self.kept

    def measured(self, curve):
        (at_T, end), rise = self.kept[curve]
        errors = np.array([1.0, at_T, end])
        return {"trained_steps": np.array(1)} | {
            f"{of}_{name}": factor * np.array(value)
            for of, factor in (("heldout", 1.0), ("trained", 0.5))
            for name, value in (("error", errors), ("rise", rise))
        }


def test_the_last_error_is_compared_with_that_of_the_last_trained_step():
    results = Recalled({ONE: ((0.1, 0.4), 0.0), MANY: ((0.12, 0.17), 0.0)})
    near, away = StaysNear((MANY,)).measure(results), RunsAway((ONE,)).measure(results)
    assert (near.holds, near.text) == (True, "0.120 → 0.170, 1.42 times")
    assert (away.holds, away.text) == (True, "0.100 → 0.400, 4.00 times")
    assert not StaysNear((ONE,)).measure(results).holds
    assert not RunsAway((MANY,)).measure(results).holds
    assert StaysNear((MANY,), of="trained").measure(results).text.startswith("0.060")


def test_errors_that_fall_from_memory_to_memory():
    results = Recalled({ONE: ((0.1, 0.4), 0.0), MANY: ((0.12, 0.17), 0.0)})
    assert EndsLower((ONE, MANY)).measure(results).holds
    assert not EndsLower((MANY, ONE)).measure(results).holds
    assert EndsLower((ONE, MANY)).missing(Recalled({ONE: ((0.1, 0.4), 0.0)})) == 1


def test_a_rise_of_the_energy_is_found():
    assert NeverRises((ONE,)).measure(Recalled({ONE: ((0.1, 0.4), 1e-7)})).holds
    assert not NeverRises((ONE,)).measure(Recalled({ONE: ((0.1, 0.4), 1e-3)})).holds


def test_the_curves_are_of_one_reading_and_drawn_once():
    (figure,) = find(["recall-curves"])
    assert figure.pinned
    assert all(claim.pinned for claim in figure.claims)
    assert (
        len(figure.measurements)
        == len({curve.key(SIZES["tiny"], TRAINED) for curve in figure.measurements})
        == 5
    )
    for curve in figure.measurements:
        assert curve.key(SIZES["tiny"], TRAINED) == curve.key(SIZES["tiny"], FROZEN)
