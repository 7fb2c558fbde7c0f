"""The four sizes of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from denseam.errors import refuse, whole

#: The letter used inside → the word used at the edges.
WORDS: Mapping[str, str] = {"N": "features", "K": "memories", "P": "samples", "B": "batch"}


@dataclass(frozen=True)
class Shape:
    """The four sizes of a problem.

    Parameters
    ----------
    N, K
        Features and memories.
    P, B
        Samples and batch; None where only the model matters.
    """

    N: int
    K: int
    P: int | None = None
    B: int | None = None

    def __post_init__(self) -> None:
        values = {f"{word} ({letter})": getattr(self, letter) for letter, word in WORDS.items()}
        optional = ("samples (P)", "batch (B)")
        problems = [*whole(**{k: v for k, v in values.items() if v is not None or k not in optional})]
        if not problems and self.P is not None and self.B is not None and self.B > self.P:
            problems.append(f"batch (B) must be at most samples (P) = {self.P}, got {self.B}")
        refuse(problems)

    def __str__(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in asdict(self).items() if v is not None)
