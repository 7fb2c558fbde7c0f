import os

from tests import FAST, ROOT

# As in the other tests.
os.environ["XLA_FLAGS"] = FAST
os.environ.setdefault("NPROC", "1")
os.environ["WANDB_MODE"] = "offline"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ.pop("WANDB_PROJECT", None)
os.environ.pop("MLFLOW_TRACKING_URI", None)
os.environ.pop("MLFLOW_EXPERIMENT_NAME", None)

import jax

jax.config.update("jax_compilation_cache_dir", str(ROOT / ".pytest_cache" / "programs"))
