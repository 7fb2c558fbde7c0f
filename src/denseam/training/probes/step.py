"""One step of training laid open: states before it, gradient, update, and the model after it."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Array, Float

from denseam.model.dense_am import DenseAM, Parameters
from denseam.training.gradient import Columns, Passes, column_functions, gradient_of_passes, passes
from denseam.training.optimizers import Optimizer


class Step(NamedTuple):
    """A step on one batch, samples as columns.

    Attributes
    ----------
    model, optimizer, batch
        Before the step.
    met
        Z, σ(Z), S, R and A on that batch.
    gradient, change
        ∇L, and what the optimizer adds to the parameters.
    """

    model: DenseAM
    optimizer: Optimizer
    batch: Columns
    met: Passes
    gradient: Parameters
    change: Parameters

    def centre(self, V: Float[Array, "K B"]) -> Float[Array, "K B"]:
        """Return CV (V itself if the model is not centred)."""
        return column_functions(self.model).centre(V)

    def through(self, V: Float[Array, "K B"]) -> Float[Array, "K B"]:
        """Return C J V: how a change V of the pre-activations changes the centred activations."""
        functions = column_functions(self.model)
        return functions.centre(functions.jacobian_product(self.met.Z, V))

    def output(self, V: Float[Array, "K B"]) -> Float[Array, "N B"]:
        """Return s2 Wᵀ V."""
        return self.model.s2 * (self.model.W.T @ V)

    def split(self) -> tuple[Float[Array, "K N"], Float[Array, "K N"]]:
        """Return Δ⁽¹⁾W = −η_W (s2/B) S Rᵀ and Δ⁽²⁾W = −η_W (s1 s2/B) A Gᵀ (eq. dW1-dW2)."""
        m, B = self.model, self.batch.G.shape[1]
        rate = -self.optimizer.rates.W * m.s2 / B
        return rate * (self.met.S @ self.met.R.T), rate * m.s1 * (self.met.A @ self.batch.G.T)


def take_step(model: DenseAM, optimizer: Optimizer, state: Any, batch: Columns) -> Step:
    """Return the step that the optimizer takes from here."""
    met = passes(model, batch)
    gradient = gradient_of_passes(model, batch, met)
    change, _ = optimizer.update(gradient, state, model.parameters)
    return Step(model, optimizer, batch, met, gradient, change)
