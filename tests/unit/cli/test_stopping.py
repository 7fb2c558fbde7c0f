"""SIGTERM and Ctrl-C: what was done is saved, the exit code says which, and a second one ends at once."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from denseam.cli import program
from denseam.model.checkpoint import opened
from denseam.report import trackers
from denseam.studies import engine
from denseam.studies.store import Store
from denseam.training.progress import Progress
from denseam.training.stopping import Stop, looking, signal_of, stop_by_signals
from denseam.workflow import target
from denseam.workflow.memory import Memory

BOTH = pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])


class SignalAt(Progress):
    """Sends this process a signal after so many steps of training, or chunks of a sweep."""

    def __init__(self, number, at):
        self.number, self.at, self.step, self.chunks = number, at, 0, 0

    def training_advanced(self, step, loss):
        self.step = step
        if step == self.at:
            os.kill(os.getpid(), self.number)

    def finished(self, outcomes):
        self.chunks += 1
        if self.chunks == self.at:
            os.kill(os.getpid(), self.number)


@pytest.fixture
def signalled(monkeypatch):
    def at(number, when):
        progress = SignalAt(number, when)
        monkeypatch.setattr(program, "progress_of", lambda quiet: progress)
        monkeypatch.setattr("denseam.cli.workflow.progress_of", lambda quiet: progress)
        monkeypatch.setattr("denseam.cli.studies.progress_of", lambda quiet: progress)
        return progress

    return at


def dropping(number):
    """Have a signal in a destructor, whose exceptions Python drops, and wait for something."""

    class Dropped:
        def __del__(self):
            os.kill(os.getpid(), number)
            time.sleep(0.1)

    began = time.monotonic()
    Dropped()
    try:
        time.sleep(30)
    finally:
        assert time.monotonic() - began < 10  # the wait, too, was interrupted


@BOTH
def test_an_interrupt_that_python_drops_is_raised_again(number, code, capfd):
    """In a destructor nobody can catch it, nor in a callback of the garbage collector."""

    with stop_by_signals() as stop, pytest.raises(KeyboardInterrupt):
        dropping(number)
    assert signal_of(stop) == number == code - 128
    assert capfd.readouterr().err == ""


@pytest.fixture
def as_in_a_terminal():
    """What is started in the background, as these tests may be, ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("as_in_a_terminal")
def test_no_command_drops_an_interrupt(monkeypatch, capfd):
    """Also before it looks for signals: packages take seconds to import."""
    monkeypatch.setattr(program.app, "main", lambda **_: dropping(signal.SIGINT))
    assert program.main([]) == 130
    assert capfd.readouterr().err == "denseam: interrupted\n"


@BOTH
@pytest.mark.parametrize("command", ["sweep", "tune"])
def test_a_signal_counts_while_a_tracker_is_opened(command, number, code, inside, tmp_path, monkeypatch):
    """Also if its exception is lost, as during garbage collection."""

    class Slow:
        name = "tensorboard"

        def __init__(self, out):
            with contextlib.suppress(KeyboardInterrupt):
                os.kill(os.getpid(), number)
                time.sleep(1)

    monkeypatch.setattr(trackers, "TRACKERS", {"tensorboard": (Slow, "json")})
    monkeypatch.setattr(engine, "train_chunk", lambda *chunk: pytest.fail("is trained"))
    options = {
        "sweep": ("--activation", "relu", "--optimizer", "sgd", "--scales", "8,16", "--eta0", "0.01"),
        "tune": ("isotropic", "--features", 64, "--optimizer", "sgd"),
    }
    found = inside(command, *options[command], "--log", "tensorboard", "--quiet", "--out", tmp_path / "out")
    assert found.returncode == code
    assert found.stderr.count("denseam: ") == 1


