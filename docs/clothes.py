"""Steps of recall on photographs of clothes: the best number of steps and time at each noise.

The study is one that anybody can sweep, but its data (Fashion-MNIST) is not in a package of Python, so the
gallery, which must know its keys, does not hold it. On a GPU:

    denseam sweep docs/clothes.toml --data fashion-mnist:PATH --out DIR
    python -m docs.clothes DIR            # keeps the ends of the runs in docs/clothes

The table of docs/recall-steps.md is made from these alone.
"""

from __future__ import annotations

import functools
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import denseam as dam
from denseam.studies.records import thin
from docs import recorded

HOME = Path(__file__).resolve().parent / "clothes"
LOSSES = {"final_mse": "training", "heldout_mse": "held out"}


def keep(runs: Path) -> None:
    """Keep the ends of all runs; whose file it was does not matter."""
    rows = [
        {**row, "data": "fashion-mnist" + row["data"][row["data"].index(",") :]}
        for row in dam.Store(runs).read()
    ]
    shutil.rmtree(HOME / "shards", ignore_errors=True)
    (HOME / "shards").mkdir(parents=True)
    dam.Store(HOME).write(thin(rows, 2))


@functools.cache
def means(loss: str) -> dict[tuple[float, int, float], dict[float, float]]:
    """Return (noise, T, τ) → η0 → the geometric mean of a loss over seeds."""
    every: dict[tuple[float, int, float], dict[float, list[float]]] = {}
    for row in dam.Store(HOME).read():
        value = math.inf if row["status"] == "diverged" else row[loss]
        every.setdefault((row["noise"], row["scale"], row["tau"]), {}).setdefault(row["eta0"], []).append(
            value
        )
    return {
        case: {eta0: math.exp(sum(map(math.log, seeds)) / len(seeds)) for eta0, seeds in by_rate.items()}
        for case, by_rate in every.items()
    }


def table() -> str:
    """Return the lowest loss of the update and of T steps at the best time and rate, for every noise."""
    rows = []
    for loss, words in LOSSES.items():
        cases = means(loss)
        numbers = sorted({T for _, T, _ in cases})
        for noise in sorted({noise for noise, _, _ in cases}):
            update = min(cases[noise, 1, 1.0].values())
            cells = [_cell(noise, T, loss, update) for T in numbers]
            rows.append((f"{noise:g}, {words}", f"{update:.4f}", *cells))
    return recorded.table(("noise", "the update", *(f"T = {T}" for T in numbers)), rows)


def _cell(noise: float, T: int, loss: str, update: float) -> str:
    """Return the lowest loss of T steps, how far it is from that of the update, and where it is reached."""
    at: dict[Any, float] = {
        (tau, eta0): value
        for (level, number, tau), by_rate in means(loss).items()
        if (level, number) == (noise, T)
        for eta0, value in by_rate.items()
    }
    tau, eta0 = best = min(at, key=lambda place: at[place])
    ends = [min, max]
    marks = "".join("*" for i in (0, 1) if best[i] in [end(place[i] for place in at) for end in ends])
    return f"{at[best]:.4f} ({100 * (at[best] / update - 1):+.1f} %; τ = {tau:.2g}, η₀ = {eta0:.2g}{marks})"


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
