"""Records that are made up, whose optimum, edge, loss and measurements are known, for tests of claims."""

import dataclasses
import math

from denseam.paper.readings import TRAINED
from denseam.paper.results import Results
from denseam.paper.settings import setting
from denseam.paper.sizes import SIZES

SMALL = dataclasses.replace(
    SIZES["tiny"], features=(8, 16, 32, 64), memories=(8, 16, 32), seeds=3, per_decade=4, epochs=4
)
SWEEP = setting("a", "relu", "sgd", (-3, -0.5))
OTHER = SWEEP.but("b", centred=False)


def made_up(setting, size=SMALL, reading=TRAINED, whole=False, best=lambda scale: -1.75, edge=lambda scale: 9.0, level=lambda scale: 0.2,
            probe=lambda scale, step: 1.0):  # fmt: skip
    """Records of a setting whose optimum, edge, loss and measurements are known."""
    rows = []
    for study in [setting.whole_study(size, reading)] if whole else setting.studies(size, reading):
        for spec in study.runs():
            x = math.log10(spec.values["eta0"])
            dead = x > edge(spec.scale)
            loss = level(spec.scale) * math.exp(0.5 * (x - best(spec.scale)) ** 2) * (1 + 1e-4 * spec.seed)
            row = {
                "key": spec.key, "study": study.name, "study_id": study.id, "scale": spec.scale,
                "regime": study.regime.name, "seed": spec.seed, "status": "diverged" if dead else "finished",
                "final_mse": math.inf if dead else loss, "zero_mse": 1.0, "swept": "eta0", **spec.values,
                "loss": [math.inf if dead else loss * f for f in (4, 3, 2, 1)],
            }  # fmt: skip
            if study.probes:
                row["probe_steps"] = [0.0, 1.0, 2.0]
                row |= {f"probe_{q}": [probe(spec.scale, t) for t in range(3)] for q in study.probes}
            rows.append(row)
    return rows


def gathered(*rows, size=SMALL, reading=TRAINED):
    return Results({r["key"]: r for some in rows for r in some}, size, reading)


def measure(test, *rows, size=SMALL):
    return test.measure(gathered(*rows, size=size))