@BOTH
def test_a_training_saves_its_last_step(number, code, signalled, inside, tmp_path, monkeypatch):
    monkeypatch.setattr(target, "SEGMENT_BYTES", 8 * 16 * 4)  # one step at a time
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((160, 16)).astype(np.float32))
    options = (
        "train",
        tmp_path / "x.npy",
        "--features",
        16,
        "--optimizer",
        "sgd",
        "--eta0",
        0.01,
        "--epochs",
        5,
    )
    whole = inside(*options, "--out", tmp_path / "whole", "--quiet")
    assert whole.returncode == 0, whole.stderr
    progress = signalled(number, 7)
    stopped = inside(*options, "--out", tmp_path / "out")
    assert stopped.returncode == code
    assert "run again to resume" in stopped.stderr
    assert progress.step == 7, "no further step was taken"
    with opened(tmp_path / "out" / target.STATE) as file:
        assert file.document["step"] == 7
    signalled(number, None)
    assert inside(*options, "--out", tmp_path / "out").returncode == 0
    ours, theirs = (Memory.load(tmp_path / f / target.MODEL).model for f in ("out", "whole"))
    assert np.array_equal(ours.W, theirs.W)


SWEEP = (
    "sweep --activation relu --optimizer sgd --scales 8,16 --eta0 0.01,0.03 --seeds 4 --epochs 4 --workers 1"
)


@BOTH
def test_a_sweep_keeps_every_chunk_that_has_ended(number, code, signalled, inside, tmp_path):
    progress = signalled(number, 2)
    stopped = inside(*SWEEP.split(), "--out", tmp_path)
    assert stopped.returncode == code
    kept = len(Store(tmp_path).read())
    assert 0 < kept < 16
    assert len(list((tmp_path / "shards").iterdir())) == progress.chunks
    signalled(number, None)
    resumed = inside(*SWEEP.split(), "--out", tmp_path)
    assert f"16 runs in {tmp_path}: {kept} reused" in resumed.stdout


@BOTH
def test_a_search_stops_too(number, code, signalled, inside, tmp_path):
    signalled(number, 1)
    options = ("isotropic", "--features", 64, "--epochs", 4, "--rho", 4, "--beta", 0.25, "--optimizer", "sgd")
    stopped = inside("tune", *options, "--out", tmp_path)
    assert stopped.returncode == code, stopped.stderr
    assert len(Store(tmp_path / "runs").read())
    assert not (tmp_path / "tuned.json").exists()


def test_where_nothing_looks_a_signal_raises():
    def waits():
        with stop_by_signals() as stop:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
            assert stop.is_set()

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        waits()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_is_noted_where_work_looks():
    with stop_by_signals() as stop, looking(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5)
        os.kill(os.getpid(), signal.SIGINT)  # within a second: the same request
    assert signal_of(stop) == signal.SIGTERM
    assert signal_of(Stop()) == signal_of(None) == 0


#: Is sent a signal while it holds the lock of the event that the signal sets.
HOLDING = """
import os, signal, time
from denseam.training.stopping import looking, stop_by_signals
with stop_by_signals() as stop, looking(stop):
    with stop._cond:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
    print(stop.wait(5), int(stop.signal))
"""


def test_a_signal_waits_for_no_lock():
    found = subprocess.run([sys.executable, "-c", HOLDING], capture_output=True, text=True, timeout=30)
    assert found.stdout == "True 15\n", found.stderr


#: Says when it is inside a call that takes long, and whose end no signal can bring about.
INSIDE = """
import ctypes, time
from denseam.training.stopping import looking, stop_by_signals
with stop_by_signals() as stop, looking(stop):
    print("inside", flush=True)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        ctypes.CDLL(None).sleep(60)
"""


def test_a_second_signal_ends_the_process_at_once():
    child = subprocess.Popen(
        [sys.executable, "-c", INSIDE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "inside\n"
    child.send_signal(signal.SIGTERM)
    time.sleep(1.2)
    assert child.poll() is None
    began = time.monotonic()
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=10)
    assert (child.returncode, said) == (143, "denseam: stopped immediately\n")
    assert time.monotonic() - began < 2
