"""Rules by their names: the paper's prescription, the standard control, and changes written as text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Protocol, runtime_checkable

from denseam.ground.errors import InputError, UnprescribedWarning, listed, refuse, together, typed
from denseam.rules.activations import read_activation
from denseam.rules.optimizers import AVERAGES, OPTIMIZERS, OptimizerName
from denseam.rules.parameterizations import Parameterization
from denseam.rules.powers import ONE, Power
from denseam.rules.regimes import REGIMES, Regime, RegimeName
from denseam.rules.table import (
    FAMILIES,
    FAMILIES_OF_THE_PAPER,
    FIXED_MODEL,
    GRADIENT,
    HALF,
    IN_THE_PAPER,
    TABLE,
    is_prescribed,
    unprescribed,
)


def _row(family: str, optimizer: OptimizerName, regime: RegimeName) -> Parameterization:
    steps = 2 if "T" in REGIMES[regime].grows else 1
    row, prescribed = TABLE[regime, family, optimizer], is_prescribed(family, optimizer, steps)
    source = "docs/regimes.md" if regime in FIXED_MODEL else "docs/optimizers.md"
    if steps > 1:
        source = "docs/recall-steps.md"
    elif family not in FAMILIES_OF_THE_PAPER:
        source = "docs/energies.md"
    elif optimizer in IN_THE_PAPER and regime not in FIXED_MODEL:
        source = "Table 1 of the paper" if prescribed else "the paper's experiments"
    source += "" if prescribed else "; not prescribed"
    forgets: dict[str, Any] = {f"forget_{name}": power for name, power in row.forgets.items()}
    return Parameterization(
        "prescription", family, optimizer, regime, row.s1, row.s2, row.eta_W, row.eta_b, row.eta_b,
        decay_W=row.decay_W, **forgets,
        prescribed=prescribed, source=source, equations=(*row.equations, "etab-cases", "etac-cases"),
    )  # fmt: skip


@runtime_checkable
class HasFamily(Protocol):
    """Anything that names its row of the table; every Lagrangian does."""

    @property
    def family(self) -> str:
        """One of 'elementwise', 'softmax', 'entmax' and 'sparse'."""


def _family(activation: str | HasFamily) -> str:
    if isinstance(activation, str):
        name = read_activation(activation).name
        if name not in FAMILIES:
            raise InputError(f"activation must be {listed(FAMILIES)}, got {activation!r}")
        return FAMILIES[name]
    family = getattr(activation, "family", None)
    if family not in FAMILIES.values():
        raise InputError(
            f"activation must be {listed(FAMILIES)} or a Lagrangian whose family is "
            f"{listed(sorted(set(FAMILIES.values())))}, got {activation!r}"
        )
    return str(family)


def _one_of(argument: str, value: object, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise InputError(f"{argument} must be {listed(allowed)}, got {value!r}")
    return str(value)


def _any_family(activation: str | HasFamily) -> str:
    """Return the family of an activation, also one that has no row."""
    own = getattr(activation, "family", None)
    return own if isinstance(own, str) else _family(activation)


def _resolve(
    activation: str | HasFamily,
    optimizer: str,
    regime: str | Regime,
    family_of: Callable[[str | HasFamily], str] = _family,
) -> tuple[str, OptimizerName, RegimeName]:
    family, optimizer, regime = together(
        lambda: family_of(activation),
        lambda: _one_of("optimizer", optimizer, tuple(OPTIMIZERS)),
        lambda: _one_of("regime", getattr(regime, "name", regime), tuple(REGIMES)),
    )
    return family, optimizer, regime  # type: ignore[return-value]  # checked just above


def prescription(
    activation: str | HasFamily, optimizer: str, regime: str | Regime = "proportional"
) -> Parameterization:
    """Return the row of the table for an activation, an optimizer and a regime.

    Those of SGD and Adam are the paper's Table 1. Softmax has no prescription with SGD, nor with Muon, nor
    through several steps of recall, and sparse activations have none at all: their row is returned with
    ``prescribed`` False, and an `UnprescribedWarning` says so.

    Parameters
    ----------
    activation
        A name of `denseam.rules.table.FAMILIES`, as in 'relu' or 'relative-entmax(1.5)', or any Lagrangian.
    optimizer
        'sgd', 'adam', 'adamw', 'lion', 'sign' or 'muon'.
    regime
        'proportional', 'memories-only', 'batch-only', 'samples-only', 'epochs', 'steps-only' or
        'proportional-steps', or a regime object.
    """
    row = _row(*_resolve(activation, optimizer, regime))
    if not row.prescribed:
        warnings.warn(
            f"{unprescribed(row.family, row.optimizer)}: the learning rate of these scales is not expected "
            "to transfer",
            UnprescribedWarning,
            stacklevel=2,
        )
    return row


def standard(
    activation: str | HasFamily, optimizer: str, regime: str | Regime = "proportional"
) -> Parameterization:
    """Return the control, a plain layer: W ~ N(0, 1/N), no multipliers, one constant learning rate.

    For elementwise activations in the proportional regime it equals the prescription up to constants under
    SGD, and drifts as N^-1/2 under Adam. It also agrees for softmax with memories only, since nothing
    prescribed there grows with K. Elsewhere its s2 is off (see `mismatch`). It needs no row of the
    table, so a Lagrangian may have any family.
    """
    family, optimizer, regime = _resolve(activation, optimizer, regime, _any_family)
    return Parameterization(
        "standard", family, optimizer, regime, s1=ONE, s2=ONE, eta_W=ONE, W_std=Power(N=-HALF),
        source="W ~ N(0, 1/N), no multipliers, one learning rate",
    )  # fmt: skip


#: The factors on Adam's ε, which the paper's table leaves open.
_EPSILONS = {"epsilon_W", "epsilon_b", "epsilon_c"}
#: What can be changed without changing the size of the gradient.
_GRADIENT_STAYS = {"eta_W", "eta_b", "eta_c", "decay_W", *(f"forget_{name}" for name in AVERAGES)} | _EPSILONS

#: A comma between two changes, not that of max(K, N).
_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")

PARAMETERIZATIONS: Mapping[str, Any] = {"prescription": prescription, "standard": standard}


def parameterization(
    text: str, activation: str | HasFamily, optimizer: str, regime: str | Regime = "proportional"
) -> Parameterization:
    """Return a parameterization from its name, or from its differences to the prescription.

    ``s2=K^-1, eta_W=1`` is the prescription with another s2 and another learning rate;
    ``epsilon=gradient`` is the prescription with an ε of Adam that shrinks with the gradient.
    """
    refuse(typed(str, "text or a Parameterization", parameterization=text))
    if text in PARAMETERIZATIONS:
        named: Parameterization = PARAMETERIZATIONS[text](activation, optimizer, regime)
        return named
    row = _row(*_resolve(activation, optimizer, regime))
    allowed = [f.name for f in fields(Parameterization) if isinstance(getattr(row, f.name), Power)]
    changes: dict[str, Power] = {}
    by_gradient, has_epsilon = False, "epsilon" in OPTIMIZERS[row.optimizer].defaults
    for part in _OUTSIDE_PARENTHESES.split(text):
        name, equals, power = (piece.strip() for piece in part.partition("="))
        if (name, power) == ("epsilon", "gradient") and has_epsilon:
            changes |= {f"epsilon_{label}": size for label, size in GRADIENT[row.regime].items()}
            by_gradient = True
            continue
        if not equals or name not in allowed:
            raise InputError(
                f"parameterization must be {listed(PARAMETERIZATIONS)} or changes to the prescription, as in "
                f"s2=K^-1 (of {', '.join(allowed)}) or epsilon=gradient (Adam), got {text!r}"
            )
        changes[name] = Power.parse(power)
    if by_gradient and not _GRADIENT_STAYS.issuperset(changes):
        raise InputError(
            f"parameterization: the gradient is known for the prescribed s1 and s2 only, got {text!r}"
        )
    return replace(
        row,
        **changes,  # type: ignore[arg-type]  # powers only
        name=", ".join(f"{k}={v}" for k, v in changes.items()),
        prescribed=row.prescribed and _EPSILONS.issuperset(changes),
        centred_only=by_gradient,
        source="given by hand",
    )
