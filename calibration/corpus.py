"""The calibration corpus: studies of real families at small sizes, each with the truth at its target.

    python -m calibration.corpus --data FOLDER --out FOLDER [--processes 8]

FOLDER holds the arrays of `calibration.families`. Every case is swept over the same lattice of learning rates
at every size, target included, so that any strategy of tuning can be replayed on the records. What a forecast
needs of them is one small table: a row per case, size and seed, with the losses along the lattice.

Families are trained together, as one tensor program: a stack of families is a source of data in which the
seed chooses the family.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import functools
import math
import multiprocessing
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import denseam as dam
from denseam.data import Preparation
from denseam.data.sources import Source, source

#: Samples of a family that are trained on at a target of 256 features: 5, 10 or 32 for each.
SAMPLES = (1280, 2560, 8192)
#: The families of which the most samples are taken; the others have enough variety without them.
LARGE = ("clothes", "glyphs", "packages", "spellings")
GAUSSIAN = ("isotropic", "anisotropic")
HELDOUT = 0.1
EPOCHS = 64
#: The epoch of a short probe at the target, as a share of all.
PROBE = 0.2

#: Activation, its power, optimizer; softmax with SGD has no prescription.
PAIRS = (
    ("relu", 1.0, "adam"),
    ("softmax", 1.0, "adam"),
    ("relu", 1.0, "sgd"),
    ("relu", 2.0, "adam"),
    ("relu", 2.0, "sgd"),
)


#: The sizes below the target and the target: N where all sizes grow, K where only memories do (at N = 64).
#: Under SGD there is one more below, so that 128 features are a target, too.
FEATURES, MEMORIES, HELD_FEATURES = (32, 64, 128, 256), (512, 1024, 2048, 4096), 64
#: The batch at the target: a tenth of five samples for each feature.
BATCH = 128
#: Seeds below the target, and at it.
SEEDS = (4, 3)


@dataclasses.dataclass(frozen=True)
class Lattice:
    """Learning rates 10^(k / per_decade), those of `denseam tune`."""

    per_decade: int
    ks: range

    @property
    def rates(self) -> list[float]:
        """The learning rates, rising."""
        return [rate(k, self.per_decade) for k in self.ks]


#: The valley of SGD ends in a cliff, so it is swept twice as finely.
LATTICES = {"adam": Lattice(4, range(-16, 5)), "sgd": Lattice(8, range(-26, 3))}


def rate(k: int, per_decade: int = 4) -> float:
    """Return the k-th learning rate of a lattice."""
    return float(f"{10 ** (k / per_decade):.12g}")


def first_seed(family: str) -> int:
    """Return the first seed of a family; it has the ten seeds from there on."""
    return 10 * (zlib.crc32(family.encode()) % 100_000)


@dataclasses.dataclass(frozen=True)
class Stack:
    """Families that are trained together with one model, and how their data shrinks.

    Attributes
    ----------
    members
        Family → its way to shrink, '' for the default (and for Gaussian families).
    samples
        P at the target.
    """

    regime: str
    samples: int
    activation: str
    power: float
    optimizer: str
    noise: float
    members: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """A name for files."""
        ways = "-".join(sorted({shrink or "default" for _, shrink in self.members}))
        model = f"{self.activation}{self.power:g}-{self.optimizer}"
        return f"{self.regime}-{self.samples}-{model}-noise{self.noise:g}-{ways}"

    @property
    def scales(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The sizes below the target, and the target, if it is trained."""
        *below, target = MEMORIES if self.regime == "memories-only" else FEATURES
        if self.optimizer == "sgd":
            below = [below[0] // 2, *below]
        own_target = all(shrink in ("", "pca") for _, shrink in self.members)
        return tuple(below), (target,) if own_target else ()

    def study(self, data: Path, scales: Sequence[int], seeds: int) -> StackedStudy:
        """Return the study of some of its sizes."""
        if self.regime == "memories-only":
            regime: Any = dam.MemoriesOnly(HELD_FEATURES, self.samples, BATCH)
        else:
            regime = dam.Proportional(2.0, self.samples / FEATURES[-1], BATCH / self.samples)
        families = [family for family, _ in self.members]
        StackedStudy.sources[self.name] = StackedSource(
            {first_seed(family): source_of(data, family, shrink) for family, shrink in self.members}
        )
        return StackedStudy(
            self.activation, self.optimizer, scales, LATTICES[self.optimizer].rates, regime=regime,
            seeds=[first_seed(family) + i for family in families for i in range(seeds)],
            epochs=EPOCHS, noise=self.noise, power=self.power if self.activation == "relu" else None,
            name=self.name,
        )  # fmt: skip


def source_of(data: Path, family: str, shrink: str) -> Source:
    """Return the samples of a family, shrunk in a given way."""
    if family in GAUSSIAN:
        return source(family)
    return source(str(data / f"{family}.npy"), Preparation(shrink or None, False, True, HELDOUT))


class StackedSource:
    """A source in which the seed chooses the family."""

    digest = "stacked"
    features = available = None

    def __init__(self, sources: dict[int, Source]) -> None:
        self.sources = sources

    def describe(self) -> str:
        """Return its families."""
        return "; ".join(member.describe() for member in self.sources.values())

    def problems(self, shape: dam.Shape) -> list[str]:
        """Return the problems of every family."""
        return [problem for member in self.sources.values() for problem in member.problems(shape)]

    def samples(self, shape: dam.Shape, seed: int, dtype: Any) -> Any:
        """Return the samples of the seed's family."""
        return np.asarray(self.sources[seed - seed % 10].samples(shape, seed, dtype))

    def heldout(self, shape: dam.Shape, seed: int, dtype: Any) -> Any:
        """Return its held-out samples: as many as every family has, so that all are one array."""
        held = self.sources[seed - seed % 10].heldout(shape, seed, dtype)
        return np.asarray(held)[: self._fewest(shape)]

    @functools.cache  # noqa: B019  # stacks live as long as the process
    def _fewest(self, shape: dam.Shape) -> int:
        return min(len(member.heldout(shape, 0, np.float32)) for member in self.sources.values())


class StackedStudy(dam.Study):
    """A study of stacked families."""

    sources: dict[str, StackedSource] = {}  # noqa: RUF012  # by the name of the study

    def source(self) -> Any:
        """Return the stacked families."""
        return self.sources[self.name]


def stacks(families: dict[str, int], images: Iterable[str] = ()) -> list[list[Stack]]:
    """Return groups of stacks; those of a group share compiled programs.

    `families` has the number of samples of each family, 0 for Gaussian ones.
    """
    by_samples: dict[int, list[str]] = {}
    for family, n in families.items():
        most = SAMPLES[-1] if family in LARGE else SAMPLES[1]
        fits = [s for s in SAMPLES if s <= most and s <= n - math.floor(HELDOUT * n)]
        by_samples.setdefault(fits[-1] if n else SAMPLES[0], []).append(family)
    images = set(images)
    groups: list[list[Stack]] = []
    for pair in PAIRS:
        everything = tuple((family, "") for family in families)
        groups.append([Stack("memories-only", SAMPLES[0], *pair, 0.5, everything)])
        for samples, names in by_samples.items():
            files = [name for name in names if name not in GAUSSIAN]
            second = tuple((name, "rotated" if name in images else "orthonormal") for name in files)
            vectors = tuple((name, "pca") for name in files if name not in images)
            main = tuple((name, "") for name in names)
            group = [Stack("proportional", samples, *pair, 0.5, main)]
            if pair[2] == "adam":
                group.append(Stack("proportional", samples, *pair, 1.0, main))
            if second:
                group.append(Stack("proportional", samples, *pair, 0.5, second))
            if vectors and pair in PAIRS[:2]:
                group.append(Stack("proportional", samples, *pair, 0.5, vectors))
            groups.append(group)
    return groups


def run(group: Sequence[Stack], data: Path, out: Path, precision: dict[str, str]) -> str:
    """Train the stacks of a group, and write a table for each."""
    began = time.perf_counter()
    for stack in group:
        path = out / f"{stack.name}.parquet"
        if path.exists():
            continue
        records: list[dict[str, Any]] = []
        for scales, seeds in zip(stack.scales, SEEDS, strict=True):
            if scales:
                study = stack.study(data, scales, seeds)
                study = dataclasses.replace(study, precision=precision[stack.regime])
                records += dam.sweep(study)
        write(list(compact(stack, records)), path)
    return f"{group[0].name}: {len(group)} stacks in {time.perf_counter() - began:.0f} s"


def compact(stack: Stack, records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row per family, size and seed: the losses along the lattice, infinite where a run diverged."""
    settings = {f.name: getattr(stack, f.name) for f in dataclasses.fields(stack) if f.name != "members"}
    groups: dict[tuple[int, int], dict[float, dict[str, Any]]] = {}
    for row in records:
        groups.setdefault((row["scale"], row["seed"]), {})[row["eta0"]] = row
    early = max(0, round(PROBE * EPOCHS) - 1)
    lattice = LATTICES[stack.optimizer]
    for family, shrink in stack.members:
        for (scale, seed), by_rate in sorted(groups.items()):
            if seed - seed % 10 != first_seed(family):
                continue
            runs = [by_rate[eta0] for eta0 in lattice.rates]
            lost = [r["status"] == "diverged" for r in runs]
            yield settings | {
                "family": family,
                "shrink": shrink,
                "scale": scale,
                "seed": seed,
                "precision": runs[0]["precision"],
                "per_decade": lattice.per_decade,
                "first_k": lattice.ks[0],
                "zero": runs[0]["zero_mse"],
                "final": [math.inf if d else r["final_mse"] for r, d in zip(runs, lost, strict=True)],
                "heldout": [math.inf if d else r["heldout_mse"] for r, d in zip(runs, lost, strict=True)],
                "early": [r["loss"][early] if len(r["loss"]) > early else math.inf for r in runs],
            }


def write(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows as a small Parquet table, completely or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    losses = {name: pa.list_(pa.float32()) for name in ("final", "heldout", "early")}
    kinds = {name: losses.get(name, pa.infer_type([value])) for name, value in rows[0].items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    pq.write_table(pa.Table.from_pylist(list(rows), pa.schema(list(kinds.items()))), temporary)
    os.replace(temporary, path)


def trim(data: Path, out: Path) -> None:
    """Write copies of the families with just the samples that are used, in half precision.

    Families of one class then have arrays of one shape, which share compiled programs.
    """
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(data.glob("*.npy")):
        x = np.load(path)
        most = SAMPLES[-1] if path.stem in LARGE else SAMPLES[1]
        sizes = [math.ceil(s / (1 - HELDOUT)) for s in SAMPLES if s <= most]
        x = x[: max(n for n in sizes if n <= len(x))]
        np.save(out / path.name, x if x.ndim > 2 else x.astype(np.float16))


def main() -> None:
    """Train everything that is missing."""
    parser = argparse.ArgumentParser(description="Train the calibration corpus.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the trimmed arrays")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tables")
    parser.add_argument(
        "--only", nargs="*", default=[""], help="only stacks whose names contain one of these words"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--precision", default="float32", help="where all sizes grow")
    parser.add_argument("--precision-memories", default="float32", help="where only memories grow")
    parser.add_argument("--trim", type=Path, help="folder of whole arrays to trim into --data first")
    options = parser.parse_args()
    if options.trim:
        trim(options.trim, options.data)
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in sorted(options.data.glob("*.npy"))}
    families = {name: len(array) for name, array in arrays.items()} | dict.fromkeys(GAUSSIAN, 0)
    images = {name for name, array in arrays.items() if array.ndim > 2}
    groups = [
        [stack for stack in group if any(word in stack.name for word in options.only)]
        for group in stacks(families, images)
    ]
    groups = [group for group in groups if group]
    precision = {"proportional": options.precision, "memories-only": options.precision_memories}
    print(f"{sum(map(len, groups))} stacks of {len(families)} families", flush=True)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.processes, context) as pool:
        futures = [pool.submit(run, g, options.data, options.out, precision) for g in groups]
        for future in concurrent.futures.as_completed(futures):
            print(future.result(), flush=True)


if __name__ == "__main__":
    main()
