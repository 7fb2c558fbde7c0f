"""Results as text for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from shlex import quote
from typing import Any

from denseam.analysis.causes import Cause
from denseam.analysis.sentences import at_most, percent
from denseam.report.wording import duration, number, quantity


def print_table(title: str, head: list[str], rows: list[list[str]]) -> None:
    """Print a title and a table."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    print(title)
    for row in (head, ["─" * w for w in widths], *rows):
        print("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)))


def print_files(files: Sequence[str]) -> None:
    """Print one file per line."""
    print(*files, sep="\n", end="\n" if files else "")


def _regret_text(value: float | None) -> str:
    return "" if value is None else "diverges" if value == float("inf") else f"{100 * value:.2f} %"


def print_verdicts(verdicts: list[Any]) -> None:
    """Print a table and some sentences for each verdict."""
    for v in verdicts:
        print_table(
            f"{v.name}: {v.status}",
            [v.scale_letter, f"best {v.axis}", "best loss", "regret", "edge of stability"],
            [
                [
                    str(scale),
                    number(v.optimum[scale]),
                    number(v.best_loss[scale]),
                    "(base)" if scale == min(v.optimum) else _regret_text(v.regret.get(scale)),
                    "beyond the grid" if v.edge[scale] is None else number(v.edge[scale]),
                ]
                for scale in sorted(v.optimum)
            ],
        )
        lines = [v.reason, *v.flags, v.next_step]
        if v.collapse is not None:
            lines.append(
                f"Loss curves of the scales differ {v.collapse:.2g} times as much as those of seeds."
            )
        print(*(line for line in lines if line), sep="\n", end="\n\n")


def print_horizon(study: str, table: dict[int, dict[int, float | None]]) -> None:
    """Print the optimum of every scale against the epoch."""
    scales = sorted(next(iter(table.values())))
    print_table(
        f"{study}: the optimum during training",
        ["epoch", *map(str, scales)],
        [[str(epoch), *(number(row[s]) for s in scales)] for epoch, row in table.items()],
    )
    print()


def print_check(check: Any) -> None:
    """Print the slopes of a check as a table, and the conclusions."""
    slopes: dict[str, list[Any]] = {}
    for s in check.slopes:
        if s.expected is not None:
            slopes.setdefault(s.name, []).append(s)
    print_table(
        f"{check.name}: {check.status}\nexponents in {check.letter} over "
        f"{', '.join(map(str, check.measured.scales))}; {check.measured.seeds} seeds; at steps",
        ["quantity", "expected", *map(str, check.measured.steps), "", "judged for"],
        [_check_row(name, by_step) for name, by_step in slopes.items()],
    )
    print(", ".join(f"{k} {v}" for k, v in check.desiderata.items()))
    if check.cause is not None:
        worst = next(iter(check.failing()), None)
        if worst is not None and worst.slope is not None and worst.ci is not None:
            interval = "[{:.2f}, {:.2f}]".format(*worst.ci)
            print(
                f"first to break: {worst.name} at step {worst.step}, "
                f"{check.letter}^{worst.slope:.2f} {interval}"
            )
        print(check.reason)
    print()


def _check_row(name: str, slopes: Sequence[Any]) -> list[str]:
    """Return the cells of one quantity; `slopes` are those at each step."""
    cells = [
        "gone" if s.slope is None else f"{s.slope:+.2f}" + ("!" if s.ok is False else "") for s in slopes
    ]
    judged = next((s.judged for s in slopes if s.judged), "")
    result = "WRONG" if any(s.ok is False for s in slopes) else "ok" if judged else ""
    return [name, f"{slopes[0].expected:+g}", *cells, result, judged]


def print_proposal(proposal: Any, files: Sequence[str], next_line: str | None) -> None:
    """Print which terms were off, what was changed, and what is left."""
    letters = list(next(iter(proposal.factors.values())).apart)
    print_table(
        f"{proposal.study.name}: {proposal.status}\nexponents along {proposal.letter}"
        + (f", and where {', '.join(letters[:-1])} or {letters[-1]} grows alone" if letters else ""),
        ["", "was", f"in {proposal.letter}, all" if letters else f"in {proposal.letter}", "interval",
         "taken as", *letters, *(["sum"] if letters else [])],
        [_proposal_row(name, found) for name, found in proposal.factors.items()],
    )  # fmt: skip
    if any(not law.is_power for found in proposal.factors.values() for law in found.apart.values()):
        print("~ the exponent changes with the ratios of the sizes; the rule holds at these ratios")
    law = proposal.activity.size[1.0]
    print(
        f"activations are of {'' if law.fraction == 0 else 'size '}{proposal.activity.family.value}: "
        f"σ goes as K^{law.exponent:.2f}, active memories as K^{proposal.activity.active[1.0].exponent:.2f}"
    )
    print(f"off before: {_terms(proposal.start)}")
    print(f"left: {_terms(proposal.check)}")
    if proposal.constants:
        print("constants:", ", ".join(f"{k} = {v:.3g}" for k, v in proposal.constants.items()))
    if proposal.unit != 1:
        print(f"learning rates: eta0 in units of {proposal.unit:.3g}")
    if proposal.verdict is not None:
        print(f"sweep with these: {proposal.verdict.status}. {proposal.verdict.reason}")
    print(proposal.reason)
    print_files(files)
    if next_line is not None:
        print(f"next: {next_line}")


def _proposal_row(name: str, found: Any) -> list[str]:
    """Return the cells of one factor: a fraction where the interval allows one."""
    law = found.along
    apart = [
        f"{own.exponent:+.2f} ± {(own.interval[1] - own.interval[0]) / 2:.2f}" + ("" if own.is_power else "~")
        for own in found.apart.values()
    ]
    total = [] if found.total is None else [f"{found.total:+.2f}"]
    interval = "[{:+.3f}, {:+.3f}]".format(*law.interval)
    return [name, f"{found.before:+g}", f"{law.exponent:+.3f}", interval, str(found.power), *apart, *total]


def _terms(check: Any) -> str:
    """Return the terms of a check whose exponents are wrong, each at the first step that shows it."""
    wrong = {slope.name: slope for slope in reversed(check.failing())}
    words = [
        f"{slope.name} ({'not finite' if slope.slope is None else f'{check.letter}^{slope.slope:.2f}'})"
        for slope in reversed(wrong.values())
    ]
    return ", ".join(words) or "nothing"


def print_plan(plan: Any, goal: Any) -> None:
    """Print what tuning and training would cost."""

    def cells(row: Any) -> list[str]:
        sizes = row.shape.to_json()
        return [row.what, *map(str, (*sizes.values(), row.runs)), f"{row.operations:.2e}",
                quantity(row.bytes_per_run, "B"), duration(row.seconds)]  # fmt: skip

    m = plan.machine
    cores = f", {m.cores} cores" if m.platform == "cpu" else ""
    print_table(
        f"{goal.study.name}: {goal.study.source().describe()}\non {m.name}{cores}, "
        f"{m.product_rate / 1e9:.0f} GFLOP/s in products",
        ["", *goal.shape.to_json(), "runs", "operations", "memory per run", "time (about)"],
        [cells(row) for row in (*plan.tuning, plan.training, plan.sweep)],
    )
    print(plan.use.describe())
    print(
        f"tuning at small sizes: {100 * plan.share:.2g} % of the operations of a sweep at the target "
        "(more if the grid must be widened or the sizes are too small); compiling adds some seconds for each "
        "size"
    )


def print_tuned(tuned: Any, files: list[str]) -> None:
    """Print the result of a search, and what to do next."""
    from denseam.studies.runs import explain_run
    from denseam.workflow.data_use import data_use

    c, g = tuned.cost, tuned.goal
    if tuned.whole is not None:
        _print_set(tuned)
    sizes = ", ".join(f"{scale} ({seeds} seed{'s' * (seeds > 1)})" for scale, seeds in tuned.scales.items())
    print(f"{g.study.name}: {tuned.status}, tuned at {g.letter} = {sizes} for {g.letter} = {g.target}")
    print(_forecast_text(tuned))
    if tuned.recommended:
        print()
        study, run = tuned.recipe.run()
        print(explain_run(study, run, base=study.shape(min(tuned.scales))))
    else:
        print(f"no learning rate is recommended; {tuned.advice}")
        if tuned.commands:
            print("commands that would settle it:", *(f"  {line}" for line in tuned.commands), sep="\n")
        print(f"to train anyway: {_train_line(tuned)} --accept")
    print()
    if tuned.verdict.cause is not Cause.TOO_FEW_SEEDS:  # the search takes one seed where that suffices
        print(f"the sizes alone: {tuned.verdict.status}. {tuned.verdict.reason}")
    print(data_use(g).describe())
    print(
        f"cost: {c.tuning:.2e} operations in {c.runs} runs, {duration(c.seconds)}; this is "
        f"{100 * c.share:.2g} % of a sweep at the target, {c.target_sweep:.2e}; one run there takes "
        f"{c.target_run:.2e}"
    )
    print_files(files)
    if tuned.recommended:
        print(f"next: {_train_line(tuned)}")


def _print_set(tuned: Any) -> None:
    """Print every axis of a set: its best value at each size and length, and its value at the target."""
    whole, letter = tuned.whole, tuned.goal.letter
    axes = whole.to_json(tuned.goal.study.name, tuned.tolerance)
    sizes, lengths = list(whole.sizes), sorted(whole.lengths)[1:]
    head = [
        "",
        *(f"{letter} = {n}" for n in sizes),
        *(f"{e} epochs" for e in lengths),
        "at the target",
        "if left",
        "",
    ]
    rows = []
    for name, axis in axes.items():
        left = whole.forecast.axes[name].left
        by = [*(axis["by_size"][str(n)] for n in sizes), *(axis["by_epochs"][str(e)] for e in lengths)]
        times = "×" if axis["relative"] else ""
        values = [f"{times}{value:.6g}" for value in (*by, axis["value"])]
        limit = ", a limit of its range" if axis["at_bound"] else ""
        rows.append([name, *values, percent(left), f"{axis['status']}{limit}"])
    title = "best values at each size"
    if lengths:
        title += f", {tuned.goal.short_epochs} epochs; and at {letter} = {whole.base} with more epochs"
    print_table(title, head, rows)
    print("if left: what the best value of the smallest size would cost at the target, by itself")
    for name, axis in axes.items():
        if axis["power_applied"]:
            power, error = axis["power_of_length"]
            of = f"1 - {name}" if axis["from_one"] else name
            applied = f"epochs^{axis['power_applied']:.2f} is sure, and is applied"
            print(f"the best {of} goes as epochs^({power:.2f} ± {error:.2f}); {applied}")
    if lengths and not any(axis["power_applied"] for axis in axes.values()):
        print("no best value surely moves with the epochs")
    print()


def _train_line(tuned: Any) -> str:
    return f"denseam train {quote(tuned.goal.study.data)} --tuned {quote(str(tuned.folder))}"


def _forecast_text(tuned: Any) -> str:
    """Return the value, its cost and what they rest on, a sentence each."""
    made, letter, tolerance = tuned.forecast, tuned.goal.letter, percent(tuned.tolerance)
    extra = "".join(f", {k} = {v:.6g}" for k, v in tuned.constants.items())
    if tuned.whole is not None:
        extra += f", batch = {tuned.goal.shape.B}, epochs = {tuned.goal.study.epochs}"
    verb, largest = "use" if tuned.recommended else "forecast:", max(tuned.scales)
    line = f"{verb} eta0 = {made.value:.3g}{extra} at {letter} = {tuned.goal.target}"
    lines = [line]
    if math.isfinite(made.regret_bound):
        low, high = made.interval
        lines = [
            f"{line}; its best value there is expected in [{low:.3g}, {high:.3g}]",
            f"cost against the best {made.setting.by} loss: {at_most(made.regret_bound)}, typically "
            f"{100 * made.predicted_regret:.2g} %; the tolerance is {tolerance}",
        ]
    else:
        reason = ": training diverges at a value beside the best one" if made.at_edge else ""
        lines.append(f"its cost has no bound{reason}")
    if tuned.drift_corrected:
        drift = made.x - tuned.profiles[largest].optimum
        lines.append(f"this corrects for a drift of {drift:+.2f} decades from {letter} = {largest}")
    if not any(made.entry.limits):
        calibrated = made.entry.families > 0
        reason = "the data sets of the calibration differ too much" if calibrated else "it has no calibration"
        lines.append(f"no bound is given for this setting: {reason}")
    elif not made.entry.families:
        what = "this setting" if tuned.whole is None else "several hyperparameters, nor for a longer training"
        lines.append(f"no calibration exists for {what}: a bound needs half the risk that it needs elsewhere")
    return "\n".join(lines)


#: What is added to a learning rate, by where it comes from.
ORIGINS = {"tuned": " at this size", "given": ", which was given, not tuned"}


def print_trained(trained: Any, folder: str, files: list[str]) -> None:
    """Print how a training ended."""
    if trained.status == "diverged":
        print(f"diverged at step {trained.diverged_at}; no model was written")
        return
    heldout = "" if trained.heldout_mse is None else f", {trained.heldout_mse:.4g} on held-out samples"
    print(
        f"MSE {trained.final_mse:.4g} per feature{heldout}; predicting zero gives {trained.zero_mse:.4g}; "
        f"{trained.operations:.2e} operations in {duration(trained.seconds)}"
    )
    if trained.left_at is not None:
        side = f"epoch {trained.left_at} ({trained.left_side})"
        print(f"the loss left the range predicted by the small models after {side}")
    elif trained.predicted_mse is not None:
        low, high = trained.predicted_mse
        print(f"predicted by the small models: {low:.4g} … {high:.4g}")
    else:
        print(f"no loss curve was predicted for eta0 = {trained.eta0:.3g}{ORIGINS[trained.eta0_from.value]}")
    print_files(files)
    few = "" if trained.recalls else " --steps 3"
    options = f"--noise {trained.noise:g}{few} --out recalled"
    print(f"next: denseam recall {quote(f'{folder}/memory.safetensors')} INPUT {options}")


def print_memorized(result: Any, folder: str, files: list[str]) -> None:
    """Print how patterns are stored, and how they were recalled."""
    model, space = result.memory.model, result.spacing
    print(f"{result.origin}: {model.K} patterns of {model.N} features, stored without training")
    if space is not None and model.K == 1:
        print("a single pattern, which is recalled from anything")
    elif space is not None:
        few = "" if space.compared == model.K else f" (of {space.compared} compared with all others)"
        print(
            f"β = {float(model.activation.beta):.4g}; the closest patterns{few} are {space.closest[0]} and "
            f"{space.closest[1]}, {number(space.separation)} apart per feature"
        )
        if space.noise:
            print(
                f"noise {space.noise:g}: {100 * space.promised:.3g} % of the patterns are promised to be "
                "recalled in one step"
            )
    else:
        power = f"ReLU^{model.activation.power:g}"
        print(f"{power}: about {result.capacity:.3g} random patterns of signs could be stored")
    if result.trials:
        print_table(
            "trials",
            ["cues", "noise", "hidden", "recalled", "error", "steps", "at rest"],
            [
                [
                    str(t.cues), f"{t.noise:g}", f"{100 * t.hidden:g} %", f"{100 * t.recalled:.4g} %",
                    f"{t.error:.2g}", f"{t.steps:.1f}", f"{100 * t.at_rest:.4g} %",
                ]
                for t in result.trials
            ],
        )  # fmt: skip
    print_files(files)
    print(f"next: denseam recall {quote(folder)} INPUT --hide 0.5 --out recalled")


def print_recalled(results: list[Any], files: list[str]) -> None:
    """Print errors, angles and energies of recall, and the files."""
    rows = [r.to_json() for r in results]
    steps = len(results[0].errors) - 1

    def along(r: dict[str, Any], name: str, form: str, *times: str) -> str:
        return " → ".join(format(r[f"{name}_{time}"], form) for time in times)

    print_table(
        f"{rows[0]['samples']} samples, {results[0].memory.model.K} memories; start → step 1 → step "
        f"{steps}\nerror: squared, per feature; cosine: of the angle to the sample",
        ["noise", "error", "least error", "cosine", "energy", "largest rise", "at rest"],
        [
            [
                f"{r['noise']:g}",
                along(r, "error", ".3g", "start", "once", "end"),
                f"{r['error_best']:.3g} after {r['best_step']}",
                along(r, "cosine", ".2f", "start", "once", "end"),
                along(r, "energy", ".4g", "start", "end"),
                f"{r['largest_rise']:.0e}",
                f"{r['converged']}/{r['samples']}",
            ]
            for r in rows
        ],
    )
    for r in results:
        if r.hint is not None:
            level = f"noise {r.noise:g}: " if len(results) > 1 else ""
            print(f"{level}{r.hint.describe()}")
    print_files(files)


def print_consistency(result: Any, files: list[str]) -> None:
    """Print how well two memories agree, and the files."""
    print(
        f"N = {result.large.memory.model.N} and {result.small.memory.model.N}, {len(result.shrunk)} samples, "
        f"step {result.steps}, noise {result.noise:g}: correlation {result.correlation:.3f} (with another "
        f"sample's answer {result.chance:.3f}), relative error {result.relative_error:.3f}"
    )
    print_files(files)


def print_device_plan(plan: Any) -> None:
    """Print the cost of one model on each mesh of devices."""
    parts, device = ("products", "memory", "links"), plan.device
    print_table(
        f"{plan.shape} on {plan.devices} × {device.name}, {plan.optimizer}, {plan.epochs} epochs: "
        f"{quantity(plan.meshes[0].operations, 'FLOP')} per step",
        ["mesh", "memory of each", "fits", "sent by each", "per step", *parts, "training"],
        [
            [
                f"memories={mesh.memories},batch={mesh.batch}",
                quantity(mesh.bytes_per_device, "B"),
                "yes" if mesh.fits else "no",
                quantity(mesh.sent, "B"),
                duration(mesh.step_seconds),
                *(f"{100 * mesh.seconds[part] / mesh.step_seconds:.0f} %" for part in parts),
                duration(plan.training_seconds(mesh)),
            ]
            for mesh in plan.meshes[:8]
        ],
    )
    origin = "measured just now"
    if device.name != "here":
        origin = f"{'measured on one' if device.measured else 'from its maker'}; links are from its maker"
    print(f"rates of {device.name}: {origin}. Train with --mesh as in the first row.")
