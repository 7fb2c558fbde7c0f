"""Schedules: a factor on all learning rates, as a function of the fraction of training that is done.

A schedule is a row of `SCHEDULES`: its name, its formula and its parameters. It knows neither the size of the
model nor the length of the training, so it carries over to others. A `Timetable` applies it to a number of
steps. Its factors are computed here, in plain Python, once for JAX, PyTorch and the tables that are printed.

Step k of T is taken at the fraction ``t = (k + ½)/T``, its middle: the sum of the factors is then T times the
mean of the schedule, up to terms in 1/T², and neither the first nor the last step is lost.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from denseam.ground.errors import InputError, at_least_zero, listed, refuse, shown, whole

#: The share of a training over which 'wsd' falls to zero, by default.
COOLDOWN = 0.2


@dataclass(frozen=True)
class Schedule:
    """A factor from 0 to 1 on all learning rates.

    Every schedule may begin with a warm-up, a share w of the training in which the factor rises from 0:

    ``factor(t) = min(1, t/w) · f(t)``

    Attributes
    ----------
    name
        Its name in studies and on the command line.
    formula
        f in words and symbols; s is the fraction done of what follows the warm-up.
    function
        f: the fraction t, and the parameters by name → a number from 0 to 1.
    parameters
        The parameters that f depends on, among 'warmup' and 'cooldown'.
    """

    name: str
    formula: str
    function: Callable[..., float]
    parameters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = []
        if not isinstance(self.name, str) or not self.name.isidentifier():
            problems.append(
                f"name of a schedule must be letters, digits and underscores, got {shown(self.name)}"
            )
        if not callable(self.function):
            problems.append(f"schedule {self.name}: function must be a function, got {shown(self.function)}")
        refuse(problems)

    @property
    def own(self) -> bool:
        """Whether it is not one of this library's."""
        return SCHEDULES.get(self.name) is not self


def after_warmup(t: float, warmup: float) -> float:
    """Return s = (t − w)/(1 − w), the fraction done of what follows the warm-up; 0 before its end."""
    return 0.0 if t <= warmup else (t - warmup) / (1 - warmup)


def _constant(t: float) -> float:
    return 1.0


def _cosine(t: float, warmup: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * after_warmup(t, warmup)))


def _linear(t: float, warmup: float) -> float:
    return 1 - after_warmup(t, warmup)


def _wsd(t: float, cooldown: float) -> float:
    return min(1.0, (1 - t) / cooldown)


#: Name → schedule: those of this library.
SCHEDULES: dict[str, Schedule] = {
    row.name: row
    for row in (
        Schedule("constant", "1", _constant),
        Schedule("cosine", "(1 + cos πs)/2", _cosine, ("warmup",)),
        Schedule("linear", "1 − s", _linear, ("warmup",)),
        Schedule("wsd", "min(1, (1 − t)/cooldown)", _wsd, ("cooldown",)),
    )
}

_TAKEN = f"name of a schedule must not be {listed(SCHEDULES)}, which this library has, got '{{}}'"

#: Name → schedule: those that `register_schedule` has added.
_REGISTERED: dict[str, Schedule] = {}


def register_schedule(function: Callable[[float], float], name: str = "") -> Schedule:
    """Register a function of the fraction of training as a schedule that studies can name.

    Parameters
    ----------
    function
        A number t between 0 and 1 → a factor from 0 to 1. It is called with plain numbers, once for every
        step, so it may contain branches and loops.
    name
        Its name; by default that of the function.
    """
    name = name or getattr(function, "__name__", "")
    if name in SCHEDULES:
        raise InputError(_TAKEN.format(name))
    _REGISTERED[name] = schedule = Schedule(name, f"{name}(t)", function)
    return schedule


def schedule_of(schedule: str | Schedule) -> Schedule:
    """Return a schedule by its name, or as it is."""
    if isinstance(schedule, Schedule):
        if schedule.own and schedule.name in SCHEDULES:
            raise InputError(_TAKEN.format(schedule.name))
        return schedule
    known = SCHEDULES | _REGISTERED
    if not isinstance(schedule, str) or schedule not in known:
        raise InputError(
            f"schedule must be {listed(known)}, or a function given to register_schedule, "
            f"got {shown(schedule)}"
        )
    return known[schedule]


