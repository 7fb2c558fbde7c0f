"""Samples from a file as a family indexed by size: shrunk, centred, and partly held out."""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from denseam.data.concerns import Concern, concerns
from denseam.data.encoder import Encoder
from denseam.data.preparation import Preparation, Shrink
from denseam.data.raw import Raw
from denseam.data.reductions import Plaquettes, Projection, Reduction, Whole, blocks, orthonormal
from denseam.ground.errors import InputError, refuse
from denseam.rules import Shape

#: Rows are read in pieces of about this size.
PIECE_BYTES = 1 << 23
#: Maximum size of the held-out samples that are evaluated.
HELDOUT_BYTES = 1 << 24
#: Variances of a shrunk set are measured on about this many samples, to an accuracy of 0.2 %.
ENOUGH = 1 << 18
#: The covariance that principal directions need is N0 × N0 in float64: 2 GiB for this many features.
MOST_FOR_PCA = 16384
#: Up to here they take seconds, and vectors shrink by them unless asked otherwise.
MOST_BY_DEFAULT = 4096

#: Samples from which eigenvalues of the covariance are estimated: at most the first number, at least the
#: second, and as many between as take this many bytes.
FOR_SPECTRUM, LEAST_FOR_SPECTRUM, SPECTRUM_BYTES = 2048, 256, 1 << 26
#: The ways to shrink that need principal directions.
PRINCIPAL = ("rotated", "pca")

#: Philox counters of the two permutations here; `training.sample_order` uses the first counter.
_CHOICE, _HELDOUT = 2, 3


@dataclasses.dataclass(frozen=True, eq=False)
class _Statistics:
    """Statistics of all samples, from one pass over them, in units of u.

    `deviation` is what every feature is divided by, None if nothing.
    """

    mean: Float[np.ndarray, " N0"]
    variance: Float[np.ndarray, " N0"]
    reach: Float[np.ndarray, " N0"]  # the largest distance from the mean
    deviation: Float[np.ndarray, " N0"] | None

    def centred(self, x: Float[np.ndarray, "n N0"]) -> Float[np.ndarray, "n N0"]:
        """Return samples without their mean, each feature divided by its deviation."""
        d = x - self.mean
        return np.asarray(d if self.deviation is None else d / self.deviation)

    @property
    def mean_variance(self) -> float:
        """The mean variance of a feature, after that division."""
        return float(np.mean(self.variance)) if self.deviation is None else 1.0


