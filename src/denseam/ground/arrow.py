"""PyArrow, without pandas where nobody needs it.

The first time that PyArrow makes an array, it imports pandas, if that is installed, to find out whether it
was given one of its objects. That takes half a second.
"""

from __future__ import annotations

import importlib.abc
import sys
from typing import Any

#: Whether anything in this process may hand objects of pandas to PyArrow. The program itself never does.
pandas_is_used = True


def pyarrow() -> Any:
    """Return the module, ready to make arrays."""
    global pandas_is_used
    import pyarrow as pa

    if not pandas_is_used and "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas())
        try:
            pa.array([])  # looks for pandas, and does so only once
        finally:
            del sys.meta_path[0]
        pandas_is_used = True  # whoever imports it from now on may use it
    return pa


class _NoPandas(importlib.abc.MetaPathFinder):
    """Finds that pandas is not installed."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
