"""The recipe of a training: a study, a learning rate (tuned or given), and the predicted loss curve."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from denseam import __version__
from denseam.analysis.prediction import Expected
from denseam.errors import InputError, path_of
from denseam.files import write_whole
from denseam.studies.description import ETA0
from denseam.studies.documents import from_document, to_document
from denseam.studies.study import RunSpec, Study

FILE = "tuned.json"
#: The format, and the one before it, in which vectors shrank by random directions unless asked otherwise.
FORMAT, EARLIER = 2, 1


class Origin(enum.Enum):
    """Where the learning rate of a recipe comes from."""

    TUNED = "tuned"
    GIVEN = "given"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How to train the target.

    Attributes
    ----------
    study
        Everything that does not change with size; its only scale is the target.
    eta0, constants
        The learning rate, and the values of other tuned axes.
    expected
        The loss curve that the small models predict for the target; None if there are none.
    tuned_eta0
        The learning rate that a search has forecast; None if there was no search.
    regret_bound, recommended
        The bound of that forecast, and whether it was within the tolerance.
    """

    study: Study
    eta0: float
    constants: Mapping[str, float] = dataclasses.field(default_factory=dict)
    expected: Expected | None = None
    tuned_eta0: float | None = None
    regret_bound: float | None = None
    recommended: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta0", ETA0.read(self.eta0))

    @property
    def origin(self) -> Origin:
        """Where `eta0` comes from."""
        return Origin.TUNED if self.eta0 == self.tuned_eta0 else Origin.GIVEN

    def with_eta0(self, eta0: float) -> Recipe:
        """Return the recipe with another learning rate, for which the small models predict nothing."""
        if eta0 == self.eta0:
            return self
        return dataclasses.replace(self, eta0=eta0, expected=None, regret_bound=None)

    @property
    def target(self) -> int:
        """The scale of the target."""
        return self.study.scales[0]

    def run(self, scale: int | None = None, seed: int = 0) -> tuple[Study, RunSpec]:
        """Return the run at the target, or at another size of its family."""
        axes = {k: v for k, v in self.study.axes.items() if k not in self.constants}
        study = dataclasses.replace(
            self.study,
            scales=(scale or self.target,),
            eta0=(self.eta0,),
            seeds=(seed,),
            axes=axes | {k: (v,) for k, v in self.constants.items()},
        )
        return study, study.runs()[0]


def write_result(folder: str | os.PathLike[str], result: Mapping[str, Any], recipe: Recipe) -> Path:
    """Write the result of a search, with its recipe."""
    bound = recipe.regret_bound
    document = {"format": FORMAT, "version": __version__, **result}
    document["recipe"] = {
        "study": to_document(recipe.study),
        "data_digest": recipe.study.source().digest,
        "eta0": recipe.eta0,
        "constants": dict(recipe.constants),
        "expected": recipe.expected.to_json() if recipe.expected else None,
        "regret_bound": bound if bound is not None and math.isfinite(bound) else None,
        "recommended": recipe.recommended,
    }
    path = Path(folder) / FILE
    write_whole(path, json.dumps(document, indent=1, allow_nan=False).encode())
    return path


def read_recipe(folder: str | os.PathLike[str], data: str | None = None, *, accept: bool = False) -> Recipe:
    """Read the recipe of a search from its folder.

    `data` gives the samples a new place; their content must be the same. A value that was not recommended is
    refused unless it is accepted.
    """
    path = path_of("folder", folder) / FILE
    try:
        document = json.loads(path.read_text())
    except OSError:
        raise InputError(f"tuned {folder}: has no {FILE}; run denseam tune with this folder first") from None
    except ValueError as error:
        raise InputError(f"tuned {path}: not a readable JSON document ({error})") from None
    if not isinstance(document, dict) or document.get("format") not in (EARLIER, FORMAT):
        raise InputError(f"tuned {path}: written in a format that this version cannot read")
    kept = document.get("recipe")
    if not kept or not (accept or kept.get("recommended", True)):
        reason = document.get("advice") or "the verdict failed"
        anyway = "; --accept trains anyway" if kept else ""
        status = document.get("status", "")
        raise InputError(f"tuned {folder}: {status}, so no learning rate is recommended; {reason}{anyway}")
    try:
        study = from_document({"eta0": 1.0, **kept["study"], **({} if data is None else {"data": data})})
        if document["format"] == EARLIER:
            study = _as_it_was(study)
        curve = Expected.from_json(kept["expected"]) if kept["expected"] else None
        recipe = Recipe(
            study, kept["eta0"], kept["constants"], curve, tuned_eta0=kept["eta0"],
            regret_bound=kept.get("regret_bound"), recommended=kept.get("recommended", True),
        )  # fmt: skip
        digest = kept["data_digest"]
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"tuned {path}: damaged or foreign ({error})") from None
    if not study.source().has_digest(digest):
        raise InputError(f"data {study.data}: its content is not that of the tuning in {folder}")
    return recipe


def _as_it_was(study: Study) -> Study:
    """Return a study of the earlier format with the way to shrink that was its default."""
    source = study.source()
    if study.preparation.shrink is not None or getattr(source, "shrink", "") != "rotated":
        return study
    return dataclasses.replace(
        study, preparation=dataclasses.replace(study.preparation, shrink="orthonormal")
    )
