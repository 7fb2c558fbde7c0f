"""A memory with its data as a folder for the hub, and what its card says about the training."""

import json

import pytest

import denseam as dam
from denseam.workflow.publishing import training_facts

TRAINING = {
    "version": "0.1.0", "study": {"activation": "relu", "optimizer": "adam", "data": "d.npy"}, "status": "finished",
    "eta0": 0.0699, "eta0_from": "tuned", "regret_bound": 0.0123, "final_mse": 0.34, "heldout_mse": None,
    "zero_mse": 1.0,
}  # fmt: skip
TUNING = {
    "status": "TRANSFERS", "recommended": True, "data": "d.npy, rotated", "tolerance": 0.02, "scales": [8, 16, 32],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "tuned" / "target"
    made.mkdir(parents=True)
    write(made, TRAINING)
    (made.parent / "tuned.json").write_text(json.dumps(TUNING))
    return made


def write(folder, document):
    (folder / "training.json").write_text(json.dumps(document))


def test_the_facts_are_those_of_training_and_tuning(folder):
    facts = training_facts(folder)
    assert facts["data"] == "d.npy, rotated"
    assert facts["optimizer"] == "adam, η0 = 0.0699 (tuned)"
    assert facts["verdict"] == "TRANSFERS, recommended; tuned at sizes 8, 16, 32"
    assert facts["regret bound"] == "at most 1.2 % above the loss of the best η0"
    assert facts["mean squared error"] == "training 0.34, predicting zero 1"
    assert facts == training_facts(folder, folder.parent)


def test_without_a_tuning_nothing_is_claimed(folder):
    write(folder, TRAINING | {"eta0_from": "given", "regret_bound": None})
    facts = training_facts(folder)
    assert (facts["verdict"], facts["regret bound"]) == ("none: no search is known", "none")
    assert facts["data"] == "d.npy"


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda folder: (folder / "training.json").unlink(), "has no training.json; give a folder of denseam train"),
        (lambda folder: write(folder, TRAINING | {"eta0": "high"}), "eta0 must be above 0, got 'high'"),
    ],
)  # fmt: skip
def test_other_folders_are_refused(folder, spoil, problem):
    spoil(folder)
    with pytest.raises(dam.InputError) as refused:
        training_facts(folder)
    assert str(refused.value) == f"trained {folder}: {problem}"


def test_a_tuning_that_is_named_must_be_one(folder, tmp_path):
    with pytest.raises(
        dam.InputError, match=r"^tuned .*: has no tuned\.json; give a folder of denseam tune$"
    ):
        training_facts(folder, tmp_path)
