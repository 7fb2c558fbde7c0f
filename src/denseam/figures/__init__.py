"""Figures: drawn from records alone; drawing never trains."""

from denseam.figures.coordinates import draw_coordinates
from denseam.figures.recall import draw_consistency, draw_recall
from denseam.figures.training import draw_training
from denseam.figures.transfer import draw_transfer

__all__ = ["draw_consistency", "draw_coordinates", "draw_recall", "draw_training", "draw_transfer"]
