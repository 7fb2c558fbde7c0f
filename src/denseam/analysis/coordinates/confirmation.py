"""The sweep of learning rates that confirms a proposed rule, or refutes it.

The best learning rate of a new rule is known only roughly. So the sweep does what its verdict asks for: a
wider grid, more seeds, or another of the scales at which exponents were measured. Runs that are there are
kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Collection, Sequence
from typing import Any

from denseam.analysis.causes import Action, Next
from denseam.analysis.transfer import verdict
from denseam.analysis.verdicts import Verdict
from denseam.rules.fields import logspace
from denseam.studies.runner import run_studies
from denseam.studies.store import Store
from denseam.studies.study import Study

#: Learning rates for each factor of ten, and the factors of ten of the first grid.
PER_DECADE, DECADES = 3, 3
#: Scales and seeds of the first sweep, and the most seeds of all.
SCALES, SEEDS, MOST_SEEDS = 3, 6, 24
#: How often the sweep may be extended.
ROUNDS = 3


def swept(study: Study, unit: float, seeds: Sequence[int]) -> Study:
    """Return the first sweep: the smaller scales of a study, with learning rates up to `unit`."""
    return dataclasses.replace(
        study,
        scales=tuple(study.scales)[:SCALES],
        eta0=logspace(unit * 10.0**-DECADES, unit, PER_DECADE * DECADES + 1),
        seeds=tuple(seeds),
        epochs=max(16, study.epochs),
        probes=(),
        probe_steps=None,
        name="",
    )


def confirm(
    study: Study, scales: Collection[int], out: Store | None, **training: Any
) -> tuple[Study, Verdict]:
    """Sweep, and extend the sweep as long as its verdict asks for it; return the last one and its verdict.

    Parameters
    ----------
    study
        The first sweep.
    scales
        The scales that it may have.
    out
        Where the runs are kept.
    training
        Further arguments of `sweep`.
    """
    with contextlib.nullcontext(out) if out is not None else tempfile.TemporaryDirectory() as folder:
        for left in reversed(range(ROUNDS + 1)):
            judged = verdict(run_studies(study, folder, **training).complete())[0]
            wider = extended(study, judged.next, scales) if left and judged.status == "INCONCLUSIVE" else None
            if wider is None:
                break
            study = wider
    return study, judged


def extended(study: Study, step: Next | None, scales: Collection[int]) -> Study | None:
    """Return a sweep with what its verdict asks for; None if it is nothing that a sweep may have more of."""
    rates, seeds = tuple(study.eta0), tuple(study.seeds)  # type: ignore[arg-type]  # tuples since it was made
    if step is None:
        return None
    if step.action in (Action.EXTEND_GRID, Action.LOWER_GRID):
        factors = [10.0 ** (i / PER_DECADE) for i in range(1, PER_DECADE + 1)]
        low = step.side == "low"
        further = [rates[0] / f for f in reversed(factors)] if low else [rates[-1] * f for f in factors]
        return dataclasses.replace(study, eta0=(*further, *rates) if low else (*rates, *further), name="")
    if step.action is Action.ADD_SEEDS and step.seeds is not None:
        count = min(step.seeds, MOST_SEEDS)
        more = range(max(seeds) + 1, max(seeds) + 1 + count - len(seeds))
        return dataclasses.replace(study, seeds=(*seeds, *more), name="") if more else None
    if step.action is Action.ADD_SCALE and step.scale is not None and step.scale in scales:
        return dataclasses.replace(study, scales=(*study.scales, step.scale), name="")
    return None
