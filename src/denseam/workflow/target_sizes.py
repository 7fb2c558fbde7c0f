"""The sizes of a target, and the regime that leads to it."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from denseam.ground.errors import InputError, refuse
from denseam.rules import Proportional, ProportionalSteps, Regime, Shape
from denseam.rules.fields import Kind, Part, Span, check_fields, parameter, parameters
from denseam.rules.regimes import DEFAULT_REGIME, REGIMES, regime_letter
from denseam.rules.sizes import WORDS
from denseam.studies.description import DOCUMENT, REGIME

if TYPE_CHECKING:
    from denseam.data.sources import Source


#: The option of a goal whose small models are trained shorter than the target.
TUNE_EPOCHS = dataclasses.replace(
    DOCUMENT["epochs"], name="tune_epochs", document="tune_epochs", default=None,
    default_text="those of the target",
    help="Epochs of the small models; the effect of the length is measured at the smallest size.",
)  # fmt: skip


def _ratio(name: str, default_text: str = "") -> Any:
    """Return the field of a ratio as in `Proportional`, but optional."""
    ratio = parameters(Proportional)[name]
    bounds = {"low": ratio.low, "open_low": ratio.open_low, "high": ratio.high, "open_high": ratio.open_high}
    shown = default_text or ratio.default_shown()
    return parameter(Part.GROWTH, ratio.kind, ratio.help, None, default_text=shown, **bounds)


@dataclasses.dataclass(frozen=True)
class TargetSizes:
    """The sizes of a target, as numbers or as ratios between them."""

    features: int | None = parameter(
        Part.GROWTH, Kind.WHOLE, "N of the target.", None, low=1, default_text="that of the data"
    )
    memories: int | None = parameter(
        Part.GROWTH,
        Kind.WHOLE,
        "K of the target; given alone, only memories grow.",
        None,
        low=1,
        default_text="κN",
    )
    samples: int | None = parameter(
        Part.GROWTH, Kind.WHOLE, "P of the target.", None, low=1, default_text="all; 5N if they are generated"
    )
    batch: int | None = parameter(
        Part.GROWTH, Kind.WHOLE, "B of the target.", None, low=1, default_text="N/2",
        span=Span(0.25, 4, step=math.log10(2), relative=True),
    )  # fmt: skip
    kappa: float | None = _ratio("kappa")
    rho: float | None = _ratio("rho", "from --samples")
    beta: float | None = _ratio("beta", "from --batch")

    def __post_init__(self) -> None:
        check_fields(self)

    def regime(
        self, name: str | None, family: Source, epochs: int | None = None, steps: int | None = None
    ) -> tuple[Regime, int]:
        """Return the regime that leads to the target, and the target's scale in it.

        `epochs` and `steps` are those of the target; they matter only where they grow.
        """
        if name is None:
            only_memories = self.memories is not None and self.features is None and self.kappa is None
            name = "memories-only" if only_memories else "proportional"
        REGIME.read(name)
        N = self.features or family.features
        if N is None:
            raise InputError(f"features is needed: {family.describe()!r} has no size of its own")
        if name == "proportional":
            return self.ratios(N, family.available), N
        if name == "proportional-steps":
            if steps is None:
                raise InputError("steps is needed: the steps of recall of the target")
            return ProportionalSteps(**ratios_of(self.ratios(N, family.available)), theta=steps / N), N
        problems = [
            f"{ratio} belongs to the regime 'proportional'"
            for ratio in parameters(Proportional)
            if getattr(self, ratio) is not None
        ]
        kind, growing = REGIMES[name], WORDS[regime_letter(name)]
        P = self.samples or family.available
        sizes = {
            "features": N,
            "memories": self.memories,
            "samples": P,
            "batch": self.batch,
            "epochs": epochs,
            "steps": steps,
        }
        if sizes[growing] is None:
            problems.append(f"{growing} is needed: the size of the target")
        refuse(problems)
        P = P or round(kind.samples_per_feature * N)
        default = {"memories": round(DEFAULT_REGIME.kappa * N), "samples": P, "batch": min(P, _batch(N))}
        fixed = {key: sizes[key] or default[key] for key in parameters(kind)}
        return kind(**fixed), DOCUMENT[growing].read(sizes[growing])

    def shape(self) -> Shape:
        """Return the sizes of one model; missing ones follow in proportion."""
        if self.features is None:
            raise InputError("features is needed: the N of the model")
        return self.ratios(self.features, None).shape(self.features)

    def ratios(self, N: int, available: int | None) -> Proportional:
        """Return the ratios between the sizes at N features; `available` limits the samples."""
        pairs = (("memories", "kappa"), ("samples", "rho"), ("batch", "beta"))
        refuse(
            f"{word} and {ratio} mean the same; give only one of them"
            for word, ratio in pairs
            if getattr(self, word) is not None and getattr(self, ratio) is not None
        )
        rho = self.samples / N if self.samples else self.rho
        if rho is None:
            rho = DEFAULT_REGIME.rho if available is None else available / N
        kappa = self.memories / N if self.memories else self.kappa
        P = max(1, round(rho * N))
        beta = self.beta if self.beta is not None else min(1.0, (self.batch or _batch(N)) / P)
        ratios = {"kappa": kappa, "rho": rho, "beta": beta}
        return Proportional(**{k: v for k, v in ratios.items() if v is not None})


def ratios_of(regime: Proportional) -> dict[str, float]:
    """Return κ, ρ and β."""
    return {name: getattr(regime, name) for name in parameters(Proportional)}


def _batch(N: int) -> int:
    """Return the default batch: a tenth of five samples for each feature, however many samples there are."""
    return max(1, round(DEFAULT_REGIME.beta * DEFAULT_REGIME.rho * N))
