"""A setting of the catalog: a study without its size, so that one row serves a laptop and a GPU."""

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
        What it is called in the figure.
    eta0
        The exponents (of ten) that the learning rates go from and to; or one learning rate.
    study
        The keys of a study's document besides those of its size, with their values.
    fewer
        Leave the largest scale out, as studies of our own do.
    """

    label: str
    eta0: tuple[float, float] | float
    study: tuple[tuple[str, Any], ...]
    fewer: bool = False

    def but(self, label: str, **changes: Any) -> Setting:
        """Return the setting with changes, to its own fields or to its study, under another label."""
        own = {key: changes.pop(key) for key in ("eta0", "fewer") if key in changes}
        study = dict(self.study) | changes
        return dataclasses.replace(self, label=label, study=tuple(sorted(study.items())), **own)

    def get(self, key: str) -> Any:
        """Return the value of a key of its study; its default where it is not set."""
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
        """Return its runs at a size: one study, or two where the largest scale has one seed only."""
        scales = self.scales(size)
        single = None if size.single is None else size.single[self.memories_only]
        parts = [
            (tuple(s for s in scales if s != single), size.seeds),
            (tuple(s for s in scales if s == single), 1),
        ]
        shared = {"eta0": self.rates(size), "epochs": size.epochs, "precision": size.precision}
        if self.memories_only:
            shared["regime"] = size.regime
        return [
            from_document({**dict(self.study), **shared, "scales": some, "seeds": seeds})
            for some, seeds in parts
            if some
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
    """Return a setting; what is not named here is a key of its study's document."""
    study |= {"activation": activation, "optimizer": optimizer}
    return Setting(label, eta0, tuple(sorted(study.items())), fewer)
