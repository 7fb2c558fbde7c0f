"""Records without training: loss curves with an optimum, a stability edge and a little noise."""

import dataclasses
import math

import numpy as np

from denseam.analysis.transfer import COLUMNS as VERDICT_COLUMNS
from denseam.rules.fields import logspace
from denseam.studies.records import Records
from denseam.studies.runner import Summary
from denseam.studies.study import Study


def study(**changes):
    return Study(**{
        "activation": "relu", "optimizer": "sgd", "scales": (16, 32, 64), "eta0": logspace(1e-3, 1, 7), "seeds": 3,
        "epochs": 20, **changes,
    })  # fmt: skip


def rows(asked, *, moves=0.0, edge=0.5, law=None, specs=None):
    """Return a row for each run of a study, or for some of them.

    `moves` shifts the optimum by decades per doubling; a law (of the study and the run, returning the training
    and the held-out loss) replaces the curve with its edge.
    """

    def curved(_, spec):
        doublings = math.log2(spec.scale / asked.scales[0])
        x = math.log10(spec.values["eta0"]) + 1.5 - moves * doublings
        loss = 0.2 * (1 + x * x) * (1 + 0.004 * spec.seed)
        return (math.inf,) * 2 if spec.values["eta0"] > edge else (loss,) * 2

    made = []
    for spec in asked.runs() if specs is None else specs:
        final, heldout = (law or curved)(asked, spec)
        lost = not math.isfinite(final)
        epochs = asked.epochs_at(spec.shape)
        curve = [final + (1 - final) * math.exp(-0.4 * e) for e in range(epochs)]
        made.append({
            "key": spec.key, "study": asked.name, "study_id": asked.id, "scale": spec.scale,
            "features": spec.shape.N, "memories": spec.shape.K, "samples": spec.shape.P, "batch": spec.shape.B,
            "seed": spec.seed, "status": "diverged" if lost else "finished", "diverged_at": 5 if lost else None,
            "initial_mse": 1.1, "final_mse": final, "heldout_mse": heldout, "zero_mse": 1.0,
            "activation": asked.lagrangian.name, "power": float(getattr(asked.lagrangian, "power", 1)),
            "optimizer": asked.optimizer, "regime": asked.regime.name, "parameterization": asked.rule().name,
            "data": asked.source().describe(), "centred": "yes" if asked.centred else "no",
            "bias_init": asked.bias_init, "precision": asked.precision, "epochs": epochs, **spec.values,
            "swept": ",".join(asked.swept), "seconds": 0.1, "device": "cpu", "version": "0", "jax": "0",
            "loss": [math.inf] * epochs if lost else curve,
        })  # fmt: skip
        if asked.probes:
            steps = asked.steps_to_probe(spec.shape)
            sizes = {
                f"probe_{name}": [0.5 + 0.01 * spec.scale + 0.1 * s for s in steps] for name in asked.probes
            }
            made[-1] |= {"probe_steps": [float(s) for s in steps], **sizes}
    return made


# --- sweeps of a given loss curve --------------------------------------------------------------------


