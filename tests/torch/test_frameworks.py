"""Memories inside of other people's programs: safetensors, accelerate, Lightning, DDP, FSDP2, compile, export."""

import os
import warnings

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

import denseam as dam
import denseam.torch as dt
from denseam.ground.errors import InputError

SHAPE = dam.Shape(N=12, K=30, P=60, B=15)


def memory(eta0=0.02, seed=1, optimizer="adam", activation="relu", **options):
    scales = dam.prescription(activation, optimizer).at(SHAPE, eta0=eta0)
    return dt.DenseAM.create(scales, getattr(dt, activation)(**options), seed=seed, bias_init="normal")


class Denoiser(nn.Module):
    """Somebody's model with two memories inside."""

    def __init__(self, eta0=0.02):
        super().__init__()
        torch.manual_seed(0)
        self.before = nn.Linear(SHAPE.N, SHAPE.N)
        self.first, self.second = memory(eta0), memory(2 * eta0, seed=2)

    def forward(self, x):
        return self.second(self.first(self.before(x)))


def batch(n=8, seed=0):
    drawn = torch.Generator().manual_seed(seed)
    Y = torch.randn(n, SHAPE.N, generator=drawn)
    return Y + 0.5 * torch.randn(Y.shape, generator=drawn), Y


def take_steps(model, optimizer, X, Y, steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        ((model(X) - Y) ** 2).sum().div(2 * len(X)).backward()
        optimizer.step()


def assert_same(a, b):
    x, _ = batch()
    assert torch.equal(a(x), b(x))
    for one, other in zip(dt_memories(a), dt_memories(b), strict=True):
        assert (one.scales, one.activation, one.s1, one.s2, one.centred, one.steps) == (
            other.scales,
            other.activation,
            other.s1,
            other.s2,
            other.centred,
            other.steps,
        )


def dt_memories(model):
    return [m for m in model.modules() if isinstance(m, dt.DenseAM)]


# --- state dicts -----------------------------------------------------------------------------------------


def test_a_state_dict_holds_nothing_but_tensors():
    state = Denoiser().state_dict()
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    assert state["first._extra_state"].dtype == torch.uint8
    assert len(state["first._extra_state"]) == len(Denoiser(0.1234567).state_dict()["first._extra_state"])
    plain = {name: value.numpy() for name, value in state.items()}  # a dictionary of arrays
    other = Denoiser(0.7)
    other.load_state_dict({name: torch.from_numpy(value) for name, value in plain.items()})
    model = Denoiser()
    model.load_state_dict(state)
    assert_same(other, model)


def test_state_dicts_of_earlier_versions_are_read():
    model, other = memory(activation="softmax", beta=2.0), memory(0.7, activation="softmax")
    state = model.state_dict()
    text = bytes(state["_extra_state"].tolist()).decode()
    state["_extra_state"] = {"denseam": text.strip()}
    other.load_state_dict(state)
    assert_same(other, model)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (torch.zeros(3), "must be bytes, got torch.float32"),
        (torch.tensor(list(b"[]"), dtype=torch.uint8), "must be bytes"),
        (torch.tensor(list(b"{}"), dtype=torch.uint8), "activation is missing.*multipliers is missing"),
        ({"other": 1}, "must be bytes, got dict"),
        (None, "must be bytes, got NoneType"),
    ],
)
def test_a_damaged_state_is_one_line_and_changes_nothing(extra, words):
    model = memory()
    before = model.get_extra_state()
    with pytest.raises(InputError, match=words) as caught:
        model.load_state_dict(model.state_dict() | {"_extra_state": extra})
    assert "\n" not in str(caught.value)
    assert torch.equal(model.get_extra_state(), before)


def test_a_model_on_the_meta_device_is_filled_by_a_state_dict():
    model = Denoiser()
    with torch.device("meta"):
        empty = Denoiser(0.7)
    assert empty.first.W.is_meta
    empty.load_state_dict(model.state_dict(), assign=True)
    assert_same(empty, model)


