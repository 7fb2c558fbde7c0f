import contextlib
import gc
import importlib.util
import io
import logging
import os
import re
import subprocess
import zlib
from pathlib import Path

from tests import FAST, ROOT

# Two workers on two cores: threads of BLAS, or of XLA, would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NPROC", "1")
if not os.environ.get("OPTIMIZED"):
    os.environ["XLA_FLAGS"] = f"{FAST} {os.environ.get('XLA_FLAGS', '')}".strip()

import jax
import pytest
from threadpoolctl import threadpool_limits

from tests import contexts as contexts

threadpool_limits(1)  # a plugin has loaded NumPy already, for which the variable above comes too late
# Models are float32 unless asked otherwise, so this only makes float64 possible.
jax.config.update("jax_enable_x64", True)
# Two workers compile the same programs; what one has compiled, the other reads, if it took longer than writing it.
PROGRAMS = str(ROOT / ".pytest_cache" / "programs")
jax.config.update("jax_compilation_cache_dir", PROGRAMS)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
# So do the programs that tests start.
os.environ["JAX_COMPILATION_CACHE_DIR"] = PROGRAMS
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

#: The files that take longest, in this order, so that none of them is begun last; the others come after them.
LONGEST_FIRST = (
    "cli", "engine", "patterns", "coordinates", "training", "gallery", "workflow", "lagrangians", "dense_am", "energies",
    "trajectory", "memory", "tuning", "memorizing", "optimized", "recorded", "schedules", "stacked", "theory", "probes", "target",
    "features", "likeness", "compatibility", "sklearn", "cache", "trees", "store", "calibration", "figures", "public", "report",
    "readers", "executors", "stopping", "together", "boundary",
)  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    order = {f"test_{name}": i for i, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))
    if part := os.environ.get("PART"):  # k/n: of the slow tests every n-th, from the k-th on
        k, n = map(int, part.split("/"))
        left = {item for item in items if item.get_closest_marker("slow") and _number(item) % n != k}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    """Let the collector of garbage leave what stays: tracing makes many objects, and it would look at all of them often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


def _number(item):
    """A number that a test keeps when others come or go."""
    return zlib.crc32(item.nodeid.encode())


@pytest.fixture(scope="session", autouse=True)
def _quick_rates():
    """The rate of this machine, measured by a small product: it is reported, but nothing here depends on it."""
    from denseam.workflow import planning

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "SQUARE_ON_CPU", 256)
        yield


@pytest.fixture(scope="session", autouse=True)
def _small_blocks():
    """Normal numbers in small blocks: most arrays here are small, and numbers do not depend on the blocks."""
    from denseam.model import normals

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normals, "BLOCK", 1 << 12)
        yield


#: Every compiled program takes some of the regions of memory that Linux allows a process (65,530 of them).
MOST_REGIONS = 45_000


@pytest.fixture(scope="module", autouse=True)
def _programs_are_let_go():
    """Forget compiled programs before there are too many: XLA would end the process."""
    yield
    regions = Path("/proc/self/maps")
    if regions.exists() and regions.read_bytes().count(b"\n") > MOST_REGIONS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(autouse=True)
def _no_matmul_shortcuts():
    with jax.default_matmul_precision("highest"):
        yield


@pytest.fixture
def as_installed():
    """float64 is possible only where it is asked for, in each thread: as users have it, who do not set JAX's option."""
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


@pytest.fixture
def compiled():
    """The names of the programs that are compiled, or read from the cache, in the order of their compilation."""
    names = []

    class Listener(logging.Handler):
        def emit(self, record):
            if match := re.match(r"Compiling (?:jit\()?(\w+)", record.getMessage()):
                names.append(match[1])

    logger, listener = logging.getLogger("jax._src.interpreters.pxla"), Listener()
    logger.addHandler(listener)
    propagates, logger.propagate = logger.propagate, False
    jax.config.update("jax_log_compiles", True)  # in all threads
    yield names
    jax.config.update("jax_log_compiles", False)
    logger.propagate = propagates
    logger.removeHandler(listener)


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
    """Pictures of a sixteenth of the pixels, without small ticks, whose panels are not fitted: `make docs` does all that."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    in_full = Figure.savefig

    def save(figure, file, **options):
        figure.set_layout_engine("none")
        figure.set_dpi(50)
        for axes in figure.axes:
            axes.minorticks_off()
        if options["format"] == "png":
            FigureCanvasAgg(figure).print_png(file)
        else:
            in_full(figure, file, **options)

    monkeypatch.setattr(Figure, "savefig", save)


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
