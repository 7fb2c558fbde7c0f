"""What can be known of the hidden half of a digit: two predictions without a memory.

They are computed when the documentation is built, on the samples of the figure `completion`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

#: What is added to the variance of each feature, and the widths of the kernel; the best one counts.
RIDGES, WIDTHS = (0.003, 0.01, 0.03), (0.6, 1.0, 1.6)


def samples() -> tuple[Any, Any]:
    """Return the training samples and the held-out samples of the figure, of its first seed."""
    from denseam.paper.readings import READINGS
    from denseam.paper.recall_steps import HIDDEN
    from denseam.paper.sizes import SIZES

    study = HIDDEN[1].whole_study(SIZES["paper"], READINGS["trained"])
    spec, source = study.runs()[0], study.source()
    return source.samples(spec.shape, spec.seed, np.float64), source.heldout(
        spec.shape, spec.seed, np.float64
    )


def error(predict: Callable[[Any, Any], Any], fresh: Any) -> float:
    """Return the squared error per hidden feature; half are hidden, a block as in training."""
    rng, N = np.random.default_rng(0), fresh.shape[1]
    errors = []
    for y in fresh:
        hidden = (np.arange(N) - rng.integers(N)) % N < N // 2
        errors.append(np.mean((predict(y, hidden) - y[hidden]) ** 2))
    return float(np.mean(errors))


def linear(data: Any, ridge: float) -> Callable[[Any, Any], Any]:
    """Return the best linear prediction of hidden features, from the covariance of the training samples."""
    mean, C = data.mean(axis=0), np.cov(data.T, bias=True) + ridge * np.eye(data.shape[1])

    def predict(y: Any, hidden: Any) -> Any:
        weights = np.linalg.solve(C[np.ix_(~hidden, ~hidden)], (y - mean)[~hidden])
        return mean[hidden] + C[np.ix_(hidden, ~hidden)] @ weights

    return predict


def kernel(data: Any, width: float) -> Callable[[Any, Any], Any]:
    """Return the mean of all training samples, weighted by how near their known features are."""

    def predict(y: Any, hidden: Any) -> Any:
        distances = np.sum((data[:, ~hidden] - y[~hidden]) ** 2, axis=1) / (2 * width**2)
        weights = np.exp(distances.min() - distances)
        return weights @ data[:, hidden] / weights.sum()

    return predict


def sentence() -> str:
    """Return the errors of both."""
    data, fresh = samples()
    of_linear = min(error(linear(data, ridge), fresh) for ridge in RIDGES)
    of_kernel = min(error(kernel(data, width), fresh) for width in WIDTHS)
    return (
        f"For comparison, held out: the best linear prediction of the hidden half from the known one has "
        f"{of_linear:.2f}, and a mean of all {len(data)} training samples, weighted by their distance in the "
        f"known half, {of_kernel:.2f}.\n"
    )
