"""Programs compiled ahead of training, from the shapes of their arguments alone.

XLA compiles them side by side, and beside the training of other shapes. This is for a GPU, where one worker
trains everything. The workers of a CPU begin with different shapes (`chunks.in_order`), and so compile side
by side themselves.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from denseam.model.streams import stream
from denseam.studies.engine.chunks import Chunk, segment_steps
from denseam.studies.engine.programs import Program
from denseam.studies.engine.times import Times
from denseam.studies.runs import build
from denseam.training.batches import View
from denseam.training.devices import cores, numbers


class Coming:
    """The programs of chunks that are being compiled, one for each form of a chunk and each device."""

    def __init__(
        self,
        chunks: Sequence[tuple[Program, Chunk]],
        devices: Sequence[Any],
        times: Times,
        stop: threading.Event,
    ) -> None:
        self._times, self._stop = times, stop
        self._pool = concurrent.futures.ThreadPoolExecutor(cores(), thread_name_prefix="denseam-compile")
        forms = {_form(*item): item for item in reversed(chunks)}  # the first of each form
        self._ready = {
            (form, device): self._pool.submit(self._compile, *forms[form], device)
            for form in reversed(forms)
            for device in devices
        }

    def _compile(self, program: Program, chunk: Chunk, device: Any) -> None:
        if self._stop.is_set():  # workers that wait for it must not wait for all others, too
            return
        with jax.default_device(device), numbers(program.study.precision), self._times.working():
            compile_ahead(program, chunk)

    def wait(self, program: Program, chunk: Chunk, device: Any) -> None:
        """Wait for the programs of a chunk. If they failed, training it will say so."""
        concurrent.futures.wait([self._ready[_form(program, chunk), device]])

    def end(self) -> None:
        """Compile no more."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _form(program: Program, chunk: Chunk) -> tuple[Program, int, int]:
    """Return what compiled programs of a chunk depend on: its functions, its groups, and their models."""
    return program, len(chunk), len(chunk[0])


def compile_ahead(program: Program, chunk: Chunk) -> None:
    """Compile what the chunk will call: drawing, training and evaluation of groups × models."""
    study, spec, steps = program.study, chunk[0][0], segment_steps(program, chunk)

    def one_model() -> Any:
        start = build(study, spec, None, program.dtype)[0].parameters
        model, optimizer = build(study, spec, start, program.dtype)
        state = optimizer.init(model.parameters)
        return model, (model.parameters, state, model.without_parameters(), optimizer)

    def drawn() -> Any:
        view = View.of(one_model()[0], study.hidden(program.shape), study.hide_by)
        P, N, B = program.P, program.shape.N, program.B
        data, noise = jnp.zeros((P, N), program.dtype), jnp.zeros((), program.dtype)
        return (data, jnp.zeros((steps, B), jnp.int32), stream(spec.seed, "noise"), noise), view

    groups = (len(chunk),)
    model, now = _many((*groups, len(chunk[0])), jax.eval_shape(one_model))
    samples, view = jax.eval_shape(drawn)
    data, order, keys, noise = _many(groups, samples)
    first, due = _shaped((), jnp.int32), _shaped((steps,), jnp.bool_) if study.probes else None
    drawing = (data, order, keys, first, noise, view)
    segment = program.shapes_of_draw(*drawing)
    last = min(steps, program.steps_per_epoch)
    evaluated = jax.tree.map(lambda V: _shaped((*groups, last, *V.shape[2:]), V.dtype), segment)
    program.compile(drawing, (*now, segment, due), (model, evaluated))


def _many(leading: tuple[int, ...], tree: Any) -> Any:
    """Return the arrays of a tree with further axes in front."""
    return jax.tree.map(lambda leaf: _shaped((*leading, *leaf.shape), leaf.dtype), tree)


def _shaped(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]
