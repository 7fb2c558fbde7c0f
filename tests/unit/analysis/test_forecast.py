"""The forecast at the target: its equations, its table, and what makes a bound wide."""

import dataclasses
import json
import math

import numpy as np
import pytest

from denseam.analysis import forecast as forecasts
from denseam.analysis.forecast import (
    BOUNDS,
    FLATTEST,
    Entry,
    Setting,
    Swept,
    constants,
    forecast,
    read_table,
    table,
    write_table,
)
from denseam.analysis.profiles import Profile
from tests import reference

ADAM = Setting("relu", 1.0, "adam", "proportional")
SGD = Setting("relu", 1.0, "sgd", "proportional")
#: The grid of four values per decade, with room to both sides.
X = np.arange(-16, 5) / 4


def valley(optima, curvature=2.0, edge=math.inf):
    """A profile whose seeds have parabolas of log-loss around given optima."""
    logs = 0.5 * curvature * (X[:, None] - np.asarray(optima)) ** 2 - 1
    return Profile(X, np.where(X[:, None] > edge, np.inf, np.exp(logs)))


def swept(
    scales=(32, 64, 128), target=256, optima=((-1.5, -1.4, -1.3), (-1.4,), (-1.4,)), curvature=2.0, **rest
):
    profiles = {n: valley(seeds, curvature) for n, seeds in zip(scales, optima, strict=True)}
    return Swept.of(profiles, target, **rest)


def entry(**changes):
    return dataclasses.replace(Entry(0.04, 0.1, 0.5, steps(2.0), 0.1, 20, 40), **changes)


def steps(q):
    """Limits by which the bound is q times the risk, rounded up."""
    return tuple(bound / q for bound in BOUNDS)


# --- the equations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("probed", [False, True])
def test_the_equations(probed):
    rng, seen = np.random.default_rng(0), set()
    for _ in range(40):
        m = int(rng.integers(2, 5))
        sizes = np.cumsum(rng.integers(20, 90, m)).tolist()
        target = int(sizes[-1] * rng.uniform(1.2, 8))
        optima = [rng.normal(-1.5, 0.1, rng.integers(1, 4)).tolist() for _ in sizes]
        optima[0] = rng.normal(-1.5, 0.1, 3).tolist()
        c, sigma = rng.uniform(0.3, 8), rng.uniform(0, 1)
        lambdas = tuple(rng.uniform(1, 20, 2))
        mu, w, v, limits = (
            rng.uniform(-0.1, 0.1),
            rng.uniform(0, 1),
            rng.uniform(0, 1),
            steps(rng.uniform(0.2, 2)),
        )
        probe = float(rng.normal(-1.5, 0.2)) if probed else None
        expected = reference.forecast(sizes, target, optima, c, mu, w, v, limits, lambdas, sigma, probe)
        profiles = {n: valley(seeds, c) for n, seeds in zip(sizes, optima, strict=True)}
        edge = math.log10((lambdas[0] + sigma**2) / (lambdas[1] + sigma**2))
        known = Swept.of(profiles, target, edge, None if probe is None else valley([probe]))
        found = forecast(known, SGD, entry(shift=mu, slope=w, edge=v, limits=limits, median=0.2))
        assert found.x == pytest.approx(expected["x"], abs=1e-6)
        assert known.risk() == pytest.approx(expected["risk"], rel=1e-4)
        assert found.regret_bound == expected["bound"]
        assert found.uncorrected_bound == expected["uncorrected"]
        assert found.predicted_regret == pytest.approx(
            min(0.2 * expected["risk"], expected["bound"]), rel=1e-4
        )
        if math.isfinite(found.regret_bound):
            seen.add(found.regret_bound)
            assert found.interval == pytest.approx((expected["low"], expected["high"]), rel=1e-3)
        assert found.value == float(f"{10**found.x:.3g}")
    assert len(seen) > 3


def test_the_bound_is_wider_for_what_is_known_less():
    base = swept()
    for wider in (
        swept(target=512),
        swept(optima=((-1.6, -1.4, -1.2), (-1.4,), (-1.4,))),  # seeds that differ more
        swept(optima=((-1.5, -1.4, -1.3), (-1.5,), (-1.4,))),  # a drift
        swept(edge=0.3),
        swept(optima=((-1.5, -1.4, -1.3), (-1.5,), (-1.4,)), curvature=4.0),
    ):
        assert wider.risk() > base.risk()
    assert swept(optima=((-1.5, -1.4, -1.3), (-1.4,), (-1.4,) * 3)).risk() < base.risk()
    at_target = swept(scales=(64, 128, 256))
    assert at_target.risk() == pytest.approx(0.5 * 2.0 * 0.1**2)  # only the seeds


def test_seeds_count_by_how_many_a_size_has():
    """Two seeds tell less about the scatter than three."""
    known = swept(optima=((-1.5, -1.4, -1.3), (-1.4, -1.3), (-1.4,)))
    assert known.deviation**2 == pytest.approx((2 * 0.1**2 + 0.05**2 * 2) / 3)
    assert swept(optima=((-1.4,), (-1.4,), (-1.4,))).deviation == math.inf


