"""Schedules and decays in training: what the equations say, what `explain` prints, and what is measured."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import denseam as dam
from denseam.ground.errors import InputError
from denseam.rules.optimizers import OPTIMIZERS
from denseam.rules.schedules import SCHEDULES
from denseam.training.batches import draw_batches, noisy_batch
from denseam.training.gradient import Driven, step
from denseam.training.optimizers import make
from denseam.training.probes import measure_step, take_step, update_terms
from denseam.training.quantities import applicable
from tests import reference
from tests.models import plain
from tests.sampled import diagonal

SHAPE = dam.Shape(N=6, K=9, P=25, B=5)
SHARES = {"warmup": 0.2, "cooldown": 0.3}
REFERENCES = {
    "sgd": reference.Sgd,
    "adam": reference.Adam,
    "adamw": reference.Adam,
    "lion": reference.Lion,
    "sign": lambda *rates, **o: reference.Sign(*rates, momentum=0.9, **o),
    "muon": reference.Muon,
}


def scales_for(optimizer, **constants):
    return dam.prescription("relu", optimizer).at(SHAPE, **({"eta0": 0.02} | constants))


def decaying(optimizer, scales, time, steps):
    """The option for a decay of this time; none for Adam, which has no decay."""
    return {"decay": scales.decay(time, steps)} if "decay" in OPTIMIZERS[optimizer].defaults else {}


@pytest.mark.parametrize(("optimizer", "schedule"), diagonal(OPTIMIZERS, SCHEDULES))
def test_fifty_steps_with_a_schedule_and_a_decay_equal_the_reference(optimizer, schedule):
    scales = scales_for(optimizer, eta_b0=0.03, eta_c0=0.01)
    model = dam.DenseAM.create(scales, dam.relu(), seed=1, bias_init="normal", dtype=jnp.float64)
    data = dam.data.anisotropic(SHAPE.N, SHAPE.P, seed=2, dtype=jnp.float64)
    options = decaying(optimizer, scales, 0.7, 50)
    rule = make(optimizer, scales, schedule=dam.Timetable(schedule, 50, **SHARES), **options)
    run = dam.train(model, data, optimizer=rule, epochs=10, noise=0.4, seed=3)
    λ = {"decay": reference.decay_of(0.7, 50, scales.eta_W)} if options else {}
    ref = REFERENCES[optimizer](scales.eta_W, scales.eta_b, scales.eta_c, **λ)
    batches = []
    for epoch in range(10):
        drawn = draw_batches(3, epoch, SHAPE.P, SHAPE.B)
        for samples, key in zip(drawn.samples, drawn.noise, strict=True):
            X, Y = noisy_batch(data, samples, key, 0.4)
            batches.append((np.asarray(X).T, np.asarray(Y).T))
    factors = reference.schedule(schedule, 50, 0.2, 0.3)
    trained, curve = reference.train(plain(model, "relu"), ref, batches, factors)
    assert np.allclose(run.mse.ravel(), curve, rtol=1e-9, atol=1e-11)
    for found, expected in zip(run.model.parameters, (trained.W, trained.b, trained.c), strict=True):
        assert np.allclose(found, expected, rtol=1e-8, atol=1e-9)


# --- what explain prints ---------------------------------------------------------------------------------


def printed(text):
    """The table of a training that `explain` prints: step → column → number."""
    lines = text[text.index("schedule: ") :].splitlines()
    heads = re.split(r"  +", lines[1])
    rows = [re.split(r"  +", line) for line in lines[3:]]
    return {int(row[0]): dict(zip(heads[2:], map(float, row[2:]), strict=True)) for row in rows}


@pytest.mark.parametrize(("optimizer", "schedule"), diagonal(OPTIMIZERS, SCHEDULES))
def test_what_is_measured_at_every_step_is_what_explain_prints(optimizer, schedule):
    scales = scales_for(optimizer, eta_b0=0.03, eta_c0=0.01)
    table = dam.Timetable(schedule, 12, **SHARES)
    options = decaying(optimizer, scales, 2.0, 12)
    rule = make(optimizer, scales, schedule=table, **options)
    shown = printed(scales.explain(timetable=table, decay=options.get("decay")))
    assert {0, 11} < set(shown)
    for k in range(12):
        rates, decays = dam.effective_learning_rates(rule, k), dam.effective_decays(rule, k)
        assert rates["W"] == pytest.approx(table(k) * scales.eta_W, rel=1e-6)
        assert decays["W"] == pytest.approx(table(k) / 24 if options else 0.0, rel=1e-6)
        assert (decays["b"], decays["c"]) == (0, 0)
        if k in shown:
            row = {"η_W": rates["W"], "η_b": rates["b"], "η_c": rates["c"]}
            row |= {"η_W λ_W": decays["W"]} if options else {}
            assert shown[k].pop("factor") == pytest.approx(table(k), rel=1e-5)
            assert shown[k] == pytest.approx(row, rel=1e-5)


def test_both_units_of_a_decay_are_printed():
    scales = scales_for("sgd")
    text = scales.explain(timetable=dam.Timetable("constant", 50), decay=0.5)
    (line,) = (line for line in text.splitlines() if line.startswith("decay"))
    numbers = [float(number) for number in re.findall(r"(?<!λ)\d[\d.e+-]*", line)]
    assert numbers == pytest.approx([0.5, 0.5 / 9, 0.01, 100, 2.0], rel=1e-5)
    assert "decay" not in scales.explain(decay=0.0)
    assert "decay_time" not in scales.explain(decay=0.5)


# --- one program, one schedule ---------------------------------------------------------------------------


def test_schedules_are_data_so_another_one_compiles_nothing():
    from denseam.training.run import _train

    scales, data = scales_for("sgd"), dam.data.isotropic(SHAPE.N, SHAPE.P)
    model = dam.DenseAM.create(scales, dam.relu())

    def go(*schedule):
        rule = dam.sgd(scales, schedule=dam.Timetable(schedule[0], 10, *schedule[1:]))
        return dam.train(model, data, optimizer=rule, epochs=2).final_mse

    losses = [go("constant", 0.1)]
    compiled = _train._cache_size()
    losses += [go("constant", 0.3), go("cosine", 0.1), go("wsd")]
    assert _train._cache_size() == compiled
    assert len(set(losses)) == 4


def test_a_timetable_of_another_length_is_refused():
    scales, data = scales_for("sgd"), dam.data.isotropic(SHAPE.N, SHAPE.P)
    model = dam.DenseAM.create(scales, dam.relu())
    rule = dam.sgd(scales, schedule=dam.Timetable("cosine", 50))
    with pytest.raises(InputError, match="its schedule is for 50 steps, but the training has 10"):
        dam.train(model, data, optimizer=rule, epochs=2)
    with pytest.raises(InputError, match=r"schedule must be a Timetable, .* got 'cosine'"):
        dam.sgd(scales, schedule="cosine")


# --- decays that would not scale -------------------------------------------------------------------------


def test_a_decay_inside_a_wrapped_optimizer_is_refused_and_one_beside_it_is_scaled():
    sgd, adam = scales_for("sgd"), scales_for("adam")
    coupled = optax.chain(optax.add_decayed_weights(0.1), optax.adam(1.0))
    for inner, scales in ((optax.adamw(1.0), adam), (coupled, adam), (optax.lion(1.0), adam),
                          (optax.chain(optax.add_decayed_weights(0.1), optax.sgd(1.0)), sgd)):  # fmt: skip
        with pytest.raises(
            InputError, match=r"inner must not decay by itself.*pass decay=… to scaled"
        ) as caught:
            dam.scaled(inner, scales)
        assert "\n" not in str(caught.value)
    table = dam.Timetable("linear", 8)
    for inner, ours, scales in ((optax.sgd(1.0), dam.sgd, sgd), (optax.adam(1.0), dam.adamw, adam)):
        options = {"decay": 0.3, "schedule": table}
        wrapped, own = dam.scaled(inner, scales, **options), ours(scales, **options)
        for k in range(8):
            assert dam.effective_decays(wrapped, k) == pytest.approx(dam.effective_decays(own, k))
            assert dam.effective_learning_rates(wrapped, k) == pytest.approx(
                dam.effective_learning_rates(own, k)
            )
    with pytest.raises(InputError, match="decay must be at least 0"):
        dam.scaled(optax.sgd(1.0), sgd, decay=-1.0)


def test_an_optimizer_refuses_what_it_lacks():
    with pytest.raises(InputError, match=r"decay belongs to the optimizer 'sgd', .* got 'adam'"):
        make("adam", scales_for("adam"), decay=0.1)


def trajectory(scales, rule):
    model = dam.DenseAM.create(scales, dam.relu(), seed=4, dtype=jnp.float64)
    data = dam.data.isotropic(SHAPE.N, SHAPE.P, seed=5, dtype=jnp.float64)
    run = dam.train(model, data, optimizer=rule(scales), epochs=4)
    return run.mse.ravel(), np.asarray(run.model.W) / scales.W_std


@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name != "adam"])
def test_other_units_of_the_memories_leave_a_decaying_training_as_it_is(optimizer):
    """λ_W → λ_W/θ² under SGD, λ_W/θ otherwise (`Scales.rescaled`)."""
    scales = scales_for(optimizer)
    decay = scales.decay(0.5, 20)  # λ0, the same in all units

    def rule(scales):
        ε = {"epsilon": 1e-2} if "epsilon" in OPTIMIZERS[optimizer].defaults else {}
        table = dam.Timetable("cosine", 20, warmup=0.1)
        return make(optimizer, scales, decay=decay, schedule=table, **ε)

    (curve, W), (moved_curve, moved_W) = (trajectory(s, rule) for s in (scales, scales.rescaled(3.0)))
    assert np.allclose(curve, moved_curve, rtol=1e-9)
    assert np.allclose(W, moved_W, rtol=1e-8, atol=1e-10)


# --- probes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_probes_know_the_learning_rate_of_their_step(optimizer):
    """The parts of a step add up to it, and its distance from the signs is the same at every factor."""
    scales, table = scales_for(optimizer), dam.Timetable("cosine", 8, warmup=0.5)
    model = dam.DenseAM.create(scales, dam.relu(), dtype=jnp.float64)
    scheduled, constant = (getattr(dam, optimizer)(scales, schedule=s) for s in (table, None))
    rng = np.random.default_rng(0)
    X, Y = (jnp.asarray(v) for v in rng.standard_normal((2, 5, 6)))
    state = scheduled.init(model.parameters)
    for k in range(3):
        assert scheduled.factor(state) == pytest.approx(table(k))
        taken = take_step(model, scheduled, state, Driven(model.drive(X), Y))
        if optimizer == "sgd":
            terms = update_terms(taken)
            assert np.allclose(terms["dW1"] + terms["dW2"], terms["dW"], rtol=1e-12)
            assert np.allclose(terms["dW"], -table(k) * scales.eta_W * taken.gradient.W, rtol=1e-12)
        _, state, _ = step(model, scheduled, state, X, Y)
    if optimizer == "adam":
        fresh = [o.init(model.parameters) for o in (scheduled, constant)]
        steps = [take_step(model, o, s, Driven(model.drive(X), Y))
                 for o, s in zip((scheduled, constant), fresh, strict=True)]  # fmt: skip
        a, b = (float(measure_step(s, applicable("elementwise", "adam"))["sign_distance"]) for s in steps)
        assert a == pytest.approx(b, rel=1e-6)


def test_a_factor_is_one_without_a_schedule_and_that_of_a_function_with_one():
    scales = scales_for("sgd")
    model = dam.DenseAM.create(scales, dam.relu())
    for rule, factor in ((dam.sgd(scales), 1.0), (dam.sgd(scales, schedule=lambda k: 0.25 + 0 * k), 0.25)):
        assert float(rule.factor(rule.init(model.parameters))) == factor
    stacked = jax.tree.map(lambda *v: jnp.stack(v), *(
        dam.sgd(scales, schedule=dam.Timetable("constant", 4, warmup=w)) for w in (0.5, 1.0)))  # fmt: skip
    states = jax.vmap(lambda o: o.init(model.parameters))(stacked)
    assert jax.vmap(lambda o, s: o.factor(s))(stacked, states) == pytest.approx([0.25, 0.125])
