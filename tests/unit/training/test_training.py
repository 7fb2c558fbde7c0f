import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import denseam as dam
from denseam.ground.errors import InputError
from denseam.rules import cost
from denseam.rules.optimizers import OPTIMIZERS as NAMES
from denseam.rules.regimes import REGIMES
from denseam.rules.table import FAMILIES
from denseam.training.batches import draw_batches, noisy_batch
from denseam.training.gradient import gradient, loss
from denseam.training.optimizers import orthogonalised
from tests import reference
from tests.models import ACTIVATIONS, plain
from tests.sampled import covering, product, sampled
from tests.table import UNPRESCRIBED

SHAPE = dam.Shape(N=6, K=9, P=25, B=5, E=3)


def scales_for(name, optimizer, regime="proportional", **constants):
    activation = ACTIVATIONS[name][0]
    several_steps = "T" in REGIMES[regime].grows
    if (activation.family, optimizer) in UNPRESCRIBED or (several_steps and activation.family == "softmax"):
        with pytest.warns(dam.UnprescribedWarning):
            rule = dam.prescription(activation, optimizer, regime)
    else:
        rule = dam.prescription(activation, optimizer, regime)
    return rule.at(SHAPE, **({"eta0": 0.02} | constants))


def batches_of(data, seed, epochs, noise):
    """The batches `train` sees, as columns."""
    P, B = data.shape[0], SHAPE.B
    for epoch in range(epochs):
        drawn = draw_batches(seed, epoch, P, B)
        for samples, key in zip(drawn.samples, drawn.noise, strict=True):
            X, Y = noisy_batch(data, samples, key, noise)
            yield np.asarray(X).T, np.asarray(Y).T


OPTIMIZERS = {
    "sgd": (dam.sgd, {}, reference.Sgd, {}),
    "sgd-momentum": (dam.sgd, {"momentum": 0.6}, reference.Sgd, {"momentum": 0.6}),
    "adam": (dam.adam, {}, reference.Adam, {}),
    "adam-other-betas": (
        dam.adam,
        {"beta1": 0.5, "beta2": 0.9, "epsilon": 1e-3},
        reference.Adam,
        {"beta1": 0.5, "beta2": 0.9, "epsilon": 1e-3},
    ),
    "adamw": (dam.adamw, {"decay": 0.1}, reference.Adam, {"decay": 0.1}),
    "sgd-nesterov": (
        dam.sgd, {"momentum": 0.6, "nesterov": True, "decay": 0.9},
        reference.Sgd, {"momentum": 0.6, "nesterov": True, "decay": 0.1},
    ),
    "lion": (dam.lion, {"decay": 0.1}, reference.Lion, {"decay": 0.1}),
    "lion-other-betas": (
        dam.lion, {"beta1": 0.5, "beta2": 0.8}, reference.Lion, {"beta1": 0.5, "beta2": 0.8}
    ),
    "sign": (dam.sign, {}, reference.Sign, {"momentum": 0.9}),
    "sign-nesterov": (
        dam.sign, {"momentum": 0.6, "nesterov": True}, reference.Sign, {"momentum": 0.6, "nesterov": True}
    ),
    "sign-alone": (dam.sign, {"momentum": None, "decay": 0.1}, reference.Sign, {"decay": 0.1}),
    "muon": (dam.muon, {}, reference.Muon, {}),
    "muon-heavy-ball": (
        dam.muon, {"momentum": 0.6, "nesterov": False, "beta1": 0.5, "beta2": 0.9, "decay": 0.3},
        reference.Muon, {"momentum": 0.6, "nesterov": False, "beta1": 0.5, "beta2": 0.9, "decay": 0.1},
    ),
}  # fmt: skip


def kinds(row):
    """Activations, centred or not, and optimizers: these meet in the gradient alone."""
    name, optimizer, centred = row
    return {(name, centred), optimizer, (optimizer.partition("-")[0], centred)}


ROWS = list(itertools.product(ACTIVATIONS, OPTIMIZERS, (True, False)))


