"""What is shipped: a wheel that runs, and sources that can be tested."""

import re
import shutil
import subprocess
import tomllib

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from denseam import __version__
from tests import ROOT

#: What builds, checks and explains the library, beside the library.
NEEDED = (
    "Makefile", ".ci/run", "pyproject.toml", "README.md", "CONTRIBUTING.md", "LICENSE", "examples/digits.py", "CITATION.cff", "conda/recipe.yaml",
    "docs/conf.py", "docs/generate.py", "docs/architecture.md", "tests/reference.py",
)  # fmt: skip


def contents(builder):
    """Paths in the package, from the builder itself; nothing is built."""
    return {file.distribution_path for file in builder(str(ROOT)).recurse_included_files()}


@pytest.fixture(scope="module")
def sdist():
    return contents(SdistBuilder)


@pytest.fixture(scope="module")
def wheel():
    return contents(WheelBuilder)


def test_the_wheel_holds_everything_that_is_read_at_run_time(wheel):
    source = ROOT / "src"
    files = {
        str(p.relative_to(source)) for p in source.rglob("*") if p.is_file() and "__pycache__" not in p.parts
    }
    assert wheel == files
    assert {"denseam/py.typed", "denseam/__init__.pyi"} <= wheel
    assert {".css", ".html", ".js"} <= {path[path.rindex(".") :] for path in wheel}


def test_the_sources_can_be_tested(sdist):
    assert set(NEEDED) <= sdist
    suites = {
        f"tests/{path.name}/__init__.py"
        for path in (ROOT / "tests").iterdir()
        if list(path.glob("test_*.py"))
    }
    assert {"tests/torch/__init__.py", "tests/mesh/__init__.py"} <= suites <= sdist
    assert any(path.startswith("docs/gallery/runs/") for path in sdist), (
        "figures are judged from these records"
    )


@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="not a repository")
def test_the_sources_are_what_is_tracked(sdist):
    """Nothing is left out, and no cache slips in."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert sdist == {path for path in listed.splitlines() if (ROOT / path).is_file()}


MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([\w-]+):", MAKEFILE, re.M))


def test_no_target_is_taken_for_a_file():
    """A folder `docs`, or a file `test-mesh`, must not make its target up to date."""
    assert set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.M)[1].split()) == TARGETS


def test_targets_run_folders_of_tests_that_exist():
    folders = set(re.findall(r"\btests/\w+", MAKEFILE))
    assert folders == {
        f"tests/{name}"
        for name in (
            "unit",
            "documents",
            "torch",
            "mesh",
            "trackers",
            "wheel",
            "cluster",
            "slurm",
            "faults",
            "page",
        )
    }
    assert all((ROOT / folder).is_dir() for folder in folders)


def test_workflows_ask_for_targets_that_exist():
    workflows = [path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    asked = {name for text in workflows for name in re.findall(r"run: make ([\w-]+)", text)}
    for listed in re.findall(r"target: \[(.*)\]", "".join(workflows)):
        asked |= set(listed.split(", "))
    assert {"unit", "docs", "dist", "test-wheel", "test-oldest", "test-torch"} < asked <= TARGETS


def test_all_that_is_published_names_the_same_version_and_needs_the_same_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    listed = re.findall(r"- ([\w-]+) (>=[\d.]+)", recipe.partition("  run:\n")[2])
    needed = {name.replace("matplotlib-base", "matplotlib") + bound for name, bound in listed}
    assert needed == {*project["dependencies"], f"python{project['requires-python']}"}
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    assert f"\n  version: {__version__}\n" in recipe
    assert project["license"] in citation
    assert project["license"] in recipe


def test_the_checks_before_a_change_lands_ask_for_targets_that_exist():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    lines = re.findall(r"^\s*make (.*)$", script.replace("\\\n", " "), re.M)
    asked = {word for line in lines for word in line.split() if re.fullmatch(r"\w[\w-]*", word)}
    assert {"test", "docs", "demo"} < asked <= TARGETS
