"""The seventeen figures of the paper, as rows: what is trained, what is drawn, what is claimed.

Claims are in our own words. A claim is first tested as the paper states it; if that fails, under a condition.
Unless stated otherwise, κ = 2, ρ = 5, β = 0.1, training takes 256 epochs, and biases start at zero, not at
N(0, 1) as in the paper's text: the study `bias-initialisation` shows why.
"""

from __future__ import annotations

from denseam.paper.claims import (
    Agree,
    All,
    Claim,
    Collapse,
    CollapsesBetter,
    DoesNotTransfer,
    EdgeFallsAlong,
    Grows,
    GrowsLess,
    Localises,
    LowerRegret,
    Transfers,
    TransfersFrom,
    claim,
)
from denseam.paper.examples import Examples
from denseam.paper.figure import Figure, Loss, Probe, Sweep, Tiles
from denseam.paper.settings import Setting, setting

ZERO = "biases start at zero"
LARGER_BASE = "the base is large enough"
SHORT = "training stops after a tenth of the epochs"
LARGER = "the smallest sizes are left out"

# --- settings that several figures share -----------------------------------------------------------

RELU_SGD = setting("centred", "relu", "sgd", (-3, -0.5))
RELU_SGD_PLAIN = RELU_SGD.but("not centred", centred=False)
RELU_SGD_NORMAL = RELU_SGD.but("biases from N(0, 1)", bias_init="normal", fewer=True)
RELU_ADAM = setting("centred", "relu", "adam", (-3, -0.5))
RELU_ADAM_PLAIN = RELU_ADAM.but("not centred", centred=False)
SOFTMAX_ADAM = setting("centred", "softmax", "adam", (-3, -0.5))
SOFTMAX_ADAM_PLAIN = SOFTMAX_ADAM.but("not centred", centred=False)
SOFTMAX_SGD = setting("softmax, SGD", "softmax", "sgd", (-3, -0.5))
SOFTMAX_SGD_NORMAL = SOFTMAX_SGD.but("softmax, SGD, biases from N(0, 1)", bias_init="normal")
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

# --- measured while training, at one learning rate -------------------------------------------------

TERMS = ("dW1", "dW2", "dZ1", "dZ2", "dF11", "dF12", "dF21", "dF22")
DYNAMICS = setting("κ = 5, ρ = 2", "relu", "sgd", 0.005, kappa=5, rho=2, probes=("dZ1", "dZ2"))
TERMS_OF = tuple(setting(f"p = {p}", "relu", "sgd", 0.005, power=p, probes=TERMS) for p in (1, 2, 3))
SPECTRA = ("lambda_max", "lambda_2", "lambda_max_raw", "lambda_2_raw")
SGD_INSIDE = RELU_SGD.but("centred", eta0=0.005, probes=SPECTRA)
SGD_INSIDE_PLAIN = SGD_INSIDE.but("not centred", centred=False)
ADAM_INSIDE = RELU_ADAM.but("centred", eta0=0.005, probes=("dW", *SPECTRA))
ADAM_INSIDE_PLAIN = ADAM_INSIDE.but("not centred", centred=False)
SOFTMAX_INSIDE = SOFTMAX_ADAM.but("softmax, Adam", eta0=0.08, probes=("dW", "K_eff"))
SOFTMAX_SGD_INSIDE = SOFTMAX_SGD.but("softmax, SGD", eta0=0.08, probes=("dW", "K_eff"))

# --- digits ----------------------------------------------------------------------------------------

UNIT = "pixels are scaled to unit variance, with noise 1.5"
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


def _anisotropic(setting: Setting, label: str) -> Setting:
    return setting.but(label, data="anisotropic")


ANISOTROPIC = (
    _anisotropic(RELU_SGD, "SGD, in proportion"),
    _anisotropic(RELU_ADAM, "Adam, in proportion"),
    _anisotropic(MEMORIES["relu", "sgd"], "SGD, memories only"),
    _anisotropic(MEMORIES["relu", "adam"], "Adam, memories only"),
)
WIDE = setting("identity", "identity", "sgd", (-4, -1.5), kappa=3, rho=10)
WIDE_RELU = RELU_SGD.but("centred", kappa=3, rho=10)
WIDE_RELU_PLAIN = WIDE_RELU.but("not centred", centred=False)
WIDE_RELU_NORMAL = WIDE_RELU.but("biases from N(0, 1)", bias_init="normal", fewer=True)


def _stands_or_zero(text: str, setting: Setting, normal: Setting) -> Claim:
    """Claim that a setting transfers: with biases drawn as in the text, or only if they start at zero."""
    return Claim(text, (("", Transfers(normal)), (ZERO, Transfers(setting))))


