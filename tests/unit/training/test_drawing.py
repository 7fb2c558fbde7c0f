"""Batches drawn by programs for all shapes are those of one program for each shape, bit by bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from denseam.model.lagrangians import Identity, Tanh
from denseam.model.streams import stream
from denseam.training import batches, drawing
from denseam.training.batches import View, mean_square, sample_order

N, P, B, STEPS = 11, 29, 4, 5
VIEWS = {
    "tanh": View(Tanh()),
    "identity": View(Identity()),
    "steps": View(None),
    "hidden": View(None, 3, "block"),
    "delayed": View(None, delayed=True),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(4, 6, 5), (2, 3, 6, 5)])
def test_mean_squares_are_the_same_on_the_host_and_in_a_program(shape, dtype):
    Y = jnp.asarray(np.random.default_rng(0).normal(size=shape), dtype)
    here, there = mean_square(Y), jax.jit(mean_square)(Y)
    assert here.dtype == there.dtype == dtype
    np.testing.assert_allclose(here, np.mean(np.asarray(Y) ** 2, axis=(-1, -2)), rtol=1e-6)
    np.testing.assert_allclose(here, there, rtol=1e-6)


def equal(one, other):
    assert type(one) is type(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_batches_are_the_same(view, dtype):
    data, noise = jax.random.normal(stream(0, "data"), (P, N), dtype), jnp.asarray(0.4, dtype)
    order, key, first = sample_order(0, 0, P, B)[:STEPS], stream(0, "noise"), np.int32(70)
    equal(
        drawing.draw(data, order, key, first, noise, view),
        jax.jit(batches.draw)(data, order, key, first, noise, view),
    )
    equal(drawing.cut(data, key, noise, 3, B, view), view.cut(data, key, noise, 3, B))


def test_another_shape_needs_no_program(compiled):
    def draw(N, B):
        data = jax.device_put(np.ones((P, N), np.float32))
        drawing.draw(data, sample_order(0, 0, P, B), key, np.int32(0), np.float32(0.4), VIEWS["tanh"])
        drawing.cut(data, key, np.float32(0.4), 2, B, VIEWS["tanh"])

    key = stream(0, "noise")
    draw(5, 3)
    before = len(compiled)
    draw(13, 7)
    assert compiled[before:] == []
