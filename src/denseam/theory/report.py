"""The predictions as one document, and as a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from denseam.ground.errors import InputError, above_zero, at_least_zero, refuse
from denseam.theory.gaussian import feature_variance
from denseam.theory.updates import UpdateSizes, residual_update_sizes, update_sizes

TERMS = {
    "Z1": "pre-activations, by the outer place of W",
    "Z2": "pre-activations, by the inner place of W",
    "F11": "outputs: outer change, outer gradient",
    "F12": "outputs: outer change, inner gradient",
    "F21": "outputs: inner change, outer gradient",
    "F22": "outputs: inner change, inner gradient",
}


def report(
    kappa: float,
    rho_b: float,
    noise: float | None = None,
    *,
    eta0: float = 1.0,
    s1_0: float = 1.0,
    s2_0: float = 1.0,
) -> dict[str, Any]:
    """Return the mean squared entries of the first step's terms as plain numbers.

    Keys Z1, Z2, F11, F12, F21, F22: with the residual replaced by F, in units η_W s2² = 1, s2² K = 1,
    s1² N = 1, v_g = 1. With `noise`, also `true_residual`: the same terms for R = F − Y on isotropic data
    with that noise, tanh features and the prescription's scales s1 = s1_0/√N, s2 = s2_0/√K, η_W = eta0·K.
    (The constants eta0, s1_0, s2_0 affect only these.)
    """
    problems = [*above_zero(kappa=kappa, rho_b=rho_b, eta0=eta0, s1_0=s1_0, s2_0=s2_0)]
    refuse(problems if noise is None else [*problems, *at_least_zero(noise=noise)])
    document: dict[str, Any] = _finite(lambda: update_sizes(kappa, rho_b))
    if noise is not None:
        document["true_residual"] = _finite(
            lambda: residual_update_sizes(kappa, rho_b, noise, eta0=eta0, s1_0=s1_0, s2_0=s2_0)
        )
    return document


def explain(
    kappa: float,
    rho_b: float,
    noise: float | None = None,
    *,
    eta0: float = 1.0,
    s1_0: float = 1.0,
    s2_0: float = 1.0,
) -> str:
    """Return the numbers of `report` as a table, root mean squares included."""
    document = report(kappa, rho_b, noise, eta0=eta0, s1_0=s1_0, s2_0=s2_0)
    lines = [
        f"Size of the first SGD step at κ = K/N = {kappa:g}, ρ_B = B/N = {rho_b:g}, large N;",
        "identity activation, zero biases. Mean square and root mean square of the entries.",
        "",
        "R→F: the residual replaced by F, in units η_W s2² = s2² K = s1² N = v_g = 1.",
    ]
    columns = [("R→F", document)]
    if noise is not None:
        v_g = feature_variance(noise)
        lines += [
            f"R=F−Y: isotropic data with noise {noise:g}, tanh features (v_g = {v_g:.4f}),",
            f"       s1 = {s1_0:g}/√N, s2 = {s2_0:g}/√K, η_W = {eta0:g}·K.",
        ]
        columns.append(("R=F−Y", document["true_residual"]))
    lines += ["", "term" + "".join(f"{name:>12}{'rms':>9}" for name, _ in columns)]
    for term in UpdateSizes._fields:
        cells = "".join(f"{values[term]:12.5g}{math.sqrt(values[term]):9.4g}" for _, values in columns)
        lines.append(f"{term:<4}{cells}   {TERMS[term]}")
    return "\n".join(lines)


def _finite(make: Callable[[], UpdateSizes]) -> dict[str, float]:
    """Return the sizes by name, or refuse input for which they overflow."""
    try:
        with np.errstate(all="ignore"):
            sizes = make()
    except (OverflowError, ZeroDivisionError, InputError):  # the input itself was checked before
        sizes = None
    if sizes is None or not all(map(math.isfinite, sizes)):
        raise InputError("kappa, rho_b, noise and the constants must be closer to 1: a size overflows")
    return sizes._asdict()
