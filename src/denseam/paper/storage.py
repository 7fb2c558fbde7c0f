"""A study of our own on patterns that are stored without training: how many, against the known laws."""

from __future__ import annotations

from denseam.paper.capacity import Capacity, FarBelowLaw, GrowsAsPower, GrowsExponentially, NearLaw
from denseam.paper.claims import claim
from denseam.paper.figure import Capacities, Figure

#: p → the values of N.
SIZES_OF = {1: (64, 128, 256, 512, 1024), 2: (32, 64, 128, 256), 3: (32, 48, 64, 96, 128)}
NAMES = {1: "ReLU", 2: "ReLU²", 3: "ReLU³"}
MINIMA = tuple(Capacity(NAMES[p], N, 0.0, power=p) for p, N in SIZES_OF.items())
#: A tenth of the signs is flipped.
RECALLED = tuple(Capacity(NAMES[p], N, 0.1, power=p) for p, N in SIZES_OF.items())
#: A quarter of the signs is flipped.
SOFTMAX = Capacity("softmax", (16, 24, 32, 48, 64), 0.25)
SOFT = Capacity("softmax, β = 8", SOFTMAX.features, SOFTMAX.flips, beta=8.0)

STORAGE: tuple[Figure, ...] = (
    Figure(
        name="storage",
        title="patterns of random signs, stored without training: how many",
        rows=(
            (
                Capacities("minima of the energy", MINIMA),
                Capacities("a tenth of the signs flipped", RECALLED),
                Capacities("a quarter of the signs flipped", (SOFTMAX, SOFT), exponential=True),
            ),
        ),
        claims=(
            *(
                claim(f"{c.label}: the number of minima grows as N^{c.power}/log N.", GrowsAsPower(c))
                for c in MINIMA
            ),
            *(
                claim(f"{c.label}: that of recalled patterns grows as N^{c.power}/log N.", GrowsAsPower(c))
                for c in RECALLED
            ),
            claim("softmax: the capacity grows exponentially with N.", GrowsExponentially(SOFTMAX)),
            claim("softmax: it is that of the nearest pattern.", NearLaw(SOFTMAX)),
            claim("softmax with a fixed, small β: it stays far below that.", FarBelowLaw(SOFT)),
        ),
        remark="A point is the number of patterns half of which are minima, or are recalled in every sign; "
        "dashed lines are the laws. In ReLU^p a feature also acts on itself, ever more strongly as patterns "
        "are added, and holds a flipped sign where it is. So for p = 3 the number of patterns that are "
        "recalled grows more slowly, and far above it every state is nearly a fixed point.",
    ),
)
