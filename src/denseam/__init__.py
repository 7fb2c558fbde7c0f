"""denseam: tune a Dense Associative Memory at small size, train it at large size.

Names are loaded when they are first used, so that the scaling rules work without JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from denseam._version import __version__

if TYPE_CHECKING:
    from denseam import data, quantities, testing, theory
    from denseam.agreement import Consistency, consistency
    from denseam.coordinates import Check, check, check_model, find_exponents
    from denseam.errors import InputError, UnboundedEnergyWarning, UnprescribedWarning
    from denseam.goals import Goal, goal
    from denseam.judgement import Verdict, horizon, verdict
    from denseam.lagrangians import Elementwise, Lagrangian, identity, register, relu, softmax, tanh
    from denseam.memory import Memory, Recalled
    from denseam.model import DenseAM, Parameters
    from denseam.optimizers import Optimizer, adam, adamw, effective_learning_rates, scaled, sgd
    from denseam.planning import Plan, plan
    from denseam.recalling import recall_file
    from denseam.recipe import Recipe, read_recipe
    from denseam.report import write_report
    from denseam.runner import sweep
    from denseam.scaling import (
        MemoriesOnly,
        Parameterization,
        Power,
        Proportional,
        Scales,
        Shape,
        prescription,
        standard,
    )
    from denseam.store import Records, Store
    from denseam.study import Study, logspace
    from denseam.target import Trained, train_target
    from denseam.training import Run, train
    from denseam.tuning import Tuned, tune

_HOME = {
    "data": "data",
    "quantities": "quantities",
    "testing": "testing",
    "theory": "theory",
    "InputError": "errors",
    "UnboundedEnergyWarning": "errors",
    "UnprescribedWarning": "errors",
    "Elementwise": "lagrangians",
    "Lagrangian": "lagrangians",
    "identity": "lagrangians",
    "register": "lagrangians",
    "relu": "lagrangians",
    "softmax": "lagrangians",
    "tanh": "lagrangians",
    "DenseAM": "model",
    "Parameters": "model",
    "Optimizer": "optimizers",
    "adam": "optimizers",
    "adamw": "optimizers",
    "effective_learning_rates": "optimizers",
    "scaled": "optimizers",
    "sgd": "optimizers",
    "MemoriesOnly": "scaling",
    "Parameterization": "scaling",
    "Power": "scaling",
    "Proportional": "scaling",
    "Scales": "scaling",
    "Shape": "scaling",
    "prescription": "scaling",
    "standard": "scaling",
    "Run": "training",
    "train": "training",
    "Study": "study",
    "logspace": "study",
    "sweep": "runner",
    "Records": "store",
    "Store": "store",
    "Verdict": "judgement",
    "Check": "coordinates",
    "check": "coordinates",
    "check_model": "coordinates",
    "find_exponents": "coordinates",
    "Consistency": "agreement",
    "consistency": "agreement",
    "Goal": "goals",
    "goal": "goals",
    "Memory": "memory",
    "Recalled": "memory",
    "Plan": "planning",
    "plan": "planning",
    "recall_file": "recalling",
    "write_report": "report",
    "Recipe": "recipe",
    "read_recipe": "recipe",
    "Trained": "target",
    "train_target": "target",
    "Tuned": "tuning",
    "tune": "tuning",
    "horizon": "judgement",
    "verdict": "judgement",
}

_MODULES = {"data", "quantities", "testing", "theory"}

__all__ = [  # noqa: RUF022  # in the order of use
    "__version__",
    "Shape", "Proportional", "MemoriesOnly", "Power", "Parameterization", "Scales",
    "prescription", "standard",
    "Lagrangian", "Elementwise", "register", "identity", "relu", "softmax", "tanh",
    "DenseAM", "Parameters", "data",
    "Optimizer", "sgd", "adam", "adamw", "scaled", "effective_learning_rates",
    "Run", "train",
    "Study", "logspace", "sweep", "Records", "Store", "Verdict", "verdict", "horizon",
    "Check", "check", "check_model", "find_exponents",
    "Goal", "goal", "Plan", "plan", "Tuned", "tune", "Recipe", "read_recipe", "Trained", "train_target",
    "Memory", "Recalled", "recall_file", "Consistency", "consistency", "write_report",
    "InputError", "UnprescribedWarning", "UnboundedEnergyWarning", "quantities", "testing", "theory",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'denseam' has no attribute {name!r}")
    module = importlib.import_module(f"denseam.{_HOME[name]}")
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
