"""The forecast of a set of hyperparameters, from made-up stars."""

import math

import numpy as np
import pytest

from denseam.analysis.forecast import FLATTEST, Entry, Setting, Swept, constants
from denseam.analysis.profiles import Profile
from denseam.analysis.quadratics import NOISE, Quadratic, fit
from denseam.analysis.sets import Law, Star, SweptSet, axis_document, correlations, forecast_set, sure
from denseam.rules.fields import Spacing, Span

SETTING = Setting("relu", 1.0, "adam", "proportional")
H = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.2], [0.0, -0.2, 0.5]])
AXES = ("eta0", "beta1", "beta2")


def star(best, centre=(0.0, 0.0, 0.0), *, hessian=H, seeds=((0.0,) * 3,), step=0.25, limit=3.0):
    """Return the star of a bowl; `seeds` are the offsets of their best sets."""
    centre, best = np.array(centre, float), np.array(best, float)
    x = step * np.arange(-2, 3)
    profiles = {}
    for i, axis in enumerate(AXES[: len(best)]):
        points = centre + np.outer(x, np.eye(len(best))[i])
        offsets = [points - best - np.array(s)[: len(best)] for s in seeds]
        logs = np.column_stack([0.5 * np.einsum("pi,ij,pj->p", o, hessian, o) for o in offsets])
        profiles[axis] = Profile(x + centre[i], 0.2 * np.exp(logs))
    ends = np.full(len(best), limit)
    return Star(centre, profiles, correlations(hessian), -ends, ends)


def test_newtons_step_leads_to_the_best_set_of_every_seed():
    seeds = ((0.1, 0.0, 0.0), (0.0, -0.1, 0.1))
    best = np.array([0.1, -0.2, 0.15])
    assert star(best, seeds=seeds).hessian == pytest.approx(H, abs=1e-6)
    # the ridge of flat axes holds it back by a few per cent
    assert star(best, seeds=seeds).optima == pytest.approx(best + np.array(seeds), abs=0.03)


def test_an_axis_on_which_nothing_depends_stays_where_it_is():
    flat = H.copy()
    flat[2], flat[:, 2] = 0.0, 0.0
    rng = np.random.default_rng(0)
    calm = star((0.1, 0.0, 0.4), hessian=flat)
    noisy = calm.profiles["beta2"].logs + 1e-5 * rng.standard_normal((5, 1))
    profiles = calm.profiles | {"beta2": Profile(calm.profiles["beta2"].x, np.exp(noisy))}
    moved = Star(calm.centre, profiles, calm.correlations, calm.low, calm.high)
    assert moved.optimum[2] == pytest.approx(0.0, abs=0.01)
    assert moved.optimum[0] == pytest.approx(0.1, abs=0.01)


def test_noise_at_single_values_does_not_decide_where_an_axis_is_best():
    """A curvature of one, values half a unit apart with errors of 1 %: the least of them is best by chance."""
    rng, errors = np.random.default_rng(0), []
    for _ in range(40):
        calm = star((0.0, 0.1, 0.0))
        noisy = calm.profiles["beta1"].logs + 0.01 * rng.standard_normal((5, 1))
        profiles = calm.profiles | {"beta1": Profile(calm.profiles["beta1"].x, np.exp(noisy))}
        moved = Star(calm.centre, profiles, calm.correlations, calm.low, calm.high)
        errors.append(moved.optimum[1] - calm.optimum[1])
    assert np.std(errors) < 0.06
    assert abs(np.mean(errors)) < 0.03


def test_a_best_value_stays_inside_its_limits():
    assert star((0.0, 0.0, 0.45), limit=0.3).optimum[2] == pytest.approx(0.3)


def test_correlations_are_made_positive_definite():
    assert correlations(H)[0, 1] == pytest.approx(0.6 / math.sqrt(2))
    wrong = np.array([[1.0, 3.0, 0.0], [3.0, 1.0, 0.0], [0.0, 0.0, -0.1]])
    made = correlations(wrong)
    assert (np.linalg.eigvalsh(made) > 0).all()
    assert np.diag(made) == pytest.approx(np.ones(3))
    assert made[2, :2] == pytest.approx([0.0, 0.0])


def test_for_one_axis_the_risk_is_that_of_the_forecast():
    seeds = ((0.05,), (-0.03,), (0.0,))
    one = np.array([[2.0]])
    sizes = {n: star((x,), (0.0,), hessian=one, seeds=seeds) for n, x in ((32, 0.0), (64, 0.05), (128, 0.08))}
    swept = SweptSet.of(sizes, 512, {}, 10)
    plain = Swept.of({n: s.profiles["eta0"] for n, s in sizes.items()}, 512)
    assert swept.risk() == pytest.approx(plain.risk(), rel=1e-3)
    entry = Entry(0.04, 0.3, 0.0, (), 0.1, 1, 1)
    assert swept.predicted(entry)[0] == pytest.approx(plain.predicted(entry), abs=1e-3)


