import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from denseam import theory
from denseam.ground.errors import InputError
from tests import reference_theory as reference
from tests.sampled import sampled

fractions = st.fractions(-3, 3, max_denominator=8)
ratios = st.floats(0.1, 10)
CATALAN = (1, 1, 2, 5, 14, 42, 132, 429)


def close(draws, predicted, N, what):
    """The bound: 6/N for finite size, and three standard errors of the draws."""
    draws, predicted = np.asarray(draws), np.asarray(predicted)
    error = np.abs(draws.mean(axis=0) / predicted - 1)
    allowed = 6 / N + 3 * draws.std(axis=0, ddof=1) / math.sqrt(len(draws)) / predicted
    assert np.all(error <= allowed), (what, N, error, allowed)


# --- moments -------------------------------------------------------------------------------------


@settings(deadline=None)
@given(a=st.fractions(Fraction(1, 10), 10, max_denominator=10))
def test_the_first_marchenko_pastur_moments(a):
    m = [theory.marchenko_pastur_moment(j, a) for j in range(5)]
    assert m == [1, 1, 1 + a, 1 + 3 * a + a**2, 1 + 6 * a + 6 * a**2 + a**3]
    for j in range(1, 8):
        assert a ** (j - 1) * theory.marchenko_pastur_moment(j, 1 / a) == theory.marchenko_pastur_moment(j, a)
    # The free cumulants of Marchenko-Pastur are the powers of a.
    moments = [theory.marchenko_pastur_moment(j, a) for j in range(1, 9)]
    assert theory.free_cumulants_from_moments(moments) == [a**j for j in range(8)]


@pytest.mark.parametrize("a", [0.3, 1.0, 2.5])
def test_marchenko_pastur_moments_are_those_of_a_large_matrix(a):
    n = 600
    X = np.random.default_rng(0).standard_normal((n, round(a * n)))
    eigenvalues = np.linalg.eigvalsh(X.T @ X / n)
    for j in range(1, 6):
        assert np.mean(eigenvalues**j) == pytest.approx(theory.marchenko_pastur_moment(j, a), rel=0.008 * j)
    low, high = theory.marchenko_pastur_edges(a)
    assert eigenvalues[-1] == pytest.approx(high, rel=0.03)
    assert eigenvalues[max(0, round(a * n) - n)] == pytest.approx(low, abs=0.03)


def test_wishart_moments_are_exact():
    for n in (1, 2, 7):
        # One row of N(0, I): E (zᵀz)³ is the third moment of χ² with n degrees of freedom.
        assert theory.wishart_third_moment(1, n, n, n) == n * (n + 2) * (n + 4)
        for K in (1, 3, 4):
            # tr((ZᵀZ)³) = tr((ZZᵀ)³): with Σ = I the two sizes may change places.
            assert theory.wishart_third_moment(K, n, n, n) == theory.wishart_third_moment(n, K, K, K)
    rng = np.random.default_rng(1)
    variances = np.array([0.5, 1.0, 2.0])
    Z = rng.standard_normal((200_000, 4, 3)) * np.sqrt(variances)
    gram = np.einsum("dki,dkj->dij", Z, Z)
    square = gram @ gram
    third = np.einsum("dij,dji->d", square, gram)
    expected = theory.wishart_third_moment(4, *(np.sum(variances**j) for j in (1, 2, 3)))
    assert third.mean() == pytest.approx(expected, abs=4 * third.std() / math.sqrt(len(third)))
    Z = rng.standard_normal((200_000, 4, 3))
    second = np.sum(np.einsum("dki,dkj->dij", Z, Z) ** 2, axis=(1, 2))
    assert second.mean() == pytest.approx(
        theory.wishart_second_moment(4, 3), abs=4 * second.std() / math.sqrt(len(second))
    )


