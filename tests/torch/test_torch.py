"""The PyTorch bridge against the JAX model: the same numbers, the same rules, the same files."""

import copy
import dataclasses
import itertools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch import nn

import denseam as dam
import denseam.torch as dt
from denseam.analysis.causes import CheckCause
from denseam.ground.errors import InputError, UnboundedEnergyWarning
from denseam.studies.description import AXES
from denseam.training.gradient import gradient, gradient_of_batch, step
from denseam.training.matrices import batch_of
from tests import ROOT
from tests.models import FURTHER

LAGRANGIANS = {
    "identity": dam.identity(),
    "relu": dam.relu(),
    "relu2": dam.relu(power=2),
    "relu1.5": dam.relu(power=1.5),
    "tanh": dam.tanh(),
    "softmax": dam.softmax(),
    "softmax3": dam.softmax(beta=3.0),
}
DTYPES = {"float32": (np.float32, 1e-5), "float64": (np.float64, 1e-10)}
SHAPE = dam.Shape(N=12, K=30, P=60, B=15)


def scales_for(lagrangian, optimizer="adam", eta0=0.02, regime="proportional"):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dam.prescription(lagrangian, optimizer, regime).at(SHAPE, eta0=eta0)


def pair(lagrangian, optimizer="adam", centred=True, dtype=np.float64, eta0=0.02, bias="normal"):
    """A JAX model and the same in PyTorch."""
    scales = scales_for(lagrangian, optimizer, eta0)
    model = dam.DenseAM.create(scales, lagrangian, seed=1, centred=centred, bias_init=bias, dtype=dtype)
    return model, dt.to_torch(model)


