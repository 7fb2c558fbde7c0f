"""Make the data families of the calibration corpus.

Usage: ``python -m calibration.families --out FOLDER [--only NAME ...] [--compact FOLDER] [--record]``.
Every family is written as ``NAME.npy``, and a table of them is printed. ``calibration/families.json`` keeps
the table of the corpus that was used. The README beside this file describes the sources.
"""

import argparse
import hashlib
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from . import images, signals, tables, texts
from .features import participation
from .registry import FAMILIES, FEATURES, LIMITS, SIDE, Family, MissingSource

MAKERS = (images, signals, texts, tables)  # importing them fills the registry
RECORD = Path(__file__).with_name("families.json")
FEWEST = 1500


def samples_of(family: Family) -> np.ndarray:
    """Make a family: distinct samples in shuffled order; vectors have a mean variance of 1 per feature.

    Vectors are rounded to float16, so that a copy in that format holds the same numbers.
    """
    rng = np.random.default_rng(zlib.crc32(family.name.encode()))
    samples = np.unique(family.make(rng), axis=0)
    samples = rng.permutation(samples)[: LIMITS[family.kind]]
    if family.kind == "vectors":
        samples = samples / np.sqrt(samples.var(axis=0).mean())
        samples = samples.astype(np.float16).astype(np.float32)
    check(family, samples)
    return samples


def check(family: Family, samples: np.ndarray) -> None:
    """Raise ValueError unless the samples have the promised number, shape, and features that vary."""
    shape, dtype = ((SIDE, SIDE), np.uint8) if family.kind == "images" else ((FEATURES,), np.float32)
    problems = []
    if samples.dtype != dtype:
        problems.append(f"values are {samples.dtype}, not {np.dtype(dtype)}")
    if samples.shape[1:] != shape:
        problems.append(f"samples have shape {samples.shape[1:]}, not {shape}")
    if len(samples) < FEWEST:
        problems.append(f"{len(samples)} samples are fewer than {FEWEST}")
    if not np.isfinite(samples).all():
        problems.append("not all values are finite")
    if family.kind == "vectors" and (samples.std(axis=0) == 0).any():
        problems.append(f"{(samples.std(axis=0) == 0).sum()} features are constant")
    if problems:
        raise ValueError(f"family {family.name}: {'; '.join(problems)}")


def compact(samples: np.ndarray) -> np.ndarray:
    """Return the same numbers in a small format: bytes for images, float16 for vectors."""
    return samples if samples.dtype == np.uint8 else samples.astype(np.float16)


def description(family: Family, samples: np.ndarray) -> dict[str, Any]:
    """Describe a family as it goes into the table."""
    return {
        "kind": family.kind,
        "held_aside": family.held_aside,
        "needs": list(family.needs),
        "method": family.method,
        "samples": len(samples),
        "participation": float(f"{participation(samples):.3g}"),
        "digest": hashlib.sha256(np.ascontiguousarray(compact(samples)).tobytes()).hexdigest()[:16],
    }


def save(family: Family, samples: np.ndarray, out: Path, small: Path | None) -> None:
    """Write the samples, and where asked a small copy: float16 for vectors, bytes for images."""
    np.save(out / f"{family.name}.npy", samples)
    if small is not None:
        np.save(small / f"{family.name}.npy", compact(samples))


def print_table(families: dict[str, dict[str, Any]], recorded: dict[str, dict[str, Any]]) -> None:
    """Print one line per family, and whether its samples are those that the record describes."""
    line = "{:<12} {:<8} {:>7} {:>13}  {:<10}  {:<11}  {}"
    print(line.format("family", "kind", "samples", "participation", "held aside", "as recorded", "sources"))
    for name, entry in families.items():
        same = entry["digest"] == recorded.get(name, {}).get("digest")
        words = (
            "yes" if entry["held_aside"] else "",
            "yes" if same else "no",
            " ".join(entry["needs"]) or "Python",
        )
        print(line.format(name, entry["kind"], entry["samples"], entry["participation"], *words))


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        "python -m calibration.families", description="Make the calibration corpus."
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the arrays, NAME.npy")
    parser.add_argument(
        "--only", nargs="+", choices=FAMILIES, metavar="NAME", help="make these families only"
    )
    parser.add_argument("--compact", type=Path, help="folder for copies: vectors in float16, images in bytes")
    parser.add_argument("--record", action="store_true", help="write the table to calibration/families.json")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Make the families that the command line names. The exit code is 1 if a source is missing."""
    options = options_of(arguments)
    for folder in filter(None, (options.out, options.compact)):
        folder.mkdir(parents=True, exist_ok=True)
    recorded = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    families: dict[str, dict[str, Any]] = {}
    names = options.only or list(FAMILIES)
    for name in names:
        try:
            samples = samples_of(FAMILIES[name])
        except MissingSource as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        save(FAMILIES[name], samples, options.out, options.compact)
        families[name] = description(FAMILIES[name], samples)
    if options.record:
        recorded = {name: entry for name, entry in (recorded | families).items() if name in FAMILIES}
        text = json.dumps(recorded, indent=1, ensure_ascii=False, sort_keys=True)
        RECORD.write_text(text + "\n", encoding="utf-8")
    print_table(families, recorded)
    return int(len(families) < len(names))


if __name__ == "__main__":
    sys.exit(main())