@settings(deadline=None)
@given(numbers=st.lists(fractions, min_size=1, max_size=8))
def test_moments_and_free_cumulants_are_inverse_to_each_other(numbers):
    assert theory.free_cumulants_from_moments(theory.moments_from_free_cumulants(numbers)) == numbers
    assert theory.moments_from_free_cumulants(theory.free_cumulants_from_moments(numbers)) == numbers


@settings(deadline=None, max_examples=20)
@given(cumulants=st.lists(fractions, min_size=6, max_size=6))
def test_moments_are_sums_over_non_crossing_partitions(cumulants):
    moments = theory.moments_from_free_cumulants(cumulants)
    for n in range(1, 7):
        total = sum(
            math.prod(cumulants[len(block) - 1] for block in partition)
            for partition in theory.non_crossing_partitions(n)
        )
        assert total == moments[n - 1]


def test_the_semicircle_has_catalan_moments():
    assert theory.moments_from_free_cumulants([0, 1, 0, 0, 0, 0, 0, 0]) == [0, 1, 0, 2, 0, 5, 0, 14]


@pytest.mark.parametrize("n", range(1, 8))
def test_non_crossing_partitions_and_their_complements(n):
    partitions = theory.non_crossing_partitions(n)
    assert len(partitions) == CATALAN[n]
    for k in range(1, n + 1):
        assert sum(len(p) == k for p in partitions) == theory.narayana(n, k)
    canonical = {frozenset(map(frozenset, p)) for p in partitions}
    complements = [theory.kreweras_complement(p) for p in partitions]
    assert {frozenset(map(frozenset, p)) for p in complements} == canonical
    assert all(len(p) + len(c) == n + 1 for p, c in zip(partitions, complements, strict=True))


@settings(deadline=None)
@given(a=st.lists(fractions, min_size=6, max_size=6), b=st.lists(fractions, min_size=6, max_size=6))
def test_mixed_moments_of_free_variables(a, b):
    phi = theory.mixed_moment
    a1, a2, b1, b2 = a[0], a[1], b[0], b[1]
    assert phi([(1, 1), (1, 1)], a, b) == a2 * b1**2 + a1**2 * b2 - a1**2 * b1**2
    assert phi([(2, 3)], a, b) == a[1] * b[2]
    assert phi([], a, b) == 1
    assert phi([(0, 2), (0, 1)], a, b) == b[2]
    assert phi([(2, 0), (1, 0)], a, b) == a[2]
    # φ(a b² a² b) = φ(b² a² b a): the two change places, and the word may be turned.
    word, turned = [(1, 2), (2, 1)], [(2, 2), (1, 1)]
    assert phi(word, a, b) == phi(turned, b, a)
    # A b⁰ joins the powers beside it; b's in front go to the end.
    assert phi([(1, 0), (1, 2), (2, 1)], a, b) == phi([(2, 2), (2, 1)], a, b)
    assert phi([(0, 1), (2, 1), (1, 0)], a, b) == phi([(2, 1), (1, 1)], a, b)


