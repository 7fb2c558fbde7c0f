"""PyArrow, without pandas where nobody needs it.

The first time that PyArrow makes an array, it imports pandas, if that is installed, to find out whether it
was given one of its objects. That takes half a second.
"""

from __future__ import annotations

import importlib.abc
import sys
import threading
from typing import Any

#: Whether anything in this process may hand objects of pandas to PyArrow. The program itself never does.
pandas_is_used = True
#: Packages that may do so: trackers, and readers of data.
USERS = frozenset({"pandas", "mlflow", "wandb", "datasets"})


def pyarrow() -> Any:
    """Return the module, ready to make arrays."""
    global pandas_is_used
    import pyarrow as pa

    if not pandas_is_used and not USERS & sys.modules.keys():
        finder = _NoPandas(threading.get_ident())
        sys.meta_path.insert(0, finder)
        try:
            # Looks for pandas, and does so only once: from now on a series is a sequence like any other,
            # until something asks for pandas by name, as `to_pandas` does.
            pa.array([])
        finally:
            sys.meta_path.remove(finder)
        pandas_is_used = True
    return pa


class _NoPandas(importlib.abc.MetaPathFinder):
    """Finds that pandas is not installed, for one thread."""

    def __init__(self, thread: int) -> None:
        self._thread = thread

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "pandas" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(name=name)
