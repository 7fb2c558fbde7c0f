"""A folder as the Hugging Face Hub expects it: configuration, tensors, and a model card.

`config.json` holds the document of a checkpoint, `model.safetensors` the tensors and nothing else,
`README.md` the card. Uploading the folder is left to the tools of the hub.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from denseam.ground.errors import (
    InputError,
    named,
    path_of,
    read_entries,
    refuse,
    shown,
    table_of,
    typed,
    whole_number,
)
from denseam.ground.files import json_table, make_folder, text_of, write_whole
from denseam.model.checkpoint import checksums
from denseam.model.shared import scales_of

CONFIG, TENSORS, CARD = "config.json", "model.safetensors", "README.md"
#: What the configuration says about the kind of model.
TYPE = "denseam"
#: The entry of the configuration with the checksums of the tensors.
SUMS = "checksums"
_FORMAT = 1

_CARD = """\
---
library_name: denseam
tags:
- associative-memory
- hopfield-network
- energy-based-model
---

# Dense Associative Memory

A model with K = {K} memories of N = {N} features.
Hidden neurons: {activation}. Feature neurons: {features}. {centred}.

```python
import denseam

memory = denseam.{kind}.from_pretrained("PATH/TO/THIS/FOLDER")
```
"""


def write_pretrained(
    folder: str | os.PathLike[str],
    tensors: Mapping[str, Any],
    document: Mapping[str, Any],
    facts: Mapping[str, str] | None = None,
    kind: str = "DenseAM",
) -> Path:
    """Write the folder; a card that is already there is kept, since people edit it.

    Parameters
    ----------
    folder
        Created if it does not exist.
    tensors, document
        Those of a checkpoint.
    facts
        Rows of the card, as `denseam.training_facts` returns them.
    kind
        The class that reads the whole folder.
    """
    from safetensors.numpy import save

    target = path_of("folder", folder)
    refuse(typed(Mapping, "a mapping of names to text", facts={} if facts is None else facts))
    try:
        make_folder(target)
    except OSError as error:
        raise InputError(f"folder {target}: cannot be written ({error.strerror})") from None
    arrays = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    sums = {SUMS: checksums(arrays)}
    config = {"model_type": TYPE, "architectures": [kind], "format": _FORMAT, **document, **sums}
    # Hubs and loaders expect this entry; it does not say who may read the tensors.
    write_whole(target / TENSORS, save(arrays, metadata={"format": "pt"}))
    write_whole(target / CONFIG, json.dumps(config, indent=2, allow_nan=False).encode())
    if not (target / CARD).exists():
        write_whole(target / CARD, card(arrays["W"].shape, document, facts or {}, kind).encode())
    return target


def card(shape: tuple[int, ...], document: Mapping[str, Any], facts: Mapping[str, str], kind: str) -> str:
    """Return the model card: what the memory is, how it was trained, and its prescription."""
    text = _CARD.format(
        K=shape[0],
        N=shape[1],
        activation=_lagrangian(document["activation"]),
        features=_lagrangian(document["features"]),
        centred="Centred" if document["centred"] else "Not centred",
        kind=kind,
    )
    if facts:
        rows = [f"| {_cell(name)} | {_cell(value)} |" for name, value in facts.items()]
        text += "\n".join(["\n## Training\n", "| | |", "|---|---|", *rows, ""])
    scales = scales_of(document)
    if scales is not None:
        text += f"\n## Prescription\n\n```text\n{scales.explain()}\n```\n"
    return text


def _lagrangian(document: Mapping[str, Any]) -> str:
    parameters = ", ".join(f"{key} = {value}" for key, value in document.items() if key != "name")
    return f"{document['name']} ({parameters})" if parameters else str(document["name"])


def _cell(value: object) -> str:
    """Return a text as a cell of a Markdown table."""
    return " ".join(str(value).split()).replace("|", "\\|")


def is_pretrained(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder has the files of one for the hub."""
    return all((Path(folder) / name).is_file() for name in (CONFIG, TENSORS))


def read_pretrained(folder: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """Return tensors and document of a folder from `write_pretrained`; refuse one of another kind."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    source = path_of("folder", folder)
    with named(f"folder {source}"):
        for name in (CONFIG, TENSORS):
            if not (source / name).is_file():
                raise InputError(f"has no {name}, so it is not a folder of save_pretrained")
        with named(CONFIG):
            config = json_table(text_of(source / CONFIG))
        if config.get("model_type") != TYPE:
            raise InputError(f"holds a model of the type {shown(config.get('model_type'))}, not {TYPE!r}")
        if config.get("format") != _FORMAT:
            raise InputError("written in a format this version does not read")
        try:
            tensors = load_file(source / TENSORS)
        except (SafetensorError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{TENSORS} is not a readable safetensors file ({error})") from None
        _compare(config.pop(SUMS, None), tensors)
    return tensors, config


def _compare(stated: Any, tensors: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Refuse tensors that are not those that were written; folders of early versions have no checksums."""
    if stated is None:
        return
    sums = read_entries({SUMS: stated}, {SUMS: table_of(whole_number())})[SUMS]
    refuse(
        f"{TENSORS}: {name} is not what was written; if you changed it, remove {SUMS!r} from {CONFIG}"
        for name, actual in checksums(tensors).items()
        if sums.get(name, actual) != actual  # a name that is unknown is refused later
    )
