"""Runs of a study: what each begins with, which share their batches, and how each ended."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from denseam.model.dense_am import DenseAM, Parameters
from denseam.model.lagrangians import Softmax
from denseam.model.steps import Steps
from denseam.rules import Scales, Shape
from denseam.studies.study import RunSpec, Study
from denseam.training.optimizers import Optimizer, make

#: Studies, each with runs of it.
RunsOfStudies = Sequence[tuple[Study, Sequence[RunSpec]]]


def build(study: Study, spec: RunSpec, start: Parameters | None, dtype: Any) -> tuple[DenseAM, Optimizer]:
    """Return the untrained model and the optimizer of a run.

    `start` are the initial parameters of the seed, if they have been drawn already.
    """
    scales = scales_of(study, spec)
    activation, features = _arrays((activation_of(study, spec), study.features), dtype)
    if start is None:
        model = DenseAM.create(
            scales,
            activation,
            seed=spec.seed,
            features=features,
            centred=study.centred,
            bias_init=study.bias_init,  # type: ignore[arg-type]  # checked by the study
            dtype=dtype,
        )
        model = dataclasses.replace(model, scales=None, steps=None)
    else:
        model = DenseAM(
            *start, scales.s1, scales.s2, activation,
            features=features, centred=study.centred, s_b=scales.s_b, s_c=scales.s_c,
        )  # fmt: skip
    model = dataclasses.replace(model, steps=steps_of(study, spec, scales, dtype))
    return model, _arrays(optimizer_of(study, spec, scales), dtype)


def _arrays(tree: Any, dtype: Any) -> Any:
    """Return a tree whose numbers are arrays, so that runs with different values share a program.

    They are NumPy's: there are many, and those of JAX take longer to make.
    """
    return jax.tree.map(lambda v: np.asarray(v, dtype), tree)


def steps_of(study: Study, spec: RunSpec, scales: Scales, dtype: Any) -> Steps | None:
    """Return the steps of recall of a run; None if all runs of its shape are trained on one update."""
    if not study.recalls(spec.shape):
        return None
    early = jnp.asarray(spec.values["early"], dtype) if study.uses("early") else None
    burn_in = None
    if study.uses("burn_in"):
        burn_in = jnp.asarray(round(spec.values["burn_in"] * spec.shape.T), dtype)
    return Steps(spec.shape.T, jnp.asarray(scales.step, dtype), early, burn_in)


def optimizer_of(study: Study, spec: RunSpec, scales: Scales) -> Optimizer:
    """Return the optimizer of a run, with plain numbers in it."""
    # A momentum, a decay or a schedule that no run has takes no memory and no time.
    values: dict[str, Any] = {axis: spec.values[axis] for axis in study.update_rule.defaults}
    if "momentum" in values and not study.uses("momentum"):
        values["momentum"] = None
    if "decay" in values:
        values["decay"] = decay_of(study, spec, scales) if study.decays else None
    if study.nesterov is not None:
        values["nesterov"] = study.nesterov
    schedule = study.timetable(spec) if study.scheduled else None
    return make(study.optimizer, scales, **values, schedule=schedule)


def decay_of(study: Study, spec: RunSpec, scales: Scales) -> float | None:
    """Return the decay λ0 of a run, also where its time is given; None if its optimizer has none."""
    if spec.values["decay_time"] is not None:
        return scales.decay(spec.values["decay_time"], study.updates(spec.shape))
    return spec.values["decay"] if "decay" in study.update_rule.defaults else None


def explain_run(study: Study, spec: RunSpec, base: Shape | None = None) -> str:
    """Return the table of a run's multipliers and learning rates, with its decay and its schedule."""
    scales = scales_of(study, spec)
    timetable = study.timetable(spec) if study.scheduled or study.decays else None
    return scales.explain(base, timetable=timetable, decay=decay_of(study, spec, scales))


def activation_of(study: Study, spec: RunSpec) -> Any:
    """Return the Lagrangian of a run's hidden neurons, with plain numbers in it."""
    return Softmax(spec.values["beta"]) if isinstance(study.lagrangian, Softmax) else study.lagrangian


def scales_of(study: Study, spec: RunSpec) -> Scales:
    """Return the scales of a run."""
    v = spec.values
    eta_b0, eta_c0 = (v[ratio] * v["eta0"] for ratio in ("eta_b_ratio", "eta_c_ratio"))
    return study.rule().at(
        spec.shape, eta0=v["eta0"], s1_0=v["s1_0"], s2_0=v["s2_0"], eta_b0=eta_b0, eta_c0=eta_c0, tau=v["tau"]
    )


def sharing_batches(specs: Iterable[RunSpec]) -> list[list[RunSpec]]:
    """Group runs that share shape, seed and noise, and so their batches, in the order given."""
    groups: dict[Any, list[RunSpec]] = {}
    for spec in specs:
        groups.setdefault((spec.shape, spec.seed, spec.values["noise"]), []).append(spec)
    return list(groups.values())


def evenly(group: Sequence[RunSpec], count: int) -> list[list[RunSpec]]:
    """Cut a group into this many parts of nearly the same length, none of them empty."""
    count = min(max(1, count), len(group))
    bounds = [round(i * len(group) / count) for i in range(count + 1)]
    return [list(group[a:b]) for a, b in itertools.pairwise(bounds)]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of one run."""

    spec: RunSpec
    status: str
    diverged_at: int | None
    initial_mse: float
    final_mse: float
    heldout_mse: float
    zero_mse: float
    loss: Float[np.ndarray, " epochs"]
    seconds: float
    device: str
    probe_steps: tuple[int, ...] = ()
    probes: Mapping[str, Float[np.ndarray, " probe_steps"]] = dataclasses.field(default_factory=dict)


class Interrupted(Exception):
    """Training was asked to stop."""
