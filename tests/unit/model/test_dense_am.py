import dataclasses
import json
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import denseam as dam
from denseam.ground.errors import InputError, UnboundedEnergyWarning
from denseam.testing import energy_size, random_model
from tests.models import ACTIVATIONS, plain
from tests.sampled import product, sampled

CASES = [(name, centred) for name in ACTIVATIONS for centred in (True, False)]
every_case = pytest.mark.parametrize(("name", "centred"), CASES)


def make(name: str, centred: bool, seed: int = 0, **kwargs) -> dam.DenseAM:
    return random_model(ACTIVATIONS[name][0], centred, seed, **({"counts": None} | kwargs))


@eqx.filter_jit
def seen(model, x):
    """What a model makes of a state: one program instead of its operations one by one."""
    return model.update(x), model.energy(x)


@eqx.filter_jit
def seen_with_hidden(model, x, h):
    return model.update(x), model(x), model.energy(x), model.energy(x, h)


@every_case
def test_update_and_energies_equal_the_reference(name, centred):
    model = make(name, centred)
    ref = plain(model, name)
    rng = np.random.default_rng(3)
    for _ in range(5):
        x, h = rng.standard_normal(model.N), rng.standard_normal(model.K)
        update, called, effective, energy = seen_with_hidden(model, x, h)
        assert np.allclose(update, ref.f(x), rtol=1e-12, atol=1e-12)
        assert np.allclose(called, ref.f(x), rtol=1e-12, atol=1e-12)
        assert float(effective) == pytest.approx(ref.effective_energy(x), rel=1e-11, abs=1e-11)
        assert float(energy) == pytest.approx(ref.energy(x, h), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("name", ["relu", "softmax"])
def test_outside_of_a_program_a_model_is_the_same(name):
    model, x = make(name, True), np.random.default_rng(3).standard_normal((2, 5))
    update, energy = seen(model, x)
    assert np.allclose(model.update(x), update, rtol=1e-12, atol=1e-12)
    assert np.allclose(model.energy(x), energy, rtol=1e-12, atol=1e-12)


def test_centring_is_the_default_for_all_but_identity():
    scales = dam.prescription("relu", "sgd").at(dam.Shape(4, 6), eta0=1)
    assert dam.DenseAM.create(scales, dam.relu()).centred
    assert dam.DenseAM.create(scales, dam.tanh()).centred
    assert not dam.DenseAM.create(scales, dam.identity()).centred
    assert dam.DenseAM.create(scales, dam.identity(), centred=True).centred


@pytest.mark.parametrize(
    ("name", "centred", "dtype"), product(ACTIVATIONS, (True, False), (jnp.float32, jnp.float64))
)
def test_iterating_never_raises_the_energy(name, centred, dtype):
    """Thousands of random models, s1 and s2 over three decades; plain, damped, clamped."""
    n, N, K, steps = 800, 6, 9, 12
    rng = np.random.default_rng(11)
    W, b, c = (rng.standard_normal((n, *s)) for s in ((K, N), (K,), (N,)))
    s1, s2 = 10 ** rng.uniform(-2, 1, (2, n))
    x, damping = 2 * rng.standard_normal((n, N)), rng.uniform(0.05, 1, n)
    damping[::3] = 1.0
    clamp = rng.random((n, N)) < 0.3
    clamp[::2] = False
    activation = ACTIVATIONS[name][0]

    @jax.jit
    @jax.vmap
    def rises(W, b, c, s1, s2, x, damping, clamp):
        model = dam.DenseAM(W, b, c, s1, s2, activation, centred=centred)

        def step(x, _):
            new = jnp.where(clamp, x, x + damping * (model.update(x) - x))
            return new, (model.energy(new) - model.energy(x)) / (
                energy_size(model, x) + energy_size(model, new)
            )

        return jax.lax.scan(step, x, None, length=steps)[1]

    found = np.asarray(rises(*(jnp.asarray(a, dtype) for a in (W, b, c, s1, s2, x, damping)), clamp))
    assert np.all(np.isfinite(found))
    assert found.max() <= (1e-12 if dtype == jnp.float64 else 1e-6)
    assert found.min() < -1e-3  # something did move


FLOWS = [(name, True) for name in ACTIVATIONS] + [("relu", False)]


@pytest.mark.parametrize(("name", "centred"), sampled(FLOWS, few=[("softmax", True)]))
def test_flows_lower_their_energies(name, centred):
    model = make(name, centred, s1=0.4, s2=0.5)
    rng = np.random.default_rng(5)
    x, h = rng.standard_normal((3, model.N)), rng.standard_normal((3, model.K))
    t = np.linspace(0.05, 3, 25)
    one = model.flow(x, t, tau_x=0.7, rtol=1e-9, atol=1e-10)
    assert one.x.shape == (3, 25, model.N)
    size = np.abs(one.energy).max()
    assert np.all(np.diff(one.energy, axis=-1) <= 1e-8 * size)
    assert np.all(one.energy[:, 0] > one.energy[:, -1])
    two = model.two_population_flow(x, h, t, tau_x=0.7, tau_h=0.2, rtol=1e-9, atol=1e-10)
    assert np.all(np.diff(two.energy, axis=-1) <= 1e-8 * np.abs(two.energy).max())
    assert np.all(two.energy[:, 0] > two.energy[:, -1])
    assert np.all(two.energy >= model.energy(two.x) - 1e-9)


def test_flow_solves_its_equation():
    model = make("tanh", True, s1=0.4, s2=0.5)
    x = np.linspace(-1, 1, model.N)
    t = np.array([0.5, 0.5001, 0.5002])
    flow = model.flow(x, t, tau_x=2.0, rtol=1e-10, atol=1e-12)
    speed = (flow.x[2] - flow.x[0]) / (t[2] - t[0])
    assert np.allclose(2.0 * speed, model.update(flow.x[1]) - flow.x[1], rtol=1e-5, atol=1e-7)


def test_fast_hidden_neurons_give_the_effective_flow():
    model = make("tanh", True, s1=0.4, s2=0.5)
    x = np.linspace(-1, 1, model.N)
    t = np.array([0.5, 1.0, 2.0])  # as many as above, so that the program is the same
    slow = model.flow(x, t, rtol=1e-8)
    fast = model.two_population_flow(x, model.hidden(jnp.asarray(x)), t, tau_h=1e-4, rtol=1e-8)
    assert np.allclose(slow.x, fast.x, atol=1e-3)


@every_case
def test_permuting_memories_changes_nothing(name, centred):
    model = make(name, centred)
    order = np.random.default_rng(0).permutation(model.K)
    moved = eqx.tree_at(lambda m: (m.W, m.b), model, (model.W[order], model.b[order]))
    x = np.random.default_rng(1).standard_normal((4, model.N))
    for here, there in zip(seen(model, x), seen(moved, x), strict=True):
        assert np.allclose(here, there, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_common_row_is_invisible_to_a_centred_model_alone(name):
    x = np.random.default_rng(1).standard_normal((4, 5))
    for centred in (True, False):
        model = make(name, centred)
        shifted = eqx.tree_at(lambda m: m.W, model, model.W + jnp.linspace(-2, 3, model.N)[None, :])
        for here, there in zip(seen(model, x), seen(shifted, x), strict=True):
            assert np.allclose(here, there, rtol=1e-11, atol=1e-11) == centred


def test_the_hidden_bias_of_softmax_matters():
    model = make("softmax", True)
    x = np.random.default_rng(1).standard_normal(5)
    assert not np.allclose(model.update(x), eqx.tree_at(lambda m: m.b, model, 0 * model.b).update(x))
    along_one = eqx.tree_at(lambda m: m.b, make("softmax", False), make("softmax", False).b + 3.0)
    assert np.allclose(make("softmax", False).update(x), along_one.update(x))


# --- recall --------------------------------------------------------------------------------------


def stored(K=40, N=30, beta=20.0):
    """Random patterns as memories of a sharp softmax: recall should find them."""
    rng = np.random.default_rng(2)
    W = np.sign(rng.standard_normal((K, N)))
    return W, dam.DenseAM(W, np.zeros(K), np.zeros(N), 1 / N, 3.0, dam.softmax(beta), centred=False)


def test_recall_finds_what_is_stored():
    W, model = stored()
    noisy = W[:8] + 0.7 * np.random.default_rng(3).standard_normal(W[:8].shape)
    found = model.recall(noisy, steps=50)
    assert np.array_equal(np.sign(found.state), W[:8])
    assert np.all(found.converged)
    assert np.all(found.steps < 50)
    assert found.energies.shape == (8, 51)
    assert np.all(np.diff(found.energies, axis=-1) <= 1e-12 * np.abs(found.energies).max())
    fixed = model.recall(found.state, steps=3)
    assert np.all(fixed.steps == 1)


def test_a_batch_is_recalled_as_its_samples_are_one_by_one():
    model = make("relu", True, s1=0.3, s2=0.2)
    x = np.random.default_rng(3).standard_normal((2, 3, model.N))
    together = model.recall(x, steps=40, tolerance=1e-6)
    assert len(set(np.asarray(together.steps).ravel().tolist())) > 1, "each sample stops by itself"
    for i in range(2):
        for j in range(3):
            alone = model.recall(x[i, j], steps=40, tolerance=1e-6)
            for a, b in zip(alone, together, strict=True):
                assert np.allclose(a, b[i, j], rtol=1e-12, atol=1e-12)
            states = [x[i, j]]
            for _ in range(int(alone.steps)):
                states.append(model.update(states[-1]))
            assert np.allclose(alone.state, states[-1], rtol=1e-12, atol=1e-12)
            energies = [float(model.energy(s)) for s in states]
            assert np.allclose(alone.energies[: len(states)], energies, rtol=1e-12, atol=1e-12)
            assert np.all(alone.energies[len(states) :] == alone.energies[len(states) - 1])


def test_clamped_features_keep_their_value_and_a_damped_recall_ends_where_a_plain_one_does():
    W, model = stored()
    mask = np.arange(W.shape[1]) < 15
    half = np.where(mask, W[0], 0.0)
    found = model.recall(half, steps=200, clamp=mask, damping=0.5)
    assert np.array_equal(found.state[:15], half[:15])
    assert np.array_equal(np.sign(found.state), W[0])
    assert bool(found.converged)


def test_recall_reports_when_it_has_not_converged():
    found = stored()[1].recall(np.random.default_rng(0).standard_normal(30), steps=1, tolerance=0.0)
    assert not bool(found.converged)
    assert int(found.steps) == 1


# --- coarse-graining -----------------------------------------------------------------------------

# Height, width and j: blocks that fit, partial ones, one that covers all. Few shapes, since each compiles anew.
images = st.sampled_from([(6, 6, 2), (7, 5, 3), (5, 7, 4), (1, 5, 2), (3, 3, 4)])


@settings(max_examples=8, deadline=None)
@given(size=images, name=st.sampled_from(list(ACTIVATIONS)), centred=st.booleans(), twice=st.booleans())
def test_a_coarse_model_is_the_fine_one_seen_through_block_means(size, name, centred, twice):
    height, width, j = size
    N, K = height * width, 5
    rng = np.random.default_rng(N + j)
    model = dam.DenseAM(
        rng.standard_normal((K, N)), rng.standard_normal(K), rng.standard_normal(N), 0.3, 0.7,
        ACTIVATIONS[name][0], centred=centred, s_b=1.3, s_c=0.6,
    )  # fmt: skip
    blocks = dam.data.plaquettes(height, width, j)
    coarse = model.coarse_grain(blocks)
    if twice:  # blocks of blocks are blocks
        h2, w2 = -(-height // j), -(-width // j)
        second = dam.data.plaquettes(h2, w2, 2)
        coarse, blocks = coarse.coarse_grain(second), second[blocks]
    x = rng.standard_normal((3, coarse.N))
    copied = x[:, blocks]  # L x
    fine, fine_energy = (np.asarray(part) for part in seen(model, copied))
    means = np.stack([fine[:, blocks == m].mean(axis=1) for m in range(coarse.N)], axis=1)  # D f(L x)
    update, energy = seen(coarse, x)
    assert np.allclose(update, means, rtol=1e-11, atol=1e-11)
    assert np.allclose(energy, fine_energy, rtol=1e-11, atol=1e-11)


def test_plaquettes_cover_the_image_as_in_the_paper():
    blocks = dam.data.plaquettes(28, 28, 3)
    assert blocks.max() + 1 == 100  # ⌈28/3⌉²
    assert np.bincount(blocks).tolist().count(9) == 81
    assert np.bincount(blocks)[-1] == 1
    image = blocks.reshape(28, 28)
    assert image[0, 2] == 0
    assert image[0, 3] == 1
    assert image[3, 0] == 10


# --- creation and files --------------------------------------------------------------------------


def test_parameters_come_from_separate_streams_of_one_seed():
    scales = dam.prescription("relu", "sgd").at(dam.Shape(50, 50), eta0=1)
    a, b = (dam.DenseAM.create(scales, dam.relu(), seed=s, bias_init="normal") for s in (3, 3))
    other = dam.DenseAM.create(scales, dam.relu(), seed=4, bias_init="normal")
    assert all(np.array_equal(p, q) for p, q in zip(a.parameters, b.parameters, strict=True))
    assert not np.array_equal(a.W, other.W)
    draws = np.stack(
        [
            np.asarray(a.W[0]),
            np.asarray(a.b),
            np.asarray(a.c),
            np.asarray(dam.data.isotropic(50, 1, seed=3)[0]),
        ]
    )
    assert np.abs(np.corrcoef(draws) - np.eye(4)).max() < 0.5
    assert float(jnp.std(a.W)) == pytest.approx(1, abs=0.05)
    assert np.all(dam.DenseAM.create(scales, dam.relu()).b == 0)


def test_models_are_float32_unless_asked_otherwise():
    scales = dam.prescription("softmax", "adam").at(dam.Shape(5, 7), eta0=1)
    for dtype in (jnp.float32, jnp.float64):
        model = dam.DenseAM.create(scales, dam.softmax(2.0), dtype=dtype)
        x = jnp.ones((2, 5), dtype)
        found = model.recall(x, steps=3)
        assert {a.dtype for a in (model.W, model.update(x), model.energy(x), found.state)} == {
            jnp.dtype(dtype)
        }


def test_save_and_load_give_the_same_model_back(tmp_path):
    scales = dam.prescription("softmax", "adam").at(dam.Shape(36, 7, 20, 4), eta0=0.3, s2_0=1.1)
    model = dam.DenseAM.create(scales, dam.softmax(2.5), seed=9, bias_init="normal")
    for m in (model, model.coarse_grain(dam.data.plaquettes(6, 6, 4)), make("relu3", False)):
        path = m.save(tmp_path / "m.safetensors")
        back = dam.DenseAM.load(path)
        assert back.scales == m.scales
        assert eqx.tree_equal(back, m)
    assert not [p for p in tmp_path.iterdir() if p.name != "m.safetensors"], "a temporary file was left"


def test_the_prescription_is_readable_in_the_file(tmp_path):
    from safetensors import safe_open

    scales = dam.prescription("relu", "sgd").at(dam.Shape(4, 8), eta0=0.3)
    path = dam.DenseAM.create(scales, dam.relu()).save(tmp_path / "m.safetensors")
    with safe_open(path, framework="numpy") as file:
        document = json.loads(file.metadata()["denseam"])
    assert document["scales"]["eta_W"] == pytest.approx(2.4)
    assert document["scales"]["rule"]["s2"] == {"K": "-1/2"}


def test_unreadable_checkpoints_are_named_in_one_line(tmp_path):
    good = make("relu", True).save(tmp_path / "good.safetensors")
    torn = tmp_path / "torn.safetensors"
    torn.write_bytes(good.read_bytes()[:-40])
    text = tmp_path / "text.safetensors"
    text.write_text("not a checkpoint")
    foreign = tmp_path / "foreign.safetensors"
    save_file({"W": np.zeros(3)}, foreign)
    damaged = tmp_path / "damaged.safetensors"
    save_file({"W": np.zeros((2, 3))}, damaged, metadata={"denseam": '{"format": 1, "kind": "model"}'})
    future = tmp_path / "future.safetensors"
    save_file({"W": np.zeros((2, 3))}, future, metadata={"denseam": '{"format": 99}'})
    for path in (torn, text, foreign, damaged, future, tmp_path / "missing.safetensors"):
        with pytest.raises(InputError) as caught:
            dam.DenseAM.load(path)
        assert path.name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_saving_refuses_scales_that_are_not_the_models(tmp_path):
    scales = dam.prescription("relu", "sgd").at(dam.Shape(4, 8), eta0=0.3)
    model = dam.DenseAM.create(scales, dam.relu())
    changed = eqx.tree_at(lambda m: m.s1, model, 2 * model.s1)
    with pytest.raises(InputError, match="s1"):
        changed.save(tmp_path / "m.safetensors")
    dataclasses.replace(changed, scales=None).save(tmp_path / "m.safetensors")


def test_an_unbounded_energy_is_warned_of():
    scales = dam.prescription("relu", "sgd").at(dam.Shape(4, 8), eta0=0.3)
    with pytest.warns(UnboundedEnergyWarning, match="no lower bound"):
        dam.DenseAM.create(scales, dam.relu(2), features=dam.identity())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dam.DenseAM.create(scales, dam.relu(1), features=dam.identity())
        dam.DenseAM.create(scales, dam.relu(2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.update(np.zeros(m.N + 1)), ["x must have 5 features"]),
        (lambda m: m.energy(np.zeros(m.N), np.zeros(m.N)), ["h must have 7 memories"]),
        (lambda m: m.energy(np.zeros(m.N), np.zeros((2, m.K))), ["h must have the samples of x"]),
        (lambda m: m.recall(np.zeros(m.N), steps=0, tolerance=-1.0, damping=2.0), ["steps", "damping"]),
        (lambda m: m.recall(np.zeros(m.N), clamp=np.zeros((3, m.N), bool)), ["clamp"]),
        (lambda m: m.flow(np.zeros(m.N), [1.0, 0.5]), ["t must be increasing"]),
        (lambda m: m.flow(np.zeros(m.N), [1.0], tau_x=0.0), ["tau_x"]),
        (lambda m: m.coarse_grain(np.zeros(3, int)), ["blocks"]),
        (lambda m: m.coarse_grain(np.array([0, 0, 2, 2, 2])), ["every number from 0 to 2"]),
        (lambda m: dam.DenseAM(np.zeros(3), 0, 0, 1, 1, dam.relu()), ["W must be a matrix"]),
        (
            lambda m: dam.DenseAM(np.zeros((3, 2)), np.zeros(2), np.zeros(3), 1.0, np.ones(2), dam.relu()),
            ["b must have shape (3,)", "c must have shape (2,)", "s2 must"],
        ),
        (
            lambda m: dam.DenseAM.create(
                dam.prescription("relu", "sgd").at(dam.Shape(2, 2), eta0=1), dam.softmax()
            ),
            ["activation is of the family 'softmax'"],
        ),
        (
            lambda m: dam.DenseAM.create(
                dam.prescription("relu", "sgd").at(dam.Shape(2, 2), eta0=1), dam.relu(), seed=-1
            ),
            ["seed"],
        ),
        (lambda m: dam.data.plaquettes(0, 3, 0), ["height", "j must"]),
        (lambda m: dam.data.isotropic(0, 0), ["features (N)", "samples (P)"]),
    ],
)  # fmt: skip
def test_bad_input(call, words, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as users have it
    with pytest.raises(InputError) as caught:
        call(make("relu", True))
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)
