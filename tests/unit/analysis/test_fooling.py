"""Records that once fooled the verdict, others that might, and controls of known regret."""

import collections
import math

import numpy as np
import pytest

from denseam.analysis.causes import Action, Cause
from denseam.analysis.transfer import verdict
from tests.synthetic import Valley, control, sweep

X = np.linspace(-3, 0, 13)
SURELY_BAD = {"DRIFTS", "FAILS"}


def parabola(u, curvature=0.3):
    return curvature * u**2


def shifted(shift, *, shape=parabola, x=X, top=-1.5, best=0.2, **options):
    """Return a sweep whose curves have one shape, shifted by shift(scale index, seed) decades."""
    return sweep(lambda i, s: best * np.exp(shape(x - top - shift(i, s))), grid=10**x, **options)


def scattered(decades, seed=0, **options):
    """Return a sweep without drift in which every curve has its own shift."""
    rng = np.random.default_rng(seed)
    return shifted(lambda *_: decades * rng.standard_normal(), **options)


def edited(records, change):
    """Return the records with change(scale, value, seed) → a loss, or None to keep the run as it is."""
    rows = []
    for row in records:
        loss = change(row["scale"], row["eta0"], row["seed"])
        if loss is not None:
            row = row | {"final_mse": loss, "status": "diverged" if math.isinf(loss) else "finished"}
        rows.append(row)
    return rows


def judge(records, **options):
    (judged,) = verdict(records, **options)
    return judged


# --- what fooled it ------------------------------------------------------------------------------------


def test_a_drift_that_only_the_target_shows():
    records = shifted(lambda i, _: -0.1 * i, shape=lambda u: parabola(u, 0.2))
    judged = judge(records, target=65536)
    assert judged.regret[256] == pytest.approx(math.expm1(0.2 * 0.3**2), abs=1e-6)
    assert judged.status in SURELY_BAD
    assert judged.cause is Cause.MOVES_BEFORE_TARGET
    assert judged.scale == 65536
    assert judged.regret_at_target == pytest.approx(math.expm1(0.2 * 1.1**2), abs=1e-3)
    assert judged.regret_at_target_ci[0] > 0.05, "even if the drift levels off"
    assert "at N = 65536" in judged.reason
    assert judge(records).status != "TRANSFERS", "1.8 % is too close to 2 %"


def test_a_drift_between_the_points_of_a_coarse_grid():
    x = np.arange(-4.0, 2.0)
    judged = judge(shifted(lambda i, _: i / 6, x=x))
    assert judged.regret[256] == pytest.approx(math.expm1(0.3 * 0.5**2), abs=1e-6), "as the parabola has it"
    assert judged.status in {"DRIFTS", "INCONCLUSIVE"}
    finer = judge(shifted(lambda i, _: i / 6))
    assert finer.status == "DRIFTS"


def test_seeds_of_the_base_that_lie_a_decade_apart():
    judged = judge(shifted(lambda i, s: s - 1.0 if i == 0 else 0.0))
    assert judged.status == "INCONCLUSIVE"
    assert all(high > 0.1 for _, high in judged.regret_ci.values())


@pytest.mark.parametrize("seed", range(10))
def test_seeds_that_scatter(seed):
    judged = judge(scattered(0.15, seed))
    assert judged.status == "INCONCLUSIVE"
    assert judged.next.action in {Action.ADD_SEEDS, Action.ADD_SCALE}


def test_a_divergence_below_the_transferred_value():
    below = float(10 ** X[3])

    def diverges(seeds):
        return edited(
            shifted(lambda *_: 0.0),
            lambda n, v, s: math.inf if n >= 128 and v == below and s < seeds else None,
        )

    always, once = judge(diverges(3)), judge(diverges(1))
    assert (always.status, always.cause, always.scale) == ("FAILS", Cause.DIVERGES_BELOW, 128)
    assert always.evidence["value"] == below
    assert (once.status, once.cause, once.scale) == ("INCONCLUSIVE", Cause.MAY_DIVERGE, 128)
    assert once.evidence["share"] == pytest.approx(1 / 3)
    assert once.next.seeds == 6


