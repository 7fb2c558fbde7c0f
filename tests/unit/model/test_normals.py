"""Normal numbers from blocks are those of `jax.random`, bit by bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from denseam.model import normals
from denseam.model.dense_am import DenseAM
from denseam.model.lagrangians import ReLU
from denseam.model.streams import stream
from denseam.rules import Shape, prescription


@pytest.mark.parametrize("shape", [(), (1,), (5, 3), (257, 129)])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_they_are_those_of_jax(shape, dtype):
    key = stream(7, "W")
    drawn = normals.normal(key, shape, dtype)
    assert isinstance(drawn, jax.Array)
    assert drawn.dtype == dtype
    np.testing.assert_array_equal(drawn, jax.random.normal(key, shape, dtype))
    np.testing.assert_array_equal(normals.normal(key, shape, dtype, 0.3), jnp.asarray(0.3, dtype) * drawn)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_those_within_a_program_are_those_of_jax(dtype):
    keys = jax.random.split(stream(7, "noise"), 3)
    drawn, expected = (
        jax.jit(jax.vmap(lambda key, draw=draw: draw(key, (257, 129), dtype)))(keys)
        for draw in (normals.within, jax.random.normal)
    )
    assert drawn.dtype == dtype
    np.testing.assert_array_equal(drawn, expected)


def test_within_a_program_a_cpu_has_no_loop_of_rounds_and_a_gpu_has_those_of_jax():
    def text(draw, platform):
        traced = jax.jit(lambda key: draw(key, (5, 3), jnp.float32)).trace(stream(7, "noise"))
        return traced.lower(lowering_platforms=(platform,)).as_text()

    assert "stablehlo.while" in text(jax.random.normal, "cpu")
    assert "stablehlo.while" not in text(normals.within, "cpu")
    assert ("custom_call" in text(normals.within, "cuda")) == (
        "custom_call" in text(jax.random.normal, "cuda")
    )


def test_large_arrays_and_traced_keys_are_left_to_jax(monkeypatch):
    key = stream(7, "W")
    monkeypatch.setattr(normals, "MOST_BLOCKS", 0)
    monkeypatch.setattr(normals, "in_blocks", None)
    expected = jax.random.normal(key, (5, 3), jnp.float32)
    np.testing.assert_array_equal(normals.normal(key, (5, 3), jnp.float32), expected)
    monkeypatch.undo()
    traced = jax.jit(lambda: normals.normal(stream(7, "W"), (5, 3), jnp.float32))
    np.testing.assert_array_equal(traced(), expected)


def test_the_keys_of_steps_are_those_of_jax():
    key, first = stream(3, "noise"), 2**31 - 5
    folded = [jax.random.key_data(jax.random.fold_in(key, first + t)) for t in range(4)]
    np.testing.assert_array_equal(normals.numbered(key, first, 4), np.stack(folded))


def test_a_new_shape_needs_no_new_program(compiled):
    normals.normal(stream(0, "data"), (2, 3), jnp.float32)
    before = len(compiled)
    normals.normal(stream(1, "data"), (41, 43), jnp.float32)
    assert compiled[before:] == []


def test_a_model_of_a_new_size_needs_no_new_program(compiled):
    scales = [prescription("relu", "adam").at(Shape(N=N, K=2 * N, P=20, B=5), eta0=0.1) for N in (13, 17)]
    for each in scales:
        compiled.clear()
        DenseAM.create(each, ReLU(), seed=0, dtype=jnp.float32)
    assert compiled == []
