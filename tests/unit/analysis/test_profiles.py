import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import Akima1DInterpolator, CubicSpline

from denseam.analysis.profiles import Profile
from denseam.analysis.thresholds import RESOLUTION
from tests.synthetic import Valley

X = np.linspace(-3, 0, 13)


def profile(logs, x=X):
    return Profile(x, np.exp(np.reshape(logs, (len(x), -1))))


@settings(max_examples=50, deadline=None)
@given(
    top=st.floats(-2.4, -0.6),
    curvature=st.floats(0.01, 20),
    moved=st.lists(st.floats(-0.09, 0.09), min_size=11, max_size=11),
    at=st.floats(-3, 0),
)
def test_a_parabola_is_reproduced_on_any_grid(top, curvature, moved, at):
    x = X + np.array([0, *moved, 0])
    found = profile(curvature * (x - top) ** 2, x)
    assert found.optimum == pytest.approx(top, abs=1e-6)
    assert found.best == pytest.approx(0, abs=1e-9)
    assert found.at(at)[0] == pytest.approx(curvature * (at - top) ** 2, rel=1e-6, abs=1e-9)
    assert found.curvature == pytest.approx(2 * curvature)
    assert found.regret(at) == pytest.approx(math.expm1(found.at(at)[0]), rel=1e-6, abs=1e-9)


def test_few_points_are_a_line_or_a_parabola():
    line = profile([0.0, 1.0], np.array([0.0, 2.0]))
    assert line.at(0.5)[0] == pytest.approx(0.25)
    assert (line.optimum, line.end, line.curvature) == (0, "low", 0)
    x = np.array([0.0, 1.0, 3.0])
    assert profile((x - 1.2) ** 2, x).optimum == pytest.approx(1.2)
    concave = profile(-((x - 1.2) ** 2), x)
    assert (concave.optimum, concave.end, concave.curvature) == (3, "high", 0)
    alone = profile([0.5], np.array([1.0]))
    assert (alone.optimum, alone.best, alone.end, alone.step) == (1, pytest.approx(0.5), None, 0)


def test_seeds_and_their_mean():
    shifts = np.array([-0.03, 0.0, 0.06])
    found = profile(0.3 * (X[:, None] + 1.4 - shifts) ** 2)
    assert found.optima == pytest.approx(-1.4 + shifts)
    assert found.optimum == pytest.approx(-1.4 + shifts.mean())
    assert found.best == pytest.approx(0.3 * shifts.var())


def test_what_is_not_bracketed_by_finite_points_is_infinite():
    logs = 0.3 * (X[:, None] + 1.5) ** 2 + np.zeros(2)
    logs[10:] = np.inf
    logs[9, 1] = logs[2, 1] = np.inf
    found = profile(logs)
    assert np.isfinite(found.at(X[9])).tolist() == [True, False]
    assert np.isfinite(found.at(X[9] - 0.1)).tolist() == [True, False]
    assert np.isinf(found.at(X[9] + 0.1)).all()
    assert np.isinf(found.at(X[0] - 0.1)).all()
    assert np.isfinite(found.at(X[2] + 0.1)).tolist() == [True, False]
    assert found.at(X[1] - 0.1) == pytest.approx(0.3 * (X[1] - 0.1 + 1.5) ** 2, rel=0.02), (
        "the run below is known"
    )
    assert found.optima == pytest.approx(-1.5)
    assert np.isinf(found.regret(X[9]))


def test_a_scale_at_which_everything_diverged_has_no_optimum():
    found = profile(np.full((13, 2), np.inf))
    assert math.isnan(found.optimum)
    assert np.isnan(found.optima).all()
    assert found.best == found.regret(-1.0) == math.inf
    assert found.regret_between(-2, -1) == (0, math.inf)


def error(rule, valley, phase):
    """Return by how far the smallest interpolated log-loss is below the truth, 0, next to a cliff."""
    x = np.arange(-2, 2, 0.25) + phase
    logs = valley.log_loss(x)
    x, logs = x[np.isfinite(logs)], logs[np.isfinite(logs)]
    return float(np.min(rule(x, logs)(np.linspace(x[0], x[-1], 2001))))


class Ours:
    def __init__(self, x, logs):
        self.profile = profile(logs, x)

    def __call__(self, x):
        return np.log1p(self.profile.regret(x)) + self.profile.best


def test_it_does_not_dip_next_to_an_edge_as_splines_do():
    cliff = Valley(curvature=0.5, width=0.5, rise=0.06, edge=0.5)
    phases = np.linspace(0, 0.25, 20, endpoint=False)
    lowest = {rule: min(error(rule, cliff, phase) for phase in phases) for rule in (Ours, CubicSpline)}
    assert lowest[CubicSpline] < -0.05, "a loss that is 5 % too low"
    assert lowest[Ours] > -0.02


def test_how_far_an_optimum_moved_is_known_better_than_from_an_akima_spline():
    def akima(x, logs):
        fine = np.linspace(x[0], x[-1], 4001)
        return float(fine[np.argmin(Akima1DInterpolator(x, logs)(fine))])

    rules = {"ours": lambda x, logs: profile(logs, x).optimum, "akima": akima}
    errors = {name: [] for name in rules}
    rng = np.random.default_rng(0)
    for _ in range(60):
        valley = Valley.drawn(rng)
        x = np.arange(-2, valley.edge, 0.25)
        phase, moved = rng.uniform(0, 0.25), rng.uniform(-0.15, 0.15)
        curves = [valley.log_loss(x - phase), valley.log_loss(x - phase - moved)]
        if not all(np.isfinite(logs).all() for logs in curves):
            continue
        for name, rule in rules.items():
            errors[name].append(rule(x, curves[1]) - rule(x, curves[0]) - moved)
    ours, akimas = (np.sqrt(np.mean(np.square(errors[name]))) for name in ("ours", "akima"))
    assert ours < 0.8 * akimas
    assert ours == pytest.approx(math.sqrt(2) * 0.25 * RESOLUTION, rel=0.25), "what the threshold assumes"


def test_the_range_of_the_regret():
    found = profile(0.3 * (X + 1.5) ** 2)
    cost = [math.expm1(0.3 * d**2) for d in (0.1, 0.3)]
    assert found.regret_between(-1.4, -1.2) == pytest.approx(cost)
    assert found.regret_between(-1.6, -1.2) == pytest.approx((0, cost[1]), abs=1e-9)
    low, high = found.regret_between(-5, -4)
    assert (low, high) == (pytest.approx(math.expm1(0.3 * 1.5**2)), math.inf), (
        "beyond the grid it costs no less"
    )


def test_what_may_lie_between_the_best_point_and_a_divergence():
    logs = -0.2 * X
    logs[7:] = np.inf
    found = profile(logs)
    assert found.rough
    assert found.unseen == pytest.approx(0.2 * 0.25)
    assert found.regret_between(X[6], X[6])[1] == pytest.approx(math.expm1(0.2 * 0.25))
    logs[6] = logs[5] + 0.01
    assert profile(logs).unseen == 0, "it rises before the edge"
    assert profile([0.1, np.inf, np.inf], X[:3]).unseen == math.inf
