"""Batches with samples as columns, as in the paper, and the functions of a model that act on them.

Data come as rows. Inside, W stands on the left of every product, which is also fastest:

========  ==================================================================================
X, Y      a noisy batch and its clean version
G         N×B, the columns n ⊙ g(x): what the memories see
Z, S      K×B, pre-activations s1 W̃G + b̃1ᵀ and centred activations Cσ(Z)
F         N×B, outputs s2 WᵀS + c1ᵀ
========  ==================================================================================

W may be of a lower precision than the biases: then it is the precision of the operands of all products, and
of the results that are as large as Z or as W. F, of which differences are taken, and all sums of products are
as exact as b.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from denseam.model.dense_am import DenseAM
from denseam.model.lagrangians import Elementwise, Lagrangian
from denseam.training.contiguous import memories_side_by_side

#: How the two products of the gradient are computed: as one, as two, or as one over stacked pairs.
Joined = bool | Literal["stacked"]


class Columns(NamedTuple):
    """A batch for one step, already passed through g; shared by all models with the same features."""

    G: Float[Array, "N B"]
    Y: Float[Array, "N B"]


class Starts(NamedTuple):
    """A batch for steps of recall.

    Attributes
    ----------
    X, Y
        Where they start, and the clean samples.
    known
        Which features keep their value, if any.
    delay
        The length of each sample's burn-in as a share of the longest, in [0, 1); None if there is none.
    """

    X: Float[Array, "N B"]
    Y: Float[Array, "N B"]
    known: Bool[Array, "N B"] | None = None
    delay: Float[Array, "1 B"] | None = None


#: A batch as training sees it: `Starts` if the model takes its steps of recall, `Columns` otherwise.
Batch = Columns | Starts


def batch_of(
    model: DenseAM,
    X: Float[Array, "B N"],
    Y: Float[Array, "B N"],
    known: Bool[Array, "B N"] | None = None,
) -> Batch:
    """Return rows as the batch that a model is trained on."""
    if model.steps is None:
        return Columns(model.drive(X).T, Y.T)
    return Starts(X.T, Y.T, None if known is None else known.T)


class OfColumns(NamedTuple):
    """σ and (Z, V) ↦ J(Z) V of a Lagrangian, for samples as columns."""

    activation: Callable[[Array], Array]
    jacobian_product: Callable[[Array, Array], Array]


def of_columns(lagrangian: Lagrangian) -> OfColumns:
    """Return the functions of a Lagrangian, which act along rows, for samples as columns."""

    def by_column(function: Callable[..., Array]) -> Callable[..., Array]:
        if isinstance(lagrangian, Elementwise):
            return function
        return lambda *columns: jnp.swapaxes(function(*(jnp.swapaxes(V, -1, -2) for V in columns)), -1, -2)

    return OfColumns(by_column(lagrangian.activation), by_column(lagrangian.jacobian_product))


class ColumnFunctions(NamedTuple):
    """C, σ and (Z, V) ↦ J(Z) V for samples as columns."""

    centre: Callable[[Array], Array]
    activation: Callable[[Array], Array]
    jacobian_product: Callable[[Array, Array], Array]


def column_functions(model: DenseAM) -> ColumnFunctions:
    """Return the functions of a model's hidden neurons, which act along rows, for samples as columns."""

    def centre(V: Array) -> Array:
        return V - jnp.mean(V, axis=0, keepdims=True) if model.centred else V

    return ColumnFunctions(centre, *of_columns(model.activation))


def inward(model: DenseAM, V: Float[Array, "N B"]) -> Float[Array, "K B"]:
    """Return W V."""
    product = _product(model, model.W, V, model.W.dtype)
    return memories_side_by_side(product).astype(model.b.dtype)


def outward(model: DenseAM, V: Float[Array, "K B"]) -> Float[Array, "N B"]:
    """Return Wᵀ V."""
    return _product(model, model.W.T, V, model.b.dtype)


def _product(
    model: DenseAM, left: Array, right: Array, out: Any, of: Callable[..., Array] = jnp.matmul
) -> Array:
    """Return a product of operands in the type of W, as numbers of the type `out`."""
    low = model.W.dtype
    # Operands of a lower type are multiplied as they are; the others as the context says.
    precision = None if low == model.b.dtype else jax.lax.Precision.HIGHEST
    return of(left.astype(low), right.astype(low), precision=precision, preferred_element_type=out)


_summed_over_pairs = functools.partial(jnp.einsum, "tkb,tnb->kn")


def hidden(model: DenseAM, G: Float[Array, "N B"]) -> Float[Array, "K B"]:
    """Return Z = s1 W̃G + b̃1ᵀ."""
    return column_functions(model).centre(model.s1 * inward(model, G) + (model.s_b * model.b)[:, None])


def readout(model: DenseAM, S: Float[Array, "K B"]) -> Float[Array, "N B"]:
    """Return F = s2 WᵀS + c1ᵀ."""
    return model.s2 * outward(model, S) + (model.s_c * model.c)[:, None]


def outer_and_inner(model: DenseAM, S: Array, R: Array, A: Array, G: Array, joined: Joined) -> Any:
    """Return S Rᵀ + s1 A Gᵀ, for matrices or, if `joined` is 'stacked', also summed over a leading axis.

    Both have the same shape, so they can be one product of inner dimension 2B. That is faster on a CPU; two
    products (`joined` False) are faster on a GPU. On a mesh that distributes the samples, 'stacked' pairs are
    one product too, without moving samples between devices.
    """
    exact = model.b.dtype
    if joined == "stacked":
        join = jnp.stack if S.ndim == 2 else jnp.concatenate
        return _product(model, join([S, A]), join([R, model.s1 * G]), exact, _summed_over_pairs)
    if joined:
        left, right = (jnp.concatenate(pair, axis=1) for pair in ([S, A], [R, model.s1 * G]))
        return _product(model, left, right.T, exact)
    # Rounding the results costs no more than rounding the operands did, and they are as large as W.
    outer, inner = (_product(model, V, U.T, model.W.dtype).astype(exact) for V, U in ((S, R), (A, G)))
    return outer + model.s1 * inner
