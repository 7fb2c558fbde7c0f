from pathlib import Path

import jax
import pytest

# Models are float32 unless asked otherwise, so this only makes float64 possible.
jax.config.update("jax_enable_x64", True)
# Two workers compile the same programs; what one has compiled, the other reads.
jax.config.update(
    "jax_compilation_cache_dir", str(Path(__file__).parent.parent / ".pytest_cache" / "programs")
)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


@pytest.fixture(autouse=True)
def _no_matmul_shortcuts():
    with jax.default_matmul_precision("highest"):
        yield