def test_safetensors_saves_and_loads_models(tmp_path):
    from safetensors.torch import load_file, load_model, save_file, save_model

    model, other, third = Denoiser(), Denoiser(0.7), Denoiser(0.7)
    save_model(model, tmp_path / "model.safetensors")
    load_model(other, tmp_path / "model.safetensors")
    assert_same(other, model)
    save_file(model.state_dict(), tmp_path / "state.safetensors")
    third.load_state_dict(load_file(tmp_path / "state.safetensors"))
    assert_same(third, model)


# --- groups ----------------------------------------------------------------------------------------------


def test_memories_inside_a_model_have_their_own_rates():
    model = Denoiser(0.02)
    optimizer = torch.optim.Adam(dt.param_groups(model, rest={"lr": 1e-3, "weight_decay": 0.1}))
    rates = dt.verify(optimizer)
    assert list(rates) == ["first.W", "first.b", "first.c", "second.W", "second.b", "second.c"]
    assert rates["second.W"] == pytest.approx(2 * rates["first.W"])
    rest = optimizer.param_groups[-1]
    assert (rest["name"], rest["lr"], rest["weight_decay"]) == ("rest", 1e-3, 0.1)
    assert {id(p) for p in rest["params"]} == {id(p) for p in model.before.parameters()}
    assert sum(len(g["params"]) for g in optimizer.param_groups) == len(list(model.parameters()))
    take_steps(model, optimizer, *batch())
    with pytest.raises(InputError, match=r"'before.weight' belongs to no group.*'before.bias'.*rest="):
        dt.param_groups(model)
    with pytest.raises(InputError, match="rest must be the options of a group"):
        dt.param_groups(model, rest={"params": []})


def test_frozen_parameters_are_in_no_group():
    model = Denoiser()
    model.first.requires_grad_(False)
    model.second.b.requires_grad_(False)
    model.before.bias.requires_grad_(False)
    groups = dt.param_groups(model, rest={"lr": 1e-3})
    assert [(g["name"], len(g["params"])) for g in groups] == [("second.W", 1), ("second.c", 1), ("rest", 1)]
    assert all(p.requires_grad for g in groups for p in g["params"])
    model.before.requires_grad_(False)
    assert [g["name"] for g in dt.param_groups(model, rest={"lr": 1e-3})] == ["second.W", "second.c"]


def test_muon_and_adam_share_a_model_with_a_rest():
    model = nn.Sequential(nn.Linear(SHAPE.N, SHAPE.N), memory(optimizer="muon"))
    rest = {"lr": 1e-3}
    muon = torch.optim.Muon(dt.param_groups(model, rest=rest, only="W"))
    adam = torch.optim.Adam(dt.param_groups(model, rest=rest, only=("b", "c", "rest")))
    assert [g["name"] for g in muon.param_groups + adam.param_groups] == ["1.W", "1.b", "1.c", "rest"]
    assert dt.verify(muon, adam)["1.W"] == pytest.approx(model[1].scales.eta_W)


def test_tied_and_foreign_memories():
    model = Denoiser()
    model.second.W = model.first.W  # other scales
    with pytest.raises(InputError, match=r"'second.W' is tied to a parameter with another role"):
        dt.param_groups(model, rest={})
    model.second = model.first
    assert [g["name"] for g in dt.param_groups(model, rest={})] == ["first.W", "first.b", "first.c", "rest"]
    bare = dt.DenseAM(np.zeros((3, 2)), np.zeros(3), np.zeros(2), 1.0, 1.0, dt.relu())
    with pytest.raises(InputError, match=r"scales are needed: the memory '0' has none"):
        dt.param_groups(nn.Sequential(bare))
    with pytest.raises(
        InputError, match="scales must fit the memory '1', which has 3 memories of 2 features"
    ):
        dt.param_groups(nn.Sequential(memory(), bare), memory().scales)
    scales = memory(0.5).scales
    assert dt.param_groups(nn.Sequential(memory()), scales)[0]["lr"] == scales.eta_W
    with pytest.raises(InputError, match="scales must be Scales"):
        dt.param_groups(memory(), 3)


