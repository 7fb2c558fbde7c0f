"""Our own studies: questions that the paper leaves open, and controls."""

from __future__ import annotations

import math
from typing import Any

from denseam.paper.claims import All, claim
from denseam.paper.compared import COMPARED
from denseam.paper.curves import Grows, GrowsLess
from denseam.paper.decays import Bearable
from denseam.paper.experiments import ADAM_INSIDE, MEMORIES, POWERS, POWERS_ADAM, RELU_ADAM, RELU_SGD
from denseam.paper.figure import Figure, Horizon, Optimum, Probe, Sweep
from denseam.paper.rates import (
    AsGood,
    DoesNotTransfer,
    DriftIs,
    EdgeFallsAlong,
    HorizonAgrees,
    LowerLoss,
    Transfers,
    TransfersFrom,
)
from denseam.paper.readings import FROZEN, READINGS, TRAINED
from denseam.paper.recall_steps import STEPS
from denseam.paper.settings import Setting, setting
from denseam.paper.storage import STORAGE
from denseam.paper.thresholds import STAYS, STAYS_MEMORIES
from denseam.rules.table import relu_constant
from denseam.theory.gaussian import feature_variance


def in_each(setting: Setting, label: str) -> dict[str, Setting]:
    """Return a setting pinned to each reading, by the reading's name."""
    return {r.name: setting.but(f"{label}, {r.name}", pinned=r) for r in READINGS.values()}


def follows(power: str, setting: Setting) -> str:
    """Return the rule whose rates have this power of what grows, besides what they have in proportion."""
    of_W = f"K*{power}" if setting.get("optimizer") == "sgd" else power
    return f"eta_W={of_W}, eta_b={power}, eta_c={power}"


SGD = RELU_SGD.but("biases from zero", reach=-1)
ADAM = RELU_ADAM.but("b trained", reach=-1)

SLOW_BIAS = ADAM.but("η_b ∝ N^-1/2", parameterization="eta_b=N^-1/2")
STILL_BIAS = ADAM.but("b frozen", eta_b_ratio=0.0)
SLOW_INSIDE = ADAM_INSIDE.but("η_b ∝ N^-1/2", parameterization="eta_b=N^-1/2", reach=-1)
STILL_INSIDE = ADAM_INSIDE.but("b frozen", eta_b_ratio=0.0, reach=-1)
TRAINED_INSIDE = ADAM_INSIDE.but("b trained", reach=-1)

STEEP_BIAS = POWERS_ADAM[3].but("η_b = η₀", reach=-1, pinned=TRAINED)
#: Slower at every N, and slower from N = 128 on, where η_b = η₀.
SLOW_STEEP = tuple(
    STEEP_BIAS.but(f"η_b = η₀·{power}", parameterization=f"eta_b={power}") for power in ("N^-1/2", "N^-1")
)
SLOWING_STEEP = STEEP_BIAS.but(
    "η_b = η₀·(N/128)^-1/2", parameterization="eta_b=N^-1/2", eta_b_ratio=round(math.sqrt(128), 6)
)

IN_PROPORTION = in_each(RELU_ADAM, "ReLU, Adam")
IN_PROPORTION_SGD = in_each(RELU_SGD, "ReLU, SGD")
STEEP = in_each(POWERS_ADAM[2], "ReLU³, Adam")
ALONE = in_each(MEMORIES["relu", "adam"], "Adam, only K")
IN_TRAINING = {name: s.but(f"{name}, training") for name, s in ALONE.items()}
HELD_OUT = {name: s.but(f"{name}, held out", by="heldout") for name, s in ALONE.items()}

# Entries of the gradient are about 0.5/N: 0.004 at N = 128.
LARGE_EPSILON = ADAM.but("ε = 0.003", epsilon=3e-3, eta0=(-2.25, 0.25))
SHRINKING_EPSILON = ADAM.but(
    "ε ∝ gradient", epsilon=0.4, parameterization="epsilon=gradient", eta0=(-2.25, 0.25)
)

