"""What the model card of a trained memory says about its training, from the files of `denseam train`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from denseam.analysis.sentences import at_most
from denseam.ground.errors import (
    AT_LEAST_0,
    FLAG,
    NUMBER,
    POSITIVE,
    TEXT,
    InputError,
    listed_of,
    named,
    one_of,
    path_of,
    read_entries,
    table_of,
    whole_number,
)
from denseam.ground.files import json_table, text_of
from denseam.workflow.recipe import FILE, Origin
from denseam.workflow.target import LOG

_TRAINING = {
    "study": table_of(), "status": TEXT, "eta0": POSITIVE, "eta0_from": one_of(o.value for o in Origin),
    "regret_bound": AT_LEAST_0.or_none(), "final_mse": NUMBER.or_none(), "heldout_mse": NUMBER.or_none(),
    "zero_mse": NUMBER.or_none(), "version": TEXT,
}  # fmt: skip
_TUNING = {
    "status": TEXT, "recommended": FLAG.or_none(), "data": TEXT.or_none(), "tolerance": AT_LEAST_0.or_none(),
    "scales": listed_of(whole_number(1)).or_none(),
}  # fmt: skip


def training_facts(
    trained: str | os.PathLike[str], tuned: str | os.PathLike[str] | None = None
) -> dict[str, str]:
    """Return the facts for a model card: data, learning rate, verdict, regret bound, losses.

    Parameters
    ----------
    trained
        The folder of `denseam train`.
    tuned
        The folder of `denseam tune`; by default the folder that contains `trained`, if it is one.
    """
    folder = path_of("trained", trained)
    with named(f"trained {folder}"):
        training = _document(folder / LOG, _TRAINING, "denseam train")
    home = folder.absolute().parent if tuned is None else path_of("tuned", tuned)
    tuning: dict[str, Any] = {}
    if training["eta0_from"] == Origin.TUNED.value and (tuned is not None or (home / FILE).is_file()):
        with named(f"tuned {home}"):
            tuning = _document(home / FILE, _TUNING, "denseam tune")
    study, bound = training["study"], training["regret_bound"]
    losses = {"training": "final_mse", "held-out": "heldout_mse", "predicting zero": "zero_mse"}
    known = [f"{name} {training[key]:.4g}" for name, key in losses.items() if training[key] is not None]
    return {
        "data": tuning.get("data") or str(study.get("data", "gaussian")),
        "optimizer": f"{study.get('optimizer')}, η0 = {training['eta0']:.3g} ({training['eta0_from']})",
        "verdict": _verdict(tuning),
        "regret bound": "none" if bound is None else f"{at_most(bound)} above the loss of the best η0",
        "mean squared error": ", ".join(known),
        "status": training["status"],
        "version": f"denseam {training['version']}",
    }


def _verdict(tuning: Mapping[str, Any]) -> str:
    """Return the verdict of the search; without one, nothing is known of transfer."""
    if not tuning:
        return "none: no search is known"
    sizes = ", ".join(map(str, tuning["scales"] or ()))
    kept = "recommended" if tuning["recommended"] in (None, True) else "not recommended"
    return f"{tuning['status']}, {kept}{f'; tuned at sizes {sizes}' if sizes else ''}"


def _document(path: Path, entries: Mapping[str, Any], command: str) -> dict[str, Any]:
    try:
        text = text_of(path)
    except OSError:
        raise InputError(f"has no {path.name}; give a folder of {command}") from None
    return read_entries(json_table(text), entries)
