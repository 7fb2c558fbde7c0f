import os

from tests import FAST, ROOT

# As in the other tests; two workers have one core each.
os.environ["XLA_FLAGS"] = FAST
os.environ.setdefault("NPROC", "1")

import jax
import pytest
import torch

from tests import contexts as contexts

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_compilation_cache_dir", str(ROOT / ".pytest_cache" / "programs"))
torch.set_num_threads(1)  # small matrices, and two workers on two cores


@pytest.fixture(autouse=True)
def _no_matmul_shortcuts():
    with jax.default_matmul_precision("highest"):
        yield
