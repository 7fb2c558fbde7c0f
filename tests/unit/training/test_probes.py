"""Probes against the plain reference, against autodiff, and against what they are for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import denseam as dam
from denseam.rules import Scales
from denseam.training.gradient import step
from denseam.training.matrices import Driven
from denseam.training.probes import DENSE, MATRIX_FREE, leading, measure_step, take_step, update_terms
from denseam.training.quantities import GROUPS, QUANTITIES, applicable, log_spaced, resolve
from tests import reference
from tests.sampled import product, sampled

N, K, B = 6, 11, 5
ACTIVATIONS = {
    "identity": dam.identity(),
    "relu": dam.relu(1),
    "relu2": dam.relu(2),
    "relu3": dam.relu(3),
    "tanh": dam.tanh(),
    "softmax": dam.softmax(1.7),
}


def made(name: str, optimizer: str, centred: bool, eta: float = 0.3, warm: int = 2):
    """A model, its optimizer in the middle of training, a batch, and the same for the reference."""
    rng = np.random.default_rng(5)
    scales = Scales(
        dam.Shape(N, K, 4 * B, B),
        optimizer,
        s1=0.7,
        s2=0.4,
        eta_W=eta,
        eta_b=0.2,
        eta_c=0.1,
        s_b=1.3,
        s_c=0.8,
    )
    model = dam.DenseAM(
        rng.normal(size=(K, N)), 0.3 * rng.normal(size=K), 0.2 * rng.normal(size=N), scales.s1, scales.s2,
        ACTIVATIONS[name], centred=centred, s_b=scales.s_b, s_c=scales.s_c, scales=scales,
    )  # fmt: skip
    opt = {"sgd": dam.sgd, "adam": dam.adam}[optimizer](scales)
    state = opt.init(model.parameters)
    ref_opt = {"sgd": reference.Sgd, "adam": reference.Adam}[optimizer](eta, 0.2, 0.1)
    kind = "relu" if name.startswith("relu") else name
    power = int(name[4:] or 1) if kind == "relu" else 1
    ref = reference.Model(
        np.asarray(model.W), np.asarray(model.b), np.asarray(model.c), 0.7, 0.4, kind, p=power, beta=1.7,
        centred=centred, s_b=1.3, s_c=0.8,
    )  # fmt: skip
    for _ in range(warm):  # so that Adam's step is not just a sign
        X = rng.normal(size=(B, N))
        Y = rng.normal(size=(B, N))
        model, state, _ = step(model, opt, state, jnp.asarray(X), jnp.asarray(Y))
        ref = ref_opt.step(ref, ref.gradient(X.T, Y.T))
    X, Y = rng.normal(size=(N, B)), rng.normal(size=(N, B))
    batch = Driven(jnp.tanh(jnp.asarray(X.T)), jnp.asarray(Y.T))
    after = ref_opt.step(ref, ref.gradient(X, Y))
    return model, opt, state, batch, ref, after, X, Y


def rms(V):
    return float(np.sqrt(np.mean(np.square(V))))


@pytest.mark.parametrize(
    ("name", "optimizer", "centred"), product(ACTIVATIONS, ("sgd", "adam"), (True, False))
)
def test_every_quantity_is_what_the_equations_say(name, optimizer, centred):
    model, opt, state, batch, ref, after, X, Y = made(name, optimizer, centred)
    names = applicable(model.activation.family, optimizer)
    found = {k: float(v) for k, v in measure_step(take_step(model, opt, state, batch), names).items()}
    dW, db, dc = after.W - ref.W, after.b - ref.b, after.c - ref.c
    terms = reference.one_step_terms(ref, X, Y, dW, db, dc, eta_W=0.3)
    expected = {k: rms(v) for k, v in terms.items()}
    dZ = np.stack([after.z(x) - ref.z(x) for x in X.T], axis=1)
    dF = np.stack([after.f(x) - ref.f(x) for x in X.T], axis=1)
    first_order = terms["dF_outer"] + terms["dF_inner"] + terms["dF_b"] + terms["dF_c"]
    expected |= {"dZ_exact": rms(dZ), "dF_exact": rms(dF), "dF_remainder": rms(dF - first_order)}
    expected["mse"] = expected["R"] ** 2
    unit = K if name == "softmax" else 1
    raw, C = terms["raw"], np.eye(K) - 1 / K
    for suffix, S in (("", C @ raw), ("_raw", raw)):
        values, alignment = reference.spectrum(unit * S)
        expected |= {f"lambda_max{suffix}": values[0], f"lambda_2{suffix}": values[1]}
        expected[f"alignment{suffix}"] = alignment
    expected["mean_activation"] = unit * raw.mean()
    if name == "softmax":
        expected["K_eff"] = np.mean(1 / np.sum(raw**2, axis=0))
        expected["K_eff_centred"] = np.mean(1 / np.sum((C @ raw) ** 2, axis=0))
    expected["sigma_max"] = np.abs(raw).max() / rms(raw)
    expected["row_max"] = max(np.linalg.norm(w) for w in ref.W) / np.sqrt(N) / rms(ref.W)
    expected["row_step_max"] = max(np.linalg.norm(w) for w in dW) / np.sqrt(N)
    # coherence: entry by entry, the sum over its size with random signs
    CU = ref.C @ dW
    J = [reference.jacobian(ref.activation, z, ref.p, ref.beta) for z in terms["Z"].T]
    felt = np.stack([ref.C @ j @ (ref.s1 * CU @ np.tanh(x)) for j, x in zip(J, X.T, strict=True)], axis=1)
    for label, left, right in (
        ("outer", CU.T, terms["S"]),
        ("inner", ref.W.T, felt),
        ("hidden", CU, np.tanh(X)),
    ):
        random = sum(
            np.sum((left[i] * right[:, j]) ** 2) for i in range(len(left)) for j in range(right.shape[1])
        )
        expected[f"coherence_{label}"] = np.linalg.norm(left @ right) / np.sqrt(random)
    expected["sign_distance"] = rms(dW / 0.3 + np.sign(terms["grad_W"]))
    for k in names:
        scale = (
            1.0 if k.startswith(("dF_outer_spike", "dF_inner_spike", "dF_remainder")) else abs(expected[k])
        )
        assert abs(found[k] - expected[k]) <= 1e-10 * max(scale, 1e-3), (k, found[k], expected[k])


@pytest.mark.parametrize(
    ("name", "optimizer", "centred"), product(ACTIVATIONS, ("sgd", "adam"), (True, False))
)
def test_first_order_terms_sum_to_the_derivative_along_the_update(name, optimizer, centred):
    model, opt, state, batch, _, _, X, _ = made(name, optimizer, centred)
    step = take_step(model, opt, state, batch)

    def outputs(parameters):
        return model.with_parameters(parameters).update(jnp.asarray(X.T))

    _, derivative = jax.jvp(outputs, (model.parameters,), (step.change,))
    found = update_terms(step)
    parts = ["dF_outer", "dF_inner", "dF_b", "dF_c"]
    if optimizer == "sgd":
        np.testing.assert_allclose(found["dW1"] + found["dW2"], step.change.W, rtol=1e-10, atol=1e-14)
        parts[:2] = ["dF11", "dF12", "dF21", "dF22"]
    total = sum(found[part] for part in parts)
    assert jnp.max(jnp.abs(total - derivative)) <= 1e-10 * jnp.max(jnp.abs(derivative))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_remainder_shrinks_as_the_square_of_the_learning_rate(name, optimizer):
    def remainder(factor):
        model, opt, state, batch, *_ = made(name, optimizer, True, warm=0)
        rates = jax.tree.map(lambda r: factor * r, opt.rates)
        opt = dam.Optimizer(**{**vars(opt), "rates": rates})
        found = measure_step(take_step(model, opt, state, batch), ["dF_remainder", "dF_exact"])
        return float(found["dF_remainder"]), float(found["dF_exact"])

    (small, change), (smaller, smaller_change) = remainder(1e-4), remainder(5e-5)
    assert change / smaller_change == pytest.approx(2, rel=1e-2)
    assert small / smaller == pytest.approx(4, rel=2e-2), "a rate this small changes no sign of Z"


@pytest.mark.parametrize(
    ("size", "matrix_free"),
    sampled([(DENSE + 2, 60), (200, 150), (MATRIX_FREE + 52, MATRIX_FREE)], [(DENSE + 2, 60), (200, 150)]),
)
def test_large_batches_need_no_matrix(size, matrix_free, monkeypatch):
    monkeypatch.setattr("denseam.training.probes.MATRIX_FREE", matrix_free)
    rng = np.random.default_rng(0)
    for offset in (0.0, 0.6):
        S = rng.normal(size=(100, size)) + offset
        values, alignment = leading(jnp.asarray(S))
        exact, exact_alignment = reference.spectrum(S)
        np.testing.assert_allclose(values, exact[:2], rtol=2e-3)
        if offset:
            assert float(alignment) == pytest.approx(exact_alignment, rel=1e-3)


def test_random_matrices_are_incoherent_and_equal_rows_are_not():
    from denseam.training.probes import _over_random

    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(200, 300)), rng.normal(size=(300, 100))
    assert float(_over_random(jnp.asarray(X), jnp.asarray(Y))) == pytest.approx(1, abs=0.02)
    assert float(_over_random(jnp.ones((5, 16)), jnp.ones((16, 3)))) == pytest.approx(4)


def test_names_groups_and_what_does_not_apply():
    assert set(resolve(["all"], "softmax", "adam")) == set(applicable("softmax", "adam"))
    assert resolve(["spectra"], "elementwise", "sgd") == tuple(
        n for n, q in QUANTITIES.items() if q.group == "spectra"
    )
    assert "K_eff" not in resolve(["participation"], "elementwise", "sgd")
    with pytest.raises(dam.InputError, match=r"probe K_eff .* needs an activation that sums to one"):
        resolve(["K_eff"], "elementwise", "sgd")
    with pytest.raises(dam.InputError, match=r"probe dF11 .* without momentum"):
        resolve(["dF11"], "elementwise", "sgd", plain=False)
    with pytest.raises(dam.InputError, match="probes must be 'all'"):
        resolve(["lambda"], "elementwise", "sgd")
    assert set(GROUPS) == {"sizes", "updates", "spectra", "participation", "coherence"}


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 12))
def test_log_spaced_steps(steps, most):
    chosen = log_spaced(steps, most)
    assert chosen[0] == 0
    assert len(chosen) <= most
    assert list(chosen) == sorted(set(chosen))
    assert chosen[-1] < steps


# --- theory beside simulation: the only place where they meet ------------------------------------


def first_steps(N, draws, activation, probes, **options):
    """The probes of the first step of this library's own models, at κ = 2, ρ_B = 0.5, noise 0.5."""
    study = dam.Study(
        activation, "sgd", (N,), (1.0,), seeds=draws, epochs=1, precision="float64", probes=(probes,), probe_steps=(0,),
        **options,
    )  # fmt: skip
    records = dam.sweep(study)
    return {name: np.array([row[f"probe_{name}"][0] for row in records]) for name in study.probes}