PRINTED = tuple(SGD.but(f"p = {p}, C_p as printed", power=p, s2_0=relu_constant(p) ** -2) for p in (1, 2, 3))
CORRECT = tuple(SGD.but(f"p = {p}, C_p corrected", power=p) for p in (1, 2, 3))

STANDARD_SGD = SGD.but("standard, SGD", parameterization="standard")
STANDARD_ADAM = ADAM.but("standard, Adam", parameterization="standard", eta0=(-4.5, -2))
NOISES = tuple(SGD.but(f"noise {v:g}", noise=v) for v in (0.25, 0.5, 1.0, 2.0))

#: v_g, the mean square of tanh of a sample with the usual noise.
V_G = feature_variance(0.5)
#: p → the range of learning rates.
LARGE = {1: (-3.0, -0.5), 2: (-3.0, -0.5), 3: (-3.25, -0.75), 5: (-4.25, -1.75)}
PLAIN_S1 = tuple(SGD.but(f"p = {p}, s1_0 = 1", power=p, eta0=POWERS[p][0]) for p in LARGE)
UNIT_S1 = tuple(
    SGD.but(f"p = {p}, s1_0 = v_g^-1/2", power=p, eta0=rates, s1_0=round(V_G**-0.5, 6))
    for p, rates in LARGE.items()
)
SOFTMAX_MEMORIES, RELU_MEMORIES = MEMORIES["softmax", "adam"], MEMORIES["relu", "adam"]

ROWS = tuple(
    setting(
        f"p = {p}", "relu", "sgd", 10**-1.25, power=p, regime="memories-only", probes=("row_max", "sigma_max")
    )
    for p in (1, 2)
)

IN_ALL = {"reach": -1, "pinned": TRAINED}
MOMENTUM = RELU_SGD.but("SGD, momentum 0.9", momentum=0.9, eta0=(-4, -1.5), **IN_ALL)
OPTIMIZERS = (
    MOMENTUM,
    MOMENTUM.but("SGD, Nesterov 0.9", nesterov=True),
    RELU_ADAM.but("AdamW", optimizer="adamw", **IN_ALL),
    RELU_ADAM.but("Lion", optimizer="lion", eta0=(-3.5, -1), **IN_ALL),
    RELU_ADAM.but("signs", optimizer="sign", eta0=(-3.5, -1), **IN_ALL),
)
# Controls are in the units of the prescription, W of unit variance.
MUON = RELU_ADAM.but("Muon", optimizer="muon", eta0=(-3, -1.5), reach=0, pinned=TRAINED)
MUON_IDENTITY = MUON.but("Muon, identity", activation="identity", eta0=(-4, -2.5))
MUON_AUTHORS = MUON.but(
    "Muon, η_W = η₀·max(1, K/N)^1/2",
    parameterization="eta_W=max(K, N)^1/2*N^-1/2",
    eta0=(-2, -0.25),
    reach=-1,
)
MUON_MEMORIES = MUON.but("Muon, only K", regime="memories-only", eta0=(-2.75, -1.25), pinned=FROZEN)
MUON_IDENTITY_MEMORIES = MUON_MEMORIES.but("Muon, identity, only K", activation="identity", eta0=(-4, -2.5))
MUON_PLAIN = MUON_MEMORIES.but("Muon, only K, η_W = η₀", parameterization="eta_W=1", eta0=(-1, 1.75))
LION_MEMORIES = MUON_MEMORIES.but("Lion, only K", optimizer="lion", eta0=(-2.75, -0.25))

