"""One study as a plain document, small enough for a page."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from denseam.analysis.transfer import Verdict, hold_others, verdict
from denseam.report.command import FROM_TABLE, sweep_command
from denseam.report.wording import unbroken
from denseam.rules.regimes import REGIMES
from denseam.studies.records import COLUMNS, PROBE_COLUMNS, Records, Row, epochs_of, has_curves
from denseam.training.quantities import QUANTITIES

#: Maxima: epochs of a loss curve, stops of the horizon slider, numbers in all curves of a page, runs drawn.
MOST_EPOCHS, STOPS, MOST_NUMBERS, MOST_RUNS = 64, 12, 350_000, 40_000
#: Maximum number of values in all probes of a study.
MOST_PROBED = 60_000
#: Maximum number of lines that name missing runs.
MOST_NAMED = 24
#: Columns of results and names, which are not settings.
_RESULTS = {
    "key", "study", "study_id", "seed", "status", "diverged_at", "initial_mse", "final_mse", "heldout_mse",
    "zero_mse", "seconds", "swept", "device", "version", "jax", "scale",
}  # fmt: skip
_VERSIONS = ("version", "jax", "device", "precision")


def study_document(
    name: str, records: Records, folder: str | None, *, axis: str | None, target: int | None, share: float
) -> dict[str, Any]:
    """Return everything that the page shows of a study.

    Parameters
    ----------
    folder
        The folder of the runs, for the command; None if they were read from a table.
    axis, target
        As in `denseam.analysis.transfer.verdict`.
    share
        The share of the page's numbers that this study may use.
    """
    curves = has_curves(records)
    records = _alike(records) if curves else records
    (judged,) = verdict(records, axis=axis, target=target)
    rows, _ = hold_others(list(records), judged.axis)
    rows.sort(key=lambda r: (r["scale"], r[judged.axis], r["seed"]))
    scales, values, seeds = (sorted({r[c] for r in rows}) for c in ("scale", judged.axis, "seed"))
    epochs, stops = _epochs(rows, share) if curves else ([], [])
    drawn, left_out = _drawn(rows, seeds, share)
    return {
        "name": name,
        "axis": judged.axis,
        "letter": judged.scale_letter,
        "loss_name": judged.loss_name,
        "table": folder is None,
        "scales": scales,
        "values": values,
        "seeds": seeds,
        "zero": _mean([r["zero_mse"] for r in rows]),
        "verdict": _verdict_document(judged),
        "epochs": epochs,
        "stops": _stop_documents(rows, judged, stops, target),
        "runs": _run_columns(drawn, judged.axis, scales, values, seeds),
        "curves": [[_rounded(v, 4) for v in _curve(r, epochs)] for r in drawn] if curves else [],
        "left_out": left_out,
        "missing": _missing(rows, judged, scales, values, seeds),
        "probes": _probes(rows, judged.axis, scales, values),
        "settings": _settings(records),
        "grids": _grids(records, judged),
        "versions": {c: sorted({str(r[c]) for r in records}) for c in _VERSIONS if c in records[0]},
        "seconds": _rounded(sum(r["seconds"] or 0.0 for r in records), 4)
        if "seconds" in records[0]
        else None,
        "count": len(records),
        "diverged": sum(r["status"] == "diverged" for r in records),
        "command": vars(FROM_TABLE if folder is None else sweep_command(list(records), folder)),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return _rounded(float(np.mean(known))) if known else None


def _rounded(value: float | None, digits: int = 5) -> float | None:
    """Return a number with few digits; None if it is not finite."""
    return float(f"{value:.{digits}g}") if value is not None and math.isfinite(value) else None


# --- verdicts --------------------------------------------------------------------------------------


def _verdict_document(v: Verdict) -> dict[str, Any]:
    scales = sorted(v.optimum)
    return {
        "status": v.status,
        "reason": unbroken(v.reason),
        "next": v.next_step,
        "flags": [unbroken(flag) for flag in v.flags],
        "collapse": _rounded(v.collapse, 3),
        "base": v.base,
        "seeds": v.seeds,
        "rows": [_verdict_row(v, scale, scale == scales[0]) for scale in scales],
    }


def _verdict_row(v: Verdict, scale: int, smallest: bool) -> dict[str, Any]:
    regret, interval = v.regret.get(scale), v.regret_ci.get(scale)
    return {
        "scale": scale,
        "optimum": _rounded(v.optimum[scale], 4),
        "best_loss": _rounded(v.best_loss[scale], 4),
        "base": smallest,
        "regret": _rounded(regret, 4),
        "diverges": regret is not None and math.isinf(regret),
        "regret_ci": None if interval is None else [_rounded(b, 4) for b in interval],
        "edge": _rounded(v.edge[scale], 4),
    }


def _stop_documents(
    rows: list[Row], judged: Verdict, stops: list[int], target: int | None
) -> list[dict[str, Any]]:
    """Return the verdict after some epochs and at the end; without curves, only at the end."""
    epochs_or_end: list[int | None] = [*stops] or [None]
    records = Records(rows)
    earlier = [verdict(records, axis=judged.axis, target=target, epoch=epoch)[0] for epoch in stops[:-1]]
    return [
        {
            "epoch": epoch,
            "status": v.status,
            "reason": unbroken(v.reason),
            "optimum": [_rounded(v.optimum[s], 4) for s in sorted(v.optimum)],
        }
        for epoch, v in zip(epochs_or_end, [*earlier, judged], strict=True)
    ]


# --- runs ------------------------------------------------------------------------------------------


def _epochs(rows: Sequence[Row], share: float) -> tuple[list[int], list[int]]:
    """Return the epochs kept in curves, and those at which the horizon slider stops.

    Where the length of training is what grows, it stops only at the end.
    """
    known = epochs_of(max(rows, key=lambda r: len(r["loss"])))
    last = known[-1] if known else 1
    runs = min(len(rows), max(1, int(MOST_RUNS * share)))
    points = max(2, min(MOST_EPOCHS, int(MOST_NUMBERS * share) // runs))
    stops = _log_spaced(known or [1], min(STOPS, points))
    kept = sorted({*stops, *_log_spaced(known or [1], max(2, points - len(stops)))})
    earlier = [] if _lengths_grow(rows) else [e for e in stops if e != last]
    return kept, [*earlier, last]


def _lengths_grow(rows: Sequence[Row]) -> bool:
    """Return whether runs of larger scales are longer."""
    return "E" in getattr(REGIMES.get(str(rows[0].get("regime"))), "grows", ())


def _log_spaced(known: Sequence[int], count: int) -> list[int]:
    """Return at most about `count` of the epochs, including the first and the last."""
    places = np.searchsorted(known, np.geomspace(known[0], known[-1], count).round())
    return sorted({known[min(int(p), len(known) - 1)] for p in places} | {known[-1]})


def _alike(records: Records) -> Records:
    """Return records whose curves have the same epochs, even if only some were thinned."""
    if len({len(r["loss"]) for r in records}) == 1 or _lengths_grow(records):
        return records
    common = epochs_of(min(records, key=lambda r: len(r["loss"])))
    return Records(r | {"loss": _curve(r, common), "loss_epochs": common} for r in records)


def _curve(row: Row, epochs: Sequence[int]) -> list[float]:
    """Return the loss at these epochs; for a thinned curve, that of the last known epoch before.

    It is infinite, and not drawn, after the end of a run that is shorter than others.
    """
    known, losses = epochs_of(row), row["loss"]
    if not known:
        return [math.inf] * len(epochs)
    places = [max(0, bisect.bisect_right(known, e) - 1) for e in epochs]
    return [
        float(losses[place]) if e <= known[-1] else math.inf for e, place in zip(epochs, places, strict=True)
    ]


def _drawn(rows: list[Row], seeds: Sequence[int], share: float) -> tuple[list[Row], str]:
    """Return the runs that the page shows individually: all, or those of the first seeds."""
    most = max(1, int(MOST_RUNS * share))
    if len(rows) <= most:
        return rows, ""
    few = seeds[: max(1, len(seeds) * most // len(rows))]
    kept = [r for r in rows if r["seed"] <= few[-1]]
    # One seed may still be too many: then take every n-th run.
    every = -(-len(kept) // most)
    text = f"To keep this page small, {len(kept[::every])} of {len(rows)} runs are drawn; all were judged."
    return kept[::every], text


def _run_columns(
    rows: Sequence[Row], axis: str, scales: list[int], values: list[float], seeds: list[int]
) -> dict[str, list[Any]]:
    at = [{v: i for i, v in enumerate(known)} for known in (scales, values, seeds)]
    return {
        "scale": [at[0][r["scale"]] for r in rows],
        "value": [at[1][r[axis]] for r in rows],
        "seed": [at[2][r["seed"]] for r in rows],
        "loss": [None if r["status"] == "diverged" else _rounded(r["final_mse"]) for r in rows],
        "diverged_at": [r.get("diverged_at") for r in rows],
        "key": [r["key"] if "size_name" in r else r["key"][:8] for r in rows],
    }


def _missing(
    rows: Sequence[Row], v: Verdict, scales: list[int], values: list[float], seeds: list[int]
) -> dict[str, Any]:
    """Return the missing runs of the grid, by scale and seed."""
    here = {(r["scale"], r["seed"], r[v.axis]) for r in rows}
    count = len(scales) * len(values) * len(seeds) - len(here)
    lines: list[str] = []
    for scale in scales if count else []:
        for seed in seeds:
            gone = [x for x in values if (scale, seed, x) not in here]
            if not gone:
                continue
            if len(gone) == len(values):
                which = f"every {v.axis}"
            else:
                more = f" and {len(gone) - 6} more" if len(gone) > 6 else ""
                which = f"{v.axis} = {', '.join(f'{x:.3g}' for x in gone[:6])}{more}"
            lines.append(f"{v.scale_letter} = {scale}, seed {seed}: {which}")
    return {"count": count, "named": lines[:MOST_NAMED], "more": max(0, len(lines) - MOST_NAMED)}


# --- probes ----------------------------------------------------------------------------------------


def _probes(rows: Sequence[Row], axis: str, scales: list[int], values: list[float]) -> dict[str, Any] | None:
    """Return the probes by quantity, value and scale at each step: the mean over seeds."""
    probed = [r for r in rows if r.get("probe_steps")]
    names = [n for n, c in PROBE_COLUMNS.items() if any(r.get(c) for r in probed)]
    if not names:
        return None
    first = {r["scale"]: r["probe_steps"] for r in reversed(probed)}
    steps = [[int(step) for step in first.get(scale, ())] for scale in scales]
    most = MOST_PROBED // max(1, len(names) * sum(map(len, steps)))
    with_probes = {r[axis] for r in probed}
    shown = _spread([x for x in values if x in with_probes], max(1, most))
    places: dict[tuple[float, int], list[Row]] = {}
    for r in probed:
        places.setdefault((r[axis], r["scale"]), []).append(r)

    return {
        "values": shown,
        "steps": steps,
        "quantities": [
            {
                "name": name,
                "symbol": QUANTITIES[name].symbol,
                "meaning": QUANTITIES[name].meaning,
                "sizes": [[_sizes(places.get((x, s), []), name) for s in scales] for x in shown],
            }
            for name in names
        ],
    }


def _sizes(rows: Sequence[Row], name: str) -> list[float | None]:
    """Return the means of a quantity at each step over the runs that measured it."""
    column = PROBE_COLUMNS[name]
    return _means([r[column] for r in rows if r.get(column)])


def _spread(values: list[float], most: int) -> list[float]:
    """Return at most this many of the values, evenly spread, with the first and the last."""
    return [values[round(i)] for i in np.linspace(0, len(values) - 1, min(most, len(values)))]


def _means(measured: Sequence[Sequence[float]]) -> list[float | None]:
    """Return the means over seeds: geometric where all values are positive; [] if the lengths differ."""
    if not measured or len({len(m) for m in measured}) > 1:
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        array = np.asarray(measured, float)
        positive = (array > 0).all(axis=0)
        means = np.where(positive, np.exp(np.log(np.abs(array)).mean(axis=0)), array.mean(axis=0))
    return [_rounded(float(m), 4) for m in means]


# --- settings --------------------------------------------------------------------------------------


#: Columns of settings: single values that are not results.
_SETTINGS = [c for c, kind in COLUMNS.items() if kind != "l" and c not in _RESULTS]


def _settings(records: Records) -> dict[str, Any]:
    """Return every setting that is the same in all runs."""
    known = [c for c in _SETTINGS if records[0].get(c) is not None]
    return {c: records[0][c] for c in known if len({r[c] for r in records}) == 1}


def _grids(records: Records, judged: Verdict) -> Mapping[str, list[Any]]:
    """Return every setting that was varied, with its values; the size by its name, if it is from a table."""
    columns = dict.fromkeys(("scale", *_SETTINGS, judged.axis, "seed"))
    values = {
        c: sorted({r[c] for r in records}) for c in columns if all(r.get(c) is not None for r in records)
    }
    kept = {c: v for c, v in values.items() if len(v) > 1 or c in ("scale", "seed", "eta0")}
    return {records[0].get("size_name", c) if c == "scale" else c: v for c, v in kept.items()}
