"""Tests: `unit` mirrors the source; `torch`, `mesh`, `cluster`, `slurm`, `page` and others need what their names say."""

from importlib.metadata import version
from pathlib import Path

from tests import shapes as shapes  # the checker of annotations is found by this name (pyproject.toml)

ROOT = Path(__file__).parent.parent

#: Flags of XLA for tests: compiling is most of the time they take, and code that is optimized less, and compiled in one
#: piece, takes a fourth of it. `unit/test_optimized.py` runs some of them as users do.
FAST = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 12):  # later ones end the process: an unknown flag
    FAST += " --xla_cpu_use_fusion_emitters=false"
