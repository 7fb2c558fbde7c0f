"""The forecast at the target: its equations, its table, and what makes a bound wide."""

import dataclasses
import json
import math

import numpy as np
import pytest

from denseam.analysis import forecast as forecasts
from denseam.analysis.forecast import (
    FLATTEST,
    LEAST_BOUND,
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
    return dataclasses.replace(Entry(0.04, 0.1, 0.5, 2.0, 0.1, 20, 40), **changes)


# --- the equations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("probed", [False, True])
def test_the_equations(probed):
    rng = np.random.default_rng(0)
    for _ in range(40):
        m = int(rng.integers(2, 5))
        sizes = np.cumsum(rng.integers(20, 90, m)).tolist()
        target = int(sizes[-1] * rng.uniform(1.2, 8))
        optima = [rng.normal(-1.5, 0.1, rng.integers(1, 4)).tolist() for _ in sizes]
        optima[0] = rng.normal(-1.5, 0.1, 3).tolist()
        c, sigma = rng.uniform(0.3, 8), rng.uniform(0, 1)
        lambdas = tuple(rng.uniform(1, 20, 2))
        mu, w, v, q = rng.uniform(-0.1, 0.1), rng.uniform(0, 1), rng.uniform(0, 1), rng.uniform(1, 5)
        probe = float(rng.normal(-1.5, 0.2)) if probed else None
        expected = reference.forecast(sizes, target, optima, c, mu, w, v, q, lambdas, sigma, probe)
        profiles = {n: valley(seeds, c) for n, seeds in zip(sizes, optima, strict=True)}
        edge = math.log10((lambdas[0] + sigma**2) / (lambdas[1] + sigma**2))
        known = Swept.of(profiles, target, edge, None if probe is None else valley([probe]))
        found = forecast(known, SGD, entry(shift=mu, slope=w, edge=v, factor=q, median=0.2))
        assert found.x == pytest.approx(expected["x"], abs=1e-6)
        assert known.unit() == pytest.approx(expected["unit"], rel=1e-4)
        assert found.regret_bound == pytest.approx(expected["bound"], rel=1e-4)
        assert found.predicted_regret == pytest.approx(0.2 * expected["unit"], rel=1e-4)
        assert found.interval == pytest.approx((expected["low"], expected["high"]), rel=1e-3)
        assert found.uncorrected_bound == pytest.approx(expected["uncorrected"], rel=1e-3)
        assert found.value == float(f"{10**found.x:.3g}")


def test_the_bound_is_wider_for_what_is_known_less():
    base = swept()
    for wider in (
        swept(target=512),
        swept(optima=((-1.6, -1.4, -1.2), (-1.4,), (-1.4,))),  # seeds that differ more
        swept(optima=((-1.5, -1.4, -1.3), (-1.5,), (-1.4,))),  # a drift
        swept(edge=0.3),
        swept(optima=((-1.5, -1.4, -1.3), (-1.5,), (-1.4,)), curvature=4.0),
    ):
        assert wider.unit() > base.unit()
    assert swept(optima=((-1.5, -1.4, -1.3), (-1.4,), (-1.4,) * 3)).unit() < base.unit()
    at_target = swept(scales=(64, 128, 256))
    assert at_target.unit() == pytest.approx(0.5 * 2.0 * 0.1**2)  # only the seeds


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
    assert at_edge.unit() == math.inf
    found = forecast(at_edge, ADAM, entry())
    assert found.regret_bound == math.inf
    assert found.to_json(0.02)["regret_bound"] is None
    assert json.dumps(found.to_json(0.02), allow_nan=False)
    assert math.isfinite(Swept.of({**profiles, 128: cliff}, 256, probe=valley([-1.5])).unit())
    assert Swept.of({**profiles, 128: valley([-1.4] * 3)}, 256, probe=cliff).unit() == math.inf


def test_no_bound_is_smaller_than_the_least():
    assert (
        forecast(swept(scales=(64, 128, 256), optima=((-1.4,) * 3,) * 3), ADAM, entry()).regret_bound
        == LEAST_BOUND
    )


def test_a_drift_is_corrected_only_where_the_bound_needs_it():
    moving = swept(optima=((-1.6,) * 3, (-1.5,) * 3, (-1.4,) * 3))
    found = forecast(moving, ADAM, entry(shift=0.0, slope=1.0, factor=1.0))
    assert found.x == pytest.approx(-1.3, abs=1e-6)
    assert found.regret_bound < 0.02 < found.uncorrected_bound
    assert found.drift_corrected(0.02)
    assert not found.drift_corrected(0.2)  # the largest size's optimum would do
    assert not found.drift_corrected(0.001)  # not even that is certain
    still = forecast(swept(), ADAM, entry(shift=0.0))
    assert still.uncorrected_bound == pytest.approx(still.regret_bound)


# --- the constants -----------------------------------------------------------------------------------


def test_a_table_survives_its_document():
    made = {
        ADAM: entry(shift=-0.0123449),
        dataclasses.replace(SGD, probe=True, by="heldout"): entry(factor=math.inf),
    }
    document = json.loads(json.dumps(write_table(made), allow_nan=False))
    read = read_table(document)
    assert read.keys() == made.keys()
    assert read[ADAM] == entry(shift=-0.01234)  # four digits
    assert read[dataclasses.replace(SGD, probe=True, by="heldout")].factor == math.inf


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
            assert 0 < constants_of.median < constants_of.factor
            assert abs(constants_of.shift) < 0.1


def test_unknown_settings_have_the_widest_bound_doubled(monkeypatch):
    known = {
        ADAM: entry(factor=2.0, median=0.1),
        SGD: entry(factor=5.0, median=0.3),
        dataclasses.replace(SGD, by="heldout"): entry(factor=9.0),
        dataclasses.replace(SGD, probe=True): entry(factor=math.inf),
        dataclasses.replace(SGD, power=2.0): entry(factor=math.inf),
    }
    monkeypatch.setattr(forecasts, "table", lambda: known)
    assert constants(ADAM) is known[ADAM]
    for unknown in (
        dataclasses.replace(ADAM, activation="tanh"),
        dataclasses.replace(ADAM, power=3.0),
        dataclasses.replace(ADAM, regime="memories-only"),
        dataclasses.replace(ADAM, prescribed=False),
    ):
        found = constants(unknown)
        assert (found.factor, found.families, found.shift) == (10.0, 0, 0.0)
        assert forecast(swept(), unknown).regret_bound == pytest.approx(10.0 * swept().unit())
    assert constants(dataclasses.replace(ADAM, by="heldout")).factor == 18.0
    assert constants(dataclasses.replace(SGD, power=3.0, probe=True)).factor == math.inf
