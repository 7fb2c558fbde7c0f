"""How scales and learning rates must change with size: exponents in one table, and no array framework.

The model is ``f(x) = s2 Wᵀ σ(s1 W g(x) + s_b b) + s_c c`` with ``W`` of shape K×N and entries of
variance ``W_std²``. A *parameterization* says how ``W_std``, the multipliers ``s1, s2, s_b, s_c`` and
the learning rates ``eta_W, eta_b, eta_c`` depend on

====  ==================================================
N     features: the length of x
K     memories: the rows of W
P     samples in the training set
B     samples in a batch
E     epochs: passes over the training set
====  ==================================================

The *prescription* (the paper's Table 1) is the parameterization under which training does not depend
on size, so that a learning rate tuned at small size is right at large size.

Files follow the theory: `sizes` (N, K, P, B, E), `regimes` (which of them grow), `powers` (products of powers
of the sizes), `optimizers` (what each makes of a gradient), `table` (the paper's Table 1 as data, and rows
for further optimizers), `parameterizations` (a rule, and its numbers at a shape), `prescriptions` (rules by
name), `schedules` (the factor on the rates along a training), `explain` (a rule as a table), `cost` (of
training), and `fields` (what a hyperparameter is).
"""

from denseam.rules.parameterizations import Constants, Mismatch, Parameterization, Scales
from denseam.rules.powers import Power
from denseam.rules.prescriptions import parameterization, prescription, standard
from denseam.rules.regimes import (
    BatchOnly,
    Epochs,
    MemoriesOnly,
    Proportional,
    ProportionalSteps,
    Regime,
    SamplesOnly,
    StepsOnly,
)
from denseam.rules.schedules import Schedule, Timetable, register_schedule
from denseam.rules.sizes import Shape

__all__ = [
    "BatchOnly", "Constants", "Epochs", "MemoriesOnly", "Mismatch", "Parameterization", "Power",
    "Proportional", "ProportionalSteps", "Regime", "SamplesOnly", "Scales", "Schedule", "Shape", "StepsOnly",
    "Timetable", "parameterization", "prescription", "register_schedule", "standard",
]  # fmt: skip
