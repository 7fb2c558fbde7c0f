"""Features that are no sums over neurons: layer norm and spherical norm as Lagrangians of x."""

import dataclasses
import json
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import denseam as dam
from denseam.cli import main
from denseam.ground.errors import InputError
from denseam.model.steps import Steps
from denseam.studies.documents import from_document, sweep_line, to_document
from denseam.testing import feature_checks, random_model
from denseam.training.gradient import gradient
from tests import reference
from tests.descent import largest_rise
from tests.models import ACTIVATIONS, FURTHER, plain

NORMS = {
    "layer-norm": dam.layer_norm(1.3, 0.2, 0.1),
    "spherical-norm": dam.spherical_norm(0.7, -0.3, 0.05),
}
every = pytest.mark.parametrize("name", NORMS)
#: Any convex function of x will do; of these the contracts are slow.
FURTHER_FEATURES = {
    "layer-norm, usual": dam.layer_norm(),
    "spherical-norm, usual": dam.spherical_norm(),
    "softmax": dam.softmax(2.0),
    "identity": dam.identity(),
    "tanh(3)": dam.tanh(3.0),
}


THROUGH = "written_gradient_is_the_derivative_through_steps"


def contracts():
    for name, lagrangian in (NORMS | FURTHER_FEATURES).items():
        for i, check in enumerate(feature_checks(lagrangian)):
            slow = name in FURTHER_FEATURES or check.__name__ == THROUGH  # compared with the reference below
            yield pytest.param(
                check, id=f"{name}-{check.__name__}-{i}", marks=pytest.mark.slow if slow else ()
            )


@pytest.mark.parametrize("check", list(contracts()))
def test_contract(check):
    check()


class Skewed(dam.layer_norm):
    """Its Jacobian product forgets that r depends on x."""

    def jacobian_product(self, h, v):
        _, r = self._parts(h)
        return self.gain / r * self.projected(v)


class Hollow(dam.Lagrangian):
    """Concave, as a norm of negative gain would be."""

    name: ClassVar[str] = "hollow"
    family: ClassVar[str] = "elementwise"

    def value(self, h):
        return -jnp.sqrt(jnp.sum(h * h, axis=-1) + 1)


@pytest.mark.parametrize(("bad", "least"), [(Skewed(), 3), (Hollow(), 2)], ids=["skewed", "hollow"])
def test_the_contracts_can_fail(bad, least):
    failed = 0
    for check in feature_checks(bad):
        if check.__name__.startswith("written"):  # they take longest
            continue
        try:
            check()
        except AssertionError:
            failed += 1
    assert failed >= least


@every
@pytest.mark.parametrize("hidden", ["relu", "softmax"])
def test_update_energies_and_gradients_equal_the_reference(name, hidden):
    model = random_model(ACTIVATIONS[hidden][0], True, features=NORMS[name], s1=0.4, s2=0.5)
    ref = plain(model, hidden)
    rng = np.random.default_rng(3)
    X, Y, h = rng.standard_normal((4, 5)), rng.standard_normal((4, 5)), rng.standard_normal(7)
    through = dataclasses.replace(model, steps=Steps(3, 0.3))

    @eqx.filter_jit
    def seen(model, through, X, Y, h):
        one = model.update(X[0]), model.energy(X[0]), model.energy(X[0], h)
        return *one, gradient(model, X, Y), gradient(through, X, Y)

    update, effective, energy, *gradients = seen(model, through, X, Y, h)
    assert np.allclose(update, ref.f(X[0]), rtol=1e-11, atol=1e-12)
    assert float(effective) == pytest.approx(ref.effective_energy(X[0]), rel=1e-10, abs=1e-11)
    assert float(energy) == pytest.approx(ref.energy(X[0], h), rel=1e-10, abs=1e-11)
    for (L, grads), of in zip(gradients, (ref, reference.Through(ref, 3, 0.3)), strict=True):
        assert float(L) == pytest.approx(of.loss(X.T, Y.T), rel=1e-11)
        for found, expected in zip(grads, of.gradient(X.T, Y.T), strict=True):
            assert np.allclose(found, expected, rtol=1e-9, atol=1e-10 * np.max(np.abs(expected)))


# --- descent ---------------------------------------------------------------------------------------


@every
def test_the_energy_falls_over_a_thousand_models_and_three_decades_of_multipliers(name):
    assert largest_rise(dam.relu(), (0.1, 1.0), NORMS[name]) <= 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("features", [*NORMS.values(), dam.layer_norm(), dam.spherical_norm()])
@pytest.mark.parametrize("hidden", [lagrangian for lagrangian, _ in (ACTIVATIONS | FURTHER).values()])
def test_the_energy_falls_over_ten_thousand_models_of_every_activation(features, hidden):
    assert largest_rise(hidden, (0.01, 1.0), features, seed=2, models=10_000) <= 1e-11


@every
def test_with_a_clamped_feature_a_step_can_raise_the_energy(name):
    """The reason for the refusal: g of a clamped feature moves with the others. With tanh it does not."""
    assert largest_rise(dam.relu(), (0.1, 1.0), NORMS[name], hold=0.4) > 1e-3
    assert largest_rise(dam.relu(), (0.1, 1.0), dam.tanh(), hold=0.4) <= 1e-11


