import dataclasses
import itertools
import json
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import denseam as dam
from denseam.ground.errors import InputError, UnprescribedWarning
from denseam.rules import Constants, Power, parameterization
from denseam.rules.fields import parameters
from denseam.rules.optimizers import OPTIMIZERS
from denseam.rules.powers import ONE
from denseam.rules.regimes import REGIMES, regime_from, regime_letter, regime_parameters
from denseam.rules.sizes import WORDS
from denseam.rules.table import FAMILIES, FIXED_MODEL, GRADIENT, PER_STEP, SUMS_TO_ONE, TABLE
from denseam.studies.study import Study
from tests import reference
from tests.sampled import sampled
from tests.table import BATCH_ONLY, EXPECTED, FURTHER, OF_FAMILY, UNPRESCRIBED

N, K = 64, 256
# The table of the paper, typed in again as numbers at N=64, K=256, eta0=0.1.


def prescribed(activation, optimizer, regime):
    through = "T" in REGIMES[regime].grows and FAMILIES[activation] in SUMS_TO_ONE
    if through or (FAMILIES[activation], optimizer) in UNPRESCRIBED:
        with pytest.warns(UnprescribedWarning, match="not expected to transfer"):
            return dam.prescription(activation, optimizer, regime)
    return dam.prescription(activation, optimizer, regime)


@pytest.mark.parametrize("case", EXPECTED, ids="-".join)
def test_the_table_is_the_papers(case):
    regime, activation, optimizer = case
    rule = prescribed(activation, optimizer, regime)
    scales = rule.at(dam.Shape(N, K), eta0=0.1)
    assert (scales.s1, scales.s2, scales.eta_W) == pytest.approx(EXPECTED[case], rel=1e-12)
    assert (scales.eta_b, scales.eta_c) == (0.1, 0.1)
    assert (scales.s_b, scales.s_c, scales.W_std) == (1, 1, 1)
    assert rule.prescribed == ((activation, optimizer) != ("softmax", "sgd"))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("regime", ["proportional", "memories-only"])
def test_further_optimizers_have_the_multipliers_of_the_paper_and_a_rate_of_their_own(optimizer, regime):
    for activation in ("relu", "softmax"):
        rule = prescribed(activation, optimizer, regime)
        scales = rule.at(dam.Shape(N, K), eta0=0.1)
        assert (scales.s1, scales.s2) == EXPECTED[regime, activation, "adam"][:2]
        assert (scales.eta_W, scales.decay_W) == pytest.approx(FURTHER[optimizer], rel=1e-12)
        assert (scales.eta_b, scales.eta_c) == (0.1, 0.1)
        assert rule.prescribed == ((activation, optimizer) not in UNPRESCRIBED)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("regime", FIXED_MODEL)
def test_where_the_model_stays_rates_follow_the_batch_and_the_decay_takes_a_share_of_training(
    optimizer, regime
):
    rate, decay = FURTHER[optimizer]
    expected = {
        "batch-only": BATCH_ONLY[optimizer],
        "samples-only": (rate, 0.1, decay / 10, 1, 1, 1),
        "epochs": (rate, 0.1, decay / 8, 1, 1, 1),
        "steps-only": (rate, 0.1, decay, 1, 1, 1),
    }
    for activation in ("relu", "softmax"):
        rule = prescribed(activation, optimizer, regime)
        scales = rule.at(dam.Shape(N, K, 640, 16, 8), eta0=0.1)
        assert (scales.s1, scales.s2) == EXPECTED["proportional", activation, "adam"][:2]
        found = (scales.eta_W, scales.eta_b, scales.decay_W)
        factors = (scales.forget_momentum, scales.forget_beta1, scales.forget_beta2)
        assert (*found, *factors) == pytest.approx(expected[regime], rel=1e-12)
        assert scales.eta_c == scales.eta_b
        assert dam.Scales.from_json(scales.to_json()) == scales
        assert rule.source.startswith("docs/recall-steps.md" if regime == "steps-only" else "docs/regimes.md")


