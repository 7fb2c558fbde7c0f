"""A setting of the catalog: a study without sizes, so that one row serves both a laptop and a GPU."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any

from denseam.paper.readings import Reading
from denseam.paper.sizes import Size
from denseam.rules.cost import step_operations
from denseam.rules.fields import logspace
from denseam.rules.regimes import regime_letter
from denseam.studies.description import DOCUMENT
from denseam.studies.documents import from_document
from denseam.studies.records import By
from denseam.studies.study import RunSpec, Study


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
    reach
        How many scales count, where they are, beyond those that are needed; -1 leaves out the largest, as
        our own studies do.
    pinned
        The only reading in which it is trained; None if the claim is read in each of them.
    by
        The loss that is judged.
    width
        Which of the values of N the model has, if it does not grow.
    length
        The share of the size's epochs that it is trained for.
    only
        Which of its scales alone is trained, from 0 (the largest, if there are fewer); None for all.
    budget
        The optimizer whose operations its runs may take: those of that optimizer in the size's epochs. None
        for these epochs themselves.
    """

    label: str
    eta0: tuple[float, float] | float
    study: tuple[tuple[str, Any], ...]
    reach: int = 0
    pinned: Reading | None = None
    by: By = "training"
    width: int = 0
    length: float = 1.0
    only: int | None = None
    budget: str | None = None

    def but(self, label: str, **changes: Any) -> Setting:
        """Return a copy under another label, with changes to its own fields or to its study."""
        fields = {field.name for field in dataclasses.fields(self)} - {"label", "study"}
        own = {key: changes.pop(key) for key in fields & set(changes)}
        study = dict(self.study) | changes
        return dataclasses.replace(self, label=label, study=tuple(sorted(study.items())), **own)

    def get(self, key: str) -> Any:
        """Return the value of a key of its study, or the default of that key."""
        return dict(self.study).get(key, DOCUMENT[key].default)

    @property
    def unlabelled(self) -> Setting:
        """The same setting without its name: equal for equal runs."""
        return dataclasses.replace(self, label="")

    @property
    def regime(self) -> str:
        """The name of what grows."""
        return str(self.get("regime"))

    @property
    def letter(self) -> str:
        """The letter of the size that grows."""
        return regime_letter(self.regime)

    def scales(self, size: Size) -> tuple[int, ...]:
        """Return the sizes that a verdict needs."""
        scales = self._all_scales(size)
        return scales if self.only is None else (scales[min(self.only, len(scales) - 1)],)

    def _all_scales(self, size: Size) -> tuple[int, ...]:
        if self.get("data") in ("mnist", "digits"):
            return size.pixels if self.get("data") == "mnist" else size.digits
        scales = size.scales(self.regime, self.width)
        return scales[: self.reach] if self.reach < 0 and len(scales) > 3 else scales

    def rates(self, size: Size) -> tuple[float, ...]:
        """Return the learning rates."""
        if not isinstance(self.eta0, tuple):
            return (self.eta0,)
        low, high = self.eta0
        count = round((high - low) * size.per_decade) + 1
        return logspace(10**low, 10**high, max(3, count))

    def studies(self, size: Size, reading: Reading) -> list[Study]:
        """Return the studies that a verdict needs: one, or two if the largest scales need a single seed."""
        scales = self.scales(size)
        single = math.inf if size.single is None else size.single.get(self.regime, math.inf)
        few, one = (tuple(s for s in scales if (s >= single) is large) for large in (False, True))
        pairs = ((few, size.seeds), (one, 1))
        return [self._study(size, reading, group, seeds) for group, seeds in pairs if group]

    def runs(self, size: Size, reading: Reading) -> list[RunSpec]:
        """Return the runs that a verdict needs."""
        return [spec for study in self.studies(size, reading) for spec in study.runs()]

    def whole_study(self, size: Size, reading: Reading) -> Study:
        """Return the study with all seeds and scales that count where they are."""
        further = size.beyond[: max(0, self.reach)]
        return self._study(size, reading, self.scales(size) + further, max(size.seeds, size.most_seeds))

    def _study(self, size: Size, reading: Reading, scales: tuple[int, ...], seeds: int) -> Study:
        epochs = max(1, round(size.epochs * self.length))
        shared: dict[str, Any] = {"eta0": self.rates(size), "epochs": epochs}
        if self.regime != "proportional":
            shared["regime"] = size.fixed(self.regime, self.width)
        biases = dict((self.pinned or reading).study)
        own = {"precision": size.precision, **dict(self.study)}
        study = from_document({**biases, **own, **shared, "scales": scales, "seeds": seeds})
        return study if self.budget is None else within_operations(study, self.budget)


def within_operations(study: Study, optimizer: str) -> Study:
    """Return a study with as many operations as another optimizer takes in its epochs, to half an epoch.

    What an update costs against that of the other optimizer is taken at the largest scale.
    """
    shape = study.regime.shape(max(study.scales))
    share = step_operations(shape, optimizer) / study.step_operations(shape)
    return dataclasses.replace(study, epochs=max(1, round(study.epochs * share)))


def setting(
    label: str,
    activation: str,
    optimizer: str,
    eta0: tuple[float, float] | float,
    *,
    reach: int = 0,
    **study: Any,
) -> Setting:
    """Return a setting; further arguments are keys of the study's document."""
    study |= {"activation": activation, "optimizer": optimizer}
    return Setting(label, eta0, tuple(sorted(study.items())), reach)


@dataclasses.dataclass(frozen=True)
class FromSettings:
    """Something that is made from runs of the settings among its fields."""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings that have to be trained for it."""
        return tuple(_settings_in(getattr(self, field.name) for field in dataclasses.fields(self)))

    def unlabelled(self) -> Any:
        """Return what it asks, whatever its settings are called: equal for equal tests of equal runs."""
        values = {field.name: _unlabelled(getattr(self, field.name)) for field in dataclasses.fields(self)}
        return dataclasses.replace(self, **values)


def _settings_in(values: Iterable[Any]) -> Iterator[Setting]:
    for value in values:
        if isinstance(value, Setting):
            yield value
        elif isinstance(value, FromSettings):
            yield from value.settings
        elif isinstance(value, tuple):
            yield from _settings_in(value)


def _unlabelled(value: Any) -> Any:
    if isinstance(value, Setting):
        return value.unlabelled
    if isinstance(value, FromSettings):
        return value.unlabelled()
    return tuple(map(_unlabelled, value)) if isinstance(value, tuple) else value
