import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import denseam as dam
from denseam.analysis import grid, sentences
from denseam.analysis.causes import Action, Cause, Caution, CheckCause, Flag, Next
from denseam.analysis.statistics import slope, slope_error
from denseam.analysis.transfer import COLUMNS, exit_code, verdict
from denseam.ground.errors import InputError
from denseam.studies.description import AXES
from denseam.studies.records import Records
from tests.synthetic import rows, study

GRID = tuple(float(f"{v:.12g}") for v in np.geomspace(1e-3, 1, 13))


def synthetic(
    scales=(32, 64, 128, 256),
    seeds=3,
    drift=0.0,
    edge=0.5,
    edge_drift=0.0,
    rise=0.0,
    noise=0.0,
    grid=GRID,
    zero=1.0,
    floor=0.2,
    curvature=0.3,
    axis="eta0",
):
    """Records of a study whose optimum, edge and loss are known: a parabola in log10(eta0) at 10^-1.5."""
    rng = np.random.default_rng(0)
    rows = []
    wobble = noise * rng.standard_normal(seeds)
    for scale in scales:
        doublings = math.log2(scale / scales[0])
        top = -1.5 + drift * doublings
        limit = math.log10(edge) + edge_drift * doublings
        for seed in range(seeds):
            for value in grid:
                x = math.log10(value)
                loss = (
                    floor
                    * (1 + rise) ** doublings
                    * math.exp(curvature * (x - top - wobble[seed] * doublings) ** 2)
                )
                dead = x > limit + 1e-9
                row = dict.fromkeys(dam.Study.__dataclass_fields__, 1.0) | dict.fromkeys(COLUMNS, 0.5)
                row |= {
                    "key": f"{scale}-{seed}-{value}", "study": "made", "study_id": "0" * 12, "scale": scale,
                    "regime": "proportional", "seed": seed, "status": "diverged" if dead else "finished",
                    "final_mse": math.inf if dead else loss, "zero_mse": zero, "swept": axis, axis: value,
                    "loss": [loss * (1 + seed / 100) * f for f in (4, 2, 1)],
                }  # fmt: skip
                rows.append(row)
    return Records(rows)


def judge(**options):
    (judged,) = verdict(synthetic(**options))
    return judged


def test_a_fixed_optimum_transfers():
    judged = judge()
    assert judged.status == "TRANSFERS"
    for scale, optimum in judged.optimum.items():
        assert optimum == pytest.approx(10**-1.5, rel=1e-6), scale
    assert judged.drift == pytest.approx(0, abs=1e-9)
    assert judged.max_regret == pytest.approx(0, abs=1e-9)
    assert judged.base == 32
    assert judged.edge == dict.fromkeys((32, 64, 128, 256), pytest.approx(GRID[10]))
    assert judged.collapse == pytest.approx(0, abs=1e-6)


def test_differences_of_many_seeds_are_those_of_all_pairs():
    curves = np.random.default_rng(0).standard_normal((9, 5))
    pairs = [np.mean(np.abs(a - b)) for i, a in enumerate(curves) for b in curves[:i]]
    assert grid._mean_difference(curves) == pytest.approx(np.mean(pairs), rel=1e-12)
    assert grid._mean_difference(np.tile(curves[0], (7, 1))) == 0


def test_the_held_out_loss_is_judged_on_its_own():
    """Training drifts, the held-out loss stays; a run that diverged has none."""
    moving, still = synthetic(drift=0.3), {row["key"]: row["final_mse"] for row in synthetic()}
    both = Records(
        row | {"heldout_mse": None if row["status"] == "diverged" else still[row["key"]]} for row in moving
    )
    (training,) = verdict(both)
    (heldout,) = verdict(both, by="heldout")
    assert training.status in ("DRIFTS", "FAILS")
    assert (heldout.status, heldout.loss_name, heldout.collapse) == ("TRANSFERS", "held-out MSE", None)
    assert heldout.optimum == judge().optimum
    bare = Records(row | {"heldout_mse": None} for row in moving)
    with pytest.raises(InputError, match="by 'heldout' needs the held-out losses of the runs"):
        verdict(bare, by="heldout")
    with pytest.raises(InputError, match="by must be 'training' or 'heldout', got 'test'"):
        verdict(both, by="test")
    with pytest.raises(InputError, match="epoch is for by 'training'"):
        verdict(both, by="heldout", epoch=1)