def test_the_steps_of_recall_take_the_same_time_and_change_nothing_else():
    for optimizer in OPTIMIZERS:
        in_proportion = dam.prescription("relu", optimizer)
        growing = dam.prescription("relu", optimizer, "proportional-steps")
        for T in (1, 4):
            shape = dam.Shape(N, K, 320, 32, T=T)
            one, other = (rule.at(shape, eta0=0.1, tau=0.8) for rule in (in_proportion, growing))
            assert one.step == other.step == pytest.approx(0.8 / T)
            for name in ("s1", "s2", "eta_W", "eta_b", "eta_c", "decay_W"):
                assert (
                    getattr(one, name)
                    == getattr(other, name)
                    == getattr(in_proportion.at(dam.Shape(N, K, 320, 32), eta0=0.1), name)
                ), name
    assert growing.step.along("proportional-steps") == -1
    assert "steps of recall: T = 4, of size tau·T^-1 = 0.2" in one.explain()
    control = parameterization("step=1", "relu", "adam", "steps-only")
    assert control.at(dam.Shape(N, K, T=8), eta0=0.1).step == 1
    assert not control.prescribed
    assert control.predicted_drift() is None
    assert growing.predicted_drift() == 0


def test_softmax_through_several_steps_is_not_prescribed():
    assert not prescribed("softmax", "adam", "steps-only").prescribed
    one, several = (Study("softmax", "adam", (16,), (0.1,), steps=T) for T in (1, 2))
    assert one.rule().prescribed
    assert not several.rule().prescribed


def test_averages_are_over_as_many_samples_at_every_batch_and_never_negative():
    rule = dam.prescription("relu", "adam", "batch-only")
    small, large = (rule.at(dam.Shape(8, 16, 640, B), eta0=0.1) for B in (4, 160))
    assert [float(b) for b in (dam.adam(small).beta1, dam.adam(small).beta2)] == pytest.approx([0.95, 0.9995])
    assert [float(b) for b in (dam.adam(large).beta1, dam.adam(large).beta2)] == pytest.approx([0, 0.98])
    assert "averages: 1 − beta1 is multiplied by N^-1·B = 20, up to 1" in large.explain()
    assert (
        float(dam.sgd(prescribed("relu", "sgd", "batch-only").at(small.shape, eta0=1), momentum=0.9).momentum)
        == 0.9
    )
    plain = "eta_W=1, eta_b=1, eta_c=1, forget_beta1=1, forget_beta2=1"
    control = parameterization(plain, "relu", "adam", "batch-only")
    assert control.predicted_drift() == Fraction(1, 2)
    assert float(dam.adam(control.at(small.shape, eta0=0.1)).beta1) == 0.9
    falling = parameterization("eta_W=E^-1/3", "relu", "sgd", "epochs")
    assert falling.mismatch().eta_W == Fraction(-1, 3)
    assert falling.eta_W.at(dam.Shape(8, 16, E=27)) == pytest.approx(1 / 3)


def test_muon_follows_the_longer_side_of_W():
    rule = dam.prescription("relu", "muon")
    assert rule.at(dam.Shape(256, 64), eta0=0.1).eta_W == rule.at(dam.Shape(64, 256), eta0=0.1).eta_W
    assert "η_W = eta0·max(K, N)^1/2" in rule.at(dam.Shape(64, 256), eta0=0.1).explain()
    # The factor of its authors, max(1, K/N)^1/2, is a constant in proportion; where only K grows it is the rule.
    authors = "eta_W=max(K, N)^1/2*N^-1/2, eta_b=N^-1/2"
    found = parameterization(authors, "relu", "muon")
    assert found.eta_b == Power(N=Fraction(-1, 2))
    assert found.eta_W.at(dam.Shape(64, 256)) == pytest.approx(2)
    assert found.eta_W.at(dam.Shape(256, 64)) == pytest.approx(1)
    assert found.predicted_drift() == Fraction(1, 2)
    assert parameterization(authors, "relu", "muon", "memories-only").predicted_drift() == 0
    assert parameterization("eta_W=1", "relu", "muon", "memories-only").predicted_drift() == Fraction(1, 2)
    assert dam.Parameterization.from_json(found.to_json()) == found
    assert parameterization(found.name, "relu", "muon") == found


def test_every_row_of_the_table_can_be_reached_and_every_case_has_a_row():
    cases = {(r, f, o) for r in REGIMES for f in set(FAMILIES.values()) for o in OPTIMIZERS}
    assert set(TABLE) == cases


def test_base_constants_multiply_the_powers():
    rule = dam.prescription("relu", "sgd")
    scales = rule.at(dam.Shape(N, K), eta0=0.1, s1_0=2, s2_0=3, eta_b0=0.5, eta_c0=0)
    assert (scales.s1, scales.s2) == pytest.approx((2 / 8, 3 / 16))
    assert (scales.eta_b, scales.eta_c) == (0.5, 0)


