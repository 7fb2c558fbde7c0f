"""Compare a set that was tuned small and short with one that was searched for at the target.

    python -m calibration.together --out FOLDER [--features 2048 --scales 32,64,128 --epochs 128 …]

Three phases, each of which can be stopped and resumed, since runs are stored (`--seconds` ends a call early;
`--phase` takes one of them):

1. *tune*: six hyperparameters at small sizes and a fraction of the epochs, as `denseam tune` does it.
2. *search*: the same search at the target itself, at its full length, one seed.
3. *judge*: both sets again at the target, with seeds that neither has seen. The *regret* is the loss of the
   tuned set over that of the better of the best few of the search, minus one.

The result is FOLDER/together.json. Small models train fastest on CPUs, the target on a GPU:

    JAX_PLATFORMS=cpu python -m calibration.together --out FOLDER --phase tune
    python -m calibration.together --out FOLDER --phase search --precision tf32 --seconds 540
    python -m calibration.together --out FOLDER --phase judge --precision tf32
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from denseam.report.progress import Terminal
from denseam.studies.runner import run_specs
from denseam.studies.study import RunSpec, Study
from denseam.workflow.axes import BATCH, ETA0, Space, with_batch
from denseam.workflow.goals import Goal, goal
from denseam.workflow.joint import SURVEYED, Descent, Point
from denseam.workflow.recipe import FILE
from denseam.workflow.search import Search, Terms
from denseam.workflow.together import ETA0_REACH
from denseam.workflow.tuning import tune

SIX = ("eta0", "decay_time", "warmup", "beta1", "beta2", "batch")
#: The seeds of the judgement; the search has the first, a tuning the first three.
JUDGES = (10, 11, 12)
#: The best points of the search that are judged again.
FINALISTS = 4
PHASES = ("tune", "search", "judge")


class OutOfTimeError(Exception):
    """The seconds of this call are spent."""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One comparison; `out` holds its runs and its result."""

    out: Path
    target: Mapping[str, Any]
    scales: tuple[int, ...]
    tune_epochs: int
    axes: tuple[str, ...]
    budget: float
    points: int
    precision: str
    ends: float

    @property
    def goal(self) -> Goal:
        """The target, as it is trained at its full length."""
        return goal("isotropic", **self.target, precision=self.precision, scales=self.scales)

    @property
    def space(self) -> Space:
        """The space of the search at the target."""
        return Space.of(self.goal, self.axes)

    # --- tune ----------------------------------------------------------------------------------------

    def tune(self) -> None:
        """Tune small and short."""
        tune(
            "isotropic", self.out / "tuned", tuned=self.axes, tune_epochs=self.tune_epochs,
            scales=self.scales, budget=self.budget, progress=Terminal(), **self.target,
        )  # fmt: skip

    # --- search --------------------------------------------------------------------------------------

    def train(self, runs: Sequence[tuple[Study, list[RunSpec]]]) -> dict[str, float]:
        """Train the missing runs at the target; return key → loss, infinite where it diverged."""
        if time.monotonic() > self.ends:
            raise OutOfTimeError
        rows = run_specs(runs, self.out / "target", progress=Terminal()).complete()
        return {r["key"]: math.inf if r["status"] == "diverged" else r["final_mse"] for r in rows}

    def log_losses(self, points: Sequence[Point]) -> list[float]:
        """Return the log-loss of each point at the target, of one seed."""
        target = self.goal
        runs, keys = self.space.runs(points, target.target, 1, target.study.epochs)
        losses = self.train(runs)
        return [math.log(losses[keys[p][0]]) for p in points]

    def search(self) -> dict[str, Any]:
        """Search at the target; return the best points and the operations."""
        target, space = self.goal, self.space
        scout = Search(target, self.out / "target-scout", Terms(3, 1.0, 0.02, "training", False), Terminal())
        scouted = scout.scout(target.target)
        middle = scouted[len(scouted) // 2]
        low, high = space.box((middle - ETA0_REACH, middle + ETA0_REACH))
        own = self.axes.index(BATCH) if BATCH in self.axes else None
        descent = Descent(self.log_losses, low, high, own=own)
        descent.survey([space.start(middle)], SURVEYED * len(self.axes))
        found = descent.descend(self.points)
        best = sorted(descent.seen, key=lambda p: descent.seen[p])[:FINALISTS]
        return {
            "points": found.points,
            "scouted": len(scout.used),
            "operations": (found.points + len(scout.used)) * target.target_operations,
            "best": [list(p) for p in best],
            "values": [space.values(p) for p in best],
            "losses": [math.exp(descent.seen[p]) for p in best],
            "hessian": found.hessian.tolist(),
        }

    # --- judge ---------------------------------------------------------------------------------------

    def judged(self, values: Mapping[str, float]) -> list[float]:
        """Return the losses of a set at the target, one for each judging seed."""
        plain = {a: (v,) for a, v in values.items() if a not in (ETA0, BATCH)}
        study = with_batch(self.goal, values.get(BATCH, 1.0)).at(
            (self.goal.target,), (values[ETA0],), 1, **plain
        )
        study = dataclasses.replace(study, seeds=JUDGES)
        specs = study.runs()
        losses = self.train([(study, specs)])
        return [losses[spec.key] for spec in specs]

    def judge(self, searched: Mapping[str, Any]) -> dict[str, Any]:
        """Return the regret of the tuned set."""
        document = json.loads((self.out / "tuned" / FILE).read_text())
        tuned = {axis: made["value"] for axis, made in document["others"].items()}
        ours = self.judged(tuned)
        theirs = [self.judged(values) for values in searched["values"]]
        best = min(theirs, key=lambda losses: float(np.mean(np.log(losses))))
        ratios = np.log(ours) - np.log(best)
        return {
            "tuned": tuned,
            "losses": ours,
            "best": searched["values"][theirs.index(best)],
            "best_losses": best,
            "regret": float(np.expm1(ratios.mean())),
            "regret_by_seed": np.expm1(ratios).tolist(),
            "regret_bound": document["regret_bound"],
            "tuning_operations": document["cost"]["tuning"],
            "tuning_runs": document["cost"]["runs"],
            "share_of_search": document["cost"]["tuning"] / searched["operations"],
            "laws": {a: made["power_of_length"] for a, made in document["others"].items()},
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the phases; return 3 if the seconds were spent first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--phase", choices=PHASES, help="one phase instead of all")
    parser.add_argument("--features", type=int, default=2048, help="N of the target")
    parser.add_argument("--scales", default="32,64,128", help="sizes to tune at")
    parser.add_argument("--epochs", type=int, default=128)
    parser.add_argument("--tune-epochs", type=int, default=16)
    parser.add_argument("--activation", default="relu")
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--schedule", default="linear")
    parser.add_argument("--tune", default=",".join(SIX))
    parser.add_argument("--budget", type=float, default=0.15, help="of tuning, as in denseam tune")
    parser.add_argument("--points", type=int, default=256, help="most points of the search at the target")
    parser.add_argument("--precision", default="float32", help="of the target; tf32 on a GPU")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no batch begins after these")
    given = parser.parse_args(arguments)
    names = ("features", "epochs", "activation", "optimizer", "schedule")
    experiment = Experiment(
        out=given.out,
        target={name: getattr(given, name) for name in names},
        scales=tuple(int(n) for n in given.scales.split(",")),
        tune_epochs=given.tune_epochs,
        axes=tuple(given.tune.split(",")),
        budget=given.budget,
        points=given.points,
        precision=given.precision,
        ends=time.monotonic() + given.seconds,
    )
    try:
        return _phases(experiment, PHASES if given.phase is None else (given.phase,))
    except OutOfTimeError:
        print("the seconds are spent; run again to resume", file=sys.stderr)
        return 3


def _phases(experiment: Experiment, phases: Sequence[str]) -> int:
    kept = experiment.out / "search.json"
    if "tune" in phases:
        experiment.tune()
    if "search" in phases:
        searched = experiment.search()
        kept.write_text(json.dumps(searched, indent=1))
        print(json.dumps(searched, indent=1))
    if "judge" in phases:
        result = experiment.judge(json.loads(kept.read_text()))
        (experiment.out / "together.json").write_text(json.dumps(result, indent=1))
        print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
