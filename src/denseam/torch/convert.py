"""Between the frameworks: the same numbers in the other kind of array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from denseam.torch import lagrangians
from denseam.torch.model import MULTIPLIERS, DenseAM

if TYPE_CHECKING:
    from denseam.model.dense_am import DenseAM as JaxDenseAM


def to_torch(model: JaxDenseAM) -> DenseAM:
    """Return a JAX model as a PyTorch module."""
    tensors, document = model.to_document()
    values: dict[str, Any] = {k: float(tensors.pop(k)) for k in MULTIPLIERS}
    if model.scales is not None:  # all digits, also where the arrays are float32
        values |= {k: float(getattr(model.scales, k)) for k in MULTIPLIERS}
    values |= {k: torch.from_numpy(np.array(v)) for k, v in tensors.items()}
    return DenseAM(
        **values,
        activation=lagrangians.from_json(document["activation"]),
        features=lagrangians.from_json(document["features"]),
        centred=model.centred,
        scales=model.scales,
    )


def from_torch(model: DenseAM) -> JaxDenseAM:
    """Return a PyTorch module as a JAX model; float64 needs ``jax_enable_x64``."""
    from denseam.model import lagrangians as of_jax
    from denseam.model.dense_am import DenseAM as JaxDenseAM

    def array(value: Any) -> Any:
        return None if value is None else np.asarray(value.detach().cpu().numpy())

    features = of_jax.from_json(lagrangians.to_json(model.features))
    return JaxDenseAM(
        array(model.W),
        array(model.b),
        array(model.c),
        model.s1,
        model.s2,
        of_jax.from_json(lagrangians.to_json(model.activation)),
        features=features,  # type: ignore[arg-type]  # those of a DenseAM act on each neuron
        centred=model.centred,
        s_b=model.s_b,
        s_c=model.s_c,
        counts=array(model.counts),
        scales=model.scales,
    )
