import json

import pytest

from denseam.cli import main
from denseam.ground.errors import InputError
from denseam.rules import Proportional, Shape
from denseam.training.mesh import make_mesh
from denseam.workflow.planning import Machine, plan_devices, seconds
from denseam.workflow.roofline import best_mesh, device, estimate
from denseam.workflow.target_sizes import TargetSizes

H200 = device("h200")
#: Milliseconds of a step of sixteen models, κ = 2, ρ = 5, β = 0.1, by `denseam bench` on an H200 (docs/benchmarks).
MEASURED = {1024: {"sgd": 1.06, "adam": 1.19}, 2048: {"sgd": 6.32, "adam": 6.80}}


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("N", MEASURED)
def test_what_was_measured_is_predicted(N, optimizer):
    shape = Shape(N=N, K=2 * N, P=5 * N, B=N // 2)
    predicted = 1e3 * estimate(shape, optimizer, H200, models=16).step_seconds
    assert predicted == pytest.approx(MEASURED[N][optimizer], rel=0.1)


@pytest.mark.parametrize("N", MEASURED)
def test_a_plan_without_bandwidth_has_the_memory_in_its_share(N):
    """`planning` promises a factor of 1.5 from the product rate alone."""
    shape = Shape(N=N, K=2 * N, P=5 * N, B=N // 2)
    machine = Machine("gpu", "h200", 1, H200.product_rate)
    planned = 1e3 * seconds(shape, 1, 16, machine, many=True) / (shape.P // shape.B)
    for measured in MEASURED[N].values():
        assert 1 / 1.6 < planned / measured < 1.6


def test_what_a_mesh_shares():
    shape = Shape(N=1024, K=8192, P=5120, B=512)
    one = estimate(shape, "adam", H200)
    rows, samples = estimate(shape, "adam", H200, memories=8), estimate(shape, "adam", H200, batch=8)
    assert one.sent == 0
    assert rows.seconds["products"] == pytest.approx(one.seconds["products"] / 8)
    whole = 4 * 4 * 1024 * 512  # outputs and their like are not shared along the memories
    assert rows.bytes_per_device - whole == pytest.approx((one.bytes_per_device - whole) / 8)
    assert samples.bytes_per_device > 3 * rows.bytes_per_device, "W and its moments are on every device"
    # Sums in a ring: the outputs along the memories, the gradients along the batch.
    assert rows.sent == pytest.approx(2 * 7 / 8 * 4 * 1024 * 512)
    assert samples.sent == pytest.approx(2 * 7 / 8 * 4 * (8192 * 1024 + 8192 + 1024))


def test_neighbours_sum_the_gradient():
    """As `make_mesh` lays devices out: those along the batch are next to each other."""
    shape = Shape(N=1024, K=8192, P=5120, B=512)
    grid = make_mesh({"memories": 4, "batch": 2}, shape, devices=range(8)).devices
    assert (grid[0].tolist(), grid[:, 0].tolist()) == ([0, 1], [0, 2, 4, 6])
    # Two nodes of eight: along a batch of eight the fast links are used, along sixteen they are not.
    inside, across = (estimate(shape, "sgd", H200, 16 // d, d).seconds["links"] for d in (8, 16))
    assert across > 5 * inside


def test_meshes_that_fit_come_first_and_divide_the_model():
    shape = Shape(N=100_000, K=1_000_000, P=500_000, B=50_000)
    found = best_mesh(shape, "adam", H200, 64)
    fits = [one.fits for one in found]
    assert fits == sorted(fits, reverse=True)
    assert found[0].fits
    assert all(one.memories * one.batch == 64 for one in found)
    assert all(shape.K % one.memories == 0 and shape.B % one.batch == 0 for one in found)
    with pytest.raises(InputError, match="no mesh of 7"):
        best_mesh(shape, "adam", H200, 7)


def test_devices_are_planned_from_the_sizes_alone():
    plan = plan_devices(TargetSizes(features=100_000, memories=1_000_000).shape(), devices=64)
    assert (plan.shape.P, plan.shape.B) == (500_000, 50_000)
    assert (plan.device, plan.devices) == (H200, 64)
    assert list(plan.meshes) == best_mesh(plan.shape, "adam", H200, 64)
    document = plan.to_json()
    assert document["meshes"][0]["mesh"] == "memories=32,batch=2"
    assert document["meshes"][0]["seconds_of_training"] == pytest.approx(
        64 * 10 * plan.meshes[0].step_seconds
    )
    assert plan_devices(plan.shape, optimizer="sgd").devices == 1
    for options, words in (
        ({"optimizer": "lamb"}, "optimizer must be"),
        ({"device": "h2000"}, "did you mean 'h200'"),
        ({"device": "here", "devices": 7}, "devices must be the 1 that"),
        ({"devices": 0}, "at least 1"),
    ):
        with pytest.raises(InputError, match=words):
            plan_devices(plan.shape, **options)


def test_sizes_that_are_not_given_are_in_proportion():
    assert TargetSizes(features=64).shape() == Proportional(2, 5, 0.1).shape(64)
    assert TargetSizes(features=64, memories=7, samples=100).shape() == Shape(64, 7, 100, 32)
    assert TargetSizes(features=64, batch=3, kappa=4, rho=10).shape() == Shape(64, 256, 640, 3)


def test_plan_past_this_machine(capsys):
    sizes = ["--features", "100000", "--memories", "1000000", "--devices", "64", "--device", "h200"]
    assert main(["plan", *sizes, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["memories"] == 1_000_000
    assert document["batch"] == 50_000
    best = document["meshes"][0]
    assert {
        "mesh",
        "bytes_per_device",
        "operations_per_step",
        "bytes_sent_per_step",
        "seconds_per_step",
    } <= set(best)
    assert main(["plan", *sizes]) == 0
    assert best["mesh"] in capsys.readouterr().out
    for wrong, said in (
        (["--devices", "4"], "features is needed"),
        (["--features", "64", "--device", "h20"], "did you mean 'h200'"),
        (["--features", "64", "--devices", "0"], "devices must be"),
        ([], "data is needed, or devices"),
    ):
        assert main(["plan", *wrong]) == 64
        assert said in capsys.readouterr().err
