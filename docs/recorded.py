"""The numbers of README and docs that come from the records of the gallery, computed from these records.

Pages include the tables; README holds the sentences between two comments. `python docs/recorded.py` writes
them into README, and a test compares.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "docs" / "gallery"
README = ROOT / "README.md"
BEGIN, END = "<!-- from the records: `python docs/recorded.py` -->", "<!-- end -->"
NOT_RUN = "not run"


@functools.cache
def results() -> Mapping[str, Any]:
    """Return the records of the gallery in each reading."""
    from denseam.paper.gallery import rows_in
    from denseam.paper.readings import READINGS
    from denseam.paper.results import Results
    from denseam.paper.sizes import SIZES

    rows = rows_in(RECORDS)
    return {name: Results(rows, SIZES["paper"], reading, RECORDS) for name, reading in READINGS.items()}


@functools.cache
def judgements() -> tuple[tuple[Any, tuple[Any, ...]], ...]:
    """Return every figure with the judgements on its claims."""
    from denseam.paper.catalog import catalog
    from denseam.paper.gallery import judged

    return tuple((figure, judged(figure, results())) for figure in catalog())


# --- README ----------------------------------------------------------------------------------------


def readme() -> str:
    """Return the sentences of README: what the picture's learning rate costs, and the words of claims."""
    from denseam.paper.experiments import RELU_SGD
    from denseam.paper.readings import READINGS
    from denseam.paper.summary import tally

    v = results()["trained"].verdict(RELU_SGD)
    largest = max(v.regret)
    counts = tally(judgements(), own=False)
    parts = []
    for name, reading in READINGS.items():
        n = counts[name]
        decided = n.total() - n["not run"]
        if decided:
            parts.append(
                f"with {reading.words} {n['reproduced']} of {decided} are reproduced, {n['only if']} under a "
                f"condition, {n['not reproduced']} are not, {n['undecided']} are undecided"
                + (f" ({n['not run']} more are not run)" if n["not run"] else "")
            )
        else:
            parts.append(f"with {reading.words} none has been run")
    cost = f"costs {100 * v.regret[largest]:.2f} % at N = {largest}"
    return (
        f"With centring, a learning rate tuned at N = {min(v.optimum)} {cost}. "
        "The gallery (`docs/gallery.md`) has all seventeen figures, and judges every claim of the paper in "
        f"three readings, since the paper does not say which experiments train biases: {'; '.join(parts)}."
    )


def in_readme() -> str:
    """Return what README says between the two comments, on one line."""
    text = README.read_text(encoding="utf-8")
    match = re.search(f"{re.escape(BEGIN)}(.*?){re.escape(END)}", text, re.S)
    assert match, "README has lost its comments"
    return " ".join(match[1].split()).strip("*")


def write_readme() -> None:
    """Write the sentences into README."""
    import textwrap

    text = README.read_text(encoding="utf-8")
    body = "\n".join(textwrap.wrap(readme(), 116, break_long_words=False, break_on_hyphens=False))
    pattern = f"{re.escape(BEGIN)}.*?{re.escape(END)}"
    README.write_text(re.sub(pattern, lambda _: f"{BEGIN}\n*{body}*\n{END}", text, flags=re.S), "utf-8")


# --- tables ----------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(c.replace("|", r"\|").replace("\n", " ") for c in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def summary() -> str:
    """Return how many claims have which word in each reading."""
    from denseam.paper.summary import KINDS, tally

    rows = [
        (whose, reading, str(counter.total()), *(str(counter[kind]) for kind in KINDS))
        for whose, own in (("the paper's", False), ("our own", True))
        for reading, counter in tally(judgements(), own).items()
    ]
    return table(("claims", "reading", "all", *KINDS), rows)


def exceptions() -> str:
    """Return the paper's claims that are not simply reproduced in every reading that was run."""
    from denseam.paper.readings import READINGS

    rows = []
    for figure, judged in judgements():
        for judgement in judged if not figure.own else ():
            words = {name: finding.verdict for name, finding in judgement.findings.items()}
            if set(words.values()) - {"reproduced", NOT_RUN}:
                link = f"[{figure.name}](#figure-{figure.name})"
                rows.append((link, judgement.claim.text, *(words.get(name, "–") for name in READINGS)))
    return table(("figure", "claim", *READINGS), rows)


