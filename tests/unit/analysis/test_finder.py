"""The exponent finder: from wrong exponents to the right ones, or to the reason why there are none."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import denseam as dam
from denseam.analysis.causes import Growth
from denseam.analysis.coordinates.finder import Search, searched_study
from denseam.analysis.coordinates.laws import Law
from denseam.analysis.coordinates.of_study import check_records
from denseam.rules import prescription
from denseam.rules.table import AS_IN_PROPORTION, FIXED_MODEL, TABLE
from tests.sampled import sampled
from tests.table import UNPRESCRIBED

# Two ends give a slope almost as well as what lies between, and every scale is a program to compile.
SCALES = {"proportional": (16, 128), "memories-only": (128, 1024)}
SMALL = {"updates": 8, "seeds": 4}

# --- made-up sizes --------------------------------------------------------------------------------


def made_up(laws):
    """A measurement whose truth is known: each quantity is a law of the shape times its factor."""

    def measure(points, quantity):
        rng = np.random.default_rng(len(quantity))
        factor, constant, law = laws[quantity]
        sizes = [
            getattr(p.rule, factor).at(p.shape) * p.constants.get(constant, 1.0) * law(p.shape)
            for p in points
        ]
        return np.array(sizes)[:, None] * np.exp(0.01 * rng.normal(size=(len(points), 8)))

    return measure


#: Powers of N, K and B; F is as in a memory with as many features as memories.
CLEAN = {
    "Z": ("s1", "s1_0", lambda s: s.N**0.5),
    "F": ("s2", "s2_0", lambda s: s.K * s.B**-0.5),
    "dZ_W": ("eta_W", "", lambda s: s.N**0.5 / s.K),
}
MIXED = CLEAN | {"F": ("s2", "s2_0", lambda s: (s.K**2 / s.N + s.K) ** 0.5)}


def search(laws, regime="proportional", start="s1=1, s2=1, eta_W=1"):
    study = searched_study("relu", "sgd", regime=regime, parameterization=start)
    found = Search(study, made_up(laws))
    found.run()
    return found


def test_sizes_that_grow_one_at_a_time_are_told_apart():
    found = search(CLEAN)
    rule = found.along_path
    assert (str(rule.s1), str(rule.s2), str(rule.eta_W)) == ("N^-1/2", "K^-1·B^1/2", "N^-1/2·K")
    assert all(e.told_apart for e in found.factors.values())
    apart = found.factors["s2"].apart
    assert {letter: round(law.exponent, 1) for letter, law in apart.items()} == {
        "N": 0.0,
        "K": -1.0,
        "B": 0.5,
    }
    assert found.factors["s2"].total == pytest.approx(found.factors["s2"].along.exponent, abs=0.05)


def test_where_sizes_mix_the_path_decides():
    """√(aK²/N + bK) has no exponent of K alone, but one along the path."""
    found = search(MIXED).factors["s2"]
    assert found.along.exponent == pytest.approx(-0.5, abs=0.03)
    assert found.apart["K"].growth is found.apart["N"].growth is Growth.BENT
    assert found.apart["K"].fraction is None
    assert -1 < found.apart["K"].exponent < -0.5
    assert found.total == pytest.approx(-0.5, abs=0.05)
    assert not found.told_apart
    assert str(found.power) == "N^-1/2"


def test_memories_alone_keep_the_power_of_the_features():
    found = search(MIXED, "memories-only", "s1=N^-1/2*K^1/4, s2=1, eta_W=1")
    assert str(found.along_path.s1) == "N^-1/2"
    assert found.factors["s2"].along.exponent == pytest.approx(-1, abs=0.03)
    assert str(found.along_path.s2) == "K^-1"
    assert not found.factors["s2"].apart


def test_a_wrong_sign_is_noticed(monkeypatch):
    """The test above fails if the finder corrects into the wrong direction."""
    right = Law.remedy
    monkeypatch.setattr(
        Law, "remedy", lambda law, before: right(replace(law, exponent=-law.exponent), before)
    )
    found = search(CLEAN)
    assert found.factors["s1"].along.exponent == pytest.approx(0.5, abs=0.05)
    with pytest.raises(AssertionError):
        assert found.factors["s1"].along.exponent == pytest.approx(-0.5, abs=0.05)


def test_sizes_far_from_one_get_a_constant():
    far = CLEAN | {"Z": ("s1", "s1_0", lambda s: 100 * s.N**0.5)}
    assert search(far).constants == {"s1_0": pytest.approx(0.01, rel=0.05)}


# --- from wrong exponents -------------------------------------------------------------------------

STARTS = {
    ("proportional", "elementwise", "sgd"): "s1=1, s2=1, eta_W=1",
    ("proportional", "elementwise", "adam"): "s1=N^-1, s2=K^-1, eta_W=N^1/2",
    ("proportional", "softmax", "adam"): "s1=N^-1/4, s2=1, eta_W=N^-1/2",
    ("memories-only", "elementwise", "sgd"): "s1=N^-1/2*K^1/4, s2=K^-1/2, eta_W=1",
    ("memories-only", "elementwise", "adam"): "s1=N^-1/2*K^-1/2, s2=1, eta_W=K",
    ("memories-only", "softmax", "adam"): "s1=N^-1/2*K^1/4, s2=N^1/2*K^1/2, eta_W=K^-1/2",
    ("proportional", "elementwise", "muon"): "s1=N^-1, s2=1, eta_W=1",
    ("memories-only", "elementwise", "muon"): "s1=N^-1/2*K^1/4, s2=K^-1/2, eta_W=1",
}
#: Normalised entry by entry like Adam: the same start.
STARTS |= {
    (regime, family, optimizer): start
    for optimizer in ("adamw", "lion", "sign")
    for (regime, family, like), start in STARTS.items()
    if like == "adam"
}


def test_every_prescribed_row_has_a_start():
    growing = {row for row in TABLE if row[0] not in (*FIXED_MODEL, *AS_IN_PROPORTION)}
    assert set(STARTS) == {row for row in growing if row[1:] not in UNPRESCRIBED}


@pytest.mark.parametrize(
    ("optimizer", "start"), [("sgd", "step=1, eta_W=K*T^1/2"), ("adam", "step=1"), ("muon", "step=T^-3/2")]
)
def test_the_finder_recovers_the_power_of_the_steps(optimizer, start):
    found = dam.find_exponents(
        "relu", optimizer, regime="steps-only", scales=(8, 64), seeds=4, updates=2, parameterization=start,
        verify=False,
    )  # fmt: skip
    assert found.letter == "T"
    assert found.start.status == "FAIL"
    assert found.exponents["step"] == pytest.approx(-1, abs=0.05)
    assert found.exponents["eta_W"] == pytest.approx(0, abs=0.1)
    assert found.parameterization.step == dam.Power(T=-1)
    assert found.parameterization.eta_W == prescription("relu", optimizer, "steps-only").eta_W
    assert found.check.status == "PASS", str(found.check)


#: One of each optimizer, family and regime.
FEW = [
    ("proportional", "elementwise", "sgd"),
    ("memories-only", "elementwise", "adam"),
    ("memories-only", "softmax", "adam"),
    ("memories-only", "elementwise", "muon"),
]


@pytest.mark.parametrize(("regime", "family", "optimizer"), sampled(STARTS, FEW))
def test_the_finder_recovers_the_row_from_wrong_exponents(regime, family, optimizer):
    activation = "softmax" if family == "softmax" else "relu"
    found = dam.find_exponents(
        activation, optimizer, regime=regime, scales=SCALES[regime], **SMALL,
        parameterization=STARTS[regime, family, optimizer], verify=False,
    )  # fmt: skip
    right = prescription(activation, optimizer, regime)
    assert found.start.status == "FAIL"
    for name, exponent in found.exponents.items():
        assert exponent == pytest.approx(float(getattr(right, name).along(regime)), abs=0.1), name
    assert found.parameterization.mismatch() == (0, 0, 0)


def test_a_proposal_is_verified_by_a_sweep_of_unseen_seeds():
    found = dam.find_exponents("relu", "adam", scales=(16, 32, 64), seeds=4, updates=1)
    assert found.status == "FOUND", found.reason
    assert found.study.seeds == (4, 5, 6, 7, 8, 9)
    assert found.check.status == "PASS"
    assert found.verdict.status == "TRANSFERS", found.verdict.reason
    assert found.to_json()["verdict"] == "TRANSFERS"


def test_an_executor_measures_and_finds_the_same(tmp_path):
    wrong = {"scales": (8, 16), "updates": 1, "seeds": 2, "parameterization": "s1=N^-1"}
    here = dam.find_exponents("relu", "sgd", **wrong, verify=False)
    with ThreadPoolExecutor(1) as pool:
        there = dam.find_exponents("relu", "sgd", **wrong, verify=False, out=tmp_path, executor=pool)
        again = dam.check("relu", "sgd", **wrong, out=tmp_path, executor=pool)
    assert there.to_json() == here.to_json()
    assert again.to_json() == there.start.to_json() == here.start.to_json()
    (judged,) = check_records(dam.Store(tmp_path).read())  # not the runs that the finder measures
    assert judged.to_json() == here.start.to_json()
    with ThreadPoolExecutor(1) as pool, pytest.raises(dam.InputError, match="out is needed with an executor"):
        dam.check("relu", "sgd", **wrong, executor=pool)


def test_the_finder_wants_many_memories_per_feature():
    with pytest.raises(dam.InputError, match="8 memories per feature"):
        dam.find_exponents("relu", "sgd", regime="memories-only", scales=(64, 128))
