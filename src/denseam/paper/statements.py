"""What the paper says, statement by statement, and what tests it.

A statement is put in our own words. It is tested by claims of the catalog, by a test of an identity, or not
at all, with the reason. What the paper says several times is listed once, where it is said first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from denseam.paper.claims import Claim
from denseam.paper.figure import Figure


@dataclasses.dataclass(frozen=True)
class Statement:
    """One statement of the paper.

    Attributes
    ----------
    place
        The label of the section or figure, as the paper spells it.
    text
        The statement, in our words.
    claims
        Names of figures, all of whose claims test it; or 'NAME: beginning of a claim' for some of them.
    otherwise
        The test of an identity, or the reason why nothing is tested.
    """

    place: str
    text: str
    claims: tuple[str, ...] = ()
    otherwise: str = ""


S = Statement

STATEMENTS: tuple[Statement, ...] = (
    S("abstract", "Theory and experiment agree.", otherwise="the sum of all claims below"),
    S("introduction", "What transfer is, and what is known of it elsewhere.", otherwise="background"),
    S(
        "fig. linear_SGD",
        "A linear model, SGD: one learning rate is best at every size, and the losses coincide.",
        ("linear-sgd",),
    ),
    S(
        "fig. relu1-center-non-center",
        "Centring is critical for stability, and so for transfer.",
        ("relu-centring",),
    ),
    S(
        "contributions",
        "In proportion all internal statistics of a linear model collapse, such as loss and covariances.",
        ("linear-sgd: The loss", "linear-inside: In proportion the"),
    ),
    S(
        "contributions",
        "This needs scales and rates that change with the size as prescribed.",
        ("standard: Under Adam",),
    ),
    S(
        "contributions",
        "A nonlinear model trains stably only if both the pre- and the post-activations are centred.",
        ("relu-centring: Without", "sgd-transfer: Not centred", "adam-transfer: Not centred"),
        "Centring only one of them is not a model of this library, as it has no energy.",
    ),
    S(
        "contributions",
        "With centring, what was derived for linear models works for nonlinear ones.",
        ("sgd-transfer: Centred", "adam-transfer: Centred", "large-p"),
    ),
    S(
        "contributions",
        "A centred model still has an energy.",
        otherwise="an identity: the contracts `energy_gradient_is_the_step` and "
        "`update_never_raises_the_energy` of `denseam.testing`",
    ),
    S(
        "contributions",
        "Softmax with SGD is often unstable at large size.",
        (
            "softmax-sgd-adam: With SGD",
            "memories-only: Isotropic, softmax with",
            "memories-only: Anisotropic, softmax with",
        ),
    ),
    S(
        "contributions",
        "With Adam, softmax transfers in proportion.",
        ("softmax-sgd-adam: With Adam", "softmax-centring: Centred"),
    ),
    S("contributions", "Transfer also works on anisotropic and on real data.", ("anisotropic-relu", "mnist")),
    S(
        "tab:results",
        "The powers of the sizes in scales and rates, for six cases.",
        otherwise="exponents of one step: `denseam check`, `test_what_is_prescribed_passes`",
    ),
    S(
        "tab:results",
        "Where biases are trained, their rates equal that of the weights.",
        otherwise="the setting of all runs; which experiments train them is left open, hence three readings",
    ),
    S(
        "sec:param-summary",
        "If all sizes grow in proportion, whole training curves collapse.",
        ("linear-sgd: The loss", "relu-sgd-dynamics: The loss"),
    ),
    S(
        "sec:param-summary",
        "If only memories grow, curves need not collapse, except once K is far above N and P.",
        ("many-memories",),
    ),
    S("sec:param-summary", "If only memories grow, the learning rate transfers.", ("memories-only",)),
    S(
        "fig. transfer-anisotropic-relu",
        "Anisotropic data: ReLU transfers with SGD and Adam, in both regimes.",
        ("anisotropic-relu",),
    ),
    S(
        "sec:param-empirics",
        "Linear models transfer in both regimes on isotropic data.",
        ("linear-sgd: One", "memories-only: Isotropic, identity"),
    ),
    S(
        "sec:param-empirics",
        "In proportion many internal statistics of a linear model do not depend on the size.",
        ("linear-inside: In proportion the",),
    ),
    S("fig. transfer-mnist", "MNIST: ReLU and softmax transfer with SGD and Adam.", ("mnist",)),
    S(
        "sec:param-empirics",
        "The constant of ReLU^p gives activations a second moment of one.",
        ("printed-constant",),
        "a misprint, see the notes on the paper's text",
    ),
    S(
        "sec:param-empirics",
        "A bounded g keeps the energy bounded.",
        otherwise="an identity, see the notes on the paper's text",
    ),
    S(
        "sec:param-empirics",
        "Such models store a polynomial number of samples.",
        otherwise="a result of other work",
    ),
    S(
        "sec:param-empirics",
        "ReLU transfers in both regimes, but only if it is centred.",
        (
            "sgd-transfer",
            "adam-transfer",
            "memories-centring",
            "memories-only: Isotropic, ReLU, SGD",
            "memories-only: Isotropic, ReLU, Adam",
        ),
    ),
    S(
        "sec:param-empirics",
        "At large powers Adam still transfers and stays stable, even at p = 10; SGD is often unstable.",
        ("large-p",),
    ),
    S(
        "sec:param-empirics",
        "For p = 1 and 2 the internal statistics of a centred model go the same way at every size.",
        ("relu-sgd-dynamics", "relu-sgd-terms: p = 1", "relu-sgd-terms: p = 2"),
    ),
    S(
        "sec:param-empirics",
        "ReLU turns inputs of order one into outputs of order one; softmax does not.",
        otherwise="a property of the functions: `test_relu_powers_have_unit_second_moment`",
    ),
    S("sec:param-empirics", "Softmax transfers with Adam and not with SGD.", ("softmax-sgd-adam",)),
    S(
        "sec:param-empirics",
        "With Adam the internal statistics of centred softmax go the same way at every size.",
        ("softmax-instability: With Adam", "softmax-inside: Adam: changes", "softmax-centring: The loss"),
    ),
    S(
        "sec:DAM",
        "The model is a step downhill in an energy.",
        otherwise="identities: contracts of `denseam.testing`; notes on the paper's text",
    ),
    S(
        "sec:approach",
        "Desiderata 1 to 3 are met only in proportion, with the scales given: Z and F start at order one, "
        "and every part of their changes is of order one.",
        (
            "linear-inside: In proportion Z",
            "linear-inside: In proportion every",
            "linear-inside: With the same",
        ),
    ),
    S(
        "sec:approach",
        "Then not only the rate transfers: representation, output and loss go the same way at every size.",
        ("linear-inside: In proportion the", "relu-sgd-dynamics", "relu-sgd-terms"),
    ),
    S(
        "fig. dynamics-relu-sgd-dz",
        "ReLU, SGD: the loss and both parts of ΔZ collapse.",
        ("relu-sgd-dynamics",),
    ),
    S(
        "SI-sec:one-step-updates",
        "Formulas of gradients and of the parts of a step, centred and not.",
        otherwise="identities: `tests/reference.py`, `test_every_quantity_is_what_the_equations_say`",
    ),
    S(
        "SI-sec:initialization",
        "Z and F have a variance of order one at the start, with s2 ∝ K^-1/2 in proportion and K^-1 where "
        "only memories grow.",
        ("linear-inside: In proportion Z", "linear-inside: With the same scales, F"),
        "the second case: `test_what_is_prescribed_passes`",
    ),
    S(
        "SI-sec:linear-sgd",
        "Closed forms for the sizes of a step.",
        otherwise="`test_the_papers_closed_forms`; notes on the paper's text",
    ),
    S(
        "fig. dynamics-collapse-relu-sgd-detailed",
        "ReLU^p, SGD: every part of ΔW, ΔZ and ΔF behaves the same as N grows.",
        ("relu-sgd-terms",),
    ),
    S(
        "SI-sec:spike-nonzero-activation",
        "Activations with a mean give the Gram matrix a spike that grows faster than the bulk.",
        ("sgd-eigenvalues: Not centred",),
    ),
    S(
        "SI-sec:spike-nonzero-activation",
        "A rate for the bulk makes training unstable at large size; one for the spike slows it down.",
        ("sgd-transfer: Not centred", "spike-rate"),
    ),
    S(
        "sec:centering",
        "Centring brings spike and bulk to one order, and both collapse.",
        ("sgd-eigenvalues: Centred",),
    ),
    S("sec:centering", "With centring the losses collapse better.", ("sgd-transfer: The loss",)),
    S(
        "sec:centering",
        "Large powers destabilise transfer; Adam handles them better.",
        ("large-p: With SGD", "large-p: With Adam"),
    ),
    S(
        "SI-sec:adam-spike",
        "Not centred, the means over memories of Adam's update do not average out, and their effect on the "
        "output grows with size while that of the rest does not.",
        ("adam-means",),
    ),
    S(
        "SI-sec:adam-spike",
        "Adam's step is about the sign of the gradient.",
        otherwise="an approximation for an estimate, not a result; the probe `sign_distance` measures it",
    ),
    S(
        "fig. center-non-center-relu-adam-eigenvalues",
        "Under Adam centring does not remove the growth of the spike but weakens it; the bulk stays.",
        ("adam-eigenvalues",),
    ),
    S(
        "fig. center-non-center-relu-adam-transfer",
        "Under Adam a centred model transfers better, and its losses collapse better.",
        ("adam-transfer: It transfers", "adam-transfer: The loss", "adam-transfer: Centred"),
    ),
    S("fig. adam-update-center-non-center", "With centring Adam's update collapses.", ("adam-update",)),
    S(
        "SI-sec:bias",
        "Bias rates that do not grow with the size are more stable than those that do.",
        ("bias-rates-sgd",),
    ),
    S(
        "SI-sec:softmax",
        "The hidden bias does not affect softmax.",
        otherwise="true for a constant only, see the notes on the paper's text",
    ),
    S(
        "SI-sec:softmax-initialization",
        "Softmax starts spread over all memories; with s2 ∝ √K its output is of order one.",
        ("softmax-inside: Adam: Z", "softmax-inside: Adam: softmax"),
    ),
    S(
        "SI-sec:softmax",
        "The mean of softmax gives a spike that dominates the bulk.",
        ("softmax-inside: Not centred",),
    ),
    S(
        "fig. softmax-adam-center-non-center-transfer-and-mse",
        "For softmax with Adam centring is necessary for transfer, and losses collapse better.",
        ("softmax-centring",),
    ),
    S(
        "SI-sec:softmax",
        "The gradient of a row is proportional to its softmax weight, centred or not up to 1/K, so that rows "
        "with large weights get large updates.",
        ("softmax-inside: SGD",),
        "the formulas: `test_the_row_gradient_of_softmax`",
    ),
    S(
        "fig. transfer-softmax-sgd-vs-adam",
        "With SGD the best rate falls at N = 2048; with Adam it does not.",
        ("softmax-sgd-adam",),
    ),
    S(
        "fig. softmax-dynamics-isntability",
        "With SGD K_eff falls rapidly, together with a growth of the updates; with Adam it does not.",
        ("softmax-instability",),
    ),
    S(
        "SI-sec:softmax-adam-scaling",
        "With Adam the change of Z and both parts of that of f are of order one while K_eff is of order K.",
        (
            "softmax-inside: Adam: the change",
            "softmax-inside: Adam: both",
            "softmax-instability: With Adam it",
        ),
    ),
    S(
        "sec:K-only-scaling",
        "Where only memories grow: scales for SGD, for Adam and for softmax, which transfer.",
        ("memories-only: Isotropic", "memories-only: Anisotropic"),
    ),
    S("sec:mnist", "Of several ways to shrink images, plaquettes work best.", ("image-reductions",)),
    S("sec:mnist", "Plaquettes give transfer in proportion on digits.", ("mnist",)),
    S(
        "sec:mnist",
        "Weights shrink with the images.",
        otherwise="holds with counts of pixels, see the notes on the paper's text",
    ),
    S(
        "fig. mnist-examples",
        "What a large memory recalls in 200 steps, shrunk, agrees with what a small one recalls.",
        ("mnist-examples",),
    ),
    S("sec:experiments-info", "Experiments take minutes on a laptop.", otherwise="depends on the machine"),
    S("sec:experiments-info", "Curves do not depend on the seed.", ("seeds",)),
    S("sec:experiments-info", "The constants of Adam.", otherwise="the setting of all runs"),
)


def claims_about(statement: Statement, figures: Sequence[Figure]) -> Iterator[tuple[Figure, Claim]]:
    """Give the claims that test a statement."""
    for reference in statement.claims:
        name, _, beginning = reference.partition(": ")
        for figure in figures:
            if figure.name == name:
                for claim in figure.claims:
                    if claim.text.startswith(beginning):
                        yield figure, claim
