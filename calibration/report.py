"""The page on the calibration: its tables and pictures, made from the records. Nothing is trained.

    python -m calibration.report [--out FOLDER]

prints the tables, and writes them and the pictures into a folder, from which the documentation takes them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from calibration.controls import MORE, Control, controls
from calibration.evidence import (
    LOSSES,
    Costs,
    Evidence,
    Tally,
    evidence,
    failures,
    grouped,
    rules,
    tally,
    transfers_then_costs,
)
from calibration.judge import PLANS, TOLERANCE, Judged, Plan, complete, table
from calibration.pictures import draw_bounds, draw_reductions, draw_shares
from calibration.reductions import alarms, costs, pairs
from calibration.words import (
    LOSS,
    OPTIMIZER,
    REDUCTION,
    REGIME,
    activation_name,
    cost,
    group_name,
    percent,
    setting_name,
)
from denseam.analysis import forecast
from denseam.analysis.forecast import BOUNDS, Setting
from denseam.analysis.thresholds import RISE_BAD

OUT = Path(__file__).parent.parent / "docs" / "_generated" / "calibration"
RULES = {
    "smallest": "the smallest size's optimum",
    "largest": "half the target's size: its optimum as it is",
    "forecast": "the forecast",
}


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


# --- what was found, in words ------------------------------------------------------------------------


def headline(found: Evidence) -> str:
    """Return the result for Adam in one paragraph; the README has it word for word."""
    dear, cheap = (pooled(found, "adam", "proportional", plan, "training") for plan in PLANS[:2])
    setting = Setting("relu", 1.0, "adam", "proportional")
    share = [percent(plan.cost(setting)) for plan in PLANS[:2]]
    return (
        f"In {dear.studies} studies of {dear.families} data sets with Adam, tuned at up to half the target's "
        f"size, a value was recommended in {percent(dear.share)} of the cases in which it truly cost at most "
        f"{percent(TOLERANCE)}, for {share[0]} of the operations of a sweep at the target, and in "
        f"{percent(cheap.share)} for {share[1]}. The true cost was within the bound in "
        f"{percent(dear.coverage)} ({percent(cheap.coverage)}) of the recommendations; its median was "
        f"{cost(dear.median)} ({cost(cheap.median)})."
    )


def pooled(found: Evidence, optimizer: str, regime: str, plan: Plan, by: str) -> Tally:
    """Count over all activations."""
    alike = (optimizer, regime, by)
    return tally(found.where(lambda j: j.plan is plan and _alike(j) == alike))


def _alike(j: Judged) -> tuple[str, str, str]:
    setting = j.forecast.setting
    return setting.optimizer, setting.regime, setting.by


def formula() -> str:
    """Return the description of the forecast, as the code has it."""
    return (forecast.__doc__ or "").partition("\n\n")[2].strip() + "\n"


# --- tables ------------------------------------------------------------------------------------------


def failures_table(found: Evidence) -> str:
    """Return every recommended value that cost more than its bound or the tolerance."""
    head = ("true cost", "bound", "beyond", "loss", "setting", "plan", "data", "noise", "samples")
    rows = []
    for j in failures(found.judged):
        beyond = [name for name, holds in (("bound", j.holds), ("tolerance", j.good)) if not holds]
        setting, case = j.forecast.setting, j.case
        family = case.family + (" (held aside)" if case.family in found.aside else "")
        rows.append((
            cost(j.regret), cost(j.forecast.regret_bound), ", ".join(beyond), LOSS[setting.by],
            setting_name(setting), j.plan.name, family, f"{case.noise:g}", str(case.samples),
        ))  # fmt: skip
    recommended = sum(j.recommended for j in found.judged)
    words = (
        f"{len(rows)} of {recommended} recommendations, counted over all settings, plans and both losses. "
        "Without a forecast, because every value diverges at some size: "
        f"{found.left_out} of {len(found.judged) + found.left_out}."
    )
    return f"{words}\n\n{markdown(head, rows)}"


TALLY_HEAD = (
    "plan", "cost", "studies (data sets)", f"truly ≤ {percent(TOLERANCE)}", "of these recommended",
    "recommended", "within the bound", "surely at least", f"above {percent(TOLERANCE)}", "median cost",
    "worst cost",
)  # fmt: skip


def _tally_cells(plan: Plan, judged: Sequence[Judged]) -> tuple[str, ...]:
    t = tally(judged)
    return (
        plan.name, percent(plan.cost(judged[0].case.setting), 1), f"{t.studies} ({t.families})", str(t.good),
        percent(t.share), str(t.recommended), percent(t.coverage, 1), percent(t.limit), str(t.beyond),
        cost(t.median), cost(t.worst),
    )  # fmt: skip


def pooled_table(found: Evidence, keep: Callable[[Judged], bool] = lambda j: True) -> str:
    """Return the counts over all activations, for each optimizer, regime, loss and plan."""
    groups: dict[tuple[str, str, Plan], list[Judged]] = {}
    for own in grouped(j for j in found.judged if keep(j)).values():
        setting, plan = own[0].forecast.setting, own[0].plan
        groups.setdefault((group_name(setting), LOSS[setting.by], plan), []).extend(own)
    rows = [(name, by, *_tally_cells(plan, own)) for (name, by, plan), own in groups.items()]
    return markdown(("", "loss", *TALLY_HEAD), rows)


def whole_table(found: Evidence, by: str) -> str:
    """Return the counts of every setting and plan, for one loss."""
    groups = grouped(j for j in found.judged if j.forecast.setting.by == by)
    rows = [(setting_name(s), *_tally_cells(plan, own)) for (s, plan), own in groups.items()]
    return markdown(("setting", *TALLY_HEAD), rows)


def constants_table(found: Evidence) -> str:
    """Return the constants that come with the package."""
    entries = table(complete(found.cases), found.aside)
    risks = (f"u for {percent(bound)}" for bound in BOUNDS)
    head = ("setting", "loss", "μ", "w", "v", *risks, "median of cost / u", "data sets", "studies")
    rows = []
    for setting, e in entries.items():
        numbers = (
            f"{e.shift:+.3f}",
            f"{e.slope:g}",
            f"{e.edge:g}",
            *("–" if limit == 0 else f"{limit:.2g}" for limit in e.limits),
            f"{e.median:.3g}",
        )
        name, by = setting_name(setting), LOSS[setting.by]
        rows.append((name, by, *numbers, str(e.families), str(e.studies)))
    return markdown(head, rows)


def corpus_table(found: Evidence) -> str:
    """Return what was trained."""
    groups: dict[tuple[Setting, tuple[int, ...]], list[tuple[str, float, int]]] = {}
    for case in complete(found.cases):
        settings = groups.setdefault((case.setting, tuple(case.scales)), [])
        settings.append((case.family, case.noise, case.samples))
    rows = []
    for (setting, scales), studies in groups.items():
        families, noises, samples = (sorted(set(column)) for column in zip(*studies, strict=True))
        sizes = f"{'N' if setting.regime == 'proportional' else 'K'} = {', '.join(map(str, scales))}"
        rows.append((
            activation_name(setting), OPTIMIZER[setting.optimizer], REGIME[setting.regime], sizes,
            ", ".join(map("{:g}".format, noises)), ", ".join(map(str, samples)), str(len(families)),
            str(len(studies)),
        ))  # fmt: skip
    total = f"{len(complete(found.cases))} studies of {len({c.family for c in found.cases})} data sets.\n\n"
    head = ("activation", "optimizer", "regime", "sizes", "noise", "samples", "data sets", "studies")
    return total + markdown(head, sorted(rows))


def _cost_cells(own: Costs) -> tuple[str, ...]:
    return cost(own.quantile(0.5)), cost(own.quantile(0.95)), cost(own.quantile(1)), percent(own.within)


COST_HEAD = ("median cost", "95th percentile", "worst", f"within {percent(TOLERANCE)}")


def rules_table(found: Evidence) -> str:
    """Return what other rules would have cost on the same studies."""
    rows = []
    for by in LOSSES:
        for (optimizer, regime), by_rule in rules(found, by).items():
            for rule, own in by_rule.items():
                group = f"{OPTIMIZER[optimizer]}, {REGIME[regime]}"
                rows.append((group, LOSS[by], RULES[rule], str(len(own.regrets)), *_cost_cells(own)))
    return markdown(("", "loss", "value", "studies", *COST_HEAD), rows)


def verdict_table(found: Evidence) -> str:
    """Return what was recommended before there was a forecast, and what it cost."""
    recommended = transfers_then_costs(found)
    rows = []
    for optimizer, own in recommended.items():
        studies = sum(case.setting.optimizer == optimizer for case in complete(found.cases))
        rows.append((OPTIMIZER[optimizer], str(studies), str(len(own.regrets)), *_cost_cells(own)))
    return markdown(("", "studies", "TRANSFERS", *COST_HEAD), rows)


def reductions_table(found: Evidence) -> str:
    """Return what the half size's optimum costs by each reduction, beside the default on the same data."""
    rows = []
    for (optimizer, shrink), group in pairs(found).items():
        for name, own in zip(("default", REDUCTION[shrink]), costs(group), strict=True):
            rows.append((OPTIMIZER[optimizer], name, str(len(group)), *_cost_cells(own)))
    return markdown(("", "reduction", "studies", *COST_HEAD), rows)


