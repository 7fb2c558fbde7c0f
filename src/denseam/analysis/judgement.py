"""The rules of the verdict: the first that applies decides. Their thresholds are in `thresholds`.

'Surely' means by the 95 % interval of the regret, which `costs` derives from how well the optima are known.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from denseam.analysis.causes import Action, Cause, Next
from denseam.analysis.costs import Cost
from denseam.analysis.grid import Array, Grid
from denseam.analysis.profiles import SAME
from denseam.analysis.statistics import Interval
from denseam.analysis.thresholds import ENOUGH_SEEDS, FEWEST, LEARNED, MOST, REGRET_BAD, RISE_BAD
from denseam.analysis.verdicts import Measured


@dataclasses.dataclass(frozen=True)
class Case:
    """The input of the rules.

    Attributes
    ----------
    transferred
        The coordinate of the smallest scale's optimum.
    costs, ahead
        What it costs at the larger scales, and what it will cost at the target, if one is given.
    shares
        Scale → its best loss over that of predicting zero, for the scales that have one.
    """

    grid: Grid
    transferred: float
    costs: Sequence[Cost]
    ahead: Cost | None
    shares: Mapping[int, float] | None
    target: int | None
    tolerance: float
    measured: Measured

    @property
    def edge_falls(self) -> bool:
        """Whether the edge of stability surely falls with scale."""
        drift = self.measured.edge_drift
        return drift is not None and drift < 0 and excludes_zero(self.measured.edge_drift_ci)

    @property
    def bad(self) -> float:
        """The regret above which transfer fails."""
        return max(REGRET_BAD, self.tolerance)


@dataclasses.dataclass(frozen=True)
class Decision:
    """A cause with its numbers, and what to do next."""

    cause: Cause
    evidence: Mapping[str, float] = dataclasses.field(default_factory=dict)
    next: Next | None = None


def decide(case: Case) -> Decision:
    """Return the decision of the first rule that applies."""
    return next(filter(None, (rule(case) for rule in RULES)))


def runs_missing(grid: Grid) -> Decision:
    """Return the decision on a study in which some scale has no complete seed."""
    missing = int(np.isnan(grid.losses).sum())
    return Decision(Cause.RUNS_MISSING, {"missing": missing, "runs": grid.losses.size}, Next(Action.RESUME))


def base_diverged(grid: Grid) -> Decision:
    """Return the decision on a study whose smallest scale has no optimum."""
    side = grid.side("low")
    action = Action.LOWER_GRID if side == "low" else Action.EXTEND_GRID
    cautious = Next(action, axis=grid.axis, side=side, value=grid.values[0])
    return Decision(Cause.BASE_DIVERGED, {"scale": grid.scales[0]}, cautious)


def holds(costs: Sequence[Cost], tolerance: float) -> bool:
    """Return whether all of these costs are surely within the tolerance."""
    return all(cost.bounds[1] <= tolerance for cost in costs)


def may_hold(costs: Sequence[Cost], tolerance: float) -> bool:
    """Return whether none of these costs is infinite, or surely above the tolerance."""
    return all(math.isfinite(cost.regret) and cost.bounds[0] <= tolerance for cost in costs)


def excludes_zero(interval: Interval | None) -> bool:
    """Return whether an interval is on one side of zero."""
    return interval is not None and (interval[0] > 0 or interval[1] < 0)


# --- divergence, which needs no statistics ---------------------------------------------------------


def _diverges(case: Case) -> Decision | None:
    grid = case.grid
    at = int(np.searchsorted(grid.x, case.transferred + SAME)) - 1  # the last value up to the transferred one
    on_grid = abs(grid.x[at] - case.transferred) < SAME
    for scale, shares in zip(grid.scales, grid.diverged, strict=True):
        if shares[at] > (0 if on_grid else MOST):
            return Decision(Cause.DIVERGES, {"scale": scale})
        if (shares[:at] > MOST).any():
            return Decision(Cause.DIVERGES_BELOW, _divergence(grid, scale, shares[:at]))
    return None


def _may_diverge(case: Case) -> Decision | None:
    grid = case.grid
    up_to = grid.x <= case.transferred + SAME
    for scale, n, shares in zip(grid.scales, grid.counts, grid.diverged, strict=True):
        if (shares[up_to] > 0).any():
            more = Next(Action.ADD_SEEDS, seeds=max(2 * n, FEWEST))
            return Decision(Cause.MAY_DIVERGE, _divergence(grid, scale, shares[up_to]), more)
    return None


def _divergence(grid: Grid, scale: int, shares: Array) -> dict[str, float]:
    """Return the numbers of the value that diverges most."""
    worst = int(np.argmax(shares))
    return {"scale": scale, "value": grid.values[worst], "share": float(shares[worst])}


def _edge_unresolved(case: Case) -> Decision | None:
    for cost in case.costs:
        if math.isinf(cost.regret):
            finer = Next(Action.REFINE_GRID, axis=case.grid.axis, finer=2)
            return Decision(Cause.EDGE_UNRESOLVED, {"scale": cost.scale}, finer)
    return None


def _edge_falls(case: Case) -> Decision | None:
    grid, drift = case.grid, case.measured.edge_drift
    if case.target is None or drift is None or not case.edge_falls:
        return None
    edge = float(np.nanmean(grid.edges()[-1])) + drift * math.log2(case.target / grid.scales[-1])
    if edge >= case.transferred:
        return None
    return Decision(Cause.EDGE_FALLS, {"target": case.target, "edge": grid.value(edge)})


# --- data that do not suffice ----------------------------------------------------------------------


def _base_at_end(case: Case) -> Decision | None:
    return _at_end(case, 0)


def _optimum_at_end(case: Case) -> Decision | None:
    return next(filter(None, (_at_end(case, i) for i in range(len(case.grid.scales)))), None)


def _at_end(case: Case, i: int) -> Decision | None:
    grid = case.grid
    end = grid.profiles[i].end
    if end is None:
        return None
    last = grid.values[0] if end == "low" else grid.values[-1]
    wider = Next(Action.EXTEND_GRID, axis=grid.axis, side=grid.side(end), value=last)
    return Decision(Cause.OPTIMUM_AT_END, {"scale": grid.scales[i]}, wider)


def _too_few(case: Case) -> Decision | None:
    grid, counts = case.grid, case.grid.counts
    if len(grid.values) < FEWEST:
        more = Next(Action.ADD_VALUES, axis=grid.axis, values=FEWEST)
        return Decision(Cause.TOO_FEW_VALUES, {"values": len(grid.values)}, more)
    if sum(n >= FEWEST for n in counts) >= FEWEST and counts[0] >= FEWEST:
        return None
    scales = len(counts)
    seeds = counts[0] if counts[0] < FEWEST else sorted(counts)[-min(FEWEST, scales)]
    few = {noun: n for noun, n in (("scales", scales), ("seeds", seeds)) if n < FEWEST}
    cause = Cause.TOO_FEW_SCALES if "scales" in few else Cause.TOO_FEW_SEEDS
    return Decision(cause, few, Next(Action.ADD_RUNS, scales=FEWEST, seeds=FEWEST))


def _nothing_learned(case: Case) -> Decision | None:
    worst = max(case.shares.values()) if case.shares else 0.0
    if worst <= LEARNED:
        return None
    return Decision(Cause.NOTHING_LEARNED, {"share": worst}, Next(Action.TRAIN_LONGER))


# --- the regret ------------------------------------------------------------------------------------


def _too_costly(case: Case) -> Decision | None:
    return _surely_above(case, case.bad, Cause.TOO_COSTLY, Cause.COSTLY_AT_TARGET)


def _optimum_moves(case: Case) -> Decision | None:
    return _surely_above(case, case.tolerance, Cause.OPTIMUM_MOVES, Cause.MOVES_BEFORE_TARGET)


def _surely_above(case: Case, limit: float, measured: Cause, predicted: Cause) -> Decision | None:
    worst = max(case.costs, key=lambda cost: cost.bounds[0])
    if worst.bounds[0] > limit:
        return Decision(measured, {"scale": worst.scale})
    if case.ahead is not None and case.ahead.bounds[0] > limit:
        return Decision(predicted, {"scale": case.ahead.scale})
    return None


def _loss_rises(case: Case) -> Decision | None:
    if case.shares is None:
        return None
    scale = max(case.shares, key=case.shares.__getitem__)
    rise = case.shares[scale] / case.shares[case.grid.scales[0]] - 1
    if rise <= RISE_BAD:
        return None
    return Decision(Cause.LOSS_RISES, {"rise": rise, "scale": scale}, Next(Action.CHECK_RULE))


def _holds(case: Case) -> Decision | None:
    everywhere = [*case.costs, *([case.ahead] if case.ahead else [])]
    if not holds(everywhere, case.tolerance):
        return None
    return Decision(Cause.HOLDS, {"scale": _least_certain(case).scale})


def _unsure(case: Case) -> Decision:
    """Return what would decide about the scale with the highest upper bound, or else about the target."""
    worst = _least_certain(case)
    if worst.bounds[1] <= case.tolerance and case.ahead is not None:
        return _unsure_at_target(case, case.ahead)
    evidence = {"scale": worst.scale}
    if worst.too_coarse(case.tolerance):
        finer = worst.refinement_needed(case.tolerance)
        step = Next(Action.REFINE_GRID, axis=case.grid.axis, finer=finer)
        return Decision(Cause.TOO_COARSE, evidence, step)
    seeds = worst.seeds_needed(case.tolerance)
    step = Next(Action.ADD_SCALE, scale=2 * case.grid.scales[-1])
    return Decision(Cause.SEEDS_DIFFER, evidence, Next(Action.ADD_SEEDS, seeds=seeds) if seeds else step)


def _unsure_at_target(case: Case, ahead: Cost) -> Decision:
    seeds = ahead.seeds_needed(case.tolerance)
    step = Next(Action.ADD_SCALE, scale=min(2 * case.grid.scales[-1], ahead.scale))
    if seeds is not None and seeds <= ENOUGH_SEEDS:
        step = Next(Action.ADD_SEEDS, seeds=seeds)
    return Decision(Cause.UNSURE_AT_TARGET, {"scale": ahead.scale}, step)


def _least_certain(case: Case) -> Cost:
    return max(case.costs, key=lambda cost: cost.bounds[1])


RULES = (
    _diverges, _edge_falls, _base_at_end, _too_few, _nothing_learned, _too_costly, _loss_rises,
    _optimum_moves, _may_diverge, _edge_unresolved, _optimum_at_end, _holds, _unsure,
)  # fmt: skip
