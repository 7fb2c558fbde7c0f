"""The check of models of other kinds: attention, BatchNorm, dropout, tuples; and what cannot be checked."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import denseam.torch as dt
from denseam.analysis.causes import CheckCause
from denseam.ground.errors import InputError
from denseam.torch.outputs import Outputs

TOKEN = 4


class Attention(nn.Module):
    """Tokens of four features; returns its weights too."""

    def __init__(self, N):
        super().__init__()
        self.norm, self.attention = nn.BatchNorm1d(N), nn.MultiheadAttention(TOKEN, 2, batch_first=True)

    def forward(self, x):
        tokens = self.norm(x).reshape(len(x), -1, TOKEN)
        mixed, weights = self.attention(tokens, tokens, tokens)
        return mixed.reshape(x.shape), weights


class Kernel(nn.Module):
    """The fused attention, whose own kernel has no forward derivative; and a parameter that is never used."""

    def __init__(self, N):
        super().__init__()
        self.query, self.unused = nn.Linear(TOKEN, TOKEN), nn.Linear(2, 2)

    def forward(self, x):
        tokens = x.reshape(len(x), 1, -1, TOKEN)
        return functional.scaled_dot_product_attention(self.query(tokens), tokens, tokens).reshape(x.shape)


class Dense(nn.Module):
    """A linear layer whose result something is done to."""

    def __init__(self, N, then=lambda y: y):
        super().__init__()
        self.linear, self.then = nn.Linear(N, N), then

    def forward(self, x):
        return self.then(self.linear(x))


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def checked(model, scales=(8, 16, 32), seeds=3, **options):
    def make(shape, seed):
        torch.manual_seed(seed)
        return model(shape.N)

    def adam(model, shape):
        return torch.optim.Adam(model.parameters(), lr=1e-3)

    return dt.check(make, adam, scales=scales, seeds=seeds, updates=1, **options)


@pytest.mark.parametrize("model", [Attention, Kernel, lambda N: Dense(N, nn.Dropout(0.5))])
def test_attention_batchnorm_dropout_and_tuples_are_checked(model):
    check = checked(model)
    assert check.status in ("PASS", "FAIL", "INCONCLUSIVE")
    assert check.cause is not CheckCause.TOO_FEW
    changes = {s.name for s in check.slopes if s.name.startswith("dF by matrix")}
    assert changes
    assert not any("unused" in name for name in changes)


def test_measuring_leaves_a_model_as_it_is():
    """No running means, no random numbers; and dropout is the same before and after."""
    model = nn.Sequential(Dense(8), nn.BatchNorm1d(8), nn.Dropout(0.5)).double()
    outputs = Outputs(model)
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    X, buffers = torch.randn(5, 8, dtype=torch.float64), outputs.buffers()
    state = torch.get_rng_state()
    first, second = (outputs.at(parameters, buffers, X) for _ in range(2))
    name = "0.linear.weight"
    step = torch.ones(8, 8, dtype=torch.float64)
    part = outputs.change(parameters, buffers, X, name, step)
    assert torch.equal(first, second)
    assert (first == 0).any()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(buffer, buffers[n]) for n, buffer in model.named_buffers())
    # A finite difference with the same mask.
    moved = parameters | {name: parameters[name] + 1e-7 * step}
    assert torch.allclose((outputs.at(moved, buffers, X) - first) / 1e-7, part, rtol=1e-3, atol=1e-3)


def test_the_tensor_is_picked_from_what_a_model_returns():
    named = lambda N: Dense(N, lambda y: {"samples": y})  # noqa: E731
    with pytest.raises(InputError, match=r"to the same shape, got dict; output=… picks a tensor"):
        checked(named)
    plain, picked = checked(Dense), checked(named, output=lambda result: result["samples"])
    assert [s.slope for s in picked.slopes] == [s.slope for s in plain.slopes]

    def adam(model, shape, eta0):
        return torch.optim.Adam(model.parameters(), lr=eta0)

    options = {"scales": (8,), "seeds": 1, "epochs": 1}
    (row,) = dt.sweep(
        lambda shape, seed: named(shape.N), adam, [1e-3], output=lambda result: result["samples"], **options
    )
    assert row["status"] == "finished"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda N: Dense(N, lambda y: y[:, :2]), r"to the same shape, got torch.float32 of shape \(\d+, 2\)"),
        (lambda N: Dense(N, lambda y: None), "to the same shape, got NoneType"),
        (lambda N: nn.Linear(3, 3), r"model fails on samples of shape \(\d+, 8\): RuntimeError: "),
        (lambda N: Dense(N, lambda y: y + "one"), r"model fails on samples of shape \(\d+, 8\): TypeError: "),
        (lambda N: Dense(N, Straight.apply), "no forward derivative with respect to 'linear.weight'"),
    ],
)
def test_what_cannot_be_checked_is_said_in_one_line(model, words):
    with pytest.raises(InputError, match=words) as caught:
        checked(model)
    assert "\n" not in str(caught.value)


def test_a_model_without_parameters_is_refused():
    with pytest.raises(InputError, match="model must have parameters to train, got Identity"):
        dt.check(lambda shape, seed: nn.Identity(), lambda m, s: None, scales=(8, 16), seeds=2)


def test_two_sizes_or_two_seeds_give_no_verdict():
    for options in ({"scales": (8, 16)}, {"seeds": 2}):
        check = checked(Dense, **options)
        assert (check.status, check.cause) == ("INCONCLUSIVE", CheckCause.TOO_FEW)
