"""Batches as matrices, and the functions of a model that act on them.

A sample is a row of what has features, as in the data, and a column of what has memories. Then W, which is
K×N, is never transposed in a product, which is also fastest:

========  ==================================================================================
X, Y      B×N, a noisy batch and its clean version
G         B×N, the rows n ⊙ g(x): what the memories see
Z, S      K×B, pre-activations s1 W̃Gᵀ + b̃1ᵀ and centred activations Cσ(Z)
F         B×N, outputs s2 SᵀW + 1cᵀ
========  ==================================================================================

The paper has samples as columns everywhere: its X, Y, G and F are the transposes of these.

W may be of a lower precision than the biases: then it is the precision of the operands of all products, and
of the results that are as large as Z or as W. F, of which differences are taken, and all sums of products are
as exact as b.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from denseam.model.dense_am import DenseAM
from denseam.model.lagrangians import Elementwise, Softmax
from denseam.training.stored import stored, stored_by_column


class Ways(NamedTuple):
    """How a gradient is computed; what it is does not depend on them.

    Attributes
    ----------
    stacked
        The two products that make the gradient of W are one over stacked pairs. On a mesh that distributes
        the samples it is summed once, without moving samples between devices.
    written_out
        A few steps of recall are written out one after the other instead of in a loop, whose arrays a GPU
        would have to copy.
    recompute
        Pre-activations of steps of recall are computed again in the backward pass, which saves memory.
    """

    stacked: bool = False
    written_out: bool = False
    recompute: bool = False


#: As on one CPU.
PLAIN: Ways = Ways()


class Driven(NamedTuple):
    """A batch for one step, already passed through g; shared by all models with the same features."""

    G: Float[Array, "B N"]
    Y: Float[Array, "B N"]


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

    X: Float[Array, "B N"]
    Y: Float[Array, "B N"]
    known: Bool[Array, "B N"] | None = None
    delay: Float[Array, "B 1"] | None = None


#: A batch as training sees it: `Starts` if the model takes its steps of recall, `Driven` otherwise.
Batch = Driven | Starts


def batch_of(
    model: DenseAM,
    X: Float[Array, "B N"],
    Y: Float[Array, "B N"],
    known: Bool[Array, "B N"] | None = None,
) -> Batch:
    """Return rows as the batch that a model is trained on."""
    if model.steps is None:
        return Driven(model.drive(X), Y)
    return Starts(X, Y, known)


class HiddenFunctions(NamedTuple):
    """C, σ and (Z, V) ↦ J(Z) V for samples as columns."""

    centre: Callable[[Array], Array]
    activation: Callable[[Array], Array]
    jacobian_product: Callable[[Array, Array], Array]


def hidden_functions(model: DenseAM) -> HiddenFunctions:
    """Return the functions of a model's hidden neurons, which act along rows, for samples as columns."""
    of = model.activation

    def centre(V: Array) -> Array:
        return V - jnp.mean(V, axis=-2, keepdims=True) if model.centred else V

    def by_column(function: Callable[..., Array]) -> Callable[..., Array]:
        if isinstance(of, Elementwise):
            return function
        if isinstance(of, Softmax):
            return functools.partial(function, axis=-2)
        return lambda *columns: jnp.swapaxes(function(*(jnp.swapaxes(V, -1, -2) for V in columns)), -1, -2)

    return HiddenFunctions(centre, by_column(of.activation), by_column(of.jacobian_product))


def centred(model: DenseAM, S: Float[Array, "*steps K B"]) -> Float[Array, "*steps K B"]:
    """Return Cσ of activations σ: those with a fixed sum have a fixed mean."""
    total = model.activation.total
    if total is None or not model.centred:
        return hidden_functions(model).centre(S)
    return S - total / S.shape[-2]


def centred_within(model: DenseAM, V: Float[Array, "K B"]) -> Float[Array, "K B"]:
    """Return CV before σ or around J. If activations have a fixed sum, σ(CZ) = σ(Z) and CJC = J: V itself."""
    return V if model.activation.total is not None else hidden_functions(model).centre(V)


def inward(model: DenseAM, V: Float[Array, "B N"]) -> Float[Array, "K B"]:
    """Return W Vᵀ."""
    product = _product(model, model.W, V, model.W.dtype, _summed_over_features)
    return stored_by_column(product).astype(model.b.dtype)


def outward(model: DenseAM, V: Float[Array, "K B"]) -> Float[Array, "B N"]:
    """Return Vᵀ W."""
    return stored_by_column(_product(model, V, model.W, model.b.dtype, _summed_over_memories))


def _product(
    model: DenseAM, left: Array, right: Array, out: Any, of: Callable[..., Array] = jnp.matmul
) -> Array:
    """Return a product of operands in the type of W, as numbers of the type `out`."""
    low = model.W.dtype
    # Operands of a lower type are multiplied as they are; the others as the context says.
    precision = None if low == model.b.dtype else jax.lax.Precision.HIGHEST
    return of(left.astype(low), right.astype(low), precision=precision, preferred_element_type=out)


_summed_over_features = functools.partial(jnp.einsum, "kn,bn->kb")
_summed_over_memories = functools.partial(jnp.einsum, "kb,kn->bn")
_summed_over_pairs = functools.partial(jnp.einsum, "tkb,tbn->kn")


def hidden(model: DenseAM, G: Float[Array, "B N"]) -> Float[Array, "K B"]:
    """Return Z = s1 W̃Gᵀ + b̃1ᵀ, without the centring if σ does not see it.

    It is W times (s1 G)ᵀ. Models on a GPU share G but not s1 G, even if their s1 are equal: of a G that they
    share, XLA makes one tall product of all of them, with the samples side by side.
    """
    return centred_within(model, inward(model, model.s1 * G) + (model.s_b * model.b)[:, None])


def readout(model: DenseAM, S: Float[Array, "K B"]) -> Float[Array, "B N"]:
    """Return F = s2 SᵀW + 1cᵀ."""
    return model.s2 * outward(model, S) + (model.s_c * model.c)[None]


def backward(model: DenseAM, Z: Float[Array, "K B"], V: Float[Array, "B N"]) -> Float[Array, "K B"]:
    """Return A = C J C (W Vᵀ), in the type of W: it is stored for two products and a sum."""
    jacobian_product = hidden_functions(model).jacobian_product
    A = centred_within(model, jacobian_product(Z, centred_within(model, inward(model, V))))
    return stored(A.astype(model.W.dtype))


def outer_and_inner(model: DenseAM, S: Array, R: Array, A: Array, G: Array, *, stacked: bool) -> Any:
    """Return S R + s1 A G, for matrices or, if `stacked`, also summed over a leading axis."""
    exact = model.b.dtype
    if stacked:
        join = jnp.stack if S.ndim == 2 else jnp.concatenate
        return _product(model, join([S, A]), join([R, model.s1 * G]), exact, _summed_over_pairs)
    # Rounding the results costs no more than rounding the operands did, and they are as large as W.
    pairs = (S, R), (A, model.s1 * G)
    outer, inner = (_product(model, V, U, model.W.dtype).astype(exact) for V, U in pairs)
    return outer + inner
