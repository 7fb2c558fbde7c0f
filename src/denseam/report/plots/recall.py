"""Pictures of recall: rows of images, and energies beside them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from denseam.report.plots.panels import tiles_panel
from denseam.report.plots.style import FAINT, INK, canvas, save, scale_colours
from denseam.workflow.agreement import Consistency
from denseam.workflow.memory import Memory, Recalled

#: Maximum number of samples in a picture.
MOST = 10


def draw_recall(results: Sequence[Recalled], out: str | os.PathLike[str], name: str = "recall") -> list[Path]:
    """Draw recall at every level of noise; return the files (PNG and SVG).

    Images are shown clean, at the start, after one step and at the end, with their energies beside them. For
    vectors, errors replace the images.
    """
    memory = results[0].memory
    images = memory.image is not None
    width = 9.5 if images else 7.5
    with canvas(len(results), 2, width, (2.9 if images else 2.6) * len(results)) as (figure, axes):
        for (left, right), result in zip(axes, results, strict=True):
            if images:
                left.set_box_aspect(None)
                _tiles(left, memory, _stages(result), result.clean)
            else:
                _errors(left, result)
            _energies(right, result)
            _title(left, result)
        if images:
            figure.get_layout_engine().set(w_pad=0.12)
            axes[0, 0].get_gridspec().set_width_ratios([2.4, 1])
        return save(figure, Path(out), name)


def draw_consistency(
    result: Consistency, out: str | os.PathLike[str], name: str = "consistency"
) -> list[Path]:
    """Draw the paper's comparison: the large memory, the small one, and the large one's output shrunk."""
    large, small, steps = result.large, result.small, _count(result.steps)
    of_large = {"clean": large.clean, "corrupted": large.start, f"large, {steps}": large.state}
    of_small = {
        "shrunk, corrupted": small.start,
        f"small, {steps}": small.state,
        "large, shrunk": result.shrunk,
    }
    with canvas(2, 1, 7.5, 5.4) as (figure, axes):
        top, bottom = axes[:, 0]
        _tiles(top, large.memory, of_large, large.clean)
        _tiles(bottom, small.memory, of_small, small.clean)
        sizes = f"N = {large.memory.model.N} and {small.memory.model.N}"
        top.set_title(f"{sizes}, noise {result.noise:g}", loc="left", fontweight="bold")
        bottom.set_title(
            f"small against large, shrunk: correlation {result.correlation:.3f}\n"
            f"(with another sample's answer {result.chance:.2f}), relative error {result.relative_error:.2f}",
            loc="left",
        )
        return save(figure, Path(out), name)


def _stages(result: Recalled) -> dict[str, Any]:
    first = "masked" if result.held is not None else "noisy" if result.noise else "given"
    return {
        "clean": result.clean,
        first: result.start,
        "1 step": result.once,
        _count(result.energies.shape[1] - 1): result.state,
    }


def _count(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"


def _shown(samples: int) -> Any:
    """Return the indices of the samples to draw, spread over the file since many are sorted by class."""
    return np.linspace(0, samples - 1, min(samples, MOST)).round().astype(int)


def _tiles(ax: Any, memory: Memory, stages: Mapping[str, Any], like: Any) -> None:
    """Draw some samples as rows of images, all in the range of the samples `like`."""
    assert memory.encoder is not None
    which = _shown(len(like))
    pictures = memory.encoder.pictures
    rows = {k: pictures(np.asarray(v)[which]) for k, v in stages.items()}
    tiles_panel(ax, rows, pictures(np.asarray(like)[which]))


def _title(ax: Any, result: Recalled) -> None:
    start = f"noise {result.noise:g}" if result.noise else "as given"
    if result.held is not None:
        start += f", {100 * float(np.mean(result.held)):.0f} % held"
    ax.set_title(
        f"{start}: error {result.errors[0]:.3g} → {result.errors[1]:.3g} → {result.errors[-1]:.3g}, "
        f"cosine {result.cosines[0]:.2f} → {result.cosines[1]:.2f} → {result.cosines[-1]:.2f}",
        loc="left",
        fontweight="bold",
    )


def _errors(ax: Any, result: Recalled) -> None:
    colours = scale_colours(3)
    pairs = (("start", result.start), ("1 step", result.once), ("end", result.state))
    for (label, state), colour in zip(pairs, colours, strict=True):
        errors = np.sort(np.mean((state - result.clean) ** 2, axis=1))
        ax.plot(np.linspace(0, 1, len(errors)), errors, color=colour, label=label)
    ax.set_xlabel("share of samples")
    ax.set_ylabel("squared error per feature")
    ax.legend()


def _energies(ax: Any, result: Recalled) -> None:
    n, shown = result.energies.shape[1], result.energies[_shown(len(result.energies))]
    for energy in shown:
        ax.plot(np.arange(n), energy, color=INK, alpha=0.5, linewidth=1)
    ax.axhline(float(np.mean(result.energies[:, -1])), color=FAINT, linewidth=1, linestyle=":")
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(0, n - 1)
    ax.set_xlabel("steps")
    ax.set_ylabel("energy")
    ax.set_title(f"{int(result.converged.sum())} of {len(result.converged)} at rest", loc="left")
