"""What a researcher wants in the end: one large model, and the family of smaller ones to tune it on."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from denseam.data.preparation import Preparation
from denseam.data.sources import Source, source
from denseam.errors import InputError, refuse
from denseam.rules import MemoriesOnly, Proportional, Regime, Shape, cost
from denseam.rules.regimes import REGIMES
from denseam.studies.study import Study

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
    features: int | None = None,
    memories: int | None = None,
    samples: int | None = None,
    batch: int | None = None,
    kappa: float | None = None,
    rho: float | None = None,
    beta: float | None = None,
    scales: tuple[int, ...] | None = None,
    preparation: Preparation | None = None,
    **settings: Any,
) -> Goal:
    """Return the goal that these sizes describe.

    Parameters
    ----------
    data, preparation
        As in `Study`.
    activation, optimizer
        As in `Study`; ReLU and Adam by default.
    regime
        What grows towards the target: 'proportional' (all sizes; the default) or 'memories-only' (the
        default if `memories` is given without `features`).
    features, memories, samples, batch
        The sizes of the target, N, K, P and B. N is that of the data unless given, K is needed in the
        regime 'memories-only', P is all there is (at most 5N in proportion), B a tenth of P.
    kappa, rho, beta
        Or, in proportion, the ratios K/N (2), P/N (5) and B/P (0.1).
    scales
        The sizes to tune at, where they should not be chosen from the data.
    settings
        Everything else a `Study` takes: epochs, noise, centred, parameterization, ….
    """
    preparation = preparation or Preparation()
    family = source(data, preparation)
    if regime is None:
        only_memories = memories is not None and features is None and kappa is None
        regime = "memories-only" if only_memories else "proportional"
    refuse(
        [f"regime must be 'proportional' or 'memories-only', got {regime!r}"] * (regime not in REGIMES)
        + [
            f"{name} must be a whole number of at least 1, got {value!r}"
            for name, value in (
                ("features", features), ("memories", memories), ("samples", samples), ("batch", batch),
            )
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1)
        ]
    )  # fmt: skip
    N = features or family.features
    if N is None:
        raise InputError(f"features is needed: {data!r} has no size of its own")
    made: Regime
    if regime == "memories-only":
        refuse(
            [f"{k} belongs to the regime 'proportional'"
             for k, v in (("kappa", kappa), ("rho", rho), ("beta", beta)) if v is not None]
            + ["memories is needed: the size of the target"] * (memories is None)
        )  # fmt: skip
        P = samples or family.available or 2 * N
        made, target = MemoriesOnly(N, P, batch or max(1, P // 10)), memories
    else:
        made, target = _proportional(N, family, memories, samples, batch, kappa, rho, beta), N
    assert target is not None
    study = Study(
        activation=activation, optimizer=optimizer, scales=(target,), eta0=(1.0,), regime=made, data=data,
        preparation=preparation, **settings,
    )  # fmt: skip
    if scales:
        return Goal(study, _given(scales, target, study), first=len(scales))
    return Goal(study, ladder(study, target))


def _proportional(
    N: int,
    family: Source,
    memories: int | None,
    samples: int | None,
    batch: int | None,
    kappa: float | None,
    rho: float | None,
    beta: float | None,
) -> Proportional:
    refuse(
        f"{word} and {ratio} say the same; give one of them"
        for word, size, ratio, given in (
            ("memories", memories, "kappa", kappa),
            ("samples", samples, "rho", rho),
            ("batch", batch, "beta", beta),
        )
        if size is not None and given is not None
    )
    most = math.inf if family.available is None else family.available / N
    if rho is None:
        rho = samples / N if samples else 5.0 if most >= 5 else math.floor(10 * most) / 10 or most
    if kappa is None:
        kappa = memories / N if memories else 2.0
    if beta is None:
        beta = batch / max(1, round(rho * N)) if batch else 0.1
    return Proportional(kappa, rho, beta)


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
