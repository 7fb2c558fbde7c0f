"""JAX without its silent conversions, for tests of our own mathematics.

Ranks are strict in the tests of models, training and studies. Types are strict in those of models only: Optax
itself multiplies types that differ, such as its counts of steps by decays of moments.
"""

import jax
import pytest


@pytest.fixture(autouse=True)
def _no_silent_ranks():
    """A vector is never taken for a matrix, in any thread."""
    jax.config.update("jax_numpy_rank_promotion", "raise")
    yield
    jax.config.update("jax_numpy_rank_promotion", "allow")


@pytest.fixture(autouse=True)
def _no_silent_types():
    """Types are not promoted, in this thread."""
    with jax.numpy_dtype_promotion("strict"):
        yield