def records() -> str:
    """Return how many runs the records hold."""
    return f"The records hold {len(results()['trained'].all_rows):,} runs.\n"


def optima() -> str:
    """Return the best learning rate at every K, where only memories grow."""
    from denseam.paper.experiments import MEMORIES

    settings = [
        MEMORIES[key] for key in (("relu", "sgd"), ("relu", "adam"), ("relu2", "adam"), ("softmax", "adam"))
    ]
    return _by_scale(settings, lambda v: v.optimum, "best η₀ at K =", ".2g")


def best_losses() -> str:
    """Return the best loss at every N, in proportion."""
    from denseam.paper.experiments import POWERS_ADAM, RELU_ADAM, RELU_SGD, SOFTMAX_ADAM, WIDE

    settings = [
        WIDE.but("identity, SGD (κ = 3, ρ = 10)"), RELU_SGD.but("ReLU, SGD"), RELU_ADAM.but("ReLU, Adam"),
        POWERS_ADAM[2].but("ReLU³, Adam"), SOFTMAX_ADAM.but("softmax, Adam"),
    ]  # fmt: skip
    return _by_scale(settings, lambda v: v.best_loss, "best loss at N =", ".3f")


def best_losses_memories() -> str:
    """Return the best loss at every K, where only memories grow."""
    from denseam.paper.experiments import MEMORIES

    settings = [
        MEMORIES[key] for key in (("relu", "sgd"), ("relu", "adam"), ("relu2", "sgd"), ("softmax", "adam"))
    ]
    return _by_scale(settings, lambda v: v.best_loss, "best loss at K =", ".3f")


def _by_scale(
    settings: Sequence[Any], numbers: Callable[[Any], Mapping[int, float | None]], title: str, form: str
) -> str:
    """Return a table of one number per scale, for settings in each reading."""
    rows: list[tuple[str, ...]] = []
    scales = settings[0].scales(results()["trained"].size)
    for setting in settings:
        for n, (reading, found) in enumerate(results().items()):
            label = "" if n else setting.label
            if found.missing(setting):
                rows.append((label, reading, NOT_RUN, *[""] * (len(scales) - 1)))
                continue
            values = numbers(found.verdict(setting))
            cells = ("–" if values[scale] is None else format(values[scale], form) for scale in scales)
            rows.append((label, reading, *cells))
    return table(("", "reading", f"{title} {scales[0]}", *map(str, scales[1:])), rows)


def digits() -> str:
    """Return the cost of the smallest size's optimum on digits, in each reading."""
    from denseam.paper.experiments import MNIST, MNIST_UNIT
    from denseam.paper.rates import regret

    rows: list[tuple[str, ...]] = []
    for data, settings in (("0 to 1, noise 0.5", MNIST), ("unit variance, noise 1.5", MNIST_UNIT)):
        for n, (reading, found) in enumerate(results().items()):
            cells = []
            for setting in settings:
                if found.missing(setting):
                    cells.append(NOT_RUN)
                else:
                    v = found.verdict(setting)
                    cells.append(f"{v.status}, {regret(v)}")
            rows.append(("" if n else data, reading, *cells))
    return table(("pixels", "reading", "ReLU, SGD", "ReLU, Adam", "softmax, SGD", "softmax, Adam"), rows)


def biases() -> str:
    """Return the best loss and the regret at the largest size under Adam, in training and held out."""
    from denseam.paper.experiments import MEMORIES, POWERS_ADAM

    steep = [s for s in POWERS_ADAM if s.get("power") <= 5]
    rows: list[tuple[str, ...]] = []
    for setting in (*steep, MEMORIES["relu", "adam"].but("p = 1, only memories grow")):
        for n, (reading, found) in enumerate(results().items()):
            cells = []
            for by in ("training", "heldout"):
                v = found.verdict(setting.but(setting.label, by=by))
                largest = max(v.regret)
                loss = v.best_loss[largest]
                assert loss is not None
                cells += [f"{loss:.3f}", f"{100 * v.regret[largest]:.1f} %"]
            rows.append(("" if n else setting.label.removesuffix(", Adam"), reading, *cells))
    return table(("", "reading", "training loss", "regret", "held-out loss", "regret"), rows)


