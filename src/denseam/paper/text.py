"""Claims of the paper's text that no figure of it shows, with panels of our own."""

from __future__ import annotations

import math

from denseam.paper.claims import Claim, claim
from denseam.paper.curves import Begins, Collapse, GoTogether, Grows, GrowsLess, SlowsDown
from denseam.paper.experiments import (
    MEMORIES,
    MEMORIES_PLAIN,
    MNIST,
    MNIST_UNIT,
    RELU_ADAM,
    RELU_ADAM_PLAIN,
    RELU_SGD,
    SOFTMAX_ADAM,
    SOFTMAX_ADAM_PLAIN,
    SOFTMAX_SGD,
    TERMS,
    WIDE,
)
from denseam.paper.figure import Figure, Loss, Probe, Sweep
from denseam.paper.figures import UNIT, collapses
from denseam.paper.rates import DoesNotTransfer, LowerRegret, LowestRegret, MoreStable, SeedsAgree
from denseam.paper.readings import NORMAL, TRAINED
from denseam.paper.settings import setting
from denseam.paper.thresholds import LINEAR, STAYS

# --- inside a linear model -------------------------------------------------------------------------

SIZES_OF = ("Z", "F")
LINEAR_INSIDE = WIDE.but("in proportion", eta0=1e-3, probes=(*SIZES_OF, *TERMS, "lambda_max", "lambda_2"))
LINEAR_ALONE = setting(
    "memories only, s2 ∝ K^-1/2", "identity", "sgd", 1e-3,
    regime="memories-only", parameterization="s2=K^-1/2", probes=(*SIZES_OF, *TERMS),
)  # fmt: skip

# --- inside softmax and Adam -----------------------------------------------------------------------

MEANS = ("U_mean", "U_centred", "dF_outer_bulk", "dF_outer_spike")
ADAM_MEANS = RELU_ADAM_PLAIN.but("not centred", eta0=0.005, probes=MEANS)
SOFTMAX_PARTS = SOFTMAX_ADAM.but(
    "softmax, Adam", eta0=0.08,
    probes=(*SIZES_OF, "dZ_W", "dF_outer", "dF_inner", "K_eff", "lambda_max", "lambda_2"),
)  # fmt: skip
SOFTMAX_SPIKE = SOFTMAX_ADAM_PLAIN.but("not centred", eta0=0.005, probes=("lambda_max_raw", "lambda_2_raw"))
SOFTMAX_ROWS = SOFTMAX_SGD.but("softmax, SGD", eta0=0.08, probes=("dW", "sigma_max", "row_step_max"), reach=0)

# --- rates, reductions, limits ---------------------------------------------------------------------

SGD = RELU_SGD.but("η_b, η_c constant", reach=-1)
FAST_BIASES = SGD.but("η_b ∝ √N, η_c ∝ √B", parameterization="eta_b=N^1/2, eta_c=B^1/2")
# The spike is B times the bulk, so a rate that fits it is B times smaller: η0·K/B.
SPIKE = SGD.but(
    "not centred, rate for the spike", centred=False, parameterization="eta_W=K·B^-1", eta0=(-1.5, 1)
)
REDUCTIONS, REDUCTIONS_UNIT = (
    (s.but("plaquettes"), s.but("orthonormal", shrink="orthonormal"), s.but("PCA", shrink="pca"))
    for s in (MNIST[1], MNIST_UNIT[1])
)
LIMITS = tuple(MEMORIES[key] for key in (("relu", "sgd"), ("relu", "adam"), ("softmax", "adam")))

