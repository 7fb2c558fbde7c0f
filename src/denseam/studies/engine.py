"""The engine: trains many runs at once, in the layout that suits the device.

On CPU there is one worker thread for each core, each with a single-threaded program that advances
one model by a segment of steps; a worker takes the models of one seed through a segment one after
the other, so that a model's weights stay in the core's cache. On a GPU all models of a chunk advance
together (`vmap`). Either way the models of one seed see the same batches and noise, drawn once per
segment for all of them, already passed through g.

Work comes in chunks: a chunk is what one worker does without interruption and what is saved at once.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from denseam.errors import InputError
from denseam.model.dense_am import DenseAM, Parameters
from denseam.model.lagrangians import Softmax
from denseam.model.streams import stream
from denseam.rules import Scales, Shape
from denseam.rules.cost import step_operations, training_bytes
from denseam.studies.study import RunSpec, Study
from denseam.training.batches import sample_order
from denseam.training.devices import cores, memory
from denseam.training.gradient import Columns
from denseam.training.optimizers import Optimizer, adam, sgd
from denseam.training.progress import Progress as Listener
from denseam.training.segments import advance, draw, evaluate

#: Seconds of work between two signs of life.
SEGMENT_SECONDS = 0.3
#: A segment's batches are drawn into arrays of at most this size on a CPU: larger ones leave its cache,
#: and drawing them then costs four times as much.
CACHE_BYTES = 1 << 21
#: Rough sustained rates, only used to choose the length of a segment: FLOP/s of a core and of a GPU.
RATES = {"cpu": 5e10, "gpu": 5e13}

MATMUL = {"float32": "highest", "float64": "highest", "tf32": "tensorfloat32", "bf16": "BF16_BF16_F32"}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one run."""

    spec: RunSpec
    status: str
    diverged_at: int | None
    initial_mse: float
    final_mse: float
    heldout_mse: float
    zero_mse: float
    loss: Float[np.ndarray, " epochs"]
    seconds: float
    device: str
    probe_steps: tuple[int, ...] = ()
    probes: Mapping[str, Float[np.ndarray, " probe_steps"]] = dataclasses.field(default_factory=dict)


class Interrupted(Exception):
    """The engine was asked to stop."""


class _Stop(threading.Event):
    """Set when this call ends, or when the caller's own event is; that one is never touched."""

    def __init__(self, asked: threading.Event | None) -> None:
        super().__init__()
        self._asked = asked

    def is_set(self) -> bool:
        return super().is_set() or (self._asked is not None and self._asked.is_set())


def train_runs(
    study: Study,
    specs: Sequence[RunSpec],
    *,
    listener: Listener | None = None,
    stop: threading.Event | None = None,
    devices: Sequence[Any] | None = None,
    workers: int | None = None,
) -> Iterator[list[Outcome]]:
    """Train runs of a study; yield the outcomes chunk by chunk, as chunks end.

    Parameters
    ----------
    study, specs
        What is asked, and which of its runs.
    listener
        Told of progress.
    stop
        When set, workers stop within a segment; unfinished chunks are given up.
    devices
        The devices to use; by default all GPUs, or the CPU.
    workers
        Threads on the CPU; by default one for each core.
    """
    listener, stop = listener or Listener(), _Stop(stop)
    devices = list(devices or jax.devices())
    gpu = devices[0].platform != "cpu"
    check_precision(study, devices[0].platform)
    threads = len(devices) if gpu else (workers or cores())
    places = {i: devices[i % len(devices)] for i in range(threads)}
    programs = _Programs(study, "gpu" if gpu else "cpu", listener, threads)
    chunks = [
        chunk
        for shape in dict.fromkeys(spec.shape for spec in specs)
        for chunk in _chunks([s for s in specs if s.shape == shape], programs.of(shape), threads)
    ]
    free = list(places)
    lock = threading.Lock()

    def work(chunk: list[list[RunSpec]]) -> list[Outcome]:
        with lock:
            place = free.pop()
        try:
            with jax.default_device(places[place]), _precision_scope(study):
                return _guarded(programs, chunk, listener, stop)
        finally:
            with lock:
                free.append(place)

    pool = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="denseam")
    futures = [pool.submit(work, chunk) for chunk in chunks]
    try:
        for future in concurrent.futures.as_completed(futures):
            outcomes = future.result()
            listener.finished(outcomes)
            yield outcomes
    finally:  # also when the consumer stops, or Ctrl-C arrives while it waits
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def check_precision(study: Study, platform: str) -> None:
    """Refuse a precision that the device does not have."""
    if platform == "cpu" and study.precision in ("tf32", "bf16"):
        raise InputError(
            f"precision {study.precision!r} needs a GPU; on the CPU it must be 'float32' or 'float64'"
        )


