"""Positive and negative controls of the verdict: trained models whose truth is known from many seeds.

    python -m calibration.controls [--train]

A design is a small sweep with thirty seeds. All of them together say what is true of it: whether the smallest
size's optimum costs at most the tolerance at the larger ones. Ten studies of three seeds each are judged as a
user's sweep would be. Data are Gaussian and drawn for every seed, and every design has seeds of its own, so
that no two studies share data or weights. Half of the designs follow the prescription; in the others a power
of the size is wrong.

Without --train, the records beside this file are judged. With it, the designs that they lack are trained
first; all of them take about an hour on two cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import denseam as dam
from calibration.corpus import rate, write
from denseam.analysis.causes import Status
from denseam.analysis.profiles import Profile
from denseam.analysis.thresholds import MOST, REGRET_GOOD, RISE_BAD
from denseam.analysis.transfer import COLUMNS, verdict
from denseam.studies.records import Records

RECORDS = Path(__file__).with_name("controls.parquet")
SCALES = {"proportional": (24, 48, 96), "memories-only": (64, 128, 256)}
#: N, P and B where only memories grow.
HELD = (32, 160, 16)
#: Seeds of a design, of a study, and of a study with more of them.
SEEDS, FEW, MORE = 30, 3, 5
VALUES = 9
EPOCHS = 32

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Design:
    """A sweep of one setting.

    Attributes
    ----------
    first_k
        The smallest learning rate is 10^(first_k/4), and there are four per decade.
    changes
        Further arguments of `denseam.Study`.
    """

    name: str
    activation: str
    optimizer: str
    first_k: int
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    regime: str = "proportional"
    kappa: float = 2.0
    rho: float = 5.0

    @property
    def lattice(self) -> range:
        """The learning rates, as powers of 10^(1/4)."""
        return range(self.first_k, self.first_k + VALUES)

    @property
    def seeds(self) -> list[int]:
        """Thirty seeds that no other design has."""
        first = 100 * (zlib.crc32(self.name.encode()) % 1_000_000)
        return list(range(first, first + SEEDS))

    def study(self) -> dam.Study:
        """Return the study of all seeds."""
        regime: Any = dam.Proportional(self.kappa, self.rho, 0.1)
        if self.regime == "memories-only":
            regime = dam.MemoriesOnly(*HELD)
        return dam.Study(
            self.activation, self.optimizer, SCALES[self.regime], [rate(k) for k in self.lattice],
            regime=regime, seeds=self.seeds, epochs=EPOCHS, name=self.name, **self.changes,
        )  # fmt: skip


def _designs() -> Iterator[Design]:
    aniso, loud, memories = {"data": "anisotropic"}, {"noise": 1.0}, "memories-only"
    standard, fixed = {"parameterization": "standard"}, {"parameterization": "eta_W=1"}
    # As the prescription says.
    yield Design("identity, SGD", "identity", "sgd", -13)
    yield Design("identity, SGD, anisotropic", "identity", "sgd", -13, aniso)
    yield Design("identity, SGD, noise 1", "identity", "sgd", -13, loud)
    yield Design("identity, SGD, κ = 4", "identity", "sgd", -13, kappa=4.0)
    yield Design("identity, SGD, memories only", "identity", "sgd", -8, regime=memories)
    yield Design("identity, Adam, memories only", "identity", "adam", -10, regime=memories)
    yield Design("tanh, SGD", "tanh", "sgd", -12)
    yield Design("tanh, Adam", "tanh", "adam", -11)
    yield Design("ReLU, SGD", "relu", "sgd", -11)
    yield Design("ReLU, SGD, anisotropic", "relu", "sgd", -11, aniso)
    yield Design("ReLU, SGD, noise 1", "relu", "sgd", -11, loud)
    yield Design("ReLU, SGD, κ = 4", "relu", "sgd", -11, kappa=4.0)
    yield Design("ReLU, SGD, standard", "relu", "sgd", -9, standard)
    yield Design("ReLU, SGD, memories only", "relu", "sgd", -6, regime=memories)
    yield Design("ReLU, Adam", "relu", "adam", -10)
    yield Design("ReLU, Adam, anisotropic", "relu", "adam", -10, aniso)
    yield Design("ReLU, Adam, noise 1", "relu", "adam", -10, loud)
    yield Design("ReLU, Adam, κ = 4", "relu", "adam", -10, kappa=4.0)
    yield Design("ReLU, Adam, ρ = 10", "relu", "adam", -10, rho=10.0)
    yield Design("softmax, Adam", "softmax", "adam", -10)
    yield Design("softmax, Adam, anisotropic", "softmax", "adam", -10, aniso)
    yield Design("ReLU², Adam", "relu", "adam", -10, {"power": 2.0})
    # With a wrong power of the size, without centring, or with biases that are not zero at the start.
    yield Design("ReLU, Adam, standard", "relu", "adam", -13, standard)
    yield Design("ReLU, Adam, standard, anisotropic", "relu", "adam", -13, standard | aniso)
    yield Design("ReLU, Adam, standard, noise 1", "relu", "adam", -13, standard | loud)
    yield Design("ReLU, Adam, standard, κ = 4", "relu", "adam", -14, standard, kappa=4.0)
    yield Design("tanh, Adam, standard", "tanh", "adam", -13, standard)
    yield Design("softmax, Adam, standard", "softmax", "adam", -10, standard)
    yield Design("ReLU, Adam, η ∝ K", "relu", "adam", -17, {"parameterization": "eta_W=K"})
    yield Design("ReLU², Adam, η ∝ K", "relu", "adam", -17, {"parameterization": "eta_W=K", "power": 2.0})
    yield Design("softmax, Adam, η ∝ K", "softmax", "adam", -17, {"parameterization": "eta_W=K"})
    yield Design("identity, SGD, η fixed", "identity", "sgd", -7, fixed)
    yield Design("identity, SGD, η fixed, anisotropic", "identity", "sgd", -7, fixed | aniso)
    yield Design("ReLU, SGD, η fixed", "relu", "sgd", -6, fixed)
    yield Design("ReLU, SGD, η fixed, anisotropic", "relu", "sgd", -6, fixed | aniso)
    yield Design("ReLU², SGD, η fixed", "relu", "sgd", -6, fixed | {"power": 2.0})
    yield Design("ReLU, SGD, s2 ∝ 1/K", "relu", "sgd", -6, {"parameterization": "s2=K^-1"})
    yield Design("ReLU, Adam, s2 ∝ 1/K", "relu", "adam", -8, {"parameterization": "s2=K^-1"})
    yield Design("ReLU, SGD, uncentred", "relu", "sgd", -11, {"centred": False})
    yield Design("ReLU, SGD, biases from N(0, 1)", "relu", "sgd", -12, {"bias_init": "normal"})


DESIGNS = tuple(_designs())


def train(designs: Sequence[Design], out: Path = RECORDS) -> None:
    """Train the designs whose records are missing, and add them to the file one by one."""
    rows = read(out) if out.exists() else []
    for design in designs:
        if design.name not in {row["design"] for row in rows}:
            rows += compact(design, dam.sweep(design.study()))
            write(rows, out)
            print(design.name, flush=True)


def compact(design: Design, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per size and seed: the losses along the lattice, infinite where a run diverged."""
    runs = {(row["scale"], row["seed"], row["eta0"]): row for row in records}
    rows = []
    for scale, seed in sorted({key[:2] for key in runs}):
        along = [runs[scale, seed, rate(k)] for k in design.lattice]
        losses = [math.inf if run["status"] == "diverged" else run["final_mse"] for run in along]
        rows.append({
            "design": design.name, "scale": scale, "seed": seed, "first_k": design.first_k,
            "zero": along[0]["zero_mse"], "final": losses,
        })  # fmt: skip
    return rows


