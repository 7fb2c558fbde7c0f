"""The four sizes of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from denseam.errors import refuse

#: Letter inside, word at the edges.
SIZES: Mapping[str, str] = {"N": "features", "K": "memories", "P": "samples", "B": "batch"}


@dataclass(frozen=True)
class Shape:
    """The four sizes of a problem.

    Parameters
    ----------
    N, K
        Features and memories.
    P, B
        Samples and batch; may be left out where only the model matters.
    """

    N: int
    K: int
    P: int | None = None
    B: int | None = None

    def __post_init__(self) -> None:
        def wrong(name: str, value: object) -> str | None:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                return f"{SIZES[name]} ({name}) must be a whole number of at least 1, got {value!r}"
            return None

        given = {"N": self.N, "K": self.K} | {
            k: v for k, v in (("P", self.P), ("B", self.B)) if v is not None
        }
        problems = [said for name, value in given.items() if (said := wrong(name, value))]
        if not problems and self.P is not None and self.B is not None and self.B > self.P:
            problems.append(f"batch (B) must be at most samples (P) = {self.P}, got {self.B}")
        refuse(problems)

    def __str__(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in asdict(self).items() if v is not None)
