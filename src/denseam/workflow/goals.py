"""What a researcher wants in the end: one large model, and the family of smaller ones to tune it on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from denseam.data.sources import source
from denseam.errors import InputError
from denseam.rules import Shape, cost
from denseam.rules.fields import parameters
from denseam.studies.description import DOCUMENT
from denseam.studies.documents import from_document, preparation_from
from denseam.studies.study import Study
from denseam.workflow.target_sizes import TargetSizes

#: The smallest N to begin at, and the smallest that is taken where there is nothing else: below, a model
#: is so small that its own optimum says little.
SMALLEST, TINIEST = 32, 8
#: Where only memories grow, the theory is that of many memories: begin at this multiple of N.
MEMORIES_PER_FEATURE = 2
#: Two sizes to compare should differ by this factor at least.
APART = 1.3
#: A verdict needs so many sizes.
SIZES = 3


@dataclasses.dataclass(frozen=True)
class Goal:
    """The model that is wanted.

    Attributes
    ----------
    study
        All that does not change with size: activation, optimizer, regime, data, epochs, noise. Its only
        scale is the target, its only eta0 a placeholder.
    ladder
        The sizes to tune at, rising; below the target, unless they were asked for.
    first
        With how many of them the search begins.
    """

    study: Study
    ladder: tuple[int, ...]
    first: int = SIZES

    @property
    def target(self) -> int:
        """The scale of the target: N where all grow in proportion, else K."""
        return self.study.scales[0]

    @property
    def shape(self) -> Shape:
        """The sizes of the target."""
        return self.study.regime.shape(self.target)

    @property
    def letter(self) -> str:
        """N or K: what grows."""
        return self.study.regime.letter

    def at(self, scales: tuple[int, ...], eta0: tuple[float, ...], seeds: int, **axes: Any) -> Study:
        """Return the study of these sizes, learning rates and seeds."""
        held = {k: v for k, v in self.study.axes.items() if k not in axes}
        return dataclasses.replace(self.study, scales=scales, eta0=eta0, seeds=seeds, axes=held | axes)

    def operations(self, scale: int) -> float:
        """Return the operations of one run at a scale."""
        return cost.operations(self.study.regime.shape(scale), self.study.epochs)


def goal(
    data: str,
    *,
    activation: Any = "relu",
    optimizer: str = "adam",
    regime: str | None = None,
    scales: Sequence[int] | None = None,
    **asked: Any,
) -> Goal:
    """Return the goal that these sizes describe.

    Parameters
    ----------
    data
        As in `Study`.
    activation, optimizer
        As in `Study`; ReLU and Adam by default.
    regime
        What grows towards the target: 'proportional' (all sizes; the default) or 'memories-only' (the
        default if `memories` is given without `features`).
    scales
        The sizes to tune at, where they should not be chosen from the data.
    asked
        The sizes of the target (`features`, `memories`, `samples`, `batch`, N, K, P and B; or the ratios
        `kappa`, `rho`, `beta`), and everything else a study takes: `epochs`, `noise`, `centred`,
        `parameterization`, `preparation`, …. N is that of the data unless given, K is needed in the regime
        'memories-only', P is all there is (at most 5N in proportion), B a tenth of P.
    """
    asked = {key: value for key, value in asked.items() if value is not None}
    sizes = TargetSizes(**{key: asked.pop(key) for key in parameters(TargetSizes) if key in asked})
    preparation = preparation_from(asked)
    made, target = sizes.regime(regime, source(data, preparation))
    study = from_document(
        asked
        | {"activation": activation, "optimizer": optimizer, "scales": (target,), "eta0": (1.0,)}
        | {"regime": made, "data": data, "preparation": preparation}
    )
    if scales:
        return Goal(study, _given(DOCUMENT["scales"].read(scales), target, study), first=len(scales))
    return Goal(study, ladder(study, target))


def _given(scales: tuple[int, ...], target: int, study: Study) -> tuple[int, ...]:
    """Return sizes that were asked for, after checking that they are below the target or at it."""
    beyond = [s for s in scales if s > target]
    if beyond:
        raise InputError(
            f"target {target} is smaller than the base: scales must be at most that, got {beyond[0]}"
        )
    if len(scales) < SIZES:
        raise InputError(f"scales must be at least {SIZES}, got {len(scales)}")
    dataclasses.replace(study, scales=scales)  # says what is wrong with them
    return tuple(scales)


def ladder(study: Study, target: int) -> tuple[int, ...]:
    """Return the sizes of a family below the target, rising, that a base may be chosen from."""
    if study.regime.name == "memories-only":
        start = MEMORIES_PER_FEATURE * study.regime.shape(target).N
        candidates = [2**k for k in range(target.bit_length())]
    else:
        start = SMALLEST
        sizes = getattr(study.source(), "sizes", None)
        candidates = list(sizes() if sizes is not None else (2**k for k in range(target.bit_length())))
    fit = [s for s in candidates if s < target and _fits(study, s)]
    apart: list[int] = []
    for scale in reversed(fit):  # from above, so that what is left out is small
        if not apart or apart[-1] / scale >= APART:
            apart.append(scale)
    rising = apart[::-1]
    chosen = [s for s in rising if s >= start]
    while len(chosen) < SIZES and len(chosen) < len(rising) and rising[-len(chosen) - 1] >= TINIEST:
        chosen = rising[-len(chosen) - 1 :]
    if len(chosen) < SIZES:
        raise InputError(
            f"target {study.regime.letter} = {target} is too small to be tuned at smaller sizes: the data "
            f"gives {len(chosen)} of the {SIZES} that are needed; sweep the target itself (denseam sweep)"
        )
    return tuple(chosen)


def _fits(study: Study, scale: int) -> bool:
    try:
        dataclasses.replace(study, scales=(scale,))
    except InputError:
        return False
    return True
