"""The functions of one shape: draw batches, take steps on them, evaluate.

`jax.jit` keeps compiled programs for the rest of the process, by shapes, device and precision; one thread
compiles while others wait for the same program.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from denseam.model.normals import on_host
from denseam.rules import Shape
from denseam.rules.cost import recomputes
from denseam.studies.study import Study
from denseam.training import drawing
from denseam.training.batches import View, draw
from denseam.training.devices import RATES, dtype_of, memory, products
from denseam.training.matrices import Batch, Ways
from denseam.training.progress import Progress
from denseam.training.run import advance, evaluate

T = TypeVar("T")


def _draw_groups(data: Array, samples: Array, keys: Array, first: Array, noise: Array, view: View) -> Batch:
    groups: Batch = jax.vmap(draw, in_axes=(0, 0, 0, None, 0, None))(data, samples, keys, first, noise, view)
    return groups


def advance_models(
    parameters: Any, *others: Any, ways: Ways, probes: tuple[str, ...]
) -> tuple[Any, Any, Array, Array | None]:
    """Advance models that share their batches, and the steps to measure."""
    one: Any = functools.partial(advance, ways=ways, probes=probes)
    *models, segment, due = parameters, *others
    if len(parameters.b) == 1:  # products of matrices are faster than those of stacks of one
        alone = one(*jax.tree.map(lambda leaf: leaf[0], models), segment, due)
        return jax.tree.map(lambda leaf: leaf[None], alone)  # type: ignore[no-any-return]
    return jax.vmap(one, in_axes=(0, 0, 0, 0, None, None))(*models, segment, due)  # type: ignore[no-any-return]


def _advance_groups(*now: Any, ways: Ways, probes: tuple[str, ...]) -> Any:
    """Advance groups × models; all groups share the steps to measure."""
    models = functools.partial(advance_models, ways=ways, probes=probes)
    return jax.vmap(models, in_axes=(0, 0, 0, 0, 0, None))(*now)


def _evaluate_groups(models: Any, segments: Batch) -> Array:
    errors: Array = jax.vmap(jax.vmap(evaluate, in_axes=(0, None)))(models, segments)
    return errors


def _cut(Y: Array, key: Array, noise: Array, n: int, size: int, view: View) -> Batch:
    return drawing.cut(Y, key, noise, n, size, view) if on_host(key) else view.cut(Y, key, noise, n, size)


class _Functions(NamedTuple):
    draw: Callable[..., Batch]
    cut: Callable[..., Batch]
    advance: Callable[..., Any]
    evaluate: Callable[..., Array]


def _of_groups(advanced: Mapping[str, Any]) -> _Functions:
    """Return the functions for all models of a chunk, with compiler options for the one that trains."""
    return _Functions(
        jax.jit(_draw_groups, compiler_options=_AS_IT_IS),
        _cut,
        jax.jit(
            _advance_groups, static_argnames=("ways", "probes"), donate_argnums=(0, 1),
            compiler_options=dict(advanced),
        ),
        jax.jit(_evaluate_groups, compiler_options=_AS_IT_IS),
    )  # fmt: skip


#: XLA tries many kernels for each product on a GPU, which takes most of the compilation. Where the runs are
#: over in less than these seconds, and always for drawing and evaluation, it takes the one that cuBLAS
#: expects to be good. (Of Triton's kernels it would take a small one, whatever the product.)
WORTH_TUNING = 1.0
_AS_IT_IS = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}

#: On a CPU a program is for a bundle of models, and several run at once, one on each core; drawing needs no
#: program of the shape. On a GPU a program is for all models of a chunk, and reuses the memory of their
#: parameters and moments.
_ON_CPU = _Functions(
    drawing.draw,
    drawing.cut,
    jax.jit(advance_models, static_argnames=("ways", "probes")),
    jax.jit(evaluate),
)
#: A step of a bundle takes about so many operations: with less, a model took up to twice as long (measured at
#: N = 32 and 64). A model of N = 128 is a bundle of its own, eight of N = 32 are one.
BUNDLE_OPERATIONS, MOST_IN_A_BUNDLE = 1e7, 8
#: Where more entries of batches are drawn than these, a program for their shape is worth its compilation,
#: which takes 0.09 s: while models train, it takes about 13 ns less for each.
WORTH_COMPILING = 5e6
_ON_CPU_AT_LENGTH = _ON_CPU._replace(draw=drawing.draw_in_one)
_ON_GPU, _ON_GPU_IN_SHORT = _of_groups({}), _of_groups(_AS_IT_IS)


class Program:
    """What the runs of one study at one shape have in common.

    `runs` is their number; `groups` that of their groups, which share batches; `sharing` that of the workers
    that share the memory.
    """

    def __init__(
        self,
        study: Study,
        shape: Shape,
        platform: str,
        progress: Progress,
        threads: int = 1,
        runs: int = 1,
        groups: int = 1,
        sharing: int = 1,
    ) -> None:
        assert shape.P is not None
        assert shape.B is not None
        self.study, self.shape, self.platform = study, shape, platform
        self.P, self.B = shape.P, shape.B
        self.steps_per_epoch = self.P // self.B
        self.epochs, self.steps = study.epochs_at(shape), study.updates(shape)
        self.probe_steps = study.steps_to_probe(shape)
        self.dtype = dtype_of(study.precision)
        self.memory = memory(platform) / sharing
        self.recompute = recomputes(
            shape, study.optimizer, self.memory, jnp.dtype(self.dtype).itemsize, bool(study.probes)
        )
        self.segments = Recent[Batch](2 * threads)  # per worker one in use, one being drawn
        self.groups = Recent[Any](threads if platform == "cpu" else 0)  # a GPU has few chunks of a group
        self.bundle = self._in_a_bundle()
        self._progress, self._announced, self._announcing = progress, False, threading.Lock()
        if platform == "cpu":
            long = groups * self.steps * shape.B * shape.N > WORTH_COMPILING
            self._functions = _ON_CPU_AT_LENGTH if long else _ON_CPU
        else:
            long = runs * study.operations(shape) / RATES["gpu"] > WORTH_TUNING
            self._functions = _ON_GPU if long else _ON_GPU_IN_SHORT

    def _in_a_bundle(self) -> int:
        """Return how many models a CPU advances at once: a power of two, by the shape alone.

        What else is trained beside a model must not change its last digits.
        """
        operations = self.study.step_operations(self.shape, recompute=self.recompute)
        models = 2 ** round(math.log2(max(1.0, BUNDLE_OPERATIONS / operations)))
        return int(min(models, MOST_IN_A_BUNDLE))

    def draw(self, *samples: Any) -> Batch:
        """Return batches with their noise."""
        return self._functions.draw(*samples)

    def shapes_of_draw(self, *samples: Any) -> Any:
        """Return the shapes and types of what `draw` returns, given those of its arguments."""
        return self._functions.draw.eval_shape(*samples)  # type: ignore[attr-defined]

    def cut(self, *samples: Any) -> Batch:
        """Return the held-out samples of a group as batches with their noise."""
        return self._functions.cut(*samples)

    def advance(self, *now: Any) -> Any:
        """Take a step on every batch of a segment; return parameters, state, losses and probes."""
        self._announce()
        with products(self.study.precision):
            return self._functions.advance(*now, **self._options)

    def evaluate(self, model: Any, batches: Batch) -> np.ndarray[Any, Any]:
        """Return the loss on every batch."""
        with products(self.study.precision):
            return np.asarray(self._functions.evaluate(model, batches))

    def compile(self, draw: Sequence[Any], advance: Sequence[Any], evaluate: Sequence[Any]) -> None:
        """Compile for arguments of which only shapes and types are known; later calls find the programs."""
        self._announce()
        self._functions.draw.lower(*draw).compile()  # type: ignore[attr-defined]
        with products(self.study.precision):
            self._functions.advance.lower(*advance, **self._options).compile()  # type: ignore[attr-defined]
            self._functions.evaluate.lower(*evaluate).compile()  # type: ignore[attr-defined]

    @property
    def _options(self) -> dict[str, Any]:
        ways = Ways(written_out=self.platform == "gpu", recompute=self.recompute)
        return {"ways": ways, "probes": self.study.probes}

    def _announce(self) -> None:
        with self._announcing:
            if not self._announced:
                self._announced = True
                self._progress.compiling(self.shape)

    def due(self, first: int, count: int) -> Array | None:
        """Return which of the steps from `first` on are measured; None without probes."""
        if not self.study.probes:
            return None
        return jnp.asarray(np.isin(np.arange(first, first + count), self.probe_steps))


class Recent(Generic[T]):
    """The last few arrays that were drawn: segments, or what the runs of a seed share.

    Workers on one seed need the same ones at about the same time, and drawing a segment costs up to a tenth
    of training on it: one of them draws it ahead, and only those that need it now wait.
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._held: dict[Any, Future[T]] = {}

    def get(self, which: Any, draw: Callable[[], T]) -> T:
        """Return what has this key; draw it if it is not among the last few."""
        return self.begin(which, draw).result()

    def begin(self, which: Any, draw: Callable[[], T]) -> Future[T]:
        """Return what will have this key: draw it, unless another worker has drawn it or is about to."""
        with self._lock:
            known = self._held.pop(which, None)
            drawn = self._held[which] = Future() if known is None else known
            while len(self._held) > self._most:
                del self._held[next(iter(self._held))]
        if known is None:
            try:
                drawn.set_result(draw())
            except BaseException as error:
                drawn.set_exception(error)
                with self._lock:
                    self._held.pop(which, None)
        return drawn

    def clear(self) -> None:
        """Let all of them go."""
        with self._lock:
            self._held.clear()
