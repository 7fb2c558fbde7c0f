"""The command that trains the runs of a study again, rebuilt from their records.

Records keep what a run was, not what was typed. So a command is rebuilt, parsed again as the program would,
and the keys of its runs are compared with those of the records: only what gives the same keys is called
checked. Ratios such as K/N were rounded to whole sizes; the study's id tells which ratio was meant.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from denseam.data.readers import NAMED
from denseam.data.sources import GAUSSIANS
from denseam.errors import InputError
from denseam.model import lagrangians
from denseam.studies.records import Row
from denseam.studies.schema import PROBE_COLUMNS
from denseam.studies.study import AXES, FILE_KEYS, from_document, logspace
from denseam.training.quantities import applicable

_PREPARED = re.compile(
    r"(?P<origin>.*?)(, (?P<shrink>plaquettes|orthonormal|pca))?, centred(?P<unit>, unit variance)?"
    r"(, (?P<heldout>[0-9.e+-]+) held out)?",
    re.DOTALL,
)
#: Candidates for what was rounded away that are tried before giving up.
_MOST_TRIES = 500


@dataclasses.dataclass(frozen=True)
class Command:
    """A command line, or why there is none.

    Attributes
    ----------
    text
        The line; empty where the records do not hold enough.
    checked
        Whether parsing it again gave the keys of all the runs at hand.
    runs
        How many runs it asks for.
    notes
        What to keep in mind.
    """

    text: str
    checked: bool
    runs: int
    notes: tuple[str, ...]


def sweep_command(rows: Sequence[Row], folder: str) -> Command:
    """Return the `denseam sweep` that asks for these runs, all of one study."""
    notes = _beyond_the_command_line(rows)
    if notes:
        return Command("", False, 0, notes)
    wanted = {row["key"] for row in rows}
    options = _options(rows)
    likeliest: Mapping[str, Any] = {}
    for variant in itertools.product(_probes(rows), _data(rows[0]["data"])):
        alike: tuple[Mapping[str, Any], int] | None = None
        for sizes in itertools.islice(_sizes(rows), _MOST_TRIES):
            document: Mapping[str, Any] = _ordered(options | variant[0] | variant[1] | sizes)
            likeliest = likeliest or document
            try:
                study = from_document(document)
            except (InputError, OSError) as error:
                return _unchecked(rows, document, folder, " ".join(str(error).split()))
            same = rows[0]["study_id"] == study.id
            if not same and alike is not None:
                continue
            keys = {spec.key for spec in study.runs()}
            if not wanted <= keys:
                break  # no ratio helps: every run has the sizes it has
            alike = document, len(keys)
            if same:
                break
        if alike is not None:
            document, asked = alike
            return Command(_line(document, folder), True, asked, _remarks(rows, asked))
    return _unchecked(rows, likeliest, folder, "")


def _beyond_the_command_line(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return what the records hold that no option of the program can say."""
    row, notes = rows[0], []
    if row["activation"] not in lagrangians.registered():
        notes.append(
            f"The activation {row['activation']} is not one of this program's own: use Study in Python."
        )
    if row["activation"] == "identity" and row["centred"] == "yes":
        notes.append("A centred identity is asked for in Python alone: Study(…, centred=True).")
    if row["regime"] not in ("proportional", "memories-only"):
        notes.append(f"The regime {row['regime']} is not one the program knows.")
    return tuple(notes)


def _unchecked(rows: Sequence[Row], document: Mapping[str, Any], folder: str, problem: str) -> Command:
    """Say why no command is printed, or print one with a warning where only the data is not at hand."""
    rule = rows[0]["parameterization"]
    if "parameterization" in problem or (rule not in ("prescription", "standard") and not problem):
        note = (
            f"The parameterization {rule!r} was given as exponents in Python, which records do not keep: "
            "there is no command line for it."
        )
        return Command("", False, 0, (note,))
    if problem and document and rows[0]["data"] not in GAUSSIANS:
        note = f"Not checked against the runs, since the data is not at hand: {problem}."
        return Command(_line(document, folder), False, 0, (note, *_remarks(rows, None)))
    why = problem or (
        "the runs that the rebuilt command asks for are others (written by another version, from other data, "
        "or with settings that records do not keep)"
    )
    return Command("", False, 0, (f"The command cannot be rebuilt from the records: {why}.",))


def _remarks(rows: Sequence[Row], asked: int | None) -> tuple[str, ...]:
    seeds, notes = sorted({row["seed"] for row in rows}), []
    if seeds != list(range(len(seeds))):
        shown = ", ".join(map(str, seeds[:8])) + (", …" if len(seeds) > 8 else "")
        notes.append(f"These are seeds {shown}; the program counts seeds from 0, and trains those as well.")
    if asked is not None and asked > len(rows):
        notes.append(f"It asks for {asked} runs; {len(rows)} of them are here.")
    if _data(rows[0]["data"])[0].get("data", "isotropic") not in (*GAUSSIANS, *NAMED):
        notes.append("The path of the data is as it was typed, relative to the folder it was typed in.")
    return tuple(notes)


# --- from records to options -----------------------------------------------------------------------