def test_roles_and_memories_in_one_model():
    model = nn.Sequential(nn.Linear(SHAPE.N, SHAPE.K, bias=False), nn.Linear(SHAPE.K, SHAPE.N), memory())
    scales = memory(0.5).scales
    groups = dt.param_groups(model, scales, roles={"0.weight": "W"}, rest={"lr": 1e-3})
    assert [(g["name"], len(g["params"])) for g in groups] == [
        ("W", 1), ("2.W", 1), ("2.b", 1), ("2.c", 1), ("rest", 2)
    ]  # fmt: skip


# --- compile and export ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # inside of torch.compile
def test_a_compiled_memory_inside_a_model_keeps_its_names():
    model = Denoiser()
    expected = model(batch()[0])
    model.second = torch.compile(model.second, backend="aot_eager")
    assert torch.allclose(model(batch()[0]), expected, rtol=1e-5, atol=1e-6)
    assert "second.W" in dt.learning_rates(torch.optim.Adam(dt.param_groups(model, rest={})))
    assert all(isinstance(value, torch.Tensor) for value in model.state_dict().values())


@pytest.mark.parametrize("activation", ["relu", "softmax"])
def test_exported_memories_compute_the_same(activation, tmp_path):
    model = memory(activation=activation)
    X, _ = batch()
    program = torch.export.export(model, (X,), dynamic_shapes=({0: torch.export.Dim("samples", min=2)},))
    torch.export.save(program, tmp_path / "memory.pt2")
    again = torch.export.load(tmp_path / "memory.pt2").module()
    more, _ = batch(13, seed=3)
    assert torch.allclose(again(more), model(more), rtol=1e-5, atol=1e-6)


# --- accelerate and Lightning ----------------------------------------------------------------------------


def test_accelerate_saves_and_restores_a_training(tmp_path):
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed: make test-torch")
    accelerator = accelerate.Accelerator(cpu=True)
    model = Denoiser()
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(dt.param_groups(model, rest={"lr": 1e-3})))
    X, Y = batch()
    take_steps(model, optimizer, X, Y)
    rates = dt.verify(optimizer)  # the wrapper of accelerate
    accelerator.save_state(tmp_path / "state", safe_serialization=True)
    assert (tmp_path / "state" / "model.safetensors").exists()
    take_steps(model, optimizer, X, Y)
    after = model(X)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    model.first.s1, model.first.scales = 7.0, None
    accelerator.load_state(tmp_path / "state")
    assert model.first.scales == memory().scales
    assert model.first.s1 == memory().s1
    assert dt.verify(optimizer) == rates
    take_steps(model, optimizer, X, Y)
    assert torch.allclose(model(X), after, rtol=1e-5, atol=1e-6)
    accelerator.save_model(model, tmp_path / "model", safe_serialization=True)
    assert [p.name for p in (tmp_path / "model").iterdir()] == ["model.safetensors"]