def samples(n, dtype, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((n, SHAPE.N))
    return (Y + 0.5 * rng.standard_normal(Y.shape)).astype(dtype), Y.astype(dtype)


def close(a, b, tolerance):
    a, b = (np.asarray(v.detach() if isinstance(v, torch.Tensor) else v, np.float64) for v in (a, b))
    assert np.allclose(a, b, rtol=tolerance, atol=tolerance * max(1e-3, np.abs(b).max())), np.abs(a - b).max()


TRAINED = tuple(LAGRANGIANS)  # the others are known to training by σ alone
LAGRANGIANS |= {name: lagrangian for name, (lagrangian, _) in FURTHER.items()}
CASES = [
    row
    for row in itertools.product(LAGRANGIANS, (True, False), DTYPES)
    if row[0] not in FURTHER or row[2] == "float64"
]


@pytest.mark.parametrize(("name", "centred", "precision"), CASES)
def test_update_energy_and_gradient_are_those_of_jax(name, centred, precision):
    dtype, tolerance = DTYPES[precision]
    ours, theirs = pair(LAGRANGIANS[name], centred=centred, dtype=dtype)
    X, Y = samples(7, dtype)
    x = torch.from_numpy(X)
    close(theirs(x), ours.update(X), tolerance)
    close(theirs.hidden(x), ours.hidden(jnp.asarray(X)), tolerance)
    close(theirs.energy(x), ours.energy(X), tolerance)
    h = np.random.default_rng(3).standard_normal((7, SHAPE.K)).astype(dtype)
    close(theirs.energy(x, torch.from_numpy(h)), ours.energy(X, h), tolerance)
    L, grads = gradient(ours, jnp.asarray(X), jnp.asarray(Y))
    R = theirs(x) - torch.from_numpy(Y)
    loss = (R * R).sum() / (2 * len(X))
    loss.backward()
    close(loss, L, tolerance)
    for p, g in zip((theirs.W, theirs.b, theirs.c), grads, strict=True):
        close(p.grad, g, tolerance)


OPTIMIZERS = {
    "sgd": (lambda s: dam.sgd(s), lambda g: torch.optim.SGD(g)),
    "momentum": (lambda s: dam.sgd(s, momentum=0.9), lambda g: torch.optim.SGD(g, momentum=0.9)),
    "adam": (lambda s: dam.adam(s), lambda g: torch.optim.Adam(g)),
    "adamw": (lambda s: dam.adamw(s, decay=0.1), lambda g: torch.optim.AdamW(g)),
    "rmsprop": (
        lambda s: dam.scaled(optax.rmsprop(1.0, decay=0.99, eps=1e-8, eps_in_sqrt=False), s),
        lambda g: torch.optim.RMSprop(g),
    ),
}


class Twin(torch.optim.Optimizer):
    """An update of our own in PyTorch, written from the equations: M ← μM + ∇ and what is made of M and ∇."""

    def __init__(self, groups, update, keep):
        super().__init__(groups, {})
        self.update, self.keep = update, keep

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                M = self.state[p].get("M", torch.zeros_like(p))
                after = self.keep * M + p.grad
                update = group["factor"] * self.update(M, after, p.grad) + group.get("weight_decay", 0.0) * p
                p -= group["lr"] * update
                self.state[p]["M"] = after


def newton_schulz(M):
    X = M / M.norm()
    for _ in range(5):
        X = 3.4445 * X - 4.7750 * (X @ X.T) @ X + 2.0315 * (X @ X.T) @ (X @ X.T) @ X
    return X


class Muon(torch.optim.Optimizer):
    """The twin for W, Adam for the biases."""

    def __init__(self, groups):
        super().__init__(groups, {})
        self.of_W = Twin(groups[:1], lambda M, new, g: newton_schulz(0.95 * new + g), 0.95)
        self.of_biases = torch.optim.Adam(groups[1:])

    def step(self):
        self.of_W.step()
        self.of_biases.step()


# M of Lion is kept without its factor (1 − β2), so that β1 M + (1 − β1)∇ has it.
OPTIMIZERS |= {
    "nesterov": (
        lambda s: dam.sgd(s, momentum=0.9, nesterov=True),
        lambda g: torch.optim.SGD(g, momentum=0.9, nesterov=True),
    ),
    "lion": (
        lambda s: dam.lion(s),
        lambda g: Twin(g, lambda M, new, g: torch.sign(0.9 * 0.01 * M + 0.1 * g), 0.99),
    ),
    "sign": (lambda s: dam.sign(s), lambda g: Twin(g, lambda M, new, g: torch.sign(new), 0.9)),
    "muon": (lambda s: dam.muon(s), Muon),
}
#: The scales that each needs; the others are Adam's.
MADE_FOR = {"sgd": "sgd", "momentum": "sgd", "nesterov": "sgd", "adamw": "adamw", "lion": "lion"}
MADE_FOR |= {"sign": "sign", "muon": "muon"}


# Every activation with SGD and Adam; the other optimizers once, since they share the rest.
TRAINED = [
    *itertools.product(TRAINED, ("sgd", "adam"), (True, False), DTYPES),
    *itertools.product(["relu"], ("momentum", "nesterov", "adamw", "rmsprop"), (True,), DTYPES),
    # In float32 a sign near zero, or a small singular value, is another one.
    *itertools.product(["relu", "tanh"], ("lion", "sign", "muon"), (True,), ["float64"]),
]


@pytest.mark.parametrize(("name", "optimizer", "centred", "precision"), TRAINED)
def test_fifty_steps_of_training_are_those_of_jax(name, optimizer, centred, precision):
    dtype, tolerance = DTYPES[precision]
    ours, theirs = pair(
        LAGRANGIANS[name], MADE_FOR.get(optimizer, "adam"), centred, dtype, eta0=0.002, bias="zero"
    )
    scales = ours.scales
    make_ours, make_theirs = OPTIMIZERS[optimizer]
    groups = dt.param_groups(theirs, decay=0.1 if optimizer == "adamw" else None)
    compare(ours, make_ours(scales), theirs, make_theirs(groups), dtype, tolerance)


def compare(ours, rule, theirs, opt, dtype, tolerance, after_step=lambda: None):
    """Train both models for fifty steps on the same samples."""
    bare = jax.tree.map(lambda v: v, ours)
    state = rule.init(bare.parameters)
    advance = jax.jit(lambda m, s, X, Y: step(m, rule, s, X, Y))
    for t in range(50):
        X, Y = samples(SHAPE.B, dtype, seed=t)
        bare, state, error = advance(bare, state, jnp.asarray(X), jnp.asarray(Y))
        opt.zero_grad()
        R = theirs(torch.from_numpy(X)) - torch.from_numpy(Y)
        loss = (R * R).sum() / (2 * len(X))
        loss.backward()
        opt.step()
        after_step()
        close(2 * loss / SHAPE.N, error, tolerance)
    for a, b in zip((theirs.W, theirs.b, theirs.c), bare.parameters, strict=True):
        assert np.abs(a.detach().numpy() - np.asarray(b)).max() <= tolerance * max(1, np.abs(b).max())


#: Each schedule with SGD, and each optimizer with one of them. PyTorch's SGD sends a decay through the momentum.
TIMETABLES = {
    "constant": dam.Timetable("constant", 50, warmup=0.3),
    "cosine": dam.Timetable("cosine", 50, warmup=0.1),
    "linear": dam.Timetable("linear", 50),
    "wsd": dam.Timetable("wsd", 50, warmup=0.1, cooldown=0.4),
}
SCHEDULED = [("sgd", name) for name in TIMETABLES]
SCHEDULED += list(zip((o for o in OPTIMIZERS if o != "sgd"), itertools.cycle(TIMETABLES), strict=False))


@pytest.mark.parametrize(("optimizer", "schedule"), SCHEDULED)
def test_fifty_steps_with_a_schedule_and_a_decay_are_those_of_jax(optimizer, schedule):
    ours, theirs = pair(dam.relu(), MADE_FOR.get(optimizer, "adam"), eta0=0.002, bias="zero")
    _, make_theirs = OPTIMIZERS[optimizer]
    timetable, options = TIMETABLES[schedule], {}
    if optimizer not in ("adam", "rmsprop", "momentum", "nesterov"):
        options["decay"] = ours.scales.decay(0.5, 50)
    make_ours = {
        "momentum": lambda **o: dam.sgd(ours.scales, momentum=0.9, **o),
        "nesterov": lambda **o: dam.sgd(ours.scales, momentum=0.9, nesterov=True, **o),
        "rmsprop": lambda **o: dam.scaled(
            optax.rmsprop(1.0, decay=0.99, eps=1e-8, eps_in_sqrt=False), ours.scales, **o
        ),
    }.get(optimizer, lambda **o: getattr(dam, optimizer)(ours.scales, **o))
    opt = make_theirs(dt.param_groups(theirs, **options))
    parts = [opt.of_W, opt.of_biases] if isinstance(opt, Muon) else [opt]
    schedulers = [torch.optim.lr_scheduler.LambdaLR(part, timetable) for part in parts]
    if options:
        share = dt.decays(*parts)["W"]
        assert share == pytest.approx(timetable(0) / (0.5 * 50))
        assert dt.learning_rates(*parts)["W"] == pytest.approx(timetable(0) * ours.scales.eta_W)

    def after_step():
        for scheduler in schedulers:
            scheduler.step()

    compare(ours, make_ours(schedule=timetable, **options), theirs, opt, np.float64, 1e-10, after_step)


@pytest.mark.parametrize("name", LAGRANGIANS)
@pytest.mark.parametrize("masked", [False, True])
def test_recall_is_that_of_jax(name, masked):
    ours, theirs = pair(LAGRANGIANS[name], bias="zero")
    X, _ = samples(6, np.float64)
    mask = np.random.default_rng(1).random(X.shape) < 0.4 if masked else None
    a = ours.recall(X, 40, 1e-3, damping=0.7, clamp=mask)
    b = theirs.recall(
        torch.from_numpy(X), 40, 1e-3, damping=0.7, clamp=None if mask is None else torch.from_numpy(mask)
    )
    close(b.state, a.state, 1e-9)
    close(b.energies, a.energies, 1e-9)
    assert np.array_equal(b.steps, a.steps)
    assert np.array_equal(b.converged, a.converged)
    assert float((b.energies.diff(dim=1)).max()) <= 1e-10
    one = theirs.recall(torch.from_numpy(X[0]), 5)
    assert one.state.shape == (SHAPE.N,)
    assert one.energies.shape == (6,)


# --- files and copies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAGRANGIANS)
def test_checkpoints_are_shared(name, tmp_path):
    ours, theirs = pair(LAGRANGIANS[name], dtype=np.float32)
    ours.save(tmp_path / "jax.safetensors")
    theirs.save(tmp_path / "torch.safetensors")
    X, _ = samples(3, np.float32)
    from_jax = dt.DenseAM.load(tmp_path / "jax.safetensors")
    from_torch = dam.DenseAM.load(tmp_path / "torch.safetensors")
    close(from_jax(torch.from_numpy(X)), ours.update(X), 1e-5)
    close(from_torch.update(X), theirs(torch.from_numpy(X)), 1e-5)
    assert from_jax.scales == from_torch.scales == ours.scales
    assert from_jax.activation == theirs.activation
    back = dt.from_torch(theirs)
    assert np.array_equal(back.W, ours.W)
    assert back.scales == ours.scales
    assert back.activation == ours.activation


def test_a_memory_with_its_data_is_read_and_coarse_ones_too(tmp_path):
    ours, _ = pair(dam.relu(), dtype=np.float32)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((40, 12)))
    encoder = dam.data.source(str(tmp_path / "x.npy")).encoder(12)
    dam.Memory(ours, encoder, 0.5).save(tmp_path / "memory.safetensors")
    assert np.array_equal(dt.DenseAM.load(tmp_path / "memory.safetensors").W.detach(), ours.W)
    coarse = ours.coarse_grain(np.arange(12) // 3)
    X = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    close(dt.to_torch(coarse)(torch.from_numpy(X)), coarse.update(X), 1e-5)
    close(dt.to_torch(coarse).energy(torch.from_numpy(X)), coarse.energy(X), 1e-5)


def test_damaged_and_foreign_files_are_one_line(tmp_path):
    (tmp_path / "x").write_bytes(b"nothing")
    for path in ("x", "none"):
        with pytest.raises(InputError) as caught:
            dt.DenseAM.load(tmp_path / path)
        assert "\n" not in str(caught.value)


def same(a, b):
    x = torch.from_numpy(samples(3, np.float64)[0])
    assert torch.equal(a(x), b(x))
    assert (a.scales, a.activation, a.s1, a.s2, a.centred) == (b.scales, b.activation, b.s1, b.s2, b.centred)
    assert dt.learning_rates(torch.optim.Adam(dt.param_groups(a))) == dt.learning_rates(
        torch.optim.Adam(dt.param_groups(b))
    )


def test_copies_keep_the_scales(tmp_path):
    _, model = pair(dam.softmax(beta=2.0))
    same(copy.deepcopy(model), model)
    same(pickle.loads(pickle.dumps(model)), model)
    other = dt.DenseAM.create(scales_for(dam.softmax(), eta0=7.0), dt.softmax(), dtype=torch.float64)
    torch.save(model.state_dict(), tmp_path / "state.pt")
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    same(other, model)


def test_compiled_and_functional_models_are_the_same():
    _, model = pair(dam.relu())
    x = torch.from_numpy(samples(5, np.float64)[0])
    compiled = torch.compile(model, backend="aot_eager")
    assert torch.allclose(compiled(x), model(x))
    assert dt.learning_rates(torch.optim.Adam(dt.param_groups(compiled)))["W"] == model.scales.eta_W
    parameters = dict(model.named_parameters())
    called = torch.func.functional_call(model, parameters, (x,))
    assert torch.equal(called, model(x))
    jacobian = torch.func.jacrev(lambda v: torch.func.functional_call(model, parameters, (v,)))(x[0])
    numeric = jax.jacobian(dt.from_torch(model).update)(jnp.asarray(x[0]))
    close(jacobian, numeric, 1e-10)
    assert torch.allclose(torch.func.vmap(model)(x), model(x))


def test_the_energy_gradient_is_the_step():
    for lagrangian in LAGRANGIANS.values():
        _, model = pair(lagrangian)
        x = torch.from_numpy(samples(4, np.float64)[0]).requires_grad_()
        (slope,) = torch.autograd.grad(model.energy(x).sum(), x)
        expected = (1 - torch.tanh(x) ** 2) * (x - model(x)) / model.s2
        assert torch.allclose(slope, expected, rtol=1e-9, atol=1e-9)


def small():
    return dt.DenseAM.create(scales_for("relu"), dt.relu(), dtype=torch.float64)


def ddp_worker(rank, path, expected):
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    model = small()
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(dt.param_groups(wrapped))
    X, Y = samples(8, np.float64)
    half = slice(4 * rank, 4 * rank + 4)
    for _ in range(5):
        optimizer.zero_grad()
        R = wrapped(torch.from_numpy(X[half])) - torch.from_numpy(Y[half])
        ((R * R).sum() / (2 * 4)).backward()
        optimizer.step()
    assert np.allclose(model.W.detach(), expected, rtol=1e-9, atol=1e-9)
    assert wrapped.module.scales == model.scales
    dist.destroy_process_group()


def test_two_processes_train_one_model(tmp_path):
    model = small()
    optimizer = torch.optim.Adam(dt.param_groups(model))
    X, Y = samples(8, np.float64)
    for _ in range(5):
        optimizer.zero_grad()
        R = model(torch.from_numpy(X)) - torch.from_numpy(Y)
        ((R * R).sum() / (2 * 8)).backward()
        optimizer.step()
    torch.multiprocessing.spawn(
        ddp_worker, args=(str(tmp_path / "meeting"), model.W.detach().numpy()), nprocs=2, join=True
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu():
    _, model = pair(dam.relu())
    x = torch.from_numpy(samples(5, np.float64)[0])
    there = copy.deepcopy(model).cuda()
    assert torch.allclose(there(x.cuda()).cpu(), model(x))
    assert there.scales == model.scales


# --- parameter groups ------------------------------------------------------------------------------------


def test_groups_have_the_rates_and_a_second_call_changes_nothing():
    scales = scales_for(dam.relu(), "sgd", eta0=0.03)
    model = dt.DenseAM.create(scales, dt.relu())
    first, second = dt.param_groups(model), dt.param_groups(model)
    assert [(g["name"], g["lr"]) for g in first] == [
        ("W", scales.eta_W),
        ("b", scales.eta_b),
        ("c", scales.eta_c),
    ]
    assert [(g["name"], g["lr"], list(map(id, g["params"]))) for g in first] == [
        (g["name"], g["lr"], list(map(id, g["params"]))) for g in second
    ]
    assert sum(len(g["params"]) for g in first) == len(list(model.parameters()))


def test_groups_have_the_averages_of_the_batch():
    shape = dam.Shape(N=8, K=16, P=64, B=4)
    adam = dam.prescription("relu", "adam", "batch-only").at(shape, eta0=0.03)
    model = dt.DenseAM.create(adam, dt.relu())
    assert [g["betas"] for g in dt.param_groups(model)] == [pytest.approx((0.95, 0.9995))] * 3
    muon = dam.prescription("relu", "muon", "batch-only").at(shape, eta0=0.03)
    groups = {g["name"]: g for g in dt.param_groups(model, muon)}
    assert groups["W"]["momentum"] == pytest.approx(0.975)
    assert groups["b"]["betas"] == pytest.approx((0.95, 0.9995))
    plain = dam.prescription("relu", "adam").at(shape, eta0=0.03)
    assert not any("betas" in g for g in dt.param_groups(model, plain)), "PyTorch's own, or the user's"


def test_lengths_can_be_swept():
    regime = dam.Epochs(4, 8, 16, 4)
    rule = dam.prescription("relu", "sgd", regime)
    records = dt.sweep(
        lambda shape, seed: dt.DenseAM.create(rule.at(shape, eta0=0.1), dt.relu(), seed=seed),
        lambda model, shape, eta0: torch.optim.SGD(dt.param_groups(model, rule.at(shape, eta0=eta0))),
        [0.01, 0.1],
        regime=regime,
        scales=(1, 3),
        seeds=1,
    )
    assert [(r["scale"], r["epochs"], len(r["loss"])) for r in records] == [
        (1, 1, 1),
        (1, 1, 1),
        (3, 3, 3),
        (3, 3, 3),
    ]


def test_rescaled_scales_train_the_same():
    """The abc symmetry, with Adam's ε and AdamW's decay."""
    scales = scales_for(dam.relu(), "adam", eta0=0.05)
    other = scales.rescaled(3.0)
    models = [dt.DenseAM.create(s, dt.relu(), dtype=torch.float64) for s in (scales, other)]
    optimizers = [torch.optim.AdamW(dt.param_groups(m, epsilon=1e-3, decay=0.1)) for m in models]
    for t in range(20):
        X, Y = (torch.from_numpy(v) for v in samples(10, np.float64, seed=t))
        for m, o in zip(models, optimizers, strict=True):
            o.zero_grad()
            R = m(X) - Y
            ((R * R).sum() / 20).backward()
            o.step()
    assert torch.allclose(models[1].W, 3.0 * models[0].W, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "schedule",
    [
        lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.5),
        lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 50),
        lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.1, 1.0, 10),
        lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
        lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda t: 1 / (1 + t)),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, [g["lr"] for g in o.param_groups], 30),
    ],
)
def test_schedulers_keep_the_ratios(schedule):
    scales = scales_for(dam.relu(), "sgd")
    model = dt.DenseAM.create(scales, dt.relu())
    optimizer = torch.optim.SGD(dt.param_groups(model))
    scheduler = schedule(optimizer)
    wanted = scales.eta_W / scales.eta_b
    for _ in range(20):
        rates = dt.learning_rates(optimizer)
        assert rates["W"] / rates["b"] == pytest.approx(wanted)
        assert rates["b"] == pytest.approx(rates["c"])
        optimizer.step()
        scheduler.step()


