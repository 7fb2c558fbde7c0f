r"""Which energy is best? Error and capacity of every activation at equal operations, each tuned by `tune`.

    python -m docs.best_energy --write-data FOLDER                       # the images, 2 × 3.9 MB; once
    python -m docs.best_energy --data FOLDER --runs DIR                  # all phases: 40 minutes of a core

Three phases, each of which can be stopped and resumed (`--seconds` ends a call early, with exit code 3):

1. *tune*: η0, s1_0 and s2_0 at three small sizes, by the training loss and again by the held-out loss.
2. *judge*: the tuned set at the target, with seeds that the tuning has not seen, and two more values of η0
   around it, which show what the tuning cost.
3. *capacity*: how many patterns of random signs each energy stores (`docs/capacities.py`).

Parts can be tuned side by side (`--part 1/8 --no-keep`). What is complete is kept in docs/best-energy, and
the page is made from that alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import shutil
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from denseam.ground.errors import InputError
from denseam.paper.ranking import Best, best_of
from denseam.paper.settings import within_operations
from denseam.report.progress import Terminal
from denseam.rules.activations import read_activation
from denseam.rules.fields import logspace
from denseam.rules.table import FAMILIES, is_prescribed
from denseam.studies.records import By, Records, by_loss, thin
from denseam.studies.runner import run_specs
from denseam.studies.store import Store
from denseam.studies.study import Study
from denseam.workflow.goals import Goal, goal
from denseam.workflow.recipe import FILE
from denseam.workflow.tuning import tune
from docs import capacities, recorded

HOME = Path(__file__).resolve().parent / "best-energy"
KEPT = "cases.json"

ACTIVATIONS = (
    "identity", "relu", "relu(2)", "relu(3)", "tanh", "sigmoid", "softplus", "polynomial", "exp",
    "softmax", "ghostmax", "topshare", "relative-entmax(1.5)", "relative-entmax(2)", "relative-normmax(2)",
    "entmax(1.5)", "normmax(2)", "topk(8)",
)  # fmt: skip
#: Norms are functions of the features; as hidden neurons they are nearly linear.
LEFT_OUT = ("layer-norm", "spherical-norm")
#: Adam first: every activation is trained with it, those that have a row with the others too.
OPTIMIZERS = ("adam", "sgd", "muon")
#: Data → keys of the study, besides the file of images.
DATA: Mapping[str, Mapping[str, Any]] = {
    "Gaussians": {},
    "digits": {"unit_variance": True, "noise": 1.5},
    "clothes": {"unit_variance": True, "noise": 1.5},
}
LOSSES: Mapping[By, str] = {"training": "training", "heldout": "held-out"}
AXES = ("eta0", "s1_0", "s2_0")
#: Images of each kind; those of MNIST that come in a package are as many.
IMAGES = 5000
#: The seeds of the judgement; the tuning has the first three.
JUDGES = (10, 11, 12)
#: The target is trained at the tuned rate, and at this factor below and above.
ASIDE = 10**0.25
#: Tuning may cost this share of a sweep at the target. It is small models that are trained, so it is ample.
BUDGET = 2.0
PHASES = ("tune", "judge", "capacity")


class Size(NamedTuple):
    """The target, the sizes to tune at, the epochs of Adam, and the precision at the target."""

    features: int
    scales: tuple[int, ...]
    epochs: int
    precision: str


SIZES: Mapping[str, Size] = {
    "laptop": Size(100, (16, 25, 49), 16, "float32"),
}


class Case(NamedTuple):
    """An energy with an optimizer, on some data, tuned and judged by a loss."""

    activation: str
    optimizer: str
    data: str
    by: By

    @property
    def name(self) -> str:
        """Its name as a study and as a folder."""
        return " ".join(self)


def has_row(activation: str, optimizer: str) -> bool:
    """Return whether an activation is trained with an optimizer: with Adam, or if the rules have a row."""
    return optimizer == "adam" or is_prescribed(FAMILIES[read_activation(activation).name], optimizer)


def groups() -> Iterator[list[Case]]:
    """Yield the cases that share their programs: all data and losses of one activation and optimizer."""
    for optimizer in OPTIMIZERS:
        for activation in ACTIVATIONS:
            if has_row(activation, optimizer):
                yield [Case(activation, optimizer, data, by) for data in DATA for by in LOSSES]


# --- training --------------------------------------------------------------------------------------


class OutOfTimeError(Exception):
    """The seconds of this call are spent."""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """The experiment at one size; `runs` holds its runs, `images` the images."""

    size: Size
    runs: Path
    images: Path
    ends: float

    def goal(self, case: Case) -> Goal:
        """Return the target of a case, in the operations that Adam takes in the epochs of the size."""
        source = "isotropic" if case.data == "Gaussians" else str(self.images / f"{case.data}.npy")
        wanted = goal(
            source, activation=case.activation, optimizer=case.optimizer, scales=self.size.scales,
            features=self.size.features, kappa=2, rho=5, beta=0.1, epochs=self.size.epochs, **DATA[case.data],
        )  # fmt: skip
        study = dataclasses.replace(within_operations(wanted.study, "adam"), name=case.name)
        return dataclasses.replace(wanted, study=study)

    def tuned(self, case: Case) -> Path:
        """Return the file of the tuning of a case."""
        return self.runs / "tuned" / case.name.replace(" ", "-") / FILE

    def tune(self, cases: Sequence[Case]) -> None:
        """Tune the cases that are not tuned yet."""
        for case in cases:
            if self.tuned(case).is_file():
                continue
            self.check_time()
            try:
                result = tune(self.goal(case), self.tuned(case).parent, tuned=AXES, by=case.by, budget=BUDGET)
            except InputError as error:  # as where every rate diverges: the others go on
                print(f"{case.name}: not tuned. {error}", flush=True)
                continue
            bound = f"{100 * result.forecast.regret_bound:.1f} %"
            print(
                f"{case.name}: {result.status}, η0 = {result.forecast.value:.3g}, bound {bound}", flush=True
            )

    def values(self, case: Case) -> dict[str, float] | None:
        """Return what the tuning of a case found; None if it is not tuned."""
        path = self.tuned(case)
        if not path.is_file():
            return None
        others = json.loads(path.read_text(encoding="utf-8"))["others"]
        return {axis: float(made["value"]) for axis, made in others.items()}

    def study(self, case: Case, values: Mapping[str, float]) -> Study:
        """Return the study of a case at the target: the tuned set, and η0 below and above."""
        held = {axis: (value,) for axis, value in values.items() if axis != "eta0"}
        rates = logspace(values["eta0"] / ASIDE, values["eta0"] * ASIDE, 3)
        study = self.goal(case).at((self.size.features,), rates, 1, **held)
        return dataclasses.replace(study, seeds=JUDGES, precision=self.size.precision)

    def judge(self, cases: Sequence[Case]) -> None:
        """Train the targets of the cases that are tuned."""
        tuned = [(case, values) for case in cases if (values := self.values(case))]
        if not tuned:
            return
        self.check_time()
        studies = [self.study(case, values) for case, values in tuned]
        run_specs([(study, study.runs()) for study in studies], self.runs / "target", progress=Terminal())

    def check_time(self) -> None:
        """Stop if the seconds are spent."""
        if time.monotonic() > self.ends:
            raise OutOfTimeError

    # --- what is kept ----------------------------------------------------------------------------

    def keep(self, home: Path) -> int:
        """Keep the ends of the runs of complete cases, and what their tunings said; return how many."""
        rows = {row["key"]: row for row in Store(self.runs / "target").read()}
        documents, kept = {}, {}
        for case in (case for group in groups() for case in group):
            values = self.values(case)
            if values is None:
                continue
            study = self.study(case, values)
            keys = [spec.key for spec in study.runs()]
            if all(key in rows for key in keys):
                kept |= {key: rows[key] for key in keys}
                documents[case.name] = self._document(case, study, keys)
        shutil.rmtree(home / "shards", ignore_errors=True)
        if kept:
            (home / "shards").mkdir(parents=True)
            Store(home).write(thin(kept.values(), 2))
            text = json.dumps(documents, indent=0, sort_keys=True, ensure_ascii=False) + "\n"
            (home / KEPT).write_text(text, encoding="utf-8")
        return len(documents)

    def _document(self, case: Case, study: Study, keys: Sequence[str]) -> dict[str, Any]:
        made = json.loads(self.tuned(case).read_text(encoding="utf-8"))
        return {
            "values": self.values(case),
            "bound": made["regret_bound"],
            "recommended": made["recommended"],
            "operations": {
                "tuning": made["cost"]["tuning"],
                "run": study.operations(study.shape(self.size.features)),
            },
            "epochs": study.epochs,
            "runs": list(keys),
        }


def write_data(folder: Path) -> None:
    """Write the images, so that they can be carried to a machine without these packages."""
    from denseam.data.readers import read

    folder.mkdir(parents=True, exist_ok=True)
    for name, source in (("digits", "mnist"), ("clothes", "fashion-mnist")):
        raw = read(source)
        images = np.round(raw.rows(slice(IMAGES)) * 255).astype(np.uint8).reshape(-1, 28, 28)
        np.save(folder / f"{name}.npy", images)


# --- the page --------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """What is known of a case: its loss at the tuned set, the best of the three rates, and its document."""

    optimizer: str
    tuned: Best | None
    best: Best | None
    document: Mapping[str, Any]

    @property
    def regret(self) -> float:
        """What the tuned rate costs against the best of the three."""
        return math.inf if self.tuned is None or self.best is None else self.tuned.loss / self.best.loss - 1


@functools.cache
def entries(size: str) -> Mapping[Case, Entry]:
    """Return all cases that are kept."""
    home = HOME / size
    if not (home / KEPT).is_file():
        return {}
    documents = json.loads((home / KEPT).read_text(encoding="utf-8"))
    rows = {row["key"]: row for row in Store(home).read()}
    found = {}
    for case in (case for group in groups() for case in group if case.name in documents):
        document = documents[case.name]
        own = by_loss(Records([rows[key] for key in document["runs"]]), case.by)
        middle = sorted({row["eta0"] for row in own})[1]
        at_tuned = best_of(Records([row for row in own if row["eta0"] == middle]))
        found[case] = Entry(case.optimizer, at_tuned, best_of(own), document)
    return found


def column(size: str, data: str, by: By) -> dict[str, Entry | None]:
    """Return the entry of each activation with its best optimizer; None where nothing was run."""
    found: dict[str, Entry | None] = {}
    for activation in ACTIVATIONS:
        ran = [e for o in OPTIMIZERS if (e := entries(size).get(Case(activation, o, data, by)))]
        found[activation] = min(ran, key=lambda e: e.tuned.loss if e.tuned else math.inf, default=None)
    return found


def table(size: str) -> str:
    """Return the losses at the target and the capacity, a row for each activation."""
    columns = {(data, by): column(size, data, by) for by in LOSSES for data in DATA}
    stored = capacities.kept()
    rows = [
        (f"`{name}`", *(_cell(entries, name) for entries in columns.values()), *stored.cells(name))
        for name in ACTIVATIONS
    ]
    head = ("", *(f"{data}, {LOSSES[by]}" for data, by in columns), *stored.head)
    advice = [
        recorded.advice(
            f"By {loss} loss",
            [
                {(name,): _best(entry) for name, entry in columns[data, by].items()}
                for data in DATA
            ],
        )
        for by, loss in LOSSES.items()
    ]  # fmt: skip
    return "\n".join([recorded.table(head, rows), *advice, _tunings(size)])


def _best(entry: Entry | None) -> Any:
    return recorded.NOT_RUN if entry is None else entry.tuned


def _cell(entries: Mapping[str, Entry | None], name: str) -> str:
    """Return the loss at the tuned set with its optimizer; the lowest of a complete column is bold."""
    entry = entries[name]
    if entry is None:
        return recorded.NOT_RUN
    if entry.tuned is None:
        return "diverged"
    others = [e.tuned.loss for e in entries.values() if e and e.tuned]
    lowest = None not in entries.values() and entry.tuned.loss == min(others)
    loss = f"**{entry.tuned.loss:.3f}**" if lowest else f"{entry.tuned.loss:.3f}"
    return f"{loss} ({entry.optimizer})"


def _tunings(size: str) -> str:
    """Return how many cases were run, and how good their tunings were."""
    every, ran = sum(len(group) for group in groups()), entries(size)
    if not ran:
        return f"Run: none of {every} cases.\n"
    promised = [e for e in ran.values() if e.document["recommended"]]
    kept = sum(e.regret <= e.document["bound"] for e in promised)
    regrets = sorted(e.regret for e in ran.values())
    middle, late = (100 * regrets[int(share * (len(regrets) - 1))] for share in (0.5, 0.95))
    operations = sum(
        e.document["operations"]["tuning"] + len(e.document["runs"]) * e.document["operations"]["run"]
        for e in ran.values()
    )
    cost = "diverges" if math.isinf(late) else f"{late:.1f} %"
    return (
        f"Run: {len(ran)} of {every} cases, {operations:.1e} operations. Against the best of three rates at "
        f"the target, the tuned one costs {middle:.1f} % in the median, and {cost} at the 95th percentile. "
        f"`tune` recommended its value in {len(promised)} cases, and its bound held in {kept} of these.\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the phases; return 3 if the seconds were spent first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="laptop")
    parser.add_argument("--runs", type=Path, help="folder of all runs")
    parser.add_argument("--data", type=Path, help="folder of digits.npy and clothes.npy")
    parser.add_argument("--write-data", type=Path, help="write these two files into a folder, and stop")
    parser.add_argument("--phase", choices=PHASES, help="one phase instead of all")
    parser.add_argument("--only", default="", help="cases whose name has this text, as in 'relu adam digits'")
    parser.add_argument("--part", default="1/1", help="one of several parts, as in 2/8")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no work begins after these")
    parser.add_argument("--no-keep", action="store_true", help="leave docs/best-energy as it is")
    given = parser.parse_args(arguments)
    if given.write_data is not None:
        write_data(given.write_data)
        return 0
    if given.runs is None or given.data is None:
        parser.error("--runs and --data are needed")
    part, parts = map(int, given.part.split("/"))
    chosen = [own for group in groups() if (own := [case for case in group if given.only in case.name])]
    chosen = chosen[part - 1 :: parts]
    runs, ends = given.runs / given.size, time.monotonic() + given.seconds
    experiment = Experiment(SIZES[given.size], runs, given.data, ends)
    phases = PHASES if given.phase is None else (given.phase,)
    try:
        for phase in ("tune", "judge"):
            for group in chosen if phase in phases else ():
                getattr(experiment, phase)(group)
        if "capacity" in phases:
            capacities.make(ACTIVATIONS[part - 1 :: parts], experiment.check_time)
    except OutOfTimeError:
        print("the seconds are spent; run again to resume", file=sys.stderr)
        return 3
    finally:
        if not given.no_keep and (runs / "target").is_dir():
            print(f"{experiment.keep(HOME / given.size)} cases are kept in {HOME / given.size}")
    return 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
