"""The check of a study: train a few steps at several scales with all probes, and judge."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from denseam.analysis.coordinates.expected import expectations
from denseam.analysis.coordinates.judge import Check, Setting, judge
from denseam.analysis.coordinates.measurements import Measurements, from_records
from denseam.analysis.coordinates.slopes import slopes
from denseam.errors import InputError, refuse
from denseam.rules import MemoriesOnly, Regime
from denseam.studies.runner import sweep
from denseam.studies.store import Records
from denseam.studies.study import DEFAULT_REGIME, Study
from denseam.training.progress import Progress
from denseam.training.quantities import log_spaced

#: Memories-only: features, samples, batch. Few features, since K must be well above them.
DEFAULT_MEMORIES_ONLY = MemoriesOnly(16, 64, 16)
DEFAULT_SCALES = {"proportional": (64, 128, 256, 512), "memories-only": (128, 256, 512, 1024)}
#: Softmax needs more: at the first step of Adam its Δ⁽²⁾F still grows as N^0.16 between 64 and 512 features.
SOFTMAX_SCALES = (128, 256, 512)
#: Near the best learning rates, where a mistake shows within a few steps.
DEFAULT_ETA0 = {"sgd": 0.1, "adam": 0.03}


def regime_from(
    name: str | None = None,
    kappa: float | None = None,
    rho: float | None = None,
    beta: float | None = None,
    features: int | None = None,
    samples: int | None = None,
    batch: int | None = None,
) -> Regime:
    """Return a regime from what was given of it; the rest as a check has it by default."""
    if name not in (None, "proportional", "memories-only"):
        raise InputError(f"regime must be 'proportional' or 'memories-only', got {name!r}")
    ours: dict[str, Any] = {"kappa": kappa, "rho": rho, "beta": beta}
    theirs: dict[str, Any] = {"features": features, "samples": samples, "batch": batch}
    default: Any = DEFAULT_REGIME
    if name == "memories-only":
        ours, theirs, default = theirs, ours, DEFAULT_MEMORIES_ONLY
    refuse(f"{k} does not belong to the regime {default.name!r}" for k, v in theirs.items() if v is not None)
    made: Regime = dataclasses.replace(default, **{k: v for k, v in ours.items() if v is not None})
    return made


def checked_study(
    activation: Any,
    optimizer: str,
    *,
    regime: Regime | str = "proportional",
    scales: Any = None,
    eta0: float | None = None,
    seeds: int = 4,
    steps: int = 16,
    **options: Any,
) -> Study:
    """Return the study that a check trains: one learning rate, all probes, at steps 0, 1, 2, 4 … `steps`."""
    if isinstance(regime, str):
        regime = DEFAULT_MEMORIES_ONLY if regime == "memories-only" else DEFAULT_REGIME
    refuse(
        [f"steps must be a whole number of at least 1, got {steps!r}"]
        * (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1)
        + [f"seeds must be at least 2: an interval needs them, got {seeds!r}"]
        * (isinstance(seeds, int) and seeds < 2)
    )
    softmax = activation == "softmax" or getattr(activation, "family", "") == "softmax"
    usual = SOFTMAX_SCALES if softmax and regime.name == "proportional" else DEFAULT_SCALES[regime.name]
    scales = tuple(scales or usual)
    refuse(
        [f"scales must be at least 2: a slope needs them, got {', '.join(map(str, scales))}"]
        * (len(scales) < 2)
    )
    shapes = [regime.shape(scale) for scale in scales]
    per_epoch = min((shape.P or 1) // (shape.B or 1) for shape in shapes)
    return Study(
        activation=activation,
        optimizer=optimizer,
        scales=scales,
        eta0=(DEFAULT_ETA0.get(optimizer, 0.1) if eta0 is None else eta0,),
        regime=regime,
        seeds=seeds,
        epochs=-(-(steps + 1) // per_epoch),
        probes=("all",),
        probe_steps=(*log_spaced(steps), steps),
        **options,
    )


def check(
    activation: Any,
    optimizer: str,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Check:
    """Check how the parts of a step change with scale.

    Parameters
    ----------
    activation, optimizer
        As in `Study`.
    out
        A folder that keeps the runs; a check that was stopped goes on there.
    progress
        Told how it goes.
    options
        `regime` (a name or an object), `scales`, `eta0` (0.1, for Adam 0.03), `seeds` (4), `steps` (16),
        and whatever a `Study` takes: `centred`, `bias_init`, `parameterization`, `data`, …
    """
    return check_study(checked_study(activation, optimizer, **options), out=out, progress=progress)


def check_study(
    study: Study, *, out: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> Check:
    """Check a study made by `checked_study`."""
    return check_records(sweep(study, out, progress=progress))[0]


def check_records(records: Records) -> list[Check]:
    """Judge the probes of every study in the records, without training."""
    probed = Records([row for row in records if row.get("probe_steps")])
    if not probed:
        raise InputError("records hold no probes: sweep with --probes all, or run a check")
    return [_judged(name, rows) for name, rows in sorted(probed.studies().items())]


def _judged(name: str, rows: Records) -> Check:
    row = rows[0]
    measured = from_records(rows)
    centred = row["centred"] == "yes"
    family = "softmax" if "K_eff" in measured.values else "elementwise"  # measured for that family alone
    split = "dZ1" in measured.values
    expected = expectations(family, row["optimizer"], row["regime"], centred=centred, split=split)
    letter = "K" if row["regime"] == "memories-only" else "N"
    setting = Setting(name, family, row["optimizer"], centred, letter)
    found = slopes(measured, expected)
    if not any(s.judged for s in found):
        raise InputError(f"{name}: of what is judged nothing was measured; sweep with --probes all")
    return judge(measured, found, setting)


def measured_of(study: Study, progress: Progress | None = None) -> Measurements:
    """Train a study and return its probes alone."""
    return from_records(sweep(study, progress=progress))
