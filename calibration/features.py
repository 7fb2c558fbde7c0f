"""Functions that several makers share: windows, choices of features, and the participation ratio."""

import numpy as np

from .registry import FEATURES


def participation(samples: np.ndarray) -> float:
    """Participation ratio tr(C)² / tr(C²) of the covariance C: how many directions the data fill."""
    covariance = np.cov(samples.reshape(len(samples), -1).astype(np.float64), rowvar=False)
    return float(np.trace(covariance) ** 2 / np.sum(covariance**2))


def windows(signal: np.ndarray, length: int, stride: int) -> np.ndarray:
    """Return the windows of a signal, one per row."""
    if len(signal) < length:
        return np.empty((0, length), signal.dtype)
    return np.lib.stride_tricks.sliding_window_view(signal, length)[::stride]


def most_varied(samples: np.ndarray, count: int = FEATURES) -> np.ndarray:
    """Keep the `count` features of largest variance, in their order."""
    chosen = np.sort(np.argsort(-samples.var(axis=0), kind="stable")[:count])
    return samples[:, chosen]


def standardised(table: np.ndarray, limit: float = 4.0) -> np.ndarray:
    """Give every column mean 0 and variance 1, after clipping it at `limit` standard deviations."""
    table = table[:, table.std(axis=0) > 0]
    table = np.clip((table - table.mean(axis=0)) / table.std(axis=0), -limit, limit)
    return (table - table.mean(axis=0)) / table.std(axis=0)


def with_products(table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Extend a standardised table to 256 columns by standardised products of random pairs of its columns."""
    left, right = np.triu_indices(table.shape[1])
    pairs = rng.choice(len(left), FEATURES - table.shape[1], replace=False)
    products = standardised(table[:, left[pairs]] * table[:, right[pairs]])
    return np.hstack([table, products])


def one_hot(codes: np.ndarray) -> np.ndarray:
    """Turn every column of categories into one indicator per category."""
    return np.hstack([column[:, None] == np.unique(column) for column in codes.T]).astype(np.float32)


def with_crossings(indicators: np.ndarray) -> np.ndarray:
    """Extend indicators by those of pairs of categories; keep the 256 of largest variance."""
    left, right = np.triu_indices(indicators.shape[1], 1)
    return most_varied(np.hstack([indicators, indicators[:, left] * indicators[:, right]]))
