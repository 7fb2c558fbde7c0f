"""A study of our own: optimizers at equal operations, each at its best, with a schedule and without."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from denseam.paper.claims import Claim, claim
from denseam.paper.experiments import RELU_ADAM
from denseam.paper.figure import Figure
from denseam.paper.ranking import InsideSweep, LowersEach, LowestLoss, Ranking, Rates
from denseam.paper.readings import TRAINED
from denseam.paper.settings import Setting
from denseam.studies.records import By


@dataclasses.dataclass(frozen=True)
class Contestant:
    """An optimizer with its keys, and where its optimum is sought.

    Attributes
    ----------
    study
        Keys of the study.
    constant, linear
        The exponents of ten between which the rate is swept, constant and falling to zero.
    """

    study: Mapping[str, Any]
    constant: tuple[float, float]
    linear: tuple[float, float]


#: Decays λ₀. Adam has none: AdamW is Adam with decay. The others may do without. Adam's held-out loss on
#: Gaussians has a second minimum at rates above 1, so that its sweep goes on until runs diverge.
CONTESTANTS: Mapping[str, Contestant] = {
    "SGD": Contestant({"optimizer": "sgd", "decay": (0.0, 0.01, 0.03, 0.1, 0.3)}, (-3.25, -0.75), (-2.5, 0)),
    "momentum": Contestant(
        {"optimizer": "sgd", "momentum": 0.9, "decay": (0.0, 0.3, 1.0, 3.0, 10.0)}, (-4, -1.5), (-3.25, -0.75)
    ),
    "Adam": Contestant({"optimizer": "adam"}, (-3, 1), (-2.25, 1.25)),
    "AdamW": Contestant({"optimizer": "adamw", "decay": (0.01, 0.03, 0.1, 0.3, 1.0)}, (-3, 1), (-2.25, 1.25)),
    "Lion": Contestant({"optimizer": "lion", "decay": (0.0, 0.1, 0.3, 1.0, 3.0)}, (-4, -1.5), (-3.25, -0.5)),
    "Muon": Contestant({"optimizer": "muon", "decay": (0.0, 0.1, 0.3, 1.0, 3.0)}, (-3.25, -0.75), (-2.5, 0)),
}
#: Name in the figure → the schedule.
SCHEDULES = {"constant rate": "constant", "linear to zero": "linear"}
#: Data → keys of the study, and which of its sizes: N = 512 and N = 196 in the paper's.
DATA: Mapping[str, dict[str, Any]] = {
    "Gaussians": {"only": 2},
    "digits": {"only": 2, "data": "mnist", "unit_variance": True, "noise": 1.5},
}
#: The loss that is judged → its name.
LOSSES: Mapping[By, str] = {"training": "training loss", "heldout": "held-out loss"}


def contest(data: str, by: By, schedule: str) -> dict[str, Setting]:
    """Return the setting of each optimizer on some data, judged by a loss, with a schedule of `SCHEDULES`."""
    kind = SCHEDULES[schedule]
    keys = {"pinned": TRAINED, "budget": "adam", "by": by, "schedule": kind, **DATA[data]}
    return {
        name: RELU_ADAM.but(name, eta0=getattr(one, kind), **keys, **one.study)
        for name, one in CONTESTANTS.items()
    }


def _claims(data: str, by: By) -> tuple[Claim, ...]:
    constant, linear = (contest(data, by, schedule) for schedule in SCHEDULES)
    others = tuple(s for name, s in linear.items() if name != "Muon")
    where = f"{data}, {LOSSES[by]}"
    return (
        claim(
            f"{where}: the schedule lowers that of each optimizer.",
            LowersEach(tuple(linear.values()), tuple(constant.values())),
        ),
        claim(f"{where}, with the schedule: Muon has the lowest.", LowestLoss(linear["Muon"], others)),
        claim(
            f"{where}, with the schedule: AdamW is better than Adam.",
            LowestLoss(linear["AdamW"], (linear["Adam"],)),
        ),
        claim(
            f"{where}, with the schedule: Adam is better than SGD with momentum.",
            LowestLoss(linear["Adam"], (linear["momentum"],)),
        ),
    )


def _row(data: str) -> tuple[Ranking | Rates, ...]:
    constant, linear = SCHEDULES
    rankings = tuple(
        Ranking(
            f"{data}, {loss}",
            (constant, linear),
            tuple(contest(data, by, constant).values()),
            tuple(contest(data, by, linear).values()),
        )
        for by, loss in LOSSES.items()
    )
    return (*rankings, Rates(f"{data}, {linear}", tuple(contest(data, "heldout", linear).values())))


EVERY = tuple(
    setting.but(f"{setting.label} ({data}, {loss}, {schedule})")
    for data in DATA
    for by, loss in LOSSES.items()
    for schedule in SCHEDULES
    for setting in contest(data, by, schedule).values()
)

COMPARED = Figure(
    name="optimizers-compared",
    title="ReLU: optimizers at equal operations, each at its best rate and decay",
    rows=tuple(map(_row, DATA)),
    claims=(
        *(each for data in DATA for by in LOSSES for each in _claims(data, by)),
        claim("The best rate and decay of each lie inside their sweeps.", InsideSweep(EVERY)),
    ),
    remark="Muon's orthogonal update costs five times the rest of a step, so it has a sixth of the epochs. "
    "Rate and decay are chosen by the loss that is shown. Adam has no decay: AdamW is Adam with one.",
)