def alarms_table(found: Evidence) -> str:
    """Return how well a disagreement of two reductions tells bad studies from good ones."""
    rows = []
    for (optimizer, shrink), group in pairs(found).items():
        events: dict[str, list[str]] = {}
        for alarm in alarms(group):
            events.setdefault(alarm.event, [str(alarm.bad)]).append(
                "–" if math.isnan(alarm.auc) else f"{alarm.auc:.2f}"
            )
        for event, cells in events.items():
            rows.append((OPTIMIZER[optimizer], REDUCTION[shrink], event, str(len(group)), *cells))
    sizes = ("AUC at an eighth", "at a quarter", "at half the size")
    return markdown(("", "other reduction", "bad if", "studies", "bad", *sizes), rows)


def controls_table(few: Sequence[Control], more: Sequence[Control]) -> str:
    """Return the verdicts on the controls with few seeds, and in one sentence those with more."""
    rows = [_control_cells("**all**", few)]
    rows += [_control_cells(f"**{name}**", own) for name, own in _by_truth(few).items()]
    for control in sorted(few, key=lambda c: c.regret):
        rise = f", the loss rises by {percent(control.rise)}" if control.rise > RISE_BAD else ""
        rows.append((*_control_cells(control.design.name, [control])[:-1], cost(control.regret) + rise))
    head = ("design", "studies", "TRANSFERS", "DRIFTS or FAILS", "INCONCLUSIVE", "wrong", "decided", "truth")
    words = [
        _control_words("with three seeds", few),
        _control_words("whose truth is clear", [c for c in few if c.clear]),
        _control_words("with five seeds", more),
    ]
    return f"{' '.join(words)}\n\n{markdown(head, rows)}"


