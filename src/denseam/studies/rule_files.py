"""Parameterizations as files: JSON or TOML, as `denseam find` writes them and a study takes them."""

from __future__ import annotations

import json
from pathlib import Path

from denseam.ground.errors import InputError, named
from denseam.ground.files import json_table, text_of, toml_table, write_whole
from denseam.rules import Parameterization

#: Suffix of a file → what reads its text.
_READERS = {".json": json_table, ".toml": toml_table}


def is_rule_file(text: object) -> bool:
    """Return whether a parameterization is given as a file, not by name or as changes."""
    return isinstance(text, str) and Path(text).suffix.lower() in _READERS


def read_rule(path: str) -> Parameterization:
    """Read the parameterization in a file."""
    with named(f"parameterization {path}"):
        try:
            table = _READERS[Path(path).suffix.lower()](text_of(Path(path)))
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(str(getattr(error, "strerror", None) or error)) from None
        return Parameterization.from_json(table)


def write_rule(path: Path, rule: Parameterization) -> None:
    """Write a parameterization as JSON."""
    write_whole(path, (json.dumps(rule.to_json(), indent=2) + "\n").encode())
