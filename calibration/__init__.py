"""Calibration corpus: real data sets of many kinds, on which the forecast's bound is learned and judged."""
