"""A first study: with centring the best learning rate stays the same, without it training diverges."""

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
    """Return the two studies: ReLU, SGD, N = 32 … 256, K = 5N, P = 5N; centred and not centred.

    K = 5N shows the contrast within a minute or two: the spike that centring removes grows with K.
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


def run_demo(
    out: str | os.PathLike[str], progress: Progress | None = None
) -> tuple[Summary, list[Verdict], list[Path]]:
    """Run the two studies (or resume them), judge them and draw them; return runs, verdicts and files."""
    summary = run_studies(studies(), Path(out) / "runs", progress=progress)
    verdicts = verdict(summary.records)
    return summary, verdicts, draw_transfer(summary.records, out, verdicts=verdicts, titles=TITLES)
