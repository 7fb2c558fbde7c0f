"""Products in bfloat16: operands and what is stored are rounded, weights and sums of products are not."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import denseam as dam
from denseam.training.batches import View, noisy_batches
from denseam.training.devices import products
from denseam.training.gradient import gradient_of_batch
from denseam.training.matrices import Ways, batch_of
from denseam.training.run import advance, evaluate

SHAPE = dam.Shape(N=24, K=48, P=120, B=40)
ROUNDING = 2.0**-8  # of bfloat16


def made(T, activation):
    scales = dam.prescription(activation, "adam").at(dataclasses.replace(SHAPE, T=T), eta0=0.02)
    return scales, dam.DenseAM.create(scales, activation, seed=1, bias_init="normal", dtype=jnp.float32)


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize(("T", "activation"), [(1, dam.relu()), (3, dam.relu()), (1, dam.softmax())])
def test_a_gradient_with_memories_in_bfloat16_is_that_in_float32_but_for_rounding(T, activation, stacked):
    _, model = made(T, activation)
    low = model.with_parameters(model.parameters._replace(W=model.W.astype(jnp.bfloat16)))
    X, Y = jax.random.normal(jax.random.key(0), (2, SHAPE.B, SHAPE.N), jnp.float32)
    batch = batch_of(model, X, Y)
    L, exact = gradient_of_batch(model, batch)
    L_low, rounded = gradient_of_batch(low, batch, Ways(stacked=stacked))
    assert float(L_low) == pytest.approx(float(L), rel=2 * ROUNDING)
    for one, other in zip(exact, rounded, strict=True):
        assert other.dtype == jnp.float32
        error = float(jnp.linalg.norm(one - other) / jnp.linalg.norm(one))
        assert 0 < error < 4 * ROUNDING


def test_training_in_bfloat16_keeps_float32_weights_and_nearly_the_same_losses():
    scales, model = made(1, dam.relu())
    clean = jax.random.normal(jax.random.key(1), (60, SHAPE.B, SHAPE.N), jnp.float32)
    segment = noisy_batches(
        clean, jax.random.split(jax.random.key(2), len(clean)), jnp.float32(0.5), View.of(model)
    )
    optimizer = dam.adam(scales)
    losses = {}
    for precision in ("float32", "bf16"):
        start = model.parameters, optimizer.init(model.parameters), model.without_parameters()
        with products(precision):
            parameters, state, errors, _ = jax.jit(advance)(*start, optimizer, segment)
            before = evaluate(model, segment)
        assert float(before[0]) == pytest.approx(float(errors[0]), rel=1e-5)  # the same products
        assert {leaf.dtype for leaf in jax.tree.leaves((parameters, state)) if leaf.ndim} == {
            jnp.dtype("float32")
        }
        losses[precision] = np.asarray(errors)
    assert losses["float32"][-1] < 0.9 * losses["float32"][0]
    assert not np.array_equal(losses["float32"], losses["bf16"])
    assert np.allclose(losses["float32"], losses["bf16"], rtol=4 * ROUNDING)
