"""What a GPU is told about arrays that one kernel writes and others read: results of products, above all.

**They are stored as they are.** XLA would otherwise join a product with the factors and additions that follow
it. Where the product is then one of a library, these need kernels of their own, although the next kernel,
which reads the result anyway, would do them for nothing.

**Matrices are stored column by column**, and products take either order. In a K×B matrix the memories of a
sample then lie side by side. Centring and softmax are sums over them. XLA would store the matrix row by row,
and need a kernel for each sum, and one for what follows; this way it does all of it in one kernel. In a B×N
matrix the samples of a feature lie side by side, over which the gradient of c is a sum.

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
    return _stored.bind(V, columns=False)  # type: ignore[no-any-return, no-untyped-call]


def stored_by_column(V: Float[Array, "*models row column"]) -> Float[Array, "*models row column"]:
    """Return an array of the same values, which a compiled program on a GPU stores column by column."""
    return _stored.bind(V, columns=True)  # type: ignore[no-any-return, no-untyped-call]


def _on_gpu(V: Array, *, columns: bool) -> Any:
    if columns:
        *models, row, column = range(V.ndim)
        V = with_layout_constraint(V, Layout(major_to_minor=(*models, column, row)))  # type: ignore[no-untyped-call]
    return jax.lax.optimization_barrier(V)  # type: ignore[no-untyped-call]


def _batched(arguments: tuple[Array], axes: tuple[int], *, columns: bool) -> tuple[Any, int]:
    models_first = jnp.moveaxis(arguments[0], axes[0], 0)
    return _stored.bind(models_first, columns=columns), 0  # type: ignore[no-untyped-call]


def _lowered(context: mlir.LoweringRuleContext, V: Any, *, columns: bool) -> Any:
    """Leave an array on several devices to XLA: it would be gathered for an order."""
    if getattr(context.module_context.axis_context, "num_devices", None) != 1:
        return [V]
    return mlir.lower_fun(_on_gpu, multiple_results=False)(context, V, columns=columns)


_stored = Primitive("stored")
_stored.def_impl(lambda V, *, columns: V)  # type: ignore[no-untyped-call]
_stored.def_abstract_eval(lambda V, *, columns: V)  # type: ignore[no-untyped-call]
ad.deflinear2(_stored, lambda cotangent, _, *, columns: (cotangent,))  # type: ignore[no-untyped-call]
batching.primitive_batchers[_stored] = _batched
mlir.register_lowering(_stored, lambda _, V, *, columns: [V])
for _platform in GPUS:
    mlir.register_lowering(_stored, _lowered, platform=_platform)