def _transfers_or_from(setting: Setting) -> Claim:
    """Claim that a setting transfers, or does so from a larger base on."""
    text = f"{setting.label}: the learning rate transfers."
    return Claim(text, (("", Transfers(setting)), (LARGER_BASE, TransfersFrom(setting))))


def _memories_claims(label: str, settings: dict[tuple[str, str], Setting]) -> tuple[Claim, ...]:
    claims = [
        Claim(
            f"{label}, {s.label}: the best learning rate does not depend on K.",
            (("", Transfers(s)), (LARGER_BASE, TransfersFrom(s)), (SHORT, Transfers(s, share=0.1))),
        )
        for key, s in settings.items()
        if key != ("softmax", "sgd")
    ]
    unstable = f"{label}, softmax with SGD is unstable and does not transfer."
    return (*claims, claim(unstable, DoesNotTransfer(settings["softmax", "sgd"])))


MEMORIES_ANISOTROPIC = {k: _anisotropic(s, s.label) for k, s in MEMORIES.items()}

PAPER: tuple[Figure, ...] = (
    Figure(
        name="linear-sgd",
        paper_label="linear_SGD",
        title="identity, SGD, κ = 3, ρ = 10: transfer and loss",
        rows=((Sweep(WIDE), Loss(WIDE)),),
        claims=(
            claim("One effective learning rate is best at every size.", Transfers(WIDE)),
            claim("The loss curves of all sizes lie on each other.", Collapse(WIDE)),
        ),
    ),
    Figure(
        name="relu-centring",
        paper_label="relu1-center-non-center",
        title="ReLU, SGD, κ = 3, ρ = 10: centred against not",
        rows=((Sweep(WIDE_RELU), Sweep(WIDE_RELU_PLAIN)),),
        claims=(
            _stands_or_zero(
                "With centring the best learning rate carries over.", WIDE_RELU, WIDE_RELU_NORMAL
            ),
            claim("Without centring training is unstable at large size.", DoesNotTransfer(WIDE_RELU_PLAIN)),
        ),
        remark="With b and c from N(0, 1), as the paper's text has it, centring does not help: each neuron's "
        "own bias gives it the same offset on all samples, which centring over neurons cannot remove.",
    ),
    Figure(
        name="anisotropic-relu",
        paper_label="transfer-anisotropic-relu",
        title="anisotropic data, ReLU: in proportion (κ = 2, ρ = 5) and memories only (N = 128, P = 256)",
        rows=((Sweep(ANISOTROPIC[0]), Sweep(ANISOTROPIC[1])), (Sweep(ANISOTROPIC[2]), Sweep(ANISOTROPIC[3]))),
        claims=tuple(
            Claim(
                f"{s.label}: the learning rate transfers.",
                (("", Transfers(s)), (SHORT, Transfers(s, share=0.1))),
            )
            for s in ANISOTROPIC
        ),
        remark="With N and P fixed, more memories fit the 256 samples ever more closely: late in training "
        "the loss falls to a quarter from K = 512 to 131072, and the best rate moves with it.",
    ),
    Figure(
        name="mnist",
        paper_label="transfer-mnist",
        title="MNIST in plaquettes: pixels from 0 to 1 with noise 0.5; unit variance with noise 1.5",
        rows=(tuple(map(Sweep, MNIST)), tuple(map(Sweep, MNIST_UNIT))),
        claims=tuple(
            Claim(f"{a.label}: the learning rate transfers.", (("", Transfers(a)), (UNIT, Transfers(b))))
            for a, b in zip(MNIST, MNIST_UNIT, strict=True)
        ),
        remark="The paper says neither how strong the noise is nor whether pixels are scaled. The variance "
        "of a block's mean falls as blocks grow, so noise of one strength means more at small size.",
    ),
    Figure(
        name="relu-sgd-dynamics",
        paper_label="dynamics-relu-sgd-dz",
        title="ReLU, SGD, κ = 5, ρ = 2, η₀ = 0.005: loss and changes of Z",
        rows=((Loss(DYNAMICS), Probe(DYNAMICS, "dZ1"), Probe(DYNAMICS, "dZ2")),),
        claims=(
            claim("The loss goes the same way at every size.", Collapse(DYNAMICS)),
            claim("Both parts of ΔZ go the same way at every size.", Collapse(DYNAMICS, ("dZ1", "dZ2"))),
        ),
    ),
    Figure(
        name="relu-sgd-terms",
        paper_label="dynamics-collapse-relu-sgd-detailed",
        title="ReLU^p, SGD, η₀ = 0.005: the parts of ΔW, ΔZ and ΔF",
        rows=tuple(tuple(Probe(s, q) for q in TERMS) for s in TERMS_OF),
        claims=tuple(
            Claim(
                f"{s.label}: {what} keep their sizes throughout.",
                (("", Collapse(s, quantities)), (LARGER, Collapse(s, quantities, share=0.25))),
            )
            for s in TERMS_OF
            for what, quantities in (
                ("both ΔW", TERMS[:2]),
                ("both ΔZ", TERMS[2:4]),
                ("all four ΔF", TERMS[4:]),
            )
        ),
    ),
    Figure(
        name="sgd-eigenvalues",
        paper_label="center-non-center-relu-sgd-eigenvalues",
        title="ReLU, SGD, η₀ = 0.005: spike and bulk of the Gram matrix",
        rows=(
            (Probe(SGD_INSIDE_PLAIN, "lambda_max_raw"), Probe(SGD_INSIDE_PLAIN, "lambda_2_raw")),
            (Probe(SGD_INSIDE, "lambda_max"), Probe(SGD_INSIDE, "lambda_2")),
        ),
        claims=(
            claim("Not centred, the spike grows with size.", Grows(SGD_INSIDE_PLAIN, "lambda_max_raw", 0.8)),
            claim("Not centred, the bulk does not.", Collapse(SGD_INSIDE_PLAIN, ("lambda_2_raw",))),
            claim("Centred, neither does.", Collapse(SGD_INSIDE, ("lambda_max", "lambda_2"))),
        ),
    ),
    Figure(
        name="sgd-transfer",
        paper_label="center-non-center-relu-sgd-transfer",
        title="ReLU, SGD: transfer, and loss at η₀ = 0.005; centred against not",
        rows=((Sweep(RELU_SGD_PLAIN), Loss(SGD_INSIDE_PLAIN)), (Sweep(RELU_SGD), Loss(SGD_INSIDE))),
        claims=(
            claim("Not centred, larger models diverge at smaller rates.", DoesNotTransfer(RELU_SGD_PLAIN)),
            _stands_or_zero("Centred, the learning rate transfers.", RELU_SGD, RELU_SGD_NORMAL),
            claim("The loss collapses better with centring.", CollapsesBetter(SGD_INSIDE, SGD_INSIDE_PLAIN)),
        ),
    ),
    Figure(
        name="large-p",
        paper_label="transfer-relu-p-large-p",
        title="ReLU^p, p up to 10: SGD (top) and Adam (bottom)",
        rows=(tuple(map(Sweep, POWERS_SGD)), tuple(map(Sweep, POWERS_ADAM))),
        claims=(
            *map(_transfers_or_from, POWERS_SGD),
            *map(_transfers_or_from, POWERS_ADAM),
            claim("With SGD the edge of stability falls as p grows.", EdgeFallsAlong(POWERS_SGD)),
            claim("With Adam it does not.", EdgeFallsAlong(POWERS_ADAM, falls=False)),
        ),
    ),
    Figure(
        name="adam-eigenvalues",
        paper_label="center-non-center-relu-adam-eigenvalues",
        title="ReLU, Adam, η₀ = 0.005: spike and bulk of the Gram matrix",
        rows=(
            (Probe(ADAM_INSIDE_PLAIN, "lambda_max_raw"), Probe(ADAM_INSIDE_PLAIN, "lambda_2_raw")),
            (Probe(ADAM_INSIDE, "lambda_max"), Probe(ADAM_INSIDE, "lambda_2")),
        ),
        claims=(
            claim("Centred, the spike still grows with size.", Grows(ADAM_INSIDE, "lambda_max", 0.1)),
            claim(
                "Centring weakens its growth.",
                GrowsLess(ADAM_INSIDE, "lambda_max", ADAM_INSIDE_PLAIN, "lambda_max_raw"),
            ),
            claim(
                "The bulk does not depend on size.",
                All((Collapse(ADAM_INSIDE_PLAIN, ("lambda_2_raw",)), Collapse(ADAM_INSIDE, ("lambda_2",)))),
            ),
        ),
    ),
    Figure(
        name="adam-transfer",
        paper_label="center-non-center-relu-adam-transfer",
        title="ReLU, Adam: transfer, and loss at η₀ = 0.005; centred against not",
        rows=((Sweep(RELU_ADAM_PLAIN), Loss(ADAM_INSIDE_PLAIN)), (Sweep(RELU_ADAM), Loss(ADAM_INSIDE))),
        claims=(
            claim("Centred, the learning rate transfers.", Transfers(RELU_ADAM)),
            claim("It transfers better than without.", LowerRegret(RELU_ADAM, RELU_ADAM_PLAIN)),
            claim(
                "The loss collapses better with centring.", CollapsesBetter(ADAM_INSIDE, ADAM_INSIDE_PLAIN)
            ),
        ),
    ),
    Figure(
        name="adam-update",
        paper_label="adam-update-center-non-center",
        title="ReLU, Adam, η₀ = 0.005: the update U",
        rows=((Probe(ADAM_INSIDE_PLAIN, "dW"), Probe(ADAM_INSIDE, "dW")),),
        claims=(
            claim("Centred, the update goes the same way at every size.", Collapse(ADAM_INSIDE, ("dW",))),
            claim("It collapses better than without.", CollapsesBetter(ADAM_INSIDE, ADAM_INSIDE_PLAIN, "dW")),
        ),
    ),
    Figure(
        name="softmax-centring",
        paper_label="softmax-adam-center-non-center-transfer-and-mse",
        title="softmax, Adam: transfer, and loss at η₀ = 0.005; centred against not",
        rows=(
            (Sweep(SOFTMAX_ADAM_PLAIN), Loss(SOFTMAX_ADAM_PLAIN, 0.005)),
            (Sweep(SOFTMAX_ADAM), Loss(SOFTMAX_ADAM, 0.005)),
        ),
        claims=(
            claim("Centred, the learning rate transfers.", Transfers(SOFTMAX_ADAM)),
            claim("It transfers better than without.", LowerRegret(SOFTMAX_ADAM, SOFTMAX_ADAM_PLAIN)),
            claim(
                "The loss collapses better with centring.",
                CollapsesBetter(SOFTMAX_ADAM, SOFTMAX_ADAM_PLAIN, eta0=0.005),
            ),
        ),
    ),
    Figure(
        name="softmax-sgd-adam",
        paper_label="transfer-softmax-sgd-vs-adam",
        title="softmax: SGD against Adam",
        rows=((Sweep(SOFTMAX_SGD), Sweep(SOFTMAX_SGD_NORMAL), Sweep(SOFTMAX_ADAM.but("softmax, Adam"))),),
        claims=(
            Claim(
                "With SGD the best learning rate falls at large size.",
                (
                    ("", DoesNotTransfer(SOFTMAX_SGD)),
                    ("biases start from N(0, 1)", DoesNotTransfer(SOFTMAX_SGD_NORMAL)),
                ),
            ),
            claim("With Adam it stays.", Transfers(SOFTMAX_ADAM)),
        ),
    ),
    Figure(
        name="softmax-instability",
        paper_label="softmax-dynamics-isntability",
        title="softmax, η₀ = 0.08: the update and the participation ratio",
        rows=(
            (Probe(SOFTMAX_SGD_INSIDE, "dW"), Probe(SOFTMAX_SGD_INSIDE, "K_eff")),
            (Probe(SOFTMAX_INSIDE, "dW"), Probe(SOFTMAX_INSIDE, "K_eff")),
        ),
        claims=(
            claim("With SGD softmax localises.", Localises(SOFTMAX_SGD_INSIDE, 0.1, True)),
            claim("With Adam it does not.", Localises(SOFTMAX_INSIDE, 0.1, False)),
        ),
    ),
    Figure(
        name="memories-only",
        paper_label="transfter-K-only-regime",
        title="only memories grow, N = 128, P = 256: isotropic (top) and anisotropic data (bottom)",
        rows=(
            tuple(map(Sweep, list(MEMORIES.values())[:4])),
            tuple(map(Sweep, list(MEMORIES.values())[4:])),
            tuple(map(Sweep, list(MEMORIES_ANISOTROPIC.values())[:4])),
            tuple(map(Sweep, list(MEMORIES_ANISOTROPIC.values())[4:])),
        ),
        claims=(
            *_memories_claims("Isotropic", MEMORIES),
            *_memories_claims("Anisotropic", MEMORIES_ANISOTROPIC),
        ),
        remark="Three reasons. With N and P fixed, more memories fit the 256 samples ever more closely, and "
        "the best rate of ReLU with Adam moves with the loss that is reached; early in training it does not. "
        "With p = 2 and SGD the largest memories outgrow the others, and more so the more memories there are "
        "(see largest-memories). With softmax, or p = 2 and Adam, K = 512 is too small a base.",
    ),
    Figure(
        name="mnist-examples",
        paper_label="mnist-examples",
        title="digits: the large memory shrunk, and the small memory on shrunk digits",
        rows=((Tiles(EXAMPLES, "large"),), (Tiles(EXAMPLES, "small"),)),
        claims=(
            Claim(
                "Shrinking what the large memory recalls gives what the small one recalls, after 200 steps.",
                (("", Agree(EXAMPLES, 200)), ("recall takes one step", Agree(EXAMPLES, 1))),
            ),
        ),
        remark="The memory is trained to denoise in one step. Further steps continue downhill in "
        "energy to attractors. Many of these are the same digit at both sizes; where they are not, no "
        "correlation is left.",
    ),
)
