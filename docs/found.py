"""What the exponent finder finds from wrong starts, and the table that `docs/find-evidence.md` shows.

``python -m docs.found`` searches every row that is not in `docs/found.json` yet (``--row`` chooses some), on
the machine at hand, and keeps its result there. `table` makes the page from that file alone.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from docs import recorded

KEPT = Path(__file__).with_suffix(".json")

#: (regime, family, optimizer) → exponents that are wrong, in at least two factors.
STARTS: Mapping[tuple[str, str, str], str] = {
    ("proportional", "elementwise", "sgd"): "s1=1, s2=1, eta_W=1",
    ("proportional", "elementwise", "adam"): "s1=N^-1, s2=K^-1, eta_W=N^1/2",
    ("proportional", "softmax", "adam"): "s1=N^-1/4, s2=1, eta_W=N^-1/2",
    ("memories-only", "elementwise", "sgd"): "s1=N^-1/2*K^1/4, s2=K^-1/2, eta_W=1",
    ("memories-only", "elementwise", "adam"): "s1=N^-1/2*K^-1/2, s2=1, eta_W=K",
    ("memories-only", "softmax", "adam"): "s1=N^-1/2*K^1/4, s2=N^1/2*K^1/2, eta_W=K^-1/2",
    ("proportional", "elementwise", "muon"): "s1=N^-1, s2=1, eta_W=1",
    ("memories-only", "elementwise", "muon"): "s1=N^-1/2*K^1/4, s2=K^-1/2, eta_W=1",
}
#: Normalised entry by entry like Adam: the same start.
STARTS = {
    **STARTS,
    **{
        (regime, family, optimizer): start
        for optimizer in ("adamw", "lion", "sign")
        for (regime, family, like), start in STARTS.items()
        if like == "adam"
    },
}
#: The same along the steps of recall, whose start has the wrong step.
OF_STEPS = {"sgd": "step=1, eta_W=K*T^1/2", "adam": "step=1", "muon": "step=T^-3/2, eta_W=K^1/2*T^1/4"}
#: Rows of the table that are confirmed by a sweep; Adam's stands for all that normalise entry by entry.
SWEPT = ("sgd", "adam", "muon")
#: Cases without a row, which begin from the standard parameterization.
WITHOUT_ROW = (
    ("proportional", "squareplus", "adam"),
    ("memories-only", "squareplus", "sgd"),
    ("memories-only", "sparsemax", "adam"),
    ("memories-only", "softmax", "sgd"),
)
#: Rows of further activations, from the standard parameterization.
ENERGIES = (
    ("proportional", "softplus", "adam"),
    ("proportional", "relative-entmax(1.5)", "adam"),
    ("proportional", "relative-normmax(2)", "adam"),
    ("proportional", "spherical-norm", "adam"),
    ("proportional", "layer-norm", "muon"),
    ("proportional", "sigmoid", "muon"),
    ("memories-only", "softplus", "sgd"),
    ("memories-only", "relative-entmax(1.5)", "sgd"),
    ("memories-only", "layer-norm", "sgd"),
    ("memories-only", "sigmoid", "adam"),
    ("memories-only", "polynomial(0,1,0,0.3333)", "adam"),
)


def cases() -> dict[str, dict[str, Any]]:
    """Return the arguments of each search, by its name."""
    found = {}
    for (regime, family, optimizer), start in STARTS.items():
        activation = "softmax" if family == "softmax" else "relu"
        found[f"{activation} {optimizer} {regime}"] = {
            "activation": activation, "optimizer": optimizer, "regime": regime, "parameterization": start,
            "verify": optimizer in SWEPT,
        }  # fmt: skip
    for optimizer, start in OF_STEPS.items():
        found[f"relu {optimizer} steps-only"] = {
            "activation": "relu", "optimizer": optimizer, "regime": "steps-only", "parameterization": start,
            "verify": False,
        }  # fmt: skip
    for regime, activation, optimizer in (*WITHOUT_ROW, *ENERGIES):
        found[f"{activation} {optimizer} {regime}"] = {
            "activation": activation, "optimizer": optimizer, "regime": regime,
            "parameterization": "standard", "verify": True,
        }  # fmt: skip
    return found


def own_lagrangians() -> dict[str, Any]:
    """Return the Lagrangians that the library has no row for, as a user would write them."""
    import jax.numpy as jnp

    import denseam as dam

    class Squareplus(dam.Elementwise):
        """A smooth ReLU: σ(h) = (h + √(h² + 1)) / 2."""

        name: ClassVar[str] = "squareplus"
        family: ClassVar[str] = "mine"  # no row has this name

        def potential(self, h: Any) -> Any:
            root = jnp.sqrt(h * h + 1)
            return (h * h + h * root + jnp.arcsinh(h)) / 4

    class Sparsemax(dam.Lagrangian):
        """The projection onto the simplex: σ(h) = max(h − τ, 0) with τ such that Σ_k σ_k = 1."""

        name: ClassVar[str] = "sparsemax of the page"
        family: ClassVar[str] = "mine"

        def value(self, h: Any) -> Any:
            sigma = self.activation(h)
            return jnp.sum(sigma * h, -1) - jnp.sum(sigma**2, -1) / 2

        def activation(self, h: Any) -> Any:
            ordered = jnp.sort(h, axis=-1)[..., ::-1]
            sums = jnp.cumsum(ordered, axis=-1)
            counts = jnp.arange(1, h.shape[-1] + 1)
            support = jnp.sum(1 + counts * ordered > sums, axis=-1, keepdims=True)
            threshold = (jnp.take_along_axis(sums, support - 1, axis=-1) - 1) / support
            return jnp.maximum(h - threshold, 0)

        def jacobian_product(self, h: Any, v: Any) -> Any:
            active = self.activation(h) > 0
            mean = jnp.sum(jnp.where(active, v, 0), -1, keepdims=True) / jnp.sum(active, -1, keepdims=True)
            return jnp.where(active, v - mean, 0)

    return {"squareplus": Squareplus(), "sparsemax": Sparsemax()}


def search(case: Mapping[str, Any]) -> dict[str, Any]:
    """Search one case; return its document, with the exponents of the row if there is one."""
    import denseam as dam
    from denseam.ground.errors import UnprescribedWarning
    from denseam.rules import parameterization

    own = own_lagrangians()
    options = dict(case)
    activation = options.pop("activation")
    began, worked = time.perf_counter(), time.process_time()
    proposal = dam.find_exponents(own.get(activation, activation), options.pop("optimizer"), **options)
    document = proposal.to_json()
    right: dict[str, float | None] = dict.fromkeys(proposal.factors)
    if activation not in own:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnprescribedWarning)
            row = parameterization("prescription", activation, case["optimizer"], case["regime"])
        right = {name: float(getattr(row, name).along(case["regime"])) for name in proposal.factors}
    kept = ("status", "cause", "reason", "size", "factors", "constants", "start", "check", "verdict")
    return {
        "case": dict(case),
        "row": right,
        "prescribed": activation not in own and row.prescribed,
        "seconds": round(time.perf_counter() - began, 1),
        "core_seconds": round(time.process_time() - worked, 1),
        **{key: document[key] for key in kept},
        "family": document["activity"]["family"],
        "left": [slope["name"] for slope in document["left"]],
    }


def kept() -> dict[str, Any]:
    """Return the results so far."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}


