"""The order in which a GPU stores the entries of a K×B array.

Centring and softmax are sums over the memories of each sample. XLA stores the result of a product with the
samples side by side, and then needs a kernel for each sum, and one for what follows. With the memories side
by side it does all of it in one kernel, and products take either order.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

#: The platforms on which the order matters so; a CPU has it as it is.
GPUS = ("cuda", "rocm")


def memories_side_by_side(Z: Float[Array, "*models K B"]) -> Float[Array, "*models K B"]:
    """Return an array of the same values, which a compiled program on a GPU stores sample by sample."""
    ordered: Array = _ordered.bind(Z)  # type: ignore[no-untyped-call]
    return ordered


def _constrained(Z: Array) -> Any:
    *models, K, B = range(Z.ndim)
    return with_layout_constraint(Z, Layout(major_to_minor=(*models, B, K)))  # type: ignore[no-untyped-call]


def _batched(arguments: tuple[Array], axes: tuple[int]) -> tuple[Array, int]:
    return memories_side_by_side(jnp.moveaxis(arguments[0], axes[0], 0)), 0


def _lowered(context: mlir.LoweringRuleContext, Z: Any) -> Any:
    """Leave the order to XLA where an array is on several devices: it would be gathered for this."""
    if getattr(context.module_context.axis_context, "num_devices", None) != 1:
        return [Z]
    return mlir.lower_fun(_constrained, multiple_results=False)(context, Z)


_ordered = Primitive("memories_side_by_side")
_ordered.def_impl(lambda Z: Z)  # type: ignore[no-untyped-call]
_ordered.def_abstract_eval(lambda Z: Z)  # type: ignore[no-untyped-call]
ad.deflinear2(_ordered, lambda cotangent, _: (cotangent,))  # type: ignore[no-untyped-call]
batching.primitive_batchers[_ordered] = _batched
mlir.register_lowering(_ordered, lambda _, Z: [Z])
for _platform in GPUS:
    mlir.register_lowering(_ordered, _lowered, platform=_platform)
