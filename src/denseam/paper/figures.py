"""The seventeen figures of the paper, as rows: what is drawn, what is claimed.

Claims are in our own words. Each is judged in every reading by the same tests: as the paper states it, then
under conditions that are the same for all claims of its kind.
"""

from __future__ import annotations

from denseam.paper.claims import All, Claim, Evidence, claim
from denseam.paper.curves import (
    Agree,
    Collapse,
    CollapsesBetter,
    GoTogether,
    Grows,
    GrowsLess,
    Localises,
    OneOrder,
)
from denseam.paper.experiments import (
    ADAM_INSIDE,
    ADAM_INSIDE_PLAIN,
    ANISOTROPIC,
    DYNAMICS,
    EXAMPLES,
    MEMORIES,
    MEMORIES_ANISOTROPIC,
    MNIST,
    MNIST_UNIT,
    POWERS_ADAM,
    POWERS_SGD,
    RELU_ADAM,
    RELU_ADAM_PLAIN,
    RELU_SGD,
    RELU_SGD_PLAIN,
    SGD_INSIDE,
    SGD_INSIDE_PLAIN,
    SOFTMAX_ADAM,
    SOFTMAX_ADAM_PLAIN,
    SOFTMAX_INSIDE,
    SOFTMAX_SGD,
    SOFTMAX_SGD_INSIDE,
    TERMS,
    TERMS_OF,
    WIDE,
    WIDE_RELU,
    WIDE_RELU_PLAIN,
)
from denseam.paper.figure import Figure, Loss, Probe, Sweep, Tiles
from denseam.paper.rates import DoesNotTransfer, EdgeFallsAlong, LowerRegret, Transfers, TransfersFrom
from denseam.paper.settings import Setting
from denseam.paper.thresholds import EARLY, LINEAR, STAYS

#: The conditions, the same for all claims of a kind: of transfer, of collapse, and on digits.
LARGER_BASE = "the base is large enough"
SHORT = "training stops after a tenth of the epochs"
LARGER = "the smallest sizes are left out"
UNIT = "pixels are scaled to unit variance, with noise 1.5"


def transfers(text: str, setting: Setting, *further: tuple[str, Evidence]) -> Claim:
    """Claim that a learning rate transfers: from the smallest scale, from a larger one, or early on."""
    tests = (
        ("", Transfers(setting)),
        (LARGER_BASE, TransfersFrom(setting)),
        (SHORT, Transfers(setting, share=EARLY)),
    )
    return Claim(text, (*tests, *further))


def collapses(
    text: str, setting: Setting, quantities: tuple[str, ...] = ("loss",), share: float = 0.25
) -> Claim:
    """Claim that curves lie on each other: all of them, or those of the larger scales."""
    tests = (("", Collapse(setting, quantities)), (LARGER, Collapse(setting, quantities, share=0.25)))
    return Claim(text, tests)


def _memories_claims(label: str, settings: dict[tuple[str, str], Setting]) -> tuple[Claim, ...]:
    claims = [
        transfers(f"{label}, {s.label}: the best learning rate does not depend on K.", s)
        for key, s in settings.items()
        if key != ("softmax", "sgd")
    ]
    unstable = f"{label}, softmax with SGD is unstable and does not transfer."
    return (*claims, claim(unstable, DoesNotTransfer(settings["softmax", "sgd"])))


