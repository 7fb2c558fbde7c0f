"""The tables of docs/energies.md: every new activation × optimizer × regime, found, checked and swept.

``python -m docs.energies --runs DIR`` trains what is missing in DIR (about an hour on two cores) and keeps
the ends of all runs in docs/energies, beside those that are there. The table is made from these alone.

Work can be chosen (``--only 'muon proportional'``, ``--missing``), divided (``--part 2/4``; parts can have
one DIR at the same time, or a DIR each), and stopped: the same command resumes it. ``--keep`` then takes over
what is complete in a DIR.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import denseam as dam
from denseam.ground.files import write_whole
from denseam.rules import parameterization
from denseam.studies.records import thin
from docs import recorded

HOME = Path(__file__).resolve().parent / "energies"
FOUND = HOME / "found.json"

ACTIVATIONS = (
    "sigmoid", "softplus", "exp", "polynomial(0,1,0,0.3333)", "ghostmax", "topshare(0.25)",
    "relative-entmax(1.5)", "relative-entmax(2)", "relative-normmax(2)",
    "entmax(1.5)", "normmax(2)", "topk(8)", "layer-norm", "spherical-norm",
)  # fmt: skip
#: Activations of the features beside tanh; the hidden neurons are ReLU then.
FEATURES = ("layer-norm", "spherical-norm")
OPTIMIZERS = ("adam", "sgd", "muon")
REGIMES = ("memories-only", "proportional")
#: These are swept up to N = 128 in proportion, with Adam up to 256 as all others: they cost most there.
SMALLER = (
    "sigmoid", "softplus", "exp", "polynomial(0,1,0,0.3333)", "ghostmax", "topshare(0.25)", "layer-norm",
    "spherical-norm",
)  # fmt: skip
SPARSE = ("entmax(1.5)", "normmax(2)", "topk(8)")
#: Scales of sweeps, and those at which exponents are found and checked.
SCALES = {"proportional": (32, 64, 128, 256), "memories-only": (128, 256, 512, 1024)}
FOUND_AT = {"proportional": (32, 64, 128), "memories-only": (128, 512, 1024)}
EPOCHS, RATES = 20, 9
#: Sweeps have seeds that neither the finder nor the search for the range of η0 has.
SEEDS = {"proportional": (10, 11, 12), "memories-only": (10, 11, 12, 13)}
RANGE_SEEDS = (4, 5)


class Case(NamedTuple):
    """A row of the table."""

    activation: str
    optimizer: str
    regime: str
    rule: str = "prescription"
    features: str = "tanh"

    @property
    def name(self) -> str:
        """Its name as a study."""
        return " ".join(self[:4] if self.features == "tanh" else self)

    @property
    def scales(self) -> tuple[int, ...]:
        """The sizes of its sweep."""
        small = self.activation in SPARSE or (self.activation in SMALLER and self.optimizer != "adam")
        return SCALES[self.regime][:3] if small and self.regime == "proportional" else SCALES[self.regime]


#: Wrong rows, which must not transfer. A norm of another length than √N is this one with another s1: N^-1 for
#: the length 1, and 1 for the length N.
CONTROLS = (
    Case("sigmoid", "adam", "proportional", "eta_W=N^1/2"),
    Case("softplus", "sgd", "proportional", "s2=K^-1"),
    Case("relative-entmax(1.5)", "adam", "proportional", "s2=1"),
    Case("relative-entmax(1.5)", "sgd", "memories-only", "eta_W=1"),
    Case("relu", "sgd", "proportional", "s1=N^-1", "spherical-norm"),
    Case("relu", "adam", "proportional", "s1=N^-1", "spherical-norm"),
    Case("relu", "sgd", "proportional", "s1=1", "spherical-norm"),
    Case("relu", "adam", "proportional", "s1=1", "spherical-norm"),
)


def cases() -> Iterator[Case]:
    """Yield the controls, then every row."""
    yield from CONTROLS
    for optimizer, regime, activation in itertools.product(OPTIMIZERS, REGIMES, ACTIVATIONS):
        yield Case(activation, optimizer, regime)
    for regime, optimizer, features in itertools.product(reversed(REGIMES), OPTIMIZERS, FEATURES):
        yield Case("relu", optimizer, regime, features=features)


# --- training --------------------------------------------------------------------------------------


def _regime(name: str) -> Any:
    return dam.Proportional(2, 5, 0.1) if name == "proportional" else dam.MemoriesOnly(16, 64, 16)


def _study(case: Case, precision: str, eta0: Any, scales: Any, seeds: Any) -> Any:
    return dam.Study(
        case.activation, case.optimizer, scales, eta0, regime=_regime(case.regime), seeds=seeds,
        epochs=EPOCHS, parameterization=case.rule, name=case.name, precision=precision,
        feature_activation=case.features,
    )  # fmt: skip


def swept(case: Case, runs: Path, precision: str) -> Any:
    """Return the sweep of a case: nine rates around the best of the smallest size, at all sizes."""
    smallest, rates = SCALES[case.regime][0], dam.logspace(1e-4, 10, 16)
    first = dam.sweep(_study(case, precision, rates, (smallest,), RANGE_SEEDS), runs / "ranges")
    losses: dict[float, float] = {}
    for row in first:
        losses[row["eta0"]] = losses.get(row["eta0"], 0.0) + row["final_mse"]
    best = min(losses, key=lambda eta0: losses[eta0])
    grid = dam.logspace(best / 4, best * 4, RATES)
    return dam.sweep(_study(case, precision, grid, case.scales, SEEDS[case.regime]), runs / "sweeps")


def found(case: Case, eta0: float, precision: str) -> Mapping[str, Any]:
    """Return the exponents that the finder proposes, their intervals, and the check of the row at a rate."""
    options: dict[str, Any] = {"feature_activation": case.features}
    if case.regime == "memories-only":
        options |= {"features": 16, "samples": 64, "batch": 16}
    proposal = dam.find_exponents(
        case.activation, case.optimizer, regime=case.regime, scales=FOUND_AT[case.regime], seeds=4, updates=8,
        parameterization=case.rule, verify=False, eta0=eta0, precision=precision, **options,
    )  # fmt: skip
    laws = {name: factor.along for name, factor in proposal.factors.items()}
    failing = [s.name for s in proposal.start.failing()]
    return {
        "exponents": {name: law.exponent for name, law in laws.items()},
        "intervals": {name: list(law.interval) for name, law in laws.items()},
        "check": proposal.start.status,
        "failing": list(dict.fromkeys(failing))[:4],
    }


def chosen(only: str, part: tuple[int, int], missing: bool) -> list[Case]:
    """Return the cases whose name has a text, or of these every n-th; or only those that lack something."""
    names = [case for case in cases() if only in case.name]
    if missing:
        names = [case for case in names if not (case.name in verdicts() and case.name in exponents())]
    k, n = part
    return names[k - 1 :: n]


def make(runs: Path, chosen: Sequence[Case], precision: str, kept: Mapping[str, Any]) -> None:
    """Train what is missing of some cases: sweeps without a verdict that is kept, then finder and check."""
    (runs / "found").mkdir(parents=True, exist_ok=True)
    optima = {}
    for case in chosen:
        verdict = kept.get(case.name) or dam.verdict(swept(case, runs, precision))[0]
        optima[case] = min(eta0 for eta0 in verdict.optimum.values() if eta0 is not None)
        print(f"{case.name}: {verdict.status}. {verdict.reason}", flush=True)
    for case, optimum in optima.items():
        document = _document(runs, case)
        if not document.is_file():
            write_whole(document, json.dumps(found(case, optimum / 2, precision)).encode())
            print(f"{case.name}: exponents found", flush=True)


def _document(runs: Path, case: Case) -> Path:
    """Return the file of what the finder said of a case."""
    return runs / "found" / (re.sub(r"[^\w.]+", "-", case.name) + ".json")


def keep(runs: Path) -> None:
    """Keep the ends of all runs of the sweeps that are complete; what is kept of other cases stays."""
    before = dam.Store(HOME).read().studies()
    studies = dam.Store(runs / "sweeps").read().studies() if (runs / "sweeps").is_dir() else {}
    documents, kept = dict(exponents()), []
    for case in cases():
        seeds = SEEDS[case.regime]
        own = [r for r in studies.get(case.name, ()) if r["scale"] in case.scales and r["seed"] in seeds]
        complete = len(own) == len(case.scales) * len(seeds) * RATES
        kept += own if complete else before.get(case.name, ())
        if _document(runs, case).is_file():
            documents[case.name] = json.loads(_document(runs, case).read_text(encoding="utf-8"))
    shutil.rmtree(HOME / "shards", ignore_errors=True)
    (HOME / "shards").mkdir()
    dam.Store(HOME).write(thin(kept, 2))
    FOUND.write_text(json.dumps(documents, indent=1, sort_keys=True) + "\n", encoding="utf-8")


# --- the table -------------------------------------------------------------------------------------


@functools.cache
def verdicts() -> Mapping[str, Any]:
    """Return the verdict on every row, from the records that are kept."""
    return {v.name: v for v in dam.verdict(dam.Store(HOME).read())}


@functools.cache
def exponents() -> Mapping[str, Any]:
    """Return what the finder and the check said."""
    return dict(json.loads(FOUND.read_text(encoding="utf-8")))


def rule_of(case: Case) -> Any:
    """Return the row of a case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parameterization(case.rule, case.activation, case.optimizer, case.regime)


