"""What a GPU is told about stored arrays: an order and a barrier there, nothing anywhere else, and never other values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import denseam as dam
from denseam.training.gradient import gradient_of_batch, loss_of_batch
from denseam.training.matrices import batch_of
from denseam.training.stored import GPUS, stored, stored_by_column

SHAPE = dam.Shape(N=6, K=8, P=50, B=5)


def lowered(function, *arguments, platform):
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_models_along_any_axis_stay_outside(axis):
    Z = np.ones((8, 5), np.float32)
    stacked = np.stack([Z] * 3, axis)
    text = lowered(jax.vmap(stored_by_column, in_axes=axis), stacked, platform="cuda")
    assert "tensor<3x8x5xf32>" in text
    assert "result_layouts = [dense<[1, 2, 0]>" in text  # from the fastest: memories, samples, models


@pytest.mark.parametrize("platform", [*GPUS, "cpu"])
def test_training_and_evaluation_have_it_on_a_gpu_alone(platform):
    scales = dam.prescription(dam.relu(), "sgd").at(SHAPE, eta0=0.01)
    model = dam.DenseAM.create(scales, dam.relu(), seed=0)
    X = jnp.ones((SHAPE.B, SHAPE.N))
    batch = batch_of(model, X, X)
    texts = [lowered(f, model, batch, platform=platform) for f in (gradient_of_batch, loss_of_batch)]
    orders = [text.count("@LayoutConstraint") for text in texts]
    barriers = [text.count("optimization_barrier") for text in texts]
    assert orders == ([0, 0] if platform == "cpu" else [3, 2])  # of Z, F and W Rᵀ; of Z and F
    assert barriers == ([0, 0] if platform == "cpu" else [5, 2])  # these, F, A, R²; Z, F


def test_models_that_share_their_batch_have_products_of_their_own():
    """XLA would make one tall product of them, whose order it chooses."""
    scales = dam.prescription(dam.relu(), "sgd").at(SHAPE, eta0=0.01)
    model = dam.DenseAM.create(scales, dam.relu(), seed=0)
    X = jnp.ones((SHAPE.B, SHAPE.N))
    three = jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), model)
    several = jax.vmap(gradient_of_batch, in_axes=(0, None))
    text = lowered(several, three, batch_of(model, X, X), platform="cuda")
    products = [line for line in text.splitlines() if "stablehlo.dot_general" in line]
    assert len(products) == 5
    assert all("batching_dims = [0] x [0]" in line for line in products)


def test_results_in_bfloat16_are_stored_in_it():
    """The sum of A for the bias reads what the product with A reads, and not another array of twice as many bytes."""
    scales = dam.prescription(dam.relu(), "sgd").at(SHAPE, eta0=0.01)
    model = dam.DenseAM.create(scales, dam.relu(), seed=0)
    low = model.with_parameters(model.parameters._replace(W=model.W.astype(jnp.bfloat16)))
    X = jnp.ones((SHAPE.B, SHAPE.N))
    text = lowered(gradient_of_batch, low, batch_of(model, X, X), platform="cuda")
    kept = [line for line in text.splitlines() if "optimization_barrier" in line]
    assert sum("tensor<8x5xbf16>" in line for line in kept) == 3  # Z, W R and A


@pytest.mark.parametrize("keep", [stored_by_column, stored])
def test_values_and_derivatives_are_those_without(keep):
    Z = jax.random.normal(jax.random.key(0), (8, 5))
    assert keep(Z) is Z
    assert np.array_equal(jax.jit(keep)(Z), Z)
    slope = jax.grad(lambda V: jnp.sum(keep(V) ** 2))(Z)
    assert np.array_equal(slope, 2 * Z)
