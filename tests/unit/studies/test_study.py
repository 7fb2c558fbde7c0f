import dataclasses
import math
from dataclasses import replace

import numpy as np
import pytest

import denseam as dam
from denseam.data import Preparation
from denseam.ground.errors import InputError
from denseam.rules import schedules
from denseam.rules.fields import MOST_VALUES, grid_values, logspace
from denseam.studies import keys
from denseam.studies.description import AXES
from denseam.studies.documents import from_document, from_file, to_document
from denseam.studies.study import Study, lagrangian_of
from denseam.training.quantities import THROUGH

BASE = Study("relu", "sgd", (16, 32), (0.01, 0.1), seeds=2, epochs=2)


def test_runs_are_the_grid_of_scales_axes_and_seeds():
    study = replace(BASE, axes={"s2_0": (0.5, 1.0, 2.0)})
    runs = study.runs()
    assert len(runs) == 2 * 2 * 3 * 2
    assert len({run.key for run in runs}) == len(runs)
    assert study.swept == ("eta0", "s2_0")
    assert runs[0].shape == dam.Shape(16, 32, 80, 8)
    assert set(runs[0].values) == set(AXES)


CHANGES = {
    "activation": {"activation": "tanh"},
    "power": {"activation": dam.relu(2)},
    "optimizer": {"optimizer": "adam"},
    "regime": {"regime": dam.Proportional(2, 5, 0.2)},
    "epochs": {"epochs": 3},
    "noise": {"axes": {"noise": (0.4,)}},
    "data": {"data": "anisotropic"},
    "centred": {"centred": False},
    "bias_init": {"bias_init": "normal"},
    "parameterization": {"parameterization": "standard"},
    "precision": {"precision": "float64"},
    "schedule": {"schedule": "cosine"},
    "axis": {"axes": {"s1_0": (0.9,)}},
    "seeds": {"seeds": (5, 6)},
    "eta0": {"eta0": (0.02, 0.2)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_a_result_changes_every_key(change):
    changed = replace(BASE, **CHANGES[change], **({} if change == "centred" else {"centred": None}))
    assert not {r.key for r in BASE.runs()} & {r.key for r in changed.runs()}


def test_the_epochs_of_a_run_are_in_its_key_as_a_setting_or_as_a_size():
    regime = dam.Epochs(16, 32, 80, 8)
    study = replace(BASE, regime=regime, scales=(2, 4), epochs=9)
    assert [study.updates(regime.shape(scale)) for scale in study.scales] == [20, 40]
    assert len({r.key for r in study.runs()}) == len(study.runs())
    assert replace(study, epochs=3) == study, "its scales are the epochs"
    assert {r.key for r in study.runs()} < {r.key for r in replace(study, scales=(2, 3, 4)).runs()}
    assert replace(study, scales=(2, 3, 4)).id == study.id
    assert "E = 2, 4; 2 eta0; 2 seeds" in study.describe()
    assert "epochs" not in study.describe().partition(":")[2]
    document = to_document(study)
    assert "epochs" not in document
    assert from_document(document) == study
    with pytest.raises(InputError, match="epochs does not belong to the regime 'epochs': give it by scales"):
        from_document(document | {"epochs": 4})


def test_names_and_wider_grids_keep_the_keys():
    wider = replace(BASE, eta0=(0.01, 0.05, 0.1), scales=(16, 32, 64), seeds=3, name="other")
    assert {r.key for r in BASE.runs()} < {r.key for r in wider.runs()}
    assert wider.id == BASE.id


def test_keys_do_not_depend_on_the_path_of_the_data_but_on_its_content(tmp_path):
    rng = np.random.default_rng(0)
    array = rng.standard_normal((60, 8))
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, array)
    np.save(tmp_path / "c.npy", array + 1)
    regime = dam.MemoriesOnly(8, 40, 10)
    keys = [
        {r.key for r in Study("relu", "sgd", (16,), (0.1,), regime, data=str(tmp_path / n)).runs()}
        for n in ("a.npy", "b.npy", "c.npy")
    ]
    assert keys[0] == keys[1]
    assert not keys[0] & keys[2]


def test_grids_are_read_from_text():
    assert grid_values("eta0", "1e-3:1:4") == pytest.approx((1e-3, 1e-2, 1e-1, 1))
    assert grid_values("eta0", "0.1, 0.2") == (0.1, 0.2)
    assert logspace(1e-2, 1, 3) == (0.01, 0.1, 1.0)


def test_a_file_holds_common_keys_and_tables(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        'activation = "relu"\noptimizer = "sgd"\nscales = [16, 32]\neta0 = "1e-2:1:3"\nepochs = 2\n'
        "[axes]\ns2_0 = [0.5, 1.0]\n[[study]]\n[[study]]\nuncentered = true\n"
    )
    centred, uncentred = from_file(path, {"seeds": 5})
    assert (centred.centred, uncentred.centred) == (True, False)
    assert centred.seeds == (0, 1, 2, 3, 4)
    assert centred.axes["s2_0"] == (0.5, 1.0)
    assert uncentred.name == "relu-sgd-uncentred"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: Study("gelu", "adagrad", (32, 16), (), epochs=0, seeds=0, precision="f8", bias_init="one"),
            ["activation", "optimizer", "scales must be in increasing order", "eta0 must not be empty", "epochs", "seeds",
             "precision", "bias_init"],
        ),
        (lambda: replace(BASE, scales=(16, 16)), ["scales must not contain duplicates"]),
        (lambda: replace(BASE, eta0=(0.2, 0.1)), ["eta0 must be in increasing order"]),
        (lambda: replace(BASE, eta0=(-1.0, 0.1)), ["eta0 must be above 0"]),
        (lambda: replace(BASE, eta0=(0.1, math.nan)), ["eta0 must"]),
        (lambda: replace(BASE, regime=dam.Proportional(2, 0.5, 0.1)), ["scale 16: its batch"]),
        (lambda: replace(BASE, regime=dam.BatchOnly(16, 32, 80), scales=(8, 81)), ["scale 81: batch (B) must be at most"]),
        (lambda: replace(BASE, regime=dam.Epochs(16, 32, 80, 8), scales=(0, 4)), ["scales must be whole numbers of at least 1"]),
        (lambda: replace(BASE, regime="batch-only"), ["regime must be one of Proportional(…), MemoriesOnly(…), Batch"]),
        (lambda: replace(BASE, axes={"s3_0": (1.0,)}), ["unknown axis 's3_0' (did you mean"]),
        (lambda: replace(BASE, axes={"beta1": (0.5,)}), ["beta1 belongs to the optimizer 'adam'"]),
        (lambda: replace(BASE, axes={"beta2": (0.5,)}), ["beta2 belongs to the optimizer 'adam', 'adamw', 'lion' or"]),
        (lambda: replace(BASE, optimizer="adam", axes={"decay": (0.1,)}), ["decay belongs to the optimizer 'sgd',"]),
        (lambda: replace(BASE, optimizer="lion", axes={"epsilon": (0.1,)}), ["epsilon belongs to the optimizer"]),
        (
            lambda: replace(BASE, optimizer="adam", nesterov=True, probes=("dW1",)),
            ["nesterov belongs to the optimizer 'sgd', 'sign' or 'muon', got 'adam'", "probe dW1"],
        ),
        (lambda: replace(BASE, nesterov=True), ["nesterov needs a momentum above 0"]),
        (lambda: replace(BASE, nesterov=1), ["nesterov must be true or false"]),
        (
            lambda: replace(BASE, schedule="wsd", axes={"warmup": (0.0, 0.9), "decay_time": (0.001, 1)}),
            ["warmup and cooldown must be at most 1 together", "decay_time must be at least", "shorter"],
        ),
        (
            lambda: replace(BASE, axes={"decay": (0.1,), "decay_time": (1.0,)}),
            ["decay and decay_time are two units of the same number"],
        ),
        (
            lambda: replace(BASE, schedule=dam.Schedule("nothing", "0", lambda t: 0.0)),
            ["schedule nothing starts at zero and never rises"],
        ),
        (lambda: replace(BASE, axes={"beta": (2.0,)}), ["softmax_beta belongs to the activation 'softmax'"]),
        (lambda: replace(BASE, axes={"momentum": (1.0,)}), ["momentum must be at least 0 and below 1"]),
        (lambda: replace(BASE, data="nowhere.npy"), ["data must be 'isotropic'"]),
        (
            lambda: from_document({"activation": "relu", "optimizr": "sgd"}),
            ["did you mean 'optimizer'?", "eta0 is needed"],
        ),
        (
            lambda: from_document(
                {"activation": "relu", "optimizer": "sgd", "scales": 16, "eta0": 1, "regime": "memories-only"}
            ),
            ["features is needed", "samples is needed", "batch is needed"],
        ),
        (
            lambda: from_document(
                {"activation": "relu", "optimizer": "sgd", "scales": "16.5", "eta0": "x:y:z", "kappa": -1}
            ),
            ["scales must be comma-separated whole", "eta0 must be low:high:count", "kappa"],
        ),
        (
            lambda: from_document(
                {"activation": "relu", "optimizer": "sgd", "scales": "16", "eta0": "1", "batch": 3}
            ),
            ["batch does not belong to the regime 'proportional'"],
        ),
        (lambda: logspace(0, 1, 3), ["low and high"]),
        (lambda: grid_values("eta0", range(MOST_VALUES + 1)), [f"eta0 must be at most {MOST_VALUES} values"]),
        (lambda: replace(BASE, axes={"eta0": (0.1,)}), ["axes must not contain eta0: it is a separate argument"]),
        (lambda: replace(BASE, axes=(0.1,)), ["axes must map the names of axes to their values"]),
        (lambda: lagrangian_of(dam.relu(), 2.0), ["power belongs to the name 'relu'; a Lagrangian has its own"]),
    ],
)  # fmt: skip
def test_bad_input_is_named_all_at_once_in_one_line(make, words):
    with pytest.raises(InputError) as caught:
        make()
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_what_an_optimizer_does_by_default_is_not_in_the_key():
    keys = [run.key for run in BASE.runs()]
    assert [run.key for run in replace(BASE, nesterov=False).runs()] == keys
    assert [run.key for run in replace(BASE, axes={"decay": (0.0,)}).runs()] == keys
    heavy = replace(BASE, axes={"momentum": (0.9,)})
    for changed in (replace(heavy, nesterov=True, name=""), replace(BASE, axes={"decay": (0.1,)}, name="")):
        assert not {run.key for run in changed.runs()} & {run.key for run in (*BASE.runs(), *heavy.runs())}
    muon = replace(BASE, optimizer="muon", name="")
    assert replace(muon, nesterov=True).runs() == muon.runs()
    assert muon.grid["momentum"] == (0.95,)
    assert replace(muon, optimizer="lion").grid["beta2"] == (0.99,)
    assert replace(muon, nesterov=False, name="").name.endswith("-heavy-ball")


