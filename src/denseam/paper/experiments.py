"""The settings that several figures share: what the paper trains, in no reading yet.

Unless stated otherwise, κ = 2, ρ = 5, β = 0.1.
"""

from __future__ import annotations

from denseam.paper.examples import Examples
from denseam.paper.settings import Setting, setting

# --- in proportion ---------------------------------------------------------------------------------

WIDE = setting("identity", "identity", "sgd", (-4, -1.5), kappa=3, rho=10)
RELU_SGD = setting("centred", "relu", "sgd", (-3, -0.5))
RELU_SGD_PLAIN = RELU_SGD.but("not centred", centred=False)
WIDE_RELU = RELU_SGD.but("centred", kappa=3, rho=10)
WIDE_RELU_PLAIN = WIDE_RELU.but("not centred", centred=False)
RELU_ADAM = setting("centred", "relu", "adam", (-3, -0.5))
RELU_ADAM_PLAIN = RELU_ADAM.but("not centred", centred=False)
SOFTMAX_ADAM = setting("centred", "softmax", "adam", (-3, -0.5))
SOFTMAX_ADAM_PLAIN = SOFTMAX_ADAM.but("not centred", centred=False)
SOFTMAX_SGD = setting("softmax, SGD", "softmax", "sgd", (-3, -0.5), reach=1)

#: p → the range of learning rates, for SGD and for Adam.
POWERS = {
    1: ((-3, -0.5), (-3, -0.5)),
    2: ((-3, -0.5), (-3, -0.5)),
    3: ((-3, -0.5), (-3, -0.5)),
    5: ((-4, -1.5), (-3, -0.5)),
    10: ((-4.5, -2), (-2.5, 0)),
}
POWERS_SGD = tuple(RELU_SGD.but(f"p = {p}, SGD", power=p, eta0=sgd) for p, (sgd, _) in POWERS.items())
POWERS_ADAM = tuple(RELU_ADAM.but(f"p = {p}, Adam", power=p, eta0=adam) for p, (_, adam) in POWERS.items())

# --- only memories grow ----------------------------------------------------------------------------

MEMORIES = {
    ("identity", "sgd"): setting("identity, SGD", "identity", "sgd", (-2.75, -0.25), regime="memories-only"),
    ("identity", "adam"): setting("identity, Adam", "identity", "adam", (-3, -0.5), regime="memories-only"),
    ("relu", "sgd"): setting("ReLU, SGD", "relu", "sgd", (-2, 0.5), regime="memories-only"),
    ("relu", "adam"): setting("ReLU, Adam", "relu", "adam", (-2.5, 0), regime="memories-only"),
    ("relu2", "sgd"): setting("ReLU², SGD", "relu", "sgd", (-2.5, 0), power=2, regime="memories-only"),
    ("relu2", "adam"): setting("ReLU², Adam", "relu", "adam", (-2.5, 0), power=2, regime="memories-only"),
    ("softmax", "sgd"): setting("softmax, SGD", "softmax", "sgd", (-4, -1.5), regime="memories-only"),
    ("softmax", "adam"): setting("softmax, Adam", "softmax", "adam", (-3.25, -0.75), regime="memories-only"),
}
MEMORIES_PLAIN = {
    key: MEMORIES[key].but(f"{MEMORIES[key].label}, not centred", centred=False)
    for key in (("relu", "sgd"), ("relu", "adam"))
}

# --- measured while training, at one learning rate -------------------------------------------------

TERMS = ("dW1", "dW2", "dZ1", "dZ2", "dF11", "dF12", "dF21", "dF22")
SPECTRA = ("lambda_max", "lambda_2", "lambda_max_raw", "lambda_2_raw")
DYNAMICS = setting("κ = 5, ρ = 2", "relu", "sgd", 0.005, kappa=5, rho=2, probes=("dZ1", "dZ2"))
TERMS_OF = tuple(setting(f"p = {p}", "relu", "sgd", 0.005, power=p, probes=TERMS) for p in (1, 2, 3))
SGD_INSIDE = RELU_SGD.but("centred", eta0=0.005, probes=SPECTRA)
SGD_INSIDE_PLAIN = SGD_INSIDE.but("not centred", centred=False)
ADAM_INSIDE = RELU_ADAM.but("centred", eta0=0.005, probes=("dW", *SPECTRA))
ADAM_INSIDE_PLAIN = ADAM_INSIDE.but("not centred", centred=False)
SOFTMAX_INSIDE = SOFTMAX_ADAM.but("softmax, Adam", eta0=0.08, probes=("dW", "K_eff"))
SOFTMAX_SGD_INSIDE = SOFTMAX_SGD.but("softmax, SGD", eta0=0.08, probes=("dW", "K_eff"), reach=0)

# --- digits, and anisotropic data ------------------------------------------------------------------

MNIST = tuple(
    setting(label, activation, optimizer, rates, data="mnist")
    for label, activation, optimizer, rates in (
        ("ReLU, SGD", "relu", "sgd", (-2.25, 0.25)),
        ("ReLU, Adam", "relu", "adam", (-2.75, -0.25)),
        ("softmax, SGD", "softmax", "sgd", (-2.25, 0.25)),
        ("softmax, Adam", "softmax", "adam", (-2.75, -0.25)),
    )
)
MNIST_UNIT = tuple(
    s.but(f"{s.label}, unit variance", unit_variance=True, noise=1.5, eta0=rates)
    for s, rates in zip(MNIST, ((-3.25, -0.75), (-2.75, -0.25)) * 2, strict=True)
)
EXAMPLES = Examples(setting("digits", "relu", "adam", 10**-1.75, data="mnist", unit_variance=True, noise=1.5))


def anisotropic(setting: Setting, label: str) -> Setting:
    """Return a setting on anisotropic data."""
    return setting.but(label, data="anisotropic")


ANISOTROPIC = (
    anisotropic(RELU_SGD, "SGD, in proportion"),
    anisotropic(RELU_ADAM, "Adam, in proportion"),
    anisotropic(MEMORIES["relu", "sgd"], "SGD, memories only"),
    anisotropic(MEMORIES["relu", "adam"], "Adam, memories only"),
)
MEMORIES_ANISOTROPIC = {key: anisotropic(s, s.label) for key, s in MEMORIES.items()}