def trained_by_muon(steps, **options):
    """W before and after training by `torch.optim.Muon` and Adam, and after the same in JAX."""
    ours, theirs = pair(dam.relu(), "muon", eta0=0.002, bias="zero")
    muon = torch.optim.Muon(dt.param_groups(theirs, only="W", **options))
    adam = torch.optim.Adam(dt.param_groups(theirs, only="bc", **options))
    rates = dt.verify(muon, adam)
    assert rates["W"] == pytest.approx(ours.scales.eta_W)
    rule = dam.muon(ours.scales, **options)
    state, begin = rule.init(ours.parameters), np.asarray(ours.W)
    advance = jax.jit(lambda m, s, X, Y: step(m, rule, s, X, Y))
    for t in range(steps):
        X, Y = samples(SHAPE.B, np.float64, seed=t)
        ours, state, _ = advance(ours, state, jnp.asarray(X), jnp.asarray(Y))
        theirs.zero_grad()
        R = theirs(torch.from_numpy(X)) - torch.from_numpy(Y)
        ((R * R).sum() / (2 * len(X))).backward()
        muon.step()
        adam.step()
    return begin, theirs.W.detach().numpy(), np.asarray(ours.W)


@pytest.mark.parametrize("options", [{}, {"decay": 3.0}])
def test_muon_of_pytorch_trains_as_ours_but_for_its_bfloat16(options):
    """Its own factor, here √(30/12), and its own decay of 0.1 are neutralised."""
    begin, theirs, ours = trained_by_muon(50, **options)
    assert np.linalg.norm(theirs - ours) < 0.02 * np.linalg.norm(ours - begin)