def test_axes_add_their_risks_and_a_common_drift_has_mixed_terms():
    still = {n: star((0.0,) * 3) for n in (32, 64, 128)}
    seeds = ((0.0,) * 3, (0.0,) * 3)
    still[32] = star((0.0,) * 3, seeds=seeds)
    drift = np.array([0.1, 0.1, 0.0])
    moving = {n: star(i * drift) for i, n in enumerate((32, 64, 128))}
    moving[32] = star((0.0,) * 3, seeds=seeds)
    calm, wild = (SweptSet.of(s, 256, {}, 10) for s in (still, moving))
    assert calm.risk() == pytest.approx(0.003 + 0.5 * 0.03**2 * np.trace(H), rel=1e-3)
    assert wild.risk() - calm.risk() == pytest.approx(0.25 * 0.5 * drift @ H @ drift, rel=0.15)


def test_the_law_of_length_is_a_line_in_the_doublings():
    a = np.array([-0.1, 0.05, 0.0])
    seeds = ((0.01, 0.0, 0.0), (-0.01, 0.0, 0.0), (0.0, 0.0, 0.02))
    lengths = {8 * 2**k: star(k * a, centre=k * a, seeds=seeds) for k in range(3)}
    law = Law.of(lengths, 64)
    assert (law.measured, law.wanted) == (2.0, 3.0)
    assert law.shift == pytest.approx(3 * a, abs=0.02)
    swept = SweptSet.of({32: star((0.0,) * 3, seeds=seeds)}, 64, lengths, 64)
    assert swept.predicted(Entry(0, 0, 0, (), 0.1, 1, 1)) == pytest.approx(3 * a, abs=0.02)
    assert swept.risk() > SweptSet.of({32: star((0.0,) * 3, seeds=seeds)}, 64, {}, 64).risk()


def test_only_the_sure_part_of_a_move_is_applied():
    values, variances = np.array([1.0, -1.0, 1.0, 0.0]), np.array([0.0, 0.01, 0.1, 1.0])
    t = 4.303  # the 97.5 % quantile for two degrees of freedom
    assert sure(values, variances, 2) == pytest.approx([1.0, -(1 - 0.1 * t), 0.0, 0.0], abs=1e-3)
    assert sure(values, variances, 0) == pytest.approx(np.zeros(4))


def test_a_set_needs_half_the_risk_that_one_rate_needs():
    sizes = {n: star((0.0,) * 3, seeds=((0.0,) * 3,) * 2) for n in (32, 64, 128)}
    made = forecast_set(sizes, {}, SweptSet.of(sizes, 256, {}, 10), SETTING)
    known = constants(SETTING)
    assert made.forecast.entry.families == 0
    assert made.forecast.entry.shift == known.shift
    assert all(b <= 0.5 * a for a, b in zip(known.limits, made.forecast.entry.limits, strict=True))


@pytest.mark.parametrize(
    ("spacing", "low", "high"),
    [(Spacing.LOG, 1e-3, 10), (Spacing.FROM_ONE, 0, 0.99), (Spacing.LINEAR, 0, 0.5)],
)
def test_an_axis_as_a_document(spacing, low, high):
    sizes = {
        n: star((0.0, -0.3, 0.0), centre=(0.0, -0.3, 0.0), seeds=((0.0,) * 3,) * 2) for n in (32, 64, 128)
    }
    made = forecast_set(sizes, {}, SweptSet.of(sizes, 256, {}, 10), SETTING).axes["beta1"]
    document = axis_document(made, Span(low, high, spacing), 0.02)
    assert document["status"] == "TRANSFERS"
    first, last = document["interval_at_target"]
    assert first <= document["value"] <= last
    assert set(document["by_size"]) == {"32", "64", "128"}
    assert document["power_of_length"] is None


# --- quadratics --------------------------------------------------------------------------------------


def test_a_quadratic_is_recovered_from_few_points_and_its_minimum_is_in_the_box():
    rng = np.random.default_rng(0)
    bowl = Quadratic(0.3, np.array([0.1, -0.2, 0.05]), H)
    t = rng.uniform(-1, 1, (40, 3))
    found = fit(t, bowl(t)).quadratic
    assert found.hessian == pytest.approx(H, abs=0.1)
    everywhere = np.full(3, 5.0)
    assert bowl.minimum(-everywhere, everywhere, np.zeros(3)) == pytest.approx(
        -np.linalg.solve(H, bowl.gradient), abs=1e-4
    )
    assert bowl.minimum(np.zeros(3), everywhere, np.zeros(3))[0] == 0.0


def test_points_high_above_the_best_say_little():
    """A cliff beyond t = 0.5 does not bend the bowl before it."""
    t = np.linspace(-1, 1, 21)[:, None]
    y = t[:, 0] ** 2 + np.where(t[:, 0] > 0.5, 3.0, 0.0)
    lowest = fit(t, y).quadratic.minimum(np.array([-1.0]), np.array([1.0]), np.zeros(1))
    assert abs(lowest[0]) < 0.15


def test_draws_scatter_as_the_fit_is_unsure():
    rng = np.random.default_rng(0)
    few, many = (fit(rng.uniform(-1, 1, (n, 3)), np.full(n, 0.1)) for n in (4, 200))
    spreads = [np.std([f.draw(rng).hessian[0, 0] for _ in range(50)]) for f in (few, many)]
    assert spreads[0] > 10 * spreads[1]
    assert spreads[1] < 20 * NOISE
    assert FLATTEST > 0
