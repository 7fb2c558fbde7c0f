"""Settings beside each other, each at its best; and the comparison of optimizers at equal operations."""

import pytest

from denseam.paper import compared
from denseam.paper.ranking import Best, InsideSweep, LowersEach, LowestLoss, best, largest_costs
from denseam.paper.readings import TRAINED
from denseam.paper.sizes import SIZES
from denseam.rules.cost import step_operations, updates
from tests.made_up import OTHER, SWEEP, gathered, made_up, measure

DECAYED = SWEEP.but("decayed", decay=(0.0, 0.1, 1.0))


def decaying(setting, harmless, **options):
    """Records whose loss is lowest at one decay."""
    rows = made_up(setting, **options)
    for row in rows:
        row |= {
            "swept": "eta0,decay",
            "final_mse": row["final_mse"] * (1 if row["decay"] == harmless else 1.5),
        }
    return rows


# --- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("data", compared.DATA)
@pytest.mark.parametrize("schedule", compared.SCHEDULES)
def test_all_optimizers_take_the_operations_of_adam(data, schedule, size):
    for setting in compared.contest(data, "training", schedule).values():
        study = setting.whole_study(SIZES[size], TRAINED)
        (scale,) = study.scales
        shape = study.regime.shape(scale)
        allowed = updates(shape, SIZES[size].epochs) * step_operations(shape, "adam")
        epoch = study.operations(shape) / study.epochs
        if study.epochs > 1:
            assert abs(study.operations(shape) - allowed) <= epoch / 2, setting.label
        else:
            assert allowed < 1.5 * epoch, setting.label


def test_muon_pays_for_its_orthogonal_update():
    study = compared.contest("Gaussians", "training", "constant rate")["Muon"].whole_study(
        SIZES["paper"], TRAINED
    )
    assert (study.scales, study.epochs) == ((512,), 43)  # 256 · 10/(10 + 50)


def test_one_scale_alone():
    assert SWEEP.but("", only=2).scales(SIZES["paper"]) == (512,)
    assert SWEEP.but("", only=2).scales(SIZES["tiny"]) == (16,)
    assert SWEEP.but("", only=2, data="mnist").scales(SIZES["paper"]) == (196,)


# --- each at its best ----------------------------------------------------------------------------


def test_the_best_is_that_of_rate_and_decay_at_the_largest_scale():
    rows = decaying(DECAYED, 0.1, level=lambda n: 12.8 / n)
    for row in rows:
        row["final_mse"] *= 1 + 0.05 * row["seed"]
    found = best(gathered(rows), DECAYED)
    assert found.rate == pytest.approx(10**-1.75, rel=1e-6)
    assert found.held == (("decay", 0.1),)
    assert found.loss == pytest.approx(0.2 * (1.05 * 1.1) ** (1 / 3), rel=1e-3)
    assert found.high / found.low == pytest.approx(1.1, rel=1e-3)
    assert found.low < found.loss < found.high


def test_what_diverges_everywhere_has_no_best():
    gone = made_up(OTHER, edge=lambda n: -9.0)
    assert best(gathered(gone), OTHER) is None
    lowest = measure(LowestLoss(SWEEP, (OTHER,)), made_up(SWEEP), gone)
    assert (lowest.holds, lowest.text) == (None, "a: 0.2; b: diverged")
    assert measure(LowersEach((OTHER,), (SWEEP,)), made_up(SWEEP), gone).text == "b: diverged"
    assert measure(InsideSweep((OTHER,)), gone).holds is False


THIRD = SWEEP.but("c", noise=1.0)


def three(*levels):
    """Made-up records of three settings: the best losses of the second and the third are given."""
    return [
        made_up(SWEEP),
        *(made_up(s, level=lambda _, v=v: v) for s, v in zip((OTHER, THIRD), levels, strict=True)),
    ]


def test_the_lowest_of_several():
    low, high, even = three(0.3, 0.201)
    lowest = measure(LowestLoss(SWEEP, (OTHER,)), low, high)
    assert (lowest.holds, lowest.text) == (True, "a: 0.2; b: 0.3")
    assert measure(LowestLoss(OTHER, (SWEEP, THIRD)), low, high, even).holds is False
    assert measure(LowestLoss(SWEEP, (OTHER, THIRD)), low, high, even).holds is None


def test_each_is_lower_than_its_counterpart():
    low, high, higher = three(0.25, 0.3)
    both = measure(LowersEach((SWEEP, OTHER), (OTHER, THIRD)), low, high, higher)
    assert (both.holds, both.text) == (True, "a: -20.0 %; b: -16.7 %")
    assert measure(LowersEach((SWEEP, THIRD), (OTHER, OTHER)), low, high, higher).holds is False
    assert measure(LowersEach((SWEEP, SWEEP), (OTHER, SWEEP)), low, high).holds is None


def test_an_optimum_at_an_end_is_named():
    inside = InsideSweep((DECAYED, OTHER))
    assert measure(inside, decaying(DECAYED, 0.0), made_up(OTHER)).holds is True
    for rows in (decaying(DECAYED, 1.0), decaying(DECAYED, 0.0, best=lambda n: -4.0)):
        found = measure(inside, rows, made_up(OTHER))
        assert (found.holds, found.text) == (False, "at an end: decayed")


def test_a_best_rate_below_the_edge_of_stability_is_inside():
    edge = made_up(SWEEP, best=lambda n: 0.0, edge=lambda n: -1.1)
    assert best(gathered(edge), SWEEP).rate == pytest.approx(10**-1.25, rel=0.01)
    assert measure(InsideSweep((SWEEP,)), edge).holds is True


def test_costs_are_those_of_the_column_where_they_are_largest():
    def at(loss):
        return Best(loss, loss, loss, 0.01)

    first = {"a": at(0.2), "b": at(0.21), "c": at(0.1), "d": at(0.1)}
    second = {"a": at(0.3), "b": at(0.33), "c": at(0.6), "d": None}
    assert largest_costs([first, second]) == pytest.approx({"a": 1.0, "b": 1.1, "c": 1.0})
    assert largest_costs([{"a": None}]) == {}
