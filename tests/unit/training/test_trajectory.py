"""Training through several steps of recall."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import denseam as dam
from denseam.model.steps import Steps
from denseam.rules import cost
from denseam.studies.engine import train_runs
from denseam.studies.runs import build
from denseam.training.batches import View, add_noise, draw_batches, noisy_batch
from denseam.training.gradient import gradient, gradient_of_batch, loss, loss_of_batch
from denseam.training.matrices import Ways, batch_of
from denseam.training.probes import measure
from denseam.training.quantities import THROUGH
from tests import reference
from tests.models import ACTIVATIONS, plain
from tests.sampled import product

SHAPE = dam.Shape(N=6, K=9, P=25, B=5)


def batches_of(data, seed, epochs, noise):
    """The batches `train` sees, as columns."""
    for epoch in range(epochs):
        drawn = draw_batches(seed, epoch, SHAPE.P, SHAPE.B)
        for samples, key in zip(drawn.samples, drawn.noise, strict=True):
            yield [np.asarray(V).T for V in noisy_batch(data, samples, key, noise)]


def made(name, T, tau=0.9, optimizer="adam", centred=True, **constants):
    activation = ACTIVATIONS[name][0]
    shape = dataclasses.replace(SHAPE, T=T)
    scales = dam.prescription(activation, optimizer).at(shape, **({"eta0": 0.02, "tau": tau} | constants))
    return scales, dam.DenseAM.create(
        scales, activation, seed=1, centred=centred, bias_init="normal", dtype=jnp.float64
    )


def a_batch(masked=False):
    rng = np.random.default_rng(0)
    X, Y = map(jnp.asarray, rng.standard_normal((2, 5, 6)))
    return X, Y, jnp.asarray(rng.random((5, 6)) < 0.4) if masked else None


def columns(*arrays):
    return [None if a is None else np.asarray(a).T for a in arrays]


def equal_to_the_reference(model, name, X, Y, known, **options):
    L, found = gradient(model, X, Y, known)
    x, y, held = columns(X, Y, known)
    ref = reference.Through(plain(model, name), model.steps.T, float(model.steps.size), held, **options)
    assert float(L) == pytest.approx(ref.loss(x, y), rel=1e-12)
    for one, expected in zip(found, ref.gradient(x, y), strict=True):
        assert np.allclose(one, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "centred", "T", "masked"), product(ACTIVATIONS, (True, False), (1, 2, 7), (True, False))
)
def test_the_gradient_is_that_of_the_reference(name, centred, T, masked):
    _, model = made(name, T, centred=centred)
    equal_to_the_reference(model, name, *a_batch(masked))


def test_earlier_steps_can_have_a_weight():
    _, model = made("relu", 4)
    model = dataclasses.replace(model, steps=Steps(4, 0.2, 0.7))
    equal_to_the_reference(model, "relu", *a_batch(masked=True), early=0.7)


@pytest.mark.parametrize(
    ("name", "T", "masked"), [("relu", 3, False), ("softmax", 1, True), ("tanh", 2, True)]
)
def test_after_a_burn_in_the_gradient_is_that_of_the_last_steps(name, T, masked):
    _, model = made(name, T)
    model = dataclasses.replace(model, steps=dataclasses.replace(model.steps, burn_in=4.0))
    X, Y, known = a_batch(masked)
    delay = jnp.asarray([[0.0], [0.19], [0.2], [0.61], [0.999]])  # shares of the five lengths 0 … 4
    x, y, held = columns(X, Y, known)
    ref = reference.Through(plain(model, name), T, float(model.steps.size), held, burn_in=(0, 0, 1, 3, 4))
    batch = batch_of(model, X, Y, known)._replace(delay=delay)
    for ways in (Ways(), Ways(written_out=True, recompute=True), Ways(stacked=True)):
        L, found = gradient_of_batch(model, batch, ways)
        assert float(L) == pytest.approx(ref.loss(x, y), rel=1e-12)
        for one, expected in zip(found, ref.gradient(x, y), strict=True):
            assert np.allclose(one, expected, rtol=1e-10, atol=1e-12)
    by_autodiff = jax.grad(lambda p: loss_of_batch(model.with_parameters(p), batch))(model.parameters)
    for one, expected in zip(found, by_autodiff, strict=True):
        assert np.allclose(one, expected, rtol=1e-10, atol=1e-12)


def test_a_study_with_a_burn_in_trains_as_the_reference_does():
    study = dam.Study(
        "relu",
        "adam",
        (8,),
        (0.03,),
        seeds=1,
        epochs=2,
        steps=3,
        precision="float64",
        axes={"burn_in": (1.5,)},
    )
    (spec,) = study.runs()
    ((outcome,),) = train_runs(study, [spec])
    model, optimizer = build(study, spec, None, jnp.float64)
    ref = reference.Through(plain(model, "relu"), 3, 1 / 3)
    adam = reference.Adam(*(float(rate) for rate in optimizer.rates))
    data = study.source().samples(spec.shape, 0, np.float64)
    losses = []
    for epoch in range(2):
        drawn = draw_batches(0, epoch, spec.shape.P, spec.shape.B)
        for samples, key in zip(drawn.samples, drawn.noise, strict=True):
            Y = jnp.asarray(data)[samples]
            X, _, _, delay = View.of(model).batch(Y, key, 0.5)
            # round(1.5 · 3) = 4 steps at most: five lengths.
            lengths = tuple(np.floor(5 * np.asarray(delay[:, 0])).astype(int).tolist())
            ref, (x, y) = dataclasses.replace(ref, burn_in=lengths), columns(X, Y)
            losses.append(2 * ref.loss(x, y) / 8)
            ref = ref.with_step(adam, ref.gradient(x, y))
    assert outcome.loss == pytest.approx(np.reshape(losses, (2, -1)).mean(axis=1), rel=1e-6)


def test_samples_are_delayed_only_in_a_burn_in():
    _, model = made("relu", 3)
    Y = jnp.zeros((200, 4))
    assert View.of(model).batch(Y, jax.random.key(0), 0.5).delay is None
    delayed = View.of(dataclasses.replace(model, steps=Steps(3, 0.3, burn_in=5.0)))
    batch = delayed.batch(Y, jax.random.key(0), 0.5)
    assert np.array_equal(batch.X, add_noise(Y, jax.random.key(0), 0.5))
    assert batch.delay.shape == (200, 1)
    assert np.bincount(np.floor(6 * np.asarray(batch.delay)).astype(int).ravel()).min() > 15
    batches = delayed.cut(Y, jax.random.key(0), 0.5, 3, 60)
    assert batches.delay.shape == (3, 60, 1)


@pytest.mark.parametrize(("name", "T"), [("relu", 3), ("tanh", 2), ("relu3", 7)])
def test_fifty_updates_equal_the_reference(name, T):
    scales, model = made(name, T)
    data = dam.data.anisotropic(SHAPE.N, SHAPE.P, seed=2, dtype=jnp.float64)
    run = dam.train(model, data, optimizer=dam.adam(scales), epochs=10, noise=0.4, seed=3)
    start = reference.Through(plain(model, name), T, 0.9 / T)
    optimizer = reference.Adam(scales.eta_W, scales.eta_b, scales.eta_c)
    trained, curve = reference.train(start, optimizer, list(batches_of(data, 3, 10, 0.4)))
    assert run.mse.size == 50
    assert np.allclose(run.mse.ravel(), curve, rtol=1e-9, atol=1e-11)
    of_reference = trained.model
    for found, expected in zip(
        run.model.parameters, (of_reference.W, of_reference.b, of_reference.c), strict=True
    ):
        assert np.allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_one_step_of_size_one_is_the_update():
    """Without steps it is the program of one update; a traced size of 1 gives the same numbers."""
    _, model = made("relu", 1, tau=1.0)
    assert model.steps is None
    X, Y, _ = a_batch()
    as_steps = dataclasses.replace(model, steps=Steps(1, jnp.asarray(1.0)))
    (L, plainly), (L1, stepped) = (jax.jit(gradient)(m, X, Y) for m in (model, as_steps))
    assert float(L) == pytest.approx(float(L1), rel=1e-15)
    for one, other in zip(plainly, stepped, strict=True):
        assert np.allclose(one, other, rtol=1e-14, atol=1e-16)


def test_known_features_keep_their_values_and_do_not_count():
    _, model = made("relu", 3)
    X, Y, known = a_batch(masked=True)
    elsewhere = jnp.where(known, 7.0, Y)  # what is known cannot be wrong
    for a, b in zip(gradient(model, X, Y, known)[1], gradient(model, X, elsewhere, known)[1], strict=True):
        assert np.array_equal(a, b)
    recalled = model.recall(X, 3, 0.0, damping=0.3, clamp=known).state
    hidden = np.asarray(recalled - Y)[~np.asarray(known)]
    assert float(loss(model, X, Y, known)) == pytest.approx(6 / 2 * np.mean(hidden**2), rel=1e-12)


def test_recall_takes_the_steps_of_the_training_by_default():
    _, model = made("relu", 3)
    X = a_batch()[0]
    assert int(model.recall(X, tolerance=0.0).steps[0]) == 3
    given = model.recall(X, 3, 0.0, damping=0.3).state
    assert np.allclose(model.recall(X, tolerance=0.0).state, given, atol=1e-15)
    _, one = made("relu", 1, tau=1.0)
    assert one.recall(X, tolerance=0.0).energies.shape[1] == 101


def test_the_probes_through_steps_are_the_changes_of_all_states():
    scales, model = made("relu", 3, optimizer="sgd")
    X, Y, _ = a_batch()
    optimizer = dam.sgd(scales)
    state = optimizer.init(model.parameters)
    values = dict(zip(THROUGH, measure(model, optimizer, state, batch_of(model, X, Y), THROUGH), strict=True))
    _, grads = gradient(model, X, Y)
    ref = plain(model, "relu")
    after = reference.Sgd(scales.eta_W, scales.eta_b, scales.eta_c).step(ref, tuple(map(np.asarray, grads)))

    def states(m):
        path = [reference.recall(m, x, 3, 0.3)[0] for x in np.asarray(X)]
        return np.array([[m.z(s) for s in p[:-1]] for p in path]), np.array([p[-1] for p in path])

    (Z, F), (Z1, F1) = states(ref), states(after)
    for name, expected in {
        "Z": Z,
        "F": F,
        "R": F - np.asarray(Y),
        "dZ_exact": Z1 - Z,
        "dF_exact": F1 - F,
    }.items():
        assert float(values[name]) == pytest.approx(np.sqrt(np.mean(expected**2)), rel=1e-8), name
    assert float(values["mse"]) == pytest.approx(np.mean((F - np.asarray(Y)) ** 2), rel=1e-10)


def test_operations_and_memory_of_steps():
    one, many = dam.Shape(64, 128, 320, 32), dam.Shape(64, 128, 320, 32, T=8)
    product_ = 128 * 64 * 32
    assert cost.step_operations(one) == 10 * product_
    assert cost.step_operations(many) == (12 * 8 - 2) * product_
    assert cost.step_operations(many, recompute=True) == (14 * 8 - 2) * product_
    assert cost.step_operations(many, burn_in=2.5) == (12 * 8 - 2 + 4 * 20) * product_
    kept, again = (cost.training_bytes(many, "sgd", recompute=r) for r in (False, True))
    assert kept - again == 4 * 7 * 128 * 32
    assert cost.recomputes(many, "sgd", (kept + again) / 2)
    assert not cost.recomputes(many, "sgd", kept)
    assert not cost.recomputes(one, "sgd", 0.0)


def test_recomputing_changes_nothing():
    _, model = made("relu3", 4)
    batch = batch_of(model, *a_batch(masked=True))
    for one, other in zip(
        gradient_of_batch(model, batch)[1],
        gradient_of_batch(model, batch, Ways(recompute=True))[1],
        strict=True,
    ):
        assert np.allclose(one, other, rtol=1e-12)


# --- completion --------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["features", "block", "last"])
def test_hidden_features_start_from_noise_and_known_ones_as_they_are(by):
    Y = jnp.asarray(np.random.default_rng(0).standard_normal((50, 12)))
    X, _, known, _ = View(None, 5, by).batch(Y, jax.random.key(0), 0.5)
    hidden = ~np.asarray(known)
    assert (hidden.sum(axis=1) == 5).all()
    assert np.array_equal(np.asarray(X)[~hidden], np.asarray(Y)[~hidden])
    assert np.std(np.asarray(X)[hidden]) == pytest.approx(0.5, rel=0.15)
    assert abs(np.corrcoef(np.asarray(X)[hidden], np.asarray(Y)[hidden])[0, 1]) < 0.2
    if by == "last":
        assert hidden[:, 7:].all()
    else:  # every feature is hidden in some samples and known in others
        assert (hidden.sum(axis=0) > 0).all()
        assert (hidden.sum(axis=0) < 50).all()
    if by == "block":
        borders = hidden != np.roll(hidden, 1, axis=1)
        assert (borders.sum(axis=1) == 2).all()


def test_nothing_hidden_is_plain_noise():
    Y = jnp.ones((3, 4))
    X, _, known, delay = View(None).batch(Y, jax.random.key(0), 0.5)
    assert known is None
    assert delay is None
    assert np.array_equal(X, add_noise(Y, jax.random.key(0), 0.5))