def test_no_bound_rests_on_a_flat_valley_or_an_edge_that_is_not_resolved():
    assert swept(curvature=1e-4).curvature == FLATTEST
    profiles = {n: valley([-1.4] * 3) for n in (32, 64)}
    cliff = valley([-1.4] * 3, edge=-1.3)
    at_edge = Swept.of({**profiles, 128: cliff}, 256)
    assert at_edge.risk() == math.inf
    found = forecast(at_edge, ADAM, entry())
    assert found.regret_bound == math.inf
    assert found.to_json(0.02)["regret_bound"] is None
    assert json.dumps(found.to_json(0.02), allow_nan=False)
    assert math.isfinite(Swept.of({**profiles, 128: cliff}, 256, probe=valley([-1.5])).risk())
    assert Swept.of({**profiles, 128: valley([-1.4] * 3)}, 256, probe=cliff).risk() == math.inf


def test_bounds_are_steps_of_the_risk():
    made = entry(limits=(0.0, 0.01, 0.01, 0.1, 0.1, 0.1))
    assert [made.bound(u) for u in (0.001, 0.01, 0.011, 0.1, 0.11)] == [0.02, 0.02, 0.05, 0.05, math.inf]
    certain = swept(scales=(64, 128, 256), optima=((-1.4,) * 3,) * 3)
    assert forecast(certain, ADAM, entry()).regret_bound == min(BOUNDS)


def test_a_drift_is_corrected_only_where_the_bound_needs_it():
    moving = swept(optima=((-1.6,) * 3, (-1.5,) * 3, (-1.4,) * 3))
    found = forecast(moving, ADAM, entry(shift=0.0, slope=1.0, limits=steps(1.0)))
    assert found.x == pytest.approx(-1.3, abs=1e-6)
    assert (found.regret_bound, found.uncorrected_bound) == (0.01, 0.02)
    assert found.drift_corrected(0.01)
    assert not found.drift_corrected(0.02)  # the largest size's optimum would do
    assert not found.drift_corrected(0.005)  # not even that is certain
    still = forecast(swept(), ADAM, entry(shift=0.0))
    assert still.uncorrected_bound == pytest.approx(still.regret_bound)


# --- the constants -----------------------------------------------------------------------------------


def test_a_table_survives_its_document():
    made = {
        ADAM: entry(shift=-0.0123449),
        dataclasses.replace(SGD, probe=True, by="heldout"): entry(limits=(0.0,) * 6),
    }
    document = json.loads(json.dumps(write_table(made), allow_nan=False))
    read = read_table(document)
    assert read.keys() == made.keys()
    assert read[ADAM] == entry(shift=-0.01234)  # four digits
    assert read[dataclasses.replace(SGD, probe=True, by="heldout")].limits == (0.0,) * 6


def test_the_table_of_the_package_has_the_settings_that_are_promised():
    known = table()
    assert all(setting.prescribed for setting in known)
    for activation, optimizer, regime in (
        ("relu", "adam", "proportional"), ("relu", "adam", "memories-only"), ("softmax", "adam", "proportional"),
        ("softmax", "adam", "memories-only"), ("relu", "sgd", "proportional"),
    ):  # fmt: skip
        for by in ("training", "heldout"):
            constants_of = known[Setting(activation, 1.0, optimizer, regime, by)]
            assert constants_of.families >= 10
            assert 0 < constants_of.median < 1
            assert list(constants_of.limits) == sorted(constants_of.limits)
            assert constants_of.limits[-1] > 0
            assert abs(constants_of.shift) < 0.1


def test_unknown_settings_have_the_smallest_limits_halved(monkeypatch):
    known = {
        ADAM: entry(limits=steps(2.0), median=0.1),
        dataclasses.replace(ADAM, power=2.0): entry(limits=steps(5.0), median=0.3),
        dataclasses.replace(ADAM, by="heldout"): entry(limits=steps(9.0)),
        SGD: entry(limits=(0.0,) * 6),
    }
    monkeypatch.setattr(forecasts, "table", lambda: known)
    assert constants(ADAM) is known[ADAM]
    for unknown in (
        dataclasses.replace(ADAM, activation="tanh"),
        dataclasses.replace(ADAM, power=3.0),
        dataclasses.replace(ADAM, prescribed=False),
    ):
        found = constants(unknown)
        assert found.limits == pytest.approx(steps(10.0))
        assert (found.median, found.families, found.shift) == (0.3, 0, 0.0)
        assert forecast(swept(), unknown).regret_bound == found.bound(swept().risk()) > 0.05
    assert constants(dataclasses.replace(ADAM, power=3.0, by="heldout")).limits == pytest.approx(steps(18.0))
    for none in (dataclasses.replace(SGD, power=3.0), dataclasses.replace(ADAM, regime="memories-only")):
        assert constants(none).bound(0.001) == math.inf
