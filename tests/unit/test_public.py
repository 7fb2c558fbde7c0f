"""What users see: the names, the README's example, a clean import."""

import os
import re
import subprocess
import sys

import pytest

import denseam
from tests import ROOT

README = ROOT / "README.md"


def test_every_public_name_is_there():
    for name in denseam.__all__:
        assert getattr(denseam, name) is not None
    assert set(dir(denseam)) == set(denseam.__all__)


def test_the_readmes_example_runs_as_printed(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert blocks
    for block in blocks:
        subprocess.run([sys.executable, "-W", "error", "-c", block], check=True, cwd=tmp_path)


def test_importing_loads_no_optional_part():
    code = "import denseam, sys; denseam.train; denseam.DenseAM; "
    code += "bad = {'diffrax', 'safetensors', 'matplotlib', 'click', 'torch', 'pyarrow'} & set(sys.modules); "
    code += "assert not bad, bad"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import denseam", {"numpy", "scipy", "jax", "click"}),
        ("from denseam.cli import main; main(['--help'])", {"numpy", "scipy", "jax", "rich", "pyarrow"}),
        ("import denseam.studies.runner", {"matplotlib", "pyarrow", "diffrax", "scipy"}),
    ],
)
def test_nothing_is_imported_that_is_not_used(code, heavy):
    code += f"; import sys; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_sweep_does_not_load_pandas_which_pyarrow_looks_for(tmp_path):
    command = "sweep --activation relu --optimizer sgd --scales 8,16 --eta0 0.01 --epochs 1 --quiet --out"
    code = f"""
import sys
import denseam.cli.program as program
def leave(code):
    assert code == 0 and "pyarrow" in sys.modules and not {{"pandas", "scipy"}} & sys.modules.keys()
    import pandas, pyarrow  # those who ask for it find it
    assert pyarrow.table({{"a": [1]}}).to_pandas()["a"][0] == 1
    sys.exit(7)
program._leave = leave
sys.argv = ["denseam", *{command.split()!r}, {str(tmp_path / "runs")!r}]
program.run_and_leave()"""
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 7


LEAVES = """
import atexit, sys, threading, time
from denseam.cli.program import _leave
class Freed:
    def __del__(self):
        print("freed")
kept = Freed()
atexit.register(print, "registered")
sys.stdout.write("written ")
match sys.argv[1:]:
    case ["thread"]:
        threading.Thread(target=lambda: (time.sleep(0.2), print("late", end=" "))).start()
    case ["profiler"]:
        import cProfile
        cProfile.Profile().enable()
_leave(5)"""


@pytest.mark.parametrize(
    ("case", "printed"),
    [
        ("alone", "written registered\n"),
        ("thread", "written late registered\nfreed\n"),
        ("profiler", "written registered\nfreed\n"),
    ],
)
def test_the_program_leaves_as_python_does_but_frees_nothing_that_nobody_waits_for(case, printed):
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    program = [sys.executable, "-c", LEAVES, case]
    ended = subprocess.run(program, capture_output=True, text=True, env=unmeasured)
    assert (ended.returncode, ended.stdout, ended.stderr) == (5, printed, "")


def test_the_bridge_to_pytorch_names_its_extra():
    code = "import sys; sys.modules['torch'] = None; import denseam.torch"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode != 0
    assert found.stderr.splitlines()[-1].endswith("denseam.torch needs PyTorch: pip install 'denseam[torch]'")