def test_what_is_not_known_is_refused_or_said_to_be_like_another():
    model = dt.DenseAM.create(scales_for(dam.relu(), "adam"), dt.relu())
    for make in (torch.optim.Adadelta, torch.optim.ASGD, lambda g: Twin(g, None, 0.9)):
        with pytest.raises(InputError, match=r"optimizer must be 'SGD', 'Adam'.*like='adam'") as caught:
            dt.verify(make(dt.param_groups(model)))
        assert "\n" not in str(caught.value)
        assert dt.verify(make(dt.param_groups(model)), like="lion")["W"] == model.scales.eta_W
        with pytest.raises(InputError, match=r"made for 'adam', but \w+ follows another rule"):
            dt.verify(make(dt.param_groups(model)), like="muon")
    with pytest.raises(InputError, match="like must be 'sgd', 'adam'"):
        dt.verify(torch.optim.Adadelta(dt.param_groups(model)), like="adagrad")
    with pytest.raises(InputError, match="made for 'adam', but Muon follows another rule"):
        dt.verify(torch.optim.Muon(dt.param_groups(model, only="W")))
    with pytest.raises(InputError, match=r"only must be roles .* got 'd'"):
        dt.param_groups(model, only="Wd")


def test_a_decay_that_is_normalised_away_is_refused():
    model = dt.DenseAM.create(scales_for(dam.relu(), "adam"), dt.relu())
    with pytest.raises(InputError, match="weight_decay: Adam normalises it away"):
        dt.verify(torch.optim.Adam(dt.param_groups(model, decay=0.1)))
    dt.verify(torch.optim.AdamW(dt.param_groups(model, decay=0.1)))
    made = dt.DenseAM.create(scales_for(dam.relu(), "adamw"), dt.relu())
    groups = torch.optim.AdamW(dt.param_groups(made)).param_groups
    assert [g["weight_decay"] for g in groups] == [1e-4, 0.0, 0.0]
    sgd = dt.DenseAM.create(scales_for(dam.relu(), "sgd"), dt.relu())
    assert dt.param_groups(sgd, decay=0.3)[0]["weight_decay"] == pytest.approx(0.3 / SHAPE.K)


