"""Studies of our own on steps of recall: transfer along their number, their time, and completion."""

from __future__ import annotations

from denseam.paper.claims import claim
from denseam.paper.compared import LOSSES
from denseam.paper.experiments import RELU_ADAM, RELU_SGD, SOFTMAX_ADAM
from denseam.paper.figure import Figure, Optimum, Sweep
from denseam.paper.ranking import LowestLoss, Ranking
from denseam.paper.rates import DoesNotTransfer, LossFalls, LowerLoss, Transfers
from denseam.paper.readings import TRAINED
from denseam.paper.recall_curves import Along, EndsLower, NeverRises, RecallCurve, RunsAway, StaysNear
from denseam.paper.settings import Setting
from denseam.studies.records import By

#: What all have in common: T steps cost about T times as much, so a quarter of the epochs has to do.
SHORT = {"reach": -1, "pinned": TRAINED, "length": 0.25}
#: ReLU with each kind of update; rates around their optimum.
BASES = {
    "SGD": RELU_SGD.but("SGD", eta0=(-2.25, -0.5), **SHORT),
    "Adam": RELU_ADAM.but("Adam", eta0=(-2.25, -0.5), **SHORT),
    "Muon": RELU_ADAM.but("Muon", optimizer="muon", eta0=(-2.75, -1), **SHORT),
}
KINDS = ("isotropic", "anisotropic")

#: Only T grows, at the largest N that our own studies have.
ALONG_STEPS = {
    (name, data): base.but(f"{name}, {data}", regime="steps-only", width=3, reach=0, data=data)
    for data in KINDS
    for name, base in BASES.items()
}
#: The control, at a smaller N: steps that shrink, and steps that do not.
SHORTER_STEPS = {name: ALONG_STEPS[name, "isotropic"].but(f"{name}, smaller N", width=1) for name in BASES}
WHOLE_STEPS = {
    name: s.but(f"{name}, d = 1", parameterization="step=1", eta0=(-3, -0.5))
    for name, s in SHORTER_STEPS.items()
}
#: N grows at T = 16, and with T.
ALONG_SIZE = {
    (name, data): base.but(f"{name}, {data}, T = 16", steps=16, data=data)
    for data in KINDS
    for name, base in BASES.items()
}
BOTH = {name: base.but(f"{name}, T = N/64", regime="proportional-steps") for name, base in BASES.items()}

#: The time of all steps; steps longer than the update are allowed, to see them.
TIMES, NOISES = "0.5:4:7", (0.25, 0.5, 1.0, 2.0)
#: Gaussians, at one learning rate.
TIMED = {
    noise: RELU_ADAM.but(
        f"σ = {noise:g}", regime="steps-only", width=1, eta0=10**-1.5, tau=TIMES, noise=noise,
        overshoot=True, pinned=TRAINED,
    )
    for noise in NOISES
}  # fmt: skip

#: Digits of 8 × 8 pixels, 1600 of them.
DIGITS = RELU_ADAM.but(
    "digits", data="digits", unit_variance=True, rho=25.0, beta=0.02, eta0=(-3.25, -1),
    by="heldout", pinned=TRAINED,
)  # fmt: skip
#: Numbers of steps that are compared on images, each at its best time and rate.
NUMBERS = {1: "one step", 4: "four steps", 16: "sixteen steps"}


def on_images(images: Setting, by: By, T: int) -> dict[float, Setting]:
    """Return noise → memories trained through T steps of any time."""
    return {
        noise: images.but(f"σ = {noise:g}", by=by, noise=noise, steps=T, tau=TIMES, overshoot=True)
        for noise in NOISES
    }


def updated_once(images: Setting, by: By) -> dict[float, Setting]:
    """Return noise → memories trained on the update itself, one step of time 1."""
    return {noise: images.but(f"σ = {noise:g}", by=by, noise=noise) for noise in NOISES}


#: Half of each digit is hidden, a band of rows; the known half keeps its values.
HIDDEN = {
    T: DIGITS.but(f"half hidden, T = {T}", noise=0.2, hide=0.5, hide_by="block", steps=T, tau=tau)
    for T, tau in {1: 1.0, 4: 4.0, 16: 4.0}.items()
}

