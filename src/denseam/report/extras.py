"""The other parts of a folder: the result of a search, a trained memory, what it recalled, pictures."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from denseam.ground.errors import (
    AT_LEAST_0,
    FLAG,
    NUMBER,
    POSITIVE,
    TEXT,
    Entry,
    InputError,
    listed_of,
    named,
    read_entries,
    refuse,
    table_of,
    whole_number,
)
from denseam.ground.files import json_table, read_arrays, text_of
from denseam.model import checkpoint
from denseam.studies.records import Records
from denseam.workflow import recipe, target

#: Pictures that the page draws itself.
_REDRAWN = {"transfer", "training"}
RECALLED = "recalled.npz"
#: Maximum size of all pictures in a page, in bytes.
PICTURE_BYTES = 2 << 20
_MOST_POINTS = 64
_PNG = b"\x89PNG\r\n\x1a\n"


_FINDING = table_of({"verdict": TEXT, "measured": TEXT})
_CLAIM = table_of({"claim": TEXT, "readings": table_of(_FINDING)})
#: The document of a figure.
FINDINGS = {"name": TEXT, "paper_label": TEXT.or_none(), "size": TEXT.or_none(), "claims": listed_of(_CLAIM)}

#: The seeds of each size; earlier versions had one number.
_SEEDS = Entry((int, list), "a list of whole numbers", low=0, of=whole_number())
_VERDICT = table_of({"name": TEXT, "axis": TEXT, "status": TEXT, "reason": TEXT})
_SEARCH = {
    "status": TEXT, "recommended": FLAG.or_none(), "eta0": POSITIVE.or_none(),
    "forecast_eta0": POSITIVE.or_none(), "interval_at_target": listed_of(NUMBER, 2).or_none(),
    "regret_bound": AT_LEAST_0.or_none(), "tolerance": AT_LEAST_0.or_none(),
    "constants": table_of(NUMBER).or_none(), "scales": listed_of(whole_number(1)),
    "seeds": _SEEDS.or_none(), "advice": TEXT.or_none(),
    "target": table_of(whole_number(1).or_none()), "parameters": table_of(NUMBER).or_none(),
    "data": TEXT.or_none(), "version": TEXT.or_none(), "verdict": _VERDICT, "others": table_of(_VERDICT),
    "cost": table_of({name: AT_LEAST_0.or_none() for name in ("runs", "seconds", "share")}),
    "recipe": table_of({"expected": recipe.EXPECTED.or_none()}).or_none(),
}  # fmt: skip
_TRAINING = {
    "loss": listed_of(NUMBER.or_none()), "status": TEXT, "left_expected": TEXT.or_none(),
    "version": TEXT.or_none(),
    **{
        name: NUMBER.or_none()
        for name in ("diverged_at", "final_mse", "heldout_mse", "zero_mse", "left_expected_at", "seconds",
                     "operations")
    },
}  # fmt: skip


def read_json(path: Path) -> dict[str, Any]:
    """Return the document in a file."""
    return json_table(text_of(path))


# --- the search ------------------------------------------------------------------------------------


def read_search(path: Path) -> dict[str, Any]:
    """Return the result of a search; refuse a file that is something else."""
    document = read_json(path)
    if document.get("format") not in (recipe.EARLIER, recipe.FORMAT):
        raise InputError("not written by denseam tune (format)")
    with named("not written by denseam tune"):
        read_entries(document, _SEARCH)
    return document


def tuned_document(search: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of `tuned.json` that the page shows."""
    kept = (
        "status", "recommended", "eta0", "forecast_eta0", "interval_at_target", "regret_bound", "tolerance",
        "constants", "scales", "seeds", "advice", "target", "parameters", "data", "version",
    )  # fmt: skip
    cost = search["cost"]
    verdicts = [search["verdict"], *search["others"].values()]
    return {k: search.get(k) for k in kept} | {
        "cost": {k: cost.get(k) for k in ("runs", "seconds", "share")},
        "verdicts": [{k: v.get(k) for k in ("name", "axis", "status", "reason")} for v in verdicts if v],
    }


def judged_runs(records: Records, search: dict[str, Any]) -> Records:
    """Return the runs on which a search was judged: those at learning rates that all of its sizes have."""
    v = search["verdict"]
    scales = {int(s) for s in v.get(f"optimum_{v.get('axis')}") or {}}
    constants = search.get("swept_at") or search.get("constants") or {}
    rows = [
        r for r in records
        if r["scale"] in scales and r["study"] == v.get("name")
        and all(r.get(k) == value for k, value in constants.items())
    ]  # fmt: skip
    present: dict[float, set[int]] = {}
    for r in rows:
        present.setdefault(r["eta0"], set()).add(r["scale"])
    return Records([r for r in rows if present[r["eta0"]] == scales], records.skipped)


# --- figures ---------------------------------------------------------------------------------------


