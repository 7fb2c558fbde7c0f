"""A Sphinx extension: formulas become MathML, which browsers draw themselves, in a font of the pages.

No script runs, and nothing is fetched while a page is read.
"""

from __future__ import annotations

import base64
import io
from importlib import metadata
from pathlib import Path
from typing import Any

from docutils import nodes
from fontTools import subset
from math_core import LatexError, LatexToMathML
from sphinx.util import logging

#: The file that pages load; `conf.py` puts its folder among the static ones.
STYLE = "formulas.css"
#: What formulas may contain: Latin and Greek letters, accents, arrows, operators, brackets, and the alphabets
#: that LaTeX calls math italic, bold, calligraphic and blackboard.
CHARACTERS = (
    (0x20, 0x7E), (0xB0, 0xFF), (0x300, 0x33F), (0x370, 0x3FF), (0x2010, 0x203F), (0x2061, 0x2064),
    (0x20D0, 0x20FF), (0x2100, 0x214F), (0x2190, 0x21FF), (0x2200, 0x22FF), (0x2308, 0x230B),
    (0x23DC, 0x23E1), (0x27E6, 0x27EF), (0x1D400, 0x1D467), (0x1D49C, 0x1D4CF),
    (0x1D538, 0x1D56B), (0x1D6A4, 0x1D71B),
)  # fmt: skip
#: Smaller forms of letters in exponents; dotless and flattened forms under accents.
FEATURES = ["ssty", "dtls", "flac"]

_CONVERTER = LatexToMathML()
_LOGGER = logging.getLogger(__name__)


def mathml(latex: str, *, display: bool) -> str:
    """Return a formula as MathML; raise LatexError if a command is unknown or a bracket is missing."""
    return str(_CONVERTER.convert_with_local_state(latex, displaystyle=display))


def write_style(folder: Path) -> None:
    """Write the style sheet, with the part of STIX Two Math that formulas need inside of it."""
    source = metadata.distribution("ziamath").locate_file("ziamath/fonts/STIXTwoMath-Regular.ttf")
    options = subset.Options(flavor="woff", layout_features=FEATURES, hinting=False)
    font = subset.load_font(str(source), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[code for first, last in CHARACTERS for code in range(first, last + 1)])
    subsetter.subset(font)
    packed = io.BytesIO()
    subset.save_font(font, packed, options)
    letters = base64.b64encode(packed.getvalue()).decode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STYLE).write_text(
        f"""\
/* STIX Two Math, SIL Open Font License 1.1; inside, since some browsers refuse fonts beside local pages. */
@font-face {{ font-family: "STIX Two Math"; src: url("data:font/woff;base64,{letters}") format("woff"); }}
math {{ font-family: "STIX Two Math", "Cambria Math", math; font-size: 1.1em; }}
math[display="block"] {{ margin: 1em 0; overflow-x: auto; overflow-y: hidden; padding: 0.2em 0; }}
""",
        encoding="utf-8",
    )


def _add(translator: Any, node: nodes.Element, *, display: bool) -> None:
    try:
        translator.body.append(mathml(node.astext(), display=display))
    except LatexError as error:
        _LOGGER.warning("formula %r: %s", node.astext(), error, location=node)
    raise nodes.SkipNode


def _inline(translator: Any, node: nodes.math) -> None:
    _add(translator, node, display=False)


def _block(translator: Any, node: nodes.math_block) -> None:
    _add(translator, node, display=True)


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer, which `html_math_renderer` chooses."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    app.add_css_file(STYLE)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
