"""Data sets indexed by size: what transfer needs is not one set but a family of them."""

from denseam.data.gaussian import anisotropic, isotropic
from denseam.data.images import plaquettes

__all__ = ["anisotropic", "isotropic", "plaquettes"]