def test_a_single_seed_at_the_largest_scale():
    moved = math.sqrt(math.log(1.017) / 0.3)
    judged = judge(shifted(lambda i, _: moved * (i == 3), seeds=[3, 3, 3, 1]))
    assert judged.regret[256] == pytest.approx(0.017, abs=1e-6)
    low, high = judged.regret_ci[256]
    assert low < 0.017 < 0.02 < high
    assert (judged.status, judged.scale) == ("INCONCLUSIVE", 256)


#: The final losses of README's study, scale × seed × value.
README = np.array([
    [[0.4573, 0.3851, 0.3257, 0.2904, 0.2748, 0.3217, np.inf],
     [0.4586, 0.3887, 0.3287, 0.2953, 0.2917, 0.3513, np.inf],
     [0.4874, 0.4102, 0.3392, 0.2960, 0.2821, 0.3338, np.inf]],
    [[0.4773, 0.4064, 0.3451, 0.3128, 0.2995, 0.3402, np.inf],
     [0.4681, 0.4054, 0.3469, 0.3122, 0.2962, 0.3339, 0.7306],
     [0.4743, 0.4026, 0.3361, 0.3001, 0.2889, 0.3224, 0.6037]],
    [[0.4798, 0.4121, 0.3492, 0.3137, 0.2973, 0.3356, 0.6338],
     [0.4707, 0.4092, 0.3501, 0.3160, 0.3013, 0.3369, 0.6370],
     [0.4715, 0.4071, 0.3480, 0.3148, 0.3002, 0.3339, 0.6098]],
])  # fmt: skip


def test_the_scale_that_decides_is_the_one_that_is_named():
    grid = np.geomspace(3e-3, 0.3, 7)
    judged = judge(sweep(lambda i, s: README[i, s], grid=grid, scales=(16, 32, 64)))
    assert judged.status == "TRANSFERS"
    assert judged.scale == max(judged.regret_ci, key=lambda scale: judged.regret_ci[scale][1]) == 64
    assert "at N = 64" in judged.reason
    assert judged.to_json()["scale"] == 64
    stricter = judge(sweep(lambda i, s: README[i, s], grid=grid, scales=(16, 32, 64)), tolerance=0.005)
    assert (stricter.status, stricter.scale, stricter.tolerance) == ("INCONCLUSIVE", 64, 0.005)


# --- innocent records ------------------------------------------------------------------------------------

rng = np.random.default_rng(7)
CLIFF = Valley(curvature=1.5, width=0.5, rise=0.3, edge=0.3)
UNEVEN = np.sort(np.concatenate([np.linspace(-3, 0, 10), [-2.2, -1.45, -1.1, -0.8]]))
MISSING = f"made-64-3-{10 ** X[2]}"

