"""The coordinate check: whether every part of a step keeps its size as the model grows.

The quantities of a step are measured at several scales and seeds; the slope of log(size) against log(scale)
is fitted for each quantity at each step, and compared with the exponent that the theory predicts. Files
follow the pipeline: `slopes` (sizes, and exponents with intervals), `expected` (the table), `judge` (a status
and a cause). `of_study` checks this library's models, `of_model` any Equinox model.

`finder` turns slopes into better exponents: `ladders` (where they are measured), `laws` (exponents with
intervals, or none), `activity` (the family of an activation), `proposal` (the result).
"""
