"""Two stacked memories: against the reference, descent in any order, limits, and what training needs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import denseam as dam
from denseam.ground.errors import InputError, UnboundedEnergyWarning
from denseam.model.stacked import StackedState, learning_rates, scales
from tests.reference_stacked import Stacked

N, K1, K2 = 4, 6, 5
PAIRS = {
    "relu relu": (dam.relu(), dam.relu(), ("relu", {}), ("relu", {})),
    "softmax relu3": (dam.softmax(1.7), dam.relu(3), ("softmax", {"beta": 1.7}), ("relu", {"p": 3})),
    "sigmoid entmax": (dam.sigmoid(), dam.entmax(1.5), ("sigmoid", {}), ("entmax", {"p": 1.5})),
}
every = pytest.mark.parametrize("pair", PAIRS)


def arrays(rng, *leading):
    shapes = ((K1, N), (K2, K1), (K1,), (K2,), (N,))
    return [rng.standard_normal((*leading, *shape)) for shape in shapes]


def state_of(rng, *leading):
    return StackedState(*(jnp.asarray(rng.standard_normal((*leading, n))) for n in (N, K1, K2)))


def both(pair, centred=True):
    """The same random model, and in the reference's hands."""
    first, second, *names = PAIRS[pair]
    rng = np.random.default_rng(1)
    parts, multipliers = arrays(rng), rng.uniform(0.3, 1.2, 4)
    model = dam.StackedAM(*parts, multipliers, first, second, centred=centred)
    return model, Stacked(*parts, *multipliers, *names, centred=centred), state_of(rng)


@every
@pytest.mark.parametrize("centred", [True, False])
def test_the_energy_is_that_of_the_reference(pair, centred):
    model, ref, state = both(pair, centred)
    assert float(model.energy(state)) == pytest.approx(ref.energy(*map(np.asarray, state)), rel=1e-11)


@pytest.mark.parametrize("pair", ["relu relu", "softmax relu3"])
def test_each_layer_rests_where_its_energy_is_lowest(pair):
    """The reference has no rule of motion: it minimises the energy over the layer."""
    model, ref, state = both(pair)
    rest = {
        "x": model.into_x(state.h1),
        "h1": model.into_h1(state.x, state.h2),
        "h2": model.into_h2(state.h1),
    }
    for layer, value in rest.items():
        found = float(model.energy(state._replace(**{layer: value})))
        assert found == pytest.approx(ref.lowest(layer, *map(np.asarray, state)), abs=1e-6), layer


MODELS = 500


@eqx.filter_jit
def rises(first, second, parts, multipliers, state, damping):
    """The largest rise in the energy of each model in six steps, over the size of its terms."""

    def one(parts, multipliers, state, damping):
        model = dam.StackedAM(*parts, multipliers, first, second)

        def step(state, _):
            moved = model.step(state, damping)
            size = jnp.abs(model.energy(state)) + sum(jnp.sum(jnp.abs(v)) for v in state) / multipliers.min()
            return moved, (model.energy(moved) - model.energy(state)) / size

        return jnp.max(jax.lax.scan(step, state, None, length=6)[1])

    return jax.vmap(one)(parts, multipliers, state, damping)


def largest_rise(pair, low, high):
    """Over many models, with multipliers from three decades each."""
    rng = np.random.default_rng(2)
    multipliers = 10 ** rng.uniform(-1.5, 1.5, (MODELS, 4))
    damping = rng.uniform(low, high, MODELS)
    found = rises(*PAIRS[pair][:2], arrays(rng, MODELS), multipliers, state_of(rng, MODELS), damping)
    return float(jnp.max(found))


@every
def test_no_step_raises_the_energy(pair):
    assert largest_rise(pair, 0.1, 1.0) <= 1e-11


def test_too_long_steps_raise_it():
    assert largest_rise("relu relu", 2.0, 3.0) > 1e-3


def test_recall_gives_the_energies_of_its_steps():
    model, _, state = both("relu relu")
    recalled = model.recall(jnp.stack([state.x, -state.x]), steps=5, damping=0.5)
    energies = np.asarray(recalled.energies)
    assert energies.shape == (2, 6)
    assert (np.diff(energies) <= 1e-12).all()
    one = model.settle(state.x)
    for _ in range(5):
        one = model.step(one, 0.5)
    assert np.allclose(recalled.state.x[0], one.x)
    assert energies[0, -1] == pytest.approx(float(model.energy(one)))
    with pytest.raises(InputError, match="damping must be above 0 and at most 1"):
        model.recall(state.x, damping=1.5)


def test_without_a_way_down_it_is_a_single_memory():
    parts = arrays(np.random.default_rng(4))
    W1, _, b1, _, c = parts
    x = np.random.default_rng(5).standard_normal((3, N))
    stacked = dam.StackedAM(*parts, (0.6, 0.8, 0.7, 0.0), dam.relu())
    single = dam.DenseAM(W1, b1, c, 0.6, 0.8, dam.relu())
    assert np.allclose(stacked.update(x), single.update(x))
    assert np.allclose(stacked.energy(stacked.settle(x)), single.energy(x))


