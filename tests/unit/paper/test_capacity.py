"""How many patterns are stored: the laws, the measurement, and the judgement, the last from made-up numbers."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from denseam.paper.capacity import Capacity, FarBelowLaw, GrowsAsPower, GrowsExponentially, NearLaw
from denseam.paper.readings import FROZEN, TRAINED
from denseam.paper.results import Results
from denseam.paper.sizes import SIZES
from denseam.paper.storage import STORAGE
from tests import ROOT

PAPER, TINY = SIZES["paper"], SIZES["tiny"]
RELU2 = Capacity("ReLU²", (16, 32, 64, 128), 0.0, power=2)
SOFTMAX = Capacity("softmax", (16, 32, 64), 0.25)


def judged(kind, capacity, half, folder):
    """The judgement on made-up numbers of patterns."""
    N = np.array(capacity.features)
    law = np.array([capacity.law(n) for n in capacity.features])
    capacity.write(PAPER, TRAINED, folder, {"features": N, "half": half(N, law), "law": law})
    return kind(capacity).measure(Results({}, PAPER, TRAINED, folder)).holds


def test_the_laws():
    assert RELU2.law(64) == pytest.approx(64**2 / (3 * math.log(64)))
    assert Capacity("", (64,), 0.1, power=3).law(64) == pytest.approx(0.8**6 * 64**3 / (15 * math.log(64)))
    # A pattern that is nearer than d = 4 of 16 signs: half the time one of K½ − 1 is, ties halved.
    nearer = sum(math.comb(16, k) for k in range(4)) / 2**16 + math.comb(16, 4) / 2**17
    assert (SOFTMAX.law(16) - 1) * nearer == pytest.approx(math.log(2))
    growth = math.log(SOFTMAX.law(4000) / SOFTMAX.law(3000)) / 1000
    assert growth == pytest.approx(math.log(2) + 0.25 * math.log(0.25) + 0.75 * math.log(0.75), rel=0.01)
    assert binom.cdf(3, 16, 0.5) == pytest.approx(sum(math.comb(16, k) for k in range(4)) / 2**16)


@pytest.mark.parametrize(("power", "holds"), [(2, True), (1.9, True), (1.5, False), (3, False)])
def test_an_exponent_is_judged(power, holds, tmp_path):
    assert judged(GrowsAsPower, RELU2, lambda N, law: N**power / np.log(N), tmp_path) is holds


@pytest.mark.parametrize(("factor", "holds"), [(1.2, True), (0.8, True), (1.6, False), (0.6, False)])
def test_nearness_to_the_law_is_judged(factor, holds, tmp_path):
    assert judged(NearLaw, SOFTMAX, lambda N, law: factor * law, tmp_path) is holds
    assert judged(GrowsExponentially, SOFTMAX, lambda N, law: factor * law, tmp_path) is True
    assert judged(GrowsExponentially, SOFTMAX, lambda N, law: law ** (1 + factor / 2), tmp_path) is False


def test_a_capacity_far_below_the_law_is_judged(tmp_path):
    assert judged(FarBelowLaw, SOFTMAX, lambda N, law: 40 + 0 * N, tmp_path) is True
    assert judged(FarBelowLaw, SOFTMAX, lambda N, law: law / 5, tmp_path) is False


def test_shares_fall_with_the_number_of_patterns():
    few, many = (Capacity("", (32,), 0.1, power=2).share(K, 32, 24) for K in (10, 2000))
    assert (few, many) == (1, 0)
    assert Capacity("", (32,), 0.0, power=2).share(10, 32, 8) == 1
    assert Capacity("", (32,), 0.0, power=2).share(2000, 32, 8) == 0


def test_half_is_found_between_two_shares(monkeypatch):
    monkeypatch.setattr(Capacity, "share", lambda self, K, N, cues: 1 / (1 + (K / 300) ** 4))
    assert RELU2._half(64, PAPER) == pytest.approx(300, rel=0.05)
    assert RELU2._half(16, TINY) == pytest.approx(300, rel=0.3)


def test_the_key_is_that_of_what_is_measured_in_every_reading():
    assert RELU2.key(PAPER, TRAINED) == RELU2.key(PAPER, FROZEN) != RELU2.key(TINY, TRAINED)
    assert RELU2.key(PAPER, TRAINED) == Capacity("other", RELU2.features, 0.0, power=2).key(PAPER, TRAINED)
    assert RELU2.key(PAPER, TRAINED) != Capacity("", RELU2.features, 0.1, power=2).key(PAPER, TRAINED)


def test_the_gallery_holds_the_measurements():
    results = Results({}, PAPER, TRAINED, ROOT / "docs" / "gallery")
    (figure,) = STORAGE
    assert figure.pinned
    assert len(figure.measurements) == 8
    assert all(results.is_measured(measurement) for measurement in figure.measurements)
    words = [claim.judge(results, own=True).word for claim in figure.claims]
    assert words == ["holds"] * 5 + ["does not hold"] + ["holds"] * 3
