"""The style of figures, with colours that can be told apart by colour-blind readers and in grey."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from denseam.ground.files import write_whole

INK, FAINT, BAD, ACCENT = "#222222", "#9a9a9a", "#b2182b", "#d95f02"
MARKERS = "osD^vPX*"

_RC: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "denseam",
}


@contextlib.contextmanager
def canvas(rows: int, columns: int, width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """Give a figure and its axes (rows × columns), to be drawn into files.

    It does not use pyplot, so that no screen is needed and a notebook keeps showing its own figures.
    """
    import matplotlib

    from denseam.report.plots.picture import Picture

    with matplotlib.rc_context(_RC):
        figure = Picture(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False)


def plain_log_ticks(axis: Any) -> None:
    """Label an axis with plain numbers, even within a decade; leave one alone that is not logarithmic."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if axis.get_scale() != "log":
        return
    low, high = axis.get_view_interval()
    ratio = high / low
    subs: tuple[float, ...] = (1,)  # of each decade, so that at least two are labelled
    for below, finer in ((100, (1, 3)), (30, (1, 2, 3, 5)), (6, (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8))):
        if ratio < below:
            subs = finer
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def typeset(symbol: str) -> str:
    """Return a symbol with its orders, as in Δ_W⁽¹,²⁾F, set as a formula: raised letters are too small."""
    plain = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")

    def formula(found: re.Match[str]) -> str:
        below = f"_{{{found[1]}}}" if found[1] else ""
        return rf"$\Delta{below}^{{({found[2].translate(plain)})}}$"

    return re.sub(r"Δ(?:_(\w))?⁽([^⁾]*)⁾", formula, symbol)


def scale_colours(count: int) -> list[Any]:
    """Return one colour per scale, from light (small) to dark (large), readable in grey as well."""
    import matplotlib as mpl

    colours = mpl.colormaps["viridis_r"]
    return [colours(0.08 + 0.92 * i / max(1, count - 1)) for i in range(count)]


def save(figure: Any, out: Path, name: str, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write the figure in each format, every file completely or not at all; return the files."""
    import matplotlib

    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{name}.{kind}" for kind in formats]
    for file, kind in zip(files, formats, strict=True):
        content = io.BytesIO()
        with matplotlib.rc_context(_RC):
            figure.savefig(content, format=kind, metadata={"Date": None} if kind == "svg" else None)
        write_whole(file, content.getvalue())
    return files
