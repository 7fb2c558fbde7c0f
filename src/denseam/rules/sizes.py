"""The sizes of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from denseam.ground.errors import refuse, whole

#: The letter used inside → the word used at the edges.
WORDS: Mapping[str, str] = {
    "N": "features",
    "K": "memories",
    "P": "samples",
    "B": "batch",
    "E": "epochs",
    "T": "steps",
}
#: The sizes that a shape may leave open.
_OPTIONAL = ("P", "B", "E")


@dataclass(frozen=True)
class Shape:
    """The sizes of a problem.

    Parameters
    ----------
    N, K
        Features and memories.
    P, B
        Samples and batch; None where only the model matters.
    E
        Epochs; None where the length of training is the same at every scale, so that the study says it.
    T
        Steps of recall that the model is trained through.
    """

    N: int
    K: int
    P: int | None = None
    B: int | None = None
    E: int | None = None
    T: int = 1

    def __post_init__(self) -> None:
        sizes = {letter: getattr(self, letter) for letter in WORDS}
        known = {k: v for k, v in sizes.items() if v is not None or k not in _OPTIONAL}
        problems = [*whole(**{f"{WORDS[letter]} ({letter})": value for letter, value in known.items()})]
        if not problems and self.P is not None and self.B is not None and self.B > self.P:
            problems.append(f"batch (B) must be at most samples (P) = {self.P}, got {self.B}")
        refuse(problems)

    def __str__(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in self.to_json().items() if v is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the sizes by their letters; epochs and steps of recall only if they are among them."""
        absent = {"E": None, "T": 1}
        return {k: v for k, v in asdict(self).items() if k not in absent or v != absent[k]}
