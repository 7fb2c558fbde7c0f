"""Laws of one size: exponents whose truth is known, how often intervals hold it, and what is no power."""

from fractions import Fraction

import numpy as np
import pytest

import denseam as dam
from denseam.analysis.causes import Growth
from denseam.analysis.coordinates.activity import Family, activity
from denseam.analysis.coordinates.laws import RESOLUTION, Law, asymptotic, local
from tests.sampled import sampled

SIZES = (64, 128, 256, 512)


def noisy(rng, law, sizes=SIZES, seeds=12, noise=0.05):
    """Values of a law with noise that falls with the size, as that of a mean does."""
    n = np.array(sizes, float)
    return law(n)[:, None] * np.exp(noise * (n[0] / n[:, None]) ** 0.5 * rng.normal(size=(len(n), seeds)))


@pytest.mark.parametrize("seeds", [4, 12])
@pytest.mark.parametrize("noise", [0.02, 0.15])
@pytest.mark.parametrize("correction", [0.0, 0.3])
def test_intervals_hold_the_exponent_as_often_as_they_say(seeds, noise, correction):
    """Of a power, and of one that is reached as 1 + c n₁/n."""
    rng, trials, inside = np.random.default_rng(0), 100, 0
    for _ in range(trials):
        law = asymptotic(
            "q", SIZES, noisy(rng, lambda n: n**0.5 * (1 + correction * n[0] / n), SIZES, seeds, noise)
        )
        inside += law.interval[0] <= 0.5 <= law.interval[1]
    assert inside / trials >= (0.95 if not correction else 0.9)


@pytest.mark.parametrize("law", [asymptotic, local])
def test_two_sizes_have_an_exponent_and_nothing_else(law):
    found = law("q", (64, 128), noisy(np.random.default_rng(0), np.sqrt, (64, 128)))
    assert found.growth is Growth.POWER
    assert found.exponent == pytest.approx(0.5, abs=0.1)


def test_a_slow_correction_is_not_covered_and_no_fraction_is_claimed():
    """As n^-1/2, a third of the size: sizes like these cannot tell; the page says so."""
    rng, fractions = np.random.default_rng(1), []
    for _ in range(20):
        values = noisy(rng, lambda n: n**0.5 * (1 + 0.3 * (n[0] / n) ** 0.5), noise=0.01)
        fractions.append(asymptotic("q", SIZES, values).fraction)
    assert set(fractions) == {None}


def test_what_small_sizes_approach_is_extrapolated():
    law = asymptotic(
        "q", SIZES, noisy(np.random.default_rng(2), lambda n: n * (1 + 0.5 * n[0] / n), noise=0.005)
    )
    assert law.growth is Growth.APPROACH
    assert law.exponent == pytest.approx(1, abs=0.05)
    assert law.fraction == 1


def test_a_logarithm_is_no_power():
    sizes = tuple(2**k for k in range(6, 15))
    law = asymptotic(
        "q", sizes, noisy(np.random.default_rng(3), lambda n: np.log(n) ** 2, sizes, noise=0.005)
    )
    assert law.growth is Growth.LOGARITHM
    assert not law.is_power
    assert law.fraction is None


def test_a_law_that_turns_is_bent():
    sizes = tuple(2**k for k in range(6, 12))
    turning = noisy(np.random.default_rng(4), lambda n: n + n**2 / 512, sizes, noise=0.005)
    assert asymptotic("q", sizes, turning).growth is Growth.BENT
    assert local("q", sizes, turning).growth is Growth.BENT
    assert local("q", SIZES, noisy(np.random.default_rng(5), lambda n: n**0.5)).growth is Growth.POWER


@pytest.mark.parametrize(
    ("low", "high", "fraction"),
    [
        (-0.53, -0.47, Fraction(-1, 2)),
        (-0.04, 0.03, Fraction(0)),
        (0.22, 0.28, Fraction(1, 4)),
        (0.95, 1.3, Fraction(1)),
        (0.3, 0.4, None),
        (0.1, 0.9, None),
    ],
)
def test_a_fraction_is_taken_only_if_the_interval_allows_it(low, high, fraction):
    law = Law((low + high) / 2, (low, high), Growth.POWER)
    assert law.fraction == fraction
    assert Law(law.exponent, law.interval, Growth.BENT).fraction is None


def test_the_remedy_takes_back_the_exponent():
    law = Law(0.3, (0.2, 0.4), Growth.POWER).remedy(-0.5)
    assert law.exponent == pytest.approx(-0.8)
    assert law.interval == pytest.approx((-0.9, -0.7))


def test_no_interval_is_narrower_than_the_sizes_can_resolve():
    exact = np.array(SIZES, float)[:, None] ** 0.5 * np.ones((4, 2))
    for law in (asymptotic("q", SIZES, exact), local("q", SIZES[:3], exact[:3])):
        assert law.interval == pytest.approx((0.5 - RESOLUTION, 0.5 + RESOLUTION))
    with pytest.raises(dam.InputError, match="F is not finite at every size"):
        asymptotic("F", SIZES, np.full((4, 2), np.inf))


FAMILIES = {
    "relu": (dam.relu(), Family.ORDER_ONE),
    "tanh": (dam.tanh(), Family.ORDER_ONE),
    "softmax": (dam.softmax(), Family.PER_MEMORY),
}


@pytest.mark.parametrize("name", sampled(FAMILIES, ("softmax",)))
def test_the_family_of_an_activation_is_measured(name):
    lagrangian, family = FAMILIES[name]
    found = activity(lagrangian)
    assert found.family is family
    assert not found.few
    assert found.active[1.0].exponent == pytest.approx(1, abs=0.03)
    assert found.to_json()["family"] == family.value
