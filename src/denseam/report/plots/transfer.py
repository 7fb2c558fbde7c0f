"""The transfer figure: final loss against learning rate for each scale, and the loss curves beside it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from denseam.analysis.transfer import Verdict, verdict
from denseam.report.plots.panels import (
    curves_panel,
    mark_divergences,
    share_limits,
    sweep_panel,
    whole_numbers,
)
from denseam.report.plots.style import canvas, plain_log_ticks, save
from denseam.studies.records import Records, Row, epochs_of
from denseam.studies.store import Store
from denseam.workflow.tuning import RUNS, Tuned


def draw_transfer(
    records: Records,
    out: str | os.PathLike[str],
    *,
    name: str = "transfer",
    verdicts: Sequence[Verdict] | None = None,
    titles: dict[str, str] | None = None,
) -> list[Path]:
    """Draw a row for each study; return the files (PNG and SVG).

    Left: the final MSE of every scale against the axis, the mean over seeds with their range; rings mark
    the optimum of each scale, crosses along the top the values at which a run diverged; the vertical line
    is the value that would be transferred. Right: the loss during training at that value.
    """
    judged = {v.name: v for v in (verdicts or verdict(records))}
    studies = records.studies()
    names = [n for n in judged if n in studies]
    with canvas(len(names), 2, 8.6, 3.3 * len(names)) as (figure, axes):
        for (left, right), study in zip(axes, names, strict=True):
            v = judged[study]
            title = (titles or {}).get(study, study)
            sweep_panel(left, list(studies[study]), v, f"{title}: {v.status}")
            _curve_panel(right, list(studies[study]), v)
        share_limits([row[0] for row in axes])
        share_limits([row[1] for row in axes])
        for left, right in axes:
            mark_divergences(left)
            plain_log_ticks(left.yaxis)
            plain_log_ticks(right.yaxis)
            right.xaxis.set_major_locator(whole_numbers())
        return save(figure, Path(out), name)


def draw_tuned(found: Tuned, out: str | os.PathLike[str], name: str = "tuned") -> list[Path]:
    """Draw the sweep that a search ended with: the sizes from the base on, one seed range each."""
    records = Store(found.folder / RUNS).read()
    v = found.verdict
    rows = [r for r in records if r["scale"] in v.optimum and r["study"] == found.goal.study.name]
    rows = [r for r in rows if all(r[k] == value for k, value in found.constants.items())]
    kept = _complete(rows, v)
    return draw_transfer(Records(kept), out, name=name, verdicts=[v])


def _complete(rows: Sequence[Row], v: Verdict) -> list[Row]:
    """Return the runs of learning rates that every size and seed was trained with."""
    asked = len(v.optimum) * v.seeds
    values = {r["eta0"] for r in rows}
    full = {e for e in values if sum(r["eta0"] == e and r["seed"] < v.seeds for r in rows) >= asked}
    return [r for r in rows if r["eta0"] in full and r["seed"] < v.seeds]


def _curve_panel(ax: Any, rows: list[Row], v: Verdict) -> None:
    """Draw the loss of every scale at the value that would be transferred."""
    scales = sorted(v.optimum)
    base, letter = v.optimum[scales[0]], v.scale_letter
    if base is None:
        return
    grid = sorted({row[v.axis] for row in rows})
    nearest = min(grid, key=lambda value: abs(_log(value) - _log(base)))
    curves, gone = {}, []
    for scale in scales:
        here = [r for r in rows if r["scale"] == scale and r[v.axis] == nearest and len(r["loss"])]
        if not here:
            continue
        values = np.array([r["loss"] for r in here], float)
        curves[scale] = np.array(epochs_of(here[0])), np.where(np.isfinite(values), values, np.nan)
        if not np.isfinite(values).all() or any(r["status"] == "diverged" for r in here):
            gone.append(scale)
    curves_panel(ax, curves, letter, label="training MSE per feature", gone=gone)
    note = f"$\\eta_0$ = {nearest:.3g}" if v.axis == "eta0" else f"{v.axis} = {nearest:.3g}"
    ax.set_title(f"{note}, best at {letter} = {scales[0]}", loc="left")
    ax.legend(loc="upper right")


def _log(value: float) -> float:
    return math.log10(value) if value > 0 else value
