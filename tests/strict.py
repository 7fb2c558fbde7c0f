"""JAX without its silent conversions, for tests of our own mathematics.

Ranks are strict in the tests of models, training and studies. Types are strict in those of models only: Adam of Optax
raises a decay to the power of a whole number, and our own random streams add whole numbers of two widths.
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
