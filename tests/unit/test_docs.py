"""The documentation that is written from the program."""

import json
import re
import subprocess
import sys

import pytest

from docs import colab, plain
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
@pytest.mark.parametrize(
    "page",
    [
        "extending-rules",
        "extending-studies",
        "extending-figures",
        "extending-data",
        "store-and-recall",
        "sklearn",
    ],
)
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


def code_of(page):
    """The code cells of a tutorial that readers see."""
    cells = re.findall(r"^```\{code-cell\} ipython3\n(.*?)\n?^```", page, re.M | re.S)
    return [cell for cell in cells if not cell.startswith(":tags: [remove-cell]")]


@pytest.mark.parametrize("name", colab.names())
def test_the_notebook_of_a_tutorial_has_its_cells_and_no_outputs(name):
    """If it fails, the page has changed: `python -m docs.colab` writes the notebooks anew."""
    notebook = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    install, *others = ["".join(cell["source"]) for cell in code]
    assert others == code_of((DOCS / "tutorials" / f"{name}.md").read_text(encoding="utf-8"))
    assert others
    assert f"git+{colab.GITHUB}" in install
    compile(install.replace("%pip", "pass  # "), name, "exec")
    words = "".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    assert words.startswith("[![Open in Colab]")
    assert f"blob/main/notebooks/{name}.ipynb" in words
    links = re.findall(r"\]\(([^)]+)\)", words)
    inside = [
        link.removeprefix(f"{colab.GITHUB}/blob/main/") for link in links if link.startswith(colab.GITHUB)
    ]
    assert [link for link in inside if not (ROOT / link.partition("#")[0]).is_file()] == []
    assert [link for link in links if not link.startswith("https://")] == []


def test_there_is_a_notebook_for_each_tutorial_and_no_other():
    assert {"transfer", "own-data", "own-lagrangian", "inside", "pytorch", "store"} <= set(colab.names())
    assert sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb")) == colab.names()


def test_tutorials_come_first_and_the_reference_last():
    captions = plain.contents()
    first, *_, last = captions
    assert (first, last) == ("Tutorials", "Reference")
    assert captions["Tutorials"][0] == "tutorials/transfer"
    listed = {page for pages in captions.values() for page in pages}
    assert listed == {p.stem for p in DOCS.glob("*.md")} - {"index"} | {
        f"tutorials/{t}" for t in colab.names()
    }
    guide = (DOCS / "guide.md").read_text(encoding="utf-8")
    assert [page for page in sorted(listed - {"guide"}) if f"({page}.md)" not in guide] == []


def test_every_page_command_and_public_name_is_in_the_plain_text(generate):
    import denseam

    text = plain.text(generate.registered())
    assert all(f"({page}.html)" in text for pages in plain.contents().values() for page in pages)
    assert all(f"- `{name}`: " in text for name, _, _ in generate.registered())
    public = [name for name in denseam.__all__ if callable(getattr(denseam, name))]
    assert len(public) > 50
    assert [name for name in public if not re.search(rf"^- `{name}[(`]", text, re.M)] == []
    assert not re.search(r": *$", text, re.M)  # each has a sentence
    assert len(text) < 50_000


def test_no_line_is_lost_as_a_comment():
    """MyST takes a line that begins with a per cent sign for a comment, and a paragraph around it for two."""
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    lost = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in pages
        if not {"_build", "_generated"} & set(page.parts)
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if line.startswith("%")
    ]
    assert not lost, lost
