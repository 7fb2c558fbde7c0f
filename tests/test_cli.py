import json
import subprocess
import sys
from pathlib import Path

import pytest
from test_scaling import EXPECTED

import denseam

PROGRAM = Path(sys.executable).with_name("denseam")


def run(*arguments):
    """The installed program, as a user starts it."""
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)


def prescribe(regime, activation, optimizer, *more):
    sizes = ("--features", 64, "--memories", 256, "--eta0", 0.1)
    names = ("--activation", activation, "--optimizer", optimizer, "--regime", regime)
    return run("prescribe", *names, *sizes, *more)


@pytest.mark.parametrize("case", EXPECTED, ids="-".join)
def test_prescribe_gives_the_table(case):
    found = prescribe(*case, "--json")
    assert found.returncode == 0
    document = json.loads(found.stdout)
    assert document["schema"] == 1
    assert (document["s1"], document["s2"], document["eta_W"]) == pytest.approx(EXPECTED[case])
    assert (document["eta_b"], document["eta_c"]) == (0.1, 0.1)
    unprescribed = case[1:] == ("softmax", "sgd")
    assert document["prescribed"] == (not unprescribed)
    assert ("not expected to transfer" in found.stderr) == unprescribed
    assert document["rule"]["s1"] == "N^-1/2"


def test_prescribe_prints_a_table_for_people():
    found = prescribe("proportional", "relu", "adam", "--base-features", 16, "--base-memories", 64)
    assert found.returncode == 0
    assert found.stderr == ""
    for part in ("base: N=16, K=64", "s1_0·N^-1/2", "0.25", "0.125", "N^-1/2"):
        assert part in found.stdout


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (
            "prescribe --activation gelu --optimizer lion --regime wide --features 0 --memories -2 --eta0 -1",
            ["activation", "optimizer", "regime", "features", "memories", "eta0"],
        ),
        ("prescribe --activation relu --power 0.5 --optimizer sgd --features 2 --memories 2", ["power"]),
        ("prescribe --activation softmax --power 2 --optimizer adam --features 2 --memories 2", ["power"]),
        ("prescribe --activation relu --optimizer sgd --features x --memories 2", ["--features"]),
        ("prescribe --activation relu --optimizer sgd --features 2", ["--memories"]),
        (
            "prescribe --activation relu --optimizer sgd --features 2 --memories 2 --base-features 2",
            ["base-memories"],
        ),
        ("prescribe --nonsense", ["--nonsense"]),
        ("dance", ["dance"]),
    ],
)
def test_bad_input_is_one_line_and_exit_64(arguments, parts):
    found = run(*arguments.split())
    assert found.returncode == 64
    assert found.stdout == ""
    assert len(found.stderr.strip().splitlines()) == 1
    for part in parts:
        assert part in found.stderr


def test_version_and_help():
    assert run("--version").stdout == f"denseam {denseam.__version__}\n"
    assert "prescribe" in run("--help").stdout
    assert "prescribe" in run().stdout
