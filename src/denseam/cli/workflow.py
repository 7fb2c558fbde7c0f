"""From data to a memory: `plan`, `tune`, `train`, `memorize`, `recall`, `consistency`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from denseam.cli.options import (
    cluster_options,
    json_option,
    log_option,
    option_of,
    paths,
    quiet_option,
    study_options,
    takes,
)
from denseam.cli.program import (
    OK,
    app,
    interruptible,
    needed,
    progress_in,
    progress_of,
    show,
    training_on,
)  # fmt: skip
from denseam.cli.text import (
    print_consistency,
    print_device_plan,
    print_memorized,
    print_plan,
    print_recalled,
    print_trained,
    print_tuned,
)
from denseam.ground.errors import InputError, refuse, together
from denseam.rules.fields import Parameter, Part, parameters
from denseam.studies.description import ETA0
from denseam.workflow.storing import Storing
from denseam.workflow.target_sizes import TUNE_EPOCHS, TargetSizes

if TYPE_CHECKING:
    from denseam.workflow.goals import Goal
    from denseam.workflow.recipe import Recipe

DATA_HELP = (
    "DATA is a .npy, .npz, .parquet or IDX file, a folder of images, or a name such as digits or mnist."
)


budget_option = click.option(
    "--budget", type=float, default=0.15, show_default=True,
    help="Maximum cost of tuning, as a share of a sweep at the target.",
)  # fmt: skip


def goal_options() -> list[Parameter]:
    """Return the parameters of a goal: those of a study, each with one value, and the sizes of the target."""
    sizes = list(parameters(TargetSizes).values())
    known = {"data", "eta0", *(p.document for p in sizes)}
    of_study = study_options(
        *(Part.MODEL, Part.DATA, Part.TRAINING, Part.GROWTH),
        but=known,
        activation={"default_text": "relu", "required": False},
        optimizer={"default_text": "adam", "required": False},
        scales={"help": "Sizes to tune at.", "default_text": "chosen from the data"},
        regime={"default": None, "default_text": "proportional, unless --memories is given alone"},
    )
    return [*(p.of_one for p in of_study), *sizes]


@app.command(
    epilog=DATA_HELP,
    examples=(
        "denseam plan digits --memories 512",
        "denseam plan --features 4096 --devices 8 --device h200",
    ),
)
@click.argument("data", required=False, shell_complete=paths)
@takes([*goal_options(), TUNE_EPOCHS], "target")
@click.option("--seeds", type=int, default=3, show_default=True, help="Number of seeds at the first size.")
@budget_option
@option_of(Part.EXECUTOR, "--devices", type=int, help="Number of devices that train one model together.")
@option_of(
    Part.EXECUTOR,
    "--device",
    show_default="h200",
    help="Kind of device: h200, h100, a100, or here (measured).",
)
@json_option
def plan(
    data: str | None,
    target: dict[str, Any],
    seeds: int,
    budget: float,
    devices: int | None,
    device: str | None,
    json_: bool,
) -> int:
    """Estimate what tuning and training on DATA would cost, without training anything.

    With --devices or --device, estimate one model of the given sizes on several devices; DATA is not needed.
    """
    from denseam.workflow import planning
    from denseam.workflow.goals import goal

    if devices is not None or device is not None:
        if device == "here":
            progress_of(False).message("measuring the available devices")
        sizes = TargetSizes(**{key: target[key] for key in parameters(TargetSizes) if key in target})
        training = {key: target[key] for key in ("optimizer", "epochs") if key in target}
        meshes = planning.plan_devices(sizes.shape(), devices=devices, device=device or "h200", **training)
        show(json_, meshes.to_json(), print_device_plan, meshes)
        return OK
    wanted = goal(needed(data, "data is needed, or devices: the number of devices for one model"), **target)
    _warn(wanted)
    estimate = planning.plan(wanted, seeds=seeds, budget=budget)
    show(json_, estimate.to_json(), print_plan, estimate, wanted)
    return OK


@app.command(
    epilog=DATA_HELP,
    examples=(
        "denseam tune digits --unit-variance --out tuned",
        "denseam tune samples.npy --optimizer adamw --tune eta0,decay_time --memories 4096 --out tuned",
    ),
)
@click.argument("data", shell_complete=paths)
@takes(cluster_options(), "where")
@takes([*goal_options(), TUNE_EPOCHS], "target")
@click.option(
    "--tune", "tuned", default="eta0", show_default=True,
    help="Hyperparameters to tune together, as in eta0,beta1,beta2,batch.",
)  # fmt: skip
@click.option(
    "--trials", type=int, default=256, show_default=True,
    help="Maximum number of points at the smallest size, if several hyperparameters are tuned.",
)  # fmt: skip
@click.option("--seeds", type=int, default=3, show_default=True, help="Number of seeds at the first size.")
@budget_option
@click.option(
    "--tolerance", type=float, default=0.02, show_default=True,
    help="Maximum cost of the recommended value at the target, relative to the best one.",
)  # fmt: skip
@click.option("--by", default="training", show_default=True, help="Loss to minimise: training or heldout.")
@click.option("--probe", is_flag=True, help="Allow a short training of the target. Only for optimizer sgd.")
@click.option(
    "--out", shell_complete=paths, help="Folder for all results; run again with the same folder to resume."
)
@log_option
@json_option
@quiet_option
def tune(
    data: str,
    target: dict[str, Any],
    where: dict[str, Any],
    tuned: str,
    out: str | None,
    log: Sequence[str],
    json_: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Find the learning rate of a large model at small sizes, and bound its cost at full size."""
    from denseam.report.plots import draw_set, draw_tuned
    from denseam.report.trackers import check_trackers
    from denseam.studies.cluster import cluster_from
    from denseam.workflow.goals import goal
    from denseam.workflow.search import RUNS
    from denseam.workflow.tuning import tune as search

    folder, wanted, cluster, _ = together(
        lambda: needed(out, "out is needed: a folder for the runs and the result"),
        lambda: goal(data, **target),
        lambda: cluster_from(None, where),
        lambda: check_trackers(log),
    )
    _warn(wanted)
    axes = [axis.strip() for axis in tuned.split(",") if axis.strip()]
    with training_on(cluster, folder, quiet, log, Path(folder) / RUNS) as training:
        result = search(wanted, folder, tuned=axes, **training, **options)
    drawn = [*draw_tuned(result, folder), *draw_set(result, folder)]
    files = [str(f) for f in drawn]
    document = {"out": folder, "files": [str(Path(folder) / "tuned.json"), *files]}
    show(json_, result.to_json() | document, print_tuned, result, files)
    return result.exit_code


