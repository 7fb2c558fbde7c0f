"""Studies of our own on steps of recall: transfer along their number, their time, and completion."""

from __future__ import annotations

from denseam.paper.claims import claim
from denseam.paper.experiments import RELU_ADAM, RELU_SGD
from denseam.paper.figure import Figure, Optimum, Sweep
from denseam.paper.rates import DoesNotTransfer, LossFalls, LowerLoss, Transfers
from denseam.paper.readings import TRAINED

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

#: The time of all steps, at one learning rate; steps longer than the update are allowed, to see them.
TIMES = "0.5:4:7"
TIMED = {
    noise: RELU_ADAM.but(
        f"σ = {noise:g}", regime="steps-only", width=1, eta0=10**-1.5, tau=TIMES, noise=noise,
        overshoot=True, pinned=TRAINED,
    )
    for noise in (0.25, 0.5, 1.0, 2.0)
}  # fmt: skip

#: Digits of 8 × 8 pixels, 1600 of them.
DIGITS = RELU_ADAM.but(
    "digits", data="digits", unit_variance=True, rho=25.0, beta=0.02, eta0=(-2, -1),
    by="heldout", pinned=TRAINED,
)  # fmt: skip
#: Noise → the best time of four steps in small sweeps.
BEST_TIMES = {0.25: 0.7, 0.5: 1.0, 1.0: 1.5, 2.0: 2.0}
TIMED_DIGITS = {
    (T, noise): DIGITS.but(
        f"digits, σ = {noise:g}, T = {T}", noise=noise, steps=T, tau=1.0 if T == 1 else time
    )
    for noise, time in BEST_TIMES.items()
    for T in (1, 4)
}
#: Half of each digit is hidden, a band of rows; the known half keeps its values.
HIDDEN = {
    T: DIGITS.but(f"half hidden, T = {T}", noise=0.2, hide=0.5, hide_by="block", steps=T, tau=float(T))
    for T in (1, 4)
}

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
        title="digits, held out: one step and four",
        rows=tuple(tuple(Sweep(TIMED_DIGITS[T, noise]) for noise in BEST_TIMES) for T in (1, 4)),
        claims=tuple(
            claim(
                f"Noise {noise:g}: four steps are better than one.",
                LowerLoss(TIMED_DIGITS[4, noise], TIMED_DIGITS[1, noise]),
            )
            for noise in BEST_TIMES
        ),
        remark="The time of four steps is that which small sweeps found best.",
    ),
    Figure(
        name="completion",
        title="digits with half of their rows hidden, held out",
        rows=(tuple(map(Sweep, HIDDEN.values())),),
        claims=(claim("Four steps complete better than one.", LowerLoss(HIDDEN[4], HIDDEN[1])),),
    ),
)