#: Softmax through several steps: as prescribed, in a short time, and with other powers.
_SOFTMAX = SOFTMAX_ADAM.but("T = 1", eta0=(-2.25, -0.5), reach=-1, pinned=TRAINED)
SOFTMAX = {
    "one": _SOFTMAX,
    "long": _SOFTMAX.but("T = 4, τ = 1", steps=4),
    "short": _SOFTMAX.but("T = 4, τ = 0.3", steps=4, tau=0.3),
    "finer": _SOFTMAX.but("T = 8, τ = 0.3", steps=8, tau=0.3),
    "anisotropic": _SOFTMAX.but("T = 4, τ = 0.3, anisotropic", steps=4, tau=0.3, data="anisotropic"),
    "spread": _SOFTMAX.but(
        "T = 4, τ = 1, s1 = 1/N, s2 = √(KN)", steps=4, parameterization="s1=N^-1, s2=N^1/2*K^1/2"
    ),
}

#: Memories that recall digits far beyond the steps of their training: T steps of size τ/T, after a burn-in of
#: up to this many times T steps without gradient. They are small, and are trained on any machine.
_MANY = DIGITS.but("many memories", eta0=0.03, kappa=32.0, schedule="linear", precision="float32")
BEYOND = {
    (T, tau, burn_in): RecallCurve(
        _MANY.but(
            f"T = {T}" + (f", τ = {tau:g}" if tau != 1 else "") + (", burn-in" if burn_in else ""),
            steps=T, tau=tau, burn_in=burn_in,
        )
    )
    for T, tau, burn_in in ((1, 1.0, 0.0), (4, 1.0, 0.0), (16, 1.0, 0.0), (16, 1.0, 12.0), (64, 4.0, 3.0))
}  # fmt: skip
_PLAIN = tuple(curve for (_, _, burn_in), curve in BEYOND.items() if not burn_in)
_BURNT_IN = tuple(curve for curve in BEYOND.values() if curve not in _PLAIN)