def test_a_decay_that_does_not_scale_with_size_is_refused_under_sgd_and_muon():
    model = dt.DenseAM.create(scales_for(dam.relu(), "sgd"), dt.relu())
    dt.verify(torch.optim.SGD(dt.param_groups(model, decay=0.3)))
    for groups in (dt.param_groups(model), dt.param_groups(model, decay=0.3)):
        changed = torch.optim.SGD(groups, weight_decay=0.1)
        changed.param_groups[0]["weight_decay"] = 0.1
        with pytest.raises(
            InputError, match=r"weight_decay of W must be .*that of its group, got 0.1"
        ) as caught:
            dt.verify(changed)
        assert "\n" not in str(caught.value)
    muon = dt.DenseAM.create(scales_for(dam.relu(), "muon"), dt.relu())
    groups = dt.param_groups(muon, only="W", decay=0.3)
    dt.verify(torch.optim.Muon(groups))
    groups[0]["weight_decay"] = 0.3
    with pytest.raises(InputError, match="weight_decay of W must be"):
        dt.verify(torch.optim.Muon(groups))


def test_the_decay_of_sgd_goes_through_the_momentum():
    """So that W shrinks by 1/(1 − μ) times the share of the group, as `decays` says."""
    model = dt.DenseAM.create(scales_for(dam.relu(), "sgd"), dt.relu(), dtype=torch.float64)
    optimizer = torch.optim.SGD(dt.param_groups(model, decay=model.scales.decay(20.0, 100)), momentum=0.9)
    sizes = []
    for _ in range(200):
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        sizes.append(float(model.W.detach().norm()))
    assert dt.decays(optimizer) == pytest.approx({"W": 10 / 2000, "b": 0.0, "c": 0.0})
    assert 1 - sizes[-1] / sizes[-2] == pytest.approx(dt.decays(optimizer)["W"], rel=0.05)