def test_schedules_and_decay_times_change_keys_exactly_where_they_change_results():
    keys = [run.key for run in BASE.runs()]
    for same in ({"schedule": "constant"}, {"axes": {"warmup": (0.0,)}}):
        assert [run.key for run in replace(BASE, **same).runs()] == keys
    slow = dam.Schedule("mine", "t", lambda t: t)
    # The same at the fractions by which a study recognises a function, but not at all steps.
    fast = dam.Schedule("mine", "t", lambda t: t if round(t * 2000) % 2 else 1 - t)
    changed = [
        {"schedule": "cosine"}, {"schedule": "linear"}, {"schedule": "wsd"},
        {"schedule": "wsd", "axes": {"cooldown": (0.5,)}}, {"axes": {"warmup": (0.1,)}},
        {"axes": {"decay_time": (2.0,)}}, {"axes": {"decay_time": (3.0,)}},
        {"schedule": slow}, {"schedule": fast},
    ]  # fmt: skip
    every = [run.key for change in changed for run in replace(BASE, **change, name="").runs()] + keys
    assert len(set(every)) == len(every)
    again = dam.Schedule("mine", "t", lambda t: 1.0 * t)
    assert [r.key for r in replace(BASE, schedule=again).runs()] == [
        r.key for r in replace(BASE, schedule=slow).runs()
    ]
    assert len({replace(BASE, **change, name="").id for change in changed}) == 5  # axes are not in the id


