"""How much of the data the target is trained on."""

from __future__ import annotations

import dataclasses
from typing import Any

from denseam.workflow.goals import Goal


@dataclasses.dataclass(frozen=True)
class DataUse:
    """Numbers of samples.

    Attributes
    ----------
    used
        P of the target.
    available
        Samples that it could be trained on; None if they are generated.
    heldout
        Samples that are never trained on; None if they are generated.
    """

    used: int
    available: int | None
    heldout: int | None

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {f"samples_{name}": number for name, number in dataclasses.asdict(self).items()}

    def describe(self) -> str:
        """Return the numbers in one line."""
        if self.available is None:
            return f"the target is trained on {self.used} generated samples"
        share = f"all {self.used}" if self.used == self.available else f"{self.used} of {self.available}"
        rest = f"{self.heldout} more are held out" if self.heldout else "none are held out"
        return f"the target is trained on {share} samples; {rest}"


def data_use(goal: Goal) -> DataUse:
    """Return how much of its data a goal uses."""
    source, P = goal.study.source(), goal.shape.P
    assert P is not None
    return DataUse(P, source.available, source.heldout_samples)
