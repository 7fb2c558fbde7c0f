"""The model and the optimizer that a run of a study begins with."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from denseam.model.dense_am import DenseAM, Parameters
from denseam.model.lagrangians import Softmax
from denseam.rules import Scales
from denseam.studies.study import RunSpec, Study
from denseam.training.optimizers import Optimizer, adam, sgd


def build(study: Study, spec: RunSpec, start: Parameters | None, dtype: Any) -> tuple[DenseAM, Optimizer]:
    """Return the untrained model and the optimizer of a run.

    `start` are the initial parameters of the seed, if they are at hand already.
    """
    scales = scales_of(study, spec)
    # Numbers in it become arrays, so that runs with different ones share a program.
    activation = jax.tree.map(lambda v: jnp.asarray(v, dtype), activation_of(study, spec))
    if start is None:
        model = DenseAM.create(
            scales,
            activation,
            seed=spec.seed,
            centred=study.centred,
            bias_init=study.bias_init,  # type: ignore[arg-type]  # checked by the study
            dtype=dtype,
        )
        model = dataclasses.replace(model, scales=None)
    else:
        model = DenseAM(
            *start, scales.s1, scales.s2, activation, centred=study.centred, s_b=scales.s_b, s_c=scales.s_c
        )
    values = spec.values
    if study.optimizer == "sgd":
        swept = len(study.grid["momentum"]) > 1 or values["momentum"] != 0
        optimizer = sgd(scales, momentum=values["momentum"] if swept else None)
    else:
        optimizer = adam(scales, beta1=values["beta1"], beta2=values["beta2"], epsilon=values["epsilon"])
    return model, jax.tree.map(lambda v: jnp.asarray(v, dtype), optimizer)


def activation_of(study: Study, spec: RunSpec) -> Any:
    """Return the Lagrangian of a run's hidden neurons, with plain numbers in it."""
    return Softmax(spec.values["beta"]) if isinstance(study.lagrangian, Softmax) else study.lagrangian


def scales_of(study: Study, spec: RunSpec) -> Scales:
    """Return the scales of a run."""
    v = spec.values
    return study.rule().at(
        spec.shape,
        eta0=v["eta0"],
        s1_0=v["s1_0"],
        s2_0=v["s2_0"],
        eta_b0=v["eta_b_ratio"] * v["eta0"],
        eta_c0=v["eta_c_ratio"] * v["eta0"],
    )