def _warn(wanted: Goal) -> None:
    """Print what is doubtful about a goal before anything is trained."""
    from denseam.workflow.data_use import data_use

    warnings = [data_use(wanted).warning()]
    if not wanted.study.rule().prescribed:
        warnings.append(f"{wanted.study.name}: not a prescribed rule, so not expected to transfer")
    warnings += wanted.study.regime.limits(wanted.target)
    for warning in filter(None, warnings):
        print(f"warning: {warning}", file=sys.stderr)


@app.command(
    epilog=DATA_HELP,
    examples=(
        "denseam train digits --tuned tuned",
        "denseam train samples.npy --eta0 0.03 --memories 4096 --out memory",
    ),
)
@click.argument("data", shell_complete=paths)
@takes([ETA0, *(p for p in goal_options() if p.name != "scales")], "target")
@click.option("--tuned", shell_complete=paths, help="Folder written by denseam tune.")
@click.option("--accept", is_flag=True, help="Train with the tuned value even if it was not recommended.")
@click.option("--scale", type=int, help="Train this size of the family instead of the target.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random numbers.")
@click.option(
    "--out",
    shell_complete=paths,
    show_default="TUNED/target",
    help="Folder for the model; needed without --tuned.",
)
@option_of(Part.EXECUTOR, "--mesh", help="Train on several devices, as in memories=4,batch=2.")
@option_of(Part.EXECUTOR, "--coordinator", help="HOST:PORT of the first of several processes; auto on Slurm.")
@option_of(Part.EXECUTOR, "--processes", type=int, help="Number of processes that train together.")
@option_of(Part.EXECUTOR, "--process", type=int, help="Index of this process, from 0.")
@log_option
@json_option
@quiet_option
def train(
    data: str,
    target: dict[str, Any],
    tuned: str | None,
    accept: bool,
    scale: int | None,
    out: str | None,
    coordinator: str | None,
    processes: int | None,
    process: int | None,
    log: Sequence[str],
    json_: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Train the target on DATA with the tuned values. Run again to resume.

    Without --tuned, train with the learning rate --eta0; the target is then described as for denseam tune.
    """
    from denseam.report.trackers import check_trackers

    folder, _ = together(
        lambda: _folder(tuned, target.get(ETA0.document), scale, out), lambda: check_trackers(log)
    )
    if coordinator is None and (processes is not None or process is not None):
        raise InputError("processes and process need a coordinator: HOST:PORT of the first process, or auto")

    def here() -> int:
        import jax

        from denseam.report.plots import draw_training
        from denseam.training.processes import accepted_by_all, join_processes, stdout_apart
        from denseam.workflow.target import train_target

        # The first collective prints to standard output, where only one JSON document may be.
        apart = stdout_apart() if coordinator else contextlib.nullcontext()
        with interruptible(folder) as stop, apart:
            if coordinator is not None:
                join_processes(coordinator, processes, process)
            recipe = accepted_by_all(lambda: _recipe(data, tuned, target, accept))
            others = jax.process_index() > 0  # only the first process reports
            with progress_in(folder, quiet or others, () if others else log) as progress:
                trained = train_target(recipe, folder, scale=scale, stop=stop, progress=progress, **options)
        if not jax.process_index():  # only the first process draws and prints
            files = [str(f) for f in (*trained.files, *draw_training(trained, folder))]
            document = trained.to_json() | {"out": folder, "files": files}
            show(json_, document, print_trained, trained, folder, files)
        return OK if trained.status == "finished" else 1

    if coordinator is None:
        return here()
    from denseam.cli.child import in_child
    from denseam.training.processes import check_processes

    check_processes(coordinator, processes, process)
    return in_child(here, _leave, click.get_current_context().obj)


def _leave() -> None:
    from denseam.training.processes import leave_processes

    leave_processes()


def _folder(tuned: str | None, eta0: float | None, scale: int | None, out: str | None) -> str:
    """Return the folder of a training; refuse if it is not known what to train, or where to."""
    if tuned is not None:
        return out or str(Path(tuned) / ("target" if scale is None else f"scale-{scale}"))
    if eta0 is None:
        raise InputError("tuned is needed: the folder of denseam tune; or eta0, to train without a tuning")
    return needed(out, "out is needed without a tuning: a folder for the model")


def _recipe(data: str, tuned: str | None, target: dict[str, Any], accept: bool) -> Recipe:
    """Return the recipe of a tuning, or the one that options describe."""
    from denseam.workflow.goals import target_study
    from denseam.workflow.recipe import Recipe, read_recipe

    described = {key: value for key, value in target.items() if key != ETA0.document}
    eta0 = target.get(ETA0.document)
    if tuned is None:
        study, rate = together(lambda: target_study(data, **described), lambda: ETA0.read(eta0))
        return Recipe(study, rate)
    refuse(f"{key} comes from the tuning in {tuned}; leave it out" for key in described)
    recipe = read_recipe(tuned, data, accept=accept or eta0 is not None)
    return recipe if eta0 is None else recipe.with_eta0(eta0)


@app.command(
    epilog=DATA_HELP,
    examples=("denseam memorize digits --out patterns",),
)
@click.argument("data", shell_complete=paths)
@takes(parameters(Storing).values(), "storing")
@click.option("--out", shell_complete=paths, help="Folder for the memory.")
@json_option
def memorize(data: str, storing: dict[str, Any], out: str | None, json_: bool) -> int:
    """Store the samples of DATA as patterns, without training, and test how well they are recalled."""
    from denseam.workflow.memorizing import memorize as store

    result = store(data, needed(out, "out is needed: a folder for the memory"), **storing)
    files = [str(f) for f in result.files]
    show(json_, result.to_json() | {"out": out, "files": files}, print_memorized, result, out, files)
    return OK


@app.command(
    examples=(
        "denseam recall tuned/target digits --heldout --noise 0.25,0.5 --out recalled",
        "denseam recall patterns digits --hide bottom --out completed",
    ),
)
@click.argument("checkpoint", shell_complete=paths)
@click.argument("input_", metavar="INPUT", shell_complete=paths)
@click.option(
    "--steps",
    type=int,
    show_default="as in training; 10 after training on one step",
    help="Maximum number of steps.",
)
@click.option(
    "--tolerance", type=float, default=1e-5, show_default=True,
    help="A state is at rest when no entry moves by more than this.",
)  # fmt: skip
@click.option(
    "--damping", type=float, show_default="as in training",
    help="Fraction of each update to apply, in (0, 1].",
)  # fmt: skip
@option_of(
    Part.DATA,
    "--noise",
    default="0",
    show_default=True,
    help="Noise levels to add first, as in 0.25,0.5,1.",
)
@option_of(Part.DATA, "--mask", help="File with a mask: true where a feature is known.")
@option_of(Part.DATA, "--hide", help="Hide the top, bottom, left or right half, or a share as in 0.3.")
@option_of(Part.DATA, "--heldout", is_flag=True, help="Use only samples that were never trained on.")
@option_of(Part.DATA, "--samples", type=int, help="Maximum number of samples.")
@option_of(Part.DATA, "--seed", type=int, default=0, show_default=True, help="Seed of the noise.")
@click.option("--out", shell_complete=paths, help="Folder, .npz file or .npy file for the results.")
@json_option
def recall(checkpoint: str, input_: str, noise: str, out: str | None, json_: bool, **options: Any) -> int:
    """Denoise or complete samples with a memory: arrays and pictures, energies and convergence.

    CHECKPOINT is the memory.safetensors of denseam train or memorize, or its folder; INPUT contains samples,
    like DATA of denseam tune.
    """
    from denseam.report.recalled import write_recalled
    from denseam.rules.fields import grid_values
    from denseam.workflow.likeness import unlike_training
    from denseam.workflow.recalling import recall_file

    results = recall_file(checkpoint, input_, noise=grid_values("noise", noise), out=out, **options)
    files = [] if out is None else [str(f) for f in write_recalled(results, out)]
    unlike = results[0].differences
    document = {
        "levels": [r.to_json() for r in results],
        "unlike_training": {d.kind.name.lower(): d.value for d in unlike},
        "warnings": [unlike_training(unlike)] if unlike else [],
        "files": files,
    }
    show(json_, document, print_recalled, results, files)
    return OK


@app.command(
    examples=(
        "denseam consistency tuned/target/memory.safetensors tuned/scale-16/memory.safetensors digits",
    ),
)
@click.argument("large", shell_complete=paths)
@click.argument("small", shell_complete=paths)
@click.argument("input_", metavar="INPUT", shell_complete=paths)
@click.option(
    "--steps", type=int, default=200, show_default=True, help="Number of times each memory is applied."
)
@click.option("--noise", type=float, show_default="that of training", help="Noise to add first.")
@click.option("--samples", type=int, default=100, show_default=True, help="Maximum number of samples.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the noise.")
@click.option("--out", shell_complete=paths, help="Folder for the picture.")
@json_option
def consistency(
    large: str, small: str, input_: str, samples: int, out: str | None, json_: bool, **options: Any
) -> int:
    """Compare the output of a large memory, shrunk, with the output of a small one for shrunk input.

    LARGE and SMALL are memory.safetensors of two memories that were trained on the same data.
    """
    from denseam.report.plots import draw_consistency
    from denseam.workflow.agreement import consistency as compare
    from denseam.workflow.memory import Memory
    from denseam.workflow.recalling import chosen_samples

    a, b = Memory.load(large), Memory.load(small)
    result = compare(a, b, chosen_samples(a, input_, heldout=None, samples=samples), **options)
    drawn = draw_consistency(result, out) if out is not None and a.image is not None else []
    files = [str(f) for f in drawn]
    show(json_, result.to_json() | {"files": files}, print_consistency, result, files)
    return OK
