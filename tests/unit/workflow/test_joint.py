"""The search for the best point of several axes, on surfaces whose minimum is known. Nothing is trained."""

import numpy as np
import pytest

from denseam.ground.errors import InputError
from denseam.workflow.joint import BATCH, FULL_GROUP, SURVEYED, Descent

#: Steps of the lattice in a unit of the surfaces.
PER_UNIT = 8
REACH = 12


def bowl(d, rng, *, curvatures=(0.01, 2.0)):
    """Return a random bowl in d dimensions, and its minimum; its axes are at an angle to the bowl's."""
    turned, _ = np.linalg.qr(rng.standard_normal((d, d)))
    H = turned @ np.diag(np.geomspace(*curvatures, d)) @ turned.T
    minimum = rng.uniform(-1, 1, d)

    def log_loss(points):
        z = np.asarray(points) / PER_UNIT - minimum
        return 0.5 * np.einsum("pi,ij,pj->p", z, H, z)

    return log_loss, minimum, H


def descended(log_loss, d, *, noise=0.0, most=400, last=REACH, own=None, seed=0):
    """Search from -REACH to REACH; the last axis only from -last to last."""
    rng = np.random.default_rng(1)
    tried = []

    def losses(points):
        tried.append(list(points))
        return log_loss(points) + noise * rng.standard_normal(len(points))

    high = (*(REACH,) * (d - 1), last)
    descent = Descent(losses, tuple(-k for k in high), high, own=own, seed=seed)
    descent.survey([(0,) * d], SURVEYED * d)
    return descent.descend(most), tried


@pytest.mark.parametrize(("d", "most"), [(1, 30), (2, 70), (4, 180), (6, 300)])
def test_a_noisy_bowl_at_an_angle_is_descended_to_its_bottom(d, most):
    for seed in range(3):
        log_loss, _, _ = bowl(d, np.random.default_rng(seed))
        found, tried = descended(log_loss, d, noise=0.001)
        assert log_loss([found.point])[0] < 0.005
        assert found.points == sum(map(len, tried)) <= most


def test_a_ridge_is_followed_around_its_bend():
    """log-loss is 5 % at a distance of a step across the ridge, and of two units along it."""

    def log_loss(points):
        x, y, z = (np.asarray(points) / PER_UNIT).T - np.array([[1.0], [0.9], [0.0]])
        return 0.0125 * x**2 + 3.2 * (y - 0.25 * x**2) ** 2 + 0.1 * z**2

    found, _ = descended(log_loss, 3)
    assert log_loss([found.point])[0] < 0.01


def test_an_axis_that_does_nothing_does_no_harm():
    within, _, _ = bowl(3, np.random.default_rng(0))
    found, _ = descended(lambda points: within(np.asarray(points)[:, :3]), 4, noise=0.001)
    assert within([found.point[:3]])[0] < 0.01
    assert abs(found.hessian[3, 3]) < 1e-3


def test_an_optimum_beyond_the_box_is_found_at_its_limit():
    found, _ = descended(lambda points: 0.05 * ((np.asarray(points) / PER_UNIT - [3.0, 0.5]) ** 2).sum(1), 2)
    assert found.point[0] == REACH
    assert abs(found.point[1] - 4) <= 1


def test_a_cliff_beside_the_optimum_is_no_hindrance():
    log_loss, minimum, _ = bowl(3, np.random.default_rng(2))
    edge = PER_UNIT * (minimum[0] + 0.15)

    def cliff(points):
        return np.where(np.asarray(points)[:, 0] > edge, np.inf, log_loss(points))

    found, _ = descended(cliff, 3)
    assert found.point[0] <= edge
    assert log_loss([found.point])[0] < 0.005


def test_where_everything_diverges_it_is_said_in_one_line():
    with pytest.raises(InputError, match="tune: training diverged at every point that was tried"):
        descended(lambda points: np.full(len(points), np.inf), 2)


def test_the_curvature_is_that_of_the_bowl():
    log_loss, _, H = bowl(3, np.random.default_rng(1), curvatures=(0.5, 2.0))
    found, _ = descended(log_loss, 3)
    assert PER_UNIT**2 * found.hessian == pytest.approx(H, abs=0.1)


def test_the_same_seed_tries_the_same_points():
    log_loss, _, _ = bowl(3, np.random.default_rng(0))
    first, again, other = (descended(log_loss, 3, seed=seed)[1] for seed in (0, 0, 1))
    assert first == again != other


def test_no_point_is_tried_twice_and_the_number_is_limited():
    log_loss, _, _ = bowl(2, np.random.default_rng(0))
    _, tried = descended(log_loss, 2, most=40)
    points = [p for batch in tried for p in batch]
    assert len(points) == len(set(points)) <= 40
    assert all(len(batch) <= BATCH for batch in tried[1:])


def test_points_that_share_a_program_come_in_full_groups():
    """So that a GPU, whose programs know how many models they train, compiles few of them."""
    log_loss, _, _ = bowl(3, np.random.default_rng(0))
    found, tried = descended(log_loss, 3, own=2, last=3)
    for batch in tried:
        for value in {p[2] for p in batch}:
            assert sum(p[2] == value for p in batch) % FULL_GROUP == 0
    wide = range(-REACH, REACH + 1)
    everywhere = log_loss([(i, j, k) for i in wide for j in wide for k in range(-3, 4)])
    assert log_loss([found.point])[0] - everywhere.min() < 0.002
