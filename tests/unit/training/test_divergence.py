"""One rule of divergence, for every loop that trains."""

import math

import numpy as np
import pytest

from denseam.training.divergence import ending, infinite_once_blown

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("errors", "initial", "status", "diverged_at", "last"),
    [
        ([[3, 2], [1, 1]], 3, "finished", None, 1),
        ([[3, 3], [3, 3]], 3, "finished", None, 3),  # a learning rate of zero
        ([[1, 3], [3, 3]], 3, "finished", None, 3),  # though its first batch was an easy one
        ([[9, 5], [4, 4]], 3, "diverged", 3, 4),  # though its first batch was a hard one
        ([[3, 2], [NAN, 1]], 3, "diverged", 2, INF),
        ([[3, INF], [1, 1]], 3, "diverged", 1, INF),
        ([[NAN, NAN], [NAN, NAN]], 3, "diverged", 0, INF),
        ([[3, 2], [1, 1]], NAN, "diverged", 3, 1),  # nothing to compare with is no reason to trust it
        ([[INF, 1], [1, 1]], INF, "diverged", 0, INF),
    ],
)
def test_a_run_is_judged_against_the_untrained_model(errors, initial, status, diverged_at, last):
    end = ending(np.array(errors, float), initial)
    assert (end.status, end.diverged_at, float(end.curve[-1].mean())) == (status, diverged_at, last)


def test_losses_are_infinite_from_the_first_that_is_not_finite():
    errors = np.array([[1.0, 2.0], [NAN, 3.0]])
    assert np.array_equal(infinite_once_blown(errors), [[1, 2], [INF, INF]])
    assert np.isnan(errors[1, 0])  # what was given is left alone


def test_a_run_that_forgets_under_decay_has_not_diverged():
    """Its untrained model has a loss of 0.55, and predicting zero one of 1.07."""
    errors = np.array([[0.8], [1.04]])
    assert ending(errors, 0.55, forgotten=1.07).status == "finished"
    assert ending(errors, 0.55).status == "diverged"
    assert ending(errors + 0.1, 0.55, forgotten=1.07).status == "diverged"
    assert ending(errors, 1.05, forgotten=0.2).status == "finished"
