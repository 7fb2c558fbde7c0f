"""The exponent finder: from wrong exponents to the right ones, or to the reason why there are none."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

import denseam as dam
from denseam.analysis.causes import Action, Cause, CheckCause, FindCause, Growth, Next
from denseam.analysis.coordinates.activity import Activity, Family
from denseam.analysis.coordinates.confirmation import confirm, extended, swept
from denseam.analysis.coordinates.expected import Expectation
from denseam.analysis.coordinates.finder import Search, searched_study
from denseam.analysis.coordinates.judge import Conditions, judge
from denseam.analysis.coordinates.ladders import ladders
from denseam.analysis.coordinates.laws import Law
from denseam.analysis.coordinates.of_study import check_records
from denseam.analysis.coordinates.proposal import Proposal
from denseam.analysis.coordinates.slopes import Measurements, slopes
from denseam.rules import prescription, standard
from denseam.rules.table import AS_IN_PROPORTION, FAMILIES, FIXED_MODEL, TABLE
from denseam.studies.rule_files import write_rule
from denseam.studies.store import Store
from docs.found import OF_STEPS, STARTS, own_lagrangians
from tests.table import UNPRESCRIBED

# Every scale is a program to compile.
SCALES = {"proportional": (16, 32, 128), "memories-only": (128, 512, 2048)}
SMALL = {"updates": 2, "seeds": 8}


@pytest.fixture(autouse=True)
def _few_memories(monkeypatch):
    """To measure the family of an activation, which `test_laws` does with as many as users."""
    monkeypatch.setattr("denseam.analysis.coordinates.activity.MEMORIES", (64, 256, 1024))


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


def test_rates_that_move_z_too_much_get_another_unit():
    study = searched_study("relu", "sgd")
    fast = CLEAN | {"dZ_W": ("eta_W", "", lambda s: 50 * study.eta0[0] * s.N**0.5 / s.K)}
    assert search(fast).unit == pytest.approx(1 / 50, rel=0.05)
    usual = CLEAN | {"dZ_W": ("eta_W", "", lambda s: study.eta0[0] * s.N**0.5 / s.K)}
    assert search(usual).unit == 1


# --- from wrong exponents -------------------------------------------------------------------------


def test_every_prescribed_row_has_a_start():
    """Rows of other families are in docs/energies.py."""
    families = ("elementwise", "softmax")
    growing = {row for row in TABLE if row[0] not in (*FIXED_MODEL, *AS_IN_PROPORTION) and row[1] in families}
    assert set(STARTS) == {row for row in growing if row[1:] not in UNPRESCRIBED}


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OF_STEPS)
def test_the_finder_recovers_the_power_of_the_steps(optimizer):
    found = dam.find_exponents(
        "relu", optimizer, regime="steps-only", scales=(8, 16, 64), seeds=4, updates=2,
        parameterization=OF_STEPS[optimizer], verify=False,
    )  # fmt: skip
    assert found.letter == "T"
    assert found.start.status == "FAIL"
    assert found.exponents["step"] == pytest.approx(-1, abs=0.05)
    assert found.exponents["eta_W"] == pytest.approx(0, abs=0.1)
    assert found.parameterization.step == dam.Power(T=-1)
    wanted, taken = prescription("relu", optimizer, "steps-only").eta_W, found.parameterization.eta_W
    assert taken.T == 0
    assert taken.at(found.study.shape(8)) == pytest.approx(wanted.at(found.study.shape(8)))
    assert found.check.status == "PASS", str(found.check)


#: The program finds a row in `test_cli`, and the records of all of them are tested by tests/documents/test_found.py.
@pytest.mark.slow
@pytest.mark.parametrize(("regime", "family", "optimizer"), STARTS)
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
        taken = found.factors[name].along.fraction
        assert taken in (None, getattr(right, name).along(regime)), name


@pytest.mark.slow
def test_a_proposal_is_verified_by_a_sweep_of_unseen_seeds():
    found = dam.find_exponents("relu", "adam", scales=(16, 32, 64), seeds=16, updates=1)
    assert found.status == "FOUND", found.reason
    assert found.study.seeds[:6] == (16, 17, 18, 19, 20, 21)
    assert min(found.study.seeds) == 16  # also those that its verdict asked for
    assert found.check.status == "PASS"
    assert found.verdict.status == "TRANSFERS", found.verdict.reason
    assert found.to_json()["verdict"] == "TRANSFERS"


# --- the sweep that confirms a rule ---------------------------------------------------------------


def test_a_sweep_that_ends_below_the_optimum_is_extended(tmp_path):
    study = dam.Study(activation="relu", optimizer="sgd", scales=(8, 12, 16, 24), eta0=(0.1,), epochs=4)
    first = swept(study, 0.01, range(3))
    assert first.scales == (8, 12, 16)
    assert (first.eta0[0], first.eta0[-1], len(first.eta0)) == (pytest.approx(1e-5), pytest.approx(0.01), 10)
    (before,) = dam.verdict(dam.sweep(first, tmp_path))
    assert before.next.action is Action.EXTEND_GRID
    last, judged = confirm(first, study.scales, Store(tmp_path, remember=True))
    assert last.eta0[:10] == first.eta0
    assert last.eta0[-1] >= 0.0999
    assert judged.cause is not Cause.OPTIMUM_AT_END
    assert len(dam.Store(tmp_path).read()) == len(last.runs())  # what was there is not trained again
    again, same = confirm(first, study.scales, None)  # also without a folder
    assert (again.eta0, same.to_json()) == (last.eta0, judged.to_json())


def test_a_sweep_gets_what_its_verdict_asks_for():
    study = dam.Study(activation="relu", optimizer="sgd", scales=(8, 16, 32, 64), eta0=(0.1,))
    first = swept(study, 1.0, range(12, 18))

    def after(*step, **numbers):
        return extended(first, Next(*step, **numbers), study.scales)

    assert after(Action.ADD_SEEDS, seeds=9).seeds == tuple(range(12, 21))
    assert len(after(Action.ADD_SEEDS, seeds=1000).seeds) == 24
    assert after(Action.ADD_SEEDS, seeds=4) is None
    lower = after(Action.LOWER_GRID, axis="eta0", side="low", value=1e-3)
    assert lower.eta0 == pytest.approx(np.logspace(-4, 0, 13))
    assert after(Action.ADD_SCALE, scale=64).scales == (8, 16, 32, 64)
    assert after(Action.ADD_SCALE, scale=128) is after(Action.TRAIN_LONGER) is None
    assert extended(first, None, study.scales) is None


@pytest.mark.slow
def test_an_executor_measures_and_finds_the_same(tmp_path):
    sizes = {"regime": "memories-only", "features": 2, "samples": 4, "batch": 4, "scales": (16, 24, 32)}
    wrong = sizes | {"updates": 1, "seeds": 2, "parameterization": "s1=K^-1"}
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


def test_a_size_that_is_too_small_to_grow_alone_is_left_out():
    """Half of one sample is one sample; with two equal sizes nothing could be fitted."""
    study = searched_study("relu", "sgd", scales=(2, 3, 4))
    assert study.shape(3).B == 1
    assert set(ladders(study)) == {"N", "K"}


def test_the_finder_wants_more_than_one_feature():
    with pytest.raises(dam.InputError, match="scales must be at least 2 to find exponents, got 1"):
        dam.find_exponents("relu", "sgd", scales=(1, 2, 4), beta=1)


def test_the_finder_wants_many_memories_per_feature():
    with pytest.raises(dam.InputError, match="8 memories per feature"):
        dam.find_exponents("relu", "sgd", regime="memories-only", scales=(64, 128, 256))


@pytest.mark.parametrize("regime", [name for name in FIXED_MODEL if name != "steps-only"])
def test_exponents_are_found_only_where_the_model_or_its_steps_grow(regime):
    with pytest.raises(dam.InputError, match="exponents are found where the model or its steps grow"):
        dam.find_exponents("relu", "sgd", regime=regime, seeds=4, updates=2, features=8, memories=16)


def test_exponents_are_found_with_one_step_of_recall():
    with pytest.raises(dam.InputError, match="exponents are found with one step of recall"):
        dam.find_exponents("relu", "sgd", regime="proportional-steps", updates=2)


# --- any Lagrangian -------------------------------------------------------------------------------


def test_the_standard_parameterization_needs_no_row():
    mine = own_lagrangians()["squareplus"]
    assert mine.family not in FAMILIES.values()
    assert standard(mine, "adam").family == mine.family
    assert searched_study(mine, "adam").rule().name == "standard"
    with pytest.raises(dam.InputError, match="activation must be"):
        standard("gelu", "adam")
    with pytest.raises(dam.InputError, match="activation must be"):
        dam.prescription(mine, "adam")


OWN = {"scales": (128, 512, 2048), "regime": "memories-only", "seeds": 4, "updates": 2, "verify": False}


@pytest.mark.slow
def test_a_family_that_no_row_knows_is_found():
    found = dam.find_exponents(own_lagrangians()["squareplus"], "adam", **OWN)
    assert found.status == "FOUND", found.reason
    assert found.activity.family is Family.ORDER_ONE
    assert (found.parameterization.s2.K, found.parameterization.eta_W.K) == (-1, 0)


@pytest.mark.slow
def test_few_active_memories_have_no_power():
    found = dam.find_exponents(own_lagrangians()["sparsemax"], "adam", **OWN)
    assert found.activity.few
    assert found.activity.family is Family.PER_ACTIVE
    assert (found.status, found.cause) == ("NONE", FindCause.FEW_ACTIVE)
    assert "Few memories are active" in found.reason
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["cause"] == "few-active"
    assert document["left"]


# --- what follows from a proposal -----------------------------------------------------------------


@pytest.fixture(scope="module")
def holding():
    """A proposal that holds, from made-up sizes; its parts are replaced below."""
    study = searched_study("relu", "sgd", regime="memories-only", parameterization="s1=N^-1/2, s2=1, eta_W=1")
    found = Search(study, made_up(MIXED))
    rule = found.run()
    sizes = {"F": np.ones((1, 3, 4)), "Z": np.ones((1, 3, 4))}
    measured = Measurements((0,), (128, 256, 512), sizes)
    check = judge(measured, slopes(measured, {"F": Expectation(0.0, "stability")}), Conditions("made up"))
    sigma, active = (Law(e, (e - 0.03, e + 0.03), Growth.POWER, (256, 4096)) for e in (0.0, 1.0))
    activity = Activity({1.0: sigma}, {1.0: active}, {1.0: 0.3})
    swept = replace(study, parameterization=rule, probes=(), probe_steps=None, name="")
    return Proposal(swept, found.factors, found.constants, found.unit, rule, activity, check, check, None)


def with_law(proposal, **changes):
    """The proposal with another law of s2."""
    s2 = proposal.factors["s2"]
    law = replace(s2.along, **changes)
    return replace(proposal, factors=dict(proposal.factors) | {"s2": replace(s2, along=law)})


def test_each_cause_follows_from_the_numbers(holding):
    fails = failing(holding.check)
    unsure = replace(holding.check, status="INCONCLUSIVE")
    few = activity_of_few(holding.activity)
    cases = {
        FindCause.HOLDS: holding,
        FindCause.NOISE: with_law(holding, interval=(-2.0, 0.0)),
        FindCause.NO_POWER: with_law(holding, growth=Growth.LOGARITHM),
        FindCause.TERMS_LEFT: replace(holding, check=fails),
        FindCause.CHECK_UNDECIDED: replace(holding, check=unsure),
        FindCause.FEW_ACTIVE: replace(holding, check=fails, activity=few),
        FindCause.NO_TRANSFER: replace(holding, verdict=Judged("DRIFTS")),
        FindCause.SWEEP_UNDECIDED: replace(holding, verdict=Judged("INCONCLUSIVE")),
    }
    assert set(cases) == set(FindCause)
    for cause, proposal in cases.items():
        assert proposal.cause is cause
        assert proposal.status == cause.status
        assert proposal.reason.endswith("."), proposal.reason
    assert "log K" in cases[FindCause.NO_POWER].reason
    assert "F still grows with K" in cases[FindCause.TERMS_LEFT].reason
    assert json.loads(json.dumps(cases[FindCause.TERMS_LEFT].to_json()))["left"][0]["name"] == "F"
    assert replace(holding, activity=few).cause is FindCause.HOLDS, "few active memories may do"


class Judged(NamedTuple):
    """What a proposal reads of a verdict."""

    status: str
    reason: str = "The optimum moves."


def failing(check):
    """The check with one term that grows."""
    slope = replace(check.slopes[0], slope=0.4, ok=False)
    return replace(check, status="FAIL", cause=CheckCause.UNKNOWN, culprit=slope, slopes=[slope])


def activity_of_few(activity):
    return replace(activity, active={s: replace(law, exponent=0.05) for s, law in activity.active.items()})


def test_a_rule_is_written_and_read_by_a_study(holding, tmp_path):
    path = tmp_path / "rule.json"
    write_rule(path, holding.parameterization)
    study = dam.Study("relu", "sgd", (256, 512), (0.01,), holding.study.regime, parameterization=str(path))
    assert study.rule() == holding.parameterization
    assert study.name == "relu-sgd-memories-only-found"
    with pytest.raises(dam.InputError, match="parameterization is for elementwise, sgd, memories-only"):
        dam.Study("relu", "adam", (256, 512), (0.01,), holding.study.regime, parameterization=str(path))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.json", None, "none.json: No such file"),
        ("bad.json", b"{", "bad.json: not JSON"),
        ("list.json", b"[]", "list.json: not a document"),
        ("empty.json", b"{}", "empty.json: .*s1"),
        ("key.json", b'{"s3": {}}', "key.json: .*s3 is unknown"),
        ("bad.toml", b"= 1", "bad.toml: not TOML"),
    ],
)
def test_a_bad_rule_file_is_refused(name, content, words, tmp_path):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(dam.InputError, match=words):
        dam.Study("relu", "sgd", (16, 32), (0.01,), parameterization=str(path))


def test_a_rule_file_may_be_toml(holding, tmp_path):
    document = holding.parameterization.to_json()
    lines = [f"{k} = {json.dumps(v)}" for k, v in document.items() if not isinstance(v, dict)]
    lines += [
        f"{k} = {{{', '.join(f'{n} = {json.dumps(e)}' for n, e in v.items())}}}"
        for k, v in document.items()
        if isinstance(v, dict)
    ]
    path = tmp_path / "rule.toml"
    path.write_text("\n".join(lines))
    study = dam.Study("relu", "sgd", (256, 512), (0.01,), holding.study.regime, parameterization=str(path))
    assert study.rule() == holding.parameterization
