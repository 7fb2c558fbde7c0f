"""Optimizers of others under our scales, and our optimizers on trees of others."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import denseam as dam
from denseam.ground.errors import InputError
from denseam.rules.optimizers import Normalisation
from denseam.training.inner import _normalisation, _trial

SHAPE = dam.Shape(N=6, K=9, P=18, B=6)
WARM = optax.warmup_cosine_decay_schedule(0.0, 1.0, 4, 40)


def scales_for(optimizer):
    return dam.prescription("relu", optimizer).at(SHAPE, eta0=0.02, eta_b0=0.3, eta_c0=0.4)


# --- optimizers of others --------------------------------------------------------------------------------

KINDS = {
    "sgd": (optax.sgd(1.0), Normalisation.GRADIENT),
    "momentum": (optax.sgd(1.0, momentum=0.9), Normalisation.GRADIENT),
    "warm sgd": (optax.sgd(WARM), Normalisation.GRADIENT),
    "adam": (optax.adam(1.0), Normalisation.ENTRIES),
    "rmsprop": (optax.rmsprop(1.0), Normalisation.ENTRIES),
    "warm adam": (optax.adam(WARM), Normalisation.ENTRIES),
    "clipped adam": (optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1.0)), Normalisation.ENTRIES),
    "accumulated adam": (
        optax.MultiSteps(optax.adam(1.0), 4).gradient_transformation(),
        Normalisation.ENTRIES,
    ),
    "muon": (optax.contrib.muon(1.0), Normalisation.ORTHOGONAL),
    # Nothing is said of those that do one thing at first, or with small gradients, and another then.
    "clipped sgd": (optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(1.0)), None),
    "adagrad": (optax.adagrad(1.0), None),
    "radam": (optax.radam(1.0), None),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_sets_the_size_of_updates_is_found_by_trying(name):
    inner, kind = KINDS[name]
    assert _normalisation(_trial(inner)) is kind


def test_scales_of_another_rule_are_refused():
    sgd, adam, muon = map(scales_for, ("sgd", "adam", "muon"))
    for inner, scales, words in (
        (optax.adam(1.0), sgd, "made for 'sgd', whose updates are proportional .* normalised entry by entry"),
        (
            optax.sgd(1.0),
            adam,
            "made for 'adam', whose updates are normalised .* proportional to the gradient",
        ),
        (
            optax.adam(WARM),
            muon,
            "made for 'muon', whose updates are orthogonal, but those of inner are norm",
        ),
        (optax.MultiSteps(optax.adam(1.0), 4), sgd, "made for 'sgd'"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            dam.scaled(inner, scales)
        assert "\n" not in str(caught.value)
    dam.scaled(optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(1.0)), sgd)


def test_a_warm_up_from_zero_is_applied():
    optimizer = dam.scaled(optax.adam(WARM), scales_for("adam"))
    plain = dam.scaled(optax.adam(1.0), scales_for("adam"))
    W = {"W": jnp.ones((2, 2))}
    for step in range(6):
        moved, whole = (float(moved_by(o, W, step)["W"][0, 0]) for o in (optimizer, plain))
        assert moved == pytest.approx(float(WARM(step)) * whole, rel=1e-5)
    assert dam.effective_learning_rates(optimizer, 3)["W"] == pytest.approx(0.02, rel=1e-6)
    with pytest.raises(InputError, match="step must be one in which the optimizer moves: it rests in step 0"):
        dam.effective_learning_rates(optimizer)


def moved_by(optimizer, gradient, step):
    transformation = optimizer.transformation()
    state = transformation.init(gradient)
    for _ in range(step + 1):
        update, state = transformation.update(gradient, state, gradient)
    return update


def test_accumulated_gradients_are_steps_of_larger_batches():
    scales = scales_for("adam")
    parameters = {"W": jnp.ones((3, 2)), "b": jnp.ones(3), "c": jnp.ones(2)}
    gradients = [jax.tree.map(lambda p, k=k: (k + 1.0) * p, parameters) for k in range(4)]
    mean = jax.tree.map(lambda *g: sum(g) / 4, *gradients)
    expected, _ = (once := dam.adam(scales).transformation()).update(mean, once.init(parameters), parameters)
    for accumulating in (
        dam.scaled(optax.MultiSteps(optax.adam(1.0), 4), scales).transformation(),
        optax.MultiSteps(dam.adam(scales).transformation(), 4),
    ):
        state, advance = accumulating.init(parameters), jax.jit(accumulating.update)
        for k, gradient in enumerate(gradients):
            update, state = advance(gradient, state, parameters)
            assert bool(update["W"].any()) is (k == 3)
        for name in parameters:
            assert np.allclose(update[name], expected[name], rtol=1e-5)


def test_a_decay_or_schedule_of_accumulated_gradients_belongs_outside():
    inner = optax.MultiSteps(optax.adam(1.0), 4)
    for options, words in (
        ({"decay": 0.1}, "but decay would act"),
        ({"schedule": WARM, "decay": 0.1}, "but decay and schedule would act"),
    ):
        with pytest.raises(InputError, match=words):
            dam.scaled(inner, scales_for("adam"), **options)
    dam.scaled(optax.adam(WARM), scales_for("adam"), decay=0.1)  # rests once, but does not accumulate
    for decaying in (optax.adamw(WARM), optax.MultiSteps(optax.adamw(1.0), 4)):
        with pytest.raises(InputError, match="inner must not decay by itself"):
            dam.scaled(decaying, scales_for("adam"))


# --- trees of others -------------------------------------------------------------------------------------


class Layer(eqx.Module):
    memories: jax.Array
    bias: jax.Array


TREES = {
    "dictionary": {"first": {"memories": jnp.ones((9, 6)), "bias": jnp.ones(9)}, "head": jnp.ones(3)},
    "module": {"first": Layer(jnp.ones((9, 6)), jnp.ones(9)), "head": jnp.ones(3)},
    "list": {"first": Layer(jnp.ones((9, 6)), jnp.ones(9)), "head": [jnp.ones(3)]},
}
ROLES = {"first.memories": "W", "first.bias": "b"}


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "muon"])
def test_trees_have_the_rates_of_their_roles(kind, optimizer):
    tree, scales = TREES[kind], scales_for(optimizer)
    ours = getattr(dam, optimizer)(scales)
    transformation = ours.transformation(ROLES, rest=optax.sgd(0.5))
    update, _ = transformation.update(tree, transformation.init(tree), tree)
    own = dam.DenseAM.create(scales, dam.relu()).parameters
    own = type(own)(*(jnp.ones_like(p) for p in own))
    expected, _ = ours.update(own, ours.init(own), own)
    first = update["first"] if kind == "dictionary" else vars(update["first"])
    assert np.allclose(first["memories"], expected.W)
    assert np.allclose(first["bias"], expected.b)
    assert np.allclose(jax.tree.leaves(update["head"]), -0.5)


def test_names_are_roles_by_default():
    tree = {
        "one": {"W": jnp.ones((2, 2)), "b": jnp.ones(2)},
        "two": {"W": jnp.ones((3, 2)), "c": jnp.ones(2)},
    }
    transformation = dam.adam(scales_for("adam")).transformation()
    update, _ = transformation.update(tree, transformation.init(tree), tree)
    rates = [update["one"]["W"][0, 0], update["one"]["b"][0], update["two"]["W"][0, 0], update["two"]["c"][0]]
    assert rates == pytest.approx([-0.02, -0.3, -0.02, -0.4], rel=1e-5)


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        (None, "array 'first.bias' has no role.*'first.memories' has no role.*'head' has no role.*rest="),
        (ROLES, "array 'head' has no role; name it in roles"),
        (
            {"first.memories": "V", "head": "b", "none": "c"},
            "must be 'W', 'b' or 'c', got 'V'.*no array 'none'",
        ),
    ],
)
def test_arrays_without_a_role_are_refused(roles, words):
    transformation = dam.adam(scales_for("adam")).transformation(roles)
    with pytest.raises(InputError, match=words) as caught:
        transformation.init(TREES["dictionary"])
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="rest must be an Optax optimizer, got 3"):
        dam.adam(scales_for("adam")).transformation(roles, rest=3)
