"""One model on many devices is the model on one."""

import dataclasses
import functools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from denseam.cli import main
from denseam.ground.errors import InputError
from denseam.model.checkpoint import opened, write
from denseam.model.lagrangians import registered
from denseam.rules import MemoriesOnly, Proportional, Shape
from denseam.studies.runs import build
from denseam.studies.study import Study
from denseam.training.matrices import Driven, Ways
from denseam.training.mesh import Placement, make_mesh, parse_mesh
from denseam.training.places import named
from denseam.training.progress import Progress
from denseam.training.run import advance
from denseam.training.stored import stored_by_column
from denseam.workflow import rates
from denseam.workflow.memorizing import memorize
from denseam.workflow.memory import Memory
from denseam.workflow.recipe import Recipe, read_recipe, write_result
from denseam.workflow.target import train_target
from tests import FAST
from tests.sampled import sampled

PROGRAM = Path(sys.executable).with_name("denseam")
MESHES = ("memories=8", "batch=8", "memories=2,batch=4")


def recipe(activation="relu", optimizer="adam", **changes):
    """A run of 100 steps: N = 16, K = 32, P = 160, B = 16."""
    study = Study(activation, optimizer, (16,), (0.02,), regime=Proportional(2, 10, 0.1), seeds=1, epochs=10)
    return Recipe(dataclasses.replace(study, **changes), 0.02)


def apart(a, b):
    pairs = zip(a.memory.model.parameters, b.memory.model.parameters, strict=True)
    return max(float(np.max(np.abs(np.asarray(x) - np.asarray(y)))) for x, y in pairs)


#: Those of the paper, and one of each other way to sum over memories.
KINDS = ("identity", "relu", "softmax", "tanh", "relative-entmax")
#: Their σ jumps, so that rounding decides which memory answers, and whole runs differ.
JUMPING = ("topk", "topshare")


def test_the_order_of_an_array_on_several_devices_is_left_to_xla():
    """XLA would gather it for an order that is asked for."""
    Z = np.ones((16, 8), np.float32)
    places = jax.sharding.NamedSharding(
        jax.make_mesh((8,), ("memories",)), jax.sharding.PartitionSpec("memories")
    )
    for array, orders in ((Z, 1), (jax.device_put(Z, places), 0)):
        text = jax.jit(stored_by_column).trace(array).lower(lowering_platforms=("cuda",)).as_text()
        assert text.count("@LayoutConstraint") == orders


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("activation", sampled(sorted({*registered()} - {*JUMPING}), KINDS))
def test_a_mesh_trains_the_same_model(activation, optimizer, tmp_path):
    alone = train_target(recipe(activation, optimizer), tmp_path / "alone")
    for mesh in MESHES:
        shared = train_target(recipe(activation, optimizer), tmp_path / mesh, mesh=mesh)
        assert apart(alone, shared) < 1e-5, mesh
        np.testing.assert_allclose(shared.loss, alone.loss, rtol=1e-5)
        assert shared.heldout_mse == pytest.approx(alone.heldout_mse, rel=1e-5)
        saved = Memory.load(tmp_path / mesh / "memory.safetensors")
        np.testing.assert_array_equal(np.asarray(saved.model.W), np.asarray(shared.memory.model.W))


@pytest.mark.parametrize("steps", [1, 3])
def test_features_that_are_norms_need_no_sum_over_devices(steps, tmp_path):
    """Every device has all features of its samples; a step through them has the Jacobian of the norm."""
    changes = {"feature_activation": "layer-norm", "steps": steps}
    alone = train_target(recipe("relu", "adam", **changes), tmp_path / "alone")
    for mesh in MESHES:
        shared = train_target(recipe("relu", "adam", **changes), tmp_path / mesh, mesh=mesh)
        assert apart(alone, shared) < 1e-5, mesh
    assert shared.memory.model.features.name == "layer-norm"


@pytest.mark.parametrize("activation", JUMPING)
def test_the_same_memories_answer_on_a_mesh(activation):
    lagrangian = registered()[activation]()
    h = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("memories",))
    by_memories = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "memories"))
    alone, shared = (
        jax.jit(lagrangian.activation)(x) for x in (jax.numpy.asarray(h), jax.device_put(h, by_memories))
    )
    np.testing.assert_array_equal(np.asarray(shared), np.asarray(alone))


