"""The page on a folder of results, written into one file."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from denseam.errors import InputError
from denseam.files import write_whole
from denseam.report.contents import contents
from denseam.report.page import figures_of, render

FILE = "report.html"


@dataclasses.dataclass(frozen=True)
class Report:
    """The page that was written, the charts and pictures on it, and the files that could not be read."""

    html: Path
    figures: tuple[str, ...]
    skipped: tuple[str, ...]


def write_report(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    axis: str | None = None,
    target: int | None = None,
) -> Report:
    """Write one page on all that a folder holds.

    Parameters
    ----------
    folder
        Of a sweep, the demonstration, a search, a training or a recall; finished or not.
    out
        The file; `report.html` in the folder by default.
    axis, target
        As in `denseam.verdict`.
    """
    root = Path(folder)
    document = contents(root, axis=axis, target=target)
    path = root / FILE if out is None else Path(out)
    if path.is_dir():
        raise InputError(f"out {path}: is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise InputError(f"out {path}: there is no folder {path.parent}")
    write_whole(path, render(document).encode("utf-8", "replace"))
    return Report(path, tuple(figures_of(document)), tuple(document["skipped"]))
