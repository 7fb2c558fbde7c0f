"""Schedules as functions of the fraction of training, and decay as a time: neither knows a size or a length."""

import math

import numpy as np
import pytest

import denseam as dam
from denseam.ground.errors import InputError
from denseam.rules import schedules
from denseam.rules.optimizers import having
from denseam.rules.schedules import SCHEDULES, Schedule, Timetable, register_schedule, schedule_of
from tests import reference

SHARES = [(0.0, 0.2), (0.1, 0.3), (0.37, 0.63), (1.0, 0.2)]
POSSIBLE = [(name, *shares) for name in SCHEDULES for shares in SHARES if name != "wsd" or sum(shares) <= 1]


@pytest.fixture
def registered(monkeypatch):
    """A registry of its own."""
    monkeypatch.setattr(schedules, "_REGISTERED", {})


@pytest.mark.parametrize(("name", "warmup", "cooldown"), POSSIBLE)
def test_factors_are_those_of_the_equations(name, warmup, cooldown):
    for steps in (1, 7, 40):
        table = Timetable(name, steps, warmup, cooldown)
        expected = reference.schedule(name, steps, warmup, cooldown)
        assert np.allclose(table.factors(), expected, rtol=1e-13, atol=1e-15)
        assert 0 < min(table.factors()) <= max(table.factors()) <= 1
        assert table(steps + 5) == table(steps - 1)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_does_the_same_in_a_longer_training(name):
    """The mean factor, and so what is learned and what decays in all, depends on the length as 1/T² at most."""
    means = [np.mean(Timetable(name, steps, warmup=0.1).factors()) for steps in (100, 1000)]
    assert means[0] == pytest.approx(means[1], abs=1e-4)


def test_functions_of_ones_own(registered):
    @register_schedule
    def late(t):
        return 1.0 if t > 0.5 else 0.0  # a branch: it is called with numbers

    assert late.own
    assert schedule_of("late") is late
    assert Timetable("late", 4).factors() == [0, 0, 1, 1]
    assert Timetable(late, 4, warmup=0.75).factors() == [0, 0, pytest.approx(0.625 / 0.75), 1]
    assert Timetable("late", 4).digest() == Timetable(late, 4).digest() != Timetable("late", 8).digest()
    early = register_schedule(lambda t: 1.0 - t, name="early")
    assert Timetable(early, 3).factors() == pytest.approx(Timetable("linear", 3).factors())


BAD = {
    "unknown": (lambda: Timetable("cosin", 5), "schedule must be 'constant', 'cosine', 'linear' or 'wsd', or a"),
    "no name": (lambda: Timetable(math.cos, 5), "schedule must be"),
    "steps": (lambda: Timetable("cosine", 0), "steps must be a whole number of at least 1, got 0"),
    "warmup": (lambda: Timetable("cosine", 5, 1.5), "warmup must be at least 0 and at most 1, .* got 1.5"),
    "below": (lambda: Timetable("cosine", 5, -0.5), "warmup must be at least 0"),
    "text": (lambda: Timetable("cosine", 5, "a"), "warmup must be at least 0 and finite, got 'a'"),
    "cooldown": (lambda: Timetable("wsd", 5, cooldown=0), "cooldown must be above 0"),
    "both": (lambda: Timetable("wsd", 5, 0.7, 0.4), "warmup and cooldown must be at most 1 together"),
    "zero": (lambda: Timetable(Schedule("z", "0", lambda t: 0.0), 5), "starts at zero and never rises"),
    "large": (lambda: Timetable(Schedule("z", "2", lambda t: 2 * t), 5), "from 0 to 1, .* got 1.4 at 0.7"),
    "nan": (lambda: Timetable(Schedule("z", "", lambda t: math.nan), 5), "from 0 to 1, .* got nan at 0.1"),
    "words": (lambda: Timetable(Schedule("z", "", lambda t: "x"), 5), r"fails at 0.1 \(could not convert"),
    "raises": (lambda: Timetable(Schedule("z", "", lambda t: 1 / 0), 5), r"fails at 0.1 \(division by zero"),
    "taken": (lambda: register_schedule(lambda t: t, "cosine"), "name of a schedule must not be"),
    "taken, too": (lambda: Timetable(Schedule("cosine", "t", lambda t: t), 5), "name of a schedule must not be"),
    "lambda": (lambda: register_schedule(lambda t: t), "name of a schedule must be letters"),
    "function": (lambda: Schedule("z", "t", 3), "function must be a function, got 3"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_a_schedule_is_refused_in_one_line(case, registered):
    make, words = BAD[case]
    with pytest.raises(InputError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


# --- decay ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", having("decay"))
@pytest.mark.parametrize("regime", ["proportional", "memories-only"])
def test_a_decay_time_has_no_size_in_it(optimizer, regime):
    """λ0 is the same number at every size, and λ_W is that of the equation."""
    rule, decays = dam.prescription("relu", optimizer, regime), []
    for N, K in ((16, 32), (64, 128), (16, 4096)):
        scales = rule.at(dam.Shape(N, K), eta0=0.02)
        decays.append(scales.decay(2.0, steps=50))
        assert decays[-1] * scales.decay_W == pytest.approx(reference.decay_of(2.0, 50, scales.eta_W))
        assert scales.decay_time(decays[-1], steps=50) == pytest.approx(2.0)
    assert decays == pytest.approx([1 / (0.02 * 100)] * 3)
    assert scales.decay_time(0.0, 50) == math.inf


@pytest.mark.parametrize("optimizer", having("decay"))
def test_other_units_of_the_memories_keep_the_time_of_the_decay(optimizer):
    scales = dam.prescription("relu", optimizer).at(dam.Shape(16, 32), eta0=0.02)
    moved = scales.rescaled(3.0)
    assert moved.decay_time(0.3, 50) == pytest.approx(scales.decay_time(0.3, 50))
    squares = 9 if optimizer == "sgd" else 3
    assert moved.decay_W == pytest.approx(scales.decay_W / squares)


def test_a_decay_time_shorter_than_a_step_is_refused():
    scales = dam.prescription("relu", "sgd").at(dam.Shape(16, 32), eta0=0.02)
    assert scales.decay(0.02, steps=50) == pytest.approx(50)
    with pytest.raises(InputError, match=r"decay_time must be at least 0.02, one of 50 steps.* got 0.019"):
        scales.decay(0.019, steps=50)
    for wrong in (0.0, -1.0, math.nan, math.inf, "a"):
        with pytest.raises(InputError, match="decay_time must be above 0 and finite"):
            scales.decay(wrong, steps=50)
    with pytest.raises(InputError, match=r"decay must be at least 0.*steps must be a whole number"):
        scales.decay_time(-1.0, steps=0)