def test_lightning_trains_and_restores(tmp_path):
    lightning = pytest.importorskip("lightning", reason="lightning is not installed: make test-torch")

    class Module(lightning.LightningModule):
        def __init__(self, eta0=0.02):
            super().__init__()
            self.save_hyperparameters()
            self.model = Denoiser(eta0)

        def training_step(self, pair, index):
            X, Y = pair
            return ((self.model(X) - Y) ** 2).sum() / (2 * len(X))

        def configure_optimizers(self):
            return torch.optim.Adam(dt.param_groups(self, rest={"lr": 1e-3}))

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*batch(16)), batch_size=8)
    module = Module()
    options = {"max_epochs": 2, "accelerator": "cpu", "logger": False, "enable_progress_bar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few workers, no logger
        trainer = lightning.Trainer(**options, enable_model_summary=False, default_root_dir=tmp_path)
        trainer.fit(module, loader)
        assert dt.verify(*trainer.optimizers)["model.first.W"] == memory().scales.eta_W
        trainer.save_checkpoint(tmp_path / "trained.ckpt")
        again = Module.load_from_checkpoint(tmp_path / "trained.ckpt", weights_only=True)
    assert_same(again.cpu().model, module.cpu().model)
    assert not torch.equal(module.model.first.W, memory().W)


def test_flax_trains_the_state_of_a_module():
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed: make test-torch")
    jnp = pytest.importorskip("jax.numpy")

    class Module(nnx.Module):
        def __init__(self):
            self.memories = nnx.Param(jnp.ones((SHAPE.K, SHAPE.N)))
            self.head = nnx.Linear(SHAPE.N, 2, rngs=nnx.Rngs(0))

        def __call__(self, x):
            return self.head(jnp.tanh(x @ self.memories[...].T) @ self.memories[...])

    import optax

    module, scales = Module(), memory(0.05).scales
    kernel = np.asarray(module.head.kernel[...])
    rule = dam.adam(scales).transformation(roles={"memories": "W"}, rest=optax.sgd(0.0))
    optimizer = nnx.Optimizer(module, rule, wrt=nnx.Param)
    gradient = nnx.grad(lambda m: m(0.1 * jnp.ones((3, SHAPE.N))).sum())(module)
    optimizer.update(module, gradient)
    assert np.allclose(np.abs(module.memories[...] - 1), scales.eta_W, rtol=1e-3)
    assert np.array_equal(module.head.kernel[...], kernel)


# --- many processes --------------------------------------------------------------------------------------

WORLD = 2


def in_processes(worker, path, *arguments):
    torch.multiprocessing.spawn(begun, args=(worker, str(path), *arguments), nprocs=WORLD, join=True)


def begun(rank, worker, path, *arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}/meeting", rank=rank, world_size=WORLD)
    try:
        worker(rank, path, *arguments)
    finally:
        dist.destroy_process_group()


def trained_alone():
    model = Denoiser()
    take_steps(model, torch.optim.Adam(dt.param_groups(model, rest={"lr": 1e-3})), *batch())
    return model


def of_rank(rank):
    X, Y = batch()
    half = slice(4 * rank, 4 * rank + 4)
    return X[half], Y[half]


def in_ddp(rank, path):
    wrapped = nn.parallel.DistributedDataParallel(Denoiser())
    optimizer = torch.optim.Adam(dt.param_groups(wrapped, rest={"lr": 1e-3}))
    take_steps(wrapped, optimizer, *of_rank(rank))
    torch.testing.assert_close(wrapped.module.first.W, trained_alone().first.W, rtol=1e-4, atol=1e-5)
    state = wrapped.state_dict()
    assert all(isinstance(value, torch.Tensor) for value in state.values())


def in_fsdp(rank, path):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.fsdp import fully_shard

    def sharded(eta0=0.02):
        model = Denoiser(eta0)
        fully_shard(model.first)  # the second is sharded with the whole
        return fully_shard(model)

    model, alone = sharded(), trained_alone()
    optimizer = torch.optim.Adam(dt.param_groups(model, rest={"lr": 1e-3}))
    assert list(dt.verify(optimizer))[:2] == ["first.W", "first.b"]
    take_steps(model, optimizer, *of_rank(rank))
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    torch.testing.assert_close(whole["first.W"], alone.first.W.detach(), rtol=1e-4, atol=1e-5)
    Denoiser(0.7).load_state_dict(whole)
    X, _ = of_rank(rank)  # samples of its own
    for name in ("first", "second"):
        own, expected = getattr(model, name), getattr(alone, name)
        recalled = own.recall(X, steps=3)
        torch.testing.assert_close(recalled.state, expected.recall(X, steps=3).state, rtol=1e-4, atol=1e-4)
        file = own.save(os.path.join(path, f"{name}.safetensors"))
        assert np.allclose(dam.DenseAM.load(file).W, expected.W.detach(), rtol=1e-4, atol=1e-5)
        assert np.allclose(dt.from_torch(own).W, expected.W.detach(), rtol=1e-4, atol=1e-5)
    dcp.save({"model": model.state_dict()}, checkpoint_id=os.path.join(path, "shards"))
    other = sharded(0.7)
    state = {"model": other.state_dict()}
    dcp.load(state, checkpoint_id=os.path.join(path, "shards"))
    other.load_state_dict(state["model"])
    assert other.first.scales == alone.first.scales
    torch.testing.assert_close(other.second.W.full_tensor(), model.second.W.full_tensor())


@pytest.mark.parametrize("worker", [in_ddp, in_fsdp])
def test_two_processes_train_a_model_with_memories(worker, tmp_path):
    in_processes(worker, tmp_path)
