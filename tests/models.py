"""Every activation, as a model and in the reference's hands."""

import numpy as np

import denseam as dam
from tests import reference

ACTIVATIONS = {
    "identity": (dam.identity(), {}),
    "relu": (dam.relu(), {}),
    "relu3": (dam.relu(3), {"p": 3}),
    "softmax": (dam.softmax(1.7), {"beta": 1.7}),
    "tanh": (dam.tanh(), {}),
}


def plain(model: dam.DenseAM, name: str) -> reference.Model:
    """The same model in the reference's hands."""
    arrays = {f: np.asarray(getattr(model, f)) for f in ("W", "b", "c")}
    scalars = {f: float(getattr(model, f)) for f in ("s1", "s2", "s_b", "s_c")}
    activation = "relu" if name.startswith("relu") else name
    return reference.Model(
        **arrays, **scalars, activation=activation, centred=model.centred, **ACTIVATIONS[name][1]
    )
