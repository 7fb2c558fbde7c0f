"""What a user would write in PyTorch for the same training: a loop over models, or all models at once.

Both are timed beside the engine by `denseam bench`, in the same precision: TF32 products on a GPU, or bf16 by
autocast. Neither is slowed down on purpose: the batched one is compiled, and its optimizer is fused where
PyTorch has that.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable, Mapping
from typing import Any

from denseam.rules import Shape
from denseam.training.devices import cores

#: Seconds that a measurement takes at least.
SECONDS = 0.5

#: Shape, optimizer → the seconds of one step of all models.
Rival = Callable[[Shape, str], float]


def rivals(models: int, gpu: bool, precision: str) -> Mapping[str, Rival]:
    """Return what there is to compare with: name → its timer; nothing if PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    device = "cuda" if gpu and torch.cuda.is_available() else "cpu"
    torch.set_num_threads(cores())
    torch.backends.cuda.matmul.allow_tf32 = precision != "float32"
    loss = _autocast(_loss, device) if precision == "bf16" else _loss

    def timer(make: Callable[[Any, Shape, str, int, str], Callable[[], None]]) -> Rival:
        kept = functools.lru_cache(maxsize=1)(make)  # the next measurement need not compile again
        return lambda shape, optimizer: _timed(kept(loss, shape, optimizer, models, device), device)

    return {"loop": timer(_looped), "batched": timer(_batched)}


def _loss(W: Any, b: Any, c: Any, noisy: Any, clean: Any) -> Any:
    """Return the loss of one centred memory with ReLU, as a user would write it."""
    import torch

    (K, N), B = W.shape, len(noisy)
    z = N**-0.5 * torch.tanh(noisy) @ W.T + b
    s = 2**0.5 * torch.relu(z - z.mean(dim=1, keepdim=True))
    out = K**-0.5 * (s - s.mean(dim=1, keepdim=True)) @ W + c
    return ((out - clean) ** 2).sum() / (2 * B)


def _autocast(loss: Callable[..., Any], device: str) -> Callable[..., Any]:
    """Return the loss with its products in bf16."""
    import torch

    def cast(*arguments: Any) -> Any:
        with torch.autocast(device, torch.bfloat16):
            return loss(*arguments)

    return cast


def _rates(optimizer: str, K: int) -> tuple[float, float]:
    """Return the learning rates of W and of the biases."""
    return (1e-3 * K, 1e-3) if optimizer == "sgd" else (1e-3, 1e-3)


def _optimizer(optimizer: str, parameters: Any, device: str) -> Any:
    import torch

    W, b, c = parameters
    rate, of_biases = _rates(optimizer, W.shape[-2])
    make = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam
    groups = [{"params": [W], "lr": rate}, {"params": [b, c], "lr": of_biases}]
    return make(groups, fused=device == "cuda")


def _looped(loss: Any, shape: Shape, optimizer: str, models: int, device: str) -> Callable[[], None]:
    """Return a step that takes one model after the other, with autograd and torch.optim."""
    import torch

    K, N, B = shape.K, shape.N, shape.B or 1
    every = []
    for _ in range(models):
        drawn = torch.randn(K, N, device=device), torch.zeros(K, device=device), torch.zeros(N, device=device)
        parameters = [torch.nn.Parameter(p) for p in drawn]
        every.append((parameters, _optimizer(optimizer, parameters, device)))
    clean = torch.randn(B, N, device=device)

    def step() -> None:
        noisy = clean + 0.5 * torch.randn_like(clean)
        for (W, b, c), opt in every:
            opt.zero_grad(set_to_none=True)
            loss(W, b, c, noisy, clean).backward()
            opt.step()

    return step


def _batched(loss: Any, shape: Shape, optimizer: str, models: int, device: str) -> Callable[[], None]:
    """Return a step of all models at once: `torch.func.vmap` of `grad`, under `torch.compile`."""
    import torch

    K, N, B = shape.K, shape.N, shape.B or 1
    parameters = [
        torch.randn(models, K, N, device=device),
        torch.zeros(models, K, device=device),
        torch.zeros(models, N, device=device),
    ]
    clean = torch.randn(B, N, device=device)
    slopes = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2)), in_dims=(0, 0, 0, None, None))
    # For this shape alone: with shapes that may change, PyTorch cannot compile the gradient.
    gradient = torch.compile(lambda W, b, c, noisy, clean: slopes(W, b, c, noisy, clean), dynamic=False)
    opt = _optimizer(optimizer, parameters, device)

    def step() -> None:
        noisy = clean + 0.5 * torch.randn_like(clean)
        for p, g in zip(parameters, gradient(*parameters, noisy, clean), strict=True):
            p.grad = g
        opt.step()

    return step


def _timed(step: Callable[[], None], device: str) -> float:
    """Return the mean seconds of a step; the first ones, which may compile, do not count."""
    import torch

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        step()
    wait()
    steps, began = 0, time.perf_counter()
    while steps < 3 or time.perf_counter() - began < SECONDS:
        step()
        steps += 1
        if steps % 16 == 0:
            wait()
    wait()
    return (time.perf_counter() - began) / steps
