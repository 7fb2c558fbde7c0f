"""What the JAX and the PyTorch model share: checks of their arguments, and their document in a checkpoint."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from denseam import __version__
from denseam.ground.errors import (
    FLAG,
    NUMBER,
    POSITIVE,
    InputError,
    UnboundedEnergyWarning,
    above_zero,
    at_least_zero,
    listed,
    named,
    read_entries,
    refuse,
    table_of,
    typed,
    whole,
    whole_number,
)
from denseam.rules import Scales
from denseam.rules.table import BIAS_INITS

MULTIPLIERS = ("s1", "s2", "s_b", "s_c")

_LAGRANGIAN = table_of()
_ENTRIES = {
    "activation": _LAGRANGIAN, "features": _LAGRANGIAN, "centred": FLAG, "scales": table_of().or_none(),
    "steps": table_of().or_none(),
}  # fmt: skip


def check_shapes(W: Any, arrays: Mapping[str, Any]) -> None:
    """Refuse arrays that do not fit W; None stands for an array that is absent."""
    K, N = W.shape
    shapes = {"b": (K,), "c": (N,), "counts": (N,)}
    refuse(
        f"{name} must have shape {shape}: W has {K} memories and {N} features; got {what(array)}"
        for name, array in arrays.items()
        if array is not None and tuple(array.shape) != (shape := shapes.get(name, ()))
    )


def check_start(scales: Scales, activation: Any, features: Any, bias_init: str) -> None:
    """Refuse an untrained model that does not fit its scales; warn if its energy has no lower bound."""
    refuse(typed(Scales, "Scales, from a rule at a shape", scales=scales))
    problems, rule = [], scales.rule
    if bias_init not in BIAS_INITS:
        problems.append(f"bias_init must be {listed(BIAS_INITS)}, got {bias_init!r}")
    if rule is not None and rule.family != activation.family:
        problems.append(
            f"activation is of the family {activation.family!r}, but the scales were made for {rule.family!r}"
        )
    refuse(problems)
    identity = features is not None and features.name == "identity"
    if identity and activation.name == "relu" and activation.power > 1:
        warnings.warn(
            f"with identity features and relu(power={activation.power}) the energy has no lower bound; "
            "recall may diverge (tanh features are bounded)",
            UnboundedEnergyWarning,
            stacklevel=3,
        )


def check_single(argument: str, features: Any, single: type) -> None:
    """Refuse an argument that needs a G that is a sum over features, of the class `single`."""
    if not isinstance(features, single):
        raise InputError(
            f"{argument} needs features that are functions of one neuron each, such as tanh: with "
            f"{features.name} the g of a feature depends on all others"
        )


def recall_problems(steps: int, damping: float, tolerance: float) -> Iterator[str]:
    """Yield a problem for each number with which `DenseAM.recall` makes no sense."""
    yield from whole(steps=steps)
    yield from at_least_zero(tolerance=tolerance)
    if any(above_zero(damping=damping)) or damping > 1:
        yield f"damping must be above 0 and at most 1, got {damping!r}"


#: Largest deviation of a feature of a stored pattern that is recalled, as a share of its range.
TOLERANCE = 1e-4
#: The maximum number of steps of recall of a memory that was trained on one update.
STEPS = 100


def steps_of_recall(
    trained: Any, steps: int | None, damping: float | None, most: int = STEPS
) -> tuple[int, float]:
    """Return the number of steps and their size: those given, or those of the training (None: one update)."""
    number, size = (most, 1.0) if trained is None else (trained.T, float(trained.size))
    return number if steps is None else steps, size if damping is None else damping


def check_recall(
    x: Any, mask: Any, steps: int, tolerance: float, damping: float, name: str = "clamp"
) -> None:
    """Refuse arguments with which `DenseAM.recall` makes no sense."""
    problems = [*recall_problems(steps, damping, tolerance)]
    shapes = (tuple(x.shape), tuple(x.shape[-1:]))
    if str(mask.dtype) not in ("bool", "torch.bool") or tuple(mask.shape) not in shapes:
        problems.append(f"{name} must be true or false for each feature of x {shapes[0]}, got {what(mask)}")
    refuse(problems)


def what(array: Any) -> str:
    """Return an array's type and shape, for a message."""
    return f"{array.dtype} of shape {tuple(array.shape)}"


#: Parameters of Lagrangians that earlier versions did not have → values with which they change nothing.
_LATER = {"gain": 1.0}


def lagrangian_document(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Lagrangian as a plain document, which earlier versions can read if they can have it."""
    values: dict[str, Any] = {key: _plain(value) for key, value in parameters.items()}
    return {"name": name, **{key: v for key, v in values.items() if _LATER.get(key) != v}}


def _plain(value: Any) -> Any:
    return [float(v) for v in value] if isinstance(value, tuple) else float(value)


def to_document(
    activation: Any, features: Any, centred: bool, scales: Scales | None, steps: Any = None
) -> dict[str, Any]:
    """Return all of a model but its tensors; `activation` and `features` are documents themselves."""
    return ({} if steps is None else {"steps": steps.to_json()}) | {
        "kind": "model",
        "version": __version__,
        "activation": activation,
        "features": features,
        "centred": centred,
        "scales": scales.to_json() if scales else None,
    }


def scales_of(document: Mapping[str, Any]) -> Scales | None:
    """Return the scales in a model's document."""
    return Scales.from_json(document["scales"]) if document.get("scales") else None


def number_and_size(document: Mapping[str, Any] | None) -> tuple[int, float] | None:
    """Return the number and the size of the steps of recall in a document; None if it is none."""
    if document is None:
        return None
    with named("steps"):
        steps = read_entries(document, {"number": whole_number(1), "size": POSITIVE})
    return int(steps["number"]), float(steps["size"])


def multipliers_of(document: Mapping[str, Any]) -> dict[str, float]:
    """Return the multipliers in the document of a `state_dict`, after checking all of its entries."""
    with named("state_dict"):
        read_entries(document, _ENTRIES | {"multipliers": table_of()})
        values = read_entries(document["multipliers"], dict.fromkeys(MULTIPLIERS, NUMBER))
    return {name: float(values[name]) for name in MULTIPLIERS}


@contextlib.contextmanager
def own_tensors(
    tensors: Mapping[str, Any], document: Mapping[str, Any], path: str | os.PathLike[str]
) -> Iterator[dict[str, Any]]:
    """Give the tensors of the model itself, not those of its data; errors inside name the checkpoint."""
    with named(f"checkpoint {path}"):
        if document.get("kind") != "model":
            raise InputError(f"holds a {document.get('kind')!r}, not a model")
        read_entries(document, _ENTRIES)
        own = {name: tensor for name, tensor in tensors.items() if not name.startswith("data.")}
        needed = ("W", "b", "c", *MULTIPLIERS)
        refuse(f"the tensor {name} is missing" for name in needed if name not in own)
        refuse(f"the tensor {name} is unknown" for name in own if name not in (*needed, "counts"))
        yield own