def _exponent_cells(case: Case) -> list[str]:
    """Return the exponents of the row along what grows, each with the one that was found."""
    rule, document = rule_of(case), exponents().get(case.name)
    cells = []
    for name in ("s1", "s2", "eta_W"):
        cell = f"{float(getattr(rule, name).along(case.regime)):g}"
        if document is not None:
            low, high = document["intervals"][name]
            cell += f" ({document['exponents'][name]:.2f} ± {(high - low) / 2:.2f})"
        cells.append(cell)
    return cells


def _finding_cells(case: Case) -> list[str]:
    """Return the check, the verdict, and what the optimum of the smallest size costs at the largest."""
    document, v = exponents().get(case.name), verdicts().get(case.name)
    check = recorded.NOT_RUN if document is None else document["check"]
    if document is not None and document["failing"]:
        check += f" ({', '.join(document['failing'][:2])})"
    if v is None:
        return [check, recorded.NOT_RUN, "", ""]
    largest = max(case.scales)
    cost, loss = v.regret.get(largest), v.best_loss
    cost_cell = "–" if cost is None else "diverges" if math.isinf(cost) else f"{100 * cost:.1f} %"
    losses = " → ".join("–" if loss[n] is None else f"{loss[n]:.3f}" for n in (min(case.scales), largest))
    return [check, v.status, cost_cell, losses]


