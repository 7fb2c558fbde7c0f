"""The check of a study: train a few steps at several scales with all probes, and judge."""

from __future__ import annotations

import os
from concurrent.futures import Executor
from typing import Any

from denseam.analysis.coordinates.expected import expectations
from denseam.analysis.coordinates.judge import Check, Conditions, judge
from denseam.analysis.coordinates.slopes import from_records, slopes, too_few
from denseam.ground.errors import InputError, refuse, whole
from denseam.rules import ProportionalSteps, Regime, cost
from denseam.rules.fields import parameters
from denseam.rules.optimizers import OPTIMIZERS
from denseam.rules.regimes import REGIMES, OneSize, regime_from, regime_letter
from denseam.rules.table import FAMILIES
from denseam.studies.description import DOCUMENT
from denseam.studies.documents import flat, from_document, problems_of
from denseam.studies.records import Records
from denseam.studies.runner import run_studies
from denseam.studies.store import Store
from denseam.studies.study import Study
from denseam.training.progress import Progress
from denseam.training.quantities import log_spaced

#: The sizes that do not grow. Few features, since K must be well above them where only memories grow.
DEFAULT_SIZES = {"features": 16, "memories": 32, "samples": 64, "batch": 16}
DEFAULT_SCALES = {
    "proportional": (64, 128, 256, 512),
    "memories-only": (128, 256, 512, 1024),
    "batch-only": (2, 4, 8, 16),
    "samples-only": (64, 128, 256, 512),
    "epochs": (8, 16, 32, 64),
    # From one step to a few, sizes still approach their limit, by O(1/T).
    "steps-only": (8, 16, 32, 64),
    "proportional-steps": (64, 128, 256),
}
#: θ = T/N of the check, for as many steps of recall at the smallest scale.
DEFAULT_THETA = 1 / 8
#: Softmax needs larger ones: at Adam's first step its Δ⁽²⁾F still grows as N^0.16 from 64 to 512 features.
SOFTMAX_SCALES = (128, 256, 512)


def checked_study(activation: Any, optimizer: str, *, updates: int = 16, **options: Any) -> Study:
    """Return the study that a check trains: one learning rate, all probes, at updates 0, 1, 2, 4 ….

    `updates` is the last of them.
    """
    values: dict[str, Any] = {"seeds": 4, "probes": ("all",)}
    if optimizer in OPTIMIZERS:  # near the best learning rates, where an error shows within a few steps
        values["eta0"] = OPTIMIZERS[optimizer].eta0
    values |= {"activation": activation, "optimizer": optimizer}
    values |= flat(options)
    refuse([*whole(updates=updates), *problems_of(values)])
    regime = values.get("regime")
    if regime is None or isinstance(regime, str):
        regime = regime_from(values, _default_regimes())
    scales = DOCUMENT["scales"].read(values.get("scales", _default_scales(activation, regime)))
    refuse(too_few(scales, len(DOCUMENT["seeds"].read(values["seeds"]))))
    per_epoch = min(cost.updates(regime.shape(scale), 1) for scale in scales)
    sizes = {key for kind in REGIMES.values() for key in parameters(kind)}
    return from_document(
        {key: value for key, value in values.items() if key not in sizes}
        | {"scales": scales, "regime": regime, "epochs": -(-(updates + 1) // per_epoch)}
        | {"probe_steps": (*log_spaced(updates), updates)}
    )


def _default_regimes() -> dict[str, Regime]:
    """Return the regimes with one growing size, with the default of the others, and that with steps."""
    kinds = {name: kind for name, kind in REGIMES.items() if issubclass(kind, OneSize)}
    return {name: kind(**{k: DEFAULT_SIZES[k] for k in parameters(kind)}) for name, kind in kinds.items()} | {
        "proportional-steps": ProportionalSteps(theta=DEFAULT_THETA)
    }


def _default_scales(activation: Any, regime: Regime) -> tuple[int, ...]:
    softmax = activation == "softmax" or getattr(activation, "family", "") == "softmax"
    return SOFTMAX_SCALES if softmax and regime.name == "proportional" else DEFAULT_SCALES[regime.name]


def check(
    activation: Any,
    optimizer: str,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
    **options: Any,
) -> Check:
    """Check how the parts of a step change with scale.

    Parameters
    ----------
    activation, optimizer
        As in `Study`.
    out
        A folder that keeps the runs; a check that was stopped resumes there.
    progress
        Receives the events of the training.
    executor
        Trains instead of this process, as in `sweep`; needs `out`.
    options
        `regime` (a name or an object), `scales`, `eta0` (that of the optimizer's row in
        `denseam.rules.optimizers`), `seeds` (4), `updates` (16), and all other fields of a `Study`:
        `centred`, `bias_init`, `parameterization`, `data`, …
    """
    study = checked_study(activation, optimizer, **options)
    return check_study(study, out=out, progress=progress, executor=executor)


def check_study(study: Study, *, out: str | os.PathLike[str] | Store | None = None, **training: Any) -> Check:
    """Check a study made by `checked_study`; `training` are further arguments of `sweep`.

    If workers cannot train a run, nothing is judged: `RunsSetAside` is raised, and the same call resumes.
    """
    return check_records(run_studies(study, out, **training).complete())[0]


def check_records(records: Records) -> list[Check]:
    """Judge the probes of every study in the records, without training."""
    probed = Records([row for row in records if row.get("probe_steps")])
    if not probed:
        raise InputError("records hold no probes: sweep with --probes all, or run a check")
    return [_judge(name, rows) for name, rows in sorted(probed.studies().items())]


def _judge(name: str, rows: Records) -> Check:
    row = rows[0]
    measured = from_records(rows)
    centred = row["centred"] == "yes"
    # An activation of the user's own has no entry; K_eff is measured for the family of softmax only.
    own = "softmax" if "K_eff" in measured.values else "elementwise"
    family = FAMILIES.get(row["activation"], own)
    split = "dZ1" in measured.values
    expected = expectations(family, row["optimizer"], row["regime"], centred=centred, split=split)
    setting = Conditions(name, family, row["optimizer"], centred, regime_letter(row["regime"]))
    exponents = slopes(measured, expected)
    if not any(slope.judged for slope in exponents):
        raise InputError(f"{name}: no judged quantity was measured; sweep with --probes all")
    return judge(measured, exponents, setting)
