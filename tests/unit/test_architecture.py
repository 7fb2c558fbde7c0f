"""The rooms stay few, their imports few and one-way, and the map of them (docs/where-is.md) true."""

import ast
import re
import tomllib

import pytest

from tests import ROOT

SOURCE, TESTS = ROOT / "src" / "denseam", ROOT / "tests"
MAP = ROOT / "docs" / "where-is.md"

MOST_ENTRIES = 20
MOST_EDGES = 70
MOST_LAYERS = 14
#: Files of the package itself, which stand before all rooms.
ENTRANCE = {"__init__.py", "__init__.pyi", "py.typed"}


@pytest.fixture(scope="module")
def layers():
    """The layers of the contract, each as the rooms in it."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = (c for c in settings["contracts"] if c["type"] == "layers")
    return [layer.split(" | ") for layer in contract["layers"]]


def source_files():
    return [p.relative_to(SOURCE) for p in SOURCE.rglob("*") if p.is_file() and "__pycache__" not in p.parts]


def test_the_entries_can_be_read_at_a_glance():
    entries = {path.parts[0] for path in source_files()}
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_the_contract_is_short_enough_to_read(layers):
    assert len(layers) <= MOST_LAYERS


def test_every_file_is_in_a_room(layers):
    rooms = {room for layer in layers for room in layer}
    homeless = [str(p) for p in source_files() if p.parts[0].removesuffix(".py") not in rooms]
    assert set(homeless) == ENTRANCE


def test_few_rooms_import_each_other(generate):
    edges = generate.room_imports()
    assert len(edges) <= MOST_EDGES, sorted(edges)


def test_the_picture_shows_all_rooms_in_the_order_of_the_contract(generate, layers):
    packages = [r for layer in reversed(layers) for r in layer if (SOURCE / r).is_dir()]
    assert generate.rooms() == packages
    position = {room: i for i, room in enumerate(packages)}
    shown = [(a, b) for a, b in generate.room_imports() if a in position and b in position]
    assert shown
    assert all(position[importer] > position[imported] for importer, imported in shown)


def where_is():
    """The rows of the table 'Where is …': what, path below src/denseam or the root, names defined there."""
    text = MAP.read_text(encoding="utf-8")
    rows = [row.split("|") for row in re.findall(r"^\| (.+)\|$", text, re.M)][1:]
    return [(what.strip(), *(re.findall(r"`(.+?)`", cell) for cell in cells)) for what, *cells in rows]


def test_the_map_is_not_empty():
    assert len(where_is()) > 30


@pytest.mark.parametrize(("what", "paths", "names"), where_is())
def test_what_the_map_names_is_there(what, paths, names):
    assert paths, f"{what} is nowhere"
    below = [SOURCE / path if (SOURCE / path).exists() else ROOT / path for path in paths]
    assert all(path.exists() for path in below), paths
    files = [f for path in below for f in (path.rglob("*.py") if path.is_dir() else [path])]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for name in names:
        first = name.split(".")[0]
        assert re.search(rf"^(?:def |class |){first}\b", text, re.M), f"{first} is not defined in {paths}"
        assert name.split(".")[-1] in text


#: Pages for people; the log of changes also names what is no more.
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += [page for folder in ("docs", "docs/tutorials") for page in sorted((ROOT / folder).glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_files_that_exist(page):
    text = page.read_text(encoding="utf-8")
    paths = re.findall(r"`((?:src|tests|docs|examples)/[\w./-]+)`", text)
    assert [p for p in paths if not (ROOT / p).exists() and not p.startswith("docs/_")] == []
    modules = set(re.findall(r"\bdenseam((?:\.[a-z_]+)+)", text))
    assert [m for m in sorted(modules) if not is_known(m)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_import_names_that_exist(page):
    imports = re.findall(r"^from (denseam[\w.]*) import (.+)$", page.read_text(encoding="utf-8"), re.M)
    for module, names in imports:
        if not module.startswith("denseam.torch"):  # an extra
            exec(f"from {module} import {names}", {})


def is_known(dotted):
    """Whether .room.module, or .room.module.name, is a file or a folder, or a name in one."""
    *parents, last = dotted.strip(".").split(".")
    home = SOURCE.joinpath(*parents)
    if (home / last).is_dir() or (home / f"{last}.py").is_file():
        return True
    files = [home.with_suffix(".py"), home / "__init__.py", home / "__init__.pyi"]
    return any(re.search(rf"\b{last}\b", f.read_text(encoding="utf-8")) for f in files if f.is_file())


def imports_of_tests(source):
    """Names of test modules that a file imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            parts = ".".join([getattr(node, "module", None) or "", *names]).split(".")
            yield from (part for part in parts if part.startswith("test_") or part == "conftest")


@pytest.mark.parametrize(
    "planted",
    [
        "import tests.unit.test_x",
        "from tests.unit import test_x",
        "def f():\n from .test_x import y",
        "import conftest",
    ],
)
def test_imports_of_tests_are_seen(planted):
    assert list(imports_of_tests(planted))


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_tests_stand_alone(path):
    source = path.read_text(encoding="utf-8")
    assert not list(imports_of_tests(source))
    assert not re.search(r"\bsys\.path\b", source)
