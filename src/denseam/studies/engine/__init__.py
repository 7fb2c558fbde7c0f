"""The engine: trains many runs at once, in the layout that suits the device.

On a CPU there is one worker thread per core. Each runs a single-threaded program that advances a bundle of
models by a segment of steps: one model, or a few if they are small. It takes the bundles of one seed through
a segment one after the other, so that their weights stay in the core's cache. On a GPU all models of a chunk
advance together. Either way the models of one seed see the same batches and noise, drawn once per segment for
all of them, already passed through g. A GPU has two chunks at a time: while one trains, the arrays of the
other are made or its results fetched.

`programs` has the functions of a shape; `chunks` cuts and orders the work; `ahead` compiles for it on a GPU;
`layouts` train a chunk; `times` says where the time went.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax

from denseam.ground.errors import InputError
from denseam.rules import Shape
from denseam.studies.engine.ahead import Coming
from denseam.studies.engine.chunks import Chunk, cut, halves, in_order, model_bytes
from denseam.studies.engine.layouts import train_chunk
from denseam.studies.engine.programs import Program
from denseam.studies.engine.times import Times
from denseam.studies.runs import Interrupted, Outcome, RunsOfStudies, sharing_batches
from denseam.studies.study import RunSpec, Study
from denseam.training.devices import MEMORY_SHARE, check_precision, cores, memory, numbers, platform_of
from denseam.training.progress import Progress

#: Chunks that a GPU has at a time.
IN_FLIGHT = 2


def train_runs(study: Study, specs: Sequence[RunSpec], **options: Any) -> Iterator[list[Outcome]]:
    """Train runs of one study, with the options of `train_studies`; yield the outcomes chunk by chunk."""
    for _, outcomes in train_studies([(study, specs)], **options):
        yield outcomes


def train_studies(
    todo: RunsOfStudies,
    *,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    devices: Sequence[Any] | None = None,
    workers: int | None = None,
    times: Times | None = None,
) -> Iterator[tuple[Study, list[Outcome]]]:
    """Train runs of studies; yield the outcomes chunk by chunk, as chunks end, each with its study.

    A CPU trains one study after the other. A GPU has all of them at once, so that it trains some while
    programs for others are compiled.

    Parameters
    ----------
    todo
        Studies, each with the runs of it to train.
    progress
        Receives the events.
    stop
        When set, workers stop within a segment; unfinished chunks are discarded.
    devices
        The devices to use; by default all GPUs, or the CPU.
    workers
        Threads on the CPU; by default one per core.
    times
        Receives the seconds that compiling and training took.
    """
    progress, times = progress or Progress(), times or Times()
    devices = list(devices or jax.devices())
    platform = platform_of(devices[0])
    for study, _ in todo:
        check_precision(study.precision, platform)
    if platform == "cpu":
        threads = workers or cores()
        crew = _Crew(platform, [devices[i % len(devices)] for i in range(threads)], threads, threads)
        for one in todo:
            yield from _train([one], crew, progress, _Stop(stop), times)
    else:
        crew = _Crew(platform, devices * IN_FLIGHT, len(devices), IN_FLIGHT)
        yield from _train(todo, crew, progress, _Stop(stop), times)


class _Crew(NamedTuple):
    """Who trains: the device of every worker, the parts that work is cut into, who shares a memory."""

    platform: str
    devices: Sequence[Any]
    parts: int
    sharing: int


def _train(
    todo: RunsOfStudies, crew: _Crew, progress: Progress, ended: _Stop, times: Times
) -> Iterator[tuple[Study, list[Outcome]]]:
    """Train the runs of studies at once."""
    threads = len(crew.devices)
    work: list[tuple[Program, Chunk]] = []
    for study, specs in todo:
        by_shape: dict[Shape, list[RunSpec]] = {}
        for spec in specs:
            by_shape.setdefault(spec.shape, []).append(spec)
        for shape, runs in by_shape.items():
            groups = len(sharing_batches(runs))
            program = Program(study, shape, crew.platform, progress, threads, len(runs), groups, crew.sharing)
            if model_bytes(program) > memory(crew.platform) / MEMORY_SHARE:
                raise _too_large(shape)  # on a CPU, the system would end the process
            work += [(program, chunk) for chunk in cut(runs, program, crew.parts)]
    work = in_order(work)
    left = collections.Counter(program for program, _ in work)
    devices = list(dict.fromkeys(crew.devices))
    coming: Coming | None = None
    rooms = {device: _Room() for device in devices}
    free: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for device in crew.devices:
        free.put(device)

    def train(program: Program, chunk: Chunk) -> tuple[Program, list[Outcome]]:
        if ended.is_set():
            raise Interrupted
        device = free.get()

        def ready() -> None:
            if coming is not None:
                with times.waiting():
                    coming.wait(program, chunk, device)

        try:
            with jax.default_device(device), numbers(program.study.precision), times.working():
                return program, _train_what_fits(program, chunk, progress, ended, ready, rooms[device])
        finally:
            free.put(device)

    pool = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="denseam")
    interrupted: Interrupted | None = None
    failure: Exception | None = None
    try:
        if crew.platform == "gpu":
            coming = Coming(work, devices, times, ended)
        futures = [pool.submit(train, *item) for item in work]
        for future in concurrent.futures.as_completed(futures):
            try:
                program, outcomes = future.result()
            except Interrupted as error:  # chunks that have ended are kept
                interrupted = error
                continue
            except Exception as error:  # of the first chunk that fails; the others stop
                failure = failure or error
                ended.set()
                continue
            left[program] -= 1
            if not left[program]:
                program.segments.clear()  # other studies need the memory
                program.groups.clear()
            yield program.study, outcomes
            progress.finished(outcomes)  # now they are saved
        if failure is not None:
            raise failure
        if interrupted is not None:
            raise interrupted
    finally:  # also if the consumer stops, or Ctrl-C arrives
        ended.set()
        pool.shutdown(wait=True, cancel_futures=True)
        if coming is not None:
            coming.end()


class _Stop(threading.Event):
    """Set when this call ends or when the caller's event is set; the caller's event is never touched."""

    def __init__(self, callers: threading.Event | None) -> None:
        super().__init__()
        self._callers = callers

    def is_set(self) -> bool:
        return super().is_set() or (self._callers is not None and self._callers.is_set())


class _Room:
    """The memory of a device: several chunks share it, unless one needs all of it."""

    def __init__(self) -> None:
        self._changed, self._next = threading.Condition(), threading.Lock()
        self._inside, self._closed = 0, False

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Share the memory with others."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other is inside, and let none in."""
        with self._next:
            with self._changed:
                self._closed = True
                self._changed.wait_for(lambda: not self._inside)
            try:
                yield
            finally:
                with self._changed:
                    self._closed = False
                    self._changed.notify_all()


def _train_what_fits(
    program: Program,
    chunk: Chunk,
    progress: Progress,
    stop: threading.Event,
    ready: Callable[[], None],
    room: _Room,
) -> list[Outcome]:
    """Train a chunk; if it fails, for example for lack of memory, train its halves, or one model alone."""
    large = model_bytes(program) > program.memory  # than its share
    try:
        with room.alone() if large else room.shared():
            return train_chunk(program, chunk, progress, stop, ready)
    except (MemoryError, jax.errors.JaxRuntimeError):
        parts = halves(chunk)
    if len(parts) > 1:
        return [o for part in parts for o in _train_what_fits(program, part, progress, stop, ready, room)]
    try:
        with room.alone():
            return train_chunk(program, chunk, progress, stop, ready)
    except (MemoryError, jax.errors.JaxRuntimeError):
        if model_bytes(program) <= memory(program.platform):
            raise
        raise _too_large(program.shape) from None


def _too_large(shape: Shape) -> InputError:
    """Return the error about a model that the device cannot hold."""
    return InputError(f"scales: one model of {shape} does not fit into the memory of the device")
