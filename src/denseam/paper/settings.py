"""A setting of the catalog: a study without sizes, so that one row serves both a laptop and a GPU."""

from __future__ import annotations

import dataclasses
from typing import Any

from denseam.paper.sizes import Size
from denseam.rules.fields import logspace
from denseam.rules.regimes import regime_letter
from denseam.studies.description import DOCUMENT
from denseam.studies.documents import from_document
from denseam.studies.study import Study


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is trained.

    Attributes
    ----------
    label
        Its name in the figure.
    eta0
        The range of learning rates, as exponents of ten; or a single learning rate.
    study
        Keys and values of the study's document, without those that set its size.
    fewer
        Whether to leave out the largest scale, as our own studies do.
    """

    label: str
    eta0: tuple[float, float] | float
    study: tuple[tuple[str, Any], ...]
    fewer: bool = False

    def but(self, label: str, **changes: Any) -> Setting:
        """Return a copy under another label, with changes to its own fields or to its study."""
        own = {key: changes.pop(key) for key in ("eta0", "fewer") if key in changes}
        study = dict(self.study) | changes
        return dataclasses.replace(self, label=label, study=tuple(sorted(study.items())), **own)

    def get(self, key: str) -> Any:
        """Return the value of a key of its study, or the default of that key."""
        return dict(self.study).get(key, DOCUMENT[key].default)

    @property
    def memories_only(self) -> bool:
        """Whether only the memories grow."""
        return bool(self.get("regime") == "memories-only")

    @property
    def letter(self) -> str:
        """The letter of the size that grows."""
        return regime_letter(self.get("regime"))

    def scales(self, size: Size) -> tuple[int, ...]:
        """Return the sizes that are compared."""
        if self.get("data") == "mnist":
            scales = size.pixels
        else:
            scales = size.memories if self.memories_only else size.features
        return scales[:-1] if self.fewer and len(scales) > 3 else scales

    def rates(self, size: Size) -> tuple[float, ...]:
        """Return the learning rates."""
        if not isinstance(self.eta0, tuple):
            return (self.eta0,)
        low, high = self.eta0
        count = round((high - low) * size.per_decade) + 1
        return logspace(10**low, 10**high, max(3, count))

    def studies(self, size: Size) -> list[Study]:
        """Return its studies at a size: one, or two if the largest scale has a single seed."""
        scales = self.scales(size)
        single = None if size.single is None else size.single[self.memories_only]
        groups = (
            (tuple(s for s in scales if s != single), size.seeds),
            (tuple(s for s in scales if s == single), 1),
        )
        shared = {"eta0": self.rates(size), "epochs": size.epochs, "precision": size.precision}
        if self.memories_only:
            shared["regime"] = size.regime
        return [
            from_document({**dict(self.study), **shared, "scales": group, "seeds": seeds})
            for group, seeds in groups
            if group
        ]


def setting(
    label: str,
    activation: str,
    optimizer: str,
    eta0: tuple[float, float] | float,
    *,
    fewer: bool = False,
    **study: Any,
) -> Setting:
    """Return a setting; further arguments are keys of the study's document."""
    study |= {"activation": activation, "optimizer": optimizer}
    return Setting(label, eta0, tuple(sorted(study.items())), fewer)


@dataclasses.dataclass(frozen=True)
class FromSettings:
    """Something that is made from runs of the settings among its fields."""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings that have to be trained for it."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return tuple(value for value in values if isinstance(value, Setting))
