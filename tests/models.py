"""Every activation, as a model and in the reference's hands."""

import numpy as np

import denseam as dam
from denseam.model.lagrangians import Norm
from tests import reference

ACTIVATIONS = {
    "identity": (dam.identity(), {}),
    "relu": (dam.relu(), {}),
    "relu3": (dam.relu(3), {"p": 3}),
    "softmax": (dam.softmax(1.7), {"beta": 1.7}),
    "tanh": (dam.tanh(), {}),
}

#: Activations that need no product with optimizers and regimes: training knows them by σ and J alone.
FURTHER = {
    "sigmoid": (dam.sigmoid(), {}),
    "softplus": (dam.softplus(), {}),
    "exp": (dam.exp(), {}),
    "polynomial": (dam.polynomial((0.5, 1.0, 1.0, 0.4)), {"p": (0.5, 1.0, 1.0, 0.4)}),
    "ghostmax": (dam.ghostmax(), {}),
    "topk": (dam.topk(3), {"p": 3}),
    "topshare": (dam.topshare(0.4), {"p": 0.4}),
    "entmax": (dam.entmax(1.5), {"p": 1.5}),
    "entmax2.3": (dam.entmax(2.3), {"p": 2.3}),
    "sparsemax": (dam.entmax(2), {"p": 2}),
    "relative-entmax": (dam.relative_entmax(1.3), {"p": 1.3}),
    "normmax": (dam.normmax(2), {"p": 2}),
    "relative-normmax": (dam.relative_normmax(1.6), {"p": 1.6}),
    "layer-norm": (dam.layer_norm(1.3, 0.2, 0.1), {"p": (1.3, 0.2, 0.1)}),
    "spherical-norm": (dam.spherical_norm(0.7, -0.3, 0.05), {"p": (0.7, -0.3, 0.05)}),
}


def plain(model: dam.DenseAM, name: str) -> reference.Model:
    """The same model in the reference's hands."""
    arrays = {f: np.asarray(getattr(model, f)) for f in ("W", "b", "c")}
    scalars = {f: float(getattr(model, f)) for f in ("s1", "s2", "s_b", "s_c")}
    activation, own = (ACTIVATIONS | FURTHER)[name]
    features = model.features
    if isinstance(features, Norm):
        own = own | {"of_features": (features.gain, features.shift, features.epsilon)}
    return reference.Model(
        **arrays, **scalars, activation=activation.name, centred=model.centred, features=features.name, **own
    )
