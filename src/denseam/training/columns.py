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
from denseam.model.lagrangians import Elementwise, Lagrangian, Softmax
from denseam.training.stored import memories_side_by_side, stored

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
        if isinstance(lagrangian, Softmax):
            return functools.partial(function, axis=-2)
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
        return V - jnp.mean(V, axis=-2, keepdims=True) if model.centred else V

    return ColumnFunctions(centre, *of_columns(model.activation))


def centred(model: DenseAM, S: Float[Array, "*steps K B"]) -> Float[Array, "*steps K B"]:
    """Return Cσ of activations σ: those with a fixed sum have a fixed mean."""
    total = model.activation.total
    if total is None or not model.centred:
        return column_functions(model).centre(S)
    return S - total / S.shape[-2]


def centred_within(model: DenseAM, V: Float[Array, "K B"]) -> Float[Array, "K B"]:
    """Return CV before σ or around J. If activations have a fixed sum, σ(CZ) = σ(Z) and CJC = J: V itself."""
    return V if model.activation.total is not None else column_functions(model).centre(V)


def inward(model: DenseAM, V: Float[Array, "N B"]) -> Float[Array, "K B"]:
    """Return W V."""
    product = _product(model, model.W, V, model.W.dtype)
    return memories_side_by_side(product).astype(model.b.dtype)


def outward(model: DenseAM, V: Float[Array, "K B"]) -> Float[Array, "N B"]:
    """Return Wᵀ V."""
    return stored(_product(model, model.W.T, V, model.b.dtype))


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
    """Return Z = s1 W̃G + b̃1ᵀ, without the centring if σ does not see it.

    It is W times s1 G. Models on a GPU share G but not s1 G, even if their s1 are equal: of a G that they
    share, XLA makes one tall product of all of them, with the samples side by side.
    """
    return centred_within(model, inward(model, model.s1 * G) + (model.s_b * model.b)[:, None])


def readout(model: DenseAM, S: Float[Array, "K B"]) -> Float[Array, "N B"]:
    """Return F = s2 WᵀS + c1ᵀ."""
    return model.s2 * outward(model, S) + (model.s_c * model.c)[:, None]


def backward(model: DenseAM, Z: Float[Array, "K B"], V: Float[Array, "N B"]) -> Float[Array, "K B"]:
    """Return A = C J C (W V), in the type of W: it is stored for two products and a sum."""
    _, _, jacobian_product = column_functions(model)
    A = centred_within(model, jacobian_product(Z, centred_within(model, inward(model, V))))
    return stored(A.astype(model.W.dtype))


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
    pairs = (S, R), (A, model.s1 * G)
    outer, inner = (_product(model, V, U.T, model.W.dtype).astype(exact) for V, U in pairs)
    return outer + inner
