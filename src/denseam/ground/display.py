"""What objects can show of themselves in a notebook.

An object of any room may be shown, but only `report` draws. So a class says here that it can be shown; the
module that does it is named in one place, and is loaded when something is shown for the first time.
"""

from __future__ import annotations

import importlib
from typing import Any

#: The module with the functions `html` and `plot`, which know every class that is shown.
RENDERER = "denseam.report.notebook"


class Shown:
    """An object that a notebook shows as a small table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        html: str = importlib.import_module(RENDERER).html(self)
        return html


class Drawn(Shown):
    """An object that a notebook shows as a small table, and that can be drawn."""

    __slots__ = ()

    def plot(self) -> Any:
        """Return a Matplotlib figure, which a notebook shows; ``figure.savefig("file.png")`` writes it."""
        return importlib.import_module(RENDERER).plot(self)