def spike() -> str:
    """Return the exponents of λ_max under Adam at several steps, with b trained, slow and frozen."""
    import numpy as np

    from denseam.paper.own import SLOW_INSIDE, STILL_INSIDE, TRAINED_INSIDE

    steps, rows = (0, 16, 256), []
    for setting in (TRAINED_INSIDE, SLOW_INSIDE, STILL_INSIDE):
        curves = results()["trained"].curves(setting, "lambda_max")
        cells = []
        for step in steps:
            logs = [np.log(values[:, list(x).index(step)]).mean() for x, values in curves.values()]
            cells.append(f"{np.polyfit(np.log(list(curves)), logs, 1)[0]:.2f}")
        rows.append((setting.label, *cells))
    return table(("", *(f"step {step}" for step in steps)), rows)


def compared() -> str:
    """Return the best loss of every optimizer at equal operations, and which to take for each loss."""
    from denseam.paper.compared import CONTESTANTS, DATA, LOSSES, SCHEDULES

    columns = {(data, by): _bests(data, by) for by in LOSSES for data in DATA}
    rows = [
        ("" if n else name, schedule, *(_best_cell(bests, (name, schedule)) for bests in columns.values()))
        for name in CONTESTANTS
        for n, schedule in enumerate(SCHEDULES)
    ]
    head = ("", "schedule", *(f"{data}, {LOSSES[by]}" for data, by in columns))
    advices = [advice(f"By {loss}", [columns[data, by] for data in DATA]) for by, loss in LOSSES.items()]
    return "\n".join([table(head, rows), *advices])


def _bests(data: str, by: Any) -> dict[tuple[str, str], Any]:
    """Return the best of each optimizer and schedule: None if it diverged, `NOT_RUN` if runs are missing."""
    from denseam.paper.compared import SCHEDULES, contest
    from denseam.paper.ranking import best

    found = results()["trained"]
    return {
        (name, schedule): NOT_RUN if found.missing(setting) else best(found, setting)
        for schedule in SCHEDULES
        for name, setting in contest(data, by, schedule).items()
    }


def _best_cell(bests: Mapping[tuple[str, str], Any], of: tuple[str, str]) -> str:
    """Return the best loss with its rate and decay; the lowest of a column that is complete is bold."""
    best = bests[of]
    if best is None or best == NOT_RUN:
        return best or "diverged"
    at = ", ".join(f"{value:.2g}" for value in (best.rate, *dict(best.held).values()))
    others = [] if NOT_RUN in bests.values() else [other.loss for other in bests.values() if other]
    loss = f"**{best.loss:.3f}**" if others and best.loss == min(others) else f"{best.loss:.3f}"
    return f"{loss} ({at})"


def advice(by: str, columns: Sequence[Mapping[tuple[str, ...], Any]]) -> str:
    """Return what to take, and what is about as good, from columns of `Best`, one for each data set."""
    from denseam.paper.ranking import largest_costs
    from denseam.paper.thresholds import SEEDS_AGREE

    if any(NOT_RUN in bests.values() for bests in columns):
        return f"{by}: not decided, since runs are missing.\n"
    costs = largest_costs(columns)
    if not costs:
        return f"{by}: not decided, since each diverges on some data.\n"
    first, *others = sorted(costs, key=lambda of: costs[of])
    near = [", ".join(of) for of in others if costs[of] <= costs[first] + SEEDS_AGREE]
    share, cost = f"{100 * SEEDS_AGREE:g} %", f"{100 * costs[first]:.1f} %"
    rest = (
        f"These cost at most {share} more: {'; '.join(near)}." if near else f"Others cost over {share} more."
    )
    return f"{by} take **{', '.join(first)}**: it is at most {cost} above the best on all data. {rest}\n"


def findings(*names: str) -> str:
    """Return the claims of some of our own figures, each with its word and what was measured."""
    rows = [
        (judgement.claim.text, finding.verdict, finding.measured)
        for figure, judged in judgements()
        if figure.name in names
        for judgement in judged
        for finding in judgement.findings.values()
    ]
    return table(("claim", "", "measured"), rows)


def steps_rule() -> str:
    """Return the best learning rate and loss along the number of steps, which shrink or do not."""
    from denseam.paper.recall_steps import ALONG_STEPS, WHOLE_STEPS

    return _along((*ALONG_STEPS.values(), *WHOLE_STEPS.values()), "eta0")


