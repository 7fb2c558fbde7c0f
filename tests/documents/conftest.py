import os

from tests import FAST, ROOT

os.environ["XLA_FLAGS"] = FAST
os.environ.setdefault("NPROC", "1")

import jax

# The calibration is judged in float64.
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_compilation_cache_dir", str(ROOT / ".pytest_cache" / "programs"))
