"""The goal: one large model, and the family of smaller ones on which it is tuned."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from denseam.data.concerns import Concern, warn
from denseam.data.sources import source
from denseam.ground.errors import InputError, refuse, together
from denseam.rules import Shape, cost
from denseam.rules.fields import parameters, short
from denseam.studies.description import AXES, DOCUMENT
from denseam.studies.documents import from_document, preparation_from
from denseam.studies.study import Study
from denseam.workflow.target_sizes import TUNE_EPOCHS, TargetSizes

#: The smallest N to begin with, and the smallest that is used if there are too few others: the optimum of a
#: smaller model says little.
SMALLEST, TINIEST = 32, 8
#: If only memories grow, the theory assumes many memories: begin at this multiple of N.
MEMORIES_PER_FEATURE = 2
#: Minimum ratio of two sizes to compare.
APART = 1.3
#: Number of sizes that a verdict needs.
FEWEST_SIZES = 3


@dataclasses.dataclass(frozen=True)
class Goal:
    """The large model to be trained.

    Attributes
    ----------
    study
        Everything that does not change with size: activation, optimizer, regime, data, epochs, noise. Its
        only scale is the target, its only eta0 a placeholder.
    ladder
        The sizes to tune at, rising; below the target, unless they were given.
    given
        Whether these sizes were given; all of them are then trained with all seeds.
    tune_epochs
        The epochs of the small models, if they are trained for fewer epochs than the target.
    """

    study: Study
    ladder: tuple[int, ...]
    given: bool = False
    tune_epochs: int | None = None

    @property
    def short_epochs(self) -> int:
        """The epochs of the small models."""
        return self.tune_epochs or self.study.epochs

    @property
    def target(self) -> int:
        """The scale of the target: N if all sizes grow in proportion, else the size that grows."""
        return self.study.scales[0]

    @property
    def shape(self) -> Shape:
        """The sizes of the target."""
        return self.study.shape(self.target)

    @property
    def letter(self) -> str:
        """The size that grows: N, K, B, P or E."""
        return self.study.regime.letter

    @property
    def concerns(self) -> list[Concern]:
        """What is wrong with the scale of the data."""
        return self.study.source().concerns(self.study.noise)

    def at(self, scales: tuple[int, ...], eta0: tuple[float, ...], seeds: int, **axes: Any) -> Study:
        """Return the study of small models with these sizes, learning rates and seeds."""
        held = {k: v for k, v in self.study.axes.items() if k not in axes}
        return dataclasses.replace(
            self.study, scales=scales, eta0=eta0, seeds=seeds, axes=held | axes, epochs=self.short_epochs
        )

    def operations(self, scale: int, epochs: int | None = None) -> float:
        """Return the operations of one run at a scale; by default with the epochs of the small models."""
        shape = self.study.shape(scale)
        length = shape.E or epochs or self.short_epochs
        return cost.updates(shape, length) * self.study.step_operations(shape)

    @property
    def target_operations(self) -> float:
        """The operations of one run at the target."""
        return self.operations(self.target, self.study.epochs)


def goal(
    data: str, *, scales: Sequence[int] | None = None, tune_epochs: int | None = None, **target: Any
) -> Goal:
    """Return the goal with these sizes; warn if the data is badly scaled (`DataWarning`).

    Parameters
    ----------
    data
        As in `Study`.
    scales
        The sizes to tune at; by default they are chosen from the data.
    tune_epochs
        The epochs of the small models; by default those of the target.
    target
        The target, as the arguments of `target_study`.
    """
    study, short = together(
        lambda: target_study(data, **target),
        lambda: None if tune_epochs is None else int(TUNE_EPOCHS.read(tune_epochs)),
    )
    if short is not None and study.regime.letter == "E":
        raise InputError(f"tune_epochs does not belong to the regime {study.regime.name!r}, use scales")
    if short is not None and short > study.epochs:
        raise InputError(f"tune_epochs must be at most the epochs of the target, {study.epochs}, got {short}")
    short = None if short == study.epochs else short
    if scales:
        sizes = _checked(DOCUMENT["scales"].read(scales), study.scales[0], study)
        wanted = Goal(study, sizes, given=True, tune_epochs=short)
    else:
        wanted = Goal(study, ladder(study, study.scales[0]), tune_epochs=short)
    warn(wanted.concerns, f"data {data}")
    return wanted


def target_study(
    data: str,
    *,
    activation: Any = "relu",
    optimizer: str = "adam",
    regime: str | None = None,
    **target: Any,
) -> Study:
    """Return the study of one model, whose learning rate is not yet known (its eta0 is a placeholder).

    Parameters
    ----------
    data
        As in `Study`.
    activation, optimizer
        As in `Study`; ReLU and Adam by default.
    regime
        What grows towards the target: 'proportional' (all sizes; the default), 'memories-only' (the
        default if `memories` is given without `features`), 'batch-only', 'samples-only', 'epochs',
        'steps-only' or 'proportional-steps'.
    target
        The sizes of the target (`features`, `memories`, `samples`, `batch` for N, K, P and B; or the ratios
        `kappa`, `rho`, `beta`), and all other arguments of a study: `epochs`, `noise`, `centred`,
        `parameterization`, `preparation`, …. The size that grows is required, except N and P if the
        data determine them. Of the other sizes, N defaults to that of the data, K to 2N, P to all samples,
        and B to N/2 (a tenth of five samples for each feature).
    """
    document = {key: value for key, value in target.items() if value is not None}
    sizes = TargetSizes(**{key: document.pop(key) for key in parameters(TargetSizes) if key in document})
    preparation = preparation_from(document)
    lengths = document.get("epochs"), document.get("steps")
    growth, scale = sizes.regime(regime, source(data, preparation), *lengths)
    study = from_document(
        document
        | {"activation": activation, "optimizer": optimizer, "scales": (scale,), "eta0": (1.0,)}
        | {"regime": growth, "data": data, "preparation": preparation}
    )
    refuse(
        f"{AXES[axis].document} must be one value, since one model is trained in the end, got {short(values)}"
        for axis, values in study.grid.items()
        if len(values) > 1
    )
    return study


def _checked(scales: tuple[int, ...], target: int, study: Study) -> tuple[int, ...]:
    """Return given sizes, after checking that they are at most the target."""
    beyond = [s for s in scales if s > target]
    if beyond:
        raise InputError(
            f"target {target} is smaller than the base: scales must be at most that, got {beyond[0]}"
        )
    if len(scales) < FEWEST_SIZES:
        raise InputError(f"scales must be at least {FEWEST_SIZES}, got {len(scales)}")
    dataclasses.replace(study, scales=scales)  # refuses wrong ones
    return scales


def ladder(study: Study, target: int) -> tuple[int, ...]:
    """Return the sizes of a family below the target, rising: about a half of it, a quarter, an eighth, ….

    They go down to where a smaller model says little, and further, or in shorter steps, only if there are too
    few otherwise.
    """
    start, available = SMALLEST, [s for s in study.source().sizes() if s < target and _fits(study, s)]
    if study.regime.letter != "N":  # the data need not shrink
        available = []
    smallest = TINIEST
    if study.regime.letter == "T":
        start = smallest = 1
    if study.regime.letter == "K":
        start = MEMORIES_PER_FEATURE * study.regime.shape(target).N
    chosen: list[int] = []
    ratio = min(2.0, (target / smallest) ** (1 / FEWEST_SIZES))
    wanted = target / ratio if target > smallest else 0.0  # below it there is nothing to tune at
    while wanted >= smallest / 2 and (len(chosen) < FEWEST_SIZES or wanted >= start / APART):
        near = _nearest(wanted, study, available)
        if near is not None and near >= smallest and (not chosen or chosen[-1] / near >= APART):
            chosen.append(near)
        wanted /= ratio
    if len(chosen) < FEWEST_SIZES:
        raise InputError(
            f"target {study.regime.letter} = {target} is too small to be tuned at smaller sizes: the data "
            f"allow {len(chosen)} of the {FEWEST_SIZES} needed; sweep the target itself (denseam sweep)"
        )
    return tuple(chosen[::-1])


def _nearest(wanted: float, study: Study, available: Sequence[int]) -> int | None:
    """Return the size nearest to the wanted one that the data can have; `available` are some that it has."""
    if _fits(study, size := max(1, round(wanted))):
        return size
    return min(available, key=lambda size: abs(math.log(size / wanted)), default=None)


def default_ladder(study: Study) -> tuple[int, ...]:
    """Return the sizes that are chosen for a target by default; none if it has too few below it."""
    try:
        return ladder(study, study.scales[0])
    except InputError:
        return ()


def _fits(study: Study, scale: int) -> bool:
    try:
        dataclasses.replace(study, scales=(scale,))
    except InputError:
        return False
    return True