@pytest.mark.parametrize(("name", "optimizer", "centred"), sampled(ROWS, covering(ROWS, kinds)))
def test_fifty_steps_equal_the_reference(name, optimizer, centred):
    make, options, make_ref, ref_options = OPTIMIZERS[optimizer]
    # λ_W has K = 9 and max(K, N)^1/2 = 3 in its denominator under SGD and Muon.
    scales = scales_for(name, optimizer.partition("-")[0], eta_b0=0.03, eta_c0=0.01)
    model = dam.DenseAM.create(
        scales, ACTIVATIONS[name][0], seed=1, centred=centred, bias_init="normal", dtype=jnp.float64
    )
    data = dam.data.anisotropic(SHAPE.N, SHAPE.P, seed=2, dtype=jnp.float64)
    run = dam.train(model, data, optimizer=make(scales, **options), epochs=10, noise=0.4, seed=3)
    assert run.mse.size == 50
    start = plain(model, name)
    ref = make_ref(scales.eta_W, scales.eta_b, scales.eta_c, **ref_options)
    trained, curve = reference.train(start, ref, list(batches_of(data, 3, 10, 0.4)))
    assert np.allclose(run.mse.ravel(), curve, rtol=1e-9, atol=1e-11)
    for found, expected in zip(run.model.parameters, (trained.W, trained.b, trained.c), strict=True):
        assert np.allclose(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("name", "optimizer", "regime"), product(ACTIVATIONS, NAMES, REGIMES))
def test_every_activation_optimizer_and_regime_trains(name, optimizer, regime):
    scales = scales_for(name, optimizer, regime, eta0=1e-3)
    model = dam.DenseAM.create(scales, ACTIVATIONS[name][0])
    data = dam.data.isotropic(SHAPE.N, SHAPE.P, seed=2)
    run = dam.train(model, data, optimizer=getattr(dam, optimizer)(scales), epochs=3)
    assert run.status == "finished"
    assert run.diverged_at is None
    assert run.final_mse < run.initial_mse
    assert run.model.scales == scales
    assert run.model.W.dtype == jnp.float32


def test_the_reference_gradient_is_the_derivative_of_the_reference_loss():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 6, 4))
    for name in ACTIVATIONS:
        for centred in (True, False):
            scales = scales_for(name, "adam")
            model = dam.DenseAM.create(
                scales, ACTIVATIONS[name][0], centred=centred, bias_init="normal", dtype=jnp.float64
            )
            ref = plain(model, name)
            for parameter, found in zip("Wbc", ref.gradient(X, Y), strict=True):
                direction = rng.standard_normal(found.shape)
                value, t = getattr(ref, parameter), 1e-5
                losses = []
                for sign in (1, -1):
                    setattr(ref, parameter, value + sign * t * direction)
                    losses.append(ref.loss(X, Y))
                setattr(ref, parameter, value)
                slope = (losses[0] - losses[1]) / (2 * t)
                assert np.sum(found * direction) == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_loss_and_reported_mse_are_the_papers():
    scales = scales_for("relu", "sgd")
    model = dam.DenseAM.create(scales, dam.relu(), dtype=jnp.float64)
    rng = np.random.default_rng(1)
    X, Y = (jnp.asarray(a) for a in rng.standard_normal((2, 5, 6)))
    squares = np.sum((np.asarray(model.update(X)) - np.asarray(Y)) ** 2)
    assert float(loss(model, X, Y)) == pytest.approx(squares / (2 * 5), rel=1e-12)
    run = dam.train(model, Y, optimizer=dam.sgd(scales), epochs=1, noise=0.0, batch=5)
    clean = np.sum((np.asarray(model.update(Y)) - np.asarray(Y)) ** 2) / (6 * 5)
    assert run.mse[0, 0] == pytest.approx(clean, rel=1e-10)
    assert run.initial_mse == pytest.approx(clean, rel=1e-10)


