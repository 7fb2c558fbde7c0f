"""Figures: drawn from records alone; drawing never trains."""

from denseam.figures.coordinates import draw_coordinates
from denseam.figures.transfer import draw_transfer

__all__ = ["draw_coordinates", "draw_transfer"]