def claims(path: Path) -> list[dict[str, str]] | None:
    """Return the findings of a figure of the catalog, one for each claim and reading; None for other files.

    Files of earlier versions have no readings: there, biases were trained from zero.
    """
    document = read_json(path)
    if not isinstance(document.get("claims"), list) or "paper_label" not in document:
        return None
    claimed = [
        {"readings": {"trained": claim}, **claim} if isinstance(claim, dict) else claim
        for claim in document["claims"]
    ]
    findings = read_entries(document | {"claims": claimed}, FINDINGS)
    return [
        {"figure": findings["name"], "claim": claim["claim"], "reading": reading}
        | {k: finding[k] for k in ("measured", "verdict")}
        for claim in findings["claims"]
        for reading, finding in claim["readings"].items()
    ]


# --- training --------------------------------------------------------------------------------------


def training_document(folder: Path, search: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a training, finished or not, with the range that a search predicts; None if there is none."""
    if (folder / target.LOG).is_file():
        with named("not written by denseam train"):
            facts = read_entries(read_json(folder / target.LOG), _TRAINING)
        losses = [math.inf if v is None else float(v) for v in facts.pop("loss")]
        band = _band(folder, search, len(losses), facts["zero_mse"])
        return facts | {"unit": "epoch", **_thinned(losses, band), "model": (folder / target.MODEL).is_file()}
    if (folder / target.STATE).is_file():
        with checkpoint.opened(folder / target.STATE) as file:
            step, losses = int(file.document["step"]), file.read("losses").tolist()
        return {"status": "stopped", "step": step, "unit": "step", **_thinned(losses, None), "model": False}
    return None


def _band(
    folder: Path, search: dict[str, Any] | None, epochs: int, zero: float | None
) -> dict[str, list[float]] | None:
    """Return the predicted range, if this is the model that was tuned for."""
    expected = ((search or {}).get("recipe") or {}).get("expected")
    if not search or not expected or not zero or len(expected["low"]) != epochs:
        return None
    shape = _shape(folder / target.MODEL)
    wanted = search.get("target") or {}
    if shape is not None and any(shape[c] != wanted.get(c) for c in ("N", "K")):
        return None
    return {k: [zero * float(v) for v in expected[k]] for k in ("low", "middle", "high")}


def _shape(path: Path) -> dict[str, int] | None:
    """Return N and K of a trained memory, from the header of its file."""
    try:
        with checkpoint.opened(path) as file:
            K, N = file.shape("W")
    except (OSError, KeyError, ValueError):
        return None
    return {"N": N, "K": K}


def _thinned(losses: Sequence[float], band: dict[str, list[float]] | None) -> dict[str, Any]:
    places = sorted({round(i) for i in np.geomspace(1, max(1, len(losses)), _MOST_POINTS)})
    at = [p - 1 for p in places if p <= len(losses)]
    return {
        "x": [i + 1 for i in at],
        "loss": [float(f"{losses[i]:.5g}") if math.isfinite(losses[i]) else None for i in at],
        "band": None if band is None else {k: [float(f"{v[i]:.5g}") for i in at] for k, v in band.items()},
    }


# --- recall, pictures ------------------------------------------------------------------------------


#: The arrays of `recalled.npz` that the page shows, and how many axes they have.
_RECALL = {"noise": 1, "energies": 3, "steps": 2, "converged": 2}


def recall_document(path: Path) -> list[dict[str, Any]]:
    """Return a row for each level of noise in `recalled.npz`."""
    arrays = read_arrays(path)
    with named("not written by denseam recall"):
        refuse(f"{name} is missing" for name in _RECALL if name not in arrays)
        refuse(
            f"{name} must be numbers with {axes} axes, got {arrays[name].dtype} of {arrays[name].shape}"
            for name, axes in _RECALL.items()
            if arrays[name].ndim != axes or arrays[name].dtype.kind not in "biuf" or not arrays[name].size
        )
        levels = {len(arrays[name]) for name in _RECALL}
        refuse(["noise, energies, steps and converged must have the same levels"] if len(levels) > 1 else [])
    noise, energies, steps, converged = (arrays[name] for name in _RECALL)
    return [
        {
            "noise": float(noise[i]),
            "samples": int(converged[i].size),
            "at_rest": int(converged[i].sum()),
            "steps": float(np.mean(steps[i])),
            "energy_start": float(np.mean(energies[i][:, 0])),
            "energy_end": float(np.mean(energies[i][:, -1])),
        }
        for i in range(len(noise))
    ]


def pictures(folder: Path, room: int) -> Iterator[tuple[Path, str | None, int]]:
    """Give the pictures of a folder that the page does not draw itself, as data URIs within `room` bytes."""
    for path in sorted(folder.glob("*.png")):
        if path.stem in _REDRAWN or path.is_symlink():
            continue
        size = os.path.getsize(path)
        if size > room:
            yield path, None, 0
            continue
        content = path.read_bytes()
        if not content.startswith(_PNG):
            raise ValueError(f"{path.name}: not a PNG picture")
        room -= size
        yield path, f"data:image/png;base64,{base64.b64encode(content).decode()}", size
