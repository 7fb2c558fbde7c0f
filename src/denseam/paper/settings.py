"""A study of the catalog: everything but its size, so that one row serves a laptop and a GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from denseam.data.preparation import Preparation
from denseam.paper.sizes import Size
from denseam.rules import MemoriesOnly, Proportional, Regime
from denseam.studies.study import Study


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is trained.

    Attributes
    ----------
    label
        What it is called in the figure.
    eta0
        The exponents (of ten) that the learning rates go from and to; or one learning rate.
    ratios
        κ, ρ, β; None where only memories grow.
    values
        Constants: noise, s2_0, eta_b_ratio, ….
    fewer
        Leave the largest scale out, as studies of our own do.
    probes
        What is measured while training.
    """

    label: str
    activation: str
    optimizer: str
    eta0: tuple[float, float] | float
    power: float | None = None
    ratios: tuple[float, float, float] | None = (2, 5, 0.1)
    centred: bool | None = None
    data: str = "isotropic"
    unit_variance: bool = False
    shrink: str | None = None
    bias_init: str = "zero"
    parameterization: str = "prescription"
    noise: float = 0.5
    values: tuple[tuple[str, float], ...] = ()
    fewer: bool = False
    probes: tuple[str, ...] = ()

    def but(self, label: str, **changes: Any) -> Setting:
        """Return the setting with changes, under another label."""
        return dataclasses.replace(self, label=label, **changes)

    @property
    def letter(self) -> str:
        """The letter of the size that grows."""
        return (MemoriesOnly if self.ratios is None else Proportional).letter

    def scales(self, size: Size) -> tuple[int, ...]:
        """Return the sizes that are compared."""
        if self.data == "mnist":
            scales = size.pixels
        else:
            scales = size.memories if self.ratios is None else size.features
        return scales[:-1] if self.fewer and len(scales) > 3 else scales

    def rates(self, size: Size) -> tuple[float, ...]:
        """Return the learning rates."""
        if not isinstance(self.eta0, tuple):
            return (self.eta0,)
        low, high = self.eta0
        count = round((high - low) * size.per_decade) + 1
        return tuple(float(f"{10**x:.12g}") for x in np.linspace(low, high, max(3, count)))

    def studies(self, size: Size) -> list[Study]:
        """Return its runs at a size: one study, or two where the largest scale has one seed only."""
        regime: Regime = size.regime if self.ratios is None else Proportional(*self.ratios)
        scales = self.scales(size)
        single = None if size.single is None else size.single[self.ratios is None]
        parts = [
            (tuple(s for s in scales if s != single), size.seeds),
            (tuple(s for s in scales if s == single), 1),
        ]
        axes: Mapping[str, tuple[float, ...]] = {k: (v,) for k, v in self.values}
        return [
            Study(
                activation=self.activation,
                power=self.power,
                optimizer=self.optimizer,
                scales=some,
                eta0=self.rates(size),
                regime=regime,
                seeds=seeds,
                epochs=size.epochs,
                noise=self.noise,
                data=self.data,
                preparation=Preparation(unit_variance=self.unit_variance, shrink=self.shrink),
                centred=self.centred,
                bias_init=self.bias_init,
                parameterization=self.parameterization,
                precision=size.precision,
                axes=axes,
                probes=self.probes,
            )
            for some, seeds in parts
            if some
        ]
