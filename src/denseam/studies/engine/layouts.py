"""How the models of a chunk advance through their segments: in bundles on a CPU, all together on a GPU."""

from __future__ import annotations

import abc
import contextlib
import functools
import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from denseam.model.dense_am import Parameters
from denseam.model.normals import on_host
from denseam.model.streams import stream
from denseam.studies.engine.chunks import Chunk, segment_steps
from denseam.studies.engine.programs import Program
from denseam.studies.runs import Interrupted, Outcome, build
from denseam.studies.study import RunSpec, decays
from denseam.training.batches import View, mean_square, sample_order
from denseam.training.divergence import ending
from denseam.training.matrices import Batch
from denseam.training.progress import Progress


def train_chunk(
    program: Program, chunk: Chunk, progress: Progress, stop: threading.Event, ready: Callable[[], None]
) -> list[Outcome]:
    """Train the runs of a chunk in the layout that suits the device.

    Its arrays are made first. `ready` then waits for its programs, which may be compiled meanwhile.
    """
    layout = InBundles if program.platform == "cpu" else Together
    made = layout(program, chunk, progress, stop)
    ready()
    return made.run()


class Group(NamedTuple):
    """What the runs of one seed and one noise level share."""

    start: Parameters
    data: Array
    fresh: Array
    key: Array
    fresh_key: Array
    noise: Array
    seed: int


def _group(program: Program, spec: RunSpec) -> Group:
    source, dtype = program.study.source(), program.dtype
    return Group(
        start=build(program.study, spec, None, dtype)[0].parameters,
        data=jax.device_put(source.samples(program.shape, spec.seed, dtype)),
        fresh=jax.device_put(source.heldout(program.shape, spec.seed, dtype)),
        key=stream(spec.seed, "noise"),
        fresh_key=stream(spec.seed, "heldout-noise"),
        noise=jnp.asarray(spec.values["noise"], dtype),
        seed=spec.seed,
    )


#: Arrays of at most so many entries are made on the host: there, making them needs fewer programs, which are
#: compiled faster, than on a GPU.
MADE_ON_HOST = 1 << 20


def _making(program: Program) -> Any:
    """Return the context in which the arrays of a chunk are made."""
    entries = program.shape.N * max(program.shape.K, program.P)
    if program.platform == "cpu" or entries > MADE_ON_HOST:
        return contextlib.nullcontext()
    try:
        return jax.default_device(jax.devices("cpu")[0])
    except RuntimeError:  # JAX was told to use GPUs alone
        return contextlib.nullcontext()


