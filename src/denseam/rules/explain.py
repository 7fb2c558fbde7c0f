"""Scales as a readable table: every multiplier and learning rate with its rule and equation."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from denseam.errors import InputError
from denseam.rules.optimizers import AVERAGES
from denseam.rules.powers import ONE
from denseam.rules.regimes import REGIMES
from denseam.rules.sizes import Shape
from denseam.rules.table import CONSTANTS

if TYPE_CHECKING:
    from denseam.rules.parameterizations import Scales

#: Parameter, multiplier, learning rate; W has one learning rate for both of its places.
_ROWS = (("W, inner", "s1", "eta_W"), ("W, outer", "s2", ""), ("b", "s_b", "eta_b"), ("c", "s_c", "eta_c"))


def explain(scales: Scales, base: Shape | None) -> str:
    """Return the text of `Scales.explain`."""
    return "\n".join([*_heading(scales, base), "", *_table(scales, base)])


def _heading(scales: Scales, base: Shape | None) -> list[str]:
    rule, constants = scales.rule, scales.constants
    lines = []
    if rule:
        growth = f"{rule.regime} ({REGIMES[rule.regime].summary})"
        lines += [f"{rule.name}: {rule.family}, {rule.optimizer}, {growth}", f"from: {rule.source}"]
    if base is not None:
        lines.append(f"base: {base}")
    lines.append(f"target: {scales.shape}")
    if constants:
        lines.append("constants: " + ", ".join(f"{k} = {v:.6g}" for k, v in asdict(constants).items()))
    for name in AVERAGES:
        if rule and (power := getattr(rule, f"forget_{name}")) != ONE:
            factor = getattr(scales, f"forget_{name}")
            lines.append(f"averages: 1 − {name} is multiplied by {power} = {factor:.6g}, up to 1")
    if rule and not rule.prescribed and rule.name == "prescription":
        lines.append("warning: not prescribed; not expected to transfer")
    return lines


def _cells(columns: list[Scales], name: str) -> list[str]:
    """Return the rule of a multiplier or learning rate and its numbers; '' for each if there is no name."""
    if not name:
        return ["", *("" for _ in columns)]
    rule = columns[-1].rule
    power = str(getattr(rule, name)) if rule else "set by hand"
    if rule and name in CONSTANTS:
        power = CONSTANTS[name] if power == "1" else f"{CONSTANTS[name]}·{power}"
    return [f"{name.replace('eta', 'η')} = {power}", *(f"{getattr(column, name):.6g}" for column in columns)]


def _table(scales: Scales, base: Shape | None) -> list[str]:
    rule, constants = scales.rule, scales.constants
    columns = [scales]
    if base is not None:
        if rule is None or constants is None:
            raise InputError("base needs scales that come from a rule; these were set by hand")
        columns.insert(0, rule.at(base, **asdict(constants)))

    W_start = "N(0, 1)" if scales.W_std == 1 else f"N(0, {scales.W_std:.4g}²)"
    starts = (W_start, "(tied)", "0", "0")
    equations = dict(zip(CONSTANTS, rule.equations if rule else (), strict=False))
    at = ["at base", "at target"] if base else ["at target"]
    table = [["parameter", "start", "multiplier", *at, "learning rate", *at, "equations"]]
    for (parameter, multiplier, rate), start in zip(_ROWS, starts, strict=True):
        sources = "; ".join(equations[name] for name in (multiplier, rate) if name in equations)
        table.append([parameter, start, *_cells(columns, multiplier), *_cells(columns, rate), sources])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return lines
