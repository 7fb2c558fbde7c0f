"""What a GPU is told about arrays that one kernel writes and others read: results of products, above all.

**They are stored as they are.** XLA would otherwise join a product with the factors and additions that follow
it. Where the product is then one of a library, these need kernels of their own, although the next kernel,
which reads the result anyway, would do them for nothing.

**The memories of a sample lie side by side** in a K×B array. Centring and softmax are sums over the memories
of each sample. XLA stores the result of a product with the samples side by side, and then needs a kernel for
each sum, and one for what follows. With the memories side by side it does all of it in one kernel, and
products take either order.

On a CPU, and where an array is on several devices, both are left to XLA.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

#: The platforms on which it matters.
GPUS = ("cuda", "rocm")


def stored(V: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """Return an array of the same values, which a compiled program on a GPU stores before it goes on."""
    return _stored.bind(V, by_sample=False)  # type: ignore[no-any-return, no-untyped-call]


def memories_side_by_side(Z: Float[Array, "*models K B"]) -> Float[Array, "*models K B"]:
    """Return an array of the same values, which a compiled program on a GPU stores sample by sample."""
    return _stored.bind(Z, by_sample=True)  # type: ignore[no-any-return, no-untyped-call]


def _on_gpu(V: Array, *, by_sample: bool) -> Any:
    if by_sample:
        *models, K, B = range(V.ndim)
        V = with_layout_constraint(V, Layout(major_to_minor=(*models, B, K)))  # type: ignore[no-untyped-call]
    return jax.lax.optimization_barrier(V)  # type: ignore[no-untyped-call]


def _batched(arguments: tuple[Array], axes: tuple[int], *, by_sample: bool) -> tuple[Any, int]:
    models_first = jnp.moveaxis(arguments[0], axes[0], 0)
    return _stored.bind(models_first, by_sample=by_sample), 0  # type: ignore[no-untyped-call]


def _lowered(context: mlir.LoweringRuleContext, V: Any, *, by_sample: bool) -> Any:
    """Leave an array on several devices to XLA: it would be gathered for an order."""
    if getattr(context.module_context.axis_context, "num_devices", None) != 1:
        return [V]
    return mlir.lower_fun(_on_gpu, multiple_results=False)(context, V, by_sample=by_sample)


_stored = Primitive("stored")
_stored.def_impl(lambda V, *, by_sample: V)  # type: ignore[no-untyped-call]
_stored.def_abstract_eval(lambda V, *, by_sample: V)  # type: ignore[no-untyped-call]
ad.deflinear2(_stored, lambda cotangent, _, *, by_sample: (cotangent,))  # type: ignore[no-untyped-call]
batching.primitive_batchers[_stored] = _batched
mlir.register_lowering(_stored, lambda _, V, *, by_sample: [V])
for _platform in GPUS:
    mlir.register_lowering(_stored, _lowered, platform=_platform)
