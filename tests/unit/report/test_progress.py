"""What people see of long work on a terminal, and elsewhere."""

import io
import re
import sys

import pytest

from denseam.ground.errors import InputError
from denseam.report.progress import Terminal
from denseam.report.wording import duration
from denseam.studies.shards import outcome
from denseam.training.progress import Progress, calling, told
from tests.synthetic import study

ONE = study(scales=(16, 32), eta0=(0.01, 0.1), seeds=1, name="one")


class Screen(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self):
        return True


def screen_of(monkeypatch):
    terminal = Screen()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return terminal


def shown(screen):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())


def trained(progress, *studies):
    """Tell of a sweep in which the larger learning rate diverges."""
    todo = [(s, s.runs()) for s in studies]
    progress.sweep_begins(todo, 3)
    for part, specs in todo:
        for spec in specs:
            progress.compiling(spec.shape)
            progress.advanced(part.updates(spec.shape), spec)
            status = "diverged" if spec.values["eta0"] > 0.05 else "finished"
            progress.finished([outcome(spec, (status, 0.25))])
    progress.sweep_ends()


def test_elsewhere_a_sweep_is_lines(capsys):
    trained(Terminal(every=0.0), ONE)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == [ONE.describe(), "4 runs to train, 3 reused"]
    assert lines[2].startswith(
        "denseam: 0/4 runs, 0 % of the work, 0 s, time left unknown; compiling for N=16"
    )
    assert lines[-1] == "denseam: 4/4 runs, 100 % of the work, 0 s, 0 s left; 2 diverged"
    trained(Terminal(every=60.0), ONE)
    assert len(capsys.readouterr().err.splitlines()) == 3, "a sign of life, then nothing for a while"


def test_a_terminal_shows_a_table(monkeypatch):
    screen = screen_of(monkeypatch)
    trained(Terminal(), ONE, study(scales=(16,), eta0=(0.01,), seeds=1, name="[bold]same run"))
    last = shown(screen).split("best eta0 so far")[-1]
    rows = [line.split() for line in last.splitlines()]
    assert ["one", "16", "2/2", "1", "0.01", "0.25"] in rows
    assert ["[bold]same", "run", "16", "1/1", "0.01", "0.25"] in rows, "each study counts its own"
    assert "5/5 runs, 100 % of the work" in last


def test_a_training_is_lines_elsewhere_and_warns(capsys):
    progress = Terminal(every=0.0)
    progress.training_begins("memory", 40, 4, 10)
    for step in (20, 30, 40):
        progress.training_advanced(step, 1 / step)
    progress.left_expected(4, 0.5, (0.1, 0.2), "above")
    progress.training_ends()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "denseam: memory, 40 steps, resuming at step 10"
    assert lines[1].startswith("denseam: epoch 2.0 of 4, loss 0.05, 50 %, 0 s")
    assert lines[3].startswith("denseam: epoch 4.0 of 4, loss 0.025, 100 %, 0 s")
    assert lines[4].startswith(
        "denseam: warning: after epoch 4 the loss is 0.5, above the 0.1 … 0.2 predicted"
    )


def test_a_terminal_shows_a_training_as_a_bar(monkeypatch):
    screen = screen_of(monkeypatch)
    progress = Terminal()
    before = sys.stdout
    progress.training_begins("memory", 40, 4)
    progress.training_advanced(40, 0.025)
    assert sys.stdout is before, "standard output may be a document"
    progress.training_ends()
    assert "100% epoch 4.0 of 4, loss 0.025" in shown(screen)


def test_nobody_is_told_anything_by_default(capsys):
    trained(Progress(), ONE)
    assert capsys.readouterr() == ("", "")


def test_functions_are_told_of_single_events():
    heard = []
    told(None, heard.append).message("a line")
    calling(epoch_ended=lambda *event: heard.append(event)).epoch_ended(1, 0.5)
    assert heard == ["a line", (1, 0.5)]
    with pytest.raises(AttributeError, match="no event"):
        calling(epochended=print)
    with pytest.raises(InputError, match="give one of them"):
        told(Progress(), print)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.1234, "0.12 s"), (9, "9 s"), (101.2, "101 s"), (150, "2.5 min"), (9000, "2.5 h")]
)
def test_times_have_the_unit_that_suits_them(seconds, text):
    assert duration(seconds) == text
