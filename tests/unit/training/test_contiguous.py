"""The order of K×B arrays: an order on one GPU, nothing anywhere else, and never other values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import denseam as dam
from denseam.training.columns import batch_of
from denseam.training.contiguous import GPUS, memories_side_by_side
from denseam.training.gradient import gradient_of_columns, loss_of_columns

SHAPE = dam.Shape(N=6, K=8, P=50, B=5)


def lowered(function, *arguments, platform):
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_models_along_any_axis_stay_outside(axis):
    Z = np.ones((8, 5), np.float32)
    stacked = np.stack([Z] * 3, axis)
    text = lowered(jax.vmap(memories_side_by_side, in_axes=axis), stacked, platform="cuda")
    assert "tensor<3x8x5xf32>" in text
    assert "result_layouts = [dense<[1, 2, 0]>" in text  # from the fastest: memories, samples, models


@pytest.mark.parametrize("platform", [*GPUS, "cpu"])
def test_training_and_evaluation_have_it_on_a_gpu_alone(platform):
    scales = dam.prescription(dam.relu(), "sgd").at(SHAPE, eta0=0.01)
    model = dam.DenseAM.create(scales, dam.relu(), seed=0)
    X = jnp.ones((SHAPE.B, SHAPE.N))
    batch = batch_of(model, X, X)
    orders = [
        lowered(function, model, batch, platform=platform).count("@LayoutConstraint")
        for function in (gradient_of_columns, loss_of_columns)
    ]
    assert orders == ([0, 0] if platform == "cpu" else [2, 1])  # of Z and of W R; of Z


def test_values_and_derivatives_are_those_without():
    Z = jax.random.normal(jax.random.key(0), (8, 5))
    assert memories_side_by_side(Z) is Z
    assert np.array_equal(jax.jit(memories_side_by_side)(Z), Z)
    slope = jax.grad(lambda V: jnp.sum(memories_side_by_side(V) ** 2))(Z)
    assert np.array_equal(slope, 2 * Z)