def test_verify_sees_what_was_broken():
    model = dt.DenseAM.create(scales_for(dam.relu(), "sgd"), dt.relu())
    good = torch.optim.SGD(dt.param_groups(model))
    assert dt.verify(good) == dt.learning_rates(good)
    halving = torch.optim.lr_scheduler.StepLR(good, 1, 0.5)
    good.step()
    halving.step()
    assert dt.verify(good)["W"] == pytest.approx(model.scales.eta_W / 2)
    with pytest.raises(InputError, match=r"made for 'sgd', but Adam follows"):
        dt.verify(torch.optim.Adam(dt.param_groups(model)))
    flattened = torch.optim.SGD(dt.param_groups(model))
    torch.optim.lr_scheduler.OneCycleLR(flattened, 0.1, 30)
    with pytest.raises(InputError, match="lost their ratios"):
        dt.verify(flattened)
    with pytest.raises(InputError, match="param_groups"):
        dt.verify(torch.optim.SGD(model.parameters(), 0.1))
    restored = torch.optim.SGD(dt.param_groups(model))
    restored.load_state_dict(good.state_dict())
    assert dt.verify(restored) == dt.verify(good)


class Hopfield(nn.Module):
    """Somebody's own layer: one matrix, used twice."""

    def __init__(self, N, K):
        super().__init__()
        self.lookup = nn.Linear(N, K)
        self.readout = nn.Linear(K, N)
        self.readout.weight = nn.Parameter(self.lookup.weight.T)  # not tied: another parameter

    def forward(self, x):
        return self.readout(torch.relu(self.lookup(torch.tanh(x))))


class Tied(nn.Module):
    def __init__(self, N, K):
        super().__init__()
        self.lookup = nn.Parameter(torch.randn(K, N))
        self.same = self.lookup
        self.bias, self.offset = nn.Parameter(torch.zeros(K)), nn.Parameter(torch.zeros(N))


ROLES = {"lookup": "W", "bias": "b", "offset": "c"}


def test_models_of_ones_own_need_a_role_for_every_parameter():
    scales = scales_for(dam.relu())
    model = Tied(SHAPE.N, SHAPE.K)
    groups = dt.param_groups(model, scales, roles=ROLES)
    assert [len(g["params"]) for g in groups] == [1, 1, 1]  # the tied matrix once
    assert [len(g["params"]) for g in dt.param_groups(model, scales, roles={**ROLES, "same": "W"})] == [
        1,
        1,
        1,
    ]
    frozen = Tied(SHAPE.N, SHAPE.K)
    frozen.bias.requires_grad_(False)
    assert [g["name"] for g in dt.param_groups(frozen, scales, roles={"lookup": "W", "offset": "c"})] == [
        "W",
        "c",
    ]
    for roles, words in (
        ({"lookup": "W", "bias": "b"}, "parameter 'offset' belongs to no group"),
        ({**ROLES, "nothing": "W"}, "no parameter 'nothing'"),
        ({**ROLES, "bias": "beta"}, "must be 'W', 'b' or 'c'"),
        ({**ROLES, "same": "b"}, "tied to a parameter with another role"),
    ):
        with pytest.raises(InputError, match=words):
            dt.param_groups(model, scales, roles=roles)
    with pytest.raises(InputError, match="scales are needed"):
        dt.param_groups(model, roles=ROLES)
    with pytest.raises(InputError, match="belongs to no group"):
        dt.param_groups(Hopfield(4, 8), scales)


# --- the check -------------------------------------------------------------------------------------------


def prescribed(optimizer, eta0):
    def model(shape, seed):
        scales = dam.prescription("relu", optimizer).at(shape, eta0=eta0)
        return dt.DenseAM.create(scales, dt.relu(), seed=seed)

    return model


class Default(nn.Module):
    """The same model as PyTorch would start it: no multipliers, W uniform in ±1/√N."""

    def __init__(self, shape, seed):
        super().__init__()
        torch.manual_seed(seed)
        layer = nn.Linear(shape.N, shape.K)
        self.W, self.b, self.c = (
            layer.weight,
            nn.Parameter(torch.zeros(shape.K)),
            nn.Parameter(torch.zeros(shape.N)),
        )

    def hidden(self, x):
        z = torch.tanh(x) @ self.W.T + self.b
        return z - z.mean(-1, keepdim=True)

    def forward(self, x):
        s = 2**0.5 * torch.relu(self.hidden(x))
        return (s - s.mean(-1, keepdim=True)) @ self.W + self.c


def test_the_check_passes_on_the_prescription():
    for optimizer, eta0, make in (("adam", 0.03, torch.optim.Adam), ("sgd", 0.1, torch.optim.SGD)):
        found = dt.check(
            prescribed(optimizer, eta0),
            lambda m, s, make=make: make(dt.param_groups(m)),
            scales=(32, 64, 128),
        )
        assert found.status == "PASS", str(found)