def _options(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the options that the records state; data, sizes and probes are left to others."""
    row = rows[0]
    grid = {axis: sorted({r[axis] for r in rows}) for axis in AXES}
    options: dict[str, Any] = {
        name: row[name] for name in ("activation", "optimizer", "regime", "epochs")
    } | {
        "scales": ",".join(map(str, sorted({r["scale"] for r in rows}))),
        "eta0": _grid_text(grid["eta0"]),
        "seeds": max(r["seed"] for r in rows) + 1,
        "name": row["study"],
    }
    if row["power"] != 1:
        options["power"] = row["power"]
    if len(grid["noise"]) == 1:
        options["noise"] = grid["noise"][0]
    if row["centred"] == "no" and row["activation"] != "identity":
        options["uncentered"] = True
    defaults = {"bias_init": "zero", "parameterization": "prescription", "precision": "float32"}
    options |= {name: row[name] for name, default in defaults.items() if row[name] != default}
    axes = {
        axis: _grid_text(values)
        for axis, values in grid.items()
        if axis != "eta0" and not (axis == "noise" and len(values) == 1) and values != [AXES[axis][0]]
    }
    return options | ({"axes": axes} if axes else {})


def _ordered(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in the order of the program's help, the name last."""
    places = {key: i for i, key in enumerate((*(k for k in FILE_KEYS if k != "name"), "name"))}
    return dict(sorted(options.items(), key=lambda pair: places[pair[0]]))


def _grid_text(values: Sequence[float]) -> str:
    """Return low:high:count where that gives these very values, else the values."""
    if len(values) > 2 and values[0] > 0:
        for low, high in itertools.product(_roundings(values[0]), _roundings(values[-1])):
            if logspace(low, high, len(values)) == tuple(values):
                return f"{_short(low)}:{_short(high)}:{len(values)}"
    return ",".join(map(_short, values))


def _short(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _roundings(value: float) -> list[float]:
    return list(dict.fromkeys(float(f"{value:.{digits}g}") for digits in (1, 2, 3, 6, 12, 17)))


def _sizes(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    if rows[0]["regime"] == "memories-only":
        yield {name: rows[0][name] for name in ("features", "samples", "batch")}
        return
    shapes = sorted({(r["features"], r["memories"], r["samples"], r["batch"]) for r in rows})
    kappas = _ratios([(K - 0.5, K + 0.5, K, N) for N, K, _, _ in shapes])
    rhos = _ratios([(P - 0.5, P + 0.5, P, N) for N, _, P, _ in shapes])
    betas = _ratios([(B - 1e-9 if B > 1 else 1e-9, B + 1 - 1e-9, B, P) for _, _, P, B in shapes])
    # All three may be unusual, but the likeliest come first: order by how far down the lists they are.
    triples = itertools.product(enumerate(kappas), enumerate(rhos), enumerate(betas))
    for (_, kappa), (_, rho), (_, beta) in sorted(triples, key=lambda t: (sum(i for i, _ in t), t)):
        yield {"kappa": kappa, "rho": rho, "beta": beta}


def _ratios(bounds: Sequence[tuple[float, float, int, int]]) -> list[float]:
    """Return ratios r with low ≤ r·n ≤ high for all (low, high, whole, n): the shortest decimals first."""
    low = max(a / n for a, _, _, n in bounds)
    high = min(b / n for _, b, _, n in bounds)
    found: list[float] = []
    for digits in range(1, 7):
        step = 10.0 ** (math.floor(math.log10(high)) - digits + 1)
        k = math.ceil(low / step - 1e-9)
        while k * step <= high * (1 + 1e-12) and len(found) < 12 * digits:
            found.append(float(f"{k * step:.{digits + 1}g}"))
            k += 1
        if len(found) >= 12:
            break
    found += [whole / n for _, _, whole, n in bounds]
    found += [1 / round(1 / r) for r in found[:1] if 0 < r < 1 and round(1 / r)]  # as in β = 1/3
    return [r for r in dict.fromkeys(found) if 0 < r < math.inf][:20]


def _data(described: str) -> list[dict[str, Any]]:
    """Return the options behind a description such as 'x.npy, pca, centred, 0.1 held out'."""
    if described in GAUSSIANS:
        return [{"data": described}] if described != "isotropic" else [{}]
    parts = _PREPARED.fullmatch(described)
    if parts is None:
        return [{"data": described}]
    options: dict[str, Any] = {"data": parts["origin"]}
    options["shrink"] = parts["shrink"] or "none"
    if parts["unit"]:
        options["unit_variance"] = True
    if parts["heldout"]:
        return [options | ({} if float(parts["heldout"]) == 0.1 else {"heldout": float(parts["heldout"])})]
    return [options | {"heldout": 0.0}, options]  # a tenth of few samples is none as well


def _probes(rows: Sequence[Row]) -> list[dict[str, Any]]:
    row = rows[0]
    names = [name for name, column in PROBE_COLUMNS.items() if row.get(column)]
    if not names:
        return [{}]
    family = lagrangians.registered()[row["activation"]].family
    momentum = any(r["momentum"] for r in rows)
    every = applicable(family, row["optimizer"], momentum)
    probes = {"probes": "all" if tuple(names) == every else ",".join(names)}
    steps = ",".join(str(int(s)) for s in row["probe_steps"])
    return [probes, probes | {"probe_steps": steps}]


# --- from options to a line ------------------------------------------------------------------------


def _line(document: Mapping[str, Any], folder: str) -> str:
    words = ["denseam", "sweep"]
    for key, value in {**document, "out": folder}.items():
        if key == "axes":
            words += [word for axis, grid in value.items() for word in ("--axis", f"{axis}={grid}")]
            continue
        text = _short(value) if isinstance(value, float) else str(value)
        flag = f"--{key.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif text.startswith("-"):
            words.append(f"{flag}={text}")
        else:
            words += [flag, text]
    return shlex.join(words)
