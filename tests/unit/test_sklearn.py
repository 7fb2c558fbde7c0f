"""The estimator: scikit-learn's own checks, and what it does inside of scikit-learn's tools."""

import pickle
import subprocess
import sys
import warnings

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import denseam as dam
from denseam.ground.errors import DataWarning, InputError
from denseam.sklearn import AssociativeDenoiser

X = load_digits().data[:96, [2, 3, 4, 5, 10, 11, 12, 13, 18, 19, 20, 21]]
QUICK = {"epochs": 2, "batch": 16, "random_state": 0}

#: Checks that train little, and those that find most mistakes; the others are slow.
FEW = {
    "check_no_attributes_set_in_init", "check_estimators_unfitted", "check_estimator_sparse_tag", "check_complex_data",
    "check_transformer_preserve_dtypes", "check_parameters_default_constructible", "check_fit2d_1sample",
    "check_estimators_nan_inf", "check_methods_subset_invariance", "check_n_features_in", "check_fit1d",
}  # fmt: skip


def own_checks():
    for estimator, check in estimator_checks_generator(AssociativeDenoiser(epochs=1, batch=8)):
        name = check.func.__name__
        yield pytest.param(estimator, check, id=name, marks=() if name in FEW else pytest.mark.slow)


def test_the_quick_checks_are_there():
    assert {check.values[1].func.__name__ for check in own_checks()} >= FEW


@pytest.mark.parametrize(("estimator", "check"), list(own_checks()))
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted():
    return AssociativeDenoiser(epochs=12, eta0=0.1, batch=16, random_state=0).fit(X)


def test_it_denoises(fitted):
    noisy = X + 0.5 * fitted.encoder_.scale * np.random.default_rng(0).standard_normal(X.shape)
    errors = [np.mean((x - X) ** 2) for x in (noisy, fitted.transform(noisy))]
    assert errors[1] < 0.8 * errors[0]
    assert 0.5 < fitted.score(X) < 1
    assert fitted.loss_curve_[-1] < 0.8 * fitted.loss_curve_[0]


def test_it_is_the_memory_that_the_library_trains(fitted):
    scales = dam.prescription("relu", "adam").at(dam.Shape(N=12, K=24, P=96, B=16), eta0=0.1)
    Y = fitted.encoder_.of_units(X)
    assert np.mean(Y**2) == pytest.approx(1)
    model = dam.DenseAM.create(scales, dam.relu(), seed=fitted.seed_, dtype=np.float64)
    run = dam.train(model, Y, optimizer=dam.adam(scales), epochs=12, noise=0.5, seed=fitted.seed_)
    np.testing.assert_allclose(fitted.memories_, run.model.W, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fitted.transform(X), fitted.encoder_.decode(np.asarray(run.model(Y))))
    np.testing.assert_allclose(fitted.memory()(Y), run.model(Y))


