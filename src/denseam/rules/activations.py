"""Activations as text: a name, and its parameters in parentheses, as in ``entmax(1.5)``."""

from __future__ import annotations

import re
from typing import NamedTuple

from denseam.ground.errors import InputError

_FORM = re.compile(r"\s*([\w-]+)\s*(?:\(([^()]*)\))?\s*")


class ActivationText(NamedTuple):
    """The name of an activation, and its parameters in order; none if there are no parentheses."""

    name: str
    parameters: tuple[float, ...] = ()

    def __str__(self) -> str:
        inside = ",".join(repr(p) if p != round(p) else str(round(p)) for p in self.parameters)
        return f"{self.name}({inside})" if self.parameters else self.name


def read_activation(text: str) -> ActivationText:
    """Read the text of an activation; a name that is none comes back as it is."""
    match = _FORM.fullmatch(text)
    if match is None:
        return ActivationText(text)
    name, inside = match.groups()
    if inside is None:
        return ActivationText(name)
    try:
        return ActivationText(name, tuple(float(word) for word in inside.split(",")))
    except ValueError:
        raise InputError(
            f"activation {text!r}: its parameters must be numbers, as in 'entmax(1.5)'"
        ) from None