TEXT: tuple[Figure, ...] = (
    Figure(
        name="memories-centring",
        section="sec:param-empirics",
        title="only memories grow, ReLU: centred against not",
        rows=tuple(
            (Sweep(MEMORIES[key].but(f"{MEMORIES[key].label}, centred")), Sweep(plain))
            for key, plain in MEMORIES_PLAIN.items()
        ),
        claims=(
            *(
                claim(f"{plain.label}: the learning rate does not transfer.", DoesNotTransfer(plain))
                for plain in MEMORIES_PLAIN.values()
            ),
            *(
                claim(
                    f"{MEMORIES[key].label}: it transfers better with centring.",
                    LowerRegret(MEMORIES[key].but("centred"), plain.but("not centred")),
                )
                for key, plain in MEMORIES_PLAIN.items()
            ),
        ),
        remark="Where only memories grow, B is fixed, so that spike and bulk of the Gram matrix grow alike "
        "with K: the paper's reason for centring does not apply.",
    ),
    Figure(
        name="linear-inside",
        section="sec:theory",
        title="identity, SGD, η₀ = 0.001: the sizes of a step, in proportion and where only memories grow",
        rows=(
            tuple(Probe(LINEAR_INSIDE, q) for q in ("F", "dZ1", "dF22", "lambda_max")),
            tuple(Probe(LINEAR_ALONE, q) for q in ("F", "dZ1", "dF22", "dW1")),
        ),
        claims=(
            claim("In proportion Z and F start at order one.", Begins(LINEAR_INSIDE, SIZES_OF)),
            claim("In proportion every part of ΔZ and ΔF is of order one.", Begins(LINEAR_INSIDE, TERMS[2:])),
            claim(
                "With the same scales, F grows where only memories grow.",
                Begins(LINEAR_ALONE, ("F",), STAYS, math.inf),
            ),
            claim(
                "With the same scales, the parts of ΔZ and ΔF grow where only memories grow.",
                Begins(LINEAR_ALONE, TERMS[2:], STAYS, math.inf),
            ),
            collapses("In proportion the changes go the same way at every size.", LINEAR_INSIDE, TERMS),
            collapses(
                "In proportion the covariance of the features does too.",
                LINEAR_INSIDE,
                ("lambda_max", "lambda_2"),
            ),
        ),
    ),
    Figure(
        name="adam-means",
        section="SI-sec:adam-spike",
        title="ReLU, Adam, not centred, η₀ = 0.005: the means over memories of the update, and what they do",
        rows=(
            tuple(Probe(ADAM_MEANS, q) for q in ("U_mean", "U_centred", "dF_outer_bulk", "dF_outer_spike")),
        ),
        claims=(
            claim(
                "The means of the update do not shrink with size.", Grows(ADAM_MEANS, "U_mean", -STAYS, STAYS)
            ),
            claim("Their part of ΔF grows with size.", Grows(ADAM_MEANS, "dF_outer_spike", STAYS)),
            claim("The rest of it does not.", Grows(ADAM_MEANS, "dF_outer_bulk", -STAYS, STAYS)),
        ),
    ),
    Figure(
        name="softmax-inside",
        section="SI-sec:softmax",
        title="softmax: the sizes of a step, the spike, and the rows",
        rows=(
            tuple(Probe(SOFTMAX_PARTS, q) for q in ("F", "dZ_W", "dF_outer", "dF_inner")),
            (
                *(Probe(SOFTMAX_SPIKE, q) for q in ("lambda_max_raw", "lambda_2_raw")),
                *(Probe(SOFTMAX_ROWS, q) for q in ("sigma_max", "row_step_max")),
            ),
        ),
        claims=(
            claim("Adam: Z and F start at order one.", Begins(SOFTMAX_PARTS, SIZES_OF)),
            claim(
                "Adam: softmax starts spread over all memories.",
                Begins(SOFTMAX_PARTS, ("K_eff",), LINEAR, 1.2),
            ),
            claim("Adam: the change of Z is of order one.", Begins(SOFTMAX_PARTS, ("dZ_W",))),
            claim(
                "Adam: both parts of Δf are of order one.", Begins(SOFTMAX_PARTS, ("dF_outer", "dF_inner"))
            ),
            collapses(
                "Adam: changes of Z and F go the same way at every size.",
                SOFTMAX_PARTS,
                ("dZ_W", "dF_outer", "dF_inner"),
            ),
            claim(
                "Not centred, the spike grows faster than the bulk.",
                GrowsLess(SOFTMAX_SPIKE, "lambda_2_raw", SOFTMAX_SPIKE, "lambda_max_raw"),
            ),
            claim(
                "SGD: the largest step of a row goes with the largest activation.",
                GoTogether(SOFTMAX_ROWS, "row_step_max", "sigma_max"),
            ),
        ),
    ),
    Figure(
        name="bias-rates-sgd",
        section="SI-sec:bias",
        title="SGD with the paper's other bias rates, η_b ∝ √N and η_c ∝ √B",
        rows=((Sweep(SGD), Sweep(FAST_BIASES)),),
        claims=(
            claim(
                "Constant bias rates are more stable.",
                MoreStable(SGD, FAST_BIASES),
                readings=(TRAINED, NORMAL),
            ),
        ),
    ),
    Figure(
        name="spike-rate",
        section="SI-sec:spike-nonzero-activation",
        title="not centred, with a learning rate for the spike instead of the bulk: η_W = η₀·K/B",
        rows=((Sweep(SPIKE), Loss(SPIKE)),),
        claims=(
            claim("At one rate, larger models train more slowly.", SlowsDown(SPIKE)),
            claim("The learning rate does not transfer.", DoesNotTransfer(SPIKE)),
        ),
    ),
    Figure(
        name="many-memories",
        section="sec:param-summary",
        title="K ≫ N, P: training no longer depends on K",
        rows=(tuple(map(Loss, LIMITS)),),
        claims=tuple(
            claim(f"{s.label}: the loss curves of large K lie on each other.", Collapse(s, share=1 / 16))
            for s in LIMITS
        ),
        remark="Large K are those from a sixteenth of the largest on. The paper expects no collapse below.",
    ),
    Figure(
        name="image-reductions",
        section="sec:mnist",
        title="MNIST, ReLU, Adam: three ways to shrink; pixels from 0 to 1 (top), of unit variance (bottom)",
        rows=(tuple(map(Sweep, REDUCTIONS)), tuple(map(Sweep, REDUCTIONS_UNIT))),
        claims=(
            Claim(
                "Plaquettes transfer better than the other reductions.",
                (
                    ("", LowestRegret(REDUCTIONS[0], REDUCTIONS[1:])),
                    (UNIT, LowestRegret(REDUCTIONS_UNIT[0], REDUCTIONS_UNIT[1:])),
                ),
            ),
        ),
    ),
    Figure(
        name="seeds",
        section="sec:experiments-info",
        title="the same curves from every seed",
        rows=((Sweep(WIDE), Sweep(RELU_ADAM.but("ReLU, Adam")), Sweep(SOFTMAX_ADAM.but("softmax, Adam"))),),
        claims=(
            claim(
                "The loss does not depend on the seed.",
                SeedsAgree((WIDE, RELU_ADAM.but("ReLU, Adam"), SOFTMAX_ADAM.but("softmax, Adam"))),
            ),
        ),
    ),
)