def test_a_schedule_of_ones_own_is_written_by_its_name_and_needs_to_be_registered(monkeypatch):
    monkeypatch.setattr(schedules, "_REGISTERED", {})
    mine = dam.register_schedule(lambda t: 1 - t * t, name="mine")
    study = replace(BASE, schedule=mine, name="")
    assert replace(BASE, schedule="mine").schedule is mine  # so that it travels to other processes
    assert study.name.endswith("-mine")
    document = to_document(study)
    assert document["schedule"] == "mine"
    assert [r.key for r in from_document(document).runs()] == [r.key for r in study.runs()]
    schedules._REGISTERED.clear()
    with pytest.raises(InputError, match=r"schedule must be .*register_schedule, got 'mine'"):
        from_document(document)


def test_a_decay_time_takes_the_place_of_the_decay():
    study = replace(BASE, optimizer="adamw", axes={"decay_time": (1.0, 2.0)}, name="")
    assert study.decays
    assert {(r.values["decay"], r.values["decay_time"]) for r in study.runs()} == {(None, 1.0), (None, 2.0)}
    assert replace(BASE, optimizer="adamw", name="").runs()[0].values["decay"] == 1e-4
    assert BASE.runs()[0].values["decay_time"] is None
    with pytest.raises(InputError, match="probe dW1"):
        replace(BASE, axes={"decay_time": (1.0,)}, probes=("dW1",))


