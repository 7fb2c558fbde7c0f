import math

import numpy as np
import pytest
from scipy import stats

from denseam.analysis.costs import cost_at_target, costs
from denseam.analysis.grid import Grid
from denseam.analysis.optima import Continuation, Optima
from denseam.analysis.profiles import Profile
from denseam.analysis.thresholds import RESOLUTION
from tests.synthetic import sweep

X = np.linspace(-3, 0, 13)
FLOOR = RESOLUTION * 0.25


def optima(*shifts, x=X):
    """Return the optima of scales with the given shifts of their seeds."""
    profiles = [Profile(x, np.exp(0.3 * (x[:, None] + 1.5 - np.array(own)) ** 2)) for own in shifts]
    return Optima.of(profiles, log=True)


def test_a_half_width_is_that_of_welch():
    scales = [(-0.02, 0.0, 0.03), (0.01, 0.02, -0.03), (0.0, 0.03, 0.04)]
    known = optima(*scales)
    own = [np.var(shifts, ddof=1) for shifts in scales]
    pooled = np.mean(own)
    assert known.variance == pytest.approx(np.maximum(own, pooled))
    assert not known.own.any()
    shares = known.variance[[0, 2]].sum() / 3
    total = shares + 2 * FLOOR**2
    freedom = total**2 / (shares**2 / 6)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(total)
    assert known.half_width(known.offset(0, 2)) == pytest.approx(half)


def test_a_scale_of_its_own_counts_with_its_own_freedom():
    known = optima((-0.5, 0.0, 0.5), (0.01, 0.0, 0.0), (0.0, 0.01, 0.0), (0.0, 0.0, 0.01))
    assert known.own.tolist() == [True, False, False, False]
    alone = stats.t.ppf(0.975, 2) * 0.5 / math.sqrt(3)
    assert known.half_width(known.offset(0, 1)) > 0.8 * alone
    assert known.half_width(known.offset(1, 2)) < 0.5 * alone


def test_one_seed_takes_the_widest_of_the_others():
    known = optima((-0.02, 0.0, 0.02), (-0.1, 0.0, 0.1), (-0.01, 0.0, 0.01), (0.0,))
    assert known.variance[3] == pytest.approx(known.variance.max())
    assert known.counts.tolist() == [3, 3, 3, 1]
    with_three = optima((-0.02, 0.0, 0.02), (-0.1, 0.0, 0.1), (-0.01, 0.0, 0.01), (-0.1, 0.0, 0.1))
    assert known.half_width(known.offset(0, 3)) > with_three.half_width(with_three.offset(0, 3))
    nothing = optima((0.0,), (0.0,))
    assert nothing.half_width(nothing.offset(0, 1)) == math.inf


def test_more_seeds_and_finer_steps_narrow_to_nothing():
    known = optima((-0.02, 0.0, 0.03), (0.01, 0.02, -0.03))
    offset = known.offset(0, 1)
    widths = [known.with_seeds(n).half_width(offset) for n in (3, 6, 12, 10_000)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] == pytest.approx(1.96 * math.sqrt(2) * FLOOR, rel=0.02), "what the grid leaves"
    assert known.with_seeds(10_000).refined(10).half_width(offset) < 0.2 * widths[-1]


def test_long_steps_are_trusted_less():
    fine, coarse = optima((0.0,) * 3, (0.0,) * 3), optima((0.0,) * 3, (0.0,) * 3, x=X[::2])
    assert fine.resolution == pytest.approx(FLOOR)
    assert coarse.resolution == pytest.approx(4 * FLOOR)


DOUBLINGS = np.array([5.0, 6.0, 7.0, 8.0])


def test_a_drift_on_a_line_continues_on_it():
    rng = np.random.default_rng(0)
    known = optima(*(0.2 * i + 0.01 * rng.standard_normal(3) for i in range(4)))
    errors = np.sqrt(known.squared_errors)
    fit = np.polyfit(DOUBLINGS, known.x, 1, w=1 / errors)
    ahead = Continuation.of(known, DOUBLINGS, 9.0)
    assert ahead.offset == pytest.approx(np.polyval(fit, 9.0) - known.x[0], abs=0.02)
    assert ahead.low < ahead.offset < ahead.high


def test_the_interval_of_a_line_is_that_of_weighted_least_squares():
    known = optima(*[[0.0] * 3] * 4)
    at = np.array([11.0, 1.0])
    _, covariance = np.polyfit(DOUBLINGS, known.x, 1, w=1 / np.sqrt(known.squared_errors), cov="unscaled")
    design = np.stack([DOUBLINGS, np.ones(4)], axis=1)
    weights = at @ covariance @ design.T / known.squared_errors - np.eye(4)[0]
    half = 1.96 * math.sqrt(weights**2 @ known.squared_errors)
    ahead = Continuation.of(known, DOUBLINGS, 11.0)
    assert (ahead.low, ahead.offset, ahead.high) == pytest.approx((-half, 0, half), rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("q", [0.5, 0.7, 1.0])
def test_a_drift_may_level_off(q):
    steps = np.cumsum([0.0, *(0.2 * q**i for i in range(10))])
    ahead = Continuation.of(optima(*[[steps[i]] * 3 for i in range(5)]), np.arange(5.0), 10.0)
    assert ahead.low < steps[10] < ahead.high
    assert ahead.offset == pytest.approx(steps[10], rel=0.05)


def test_a_drift_that_fits_nothing_is_continued_with_little_trust():
    smooth = Continuation.of(optima(*[[0.1 * i] * 3 for i in range(4)]), DOUBLINGS, 11.0)
    zigzag = Continuation.of(optima(*[[0.1 * (i % 2)] * 3 for i in range(4)]), DOUBLINGS, 11.0)
    assert zigzag.high - zigzag.low > 2 * (smooth.high - smooth.low)


def grid(shift):
    records = sweep(lambda i, s: 0.2 * np.exp(0.3 * (X + 1.5 - shift(i, s)) ** 2), grid=10**X)
    return Grid(list(records), "eta0")


def test_costs_are_those_of_the_base_at_each_larger_scale():
    study = grid(lambda i, _: 0.2 * i)
    known = Optima.of(study.profiles, study.log)
    for base, scales in ((0, (64, 128, 256)), (2, (256,))):
        for away, cost in enumerate(costs(study, known, base), start=1):
            assert cost.scale == scales[away - 1]
            assert cost.regret == pytest.approx(math.expm1(0.3 * (0.2 * away) ** 2))
            half = known.half_width(known.offset(base, base + away))
            bounds = [math.expm1(0.3 * (0.2 * away + d * half) ** 2) for d in (-1, 1)]
            assert cost.bounds == pytest.approx(bounds)
    ahead = cost_at_target(study, known, 1024)
    assert ahead.regret == pytest.approx(math.expm1(0.3 * 1.0**2))
    assert ahead.bounds[0] < ahead.regret < ahead.bounds[1]
