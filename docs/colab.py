"""The tutorials as notebooks for Colab and Jupyter, in `notebooks`: `python -m docs.colab` writes them.

A tutorial is a page of text in `docs/tutorials`, which the build of the documentation runs. Its notebook has
the same cells without outputs, a badge, and a first cell that installs the library where it is missing. The
build refuses notebooks that are not those of the pages.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"
NOTEBOOKS = ROOT / "notebooks"
#: Owner and name on GitHub; from there Colab takes the notebooks, and installs the library.
REPOSITORY = "denseam/denseam"
GITHUB = f"https://github.com/{REPOSITORY}"
#: Cells with this tag are only for the build: they check that what the text says is still true.
UNSEEN = "remove-cell"


def address(name: str) -> str:
    """Return the address that opens a notebook in Colab."""
    return f"https://colab.research.google.com/github/{REPOSITORY}/blob/main/notebooks/{name}.ipynb"


def links(name: str) -> str:
    """Return the line under the title of a tutorial: the notebook in Colab, and as a file."""
    badge = f"[![Open in Colab](../_static/colab.svg)]({address(name)})"
    return f"{badge} {{download}}`Download the notebook <../../notebooks/{name}.ipynb>`"


def with_links(name: str, page: str) -> str:
    """Return a tutorial with that line under its title."""
    return re.sub(r"^# .*\n", lambda title: f"{title[0]}\n{links(name)}\n", page, count=1, flags=re.M)


def notebook(name: str) -> Any:
    """Return a tutorial as a notebook without outputs."""
    import nbformat
    from myst_nb.core.read import read_myst_markdown_notebook

    page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    made = read_myst_markdown_notebook(page)
    extra = made.metadata.pop("extra", None)
    made.metadata = {"kernelspec": made.metadata["kernelspec"], "language_info": {"name": "python"}}
    made.cells = [cell for cell in made.cells if UNSEEN not in cell.metadata.get("tags", [])]
    badge = f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({address(name)})"
    made.cells.insert(0, nbformat.v4.new_markdown_cell(badge))
    made.cells.insert(1, nbformat.v4.new_code_cell(_installing(extra)))
    for number, cell in enumerate(made.cells):
        cell.id = f"cell-{number}"  # else they are random, and the file new each time
        cell.metadata = {}
        if cell.cell_type == "markdown":
            cell.source = _linked(cell.source)
    return made


def _installing(extra: str | None) -> str:
    package = f"denseam[{extra}]" if extra else "denseam"
    return (
        "import importlib.util\n\n"
        'if importlib.util.find_spec("denseam") is None:  # as in Colab\n'
        f'    %pip install --quiet "{package} @ git+{GITHUB}"'
    )


def _linked(text: str) -> str:
    """Let links between pages lead to the repository, since a notebook may be anywhere."""

    def in_repository(link: re.Match[str]) -> str:
        path = (TUTORIALS / link[2]).resolve()
        target = _file(path.stem) if path.parent == TUTORIALS else path
        return f"[{link[1]}]({GITHUB}/blob/main/{target.relative_to(ROOT)}{link[3] or ''})"

    return re.sub(r"\[([^]]+)\]\(([\w./-]+\.md)(#[^)]*)?\)", in_repository, text)


def names() -> list[str]:
    """Return the names of all tutorials."""
    return sorted(page.stem for page in TUTORIALS.glob("*.md"))


def write() -> None:
    """Write all notebooks."""
    NOTEBOOKS.mkdir(exist_ok=True)
    for name in names():
        _file(name).write_text(_text(name), encoding="utf-8")


def stale() -> list[str]:
    """Return the tutorials whose notebook is missing, or is that of another text."""
    files = {name: _file(name) for name in names()}
    return [n for n, f in files.items() if not f.is_file() or f.read_text(encoding="utf-8") != _text(n)]


def _file(name: str) -> Path:
    return NOTEBOOKS / f"{name}.ipynb"


def _text(name: str) -> str:
    import nbformat

    return str(nbformat.writes(notebook(name))) + "\n"


if __name__ == "__main__":
    write()