def read(path: Path = RECORDS) -> list[dict[str, Any]]:
    """Read the records."""
    import pyarrow.parquet as pq

    return list(pq.read_table(path).to_pylist())


# --- judging ---------------------------------------------------------------------------------------


def small_sweep(x: Array, losses: Mapping[int, Array], regime: str, zero: float = 1.0) -> Records:
    """Return losses (size → value × seed) as the records of a study, with all that a verdict needs.

    `zero` is the loss of predicting zero.
    """
    same = dict.fromkeys(COLUMNS, 0.5) | {
        "study": "control", "study_id": "control", "regime": regime, "zero_mse": zero, "swept": "eta0",
    }  # fmt: skip
    return Records(
        same | {
            "key": f"{scale}-{seed}-{at}", "scale": scale, "seed": seed, "eta0": float(10 ** x[at]),
            "final_mse": float(loss), "status": "finished" if math.isfinite(loss) else "diverged",
        }
        for scale, along in losses.items()
        for at, by_seed in enumerate(along)
        for seed, loss in enumerate(by_seed)
    )  # fmt: skip


def status(records: Records) -> Status:
    """Return the word of the verdict on one study."""
    (judged,) = verdict(records)
    return judged.status


@dataclasses.dataclass(frozen=True)
class Control:
    """A design with its truth and the verdicts on its studies.

    Attributes
    ----------
    regret
        The largest cost, at a larger size, of the smallest size's optimum; infinite if it diverges there.
    rise
        How much the best loss, over that of predicting zero, rises with size.
    """

    design: Design
    regret: float
    rise: float
    verdicts: tuple[Status, ...]

    @property
    def transfers(self) -> bool:
        """The truth, by the definitions of the verdict."""
        return self.regret <= REGRET_GOOD and self.rise <= RISE_BAD

    @property
    def clear(self) -> bool:
        """Whether the truth is far from the tolerance: half of it or less, or three times it or more."""
        if self.transfers:
            return self.regret <= REGRET_GOOD / 2
        return self.regret >= 3 * REGRET_GOOD or self.rise > RISE_BAD

    @property
    def wrong(self) -> int:
        """How many verdicts say the opposite of the truth."""
        opposite = {"DRIFTS", "FAILS"} if self.transfers else {"TRANSFERS"}
        return sum(v in opposite for v in self.verdicts)

    @property
    def decided(self) -> int:
        """How many verdicts are not INCONCLUSIVE."""
        return sum(v != "INCONCLUSIVE" for v in self.verdicts)


