"""When a run has diverged: one rule for every training loop.

A run has diverged if a loss became non-finite, or if the last epoch's mean loss is above that of the
untrained model on the same batches and noise. The two differ by the training alone: an easy first batch
cannot condemn a run whose learning rate is nearly zero, nor a hard one acquit a run that got worse.

The untrained model denoises a little, and a weight decay takes that away. A run with decay that learns too
slowly ends above the untrained model, near the loss of predicting zero. It has forgotten, not diverged, so
its last loss must be above that of predicting zero, too.
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


def ending(
    errors: Float[np.ndarray, "epochs steps"], initial: float, forgotten: float | None = None
) -> Ending:
    """Judge a run by the loss of every step.

    Parameters
    ----------
    errors
        The losses. Those of steps that were not taken, because the run had blown up before, must not be
        finite.
    initial
        The loss of the untrained model on the last epoch's batches.
    forgotten
        Where W decays, the loss of predicting zero.
    """
    curve, blown = infinite_once_blown(errors), ~np.isfinite(errors).ravel()
    if blown.any():
        return Ending(curve, "diverged", int(np.argmax(blown)))
    if np.mean(curve[-1]) <= (initial if forgotten is None else max(initial, forgotten)):
        return Ending(curve, "finished", None)
    return Ending(curve, "diverged", blown.size - 1)


def infinite_once_blown(errors: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
    """Return losses, in the order of their steps, with infinity from the first that is not finite."""
    blown = np.logical_or.accumulate(~np.isfinite(errors).ravel()).reshape(errors.shape)
    return np.where(blown, np.inf, errors)