def test_the_check_names_what_is_wrong_with_the_defaults():
    found = dt.check(
        Default, lambda m, s: torch.optim.Adam(m.parameters(), lr=0.003), scales=(32, 64, 128), name="default"
    )
    assert found.status == "FAIL", str(found)
    assert found.cause is CheckCause.LEARNING_RATE
    assert "N^-0.5" in found.reason or "N^-0.4" in found.reason


def test_a_sweep_and_its_verdict(tmp_path):
    from denseam.studies.store import Store

    def optimizer(model, shape, eta0):
        return torch.optim.Adam(dt.param_groups(model, dam.prescription("relu", "adam").at(shape, eta0=eta0)))

    grid = dam.logspace(0.01, 0.316227766017, 7)
    records = dt.sweep(prescribed("adam", 1.0), optimizer, grid, scales=(32, 64, 128), epochs=8)
    assert len(records) == 63
    (verdict,) = dam.verdict(records, tolerance=0.05)  # three seeds of so short a training tell no more
    assert verdict.status == "TRANSFERS", str(verdict)
    wrong = dt.sweep(
        Default, lambda m, s, e: torch.optim.Adam(m.parameters(), lr=e), dam.logspace(3e-4, 0.1, 6),
        scales=(16, 32, 64), epochs=8, name="default",
    )  # fmt: skip
    (verdict,) = dam.verdict(wrong)
    assert verdict.drift < -0.08
    store = Store(tmp_path)  # the rows are as those of a sweep
    store.prepare()
    store.write(records)
    assert len(store.read()) == 63


def test_a_sweep_judges_runs_against_the_untrained_model():
    """On the last epoch's batches, as every training does; so it is the same for all learning rates."""

    def optimizer(model, shape, eta0):
        return torch.optim.SGD(dt.param_groups(model, dam.prescription("relu", "sgd").at(shape, eta0=eta0)))

    slow, blown = dt.sweep(prescribed("sgd", 1.0), optimizer, (1e-4, 1e6), scales=(16,), seeds=1, epochs=3)
    assert {axis: slow[axis] for axis in AXES} == {a: p.default for a, p in AXES.items()} | {"eta0": 1e-4}
    assert slow["initial_mse"] == blown["initial_mse"]
    assert slow["final_mse"] == pytest.approx(slow["initial_mse"], rel=0.05)
    assert (slow["status"], slow["diverged_at"]) == ("finished", None)
    assert blown["status"] == "diverged"
    assert 0 < blown["diverged_at"] < 30
    assert blown["final_mse"] == float("inf")


def test_the_page_on_pytorch_runs_and_says_what_it_says(tmp_path, monkeypatch, capsys):
    import re

    page = (ROOT / "docs" / "torch.md").read_text()
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict = {}
    said = []
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(block, names)
        said.append(capsys.readouterr().out)
    trained, inside = said
    assert "{'1.W': 0.03, '1.b': 0.03, '1.c': 0.03}" in inside
    assert float(re.search(r"MSE ([\d.]+)", trained)[1]) < 0.6


def test_the_example_of_the_readme_runs():
    import re

    readme = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"```py\n(.*?)```", readme, re.S)
    names = {"torch": torch, "scales": scales_for("relu")}
    exec(block, names)
    assert dt.learning_rates(names["optimizer"])["W"] == names["scales"].eta_W


