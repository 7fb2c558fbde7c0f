"""Eight virtual devices, for these tests alone: JAX must hear of them before it starts."""

import os

# Code that is optimized less is compiled faster; the collectives stay as they are.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
