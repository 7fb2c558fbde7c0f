"""Write `llms.txt`: every page, command and public name in plain text, for programs and for searching."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
#: Modules with public names, and the package that each of them needs.
MODULES = {
    "denseam": "denseam",
    "denseam.data": "denseam",
    "denseam.theory": "denseam",
    "denseam.testing": "denseam",
    "denseam.sklearn": "sklearn",
    "denseam.torch": "torch",
}


def text(commands: Iterator[tuple[str, Any, int]]) -> str:
    """Return the whole file; `commands` are those that `generate.registered` finds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [f"# {project['name']}", "", f"> {project['description']}", ""]
    for caption, pages in contents().items():
        lines += [f"## {caption}", "", *(f"- [{title(page)}]({page}.html)" for page in pages), ""]
    lines += ["## Commands", ""]
    lines += [f"- `{name}`: {first_line(command.help)}" for name, command, _ in commands]
    for module, needs in MODULES.items():
        if importlib.util.find_spec(needs) is not None:
            lines += ["", f"## Names of {module}", "", *names(module)]
    return "\n".join(lines) + "\n"


def contents() -> dict[str, list[str]]:
    """Return the captions of the navigation, and the pages under each of them."""
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"^```\{toctree\}\n:hidden:\n:caption: ([^\n]*)\n\n(.*?)^```", index, re.M | re.S)
    return {caption: pages.split() for caption, pages in trees}


def title(page: str) -> str:
    """Return the first heading of a page."""
    heading = re.search(r"^# (.*)$", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.M)
    assert heading, f"{page} has no title"
    return heading[1]


def names(module: str) -> Iterator[str]:
    """Yield a line for each public name of a module: its arguments, and what it is."""
    home = importlib.import_module(module)
    listed = getattr(home, "__all__", None)
    defined = [name for name, thing in vars(home).items() if getattr(thing, "__module__", "") == module]
    for name in sorted(listed or defined, key=str.lower):
        thing = getattr(home, name)
        if not name.startswith("_") and callable(thing):
            methods = [n for n in vars(thing) if _is_method(thing, n)] if inspect.isclass(thing) else []
            remark = f" Methods: {', '.join(f'`{n}`' for n in methods)}." if methods else ""
            yield f"- `{name}{arguments(thing)}`: {first_line(inspect.getdoc(thing))}{remark}"


def _is_method(kind: type, name: str) -> bool:
    return (
        not name.startswith("_")
        and inspect.isroutine(getattr(kind, name))
        and bool(getattr(kind, name).__doc__)
    )


def arguments(thing: Any) -> str:
    """Return the arguments of a function or class without their types; nothing if they are unknown."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    shown = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r"<[^<>]*>", "…", shown)  # defaults that have no text of their own


def first_line(documentation: str | None) -> str:
    """Return the first line of a text."""
    return (documentation or "").strip().partition("\n")[0]