class ArrayFamily:
    """A file's samples at every size they can be shrunk to."""

    def __init__(self, raw: Raw, preparation: Preparation) -> None:
        self.raw, self.preparation = raw, preparation
        self.shrink = preparation.shrink or _default_shrink(raw)
        problems = []
        if self.shrink == "plaquettes" and raw.image is None:
            problems.append(f"shrink 'plaquettes' is for images, but data {raw.origin} holds vectors")
        if preparation.standardize and raw.image is not None:
            problems.append(f"standardize is for vectors, but data {raw.origin} holds images")
        if self.shrink in PRINCIPAL and raw.features > MOST_FOR_PCA:
            problems.append(
                f"shrink {self.shrink!r} is for at most {MOST_FOR_PCA} features, but data {raw.origin} has "
                f"{raw.features}; take 'orthonormal'"
            )
        refuse(problems)
        self._encoders: dict[int, Encoder] = {}
        self._lock = threading.RLock()
        self._heldout = held_out(raw.samples, preparation.heldout)
        self._training = np.setdiff1d(np.arange(raw.samples), self._heldout, assume_unique=True)

    @functools.cached_property
    def digest(self) -> str:
        """The identity of the file's content and of its preparation."""
        p = self.preparation
        standard = " standardized" if p.standardize else ""
        return (
            f"{self.raw.digest} {self.shrink}{standard} unit_variance={p.unit_variance} "
            f"heldout={p.heldout:.12g}"
        )

    def has_digest(self, digest: str) -> bool:
        """Return whether a digest, maybe one of an earlier version, is that of this data."""
        content, _, preparation = digest.partition(" ")
        return self.raw.has_digest(content) and preparation == self.digest.partition(" ")[2]

    @property
    def features(self) -> int:
        """N0, the largest possible number of features."""
        return self.raw.features

    @property
    def available(self) -> int:
        """The number of samples for training."""
        return len(self._training)

    @property
    def heldout_samples(self) -> int:
        """The number of samples that are never trained on."""
        return len(self._heldout)

    @property
    def mixing(self) -> str | None:
        """The kind of projection that mixes the features; None if they are pixels or as they are."""
        return None if self.shrink in ("plaquettes", "none") else self.shrink

    def describe(self) -> str:
        """Return the origin of the data and its preparation in one line."""
        scaled = ", standardized" if self.preparation.standardize else ""
        scaled += ", unit variance" if self.preparation.unit_variance else ""
        held = f", {self.preparation.heldout:.3g} held out" if len(self._heldout) else ""
        shrunk = "" if self.shrink == "none" else f", {self.shrink}"
        return f"{self.raw.origin}{shrunk}, centred{scaled}{held}"

    def sizes(self) -> tuple[int, ...]:
        """Return suitable sizes in increasing order; vectors can be shrunk to any other size too."""
        if self.shrink == "none":
            return (self.features,)
        if self.shrink == "plaquettes":
            return tuple(sorted(self._blocks))
        powers = (2**k for k in range(self.features.bit_length()))
        return tuple(sorted({self.features, *(n for n in powers if n < self.features)}))

    @functools.cached_property
    def _blocks(self) -> dict[int, tuple[int, int]]:
        """The blocks of pixels for each possible number of features."""
        assert self.raw.image is not None
        return blocks(self.raw.image)

    def problems(self, shape: Shape) -> list[str]:
        """Return why this data cannot provide a shape."""
        problems, origin = [], self.raw.origin
        if self.shrink == "plaquettes" and shape.N not in self._blocks:
            near = sorted(self._blocks, key=lambda n: abs(math.log(n / shape.N)))[:4]
            allowed = ", ".join(map(str, sorted(near)))
            problems.append(f"data {origin} has plaquettes of {allowed}, … features, not of {shape.N}")
        elif self.shrink == "none" and self.features != shape.N:
            problems.append(f"data {origin} has {self.features} features, the study asks for {shape.N}")
        elif self.features < shape.N:
            problems.append(f"data {origin} has only {self.features} features, the study asks for {shape.N}")
        if shape.P is not None and self.available < shape.P:
            held = f" ({len(self._heldout)} more are held out)" if len(self._heldout) else ""
            problems.append(
                f"data {origin} has {self.available} samples to train on{held}, the study asks for {shape.P}"
            )
        if not problems:
            try:
                _ = self._statistics
            except InputError as error:
                problems += error.problems
        return problems

    def concerns(self, noise: float) -> list[Concern]:
        """Return what is wrong with the scale of this data, for noise of a standard deviation."""
        known = self._statistics
        size = 1.0 if self.preparation.unit_variance else math.sqrt(known.mean_variance)
        one_unit = self.raw.image is not None or self.preparation.standardize
        return concerns(None if one_unit else known.reach, size, noise)

    # --- samples -----------------------------------------------------------------------------------

    def samples(self, shape: Shape, seed: int, dtype: Any) -> Any:
        """Return the P training samples of a seed; each seed chooses its own."""
        assert shape.P is not None
        return self.rows(shape, seed, np.arange(shape.P), dtype)

    def rows(self, shape: Shape, seed: int, which: Int[np.ndarray, " n"], dtype: Any) -> Any:
        """Return some of them, by their indices from 0 to P − 1; only these are read."""
        assert shape.P is not None
        return self._encoded(shape.N, self._chosen(seed, shape.P)[which], dtype)

    def heldout(self, shape: Shape, seed: int, dtype: Any) -> Any:
        """Return samples that this seed does not train on: at most P, and at most `HELDOUT_BYTES`."""
        assert shape.P is not None
        rest = self._heldout if len(self._heldout) else self._order(seed)[shape.P :]
        most = min(shape.P, max(1, HELDOUT_BYTES // (4 * shape.N)))
        return self._encoded(shape.N, np.sort(_spread(rest, most)), dtype)

    def _encoded(self, N: int, rows: Int[np.ndarray, " n"], dtype: Any) -> Any:
        double = np.dtype(dtype) == np.float64
        encoder = self.encoder(N)
        pieces = np.array_split(rows, max(1, math.ceil(len(rows) * self.features * 4 / PIECE_BYTES)))
        y = np.empty((len(rows), N), np.float64 if double else np.float32)
        first = 0
        for piece in pieces:
            # Values far from zero lose digits in float32 unless they are centred first.
            wide = np.float64 if self.raw.array.dtype == np.float64 else y.dtype
            y[first : first + len(piece)] = encoder.of_units(self.raw.rows(piece, wide))
            first += len(piece)
        return np.asarray(y, dtype)

    @functools.lru_cache(maxsize=4)  # noqa: B019
    def _order(self, seed: int) -> Int[np.ndarray, " n"]:
        return np.asarray(self._training[_permutation(seed, _CHOICE, self.available)])

    @functools.lru_cache(maxsize=4)  # noqa: B019
    def _chosen(self, seed: int, P: int) -> Int[np.ndarray, " P"]:
        return np.sort(self._order(seed)[:P])

    # --- their transformation ------------------------------------------------------------------------

    @functools.cache  # noqa: B019  # families live as long as the process
    def largest_eigenvalue(self, N: int) -> float:
        """Return the largest eigenvalue of the covariance of N features, from some of the samples."""
        from scipy.linalg import eigh  # importing it takes longer than most commands need it for

        gram = _gram(self._encoded(N, self._for_spectrum(N), np.float64))
        last = len(gram) - 1
        return float(eigh(gram, eigvals_only=True, subset_by_index=(last, last))[0])

    @functools.cache  # noqa: B019
    def participation(self) -> float:
        """Return tr(C)² / tr(C²) of the covariance C: the number of directions in which the data varies."""
        rows = self.raw.rows(self._for_spectrum(self.features), np.float64)
        gram = _gram(self._statistics.centred(rows))
        return float(np.trace(gram) ** 2 / np.sum(gram**2))

    def _for_spectrum(self, N: int) -> Int[np.ndarray, " n"]:
        most = min(FOR_SPECTRUM, max(LEAST_FOR_SPECTRUM, SPECTRUM_BYTES // (8 * N)))
        return _spread(self._training, most)

    def encoder(self, N: int) -> Encoder:
        """Return the transformation of the samples to N features."""
        with self._lock:
            if N not in self._encoders:
                raw, preparation = self.raw, self.preparation
                reduction = self._reduction(N)
                scale = math.sqrt(self._mean_variance(reduction)) if preparation.unit_variance else 1.0
                self._encoders[N] = Encoder(
                    reduction, self._statistics.mean, scale, raw.unit, raw.image, raw.origin,
                    self.digest, preparation.heldout, self._statistics.deviation,
                )  # fmt: skip
            return self._encoders[N]

    def _reduction(self, N: int) -> Reduction:
        if self.shrink == "none":
            return Whole(self.features, self.raw.image)
        if self.shrink == "plaquettes":
            assert self.raw.image is not None
            return Plaquettes(self.raw.image, *self._blocks[N])
        bare = Projection(self._directions(N), 1.0, self.shrink)  # type: ignore[arg-type]  # one of the rest
        kept = self._statistics.mean_variance
        alpha = 1.0 if self.features == N else math.sqrt(kept / self._mean_variance(bare))
        return dataclasses.replace(bare, alpha=alpha)

    def _directions(self, N: int) -> Float[np.ndarray, "N N0"]:
        if self.shrink == "orthonormal":
            return orthonormal(N, self.features)
        leading = self._principal[:N]
        return leading if self.shrink == "pca" else orthonormal(N, N) @ leading

    def _pieces(self, most: float = math.inf) -> Iterator[Float[np.ndarray, "n N0"]]:
        """Yield all samples piece by piece, or pieces spread over them with about `most` samples in total."""
        rows = max(1, PIECE_BYTES // (8 * self.features))
        every = max(1, math.floor(self.raw.samples / max(most, rows)))
        for first in range(0, self.raw.samples, rows * every):
            yield self.raw.rows(slice(first, first + rows), np.float64)

    @functools.cached_property
    def _statistics(self) -> _Statistics:
        """Mean and variance of every feature over the whole set; refuses data that cannot be trained on."""
        n, shift = 0, None
        for x in self._pieces():
            if shift is None:
                shift = x[0].copy()  # sums of squares of values far from zero would lose digits
                total, squares = np.zeros_like(shift), np.zeros_like(shift)
                low, high = shift, shift
            if not np.isfinite(x).all():
                row, column = np.argwhere(~np.isfinite(x))[0]
                raise InputError(
                    f"data {self.raw.origin}: must be finite, got {x[row, column]} at sample {n + row}, "
                    f"feature {column}"
                )
            d = x - shift
            total, squares, n = total + d.sum(0), squares + (d * d).sum(0), n + len(x)
            low, high = np.minimum(low, x.min(0)), np.maximum(high, x.max(0))
        assert shift is not None
        mean = shift + total / n
        variance = np.maximum(squares / n - (total / n) ** 2, 0)
        self._refuse_constant(mean, variance)
        deviation = np.sqrt(variance) if self.preparation.standardize else None
        return _Statistics(mean, variance, np.maximum(high - mean, mean - low), deviation)

    def _refuse_constant(self, mean: Float[np.ndarray, " N0"], variance: Float[np.ndarray, " N0"]) -> None:
        # A feature whose variation float32 cannot resolve counts as constant.
        least = np.finfo(np.float32).eps * np.abs(mean)
        constant = np.flatnonzero(variance <= np.maximum(1e-42, least**2))
        # Borders of images hardly ever change; a constant feature of a vector is a mistake.
        if len(constant) == self.features or (len(constant) and self.raw.image is None):
            names = ", ".join(map(str, constant[:5])) + (", …" if len(constant) > 5 else "")
            which = "all features are" if len(constant) == self.features else f"feature {names} is"
            if 1 < len(constant) < self.features:
                which = f"features {names} ({len(constant)} of {self.features}) are"
            raise InputError(
                f"data {self.raw.origin}: {which} constant over all samples; leave such features out"
            )

    def _mean_variance(self, reduction: Reduction) -> float:
        """Return the mean variance of a feature after a reduction."""
        if isinstance(reduction, Whole):
            return self._statistics.mean_variance
        total, n = 0.0, 0
        for x in self._pieces(ENOUGH):
            y = reduction.reduce(self._statistics.centred(x))
            total, n = total + float(np.sum(y * y)), n + len(x)
        return total / (n * reduction.features)

    @functools.cached_property
    def _principal(self) -> Float[np.ndarray, "N0 N0"]:
        """All principal directions, largest variance first; the largest entry of each is positive."""
        covariance = np.zeros((self.features, self.features))
        for x in self._pieces():
            d = self._statistics.centred(x)
            covariance += d.T @ d
        directions = np.linalg.eigh(covariance)[1].T[::-1]
        largest = np.take_along_axis(directions, np.argmax(np.abs(directions), axis=1)[:, None], axis=1)
        return np.asarray(directions * np.sign(largest))


def _default_shrink(raw: Raw) -> Shrink:
    if raw.image:
        return "plaquettes"
    return "rotated" if raw.features <= MOST_BY_DEFAULT else "orthonormal"


def held_out(samples: int, share: float) -> Int[np.ndarray, " n"]:
    """Return the indices of the samples that are never trained on: the same for every seed and size."""
    return np.sort(_permutation(0, _HELDOUT, samples)[: math.floor(share * samples + 1e-9)])


def _spread(rows: Int[np.ndarray, " n"], most: int) -> Int[np.ndarray, " m"]:
    """Return up to this many rows, evenly spaced: many files are sorted by class."""
    if most >= len(rows):
        return rows
    return np.asarray(rows[np.linspace(0, len(rows) - 1, most).round().astype(int)])


def _gram(x: Float[np.ndarray, "n N"]) -> Float[np.ndarray, "m m"]:
    """Return the covariance of samples, or that of features: the smaller; they have the same eigenvalues."""
    d = x - x.mean(axis=0)
    return np.asarray((d @ d.T if len(d) < d.shape[1] else d.T @ d) / len(d))


def _permutation(seed: int, use: int, n: int) -> Int[np.ndarray, " n"]:
    """Return a permutation that is the same on every machine: Philox's raw words, sorted."""
    words = np.random.Philox(key=seed, counter=[0, 0, 0, use]).random_raw(n)
    return np.argsort(words, kind="stable")
