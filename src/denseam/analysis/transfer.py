"""Does the best hyperparameter stay put? A word with numbers, from records alone.

For each scale and seed the *optimum* is where the loss is smallest (a parabola in the logarithms
through the three points around it), the *edge* the largest value up to which nothing diverged. The
*regret* of a scale is what the smallest scale's optimum costs there: loss at that value over the best
loss there, minus one. Between grid points the logarithm of the loss is linear in that of the value.

=============  ==================================================================================
FAILS          a run diverges at the transferred value; or the regret is surely above 10 %; or the
               best loss, over that of predicting zero, rises by more than 10 % with scale; or the edge
               falls below the transferred value before the target
INCONCLUSIVE   nothing can be said yet: an optimum at the end of the grid, fewer than 3 seeds or 3
               scales, nothing learned, or too much noise between seeds
TRANSFERS      the regret is surely at most 2 % at every scale
DRIFTS         anything between; the drift says how fast
=============  ==================================================================================

'Surely' means that the 95 % t-interval over seeds says so. A scale may have fewer seeds than the others,
as the largest often has; its regret is then as uncertain as the most uncertain of the others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from denseam.analysis.statistics import Interval, mean_interval
from denseam.errors import InputError, listed
from denseam.studies.records import Records, Row, epochs_of, loss_at

Status = Literal["TRANSFERS", "DRIFTS", "FAILS", "INCONCLUSIVE"]
STATUSES: tuple[Status, ...] = ("TRANSFERS", "DRIFTS", "FAILS", "INCONCLUSIVE")

REGRET_GOOD, REGRET_BAD, RISE_BAD, LEARNED = 0.02, 0.10, 0.10, 0.9
FEWEST = 3
AXES = (
    "eta0", "eta_b_ratio", "eta_c_ratio", "s1_0", "s2_0", "beta", "momentum", "beta1", "beta2", "epsilon",
    "noise",
)  # fmt: skip

Curves = Callable[[Sequence[str]], Mapping[str, Sequence[float]]]
#: For each scale the losses, value × seed.
Losses = Sequence[np.ndarray[Any, Any]]
#: The columns a verdict needs, besides the curves.
COLUMNS = ("study", "study_id", "scale", "regime", "seed", "status", "final_mse", "zero_mse", "swept", *AXES)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the records of one study say about one axis.

    Attributes
    ----------
    optimum, best_loss, edge
        Per scale; an edge of None means that nothing diverged (or that all did, if the loss is None).
    optima
        Per scale, the optimum of each seed.
    drift, edge_drift
        Decades per doubling of the scale, with 95 % intervals.
    regret
        Per scale, of the smallest scale's optimum; with 95 % intervals.
    base
        The smallest scale from which the optimum transfers to all larger ones, if there is one.
    collapse
        How far the loss curves of the scales differ, in units of how far seeds differ (1 = as seeds).
    seeds
        The most that a scale has, of those with every value of the axis.
    flags
        What to keep in mind.
    """

    name: str
    axis: str
    status: Status
    reason: str
    next_step: str
    scale_letter: str
    seeds: int
    optimum: dict[int, float | None]
    optima: dict[int, tuple[float, ...]]
    best_loss: dict[int, float | None]
    edge: dict[int, float | None]
    drift: float | None
    drift_ci: Interval | None
    edge_drift: float | None
    edge_drift_ci: Interval | None
    regret: dict[int, float]
    regret_ci: dict[int, Interval | None]
    base: int | None
    collapse: float | None
    flags: tuple[str, ...]

    @property
    def max_regret(self) -> float | None:
        """The largest regret."""
        return max(self.regret.values(), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return a plain document, with null where a number is infinite or missing."""

        def plain(value: Any) -> Any:
            if isinstance(value, float):
                return value if math.isfinite(value) else None
            if isinstance(value, dict):
                return {str(k): plain(v) for k, v in value.items()}
            if isinstance(value, tuple | list):
                return [plain(v) for v in value]
            return value

        return {
            "name": self.name,
            "axis": self.axis,
            "status": self.status,
            f"optimum_{self.axis}": plain(self.optimum),
            "drift_decades_per_doubling": plain(self.drift),
            "drift_ci": plain(self.drift_ci),
            "edge": plain(self.edge),
            "edge_drift": plain(self.edge_drift),
            "edge_drift_ci": plain(self.edge_drift_ci),
            "regret": plain(self.regret),
            "regret_ci": plain(self.regret_ci),
            "max_regret": plain(self.max_regret),
            "diverged": any(math.isinf(r) for r in self.regret.values()),
            "best_loss": plain(self.best_loss),
            "base": self.base,
            "collapse": plain(self.collapse),
            "seeds": self.seeds,
            "reason": self.reason,
            "next": self.next_step or None,
            "flags": list(self.flags),
        }

    def __str__(self) -> str:
        parts = [f"{self.name}: {self.status}. {self.reason}", *self.flags]
        return " ".join([*parts, self.next_step]).strip()


def verdict(
    records: Records | Iterable[Row],
    *,
    axis: str | None = None,
    target: int | None = None,
    curves: Curves | None = None,
    epoch: int | None = None,
) -> list[Verdict]:
    """Judge every study in the records.

    Parameters
    ----------
    records
        From `denseam.sweep`, or read from a folder.
    axis
        The hyperparameter that should stay put; by default the one that was swept, eta0 if several
        were. Other swept axes are held at their best values at the smallest scale.
    target
        The scale it will be used at: an edge that will have fallen below the optimum by then fails.
    curves
        Gives the loss curves of keys, where the records do not hold them.
    epoch
        Judge by the loss of this epoch (from 1) instead of the last one; needs the curves.
    """
    rows = records if isinstance(records, Records) else Records(records)
    if axis is not None and axis not in AXES:
        raise InputError(f"axis must be {listed(AXES)}, got {axis!r}")
    if not rows:
        raise InputError("records must not be empty: there is no run to judge")
    return [
        _judge(name, study, axis, target, curves, epoch) for name, study in sorted(rows.studies().items())
    ]


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """Return 0 if all transfer, else 1 if one drifts or fails, else 2; the worst study wins."""
    statuses = {v.status for v in verdicts}
    return 1 if statuses & {"DRIFTS", "FAILS"} else 2 if "INCONCLUSIVE" in statuses else 0


def horizon(
    records: Records, *, axis: str | None = None, points: int = 8
) -> dict[str, dict[int, dict[int, float | None]]]:
    """Return study → epoch → scale → optimum, from the curves: how the optimum moves with training."""
    found: dict[str, dict[int, dict[int, float | None]]] = {}
    for name, study in sorted(records.studies().items()):
        epochs = max(epochs_of(row)[-1] for row in study)
        asked = sorted({round(e) for e in np.geomspace(1, epochs, points)})
        found[name] = {e: _judge(name, study, axis, None, None, e).optimum for e in asked}
    return found


# --- one study -----------------------------------------------------------------------------------


class _Grid:
    """Losses as an array scale × value × seed; infinite where a run diverged, NaN where none is."""

    def __init__(self, rows: Sequence[Row], axis: str, epoch: int | None) -> None:
        self.scales = sorted({row["scale"] for row in rows})
        self.values = sorted({row[axis] for row in rows})
        self.seeds = sorted({row["seed"] for row in rows})
        self.losses = np.full((len(self.scales), len(self.values), len(self.seeds)), np.nan)
        self.keys = np.full(self.losses.shape, "", dtype=object)
        at = [{v: i for i, v in enumerate(known)} for known in (self.scales, self.values, self.seeds)]
        for row in rows:
            place = at[0][row["scale"]], at[1][row[axis]], at[2][row["seed"]]
            loss = row["final_mse"] if epoch is None else loss_at(row, epoch)
            bad = row["status"] == "diverged" if epoch is None else not math.isfinite(loss)
            self.losses[place] = math.inf if bad else loss
            self.keys[place] = row["key"]
        self.log = self.values[0] > 0
        self.x = np.log10(self.values) if self.log else np.array(self.values, float)
        self.doublings = np.log2(self.scales)

    def value(self, x: float) -> float:
        return float(10**x) if self.log else float(x)


def _judge(
    name: str, study: Records, axis: str | None, target: int | None, curves: Curves | None, epoch: int | None
) -> Verdict:
    swept = study[0]["swept"].split(",")
    axis = axis or (swept[0] if len(swept) == 1 else "eta0")
    rows, held = hold_others(list(study), axis)
    grid = _Grid(rows, axis, epoch)
    letter = "N" if rows[0]["regime"] == "proportional" else "K"
    whole = ~np.isnan(grid.losses).any(axis=1)  # scale × seed: is every value of the axis there?
    absent = np.isnan(grid.losses).sum(axis=1)
    missing = int(absent[absent < len(grid.values)].sum())  # of seeds that were begun at a scale
    L = [losses[:, there] for losses, there in zip(grid.losses, whole, strict=True)]
    counts = [one.shape[1] for one in L]
    n_seeds = max(counts)
    flags = [f"Held at their best at the smallest scale: {held}."] if held else []

    empty: dict[int, Any] = dict.fromkeys(grid.scales)
    result: dict[str, Any] = {
        "name": name, "axis": axis, "scale_letter": letter, "seeds": n_seeds, "next_step": "",
        "optimum": empty, "optima": {}, "best_loss": empty, "edge": empty, "drift": None, "drift_ci": None,
        "edge_drift": None, "edge_drift_ci": None, "regret": {}, "regret_ci": {}, "base": None,
        "collapse": None, "flags": tuple(flags),
    }  # fmt: skip
    if min(counts) == 0:
        missing = int(np.isnan(grid.losses).sum())
        reason = f"{missing} of {grid.losses.size} runs are missing, so that no seed is complete."
        return Verdict(
            **result | {"next_step": "Run the sweep again: it resumes."}, status="INCONCLUSIVE", reason=reason
        )
    if missing:
        flags.append(f"{missing} runs are missing; only complete seeds were used.")
    if min(counts) < n_seeds:
        fewer = [f"{s} ({n})" for s, n in zip(grid.scales, counts, strict=True) if n < n_seeds]
        flags.append(f"Fewer than {n_seeds} seeds at {letter} = {', '.join(fewer)}.")

    tops = [_optima(grid, L[i]) for i in range(len(grid.scales))]
    means = [None if top is None else float(np.mean(top.x)) for top in tops]
    result["optimum"] = {
        s: None if m is None else grid.value(m) for s, m in zip(grid.scales, means, strict=True)
    }
    result["optima"] = {
        s: () if t is None else tuple(grid.value(x) for x in t.x)
        for s, t in zip(grid.scales, tops, strict=True)
    }
    best = [float(np.mean(np.min(L[i], axis=0))) for i in range(len(grid.scales))]
    result["best_loss"] = {s: b if math.isfinite(b) else None for s, b in zip(grid.scales, best, strict=True)}
    edges = _by_seed([_edges(grid, one) for one in L], whole)
    result["edge"] = _edge_values(grid, L)
    result["edge_drift"], result["edge_drift_ci"] = _slope(grid, edges, resolution=True)
    if means[0] is None:
        reason = f"At {letter} = {grid.scales[0]} every run diverged."
        step = f"Lower the grid of {axis}: its smallest value is {grid.values[0]:.3g}."
        return Verdict(**result | {"next_step": step}, status="INCONCLUSIVE", reason=reason)

    if all(top is not None for top in tops):
        places = _by_seed([t.x for t in tops if t is not None], whole)
        result["drift"], result["drift_ci"] = _slope(grid, places)
    regret, regret_ci = _regrets(grid, L, 0, tops)
    result["regret"], result["regret_ci"] = regret, regret_ci
    result["base"] = next(
        (grid.scales[b] for b in range(len(grid.scales) - 1) if _transfers(*_regrets(grid, L, b, tops))), None
    )
    result["collapse"] = _collapse(grid, rows, means[0], curves)
    for scale, top in zip(grid.scales, tops, strict=True):
        if top is not None and top.rough:
            flags.append(f"At {letter} = {scale} the optimum is a grid point: a neighbour diverged.")
    falls = _excludes_zero(result["edge_drift_ci"]) and result["edge_drift"] < 0
    if falls:
        flags.append(
            f"The stability edge falls by {-result['edge_drift']:.2f} decades per doubling of {letter}."
        )
    # Data may have another variance at another size; what counts is how much of it is left.
    zeros = [float(np.mean([row["zero_mse"] for row in rows if row["scale"] == s])) for s in grid.scales]
    best = [b / z for b, z in zip(best, zeros, strict=True)]
    status, reason, step = _decide(grid, tops, means, best, result, target, edges, falls, counts)
    return Verdict(**result | {"next_step": step, "flags": tuple(flags)}, status=status, reason=reason)


def _decide(
    grid: _Grid,
    tops: list[_Top | None],
    means: list[float | None],
    best: list[float],
    result: dict[str, Any],
    target: int | None,
    edges: np.ndarray[Any, Any],
    falls: bool,
    counts: list[int],
) -> tuple[Status, str, str]:
    axis, letter, scales = result["axis"], result["scale_letter"], grid.scales
    regret, intervals = result["regret"], result["regret_ci"]
    assert means[0] is not None
    here = f"{axis} = {grid.value(means[0]):.3g}, the best at {letter} = {scales[0]}"

    # A divergence needs no statistics.
    lost = [s for s, r in regret.items() if math.isinf(r)]
    if lost:
        return "FAILS", f"With {here}, training diverges at {letter} = {lost[0]}.", ""
    if target is not None and falls:
        ahead = math.log2(target / scales[-1])
        edge = float(np.nanmean(edges[-1])) + result["edge_drift"] * ahead
        if edge < means[0]:
            text = f"With {here}, training will diverge before {letter} = {target}: "
            return "FAILS", text + f"the edge of stability will have fallen to {grid.value(edge):.2g}.", ""

    ends = [(s, t.end) for s, t in zip(scales, tops, strict=True) if t is not None and t.end]
    if ends:
        scale, side = ends[0]
        beyond = f"below {grid.values[0]:.3g}" if side == "low" else f"above {grid.values[-1]:.3g}"
        step = f"Extend the grid of {axis} {beyond}."
        return "INCONCLUSIVE", f"At {letter} = {scale} the best {axis} is the {side} end of the grid.", step
    enough = sum(n >= FEWEST for n in counts)
    if enough < FEWEST or counts[0] < FEWEST:
        seeds = counts[0] if counts[0] < FEWEST else sorted(counts)[-min(FEWEST, len(counts))]
        few = [f"{len(scales)} scales"] * (len(scales) < FEWEST) + [f"{seeds} seeds"] * (seeds < FEWEST)
        step = f"Run at least {FEWEST} scales and {FEWEST} seeds."
        return "INCONCLUSIVE", f"There are only {' and '.join(few)}.", step
    if max(best) > LEARNED:
        step = "Train for more epochs, or with less noise."
        return "INCONCLUSIVE", "Nothing was learned: the best loss is close to that of predicting zero.", step

    worst = max(regret, key=lambda s: regret[s])
    low, high = intervals[worst] or (regret[worst], regret[worst])
    cost = f"it costs {_percent(regret[worst])} [{_percent(low)}, {_percent(high)}] at {letter} = {worst}"
    drift = ""
    if result["drift"] is not None and result["drift_ci"] is not None:
        a, b = result["drift_ci"]
        drift = f" The optimum moves by {result['drift']:+.3f} [{a:+.3f}, {b:+.3f}] decades per doubling."
    if any((intervals[s] or (regret[s],))[0] > REGRET_BAD for s in regret):
        return "FAILS", f"With {here}, the loss is far from the best: {cost}.{drift}", ""
    rise = max(best) / best[0] - 1
    if rise > RISE_BAD:
        at = scales[int(np.argmax(best))]
        text = f"The best loss itself rises by {_percent(rise)} from {letter} = {scales[0]} to {at}"
        text += ", relative to that of predicting zero."
        return "FAILS", text + drift, "Check the parameterization with `denseam prescribe`."
    if _transfers(regret, intervals):
        return "TRANSFERS", f"With {here}, {cost}, the most of all scales.{drift}", ""
    if result["base"] is not None:
        drift += f" From {letter} = {result['base']} on it transfers."
    if regret[worst] > REGRET_GOOD or _excludes_zero(result["drift_ci"]):
        return "DRIFTS", f"With {here}, {cost}.{drift}", ""
    step = "Run more seeds."
    return "INCONCLUSIVE", f"The seeds differ too much to tell: with {here}, {cost}.{drift}", step


@dataclasses.dataclass(frozen=True)
class _Top:
    """The optimum of each seed at one scale; whether at an end of the grid, or only a grid point."""

    x: np.ndarray[Any, Any]
    end: Literal["low", "high"] | None
    rough: bool


def _optima(grid: _Grid, L: np.ndarray[Any, Any]) -> _Top | None:
    """Return the optimum of each seed (columns of L: value × seed), None if some seed has none."""
    if not np.isfinite(L).any(axis=0).all():
        return None
    with np.errstate(divide="ignore"):
        logs = np.log(L)
    found, rough = [], False
    for column in logs.T:
        i = int(np.argmin(column))
        around = column[max(i - 1, 0) : i + 2]
        if 0 < i < len(column) - 1 and np.isfinite(around).all():
            a, b, _ = np.polyfit(grid.x[i - 1 : i + 2] - grid.x[i], around, 2)
            offset = -b / (2 * a) if a > 0 else 0.0
            low, high = grid.x[i - 1] - grid.x[i], grid.x[i + 1] - grid.x[i]
            found.append(grid.x[i] + float(np.clip(offset, low, high)))
        else:
            found.append(float(grid.x[i]))
            rough = rough or not np.isfinite(around).all()
    common = np.mean(logs, axis=1)
    i = int(np.argmin(common))
    last = len(common) - 1
    end: Literal["low", "high"] | None = None
    if last > 0:
        end = "low" if i == 0 else "high" if i == last else None
    return _Top(np.array(found), end, rough)


def _interpolate(grid: _Grid, L: np.ndarray[Any, Any], x: float) -> np.ndarray[Any, Any]:
    """Return each seed's loss at x; infinite if a bracketing point diverged in any seed."""
    right = int(np.searchsorted(grid.x, x - 1e-9))
    right = min(right, len(grid.x) - 1)
    if abs(grid.x[right] - x) < 1e-9 or right == 0:
        left, weight = right, 0.0
    else:
        left = right - 1
        weight = (x - grid.x[left]) / (grid.x[right] - grid.x[left])
    used = L[[left, right]] if weight else L[[right]]
    if not np.isfinite(used).all():
        return np.full(L.shape[1], np.inf)
    return np.asarray(np.exp((1 - weight) * np.log(L[left]) + weight * np.log(L[right])))


def _regrets(
    grid: _Grid, L: Losses, base: int, tops: list[_Top | None]
) -> tuple[dict[int, float], dict[int, Interval | None]]:
    """Return the regret of every scale above the base, at the base's optimum, with intervals."""
    top = tops[base]
    regret: dict[int, float] = {}
    intervals: dict[int, Interval | None] = {}
    for i in range(base + 1, len(grid.scales)):
        if top is None:
            regret[grid.scales[i]], intervals[grid.scales[i]] = math.inf, None
            continue
        each = _interpolate(grid, L[i], float(np.mean(top.x)))
        if not np.isfinite(each).all():
            regret[grid.scales[i]], intervals[grid.scales[i]] = math.inf, None
            continue
        each = each / np.min(L[i], axis=0) - 1
        regret[grid.scales[i]], intervals[grid.scales[i]] = mean_interval(each)
    # Too few seeds say nothing of their spread: as much as the widest of the others.
    sure = [s for s, one in zip(grid.scales, L, strict=True) if one.shape[1] >= FEWEST]
    halves = [(b - a) / 2 for s in sure if (found := intervals.get(s)) for a, b in [found]]
    for i in range(base + 1, len(grid.scales)):
        scale = grid.scales[i]
        if L[i].shape[1] < FEWEST and halves and math.isfinite(regret[scale]):
            intervals[scale] = (regret[scale] - max(halves), regret[scale] + max(halves))
    return regret, intervals


def _transfers(regret: dict[int, float], intervals: dict[int, Interval | None]) -> bool:
    bounds = [interval[1] if (interval := intervals[s]) else math.inf for s in regret]
    return all(b <= REGRET_GOOD for b in bounds)


def _by_seed(found: Sequence[np.ndarray[Any, Any]], whole: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return what was found for the seeds of each scale as scale × seed, NaN where a seed is not there."""
    table = np.full(whole.shape, np.nan)
    for row, there, values in zip(table, whole, found, strict=True):
        row[there] = values
    return table


def _edges(grid: _Grid, L: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return for each seed the coordinate of the largest value before the first divergence."""
    step = grid.x[1] - grid.x[0] if len(grid.x) > 1 else 1.0
    bad = np.isinf(L)
    first = np.where(bad.any(axis=0), np.argmax(bad, axis=0), len(grid.x))
    below = np.concatenate([[grid.x[0] - step], grid.x])
    return np.asarray(below[first])


def _edge_values(grid: _Grid, L: Losses) -> dict[int, float | None]:
    """Return per scale the largest value up to which no seed diverged; None if none ever did."""
    edges: dict[int, float | None] = {}
    for scale, losses in zip(grid.scales, L, strict=True):
        bad = np.isinf(losses).any(axis=1)
        first = int(np.argmax(bad)) if bad.any() else None
        edges[scale] = None if first is None else 0.0 if first == 0 else float(grid.values[first - 1])
    return edges


def _slope(
    grid: _Grid, coordinates: np.ndarray[Any, Any], resolution: bool = False
) -> tuple[float | None, Interval | None]:
    """Return the mean over seeds of the slope against doublings of the scale, with its interval.

    With `resolution`, the interval also holds what a coordinate known only to a grid step leaves open.
    """
    there = ~np.isnan(coordinates)
    if resolution and np.all(coordinates[there] >= grid.x[-1]):
        return None, None
    slopes = []
    for column, here in zip(coordinates.T, there.T, strict=True):
        if here.sum() > 1:
            d = grid.doublings[here] - grid.doublings[here].mean()
            slopes.append(d @ column[here] / (d @ d))
    if not slopes:
        return None, None
    mean, interval = mean_interval(np.array(slopes))
    if interval is None:
        return mean, None
    half = (interval[1] - interval[0]) / 2
    if resolution and len(grid.x) > 1:
        step, d = float(np.max(np.diff(grid.x))), grid.doublings - grid.doublings.mean()
        half = math.hypot(half, 1.96 * step / math.sqrt(12) / math.sqrt(float(d @ d)))
    return mean, (mean - half, mean + half)


def _excludes_zero(interval: Interval | None) -> bool:
    return interval is not None and (interval[0] > 0 or interval[1] < 0)


def hold_others(rows: list[Row], axis: str) -> tuple[list[Row], str]:
    """Keep the runs in which the other swept axes have their best values at the smallest scale."""
    others = [a for a in AXES if a != axis and len({row[a] for row in rows}) > 1]
    if not others:
        return rows, ""
    smallest = min(row["scale"] for row in rows)
    sums: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        if row["scale"] == smallest:
            point = tuple(row[a] for a in (axis, *others))
            sums.setdefault(point, []).append(math.inf if row["status"] == "diverged" else row["final_mse"])
    best = min(sums, key=lambda point: float(np.mean(sums[point])))
    chosen = dict(zip(others, best[1:], strict=True))
    kept = [row for row in rows if all(row[a] == v for a, v in chosen.items())]
    return kept, ", ".join(f"{a} = {v:.3g}" for a, v in chosen.items())


def _collapse(grid: _Grid, rows: Sequence[Row], x: float, curves: Curves | None) -> float | None:
    """Return the mean |log-ratio| of the scales' curves to the largest's, over that between seeds."""
    if len(grid.scales) < 2 or len(grid.seeds) < 2:
        return None
    nearest = int(np.argmin(np.abs(grid.x - x)))
    keys, losses = grid.keys[:, nearest, :], grid.losses[:, nearest]
    there = keys != ""
    if not there.any(axis=1).all() or there[0].sum() < 2 or not np.isfinite(losses[there]).all():
        return None
    if curves is not None:
        held: Mapping[str, Sequence[float]] = curves(keys[there].tolist())
    elif "loss" in rows[0]:
        held = {row["key"]: row["loss"] for row in rows}
    else:
        return None
    logs = [{seed: np.log(held[k]) for seed, k in enumerate(scale) if k} for scale in keys]
    every = [curve for scale in logs for curve in scale.values()]
    if len({len(curve) for curve in every}) > 1 or not all(np.isfinite(curve).all() for curve in every):
        return None
    largest = logs[-1]
    apart = [np.mean(np.abs(c - largest[s])) for scale in logs[:-1] for s, c in scale.items() if s in largest]
    if not apart:
        return None
    between_scales = float(np.mean(apart))
    small = list(logs[0].values())
    pairs = [np.mean(np.abs(a - b)) for i, a in enumerate(small) for b in small[:i]]
    between_seeds = float(np.mean(pairs))
    return between_scales / between_seeds if between_seeds > 0 else None


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
