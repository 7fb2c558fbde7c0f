"""What commands say, and draw, where things go wrong."""

from types import SimpleNamespace

import numpy as np
import pytest

from denseam.analysis.prediction import Expected
from denseam.cli import program, text
from denseam.report.plots import draw_training
from denseam.studies.store import Store
from denseam.workflow.recipe import Origin
from denseam.workflow.target import Trained
from tests.program import refused


def trained(**changes):
    loss = np.array([0.9, 0.5, 0.4])
    facts = {
        "status": "finished", "diverged_at": None, "eta0": 0.1, "eta0_from": Origin.TUNED, "tuned_eta0": 0.1,
        "regret_bound": None, "loss": loss, "initial_mse": 1.1, "zero_mse": 1.0, "heldout_mse": None, "left_at": None,
        "left_side": "", "expected": Expected(0.9 * loss, loss, 1.1 * loss), "seconds": 1.0, "operations": 1e9,
        "noise": 0.5, "float64": False, "files": (),
    }  # fmt: skip
    return Trained(**facts | changes)


ENDS = {
    "diverged": (
        trained(status="diverged", diverged_at=7, loss=np.array([0.9, 2.0, np.inf])),
        "diverged at step 7; no model was written",
    ),
    "diverged at once": (
        trained(status="diverged", diverged_at=0, loss=np.full(3, np.inf), expected=None),
        "diverged at step 0; no model was written",
    ),
    "left the range": (
        trained(left_at=2, left_side="above"),
        "the loss left the range predicted by the small models after epoch 2 (above)",
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_how_a_training_ended_is_said_and_drawn(case, tmp_path, capsys):
    ended, said = ENDS[case]
    text.print_trained(ended, "out", [])
    assert said in capsys.readouterr().out
    assert all(file.stat().st_size for file in draw_training(ended, tmp_path))


def tuned(**changes):
    made = {
        "value": 0.1, "x": -1.0, "regret_bound": np.inf, "predicted_regret": 0.01, "interval": (0.08, 0.12),
        "at_edge": False, "setting": SimpleNamespace(by="training"),
        "entry": SimpleNamespace(limits=(0.1,), families=12),
    }  # fmt: skip
    found = {
        "goal": SimpleNamespace(letter="N", target=256), "tolerance": 0.02, "constants": {}, "whole": None,
        "recommended": False, "scales": {32: 3, 64: 1}, "drift_corrected": False,
        "profiles": {64: SimpleNamespace(optimum=-1.25)},
    }  # fmt: skip
    forecast = SimpleNamespace(**made | {k: v for k, v in changes.items() if k in made})
    return SimpleNamespace(forecast=forecast, **found | {k: v for k, v in changes.items() if k in found})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "its cost has no bound"),
        ({"at_edge": True}, "no bound: training diverges at a value beside the best one"),
        ({"regret_bound": 0.01, "drift_corrected": True}, "a drift of +0.25 decades from N = 64"),
        (
            {"entry": SimpleNamespace(limits=(), families=12)},
            "no bound is given for this setting: the data sets of the calibration differ too much",
        ),
        (
            {"entry": SimpleNamespace(limits=(), families=0)},
            "no bound is given for this setting: it has no calibration",
        ),
        (
            {"entry": SimpleNamespace(limits=(0.1,), families=0)},
            "no calibration exists for this setting",
        ),
    ],
)
def test_what_a_forecast_rests_on_is_said(changes, said):
    assert said in text._forecast_text(tuned(**changes))


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (MemoryError(), 74, "denseam: not enough memory; files written before are intact\n"),
        (
            RuntimeError("odd"),
            70,
            "denseam: internal error: RuntimeError: odd; run it again as `denseam --debug …` for a traceback\n",
        ),
    ],
)
def test_an_error_that_nobody_expects_is_one_line_too(error, code, said, inside, monkeypatch, tmp_path):
    def fails(*_):
        raise error

    monkeypatch.setattr(Store, "read", fails)
    found = inside("export", tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (code, "", said)


def test_what_is_no_error_is_not_taken_for_one():
    class Leaves(BaseException):
        pass

    def leaves():
        raise Leaves

    with pytest.raises(Leaves):
        program.exit_code(leaves, {"debug": False})


@pytest.mark.parametrize("answer", [True, False])
def test_somebody_at_a_terminal_is_asked_before_a_very_large_sweep(answer, inside, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr("denseam.cli.studies.MOST_UNASKED", 1)
    monkeypatch.setattr("denseam.cli.studies.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True),
                                                                   stderr=SimpleNamespace(isatty=lambda: True)))  # fmt: skip
    monkeypatch.setattr("click.confirm", lambda question, err: asked.append(question) or answer)
    options = ("--scales", 8, "--eta0", "0.01,0.1", "--seeds", 1, "--epochs", 1, "--out", tmp_path)
    found = inside("sweep", "--activation", "relu", "--optimizer", "sgd", *options, "--json", "--quiet")
    assert len(asked) == 1
    assert asked[0].startswith("2 runs take one core about ")
    if answer:
        assert found.returncode == 0
    else:
        refused(found, "nothing was trained")
