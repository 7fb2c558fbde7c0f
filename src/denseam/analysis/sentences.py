"""The sentences of verdicts and checks, written from their data alone. No other code may look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from denseam.analysis.causes import Action, Cause, Caution, CheckCause, Flag, Next

if TYPE_CHECKING:
    from denseam.analysis.coordinates.judge import Check
    from denseam.analysis.verdicts import Verdict

REASONS = {
    Cause.RUNS_MISSING: "{missing} of {runs} runs are missing, so no seed is complete.",
    Cause.BASE_DIVERGED: "At {letter} = {smallest} every run diverged.",
    Cause.DIVERGES: "With {here}, training diverges at {letter} = {scale}.",
    Cause.EDGE_FALLS: "With {here}, training will diverge before {letter} = {target}: the edge of stability "
    "will have fallen to {edge:.2g}.",
    Cause.OPTIMUM_AT_END: "At {letter} = {scale} the best {axis} is the {side} end of the grid.",
    Cause.TOO_FEW_SCALES: "There are only {few}.",
    Cause.TOO_FEW_SEEDS: "There are only {few}.",
    Cause.NOTHING_LEARNED: "Nothing was learned: the best loss is close to that of predicting zero.",
    Cause.TOO_COSTLY: "With {here}, the loss is far from the best: {cost}.{drift}",
    Cause.LOSS_RISES: "The best loss itself rises by {rise} from {letter} = {smallest} to {scale}, relative "
    "to that of predicting zero.{drift}",
    Cause.HOLDS: "With {here}, {cost}, the most of all scales.{drift}",
    Cause.OPTIMUM_MOVES: "With {here}, {cost}.{drift}{base}",
    Cause.SEEDS_DIFFER: "The seeds differ too much to tell: with {here}, {cost}.{drift}{base}",
}

NEXT_STEPS = {
    Action.RESUME: "Add the missing runs; `denseam sweep` resumes if it is run again.",
    Action.LOWER_GRID: "Lower the grid of {axis}: its smallest value is {value:.3g}.",
    Action.EXTEND_GRID: "Extend the grid of {axis} {beyond} {value:.3g}.",
    Action.ADD_RUNS: "Run at least {scales} scales and {seeds} seeds.",
    Action.ADD_SEEDS: "Run more seeds.",
    Action.TRAIN_LONGER: "Train for more epochs, or with less noise.",
    Action.CHECK_RULE: "Check the parameterization with `{command}`.",
}

FLAGS = {
    Caution.OTHERS_HELD: "Held at their best at the smallest scale: {values}.",
    Caution.RUNS_MISSING: "{runs} runs are missing; only complete seeds were used.",
    Caution.FEWER_SEEDS: "Fewer than {seeds} seeds at {letter} = {counts}.",
    Caution.OPTIMUM_IS_GRID_POINT: "At {letter} = {scale} the optimum is a grid point: a neighbour diverged.",
    Caution.EDGE_FALLS: "The stability edge falls by {decades:.2f} decades per doubling of {letter}.",
}

CHECK_REASONS = {
    CheckCause.S1: "s1: Z goes {power} at the start; multiply s1 by {inverse}",
    CheckCause.S2: "s2: F goes {power} at the start; multiply s2 by {inverse}",
    CheckCause.BIAS_OFFSET: "bias offset: the biases shift all samples alike, which centring cannot remove, "
    "and λ_max grows {power}; start with zero biases",
    CheckCause.SPIKE: "spike: the mean activation adds an eigenvalue to SᵀS/K that grows {power}; centre the "
    "activations",
    CheckCause.SOFTMAX_SGD: "softmax with SGD: rows with a large activation get large updates, which make it "
    "larger; use Adam",
    CheckCause.LEARNING_RATE: "learning rate: Z and F keep their size, but what a step changes in Z goes "
    "{power}; multiply eta_W by {inverse}",
    CheckCause.UNKNOWN: "{name}: at step {step} it {goes} and should {wanted}; no known cause fits",
    CheckCause.RUNS_GONE: "learning rate: by step {step} runs have diverged at the smallest scale too; lower "
    "eta0",
    CheckCause.NOISE: "noise: the interval of {name} at step {step} is too wide; run more seeds",
}


def reason(v: Verdict) -> str:
    """State the cause of a verdict."""
    smallest = min(v.optimum)
    words = dict(v.evidence) | {
        "letter": v.scale_letter,
        "axis": v.axis,
        "smallest": smallest,
        "here": _transferred(v),
        "cost": _cost(v),
        "drift": _drift(v),
        "base": "" if v.base is None else f" From {v.scale_letter} = {v.base} on it transfers.",
        "side": v.next.side if v.next else "",
        "few": _few(v),
        "rise": percent(v.evidence.get("rise", 0.0)),
    }
    return REASONS[v.cause].format(**words)


def next_step(step: Next | None) -> str:
    """State what to do next; '' if there is nothing."""
    if step is None:
        return ""
    beyond = "below" if step.side == "low" else "above"
    return NEXT_STEPS[step.action].format(**vars(step), beyond=beyond, command=step.command)


def flag(v: Verdict, note: Flag) -> str:
    """State what to keep in mind."""
    values = ", ".join(f"{axis} = {value:.3g}" for axis, value in note.numbers.items())
    counts = ", ".join(f"{scale} ({n})" for scale, n in note.numbers.items())
    words = {"values": values, "counts": counts, "letter": v.scale_letter, "seeds": v.seeds}
    return FLAGS[note.kind].format(**{**words, **note.numbers})


def check_reason(check: Check) -> str:
    """State the likely cause of a failed check and the remedy; '' if there is none."""
    if check.cause is None:
        return ""
    if (culprit := check.culprit) is None:
        return CHECK_REASONS[check.cause]
    n, slope, expected = check.letter, culprit.slope, culprit.expected
    return CHECK_REASONS[check.cause].format(
        name=culprit.name,
        step=culprit.step,
        power="to infinity" if slope is None else f"as {n}^{slope:.2f}",
        inverse=f"{n}^{-(slope or 0.0):+.2f}",
        goes="is not finite at some scale" if slope is None else f"goes as {n}^{slope:.2f}",
        wanted="keep its size" if not expected else f"go as {n}^{expected:g}",
    )


def percent(value: float) -> str:
    """Return a share as a percentage."""
    return f"{100 * value:.1f} %"


def _transferred(v: Verdict) -> str:
    smallest = min(v.optimum)
    value = v.optimum[smallest]
    return "" if value is None else f"{v.axis} = {value:.3g}, the best at {v.scale_letter} = {smallest}"


def _cost(v: Verdict) -> str:
    if not v.regret:
        return ""
    worst = max(v.regret, key=lambda scale: v.regret[scale])
    mean = v.regret[worst]
    low, high = v.regret_ci.get(worst) or (mean, mean)
    return f"it costs {percent(mean)} [{percent(low)}, {percent(high)}] at {v.scale_letter} = {worst}"


def _drift(v: Verdict) -> str:
    if v.drift is None or v.drift_ci is None:
        return ""
    low, high = v.drift_ci
    return f" The optimum moves by {v.drift:+.3f} [{low:+.3f}, {high:+.3f}] decades per doubling."


def _few(v: Verdict) -> str:
    """Return the numbers of scales and seeds of which there are too few."""
    return " and ".join(f"{v.evidence[noun]} {noun}" for noun in ("scales", "seeds") if noun in v.evidence)
