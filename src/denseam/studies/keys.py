"""The key of a run: the hash of a document as JSON, with its keys in order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

#: The entry of a document with the values of a run.
_VALUES = "values"


def digest(document: Any) -> str:
    """Return the hash of a document."""
    return hashlib.sha256(_text(document).encode()).hexdigest()[:32]


class Documents:
    """Documents that differ only in their seed and their values, hashed without writing each of them anew.

    Parameters
    ----------
    same
        What they have in common.
    values
        The values of each.
    """

    def __init__(self, same: Mapping[str, Any], values: Iterable[Mapping[str, Any]]) -> None:
        self._before = {name: entry for name, entry in same.items() if name < _VALUES}
        after = _text({name: entry for name, entry in same.items() if name > _VALUES})[1:]
        end = after if after == "}" else f", {after}"
        self._ends = [f"{_text(each)}{end}".encode() for each in values]

    def digests(self, seed: int) -> list[str]:
        """Return the `digest` of each document, with this seed."""
        begin = _text(self._before | {"seed": seed})[:-1] + f', "{_VALUES}": '
        hashed, keys = hashlib.sha256(begin.encode()), []
        for end in self._ends:
            whole = hashed.copy()
            whole.update(end)
            keys.append(whole.hexdigest()[:32])
        return keys


def _text(document: Any) -> str:
    return json.dumps(document, sort_keys=True, default=str)
