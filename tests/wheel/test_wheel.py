"""Packages as they are published, installed by pip into an empty environment, and tried there.

The interpreter is that of the tests, or the one that PYTHON names. FULL=1 adds the demonstration.
"""

import csv
import json
import os
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from denseam import __version__
from tests import ROOT

#: Extra → a statement that needs it; each must name the extra in one line where it is not installed.
NEEDS = {
    "torch": "import denseam.torch",
    "sklearn": "import denseam.sklearn",
    "wandb": "denseam.tracker('wandb', 'out')",
    "tensorboard": "denseam.tracker('tensorboard', 'out')",
    "mlflow": "denseam.tracker('mlflow', 'out')",
    "images": "denseam.data.source('digits')",
    "cluster": "from denseam.studies import cluster, dask_executor as d; d.connect(cluster.Cluster('dask'), 'out').__enter__()",
}
#: Others: a sum of these, one whose objects come from the user, and those of the tests and of the documentation.
OTHERS = {"trackers", "datasets", "page", "docs", "test"}

TRY = """
import json, sys
import denseam
problems = {}
for extra, statement in json.loads(sys.argv[1]).items():
    try:
        exec(statement)
    except (denseam.InputError, ImportError) as error:
        problems[extra] = str(error)
print(json.dumps(problems))
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Paths of the sdist, and of the wheel that is built from it."""
    out = tmp_path_factory.mktemp("dist")
    (sdist,) = SdistBuilder(str(ROOT)).build(directory=str(out))
    with tarfile.open(sdist) as archive:
        archive.extractall(out, filter="data")
    (wheel,) = WheelBuilder(str(out / f"denseam-{__version__}")).build(directory=str(out))
    return sdist, wheel


class Installed:
    """An environment that holds the package and what it requires, and nothing else."""

    def __init__(self, folder):
        self.folder, self.work = folder / "environment", folder
        subprocess.run([os.environ.get("PYTHON", sys.executable), "-m", "venv", self.folder], check=True)

    def run(self, program, *arguments):
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "XLA_FLAGS")}
        return subprocess.run(
            [self.folder / "bin" / program, *arguments], cwd=self.work, env=environment, capture_output=True,
            text=True, timeout=600,
        )  # fmt: skip

    def install(self, *arguments):
        done = self.run("python", "-m", "pip", "install", "--quiet", "--no-compile", *arguments)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(packages, tmp_path_factory):
    """Return the environment: first from the sources, which pip builds itself, then from the wheel."""
    environment = Installed(tmp_path_factory.mktemp("installed"))
    for package, options in zip(packages, ([], ["--no-deps", "--force-reinstall"]), strict=True):
        environment.install(*options, package)
        assert environment.run("denseam", "--version").stdout.split()[-1] == __version__
    return environment


def test_the_wheel_is_the_same_from_the_sources_and_from_the_tree(packages, tmp_path):
    (tree,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    contents = []
    for path in (packages[1], tree):
        with zipfile.ZipFile(path) as archive:
            contents.append({name: archive.read(name) for name in archive.namelist()})
    assert contents[0] == contents[1]


def test_a_verdict(installed):
    with open(installed.work / "table.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["width", "lr", "seed", "val_loss"])
        for width in (64, 128, 256):
            for lr in np.logspace(-3, -1, 9):
                rows.writerows(
                    (width, lr, seed, 0.2 + 0.05 * (np.log10(lr) + 2) ** 2 + 1e-4 * seed) for seed in range(3)
                )
    done = installed.run("denseam", "verdict", "table.csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert "TRANSFERS" in done.stdout


def test_patterns_are_stored(installed):
    np.save(installed.work / "x.npy", np.random.default_rng(0).choice([-1.0, 1.0], (50, 32)))
    done = installed.run("denseam", "memorize", "x.npy", "--out", "memory", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert [trial["recalled"] for trial in json.loads(done.stdout)["trials"]] == [1.0, 1.0]


def test_what_an_extra_brings_is_missed_in_one_line(installed):
    done = installed.run(
        "python",
        "-c",
        "import importlib.metadata as m; print(*m.metadata('denseam').get_all('Provides-Extra'))",
    )
    assert set(done.stdout.split()) == {*NEEDS, *OTHERS}
    done = installed.run("python", "-c", TRY, json.dumps(NEEDS))
    assert done.returncode == 0, done.stderr
    problems = json.loads(done.stdout)
    assert set(problems) == set(NEEDS)
    for extra, problem in problems.items():
        assert f"denseam[{extra}]" in problem
        assert "\n" not in problem


def test_the_command_line_reports_what_is_missing(installed):
    done = installed.run("denseam", "plan", "digits")
    assert (done.returncode, done.stderr.count("\n")) == (64, 1)


@pytest.mark.skipif("FULL" not in os.environ, reason="a minute; `make demo` runs the same on the sources")
def test_the_demonstration(installed):
    done = installed.run("denseam", "demo", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert "relu-sgd: TRANSFERS" in done.stdout
    assert "relu-sgd-uncentred: FAILS" in done.stdout
    assert (installed.work / "demo" / "transfer.png").is_file()