def test_a_factor_on_a_decay_that_no_run_has_is_not_in_the_key():
    by_hand = replace(BASE, parameterization="s2=K^-1", name="")
    assert by_hand.settings()["parameterization"]["decay_W"] == {}
    decaying = replace(by_hand, axes={"decay": (0.1,)})
    assert decaying.settings()["parameterization"]["decay_W"] == {"K": "-1"}


def test_more_samples_than_there_are_are_refused(tmp_path):
    np.save(tmp_path / "d.npy", np.random.default_rng(0).standard_normal((20, 8)))
    with pytest.raises(
        InputError, match=r"has 18 samples to train on \(2 more are held out\), .* asks for 40"
    ):
        Study("relu", "sgd", (16,), (0.1,), dam.MemoriesOnly(8, 40, 10), data=str(tmp_path / "d.npy"))
    with pytest.raises(InputError, match="has only 8 features"):
        Study("relu", "sgd", (16,), (0.1,), dam.MemoriesOnly(9, 10, 10), data=str(tmp_path / "d.npy"))
    bad = tmp_path / "bad.toml"
    bad.write_text("activation = ")
    for path in (bad, tmp_path / "none.toml"):
        with pytest.raises(InputError, match=path.name):
            from_file(path)


def test_probes_are_resolved_checked_and_part_of_the_keys_only_where_asked_for():
    base = Study("relu", "sgd", (16, 32), (0.01,), seeds=1, epochs=32)
    probed = replace(base, probes=("spectra", "dZ1"))
    assert "lambda_max" in probed.probes
    assert "dZ1" in probed.probes
    assert probed.steps_to_probe(probed.regime.shape(16)) == (0, 256)
    assert base.steps_to_probe(base.regime.shape(16)) == ()
    assert {s.key for s in base.runs()}.isdisjoint(s.key for s in probed.runs())
    for change, words in (
        ({"probes": ("K_eff",)}, "probe K_eff .*needs an activation that sums to one"),
        ({"probes": ("everything",)}, "probes must be 'all'"),
        ({"probe_steps": (0, 1)}, "say what to measure"),
        ({"probes": ("Z",), "probe_steps": (3, 1)}, "probe_steps must be in increasing order"),
        ({"probes": ("Z",), "probe_steps": (0, 320)}, "probe_steps must be at most 319"),
        ({"probes": ("dF11",), "axes": {"momentum": (0.5,)}}, "without momentum"),
    ):
        with pytest.raises(InputError, match=words):
            replace(base, **change)


def test_a_parameterization_of_ones_own():
    base = Study("relu", "adam", (16, 32), (0.01,), seeds=1)
    text = replace(base, parameterization="s2=K^-1, eta_W=N^1/2", name="")
    rule = text.rule()
    assert (str(rule.s1), str(rule.s2), str(rule.eta_W)) == ("N^-1/2", "K^-1", "N^1/2")
    assert not rule.prescribed
    assert text.name == "relu-adam-s2=K^-1, eta_W=N^1/2"
    as_object = replace(base, parameterization=rule, name="")
    assert [s.key for s in as_object.runs()] == [s.key for s in text.runs()]
    assert {s.key for s in base.runs()}.isdisjoint(s.key for s in text.runs())
    with pytest.raises(InputError, match="parameterization is for elementwise, adam"):
        replace(base, optimizer="sgd", parameterization=rule)
    for wrong in ("s3=K", "s2", "s2=M^2", "mup"):
        with pytest.raises(InputError, match=r"parameterization must be|must be a product of powers"):
            replace(base, parameterization=wrong)


# --- steps of recall ---------------------------------------------------------------------------------


