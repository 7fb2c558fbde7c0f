"""From data to a trained memory: `plan`, `tune`, `train`, `recall`, `consistency`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import click

from denseam.cli.options import json_option, quiet_option, study_options, takes
from denseam.cli.program import (
    OK,
    app,
    interruptible,
    needed,
    print_json,
    progress_of,
)
from denseam.cli.text import print_device_plan, print_plan, print_recalled, print_trained, print_tuned
from denseam.errors import InputError
from denseam.rules.fields import Parameter, Part, parameters
from denseam.workflow.target_sizes import TargetSizes

DATA_HELP = (
    "DATA is a .npy, .npz, .parquet or IDX file, a folder of images, or a name such as digits or mnist."
)


def goal_options() -> list[Parameter]:
    """Return the parameters of a goal: those of a study, with the sizes of the target."""
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
    return [*of_study, *sizes]


@app.command()
@click.argument("data", required=False)
@takes(goal_options())
@click.option("--seeds", type=int, default=3, show_default=True, help="Seeds to begin with.")
@click.option("--devices", type=int, help="How many devices train one model together.")
@click.option("--device", show_default="h200", help="Their kind: h200, h100, a100, or here (measured).")
@json_option
def plan(
    data: str | None, given: dict[str, Any], seeds: int, devices: int | None, device: str | None, json_: bool
) -> int:
    """Say what tuning and training on DATA would take, before anything runs.

    With --devices or --device, say what one model of the given sizes takes on many devices; DATA is not
    needed.
    """
    from denseam.workflow.goals import goal
    from denseam.workflow.planning import plan as make
    from denseam.workflow.planning import plan_devices

    if devices is not None or device is not None:
        if device == "here":
            progress_of(False).message("measuring the devices at hand")
        sizes = TargetSizes(**{key: given[key] for key in parameters(TargetSizes) if key in given})
        training = {key: given[key] for key in ("optimizer", "epochs") if key in given}
        planned = plan_devices(sizes.shape(), devices=devices, device=device or "h200", **training)
        if json_:
            print_json(planned.to_json())
        else:
            print_device_plan(planned)
        return OK
    if data is None:
        raise InputError("data is needed, or devices: how many devices train one model together")
    wanted = goal(data, **given)
    made = make(wanted, seeds=seeds)
    if json_:
        print_json(made.to_json())
    else:
        print_plan(made, wanted)
    return OK


@app.command(epilog=DATA_HELP)
@click.argument("data")
@takes(goal_options())
@click.option(
    "--tune", "tuned", default="eta0", show_default=True, help="Axes to tune, as in eta0,s1_0,s2_0."
)
@click.option("--trials", type=int, default=96, show_default=True, help="Points to try, with several axes.")
@click.option("--seeds", type=int, default=3, show_default=True, help="Seeds to begin with.")
@click.option(
    "--budget", type=float, default=0.1, show_default=True, help="Limit, as a share of a sweep at the target."
)
@click.option("--out", help="Folder for everything; the same folder resumes.")
@json_option
@quiet_option
def tune(
    data: str,
    given: dict[str, Any],
    tuned: str,
    trials: int,
    seeds: int,
    budget: float,
    out: str | None,
    json_: bool,
    quiet: bool,
) -> int:
    """Find the learning rate of a large model at small sizes, and say whether it can be trusted."""
    from denseam.report.plots.transfer import draw_tuned
    from denseam.workflow.goals import goal
    from denseam.workflow.tuning import tune as search

    folder = out if out is not None else needed("out is needed: a folder for the runs and the result")
    wanted = goal(data, **given)
    if not wanted.study.rule().prescribed:
        print(
            f"warning: {wanted.study.name}: not a prescribed rule, so not expected to transfer",
            file=sys.stderr,
        )
    axes = [axis.strip() for axis in tuned.split(",") if axis.strip()]
    with interruptible(folder) as pressed:
        result = search(
            wanted, folder, tuned=axes, seeds=seeds, budget=budget, trials=trials,
            progress=progress_of(quiet), stop=pressed,
        )  # fmt: skip
    files = [str(f) for f in draw_tuned(result, folder)]
    if json_:
        print_json({**result.to_json(), "out": folder, "files": [str(Path(folder) / "tuned.json"), *files]})
    else:
        print_tuned(result, files)
    return {"TRANSFERS": 0, "DRIFTS": 1, "FAILS": 1, "INCONCLUSIVE": 2}[result.status]


@app.command()
@click.argument("data")
@click.option("--tuned", help="Folder of denseam tune.")
@click.option("--scale", type=int, help="Another size of the family than the target.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random numbers.")
@click.option("--out", show_default="TUNED/target", help="Folder for the model.")
@click.option("--mesh", help="Many devices, as in memories=4,batch=2.")
@click.option("--coordinator", help="HOST:PORT of the first of several processes; auto on Slurm.")
@click.option("--processes", type=int, help="How many processes train together.")
@click.option("--process", type=int, help="Which of them this is, from 0.")
@json_option
@quiet_option
def train(
    data: str,
    tuned: str | None,
    scale: int | None,
    seed: int,
    out: str | None,
    mesh: str | None,
    coordinator: str | None,
    processes: int | None,
    process: int | None,
    json_: bool,
    quiet: bool,
) -> int:
    """Train the target on DATA with the tuned values. Run it again to resume where it stopped."""
    import jax

    from denseam.report.plots.training import draw_training
    from denseam.training.processes import join_processes, stdout_apart
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
    code = OK if trained.status == "finished" else 1
    if jax.process_index():  # the first process writes and prints
        return code
    files = [str(f) for f in (*trained.files, *draw_training(trained, folder))]
    if json_:
        print_json({**trained.to_json(), "out": folder, "files": files})
    else:
        print_trained(trained, folder, files)
    return code


@app.command()
@click.argument("checkpoint")
@click.argument("input_", metavar="INPUT")
@click.option("--steps", type=int, default=10, show_default=True, help="Maximum number of steps.")
@click.option(
    "--tolerance", type=float, default=1e-5, show_default=True, help="At rest when no entry moves by more."
)
@click.option(
    "--damping", type=float, default=1.0, show_default=True, help="In (0, 1]; 1 is the plain iteration."
)
@click.option("--noise", default="0", show_default=True, help="Noise to add first, as in 0.25,0.5,1.")
@click.option("--mask", help="File: true where a feature is known.")
@click.option("--hide", help="top, bottom, left, right, or a share as in 0.3.")
@click.option("--heldout", is_flag=True, help="Only samples that were never trained on.")
@click.option("--samples", type=int, help="Maximum number of samples.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the noise.")
@click.option("--out", help="Folder, or .npz or .npy file.")
@json_option
def recall(checkpoint: str, input_: str, noise: str, out: str | None, json_: bool, **options: Any) -> int:
    """Denoise samples with a trained memory: arrays and pictures, energies and convergence.

    CHECKPOINT is the memory.safetensors of denseam train; INPUT holds samples, as for denseam tune.
    """
    from denseam.report.recalled import write_recalled
    from denseam.rules.fields import grid_values
    from denseam.workflow.recalling import recall_file

    results = recall_file(checkpoint, input_, noise=grid_values("noise", noise), out=out, **options)
    files = [] if out is None else [str(f) for f in write_recalled(results, out)]
    if json_:
        print_json({"levels": [r.to_json() for r in results], "files": files})
        return OK
    print_recalled(results)
    print(*files, sep="\n", end="\n" if files else "")
    return OK


@app.command()
@click.argument("large")
@click.argument("small")
@click.argument("input_", metavar="INPUT")
@click.option("--steps", type=int, default=200, show_default=True, help="How often the memories are applied.")
@click.option("--noise", type=float, show_default="that of training", help="Corruption.")
@click.option("--samples", type=int, default=100, show_default=True, help="Maximum number of samples.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the noise.")
@click.option("--out", help="Folder for the picture.")
@json_option
def consistency(
    large: str,
    small: str,
    input_: str,
    steps: int,
    noise: float | None,
    samples: int,
    seed: int,
    out: str | None,
    json_: bool,
) -> int:
    """Compare a large memory's answer, shrunk, with that of a small one to the shrunk input.

    LARGE and SMALL are memory.safetensors of two memories that were trained on the same data.
    """
    from denseam.workflow.agreement import consistency as compare
    from denseam.workflow.memory import Memory
    from denseam.workflow.recalling import chosen_samples

    a, b = Memory.load(large), Memory.load(small)
    chosen = chosen_samples(a, input_, heldout=None, samples=samples)
    result = compare(a, b, chosen, steps=steps, noise=noise, seed=seed)
    files = []
    if out is not None and a.image is not None:
        from denseam.report.plots.recall import draw_consistency

        files = [str(f) for f in draw_consistency(result, out)]
    if json_:
        print_json({**result.to_json(), "files": files})
    else:
        print(
            f"N = {a.model.N} and {b.model.N}, {len(result.shrunk)} samples, step {result.steps}, noise "
            f"{result.noise:g}: correlation {result.correlation:.3f} (with another sample's answer "
            f"{result.chance:.3f}), relative error {result.relative_error:.3f}"
        )
        print(*files, sep="\n", end="\n" if files else "")
    return OK
