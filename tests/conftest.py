import os
from pathlib import Path

# Compiling is most of the time these tests take, and code that is optimized less is compiled in half of it.
FAST = "--xla_backend_optimization_level=1"
os.environ["XLA_FLAGS"] = f"{FAST} {os.environ.get('XLA_FLAGS', '')}".strip()

import jax  # noqa: E402
import pytest  # noqa: E402

# Models are float32 unless asked otherwise, so this only makes float64 possible.
jax.config.update("jax_enable_x64", True)
# Two workers compile the same programs; what one has compiled, the other reads.
PROGRAMS = str(Path(__file__).parent.parent / ".pytest_cache" / "programs")
jax.config.update("jax_compilation_cache_dir", PROGRAMS)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
# So do the programs that tests start.
os.environ["JAX_COMPILATION_CACHE_DIR"] = PROGRAMS
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"

#: The groups of tests that take longest, in this order; what is not named here comes after them.
LONGEST_FIRST = ("coordinates", "figures-adam", "engine", "workflow", "training", "figures-sgd", "cli", "tuning")


def group_of(item):
    """The tests of a file share programs and fixtures, so that they go to one worker; unless marked otherwise."""
    mark = item.get_closest_marker("xdist_group")
    return mark.args[0] if mark else item.path.stem.removeprefix("test_")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    order = {name: i for i, name in enumerate(LONGEST_FIRST)}
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group_of(item)))
    items.sort(key=lambda item: order.get(group_of(item), len(order)))


@pytest.fixture(autouse=True)
def _no_matmul_shortcuts():
    with jax.default_matmul_precision("highest"):
        yield