PAPER: tuple[Figure, ...] = (
    Figure(
        name="linear-sgd",
        paper_label="linear_SGD",
        title="identity, SGD, κ = 3, ρ = 10: transfer and loss",
        rows=((Sweep(WIDE), Loss(WIDE)),),
        claims=(
            transfers("One effective learning rate is best at every size.", WIDE),
            collapses("The loss curves of all sizes lie on each other.", WIDE),
        ),
    ),
    Figure(
        name="relu-centring",
        paper_label="relu1-center-non-center",
        title="ReLU, SGD, κ = 3, ρ = 10: centred against not",
        rows=((Sweep(WIDE_RELU), Sweep(WIDE_RELU_PLAIN)),),
        claims=(
            transfers("With centring the best learning rate carries over.", WIDE_RELU),
            claim("Without centring training is unstable at large size.", DoesNotTransfer(WIDE_RELU_PLAIN)),
        ),
        remark="With biases from N(0, 1) centring does not help: each neuron's own bias gives it the same "
        "offset on all samples, which centring over neurons cannot remove.",
    ),
    Figure(
        name="anisotropic-relu",
        paper_label="transfer-anisotropic-relu",
        title="anisotropic data, ReLU: in proportion (κ = 2, ρ = 5) and memories only (N = 128, P = 256)",
        rows=((Sweep(ANISOTROPIC[0]), Sweep(ANISOTROPIC[1])), (Sweep(ANISOTROPIC[2]), Sweep(ANISOTROPIC[3]))),
        claims=tuple(transfers(f"{s.label}: the learning rate transfers.", s) for s in ANISOTROPIC),
    ),
    Figure(
        name="mnist",
        paper_label="transfer-mnist",
        title="MNIST in plaquettes: pixels from 0 to 1 with noise 0.5; unit variance with noise 1.5",
        rows=(tuple(map(Sweep, MNIST)), tuple(map(Sweep, MNIST_UNIT))),
        claims=tuple(
            transfers(f"{a.label}: the learning rate transfers.", a, (UNIT, Transfers(b)))
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
            collapses("The loss goes the same way at every size.", DYNAMICS),
            collapses("Both parts of ΔZ go the same way at every size.", DYNAMICS, ("dZ1", "dZ2")),
        ),
    ),
    Figure(
        name="relu-sgd-terms",
        paper_label="dynamics-collapse-relu-sgd-detailed",
        title="ReLU^p, SGD, η₀ = 0.005: the parts of ΔW, ΔZ and ΔF",
        rows=tuple(tuple(Probe(s, q) for q in TERMS) for s in TERMS_OF),
        claims=tuple(
            collapses(f"{s.label}: {what} keep their sizes throughout.", s, quantities)
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
            claim(
                "Not centred, the spike grows in proportion to the size.",
                Grows(SGD_INSIDE_PLAIN, "lambda_max_raw", LINEAR),
            ),
            collapses("Not centred, the bulk does not.", SGD_INSIDE_PLAIN, ("lambda_2_raw",)),
            collapses("Centred, neither does.", SGD_INSIDE, ("lambda_max", "lambda_2")),
            claim(
                "Centred, spike and bulk are of one order.", OneOrder(SGD_INSIDE, "lambda_max", "lambda_2")
            ),
        ),
    ),
    Figure(
        name="sgd-transfer",
        paper_label="center-non-center-relu-sgd-transfer",
        title="ReLU, SGD: transfer, and loss at η₀ = 0.005; centred against not",
        rows=((Sweep(RELU_SGD_PLAIN), Loss(SGD_INSIDE_PLAIN)), (Sweep(RELU_SGD), Loss(SGD_INSIDE))),
        claims=(
            claim("Not centred, larger models diverge at smaller rates.", DoesNotTransfer(RELU_SGD_PLAIN)),
            transfers("Centred, the learning rate transfers.", RELU_SGD),
            claim("The loss collapses better with centring.", CollapsesBetter(SGD_INSIDE, SGD_INSIDE_PLAIN)),
        ),
    ),
    Figure(
        name="large-p",
        paper_label="transfer-relu-p-large-p",
        title="ReLU^p, p up to 10: SGD (left) and Adam (right)",
        rows=(tuple(map(Sweep, POWERS_SGD)), tuple(map(Sweep, POWERS_ADAM))),
        claims=(
            *(transfers(f"{s.label}: the learning rate transfers.", s) for s in POWERS_SGD + POWERS_ADAM),
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
            claim("Centred, the spike still grows with size.", Grows(ADAM_INSIDE, "lambda_max", STAYS)),
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
            transfers("Centred, the learning rate transfers.", RELU_ADAM),
            claim("It transfers better than without.", LowerRegret(RELU_ADAM, RELU_ADAM_PLAIN)),
            claim("Not centred, it does not transfer.", DoesNotTransfer(RELU_ADAM_PLAIN)),
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
            collapses("Centred, the update goes the same way at every size.", ADAM_INSIDE, ("dW",)),
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
            transfers("Centred, the learning rate transfers.", SOFTMAX_ADAM),
            claim("It transfers better than without.", LowerRegret(SOFTMAX_ADAM, SOFTMAX_ADAM_PLAIN)),
            claim("Not centred, it does not transfer.", DoesNotTransfer(SOFTMAX_ADAM_PLAIN)),
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
        rows=((Sweep(SOFTMAX_SGD), Sweep(SOFTMAX_ADAM.but("softmax, Adam"))),),
        claims=(
            claim("With SGD the best learning rate falls at large size.", DoesNotTransfer(SOFTMAX_SGD)),
            transfers("With Adam it stays.", SOFTMAX_ADAM),
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
            claim("With SGD softmax localises.", Localises(SOFTMAX_SGD_INSIDE, True)),
            claim("With Adam it does not.", Localises(SOFTMAX_INSIDE, False)),
            claim(
                "With SGD the fall of K_eff goes with the growth of the updates.",
                GoTogether(SOFTMAX_SGD_INSIDE, "K_eff", "dW", opposite=True),
            ),
            collapses("With Adam the updates go the same way at every size.", SOFTMAX_INSIDE, ("dW",)),
            claim(
                "With Adam K_eff goes the same way at every size, over its start.",
                Collapse(SOFTMAX_INSIDE, ("K_eff",), relative=True),
            ),
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
        remark="With p = 2 and SGD the largest memories outgrow the others, and more so the more memories "
        "there are (see largest-memories). With ReLU and Adam, a trained hidden bias moves the optimum (see "
        "three-readings).",
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
