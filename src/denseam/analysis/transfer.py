"""Does the best hyperparameter stay put? A verdict with numbers, from records alone.

For each scale the *optimum* is where the loss is smallest, the *edge* the largest value up to which nothing
diverged. The *regret* of a scale is the cost of the smallest scale's optimum there: the loss at that value
over the best loss, minus one. Here they are measured (`profiles`, `optima` and `costs` have the mathematics);
`judgement` decides.

=============  ==================================================================================
FAILS          a run diverges at the transferred value, or most runs do at a smaller one; or the
               regret is surely above 10 %; or the best loss, over that of predicting zero, rises by
               more than 10 % with scale; or the edge falls below the transferred value before the
               target
DRIFTS         the regret is surely above the tolerance of 2 %; the drift says how fast
TRANSFERS      the regret is surely within the tolerance at every scale, and at the target
INCONCLUSIVE   the data do not suffice: an optimum at the end of the grid, fewer than 3 seeds or 3
               scales, nothing learned, a divergence nearby, or optima that are not known well enough
=============  ==================================================================================

'Surely' means by the 95 % interval, which follows from how well the optima of the base and of the scale are
known: over seeds, and between the points of the grid. The fewer seeds a scale has, the wider it is.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from denseam.analysis.causes import Caution, Flag
from denseam.analysis.costs import Cost, cost_at_target, costs
from denseam.analysis.grid import Curves, Grid
from denseam.analysis.judgement import Case, base_diverged, decide, holds, may_hold, runs_missing
from denseam.analysis.optima import Optima
from denseam.analysis.statistics import Interval
from denseam.analysis.thresholds import REGRET_GOOD
from denseam.analysis.verdicts import Measured, Verdict
from denseam.ground.errors import InputError, above_zero, listed, refuse
from denseam.studies.description import AXES
from denseam.studies.foreign import records_of
from denseam.studies.records import (
    LOSSES,
    By,
    Records,
    Row,
    by_loss,
    epochs_of,
    has_curves,
    has_heldout,
    loss_name,
    size_name,
)

__all__ = ["COLUMNS", "Verdict", "exit_code", "hold_others", "horizon", "verdict"]

#: The columns a verdict needs, besides the curves.
COLUMNS = (
    "study", "study_id", "scale", "regime", "seed", "status", *LOSSES.values(), "zero_mse", "swept", *AXES
)  # fmt: skip


def verdict(
    records: Any,
    *,
    axis: str | None = None,
    target: int | None = None,
    curves: Curves | None = None,
    epoch: int | None = None,
    tolerance: float = REGRET_GOOD,
    by: By = "training",
    columns: Mapping[str, str] | None = None,
) -> list[Verdict]:
    """Judge every study in the records.

    Parameters
    ----------
    records
        From `denseam.sweep`, or read from a folder; or a sweep of any other tool: a frame of pandas, polars
        or Arrow with a row for each run, or the path of such a table (CSV, Parquet or JSON lines).
    axis
        The hyperparameter to judge; by default the one that was swept, eta0 if several
        were. Other swept axes are held at their best values at the smallest scale. In a table it is a column.
    target
        The scale it will be used at. The optima and the edge are extrapolated to it, and judged there, too.
    curves
        Keys → their loss curves, if the records do not hold them.
    epoch
        Judge by the loss of this epoch (from 1) instead of the last one; needs the curves.
    tolerance
        The regret up to which a value is good.
    by
        The loss that is judged: 'training' or 'heldout'.
    columns
        The columns of a table whose names are not recognised: 'size', 'loss', 'seed', 'diverged' or 'study' →
        its name.
    """
    rows = records_of(records, axis=axis, columns=columns)
    question = Question(axis, target, epoch, tolerance, by)
    refuse(question.problems(rows))
    rows, curves = by_loss(rows, by), curves if by == "training" else None
    return [_judge(name, study, question, curves) for name, study in sorted(rows.studies().items())]


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """Return 0 if all transfer, else 1 if one drifts or fails, else 2; the worst study wins."""
    statuses = {v.status for v in verdicts}
    return 1 if statuses & {"DRIFTS", "FAILS"} else 2 if "INCONCLUSIVE" in statuses else 0


def horizon(
    records: Records, *, axis: str | None = None, points: int = 8
) -> dict[str, dict[int, dict[int, float | None]]]:
    """Return study → epoch → scale → optimum, from the curves: how the optimum moves with training.

    It is None after the end of a scale whose runs are shorter than those of others.
    """
    records = records_of(records, axis=axis)
    if not has_curves(records):
        raise InputError("horizon needs the loss curves of the runs; these records have none")
    optima: dict[str, dict[int, dict[int, float | None]]] = {}
    for name, study in sorted(records.studies().items()):
        last = max(epochs_of(row)[-1] for row in study)
        epochs = sorted({round(e) for e in np.geomspace(1, last, points)})
        rows, axis_ = _rows(study, axis)[:2]
        none = dict.fromkeys(sorted({row["scale"] for row in rows}))
        optima[name] = {}
        for e in epochs:
            reached = [row for row in rows if epochs_of(row)[-1] >= e]
            optima[name][e] = none | _optimum(Grid(reached, axis_, e))
    return optima


def hold_others(rows: list[Row], axis: str) -> tuple[list[Row], dict[str, float]]:
    """Return the runs with the other swept axes at their best at the smallest scale, and these values."""
    others = [a for a in AXES if a != axis and len({row.get(a) for row in rows}) > 1]
    if not others:
        return rows, {}
    smallest = min(row["scale"] for row in rows)
    losses: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        if row["scale"] == smallest:
            point = tuple(row[a] for a in (axis, *others))
            losses.setdefault(point, []).append(math.inf if row["status"] == "diverged" else row["final_mse"])
    best = min(losses, key=lambda point: float(np.mean(losses[point])))
    held = dict(zip(others, best[1:], strict=True))
    return [row for row in rows if all(row[a] == v for a, v in held.items())], held


# --- one study -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Question:
    """What is asked of every study; the fields are the arguments of `verdict`."""

    axis: str | None
    target: int | None
    epoch: int | None
    tolerance: float
    by: By = "training"

    def problems(self, rows: Records) -> list[str]:
        """Return what is wrong with it, for these records."""
        problems = []
        if not rows:
            problems.append("records must not be empty: there is no run to judge")
        if self.axis is not None and self.axis not in AXES and any(row["swept"] != self.axis for row in rows):
            problems.append(f"axis must be {listed(AXES)}, got {self.axis!r}")
        if not self.tolerance > 0:
            problems.append(f"tolerance must be above 0, got {self.tolerance!r}")
        if self.by not in LOSSES:
            problems.append(f"by must be {listed(LOSSES)}, got {self.by!r}")
        elif self.by == "heldout" and not has_heldout(rows):
            problems.append("by 'heldout' needs the held-out losses of the runs; these records have none")
        if self.by == "heldout" and self.epoch is not None:
            problems.append("epoch is for by 'training': held-out losses are those of the end")
        if self.epoch is not None and not has_curves(rows):
            problems.append("epoch needs the loss curves of the runs; these records have none")
        if self.target is not None:
            wrong = list(above_zero(target=self.target))
            problems += wrong
            smallest = min(rows, key=lambda row: row["scale"], default=None)
            if not wrong and smallest is not None and self.target < smallest["scale"]:
                base = f"{size_name(smallest)} = {smallest['scale']}"
                problems.append(f"target must be at least the smallest scale, {base}, got {self.target}")
        return problems


def _judge(name: str, study: Records, question: Question, curves: Curves | None) -> Verdict:
    rows, axis, held = _rows(study, question.axis)
    grid = Grid(rows, axis, question.epoch)
    notes = [Flag(Caution.OTHERS_HELD, held)] if held else []
    if min(grid.counts) == 0:
        decision = runs_missing(grid)
        unknown = dict.fromkeys(grid.scales)
        measured = Measured(optimum=unknown, best_loss=unknown, edge=unknown)
    elif math.isnan(grid.profiles[0].optimum):
        decision = base_diverged(grid)
        measured = _on_grid(grid)
    else:
        optima = Optima.of(grid.profiles, grid.log)
        case = _case(grid, optima, rows, question, curves)
        decision, measured = decide(case), case.measured
        notes += _notes(case)
    return Verdict(
        name=name,
        axis=axis,
        scale_letter=size_name(rows[0]),
        loss_name=loss_name(rows[0]),
        seeds=max(grid.counts),
        tolerance=question.tolerance,
        notes=tuple(notes),
        **vars(decision),
        **vars(measured),
    )


def _rows(study: Records, axis: str | None) -> tuple[list[Row], str, dict[str, float]]:
    """Return the rows to judge, the axis, and the values at which the other axes are held."""
    swept = study[0]["swept"].split(",")
    axis = axis or (swept[0] if len(swept) == 1 else "eta0")
    rows, held = hold_others(list(study), axis)
    return rows, axis, held


def _case(grid: Grid, optima: Optima, rows: Sequence[Row], question: Question, curves: Curves | None) -> Case:
    """Return what the rules judge."""
    series = [costs(grid, optima, base) for base in range(len(grid.scales) - 1)]
    from_smallest = series[0] if series else []
    ahead = None
    if question.target is not None and question.target > grid.scales[-1]:
        ahead = cost_at_target(grid, optima, question.target)

    def smallest(passes: Callable[[Sequence[Cost], float], bool]) -> int | None:
        bases = zip(grid.scales, series, strict=False)  # the largest scale is the base of none
        return next((scale for scale, of_base in bases if passes(of_base, question.tolerance)), None)

    measured = dataclasses.replace(
        _on_grid(grid),
        regret={cost.scale: cost.regret for cost in from_smallest},
        regret_ci={cost.scale: _interval(cost) for cost in from_smallest},
        regret_at_target=None if ahead is None else ahead.regret,
        regret_at_target_ci=None if ahead is None else _interval(ahead),
        base=smallest(holds),
        possible_base=smallest(may_hold),
        collapse=grid.collapse(rows, float(optima.x[0]), curves),
    )
    return Case(
        grid=grid,
        transferred=float(optima.x[0]),
        costs=from_smallest,
        ahead=ahead,
        shares=_shares_of_zero(grid, rows),
        target=question.target,
        tolerance=question.tolerance,
        measured=measured,
    )


def _interval(cost: Cost) -> Interval | None:
    known = math.isfinite(cost.regret) and math.isfinite(np.ptp(cost.span(cost.optima)))
    return cost.bounds if known else None


def _on_grid(grid: Grid) -> Measured:
    """Return the numbers that need no base."""
    seeds = [profile.optima for profile in grid.profiles]
    drift, drift_ci = None, None
    if all(np.isfinite(x).all() for x in seeds):
        drift, drift_ci = grid.in_values(*grid.drift(grid.by_seed(seeds)))
    edge_drift, edge_drift_ci = grid.drift(grid.edges(), resolution=True)
    return Measured(
        optimum=_optimum(grid),
        optima=grid.per_scale([tuple(map(grid.value, x[np.isfinite(x)])) for x in seeds]),
        best_loss=grid.per_scale([_finite(float(np.exp(profile.best))) for profile in grid.profiles]),
        edge=grid.edge_values(),
        drift=drift,
        drift_ci=drift_ci,
        edge_drift=edge_drift,
        edge_drift_ci=edge_drift_ci,
    )


def _optimum(grid: Grid) -> dict[int, float | None]:
    if min(grid.counts) == 0:
        return dict.fromkeys(grid.scales)
    return grid.per_scale([_finite(grid.value(profile.optimum)) for profile in grid.profiles])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _shares_of_zero(grid: Grid, rows: Sequence[Row]) -> dict[int, float] | None:
    if any(row["zero_mse"] is None for row in rows):
        return None
    # Data may have another variance at another size; what counts is the share of it that is left.
    zeros: dict[int, list[float]] = {}
    for row in rows:
        zeros.setdefault(row["scale"], []).append(row["zero_mse"])
    bests = {s: profile.best for s, profile in grid.per_scale(grid.profiles).items()}
    return {s: math.exp(best) / float(np.mean(zeros[s])) for s, best in bests.items() if math.isfinite(best)}


def _notes(case: Case) -> list[Flag]:
    grid, notes = case.grid, []
    absent = np.isnan(grid.losses).sum(axis=1)
    missing = int(absent[absent < len(grid.values)].sum())  # of seeds that were begun at a scale
    if missing:
        notes.append(Flag(Caution.RUNS_MISSING, {"runs": missing}))
    fewer = {str(s): n for s, n in grid.per_scale(grid.counts).items() if n < max(grid.counts)}
    if fewer:
        notes.append(Flag(Caution.FEWER_SEEDS, fewer))
    for scale, profile in grid.per_scale(grid.profiles).items():
        if math.isfinite(profile.best) and profile.rough:
            notes.append(Flag(Caution.OPTIMUM_IS_GRID_POINT, {"scale": scale}))
    if case.edge_falls:
        notes.append(Flag(Caution.EDGE_FALLS, {"decades": -(case.measured.edge_drift or 0.0)}))
    return notes