class Layout(abc.ABC):
    """A chunk in training; results are arrays of groups × models.

    Attributes
    ----------
    T
        The steps of a segment.
    errors
        The loss of every step; infinite where it was not taken.
    probes
        Measured values, steps to measure × quantities; NaN where a step was not taken.
    seconds
        Time spent on each model.
    """

    def __init__(self, program: Program, chunk: Chunk, progress: Progress, stop: threading.Event) -> None:
        self.program, self.chunk, self.progress, self.stop = program, chunk, progress, stop
        self.place = str(jax.device_put(np.zeros(())).devices())
        self.built = []
        with _making(program):
            self.groups = [self._group(specs[0]) for specs in chunk]
            for specs, group in zip(chunk, self.groups, strict=True):
                self.built.append([build(program.study, spec, group.start, program.dtype) for spec in specs])
        self.view = View.of(self.built[0][0][0], program.study.hidden(program.shape), program.study.hide_by)
        self.T = segment_steps(program, chunk)
        shape = (len(chunk), len(chunk[0]))
        self.errors = np.full((*shape, program.steps), np.inf)
        self.probes = np.full((*shape, len(program.probe_steps), len(program.study.probes)), np.nan)
        self.seconds = np.zeros(shape)

    def _group(self, spec: RunSpec) -> Group:
        which = spec.seed, spec.values["noise"], self.place
        group: Group = self.program.groups.get(which, lambda: _group(self.program, spec))
        return group

    def run(self) -> list[Outcome]:
        """Train, evaluate, and return the outcome of every run."""
        trained = self._train()
        initial, zero = self._before()
        heldout = self._heldout(trained)
        return [
            self._outcome(spec, (g, m), float(initial[g, m]), float(heldout[g, m]), float(zero[g]))
            for g, group in enumerate(self.chunk)
            for m, spec in enumerate(group)
        ]

    @abc.abstractmethod
    def _train(self) -> Any:
        """Take all steps, and return the trained models."""

    @abc.abstractmethod
    def _untrained(self) -> Any:
        """Return the models as they were before training."""

    @abc.abstractmethod
    def _evaluated(self, models: Any, batches: Batch) -> Float[np.ndarray, "groups models batches"]:
        """Return the loss of every model on every batch."""

    @abc.abstractmethod
    def _joined(self, groups: Sequence[Any]) -> Any:
        """Join values of the groups in the form that the programs of this layout take."""

    @abc.abstractmethod
    def _without(self, steps: int, segment: Batch) -> Batch:
        """Return a segment without its first steps."""

    # --- batches -----------------------------------------------------------------------------------

    def _segment(self, first: int) -> Batch:
        """Return the batches of the training steps from `first` on, and start drawing the next ones."""
        drawn = self._drawn(first)
        coming = first + self.T
        if coming < self.program.steps:
            self.program.segments.begin(self._which(coming), lambda: self._draw(coming))
        return drawn

    def _drawn(self, first: int) -> Batch:
        return self.program.segments.get(self._which(first), lambda: self._draw(first))

    def _which(self, first: int) -> tuple[Any, ...]:
        return tuple((g.seed, float(g.noise)) for g in self.groups), first, self.T, self.place

    def _draw(self, first: int) -> Batch:
        p, n = self.program, self.program.steps_per_epoch
        epochs = range(first // n, (first + self.T - 1) // n + 1)
        within = slice(first % n, first % n + self.T)

        def order(group: Group) -> np.ndarray[Any, Any]:
            return np.concatenate([sample_order(group.seed, epoch, p.P, p.B) for epoch in epochs])[within]

        data, keys, noise = self._sources
        samples = self._joined([order(g) for g in self.groups])
        return p.draw(data, samples, keys, np.int32(first), noise, self.view)

    @functools.cached_property
    def _sources(self) -> tuple[Any, Any, Any]:
        """The samples, noise keys and noises of the groups."""
        joined: tuple[Any, Any, Any] = self._joined([(g.data, g.key, g.noise) for g in self.groups])
        return joined

    # --- before and after --------------------------------------------------------------------------

    def _before(self) -> tuple[Float[np.ndarray, "groups models"], Float[np.ndarray, " groups"]]:
        """Return the MSE of the untrained models on the last epoch's batches, and that of predicting zero."""
        p, models = self.program, self._untrained()
        first_of_last = p.steps - p.steps_per_epoch
        errors, squares = [], []
        for first in range(first_of_last - first_of_last % self.T, p.steps, self.T):
            earlier = max(0, first_of_last - first)  # a segment may hold earlier epochs too
            segment = self._without(earlier, self._drawn(first))
            errors.append(self._evaluated(models, segment))
            squares.append(np.asarray(mean_square(segment.Y)))
        zero = np.atleast_1d(np.mean(np.concatenate(squares, axis=-1), axis=-1))
        return np.mean(np.concatenate(errors, axis=-1), axis=-1), zero

    def _heldout(self, models: Any) -> Float[np.ndarray, "groups models"]:
        """Return the MSE on held-out samples, with the same noise for every run of a seed."""
        rows, B = self.groups[0].fresh.shape[0], self.program.B
        if not rows:
            return np.full(self.seconds.shape, np.nan)
        n, size = max(1, rows // B), min(B, rows)

        def batches(group: Group) -> Batch:
            return self.program.cut(group.fresh, group.fresh_key, group.noise, n, size, self.view)

        errors = self._evaluated(models, self._joined([batches(g) for g in self.groups]))
        return np.asarray(np.mean(errors, axis=-1))

    # --- results -----------------------------------------------------------------------------------

    def _keep(self, where: Any, first: int, error: Any, measured: Any) -> bool:
        """Store a segment's results for one model or all; return whether any loss is finite at its end."""
        errors = self.errors[where]
        errors[..., first : first + self.T] = error
        if measured is not None:
            for row, step in enumerate(self.program.probe_steps):
                if first <= step < first + self.T:
                    self.probes[where][..., row, :] = np.asarray(measured)[..., step - first, :]
        return bool(np.isfinite(errors[..., first + self.T - 1]).any())

    def _outcome(
        self, spec: RunSpec, at: tuple[int, int], initial: float, heldout: float, zero: float
    ) -> Outcome:
        p = self.program
        forgotten = zero if decays(spec.values) else None
        end = ending(self.errors[at].reshape(p.epochs, p.steps_per_epoch), initial, forgotten)
        loss = end.curve.mean(axis=1)
        return Outcome(
            spec=spec,
            status=end.status,
            diverged_at=end.diverged_at,
            initial_mse=initial,
            final_mse=float(loss[-1]),
            heldout_mse=heldout if np.isfinite(loss[-1]) else math.inf,
            zero_mse=zero,
            loss=loss.astype(np.float32),
            seconds=float(self.seconds[at]),
            device=p.platform,
            probe_steps=p.probe_steps,
            probes=dict(zip(p.study.probes, self.probes[at].T, strict=True)),
        )


class Bundle:
    """Models that a program advances at once; if they are fewer than it takes, the last one fills it up.

    `members` are their numbers in the chunk; a member is `alive` until it has diverged.
    """

    def __init__(self, members: range, built: Sequence[tuple[Any, Any]], states: Any, size: int) -> None:
        filled = [*members, *[members[-1]] * (size - len(members))]
        models = _stack([built[i][0] for i in filled])
        self.members, self.alive = members, dict.fromkeys(members, True)
        self.frame, self.parameters = models.without_parameters(), models.parameters
        self.optimizers, self.states = _stack([built[i][1] for i in filled]), states

    def trained(self) -> list[Parameters]:
        """Return the parameters of each member."""
        return [Parameters(*(_part(V, k) for V in self.parameters)) for k in range(len(self.members))]


class InBundles(Layout):
    """CPU: one group; each bundle advances through the segment by itself, until all of it have diverged."""

    def _train(self) -> Any:
        p, (specs,), (built,) = self.program, self.chunk, self.built
        every, (model, optimizer) = range(len(specs)), built[0]
        # The state of every optimizer begins with zeros, so that of one bundle serves all.
        states = _zeros(jax.eval_shape(optimizer.init, model.parameters), p.bundle)
        bundles = [Bundle(every[i : i + p.bundle], built, states, p.bundle) for i in every[:: p.bundle]]
        clock = time.perf_counter()

        def collect(first: int, bundle: Bundle, errors: Array, measured: Array | None) -> None:
            nonlocal clock
            found = np.asarray(errors), None if measured is None else np.asarray(measured)
            living = [k for k, i in enumerate(bundle.members) if bundle.alive[i]]
            took = (time.perf_counter() - clock) / len(living)
            clock = time.perf_counter()
            for k in living:
                i = bundle.members[k]
                error, probes = (None if values is None else values[k] for values in found)
                bundle.alive[i] = self._keep((0, i), first, error, probes)
                self.seconds[0, i] += took
                self.progress.advanced(self.T if bundle.alive[i] else p.steps - first, specs[i])

        for first in range(0, p.steps, self.T):
            living = [bundle for bundle in bundles if any(bundle.alive.values())]
            if not living:
                break
            segment, due = self._segment(first), p.due(first, self.T)
            waiting: list[tuple[Bundle, Array, Array | None]] = []
            for bundle in living:
                if self.stop.is_set():
                    raise Interrupted
                bundle.parameters, bundle.states, errors, measured = p.advance(
                    bundle.parameters, bundle.states, bundle.frame, bundle.optimizers, segment, due
                )
                waiting.append((bundle, errors, measured))
                # The next bundle is running while the results of this one are fetched.
                if len(waiting) > 1:
                    collect(first, *waiting.pop(0))
            for last in waiting:
                collect(first, *last)
        trained = [parameters for bundle in bundles for parameters in bundle.trained()]
        return [model.with_parameters(own) for (model, _), own in zip(built, trained, strict=True)]

    def _untrained(self) -> Any:
        """Return the models before training; those that differ in their optimizer alone are one object."""
        first: dict[Any, Any] = {}
        return [first.setdefault(_frame_key(model), model) for model, _ in self.built[0]]

    def _evaluated(self, models: Any, batches: Batch) -> Float[np.ndarray, "groups models batches"]:
        distinct = {id(model): model for model in models}
        errors = {key: self.program.evaluate(model, batches) for key, model in distinct.items()}
        return np.stack([errors[id(model)] for model in models])[None]

    def _joined(self, groups: Sequence[Any]) -> Any:
        return groups[0]

    def _without(self, steps: int, segment: Batch) -> Batch:
        rest: Batch = jax.tree.map(lambda V: jax.device_put(np.asarray(V)[steps:]), segment)
        return rest


class Together(Layout):
    """GPU: all groups and all of their models advance as one array."""

    def _train(self) -> Any:
        p, began = self.program, time.perf_counter()
        models = self._untrained()
        optimizers = _stack([_stack([optimizer for _, optimizer in group]) for group in self.built])
        parameters, frame = models.parameters, models.without_parameters()
        states = _begin(optimizers, parameters)
        waiting: tuple[int, Array, Array | None] | None = None

        def collect(first: int, error: Array, measured: Array | None) -> bool:
            alive = self._keep(..., first, error, measured)
            for spec in itertools.chain.from_iterable(self.chunk):
                self.progress.advanced(self.T if alive else p.steps - first, spec)
            return alive

        for first in range(0, p.steps, self.T):
            if self.stop.is_set():
                raise Interrupted
            segment = self._segment(first)
            parameters, states, error, measured = p.advance(
                parameters, states, frame, optimizers, segment, p.due(first, self.T)
            )
            # The errors of the previous segment, so that the device never waits for the host.
            if waiting is not None and not collect(*waiting):
                waiting = None
                break
            waiting = first, error, measured
        if waiting is not None:
            collect(*waiting)
        self.seconds[...] = (time.perf_counter() - began) / self.seconds.size
        return frame.with_parameters(parameters)

    def _untrained(self) -> Any:
        return _stack([_stack([model for model, _ in group]) for group in self.built])

    def _evaluated(self, models: Any, batches: Batch) -> Float[np.ndarray, "groups models batches"]:
        return self.program.evaluate(models, batches)

    def _joined(self, groups: Sequence[Any]) -> Any:
        return _stack(groups)

    def _without(self, steps: int, segment: Batch) -> Batch:
        rest: Batch = jax.tree.map(lambda V: V[:, steps:], segment)
        return rest


def _frame_key(model: Any) -> tuple[Any, ...]:
    """Return what a model is besides its parameters, as a key of dictionaries."""
    leaves, structure = jax.tree.flatten(model.without_parameters())
    return structure, *(np.asarray(leaf).tobytes() for leaf in leaves)


def _zeros(like: Any, models: int) -> Any:
    """Return zeros of these shapes and types for each model, for which no program is compiled."""
    return jax.tree.map(lambda leaf: jax.device_put(np.zeros((models, *leaf.shape), leaf.dtype)), like)


@jax.jit
def _begin(optimizers: Any, parameters: Any) -> Any:
    """Return the optimizers' states before training."""
    return jax.vmap(jax.vmap(lambda optimizer, own: optimizer.init(own)))(optimizers, parameters)


def _part(leaf: Array, k: int) -> Array:
    """Return entry k of an array on the host, for which no program is compiled."""
    part: Array = jax.device_put(np.asarray(leaf)[k])
    return part


def _stack(items: Sequence[Any]) -> Any:
    """Join trees leaf by leaf, on the device; small leaves by way of the host, which needs no program."""

    def joined(*leaves: Any) -> Any:
        first = leaves[0]
        is_key = jnp.issubdtype(first.dtype, jax.dtypes.prng_key)
        on_device = isinstance(first, jax.Array) and not on_host(first)
        if is_key or (on_device and first.size > MADE_ON_HOST):
            return jnp.stack(leaves)
        return jax.device_put(np.stack([np.asarray(leaf) for leaf in leaves]))

    return jax.tree.map(joined, *items)
