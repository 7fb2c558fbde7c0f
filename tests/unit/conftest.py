import importlib.util
import os
import subprocess

from tests import ROOT

# Two workers on two cores: threads of BLAS, or of XLA, would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NPROC", "1")
# Compiling is most of the time these tests take, and code that is optimized less is compiled in half of it.
os.environ["XLA_FLAGS"] = f"--xla_backend_optimization_level=0 {os.environ.get('XLA_FLAGS', '')}".strip()

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
def pytest_collection_modifyitems(items):
    order = {f"test_{name}": i for i, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


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
    """For all figures of a file, so that they share their runs."""
    return tmp_path_factory.mktemp("figures")


@pytest.fixture
def coarsely(monkeypatch):
    """Pictures of a sixteenth of the pixels."""
    from denseam.report.plots import style

    monkeypatch.setitem(style._RC, "savefig.dpi", 50)


@pytest.fixture
def inside(capsys):
    """The same program in this process, where nothing has to be imported again."""

    def call(*arguments):
        capsys.readouterr()
        from denseam.cli import main

        code = main([str(a) for a in arguments])
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    return call
