"""The loss of the target beside what the small models let expect."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from denseam.report.plots.style import BAD, FAINT, INK, canvas, plain_log_ticks, save
from denseam.workflow.target import Trained


def draw_training(trained: Trained, out: str | os.PathLike[str], name: str = "training") -> list[Path]:
    """Draw the loss curve, and the range that was expected; return the files (PNG and SVG)."""
    epochs = np.arange(1, len(trained.loss) + 1)
    with canvas(1, 1, 5.2, 3.3) as (figure, axes):
        ax = axes[0, 0]
        ax.set_yscale("log")
        e = trained.expected
        if e is not None:
            low, middle, high = (trained.zero_mse * v for v in (e.low, e.middle, e.high))
            ax.fill_between(
                epochs, low, high, color=FAINT, alpha=0.3, linewidth=0, label="as small models predict"
            )
            ax.plot(epochs, middle, color=FAINT, linestyle=":")
        finite = np.isfinite(trained.loss)
        ax.plot(epochs[finite], trained.loss[finite], color=INK, label="target")
        if trained.status == "diverged" and finite.any():
            ax.plot(epochs[finite][-1], trained.loss[finite][-1], "x", color=BAD, markersize=8)
        if trained.left_at is not None:
            ax.axvline(
                trained.left_at,
                color=BAD,
                linewidth=1,
                label=f"left the expected curve ({trained.left_side})",
            )
        ax.set_xlabel("epoch")
        ax.set_ylabel("training MSE per feature")
        ax.legend()
        plain_log_ticks(ax.yaxis)
        return save(figure, Path(out), name)
