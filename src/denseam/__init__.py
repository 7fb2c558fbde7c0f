"""denseam: tune a Dense Associative Memory at small size, train it at large size.

Names are loaded when they are first used, so that the scaling rules work without JAX;
`__init__.pyi` lists them.
"""

import lazy_loader

from denseam._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