def table(regime: str) -> str:
    """Return the rows of a regime."""
    rows = [
        (f"`{case.activation}`", case.optimizer, *_exponent_cells(case), *_finding_cells(case))
        for case in sorted(cases(), key=lambda case: (*ACTIVATIONS, "relu").index(case.activation))
        if case.regime == regime and case.rule == "prescription" and case.features == "tanh"
    ]
    return recorded.table((*_HEAD, *_FINDINGS), rows)


def features() -> str:
    """Return the rows of features that are norms, and their controls."""
    rows = [
        (
            f"`{case.features}`",
            f"{case.optimizer}, {case.regime}",
            *_exponent_cells(case),
            *_finding_cells(case),
        )
        for case in cases()
        if case.features != "tanh"
    ]
    return recorded.table(("features", "optimizer, regime", "s1", "s2", "eta_W", *_FINDINGS), rows)


def controls() -> str:
    """Return the wrong rows."""
    rows = [
        (f"`{case.activation}`", f"{case.optimizer}, {case.regime}", f"`{case.rule}`", *_finding_cells(case))
        for case in CONTROLS
        if case.features == "tanh"
    ]
    return recorded.table(("activation", "optimizer, regime", "wrong row", *_FINDINGS), rows)


_HEAD = ("activation", "optimizer", "s1", "s2", "eta_W")
_FINDINGS = ("check", "sweep", "cost at the largest", "best loss, smallest → largest")


def _part(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"must be as in 2/4, got {text!r}")
    return int(match[1]), int(match[2])


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m docs.energies", description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=Path, required=True, help="The folder of all runs.")
    parser.add_argument("--only", default="", help="Only cases whose name has this text, as in 'exp sgd'.")
    parser.add_argument("--missing", action="store_true", help="Only cases that the table lacks.")
    parser.add_argument("--part", type=_part, default=(1, 1), help="The k-th of n parts of these, as in 2/4.")
    parser.add_argument("--precision", default="float32", help="As in `denseam sweep`; tf32 needs a GPU.")
    parser.add_argument("--list", action="store_true", help="Print the cases, and train nothing.")
    parser.add_argument("--keep", action="store_true", help="Train nothing; keep what is complete.")
    parser.add_argument("--no-keep", action="store_true", help="Train, and leave docs/energies as it is.")
    warnings.simplefilter("ignore")
    options = parser.parse_args()
    these = chosen(options.only, options.part, options.missing)
    if options.list:
        print(*(case.name for case in these), sep="\n")
    elif not options.keep:
        make(options.runs, these, options.precision, verdicts() if options.missing else {})
    if not (options.list or options.no_keep):
        keep(options.runs)
