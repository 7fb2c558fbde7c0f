"""The recipe that tuning hands to training: a study, the tuned values, and the predicted loss curve."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from denseam import __version__
from denseam.analysis.prediction import Expected
from denseam.errors import InputError, path_of
from denseam.files import write_whole
from denseam.studies.documents import from_document, to_document
from denseam.studies.study import RunSpec, Study

FILE = "tuned.json"
FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How to train the target.

    Attributes
    ----------
    study
        Everything that does not change with size; its only scale is the target.
    eta0, constants
        The tuned learning rate, and the values of other tuned axes.
    expected
        The loss curve that the small models predict for the target.
    """

    study: Study
    eta0: float
    constants: Mapping[str, float] = dataclasses.field(default_factory=dict)
    expected: Expected | None = None

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


def write_result(folder: str | os.PathLike[str], result: Mapping[str, Any], recipe: Recipe | None) -> Path:
    """Write the result of a search, with the recipe if there is one."""
    document = {"format": FORMAT, "version": __version__, **result, "recipe": None}
    if recipe is not None:
        document["recipe"] = {
            "study": to_document(recipe.study),
            "data_digest": recipe.study.source().digest,
            "eta0": recipe.eta0,
            "constants": dict(recipe.constants),
            "expected": recipe.expected.to_json() if recipe.expected else None,
        }
    path = Path(folder) / FILE
    write_whole(path, json.dumps(document, indent=1, allow_nan=False).encode())
    return path


def read_recipe(folder: str | os.PathLike[str], data: str | None = None) -> Recipe:
    """Read the recipe of a search from its folder.

    `data` gives the samples a new place; their content must be the same.
    """
    path = path_of("folder", folder) / FILE
    try:
        document = json.loads(path.read_text())
    except OSError:
        raise InputError(f"tuned {folder}: has no {FILE}; run denseam tune with this folder first") from None
    except ValueError as error:
        raise InputError(f"tuned {path}: not a readable JSON document ({error})") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"tuned {path}: written in a format that this version cannot read")
    kept = document.get("recipe")
    if not kept:
        reason = document.get("advice") or "the verdict failed"
        raise InputError(
            f"tuned {folder}: {document.get('status', '')}, so no learning rate is recommended; {reason}"
        )
    try:
        study = from_document({"eta0": 1.0, **kept["study"], **({} if data is None else {"data": data})})
        curve = Expected.from_json(kept["expected"]) if kept["expected"] else None
        recipe = Recipe(study, kept["eta0"], kept["constants"], curve)
        digest = kept["data_digest"]
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"tuned {path}: damaged or foreign ({error})") from None
    if not study.source().has_digest(digest):
        raise InputError(f"data {study.data}: its content is not that of the tuning in {folder}")
    return recipe
