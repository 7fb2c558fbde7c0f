"""Names of settings, losses and reductions, as tables and pictures show them."""

from __future__ import annotations

from denseam.analysis.forecast import Setting

LOSS = {"training": "training", "heldout": "held-out"}
OPTIMIZER = {"adam": "Adam", "sgd": "SGD"}
REGIME = {"proportional": "all sizes grow", "memories-only": "only memories grow"}
REDUCTION = {
    "orthonormal": "random directions",
    "pca": "components, not rotated",
    "rotated": "images: rotated components",
}


def activation_name(setting: Setting) -> str:
    """Return an activation with its power."""
    power = "" if setting.power == 1 else {2.0: "²", 3.0: "³"}.get(setting.power, f"^{setting.power:g}")
    return {"relu": "ReLU"}.get(setting.activation, setting.activation) + power


def group_name(setting: Setting) -> str:
    """Return optimizer, regime and probe."""
    probe = " with a probe" if setting.probe else ""
    return f"{OPTIMIZER[setting.optimizer]}{probe}, {REGIME[setting.regime]}"


def setting_name(setting: Setting) -> str:
    """Return all of a setting, except which loss it is about."""
    return f"{activation_name(setting)}, {group_name(setting)}"


def percent(share: float, digits: int = 0) -> str:
    """Return a share in per cent; a dash if there is none."""
    return "–" if share != share else f"{100 * share:.{digits}f} %"


def cost(regret: float) -> str:
    """Return a cost in per cent with two digits; 'diverges' if it is infinite, a dash if there is none."""
    if regret != regret:
        return "–"
    if regret == float("inf"):
        return "diverges"
    return f"{100 * regret:.2f} %" if regret < 0.1 else f"{100 * regret:.0f} %"