def steps_time() -> str:
    """Return the best time of T steps and its loss, for several noises."""
    from denseam.paper.recall_steps import TIMED

    return _along(tuple(TIMED.values()), "tau")


def _along(settings: Sequence[Any], axis: str) -> str:
    """Return the best value of an axis and its loss at every scale, a row for each setting."""
    scales = settings[0].scales(results()["trained"].size)
    rows = [(setting.label, *(_best_of(setting, scale, axis) for scale in scales)) for setting in settings]
    return table(("", *(f"{settings[0].letter} = {scale}" for scale in scales)), rows)


def steps_from_one() -> str:
    """Return what the best rate of N = 64 and T = 1 costs at the largest N, for every T."""
    from denseam.paper.recall_steps import ALONG_STEPS, BASES, BOTH

    scales = BOTH["SGD"].scales(results()["trained"].size)
    rows = []
    for name in BASES:
        start = _losses(BOTH[name], min(scales), "eta0")
        value = min(start, key=lambda eta0: start[eta0])
        large = ALONG_STEPS[name, "isotropic"]
        at = {T: _losses(large, T, "eta0") for T in large.scales(results()["trained"].size)}
        costs = [f"{100 * (losses[value] / min(losses.values()) - 1):.1f} %" for losses in at.values()]
        rows.append((name, f"{value:.2g}", *costs))
    return table(("", "best at N = 64, T = 1", *(f"cost at T = {T}" for T in at)), rows)


def _losses(setting: Any, scale: int, axis: str) -> dict[float, float]:
    """Return the value of an axis → the loss at a scale, in the geometric mean over seeds."""
    losses: dict[float, list[float]] = {}
    for row in results()["trained"].rows(setting):
        if row["scale"] == scale:
            diverged = row["status"] == "diverged"
            losses.setdefault(row[axis], []).append(math.inf if diverged else row["final_mse"])
    return {value: math.exp(_mean_log(seeds)) for value, seeds in losses.items()}


def _best_of(setting: Any, scale: int, axis: str) -> str:
    """Return the value of an axis with the lowest loss, and that loss."""
    means = _losses(setting, scale, axis)
    if not means:
        return NOT_RUN
    value = min(means, key=lambda v: means[v])
    return f"{value:.2g}: {means[value]:.3f}" if math.isfinite(means[value]) else "diverges"


#: Suite of `make test-faults` → the heading of its rows.
_SUITES = {"faults": "injected faults", "kills": "kills", "fuzz": "fuzzed inputs"}


def faults() -> str:
    """Return what the suite of faults has tried, and how often the outcome was wrong."""
    document = json.loads((Path(__file__).parent / "faults.json").read_text(encoding="utf-8"))
    rows = []
    for suite, title in _SUITES.items():
        counts = {name: (row["tried"], row["wrong"]) for name, row in document[suite].items()}
        tried, wrong = map(sum, zip(*counts.values(), strict=True))
        rows.append((f"**{title}**", f"**{tried}**", f"**{tried - wrong}**", f"**{wrong}**"))
        rows += [(name, str(n), str(n - bad), str(bad)) for name, (n, bad) in counts.items()]
    return table(("", "tried", "handled", "wrong"), rows)


def energies(part: str) -> str:
    """Return the rows of further activations in a regime, those of norms, or the wrong rows beside them."""
    from docs import energies

    others = {"controls": energies.controls, "features": energies.features}
    return others[part]() if part in others else energies.table(part)


def best_energy(size: str) -> str:
    """Return the error and the capacity of every activation at a size."""
    from docs import best_energy

    return best_energy.table(size)


def recall_curves() -> str:
    """Return the errors of memories that recall far beyond the steps of their training."""
    from denseam.paper.recall_steps import BEYOND

    of, rows = results()["trained"], []
    for (T, tau, burn_in), curve in BEYOND.items():
        cells = _curve_cells(of.measured(curve)) if of.is_measured(curve) else (NOT_RUN, *("",) * 5)
        rows.append((f"{T}, {tau:g}", f"{burn_in:g}" if burn_in else "", *cells))
    head = ("$T$, $\\tau$", "burn-in", "at $T$", "after 200 steps", "over $T$ (in training)")
    return table((*head, "over the least error", "at rest", "rest points"), rows)


