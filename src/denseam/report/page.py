"""One self-contained HTML page on a folder of results or a table.

Markup is in `templates/`, the charts in `templates/charts.js`; this module gives the templates their data.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from denseam.ground.errors import InputError, path_of
from denseam.ground.files import write_whole
from denseam.report.contents import contents
from denseam.report.plots.style import MARKERS
from denseam.report.wording import duration, number

_LONG_GRID = 16
#: The keys of a study that its charts need.
_DRAWN = (
    "name", "axis", "letter", "loss_name", "scales", "values", "seeds", "zero", "epochs", "stops", "runs",
    "curves", "probes",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Report:
    """The page that was written, its charts and pictures, and the files that could not be read."""

    html: Path
    figures: tuple[str, ...]
    skipped: tuple[str, ...]


def write_report(
    results: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    axis: str | None = None,
    target: int | None = None,
    columns: Mapping[str, str] | None = None,
) -> Report:
    """Write one page on everything in a folder, or on a table of runs.

    Parameters
    ----------
    results
        The folder of a sweep, a demonstration, a search, a training or a recall, finished or not; or a table.
    out
        The file to write; by default `report.html` in the folder, or the name of the table with `.html`.
    axis, target, columns
        As in `denseam.verdict`.
    """
    root = path_of("results", results)
    document = contents(root, axis=axis, target=target, columns=columns)
    own = root / "report.html" if root.is_dir() else root.with_name(f"{root.name.partition('.')[0]}.html")
    path = own if out is None else Path(out)
    if path.is_dir():
        raise InputError(f"out {path}: is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise InputError(f"out {path}: there is no folder {path.parent}")
    write_whole(path, render(document).encode("utf-8", "replace"))
    return Report(path, tuple(figures_of(document)), tuple(document["skipped"]))


def render(document: Mapping[str, Any]) -> str:
    """Return the page for the contents of a folder."""
    studies = [
        {k: s[k] for k in _DRAWN} | {"colours": colours(len(s["scales"]))} for s in document["studies"]
    ]
    data = {"studies": studies, "trainings": document["trainings"], "markers": MARKERS}
    style, script = _resource("page.css"), _resource("charts.js") + _resource("page.js")
    return environment().get_template("page.html").render(document, data=data, style=style, script=script)


def figures_of(document: Mapping[str, Any]) -> list[str]:
    """Return the names of the charts and pictures on the page."""
    names = []
    for s in document["studies"]:
        names.append(f"{s['name']}: transfer")
        if s["curves"]:
            names.append(f"{s['name']}: collapse")
        if s["probes"]:
            names.append(f"{s['name']}: probes")
    names += [f"{t['place']}: training" for t in document["trainings"]]
    shown = [*document["pictures"], *(p for r in document["recalls"] for p in r["pictures"])]
    return names + [p["name"] for p in shown]


def colours(count: int) -> dict[str, list[str]]:
    """Return a colour per scale for each theme, light for small scales as in the figures, and all visible."""
    import matplotlib as mpl
    from matplotlib.colors import to_hex

    def spread(low: float, high: float) -> list[str]:
        shades = mpl.colormaps["viridis_r"]
        return [to_hex(shades(low + (high - low) * i / max(1, count - 1))) for i in range(count)]

    # The lightest yellow is invisible on white, the darkest purple on black.
    return {"light": spread(0.26, 1.0), "dark": spread(0.0, 0.64)}


@functools.cache
def environment() -> Environment:
    """Return the templates: values are escaped, and an undefined name is an error."""
    templates = Environment(
        loader=PackageLoader("denseam.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "counted": _counted,
        "described": lambda quantity: f"{quantity['symbol']}: {quantity['meaning']}",
        "duration": duration,
        "number": number,
        "percent": lambda share: f"{100 * share:.2f}",
        "recipe_facts": _recipe_facts,
        "settings": _settings,
        "source_hash": _source_hash,
    }
    templates.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return templates


def _resource(name: str) -> str:
    return resources.files("denseam.report").joinpath("templates", name).read_text(encoding="utf-8")


# --- filters ---------------------------------------------------------------------------------------


def _source_hash(text: str) -> str:
    """Return the hash that allows a browser to run exactly this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _counted(count: int, word: str, plural: str = "") -> str:
    return f"{count:,} {word if count == 1 else plural or word + 's'}"


def _settings(study: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Give headings, each with names and values: what was varied, what was fixed, and where it ran."""
    grids = study["grids"]
    yield "Varied", [(name, _grid(values)) for name, values in grids.items()]
    fixed = {name: value for name, value in study["settings"].items() if name not in grids}
    yield "Fixed", [(name, f"{v:.12g}" if isinstance(v, float) else str(v)) for name, v in fixed.items()]
    where = [
        ("denseam" if name == "version" else name, ", ".join(v)) for name, v in study["versions"].items()
    ]
    where.append(("runs", f"{study['count']:,}"))
    if study["seconds"] is not None:
        where.append(("time of all runs", duration(study["seconds"])))
    yield "Runs" if study["table"] else "Where it ran", where


def _grid(values: Sequence[Any]) -> str:
    shown = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in values]
    return ", ".join(shown) if len(shown) <= _LONG_GRID else f"{shown[0]} … {shown[-1]} ({len(shown)} values)"


def _recipe_facts(tuned: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give names and values of what a search recommends, of its target, and of its cost."""
    if tuned["recommended"]:
        yield "use η₀", number(tuned["eta0"])
        yield from ((f"use {name}", number(value)) for name, value in (tuned["constants"] or {}).items())
    elif tuned["forecast_eta0"] is not None:
        yield "forecast of η₀, not recommended", number(tuned["forecast_eta0"])
    if tuned["interval_at_target"]:
        low, high = tuned["interval_at_target"]
        yield "best η₀ at the target", f"expected in [{number(low)}, {number(high)}]"
    if tuned["regret_bound"] is not None:
        yield (
            "its cost",
            f"at most {100 * tuned['regret_bound']:.2g} % (tolerance {100 * tuned['tolerance']:.2g} %)",
        )
    shape = {letter: size for letter, size in (tuned["target"] or {}).items() if size is not None}
    yield "target", ", ".join(f"{letter} = {size}" for letter, size in shape.items())
    yield from ((name, number(value, 4)) for name, value in (tuned["parameters"] or {}).items())
    yield "sizes tuned at", ", ".join(map(str, tuned["scales"] or []))
    seeds = tuned["seeds"]
    yield "seeds", ", ".join(map(str, seeds)) if isinstance(seeds, list) else str(seeds)
    yield "data", str(tuned["data"])
    cost = tuned["cost"]
    if cost.get("share") is not None and cost.get("runs") is not None:
        spent = f"{cost['runs']} runs, {duration(cost['seconds'] or 0)}"
        yield "cost", f"{spent}; {100 * cost['share']:.2g} % of a sweep at the target"