def test_regimes_give_the_sizes_of_the_design():
    assert dam.Proportional(2, 5, 0.1).shape(64) == dam.Shape(64, 128, 320, 32)
    assert dam.Proportional(1.5, 1, 0.001).shape(3) == dam.Shape(3, 4, 3, 1)
    assert dam.Proportional(1, 1, 0.29).shape(100).B == 29  # 0.29 · 100 is 28.999… in floating point
    assert dam.MemoriesOnly(128, 256, 25).shape(512) == dam.Shape(128, 512, 256, 25)
    assert dam.BatchOnly(128, 256, 640).shape(64) == dam.Shape(128, 256, 640, 64)
    assert dam.SamplesOnly(128, 256, 64).shape(640) == dam.Shape(128, 256, 640, 64)
    assert dam.StepsOnly(128, 256, 640, 64).shape(4) == dam.Shape(128, 256, 640, 64, T=4)
    growing = dam.ProportionalSteps(theta=1 / 64)
    assert [growing.shape(n).T for n in (16, 64, 160, 256)] == [1, 1, 2, 4]
    assert growing.shape(256) == dataclasses.replace(dam.Proportional().shape(256), T=4)
    assert dam.Epochs(128, 256, 640, 64).shape(8) == dam.Shape(128, 256, 640, 64, 8)
    assert str(dam.Epochs(128, 256, 640, 64).shape(8)) == "N=128, K=256, P=640, B=64, E=8"


@pytest.mark.parametrize("name", REGIMES)
def test_every_regime_has_the_scale_of_its_letter_and_is_read_from_its_own_keys(name):
    kind = REGIMES[name]
    default = {"features": 8, "memories": 16, "samples": 400, "batch": 4}
    own = {key: value for key, value in default.items() if key in parameters(kind)}
    regime = regime_from({"regime": name, **own})
    assert (type(regime), regime.name) == (kind, name)
    small, large = (regime.shape(scale) for scale in (80, 160))
    grown = {k for k in WORDS if getattr(small, k) != getattr(large, k)}
    assert grown == set(kind.grows)
    assert getattr(large, regime_letter(name)) == 160
    assert Power(larger=1, **dict.fromkeys(kind.grows, 1)).along(name) == len(kind.grows) + (
        "K" in kind.grows
    )
    other = next(key for key in regime_parameters() if key not in own and key not in parameters(kind))
    with pytest.raises(InputError, match=f"{other} does not belong to the regime '{name}'"):
        regime_from({"regime": name, **own, other: 2})


def test_a_batch_above_the_critical_one_is_told():
    regime = dam.BatchOnly(8, 16, 64)
    assert regime.limits(16) == []
    assert "up to about B = 2·N = 16, got 32" in regime.limits(32)[0]
    assert dam.Epochs(8, 16, 64, 4).limits(10**6) == []


def test_the_standard_parameterization_is_the_prescription_or_drifts_as_known():
    assert dam.standard("relu", "sgd").mismatch() == (0, 0, 0)
    assert dam.standard("relu", "sgd").predicted_drift() == 0
    assert dam.standard("identity", "adam").mismatch() == (0, 0, Fraction(1, 2))
    assert dam.standard("identity", "adam").predicted_drift() == Fraction(-1, 2)
    # s2 itself is off: the function changes with size, and no learning rate mends it
    assert dam.standard("relu", "adam", "memories-only").mismatch().s2 == 1
    assert dam.standard("relu", "adam", "memories-only").predicted_drift() is None
    assert dam.standard("softmax", "adam").mismatch().s2 == -1
    assert dam.standard("softmax", "adam").predicted_drift() is None
    # N is fixed and nothing else grows with K: the same as prescribed, up to constants
    assert dam.standard("softmax", "adam", "memories-only").mismatch() == (0, 0, 0)