def main() -> None:
    """Search all cases that are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", action="append", help="search this case, also if it is there already")
    chosen = parser.parse_args().row
    for name in chosen or [name for name in cases() if name not in kept()]:
        document = search(cases()[name])
        results = kept() | {name: document}
        ordered = {key: results[key] for key in cases() if key in results}
        KEPT.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
        print(name, document["status"], f"{document['seconds']:.0f} s", flush=True)


# --- the page --------------------------------------------------------------------------------------

#: How far an exponent of the finder may be from that of the table.
NEAR = 0.05


def work(one: Mapping[str, Any]) -> str:
    """Return how long a search took: the time of all cores, or by the clock where that is not known."""
    if "core_seconds" in one:
        return f"{one['core_seconds']:.0f} s"
    return f"{one['seconds']:.0f} s by the clock"


def _cell(factor: Mapping[str, Any], right: float | None) -> str:
    low, high = factor["interval"]
    near = "" if right is None or abs(factor["exponent"] - right) <= NEAR else " ✗"
    row = "" if right is None else f" ({right:g})"
    return f"{factor['exponent']:+.3f} [{low:+.2f}, {high:+.2f}]{row}{near}"


def _of(chosen: Sequence[tuple[str, str, str]], one: Mapping[str, Any]) -> bool:
    """Return whether a search is one of these."""
    case = one["case"]
    return (case["regime"], case["activation"], case["optimizer"]) in chosen


def table(of_energies: bool = False) -> str:
    """Return what was found along the path of each row of the prescription, or of further activations."""
    rows = [
        (
            name,
            one["case"]["parameterization"].replace("*", "·"),
            *(_cell(factor, one["row"][key]) for key, factor in one["factors"].items() if key != "step"),
            one["check"],
            one["verdict"] or "–",
            work(one),
        )
        for name, one in kept().items()
        if one["prescribed"] and one["size"] != "T" and _of(ENERGIES, one) is of_energies
    ]
    return recorded.table(("row", "start", "$s_1$", "$s_2$", "$\\eta_W$", "check", "sweep", "time"), rows)


def steps() -> str:
    """Return what was found along the steps of recall."""
    rows = [
        (
            name,
            one["case"]["parameterization"].replace("*", "·"),
            *(_cell(factor, one["row"][key]) for key, factor in one["factors"].items()),
            one["check"],
            work(one),
        )
        for name, one in kept().items()
        if one["size"] == "T"
    ]
    return recorded.table(("row", "start", "$d$ in $T$", "$\\eta_W$ in $T$", "check", "time"), rows)


def apart() -> str:
    """Return the exponents of N, K and B apart, and their sum beside that of the path."""
    rows = []
    for name, one in kept().items():
        for key, factor in one["factors"].items():
            if factor["apart"] and not _of(ENERGIES, one):
                cells = [
                    f"{law['exponent']:+.2f} ± {(law['interval'][1] - law['interval'][0]) / 2:.2f}"
                    + ("" if law["growth"] == "power" else "~")
                    for law in factor["apart"].values()
                ]
                right = one["row"][key]
                rows.append(
                    (name, key, *cells, f"{factor['sum']:+.3f}", "–" if right is None else f"{right:g}")
                )
    return recorded.table(("row", "", "in $N$", "in $K$", "in $B$", "sum", "table"), rows)


def without_row() -> str:
    """Return what was found where no row was known."""
    rows = [
        (
            name,
            one["status"],
            one["family"],
            *(factor["power"] for factor in one["factors"].values()),
            one["reason"],
            work(one),
        )
        for name, one in kept().items()
        if not one["prescribed"]
    ]
    return recorded.table(("case", "result", "σ", "$s_1$", "$s_2$", "$\\eta_W$", "reason", "time"), rows)


#: File under `_generated` → what it holds.
FRAGMENTS = {
    "found.md": table,
    "found-apart.md": apart,
    "found-steps.md": steps,
    "found-without-row.md": without_row,
    "found-energies.md": functools.partial(table, of_energies=True),
}


if __name__ == "__main__":
    main()