def test_bad_arguments_are_one_line():
    scales = scales_for(dam.relu())
    model = dt.DenseAM.create(scales, dt.relu())
    for make, words in (
        (lambda: dt.relu(power=0.5), "power"),
        (lambda: dt.softmax(beta=0), "beta"),
        (lambda: dt.DenseAM.create(scales, dt.softmax()), "family"),
        (lambda: dt.DenseAM.create(scales, dt.relu(), bias_init="one"), "bias_init"),
        (lambda: dt.DenseAM(np.zeros(3), np.zeros(3), np.zeros(3), 1, 1, dt.relu()), "W must be a matrix"),
        (
            lambda: dt.DenseAM(np.zeros((3, 2)), np.zeros(2), np.zeros(2), 1, 1, dt.relu()),
            "b must have shape",
        ),
        (lambda: model(torch.zeros(5)), "12 features"),
        (lambda: model.recall(torch.zeros(12), steps=0), "steps"),
        (lambda: model.recall(torch.zeros(12), damping=2.0), "damping"),
        (lambda: model.recall(torch.zeros(12), clamp=torch.zeros(12)), "clamp"),
        (lambda: dt.check(Default, None, scales=(16,)), "scales must be two or more"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            make()
        assert "\n" not in str(caught.value)
    with pytest.warns(UnboundedEnergyWarning):
        dt.DenseAM.create(scales, dt.relu(power=2), features=dt.identity())


def test_no_two_uses_of_a_seed_draw_the_same_numbers():
    from denseam.torch.scaling_check import _batches

    scales = scales_for("relu")
    model = dt.DenseAM.create(scales, dt.relu(), seed=0, bias_init="normal")
    X, Y = next(_batches(SHAPE, 0, 0.5, model.W))
    torch.manual_seed(0)
    plain = torch.randn(SHAPE.P, SHAPE.N)
    drawn = [model.W, model.b, model.c, Y, X - Y, plain]
    for a, b in itertools.combinations(drawn, 2):
        assert not set(a.detach().flatten().tolist()) & set(b.detach().flatten().tolist())


def test_seeds_and_printing():
    scales = scales_for(dam.relu())
    a, b, c = (dt.DenseAM.create(scales, dt.relu(), seed=s) for s in (0, 0, 1))
    assert torch.equal(a.W, b.W)
    assert not torch.equal(a.W, c.W)
    assert "N=12, K=30" in repr(a)


# --- steps of recall -----------------------------------------------------------------------------------


@pytest.mark.parametrize("masked", [True, False])
def test_the_gradient_after_a_burn_in_is_that_of_jax(masked):
    shape = dam.Shape(N=12, K=30, P=60, B=15, T=3)
    scales = dam.prescription("relu", "adam").at(shape, eta0=0.02, tau=0.8)
    model = dam.DenseAM.create(scales, dam.relu(), seed=1, bias_init="normal", dtype=jnp.float64)
    model = dataclasses.replace(model, steps=dataclasses.replace(model.steps, burn_in=5.0))
    mine = dt.to_torch(model)
    X, Y = samples(15, np.float64)
    known = np.random.default_rng(3).random(X.shape) < 0.4 if masked else np.zeros(X.shape, bool)
    batch = batch_of(model, *map(jnp.asarray, (X, Y, known)))._replace(delay=jnp.full((15, 1), 4.5 / 6))
    L, grads = gradient_of_batch(model, batch)
    hidden = torch.tensor(~known, dtype=torch.float64)
    end = mine.through(torch.tensor(X), torch.tensor(known), burn_in=4)
    loss = (hidden * (end - torch.tensor(Y)) ** 2).sum() / (2 * 15) / hidden.mean()
    loss.backward()
    close(loss, L, 1e-12)
    for name in ("W", "b", "c"):
        close(getattr(mine, name).grad, getattr(grads, name), 1e-10)
    close(end, model.through(X, known, burn_in=4), 1e-12)


@pytest.mark.parametrize("masked", [True, False])
def test_the_gradient_through_steps_is_that_of_jax(masked, tmp_path):
    shape = dam.Shape(N=12, K=30, P=60, B=15, T=3)
    scales = dam.prescription("relu", "adam").at(shape, eta0=0.02, tau=0.8)
    model = dam.DenseAM.create(scales, dam.relu(), seed=1, bias_init="normal", dtype=jnp.float64)
    mine = dt.to_torch(model)
    X, Y = samples(15, np.float64)
    known = np.random.default_rng(3).random(X.shape) < 0.4 if masked else None
    L, grads = gradient(model, *map(jnp.asarray, (X, Y)), None if known is None else jnp.asarray(known))
    hidden = torch.ones(X.shape) if known is None else torch.tensor(~known, dtype=torch.float64)
    end = mine.through(torch.tensor(X), None if known is None else torch.tensor(known))
    loss = (hidden * (end - torch.tensor(Y)) ** 2).sum() / (2 * 15) / hidden.mean()
    loss.backward()
    close(loss, L, 1e-12)
    for name in ("W", "b", "c"):
        close(getattr(mine, name).grad, getattr(grads, name), 1e-10)
    close(end, model.through(X, known), 1e-12)
    assert mine.steps == (3, pytest.approx(0.8 / 3))
    for again in (dt.from_torch(mine), dam.DenseAM.load(mine.save(tmp_path / "m.safetensors"))):
        assert (again.steps.T, again.steps.size) == mine.steps
    other = dt.DenseAM.create(scales, dt.to_torch(model).activation)
    other.load_state_dict(mine.state_dict())
    assert other.steps == mine.steps
    close(mine.recall(torch.tensor(X), tolerance=0.0).state, model.recall(X, tolerance=0.0).state, 1e-12)


@pytest.mark.parametrize(
    "features", [dam.layer_norm(1.3, 0.2, 0.1), dam.spherical_norm(0.7), dam.softmax(2.0)]
)
def test_features_that_depend_on_each_other_are_those_of_jax(features, tmp_path):
    scales = dam.prescription("relu", "adam").at(dataclasses.replace(SHAPE, T=3), eta0=0.02)
    ours = dam.DenseAM.create(scales, dam.relu(), seed=1, features=features, dtype=np.float64)
    theirs = dt.to_torch(ours)
    X, Y = samples(7, np.float64)
    x = torch.from_numpy(X)
    close(theirs(x), ours.update(X), 1e-10)
    close(theirs.energy(x), ours.energy(X), 1e-10)
    R = theirs.through(x) - torch.from_numpy(Y)
    ((R * R).sum() / (2 * len(X))).backward()
    for p, g in zip(
        (theirs.W, theirs.b, theirs.c), gradient(ours, *map(jnp.asarray, (X, Y)))[1], strict=True
    ):
        close(p.grad, g, 1e-9)
    close(theirs.recall(x, 5).energies, ours.recall(X, 5).energies, 1e-10)
    theirs.save(tmp_path / "model.safetensors")
    assert dam.DenseAM.load(tmp_path / "model.safetensors").features == features
    assert dt.from_torch(theirs).features == features
    assert dt.DenseAM.load(tmp_path / "model.safetensors").features == theirs.features
    for argument, call in {
        "clamp": lambda: theirs.recall(x, clamp=torch.ones(SHAPE.N, dtype=torch.bool)),
        "known": lambda: theirs.through(x, torch.ones(SHAPE.N, dtype=torch.bool)),
        "counts": lambda: dt.DenseAM(
            theirs.W, theirs.b, theirs.c, 1.0, 1.0, dt.relu(), features=theirs.features, counts=theirs.c
        ),
    }.items():
        with pytest.raises(InputError, match=f"{argument} needs features that are functions of one neuron"):
            call()