def test_mixed_moments_are_those_of_large_matrices():
    rng = np.random.default_rng(2)
    N, draws = 200, 50
    words = ([(1, 1)] * 2, [(1, 1)] * 3, [(2, 1), (1, 1), (1, 1)], [(2, 1), (2, 2)], [(1, 2), (1, 1)])
    a = [theory.marchenko_pastur_moment(j, 0.5) for j in range(1, 5)]
    d = [theory.marchenko_pastur_moment(j, 2.0) for j in range(1, 5)]
    measured = np.zeros((draws, len(words)))
    for draw in range(draws):
        W, G = rng.standard_normal((2 * N, N)), rng.standard_normal((N, N // 2))
        A, D = W.T @ W / (2 * N), G @ G.T / (N // 2)
        for w, word in enumerate(words):
            M = np.eye(N)
            for i, j in word:
                M = M @ np.linalg.matrix_power(A, i) @ np.linalg.matrix_power(D, j)
            measured[draw, w] = np.trace(M) / N
    close(measured, [theory.mixed_moment(word, a, d) for word in words], N, "words")


# --- Gaussian averages ---------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0, 3.0])
def test_the_variance_of_tanh_features(noise):
    sd = math.sqrt(1 + noise**2)
    v_g = theory.feature_variance(noise)
    by_quad, _ = integrate.quad(
        lambda x: np.tanh(sd * x) ** 2 * stats.norm.pdf(x), -12, 12, epsabs=1e-13, epsrel=1e-13, limit=500
    )
    assert v_g == pytest.approx(by_quad, rel=1e-11)
    if noise <= 1:  # Gauss-Hermite is slow to converge at large variance
        x, weight = np.polynomial.hermite_e.hermegauss(200)
        assert v_g == pytest.approx(weight @ np.tanh(sd * x) ** 2 / weight.sum(), rel=1e-7)
    data = theory.feature_moments(noise)
    assert data.cross == pytest.approx(1 - v_g, rel=1e-10)  # Stein's lemma
    assert data.slope == pytest.approx((1 - v_g) / v_g, rel=1e-10)
    rng = np.random.default_rng(0)
    y = rng.standard_normal(1_000_000)
    g = np.tanh(y + noise * rng.standard_normal(1_000_000))
    assert np.mean((y - data.slope * g) ** 2) == pytest.approx(data.rest, abs=0.005)
    assert np.mean(g**4) / np.mean(g**2) ** 2 == pytest.approx(data.kurtosis, rel=0.005)


def test_gaussian_averages_of_any_function():
    # 1 − E tanh² ≈ density at 0 times ∫ sech² = 2/√(2π)/sd, where tanh is a step.
    assert 1 - theory.feature_variance(1e6) == pytest.approx(2e-6 / math.sqrt(2 * math.pi), rel=1e-6)
    assert theory.feature_variance(0.5, lambda x: x) == pytest.approx(1.25, rel=1e-12)
    assert theory.gaussian_mean(np.abs, 4.0) == pytest.approx(2 * math.sqrt(2 / math.pi), rel=1e-12)
    assert theory.gaussian_mean(np.exp, 2.0, mean=0.5) == pytest.approx(math.exp(1.5), rel=1e-12)
    assert theory.gaussian_mean(lambda x: np.maximum(x, 0), 1.0, mean=30.0) == pytest.approx(30, rel=1e-12)
    step = theory.gaussian_mean(lambda x: (x > 0.3) * 1.0, kinks=[0.3])
    assert step == pytest.approx(stats.norm.sf(0.3), rel=1e-12)
    assert theory.gaussian_mean(lambda x: x + 1, 0.0, mean=2.0) == 3
    with pytest.raises(InputError, match="kinks"):
        theory.gaussian_mean(lambda x: (x > 0.3) * 1.0)
    with pytest.raises(InputError, match="finite"), np.errstate(over="ignore"):
        theory.gaussian_mean(lambda x: np.exp(x**2))


# --- the first step ------------------------------------------------------------------------------


POINTS = {
    (2.0, 0.5): {"noise": 0.5},
    (0.7, 1.5): {"noise": 1.0, "eta0": 0.3, "s1_0": 1.4, "s2_0": 0.6},
    (3.0, 1.0): {"noise": 0.0},
    (0.5, 0.4): {"noise": 2.0, "s2_0": 0.01},  # the residual is the target, nearly
}
SIZES = [(point, N, draws) for point in POINTS for N, draws in ((50, 200), (100, 200), (200, 100))]
SIZES.append(((2.0, 0.5), 400, 100))
SMALLER = [size for size in SIZES if size[1] == 50 or size == ((2.0, 0.5), 200, 100)]


@pytest.mark.parametrize(("point", "N", "draws"), sampled(SIZES, SMALLER))
def test_every_size_of_the_first_step(point, N, draws):
    kappa, rho_b = point
    given_ = POINTS[point]
    noise, eta0, s1_0, s2_0 = (given_.get(k, 1.0) for k in ("noise", "eta0", "s1_0", "s2_0"))
    constants = {"eta0": eta0, "s1_0": s1_0, "s2_0": s2_0}
    K, B = round(kappa * N), round(rho_b * N)
    s1, s2 = s1_0 / math.sqrt(N), s2_0 / math.sqrt(K)
    with_F, with_R, F_size, R_size = reference.step_sizes(N, K, B, noise, draws, seed=1, **constants)
    v_g = theory.feature_variance(noise)

    predicted = theory.update_sizes_at(N, K, B, eta_W=eta0 * K, s1=s1, s2=s2, v_g=v_g)
    assert predicted._fields == reference.TERMS
    close(with_F, predicted, N, "R replaced by F")
    predicted = theory.residual_update_sizes(kappa, rho_b, noise, **constants)
    close(with_R, predicted, N, "R = F − Y")
    close(F_size, theory.output_size(N, K, s1, s2, v_g), N, "F")
    close(R_size, theory.residual_size(kappa, noise, s1_0=s1_0, s2_0=s2_0), N, "R")


@pytest.mark.parametrize("K", sampled([2, 5, 40], [2, 40]))
def test_output_sizes_are_exact_at_every_size(K):
    N, B, draws = 12, 20, 4000
    v_g = theory.feature_variance(0.5)
    s1, s2 = 1 / math.sqrt(N), 1 / math.sqrt(K)
    plain = reference.step_sizes(N, K, B, 0.5, draws, seed=3)[2]
    centred = reference.centred_output_sizes(N, K, B, 0.5, draws, seed=4)
    for sizes, is_centred in ((plain, False), (centred, True)):
        predicted = theory.output_size(N, K, s1, s2, v_g, centred=is_centred)
        assert sizes.mean() == pytest.approx(predicted, abs=3.5 * sizes.std() / math.sqrt(draws))
    assert theory.output_size(N, K, s1, s2, centred=True) == pytest.approx((K - 1) * (K + N) / (N * K))


def test_the_papers_closed_forms():
    kappa, rho_b = 2, 0.5
    m = theory.marchenko_pastur_moment
    sizes = theory.update_sizes(kappa, rho_b)
    assert sizes == (63, 121, 217, 279, 217, 495)
    assert 1 + 3 * kappa * (1 + 1 / rho_b) + kappa**2 * m(3, 1 / rho_b) == sizes.Z1
    assert m(3, kappa) * m(3, 1 / rho_b) == sizes.Z2
    # m_4(κ) and κ³ m_4(1/κ) are the same; m_4(1/κ) alone would be wrong.
    assert sizes.F22 == m(4, kappa) * m(3, 1 / rho_b) == kappa**3 * m(4, 1 / kappa) * m(3, 1 / rho_b)


@settings(deadline=None, max_examples=30)
@given(kappa=ratios, rho_b=ratios)
def test_the_closed_forms_are_the_words_in_free_matrices(kappa, rho_b):
    # With huge outputs the target does not matter, and R = F.
    s2_0 = 1e9
    sizes = theory.residual_update_sizes(kappa, rho_b, 0.0, s2_0=s2_0, g=lambda x: x)
    units = [s2_0**4] * 2 + [s2_0**6] * 4
    for size, unit, expected in zip(sizes, units, theory.update_sizes(kappa, rho_b), strict=True):
        assert size / unit == pytest.approx(expected, rel=1e-6)


# --- spectra -------------------------------------------------------------------------------------

N, K, B, NOISE = 400, 800, 200, 0.5
DATA = theory.feature_moments(NOISE)


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("variance", [0.4, 1.0, 2.0])
def test_closed_forms_for_relu(power, variance):
    exact = theory.relu_moments(power, variance)
    by_quadrature = theory.activation_moments(lambda z: reference.relu(z, power), variance)
    assert exact == pytest.approx(by_quadrature, rel=1e-10, abs=1e-12)
    assert exact.second == variance**power


#: Largest relative error allowed: of K(B m² + Var σ), and with all terms of relative order 1/N. Measured over 100
#: draws: 0.4, 1.3, 3.4 % and 0.0, 0.1, 0.6 %; here the standard errors are 0.2, 0.3, 0.5 %.
SPIKE_BOUNDS = {1: (0.02, 0.01), 2: (0.03, 0.015), 3: (0.06, 0.03)}


@pytest.mark.parametrize("power", [1, 2, 3])
def test_the_spike_of_the_mean(power):
    moments = theory.relu_moments(power, DATA.v_g)
    tops, _ = reference.top_eigenvalues(lambda z: reference.relu(z, power), N, K, B, NOISE, draws=20, seed=3)
    errors = [
        tops.mean() / theory.mean_spike(moments, K, B) - 1,
        tops.mean() / theory.mean_spike_finite(moments, N, K, B, kurtosis=DATA.kurtosis) - 1,
    ]
    print(f"ReLU^{power}: {errors}, standard error {tops.std() / tops.mean() / math.sqrt(len(tops)):.4f}")
    assert np.all(np.abs(errors) <= SPIKE_BOUNDS[power])


@pytest.mark.parametrize(
    ("shape", "power", "bound"), [((100, 50, 200), 1, 0.008), ((50, 200, 200), 1, 0.004)]
)
def test_each_small_term_of_the_spike_is_needed(shape, power, bound):
    # At the first shape B Var σ is 4 % of the spike, at the second c2² K B/N is 1 %.
    moments = theory.relu_moments(power, DATA.v_g)
    tops, _ = reference.top_eigenvalues(lambda z: reference.relu(z, power), *shape, NOISE, draws=500, seed=9)
    predicted = theory.mean_spike_finite(moments, *shape, kurtosis=DATA.kurtosis)
    assert tops.mean() == pytest.approx(predicted, rel=bound)


def test_centring_leaves_the_spike_of_the_biases():
    tops, _ = reference.top_eigenvalues(
        reference.relu, N, K, B, NOISE, draws=30, seed=5, centred=True, bias_std=1.0
    )
    predicted = theory.bias_spike(reference.relu, K, B, variance=DATA.v_g)
    # The scatter over the biases drawn is 7 % a draw, so 1.3 % here; given the biases the error is 0.01 %.
    assert tops.mean() == pytest.approx(predicted, rel=0.03)
    without, _ = reference.top_eigenvalues(reference.relu, N, K, B, NOISE, draws=2, seed=5, centred=True)
    assert without.mean() < predicted / 50
    # Closed form: a shifted identity keeps exactly the variance of the biases.
    linear = theory.bias_spike(lambda z: z, K, B, variance=0.5, bias_variance=2.0)
    assert linear == pytest.approx(K * B * 2.0 + K * 0.5 + B * 0.5)
    assert theory.bias_spike(lambda z: 0 * z + 3, K, B) == pytest.approx(0)


@pytest.mark.parametrize(
    ("sigma", "bound"), [(lambda z: z, 0.04), (np.tanh, 0.05), (reference.relu, 0.04), (np.abs, 0.02)]
)
def test_the_edge_of_the_bulk(sigma, bound):
    # The largest eigenvalue nears the edge as N^(-2/3), from below.
    moments = theory.activation_moments(sigma, DATA.v_g)
    predicted = theory.gram_top(moments, 2, 0.5)
    errors = {}
    for n in (100, 400):
        tops, _ = reference.top_eigenvalues(sigma, n, 2 * n, n // 2, NOISE, draws=8, seed=6, centred=True)
        errors[n] = tops.mean() / (2 * n) / predicted - 1
    assert abs(errors[400]) <= bound, errors
    assert abs(errors[400]) <= abs(errors[100]) + 0.01, errors


def test_the_edge_of_known_cases():
    noise = theory.ActivationMoments(mean=0, second=2.0, linear=0, quadratic=0, quartic=0)
    assert theory.gram_edge(noise, 2, 0.5) == pytest.approx(2 * (1 + math.sqrt(0.25)) ** 2)
    linear = theory.ActivationMoments(mean=0, second=1.0, linear=1.0, quadratic=0, quartic=0)
    # Many features: ZᵀZ/K is Marchenko-Pastur at B/K. Many memories: at B/N. No c2, no outlier.
    assert theory.gram_edge(linear, 1e-3, 1e-8) == pytest.approx((1 + math.sqrt(1e-5)) ** 2, rel=1e-3)
    assert theory.gram_edge(linear, 1e9, 0.5) == pytest.approx((1 + math.sqrt(0.5)) ** 2, rel=1e-3)
    assert theory.gram_top(linear, 2, 0.5) == theory.gram_edge(linear, 2, 0.5)
    # Noise on a strong common direction, t = 1 + ω: the outlier of a spiked covariance, t (1 + y/(t − 1)).
    spiked = theory.ActivationMoments(mean=0, second=1.0, linear=0, quadratic=1.0, quartic=0)
    assert theory.gram_top(spiked, 4, 2) == pytest.approx(3 * (1 + 0.5 / 2))


def test_the_outlier_that_rectified_overlaps_make():
    kappa, rho_b, n = 2, 2, 300
    moments = theory.activation_moments(np.abs, DATA.v_g)
    edge, top = theory.gram_edge(moments, kappa, rho_b), theory.gram_top(moments, kappa, rho_b)
    tops, _ = reference.top_eigenvalues(np.abs, n, kappa * n, rho_b * n, NOISE, draws=4, seed=7, centred=True)
    assert top > 1.05 * edge
    assert tops.mean() / (kappa * n) == pytest.approx(top, rel=0.025)


def test_softmax():
    features, memories, beta = 50, 200, 1.5
    g = np.tanh(1.1 * np.random.default_rng(0).standard_normal(features))
    variance = g @ g / features
    along, concentration = reference.softmax_outputs(g, memories, beta, draws=3000, seed=1)
    gain = theory.softmax_gain(memories, variance, s1=1 / math.sqrt(features), s2=1.0, beta=beta)
    assert along.mean() == pytest.approx(gain, abs=3 * along.std() / math.sqrt(len(along)))
    assert concentration.mean() == pytest.approx(
        theory.softmax_concentration(memories, variance, beta), rel=0.05
    )
    rng = np.random.default_rng(2)
    W, G = rng.standard_normal((800, 400)), np.tanh(rng.standard_normal((400, 200)))
    S = reference.softmax(W @ G / math.sqrt(400), 1.0)
    assert np.linalg.eigvalsh(S.T @ S)[-1] == pytest.approx(theory.softmax_spike(800, 200), rel=0.02)


# --- what people see -----------------------------------------------------------------------------


def test_the_report():
    document = theory.report(2, 0.5)
    assert document == {"Z1": 63, "Z2": 121, "F11": 217, "F12": 279, "F21": 217, "F22": 495}
    document = theory.report(2, 0.5, noise=0.5)
    assert document["true_residual"] == theory.residual_update_sizes(2, 0.5, 0.5)._asdict()
    smaller = theory.report(2, 0.5, noise=0.5, eta0=0.1)["true_residual"]
    assert smaller == {k: pytest.approx(v / 100) for k, v in document["true_residual"].items()}


def test_the_table():
    assert "495    22.25" in theory.explain(2, 0.5)
    text = theory.explain(2, 0.5, noise=0.5, eta0=0.1)
    assert "v_g = 0.4350" in text
    assert "η_W = 0.1·K" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: theory.report(0, 0.5), "kappa must be above 0 and finite, got 0"),
        (lambda: theory.report(2, math.inf), "rho_b must be above 0 and finite, got inf"),
        (lambda: theory.report(2, math.nan), "rho_b must be above 0 and finite, got nan"),
        (lambda: theory.report(2, "x"), "rho_b must be above 0 and finite, got 'x'"),
        (lambda: theory.report(2, 0.5, -1), "noise must be at least 0 and finite, got -1"),
        (lambda: theory.report(2, 0.5, 1, eta0=0), "eta0 must be above 0 and finite, got 0"),
        (lambda: theory.report(1e200, 0.5), "must be closer to 1"),
        (lambda: theory.report(2, 1e-320), "must be closer to 1"),
        (lambda: theory.report(1e-320, 1, 1), "must be closer to 1"),
        (lambda: theory.report(2, 0.5, 1e200), "must be closer to 1"),
        (lambda: theory.report(2, 0.5, 1, s1_0=1e100), "must be closer to 1"),
        (lambda: theory.explain(-1, 0.5), "kappa must be above 0 and finite, got -1"),
        (lambda: theory.update_sizes(2, -1), "rho_b must be above 0 and finite, got -1"),
        (lambda: theory.update_sizes_at(4.0, 2, 2, eta_W=1, s1=1, s2=1), "N must be a whole number"),
        (lambda: theory.residual_size(1, math.nan), "noise must be at least 0 and finite, got nan"),
        (lambda: theory.output_size(4, 0, 1, 1), "K must be a whole number of at least 1, got 0"),
        (lambda: theory.marchenko_pastur_moment(-1, 1), "j must be a whole number of at least 0, got -1"),
        (lambda: theory.mixed_moment([(1, 2)], [1], [1]), "moments_b must hold at least 2 moments"),
        (lambda: theory.mixed_moment([(-1, 2)], [1], [1]), "exponent must be a whole number of at least 0"),
        (lambda: theory.non_crossing_partitions(13), "n must be at most 12, got 13"),
        (lambda: theory.gaussian_mean(np.tanh, -1), "variance must be at least 0 and finite, got -1"),
        (lambda: theory.feature_moments(0.5, lambda x: 0 * x), "v_g must be above 0"),
        (lambda: theory.relu_moments(0), "power must be above 0 and finite, got 0"),
        (lambda: theory.gram_edge(theory.ActivationMoments(1, 1, 0, 0, 0), 1, 1), "not constant"),
        (lambda: theory.softmax_concentration(10, 3.0), "variance must be below log"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, said):
    with pytest.raises(InputError) as caught:
        call()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_problems_are_told_at_once():
    with pytest.raises(InputError) as caught:
        theory.report(0, -1, -2)
    assert len(caught.value.problems) == 3


def test_every_public_name_is_there_and_nothing_heavy_is_loaded():
    assert all(hasattr(theory, name) for name in theory.__all__)
    code = "import sys, denseam.theory; bad = {'jax', 'scipy', 'equinox', 'denseam.model.dense_am'} & set(sys.modules); "
    code += "assert not bad, bad"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


# --- steps of recall ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.5, 2.0])
def test_the_growth_of_a_linear_state_is_that_of_a_simulation(kappa):
    rng = np.random.default_rng(0)
    N = 400
    W = rng.standard_normal((round(kappa * N), N))
    A = W.T @ W / math.sqrt(W.size)
    for T, tau in ((1, 1.0), (3, 0.8), (8, 0.5)):
        X = start = rng.standard_normal((N, 200))
        for _ in range(T):
            X = X + tau / T * (A @ X - X)
        assert np.sum(X**2) / np.sum(start**2) == pytest.approx(theory.linear_growth(kappa, T, tau), rel=0.06)


def test_the_growth_of_a_linear_state_has_a_limit_in_its_steps():
    growth = [theory.linear_growth(2.0, T, 0.5) for T in (8, 16, 32, 64)]
    first, second, third = np.diff(growth)
    assert second / first == pytest.approx(0.5, abs=0.1)
    assert third / second == pytest.approx(0.5, abs=0.1)