def sweep(curve, *, grid, scales=(32, 64, 128, 256), seeds=3, zero=1.0, axis="eta0", name="made"):
    """Return the records of a sweep from a loss curve.

    Parameters
    ----------
    curve
        (scale index, seed) → the loss at each value of the grid, infinite where training diverges.
    grid
        The swept values.
    seeds
        The number of seeds, or one number for each scale.
    """
    counts = [seeds] * len(scales) if isinstance(seeds, int) else seeds
    same = dict.fromkeys(VERDICT_COLUMNS, 0.5) | {
        "study": name, "study_id": name, "regime": "proportional", "zero_mse": zero, "swept": axis,
    }  # fmt: skip
    return Records(
        same | {
            "key": f"{name}-{scale}-{seed}-{value}", "scale": scale, "seed": seed, axis: float(value),
            "status": "finished" if math.isfinite(loss) else "diverged", "final_mse": float(loss),
        }
        for i, (scale, count) in enumerate(zip(scales, counts, strict=True))
        for seed in range(count)
        for value, loss in zip(grid, curve(i, seed), strict=True)
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Valley:
    """A valley of log-loss with its minimum at u = 0: gentle below, steep above, and then a cliff.

    ℓ(u) = c w² (√(1 + u²/w²) - 1) for u < 0, c r² (exp(u/r) - 1 - u/r) for u ≥ 0, infinite above the edge.
    """

    curvature: float = 1.0
    width: float = 0.6
    rise: float = 0.4
    edge: float = math.inf

    def log_loss(self, u):
        below = self.width**2 * (np.sqrt(1 + (u / self.width) ** 2) - 1)
        v = np.clip(u / self.rise, 0, 50)
        smooth = self.curvature * np.where(u < 0, below, self.rise**2 * (np.expm1(v) - v))
        return np.where(u > self.edge, np.inf, smooth)

    def offset(self, regret, side):
        """Return how far from the minimum, on a side (-1 or 1), the regret is reached."""
        u = side * np.linspace(0, 4, 40001)
        return float(u[np.argmax(self.log_loss(u) >= math.log1p(regret))])

    @classmethod
    def drawn(cls, rng):
        """Return a valley as trained models have them."""
        return cls(
            math.exp(rng.uniform(math.log(0.3), math.log(4))), *rng.uniform((0.3, 0.15, 0.25), (1, 0.6, 1))
        )


def control(rng, regret=0.0, *, scatter=None, noise=0.002, step=0.25, seeds=3, scales=(32, 64, 128, 256)):
    """Return the records of a study whose regret at the largest scale is known.

    The optimum drifts evenly; a seed's curve is shifted sideways by `scatter` decades at each scale, a run has
    noise of its own.
    """
    valley = Valley.drawn(rng)
    scatter = rng.uniform(0.01, 0.04) if scatter is None else scatter
    moved = -valley.offset(regret, side) if (side := rng.choice([-1, 1])) and regret else 0.0
    reach = abs(moved) + 7 * step
    x = np.arange(-reach, reach, step) + rng.uniform(0, step)
    last = len(scales) - 1

    def curve(i, _seed):
        logs = valley.log_loss(x - moved * i / last - scatter * rng.standard_normal())
        return 0.2 * np.exp(logs + noise * rng.standard_normal(len(x)))

    return sweep(curve, grid=10 ** (x - 1.5), scales=scales, seeds=seeds)


# --- searches in a given landscape ---------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Landscape:
    """The loss of every run of a family: ln loss = ln 0.2 + ½ c (x − x* − s_i)², infinite above the edge.

    Attributes
    ----------
    target, optimum
        The size at which the optimum is x*, as log10.
    drift
        Decades by which the optimum moves with every doubling.
    curvature, scatter
        c, and by how much the optimum of a seed i is shifted: s_i = 0, +s, −s, 0, ….
    edge
        log10 of the largest value that does not diverge; a number, or one for each size.
    heldout
        By how much the optimum of the held-out loss is shifted.
    early
        By how much the optimum of a training that is shorter than `epochs` is shifted.
    """

    target: int
    optimum: float = -1.3
    drift: float = 0.0
    curvature: float = 2.0
    scatter: float = 0.0
    edge: object = math.inf
    heldout: float = 0.0
    early: float = 0.0
    epochs: int = 0

    def best(self, scale):
        return self.optimum + self.drift * math.log2(scale / self.target)

    def __call__(self, asked, spec):
        x = math.log10(spec.values["eta0"])
        if x > (self.edge[spec.scale] if isinstance(self.edge, dict) else self.edge):
            return math.inf, math.inf
        shift = self.scatter * (0, 1, -1)[spec.seed % 3] + (self.early if asked.epochs < self.epochs else 0.0)
        u = x - self.best(spec.scale) - shift
        return tuple(0.2 * math.exp(0.5 * self.curvature * (u - v) ** 2) for v in (0.0, self.heldout))


def made_up_runs(law):
    """Return what takes the place of `run_specs`: records from a law, without training."""

    def run_specs(wanted, out, **_where):
        made = [row for asked, specs in wanted for row in rows(asked, law=law, specs=specs)]
        diverged = sum(row["status"] == "diverged" for row in made)
        return Summary(len(made), 0, diverged, 0.0, Records(made))

    return run_specs
