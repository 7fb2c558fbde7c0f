"""The columns of a record: one row per run.

What a run was asked to be comes from the fields of the description; what became of it is listed here.
"""

from __future__ import annotations

from collections.abc import Mapping

from denseam.rules.fields import Kind, Parameter, parameters
from denseam.studies.description import AXES, REGIME, Description
from denseam.training.quantities import QUANTITIES

#: The column of each quantity that was measured while training; its values belong to `probe_steps`.
PROBE_COLUMNS: Mapping[str, str] = {name: f"probe_{name}" for name in QUANTITIES}

#: What only some runs have: those that were probed, and those whose curve was thinned (then the epochs of
#: what is left). Files hold these columns always, so that they open as one table; rows in memory hold those
#: that are there.
OPTIONAL: tuple[str, ...] = ("loss_epochs", "probe_steps", *PROBE_COLUMNS.values())

_KINDS = {Kind.NUMBER: "f", Kind.NUMBERS: "f", Kind.WHOLE: "i"}

#: Fields that say which runs there are, not what each of them is.
_OF_THE_STUDY = {"scales", "seeds", "probes", "probe_steps", "name"}

#: The settings that all runs of a study share.
SETTINGS: Mapping[str, Parameter] = {
    p.name: p for p in (*parameters(Description).values(), REGIME) if p.name not in _OF_THE_STUDY
}

#: Column → kind: s text, i whole number, f float, l list of floats.
COLUMNS: Mapping[str, str] = {
    "key": "s", "study": "s", "study_id": "s", "scale": "i",
    "features": "i", "memories": "i", "samples": "i", "batch": "i",
    "eta0": "f", "seed": "i", "status": "s", "diverged_at": "i",
    "initial_mse": "f", "final_mse": "f", "heldout_mse": "f", "zero_mse": "f",
    **{name: _KINDS.get(p.kind, "s") for name, p in SETTINGS.items()},
    **{axis: "f" for axis in AXES if axis != "eta0"},
    "swept": "s", "seconds": "f", "device": "s", "version": "s", "jax": "s", "loss": "l",
    **dict.fromkeys(OPTIONAL, "l"),
}  # fmt: skip

#: What a column stands for that a shard does not have: runs from before a field was there have its default.
LATER: Mapping[str, object] = {name: p.default for name, p in {**SETTINGS, **AXES}.items()}
