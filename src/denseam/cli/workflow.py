"""From data to a trained memory: `plan`, `tune`, `train`, `recall`, `consistency`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from denseam.cli.options import (
    Activation,
    Beta,
    BiasInitOption,
    DataArgument,
    Heldout,
    Json,
    Kappa,
    Noise,
    OptimizerOption,
    ParameterizationOption,
    Power,
    Precision,
    Quiet,
    RegimeOption,
    Rho,
    Shrink,
    Uncentered,
    UnitVariance,
)
from denseam.cli.program import (
    OK,
    app,
    interruptible,
    needed,
    print_json,
    progress_of,
    whole,
)
from denseam.cli.text import print_table, print_verdicts
from denseam.errors import InputError, listed, refuse
from denseam.report.wording import duration, quantity

OptionalData = Annotated[
    str | None, typer.Argument(help="The data, as for tune; none if --devices is given with sizes.")
]
Features = Annotated[int | None, typer.Option(help="N of the target (that of the data).")]
Memories = Annotated[int | None, typer.Option(help="K of the target; alone, only memories grow.")]
Samples = Annotated[int | None, typer.Option(help="P of the target.")]
Batch = Annotated[int | None, typer.Option(help="B of the target.")]
ScalesToTune = Annotated[str | None, typer.Option(help="Sizes to tune at, if not chosen from the data.")]
Epochs = Annotated[int | None, typer.Option(help="Passes over the data (64).")]
Seeds = Annotated[int, typer.Option(help="Seeds to begin with.")]


def _goal(data: str, **given: Any) -> Any:
    """Return the goal that the options describe."""
    from denseam.data.preparation import Preparation
    from denseam.workflow.goals import goal

    options = {k: v for k, v in given.items() if v is not None}
    prepared = {k: options.pop(k) for k in ("shrink", "unit_variance", "heldout") if k in options}
    if options.pop("uncentered", False):
        options["centred"] = False
    scales = whole("scales", options.pop("scales", None))
    return goal(data, preparation=Preparation(**prepared), scales=scales, **options)


@app.command()
def plan(
    data: OptionalData = None,
    activation: Activation = None,
    power: Power = None,
    optimizer: OptimizerOption = None,
    regime: RegimeOption = None,
    features: Features = None,
    memories: Memories = None,
    samples: Samples = None,
    batch: Batch = None,
    kappa: Kappa = None,
    rho: Rho = None,
    beta: Beta = None,
    scales: ScalesToTune = None,
    seeds: Seeds = 3,
    epochs: Epochs = None,
    precision: Precision = None,
    shrink: Shrink = None,
    unit_variance: UnitVariance = None,
    heldout: Heldout = None,
    devices: Annotated[int | None, typer.Option(help="How many devices train one model together.")] = None,
    device: Annotated[
        str | None, typer.Option(help="Their kind: h200, h100, a100, or here (measured) (h200).")
    ] = None,
    json_: Json = False,
) -> int:
    """Say what tuning and training would take, before anything runs."""
    from denseam.workflow.planning import plan as make

    if devices is not None or device is not None:
        sizes = {"features": features, "memories": memories, "samples": samples, "batch": batch}
        return _plan_devices(
            sizes, kappa, rho, beta, optimizer or "adam", epochs or 64, devices, device or "h200", json_,
        )  # fmt: skip
    if data is None:
        raise InputError("data is needed, or devices: how many devices train one model together")
    wanted = _goal(
        data, activation=activation, power=power, optimizer=optimizer, regime=regime, features=features,
        memories=memories, samples=samples, batch=batch, kappa=kappa, rho=rho, beta=beta, scales=scales,
        epochs=epochs, precision=precision, shrink=shrink, unit_variance=unit_variance, heldout=heldout,
    )  # fmt: skip
    made = make(wanted, seeds=seeds)
    if json_:
        print_json(made.to_json())
    else:
        _print_plan(made, wanted)
    return OK


def _plan_devices(
    sizes: dict[str, int | None],
    kappa: float | None,
    rho: float | None,
    beta: float | None,
    optimizer: str,
    epochs: int,
    devices: int | None,
    kind: str,
    json_: bool,
) -> int:
    """Say what one model takes on many devices, from the sizes alone."""
    from denseam.rules import Shape
    from denseam.rules.table import OPTIMIZERS
    from denseam.workflow import roofline

    N = sizes["features"]
    refuse(
        ["features is needed: the N of the model"] * (N is None)
        + [f"optimizer must be {listed(OPTIMIZERS)}, got {optimizer!r}"] * (optimizer not in OPTIMIZERS)
    )
    assert N is not None
    P = sizes["samples"] or round((5 if rho is None else rho) * N)
    B = sizes["batch"] or max(1, int((0.1 if beta is None else beta) * P + 1e-9))
    shape = Shape(N=N, K=sizes["memories"] or round((2 if kappa is None else kappa) * N), P=P, B=B)
    if kind == "here":
        import jax

        from denseam.workflow.calibration import rates_here

        at_hand = len(jax.devices())
        devices = at_hand if devices is None else devices
        if devices != at_hand:
            raise InputError(
                f"devices must be the {at_hand} that are here, got {devices}; their rates hold together"
            )
        progress_of(False).message("measuring the devices at hand")
        where = rates_here()
    else:
        where, devices = roofline.device(kind), 1 if devices is None else devices
    found = roofline.best_mesh(shape, optimizer, where, devices)
    times = [roofline.training_seconds(shape, epochs, one) for one in found]
    if json_:
        rows = [one.to_json() | {"seconds_of_training": t} for one, t in zip(found, times, strict=True)]
        asked = {"devices": devices, "optimizer": optimizer, "epochs": epochs, "features": shape.N,
                 "memories": shape.K, "samples": shape.P, "batch": shape.B}  # fmt: skip
        print_json({"device": where.to_json(), **asked, "meshes": rows})
        return OK
    parts = ("products", "memory", "links")
    print_table(
        f"{shape} on {devices} × {kind}, {optimizer}, {epochs} epochs: "
        f"{quantity(found[0].operations, 'FLOP')} a step",
        ["mesh", "memory of each", "fits", "sent by each", "a step", *parts, "training"],
        [
            [
                f"memories={one.memories},batch={one.batch}",
                quantity(one.bytes_per_device, "B"),
                "yes" if one.fits else "no",
                quantity(one.sent, "B"),
                duration(one.step_seconds),
                *(f"{100 * one.seconds[part] / one.step_seconds:.0f} %" for part in parts),
                duration(t),
            ]
            for one, t in zip(found[:8], times, strict=False)
        ],
    )
    known = "measured on one" if where.measured else "its maker's"
    rates = f"rates of {kind}: {known}; links are its maker's"
    print(
        f"{rates if kind != 'here' else 'rates: measured just now'}. Train with --mesh as in the first row."
    )
    return OK


def _print_plan(made: Any, wanted: Any) -> None:
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


@app.command()
def tune(
    data: DataArgument,
    activation: Activation = None,
    power: Power = None,
    optimizer: OptimizerOption = None,
    regime: RegimeOption = None,
    features: Features = None,
    memories: Memories = None,
    samples: Samples = None,
    batch: Batch = None,
    kappa: Kappa = None,
    rho: Rho = None,
    beta: Beta = None,
    scales: ScalesToTune = None,
    tune_: Annotated[str, typer.Option("--tune", help="The axes to tune, as in eta0,s1_0,s2_0.")] = "eta0",
    trials: Annotated[int, typer.Option(help="Points to try, with several axes.")] = 96,
    seeds: Seeds = 3,
    budget: Annotated[float, typer.Option(help="Most to spend, as a share of a sweep at the target.")] = 0.1,
    epochs: Epochs = None,
    noise: Noise = None,
    shrink: Shrink = None,
    unit_variance: UnitVariance = None,
    heldout: Heldout = None,
    uncentered: Uncentered = None,
    bias_init: BiasInitOption = None,
    parameterization: ParameterizationOption = None,
    precision: Precision = None,
    out: Annotated[str | None, typer.Option(help="The folder for everything; again, to resume.")] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find the learning rate of a large model at small sizes, and say whether it can be trusted."""
    from denseam.studies.study import words
    from denseam.workflow.tuning import tune as search

    folder = out if out is not None else needed("out is needed: a folder for the runs and the result")
    wanted = _goal(
        data, activation=activation, power=power, optimizer=optimizer, regime=regime, features=features,
        memories=memories, samples=samples, batch=batch, kappa=kappa, rho=rho, beta=beta, scales=scales,
        epochs=epochs, noise=noise, shrink=shrink, unit_variance=unit_variance, heldout=heldout,
        uncentered=uncentered, bias_init=bias_init, parameterization=parameterization, precision=precision,
    )  # fmt: skip
    if not wanted.study.rule().prescribed:
        print(
            f"warning: {wanted.study.name}: not a prescribed rule, so not expected to transfer",
            file=sys.stderr,
        )
    with interruptible(folder) as pressed:
        found = search(
            wanted, folder, tuned=words("tune", tune_), seeds=seeds, budget=budget, trials=trials,
            progress=progress_of(quiet), stop=pressed,
        )  # fmt: skip
    from denseam.report.plots.transfer import draw_tuned

    files = [str(f) for f in draw_tuned(found, folder)]
    if json_:
        print_json({**found.to_json(), "out": folder, "files": [str(Path(folder) / "tuned.json"), *files]})
    else:
        _print_tuned(found, files)
    return {"TRANSFERS": 0, "DRIFTS": 1, "FAILS": 1, "INCONCLUSIVE": 2}[found.status]


