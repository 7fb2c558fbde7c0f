import jax
import pytest

# Models are float32 unless asked otherwise, so this only makes float64 possible.
jax.config.update("jax_enable_x64", True)


@pytest.fixture(autouse=True)
def _no_matmul_shortcuts():
    with jax.default_matmul_precision("highest"):
        yield
