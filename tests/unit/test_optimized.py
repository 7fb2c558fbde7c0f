"""Tests again in a process whose compiler optimizes, as users have it; the others spare that (`tests/__init__.py`)."""

import os
import subprocess
import sys

import pytest

from tests import ROOT

#: Training against the reference, and batches that are the same bit by bit.
SAMPLE = (
    "training/test_training.py::test_fifty_steps_equal_the_reference[softmax-adam-False]",
    "training/test_drawing.py::test_batches_are_the_same[tanh-float32]",
)


def optimized(*tests, marked="not slow"):
    """The last words of pytest on these tests."""
    kept = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "PART")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", marked, *(f"tests/unit/{test}" for test in tests)],
        cwd=ROOT, env=kept | {"OPTIMIZED": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout.splitlines()[-1]


def test_a_sample_holds_in_optimized_programs():
    assert f"{len(SAMPLE)} passed" in optimized(*SAMPLE, marked="slow or not slow")


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    [
        "model/test_dense_am.py",
        "training/test_training.py",
        "training/test_probes.py",
        "studies/test_engine.py",
    ],
)
def test_everything_holds_in_optimized_programs(file):
    assert " passed" in optimized(file)
