"""How much of the data the target is trained on, and whether it has enough directions to be tuned on."""

from __future__ import annotations

import dataclasses
from typing import Any

from denseam.workflow.goals import Goal

#: Data of fewer directions look different at every size, so that small models say little about the target.
FEW_DIRECTIONS = 1.5


@dataclasses.dataclass(frozen=True)
class DataUse:
    """Numbers of samples, and of directions.

    Attributes
    ----------
    used
        P of the target.
    available
        Samples that it could be trained on; None if they are generated.
    heldout
        Samples that are never trained on; None if they are generated.
    participation
        tr(C)² / tr(C²) of the covariance C, about the number of directions; None if samples are generated.
    """

    used: int
    available: int | None
    heldout: int | None
    participation: float | None

    @property
    def few_directions(self) -> bool:
        """Whether the data vary in so few directions that tuning at small sizes may mislead."""
        return self.participation is not None and self.participation < FEW_DIRECTIONS

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "samples_used": self.used,
            "samples_available": self.available,
            "samples_heldout": self.heldout,
            "participation": self.participation,
            "few_directions": self.few_directions,
        }

    def describe(self) -> str:
        """Return the numbers in one line."""
        if self.available is None:
            return f"the target is trained on {self.used} generated samples"
        share = f"all {self.used}" if self.used == self.available else f"{self.used} of {self.available}"
        rest = f"{self.heldout} more are held out" if self.heldout else "none are held out"
        return f"the target is trained on {share} samples; {rest}"

    def warning(self) -> str:
        """Return what is doubtful about the data; '' if nothing is."""
        if not self.few_directions:
            return ""
        return (
            f"the data vary in few directions (participation {self.participation:.2f}, below "
            f"{FEW_DIRECTIONS}): small models may say little about the target; --standardize helps if "
            "features have different units"
        )


def data_use(goal: Goal) -> DataUse:
    """Return how much of its data a goal uses."""
    source, P = goal.study.source(), goal.shape.P
    assert P is not None
    return DataUse(P, source.available, source.heldout_samples, source.participation())
