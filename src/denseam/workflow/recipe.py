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
from denseam.ground.errors import (
    AT_LEAST_0,
    FLAG,
    NUMBER,
    POSITIVE,
    TEXT,
    InputError,
    listed_of,
    named,
    path_of,
    read_entries,
    refuse,
    table_of,
)
from denseam.ground.files import json_table, text_of, write_whole
from denseam.studies.description import AXES, ETA0
from denseam.studies.documents import from_document, to_document
from denseam.studies.study import RunSpec, Study

FILE = "tuned.json"
#: The format, and the one before it, in which vectors shrank by random directions unless asked otherwise.
FORMAT, EARLIER = 2, 1

_CURVE = listed_of(NUMBER)
EXPECTED = table_of({"low": _CURVE, "middle": _CURVE, "high": _CURVE})
#: What `tuned.json` must hold: the outcome of the search, and its recipe if there is one.
_OUTCOME = {"status": TEXT.or_none(), "advice": TEXT.or_none(), "recipe": table_of().or_none()}
_RECIPE = {
    "study": table_of(), "data_digest": TEXT, "eta0": POSITIVE, "constants": table_of(NUMBER),
    "expected": EXPECTED.or_none(), "regret_bound": AT_LEAST_0.or_none(), "recommended": FLAG.or_none(),
}  # fmt: skip


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

    `data` is a new path of the samples; their content must be the same. A value that was not recommended is
    refused unless `accept` is true.
    """
    path = path_of("folder", folder) / FILE
    try:
        text = text_of(path)
    except OSError:
        raise InputError(f"tuned {folder}: has no {FILE}; run denseam tune with this folder first") from None
    with named(f"tuned {path}"):
        document = json_table(text)
        if document.get("format") not in (EARLIER, FORMAT):
            raise InputError("written in a format that this version cannot read")
        outcome = read_entries(document, _OUTCOME)
        kept = read_entries(outcome["recipe"], _RECIPE) if outcome["recipe"] else None
    if kept is None or not (accept or kept["recommended"] in (None, True)):
        reason = outcome["advice"] or "the verdict failed"
        anyway = "; --accept trains anyway" if kept else ""
        status = outcome["status"] or ""
        raise InputError(f"tuned {folder}: {status}, so no learning rate is recommended; {reason}{anyway}")
    with named(f"tuned {path}"):
        recipe = _recipe(kept, data, earlier=document["format"] == EARLIER)
    study, digest = recipe.study, kept["data_digest"]
    if not study.source().has_digest(digest):
        raise InputError(f"data {study.data}: its content is not that of the tuning in {folder}")
    return recipe


def _recipe(kept: Mapping[str, Any], data: str | None, earlier: bool) -> Recipe:
    """Return the recipe of a document whose entries are of the right types."""
    study = from_document({"eta0": 1.0, **kept["study"], **({} if data is None else {"data": data})})
    axes = {axis: AXES[axis].read(value)[0] for axis, value in kept["constants"].items() if axis in AXES}
    refuse(f"constants: unknown axis {axis!r}" for axis in kept["constants"] if axis not in AXES)
    return Recipe(
        _as_it_was(study) if earlier else study, kept["eta0"], axes,
        Expected.from_json(kept["expected"]) if kept["expected"] else None, tuned_eta0=kept["eta0"],
        regret_bound=kept["regret_bound"], recommended=kept["recommended"] is not False,
    )  # fmt: skip


def _as_it_was(study: Study) -> Study:
    """Return a study of the earlier format with the way to shrink that was its default."""
    source = study.source()
    if study.preparation.shrink is not None or getattr(source, "shrink", "") != "rotated":
        return study
    return dataclasses.replace(
        study, preparation=dataclasses.replace(study.preparation, shrink="orthonormal")
    )