@pytest.mark.parametrize("case", TABLE, ids="-".join)
def test_the_prescription_has_no_mismatch_with_itself_in_any_units(case):
    regime, family, optimizer = case
    rule = prescribed(OF_FAMILY[family], optimizer, regime)
    assert rule.mismatch() == (0, 0, 0)
    theta = Power(N=Fraction(3, 2), K=-1)
    from dataclasses import replace

    moved = replace(
        rule,
        s1=rule.s1 / theta,
        s2=rule.s2 / theta,
        W_std=theta,
        eta_W=rule.eta_W * (theta**2 if optimizer == "sgd" else theta),
        decay_W=rule.decay_W / (theta**2 if optimizer == "sgd" else theta),
        epsilon_W=ONE / theta,
    )
    assert moved.mismatch() == (0, 0, 0)
    back = moved.canonical()
    assert (back.s1, back.s2, back.eta_W, back.epsilon_W) == (rule.s1, rule.s2, rule.eta_W, ONE)
    assert back.decay_W == rule.decay_W
    assert back.eta_W * back.decay_W == PER_STEP.get(regime, ONE), "the decay takes a fixed share of training"


sizes = st.integers(1, 10**6)
exponents = st.fractions(-2, 2, max_denominator=6)


powers = st.builds(Power, exponents, exponents, larger=exponents)


@given(a=powers, b=powers, n=sizes, k=sizes)
def test_powers_multiply_like_their_values(a, b, n, k):
    shape = dam.Shape(n, k)
    assert (a * b).at(shape) == pytest.approx(a.at(shape) * b.at(shape), rel=1e-9)
    assert (a / b).at(shape) == pytest.approx(a.at(shape) / b.at(shape), rel=1e-9)
    assert Power.parse(str(a)) == a


@given(theta=st.floats(1e-3, 1e3), optimizer=st.sampled_from(tuple(OPTIMIZERS)))
def test_rescaling_can_be_undone(theta, optimizer):
    scales = dam.prescription("relu", optimizer).at(dam.Shape(N, K), eta0=0.1)
    there = scales.rescaled(theta)
    assert there.W_std == pytest.approx(theta)
    back = there.canonical()
    for name in ("s1", "s2", "eta_W", "W_std", "epsilon_W", "decay_W"):
        assert getattr(back, name) == pytest.approx(getattr(scales, name), rel=1e-12)


def test_scales_survive_json():
    scales = dam.prescription("softmax", "adam").at(dam.Shape(N, K, 300, 30), eta0=0.1, s2_0=1.7)
    assert dam.Scales.from_json(json.loads(json.dumps(scales.to_json()))) == scales
    with pytest.raises(InputError, match="s1 is missing"):
        dam.Scales.from_json({"shape": {"N": 1}})


def test_explain_names_every_rule_and_value():
    text = dam.prescription("relu", "sgd").at(dam.Shape(1024, 2048), eta0=0.02).explain(dam.Shape(64, 128))
    for part in ("s1_0·N^-1/2", "s2_0·K^-1/2", "eta0·K", "0.125", "0.03125", "2.56", "40.96", "base: N=64"):
        assert part in text
    by_hand = dam.Scales(dam.Shape(4, 4), "sgd", 1, 1, 1, 1, 1)
    assert "set by hand" in by_hand.explain()
    with pytest.raises(InputError, match="base"):
        by_hand.explain(dam.Shape(2, 2))


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: dam.Shape(0, -1, 2.5, True), ["features (N)", "memories (K)", "samples (P)", "batch (B)"]),
        (lambda: dam.Shape(4, 4, 8, 9), ["batch (B) must be at most samples (P) = 8"]),
        (lambda: dam.Shape(4, 4, 8, 2, 0), ["epochs (E) must be"]),
        (lambda: dam.Shape(4, 4, T=0), ["steps (T) must be"]),
        (lambda: dam.Epochs(4, 4, 8, 9), ["batch (B) must be at most samples (P) = 8"]),
        (lambda: dam.BatchOnly(0, 4, 2.5), ["features must be", "samples must be"]),
        (lambda: dam.BatchOnly(4, 4, 8).shape(9), ["batch (B) must be at most samples (P) = 8"]),
        (lambda: dam.SamplesOnly(4, 4, 8).shape(7), ["batch (B) must be at most samples (P) = 7"]),
        (
            lambda: dam.prescription("gelu", "adagrad", "wide"),
            [
                "activation must be 'identity', 'relu', 'tanh', 'softmax', 'sigmoid',",
                "optimizer must be 'sgd', 'adam'",
                "regime",
            ],
        ),
        (lambda: dam.Proportional(0, math.nan, 2), ["kappa", "rho"]),
        (lambda: dam.Proportional(1, 1, 2), ["beta"]),
        (lambda: Constants(-1, s1_0=math.inf, eta_b0=-1), ["eta0", "s1_0", "eta_b0"]),
        (lambda: Power(B=1).at(dam.Shape(2, 2)), ["batch (B) is needed by the rule B"]),
        (lambda: dam.prescription(object(), "sgd"), ["activation must be"]),
    ],
)
def test_bad_input_is_named_all_at_once_in_one_line(make, parts):
    with pytest.raises(InputError) as caught:
        make()
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


