"""Panels of figures, where their data is unusual."""

import numpy as np

from denseam.report.plots.panels import curves_panel


def test_curves_that_all_diverged_leave_axes_that_can_be_drawn():
    from matplotlib.figure import Figure

    figure = Figure()
    ax = figure.add_subplot()
    gone = {16: (np.arange(1, 9), np.full((2, 8), np.nan))}
    curves_panel(ax, gone, "N", label="loss", gone=(16,))
    ax.set_xscale("log")  # as figures of the paper do
    figure.canvas.draw()
    assert ax.get_xlim() == (1, 8)
