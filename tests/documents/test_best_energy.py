"""The comparison of energies: at equal operations, from its records alone, and not above what is possible."""

import json
import math

import numpy as np
import pytest

from denseam.rules.activations import read_activation
from denseam.rules.table import FAMILIES
from denseam.studies.records import settings_of
from denseam.studies.store import Store
from docs import best_energy, capacities, recorded
from tests import ROOT

PAGE = (ROOT / "docs" / "best-energy.md").read_text(encoding="utf-8")
CASE = best_energy.Case("relu", "adam", "Gaussians", "training")


@pytest.fixture
def experiment(tmp_path):
    return best_energy.Experiment(best_energy.SIZES["laptop"], tmp_path, tmp_path, math.inf)


def test_every_registered_activation_is_compared():
    compared = {read_activation(a).name for a in best_energy.ACTIVATIONS}
    assert compared | set(best_energy.LEFT_OUT) == set(FAMILIES)
    cases = [case for group in best_energy.groups() for case in group]
    assert len(cases) == len(set(cases)) == 240
    assert {c.optimizer for c in cases if c.activation == "relu"} == {"adam", "sgd", "muon"}
    assert {c.optimizer for c in cases if c.activation == "softmax"} == {"adam"}


def test_all_optimizers_take_the_operations_of_adam(experiment):
    operations = {
        name: (study := experiment.goal(CASE._replace(optimizer=name)).study).operations(study.shape(100))
        for name in best_energy.OPTIMIZERS
    }
    assert operations["sgd"] == operations["adam"]
    assert operations["muon"] == pytest.approx(operations["adam"], rel=0.2)


# --- the records ---------------------------------------------------------------------------------


def tuned_and_trained(experiment, losses):
    """Make up a tuning of one case, and its runs at the three rates of the target."""
    tuned = experiment.tuned(CASE)
    tuned.parent.mkdir(parents=True)
    others = {"eta0": {"value": 0.1}, "s1_0": {"value": 1.0}, "s2_0": {"value": 2.0}}
    document = {"others": others, "regret_bound": 0.02, "recommended": True, "cost": {"tuning": 1e9}}
    tuned.write_text(json.dumps(document))
    study = experiment.study(CASE, experiment.values(CASE))
    assert (study.grid["s2_0"], study.seeds) == ((2.0,), best_energy.JUDGES)
    by_rate = dict(zip(study.eta0, losses, strict=True))
    ends = {"status": "finished", "final_mse": math.nan, "heldout_mse": 0.9, "loss": [1.0, 0.5]}
    rows = [
        settings_of(study, spec) | ends | {"final_mse": by_rate[spec.values["eta0"]]} for spec in study.runs()
    ]
    (experiment.runs / "target" / "shards").mkdir(parents=True)
    Store(experiment.runs / "target").write(rows)


def test_the_page_has_the_loss_of_the_tuned_rate(monkeypatch, tmp_path, experiment):
    tuned_and_trained(experiment, (0.4, 0.303, 0.3))
    monkeypatch.setattr(best_energy, "HOME", tmp_path / "kept")
    assert experiment.keep(tmp_path / "kept" / "laptop") == 1
    best_energy.entries.cache_clear()
    text = best_energy.table("laptop")
    (entry,) = best_energy.entries("laptop").values()
    best_energy.entries.cache_clear()
    assert "| `relu` | 0.303 (adam) | not run |" in text
    assert best_energy._cell(dict.fromkeys(best_energy.ACTIVATIONS, entry), "relu") == "**0.303** (adam)"
    assert entry.regret == pytest.approx(0.01)
    assert "costs 1.0 % in the median" in text
    assert "in 1 cases, and its bound held in 1 of these" in text
    assert f"{entry.document['operations']['run'] * 9 + 1e9:.1e} operations" in text


def test_a_case_that_is_not_complete_is_not_kept(tmp_path, experiment):
    tuned_and_trained(experiment, (0.4, 0.303, 0.3))
    for shard in (experiment.runs / "target" / "shards").iterdir():
        shard.unlink()
    assert experiment.keep(tmp_path / "kept") == 0
    assert not (tmp_path / "kept").exists()


def test_a_page_without_records_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(best_energy, "HOME", tmp_path)
    monkeypatch.setattr(capacities, "KEPT", tmp_path / "none.json")
    best_energy.entries.cache_clear()
    text = best_energy.table("laptop")
    best_energy.entries.cache_clear()
    assert text.count("| not run") == 8 * len(best_energy.ACTIVATIONS)
    assert text.count("not decided, since runs are missing") == 2
    assert "Run: none of 240 cases." in text