def test_an_sgd_step_leaves_the_column_means_of_a_centred_W():
    for name in ("relu", "softmax"):
        scales = scales_for(name, "sgd")
        data = dam.data.isotropic(SHAPE.N, SHAPE.P, seed=2, dtype=jnp.float64)
        for centred in (True, False):
            model = dam.DenseAM.create(scales, ACTIVATIONS[name][0], centred=centred, dtype=jnp.float64)
            run = dam.train(model, data, optimizer=dam.sgd(scales), epochs=2)
            drift = np.abs(np.mean(run.model.W - model.W, axis=0)).max()
            assert (drift < 1e-13) == centred
            assert np.abs(run.model.W - model.W).max() > 1e-3


# --- abc symmetry --------------------------------------------------------------------------------


def trajectory(scales, make, name="relu", **options):
    model = dam.DenseAM.create(scales, ACTIVATIONS[name][0], seed=4, dtype=jnp.float64)
    data = dam.data.isotropic(SHAPE.N, SHAPE.P, seed=5, dtype=jnp.float64)
    run = dam.train(model, data, optimizer=make(scales, **options), epochs=10)
    return run.mse.ravel(), np.asarray(run.model.W) / scales.W_std


SYMMETRIC = {
    "sgd": (dam.sgd, {}, "sgd"),
    "sgd-momentum": (dam.sgd, {"momentum": 0.5}, "sgd"),
    "adam": (dam.adam, {"epsilon": 1e-2}, "adam"),  # an ε that matters
    "adamw": (dam.adamw, {"epsilon": 1e-2, "decay": 0.3}, "adam"),
}


@pytest.mark.parametrize(
    ("case", "name", "theta"), product(SYMMETRIC, ("relu", "softmax", "identity"), (0.05, 3.0))
)
def test_equal_parameterizations_give_the_same_trajectory(case, name, theta):
    make, options, optimizer = SYMMETRIC[case]
    scales = scales_for(name, optimizer)
    curve, W = trajectory(scales, make, name, **options)
    moved_curve, moved_W = trajectory(scales.rescaled(theta), make, name, **options)
    assert np.allclose(curve, moved_curve, rtol=1e-9, atol=1e-12)
    assert np.allclose(W, moved_W, rtol=1e-8, atol=1e-10)
    assert np.ptp(curve) > 1e-2


@pytest.mark.parametrize("field", ["s1", "s2", "W_std", "eta_W", "epsilon_W", "decay_W"])
def test_parameterizations_that_differ_in_one_number_do_not(field):
    from dataclasses import replace

    make, options, optimizer = SYMMETRIC["adamw"]
    moved = scales_for("relu", optimizer).rescaled(3.0)
    curve, _ = trajectory(moved, make, **options)
    other, _ = trajectory(replace(moved, **{field: 1.5 * getattr(moved, field)}), make, **options)
    assert np.abs(curve - other).max() > 1e-6


def test_the_standard_parameterization_trains_as_its_canonical_form_says():
    for optimizer, make in (("sgd", dam.sgd), ("adam", dam.adam)):
        rule = dam.standard("relu", optimizer)
        standard, canonical = (r.at(SHAPE, eta0=0.02) for r in (rule, rule.canonical()))
        assert canonical.W_std == 1
        assert standard.W_std == pytest.approx(SHAPE.N**-0.5)
        for a, b in zip(trajectory(standard, make), trajectory(canonical, make), strict=True):
            assert np.allclose(a, b, rtol=1e-9, atol=1e-11)


# --- Newton–Schulz -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(9, 6), (6, 9), (6, 6)])
def test_an_update_of_muon_is_nearly_orthogonal_whatever_the_size_of_the_momentum(shape):
    M = np.random.default_rng(0).standard_normal(shape)
    for size in (1e-12, 1.0, 1e12):
        found = np.asarray(orthogonalised(jnp.asarray(size * M)))
        assert np.allclose(found, reference.newton_schulz(M), atol=1e-9)
        values = np.linalg.svd(found, compute_uv=False)
        assert 0.68 < values.min() < values.max() < 1.21
    assert np.array_equal(orthogonalised(jnp.zeros(shape)), np.zeros(shape))