def _print_tuned(found: Any, files: list[str]) -> None:
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


@app.command()
def train(
    data: DataArgument,
    tuned: Annotated[str | None, typer.Option(help="The folder of denseam tune.")] = None,
    scale: Annotated[int | None, typer.Option(help="Another size of the family than the target.")] = None,
    seed: Annotated[int, typer.Option(help="The integer all random numbers come from.")] = 0,
    out: Annotated[str | None, typer.Option(help="The folder for the model (TUNED/target).")] = None,
    mesh: Annotated[str | None, typer.Option(help="Many devices, as in memories=4,batch=2.")] = None,
    coordinator: Annotated[
        str | None, typer.Option(help="HOST:PORT of the first of several processes; auto on Slurm.")
    ] = None,
    processes: Annotated[int | None, typer.Option(help="How many processes train together.")] = None,
    process: Annotated[int | None, typer.Option(help="Which of them this is, from 0.")] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Train the target with the tuned values. Run it again to go on where it was killed."""
    import jax

    from denseam.report.plots.training import draw_training
    from denseam.training.mesh import join_processes, stdout_apart
    from denseam.workflow.recipe import read_recipe
    from denseam.workflow.target import train_target

    if tuned is None:
        raise InputError("tuned is needed: the folder of denseam tune")
    if coordinator is not None:
        join_processes(coordinator, processes, process)
    elif processes is not None or process is not None:
        raise InputError("processes and process need a coordinator: HOST:PORT of the first process, or auto")
    recipe = read_recipe(tuned, data)
    folder = out or str(Path(tuned) / ("target" if scale is None else f"scale-{scale}"))
    # The first collective is greeted on standard output, where one JSON document is to be.
    apart = stdout_apart() if coordinator else contextlib.nullcontext()
    with interruptible(folder) as pressed, apart:
        trained = train_target(
            recipe, folder, scale=scale, seed=seed, stop=pressed, mesh=mesh,
            progress=progress_of(quiet or jax.process_index() > 0),
        )  # fmt: skip
    if jax.process_index():  # the first process writes and prints
        return OK if trained.status == "finished" else 1
    files = [str(f) for f in (*trained.files, *draw_training(trained, folder))]
    if json_:
        print_json({**trained.to_json(), "out": folder, "files": files})
    else:
        _print_trained(trained, folder, files)
    return OK if trained.status == "finished" else 1


def _print_trained(trained: Any, folder: str, files: list[str]) -> None:
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


@app.command()
def recall(
    checkpoint: Annotated[str, typer.Argument(help="memory.safetensors, from denseam train.")],
    input_: Annotated[str, typer.Argument(metavar="INPUT", help="Samples, in a file as for denseam tune.")],
    steps: Annotated[int, typer.Option(help="The most steps to take.")] = 10,
    tolerance: Annotated[float, typer.Option(help="At rest when no entry moves by more.")] = 1e-5,
    damping: Annotated[float, typer.Option(help="In (0, 1]; 1 is the plain iteration.")] = 1.0,
    noise: Annotated[str, typer.Option(help="Noise to add first, as in 0.25,0.5,1.")] = "0",
    mask: Annotated[str | None, typer.Option(help="A file: true where a feature is known.")] = None,
    hide: Annotated[str | None, typer.Option(help="top, bottom, left, right, or a share as in 0.3.")] = None,
    heldout: Annotated[bool, typer.Option("--heldout", help="Only samples never trained on.")] = False,
    samples: Annotated[int | None, typer.Option(help="At most so many samples.")] = None,
    seed: Annotated[int, typer.Option(help="The integer the noise comes from.")] = 0,
    out: Annotated[str | None, typer.Option(help="A folder, or a .npz or .npy file.")] = None,
    json_: Json = False,
) -> int:
    """Denoise samples with a trained memory: arrays and pictures, energies and convergence."""
    from denseam.report.recalled import write_recalled
    from denseam.studies.study import grid_values
    from denseam.workflow.recalling import recall_file

    results = recall_file(
        checkpoint, input_, noise=grid_values("noise", noise), mask=mask, hide=hide, heldout=heldout,
        samples=samples, seed=seed, steps=steps, tolerance=tolerance, damping=damping, out=out,
    )  # fmt: skip
    files = [] if out is None else [str(f) for f in write_recalled(results, out)]
    if json_:
        print_json({"levels": [r.to_json() for r in results], "files": files})
        return OK
    _print_recalled(results)
    print(*files, sep="\n", end="\n" if files else "")
    return OK


def _print_recalled(results: list[Any]) -> None:
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


@app.command()
def consistency(
    large: Annotated[str, typer.Argument(help="memory.safetensors of the large memory.")],
    small: Annotated[str, typer.Argument(help="That of a smaller one, trained on the same data.")],
    input_: Annotated[str, typer.Argument(metavar="INPUT", help="Samples, in a file as for denseam tune.")],
    steps: Annotated[int, typer.Option(help="How often the memories are applied.")] = 200,
    noise: Annotated[float | None, typer.Option(help="Corruption (that of training).")] = None,
    samples: Annotated[int, typer.Option(help="At most so many samples.")] = 100,
    seed: Annotated[int, typer.Option(help="The integer the noise comes from.")] = 0,
    out: Annotated[str | None, typer.Option(help="A folder for the picture.")] = None,
    json_: Json = False,
) -> int:
    """Compare a large memory's answer, shrunk, with that of a small one to the shrunk input."""
    from denseam.workflow.agreement import consistency as compare
    from denseam.workflow.memory import Memory
    from denseam.workflow.recalling import chosen_samples

    a, b = Memory.load(large), Memory.load(small)
    found = compare(
        a, b, chosen_samples(a, input_, heldout=None, samples=samples), steps=steps, noise=noise, seed=seed
    )
    files = []
    if out is not None and a.image is not None:
        from denseam.report.plots.recall import draw_consistency

        files = [str(f) for f in draw_consistency(found, out)]
    if json_:
        print_json({**found.to_json(), "files": files})
    else:
        print(
            f"N = {a.model.N} and {b.model.N}, {len(found.shrunk)} samples, step {found.steps}, noise "
            f"{found.noise:g}: correlation {found.correlation:.3f} (with another sample's answer "
            f"{found.chance:.3f}), relative error {found.relative_error:.3f}"
        )
        print(*files, sep="\n", end="\n" if files else "")
    return OK
