"""Scales as a readable table: every multiplier and learning rate with its rule and equation."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from denseam.ground.errors import InputError
from denseam.rules.optimizers import AVERAGES
from denseam.rules.powers import ONE
from denseam.rules.regimes import REGIMES
from denseam.rules.schedules import Timetable
from denseam.rules.sizes import Shape
from denseam.rules.table import CONSTANTS

if TYPE_CHECKING:
    from denseam.rules.parameterizations import Scales

#: Parameter, multiplier, learning rate; W has one learning rate for both of its places.
_ROWS = (("W, inner", "s1", "eta_W"), ("W, outer", "s2", ""), ("b", "s_b", "eta_b"), ("c", "s_c", "eta_c"))


def explain(
    scales: Scales, base: Shape | None, timetable: Timetable | None = None, decay: float | None = None
) -> str:
    """Return the text of `Scales.explain`."""
    lines = [*_heading(scales, base), "", *_table(scales, base)]
    if decay:
        lines += ["", _decay_line(scales, decay, timetable)]
    if timetable is not None:
        lines += ["", f"schedule: {timetable.describe()}", *_course(scales, timetable, decay)]
    return "\n".join(lines)


def applied(scales: Scales, factor: float, decay: float | None = None) -> dict[str, float]:
    """Return the learning rates of a step with this factor, and the share of W that decays in it."""
    rates = {name: factor * getattr(scales, name) for name in ("eta_W", "eta_b", "eta_c")}
    return rates if decay is None else rates | {"decay": rates["eta_W"] * scales.decay_W * decay}


def _decay_line(scales: Scales, decay: float, timetable: Timetable | None) -> str:
    share = applied(scales, 1.0, decay)["decay"]
    words = (
        f"decay: λ0 = {decay:.6g}, λ_W = {decay * scales.decay_W:.6g}; at the peak rate η_W λ_W = "
        f"{share:.6g} of W in each step, a time of {1 / share:.6g} steps"
    )
    if timetable is None:
        return words
    return f"{words}; decay_time = {scales.decay_time(decay, timetable.steps):.6g} of the training"


def _course(scales: Scales, timetable: Timetable, decay: float | None) -> list[str]:
    """Return a table of the rates along a training: at its quarters, and after a warm-up."""
    last = timetable.steps - 1
    shown = {0, last, *(round(share * last) for share in (0.25, 0.5, 0.75))}
    shown.add(min(last, round(timetable.warmup * timetable.steps)))
    heads = {"eta_W": "η_W", "eta_b": "η_b", "eta_c": "η_c", "decay": "η_W λ_W"}
    names = list(applied(scales, 1.0, decay))
    table = [["step", "done", "factor", *(heads[name] for name in names)]]
    for step in sorted(shown):
        factor = timetable(step)
        values = applied(scales, factor, decay)
        row = [f"{timetable.done(step):.4g}", f"{factor:.6g}", *(f"{values[name]:.6g}" for name in names)]
        table.append([str(step), *row])
    return _aligned(table)


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
        steps = scales.shape.T > 1 or constants.tau != 1
        shown = {k: v for k, v in asdict(constants).items() if steps or k != "tau"}
        lines.append("constants: " + ", ".join(f"{k} = {v:.6g}" for k, v in shown.items()))
        if steps and rule:
            power = f"tau·{rule.step}".removesuffix("·1")
            lines.append(f"steps of recall: T = {scales.shape.T}, of size {power} = {scales.step:.6g}")
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
    return _aligned(table)


def _aligned(table: list[list[str]]) -> list[str]:
    """Return the lines of a table, with a rule under its first row."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return lines
