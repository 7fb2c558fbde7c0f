"""A point of a joint search is trained with all of its values, also those that are zero by default."""

import types

import pytest

import denseam as dam
from denseam.studies.runs import optimizer_of, scales_of
from denseam.workflow.joint import RANGES, _losses, neighbours

POINTS = [
    {"eta0": 0.02, "momentum": 0.5, "decay_time": 3.0, "warmup": 0.1},
    {"eta0": 0.01, "momentum": 0.9, "decay_time": 1.0, "warmup": 0.2},
]


def test_every_axis_of_a_point_reaches_its_optimizer():
    wanted = dam.goal("isotropic", features=32, scales=(8, 12, 16), optimizer="sgd", epochs=4)
    trained = []

    def train(study, specs):
        trained.extend((study, spec, optimizer_of(study, spec, scales_of(study, spec))) for spec in specs)
        return [
            {"key": s.key, "status": "finished", "final_mse": s.values["eta0"], "zero_mse": 1.0}
            for s in specs
        ]

    search = types.SimpleNamespace(goal=wanted, terms=types.SimpleNamespace(seeds=1), train=train)
    losses = _losses(search, 8, POINTS)
    assert losses[1] < losses[0]
    assert len(trained) == 2
    for point, (study, spec, optimizer) in zip(POINTS, trained, strict=True):
        assert {axis: spec.values[axis] for axis in point} == point
        assert optimizer.momentum == point["momentum"]
        rate, steps = scales_of(study, spec).eta_W, study.updates(spec.shape)
        assert rate * optimizer.decay == pytest.approx(1 / (point["decay_time"] * steps))
        assert list(optimizer.factors) == dam.Timetable("constant", steps, point["warmup"]).factors()


def test_values_beside_a_share_stay_shares():
    for axis in ("warmup", "cooldown"):
        assert max(neighbours(axis, RANGES[axis].high)) <= 1
    assert neighbours("decay_time", 2.0) == (0.5, 1.0, 2.0, 4.0, 8.0)
