"""The newcomer's study: with centring the best learning rate stays put, without it training diverges."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from denseam.analysis.transfer import Verdict, verdict
from denseam.report.plots import draw_transfer
from denseam.rules import Proportional
from denseam.rules.fields import logspace
from denseam.studies.runner import Summary, run_studies
from denseam.studies.study import Study
from denseam.training.progress import Progress

TITLES = {"relu-sgd": "centred", "relu-sgd-uncentred": "not centred"}


def studies() -> list[Study]:
    """Return the two studies: ReLU, SGD, N = 32 … 256, K = 5N, P = 5N; centred, and not.

    K = 5N makes the contrast plain within a minute or two: the spike that centring removes grows with K.
    """
    centred = Study(
        activation="relu",
        optimizer="sgd",
        scales=(32, 64, 128, 256),
        eta0=logspace(3.16227766017e-3, 3.16227766017e-1, 9),
        regime=Proportional(kappa=5, rho=5, beta=0.1),
        seeds=3,
        epochs=16,
    )
    return [centred, dataclasses.replace(centred, centred=False, name="")]


@dataclasses.dataclass(frozen=True)
class Demo:
    """What the demonstration gives."""

    summary: Summary
    verdicts: list[Verdict]
    files: list[Path]


def demo(out: str | os.PathLike[str], progress: Progress | None = None) -> Demo:
    """Run the two studies (or take what is there), judge them and draw them."""
    summary = run_studies(studies(), Path(out) / "runs", progress=progress)
    verdicts = verdict(summary.records)
    files = draw_transfer(summary.records, out, verdicts=verdicts, titles=TITLES)
    return Demo(summary, verdicts, files)