def test_steps_of_recall_are_in_the_shape_and_only_then_in_the_key():
    plain = Study("relu", "adam", (16,), (0.1,))
    keys = {
        name: dataclasses.replace(plain, **changes, name="").runs()[0].key
        for name, changes in {
            "one": {"steps": 1, "axes": {"tau": (1.0,), "early": (0.0,), "burn_in": (0.0,)}},
            "four": {"steps": 4},
            "half": {"axes": {"tau": (0.5,)}},
            "early": {"steps": 4, "axes": {"early": (0.5,)}},
            "burn-in": {"steps": 4, "axes": {"burn_in": (2.0,)}},
            "allowed": {"steps": 4, "overshoot": True},
            "hidden": {"hide": 0.5},
            "a block hidden": {"hide": 0.5, "hide_by": "block"},
        }.items()
    }
    assert keys["one"] == plain.runs()[0].key
    assert keys["allowed"] == keys["four"]
    assert len({*keys.values()}) == 7
    four = dataclasses.replace(plain, steps=4, name="")
    assert four.name == "relu-adam-4-steps"
    assert four.runs()[0].shape.T == four.shape(16).T == 4
    assert four.updates(four.shape(16)) == plain.updates(plain.shape(16))
    assert four.operations(four.shape(16)) == pytest.approx(4.6 * plain.operations(plain.shape(16)))
    burnt_in = dataclasses.replace(four, axes={"burn_in": (1.0, 2.0)}, name="")
    assert burnt_in.operations(four.shape(16)) == pytest.approx(7.8 * plain.operations(plain.shape(16)))
    growing = Study("relu", "adam", (1, 4), (0.1,), regime=dam.StepsOnly(16, 32, 80, 8), steps=9)
    assert [spec.shape.T for spec in growing.runs()[::3]] == [1, 4]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"axes": {"tau": (0.0,)}}, "tau must be above 0 and finite"),
        ({"axes": {"tau": (1.0, 1.5)}}, "tau/T must be at most 1, or a step can raise the energy, got 1.5/1"),
        ({"axes": {"early": (0.5,)}}, "early needs at least 2 steps"),
        ({"hide": 0.01}, "hide must leave some features and hide some, got 0 of 16"),
        ({"hide": 0.99}, "hide must leave some features and hide some, got 16 of 16"),
        ({"hide": 1.0}, "hide must be at least 0 and below 1"),
        ({"hide_by": "block"}, "hide_by needs hide"),
        ({"steps": 2, "probes": ("dF11",), "optimizer": "sgd"}, "probe dF11 .* needs one step of recall"),
    ],
)
def test_bad_steps_of_recall_are_refused(changes, words):
    with pytest.raises(dam.InputError, match=words):
        Study(**{"activation": "relu", "optimizer": "adam", "scales": (16,), "eta0": (0.1,)} | changes)


def test_only_features_that_are_not_mixed_can_be_hidden(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((300, 16)))
    plain = Study("relu", "adam", (16,), (0.1,), data=str(tmp_path / "x.npy"))
    for shrink in (None, "pca", "orthonormal"):
        kind = shrink or "rotated"
        with pytest.raises(dam.InputError, match=f"hide: data .*x.npy is seen in {kind} projections"):
            dataclasses.replace(plain, hide=0.5, preparation=Preparation(shrink=shrink), name="")
    assert dataclasses.replace(plain, hide=0.5, preparation=Preparation(shrink="none"), name="").hide == 0.5


def test_a_step_above_one_is_allowed_where_it_is_asked_for():
    assert Study("relu", "adam", (16,), (0.1,), axes={"tau": (1.5,)}, overshoot=True)
    assert Study("relu", "adam", (16,), (0.1,), steps=2, axes={"tau": (1.5,)})
    # Groups of probes keep what holds through several steps.
    probed = Study("relu", "sgd", (16,), (0.1,), steps=2, probes=("all",))
    assert set(probed.probes) < {*THROUGH}


@pytest.mark.parametrize("same", [{"a": 1, "shape": {"N": 3}}, {"a": "ü", "width": 2.0, "zero": None}])
def test_keys_of_many_documents_are_those_of_each(same):
    values = [{"eta0": 0.1, "s2_0": 1.0}, {"eta0": 1e-7}, {}]
    expected = [keys.digest({**same, "seed": 5, "values": each}) for each in values]
    assert keys.Documents(same, values).digests(5) == expected


def test_the_count_of_runs_is_known_without_them():
    study = Study("relu", "sgd", (16, 32), (0.1, 0.2, 0.3), seeds=4, axes={"s2_0": (0.5, 1.0)})
    assert study.count == len(study.runs()) == 48
