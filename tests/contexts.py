"""One context of MLIR for all programs that a thread lowers.

JAX makes a context for every program, which takes a tenth of the time of a test that lowers many small ones. Importing
this, before or after JAX, changes it for the process.
"""

import threading

from jax._src.interpreters import mlir

_contexts = threading.local()
_make = getattr(mlir, "make_ir_context", None)  # a name that JAX may change


def _context():
    if not hasattr(_contexts, "own"):
        _contexts.own = _make()
    return _contexts.own


if _make is not None:
    mlir.make_ir_context = _context
