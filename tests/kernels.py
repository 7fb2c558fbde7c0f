"""The kernels of a training step as XLA compiles them for an NVIDIA GPU, counted on a machine without one.

    python -m tests.kernels CARD.txtpb relu:sgd:1024:tf32 softmax:adam:256:bf16

CARD.txtpb describes a card to XLA, such as `h200.txtpb` among XLA's `target_config/specs`. JAX's CUDA build
must be installed (`pip install 'jax[cuda13]'`); no driver is needed. Kernels are not tried out, as in short
studies (`denseam.studies.engine.programs`). Bytes are those of all operands and results: what a kernel slices
is counted whole, and what the cache of the card spares is counted, too.
"""

import os
import re
import sys
from pathlib import Path

import numpy as np

#: Without a driver JAX cannot compare the versions of CUDA's libraries.
os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"

BYTES = {"pred": 1, "s8": 1, "bf16": 2, "f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8}
#: These are no kernels.
FREE = {"parameter", "tuple", "get-tuple-element", "bitcast", "constant", "after-all"}
#: A fusion of nothing else only moves numbers.
MOVES = FREE | {"copy", "transpose", "convert", "broadcast", "dynamic-slice", "slice"}
MODELS = 16


def size(shape):
    """The bytes of an array, or of all arrays of a tuple; not those of a library's workspace, a vector of s8."""
    arrays = [(kind, extent) for kind, extent in re.findall(r"(\w+)\[([\d,]*)\]", shape) if kind != "s8"]
    return sum(
        BYTES[kind] * int(np.prod([int(n) for n in extent.split(",") if n])) for kind, extent in arrays
    )


def computations(text):
    """Name → instructions (name, shape, operation, the rest) of each computation of an optimized program."""
    found, now = {}, None
    for line in text.splitlines():
        if begin := re.match(r"(?:ENTRY )?%(\S+) \(.*\{$", line):
            now = found[begin[1]] = []
        elif now is not None and (
            step := re.match(r"\s+(?:ROOT )?%(\S+) = (\(.*?\)|\S+) ([\w-]+)\((.*)$", line)
        ):
            now.append(step.groups())
    return found


def counted(text):
    """Counts of the kernels in the loop over steps, and the MiB that products and others read and write."""
    parts = computations(text)
    loops = [name for steps in parts.values() for _, _, op, rest in steps if op == "while"
             for name in re.findall(r"body=%([\w.-]+)", rest)]  # fmt: skip
    total = {"kernels": 0, "products": 0, "moves": 0, "MiB of products": 0.0, "MiB of others": 0.0}

    def count(name):
        shapes = {step: shape for step, shape, _, _ in parts[name]}
        for _, shape, op, rest in parts[name]:
            inner = re.findall(r"(?:calls|to_apply)=%([\w.-]+)", rest)
            if op in FREE or op.endswith("-done"):
                continue
            if op in ("call", "async-start"):
                count(inner[0])
                continue
            operands = re.findall(r"%([\w.-]+)", rest.split("), ")[0])
            moved = (size(shape) + sum(size(shapes[o]) for o in operands if o in shapes)) / 2**20
            product = "cublas" in rest
            within = {op} if op != "fusion" else {step[2] for step in parts[inner[0]]}
            total["kernels"] += 1
            total["products"] += product
            total["moves"] += within <= MOVES
            total["MiB of products" if product else "MiB of others"] += moved

    for loop in loops:
        count(loop)
    return total


def compiled(card, activation, optimizer, N, precision):
    """The optimized program that trains sixteen models, as text."""
    import jax
    from jax.experimental import topologies

    import denseam as dam
    from denseam.studies.engine import ahead, programs
    from denseam.studies.runs import sharing_batches
    from denseam.training.devices import numbers, products
    from denseam.training.progress import Progress

    topology = topologies.get_topology_desc("card", "cuda", target_config=card, topology="1x1x1")
    place = jax.sharding.SingleDeviceSharding(topology.devices[0])
    study = dam.Study(
        activation, optimizer, scales=[N], eta0=dam.logspace(1e-3, 1, MODELS), seeds=1, epochs=4, precision=precision
    )  # fmt: skip
    program, arguments = programs.Program(study, study.shape(N), "gpu", Progress()), {}
    program.compile = lambda draw, advance, evaluate: arguments.update(advance=advance)
    with numbers(precision), products(precision):
        ahead.compile_ahead(program, sharing_batches(study.runs()))
        there = jax.tree.map(
            lambda V: jax.ShapeDtypeStruct(V.shape, V.dtype, sharding=place), arguments["advance"]
        )
        traced = programs._ON_GPU_IN_SHORT.advance.trace(*there, **program._options)
        return traced.lower(lowering_platforms=("cuda",)).compile().as_text()


if __name__ == "__main__":
    path, *cases = sys.argv[1:]
    for case in cases:
        activation, optimizer, N, precision = case.split(":")
        found = counted(compiled(Path(path).read_text(), activation, optimizer, int(N), precision))
        print(case, *(f"{name} {value:.0f}" for name, value in found.items()), sep=", ")
