"""Eight virtual devices, for these tests alone: JAX must hear of them before it starts."""

import os

from tests import FAST

# The collectives stay as they are.
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=8 {FAST}"

from tests import contexts as contexts
