"""What `state_dict` and sharding need of tensors: documents as bytes, and whole tensors from their parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from denseam.ground.errors import InputError
from denseam.model.shared import what

#: Documents are filled up with blanks to a multiple of this many bytes. `torch.distributed.checkpoint` reads
#: a tensor only into one of the same length, and documents with other numbers differ by a few characters.
BLOCK = 4096


def tensor_of(document: Mapping[str, Any]) -> Tensor:
    """Return a document as a tensor of bytes: JSON in UTF-8, filled up with blanks."""
    text = json.dumps(document).encode()
    filled = text.ljust(-(-len(text) // BLOCK) * BLOCK)
    return torch.frombuffer(bytearray(filled), dtype=torch.uint8).cpu()


def document_of(state: Any) -> dict[str, Any]:
    """Read what `tensor_of` wrote, or the table of text that earlier versions wrote."""
    text: Any = state.get("denseam") if isinstance(state, Mapping) else state
    if isinstance(text, Tensor) and text.dtype == torch.uint8:
        text = bytes(full(text).flatten().tolist())
    try:
        document = json.loads(text)
    except (TypeError, ValueError):
        document = None
    if not isinstance(document, dict):
        raise InputError(f"state_dict: the extra state of a DenseAM must be bytes, got {_kind(state)}")
    return document


def _kind(state: Any) -> str:
    return what(state) if isinstance(state, Tensor) else type(state).__name__


def is_sharded(tensor: Tensor) -> bool:
    """Whether the tensor is distributed over processes, as FSDP2 keeps parameters."""
    return hasattr(tensor, "full_tensor")


def full(tensor: Tensor) -> Tensor:
    """Return the whole tensor; of a sharded one, gathered from all processes, which must all call this."""
    gathered: Tensor = tensor.full_tensor() if is_sharded(tensor) else tensor  # type: ignore[operator, unused-ignore]
    return gathered