def test_the_first_step_is_as_large_as_the_theory_says():
    from denseam import theory

    N, draws = 64, 100
    measured = first_steps(N, draws, "identity", "updates")
    predicted = theory.residual_update_sizes(2, 0.5, 0.5)
    for name, size in predicted._asdict().items():
        squares = measured[f"d{name}"] ** 2
        error = 3 * squares.std(ddof=1) / np.sqrt(draws) / size
        assert abs(squares.mean() / size - 1) <= 6 / N + error, (name, squares.mean(), size)


@pytest.mark.slow  # the theory is compared with the reference in `test_theory`, and the probe with it above
def test_spikes_are_where_the_theory_says():
    from denseam import theory

    N, K, B, draws = 64, 128, 32, 60
    variance = theory.feature_variance(0.5)
    moments = theory.relu_moments(1, variance)
    raw = first_steps(N, draws, "relu", "spectra", centred=False)["lambda_max_raw"]
    assert K * raw.mean() == pytest.approx(theory.mean_spike(moments, K, B), rel=0.04)
    offset = first_steps(N, draws, "relu", "spectra", bias_init="normal")["lambda_max"]
    predicted = theory.bias_spike(lambda z: np.sqrt(2) * np.maximum(z, 0), K, B, variance=variance)
    error = 3 * offset.std(ddof=1) / np.sqrt(draws) / offset.mean()
    assert K * offset.mean() == pytest.approx(predicted, rel=6 / N + error)
