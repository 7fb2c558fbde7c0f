"""The three readings of an experiment: whether its biases are trained, and what they start from.

The paper draws biases from N(0, 1) in its text and leaves them out of its derivations; some of its
experiments train them, but it does not say which. So every experiment is read in three ways, and a claim is
judged in each of them. None is the default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from denseam.ground.errors import InputError, listed


@dataclasses.dataclass(frozen=True)
class Reading:
    """A way to read what an experiment says of its biases.

    Attributes
    ----------
    name
        One word.
    words
        What it stands for.
    study
        The keys of a study's document that it sets.
    """

    name: str
    words: str
    study: tuple[tuple[str, Any], ...] = ()


FROZEN = Reading("frozen", "biases frozen at zero", (("eta_b_ratio", 0.0), ("eta_c_ratio", 0.0)))
TRAINED = Reading("trained", "biases trained from zero")
NORMAL = Reading("normal", "biases trained from N(0, 1)", (("bias_init", "normal"),))

READINGS: Mapping[str, Reading] = {reading.name: reading for reading in (FROZEN, TRAINED, NORMAL)}


def readings_of(names: Sequence[str]) -> tuple[Reading, ...]:
    """Return readings by their names, in the order of the table; all of them for 'all'."""
    unknown = [name for name in names if name not in (*READINGS, "all")]
    if unknown or not names:
        words = ", ".join(unknown) or "nothing"
        raise InputError(f"reading must be {listed((*READINGS, 'all'))}, got {words}")
    return tuple(r for r in READINGS.values() if r.name in names or "all" in names)
