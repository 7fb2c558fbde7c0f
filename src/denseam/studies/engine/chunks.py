"""How work is cut: runs into chunks, a chunk's steps into segments.

A chunk is trained by one worker and saved as a whole; a segment is what the device does between two checks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from denseam.rules.cost import training_bytes
from denseam.studies.engine.programs import Program
from denseam.studies.runs import evenly, sharing_batches
from denseam.studies.study import RunSpec
from denseam.training.devices import CALLING, RATES, memory

#: Seconds of work between two reports of progress.
SEGMENT_SECONDS = 0.3
#: On a GPU a chunk takes about this many seconds at the rate of `devices.RATES`, which is a low one: what is
#: under way when training is interrupted is lost. It has at least FULL models, if there are as many, which
#: keep the card busy.
CHUNK_SECONDS, FULL = 120.0, 16
#: On a CPU a segment's batches are drawn into arrays of at most this size: larger ones do not stay in its
#: cache, and drawing them costs four times as much.
CACHE_BYTES = 1 << 21

#: Groups of runs; the runs of a group share their batches.
Chunk = list[list[RunSpec]]


def cut(specs: Sequence[RunSpec], program: Program, threads: int) -> list[Chunk]:
    """Cut the runs of one shape into chunks."""
    groups = sharing_batches(specs)
    most = max(1, int(program.memory / model_bytes(program)))
    share = math.ceil(len(specs) / threads)  # work for every worker
    if program.platform == "cpu":
        # Small enough to keep all cores busy to the end, large enough to share their batches.
        size = min(most, share, max(8, math.ceil(share / 3)))
        return [[piece] for group in groups for piece in evenly(group, math.ceil(len(group) / size))]
    soon = int(CHUNK_SECONDS * RATES["gpu"] / program.study.operations(program.shape))
    most = min(most, share, max(FULL, soon))
    chunks: list[Chunk] = []
    for piece in (piece for group in groups for piece in evenly(group, math.ceil(len(group) / most))):
        # Groups of one chunk advance as one array, so they must be equally wide.
        if chunks and len(chunks[-1][0]) == len(piece) and (len(chunks[-1]) + 1) * len(piece) <= most:
            chunks[-1].append(piece)
        else:
            chunks.append([piece])
    return chunks


def in_order(chunks: Sequence[tuple[Program, Chunk]]) -> list[tuple[Program, Chunk]]:
    """Return the chunks of all shapes in the order of their training.

    First one of each shape, so that their programs are compiled side by side; then the others. The largest
    come first, so that no worker begins with a long one when the others are about to end. Parts of one group
    follow each other: the batches of one serve the next.
    """
    operations: dict[Any, float] = {}
    for program, chunk in chunks:
        of_all = sum(map(len, chunk)) * program.study.operations(program.shape)
        operations[_batches(program, chunk)] = max(of_all, operations.get(_batches(program, chunk), 0.0))
    largest = sorted(chunks, key=lambda item: -operations[_batches(*item)])
    seen: set[Program] = set()
    first: list[tuple[Program, Chunk]] = []
    others: list[tuple[Program, Chunk]] = []
    for program, chunk in largest:
        (others if program in seen else first).append((program, chunk))
        seen.add(program)
    return first + others


def _batches(program: Program, chunk: Chunk) -> tuple[Program, int, float]:
    """Return what decides the batches of a chunk's first group."""
    first = chunk[0][0]
    return program, first.seed, first.values["noise"]


def halves(chunk: Chunk) -> list[Chunk]:
    """Return the two halves of a chunk, or the chunk itself if it is one run."""
    if len(chunk) > 1:
        return [chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]]
    return [[half] for half in evenly(chunk[0], 2)]


def model_bytes(program: Program) -> float:
    """Return the memory of one model in training: parameters, moments, gradient, activations."""
    study, itemsize = program.study, jnp.dtype(program.dtype).itemsize
    return training_bytes(
        program.shape, study.optimizer, itemsize, bool(study.probes), recompute=program.recompute
    )


def segment_steps(program: Program, chunk: Chunk) -> int:
    """Return the steps of a segment: a divisor of the run that takes about SEGMENT_SECONDS."""
    platform, groups = program.platform, len(chunk)
    at_once = program.bundle if platform == "cpu" else groups * len(chunk[0])
    operations = at_once * program.study.step_operations(program.shape, recompute=program.recompute)
    seconds = operations / RATES[platform] + CALLING[platform]
    batch_bytes = groups * program.B * program.shape.N * jnp.dtype(program.dtype).itemsize
    room = CACHE_BYTES if platform == "cpu" else 0.05 * memory(platform)
    most = max(1.0, min(SEGMENT_SECONDS / seconds, room / batch_bytes))
    n, epochs = program.steps_per_epoch, program.epochs
    if most >= n:
        return n * max(k for k in range(1, epochs + 1) if epochs % k == 0 and k * n <= most)
    return max(k for k in range(1, n + 1) if n % k == 0 and k <= most)
