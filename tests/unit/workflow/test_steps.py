"""Steps of recall and hidden features, from a target to its recall."""

import dataclasses

import numpy as np
import pytest

import denseam as dam
from denseam.cli.text import print_trained
from denseam.workflow.goals import goal, target_study


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    study = target_study("isotropic", features=16, steps=3, tau=0.9, hide=0.5, epochs=2)
    return dam.train_target(dam.Recipe(study, 0.02), tmp_path_factory.mktemp("steps"))


def test_the_memory_keeps_the_steps_of_its_training(trained):
    memory = trained.memory
    assert (memory.model.steps.T, memory.model.steps.size) == (3, pytest.approx(0.3))
    x = np.random.default_rng(0).standard_normal((4, 16))
    (recalled,) = memory.recall(x, noise=0.5, known=np.arange(16) < 8)
    assert recalled.errors.shape == (4,)
    assert np.array_equal(recalled.state[:, :8], recalled.clean[:, :8])
    (longer,) = memory.recall(x, steps=7, damping=1.0)
    assert longer.errors.shape == (8,)
    assert longer.largest_rise <= 1e-5


def test_the_next_command_takes_the_steps_of_the_training(trained, capsys):
    print_trained(trained, "runs/x", [])
    assert "INPUT --noise 0.5 --out recalled" in capsys.readouterr().out
    print_trained(dataclasses.replace(trained, recalls=False), "runs/x", [])
    assert "INPUT --noise 0.5 --steps 3 --out recalled" in capsys.readouterr().out


def test_a_memory_of_one_update_recalls_as_before(tmp_path):
    model = dam.DenseAM.create(dam.prescription("relu", "adam").at(dam.Shape(8, 16), 0.1), dam.relu())
    memory = dam.Memory(model, None, 0.5)
    _, document = model.to_document()
    assert "steps" not in document
    assert dam.Memory.load(memory.save(tmp_path / "m.safetensors")).model.steps is None
    (recalled,) = memory.recall(np.ones((2, 8)))
    assert recalled.errors.shape == (11,)


def test_the_steps_can_be_what_grows_towards_a_target():
    along = goal("isotropic", features=32, regime="steps-only", steps=16)
    assert (along.study.regime, along.target) == (dam.StepsOnly(32, 64, 160, 16), 16)
    assert along.ladder[-1] == 8
    together = goal("isotropic", features=128, regime="proportional-steps", steps=8)
    assert together.study.regime.theta == pytest.approx(1 / 16)
    assert together.shape.T == 8
    with pytest.raises(dam.InputError, match="steps is needed"):
        goal("isotropic", features=128, regime="proportional-steps")
    fixed = goal("isotropic", features=128, steps=4)
    assert {fixed.study.shape(scale).T for scale in (*fixed.ladder, 128)} == {4}


def test_damaged_steps_are_refused_and_old_scales_are_read(tmp_path):
    shape = dam.Shape(8, 16, T=2)
    scales = dam.prescription("relu", "adam").at(shape, 0.1)
    model = dam.DenseAM.create(scales, dam.relu())
    tensors, document = model.to_document()
    tensors = {name: np.asarray(tensor) for name, tensor in tensors.items()}
    for steps, words in (
        ({"number": 0, "size": 0.5}, "number must be"),
        ({"number": 2, "size": "x"}, "size must be"),
        ([2], "steps"),
    ):
        with pytest.raises(dam.InputError, match=words):
            dam.DenseAM.from_document(tensors, document | {"steps": steps}, "m.safetensors")
    old = dam.prescription("relu", "adam").at(dam.Shape(8, 16), 0.1).to_json()
    del old["step"], old["constants"]["tau"], old["rule"]["step"]
    assert dam.Scales.from_json(old).step == 1