def test_sweeps_converge_to_one_state_if_the_top_is_weak():
    """The sweep shrinks distances if u₂d₂‖W̃²‖² max σ¹′ max σ²′ < 1."""
    parts = arrays(np.random.default_rng(6))
    x = jnp.asarray(np.random.default_rng(7).standard_normal(N))
    strength = 0.9 / np.linalg.norm(parts[1], 2) ** 2  # tanh has slopes up to 1
    model = dam.StackedAM(*parts, (0.6, 0.8, 1.0, strength), dam.tanh(), sweeps=60)
    h1 = model.hidden(x)
    assert np.allclose(model.into_h1(x, model.into_h2(h1)), h1, atol=1e-4)
    other = jnp.asarray(5 * np.random.default_rng(8).standard_normal(K1))
    for _ in range(60):
        other = model.into_h1(x, model.into_h2(other))
    assert np.allclose(other, h1, atol=1e-4)


def test_an_energy_without_a_bound_is_warned_of():
    sizes = (8, 16, 16)
    with pytest.warns(UnboundedEnergyWarning, match="may have no lower bound"):
        free = dam.StackedAM.create(sizes, dam.relu(), dtype=jnp.float64)
    x = 0.5 * free.W1[0]
    assert float(free.recall(x, steps=200).energies[-1]) < -1e6
    weak = dam.StackedAM.create(sizes, dam.relu(), constants=(1, 1, 1, 0.1), dtype=jnp.float64)
    bounded = dam.StackedAM.create(sizes, dam.relu(), dam.tanh(), dtype=jnp.float64)
    for model in (weak, bounded):
        energies = model.recall(x, steps=2000).energies
        assert float(energies[-1]) == pytest.approx(float(energies[-2]), rel=1e-9)


def test_every_parameter_learns():
    """A few steps of gradient descent on one batch lower its loss, and all parameters take part."""
    sizes = (8, 16, 16)
    model = dam.StackedAM.create(sizes, dam.relu(), dam.tanh())
    rates = learning_rates(sizes, "sgd", 0.02)
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((16, 8)).astype(np.float32)
    X = Y + 0.5 * rng.standard_normal(Y.shape).astype(np.float32)

    @eqx.filter_jit
    def step(parameters):
        def loss(parameters):
            R = model.with_parameters(parameters).update(X) - Y
            return jnp.sum(R * R) / (2 * len(X))

        value, gradient = jax.value_and_grad(loss)(parameters)
        return jax.tree.map(lambda p, rate, g: p - rate * g, parameters, rates, gradient), value, gradient

    parameters, losses = model.parameters, []
    for _ in range(40):
        parameters, value, gradient = step(parameters)
        assert all(float(jnp.abs(g).max()) > 0 for g in gradient)
        losses.append(float(value))
    assert losses[-1] < 0.3 * losses[0]


def test_scales_are_those_of_the_families():
    sizes = (16, 64, 256)
    assert scales(sizes, dam.relu(), dam.relu()) == (1 / 4, 1 / 8, 1 / 8, 1 / 16)
    assert scales(sizes, dam.softmax(), dam.relu()) == (1 / 4, 8, 8, 1 / 16)
    assert scales(sizes, dam.relu(), dam.softmax()) == (1 / 4, 1 / 8, 1 / 8, 16)
    assert learning_rates(sizes, "sgd", 0.1)[:2] == pytest.approx((6.4, 25.6))
    assert learning_rates(sizes, "adam", 0.1)[:2] == (0.1, 0.1)
    assert learning_rates(sizes, "muon", 0.1)[:2] == pytest.approx((0.8, 1.6))


def test_wrong_shapes_are_reported_together():
    W1, W2, _, b2, c = arrays(np.random.default_rng(0))
    with pytest.raises(InputError, match=r"(?s)W2 must have the shape .*b1 must have the shape"):
        dam.StackedAM(W1, W2.T, b2, b2, c, (1, 1, 1, 1), dam.relu())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"W1": None, "c": "x"}, r"(?s)W1 must be numbers, got None.*c must be numbers, got 'x'"),
        ({"b2": np.zeros(5, int)}, "b2 must be floats, got int"),
        ({"multipliers": (1, 1, 1)}, "multipliers must be four numbers, got"),
        ({"multipliers": "abcd"}, "multipliers must be numbers, got 'abcd'"),
        ({"features": "tanh"}, "features must be a Lagrangian of single neurons"),
        ({"features": dam.softmax(1.0)}, "features must be a Lagrangian of single neurons"),
        ({"sweeps": 0}, "sweeps must be"),
    ],
)
def test_parts_that_are_no_parts_are_refused(wrong, words):
    parts = {
        "W1": np.ones((6, 4)),
        "W2": np.ones((5, 6)),
        "b1": np.zeros(6),
        "b2": np.zeros(5),
        "c": np.zeros(4),
    }
    parts |= {"multipliers": (1, 1, 1, 1), "first": dam.tanh()}
    with pytest.raises(InputError, match=words):
        dam.StackedAM(**parts | wrong)


@pytest.mark.parametrize(
    ("x", "options", "words"),
    [
        (np.ones(2), {}, "x must have 4 features along its last axis"),
        ("x", {}, "x must be numbers, got 'x'"),
        (np.ones(4), {"damping": "x"}, "damping must be above 0 and at most 1, got 'x'"),
        (np.ones(4), {"damping": np.nan}, "damping must be above 0 and at most 1, got nan"),
    ],
)
def test_states_that_are_no_states_are_refused(x, options, words):
    model = dam.StackedAM.create((4, 6, 5), dam.tanh())
    with pytest.raises(InputError, match=words):
        model.recall(x, **options)
    assert model.recall(np.ones(4, int), steps=2).energies.shape == (3,)  # whole numbers are numbers