def _curve_cells(kept: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of one memory."""
    T = int(kept["trained_steps"])
    errors, own = kept["heldout_error"], kept["trained_error"]
    return (
        f"{errors[T]:.3f}", f"{errors[-1]:.3f}",
        f"{errors[-1] / errors[T]:.2f} ({own[-1] / own[T]:.2f})", f"{errors[-1] / errors.min():.2f}",
        f"{100 * kept['heldout_at_rest'][-1]:.0f} %", str(int(kept["heldout_rest_points"])),
    )  # fmt: skip


def completion() -> str:
    """Return how well hidden halves are predicted without a memory."""
    from docs import completion

    return completion.sentence()


def clothes() -> str:
    """Return the losses of steps of recall on clothes."""
    from docs import clothes

    return clothes.table()


#: What `calibration.together` wrote for N = 2048.
TOGETHER = ROOT / "calibration" / "together-runs"


def together() -> str:
    """Return the set that was tuned small and short, beside the best of a search at the target."""
    judged = json.loads((TOGETHER / "together.json").read_text(encoding="utf-8"))
    searched = json.loads((TOGETHER / "search.json").read_text(encoding="utf-8"))
    sets = {"tuned small": judged["tuned"], "best of the search": judged["best"]}
    losses = {"tuned small": judged["losses"], "best of the search": judged["best_losses"]}
    rows = [
        (name, *(f"{value:.4g}" for value in values.values()), f"{math.exp(_mean_log(losses[name])):.4f}")
        for name, values in sets.items()
    ]
    worst = max(judged["regret_by_seed"])
    return (
        table(("", *(f"`{axis}`" for axis in judged["tuned"]), "loss"), rows)
        + f"\nThe tuned set costs {100 * judged['regret']:.2f} % ({100 * worst:.2f} % with the worst of "
        f"{len(judged['losses'])} seeds that neither has seen). Tuning took "
        f"{judged['tuning_operations']:.1e} operations, {100 * judged['share_of_search']:.3f} % of those of "
        f"the search with its {searched['points'] + searched['scouted']} runs. The bound that `tune` gave "
        f"was {100 * judged['regret_bound']:g} %.\n"
    )


def _mean_log(values: Sequence[float]) -> float:
    return sum(map(math.log, values)) / len(values)


#: File under `_generated` → what it holds.
FRAGMENTS: Mapping[str, Callable[[], str]] = {
    "claims-summary.md": summary,
    "claims-exceptions.md": exceptions,
    "records.md": records,
    "optima.md": optima,
    "best-losses.md": best_losses,
    "best-losses-memories.md": best_losses_memories,
    "digits.md": digits,
    "spike.md": spike,
    "biases.md": biases,
    "optimizers-compared.md": compared,
    "findings-optimizers.md": functools.partial(findings, "optimizers", "muon"),
    "findings-decay.md": functools.partial(findings, "decay"),
    "findings-lengths.md": functools.partial(findings, "batch-rule", "horizon-rule"),
    "findings-biases.md": functools.partial(findings, "steep-biases"),
    "steps-rule.md": steps_rule,
    "steps-from-one.md": steps_from_one,
    "steps-time.md": steps_time,
    "findings-steps.md": functools.partial(findings, "steps-rule", "steps-size"),
    "findings-times.md": functools.partial(findings, "steps-time", "steps-digits"),
    "findings-softmax-steps.md": functools.partial(findings, "steps-softmax"),
    "findings-completion.md": functools.partial(findings, "completion"),
    "recall-curves.md": recall_curves,
    "findings-recall.md": functools.partial(findings, "recall-curves"),
    "completion.md": completion,
    "clothes.md": clothes,
    "together.md": together,
    "faults.md": faults,
    "energies-proportional.md": functools.partial(energies, "proportional"),
    "energies-memories-only.md": functools.partial(energies, "memories-only"),
    "energies-controls.md": functools.partial(energies, "controls"),
    "energies-features.md": functools.partial(energies, "features"),
    "best-energy-laptop.md": functools.partial(best_energy, "laptop"),
}


if __name__ == "__main__":
    write_readme()
    print(readme())
