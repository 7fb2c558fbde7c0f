"""The output of any module as a function of its parameters, with its derivative along a change of one."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from denseam.ground.errors import InputError
from denseam.model.shared import what

#: What a model returns → the tensor that is judged, samples as rows.
Output = Callable[[Any], Tensor]
#: Name → tensor.
Tensors = Mapping[str, Tensor]


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The output of a model that maps samples, as rows, to samples.

    `pick` takes the tensor from what the model returns. By default it is that itself, or the first entry of a
    tuple or list.
    """

    model: nn.Module
    pick: Output | None = None

    def __call__(self, X: Tensor) -> Tensor:
        """Return the output in training."""
        with _one_line(X):
            return self._picked(self.model(X), X)

    def buffers(self) -> dict[str, Tensor]:
        """Return the state that a model changes by itself, such as the running means of BatchNorm."""
        return {name: buffer.clone() for name, buffer in self.model.named_buffers()}

    def at(self, parameters: Tensors, buffers: Tensors, X: Tensor) -> Tensor:
        """Return the output at other parameters; nothing of the model changes."""
        with torch.no_grad(), _measuring(X), _one_line(X):
            return self._at(parameters, buffers, X)

    def change(self, parameters: Tensors, buffers: Tensors, X: Tensor, name: str, step: Tensor) -> Tensor:
        """Return the derivative of the output along a step of one parameter."""

        def output(array: Tensor) -> Tensor:
            return self._at({**parameters, name: array}, buffers, X)

        try:
            with _measuring(X):
                part: Tensor = jvp(output, (parameters[name],), (step,))[1]
        except (NotImplementedError, RuntimeError) as error:
            raise InputError(
                f"model: PyTorch has no forward derivative with respect to {name!r}: {_first_line(error)}"
            ) from error
        return part

    def _at(self, parameters: Tensors, buffers: Tensors, X: Tensor) -> Tensor:
        # Copies, since the model may change its buffers.
        copies = {name: buffer.clone() for name, buffer in buffers.items()}
        return self._picked(functional_call(self.model, {**parameters, **copies}, (X,)), X)

    def _picked(self, result: Any, X: Tensor) -> Tensor:
        """Return the tensor in what the model returned, after checking its shape."""
        if self.pick is not None:
            result = self.pick(result)
        elif isinstance(result, tuple | list) and result:
            result = result[0]
        if not isinstance(result, Tensor) or result.shape != X.shape:
            given = what(result) if isinstance(result, Tensor) else type(result).__name__
            raise InputError(
                f"model must map samples of shape {tuple(X.shape)} to the same shape, got {given}; "
                "output=… picks a tensor from what it returns"
            )
        return result


@contextlib.contextmanager
def _measuring(X: Tensor) -> Iterator[None]:
    """Draw the same random numbers each time, with kernels that have forward derivatives."""
    devices = [X.device] if X.device.type == "cuda" else []
    fast = torch.backends.mha.get_fastpath_enabled()
    with torch.random.fork_rng(devices=devices), sdpa_kernel(SDPBackend.MATH):
        torch.manual_seed(0)
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)


@contextlib.contextmanager
def _one_line(X: Tensor) -> Iterator[None]:
    """Report a model that cannot be called with samples in one line; the error itself is its cause."""
    try:
        yield
    except (RuntimeError, TypeError) as error:
        raise InputError(
            f"model fails on samples of shape {tuple(X.shape)}: {type(error).__name__}: {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")