STEPS: tuple[Figure, ...] = (
    Figure(
        name="steps-rule",
        title="ReLU trained through T steps of recall, of size τ/T",
        rows=(
            tuple(Sweep(ALONG_STEPS[name, "isotropic"]) for name in BASES),
            tuple(Sweep(ALONG_STEPS[name, "anisotropic"]) for name in BASES),
            tuple(map(Sweep, WHOLE_STEPS.values())),
        ),
        claims=(
            *(claim(f"{s.label}: the rate transfers along T.", Transfers(s)) for s in ALONG_STEPS.values()),
            *(
                claim(f"{name}: through all steps the error is 15 % lower.", LossFalls(s, 0.15))
                for name in BASES
                for s in (ALONG_STEPS[name, "isotropic"],)
            ),
            *(claim(f"{s.label}: the rate drifts.", DoesNotTransfer(s)) for s in WHOLE_STEPS.values()),
            *(
                claim(f"{name}: steps of size 1 are worse.", LowerLoss(SHORTER_STEPS[name], whole))
                for name, whole in WHOLE_STEPS.items()
            ),
        ),
        remark="From T = 1 on, states and changes approach those of a flow, by O(1/T).",
    ),
    Figure(
        name="steps-size",
        title="ReLU trained through 16 steps of recall, and through T = N/64",
        rows=(
            tuple(Sweep(ALONG_SIZE[name, "isotropic"]) for name in BASES),
            tuple(Sweep(ALONG_SIZE[name, "anisotropic"]) for name in BASES),
            tuple(map(Sweep, BOTH.values())),
        ),
        claims=tuple(
            claim(f"{s.label}: the rate transfers along N.", Transfers(s))
            for s in (*ALONG_SIZE.values(), *BOTH.values())
        ),
    ),
    Figure(
        name="steps-time",
        title="ReLU, Adam (η₀ = 0.03): the time τ of T steps, at several noises",
        rows=(tuple(map(Sweep, TIMED.values())), (Optimum(tuple(TIMED.values())),)),
        claims=tuple(
            claim(f"{s.label}: the best time is the same for all T.", Transfers(s)) for s in TIMED.values()
        ),
        remark="A state keeps a share e^-τ of its start, and so of the noise: the stronger that is, the "
        "longer is the best time.",
    ),
    Figure(
        name="steps-digits",
        title="digits: steps of recall, each number of them at its best time and rate",
        rows=tuple(
            tuple(
                Ranking(
                    f"digits, {loss}",
                    ("the update", NUMBERS[T]),
                    tuple(updated_once(DIGITS, by).values()),
                    tuple(on_images(DIGITS, by, T).values()),
                )
                for T in NUMBERS
            )
            for by, loss in LOSSES.items()
        ),
        claims=tuple(
            claim(
                f"Noise {noise:g}, {loss}: {NUMBERS[T]}, at the best time, {verb} better than the update.",
                LowestLoss(
                    on_images(DIGITS, by, T)[noise].but(f"T = {T}"),
                    (updated_once(DIGITS, by)[noise].but("the update"),),
                ),
            )
            for by, loss in LOSSES.items()
            for noise in NOISES
            for T, verb in zip(NUMBERS, ("is", "are", "are"), strict=True)
        ),
        remark="The update is one step of time τ = 1.",
    ),
    Figure(
        name="completion",
        title="digits with half of their rows hidden, held out",
        rows=(tuple(map(Sweep, HIDDEN.values())),),
        claims=tuple(
            claim(
                f"With {words} the error is {100 * share:g} % lower.", LowerLoss(HIDDEN[T], HIDDEN[1], share)
            )
            for T, words in NUMBERS.items()
            if T > 1
            for share in (0.1, 0.2)
        ),
    ),
    Figure(
        name="steps-softmax",
        title="softmax, Adam, trained through several steps of recall",
        rows=(
            tuple(Sweep(SOFTMAX[name]) for name in ("one", "long", "spread")),
            tuple(Sweep(SOFTMAX[name]) for name in ("short", "finer", "anisotropic")),
        ),
        claims=(
            claim("At τ = 1 four steps are worse than one.", LowerLoss(SOFTMAX["one"], SOFTMAX["long"])),
            claim("At τ = 0.3 four steps are better.", LowerLoss(SOFTMAX["short"], SOFTMAX["one"])),
            *(
                claim(f"{SOFTMAX[name].label}: the rate transfers along N.", Transfers(SOFTMAX[name]))
                for name in ("short", "finer", "anisotropic", "spread")
            ),
        ),
        remark="An untrained memory amplifies a state by up to exp((λ − 1)τ), where λ = ‖∂f‖ is above 1 "
        "at every size. A state that grows several times leaves the region in which softmax is spread out.",
    ),
    Figure(
        name="recall-curves",
        title="digits, noise 0.5, K = 32 N, Adam: 200 steps of recall, of the trained size τ/T",
        rows=(
            (Along(tuple(BEYOND.values()), "error"), Along(tuple(BEYOND.values()), "energy")),
            (Along(tuple(BEYOND.values()), "moved"), Along(tuple(BEYOND.values()), "at_rest")),
        ),
        claims=(
            claim("The energy never rises.", NeverRises(tuple(BEYOND.values()))),
            claim("After 200 steps the error is the lower, the larger T is.", EndsLower(_PLAIN)),
            claim("At T = 16 a burn-in lowers it.", EndsLower((BEYOND[16, 1.0, 0.0], BEYOND[16, 1.0, 12.0]))),
            *(
                claim(f"{curve.setting.label}: it is more than 1.5 times that at T.", RunsAway((curve,)))
                for curve in _PLAIN
            ),
            *(
                claim(f"{curve.setting.label}: at most 1.5 times, {words}.", StaysNear((curve,), of=of))
                for curve in _BURNT_IN
                for of, words in (("heldout", "held out"), ("trained", "on samples of the training"))
            ),
        ),
        remark="Dots: where training ends. 200 steps are a time of 200 for T = 1, 50 for T = 4, and 12.5 for "
        "the others.",
    ),
)
