import contextlib
import importlib.util
import io
import os
import subprocess
import zlib

from tests import FAST, ROOT

# Two workers on two cores: threads of BLAS, or of XLA, would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NPROC", "1")
if not os.environ.get("OPTIMIZED"):
    os.environ["XLA_FLAGS"] = f"{FAST} {os.environ.get('XLA_FLAGS', '')}".strip()

import jax
import pytest
from threadpoolctl import threadpool_limits

threadpool_limits(1)  # a plugin has loaded NumPy already, for which the variable above comes too late
# Models are float32 unless asked otherwise, so this only makes float64 possible.
jax.config.update("jax_enable_x64", True)
# Two workers compile the same programs; what one has compiled, the other reads.
PROGRAMS = str(ROOT / ".pytest_cache" / "programs")
jax.config.update("jax_compilation_cache_dir", PROGRAMS)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
# So do the programs that tests start.
os.environ["JAX_COMPILATION_CACHE_DIR"] = PROGRAMS
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"

#: The files that take longest, in this order, so that none of them is begun last; the others come after them.
LONGEST_FIRST = (
    "coordinates", "compatibility", "workflow", "gallery", "dense_am", "lagrangians", "probes", "engine", "cli", "training", "target",
    "store", "figures", "theory", "memory", "tuning", "report", "readers", "docs", "public",
)  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    order = {f"test_{name}": i for i, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))
    if part := os.environ.get("PART"):  # k/n: of the slow tests every n-th, from the k-th on
        k, n = map(int, part.split("/"))
        left = [item for item in items if item.get_closest_marker("slow") and _number(item) % n != k]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


def _number(item):
    """A number that a test keeps when others come or go."""
    return zlib.crc32(item.nodeid.encode())


@pytest.fixture(autouse=True)
def _no_matmul_shortcuts():
    with jax.default_matmul_precision("highest"):
        yield


@pytest.fixture(scope="session")
def generate():
    """What writes pages of the documentation from the library: docs/generate.py."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """For all figures of a file."""
    return tmp_path_factory.mktemp("figures")


@pytest.fixture
def coarsely(monkeypatch):
    """Pictures of a sixteenth of the pixels, whose panels are not fitted to their labels: `make docs` does that."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from denseam.report.plots import style

    monkeypatch.setitem(style._RC, "savefig.dpi", 50)
    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", lambda _self, _figure: None)


@pytest.fixture(scope="session")
def inside():
    """The same program in this process, where nothing has to be imported or compiled again."""

    def call(*arguments):
        from denseam.cli import main

        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = main([str(a) for a in arguments])
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())

    return call
