"""Data sets indexed by size: what transfer needs is not one set but a family of them."""

from denseam.data.arrays import ArrayFamily
from denseam.data.encoder import Encoder
from denseam.data.gaussian import anisotropic, isotropic
from denseam.data.images import plaquettes
from denseam.data.preparation import Preparation
from denseam.data.sources import source

__all__ = ["ArrayFamily", "Encoder", "Preparation", "anisotropic", "isotropic", "plaquettes", "source"]