def _by_truth(judged: Sequence[Control]) -> Mapping[str, list[Control]]:
    """Return the designs that transfer, clearly and barely, and those that do not."""
    words = {
        (True, True): f"transfer, at most {percent(TOLERANCE / 2)}",
        (True, False): f"transfer, {percent(TOLERANCE / 2)} to {percent(TOLERANCE)}",
        (False, False): f"do not, up to {percent(3 * TOLERANCE)}",
        (False, True): f"do not, above {percent(3 * TOLERANCE)}, or the loss rises",
    }
    return {name: [c for c in judged if (c.transfers, c.clear) == truth] for truth, name in words.items()}


def _control_words(which: str, judged: Sequence[Control]) -> str:
    _, studies, *_, wrong, decided, _ = _control_cells("", judged)
    return f"Of {studies} studies {which}, {decided} are decided, and {wrong} verdicts are wrong."


def _control_cells(name: str, judged: Sequence[Control]) -> tuple[str, ...]:
    verdicts = [v for control in judged for v in control.verdicts]
    words = [sum(v in group for v in verdicts) for group in (["TRANSFERS"], ["DRIFTS", "FAILS"])]
    decided = sum(c.decided for c in judged)
    share = percent(decided / len(verdicts)) if verdicts else "–"
    wrong = sum(c.wrong for c in judged)
    unsure = len(verdicts) - decided
    return name, str(len(verdicts)), *map(str, words), str(unsure), str(wrong), share, ""


# --- the page ----------------------------------------------------------------------------------------


def _half(j: Judged) -> bool:
    return j.plan.gap == 1


#: The name of each part of the page → what makes its text.
PARTS: Mapping[str, Callable[[Evidence], str]] = {
    "headline": headline,
    "failures": failures_table,
    "pooled": lambda found: pooled_table(found, _half),
    "aside": lambda found: pooled_table(found, lambda j: _half(j) and j.case.family in found.aside),
    "rules": rules_table,
    "verdict": verdict_table,
    "controls": lambda _: controls_table(controls(), controls(group=MORE)),
    "reductions": reductions_table,
    "alarms": alarms_table,
    "formula": lambda _: formula(),
    "constants": constants_table,
    "corpus": corpus_table,
    "training": lambda found: whole_table(found, "training"),
    "heldout": lambda found: whole_table(found, "heldout"),
}
PICTURES: Mapping[str, Callable[[Evidence, Path], None]] = {
    "shares": draw_shares,
    "bounds": draw_bounds,
    "reductions": lambda found, out: draw_reductions(pairs(found), out),
}


def write(out: Path = OUT) -> dict[str, str]:
    """Write all parts and pictures; return the parts."""
    found = evidence()
    out.mkdir(parents=True, exist_ok=True)
    texts = {name: make(found) for name, make in PARTS.items()}
    for name, text in texts.items():
        (out / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    for draw in PICTURES.values():
        draw(found, out)
    return texts


def main() -> None:
    """Judge the records, print the tables, and write them with the pictures."""
    parser = argparse.ArgumentParser(description="Tables and pictures of the calibration.")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for tables and pictures")
    options = parser.parse_args()
    for name, text in write(options.out).items():
        print(f"# {name}\n\n{text}")
    print(options.out)


if __name__ == "__main__":
    main()