def test_the_cost_of_an_update_of_muon_is_that_of_its_products():
    shape = dam.Shape(N=48, K=96, P=100, B=10)
    M = jnp.zeros((shape.K, shape.N))
    counted = jax.jit(orthogonalised).lower(M).compile().cost_analysis()["flops"]
    extra = cost.step_operations(shape, "muon") - cost.step_operations(shape, "adam")
    assert extra == pytest.approx(counted, rel=0.1)
    assert extra == 20 * 48**2 * 96 + 10 * 48**3


@pytest.mark.parametrize(("small", "lifted"), [(1.4e-3, False), (1.6e-3, True)])
def test_five_steps_lift_singular_values_from_0_0015_on(small, lifted):
    values = np.array([small, np.sqrt(1 - small**2)])
    found = np.diag(orthogonalised(jnp.asarray(np.diag(values))))
    assert (found[0] > 0.68) == lifted


def test_the_smallest_singular_values_of_the_momentum_fall_as_the_root_of_the_size():
    """So that five steps suffice up to N = (0.14/0.0015)², about 9000 (docs/numerics.md)."""
    smallest = []
    for N in (32, 96):
        shape = dam.Proportional().shape(N)
        scales = dam.prescription("relu", "muon").at(shape, eta0=0.016)
        model = dam.DenseAM.create(scales, dam.relu(), dtype=jnp.float64)
        data = dam.data.isotropic(N, shape.P, seed=1, dtype=jnp.float64)
        run = dam.train(model, data, optimizer=dam.muon(scales), epochs=1)
        (M,) = (v for v in jax.tree.leaves(run.optimizer_state) if v.shape == model.W.shape)
        values = np.linalg.svd(M, compute_uv=False)
        smallest.append(values.min() / np.linalg.norm(values) * np.sqrt(N))
    assert smallest == pytest.approx([0.14, 0.14], rel=0.15)


# --- learning rates ------------------------------------------------------------------------------


def test_effective_learning_rates_are_those_prescribed():
    sgd = dam.prescription("relu", "sgd").at(SHAPE, eta0=0.02, eta_b0=0.3, eta_c0=0.4)
    adam = dam.prescription("relu", "adam").at(SHAPE, eta0=0.02, eta_b0=0.3, eta_c0=0.4)
    muon = dam.prescription("relu", "muon").at(SHAPE, eta0=0.02, eta_b0=0.3, eta_c0=0.4)
    for optimizer, W in (
        (dam.sgd(sgd), 0.18),
        (dam.sgd(sgd, momentum=0.9), 0.18),
        (dam.adam(adam), 0.02),
        (dam.adamw(adam, decay=0.0), 0.02),
        (dam.lion(adam), 0.02),
        (dam.sign(adam), 0.02),
        (dam.muon(muon), 0.06),
        (dam.scaled(optax.lion(1.0, weight_decay=0.0), adam), 0.02),
        (dam.scaled(optax.sgd(1.0), sgd), 0.18),
    ):
        expected = {"W": W, "b": 0.3, "c": 0.4}
        assert dam.effective_learning_rates(optimizer) == pytest.approx(expected, rel=1e-6)
        assert dam.effective_learning_rates(optimizer, step=7) == pytest.approx(expected, rel=1e-6)


def test_a_schedule_multiplies_all_rates_alike():
    scales = dam.prescription("relu", "adam").at(SHAPE, eta0=0.02, eta_b0=0.3, eta_c0=0.4)
    schedule = optax.linear_schedule(1.0, 0.0, 10)
    for make in (dam.adam, dam.adamw, lambda s, **k: dam.scaled(optax.adam(1.0), s, **k)):
        optimizer = make(scales, schedule=schedule)
        for step, factor in ((0, 1.0), (3, 0.7), (9, 0.1)):
            expected = {"W": 0.02 * factor, "b": 0.3 * factor, "c": 0.4 * factor}
            assert dam.effective_learning_rates(optimizer, step) == pytest.approx(expected, rel=1e-5)