#: The keys of a study that set the schedule of its rate, by the schedule's name; a further one is a row.
SCHEDULES: dict[str, dict[str, Any]] = {
    "constant rate": {},
    "linear to zero": {"schedule": "linear", "eta0": (-2.25, 0.25)},
}
#: The length of training grows, from an eighth of the epochs to all of them, at a small and at a large N.
LENGTHS = {
    schedule: tuple(
        base.but(f"{name}, {schedule}, {size} N", regime="epochs", width=width, pinned=TRAINED, **keys)
        for size, width in (("small", 0), ("large", 3))
        for name, base in (("SGD", RELU_SGD), ("Adam", RELU_ADAM))
    )
    for schedule, keys in SCHEDULES.items()
}
#: The power of E that small sweeps found for ReLU at a constant rate.
FALLING = tuple(
    s.but(f"{s.label}, η ∝ E^-1/3", parameterization=follows("E^-1/3", s), eta0=(-2.25, 0.25))
    for s in LENGTHS["constant rate"]
)

#: The batch grows from N/16 to N at a fixed number of epochs.
BATCH = RELU_SGD.but("SGD, η ∝ B", regime="batch-only", eta0=(-2.75, -0.25), pinned=TRAINED)
BATCHES = (
    BATCH,
    BATCH.but("Adam, η ∝ B^1/2, 1 − β ∝ B", optimizer="adam"),
    BATCH.but("Lion, η ∝ B", optimizer="lion", eta0=(-3.25, -0.75)),
    BATCH.but("signs, η ∝ B", optimizer="sign", eta0=(-3.25, -0.75)),
    BATCH.but("Muon, η ∝ B", optimizer="muon", eta0=(-3.5, -1)),
)
BATCH_PLAIN = BATCH.but("SGD, no power of B", parameterization=follows("1", BATCH), eta0=(-4, -0.75))
BATCH_PLAIN_ADAM = BATCHES[1].but(
    "Adam, no power of B",
    parameterization=f"{follows('1', BATCHES[1])}, forget_beta1=1, forget_beta2=1",
    eta0=(-3.25, -0.5),
)

# At these rates a time of 0.05 is at least a step in the shortest training, and nothing is under-trained.
TIMES = "0.05:5:9"
DECAY_ADAMW = RELU_ADAM.but(
    "AdamW, held out", optimizer="adamw", eta0=0.01, decay_time=TIMES, by="heldout", reach=0, pinned=TRAINED
)
DECAY_SGD = RELU_SGD.but("SGD", eta0=0.02, decay_time=TIMES, reach=0, pinned=TRAINED)
DECAY_UNSCALED = RELU_SGD.but(
    "SGD, λ_W = λ₀", eta0=0.02, decay="1e-6:0.1:21", parameterization="decay_W=1", reach=0, pinned=TRAINED
)

