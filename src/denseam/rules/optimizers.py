"""The optimizers: what each makes of a gradient, and everything that follows from it.

An optimizer is one row of `OPTIMIZERS`. Its learning rates come from how large its update is
(`Normalisation`), its options from its hyperparameters, and the memory that a run takes from its moments.
`denseam.training.optimizers` has the update itself, `docs/optimizers.md` the derivation.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, get_args

OptimizerName = Literal["sgd", "adam", "adamw", "lion", "sign", "muon"]


#: The hyperparameters of averages over steps.
AVERAGES = ("momentum", "beta1", "beta2")


class Normalisation(enum.Enum):
    """What the size of an update of W is set by; the rule of its learning rate follows from it."""

    #: The update is proportional to the gradient.
    GRADIENT = "gradient"
    #: Every entry is divided by its own size: all are of order one.
    ENTRIES = "entries"
    #: All singular values become one: entries are of order max(K, N)^-1/2.
    ORTHOGONAL = "orthogonal"


@dataclass(frozen=True)
class UpdateRule:
    """What an optimizer makes of a gradient.

    Attributes
    ----------
    normalisation
        What the size of its update of W is set by.
    defaults
        Its hyperparameters among the axes of a study, with their defaults.
    eta0
        A learning rate near the best ones, with which `check` trains.
    moments, workspace
        Arrays of the size of W that it keeps, and that it needs besides to make an update.
    nesterov
        Whether momentum looks ahead by default; None if it cannot.
    biases
        The optimizer of the biases, if it is another one.
    calibrated
        The optimizer whose calibration a forecast takes; '' if there is none.
    batch
        The power of B that its rates have at a fixed number of epochs (`docs/regimes.md`).
    forgets
        Hyperparameter of an average → the power of B that 1 − its value then has.
    """

    #: Its name in studies and on the command line.
    name: OptimizerName
    #: Its name as people write it.
    title: str
    normalisation: Normalisation
    defaults: Mapping[str, float]
    eta0: float
    moments: int
    workspace: int
    nesterov: bool | None = None
    biases: OptimizerName | None = None
    calibrated: str = ""
    batch: Fraction = Fraction(1)
    forgets: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def follows_gradient(self) -> bool:
        """Whether the update is proportional to the gradient."""
        return self.normalisation is Normalisation.GRADIENT

    @property
    def of_biases(self) -> UpdateRule:
        """The rule by which the biases are updated."""
        return self if self.biases is None else OPTIMIZERS[self.biases]


_BETAS = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
#: An average over the same number of samples at every B.
_SAME = Fraction(1)
#: Adam divides by the size of single gradients, whose noise is of order B^-1/2.
_BY_ADAM: Any = {"batch": Fraction(1, 2), "forgets": {"beta1": _SAME, "beta2": _SAME}}

OPTIMIZERS: Mapping[str, UpdateRule] = {
    rule.name: rule
    for rule in (
        UpdateRule(
            "sgd", "SGD", Normalisation.GRADIENT, {"momentum": 0.0, "decay": 0.0}, 0.1,
            moments=0, workspace=0, nesterov=False, calibrated="sgd",
        ),
        UpdateRule(
            "adam", "Adam", Normalisation.ENTRIES, _BETAS, 0.03, moments=2, workspace=1, calibrated="adam",
            **_BY_ADAM,
        ),
        UpdateRule(
            "adamw", "AdamW", Normalisation.ENTRIES, _BETAS | {"decay": 1e-4}, 0.03,
            moments=2, workspace=1, calibrated="adam", **_BY_ADAM,
        ),
        UpdateRule(
            "lion", "Lion", Normalisation.ENTRIES, {"beta1": 0.9, "beta2": 0.99, "decay": 0.0}, 0.01,
            moments=1, workspace=1, calibrated="adam",
            forgets={"beta1": Fraction(1, 2), "beta2": _SAME},
        ),
        UpdateRule(
            "sign", "sign of the momentum", Normalisation.ENTRIES, {"momentum": 0.9, "decay": 0.0}, 0.01,
            moments=1, workspace=1, nesterov=False, calibrated="adam", forgets={"momentum": _SAME},
        ),
        UpdateRule(
            "muon", "Muon", Normalisation.ORTHOGONAL, {"momentum": 0.95, **_BETAS, "decay": 0.0}, 0.02,
            moments=1, workspace=3, nesterov=True, biases="adam",
            forgets={"momentum": _SAME, **_BY_ADAM["forgets"]},
        ),
    )
}  # fmt: skip

assert tuple(OPTIMIZERS) == get_args(OptimizerName)


def having(axis: str) -> tuple[str, ...]:
    """Return the optimizers that have a hyperparameter."""
    return tuple(name for name, rule in OPTIMIZERS.items() if axis in rule.defaults)