def test_pickles_copies_and_types(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    assert fitted.transform(X).dtype == np.float64
    single = clone(fitted).set_params(epochs=1).fit(X.astype(np.float32))
    assert single.memories_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32


def test_partial_fits_go_on():
    estimator = AssociativeDenoiser(**QUICK)
    for _ in range(6):
        estimator.partial_fit(X)
    assert len(estimator.loss_curve_) == 6
    assert estimator.loss_curve_[-1] < 0.9 * estimator.loss_curve_[0]
    whole = AssociativeDenoiser(**QUICK | {"epochs": 1}).fit(X)
    one = AssociativeDenoiser(**QUICK).partial_fit(X)
    np.testing.assert_allclose(one.memories_, whole.memories_)
    # The moments of Adam are kept: a second epoch from new ones would be another.
    two = one.partial_fit(X)
    counts = [int(leaf) for leaf in jax.tree.leaves(two._state) if leaf.dtype.kind == "i"]
    assert set(counts) == {12}  # steps of both epochs


def test_pipelines_grids_and_pandas():
    pandas = pytest.importorskip("pandas")
    pipeline = make_pipeline(StandardScaler(), AssociativeDenoiser(**QUICK)).set_output(transform="pandas")
    names = [f"pixel{i}" for i in range(12)]
    output = pipeline.fit_transform(pandas.DataFrame(X, columns=names))
    assert list(output.columns) == names
    assert output.shape == X.shape
    grid = {"associativedenoiser__eta0": [1e-4, 0.1]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X)
    assert search.best_params_ == {"associativedenoiser__eta0": 0.1}


def test_more_steps_recall_longer(fitted):
    longer = pickle.loads(pickle.dumps(fitted)).set_params(steps=3)
    Y = fitted.encoder_.of_units(X)
    state = fitted.memory().recall(Y, 3, damping=1.0).state
    np.testing.assert_allclose(longer.transform(X), fitted.encoder_.decode(np.asarray(state)))


def test_a_training_that_diverges_is_a_warning_and_the_lowest_score():
    with pytest.warns(ConvergenceWarning, match="lower eta0"):
        lost = AssociativeDenoiser(optimizer="sgd", eta0=1e6, **QUICK).fit(X)
    assert lost.score(X) < 0


def test_tuning_sets_the_learning_rate_and_says_if_it_is_not_recommended(monkeypatch):
    asked = {}

    def tuned(data, out, **options):
        asked.update(options, samples_on_disk=np.load(data))
        forecast = type("Forecast", (), {"value": 0.07})
        fields = {
            "forecast": forecast,
            "recommended": False,
            "advice": "run more",
            "to_json": lambda self: {"eta0": None},
        }
        return type("Tuned", (), fields)()

    monkeypatch.setattr(dam, "tune", tuned)
    with pytest.warns(DataWarning, match="eta0 = 0.07 is not recommended; run more"):
        estimator = AssociativeDenoiser(tune=True, **QUICK).fit(X)
    np.testing.assert_array_equal(asked["samples_on_disk"], X)
    assert {k: asked[k] for k in ("features", "memories", "samples", "batch", "epochs")} == {
        "features": 12, "memories": 24, "samples": 96, "batch": 16, "epochs": 2,
    }  # fmt: skip
    assert (estimator.eta0_, estimator.tuning_) == (0.07, {"eta0": None})
    assert estimator.encoder_.reduction.kind == "rotated"
    assert estimator.transform(X).shape == X.shape
    with pytest.raises(InputError, match="X must have no constant features to be tuned on, as feature 3 is"):
        estimator.fit(np.where(np.arange(12) == 3, 1, X))


@pytest.mark.slow
def test_a_real_tuning():
    data = load_digits().data[:, 1:]
    data = data[:, data.std(axis=0) > 0.5]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        estimator = AssociativeDenoiser(tune=True, epochs=4, random_state=0).fit(data)
    assert 1e-3 < estimator.eta0_ < 1
    assert estimator.tuning_["forecast_eta0"] == estimator.eta0_ != 0.05
    assert estimator.score(data) > 0.5


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"activation": "gelu"}, "activation must be"),
        ({"optimizer": "newton"}, "optimizer must be"),
        ({"memories": 0}, "memories must be a whole number"),
        ({"epochs": 0, "noise": -1}, "epochs must be .*; noise must be"),
        ({"batch": 1.5}, "batch must be a whole number"),
        ({"eta0": -1}, "eta0 must be"),
        ({"activation": "softmax", "power": 2}, "power belongs to"),
        ({"tune": "yes"}, "tune must be true or false"),
    ],
)
def test_bad_parameters_are_one_sentence(parameters, word):
    with pytest.raises(InputError, match=word):
        AssociativeDenoiser(**parameters).fit(X)


def test_fit_comes_first():
    for use in ("transform", "score", "memory"):
        with pytest.raises(NotFittedError):
            getattr(AssociativeDenoiser(), use)(*[X][: use != "memory"])


def test_the_extra_is_named_where_it_is_missing():
    code = "import sys; sys.modules['sklearn'] = None; import denseam.sklearn"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode != 0
    line = found.stderr.splitlines()[-1]
    assert line.endswith("denseam.sklearn needs scikit-learn 1.6 or later: pip install 'denseam[sklearn]'")