def test_a_schedule_is_applied_in_training():
    scales = scales_for("relu", "sgd")
    model = dam.DenseAM.create(scales, dam.relu(), dtype=jnp.float64)
    data = dam.data.isotropic(SHAPE.N, SHAPE.P, seed=5, dtype=jnp.float64)
    frozen = dam.sgd(scales, schedule=lambda count: jnp.where(count < 5, 1.0, 0.0))
    long = dam.train(model, data, optimizer=frozen, epochs=3)
    short = dam.train(model, data, optimizer=dam.sgd(scales), epochs=1)
    assert np.allclose(long.model.W, short.model.W, rtol=1e-12)


def test_rates_survive_save_and_load_and_setting_them_twice(tmp_path):
    scales = dam.prescription("relu", "sgd").at(SHAPE, eta0=0.02).rescaled(2.0)
    expected = {"W": scales.eta_W, "b": scales.eta_b, "c": scales.eta_c}
    model = dam.DenseAM.create(scales, dam.relu())
    back = dam.DenseAM.load(model.save(tmp_path / "m.safetensors"))
    assert dam.effective_learning_rates(dam.sgd(back.scales)) == pytest.approx(expected, rel=1e-6)
    once = dam.sgd(scales)
    dam.sgd(scales)
    dam.sgd(scales).init(model.parameters)
    assert dam.effective_learning_rates(once) == pytest.approx(expected, rel=1e-6)
    run = dam.train(model, dam.data.isotropic(SHAPE.N, SHAPE.P), optimizer=once, epochs=1)
    assert dam.effective_learning_rates(dam.sgd(run.model.scales)) == pytest.approx(expected, rel=1e-6)


def test_a_wrapped_optimizer_trains_as_the_written_one():
    scales = scales_for("relu", "adam")
    model = dam.DenseAM.create(scales, dam.relu(), dtype=jnp.float64)
    data = dam.data.isotropic(SHAPE.N, SHAPE.P, seed=5, dtype=jnp.float64)
    a = dam.train(model, data, optimizer=dam.adam(scales), epochs=2)
    b = dam.train(model, data, optimizer=dam.scaled(optax.adam(1.0), scales), epochs=2)
    assert np.allclose(a.mse, b.mse, rtol=1e-10)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_steps_of_W_b_and_c_are_counted_once(name):
    """Their counts are equal, and so is what is computed from them; other leaves of the state stay."""
    scales = scales_for("relu", name)
    optimizer = dam.training.optimizers.make(name, scales, schedule=lambda step: 1.0 / (1 + step))
    parameters = dam.DenseAM.create(scales, dam.relu(), seed=0).parameters
    state = optimizer.update(parameters, optimizer.init(parameters), parameters)[1]
    once = optimizer.counting_once(state)
    leaves = list(zip(jax.tree.leaves(state), jax.tree.leaves(once), strict=True))
    counts = [(before, after) for before, after in leaves if before.dtype.kind == "i"]
    assert len(counts) > len({id(after) for _, after in counts})
    assert all(int(before) == int(after) == 1 for before, after in counts)
    assert all(before is after for before, after in leaves if before.dtype.kind == "f")


def test_counts_of_a_wrapped_optimizer_are_left_alone():
    """They may count other things: gradients that are not finite, small steps."""
    optimizer = dam.scaled(optax.apply_if_finite(optax.sgd(1.0), 3), scales_for("relu", "sgd"))
    state = optimizer.init(dam.DenseAM.create(scales_for("relu", "sgd"), dam.relu(), seed=0).parameters)
    assert optimizer.counting_once(state) is state


def test_learning_rates_are_data_so_a_new_one_compiles_nothing():
    from denseam.training.run import _train

    data = dam.data.isotropic(SHAPE.N, SHAPE.P)
    rule = dam.prescription("relu", "adam")

    def go(eta0):
        scales = rule.at(SHAPE, eta0=eta0)
        model = dam.DenseAM.create(scales, dam.relu())
        return dam.train(model, data, optimizer=dam.adam(scales), epochs=1)

    go(0.1)
    compiled = _train._cache_size()
    go(0.2)
    assert _train._cache_size() == compiled


# --- runs ----------------------------------------------------------------------------------------


