"""What users see: the names, the README's example, a clean import."""

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
        ("import denseam.studies.runner", {"matplotlib", "pyarrow", "diffrax"}),
    ],
)
def test_nothing_is_imported_that_is_not_used(code, heavy):
    code += f"; import sys; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_the_bridge_to_pytorch_names_its_extra():
    code = "import sys; sys.modules['torch'] = None; import denseam.torch"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode != 0
    assert found.stderr.splitlines()[-1].endswith("denseam.torch needs PyTorch: pip install 'denseam[torch]'")