def test_muon_too(tmp_path):
    """Its momentum is split over devices like W; Newton–Schulz needs sums over all of it."""
    alone = train_target(recipe("relu", "muon"), tmp_path / "alone")
    for mesh in MESHES:
        shared = train_target(recipe("relu", "muon"), tmp_path / mesh, mesh=mesh)
        assert apart(alone, shared) < 1e-3, mesh  # small singular values are lifted, and their rounding too
        np.testing.assert_allclose(shared.loss, alone.loss, rtol=1e-4)


def test_schedules_and_decay_times_too(tmp_path):
    asked = recipe("relu", "adamw", schedule="wsd", axes={"warmup": (0.2,), "decay_time": (1.0,)})
    alone = train_target(asked, tmp_path / "alone")
    for mesh in MESHES:
        shared = train_target(asked, tmp_path / mesh, mesh=mesh)
        assert apart(alone, shared) < 1e-5, mesh


def test_steps_of_recall_a_burn_in_and_hidden_features_too(tmp_path):
    asked = recipe("relu", "adam", steps=3, hide=0.5, axes={"burn_in": (2.0,)}, name="")
    alone = train_target(asked, tmp_path / "alone")
    for mesh in MESHES:
        shared = train_target(asked, tmp_path / mesh, mesh=mesh)
        assert apart(alone, shared) < 1e-5, mesh
        np.testing.assert_allclose(shared.loss, alone.loss, rtol=1e-5)
        assert shared.heldout_mse == pytest.approx(alone.heldout_mse, rel=1e-5)
        assert shared.memory.model.steps.T == 3


def test_the_other_regime_and_uncentred_models_too(tmp_path):
    for n, changes in enumerate(
        ({"centred": False}, {"regime": MemoriesOnly(12, 80, 8), "scales": (64,), "epochs": 10})
    ):
        asked = recipe("relu", "sgd", **changes)
        alone = train_target(asked, tmp_path / f"alone-{n}")
        shared = train_target(asked, tmp_path / f"shared-{n}", mesh={"memories": 4, "batch": 2})
        assert apart(alone, shared) < 1e-5