def test_two_learning_rates_of_one_seed_see_the_same_numbers():
    data = dam.data.isotropic(SHAPE.N, SHAPE.P, seed=2)
    runs = []
    for eta0 in (1e-6, 1e-2):
        scales = dam.prescription("relu", "sgd").at(SHAPE, eta0=eta0)
        model = dam.DenseAM.create(scales, dam.relu(), seed=1)
        runs.append(dam.train(model, data, optimizer=dam.sgd(scales), epochs=2, seed=1))
    assert runs[0].mse[0, 0] == runs[1].mse[0, 0]
    assert runs[0].initial_mse == runs[1].initial_mse
    assert runs[0].mse[1, 0] != runs[1].mse[1, 0]


def test_batches_are_fresh_permutations_with_fresh_noise():
    first, second, again = (draw_batches(7, e, 23, 5) for e in (0, 1, 0))
    assert first.samples.shape == (4, 5)  # 3 of 23 are left out
    assert len(set(np.asarray(first.samples).ravel().tolist())) == 20
    assert not np.array_equal(first.samples, second.samples)
    assert np.array_equal(first.samples, again.samples)
    data = jnp.zeros((23, 400))
    draws = [
        np.asarray(noisy_batch(data, d.samples[i], d.noise[i], 0.5)[0]).ravel()
        for d in (first, second)
        for i in range(4)
    ]
    assert np.abs(np.corrcoef(draws) - np.eye(8)).max() < 0.1
    assert np.std(draws) == pytest.approx(0.5, rel=0.05)


def test_divergence_is_data():
    data = dam.data.isotropic(SHAPE.N, SHAPE.P, seed=2)
    scales = dam.prescription("relu", "sgd").at(SHAPE, eta0=1e4)
    model = dam.DenseAM.create(scales, dam.relu())
    seen = []
    run = dam.train(
        model, data, optimizer=dam.sgd(scales), epochs=4, progress=lambda e, m: seen.append((e, m))
    )
    assert run.status == "diverged"
    assert run.mse.shape == (4, 5)
    assert 0 < run.diverged_at < 15
    assert np.all(np.isfinite(run.mse.ravel()[: run.diverged_at]))
    assert np.all(np.isinf(run.mse.ravel()[run.diverged_at :]))
    assert math.isinf(run.final_mse)
    assert len(seen) < 4, "a dead run is not trained on"


def test_ending_above_the_start_is_divergence_too():
    data = dam.data.isotropic(SHAPE.N, SHAPE.P, seed=2)
    scales = dam.prescription("relu", "adam").at(SHAPE, eta0=30.0)
    run = dam.train(dam.DenseAM.create(scales, dam.relu()), data, optimizer=dam.adam(scales), epochs=3)
    assert np.all(np.isfinite(run.mse))
    assert run.final_mse > run.initial_mse
    assert run.status == "diverged"
    assert run.diverged_at == 14


@pytest.mark.slow
def test_no_traced_value_leaks():
    """Neither in the gradient nor in training or recall; with these checks nothing is cached."""
    data = dam.data.isotropic(SHAPE.N, SHAPE.P, seed=2)
    scales = scales_for("relu", "adam")
    model = dam.DenseAM.create(scales, dam.relu())
    with jax.checking_leaks():
        jax.jit(lambda X: gradient(model, X, X))(data[:5])
        run = dam.train(model, data, optimizer=dam.adam(scales), epochs=1)
        run.model.recall(data[:2], 3)


def test_a_learning_rate_near_zero_is_no_divergence():
    for seed in range(10):
        data = dam.data.isotropic(SHAPE.N, SHAPE.P, seed=seed)
        scales = dam.prescription("relu", "sgd").at(SHAPE, eta0=1e-5)
        model = dam.DenseAM.create(scales, dam.relu(), seed=seed)
        run = dam.train(model, data, optimizer=dam.sgd(scales), epochs=3, seed=seed)
        assert run.status == "finished"


