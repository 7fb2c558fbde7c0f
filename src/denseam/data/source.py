"""A source of data as a study names it: a Gaussian family, or an array in a file."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from denseam.data.gaussian import anisotropic, isotropic
from denseam.errors import InputError
from denseam.scaling import Shape
from denseam.streams import stream


class Source(Protocol):
    """Gives samples × features for every shape it can serve."""

    @property
    def digest(self) -> str:
        """What identifies the data: two sources with one digest give the same samples."""
        ...

    def problems(self, shape: Shape) -> list[str]:
        """Return why a shape cannot be served; empty if it can."""
        ...

    def samples(self, shape: Shape, seed: int, dtype: Any) -> Array:
        """Return the P training samples of a seed."""
        ...

    def heldout(self, shape: Shape, seed: int, dtype: Any) -> Array:
        """Return samples that are not among them."""
        ...


class Gaussian:
    """N(0, I), or N(0, D) with D_i ∝ i^(−exponent) and trace N."""

    def __init__(self, exponent: float) -> None:
        self.exponent = exponent
        self.digest = f"gaussian:{exponent:.12g}"

    def problems(self, shape: Shape) -> list[str]:
        """Return nothing: every shape can be served."""
        return []

    def samples(self, shape: Shape, seed: int, dtype: Any) -> Array:
        """Return the P training samples of a seed."""
        assert shape.P is not None
        if self.exponent == 0:
            return isotropic(shape.N, shape.P, seed=seed, dtype=dtype)
        return anisotropic(shape.N, shape.P, exponent=self.exponent, seed=seed, dtype=dtype)

    def heldout(self, shape: Shape, seed: int, dtype: Any) -> Array:
        """Return fresh samples of the same law."""
        assert shape.P is not None
        if self.exponent == 0:
            return isotropic(shape.N, shape.P, seed=seed, dtype=dtype, part="heldout")
        return anisotropic(shape.N, shape.P, exponent=self.exponent, seed=seed, dtype=dtype, part="heldout")


class ArrayFile:
    """Samples × features in a .npy file; each seed trains on its own choice of P of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(f"data {path}: not a readable .npy file ({error})") from None
        if self.array.ndim != 2 or not np.issubdtype(self.array.dtype, np.number):
            raise InputError(
                f"data {path}: must be numbers, samples × features, "
                f"got {self.array.dtype} of {self.array.shape}"
            )
        if not np.isfinite(self.array).all():
            row, column = np.argwhere(~np.isfinite(self.array))[0]
            raise InputError(
                f"data {path}: must be finite, got {self.array[row, column]} at sample {row}, {column}"
            )

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the file."""
        with open(self.path, "rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"

    def problems(self, shape: Shape) -> list[str]:
        """Return why a shape cannot be served."""
        rows, columns = self.array.shape
        found = []
        if columns != shape.N:
            found.append(f"data {self.path} has {columns} features, the study asks for {shape.N}")
        if shape.P is not None and rows < shape.P:
            found.append(f"data {self.path} has {rows} samples, the study asks for {shape.P}")
        return found

    def _order(self, seed: int) -> np.ndarray[Any, Any]:
        return np.asarray(jax.random.permutation(stream(seed, "data"), self.array.shape[0]))

    def samples(self, shape: Shape, seed: int, dtype: Any) -> Array:
        """Return the P training samples of a seed."""
        return jnp.asarray(self.array[np.sort(self._order(seed)[: shape.P])], dtype)

    def heldout(self, shape: Shape, seed: int, dtype: Any) -> Array:
        """Return samples that this seed does not train on; none if it trains on all."""
        assert shape.P is not None
        rest = self._order(seed)[shape.P : 2 * shape.P]
        return jnp.asarray(self.array[np.sort(rest)], dtype)


def source(name: str) -> Source:
    """Return the source that a study names: 'isotropic', 'anisotropic', or the path of a .npy file."""
    if name == "isotropic":
        return Gaussian(0.0)
    if name == "anisotropic":
        return Gaussian(2 / 5)
    path = Path(name)
    if not path.is_file():
        raise InputError(f"data must be 'isotropic', 'anisotropic' or the path of a .npy file, got {name!r}")
    return ArrayFile(path)
