"""The documentation that is written from the program."""

import re
import subprocess
import sys

import pytest

from tests import ROOT

DOCS = ROOT / "docs"


def test_every_command_and_option_is_in_the_reference(generate):
    found = list(generate.registered())
    assert {"denseam sweep", "denseam tune"} <= {name for name, _, _ in found}
    sections = dict(
        re.findall(r"^##+ (denseam [\w -]+)\n(.*?)(?=^\(command-|\Z)", generate.commands(), re.M | re.S)
    )
    assert list(sections) == [name for name, _, _ in found]
    for name, command, _ in found:
        assert command.help, f"{name} has no help"
        assert command.help.splitlines()[0].strip() in sections[name]
        for parameter in generate.options(command):
            assert parameter.help, f"{name} {parameter.name} has no help"
            names = [n for n in (*parameter.opts, *parameter.secondary_opts) if n.startswith("-")]
            assert all(f"`{n}`" in sections[name] for n in names), f"{name} {names}"


def test_the_reference_has_what_the_program_calls_its_options(generate):
    """Nothing is left out by the walk itself: compare with what `--help` prints."""
    from click.testing import CliRunner

    from denseam.cli import app

    text = generate.commands()
    for name, _, _ in generate.registered():
        printed = CliRunner().invoke(app, [*name.split()[1:], "--help"]).output
        flags = set(re.findall(r"^\s+(--[\w-]+)", printed, re.M)) - {"--help"}
        section = text.split(f"# {name}\n", 1)[1].partition("\n(command-")[0]
        assert flags or name == "denseam figure"
        assert all(f"`{flag}`" in section for flag in flags), name


def test_every_quantity_is_in_its_table(generate):
    from denseam.training.quantities import QUANTITIES

    table = generate.quantities()
    assert all(f"| `{name}` |" in table for name in QUANTITIES)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["extending", "store-and-recall", "sklearn"])
def test_the_examples_of_a_page_run_as_printed(page, tmp_path):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    printed = "".join(re.findall(r"^```text\n(.*?)^```", text, re.M | re.S))
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks)],
        check=True, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip

    def without_decimals(words):  # they may differ by a digit from machine to machine
        return re.sub(r"\d+\.\d+", "…", words)

    assert without_decimals(found.stdout) == without_decimals(printed)
