"""Registry of data families, and the search for their sources.

A family is one real data set with 256 features. Its maker is a function of a random generator that returns
all samples it can find; `families` removes repeated samples, shuffles, and keeps at most `LIMITS[kind]`.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FEATURES = 256
SIDE = 16
#: Samples to keep: nine tenths of them are the 8192 that the largest studies train on.
LIMITS = {"images": 9103, "vectors": 9103}

Maker = Callable[[np.random.Generator], np.ndarray]


class MissingSource(Exception):
    """A file that a maker needs is not on this machine; the message names the package that has it."""


@dataclass(frozen=True)
class Family:
    """One data set: its name, its kind, the packages it is made from, and its maker.

    A family held aside is never used to fit a constant of the bound. It serves the final test only.
    """

    name: str
    kind: str
    needs: tuple[str, ...]
    held_aside: bool
    make: Maker

    def __post_init__(self) -> None:
        if self.kind not in LIMITS:
            raise ValueError(
                f"family {self.name}: kind must be one of {', '.join(LIMITS)}, not {self.kind!r}"
            )

    @property
    def method(self) -> str:
        """How the samples are made: the maker's docstring in one line."""
        return " ".join((self.make.__doc__ or "").split())


FAMILIES: dict[str, Family] = {}


def family(
    name: str, *, kind: str, needs: tuple[str, ...], held_aside: bool = False
) -> Callable[[Maker], Maker]:
    """Register the maker of a family.

    `needs` names packages as ``apt:NAME`` or ``pip:NAME``.
    """

    def register(make: Maker) -> Maker:
        if name in FAMILIES:
            raise ValueError(f"two families are named {name}")
        FAMILIES[name] = Family(name, kind, needs, held_aside, make)
        return make

    return register


def system_files(pattern: str, package: str) -> list[Path]:
    """Return the files below / that match a pattern; without one, name the Debian package to install."""
    files = sorted(path for path in Path("/").glob(pattern) if path.is_file())
    if not files:
        raise MissingSource(f"no file matches /{pattern}: apt-get install {package}")
    return files


def package_files(module: str, pattern: str, package: str) -> list[Path]:
    """Return the data files of a Python package. The package is not imported."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise MissingSource(f"no Python package {module}: pip install {package}")
    files = sorted(Path(spec.submodule_search_locations[0]).glob(pattern))
    if not files:
        raise MissingSource(f"{module} has no file {pattern}: pip install --upgrade {package}")
    return files
