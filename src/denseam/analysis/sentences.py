"""The sentences of verdicts, checks and searches, written from data alone. No other code may look at them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from denseam.analysis.causes import Action, Cause, Caution, CheckCause, FindCause, Flag, Growth, Next
from denseam.analysis.thresholds import FEWEST

if TYPE_CHECKING:
    from denseam.analysis.coordinates.judge import Check
    from denseam.analysis.coordinates.proposal import Proposal
    from denseam.analysis.coordinates.slopes import Slope
    from denseam.analysis.statistics import Interval
    from denseam.analysis.verdicts import Verdict

REASONS = {
    Cause.RUNS_MISSING: "{missing} of {runs} runs are missing, so no seed is complete.",
    Cause.BASE_DIVERGED: "At {letter} = {smallest} every run diverged.",
    Cause.DIVERGES: "With {here}, training diverges at {letter} = {scale}.",
    Cause.DIVERGES_BELOW: "At {letter} = {scale}, training diverges at {axis} = {value:.3g} already; {here}, "
    "is larger.",
    Cause.EDGE_FALLS: "With {here}, training will diverge before {letter} = {target}: the edge of stability "
    "will have fallen to {edge:.2g}.",
    Cause.OPTIMUM_AT_END: "At {letter} = {scale} the best {axis} is the {side} end of the grid.",
    Cause.TOO_FEW_VALUES: "The study has only {few} of {axis}.",
    Cause.TOO_FEW_SCALES: "The study has only {few}.",
    Cause.TOO_FEW_SEEDS: "The study has only {few}.",
    Cause.NOTHING_LEARNED: "Nothing was learned: the best loss is close to that of predicting zero.",
    Cause.TOO_COSTLY: "With {here}, {cost}, far above the tolerance.{drift}",
    Cause.COSTLY_AT_TARGET: "With {here}, {cost}, far above the tolerance.{drift}",
    Cause.LOSS_RISES: "The best loss itself rises by {rise} from {letter} = {smallest} to {scale}, relative "
    "to that of predicting zero.{drift}",
    Cause.OPTIMUM_MOVES: "With {here}, {cost}.{drift}{base}",
    Cause.MOVES_BEFORE_TARGET: "With {here}, {cost}.{drift}",
    Cause.MAY_DIVERGE: "At {letter} = {scale}, {part} of the runs with {axis} = {value:.3g} diverge; {here}, "
    "is not smaller.",
    Cause.EDGE_UNRESOLVED: "With {here}, training may diverge at {letter} = {scale}: the next value of the "
    "grid does.",
    Cause.HOLDS: "With {here}, {cost}; this is the highest bound of all scales.{ahead}{drift}",
    Cause.TOO_COARSE: "The grid is too coarse to tell: with {here}, {cost}.{drift}{base}",
    Cause.SEEDS_DIFFER: "The optima are not known well enough to tell: with {here}, {cost}.{drift}{base}",
    Cause.UNSURE_AT_TARGET: "The optima are not known well enough for that target: with {here}, {cost}."
    "{drift}",
}

NEXT_STEPS = {
    Action.RESUME: "Add the missing runs; `denseam sweep` resumes if it is run again.",
    Action.LOWER_GRID: "Lower the grid of {axis}: its smallest value is {value:.3g}.",
    Action.EXTEND_GRID: "Extend the grid of {axis} {beyond} {value:.3g}.",
    Action.REFINE_GRID: "Sweep {axis} in steps that are {finer} times as fine.",
    Action.ADD_VALUES: "Run at least {values} values of {axis}.",
    Action.ADD_RUNS: "Run at least {scales} scales and {seeds} seeds.",
    Action.ADD_SEEDS: "Run at least {seeds} seeds at every scale.",
    Action.ADD_SCALE: "Run the scale {scale} as well.",
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
    CheckCause.SOFTMAX_SGD: "softmax with this optimizer: rows with a large activation get large updates, "
    "which make it larger; use Adam",
    CheckCause.SPARSE: "sparse activation: a few memories answer, whatever K is, so that what a step changes "
    "inside and outside of σ scales differently; use an activation relative to K",
    CheckCause.LEARNING_RATE: "learning rate: Z and F keep their size, but what a step changes in Z goes "
    "{power}; multiply eta_W by {inverse}",
    CheckCause.UNKNOWN: "{name}: at step {step} it {goes} and should {wanted}; no known cause fits",
    CheckCause.RUNS_GONE: "learning rate: by step {step} runs have diverged at the smallest scale too; lower "
    "eta0",
    CheckCause.NOISE: "noise: the interval of {name} at step {step} is too wide; run more seeds",
    CheckCause.TOO_FEW: f"too few: a verdict needs {FEWEST} sizes and {FEWEST} seeds",
}

FIND_REASONS = {
    FindCause.NOISE: "The exponent of {wide} is known to ± {half:.2f} only; measure more seeds or sizes.",
    FindCause.FEW_ACTIVE: "Few memories are active however many there are: K_eff goes as K^{active:.2f}, "
    "{share} memories of {most}. A power of K does not keep every term.",
    FindCause.NO_POWER: "No power keeps {bent}: {growth}.",
    FindCause.TERMS_LEFT: "With these exponents {left} still {goes}: {check}.",
    FindCause.NO_TRANSFER: "The sizes of the first steps stay, but the learning rate does not transfer. "
    "{sweep}",
    FindCause.CHECK_UNDECIDED: "The check of these exponents is not decided: {check}.",
    FindCause.SWEEP_UNDECIDED: "The sweep with these exponents is not decided. {sweep}",
    FindCause.HOLDS: "With these exponents every judged term of a step keeps its size{transfers}.",
}
GROWTHS = {
    Growth.LOGARITHM: "it follows a power of log {letter}",
    Growth.BENT: "its exponent changes along {letter}",
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
        "part": percent(v.evidence.get("share", 0.0)),
        "ahead": "" if v.regret_at_target is None else f" At the target {_predicted(v)}.",
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
    values = ", ".join(
        f"{axis} = {'none' if value is None else format(value, '.3g')}"
        for axis, value in note.numbers.items()
    )
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


def find_reason(proposal: Proposal) -> str:
    """State the cause of the result of a search for exponents."""
    laws = {name: found.along for name, found in proposal.factors.items()}
    wide = next((name for name, law in laws.items() if law.is_wide), "")
    bent = next((name for name, law in laws.items() if law.growth in GROWTHS), "")
    low, high = laws[wide].interval if wide else (0.0, 0.0)
    active = proposal.activity.active[1.0]
    left = next(iter(proposal.check.failing()), None)
    return FIND_REASONS[proposal.cause].format(
        wide=wide,
        half=(high - low) / 2,
        active=active.exponent,
        share=f"{proposal.activity.share[1.0] * active.sizes[-1]:.3g}",
        most=active.sizes[-1],
        bent=proposal.factors[bent].quantity if bent else "",
        growth=GROWTHS[laws[bent].growth].format(letter=proposal.letter) if bent else "",
        left=left.name if left else "",
        goes=_goes(left, proposal.letter) if left else "",
        check=proposal.check.reason,
        sweep="" if proposal.verdict is None else proposal.verdict.reason,
        transfers="" if proposal.verdict is None else ", and the learning rate transfers",
    )


def _goes(slope: Slope, letter: str) -> str:
    """Return how a term changes with a size."""
    if slope.slope is None:
        return f"is not finite at some {letter}"
    return f"{'grows' if slope.excess > 0 else 'shrinks'} with {letter}"


def percent(value: float) -> str:
    """Return a share as a percentage."""
    return f"{100 * value:.1f} %"


def at_most(bound: float) -> str:
    """Return the bound on a cost in words."""
    return f"at most {percent(bound)}" if math.isfinite(bound) else "without a bound"


def _transferred(v: Verdict) -> str:
    smallest = min(v.optimum)
    value = v.optimum[smallest]
    return "" if value is None else f"{v.axis} = {value:.3g}, the best at {v.scale_letter} = {smallest}"


def _cost(v: Verdict) -> str:
    """Return what it costs at the scale that decides, which may be the target."""
    if v.scale is None:
        return ""
    if v.scale not in v.regret:
        return f"{_predicted(v)} at {v.scale_letter} = {v.scale}"
    regret, where = v.regret[v.scale], f"at {v.scale_letter} = {v.scale}"
    if math.isinf(regret):
        return f"training diverges {where}"
    return f"the loss is {_interval(regret, v.regret_ci[v.scale])} above the best {where}"


def _predicted(v: Verdict) -> str:
    regret = v.regret_at_target
    if regret is None:
        return ""
    return f"the loss is predicted to be {_interval(regret, v.regret_at_target_ci)} above the best"


def _interval(value: float, interval: Interval | None) -> str:
    """Return a cost with its interval; without an upper end, 'at least' its lower one."""
    if interval is None:
        return percent(value)
    low, high = interval
    if math.isinf(high):
        return f"at least {percent(low)}"
    return f"{percent(value)} [{percent(low)}, {percent(high)}]"


def _drift(v: Verdict) -> str:
    if v.drift is None or v.drift_ci is None:
        return ""
    low, high = v.drift_ci
    return f" The optimum moves by {v.drift:+.3f} [{low:+.3f}, {high:+.3f}] decades per doubling."


def _few(v: Verdict) -> str:
    """Return the numbers of values, scales and seeds of which there are too few."""
    counts = {noun: v.evidence[f"{noun}s"] for noun in ("value", "scale", "seed") if f"{noun}s" in v.evidence}
    return " and ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items())


def axis_reason(left: float, tolerance: float, *, at_bound: bool) -> str:
    """Return the sentence about one axis of a set: what its best value at the smallest size would cost."""
    sides = ("above", "within")
    cost = "less than 0.01 %" if left < 1e-4 else f"{100 * left:.2g} %"
    bound = " Its best value is a limit of its range." if at_bound else ""
    return (
        f"The best value of the smallest size should cost {cost} at the target by itself, "
        f"{sides[left <= tolerance]} the tolerance.{bound}"
    )
