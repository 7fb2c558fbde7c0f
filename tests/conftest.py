import os
from pathlib import Path

import jax
import pytest

# Models are float32 unless asked otherwise, so this only makes float64 possible.
jax.config.update("jax_enable_x64", True)
# Two workers compile the same programs; what one has compiled, the other reads.
PROGRAMS = str(Path(__file__).parent.parent / ".pytest_cache" / "programs")
jax.config.update("jax_compilation_cache_dir", PROGRAMS)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
# So do the programs that tests start.
os.environ["JAX_COMPILATION_CACHE_DIR"] = PROGRAMS
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"


@pytest.fixture(autouse=True)
def _no_matmul_shortcuts():
    with jax.default_matmul_precision("highest"):
        yield
