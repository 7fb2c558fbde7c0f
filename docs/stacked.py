"""Exponents of two stacked memories: found from wrong starts, checked, swept, and compared with one memory.

``python -m docs.stacked`` measures everything again (about ten minutes on two cores) and writes docs/stacked;
``--part find``, ``check`` or ``sweep`` takes one part. The page docs/stacked.md is made from that folder
alone.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import denseam as dam
from denseam.analysis.coordinates.laws import asymptotic
from denseam.data.gaussian import isotropic
from denseam.model.stacked import StackedParameters, learning_rates, scales
from denseam.rules.table import is_prescribed
from denseam.training.batches import draw_batches, noisy_batch
from denseam.training.probes import rms
from docs import recorded

HOME = Path(__file__).resolve().parent / "stacked"
SWEEPS = HOME / "sweeps.parquet"
REGIME = dam.Proportional(2, 5, 0.1)
NOISE = 0.5
OPTIMIZERS = ("sgd", "adam")
#: Name → the Lagrangians of the hidden layers, and the constant of d₂. One of the two layers is bounded, so
#: that the energy is. Softmax amplifies: what reads it has the variance e^v − 1 if its input has v.
PAIRS: Mapping[str, tuple[Any, Any, float]] = {
    "ReLU, tanh": (dam.relu(), dam.tanh(), 1.0),
    "softmax, softmax": (dam.softmax(), dam.softmax(), 1.0),
    "softmax, softmax, weak top": (dam.softmax(), dam.softmax(), 0.25),
}

#: Factor → its quantity, in the order in which they are corrected, as `denseam find` does it.
FACTORS = {
    "up1": "input of h1 from x", "up2": "input of h2", "down2": "input of h1 from h2", "down1": "F",
    "eta_W1": "change of h1 by W1", "eta_W2": "change of h1 by W2",
}  # fmt: skip
FOUND_AT, FOUND_SEEDS = (64, 128, 256, 512), 12
CHECKED_AT, CHECKED_SEEDS, UPDATES, CHECK_RATE = (32, 64, 128), 4, 8, {"sgd": 0.01, "adam": 0.03}
SWEPT_AT, SWEPT_SEEDS, EPOCHS = (32, 64, 128), (10, 11, 12), 16
RATES = {"sgd": dam.logspace(1e-3, 0.1, 9), "adam": dam.logspace(3e-3, 0.3, 9)}
#: Wrong exponents, which the check must refuse: factor → its exponent.
CONTROLS: Mapping[tuple[str, str], dict[str, float]] = {
    ("ReLU, tanh", "sgd"): {"eta_W2": 0.0},
    ("ReLU, tanh", "adam"): {"down2": 0.0},
}


def sizes(N: int) -> tuple[int, int, int]:
    """Return N, K₁ = 2N and K₂ = N."""
    return N, 2 * N, N


class Rule(NamedTuple):
    """Multipliers and rates of W¹ and W² as powers of N: those of the library at N = 32, times (N/32)^p."""

    pair: str
    optimizer: str
    exponents: Mapping[str, float]

    def factor(self, name: str, N: int) -> float:
        """Return a multiplier, or a learning rate for η0 = 1."""
        *layers, top = PAIRS[self.pair]
        multipliers = dict(zip(("up1", "down1", "up2", "down2"), scales(sizes(32), *layers), strict=True))
        multipliers["down2"] *= top
        rates = learning_rates(sizes(32), self.optimizer, 1.0)
        at_base = multipliers | {"eta_W1": rates.W1, "eta_W2": rates.W2}
        return float(at_base[name] * (N / 32) ** self.exponents[name])

    def model(self, N: int, seed: int, top: float = 1.0) -> dam.StackedAM:
        """Return an untrained model; `top` is a factor on d₂."""
        made = dam.StackedAM.create(sizes(N), *PAIRS[self.pair][:2], seed=seed)
        multipliers = [self.factor(name, N) for name in ("up1", "down1", "up2", "down2")]
        multipliers[3] *= top
        return dam.StackedAM(*made.parameters, multipliers, made.first, made.second)

    def rates(self, N: int, eta0: float) -> StackedParameters:
        """Return the learning rate of each parameter."""
        W1, W2 = (eta0 * self.factor(name, N) for name in ("eta_W1", "eta_W2"))
        return StackedParameters(*(jnp.float32(rate) for rate in (W1, W2, eta0, eta0, eta0)))


def with_rates(optimizer: str, rates: StackedParameters) -> optax.GradientTransformation:
    """Return the optimizer with a rate for each parameter."""
    own = optax.scale_by_adam() if optimizer == "adam" else optax.identity()
    step = optax.stateless(lambda change, _: jax.tree.map(lambda rate, u: -rate * u, rates, change))
    return optax.chain(own, step)


def predicted(pair: str, optimizer: str) -> dict[str, float]:
    """Return the exponents in N that the library has for this model."""
    layers = PAIRS[pair][:2]

    def at(N: int) -> list[float]:
        rates = learning_rates(sizes(N), optimizer, 1.0)
        return [*scales(sizes(N), *layers), rates.W1, rates.W2]

    names = ("up1", "down1", "up2", "down2", "eta_W1", "eta_W2")
    slopes = np.log(np.divide(at(64), at(32))) / math.log(2)
    return dict(zip(names, slopes.round(6).tolist(), strict=True))


def rules() -> Iterator[Rule]:
    """Yield the rules of the library: each pair with the optimizers that both have a row with."""
    for pair, (first, second, _) in PAIRS.items():
        for optimizer in OPTIMIZERS:
            if all(is_prescribed(layer.family, optimizer) for layer in (first, second)):
                yield Rule(pair, optimizer, predicted(pair, optimizer))


def _batch(N: int, seed: int, t: int = 0) -> tuple[Any, Any]:
    shape = REGIME.shape(N)
    assert shape.P is not None
    assert shape.B is not None
    per_epoch = shape.P // shape.B
    batches = draw_batches(seed, t // per_epoch, shape.P, shape.B)
    data = isotropic(N, shape.P, seed=seed)
    return noisy_batch(data, batches.samples[t % per_epoch], batches.noise[t % per_epoch], NOISE)


def loss(parameters: Any, model: dam.StackedAM, X: Any, Y: Any) -> Any:
    """Return the denoising loss of a batch, as in training: half the squared error of a sample."""
    R = model.with_parameters(parameters).update(X) - Y
    return jnp.sum(R * R) / (2 * X.shape[0])


# --- find ------------------------------------------------------------------------------------------


@eqx.filter_jit
def _sizes_of(
    model: dam.StackedAM, optimizer: str, rates: StackedParameters, X: Any, Y: Any
) -> dict[str, Any]:
    """Return the quantities of the factors, before and in the first update."""
    rule = with_rates(optimizer, rates)
    alone, state = model.into_h1(X), model.settle(X)
    gradient = jax.grad(loss)(model.parameters, model, X, Y)
    change, _ = rule.update(gradient, rule.init(model.parameters), model.parameters)
    new = optax.apply_updates(model.parameters, change)

    def moved(name: str) -> Any:
        parameters = model.parameters._replace(**{name: getattr(new, name)})
        return rms(model.with_parameters(parameters).hidden(X) - state.h1)

    return {
        "input of h1 from x": rms(alone),
        "input of h2": rms(state.h2),
        "input of h1 from h2": rms(state.h1 - alone),
        "F": rms(model.update(X)),
        "change of h1 by W1": moved("W1"),
        "change of h1 by W2": moved("W2"),
    }


def _size(rule: Rule, quantity: str, N: int, seed: int) -> float:
    model, rates = rule.model(N, seed), rule.rates(N, 0.01)
    return float(_sizes_of(model, rule.optimizer, rates, *_batch(N, seed))[quantity])


def find(rule: Rule) -> dict[str, Any]:
    """Correct one factor after the other, from exponents of 0; return each with its interval."""
    exponents = dict.fromkeys(FACTORS, 0.0)
    found = {}
    for factor, quantity in FACTORS.items():
        start = rule._replace(exponents=dict(exponents))
        values = [[_size(start, quantity, N, seed) for seed in range(FOUND_SEEDS)] for N in FOUND_AT]
        law = asymptotic(quantity, FOUND_AT, np.array(values)).remedy(0.0)
        exponents[factor] = float(law.exponent if law.fraction is None else law.fraction)
        found[factor] = law.to_json() | {"predicted": rule.exponents[factor]}
    return found


# --- check -----------------------------------------------------------------------------------------


def check(rule: Rule, name: str) -> dict[str, Any]:
    """Return the coordinate check of a rule."""
    made = dam.check_model(
        lambda shape, seed: rule.model(shape.N, seed),
        lambda shape: with_rates(rule.optimizer, rule.rates(shape.N, CHECK_RATE[rule.optimizer])),
        regime=REGIME, scales=CHECKED_AT, seeds=CHECKED_SEEDS, updates=UPDATES, noise=NOISE, name=name,
    )  # fmt: skip
    failing = [{"name": s.name, "step": s.step, "exponent": s.slope} for s in made.failing()]
    return {"status": made.status, "failing": failing, "exponents": dict(rule.exponents)}


# --- sweep -----------------------------------------------------------------------------------------


def sweep(rule: Rule, top: float, epochs: int, name: str) -> list[dict[str, Any]]:
    """Return the loss at the end of every run: sizes, rates and seeds, a row for each."""
    rows = []
    for N in SWEPT_AT:
        rates = np.array(RATES[rule.optimizer])
        for seed in SWEPT_SEEDS:
            losses = _train(rule, top, epochs, N, seed, rates)
            rows += [
                {"study": name, "N": N, "eta0": float(rate), "seed": seed, "loss": float(value)}
                for rate, value in zip(rates, losses, strict=True)
            ]
    return rows


def _train(rule: Rule, top: float, epochs: int, N: int, seed: int, rates: Any) -> Any:
    """Return the mean loss per feature in the last epoch, for each rate; infinite where it diverged."""
    shape = REGIME.shape(N)
    assert shape.P is not None
    assert shape.B is not None
    per_epoch = shape.P // shape.B
    model = rule.model(N, seed, top)
    data = isotropic(N, shape.P, seed=seed)
    every = jax.tree.map(lambda *each: jnp.stack(each), *(rule.rates(N, float(rate)) for rate in rates))
    trained = jax.vmap(lambda _: model.parameters)(jnp.asarray(rates))
    states = jax.vmap(with_rates(rule.optimizer, rule.rates(N, 1.0)).init)(trained)
    for epoch in range(epochs):
        batches = draw_batches(seed, epoch, shape.P, shape.B)
        pairs = [noisy_batch(data, batches.samples[i], batches.noise[i], NOISE) for i in range(per_epoch)]
        X, Y = (jnp.stack(each) for each in zip(*pairs, strict=True))
        trained, states, losses = _epoch(model, rule.optimizer, trained, states, every, X, Y)
    final = np.asarray(losses, float) * 2 / N
    return np.where(np.isfinite(final), final, np.inf)


@eqx.filter_jit
def _epoch(
    model: dam.StackedAM, optimizer: str, trained: Any, states: Any, rates: Any, X: Any, Y: Any
) -> tuple[Any, Any, Any]:
    def one(parameters: Any, state: Any, rates: Any) -> tuple[Any, Any, Any]:
        rule = with_rates(optimizer, rates)

        def step(carry: Any, batch: Any) -> tuple[Any, Any]:
            parameters, state = carry
            value, gradient = jax.value_and_grad(loss)(parameters, model, *batch)
            change, state = rule.update(gradient, state, parameters)
            return (optax.apply_updates(parameters, change), state), value

        (parameters, state), values = jax.lax.scan(step, (parameters, state), (X, Y))
        return parameters, state, jnp.mean(values)

    return jax.vmap(one)(trained, states, rates)


#: Study → the strength of the top, and how many times the epochs: with d₂ = 0 it is a single memory of K₁, a
#: step of which costs half as much.
STUDIES = {"stacked": (1.0, 1), "one memory": (0.0, 2), "one memory, same epochs": (0.0, 1)}


# --- records ---------------------------------------------------------------------------------------


def make(part: str | None) -> None:
    """Measure what is missing, and keep what was found."""
    HOME.mkdir(exist_ok=True)
    if part in (None, "find"):
        for rule in rules():
            _add("found.json", _name(rule), functools.partial(find, rule))
    if part in (None, "check"):
        for rule in rules():
            _add("checks.json", _name(rule), functools.partial(check, rule, _name(rule)))
        for (pair, optimizer), wrong in CONTROLS.items():
            rule = Rule(pair, optimizer, predicted(pair, optimizer) | wrong)
            name = f"{_name(rule)}, " + ", ".join(
                f"{factor} = N^{power:g}" for factor, power in wrong.items()
            )
            _add("checks.json", name, functools.partial(check, rule, name))
    if part in (None, "sweep"):
        for rule in (rule for rule in rules() if rule.pair == "ReLU, tanh"):
            for study, (top, times) in STUDIES.items():
                _add_sweep(rule, top, times * EPOCHS, f"{_name(rule)}: {study}")


def _add_sweep(rule: Rule, top: float, epochs: int, name: str) -> None:
    """Train one study, unless its runs are there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pq.read_table(SWEEPS).to_pylist() if SWEEPS.is_file() else []
    if all(row["study"] != name for row in rows):
        pq.write_table(pa.Table.from_pylist([*rows, *sweep(rule, top, epochs, name)]), SWEEPS)