def test_the_rules_work_without_jax():
    code = "import sys, denseam as d; d.prescription('relu', 'sgd').at(d.Shape(4, 8), eta0=1).explain(); "
    code += "assert not {'jax', 'numpy', 'equinox'} & set(sys.modules), 'an array framework was loaded'"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_epsilon_can_shrink_with_the_gradient():
    rule = parameterization("epsilon_W=N^-1", "relu", "adam")
    scales = [rule.at(dam.Shape(N=N, K=2 * N), eta0=0.1) for N in (32, 64)]
    epsilons = [float(dam.adam(s, epsilon=0.032).epsilon.W) for s in scales]
    assert epsilons == pytest.approx([1e-3, 5e-4])
    assert all(float(dam.adam(s, epsilon=0.032).epsilon.b) == 0.032 for s in scales)
    # By one word for all three parameters.
    rule = parameterization("epsilon=gradient", "relu", "adam")
    made = dam.adam(rule.at(dam.Shape(N=64, K=128), eta0=0.1), epsilon=0.064).epsilon
    assert [float(e) for e in made] == pytest.approx([0.001, 0.008, 0.008])
    assert dam.Scales.from_json(rule.at(dam.Shape(N=64, K=128), eta0=0.1).to_json()).epsilon_b == 0.125
    for text, optimizer in (("epsilon=gradient", "sgd"), ("epsilon=N^-1", "adam")):
        with pytest.raises(InputError, match="epsilon=gradient"):
            parameterization(text, "relu", optimizer)


def test_epsilon_follows_the_gradient_only_where_that_is_known():
    known = parameterization("epsilon=gradient, eta_b=N^-1/2", "relu", "adam")
    assert (known.epsilon_W, known.eta_b, known.prescribed) == (
        dam.Power(N=-1),
        dam.Power(N=Fraction(-1, 2)),
        False,
    )
    assert parameterization("epsilon=gradient", "relu", "adam").prescribed, "ε is not in the table"
    with pytest.raises(InputError, match="prescribed s1 and s2 only"):
        parameterization("epsilon=gradient, s2=K^-1", "relu", "adam")
    asked = {"parameterization": "epsilon=gradient", "centred": False}
    with pytest.raises(InputError, match="for centred models only"):
        Study("relu", "adam", (16,), (0.1,), **asked)
    Study("identity", "adam", (16,), (0.1,), **asked)


@pytest.mark.parametrize(
    ("activation", "regime"),
    sampled(
        itertools.product(("relu", "softmax", "identity"), ("proportional", "memories-only", "batch-only")),
        [("relu", "proportional"), ("softmax", "memories-only"), ("identity", "batch-only")],
    ),
)
def test_the_gradient_is_as_large_as_epsilon_is_told(activation, regime):
    """Its entries at the start, from the equations alone."""
    sizes, found = (16, 32, 64), []
    for n in sizes:
        N, K, B = {
            "proportional": (n, 2 * n, n // 2),
            "memories-only": (16, 8 * n, 8),
            "batch-only": (64, 128, n // 4),
        }[regime]
        shape = dam.Shape(N=N, K=K, P=10 * B, B=B)
        scales = dam.prescription(activation, "adam", regime).at(shape, eta0=0.1)
        sums = np.zeros(3)
        for seed in range(12):
            rng = np.random.default_rng(seed)
            model = reference.Model(
                rng.standard_normal((K, N)), np.zeros(K), np.zeros(N), scales.s1, scales.s2, activation
            )
            Y = rng.standard_normal((N, B))
            gradient = model.gradient(Y + 0.5 * rng.standard_normal((N, B)), Y)
            sums += [np.mean(g**2) for g in gradient]
        found.append(np.sqrt(sums))
    slopes = np.log2(found[-1] / found[0]) / 2
    powers = GRADIENT[regime].values()
    assert slopes == pytest.approx([float(p.along(regime)) for p in powers], abs=0.2)