@settings(max_examples=30, deadline=None)
@given(drift=st.floats(-0.3, 0.3))
def test_the_drift_is_measured(drift):
    judged = judge(drift=drift, edge=1e9)
    assert judged.drift == pytest.approx(drift, abs=1e-6)
    for i, scale in enumerate((32, 64, 128, 256)):
        assert math.log10(judged.optimum[scale]) == pytest.approx(-1.5 + drift * i, abs=1e-6)
    exact = math.exp(0.3 * (3 * drift) ** 2) - 1
    assert judged.regret[256] == pytest.approx(exact, abs=1e-6)


def test_between_the_two_it_drifts_and_far_away_it_fails():
    assert judge(drift=0.3, edge=1e9).cause is Cause.TOO_COSTLY
    assert judge(drift=0.3, edge=1e9).status == "FAILS"
    judged = judge(drift=0.12, edge=1e9)
    assert (judged.status, judged.cause) == ("DRIFTS", Cause.OPTIMUM_MOVES)
    assert "decades per doubling" in judged.reason


def test_a_divergence_at_the_transferred_value_fails_whatever_else():
    judged = judge(edge=0.1, edge_drift=-0.25)
    assert judged.status == "FAILS"
    assert judged.cause is Cause.DIVERGES
    assert judged.evidence == {"scale": 256}
    assert "diverges at N = 256" in judged.reason
    assert judged.edge_drift == pytest.approx(-0.25, abs=1e-6)
    assert any("edge falls by 0.25" in flag for flag in judged.flags)
    assert judge(edge=0.1, edge_drift=-0.25, seeds=1, scales=(32, 256)).status == "FAILS"
    document = judged.to_json()
    assert document["regret"]["256"] is None
    assert document["diverged"] is True
    json.dumps(document, allow_nan=False)


def test_a_falling_edge_is_mentioned_and_fails_before_the_target():
    records = synthetic(edge=0.5, edge_drift=-0.25, scales=(16, 32, 64))
    (judged,) = verdict(records)
    assert judged.status == "TRANSFERS"
    assert any("edge falls" in flag for flag in judged.flags)
    assert verdict(records, target=128)[0].status == "TRANSFERS"
    (late,) = verdict(records, target=4096)
    assert (late.status, late.cause) == ("FAILS", Cause.EDGE_FALLS)
    assert late.evidence["edge"] < late.optimum[16]
    assert "before N = 4096" in late.reason
    assert verdict(synthetic(edge=0.5), target=4096)[0].status == "TRANSFERS"


def test_a_rising_best_loss_fails():
    judged = judge(rise=0.05)
    assert (judged.status, judged.cause) == ("FAILS", Cause.LOSS_RISES)
    assert judged.evidence == {"rise": pytest.approx(1.05**3 - 1), "scale": 256}
    assert judged.next.command == "denseam prescribe"
    assert "rises" in judged.reason
    assert judge(rise=0.01).status == "TRANSFERS"


@pytest.mark.parametrize(
    ("options", "cause", "step", "words"),
    [
        (
            {"grid": GRID[:5]},
            Cause.OPTIMUM_AT_END,
            Next(Action.EXTEND_GRID, axis="eta0", side="high", value=GRID[4]),
            "Extend the grid of eta0 above 0.01",
        ),
        (
            {"grid": GRID[8:]},
            Cause.OPTIMUM_AT_END,
            Next(Action.EXTEND_GRID, axis="eta0", side="low", value=GRID[8]),
            "Extend the grid of eta0 below 0.1",
        ),
        ({"seeds": 2}, Cause.TOO_FEW_SEEDS, Next(Action.ADD_RUNS, scales=3, seeds=3), "only 2 seeds"),
        (
            {"scales": (32, 64)},
            Cause.TOO_FEW_SCALES,
            Next(Action.ADD_RUNS, scales=3, seeds=3),
            "only 2 scales",
        ),
        ({"floor": 0.95}, Cause.NOTHING_LEARNED, Next(Action.TRAIN_LONGER), "Nothing was learned"),
        (
            {"edge": 1e-9},
            Cause.BASE_DIVERGED,
            Next(Action.LOWER_GRID, axis="eta0", side="low", value=GRID[0]),
            "every run diverged",
        ),
        (
            {"noise": 0.15, "edge": 1e9},
            Cause.SEEDS_DIFFER,
            Next(Action.ADD_SEEDS, seeds=8),
            "Run at least 8 seeds",
        ),
    ],
)
def test_inconclusive_says_why_and_what_to_run_next(options, cause, step, words):
    judged = judge(**options)
    assert judged.status == "INCONCLUSIVE"
    assert judged.cause is cause
    assert judged.next == step
    assert words in str(judged)
    assert judged.next_step