def _precision_scope(study: Study) -> Any:
    # Not inherited by threads, so every worker enters it for itself.
    return jax.enable_x64(True) if study.precision == "float64" else contextlib.nullcontext()


def _guarded(
    programs: _Programs, chunk: list[list[RunSpec]], listener: Listener, stop: threading.Event
) -> list[Outcome]:
    """Train a chunk; if the device's memory does not hold it, train its halves."""
    try:
        return _train_chunk(programs.of(chunk[0][0].shape), chunk, listener, stop)
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        halves = _halves(chunk)
        if len(halves) == 1:
            raise InputError(
                f"scales: one model of {chunk[0][0].shape} does not fit into the memory of the device"
            ) from None
    return [outcome for half in halves for outcome in _guarded(programs, half, listener, stop)]


def _halves(chunk: list[list[RunSpec]]) -> list[list[list[RunSpec]]]:
    if len(chunk) > 1:
        return [chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]]
    models = chunk[0]
    if len(models) > 1:
        return [[models[: len(models) // 2]], [models[len(models) // 2 :]]]
    return [chunk]


# --- the program of one shape --------------------------------------------------------------------


#: Compiled programs, shared by all studies of this process.
_COMPILED: dict[Any, Any] = {}
_COMPILING = threading.Lock()


class _Programs:
    """The program of each shape, made when it is first needed."""

    def __init__(self, study: Study, platform: str, listener: Listener, threads: int) -> None:
        self._study, self._platform, self._listener, self._threads = study, platform, listener, threads
        self._made: dict[Shape, Program] = {}
        self._lock = threading.Lock()

    def of(self, shape: Shape) -> Program:
        with self._lock:
            if shape not in self._made:
                self._made[shape] = Program(self._study, shape, self._platform, self._listener, self._threads)
            return self._made[shape]


class _Recent:
    """The last few segments that were asked for.

    Workers on one seed go through the same segments at about the same time, and drawing one costs up to
    a tenth of training on it.
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._held: dict[Any, Any] = {}

    def get(self, asked: Any, draw: Callable[[], Any]) -> Any:
        with self._lock:
            held = self._held.pop(asked, None)
            # Drawing is only started here, not waited for.
            self._held[asked] = draw() if held is None else held
            while len(self._held) > self._most:
                del self._held[next(iter(self._held))]
            return self._held[asked]


class Program:
    """The compiled functions of one shape, and the sizes that go with them."""

    def __init__(
        self, study: Study, shape: Shape, platform: str, listener: Listener, threads: int = 1
    ) -> None:
        assert shape.P is not None
        assert shape.B is not None
        self.study, self.shape, self.platform = study, shape, platform
        self.P, self.B = shape.P, shape.B
        self.steps_per_epoch = self.P // self.B
        self.steps = study.steps(shape)
        self.probe_steps = study.steps_to_probe(shape)
        self.dtype = jnp.float64 if study.precision == "float64" else jnp.float32
        self.flops = step_operations(shape)
        self.segments = _Recent(2 * threads)  # for each worker one in use, one being drawn
        self._listener = listener

    def compiled(self, name: str, *arguments: Any, **static: Any) -> Any:
        """Return `draw`, `advance` or `evaluate`, compiled for arguments like these and for this device."""
        leaves, tree = jax.tree.flatten(arguments)
        where = str(jnp.zeros(()).devices())
        avals = tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)
        key = (name, self.study.precision, tuple(static.items()), tree, avals, where)
        with _COMPILING:
            if key not in _COMPILED:
                if name == "advance":
                    self._listener.compiling(self.shape)
                _COMPILED[key] = self._jit(name, static).lower(*arguments).compile()
        return _COMPILED[key]

    def call(self, name: str, *arguments: Any, **static: Any) -> Any:
        """Call a compiled function."""
        return self.compiled(name, *arguments, **static)(*arguments)

    def _jit(self, name: str, static: dict[str, Any]) -> Any:
        functions: dict[str, Any] = {"draw": draw, "advance": advance, "evaluate": evaluate}
        function = functools.partial(functions[name], **static)
        precision = MATMUL[self.study.precision]

        def precise(*arguments: Any) -> Any:
            with jax.default_matmul_precision(precision):
                return function(*arguments)

        precise.__name__ = name
        if self.platform == "cpu":
            return jax.jit(precise)  # programs of several models run at once, one for each core
        if name == "draw":
            return jax.jit(jax.vmap(precise, in_axes=(0, 0, 0, None, 0)))
        # Groups × models; the models of a group share its batches.
        if name == "evaluate":
            return jax.jit(jax.vmap(jax.vmap(precise, in_axes=(0, None))))
        inner, outer = (0, 0, 0, 0, None, None), (0, 0, 0, 0, 0, None)
        return jax.jit(jax.vmap(jax.vmap(precise, in_axes=inner), in_axes=outer), donate_argnums=(0, 1))

    def due(self, first: int, count: int) -> Array | None:
        """Return which of the steps from `first` on are measured; None without probes."""
        if not self.study.probes:
            return None
        return jnp.asarray(np.isin(np.arange(first, first + count), self.probe_steps))

    # sizes

    def model_bytes(self) -> float:
        """Return the memory of one model in training: parameters, moments, gradient, activations."""
        itemsize = jnp.dtype(self.dtype).itemsize
        return training_bytes(self.shape, self.study.optimizer, itemsize, bool(self.study.probes))

    def segment_steps(self, models: int, groups: int) -> int:
        """Return the steps of a segment: a divisor of the run that takes about SEGMENT_SECONDS."""
        rate = RATES["cpu"] if self.platform == "cpu" else RATES["gpu"]
        at_once = 1 if self.platform == "cpu" else models * groups
        seconds = at_once * self.flops / rate + (2e-6 if self.platform == "cpu" else 2e-5)
        batch_bytes = groups * self.B * self.shape.N * jnp.dtype(self.dtype).itemsize
        room = CACHE_BYTES if self.platform == "cpu" else 0.05 * memory(self.platform)
        most = max(1.0, min(SEGMENT_SECONDS / seconds, room / batch_bytes))
        n = self.steps_per_epoch
        if most >= n:
            return n * max(
                k for k in range(1, self.study.epochs + 1) if self.study.epochs % k == 0 and k * n <= most
            )
        return max(k for k in range(1, n + 1) if n % k == 0 and k <= most)


def _chunks(specs: Sequence[RunSpec], program: Program, threads: int) -> list[list[list[RunSpec]]]:
    """Cut the runs of one shape into chunks: lists of groups, a group being runs that share batches."""
    groups: dict[tuple[int, float], list[RunSpec]] = {}
    for spec in specs:
        groups.setdefault((spec.seed, spec.values["noise"]), []).append(spec)
    sharing = threads if program.platform == "cpu" else 1  # every GPU has a memory of its own
    most = max(1, int(memory(program.platform) / (sharing * program.model_bytes())))
    if program.platform == "cpu":
        # Pieces small enough to keep all cores busy to the end, large enough to share their batches.
        share = math.ceil(len(specs) / threads)
        size = min(most, share, max(8, math.ceil(share / 3)))
        return [[piece] for group in groups.values() for piece in evenly(group, math.ceil(len(group) / size))]
    most = min(most, math.ceil(len(specs) / threads))  # something to do for every GPU
    wide = [piece for group in groups.values() for piece in evenly(group, math.ceil(len(group) / most))]
    chunks: list[list[list[RunSpec]]] = []
    for piece in wide:
        # Groups of one chunk advance as one array, so they must be equally wide.
        if chunks and len(chunks[-1][0]) == len(piece) and (len(chunks[-1]) + 1) * len(piece) <= most:
            chunks[-1].append(piece)
        else:
            chunks.append([piece])
    return chunks


def evenly(group: list[RunSpec], count: int) -> list[list[RunSpec]]:
    """Cut a list into so many parts of nearly the same length, none of them empty."""
    count = min(max(1, count), len(group))
    bounds = [round(i * len(group) / count) for i in range(count + 1)]
    return [group[a:b] for a, b in itertools.pairwise(bounds)]


# --- one chunk -----------------------------------------------------------------------------------


def build(study: Study, spec: RunSpec, start: Parameters | None, dtype: Any) -> tuple[DenseAM, Optimizer]:
    """Return the untrained model and the optimizer of a run.

    `start` are the initial parameters of the seed, if they are at hand already.
    """
    scales = scales_of(study, spec)
    activation = study.lagrangian
    if isinstance(activation, Softmax):
        activation = Softmax(spec.values["beta"])
    # Numbers in it become arrays, so that runs with different ones share a program.
    activation = jax.tree.map(lambda v: jnp.asarray(v, dtype), activation)
    if start is None:
        model = DenseAM.create(
            scales,
            activation,
            seed=spec.seed,
            centred=study.centred,
            bias_init=study.bias_init,  # type: ignore[arg-type]  # checked by the study
            dtype=dtype,
        )
        model = dataclasses.replace(model, scales=None)
    else:
        model = DenseAM(
            *start, scales.s1, scales.s2, activation, centred=study.centred, s_b=scales.s_b, s_c=scales.s_c
        )
    values = spec.values
    if study.optimizer == "sgd":
        swept = len(study.grid["momentum"]) > 1 or values["momentum"] != 0
        optimizer = sgd(scales, momentum=values["momentum"] if swept else None)
    else:
        optimizer = adam(scales, beta1=values["beta1"], beta2=values["beta2"], epsilon=values["epsilon"])
    return model, jax.tree.map(lambda v: jnp.asarray(v, dtype), optimizer)


def scales_of(study: Study, spec: RunSpec) -> Scales:
    """Return the scales of a run."""
    v = spec.values
    return study.rule().at(
        spec.shape,
        eta0=v["eta0"],
        s1_0=v["s1_0"],
        s2_0=v["s2_0"],
        eta_b0=v["eta_b_ratio"] * v["eta0"],
        eta_c0=v["eta_c_ratio"] * v["eta0"],
    )


class _Group(NamedTuple):
    """What the runs of one seed and one noise level share."""

    data: Array
    fresh: Array
    key: Array
    fresh_key: Array
    noise: Array
    seed: int


def _train_chunk(
    program: Program, chunk: list[list[RunSpec]], listener: Listener, stop: threading.Event
) -> list[Outcome]:
    study, dtype, source = program.study, program.dtype, program.study.source()
    groups, built = [], []
    for specs in chunk:
        seed = specs[0].seed
        groups.append(
            _Group(
                data=jnp.asarray(source.samples(program.shape, seed, dtype)),
                fresh=jnp.asarray(source.heldout(program.shape, seed, dtype)),
                key=stream(seed, "noise"),
                fresh_key=stream(seed, "heldout-noise"),
                noise=jnp.asarray(specs[0].values["noise"], dtype),
                seed=seed,
            )
        )
        start = build(study, specs[0], None, dtype)[0].parameters
        built.append([build(study, spec, start, dtype) for spec in specs])
    layout = _OneByOne if program.platform == "cpu" else _Together
    return layout(program, chunk, groups, built, listener, stop).run()


class _Layout:
    """How the models of a chunk are taken through their segments."""

    def __init__(
        self,
        program: Program,
        chunk: list[list[RunSpec]],
        groups: list[_Group],
        built: list[list[tuple[DenseAM, Optimizer]]],
        listener: Listener,
        stop: threading.Event,
    ) -> None:
        self.program, self.chunk, self.groups, self.built = program, chunk, groups, built
        self.listener, self.stop = listener, stop
        self.T = program.segment_steps(len(chunk[0]), len(chunk))
        self.place = "" if program.platform == "cpu" else str(groups[0].data.devices())

    def _segment(self, first: int) -> Columns:
        """Return the batches of the training steps from `first` on; have the next ones drawn meanwhile."""
        drawn = self._drawn(first)
        if first + self.T < self.program.steps:
            self._drawn(first + self.T)
        return drawn

    def _drawn(self, first: int) -> Columns:
        asked = (tuple((g.seed, float(g.noise)) for g in self.groups), first, self.T, self.place)
        segment: Columns = self.program.segments.get(asked, lambda: self._draw_segment(first))
        return segment

    def _draw_segment(self, first: int) -> Columns:
        p, n = self.program, self.program.steps_per_epoch
        epochs = range(first // n, (first + self.T - 1) // n + 1)
        orders = [
            np.concatenate([sample_order(g.seed, e, p.P, p.B) for e in epochs])[
                first % n : first % n + self.T
            ]
            for g in self.groups
        ]
        return self._draw([g.data for g in self.groups], orders, [g.key for g in self.groups], first)

    def _before(self, models: list[DenseAM]) -> tuple[list[Any], np.ndarray[Any, Any]]:
        """Return the MSE of the untrained models on the last epoch's batches, and that of predicting zero."""
        p = self.program
        first_of_last = p.steps - p.steps_per_epoch
        starts = range(first_of_last - first_of_last % self.T, p.steps, self.T)
        errors: list[list[Any]] = [[] for _ in models]
        squares = []
        for first in starts:
            keep = max(0, first_of_last - first)  # a segment may hold earlier epochs too
            segment = Columns(*(V[..., keep:, :, :] for V in self._drawn(first)))
            for i, model in enumerate(models):
                errors[i].append(np.asarray(p.call("evaluate", model, segment)))
            squares.append(np.asarray(_mean_square(segment.Y)))
        zero = np.atleast_1d(np.mean(np.concatenate(squares, axis=-1), axis=-1))
        return [np.mean(np.concatenate(e, axis=-1), axis=-1) for e in errors], zero

    def _heldout(self) -> Columns | None:
        """Return held-out samples as batches, with noise that is the same for every run of a seed."""
        rows, B = self.groups[0].fresh.shape[0], self.program.B
        if not rows:
            return None
        n, size = max(1, rows // B), min(B, rows)

        def batches(group: _Group) -> Columns:
            Y = group.fresh
            X = Y + group.noise * jax.random.normal(group.fresh_key, Y.shape, Y.dtype)
            G = self.built[0][0][0].features.activation(X)
            G, Y = (jnp.swapaxes(V[: n * size].reshape(n, size, -1), 1, 2) for V in (G, Y))
            return Columns(G, Y)

        drawn = [batches(group) for group in self.groups]
        stacked: Columns = drawn[0] if self.program.platform == "cpu" else _stack(drawn)
        return stacked

    def _draw(self, data: list[Array], orders: list[Any], keys: list[Array], first: int) -> Columns:
        noise, step = [g.noise for g in self.groups], jnp.asarray(first, jnp.int32)
        features = self.built[0][0][0].features
        if self.program.platform == "cpu":
            drawn = self.program.call(
                "draw", data[0], jnp.asarray(orders[0]), keys[0], step, noise[0], features=features
            )
        else:
            order = jnp.asarray(np.stack(orders))
            drawn = self.program.call(
                "draw", _stack(data), order, _stack(keys), step, _stack(noise), features=features
            )
        segment: Columns = drawn
        return segment

    def _no_probes(self, *models: int) -> Float[np.ndarray, "*models probe_steps probes"]:
        p = self.program
        return np.full((*models, len(p.probe_steps), len(p.study.probes)), np.nan)

    def _keep_probes(
        self, kept: Float[np.ndarray, "*models probe_steps probes"], first: int, measured: Array | None
    ) -> None:
        """Put the measurements of a segment into their places."""
        if measured is None:
            return
        for row, step in enumerate(self.program.probe_steps):
            if first <= step < first + self.T:
                kept[..., row, :] = np.asarray(measured)[..., step - first, :]

    def _outcome(
        self,
        spec: RunSpec,
        errors: Float[np.ndarray, " steps"],
        initial: float,
        heldout: float,
        zero: float,
        seconds: float,
        probes: Float[np.ndarray, "probe_steps probes"],
    ) -> Outcome:
        p = self.program
        bad = ~np.isfinite(errors)
        first_bad = int(np.argmax(bad)) if bad.any() else p.steps - 1
        curve = np.where(np.arange(p.steps) >= first_bad, np.inf, errors) if bad.any() else errors
        loss = curve.reshape(p.study.epochs, p.steps_per_epoch).mean(axis=1)
        diverged = not loss[-1] <= initial
        return Outcome(
            spec=spec,
            status="diverged" if diverged else "finished",
            diverged_at=first_bad if diverged else None,
            initial_mse=float(initial),
            final_mse=float(loss[-1]),
            heldout_mse=math.inf if bad.any() else float(heldout),
            zero_mse=float(zero),
            loss=loss.astype(np.float32),
            seconds=seconds,
            device=self.program.platform,
            probe_steps=p.probe_steps,
            probes=dict(zip(p.study.probes, probes.T, strict=True)),
        )


class _OneByOne(_Layout):
    """CPU: one group; each model goes through the segment by itself, and stops when it diverges."""

    def run(self) -> list[Outcome]:
        p, (specs,), (built,) = self.program, self.chunk, self.built
        frames = [model.without_parameters() for model, _ in built]
        parameters = [model.parameters for model, _ in built]
        states = [optimizer.init(model.parameters) for model, optimizer in built]
        errors = np.full((len(specs), p.steps), np.inf)
        seconds = np.zeros(len(specs))
        dead = [False] * len(specs)
        step: Any = None
        clock = time.perf_counter()

        probes = self._no_probes(len(specs))

        def collect(first: int, i: int, error: Array, measured: Array | None) -> None:
            nonlocal clock
            errors[i, first : first + self.T] = error
            self._keep_probes(probes[i], first, measured)
            seconds[i] += time.perf_counter() - clock
            clock = time.perf_counter()
            dead[i] = not np.isfinite(errors[i, first + self.T - 1])
            self.listener.advanced(p.steps - first if dead[i] else self.T, specs[i])

        for first in range(0, p.steps, self.T):
            if all(dead):
                break
            segment = self._segment(first)
            if step is None:  # looked up once: the look-up costs as much as a small segment
                like = (parameters[0], states[0], frames[0], built[0][1], segment, p.due(first, self.T))
                step = p.compiled("advance", *like, joined=True, probes=p.study.probes)
            due = p.due(first, self.T)
            waiting: list[tuple[int, Array, Array | None]] = []
            for i, (_, optimizer) in enumerate(built):
                if self.stop.is_set():
                    raise Interrupted
                if dead[i]:
                    continue
                parameters[i], states[i], error, measured = step(
                    parameters[i], states[i], frames[i], optimizer, segment, due
                )
                waiting.append((i, error, measured))
                # The next model is under way while this one's results are fetched.
                if len(waiting) > 1:
                    collect(first, *waiting.pop(0))
            for last in waiting:
                collect(first, *last)
        initial, zero = self._before([model for model, _ in built])
        batches = self._heldout()
        outcomes = []
        for i, spec in enumerate(specs):
            heldout = math.inf if dead[i] else math.nan
            if batches is not None and not dead[i]:
                heldout = _mean(p.call("evaluate", frames[i].with_parameters(parameters[i]), batches))
            outcomes.append(
                self._outcome(spec, errors[i], initial[i], heldout, zero[0], float(seconds[i]), probes[i])
            )
        return outcomes


class _Together(_Layout):
    """GPU: all groups and all of their models advance as one array."""

    def run(self) -> list[Outcome]:
        p = self.program
        began = time.perf_counter()
        models = _stack([_stack([model for model, _ in group]) for group in self.built])
        optimizers = _stack([_stack([optimizer for _, optimizer in group]) for group in self.built])
        states = jax.vmap(jax.vmap(lambda o, m: o.init(m.parameters)))(optimizers, models)
        shape = (len(self.chunk), len(self.chunk[0]))
        start = jax.tree.map(jnp.copy, models)  # `advance` reuses the memory of what it is given
        errors = np.full((*shape, p.steps), np.inf)
        parameters, frame = models.parameters, models.without_parameters()
        step: Any = None
        waiting: tuple[int, Array, Array | None] | None = None
        probes = self._no_probes(*shape)

        def collect(first: int, error: Array, measured: Array | None) -> bool:
            errors[:, :, first : first + self.T] = error
            self._keep_probes(probes, first, measured)
            alive = bool(np.isfinite(errors[:, :, first + self.T - 1]).any())
            for spec in itertools.chain.from_iterable(self.chunk):
                self.listener.advanced(self.T if alive else p.steps - first, spec)
            return alive

        for first in range(0, p.steps, self.T):
            if self.stop.is_set():
                raise Interrupted
            segment = self._segment(first)
            now = (parameters, states, frame, optimizers, segment, p.due(first, self.T))
            if step is None:
                step = p.compiled("advance", *now, joined=False, probes=p.study.probes)
            parameters, states, error, measured = step(*now)
            # The errors of the segment before, so that the device never waits for the host.
            if waiting is not None and not collect(*waiting):
                waiting = None
                break
            waiting = first, error, measured
        if waiting is not None:
            collect(*waiting)
        (initial,), zero = self._before([start])
        batches = self._heldout()
        heldout = (
            np.full(shape, math.nan)
            if batches is None
            else np.mean(p.call("evaluate", frame.with_parameters(parameters), batches), axis=-1)
        )
        each = (time.perf_counter() - began) / errors[..., 0].size
        return [
            self._outcome(
                spec,
                errors[g, m],
                float(initial[g, m]),
                float(heldout[g, m]),
                float(zero[g]),
                each,
                probes[g, m],
            )
            for g, group in enumerate(self.chunk)
            for m, spec in enumerate(group)
        ]


@jax.jit
def _mean_square(batches: Array) -> Array:
    return jnp.mean(batches * batches, axis=(-1, -2))


def _mean(errors: Array) -> float:
    return float(np.mean(errors))


def _stack(items: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *items)
