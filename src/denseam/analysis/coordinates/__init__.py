"""The coordinate check: whether every part of a step keeps its size as the model grows.

Measure the quantities of a step at several scales and seeds, fit the slope of log(size) against
log(scale) for each of them at each step, and compare with the exponent that the theory expects. The way
is that of the files: `measurements` (arrays of sizes), `slopes` (exponents with intervals), `expected`
(the table), `judge` (a word and a cause). `of_study` does it for this library's models, `of_model` for any
Equinox model, and `finder` turns slopes into better exponents.
"""

from __future__ import annotations

from denseam.analysis.coordinates.finder import Proposal, find_exponents, propose
from denseam.analysis.coordinates.judge import Check
from denseam.analysis.coordinates.of_model import check_model
from denseam.analysis.coordinates.of_study import check, check_records, check_study, checked_study
from denseam.analysis.coordinates.slopes import Slope

__all__ = [
    "Check",
    "Proposal",
    "Slope",
    "check",
    "check_model",
    "check_records",
    "check_study",
    "checked_study",
    "find_exponents",
    "propose",
]
