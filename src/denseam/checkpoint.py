"""A file of tensors with a plain JSON document inside (safetensors); nothing is ever unpickled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from denseam.errors import InputError
from denseam.files import write_whole

_KEY = "denseam"
_FORMAT = 1


def write(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray[Any, Any]], document: Any) -> Path:
    """Write tensors and document, never half of them."""
    from safetensors.numpy import save

    target = Path(path)
    metadata = {_KEY: json.dumps({"format": _FORMAT, **document})}
    blob = save({k: np.array(v, order="C") for k, v in tensors.items()}, metadata=metadata)
    write_whole(target, blob)
    return target


def read(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """Read what `write` wrote; an `InputError` names the file and what is wrong with it."""
    from safetensors import SafetensorError, safe_open

    source = Path(path)
    if not source.is_file():
        raise InputError(f"checkpoint {source}: no such file")
    try:
        with safe_open(source, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, TypeError) as error:
        raise InputError(f"checkpoint {source}: not a readable safetensors file ({error})") from None
    try:
        document = json.loads(metadata[_KEY])
    except (KeyError, ValueError):
        raise InputError(f"checkpoint {source}: a safetensors file, but not one this library wrote") from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise InputError(f"checkpoint {source}: written in a format this version does not read")
    return tensors, document