@functools.cache
def controls(path: Path = RECORDS, group: int = FEW) -> list[Control]:
    """Judge every study of every design, with so many seeds each."""
    rows, known = read(path), {design.name: design for design in DESIGNS}
    names = dict.fromkeys(row["design"] for row in rows)
    return [_control(known[name], [row for row in rows if row["design"] == name], group) for name in names]


def _control(design: Design, rows: Sequence[Mapping[str, Any]], group: int) -> Control:
    x = np.array(design.lattice) / 4
    scales = sorted({row["scale"] for row in rows})
    by_seed = {(row["scale"], row["seed"]): row for row in rows}
    seeds = sorted({row["seed"] for row in rows})
    losses = {s: np.array([by_seed[s, seed]["final"] for seed in seeds], float).T for s in scales}
    zeros = {s: float(np.mean([by_seed[s, seed]["zero"] for seed in seeds])) for s in scales}
    verdicts = []
    for first in range(0, len(seeds), group):
        shares = {s: losses[s][:, first : first + group] / zeros[s] for s in scales}
        verdicts.append(status(small_sweep(x, shares, design.regime)))
    # With many seeds, one that diverges must not hide the others: a value is lost if most of its runs are.
    profiles = {s: Profile(x, _typical(losses[s])) for s in scales}
    base = profiles[scales[0]].optimum
    best = [math.exp(profiles[s].best) / zeros[s] for s in scales]
    return Control(
        design=design,
        regret=max(float(profiles[s].regret(base)) for s in scales[1:]),
        rise=max(best) / best[0] - 1,
        verdicts=tuple(verdicts),
    )


def _typical(losses: Array) -> Array:
    """Return value × 1: the geometric mean over the seeds that did not diverge; infinite if most did."""
    finite = np.isfinite(losses)
    logs = np.where(finite, np.log(np.where(finite, losses, 1.0)), 0.0)
    means = np.exp(logs.sum(axis=1) / np.maximum(finite.sum(axis=1), 1))
    return np.where(finite.mean(axis=1) < 1 - MOST, np.inf, means)[:, None]


def main() -> None:
    """Judge the records, and train what is missing if asked to."""
    parser = argparse.ArgumentParser(description="Judge the controls of the verdict.")
    parser.add_argument("--train", action="store_true", help="train the designs that the records lack")
    options = parser.parse_args()
    if options.train:
        train(DESIGNS)
    for control in controls():
        print(control)


if __name__ == "__main__":
    main()
