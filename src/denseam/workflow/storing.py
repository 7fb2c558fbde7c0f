"""How patterns are stored without training, as plain data."""

from __future__ import annotations

import dataclasses

from denseam.ground.errors import refuse
from denseam.model.shared import TOLERANCE
from denseam.rules.fields import Kind, Part, check_fields, parameter, parameters


@dataclasses.dataclass(frozen=True)
class Storing:
    """How patterns are stored, and how their recall is tried."""

    activation: str = parameter(
        Part.MODEL, Kind.CHOICE, "Hidden activation: softmax or relu.", "softmax", choices=("softmax", "relu")
    )
    power: float | None = parameter(
        Part.MODEL, Kind.NUMBER, "Power p of ReLU^p.", None, low=1, high=100, default_text="2",
        belongs=("activation", "relu"),
    )  # fmt: skip
    softmax_beta: float | None = parameter(
        Part.MODEL, Kind.NUMBER, "Inverse temperature of softmax.", None, low=0, open_low=True,
        default_text="from the distances of the patterns", belongs=("activation", "softmax"),
    )  # fmt: skip
    tolerance: float = parameter(
        Part.MODEL, Kind.NUMBER, "Largest deviation of a recalled feature, as a share of its range.",
        TOLERANCE, low=0, open_low=True, high=1,
    )  # fmt: skip
    unit_variance: bool = parameter(Part.DATA, Kind.FLAG, "Scale the patterns to mean variance 1.", False)
    noise: float = parameter(Part.DATA, Kind.NUMBER, "Standard deviation of the noise in cues.", 0.0, low=0)
    hide: float = parameter(
        Part.DATA, Kind.NUMBER, "Share of the features to hide in a trial.", 0.5, low=0, high=1
    )
    cues: int = parameter(Part.DATA, Kind.WHOLE, "Number of patterns to recall in a trial.", 1000, low=0)
    seed: int = parameter(Part.DATA, Kind.WHOLE, "Seed of the noise and of what is hidden.", 0, low=0)
    mesh: str | None = parameter(
        Part.EXECUTOR, Kind.TEXT, "Distribute the patterns over devices, as in memories=4.", None
    )

    def __post_init__(self) -> None:
        check_fields(self)
        refuse(
            described.belonging_problem(self.activation)
            for name, described in parameters(Storing).items()
            if described.belongs and getattr(self, name) is not None
            if self.activation not in described.belongs[1:]
        )
