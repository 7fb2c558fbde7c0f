"""Records without training: loss curves with an optimum, a stability edge and a little noise."""

import math

from denseam.rules.fields import logspace
from denseam.studies.study import Study


def study(**changes):
    return Study(**{
        "activation": "relu", "optimizer": "sgd", "scales": (16, 32, 64), "eta0": logspace(1e-3, 1, 7), "seeds": 3,
        "epochs": 20, **changes,
    })  # fmt: skip


def rows(asked, *, moves=0.0, edge=0.5, probes=()):
    """Return a row for each run of a study; `moves` shifts the optimum by decades per doubling."""
    made = []
    for spec in asked.runs():
        doublings = math.log2(spec.scale / asked.scales[0])
        x = math.log10(spec.values["eta0"]) + 1.5 - moves * doublings
        lost = spec.values["eta0"] > edge
        final = math.inf if lost else 0.2 * (1 + x * x) * (1 + 0.004 * spec.seed)
        curve = [final + (1 - final) * math.exp(-0.4 * e) for e in range(asked.epochs)]
        made.append({
            "key": spec.key, "study": asked.name, "study_id": asked.id, "scale": spec.scale,
            "features": spec.shape.N, "memories": spec.shape.K, "samples": spec.shape.P, "batch": spec.shape.B,
            "seed": spec.seed, "status": "diverged" if lost else "finished", "diverged_at": 5 if lost else None,
            "initial_mse": 1.1, "final_mse": final, "heldout_mse": final, "zero_mse": 1.0,
            "activation": asked.lagrangian.name, "power": float(getattr(asked.lagrangian, "power", 1)),
            "optimizer": asked.optimizer, "regime": asked.regime.name, "parameterization": asked.rule().name,
            "data": asked.source().describe(), "centred": "yes" if asked.centred else "no",
            "bias_init": asked.bias_init, "precision": asked.precision, "epochs": asked.epochs, **spec.values,
            "swept": ",".join(asked.swept), "seconds": 0.1, "device": "cpu", "version": "0", "jax": "0",
            "loss": [math.inf] * asked.epochs if lost else curve,
        })  # fmt: skip
        if asked.probes:
            steps = asked.steps_to_probe(spec.shape)
            sizes = {
                f"probe_{name}": [0.5 + 0.01 * spec.scale + 0.1 * s for s in steps] for name in asked.probes
            }
            made[-1] |= {"probe_steps": [float(s) for s in steps], **sizes}
    return made
