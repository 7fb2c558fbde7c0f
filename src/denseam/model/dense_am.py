"""The Dense Associative Memory: parameters, update, energies, recall, flows, coarse-graining.

Everything here is written for one sample; leading axes of the input are mapped over.

========  ==============================================================================
x         state of the N feature neurons, g = g(x) their outputs, G with ∂G = g
h         state of the K hidden neurons, σ = σ(h) their outputs, Φ with ∂Φ = σ
C         I − 11ᵀ/K, the projection that removes the mean over memories (1 if uncentred)
W̃, b̃      CW and s_b·Cb; in formulas below b and c stand for s_b·b and s_c·c
n         how many original features each feature stands for (1 unless coarse-grained)
========  ==============================================================================
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from denseam.ground.errors import InputError, above_zero, refuse, shown, together, typed, whole
from denseam.model import checkpoint, lagrangians, pretrained, shared
from denseam.model.lagrangians import Elementwise, Identity, Lagrangian, Softmax, Tanh
from denseam.model.normals import normal
from denseam.model.patterns import Parts, as_patterns, store
from denseam.model.pieces import in_pieces
from denseam.model.shared import MULTIPLIERS, TOLERANCE, what
from denseam.model.steps import Steps
from denseam.model.streams import stream
from denseam.rules import Scales
from denseam.rules.table import BiasInit


class Parameters(NamedTuple):
    """The trained parameters."""

    W: Float[Array, "K N"]
    b: Float[Array, " K"]
    c: Float[Array, " N"]


class Recall(NamedTuple):
    """The result of `DenseAM.recall`, with the leading axes of its input.

    Attributes
    ----------
    state
        The last state.
    energies
        E_eff before the first step and after every step; after convergence the last value repeats.
    steps
        Number of steps taken.
    converged
        Whether the state stopped moving.
    """

    state: Float[Array, "*samples N"]
    energies: Float[Array, "*samples steps"]
    steps: Int[Array, "*samples"]
    converged: Bool[Array, "*samples"]


class Flow(NamedTuple):
    """A trajectory in continuous time: states and energies at the requested times."""

    t: Float[Array, " T"]
    x: Float[Array, "*samples T N"]
    energy: Float[Array, "*samples T"]


class TwoPopulationFlow(NamedTuple):
    """A trajectory of both populations; the energy is E(x, h)."""

    t: Float[Array, " T"]
    x: Float[Array, "*samples T N"]
    h: Float[Array, "*samples T K"]
    energy: Float[Array, "*samples T"]


class DenseAM(eqx.Module):
    """``f(x) = s2 W̃ᵀ σ(s1 W̃ g(x) + b̃) + c`` with ``W̃ = CW``, ``b̃ = Cb`` (eq. centered-model).

    Since C is a projection, this is ``s2 Wᵀ σ_C(s1 W g(x) + b) + c`` with ``σ_C = C∘σ∘C``
    (eq. f-def-centered). It is computed this way: vectors are centred, W never is.

    Parameters
    ----------
    W, b, c
        Memories, hidden bias, feature bias.
    s1, s2
        Inner and outer multiplier.
    activation
        The Lagrangian of the hidden neurons.
    features
        The Lagrangian of the feature neurons; tanh by default, which keeps the energy bounded. With one
        that is not a sum over neurons (`layer_norm`, `spherical_norm`), there are no `counts`, and no feature
        can be clamped.
    centred
        Whether C is applied; by default for every activation except identity.
    s_b, s_c
        Multipliers of the biases.
    counts
        n; how many original features each feature stands for (see `coarse_grain`).
    scales
        Where s1, s2 and the learning rates come from; kept in checkpoints.
    steps
        The steps of recall that the memory is trained through; None for one update.
    """

    W: Float[Array, "K N"]
    b: Float[Array, " K"]
    c: Float[Array, " N"]
    s1: Float[Array, ""]
    s2: Float[Array, ""]
    s_b: Float[Array, ""]
    s_c: Float[Array, ""]
    counts: Float[Array, " N"] | None
    activation: Lagrangian
    features: Lagrangian
    centred: bool = eqx.field(static=True)
    scales: Scales | None = eqx.field(static=True)
    steps: Steps | None

    def __init__(
        self,
        W: ArrayLike,
        b: ArrayLike,
        c: ArrayLike,
        s1: ArrayLike,
        s2: ArrayLike,
        activation: Lagrangian,
        *,
        features: Lagrangian | None = None,
        centred: bool | None = None,
        s_b: ArrayLike = 1.0,
        s_c: ArrayLike = 1.0,
        counts: ArrayLike | None = None,
        scales: Scales | None = None,
        steps: Steps | None = None,
    ) -> None:
        _check_parts(activation, features, centred)
        W = array_of("W", W)
        if W.ndim != 2 or not jnp.issubdtype(W.dtype, jnp.floating):
            raise InputError(f"W must be a matrix of floats, memories × features, got {what(W)}")
        if scales is not None:
            refuse(typed(Scales, "Scales, from a rule at a shape", scales=scales))
        arrays = {"b": b, "c": c, "counts": counts, "s1": s1, "s2": s2, "s_b": s_b, "s_c": s_c}
        cast: dict[str, Any] = {
            k: None if v is None and k == "counts" else array_of(k, v, W.dtype) for k, v in arrays.items()
        }
        shared.check_shapes(W, cast)
        if counts is not None and features is not None:
            shared.check_single("counts", features, Elementwise)
        self.W = W
        self.b, self.c, self.counts = cast["b"], cast["c"], cast["counts"]
        self.s1, self.s2, self.s_b, self.s_c = (cast[name] for name in MULTIPLIERS)
        self.activation = activation
        self.features = Tanh() if features is None else features
        self.centred = not isinstance(activation, Identity) if centred is None else bool(centred)
        self.scales = scales
        self.steps = steps

    @classmethod
    def create(
        cls,
        scales: Scales,
        activation: Lagrangian | None = None,
        *,
        seed: int = 0,
        features: Lagrangian | None = None,
        centred: bool | None = None,
        bias_init: BiasInit = "zero",
        dtype: Any = jnp.float32,
    ) -> DenseAM:
        """Return an untrained model: W ~ N(0, W_std²), biases zero.

        Parameters
        ----------
        scales
            From a rule at a shape, which also gives N and K.
        activation
            For example ``relu(power=1)``; always needed.
        seed
            The integer that all random numbers come from.
        features, centred
            As in the class.
        bias_init
            'zero', or 'normal' for b, c ~ N(0, 1) as in the paper. Normal hidden biases give every
            sample the same offset, which restores the spike that centring removes: the stable learning
            rates then shrink with N.
        dtype
            float32 or float64 (which needs ``jax_enable_x64``).
        """
        together(
            lambda: refuse(typed(Scales, "Scales, from a rule at a shape", scales=scales)),
            lambda: _check_parts(activation, features, centred),
            lambda: _check_dtype(dtype),
        )
        assert activation is not None
        shared.check_start(scales, activation, features, bias_init)
        N, K = scales.shape.N, scales.shape.K

        def drawn(name: Literal["W", "b", "c"], *shape: int, std: float = 1.0) -> Array:
            return normal(stream(seed, name), shape, dtype, std)

        def bias(name: Literal["b", "c"], size: int) -> Array:
            # Zeros of NumPy need no program of their size.
            return jax.device_put(np.zeros(size, dtype)) if bias_init == "zero" else drawn(name, size)

        return cls(
            W=drawn("W", K, N, std=scales.W_std),
            b=bias("b", K),
            c=bias("c", N),
            s1=scales.s1,
            s2=scales.s2,
            s_b=scales.s_b,
            s_c=scales.s_c,
            activation=activation,
            features=features,
            centred=centred,
            scales=scales,
            steps=Steps.of(scales),
        )

    @classmethod
    def from_patterns(
        cls,
        patterns: Any,
        activation: Lagrangian | None = None,
        *,
        features: Elementwise | None = None,
        noise: float = 0.0,
        tolerance: float = TOLERANCE,
    ) -> DenseAM:
        """Return a memory that stores patterns, without training: W = patterns, the model not centred.

        With softmax (the default) every pattern is a fixed point up to the tolerance. With identity features
        the update is the mean of the patterns ξ_μ with weights ``exp(−β |x − ξ_μ|² / 2N)``, and

        ``β = N log((K − 1)/tolerance) / γ``,  ``γ = min_ν clip(gap_ν, δ_ν/8, δ_ν/2)``,

        where δ_ν is half the squared distance of pattern ν from the nearest other one, and gap_ν what the
        noise leaves of it: ``δ_ν − σ √(4 δ_ν log((K − 1)/0.01))``. Then a cue with this noise is recalled in
        one step, with probability 0.99, if its gap is not below δ_ν/8. `denseam.model.patterns` derives this,
        and the same for other features. All pairs of patterns are compared, piece by piece.

        With ReLU^p, random patterns of signs are fixed points up to crosstalk, if there are fewer than about
        ``N^p / ((2p − 1)!! log N)`` of them.

        Parameters
        ----------
        patterns
            K patterns × N features, all different; W keeps their floating type.
        activation
            By default softmax with the β above; ``softmax(beta)`` for a β of your own, or ``relu(power)``.
        features
            By default identity for softmax, and for ReLU^p tanh with a gain at which amplitudes are stable.
        noise
            Standard deviation of the noise in cues; only for softmax.
        tolerance
            Largest deviation of a recalled feature, as a share of its range over the patterns.
        """
        W = as_patterns(patterns)
        return cls.storing(W, store(W, activation, features, noise=noise, tolerance=tolerance))

    @classmethod
    def storing(cls, W: Float[Array, "K N"], parts: Parts) -> DenseAM:
        """Return the model that stores the rows of W, from what `denseam.model.patterns.store` returned."""
        c = jnp.zeros(W.shape[1], W.dtype)
        return cls(
            W, parts.b, c, parts.s1, parts.s2, parts.activation, features=parts.features, centred=False
        )

    # --- parameters ------------------------------------------------------------------------------

    @property
    def N(self) -> int:
        """Features."""
        return self.W.shape[1]

    @property
    def K(self) -> int:
        """Memories."""
        return self.W.shape[0]

    @property
    def parameters(self) -> Parameters:
        """The trained parameters."""
        return Parameters(self.W, self.b, self.c)

    def with_parameters(self, parameters: Parameters) -> DenseAM:
        """Return this model with other parameters."""
        model: DenseAM = eqx.tree_at(_parameters, self, tuple(parameters), is_leaf=lambda v: v is None)
        return model

    def without_parameters(self) -> DenseAM:
        """Return the model without its parameters, to be completed by `with_parameters`."""
        frame: DenseAM = eqx.tree_at(_parameters, self, (None, None, None))
        return frame

    # --- the update ------------------------------------------------------------------------------

    def centre(self, v: Float[Array, "*samples K"]) -> Float[Array, "*samples K"]:
        """Return Cv = v − mean(v) over the memories; v itself if the model is not centred."""
        return v - jnp.mean(v, axis=-1, keepdims=True) if self.centred else v

    def drive(self, x: Float[Array, "*samples N"]) -> Float[Array, "*samples N"]:
        """Return n ⊙ g(x), the input of the memories."""
        g = self.features.activation(x)
        return g if self.counts is None else for_each(self.counts, g) * g

    def hidden(self, x: Float[Array, "*samples N"]) -> Float[Array, "*samples K"]:
        """Return the pre-activation h = s1 W̃ g(x) + b̃, where the hidden neurons rest (eq. adiabatic)."""
        z = self.s1 * (self.drive(x) @ self.W.T)
        return self.centre(z + for_each(self.s_b * self.b, z))

    def readout(self, h: Float[Array, "*samples K"]) -> Float[Array, "*samples N"]:
        """Return s2 W̃ᵀ σ(h) + c."""
        y = self.s2 * (self.centre(self._answers(h)) @ self.W)
        return y + for_each(self.s_c * self.c, y)

    def _answers(self, h: Array) -> Array:
        """Return σ(h), also of an h so large that rounding errors are."""
        return self.activation.activation(self.activation.lowered(h)[0])

    def _potential(self, h: Array) -> Array:
        """Return Φ(h), also of such an h."""
        rest, a = self.activation.lowered(h)
        return self.activation.value(rest) + a

    def update(self, x: Float[ArrayLike, "*samples N"]) -> Float[Array, "*samples N"]:
        """Return f(x) = s2 W̃ᵀ σ(s1 W̃ g(x) + b̃) + c: one step of the memory (eq. f-def)."""
        return self.readout(self.hidden(self._samples("x", x)))

    __call__ = update

    # --- energies --------------------------------------------------------------------------------

    def energy(
        self, x: Float[ArrayLike, "*samples N"], h: Float[ArrayLike, "*samples K"] | None = None
    ) -> Float[Array, "*samples"]:
        """Return the energy of the features alone, or that of features and hidden neurons.

        ``E_eff(x) = −Φ(s1 W̃ g + b̃)/s1 + Σ_i n_i [g_i (x_i − c_i) − G(x_i)] / s2``

        (if G is not a sum over features, with G(x) instead of Σ_i G(x_i), and n = 1)

        ``E(x, h) = [(h − b̃)·σ − Φ(h)]/s1 + Σ_i n_i [g_i (x_i − c_i) − G(x_i)]/s2 − σᵀ W̃ (n ⊙ g)``

        E_eff(x) is the minimum of E(x, h) over h. Its gradient is ``n g′ (x − f(x))/s2`` (with the
        Jacobian of g instead of g′, if G is not a sum), and
        iterating `update` never raises it: as a function of g it is a convex function minus a convex
        one, and f is the convex-concave step. (The paper's two-layer energy omits the last term,
        which its own time derivative contains.)
        """
        if h is None:
            x = self._samples("x", x)
            return self._energy_at(x, self.hidden(x))
        x, h = self._populations(x, h)
        S = self._answers(h)
        # (h − b̃)·σ/s1 − σᵀ W̃ (n ⊙ g) = (h − z)·σ/s1 with z = s1 W̃ (n ⊙ g) + b̃
        mismatch = jnp.sum((h - self.hidden(x)) * S, axis=-1)
        return self._feature_energy(x) + (mismatch - self._potential(h)) / self.s1

    def _energy_at(self, x: Array, h: Array) -> Array:
        """Return E_eff(x), given the hidden neurons h = hidden(x)."""
        return self._feature_energy(x) - self._potential(h) / self.s1

    def _feature_energy(self, x: Array) -> Array:
        g, c = self.features.activation(x), for_each(self.s_c * self.c, x)
        if not isinstance(self.features, Elementwise):
            return (self.features.conjugate(x) - jnp.sum(g * c, axis=-1)) / self.s2
        e = g * (x - c) - self.features.potential(x)
        return jnp.sum(e if self.counts is None else for_each(self.counts, e) * e, axis=-1) / self.s2

    # --- recall in discrete time -----------------------------------------------------------------

    def recall(
        self,
        x: Float[ArrayLike, "*samples N"],
        steps: int | None = None,
        tolerance: float = 1e-5,
        *,
        damping: float | None = None,
        clamp: Bool[ArrayLike, "*#samples N"] | None = None,
    ) -> Recall:
        """Iterate ``x ← x + damping · (f(x) − x)`` until the state stops moving, or for `steps` steps.

        Parameters
        ----------
        x
            One state, or any number of them along leading axes; each stops independently. Many are recalled
            in pieces, so that their hidden states fit into memory.
        steps
            Maximum number of steps; by default those of the training, or 100 if it was one update.
        tolerance
            A state has converged when no entry moves by more than this times max(1, max|x|).
        damping
            In (0, 1]; 1 is the plain iteration. The energy never rises for any value. By default the size of
            the training's steps.
        clamp
            True where a feature is known and must keep its value; only if G is a sum over features. Otherwise
            the g of a clamped feature moves with the others, and a step can raise the energy.
        """
        if clamp is not None:
            shared.check_single("clamp", self.features, Elementwise)
        state = self._samples("x", x)
        mask = jnp.zeros(state.shape[-1:], bool) if clamp is None else array_of("clamp", clamp)
        steps, damping = shared.steps_of_recall(self.steps, steps, damping)
        shared.check_recall(state, mask, steps, tolerance, damping)
        mask = jnp.broadcast_to(mask, state.shape)
        recall = functools.partial(_recall, self, steps=steps, tolerance=tolerance, damping=damping)
        return in_pieces(recall, self.K, state, mask)

    def complete(
        self, x: Float[ArrayLike, "*samples N"], known: Bool[ArrayLike, "*#samples N"]
    ) -> Float[Array, "*samples N"]:
        """Return states whose unknown features are recalled from the known ones alone, in one step.

        For a memory `from_patterns` with softmax: patterns are weighted by their divergence from x over the
        known features, ``exp(−β Σ_known D_μi(x_i)/N)``. This is the best start of a recall that holds what is
        known: in the energy, the others would count with whatever value they start from.
        """
        refuse(typed(Softmax, "softmax, as in a memory that stores patterns", activation=self.activation))
        shared.check_single("known", self.features, Elementwise)
        state, mask = self._samples("x", x), array_of("known", known)
        shared.check_recall(state, mask, 1, 0.0, 1.0, "known")
        mask = jnp.broadcast_to(mask, state.shape)
        return in_pieces(lambda v, m: _complete(self, v, m), self.K, state, mask)

    def through(
        self,
        x: Float[ArrayLike, "*samples N"],
        known: Bool[ArrayLike, "*#samples N"] | None = None,
        *,
        burn_in: int = 0,
    ) -> Float[Array, "*samples N"]:
        """Return the state after the steps of recall that the memory is trained through; f(x) if it has none.

        `known` features keep their value. Its derivatives can be taken, unlike those of `recall`. `burn_in`
        is a number of steps before these, without derivatives.
        """
        if known is not None:
            shared.check_single("known", self.features, Elementwise)
        state = self._samples("x", x)
        refuse(whole(0, burn_in=burn_in))
        T, d = (1, 1.0) if self.steps is None else (self.steps.T, self.steps.size)

        def steps(model: DenseAM, x: Array, number: int) -> Array:
            def step(x: Array, _: None) -> tuple[Array, None]:
                moved = (1 - d) * x + d * model.update(x)
                return (moved if known is None else jnp.where(for_each(known, x), x, moved)), None

            return jax.lax.scan(step, x, None, length=number)[0]

        if burn_in:
            state = steps(*jax.lax.stop_gradient((self, state)), burn_in)
        return steps(self, state, T)

    # --- flows in continuous time ----------------------------------------------------------------

    def flow(
        self,
        x: Float[ArrayLike, "*samples N"],
        t: ArrayLike | Sequence[float],
        *,
        tau_x: float = 1.0,
        rtol: float = 1e-5,
        atol: float = 1e-7,
        max_steps: int = 100_000,
    ) -> Flow:
        """Solve ``τ_x ẋ = f(x) − x`` from x at time 0 (eq. effective dynamics); E_eff falls along it.

        `t` are the times at which states are returned, increasing and not below 0.
        """
        state = self._samples("x", x)
        times = _times(t, state.dtype)
        accuracy = {"rtol": rtol, "atol": atol, "max_steps": max_steps}
        refuse(above_zero(tau_x=tau_x, **accuracy))
        return _flow(self, state, times, tau_x, **accuracy)

    def two_population_flow(
        self,
        x: Float[ArrayLike, "*samples N"],
        h: Float[ArrayLike, "*samples K"],
        t: ArrayLike | Sequence[float],
        *,
        tau_x: float = 1.0,
        tau_h: float = 1.0,
        rtol: float = 1e-5,
        atol: float = 1e-7,
        max_steps: int = 100_000,
    ) -> TwoPopulationFlow:
        """Solve ``τ_x ẋ = s2 W̃ᵀσ(h) + c − x``, ``τ_h ḣ = s1 W̃ g(x) + b̃ − h``; E(x, h) falls along it.

        For ``τ_h → 0`` the hidden neurons follow x, which then moves as in `flow`.
        """
        states = self._populations(x, h)
        times = _times(t, states[0].dtype)
        accuracy = {"rtol": rtol, "atol": atol, "max_steps": max_steps}
        refuse(above_zero(tau_x=tau_x, tau_h=tau_h, **accuracy))
        return _two_population_flow(self, states, times, tau_x, tau_h, **accuracy)

    # --- coarse-graining -------------------------------------------------------------------------

    def coarse_grain(self, blocks: ArrayLike) -> DenseAM:
        """Return the same memory at lower resolution: the features of a block are replaced by their mean.

        With D the block mean and L the copy of a block's value to its features, the result is exactly
        ``x ↦ D f(L x)``: the model with weights ``W Dᵀ`` in which each feature counts as many times as
        its block has members. Its energy is ``E_eff(L x)``. (``W Dᵀ`` alone, as in the paper, is a
        different map.) Coarse-graining twice is coarse-graining once by the blocks of blocks.

        Parameters
        ----------
        blocks
            The block number of each feature, 0 … M−1; see `denseam.data.plaquettes`.
        """
        shared.check_single("coarse_grain", self.features, Elementwise)
        labels = np.asarray(blocks)
        if labels.shape != (self.N,) or not np.issubdtype(labels.dtype, np.integer):
            raise InputError(
                f"blocks must be {self.N} whole numbers, one for each feature, got {what(labels)}"
            )
        M = int(labels.max()) + 1
        if sorted(set(labels.tolist())) != list(range(M)):
            raise InputError(f"blocks must use every number from 0 to {M - 1}")
        members = jnp.asarray(np.arange(M)[:, None] == labels[None, :], self.W.dtype)  # M × N
        weighted = members if self.counts is None else members * self.counts[None, :]
        counts = jnp.sum(weighted, axis=1)
        D = weighted / counts[:, None]
        with jax.default_matmul_precision("highest"):
            W, c = self.W @ D.T, D @ self.c
        return DenseAM(
            W, self.b, c, self.s1, self.s2, self.activation,
            features=self.features, centred=self.centred, s_b=self.s_b, s_c=self.s_c, counts=counts,
            steps=self.steps,
        )  # fmt: skip

    # --- files -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a safetensors file that holds its prescription as plain JSON."""
        tensors, document = self.to_document()
        return checkpoint.write(path, tensors, document)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DenseAM:
        """Read what `save` wrote."""
        return cls.from_document(*checkpoint.read(path), path)

    def save_pretrained(
        self, folder: str | os.PathLike[str], *, facts: Mapping[str, str] | None = None
    ) -> Path:
        """Write a folder for the Hugging Face Hub: `config.json`, `model.safetensors` and a model card.

        The card shows the prescription, and the `facts` on the training (`denseam.training_facts`). A card
        that is already there is kept.
        """
        return pretrained.write_pretrained(folder, *self.to_document(), facts)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> DenseAM:
        """Read the model from a folder of `save_pretrained`, also from that of a `Memory`."""
        return cls.from_document(*pretrained.read_pretrained(folder), folder)

    def to_document(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the model as tensors, on whatever devices, and plain values."""
        names = ("W", "b", "c", *MULTIPLIERS, "counts")
        tensors = {name: tensor for name in names if (tensor := getattr(self, name)) is not None}
        if self.scales is not None:
            refuse(
                f"scales do not belong to this model: their {name} is {stated:.6g}, the model's {held:.6g}"
                for name in MULTIPLIERS
                for stated, held in [(getattr(self.scales, name), float(getattr(self, name)))]
                if abs(stated - held) > 1e-5 * abs(stated)
            )
        parts = lagrangians.to_json(self.activation), lagrangians.to_json(self.features)
        return tensors, shared.to_document(*parts, self.centred, self.scales, self.steps)

    @classmethod
    def from_document(
        cls,
        tensors: Mapping[str, np.ndarray[Any, np.dtype[Any]]],
        document: Mapping[str, Any],
        path: str | os.PathLike[str],
    ) -> DenseAM:
        """Read what `to_document` returned; tensors of the data (named `data.…`) are ignored."""
        with shared.own_tensors(tensors, document, path) as own:
            if (
                any(t.dtype == np.float64 for t in own.values())
                and jax.dtypes.canonicalize_dtype(np.float64) != np.float64
            ):
                raise InputError("holds float64 tensors; set jax_enable_x64 to read it without loss")
            return cls(
                **own,
                activation=lagrangians.from_json(document["activation"]),
                features=lagrangians.from_json(document["features"]),
                centred=document["centred"],
                scales=shared.scales_of(document),
                steps=Steps.from_json(document.get("steps")),
            )

    def _samples(self, name: str, x: ArrayLike, axis: Literal["N", "K"] = "N") -> Array:
        x = array_of(name, x)
        size, word = (self.N, "features") if axis == "N" else (self.K, "memories")
        if x.ndim < 1 or x.shape[-1] != size:
            raise InputError(f"{name} must have {size} {word} along its last axis, got {what(x)}")
        return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(self.W.dtype)

    def _populations(self, x: Any, h: Any) -> tuple[Array, Array]:
        x, h = self._samples("x", x), self._samples("h", h, "K")
        if h.shape[:-1] != x.shape[:-1]:
            raise InputError(f"h must have the samples of x, {x.shape[:-1]}, got {h.shape[:-1]}")
        return x, h


def _check_parts(activation: Any, features: Any, centred: Any) -> None:
    problems = [*typed(Lagrangian, "a Lagrangian, such as relu()", activation=activation)]
    if features is not None:
        problems += typed(Lagrangian, "a Lagrangian, such as tanh()", features=features)
    if centred is not None:
        problems += typed((bool, np.bool_), "true or false", centred=centred)
    refuse(problems)


def _check_dtype(dtype: Any) -> None:
    try:
        floating = jnp.issubdtype(jnp.dtype(dtype), jnp.floating)
    except TypeError:
        floating = False
    if not floating:
        raise InputError(f"dtype must be a type of floats, such as float32, got {shown(dtype)}")


def array_of(name: str, value: Any, dtype: Any = None) -> Array:
    """Return a value as an array, or refuse what is not numbers."""
    try:
        return jnp.asarray(value, dtype)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, got {shown(value)}") from None


def for_each(v: ArrayLike, x: Array) -> Array:
    """Return a vector as one for each sample of x: with leading axes, as many as x has."""
    v = jnp.asarray(v)
    return jnp.expand_dims(v, tuple(range(x.ndim - v.ndim)))


def _parameters(model: Any) -> tuple[Any, Any, Any]:
    return model.W, model.b, model.c


@eqx.filter_jit
def _complete(model: DenseAM, x: Array, known: Array) -> Array:
    # The part of G(ξ_μ), which is in b, that unknown features have.
    assert isinstance(model.features, Elementwise)
    of_unknown = (~known).astype(model.W.dtype) @ model.features.potential(model.W).T
    z = model.s1 * (jnp.where(known, model.drive(x), 0) @ model.W.T + of_unknown)
    h = z + for_each(model.s_b * model.b, z)
    return jnp.where(known, x, model.readout(h))


@eqx.filter_jit
def _recall(
    model: DenseAM, x: Array, mask: Array, steps: int, tolerance: ArrayLike, damping: ArrayLike
) -> Recall:
    def from_state(x0: Array, clamped: Array) -> Recall:
        # The hidden states are kept, since both the energy of a state and the next one come from them.
        Carry = tuple[Array, Array, Array, Array, Array]

        def step(carry: Carry) -> Carry:
            t, x, h, energies, _ = carry
            new = jnp.where(clamped, x, x + damping * (model.readout(h) - x))
            moved = jnp.max(jnp.abs(new - x))
            rests = moved <= tolerance * jnp.maximum(1, jnp.max(jnp.abs(new)))
            h = model.hidden(new)
            # Every later entry is filled too, so that the curve stays flat after recall has stopped.
            energies = jnp.where(jnp.arange(steps + 1) > t, model._energy_at(new, h), energies)
            return t + 1, new, h, energies, rests

        def going(carry: Carry) -> Array:
            t, *_, rests = carry
            return (t < steps) & ~rests

        h0 = model.hidden(x0)
        energies = jnp.full(steps + 1, model._energy_at(x0, h0))
        start = (jnp.asarray(0), x0, h0, energies, jnp.asarray(False))
        t, state, _, energies, rests = jax.lax.while_loop(going, step, start)
        return Recall(state, energies, t, rests)

    for _ in range(x.ndim - 1):
        from_state = jax.vmap(from_state)
    return from_state(x, mask)


@eqx.filter_jit
def _flow(model: DenseAM, x: Array, times: Array, tau_x: float, **accuracy: Any) -> Flow:
    def field(t: Any, x: Array, args: Any) -> Array:
        return (model.update(x) - x) / tau_x

    xs = _solve(field, x, times, **accuracy)
    return Flow(times, xs, model.energy(xs))


@eqx.filter_jit
def _two_population_flow(
    model: DenseAM, states: tuple[Array, Array], times: Array, tau_x: float, tau_h: float, **accuracy: Any
) -> TwoPopulationFlow:
    def field(t: Any, states: tuple[Array, Array], args: Any) -> tuple[Array, Array]:
        x, h = states
        return (model.readout(h) - x) / tau_x, (model.hidden(x) - h) / tau_h

    xs, hs = _solve(field, states, times, **accuracy)
    return TwoPopulationFlow(times, xs, hs, model.energy(xs, hs))


def _solve(
    field: Callable[..., Any], start: Any, times: Array, rtol: float, atol: float, max_steps: int
) -> Any:
    """Solve ẏ = field(y) and return the states at the times; time is the second-to-last axis."""
    import diffrax

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        t0=jnp.zeros_like(times[0]),
        t1=times[-1],
        dt0=None,
        y0=start,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
        max_steps=max_steps,
    )
    return jax.tree.map(lambda y: jnp.moveaxis(y, 0, -2), solution.ys)


def _times(t: ArrayLike | Sequence[float], dtype: Any) -> Array:
    times = np.atleast_1d(np.asarray(array_of("t", t), float))
    if times.ndim != 1 or not np.all(np.diff(times) > 0) or not times[0] >= 0 or not 0 < times[-1] < np.inf:
        raise InputError("t must be increasing, finite times, none below 0, that end after 0")
    return jnp.asarray(times, dtype)
