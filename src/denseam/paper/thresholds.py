"""The thresholds of the gallery, each with its reason.

All were set on 2026-11-17, before the runs of the readings *frozen* and *normal*; most runs of *trained* were
there already. Those of the verdict on transfer itself (2 % of regret, nine tenths of the loss of predicting
zero, …) are in `denseam.analysis.thresholds`.
"""

#: An edge of stability falls if its slope is below minus this, in decades per doubling, and its interval
#: excludes zero. Edges are known to a quarter of a decade; over four doublings the slope of such a grid has a
#: standard deviation of 0.023.
FALLING = 0.02

#: Curves collapse if they differ from those of the largest scale by at most this (mean |log-ratio|). A tenth
#: is a few hundredths of the height of a panel whose logarithmic axis spans one to two decades.
COLLAPSED = 0.10

#: Curves lie closer together than others if they are closer by this factor. With three seeds a spread is
#: known to about a half: 1/√(2·2).
CLOSER = 1.5

#: A size stays if its exponent is at most this. Over the 4 doublings of the gallery 0.1 is a factor of 1.3,
#: and the smallest power that the paper's analysis knows is 1/2.
STAYS = 0.10

#: A size grows with a power of one if its exponent is at least this: a power of one less twice `STAYS`.
LINEAR = 0.8

#: Where only memories grow, over 8 doublings of K, an exponent of 0.05 is a factor of 1.3 again.
STAYS_MEMORIES = 0.05

#: A slope of the optimum is the predicted one if it is this close to it, in decades per doubling: a third of
#: the smallest slope that a wrong power causes, log10(2)/2 = 0.15.
SLOPE = 0.05

#: Optima of several scales agree if they lie within this, in decades. ReLU loses 5 % at 0.4 decades from its
#: optimum, under SGD and Adam, so 0.7 % at this distance.
SAME_OPTIMUM = 0.15

#: The share of training from which on optima are compared, and the share of a short training: a tenth, as
#: optima before it are those of a model that has hardly begun to learn.
EARLY = 0.1

#: Two sizes are of one order if neither is more than this many times the other.
ORDER = 10.0

#: Softmax has localised if K_eff falls below this share of its start: a power of ten is far beyond what
#: training does to a softmax that stays spread out (a few per cent).
LOCALISED = 0.1

#: Two curves go together if the rank correlation of their changes is at least this in size: the value that
#: nine points exceed by chance once in twenty times (0.683), rounded up.
TOGETHER = 0.7

#: Two recalls agree if they are correlated by at least this: they then share 81 % of their variance.
AGREE = 0.9

#: Seeds agree if their best losses differ by at most this (standard deviation over mean): as much as the
#: verdict tolerates of a transferred learning rate.
SEEDS_AGREE = 0.02

#: A capacity grows with a power of N if its exponent is this close to it: half the distance to the next half.
EXPONENT = 0.25

#: A capacity is that of a law if it is at most this many times as large or as small. K½ is measured with 200
#: cues, to about a tenth; one step of the bisection is a quarter.
NEAR = 1.5

#: A divergence counts if at least this many seeds diverge: what a single one says is open.
SEEDS = 2