def schedule_problems(
    schedule: Schedule, warmups: Iterable[float] = (0.0,), cooldowns: Iterable[float] = (COOLDOWN,)
) -> list[str]:
    """Return a message for each share of a training that is not possible."""
    problems = []
    warmup, cooldown = max(warmups), max(cooldowns)
    if not 0 <= warmup <= 1:
        problems.append(f"warmup must be at least 0 and at most 1, the whole training, got {warmup!r}")
    if not 0 < cooldown <= 1:
        problems.append(f"cooldown must be above 0 and at most 1, the whole training, got {cooldown!r}")
    if not problems and "cooldown" in schedule.parameters and warmup + cooldown > 1 + 1e-12:
        problems.append(
            "warmup and cooldown must be at most 1 together, the whole training, "
            f"got {warmup!r} + {cooldown!r}"
        )
    return problems


@dataclass(frozen=True)
class Timetable:
    """A schedule applied to a training: the factor of every step.

    It is a function of the step, as PyTorch's ``LambdaLR`` and the optimizers of this library take it.

    Attributes
    ----------
    schedule
        A name, or a `Schedule`.
    steps
        The steps T of the training. After them the last factor stays.
    warmup
        The share of the training in which the factor rises from 0.
    cooldown
        The share of the training in which 'wsd' falls to zero.
    """

    schedule: str | Schedule
    steps: int
    warmup: float = 0.0
    cooldown: float = COOLDOWN

    def __post_init__(self) -> None:
        row = schedule_of(self.schedule)
        refuse([*whole(steps=self.steps), *at_least_zero(warmup=self.warmup, cooldown=self.cooldown)])
        refuse(schedule_problems(row, (self.warmup,), (self.cooldown,)))
        if row.own:
            refuse(_function_problems(row, self.steps))

    @property
    def row(self) -> Schedule:
        """The schedule itself."""
        return schedule_of(self.schedule)

    def done(self, step: int) -> float:
        """Return t, the fraction of training done in the middle of a step."""
        return _fraction(min(step, self.steps - 1), self.steps)

    def __call__(self, step: int) -> float:
        """Return the factor of a step, counted from 0."""
        return _factor(self.row, self.done(step), self.warmup, self.cooldown)

    def factors(self) -> list[float]:
        """Return the factor of every step."""
        return list(_factors(self.row, self.steps, self.warmup, self.cooldown))

    def digest(self) -> str:
        """Return a hash of the factors: two trainings with one digest have the same learning rates."""
        return hashlib.sha256(repr(self.factors()).encode()).hexdigest()[:32]

    def describe(self) -> str:
        """Return one line for people."""
        words = f"{self.row.name}, {self.steps} steps, factor {self.row.formula}"
        if "cooldown" in self.row.parameters:
            words += f", cooldown {self.cooldown:g}"
        return f"{words}, after a warm-up of {self.warmup:g}" if self.warmup else words


def _fraction(step: int, steps: int) -> float:
    return (step + 0.5) / steps


def _factor(schedule: Schedule, t: float, warmup: float, cooldown: float) -> float:
    given = {"warmup": warmup, "cooldown": cooldown}
    ramp = 1.0 if t >= warmup else t / warmup
    return ramp * float(schedule.function(t, **{name: given[name] for name in schedule.parameters}))


@functools.lru_cache(maxsize=32)  # runs that differ in other values share their factors
def _factors(schedule: Schedule, steps: int, warmup: float, cooldown: float) -> tuple[float, ...]:
    return tuple(_factor(schedule, _fraction(k, steps), warmup, cooldown) for k in range(steps))


@functools.lru_cache(maxsize=32)
def _function_problems(schedule: Schedule, steps: int) -> tuple[str, ...]:
    """Return what is wrong with somebody's own function in a training."""
    name, factors = f"schedule {schedule.name}", []
    for t in (_fraction(k, steps) for k in range(steps)):
        try:
            factors.append(float(schedule.function(t)))
        except Exception as error:  # whatever that function raises
            return (f"{name} must be a function of the fraction of training, but fails at {t:.4g} ({error})",)
        if not 0 <= factors[-1] <= 1:
            return (
                f"{name} must give numbers from 0 to 1, since η0 is the peak rate, "
                f"got {factors[-1]!r} at {t:.4g}",
            )
    if not any(factors):
        return (f"{name} starts at zero and never rises: nothing would be trained",)
    return ()


# --- decay, as a time ------------------------------------------------------------------------------


TWO_UNITS = "decay and decay_time are two units of the same number: give one of them"


def decay_time_problems(decay_time: float, steps: int) -> list[str]:
    """Return the message about a decay time that is shorter than a step of a training of T steps.

    A step shrinks W by the share ``η_W λ_W = 1/(τT)``. A share above 1 turns its sign around.
    """
    if decay_time * steps >= 1:
        return []
    return [
        f"decay_time must be at least {1 / steps:.3g}, one of {steps} steps: in a shorter time W would "
        f"change its sign, got {decay_time!r}"
    ]