# --- capacity ------------------------------------------------------------------------------------


def by_hand(activation, K, beta, theta):
    """The share of recalled cues from the equations alone, in float64."""
    sigma = {
        "relu": lambda h: np.maximum(h, 0),
        "softmax": lambda h: np.exp(h - h.max()) / np.exp(h - h.max()).sum(),
    }[activation]
    shares = []
    for seed in range(capacities.SETS):
        patterns, cues = capacities._patterns(K, seed)
        W, hits = patterns.astype(float), 0
        for own, cue in zip(W, cues, strict=False):
            x = cue.astype(float)
            for _ in range(capacities.STEPS):
                x = np.sign(W.T @ sigma(beta * (W @ x / capacities.N - theta)))
            hits += np.array_equal(x, own)
        shares.append(hits / len(cues))
    return np.mean(shares)


@pytest.mark.parametrize(("activation", "theta"), [("relu", 0.0), ("relu", 0.4), ("softmax", 0.0)])
def test_recalled_cues_are_those_of_the_equations(activation, theta):
    expected = by_hand(activation, 64, 16.0, theta)
    assert capacities.recalled_share(activation, 64, 16.0, theta) == pytest.approx(expected, abs=0.02)


def test_a_capacity_lies_between_the_last_two_sizes(monkeypatch):
    shares = {4: 1.0, 8: 0.75, 16: 0.25, 32: 0.0}
    monkeypatch.setattr(capacities, "recalled_share", lambda _, K, beta, theta: shares[K] if theta else 0.0)
    assert capacities.crossing("relu", (1.0, 0.4)) == pytest.approx(2**3.5)
    assert capacities.half("relu") == {"plain": None, "biased": pytest.approx(2**3.5)}


def test_a_common_bias_matters_unless_activations_sum_to_one():
    every = {name: len(capacities.thresholds(name)) for name in best_energy.ACTIVATIONS}
    assert {name for name, count in every.items() if count > 1} == {
        "identity", "relu", "relu(2)", "relu(3)", "tanh", "sigmoid", "softplus", "polynomial", "exp", "ghostmax"
    }  # fmt: skip
    shares = [capacities.recalled_share("entmax(1.5)", 64, 64.0, theta) for theta in (0.0, 0.4)]
    assert shares[0] == shares[1] > 0.5


def test_no_energy_stores_more_than_the_nearest_pattern():
    for name, halves in capacities.kept().halves.items():
        for kind, K in halves.items():
            assert K is None or 1.15 * capacities.limit() >= K, f"{name}, {kind}"
    assert f"{round(capacities.limit(), -3):,.0f} patterns" in PAGE


def test_the_page_is_right_about_thresholds():
    halves = capacities.kept().halves
    assert all(
        halves[name]["biased"] > 30 * halves[name]["plain"]
        for name in ("relu", "relu(2)", "relu(3)", "softplus")
    )
    assert all(
        halves[name]["plain"] > 0.9 * capacities.limit() for name in ("softmax", "ghostmax", "topshare")
    )


def test_the_page_is_right_about_what_is_best():
    def best(by):
        columns = [best_energy.column("laptop", data, by) for data in ("Gaussians", "digits", "clothes")]
        return [min(c, key=lambda name: c[name].tuned.loss if c[name].tuned else math.inf) for c in columns]

    assert best("training") == ["sigmoid", "entmax(1.5)", "entmax(1.5)"]
    assert set(best("heldout")) == {"relative-entmax(1.5)", "relative-normmax(2)"}
    every = best_energy.entries("laptop").values()
    assert len(every) == 240
    assert sum(e.document["recommended"] for e in every) < 0.1 * len(every)
    assert sum(math.isinf(e.regret) for e in every) > len(every) / 20


@pytest.mark.parametrize("size", best_energy.SIZES)
def test_the_page_shows_every_size(size):
    assert f"_generated/best-energy-{size}.md" in PAGE
    assert f"best-energy-{size}.md" in recorded.FRAGMENTS
    of = best_energy.SIZES[size]
    sizes = f"{of.scales[0]}, {of.scales[1]} and {of.scales[2]}"
    assert f"At N = {of.features}**, tuned at {sizes}; {of.epochs} epochs of Adam" in PAGE
