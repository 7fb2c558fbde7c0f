"""What is printed for people."""

from __future__ import annotations

from typing import Any

from denseam.report.wording import duration, number, quantity


def print_table(title: str, head: list[str], rows: list[list[str]]) -> None:
    """Print a title and a table."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    print(title)
    for row in (head, ["─" * w for w in widths], *rows):
        print("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)))


def regret_text(value: float | None) -> str:
    """Return a regret in per cent."""
    return "" if value is None else "diverges" if value == float("inf") else f"{100 * value:.2f} %"


def print_verdicts(verdicts: list[Any]) -> None:
    """Print a table and a few sentences for each verdict."""
    for v in verdicts:
        print_table(
            f"{v.name}: {v.status}",
            [v.scale_letter, f"best {v.axis}", "best loss", "regret", "edge of stability"],
            [
                [
                    str(scale),
                    number(v.optimum[scale]),
                    number(v.best_loss[scale]),
                    "(base)" if scale == min(v.optimum) else regret_text(v.regret.get(scale)),
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
        f"{study}: the optimum as training goes on",
        ["epoch", *map(str, scales)],
        [[str(epoch), *(number(row[s]) for s in scales)] for epoch, row in table.items()],
    )
    print()


def print_check(check: Any) -> None:
    """Print the slopes of a check as a table, and what follows from them."""
    steps = check.measured.steps
    rows = []
    for name in dict.fromkeys(s.name for s in check.slopes):
        mine = {s.step: s for s in check.slopes if s.name == name}
        first = next(iter(mine.values()))
        if first.expected is None:
            continue
        wrong = any(s.ok is False for s in mine.values())
        cells = [
            "gone" if s.slope is None else f"{s.slope:+.2f}" + ("!" if s.ok is False else "")
            for s in mine.values()
        ]
        judged = next((s.judged for s in mine.values() if s.judged), "")
        rows.append(
            [name, f"{first.expected:+g}", *cells, "WRONG" if wrong else "ok" if judged else "", judged]
        )
    print_table(
        f"{check.name}: {check.status}\nexponents in {check.letter} over "
        f"{', '.join(map(str, check.measured.scales))}; {check.measured.seeds} seeds; at steps",
        ["quantity", "expected", *map(str, steps), "", "judged for"],
        rows,
    )
    print(", ".join(f"{k} {v}" for k, v in check.desiderata.items()))
    if check.cause is not None:
        worst = check.failing()
        if worst and worst[0].slope is not None and worst[0].ci is not None:
            w = worst[0]
            print(
                f"first to break: {w.name} at step {w.step}, {check.letter}^{w.slope:.2f} "
                f"[{w.ci[0]:.2f}, {w.ci[1]:.2f}]"
            )
        print(check.reason)
    print()


def print_proposal(proposal: Any) -> None:
    """Print the exponents that were found."""
    rule = proposal.parameterization
    print_table(
        "proposed exponents, from the slopes of Z, F and ΔZ",
        ["", f"in {proposal.letter}", "interval", "taken as"],
        [
            [
                name,
                f"{value:+.3f}",
                "[{:+.3f}, {:+.3f}]".format(*proposal.intervals[name]),
                str(getattr(rule, name)),
            ]
            for name, value in proposal.exponents.items()
        ],
    )
    if proposal.constants:
        print("with", ", ".join(f"{k} = {v:.3g}" for k, v in proposal.constants.items()))
    print(f"check with these: {proposal.check.status} {proposal.check.reason}".rstrip())
    if proposal.verdict is not None:
        print(f"sweep with these: {proposal.verdict.status}. {proposal.verdict.reason}")


def print_plan(made: Any, wanted: Any) -> None:
    """Print what tuning and training would take."""

    def cells(row: Any) -> list[str]:
        s = row.shape
        return [row.what, *map(str, (s.N, s.K, s.P, s.B, row.runs)), f"{row.operations:.2e}",
                quantity(row.bytes_per_run, "B"), duration(row.seconds)]  # fmt: skip

    m = made.machine
    cores = f", {m.cores} cores" if m.platform == "cpu" else ""
    print_table(
        f"{wanted.study.name}: {wanted.study.source().describe()}\non {m.name}{cores}, "
        f"{m.product_rate / 1e9:.0f} GFLOP/s in products",
        ["", "N", "K", "P", "B", "runs", "operations", "memory a run", "time, about"],
        [cells(row) for row in (*made.tuning, made.training, made.sweep)],
    )
    print(
        f"tuning small: {100 * made.share:.2g} % of the operations of a sweep at the target "
        "(more, where the grid must be widened or the sizes are too small); compiling, some seconds for each "
        "size, comes on top"
    )


def print_tuned(found: Any, files: list[str]) -> None:
    """Print what a search found, and what to do next."""
    print_verdicts([found.verdict, *found.others.values()])
    c, g = found.cost, found.goal
    if found.recommended:
        low, high = found.eta0_ci
        extra = "".join(f", {k} = {v:.3g}" for k, v in found.constants.items())
        print(f"use eta0 = {found.eta0:.3g} [{low:.3g}, {high:.3g}]{extra}; base {g.letter} = {found.base}\n")
        print(found.scales_at_target().explain(g.study.regime.shape(found.base)))
    else:
        print(f"no learning rate is recommended; {found.advice}")
    print(
        f"\ncost: {c.tuning:.2e} operations in {c.runs} runs, {duration(c.seconds)}; this is "
        f"{100 * c.share:.2g} % of a sweep at the target, {c.target_sweep:.2e}; one run there takes "
        f"{c.target_run:.2e}"
    )
    print(*files, sep="\n")
    if found.recommended:
        print(f"now: denseam train {g.study.data} --tuned {found.folder}")


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
        print(
            f"the loss left what the small models predict after epoch {trained.left_at} ({trained.left_side})"
        )
    elif trained.expected is not None:
        low, high = (trained.zero_mse * float(v[-1]) for v in (trained.expected.low, trained.expected.high))
        print(f"as the small models predict: {low:.4g} … {high:.4g}")
    print(*files, sep="\n")
    level = f"{trained.noise:g}"
    print(f"now: denseam recall {folder}/memory.safetensors INPUT --noise {level} --steps 3 --out recalled")


def print_recalled(results: list[Any]) -> None:
    """Print errors, angles and energies along recall."""
    rows = [r.to_json() for r in results]
    steps = len(results[0].errors) - 1

    def moves(r: dict[str, Any], what: str, form: str, *when: str) -> str:
        return " → ".join(format(r[f"{what}_{w}"], form) for w in when)

    print_table(
        f"{rows[0]['samples']} samples, {results[0].memory.model.K} memories; at first → step 1 → step "
        f"{steps}\nerror: squared, per feature; cosine: of the angle to the sample",
        ["noise", "error", "least error", "cosine", "energy", "largest rise", "at rest"],
        [
            [
                f"{r['noise']:g}",
                moves(r, "error", ".3g", "start", "once", "end"),
                f"{r['error_best']:.3g} after {r['best_step']}",
                moves(r, "cosine", ".2f", "start", "once", "end"),
                moves(r, "energy", ".4g", "start", "end"),
                f"{r['largest_rise']:.0e}",
                f"{r['converged']}/{r['samples']}",
            ]
            for r in rows
        ],
    )
    if any(0 < r["best_step"] < steps and r["error_end"] > 1.2 * r["error_best"] for r in rows):
        print(
            "further steps lead downhill to attractors of the memory, away from the samples: training asks "
            "for one step (--steps)"
        )


def print_device_plan(planned: Any) -> None:
    """Print what one model takes on each mesh of devices."""
    parts, where = ("products", "memory", "links"), planned.device
    print_table(
        f"{planned.shape} on {planned.devices} × {where.name}, {planned.optimizer}, {planned.epochs} epochs: "
        f"{quantity(planned.meshes[0].operations, 'FLOP')} a step",
        ["mesh", "memory of each", "fits", "sent by each", "a step", *parts, "training"],
        [
            [
                f"memories={mesh.memories},batch={mesh.batch}",
                quantity(mesh.bytes_per_device, "B"),
                "yes" if mesh.fits else "no",
                quantity(mesh.sent, "B"),
                duration(mesh.step_seconds),
                *(f"{100 * mesh.seconds[part] / mesh.step_seconds:.0f} %" for part in parts),
                duration(planned.training_seconds(mesh)),
            ]
            for mesh in planned.meshes[:8]
        ],
    )
    origin = "measured just now"
    if where.name != "here":
        origin = f"{'measured on one' if where.measured else 'those of its maker'}; links are its maker's"
    print(f"rates of {where.name}: {origin}. Train with --mesh as in the first row.")
