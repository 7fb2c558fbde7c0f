"""Options of more than one command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

Activation = Annotated[str | None, typer.Option(help="identity, relu, tanh or softmax.")]
Power = Annotated[float | None, typer.Option(help="p of relu^p, at least 1.")]
OptimizerOption = Annotated[str | None, typer.Option(help="sgd or adam.")]
RegimeOption = Annotated[str | None, typer.Option(help="proportional (default) or memories-only.")]
Kappa = Annotated[float | None, typer.Option(help="K/N, proportional (2).")]
Rho = Annotated[float | None, typer.Option(help="P/N, proportional (5).")]
Beta = Annotated[float | None, typer.Option(help="B/P, proportional (0.1).")]
Noise = Annotated[float | None, typer.Option(help="Standard deviation of the noise (0.5).")]
BiasInitOption = Annotated[str | None, typer.Option(help="zero (default) or normal.")]
ParameterizationOption = Annotated[
    str | None, typer.Option(help="prescription (default), standard, or changes as in s2=K^-1.")
]
Data = Annotated[str | None, typer.Option(help="isotropic (default), anisotropic, a set's name or a path.")]
DataArgument = Annotated[
    str, typer.Argument(help="A .npy, .npz, .parquet or IDX file, a folder of images, digits, mnist, ….")
]
Shrink = Annotated[str | None, typer.Option(help="plaquettes, orthonormal, pca or none.")]
UnitVariance = Annotated[
    bool | None, typer.Option("--unit-variance", help="Scale the data to mean variance 1 at every size.")
]
Heldout = Annotated[float | None, typer.Option(help="Share of the samples never trained on (0.1).")]
Uncentered = Annotated[bool | None, typer.Option("--uncentered", help="Do not centre.")]
Precision = Annotated[str | None, typer.Option(help="float32 (default), float64, tf32, bf16.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing about progress.")]

# Where a study runs.
ExecutorOption = Annotated[str | None, typer.Option("--executor", help="local (default), dask or slurm.")]
Address = Annotated[
    str | None, typer.Option(help="Of a Dask scheduler, as in tcp://host:8786; without it, Dask here.")
]
Workers = Annotated[int | None, typer.Option(help="Threads (local), processes (dask) or jobs (slurm).")]
Partition = Annotated[str | None, typer.Option(help="Of Slurm.")]
Account = Annotated[str | None, typer.Option(help="Of Slurm.")]
Gpus = Annotated[int | None, typer.Option(help="GPUs of each worker, 0 (default) or 1; dask and slurm.")]
Time = Annotated[str | None, typer.Option(help="The time limit of a Slurm job, as in 02:00:00.")]
Memory = Annotated[str | None, typer.Option(help="The memory of a Slurm job, as in 8GB.")]
Cores = Annotated[int | None, typer.Option(help="The cores of a Slurm job (1).")]

#: What of these says where a study runs; `executor` is the kind.
CLUSTER = ("address", "workers", "gpus", "partition", "account", "time", "memory", "cores")


def cluster_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the arguments of a command (its `locals()`) say of where a study runs."""
    return {"kind": given["executor"]} | {name: given[name] for name in CLUSTER}
