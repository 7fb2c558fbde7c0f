"""The thresholds of the verdict on transfer, in one place."""

#: The tolerance: a regret up to this is good, unless the user says otherwise.
REGRET_GOOD: float = 0.02
#: A regret above this is bad.
REGRET_BAD: float = 0.10
#: A rise of the best loss with scale above this is bad.
RISE_BAD: float = 0.10
#: A best loss above this share of that of predicting zero means that nothing was learned.
LEARNED: float = 0.9
#: The minimum number of scales, of seeds at a scale, and of values.
FEWEST: int = 3
#: A value is surely unstable if a larger share of its runs diverged.
MOST: float = 0.5

#: The optimum of an interpolated curve is known to this share of the grid's step, for steps up to a quarter
#: of a decade; the share grows in proportion to longer steps. On curves of trained models, on grids of four
#: values per decade, the offset between two optima is off by 0.015 decades (root mean square): √2 · 0.25/25.
RESOLUTION: float = 1 / 25
WELL_SAMPLED: float = 0.25
#: A scale's own variance counts as larger than that of the others beyond this quantile of F.
LARGER: float = 0.95

#: A drift may continue in any way whose χ² is within this of the smallest: 95 % for one parameter.
LIKELY: float = 3.84

#: The maximum number of seeds, and refinement of a grid, that are worth a recommendation. A prediction at a
#: target that needs more seeds than the third needs a larger scale rather.
MOST_SEEDS: int = 30
FINEST: int = 8
ENOUGH_SEEDS: int = 9