@every
def test_what_holds_single_features_is_refused(name):
    model = random_model(dam.softmax(), True, features=NORMS[name])
    x, known = np.zeros(5), np.arange(5) < 2
    for argument, call in {
        "clamp": lambda: model.recall(x, clamp=known),
        "known": lambda: model.through(x, known),
        "coarse_grain": lambda: model.coarse_grain(np.zeros(5, int)),
        "counts": lambda: dataclasses.replace(model, counts=np.ones(5)),
        "hide": lambda: dam.Study("relu", "sgd", (8,), (0.1,), hide=0.5, feature_activation=name),
    }.items():
        with pytest.raises(InputError, match=f"{argument} needs features that are functions of one neuron"):
            call()
    with pytest.raises(InputError, match="known needs features"):
        model.complete(x, known)


@every
def test_recall_descends_in_float32_too(name):
    """Energies of a norm are small differences of large terms; they are written without the difference."""
    scales = dam.prescription("relu", "adam").at(dam.Shape(N=256, K=512), eta0=0.1)
    model = dam.DenseAM.create(scales, dam.relu(), features=NORMS[name], dtype=jnp.float32)
    recalled = model.recall(dam.data.isotropic(256, 20, seed=1, dtype=jnp.float32), 30)
    energies = np.asarray(recalled.energies)
    assert np.all(np.diff(energies) <= 1e-6 * np.abs(energies).max())
    assert np.all(energies[:, -1] < energies[:, 0])
    with jax.enable_x64(False):
        g_times_x = NORMS[name].conjugate(jnp.full(4096, 1e3, jnp.float32))
    exact = -4096 * NORMS[name].gain * NORMS[name].epsilon
    exact /= np.sqrt((0 if name == "layer-norm" else 1e6) + NORMS[name].epsilon)
    assert float(g_times_x) == pytest.approx(exact, rel=1e-5)


# --- sizes -----------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("N", [16, 4096])
def test_entries_are_of_order_one_at_any_size(name, N):
    x = np.random.default_rng(0).standard_normal(N)
    usual = type(NORMS[name])()
    g = np.asarray(usual.activation(jnp.asarray(3 * x)))
    assert np.sqrt(np.mean(g * g)) == pytest.approx(1, rel=1e-4)
    assert np.allclose(g, usual.activation(jnp.asarray(x)), atol=1e-3)  # whatever the size of x


def test_the_norm_of_unit_length_is_this_one_with_another_s1():
    """∂√(|x|² + ε) = g/√N: with it, s1 = N^-1/2 stands for s1 = N^-1 here."""
    x = jnp.asarray(np.random.default_rng(0).standard_normal(64))
    unit = jax.grad(lambda x: jnp.sqrt(jnp.sum(x * x) + 64 * 1e-5))(x)
    assert np.allclose(unit, dam.spherical_norm().activation(x) / 8, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: dam.layer_norm(0.0), "gain must be above 0"),
        (lambda: dam.spherical_norm(-1.0), "gain must be above 0"),
        (lambda: dam.layer_norm(epsilon=0.0), "epsilon must be above 0"),
        (lambda: dam.layer_norm(shift=float("nan")), "shift must be finite"),
    ],
)
def test_bad_parameters_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


# --- files, studies, the command line --------------------------------------------------------------


@every
def test_a_checkpoint_keeps_the_features(name, tmp_path):
    model = random_model(dam.relu(), True, features=NORMS[name])
    model.save(tmp_path / "model.safetensors")
    again = dam.DenseAM.load(tmp_path / "model.safetensors")
    assert again.features == NORMS[name]
    x = np.arange(5.0)
    assert np.array_equal(again.update(x), model.update(x))


def study(**changes):
    return dam.Study("relu", "sgd", (8, 16), (0.01, 0.1), **changes)


def test_the_usual_features_leave_the_keys_of_runs_as_they_were():
    keys = [run.key for run in study().runs()]
    for usual in ("tanh", "tanh(1)", dam.tanh()):
        same = study(feature_activation=usual)
        assert [run.key for run in same.runs()] == keys
        assert "feature_activation" not in to_document(same)
    others = [study(feature_activation=g) for g in ("tanh(2)", "identity", "layer-norm", "layer-norm(2)")]
    assert len({run.key for s in others for run in s.runs()} | {*keys}) == 5 * len(keys)
    assert len({s.name for s in others}) == 4


def test_features_are_part_of_the_documents_of_a_study():
    for g in ("layer-norm(2,0.1,0.001)", dam.spherical_norm(3.0), "identity"):
        one = study(feature_activation=g)
        document = json.loads(json.dumps(to_document(one)))
        assert from_document(document) == one
        assert f"--feature-activation {document['feature_activation']}" in sweep_line(
            document, "out"
        ).replace("'", "")


def test_a_wrong_name_is_refused():
    with pytest.raises(InputError, match=r"feature_activation must be .*'layer-norm'.*, got 'gelu'"):
        study(feature_activation="gelu")


def test_the_command_line_trains_with_them(tmp_path, capsys):
    words = ["--activation", "relu", "--optimizer", "sgd", "--scales", "8,16", "--eta0", "0.01,0.1"]
    words += ["--seeds", "1", "--epochs", "1", "--feature-activation", "layer-norm(2)"]
    assert main(["sweep", *words, "--out", str(tmp_path)]) in (0, 1, 2)
    rows = dam.Store(tmp_path).read()
    assert {row["feature_activation"] for row in rows} == {"layer-norm(2)"}
    assert {row["study"] for row in rows} == {"relu-sgd-layer-norm2-features"}
    capsys.readouterr()
    assert main(["sweep", *words[:-1], "gelu", "--out", str(tmp_path)]) == 64
    assert "feature_activation must be" in capsys.readouterr().err
