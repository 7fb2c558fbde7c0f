"""Eight virtual devices, for these tests alone: JAX must hear of them before it starts."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
