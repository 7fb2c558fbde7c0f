"""Does the best hyperparameter stay put? A verdict with numbers, from records alone.

For each scale and seed the *optimum* is where the loss is smallest (a parabola in the logarithms
through the three points around it), the *edge* the largest value up to which nothing diverged. The
*regret* of a scale is the cost of the smallest scale's optimum there: the loss at that value over the best
loss, minus one. `grid` computes them; here they are judged.

=============  ==================================================================================
FAILS          a run diverges at the transferred value; or the regret is surely above 10 %; or the
               best loss, over that of predicting zero, rises by more than 10 % with scale; or the edge
               falls below the transferred value before the target
INCONCLUSIVE   the data do not suffice: an optimum at the end of the grid, fewer than 3 seeds or 3
               scales, nothing learned, or too much noise between seeds
TRANSFERS      the regret is surely at most 2 % at every scale
DRIFTS         anything between; the drift says how fast
=============  ==================================================================================

'Surely' means by the 95 % t-interval over seeds. A scale may have fewer seeds than the others, as the
largest often has; its regret is then as uncertain as the most uncertain of the others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from denseam.analysis.causes import Action, Cause, Caution, Flag, Next
from denseam.analysis.grid import Curves, Grid, Optima, Regrets
from denseam.analysis.statistics import Interval
from denseam.analysis.verdicts import Measured, Verdict
from denseam.errors import InputError, above_zero, listed, refuse
from denseam.studies.description import AXES
from denseam.studies.foreign import records_of
from denseam.studies.records import Records, Row, epochs_of, has_curves, loss_name, size_name

__all__ = ["COLUMNS", "Verdict", "exit_code", "hold_others", "horizon", "verdict"]

#: A regret up to the first is good, above the second bad; a rise of the best loss above the third is bad. A
#: best loss above the fourth, as a share of that of predicting zero, means that nothing was learned.
REGRET_GOOD, REGRET_BAD, RISE_BAD, LEARNED = 0.02, 0.10, 0.10, 0.9
#: The minimum number of scales, and of seeds at a scale.
FEWEST = 3

#: The columns a verdict needs, besides the curves.
COLUMNS = ("study", "study_id", "scale", "regime", "seed", "status", "final_mse", "zero_mse", "swept", *AXES)


def verdict(
    records: Any,
    *,
    axis: str | None = None,
    target: int | None = None,
    curves: Curves | None = None,
    epoch: int | None = None,
    columns: Mapping[str, str] | None = None,
) -> list[Verdict]:
    """Judge every study in the records.

    Parameters
    ----------
    records
        From `denseam.sweep`, or read from a folder; or a sweep of any other tool: a frame of pandas, polars
        or Arrow with a row for each run, or the path of such a table (CSV, Parquet or JSON lines).
    axis
        The hyperparameter that should stay put; by default the one that was swept, eta0 if several
        were. Other swept axes are held at their best values at the smallest scale. In a table it is a column.
    target
        The scale it will be used at: the verdict fails if the edge will have fallen below the optimum there.
    curves
        Keys → their loss curves, if the records do not hold them.
    epoch
        Judge by the loss of this epoch (from 1) instead of the last one; needs the curves.
    columns
        The columns of a table whose names are not recognised: 'size', 'loss', 'seed', 'diverged' or 'study' →
        its name.
    """
    rows = records_of(records, axis=axis, columns=columns)
    _check(rows, axis, target, epoch)
    return [
        _judge(name, study, axis, target, curves, epoch) for name, study in sorted(rows.studies().items())
    ]


def _check(rows: Records, axis: str | None, target: int | None, epoch: int | None) -> None:
    if not rows:
        raise InputError("records must not be empty: there is no run to judge")
    if axis is not None and axis not in AXES and any(row["swept"] != axis for row in rows):
        raise InputError(f"axis must be {listed(AXES)}, got {axis!r}")
    if target is not None:
        refuse(above_zero(target=target))
    smallest = min(rows, key=lambda row: row["scale"])
    if target is not None and target < smallest["scale"]:
        base = f"{size_name(smallest)} = {smallest['scale']}"
        raise InputError(f"target must be at least the smallest scale, {base}, got {target}")
    if epoch is not None and not has_curves(rows):
        raise InputError("epoch needs the loss curves of the runs; these records have none")


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """Return 0 if all transfer, else 1 if one drifts or fails, else 2; the worst study wins."""
    statuses = {v.status for v in verdicts}
    return 1 if statuses & {"DRIFTS", "FAILS"} else 2 if "INCONCLUSIVE" in statuses else 0


def horizon(
    records: Records, *, axis: str | None = None, points: int = 8
) -> dict[str, dict[int, dict[int, float | None]]]:
    """Return study → epoch → scale → optimum, from the curves: how the optimum moves with training."""
    records = records_of(records, axis=axis)
    if not has_curves(records):
        raise InputError("horizon needs the loss curves of the runs; these records have none")
    optima: dict[str, dict[int, dict[int, float | None]]] = {}
    for name, study in sorted(records.studies().items()):
        last = max(epochs_of(row)[-1] for row in study)
        epochs = sorted({round(e) for e in np.geomspace(1, last, points)})
        optima[name] = {e: _judge(name, study, axis, None, None, e).optimum for e in epochs}
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
class _Case:
    """The input of the rules.

    Attributes
    ----------
    transferred
        The coordinate of the smallest scale's optimum.
    shares
        The best loss of each scale over that of predicting zero; None if the latter is unknown.
    """

    grid: Grid
    optima: Sequence[Optima | None]
    transferred: float
    shares: Sequence[float] | None
    target: int | None
    measured: Measured

    @property
    def edge_falls(self) -> bool:
        """Whether the edge of stability surely falls with scale."""
        drift = self.measured.edge_drift
        return drift is not None and drift < 0 and _excludes_zero(self.measured.edge_drift_ci)


@dataclasses.dataclass(frozen=True)
class _Decision:
    cause: Cause
    evidence: Mapping[str, float] = dataclasses.field(default_factory=dict)
    next: Next | None = None


def _judge(
    name: str, study: Records, axis: str | None, target: int | None, curves: Curves | None, epoch: int | None
) -> Verdict:
    swept = study[0]["swept"].split(",")
    axis = axis or (swept[0] if len(swept) == 1 else "eta0")
    rows, held = hold_others(list(study), axis)
    grid = Grid(rows, axis, epoch)
    notes = [Flag(Caution.OTHERS_HELD, held)] if held else []
    if min(grid.counts) == 0:
        decision = _runs_missing(grid)
        unknown = dict.fromkeys(grid.scales)
        measured = Measured(optimum=unknown, best_loss=unknown, edge=unknown)
    else:
        optima = grid.optima()
        measured = _measured(grid, optima, rows, curves)
        if optima[0] is None:
            decision = _base_diverged(grid)
        else:
            shares = _shares_of_zero(grid, rows)
            case = _Case(grid, optima, optima[0].mean, shares, target, measured)
            decision = next(filter(None, (rule(case) for rule in RULES)))
            notes += _notes(case)
    return Verdict(
        name=name,
        axis=axis,
        scale_letter=size_name(rows[0]),
        loss_name=loss_name(rows[0]),
        seeds=max(grid.counts),
        notes=tuple(notes),
        **vars(decision),
        **vars(measured),
    )


def _measured(
    grid: Grid, optima: Sequence[Optima | None], rows: Sequence[Row], curves: Curves | None
) -> Measured:
    edge_drift, edge_drift_ci = grid.drift(grid.edges(), resolution=True)
    base = optima[0]
    numbers = Measured(
        optimum=grid.per_scale([o and grid.value(o.mean) for o in optima]),
        optima=grid.per_scale([tuple(map(grid.value, o.x)) if o else () for o in optima]),
        best_loss=grid.per_scale([best if math.isfinite(best) else None for best in grid.best()]),
        edge=grid.edge_values(),
        edge_drift=edge_drift,
        edge_drift_ci=edge_drift_ci,
    )
    if base is None:
        return numbers
    drift, drift_ci = None, None
    if None not in optima:
        drift, drift_ci = grid.drift(grid.by_seed([o.x for o in optima if o]))
    regret, regret_ci = _regrets(grid, 0, optima)
    bases = range(len(grid.scales) - 1)
    return dataclasses.replace(
        numbers,
        drift=drift,
        drift_ci=drift_ci,
        regret=regret,
        regret_ci=regret_ci,
        base=next((grid.scales[b] for b in bases if _transfers(*_regrets(grid, b, optima))), None),
        collapse=grid.collapse(rows, base.mean, curves),
    )


def _regrets(grid: Grid, base: int, optima: Sequence[Optima | None]) -> Regrets:
    regret, intervals = grid.regrets(base, optima[base])
    counts = grid.per_scale(grid.counts)
    # Too few seeds do not show their spread: take the widest interval of the others.
    halves = [(i[1] - i[0]) / 2 for s, i in intervals.items() if i and counts[s] >= FEWEST]
    for scale, mean in regret.items():
        if counts[scale] < FEWEST and halves and math.isfinite(mean):
            intervals[scale] = (mean - max(halves), mean + max(halves))
    return regret, intervals


def _shares_of_zero(grid: Grid, rows: Sequence[Row]) -> list[float] | None:
    if any(row["zero_mse"] is None for row in rows):
        return None
    # Data may have another variance at another size; what counts is the share of it that is left.
    zeros = [float(np.mean([row["zero_mse"] for row in rows if row["scale"] == s])) for s in grid.scales]
    return [best / zero for best, zero in zip(grid.best(), zeros, strict=True)]


def _notes(case: _Case) -> list[Flag]:
    grid, notes = case.grid, []
    absent = np.isnan(grid.losses).sum(axis=1)
    missing = int(absent[absent < len(grid.values)].sum())  # of seeds that were begun at a scale
    if missing:
        notes.append(Flag(Caution.RUNS_MISSING, {"runs": missing}))
    fewer = {str(s): n for s, n in grid.per_scale(grid.counts).items() if n < max(grid.counts)}
    if fewer:
        notes.append(Flag(Caution.FEWER_SEEDS, fewer))
    for scale, optima in grid.per_scale(case.optima).items():
        if optima is not None and optima.rough:
            notes.append(Flag(Caution.OPTIMUM_IS_GRID_POINT, {"scale": scale}))
    if case.edge_falls:
        notes.append(Flag(Caution.EDGE_FALLS, {"decades": -(case.measured.edge_drift or 0.0)}))
    return notes


# --- the rules: the first that applies decides ---------------------------------------------------


def _runs_missing(grid: Grid) -> _Decision:
    missing = int(np.isnan(grid.losses).sum())
    return _Decision(Cause.RUNS_MISSING, {"missing": missing, "runs": grid.losses.size}, Next(Action.RESUME))


def _base_diverged(grid: Grid) -> _Decision:
    lower = Next(Action.LOWER_GRID, axis=grid.axis, side="low", value=grid.values[0])
    return _Decision(Cause.BASE_DIVERGED, {"scale": grid.scales[0]}, lower)


def _diverges(case: _Case) -> _Decision | None:
    # A divergence needs no statistics.
    lost = [s for s, r in case.measured.regret.items() if math.isinf(r)]
    return _Decision(Cause.DIVERGES, {"scale": lost[0]}) if lost else None


def _edge_falls(case: _Case) -> _Decision | None:
    grid, drift = case.grid, case.measured.edge_drift
    if case.target is None or drift is None or not case.edge_falls:
        return None
    edge = float(np.nanmean(grid.edges()[-1])) + drift * math.log2(case.target / grid.scales[-1])
    if edge >= case.transferred:
        return None
    return _Decision(Cause.EDGE_FALLS, {"target": case.target, "edge": grid.value(edge)})


def _optimum_at_end(case: _Case) -> _Decision | None:
    grid = case.grid
    for scale, optima in grid.per_scale(case.optima).items():
        if optima is not None and optima.end:
            last = grid.values[0] if optima.end == "low" else grid.values[-1]
            wider = Next(Action.EXTEND_GRID, axis=grid.axis, side=optima.end, value=last)
            return _Decision(Cause.OPTIMUM_AT_END, {"scale": scale}, wider)
    return None


def _too_few(case: _Case) -> _Decision | None:
    counts = case.grid.counts
    if sum(n >= FEWEST for n in counts) >= FEWEST and counts[0] >= FEWEST:
        return None
    scales = len(counts)
    seeds = counts[0] if counts[0] < FEWEST else sorted(counts)[-min(FEWEST, scales)]
    few = {noun: n for noun, n in (("scales", scales), ("seeds", seeds)) if n < FEWEST}
    cause = Cause.TOO_FEW_SCALES if "scales" in few else Cause.TOO_FEW_SEEDS
    return _Decision(cause, few, Next(Action.ADD_RUNS, scales=FEWEST, seeds=FEWEST))


def _nothing_learned(case: _Case) -> _Decision | None:
    if case.shares is None or max(case.shares) <= LEARNED:
        return None
    return _Decision(Cause.NOTHING_LEARNED, {"share": max(case.shares)}, Next(Action.TRAIN_LONGER))


def _too_costly(case: _Case) -> _Decision | None:
    regret, intervals = case.measured.regret, case.measured.regret_ci
    surely = [(intervals[s] or (r, r))[0] > REGRET_BAD for s, r in regret.items()]
    return _Decision(Cause.TOO_COSTLY) if any(surely) else None


def _loss_rises(case: _Case) -> _Decision | None:
    if case.shares is None or (rise := max(case.shares) / case.shares[0] - 1) <= RISE_BAD:
        return None
    scale = case.grid.scales[int(np.argmax(case.shares))]
    return _Decision(Cause.LOSS_RISES, {"rise": rise, "scale": scale}, Next(Action.CHECK_RULE))


def _holds(case: _Case) -> _Decision | None:
    return _Decision(Cause.HOLDS) if _transfers(case.measured.regret, case.measured.regret_ci) else None


def _optimum_moves(case: _Case) -> _Decision | None:
    measured = case.measured
    moves = _excludes_zero(measured.drift_ci) or max(measured.regret.values()) > REGRET_GOOD
    return _Decision(Cause.OPTIMUM_MOVES) if moves else None


def _seeds_differ(case: _Case) -> _Decision:
    return _Decision(Cause.SEEDS_DIFFER, next=Next(Action.ADD_SEEDS))


RULES = (
    _diverges, _edge_falls, _optimum_at_end, _too_few, _nothing_learned, _too_costly, _loss_rises, _holds,
    _optimum_moves, _seeds_differ,
)  # fmt: skip


def _transfers(regret: Mapping[int, float], intervals: Mapping[int, Interval | None]) -> bool:
    return all((interval := intervals[s]) is not None and interval[1] <= REGRET_GOOD for s in regret)


def _excludes_zero(interval: Interval | None) -> bool:
    return interval is not None and (interval[0] > 0 or interval[1] < 0)
