"""Data sets indexed by size: transfer needs a family of data sets, not a single one.

Names are loaded on first use, so that a study can be described without JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