def test_every_cause_has_a_status_and_every_data_a_sentence():
    assert {cause.status for cause in Cause} == {"TRANSFERS", "DRIFTS", "FAILS", "INCONCLUSIVE"}
    assert set(sentences.REASONS) == set(Cause)
    assert set(sentences.NEXT_STEPS) == set(Action)
    assert set(sentences.FLAGS) == set(Caution)
    assert set(sentences.CHECK_REASONS) == set(CheckCause)
    assert judge().to_json()["cause"] == "holds"


def test_an_axis_of_a_study_is_an_axis_of_a_verdict():
    assert set(AXES) <= set(COLUMNS)


def test_a_slope_is_that_of_least_squares():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(7), rng.standard_normal((7, 3))
    assert slope(x, y) == pytest.approx(np.polyfit(x, y, 1)[0])
    assert slope(x, y[:, 0]) == pytest.approx(np.polyfit(x, y[:, 0], 1)[0])
    # An error e of every point is one of e / √Σ(x - mean)² of the slope.
    assert slope_error(x, 0.1) == pytest.approx(
        0.1 * math.sqrt(np.linalg.inv(np.c_[x, x**0].T @ np.c_[x, x**0])[0, 0])
    )


def test_missing_runs_are_said_and_complete_seeds_used():
    rows = [row for row in synthetic(seeds=4) if row["key"] != f"64-3-{GRID[2]}"]
    (judged,) = verdict(rows)
    assert judged.seeds == 4
    assert judged.status == "TRANSFERS"
    assert Flag(Caution.RUNS_MISSING, {"runs": 1}) in judged.notes
    assert "1 runs are missing" in str(judged)
    (none,) = verdict([row for row in rows if row["eta0"] != GRID[2] or row["scale"] != 64])
    assert (none.status, none.cause) == ("INCONCLUSIVE", Cause.RUNS_MISSING)
    assert none.next.action is Action.RESUME
    assert "missing" in none.reason


def test_other_axes_are_judged_alike():
    (judged,) = verdict(synthetic(axis="s2_0"))
    assert judged.axis == "s2_0"
    assert judged.status == "TRANSFERS"
    assert judged.to_json()["optimum_s2_0"]["32"] == pytest.approx(10**-1.5)


@pytest.mark.parametrize(
    "options",
    [{}, {"drift": 0.1}, {"drift": 0.4}, {"edge": 0.02}, {"edge_drift": -0.25}, {"edge": 1e-9},
     {"grid": GRID[:5]}, {"grid": GRID[8:]}],
    ids=str,
)  # fmt: skip
def test_the_verdict_on_a_time_is_that_on_its_rate(options):
    """The short times are the bold ones: all is mirrored, and a divergence below the best is no failure."""
    (rate,) = verdict(synthetic(axis="s2_0", **options), target=4096)
    mirrored = [
        row | {"swept": "decay_time", "decay_time": 1 / row["s2_0"], "s2_0": 1.0}
        for row in synthetic(axis="s2_0", **options)
    ]
    (time,) = verdict(Records(mirrored), target=4096)
    assert (time.status, time.cause, time.base) == (rate.status, rate.cause, rate.base)
    assert time.regret == pytest.approx(rate.regret)
    assert time.regret_at_target == pytest.approx(rate.regret_at_target)
    for of_time, of_rate in ((time.optimum, rate.optimum), (time.edge, rate.edge)):
        for scale, value in of_rate.items():
            expected = math.inf if value == 0 else None if value is None else pytest.approx(1 / value)
            assert of_time[scale] == expected
    if rate.drift is not None:
        assert time.drift == pytest.approx(-rate.drift)
        assert time.drift_ci == pytest.approx((-rate.drift_ci[1], -rate.drift_ci[0]))
    if rate.next is not None and rate.next.side is not None:
        assert {time.next.side, rate.next.side} == {"low", "high"}
        assert time.next.value == pytest.approx(1 / rate.next.value)
        assert "Lower" not in time.next_step
    json.dumps(time.to_json(), allow_nan=False)


