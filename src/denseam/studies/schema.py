"""The columns of a record: one row per run."""

from __future__ import annotations

from collections.abc import Mapping

from denseam.training.quantities import QUANTITIES

#: The column of each quantity that was measured while training; its values belong to `probe_steps`.
PROBE_COLUMNS: Mapping[str, str] = {name: f"probe_{name}" for name in QUANTITIES}

#: What only some runs have: those that were probed, and those whose curve was thinned (then the epochs of
#: what is left). Files hold these columns always, so that they open as one table; rows in memory hold those
#: that are there.
OPTIONAL: tuple[str, ...] = ("loss_epochs", "probe_steps", *PROBE_COLUMNS.values())

#: Column → kind: s text, i whole number, f float, l list of floats.
COLUMNS: Mapping[str, str] = {
    "key": "s", "study": "s", "study_id": "s", "scale": "i",
    "features": "i", "memories": "i", "samples": "i", "batch": "i",
    "eta0": "f", "seed": "i", "status": "s", "diverged_at": "i",
    "initial_mse": "f", "final_mse": "f", "heldout_mse": "f", "zero_mse": "f",
    "activation": "s", "power": "f", "optimizer": "s", "regime": "s", "parameterization": "s",
    "data": "s", "centred": "s", "bias_init": "s", "precision": "s", "epochs": "i",
    "noise": "f", "eta_b_ratio": "f", "eta_c_ratio": "f", "s1_0": "f", "s2_0": "f", "beta": "f",
    "momentum": "f", "beta1": "f", "beta2": "f", "epsilon": "f", "swept": "s",
    "seconds": "f", "device": "s", "version": "s", "jax": "s", "loss": "l",
    **dict.fromkeys(OPTIONAL, "l"),
}  # fmt: skip
