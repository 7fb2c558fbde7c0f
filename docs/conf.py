"""Sphinx configuration: `make docs` builds it, warnings are errors."""

import hashlib
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs"), str(ROOT)]

import colab  # noqa: E402
import formulas  # noqa: E402
import generate  # noqa: E402
import plain  # noqa: E402
from sphinx.errors import ConfigError  # noqa: E402

_version: dict[str, str] = {}
exec((ROOT / "src" / "denseam" / "_version.py").read_text(encoding="utf-8"), _version)

project = "denseam"
author = "The denseam developers"
copyright = "The denseam developers"
release = version = _version["__version__"]


def _digest_of_source() -> str:
    total = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        total.update(path.read_bytes())
    return total.hexdigest()[:16]


generate.write()
STATIC = generate.GENERATED / "static"
if stale := colab.stale():
    raise ConfigError(f"notebooks of {', '.join(stale)} are not those of the pages: python -m docs.colab")
# The tutorials share what they compile.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent / "_build" / "programs"))

extensions = [
    "myst_nb",  # brings myst_parser along
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "formulas",
    "sphinx_copybutton",
]
source_suffix = {".md": "myst-nb"}  # plain pages too; those with a kernel in their head are run
exclude_patterns = ["_build", "_generated", "gallery", "steps"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Tutorials run again when they or the library change, so that what they show is what the library does.
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / "executed" / _digest_of_source())
nb_execution_raise_on_error = True
nb_execution_in_temp = True  # they write files
nb_execution_excludepatterns = [
    f"tutorials/{name}.md" for name in set(colab.names()).difference(generate.in_part(colab.names()))
]
nb_execution_timeout = 900  # seconds for a cell; none takes more than twenty on two cores
nb_output_stderr = "remove"
nb_merge_streams = True

# Attributes of two classes may have one name; Sphinx takes each name in a list of attributes for a reference.
suppress_warnings = ["ref.python"]
default_role = "code"  # `name` in docstrings
napoleon_google_docstring = False
napoleon_numpy_docstring = True
napoleon_use_ivar = True
napoleon_attr_annotations = False  # shapes such as "*samples N" are not markup
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_type_aliases = {
    name: name for name in ("BiasInit", "OptimizerName", "RegimeName", "Schedule", "Stream")
}
# Matplotlib writes a `set` for every class of its own kind, in roles that only its own pages have.
autodoc_default_options = {"members": True, "exclude-members": "set"}
python_use_unqualified_type_names = True
maximum_signature_line_length = 90

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

formulas.write_style(STATIC)
html_math_renderer = "mathml"
html_static_path = [str(STATIC), "_static"]
html_css_files = ["tables.css"]

ROOT_FILES = generate.GENERATED / "root"  # copied beside the pages
ROOT_FILES.mkdir(exist_ok=True)
(ROOT_FILES / "llms.txt").write_text(plain.text(generate.registered()), encoding="utf-8")
html_extra_path = [str(ROOT_FILES)]

html_theme = "furo"
html_title = f"denseam {release}"


def _absolute_values_are_not_substitutions(app, what, name, obj, options, lines):
    """Escape the bars of |h| in docstrings, outside of literals."""
    lines[:] = [re.sub(r"(`+[^`]*`+)|\|", lambda m: m[1] or r"\|", line) for line in lines]


def _shorter(text):
    text = re.sub(r"~?(\w+\.)*Array\b", "Array", text)
    text = re.sub(r"Array( \| [\w.~]*(ndarray|bool|number|int|float|complex)\b){3,}", "ArrayLike", text)
    return re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text)


def _arrays_have_a_short_name(app, what, name, obj, options, signature, returns):
    """Write Array and ArrayLike as the source does, also where an alias was resolved."""
    return tuple(part and _shorter(part) for part in (signature, returns))


def _left_out(app, what, name, obj, skip, options):
    """Leave out fields of named tuples ('Alias for field number …'), and tables too long for a line."""
    is_field = type(obj).__name__ == "_tuplegetter"
    is_long = isinstance(obj, dict | tuple) and len(repr(obj)) > 200
    return True if is_field or is_long else None


def _tutorials_link_to_their_notebooks(app, docname, source):
    folder, _, name = docname.rpartition("/")
    if folder == "tutorials":
        source[0] = colab.with_links(name, source[0])


def setup(app):
    app.connect("source-read", _tutorials_link_to_their_notebooks)
    # After napoleon, which reads the docstrings at the usual priority of 500.
    app.connect("autodoc-process-docstring", _absolute_values_are_not_substitutions, priority=600)
    app.connect("autodoc-process-signature", _arrays_have_a_short_name)
    app.connect("autodoc-skip-member", _left_out)
