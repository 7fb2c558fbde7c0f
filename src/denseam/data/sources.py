"""A source of data as a study names it: a Gaussian family, or samples from a file."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Int

from denseam.data.arrays import ArrayFamily
from denseam.data.concerns import Concern
from denseam.data.encoder import Encoder
from denseam.data.gaussian import anisotropic, isotropic
from denseam.data.huggingface import is_object
from denseam.data.preparation import Preparation
from denseam.data.readers import NAMED, read
from denseam.ground.errors import InputError, refuse, typed
from denseam.model.streams import Stream
from denseam.rules import Shape

GAUSSIANS = {"isotropic": 0.0, "anisotropic": 2 / 5}


@runtime_checkable
class Source(Protocol):
    """A family of data sets: samples × features for every shape it can serve."""

    @property
    def digest(self) -> str:
        """The identity of the data: two sources with the same digest give the same samples."""

    def has_digest(self, digest: str) -> bool:
        """Return whether a digest, maybe one of an earlier version, is that of this data."""

    @property
    def features(self) -> int | None:
        """Maximum number of features; None if there is no limit."""

    @property
    def available(self) -> int | None:
        """The number of samples for training; None if there is no limit."""

    @property
    def heldout_samples(self) -> int | None:
        """The number of samples that are never trained on; None if there is no limit."""

    @property
    def mixing(self) -> str | None:
        """The kind of projection that mixes the features of the file; None if each stays by itself."""

    def describe(self) -> str:
        """Return the origin of the data and its preparation in one line."""

    def sizes(self) -> tuple[int, ...]:
        """Return suitable numbers of features in increasing order; none if every number is."""

    def problems(self, shape: Shape) -> list[str]:
        """Return why this data cannot provide a shape; empty if it can."""

    def concerns(self, noise: float) -> list[Concern]:
        """Return what is wrong with the scale of this data, for noise of a standard deviation."""

    def samples(self, shape: Shape, seed: int, dtype: Any) -> Any:
        """Return the P training samples of a seed."""

    def rows(self, shape: Shape, seed: int, which: Int[np.ndarray, " n"], dtype: Any) -> Any:
        """Return some of them, by their indices from 0 to P − 1."""

    def heldout(self, shape: Shape, seed: int, dtype: Any) -> Any:
        """Return samples that this seed does not train on."""

    def largest_eigenvalue(self, N: int) -> float:
        """Return the largest eigenvalue of the covariance of N features."""

    def participation(self) -> float | None:
        """Return tr(C)² / tr(C²) of the covariance C at full size; None if there is no full size."""

    def encoder(self, N: int) -> Encoder | None:
        """Return the transformation of samples to N features; None if they are generated, not read."""


class Gaussian:
    """N(0, I), or N(0, D) with D_i ∝ i^(−exponent) and trace N."""

    features = available = heldout_samples = mixing = None

    def __init__(self, name: str) -> None:
        self.name, self.exponent = name, GAUSSIANS[name]
        self.digest = f"gaussian:{self.exponent:.12g}"

    def has_digest(self, digest: str) -> bool:
        """Return whether a digest is that of this data."""
        return digest == self.digest

    def describe(self) -> str:
        """Return its name."""
        return self.name

    def sizes(self) -> tuple[int, ...]:
        """Return nothing: every size is suitable."""
        return ()

    def problems(self, shape: Shape) -> list[str]:
        """Return nothing: every shape is available."""
        return []

    def concerns(self, noise: float) -> list[Concern]:
        """Return nothing: every feature has a variance of order 1."""
        return []

    def samples(self, shape: Shape, seed: int, dtype: Any) -> Array:
        """Return the P training samples of a seed."""
        return self._draw(shape, seed, dtype, "data")

    def rows(self, shape: Shape, seed: int, which: Int[np.ndarray, " n"], dtype: Any) -> Any:
        """Return some of them."""
        return self._held(shape, seed, np.dtype(dtype))[which]

    @functools.lru_cache(maxsize=1)  # noqa: B019
    def _held(self, shape: Shape, seed: int, dtype: Any) -> Any:
        return np.asarray(self.samples(shape, seed, dtype))

    def heldout(self, shape: Shape, seed: int, dtype: Any) -> Array:
        """Return fresh samples of the same distribution."""
        return self._draw(shape, seed, dtype, "heldout")

    def _draw(self, shape: Shape, seed: int, dtype: Any, part: Stream) -> Array:
        assert shape.P is not None
        if self.exponent == 0:
            return isotropic(shape.N, shape.P, seed=seed, dtype=dtype, part=part)
        return anisotropic(shape.N, shape.P, exponent=self.exponent, seed=seed, dtype=dtype, part=part)

    def largest_eigenvalue(self, N: int) -> float:
        """Return D_1."""
        spectrum = np.arange(1, N + 1) ** -self.exponent
        return float(spectrum[0] * N / spectrum.sum())

    def participation(self) -> None:
        """Return nothing: there is no full size."""
        return

    def encoder(self, N: int) -> None:
        """Return nothing: there is no file."""
        return


def source(name: str | Any, preparation: Preparation | None = None) -> Source:
    """Return the source that a study names.

    Parameters
    ----------
    name
        'isotropic', 'anisotropic', or any argument of `denseam.data.readers.read`: 'digits', 'mnist',
        'fashion-mnist', or the path of a file or of a folder of images.
    preparation
        How samples from a file are prepared.
    """
    preparation = Preparation() if preparation is None else preparation
    if is_object(name):
        raise InputError(
            "data: a data set in memory must first be kept in a file, whose name is then the data: "
            "denseam.data.keep(dataset, 'x.npy')"
        )
    refuse([*typed(str, "text", data=name), *typed(Preparation, "Preparation(…)", preparation=preparation)])
    if name in GAUSSIANS:
        refuse(
            f"{field} belongs to data from a file, not to {name!r}"
            for field in ("shrink", "standardize", "unit_variance")
            if getattr(preparation, field)
        )
        return _gaussian(name)
    return _from_file(name, preparation, _state_of(name))


@functools.cache
def _gaussian(name: str) -> Gaussian:
    return Gaussian(name)


@functools.lru_cache(maxsize=8)
def _from_file(name: str, preparation: Preparation, state: object) -> ArrayFamily:
    return ArrayFamily(read(name), preparation)


def _state_of(name: str) -> object:
    """Return a value that changes with the file, so that a changed file is read again."""
    family, _, after = name.partition(":")
    places = [name, after] if family in NAMED else [name]  # as in mnist:PATH
    places += [name[:cut] for cut in range(len(name) - 1, 0, -1) if name[cut] == ":"]  # as in x.npz:key
    path = Path(next(filter(os.path.exists, places), name))
    try:
        entries = sorted(path.iterdir()) if path.is_dir() else [path]
        return tuple((str(e), e.stat().st_mtime_ns, e.stat().st_size) for e in entries)
    except (OSError, ValueError):  # absent, or not a valid path
        return None
