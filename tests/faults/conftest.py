import os
import shutil
from pathlib import Path

from tests import FAST, ROOT

# One core, and programs that an earlier case has compiled.
os.environ["XLA_FLAGS"] = FAST
os.environ["NPROC"] = "1"
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(ROOT / ".pytest_cache" / "programs")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

import jax
import pytest

from tests.faults import tally

jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def pytest_configure():
    """Where there is a file system in memory, a million syncs need not wait for a disk."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


@pytest.fixture(scope="session", autouse=True)
def _table():
    """With FULL=1 the table of the documentation is written."""
    yield
    from tests.faults.commands import COMMANDS
    from tests.faults.fuzz import AREAS
    from tests.faults.kills import KILLS

    tally.write({"faults": set(COMMANDS), "kills": set(KILLS), "fuzz": set(AREAS)})