OWN: tuple[Figure, ...] = (
    *STEPS,
    *STORAGE,
    Figure(
        name="batch-rule",
        title="ReLU, a fixed number of epochs: the rate follows the batch",
        rows=(
            tuple(map(Sweep, BATCHES[:3])),
            tuple(map(Sweep, BATCHES[3:])),
            (Sweep(BATCH_PLAIN), Sweep(BATCH_PLAIN_ADAM), Optimum((*BATCHES, BATCH_PLAIN, BATCH_PLAIN_ADAM))),
        ),
        claims=(
            *(claim(f"{s.label}: the rate transfers.", Transfers(s)) for s in BATCHES),
            claim("SGD with no power of B drifts as B.", DriftIs(BATCH_PLAIN, math.log10(2))),
            claim("Adam with no power of B drifts as B^1/2.", DriftIs(BATCH_PLAIN_ADAM, math.log10(2) / 2)),
        ),
        remark="Averages are over the same number of samples at every B, except that of Lion's single "
        "gradients. Above about B = 2N no power holds.",
    ),
    Figure(
        name="horizon-rule",
        title="ReLU: tuned at an eighth of the epochs",
        rows=(*(tuple(map(Sweep, each)) for each in LENGTHS.values()), tuple(map(Sweep, FALLING))),
        claims=tuple(
            claim(f"{s.label}: the rate of an eighth of the epochs is good for all.", Transfers(s))
            for each in (*LENGTHS.values(), FALLING)
            for s in each
        ),
        remark="At a constant rate no power of E holds for all activations: small sweeps found about -1/3 "
        "for ReLU, -0.8 for identity, and between 0 and -0.3 for softmax.",
    ),
    Figure(
        name="decay",
        title="ReLU: the time of decay over that of training (AdamW η₀ = 0.01, SGD η₀ = 0.02)",
        rows=((Sweep(DECAY_ADAMW), Sweep(DECAY_SGD), Sweep(DECAY_UNSCALED)),),
        claims=(
            claim("AdamW: the best decay time is the same at all sizes.", Transfers(DECAY_ADAMW)),
            claim("SGD: that of one size is good at all.", Transfers(DECAY_SGD)),
            claim("SGD: the decay time that costs 10 % is the same.", Bearable(DECAY_SGD, 0.0)),
            claim(
                "With a λ that ignores K it is not: λ falls as 1/K.", Bearable(DECAY_UNSCALED, -math.log10(2))
            ),
            claim("Such a λ does not transfer.", DoesNotTransfer(DECAY_UNSCALED)),
        ),
        remark="Under SGD hardly any decay is better than none, so what is compared is the decay that does "
        "harm. The control is swept in λ₀, since a time has the power of K in it already.",
    ),
    Figure(
        name="optimizers",
        title="ReLU: the rules of further optimizers",
        rows=(tuple(map(Sweep, (*OPTIMIZERS, LION_MEMORIES))),),
        claims=tuple(
            claim(f"{s.label}: the rate transfers.", Transfers(s)) for s in (*OPTIMIZERS, LION_MEMORIES)
        ),
    ),
    COMPARED,
    Figure(
        name="muon",
        title="Muon: the rate follows the longer side of W",
        rows=(
            (Sweep(MUON), Sweep(MUON_IDENTITY), Sweep(MUON_AUTHORS)),
            (Sweep(MUON_MEMORIES), Sweep(MUON_IDENTITY_MEMORIES), Sweep(MUON_PLAIN)),
        ),
        claims=(
            claim("With η_W = η₀·max(K, N)^1/2 the rate transfers.", Transfers(MUON)),
            claim("With the identity it does too.", Transfers(MUON_IDENTITY)),
            claim("With the factor max(1, K/N)^1/2 it drifts.", DriftIs(MUON_AUTHORS, math.log10(2) / 2)),
            claim("Memories only, it transfers.", Transfers(MUON_MEMORIES)),
            claim("Memories only, with the identity it does too.", Transfers(MUON_IDENTITY_MEMORIES)),
            claim("Memories only, with no factor it drifts.", DriftIs(MUON_PLAIN, math.log10(2) / 2)),
        ),
        remark="In proportion the factor of Muon's authors is a constant. Where only the memories grow it is "
        "the rule itself, up to a constant.",
    ),
    Figure(
        name="three-readings",
        title="ReLU: biases frozen at zero, trained from zero, and trained from N(0, 1)",
        rows=tuple(tuple(map(Sweep, each.values())) for each in (IN_PROPORTION_SGD, IN_PROPORTION, ALONE)),
        claims=(
            claim(
                "In proportion, trained biases change the best loss of ReLU with Adam by little.",
                AsGood(IN_PROPORTION["trained"], IN_PROPORTION["frozen"]),
            ),
            claim(
                "In proportion, they lower that of ReLU³ with Adam.",
                LowerLoss(STEEP["trained"], STEEP["frozen"]),
            ),
            claim(
                "Memories only, they lower that of ReLU with Adam.",
                LowerLoss(ALONE["trained"], ALONE["frozen"]),
            ),
            claim("Memories only, ReLU with Adam transfers if they are frozen.", Transfers(ALONE["frozen"])),
            claim("If they are trained from zero, it does not.", DoesNotTransfer(ALONE["trained"])),
            claim("If they are trained from N(0, 1), it does not.", DoesNotTransfer(ALONE["normal"])),
        ),
        remark="From N(0, 1), each neuron's own bias gives it the same offset on all samples, so the centred "
        "Gram matrix keeps an eigenvalue of order K·B.",
    ),
    Figure(
        name="storing",
        title="only memories grow, ReLU, Adam (N = 128, P = 256): training loss and held-out loss",
        rows=(tuple(map(Sweep, IN_TRAINING.values())), tuple(map(Sweep, HELD_OUT.values()))),
        claims=(
            *(
                claim(f"By held-out loss the rate transfers, biases {name}.", Transfers(held))
                for name, held in HELD_OUT.items()
            ),
            *(
                claim(
                    f"The best held-out loss is lower with frozen biases than with {name} ones.",
                    LowerLoss(HELD_OUT["frozen"], HELD_OUT[name]),
                )
                for name in ("trained", "normal")
            ),
        ),
        remark="With 256 samples and ever more memories, trained biases store the samples: the training loss "
        "falls to a third and its optimum moves up, to where the held-out loss is far from its best. What "
        "they gain in training is lost on new samples, and the optimum for these does not move.",
    ),
    Figure(
        name="bias-rates-adam",
        title="Adam: is the growing spike the bias's doing? (η₀ = 0.005)",
        rows=(
            tuple(Probe(s, "lambda_max") for s in (TRAINED_INSIDE, SLOW_INSIDE, STILL_INSIDE)),
            tuple(map(Sweep, (ADAM, SLOW_BIAS, STILL_BIAS))),
        ),
        claims=(
            claim(
                "With b trained the spike grows with size.",
                Grows(TRAINED_INSIDE, "lambda_max", STAYS),
                readings=(TRAINED,),
            ),
            claim(
                "With b frozen it does not.",
                Grows(STILL_INSIDE, "lambda_max", -STAYS, STAYS),
                readings=(TRAINED,),
            ),
            claim(
                "With η_b ∝ N^-1/2 it grows less.",
                GrowsLess(SLOW_INSIDE, "lambda_max", TRAINED_INSIDE, "lambda_max"),
                readings=(TRAINED,),
            ),
            claim(
                "The rate transfers in all three.",
                All((Transfers(ADAM), Transfers(SLOW_BIAS), Transfers(STILL_BIAS))),
                readings=(TRAINED,),
            ),
        ),
    ),
    Figure(
        name="steep-biases",
        title="ReLU⁵, Adam: slower biases",
        rows=((Sweep(STEEP_BIAS), Sweep(SLOWING_STEEP)), tuple(map(Sweep, SLOW_STEEP))),
        claims=(
            claim("With η_b = η₀ the rate does not transfer.", DoesNotTransfer(STEEP_BIAS)),
            *(claim(f"With {s.label} it transfers.", Transfers(s)) for s in (SLOWING_STEEP, *SLOW_STEEP)),
            *(
                claim(f"With {s.label} the best loss is as low.", AsGood(s, STEEP_BIAS))
                for s in (SLOWING_STEEP, *SLOW_STEEP)
            ),
        ),
    ),
    Figure(
        name="adam-epsilon",
        title="Adam's ε beside a gradient that shrinks with size",
        rows=(
            (Sweep(ADAM.but("ε = 1e-8")), Sweep(LARGE_EPSILON)),
            (Sweep(SHRINKING_EPSILON), Optimum((ADAM.but("ε = 1e-8"), LARGE_EPSILON, SHRINKING_EPSILON))),
        ),
        claims=(
            claim("With the usual ε = 1e-8 the rate transfers.", Transfers(ADAM.but("ε = 1e-8"))),
            claim(
                "With ε = 0.003, which the gradient falls below, it does not.", DoesNotTransfer(LARGE_EPSILON)
            ),
            claim("With a large ε that shrinks as the gradient does, it does.", Transfers(SHRINKING_EPSILON)),
        ),
        remark="An entry of the gradient of W is about 0.5/N. Far below ε the step is η·gradient/ε, so that "
        "the best rate grows as N. With epsilon=gradient ε is 0.4/N for W and 0.4/√N for the biases.",
    ),
    Figure(
        name="printed-constant",
        title="C_p as printed, and as E[σ²] = 1 needs it",
        rows=(tuple(map(Sweep, CORRECT)), tuple(map(Sweep, PRINTED))),
        claims=(
            claim("With the right C_p the rate transfers.", All(tuple(map(Transfers, CORRECT)))),
            claim("With the printed one it does too.", All(tuple(map(Transfers, PRINTED)))),
            claim("With the printed one the edge of stability falls with p.", EdgeFallsAlong(PRINTED)),
        ),
        remark="A constant changes no exponent. But the printed one is 7.5 times too large at p = 3. That "
        "moves the optimum to the edge of stability; there the smallest difference between sizes decides.",
    ),
    Figure(
        name="standard",
        title="standard parameterization: W ~ N(0, 1/N), no multipliers, one rate",
        rows=((Sweep(STANDARD_SGD), Sweep(STANDARD_ADAM)),),
        claims=(
            claim("Under SGD it is the prescription up to constants: it transfers.", Transfers(STANDARD_SGD)),
            claim("Under Adam the best rate falls as N^-1/2.", DriftIs(STANDARD_ADAM, -math.log10(2) / 2)),
        ),
    ),
    Figure(
        name="horizon",
        title="the best learning rate against the length of training",
        rows=((Horizon(RELU_SGD.but("ReLU, SGD")), Horizon(RELU_ADAM.but("ReLU, Adam"))),),
        claims=(
            claim("SGD: at every epoch all sizes have one optimum.", HorizonAgrees(RELU_SGD)),
            claim("Adam: at every epoch all sizes have one optimum.", HorizonAgrees(RELU_ADAM)),
        ),
        remark="Transfer holds at each horizon, but the optimum moves with it: tune with the epochs that "
        "will be trained.",
    ),
    Figure(
        name="noise",
        title="ReLU, SGD: noise of 0.25 to 2",
        rows=((*map(Sweep, NOISES), Optimum(NOISES)),),
        claims=tuple(claim(f"{s.label}: the rate transfers.", Transfers(s)) for s in NOISES),
    ),
    Figure(
        name="unit-preactivations",
        title="ReLU^p, SGD: s1_0 = v_g^-1/2 gives Z the variance that C_p assumes",
        rows=(tuple(map(Sweep, PLAIN_S1)), tuple(map(Sweep, UNIT_S1))),
        claims=(
            *(claim(f"{s.label}: the rate transfers.", Transfers(s)) for s in UNIT_S1),
            claim("With s1_0 = 1 the edge falls with p.", EdgeFallsAlong(PLAIN_S1)),
            claim("With s1_0 = v_g^-1/2 it falls too.", EdgeFallsAlong(UNIT_S1)),
        ),
    ),
    Figure(
        name="memories-only-base",
        title="where a base begins to transfer if only memories grow",
        rows=((Optimum((RELU_MEMORIES, SOFTMAX_MEMORIES)), Sweep(RELU_MEMORIES), Sweep(SOFTMAX_MEMORIES)),),
        claims=(
            claim("ReLU, Adam: the smallest K is a base already.", Transfers(RELU_MEMORIES)),
            claim("softmax, Adam: the smallest K is not.", DoesNotTransfer(SOFTMAX_MEMORIES)),
            claim("softmax, Adam: a larger one is.", TransfersFrom(SOFTMAX_MEMORIES)),
        ),
    ),
    Figure(
        name="largest-memories",
        title="only memories grow, SGD, η₀ = 0.056: the largest memory, over the root mean square of all",
        rows=(tuple(Probe(s, "row_max") for s in ROWS), tuple(Probe(s, "sigma_max") for s in ROWS)),
        claims=(
            claim(
                "p = 1: it hardly depends on K.", Grows(ROWS[0], "row_max", -STAYS_MEMORIES, STAYS_MEMORIES)
            ),
            claim("p = 2: it grows with K.", Grows(ROWS[1], "row_max", STAYS_MEMORIES)),
        ),
        remark="With p = 2 a memory that is ahead gains more than in proportion. The more memories there "
        "are, the further ahead the first one is; that is what lowers the edge of stability with K.",
    ),
)
