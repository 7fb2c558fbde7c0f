"""Figures, drawn from records alone: drawing never trains."""

from denseam.report.plots.coordinates import draw_coordinates
from denseam.report.plots.exponents import draw_exponents
from denseam.report.plots.forecast import draw_tuned
from denseam.report.plots.recall import draw_consistency, draw_recall
from denseam.report.plots.sets import draw_set
from denseam.report.plots.transfer import draw_training, draw_transfer

__all__ = [
    "draw_consistency", "draw_coordinates", "draw_exponents", "draw_recall", "draw_set", "draw_training",
    "draw_transfer", "draw_tuned",
]  # fmt: skip