def test_bad_questions_are_refused_together():
    with pytest.raises(InputError) as refused:
        verdict(synthetic(), axis="colour", tolerance=0.0, target=16)
    for words in ("axis must be", "tolerance must be above 0", "target must be at least the smallest scale"):
        assert words in str(refused.value)
    with pytest.raises(InputError, match="empty"):
        verdict(Records([]))


def test_the_tolerance_decides():
    records = synthetic(drift=0.12, edge=1e9)
    words = [verdict(records, tolerance=share)[0].status for share in (0.002, 0.02, 0.06, 0.2)]
    assert words == ["DRIFTS", "DRIFTS", "TRANSFERS", "TRANSFERS"]
    far = synthetic(drift=0.3, edge=1e9)
    assert verdict(far, tolerance=0.02)[0].status == "FAILS"
    assert verdict(far, tolerance=0.5)[0].status == "TRANSFERS", "a user may want no more"


def test_other_swept_axes_are_held_at_their_best_at_the_smallest_scale():
    rows = []
    for s2, penalty in ((0.5, 1.3), (1.0, 1.0)):
        for row in synthetic():
            key = f"{row['key']}-{s2}"
            rows.append(
                row | {"s2_0": s2, "final_mse": penalty * row["final_mse"], "key": key, "swept": "eta0,s2_0"}
            )
    (judged,) = verdict(rows)
    assert judged.status == "TRANSFERS"
    assert judged.notes == (Flag(Caution.OTHERS_HELD, {"s2_0": 1.0}),)
    assert "s2_0 = 1" in str(judged)


def test_the_horizon_of_growing_lengths_ends_with_each():
    asked = study(regime=dam.Epochs(16, 32, 80, 8), scales=(2, 8))
    (table,) = dam.horizon(Records(rows(asked)), points=3).values()
    assert {e: [s for s, best in found.items() if best] for e, found in table.items()} == {
        1: [2, 8],
        3: [8],
        8: [8],
    }


def test_the_horizon_follows_the_curves():
    table = dam.horizon(synthetic(), points=3)
    assert set(table["made"]) == {1, 2, 3}
    assert table["made"][2][64] == pytest.approx(10**-1.5, rel=1e-6)


def test_exit_codes():
    good, bad, unsure = judge(), judge(drift=0.3, edge=1e9), judge(seeds=2)
    assert exit_code([good]) == 0
    assert exit_code([good, unsure]) == 2
    assert exit_code([good, unsure, bad]) == 1


def test_the_largest_scale_may_have_a_single_seed():
    rows = [r for r in synthetic(noise=0.01) if r["scale"] < 256 or r["seed"] == 0]
    (judged,) = verdict(rows)
    assert judged.status == "TRANSFERS"
    assert judged.seeds == 3
    assert Flag(Caution.FEWER_SEEDS, {"256": 1}) in judged.notes
    assert any("Fewer than 3 seeds at N = 256 (1)" in flag for flag in judged.flags)
    widths = {s: high - low for s, (low, high) in judged.regret_ci.items()}
    assert widths[256] == max(widths.values())
    assert judged.collapse is not None
    (drifting,) = verdict([r for r in synthetic(drift=0.2, edge=1e9) if r["scale"] < 256 or r["seed"] == 0])
    assert drifting.status == "FAILS"
    assert drifting.drift == pytest.approx(0.2, abs=1e-6)


def test_a_single_seed_at_two_of_four_scales_is_not_enough():
    (judged,) = verdict([r for r in synthetic() if r["scale"] < 128 or r["seed"] == 0])
    assert judged.status == "INCONCLUSIVE"
    assert "only 1 seed." in judged.reason


def test_a_divergence_of_a_single_seed_decides():
    rows = [r for r in synthetic(edge=0.5, edge_drift=-0.5) if r["scale"] < 256 or r["seed"] == 0]
    (judged,) = verdict(rows)
    assert judged.status == "FAILS"
    assert math.isinf(judged.regret[256])


def test_a_hyperparameter_held_at_none_is_said():
    """One row of a table may have a time of decay, and the others none."""
    records = Records([*rows(study())])
    one = {**records[0], "key": "other", "decay_time": 2.0}
    first = {**records[0], "decay_time": None}
    (judged,) = verdict(Records([first, one, *list(records)[1:]]))
    assert any("decay_time = none" in said for said in judged.flags), judged.flags