def test_gradients_take_part_in_vmap_and_grad():
    scales = scales_for("softmax", "adam")
    models = [dam.DenseAM.create(scales, dam.softmax(1.0), seed=s) for s in range(3)]
    stacked = jax.tree.map(lambda *a: jnp.stack([jnp.asarray(v) for v in a]), *models)
    X = dam.data.isotropic(SHAPE.N, 5, seed=1)
    together = jax.vmap(lambda m: gradient(m, X, X)[1].W)(stacked)
    for i, model in enumerate(models):
        assert np.allclose(together[i], gradient(model, X, X)[1].W, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (np.zeros((25, 7)), {}, ["data must be numbers of shape samples × 6 features"]),
        (np.full((25, 6), np.nan), {}, ["data must be finite, got nan at sample 0, feature 0"]),
        (np.zeros((25, 6)), {"epochs": 0, "noise": -1.0, "batch": 26}, ["epochs", "noise", "batch (B)"]),
        (np.array([["a"] * 6] * 25), {}, ["data must be numbers"]),
    ],
)
def test_bad_input(data, options, words):
    scales = scales_for("relu", "sgd")
    model = dam.DenseAM.create(scales, dam.relu())
    with pytest.raises(InputError) as caught:
        dam.train(model, data, **({"optimizer": dam.sgd(scales), "epochs": 1} | options))
    for word in words:
        assert word in str(caught.value)


def test_optimizers_refuse_what_is_not_theirs():
    sgd, adam = (dam.prescription("relu", o).at(SHAPE, eta0=1) for o in ("sgd", "adam"))
    for make, words in (
        (lambda: dam.sgd(adam), "made for 'adam'"),
        (lambda: dam.adam(sgd), "made for 'sgd'"),
        (lambda: dam.sgd(sgd, momentum=1.0), "momentum"),
        (lambda: dam.adam(adam, beta1=1.0, epsilon=-1.0), "beta1 .*; epsilon"),
        (lambda: dam.adamw(adam, decay=-1.0), "decay"),
        (lambda: dam.scaled(optax.scale_by_adam(), adam), "downhill"),
    ):
        with pytest.raises(InputError, match=words):
            make()
    assert FAMILIES  # the registry the contracts above run over


def test_families_of_data_have_the_spectrum_they_name():
    x = np.asarray(dam.data.isotropic(20, 20000, seed=1))
    assert np.abs(np.cov(x.T) - np.eye(20)).max() < 0.05
    y = np.asarray(dam.data.anisotropic(20, 20000, seed=1))
    variances = np.var(y, axis=0)
    expected = np.arange(1, 21) ** -0.4
    assert np.allclose(variances, 20 * expected / expected.sum(), rtol=0.05)
    assert np.var(np.asarray(dam.data.anisotropic(20, 20000, exponent=0.0, seed=1)), axis=0) == pytest.approx(
        np.ones(20), rel=0.05
    )


@pytest.mark.parametrize("centred", [False, True])
def test_the_row_gradient_of_softmax(centred):
    """Eq. softmax-row-gradient, and its centred form: s2(σ_k − 1/K) r + s1 s2 σ_k ((W r)_k − σᵀW r) g."""
    scales = scales_for("softmax", "adam")
    model = dam.DenseAM.create(scales, dam.softmax(), seed=0, centred=centred, dtype=jnp.float64)
    x, y = (dam.data.isotropic(SHAPE.N, 1, seed=seed, dtype=jnp.float64) for seed in (1, 2))
    W = np.asarray(model.W)
    W = W - W.mean(axis=0) if centred else W
    g = np.tanh(np.asarray(x[0]))
    weights = np.exp(scales.s1 * W @ g)
    sigma = weights / weights.sum()
    r = np.asarray(model.update(x)[0] - y[0])
    direct = sigma - 1 / SHAPE.K if centred else sigma
    rows = scales.s2 * np.outer(direct, r)
    rows += scales.s1 * scales.s2 * np.outer(sigma * (W @ r - sigma @ W @ r), g)
    found = np.asarray(jax.grad(lambda model: loss(model, x, y))(model).W)
    assert found == pytest.approx(rows, rel=1e-9, abs=1e-12)
