"""Transfer and training: final loss against learning rate at each scale, and loss curves."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from denseam.analysis.transfer import Verdict, verdict
from denseam.report.plots.panels import curves_panel, leave_room, mark_divergences, share_limits, sweep_panel
from denseam.report.plots.style import BAD, FAINT, INK, canvas, plain_log_ticks, save
from denseam.studies.records import Records, Row, epochs_of, has_curves
from denseam.workflow.target import Trained


def draw_transfer(
    records: Records,
    out: str | os.PathLike[str],
    *,
    name: str = "transfer",
    verdicts: Sequence[Verdict] | None = None,
    titles: dict[str, str] | None = None,
) -> list[Path]:
    """Draw a row for each study (`transfer_figure`); return the files (PNG and SVG)."""
    return save(transfer_figure(records, verdicts=verdicts, titles=titles), Path(out), name)


def transfer_figure(
    records: Records, *, verdicts: Sequence[Verdict] | None = None, titles: dict[str, str] | None = None
) -> Any:
    """Return a figure with a row for each study.

    Left: the final loss of every scale against the axis (`sweep_panel`); crosses along the top mark values at
    which a run diverged. Right: the loss during training at the value that would be transferred, if the
    records have curves.
    """
    judged = {v.name: v for v in (verdicts or verdict(records))}
    studies = records.studies()
    names = [n for n in judged if n in studies]
    curves = has_curves(records)
    with canvas(len(names), 2 if curves else 1, 8.6 if curves else 5.2, 3.3 * len(names)) as (figure, axes):
        for row, study in zip(axes, names, strict=True):
            v = judged[study]
            title = (titles or {}).get(study, study)
            sweep_panel(row[0], list(studies[study]), v, f"{title}: {v.status}")
            for right in row[1:]:
                _curve_panel(right, list(studies[study]), v)
        for column in axes.T:
            share_limits(column)
        leave_room(axes[:, 0])
        for row in axes:
            mark_divergences(row[0])
            for ax in row:
                plain_log_ticks(ax.yaxis)
            for right in row[1:]:
                right.xaxis.get_major_locator().set_params(integer=True)
            if not curves:
                row[0].legend()
        return figure


def _curve_panel(ax: Any, rows: list[Row], v: Verdict) -> None:
    """Draw the loss of every scale at the value that would be transferred."""
    scales = sorted(v.optimum)
    base, letter = v.optimum[scales[0]], v.scale_letter
    if base is None:
        ax.set_title(f"no optimum at {letter} = {scales[0]}", loc="left")
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


def draw_training(trained: Trained, out: str | os.PathLike[str], name: str = "training") -> list[Path]:
    """Draw the loss of the target and the range that the small models predict; return the files."""
    epochs = np.arange(1, len(trained.loss) + 1)
    with canvas(1, 1, 5.2, 3.3) as (figure, axes):
        ax = axes[0, 0]
        ax.set_yscale("log")
        e = trained.expected
        if e is not None:
            low, middle, high = (trained.zero_mse * v for v in (e.low, e.middle, e.high))
            label = "predicted by small models"
            ax.fill_between(epochs, low, high, color=FAINT, alpha=0.3, linewidth=0, label=label)
            ax.plot(epochs, middle, color=FAINT, linestyle=":")
        finite = np.isfinite(trained.loss)
        ax.plot(epochs[finite], trained.loss[finite], color=INK, label="target")
        if trained.status == "diverged" and finite.any():
            ax.plot(epochs[finite][-1], trained.loss[finite][-1], "x", color=BAD, markersize=8)
        if trained.left_at is not None:
            label = f"left the expected curve ({trained.left_side})"
            ax.axvline(trained.left_at, color=BAD, linewidth=1, label=label)
        ax.set_xlabel("epoch")
        ax.set_ylabel("training MSE per feature")
        ax.legend()
        plain_log_ticks(ax.yaxis)
        return save(figure, Path(out), name)
