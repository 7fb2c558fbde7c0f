"""The largest rise of the energy over many models: one program for each Lagrangian."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import denseam as dam
from denseam.testing import energy_size

MODELS, K, N = 1000, 7, 5


@eqx.filter_jit
def rises(lagrangian, features, W, b, c, s, x, moving):
    """The largest rise of the energy in four steps of each model, over the size of its terms."""

    def one(W, b, c, s, x, moving):
        model = dam.DenseAM(W, b, c, s[0], s[1], lagrangian, features=features, centred=True)

        def step(x, _):
            moved = jnp.where(moving, x + s[2] * (model.update(x) - x), x)
            return moved, (model.energy(moved) - model.energy(x)) / energy_size(model, x)

        return jnp.max(jax.lax.scan(step, x, None, length=4)[1])

    return jax.vmap(one)(W, b, c, s, x, moving)


def largest_rise(lagrangian, damping, features=None, *, hold=0.0, seed=1, models=MODELS):
    """Over many models, with s1 and s2 from three decades each; a share `hold` of the features is clamped."""
    rng = np.random.default_rng(seed)
    W, b, c, x = (rng.standard_normal((models, *shape)) for shape in ((K, N), (K,), (N,), (N,)))
    multipliers = 10 ** rng.uniform(-1.5, 1.5, (2, models))
    s = np.stack([*multipliers, rng.uniform(*damping, models)], 1)
    moving = rng.random((models, N)) >= hold
    return float(jnp.max(rises(lagrangian, features, W, b, c, s, 2 * x, moving)))