class Stop(Progress):
    """Stops a training as Ctrl-C would."""

    def __init__(self, at):
        self.at = at

    def training_advanced(self, step, loss):
        if step >= self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("first", "then"), [("memories=8", "batch=4"), (None, "memories=4,batch=2"), ("batch=8", None)]
)
def test_a_training_goes_on_on_another_mesh(first, then, tmp_path):
    whole = train_target(recipe(), tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train_target(recipe(), tmp_path / "broken", progress=Stop(40), mesh=first)
    resumed = train_target(recipe(), tmp_path / "broken", mesh=then)
    assert apart(whole, resumed) < 1e-5
    np.testing.assert_allclose(resumed.loss, whole.loss, rtol=1e-5)


def test_a_file_does_not_tell_on_which_mesh_it_was_written(tmp_path):
    """Nor does anybody hold all of a tensor: rows are written and read by those who keep them."""
    _, (parameters, state, *_) = compiled("relu", "adam", "memories=4,batch=2")
    tensors = named(parameters, state)
    shared = write(tmp_path / "shared", tensors, {"kind": "training"})
    alone = write(tmp_path / "alone", {k: np.asarray(v) for k, v in tensors.items()}, {"kind": "training"})
    assert shared.read_bytes() == alone.read_bytes()
    library = load_file(shared)  # by safetensors itself
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(library[name], np.asarray(tensor))
    with opened(shared) as file:
        rows = file.read("W", (slice(64, 128), slice(None)))
        np.testing.assert_array_equal(rows, np.asarray(tensors["W"])[64:128])
        assert file.shape("W") == (256, 32)
        with pytest.raises(KeyError):
            file.read("Q")


# --- what the compiler made ----------------------------------------------------------------------


def compiled(activation, optimizer, mesh, N=32, K=256, B=64):
    """The program of one step on a mesh, and the arrays it is called with."""
    shape = Shape(N=N, K=K, P=10 * B, B=B)
    study = Study(activation, optimizer, (K,), (0.02,), regime=MemoriesOnly(N, 10 * B, B), seeds=1, epochs=1)
    model, rule = build(study, study.runs()[0], None, np.float32)
    at = Placement(make_mesh(parse_mesh(mesh), shape))
    state = rule.init(model.parameters)
    places = at.state(state)
    batch = Driven(*(np.zeros((1, B, N), np.float32) for _ in range(2)))
    now = (
        at.put(model.parameters, at.parameters), at.put(state, places), model.without_parameters(), rule,
        at.put(batch, Driven(at.batches, at.batches)),
    )  # fmt: skip
    step = jax.jit(
        functools.partial(advance, ways=Ways(stacked=True)),
        out_shardings=(at.parameters, places, at.everywhere, None),
        donate_argnums=(0, 1),
    )
    return step.lower(*now).compile(), now


def collectives(program):
    """The collectives of a program, each with the number of entries it moves."""
    found = re.findall(
        r"= (\(.*?\)|\S+) (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\(",
        program.as_text(),
    )

    def entries(shapes):
        sizes = re.findall(r"f32\[([\d,]*)\]", shapes)
        return sum(int(np.prod([int(n) for n in size.split(",") if n])) for size in sizes)

    return [(kind, entries(shapes)) for shapes, kind in found]


#: Sums over memories, besides the one for the outputs.
HIDDEN = {"identity": 0, "relu": 4, "tanh": 4, "softmax": 7}


@pytest.mark.parametrize("activation", sorted(HIDDEN))
@pytest.mark.parametrize("mesh", MESHES)
def test_there_are_no_more_collectives_than_the_mathematics_needs(activation, mesh):
    N, K, B = 32, 256, 64
    program, _ = compiled(activation, "adam", mesh, N, K, B)
    found = collectives(program)
    sizes = parse_mesh(mesh)
    M, D = sizes["memories"], sizes["batch"]
    assert {kind for kind, _ in found} == {"all-reduce"}
    over_memories = (1 + HIDDEN[activation]) * (M > 1)
    assert len(found) <= over_memories + (D > 1)
    # The outputs, and some numbers for each sample; the gradients once, not twice.
    most = (N * B // D + 12 * B // D) * (M > 1) + (K * N // M + K // M + N + 1) * (D > 1)
    assert sum(n for _, n in found) <= most


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_memory_per_device_falls_with_the_devices(optimizer):
    N, K, B = 64, 4096, 64

    def held(mesh):
        program, (parameters, state, *_) = compiled("relu", optimizer, mesh, N, K, B)
        arrays = [leaf for leaf in jax.tree.leaves((parameters, state)) if leaf.ndim]
        kept = sum(leaf.addressable_shards[0].data.nbytes for leaf in arrays)
        used = program.memory_analysis()
        return kept, used.temp_size_in_bytes + used.argument_size_in_bytes

    one, eight = held("memories=1"), held("memories=8")
    assert eight[0] == pytest.approx(one[0] / 8, rel=0.01)
    assert eight[1] < 0.2 * one[1]


def test_moments_lie_with_their_parameters():
    _, (parameters, state, *_) = compiled("relu", "adam", "memories=8", N=16, K=16, B=64)  # b and c alike
    del parameters
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        label = next(key.key for key in path if isinstance(key, jax.tree_util.DictKey))
        if leaf.ndim:
            assert leaf.is_fully_replicated == (label == "c"), label


# --- plans, beside what is measured ----------------------------------------------------------------


def test_steps_are_measured_beside_the_plan(capsys, monkeypatch):
    """Numbers of time are for the benchmarks; here all of them must be there, and make sense."""
    monkeypatch.setitem(rates._SIDE, "cpu", 256)
    monkeypatch.setitem(rates._BYTES, "cpu", 1 << 18)
    asked = ["bench", "--features", "32", "--seconds", "0.02", "--repeats", "1", "--mesh"]
    assert main([*asked, "memories=4,batch=2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["devices"] == 8
    found = document["rates"]
    for name in ("product_rate", "bandwidth", "link", "latency", "step", "memory"):
        assert 0 < found[name] < float("inf"), name
    assert [(r["mesh"], r["optimizer"]) for r in document["rows"]] == [
        ("memories=4,batch=2", "sgd"), ("memories=4,batch=2", "adam"),
    ]  # fmt: skip
    for row in document["rows"]:
        assert row["predicted_seconds"] == pytest.approx(sum(row["parts"].values()))
        assert row["parts"]["links"] > 0
        assert row["measured_seconds"] > 0
    assert main([*asked, "memories=3"]) == 64
    assert "memories=3 does not divide K = 64" in capsys.readouterr().err
    assert main(["plan", "--features", "64", "--devices", "8", "--device", "here"]) == 0
    shown = capsys.readouterr()
    assert "memories=8,batch=1" in shown.out
    assert "measured just now" in shown.out


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mesh", "said"),
    [
        ("memories=3", "memories=3 does not divide K = 32"),
        ("batch=5", "batch=5 does not divide B = 16"),
        ("memories=16", "16 devices, but there are 8"),
        ("rows=2", "mesh must be as in memories=4,batch=2"),
        ("memories=0", "mesh must be as in"),
        ("memories", "mesh must be as in"),
    ],
)
def test_a_mesh_that_does_not_fit_is_refused_before_training(mesh, said, tmp_path):
    with pytest.raises(InputError, match=re.escape(said)):
        train_target(recipe(), tmp_path / "out", mesh=mesh)
    assert not (tmp_path / "out").exists()


# --- several processes ---------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


#: Trains as one of two processes, slowly, and saves whenever it may; then says so.
SLOWLY = """
import sys, time
from denseam.workflow import target
from denseam.training.processes import join_processes
from denseam.training.progress import Progress
from denseam.workflow.recipe import read_recipe
target.SAVE_SECONDS = 0.0
class Slow(Progress):
    def training_advanced(self, step, loss):
        time.sleep(0.2 + 0.1 * int(process))  # their clocks differ
tuned, data, out, address, process = sys.argv[1:]
join_processes(address, 2, int(process))
target.train_target(read_recipe(tuned, data), out, mesh="memories=2,batch=2", progress=Slow())
"""
#: Two virtual devices for each process.
ENVIRONMENT = {
    "XLA_FLAGS": f"--xla_force_host_platform_device_count=2 {FAST}",
    "PATH": "/usr/bin:/bin",
    # The same copy of the library, and its coverage.
    **{name: os.environ[name] for name in ("PYTHONPATH", "COVERAGE_PROCESS_CONFIG") if name in os.environ},
}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A folder with data and what was tuned on it, and the training by one process."""
    folder = tmp_path_factory.mktemp("tuned")
    data = np.random.default_rng(0).standard_normal((400, 24)).astype(np.float32)
    np.save(folder / "x.npy", data)
    asked = recipe("relu", "adam", scales=(24,), data=str(folder / "x.npy"))
    write_result(folder, {"status": "TRANSFERS"}, asked)
    return folder, train_target(asked, folder / "alone")


def together(*command):
    """Start a command as two processes, with what each of them needs to know at the end."""
    address = f"127.0.0.1:{free_port()}"
    return [
        subprocess.Popen(
            [str(part).replace("ADDRESS", address).replace("PROCESS", str(i)) for part in command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT | {"HOME": "/nowhere"},
        )
        for i in range(2)
    ]  # fmt: skip


def train_together(folder, out, mesh=("--mesh", "memories=2,batch=2"), program=(PROGRAM,)):
    where = ("train", folder / "x.npy", "--tuned", folder, "--out", out, *mesh, "--quiet", "--json")
    joined = ("--coordinator", "ADDRESS", "--processes", "2", "--process", "PROCESS")
    return together(*program, *where, *joined)


def same_model(out, alone):
    found = Memory.load(out / "memory.safetensors").model
    for a, b in zip(found.parameters, alone.memory.model.parameters, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=1e-5)


def test_two_processes_train_one_model(tuned, tmp_path):
    folder, alone = tuned
    children = train_together(folder, tmp_path / "both")
    said = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    document = json.loads(said[0][0])  # one JSON document, nothing of gloo's
    assert said[1][0] == ""
    assert document["final_mse"] == pytest.approx(alone.final_mse, rel=1e-5)
    same_model(tmp_path / "both", alone)
    assert not list((tmp_path / "both").glob(".*"))


def test_what_two_processes_saved_one_resumes(tuned, tmp_path):
    folder, alone = tuned
    out = tmp_path / "both"
    children = together(sys.executable, "-c", SLOWLY, folder, folder / "x.npy", out, "ADDRESS", "PROCESS")
    until, step = time.monotonic() + 60, 0
    while step < 30:
        assert time.monotonic() < until, [child.communicate() for child in children]
        assert children[0].poll() is None, children[0].communicate()
        if (out / "state.safetensors").exists():
            with opened(out / "state.safetensors") as file:
                step = file.document["step"]
        time.sleep(0.02)
    for child in children:
        child.kill()
        child.communicate()
    assert step < 100
    heard = Steps()
    resumed = train_target(read_recipe(folder, str(folder / "x.npy")), out, progress=heard)
    assert heard.first >= step
    np.testing.assert_allclose(resumed.loss, alone.loss, rtol=1e-5)
    same_model(out, alone)
    assert not list(out.glob(".*")), "what the killed ones left is gone"


#: Trains as one of two processes; the second one's disk is full when it is to save.
FULL = """
import errno, os, sys
from denseam.cli import main
def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
if sys.argv[-1] == "1":
    os.fsync = full
sys.exit(main(sys.argv[1:]))
"""


def test_a_disk_that_is_full_for_one_stops_both(tuned, tmp_path):
    began = time.monotonic()
    children = train_together(tuned[0], tmp_path / "out", program=(sys.executable, "-c", FULL))
    said = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [74, 74], said
    assert "another process could not write it" in said[0][1]
    assert "No space left on device" in said[1][1]
    assert time.monotonic() - began < 60
    assert not list((tmp_path / "out").iterdir())


#: The program, slowed down; it says when it has taken steps.
TRAINS = """
import sys, time
from denseam.cli import main
from denseam.workflow import target
advance = target._Training._advance
def slowly(*arguments):
    time.sleep(0.1)
    print("stepped", file=sys.stderr, flush=True)
    return advance(*arguments)
target._Training._advance = slowly
sys.exit(main(sys.argv[1:]))
"""


def train_slowly(folder, out, program=TRAINS):
    children = train_together(folder, out, program=(sys.executable, "-c", program))
    for child in children:
        while (line := child.stderr.readline()) != "stepped\n":
            assert line, child.communicate()
    return children


def test_sigterm_of_one_saves_and_stops_both(tuned, tmp_path):
    folder, alone = tuned
    out = tmp_path / "out"
    children = train_slowly(folder, out)
    children[1].send_signal(signal.SIGTERM)
    said = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [143, 143], said
    assert all(
        f"stopped by SIGTERM; finished work is in {out}, run again to resume" in err for _, err in said
    )
    heard = Steps()
    resumed = train_target(read_recipe(folder, str(folder / "x.npy")), out, progress=heard)
    assert 0 < heard.first < 100
    np.testing.assert_allclose(resumed.loss, alone.loss, rtol=1e-5)


@pytest.mark.parametrize(
    ("killed", "busy"),
    [(0, False), (0, True), (1, False)],
    ids=["the first", "the first, between steps", "the second"],
)
def test_a_killed_process_ends_the_other_soon_and_in_one_line(killed, busy, tuned, tmp_path):
    """The first one coordinates. Without it JAX aborts the others, wherever they are."""
    folder, alone = tuned
    program = (
        TRAINS.replace("sleep(0.1)", f"sleep(0.1 if sys.argv[-1] == '{killed}' else 3)") if busy else TRAINS
    )
    children = train_slowly(folder, tmp_path / "out", program)
    began = time.monotonic()
    children[killed].kill()
    _, said = children[1 - killed].communicate(timeout=60)
    assert children[1 - killed].returncode == 74
    assert time.monotonic() - began < 10
    (line,) = [line for line in said.splitlines() if line != "stepped"]
    assert line.startswith("denseam: a process of the mesh is gone")
    assert "start all of them again to resume" in line
    children[killed].communicate()  # the child that trains has ended with it: else its output would be open
    if busy or killed:
        return
    again = train_together(folder, tmp_path / "out")
    said = [child.communicate(timeout=120) for child in again]
    assert [child.returncode for child in again] == [0, 0], said
    same_model(tmp_path / "out", alone)


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [0, 1])
def test_a_frozen_process_ends_the_other_in_one_line(frozen, tuned, tmp_path):
    """As a machine that is lost: nothing says so, but it no longer answers."""
    children = train_slowly(tuned[0], tmp_path / "out")
    pid = children[frozen].pid
    trainer = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
    os.kill(trainer, signal.SIGSTOP)
    try:
        _, said = children[1 - frozen].communicate(timeout=60)
    finally:
        os.kill(trainer, signal.SIGKILL)
    assert children[1 - frozen].returncode == 74
    (line,) = [line for line in said.splitlines() if line != "stepped"]
    assert line.startswith("denseam: a process of the mesh is gone")
    children[frozen].communicate()


def test_bad_input_of_one_ends_both(tuned, tmp_path):
    began = time.monotonic()
    folder, _ = tuned
    (tmp_path / "x-0.npy").write_bytes((folder / "x.npy").read_bytes())  # and none for the second
    joined = ("--coordinator", "ADDRESS", "--processes", "2", "--process", "PROCESS", "--quiet")
    data = ("train", tmp_path / "x-PROCESS.npy", "--tuned", folder, "--out", tmp_path / "out")
    children = together(PROGRAM, *data, "--mesh", "memories=2,batch=2", *joined)
    said = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [64, 64], said
    assert said[0][1] == "denseam: another process refuses its input\n"
    assert "x-1.npy" in said[1][1]
    assert time.monotonic() - began < 40


#: Says what the first of two processes has.
AGREE = """
import sys
from denseam.training.processes import as_the_first_says, join_processes
join_processes(sys.argv[1], 2, int(sys.argv[2]))
mine = (2**24 + 1, 2**40, True, 0.1) if sys.argv[2] == "0" else (0, 0, False, 0.0)
print(*map(as_the_first_says, mine))
"""


def test_processes_agree_on_numbers_of_more_than_24_bits():
    children = together(sys.executable, "-c", AGREE, "ADDRESS", "PROCESS")
    ended = [child.communicate(timeout=120) for child in children]
    assert [out.splitlines()[-1] for out, _ in ended] == [f"{2**24 + 1} {2**40} True 0.1"] * 2, ended


def test_every_process_needs_something_to_do(tuned, tmp_path):
    for mesh, text in (
        ((), "mesh is needed with several processes"),
        (("--mesh", "memories=2"), "process 1 has none"),
    ):
        children = train_together(tuned[0], tmp_path / "out", mesh=mesh)
        said = [child.communicate(timeout=120) for child in children]
        assert [child.returncode for child in children] == [64, 64], said
        assert all(text in err for _, err in said)


class Steps(Progress):
    """Notes where a training begins."""

    def training_begins(self, name, steps, epochs, done=0):
        self.first = done


def test_a_folder_that_is_not_shared_is_refused(tuned, tmp_path):
    children = train_together(tuned[0], tmp_path / "out-PROCESS")
    said = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [64, 64], said
    assert all("not the same folder for all processes" in err for _, err in said)
    assert not list(tmp_path.glob("out-*/*"))


def test_processes_are_checked(tmp_path):
    def refused(*options):
        found = subprocess.run(
            [PROGRAM, "train", "x.npy", "--tuned", tmp_path, *options], capture_output=True, text=True
        )
        assert found.returncode == 64
        assert found.stderr.count("\n") == 1
        return found.stderr

    assert "need a coordinator" in refused("--processes", "2")
    assert "HOST:PORT" in refused("--coordinator", "somewhere")
    assert "which one this is" in refused("--coordinator", "127.0.0.1:1", "--processes", "2")
    assert "below processes = 2" in refused("--coordinator", "h:1", "--processes", "2", "--process", "2")


@pytest.mark.parametrize("activation", ["softmax", "relu"])
def test_patterns_on_a_mesh_are_stored_and_recalled_the_same(activation, tmp_path):
    X = np.sign(np.random.default_rng(0).standard_normal((64, 48)))
    np.save(tmp_path / "x.npy", X)
    data, options = str(tmp_path / "x.npy"), {"activation": activation, "noise": 0.3}
    alone = memorize(data, tmp_path / "alone", **options)
    shared = memorize(data, tmp_path / "shared", mesh="memories=8", **options)
    W = shared.memory.model.W
    assert len(W.addressable_shards) == 8
    assert W.addressable_shards[0].data.shape == (8, 48)
    assert shared.memory.model.b.addressable_shards[0].data.shape == (8,)
    assert [t.recalled for t in shared.trials] == [t.recalled for t in alone.trials]
    assert shared.trials[0].recalled > 0.9
    if activation == "softmax":
        assert shared.spacing == alone.spacing
    here, there = (load_file(tmp_path / name / "memory.safetensors") for name in ("alone", "shared"))
    for name, tensor in here.items():
        np.testing.assert_allclose(there[name], tensor, rtol=1e-6, err_msg=name)
