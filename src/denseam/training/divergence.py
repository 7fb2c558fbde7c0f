"""When a run has diverged: one rule for every training loop.

A run has diverged if a loss became non-finite, or if the last epoch's mean loss is above that of the
untrained model on the same batches and noise. The two differ by the training alone: an easy first batch
cannot condemn a run whose learning rate is nearly zero, nor a hard one acquit a run that got worse.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

EndStatus = Literal["finished", "diverged"]


class Ending(NamedTuple):
    """How a run ended.

    Attributes
    ----------
    curve
        The loss of every step, infinite from the first that is not finite.
    diverged_at
        The first step, counted from 0, whose loss is not finite (or the last step of a run that ended with a
        higher loss than it began with); None if it finished.
    """

    curve: Float[np.ndarray, "epochs steps"]
    status: EndStatus
    diverged_at: int | None


def ending(errors: Float[np.ndarray, "epochs steps"], initial: float) -> Ending:
    """Judge a run by the loss of every step and that of the untrained model on the last epoch's batches.

    The losses of steps that were not taken, because the run had blown up before, must not be finite.
    """
    curve, blown = infinite_once_blown(errors), ~np.isfinite(errors).ravel()
    if blown.any():
        return Ending(curve, "diverged", int(np.argmax(blown)))
    if np.mean(curve[-1]) <= initial:
        return Ending(curve, "finished", None)
    return Ending(curve, "diverged", blown.size - 1)


def infinite_once_blown(errors: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
    """Return losses, in the order of their steps, with infinity from the first that is not finite."""
    blown = np.logical_or.accumulate(~np.isfinite(errors).ravel()).reshape(errors.shape)
    return np.where(blown, np.inf, errors)