INNOCENT = {
    "small models scatter more": shifted(lambda i, _: 0.03 * 2.0**-i * rng.standard_normal()),
    "a cliff right above the optimum": scattered(0.01, shape=CLIFF.log_loss),
    "an uneven grid": scattered(0.02, x=UNEVEN, shape=CLIFF.log_loss),
    "a run that is missing": [r for r in scattered(0.02, seeds=4) if r["key"] != MISSING],
    "an optimum in the middle of a step": scattered(0.01, top=X[6] + 0.125),
    "a valley that widens with scale": sweep(
        lambda i, s: 0.2 * np.exp(parabola(X + 1.5 + 0.01 * s, 0.6 * 2.0**-i)), grid=10**X
    ),
    "an axis that begins at zero": sweep(
        lambda i, s: 0.2 * np.exp(2 * (np.linspace(0, 0.9, 10) - 0.42 - 0.01 * s) ** 2),
        grid=np.linspace(0, 0.9, 10), axis="momentum",
    ),
    "a flat bottom": scattered(0.03, shape=lambda u: 0.4 * u**4),
    "a drift that costs nothing": shifted(lambda i, s: 0.02 * i + 0.01 * s),
    "an edge that rises": sweep(
        lambda i, s: np.where(X - 0.2 * i > -0.7, np.inf, 0.2 * np.exp(parabola(X + 1.5 - 0.01 * s))), grid=10**X
    ),
    "a loss that falls with scale": sweep(
        lambda i, s: 0.5 * 0.6**i * np.exp(parabola(X + 1.5 - 0.02 * s)), grid=10**X
    ),
    "a bad run far from the optimum": edited(
        scattered(0.02), lambda n, v, s: 0.9 if (n, s) == (128, 1) and v < 0.0011 else None
    ),
    "a single seed at the largest scale": scattered(0.02, seeds=[3, 3, 3, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", INNOCENT)
def test_innocent_records_transfer(name):
    judged = judge(INNOCENT[name])
    assert judged.status == "TRANSFERS", str(judged)


# --- guilty records, and those that do not suffice ---------------------------------------------------------

OTHERS = {
    "a drift that reverses": (
        shifted(lambda i, s: (0, 0.5, 0.2, 0)[i] + 0.01 * s), {}, "DRIFTS", Cause.OPTIMUM_MOVES, 64
    ),
    "a slow drift, far from its target": (
        shifted(lambda i, _: 0.04 * i, scales=(32, 64, 128, 256, 512, 1024)),
        {"target": 2**16}, "DRIFTS", Cause.MOVES_BEFORE_TARGET, 2**16,
    ),
    "a slow drift that may level off before its target": (
        shifted(lambda i, _: 0.04 * i), {"target": 2**16}, "INCONCLUSIVE", Cause.UNSURE_AT_TARGET, 2**16
    ),
    "a fast drift, far from its target": (
        shifted(lambda i, _: 0.1 * i), {"target": 2**18, "tolerance": 0.05}, "FAILS", Cause.COSTLY_AT_TARGET, 2**18
    ),
    "a drift that levels off before its target": (
        shifted(lambda i, _: 0.2 - 0.2 * 2.0**-i), {"target": 2**14}, "INCONCLUSIVE", Cause.UNSURE_AT_TARGET, 2**14
    ),
    "one outlier among the seeds of the base": (
        shifted(lambda i, s: 0.3 if (i, s) == (0, 1) else 0.01 * s), {}, "INCONCLUSIVE", Cause.SEEDS_DIFFER, None
    ),
    "two seeds that agree by chance": (
        shifted(lambda i, s: 0.14 * (s - 1) if i < 3 else 0.0, seeds=[3, 3, 3, 2]),
        {}, "INCONCLUSIVE", Cause.SEEDS_DIFFER, 256,
    ),
    "an edge between the optimum and the next value": (
        shifted(lambda *_: 0.1, shape=lambda u: np.where(u > 0.05, np.inf, parabola(u))),
        {}, "INCONCLUSIVE", Cause.TOO_COARSE, None,
    ),
    "a next value that diverges at the largest scale": (
        edited(shifted(lambda *_: 0.1), lambda n, v, s: math.inf if n == 256 and v > 10**-1.3 else None),
        {}, "INCONCLUSIVE", Cause.EDGE_UNRESOLVED, 256,
    ),
    "a seed that diverges everywhere": (
        edited(shifted(lambda i, s: 0.01 * s), lambda n, v, s: math.inf if (n, s) == (128, 2) else None),
        {}, "INCONCLUSIVE", Cause.MAY_DIVERGE, 128,
    ),
    "losses that are not numbers at the value": (
        edited(shifted(lambda *_: 0.0), lambda n, v, s: math.nan if n == 256 and v > 10**-1.6 else None),
        {}, "FAILS", Cause.DIVERGES, 256,
    ),
    "a sharp valley on a coarse grid": (
        shifted(lambda i, s: 0.01 * s, x=X[::2], shape=lambda u: parabola(u, 8.0)),
        {}, "INCONCLUSIVE", Cause.TOO_COARSE, None,
    ),
    "an optimum that leaves the grid": (
        shifted(lambda i, s: 0.6 * i + 0.01 * s), {}, "FAILS", Cause.TOO_COSTLY, 256
    ),
    "a valley that narrows while it drifts": (
        sweep(lambda i, s: 0.2 * np.exp(parabola(X + 1.5 - 0.06 * i - 0.01 * s, 0.2 * 2.2**i)), grid=10**X),
        {}, "DRIFTS", Cause.OPTIMUM_MOVES, 256,
    ),
    "a loss that jumps from value to value": (
        edited(scattered(0.0), lambda n, v, s: 0.2 * math.exp(parabola(math.log10(v) + 1.5) + rng.normal(0, 0.05))),
        {}, "INCONCLUSIVE", None, None,
    ),
    "one value": (
        [r for r in scattered(0.0) if abs(r["eta0"] - 0.0316) < 1e-3], {}, "INCONCLUSIVE", Cause.TOO_FEW_VALUES, None
    ),
    "a jump at the largest scale alone": (
        shifted(lambda i, s: 0.8 * (i == 3) + 0.02 * s), {}, "FAILS", Cause.TOO_COSTLY, 256
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_records_do_not(name):
    records, options, status, cause, scale = OTHERS[name]
    judged = judge(records, **options)
    assert judged.status == status, str(judged)
    assert cause in {None, judged.cause}, str(judged)
    assert scale in {None, judged.scale}, str(judged)
    if scale is not None:
        assert f"N = {scale}" in judged.reason


def test_a_target_is_no_alarm_without_a_drift():
    for seed in range(5):
        assert judge(scattered(0.01, seed), target=512).status == "TRANSFERS"
    slow = shifted(lambda i, _: 0.04 * i)
    assert judge(slow).status == "TRANSFERS"
    assert judge(slow, target=512).status == "TRANSFERS"


# --- controls ----------------------------------------------------------------------------------------------


def test_three_hundred_controls(capsys):
    """Half of the studies have no drift, half one that costs at least 6 % at the largest scale."""
    draws = np.random.default_rng(2026)
    statuses = {name: collections.Counter() for name in ("no drift", "drift")}
    for _ in range(150):
        statuses["no drift"][judge(control(draws)).status] += 1
        regret = draws.choice([0.06, 0.08, 0.12, 0.25])
        statuses["drift"][judge(control(draws, regret)).status] += 1
    with capsys.disabled():
        print("", *(f"{name}: {dict(counts)}" for name, counts in statuses.items()), sep="\n")
    wrong = sum(statuses["no drift"][word] for word in SURELY_BAD) + statuses["drift"]["TRANSFERS"]
    undecided = sum(counts["INCONCLUSIVE"] for counts in statuses.values())
    assert wrong <= 1
    assert undecided <= 0.2 * 300


@pytest.mark.parametrize("options", [{}, {"seeds": [3, 3, 3, 1]}, {"step": 0.5}, {"noise": 0.01}], ids=str)
def test_the_interval_of_the_regret_covers_the_truth(options):
    draws = np.random.default_rng(5)
    covered = []
    for regret in draws.choice([0.0, 0.01, 0.03, 0.06], size=80):
        interval = judge(control(draws, regret, **options)).regret_ci[256]
        if interval is not None:
            covered.append(interval[0] <= regret <= interval[1])
    assert len(covered) > 50
    assert np.mean(covered) >= 0.9


def test_as_many_seeds_as_it_asks_for_decide():
    outcomes = []
    for seed in range(20):
        judged = judge(scattered(0.12, seed))
        if judged.next is not None and judged.next.action is Action.ADD_SEEDS:
            assert judged.next.seeds > 3
            outcomes.append(judge(scattered(0.12, seed + 100, seeds=judged.next.seeds)).status)
    assert len(outcomes) > 5
    assert outcomes.count("TRANSFERS") >= 0.7 * len(outcomes)
    assert not SURELY_BAD & set(outcomes)
