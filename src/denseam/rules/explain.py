"""Scales as a table for people: every multiplier and learning rate with its rule and equation."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from denseam.errors import InputError
from denseam.rules.regimes import REGIMES
from denseam.rules.sizes import Shape

if TYPE_CHECKING:
    from denseam.rules.parameterizations import Scales


def explain(scales: Scales, base: Shape | None) -> str:
    """Return what `Scales.explain` does."""
    rule, constants = scales.rule, scales.constants
    if base is not None and (rule is None or constants is None):
        raise InputError("base needs scales that come from a rule; these were set by hand")
    columns = [scales]
    if base is not None and rule is not None and constants is not None:
        columns.insert(0, rule.at(base, **asdict(constants)))

    def cells(name: str, symbol: str) -> list[str]:
        if name == "":
            return ["", *("" for _ in columns)]
        power = str(getattr(rule, name)) if rule else "set by hand"
        if rule:
            constant = {"s1": "s1_0", "s2": "s2_0", "eta_W": "eta0", "eta_b": "eta_b0", "eta_c": "eta_c0"}
            factor = constant.get(name)
            power = (factor if power == "1" else f"{factor}·{power}") if factor else power
        return [f"{symbol} = {power}", *(f"{getattr(s, name):.6g}" for s in columns)]

    start_W = "N(0, 1)" if scales.W_std == 1 else f"N(0, {scales.W_std:.4g}²)"
    of = dict(zip(("s1", "s2", "eta_W", "eta_b", "eta_c"), rule.equations if rule else (), strict=False))
    rows = [
        ("W, inner", start_W, cells("s1", "s1"), cells("eta_W", "η_W"), ("s1", "eta_W")),
        ("W, outer", "(tied)", cells("s2", "s2"), cells("", ""), ("s2",)),
        ("b", "0", cells("s_b", "s_b"), cells("eta_b", "η_b"), ("eta_b",)),
        ("c", "0", cells("s_c", "s_c"), cells("eta_c", "η_c"), ("eta_c",)),
    ]
    at = [f"at {name}" for name in (["base", "target"] if base else ["target"])]
    table = [["parameter", "start", "multiplier", *at, "learning rate", *at, "equations"]]
    table += [
        [name, start, *multiplier, *rate, "; ".join(of[q] for q in quantities if q in of)]
        for name, start, multiplier, rate, quantities in rows
    ]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table]
    lines.insert(1, "  ".join("─" * w for w in widths))

    head = []
    if rule:
        head.append(
            f"{rule.name}: {rule.family}, {rule.optimizer}, {rule.regime} ({REGIMES[rule.regime].summary})"
        )
        head.append(f"from: {rule.source}")
    if base is not None:
        head.append(f"base: {base}")
    head.append(f"target: {scales.shape}")
    if constants:
        head.append("constants: " + ", ".join(f"{k} = {v:.6g}" for k, v in asdict(constants).items()))
    if rule and not rule.prescribed and rule.name == "prescription":
        head.append("warning: not prescribed; not expected to transfer")
    return "\n".join([*head, "", *lines])
