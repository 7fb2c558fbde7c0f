"""Data sets indexed by size: what transfer needs is not one set but a family of them.

Names are loaded when they are first used, so that a study can be described without JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