def _name(rule: Rule) -> str:
    return f"{rule.pair}; {rule.optimizer}"


def _add(document: str, name: str, measure: Callable[[], Any]) -> None:
    """Measure one entry of a document, unless it is there."""
    if name not in kept(document):
        entries = kept(document) | {name: measure()}
        (HOME / document).write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


def kept(name: str) -> Any:
    """Return a document of the folder; an empty one if it was not measured."""
    path = HOME / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


# --- the page --------------------------------------------------------------------------------------


def found_table() -> str:
    """Return the exponents that were found, beside those of the library."""
    rows = []
    for name, factors in kept("found.json").items():
        cells = []
        for factor in FACTORS:
            law = factors[factor]
            low, high = law["interval"]
            cells.append(f"{law['exponent']:.2f} ({low:.2f} to {high:.2f}); {law['predicted']:g}")
        rows.append((name, *cells))
    return _table(("", *FACTORS), rows)


def check_table() -> str:
    """Return the checks of the library's rules, and of wrong ones."""
    rows = []
    for name, made in kept("checks.json").items():
        names = dict.fromkeys(one["name"] for one in made["failing"])
        rows.append((name, made["status"], ", ".join(f"`{n}`" for n in list(names)[:4])))
    return _table(("", "check", "what fails"), rows)


@functools.cache
def verdicts() -> Mapping[str, Any]:
    """Return the verdict on every sweep, by the name of its study."""
    return {v.name: v for v in dam.verdict(str(SWEEPS))} if SWEEPS.is_file() else {}


def sweep_table() -> str:
    """Return the best rate and loss of every sweep, and the verdict."""
    rows = []
    for name, v in verdicts().items():
        largest = max(v.regret)
        regret = v.regret[largest]
        cost = "–" if regret is None else "diverges" if math.isinf(regret) else f"{100 * regret:.1f} %"
        best, losses = (
            ", ".join("–" if value is None else format(value, form) for value in each.values())
            for each, form in ((v.optimum, ".2g"), (v.best_loss, ".3f"))
        )
        rows.append((name, best, losses, cost, v.status))
    head = ("", f"best η₀ at N = {', '.join(map(str, SWEPT_AT))}", "loss there", "cost", "verdict")
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return recorded.table(head, rows or [(recorded.NOT_RUN, *[""] * (len(head) - 1))])


FRAGMENTS = {
    "stacked-found.md": found_table,
    "stacked-checks.md": check_table,
    "stacked-sweeps.md": sweep_table,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("find", "check", "sweep"))
    make(parser.parse_args().part)
