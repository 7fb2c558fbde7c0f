"""JAX without its silent conversions, for tests of our own mathematics."""

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
