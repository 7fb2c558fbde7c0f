"""An estimator for scikit-learn: a memory that is trained to denoise, and transforms samples by recall.

It needs scikit-learn; importing `denseam` does not.
"""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from pathlib import Path
from typing import Any

try:
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ModuleNotFoundError(
        "denseam.sklearn needs scikit-learn 1.6 or later: pip install 'denseam[sklearn]'"
    ) from None

import jax
import numpy as np
import numpy.typing as npt

import denseam as dam
from denseam.ground.errors import at_least_zero, listed, refuse, together, typed, whole

Samples = npt.NDArray[Any]

ACTIVATIONS = ("relu", "softmax", "identity", "tanh")


class AssociativeDenoiser(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A Dense Associative Memory, trained to remove Gaussian noise from samples.

    Samples are centred and divided by one number, so that a feature has variance 1 on average; the memory is
    trained on these, and `transform` returns to the values of the input. Computations are in the floating
    type of the samples: float32 is faster.

    Parameters
    ----------
    memories
        K, the number of memories; by default twice the number of features.
    activation, power
        'relu', 'softmax', 'identity' or 'tanh'; and the power of relu.
    optimizer
        'adam', 'sgd', 'adamw', 'lion', 'sign' or 'muon'.
    eta0
        The learning rate, dimensionless: what is good for few features and memories is good for many.
    noise
        The standard deviation of the noise of training, relative to that of the samples.
    epochs, batch
        Passes over the samples, and samples in a batch; by default half as many as features.
    steps
        Steps of recall in `transform`. The memory is trained on one; more lead to its attractors.
    tune
        Whether to find `eta0` at small sizes first (`denseam.tune`); the features are then rotated. This
        needs at least nine features, and a `DataWarning` is given if the value is not recommended.
    random_state
        As everywhere in scikit-learn.

    Attributes
    ----------
    memories_, hidden_bias_, feature_bias_
        W, b and c.
    scales_
        The multipliers and learning rates.
    eta0_
        The learning rate that was used.
    tuning_
        The result of the tuning as a document; None without one.
    loss_curve_
        The mean squared error per feature of every epoch.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    """

    def __init__(
        self,
        memories: int | None = None,
        *,
        activation: str = "relu",
        power: float | None = None,
        optimizer: str = "adam",
        eta0: float = 0.05,
        noise: float = 0.5,
        epochs: int = 32,
        batch: int | None = None,
        steps: int = 1,
        tune: bool = False,
        random_state: Any = None,
    ) -> None:
        self.memories = memories
        self.activation = activation
        self.power = power
        self.optimizer = optimizer
        self.eta0 = eta0
        self.noise = noise
        self.epochs = epochs
        self.batch = batch
        self.steps = steps
        self.tune = tune
        self.random_state = random_state

    # --- fitting -----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> AssociativeDenoiser:
        """Train a new memory on samples × features."""
        X = self._validated(X, reset=True)
        self._begin(X)
        run = self._go_on(X, self.epochs)
        self._warn_of(run.status == "diverged")
        return self

    def partial_fit(self, X: Any, y: Any = None) -> AssociativeDenoiser:
        """Train for one epoch on these samples; those of the first call set mean, scale and sizes."""
        first = not hasattr(self, "memories_")
        X = self._validated(X, reset=first)
        if first:
            self._begin(X)
        run = self._go_on(X, 1)
        self._warn_of(not np.isfinite(run.final_mse))  # from one epoch to the next the loss may rise
        return self

    def _begin(self, X: Samples) -> None:
        """Set everything but the memory itself, which is drawn."""
        self._check()
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        P, N = X.shape
        K = 2 * N if self.memories is None else self.memories
        B = max(1, N // 2) if self.batch is None else self.batch
        shape = dam.Shape(N=N, K=K, P=P, B=min(P, B))
        self.encoder_, self.eta0_ = _centring(X), self.eta0
        self.tuning_ = self._tuned(X, shape) if self.tune else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a rule that the theory does not give is a choice, too
            rule = dam.prescription(self.activation, self.optimizer)
            self.scales_ = rule.at(shape, eta0=self.eta0_)
        self.loss_curve_: list[float] = []
        self._state: Any = None
        with _precision(X):
            drawn = dam.DenseAM.create(self.scales_, self._lagrangian(), seed=self.seed_, dtype=X.dtype)
            self._keep(drawn.parameters)

    def _check(self) -> None:
        """Refuse parameters that are not valid, all together."""
        problems = [*whole(epochs=self.epochs, steps=self.steps), *at_least_zero(noise=self.noise)]
        problems += whole(**{k: v for k in ("memories", "batch") if (v := getattr(self, k)) is not None})
        together(
            lambda: refuse(problems),
            lambda: refuse(typed((bool, np.bool_), "true or false", tune=self.tune)),
            self._lagrangian,
            lambda: dam.prescription(self.activation, self.optimizer).at(dam.Shape(N=2, K=2), eta0=self.eta0),
        )

    def _tuned(self, X: Samples, shape: dam.Shape) -> dict[str, Any]:
        """Find the learning rate at small sizes; set it, and how samples are prepared."""
        constant = np.flatnonzero(np.ptp(X, axis=0) == 0)
        if len(constant):
            raise dam.InputError(
                f"X must have no constant features to be tuned on, as feature {constant[0]} is"
            )
        with tempfile.TemporaryDirectory(prefix="denseam-") as folder:
            path = str(Path(folder) / "samples.npy")
            np.save(path, X)
            preparation = dam.data.Preparation(unit_variance=True, heldout=0.0)
            result = dam.tune(
                path, Path(folder) / "tuning", activation=self.activation, power=self.power,
                optimizer=self.optimizer, noise=self.noise, epochs=self.epochs, features=shape.N,
                memories=shape.K, samples=shape.P, batch=shape.B, regime="proportional",
                unit_variance=True, heldout=0.0,
            )  # fmt: skip
            encoder = dam.data.source(path, preparation).encoder(shape.N)
            document = result.to_json()  # while the samples are there
        assert encoder is not None
        self.encoder_ = encoder
        self.eta0_ = result.forecast.value
        if not result.recommended:
            warnings.warn(
                f"eta0 = {self.eta0_:.3g} is not recommended; {result.advice}", dam.DataWarning, stacklevel=4
            )
        return document

    def _go_on(self, X: Samples, epochs: int) -> dam.Run:
        """Train for some epochs more."""
        encoded = self._encoded(X)
        B = min(self.scales_.shape.B or 1, len(X))
        with _precision(X), warnings.catch_warnings():
            warnings.simplefilter("ignore", dam.DataWarning)  # the first samples have set the scale
            optimizer = getattr(dam, self.optimizer)(self.scales_)
            run = dam.train(
                self._model(), encoded, optimizer=optimizer, epochs=epochs, noise=self.noise, batch=B,
                seed=self.seed_ + len(self.loss_curve_), state=self._state,
            )  # fmt: skip
            self._keep(run.model.parameters)
            self._state = jax.tree.map(np.asarray, run.optimizer_state)
        self.loss_curve_ += run.mse.mean(axis=1).tolist()
        return run

    def _warn_of(self, diverged: bool) -> None:
        if diverged:
            warnings.warn(
                f"training diverged; lower eta0 = {self.eta0_:.3g}", ConvergenceWarning, stacklevel=3
            )

    # --- use ---------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Samples:
        """Return samples without their noise: their state after `steps` steps of recall."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(self.encoder_.decode(self._recalled(self._encoded(X))), X.dtype)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of the variance of clean samples that is recovered from noisy ones.

        ``1 − |f(x + ε) − x|² / |x|²`` for prepared samples x and the noise ε of training: 1 for a perfect
        memory, 0 for one that always answers with the mean, −∞ for one whose training diverged.
        """
        check_is_fitted(self)
        clean = self._encoded(self._validated(X, reset=False))
        noise = np.random.default_rng(self.seed_).standard_normal(clean.shape).astype(clean.dtype)
        recalled = self._recalled(clean + clean.dtype.type(self.noise) * noise)
        if not np.isfinite(recalled).all():
            return -np.inf
        return float(1 - np.mean((recalled - clean) ** 2) / max(np.mean(clean**2), 1e-30))

    def memory(self) -> dam.DenseAM:
        """Return the memory, which acts on prepared samples: ``encoder_.of_units(X)``."""
        check_is_fitted(self)
        with _precision(self.memories_):
            return self._model()

    # --- parts -------------------------------------------------------------------------------------

    def _validated(self, X: Any, *, reset: bool) -> Samples:
        least = {"ensure_min_samples": 2} if reset else {}
        return np.asarray(validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], **least))

    def _lagrangian(self) -> Any:
        if self.activation not in ACTIVATIONS:
            raise dam.InputError(f"activation must be {listed(ACTIVATIONS)}, got {self.activation!r}")
        if self.power is None:
            return getattr(dam, self.activation)()
        if self.activation != "relu":
            raise dam.InputError(f"power belongs to the activation 'relu', got {self.activation!r}")
        return dam.relu(self.power)

    def _encoded(self, X: Samples) -> Samples:
        return np.asarray(self.encoder_.of_units(X), self._type(X))

    def _type(self, X: Samples) -> Any:
        return self.memories_.dtype if hasattr(self, "memories_") else X.dtype

    def _keep(self, parameters: dam.Parameters) -> None:
        self.memories_, self.hidden_bias_, self.feature_bias_ = (np.asarray(v) for v in parameters)

    def _model(self) -> dam.DenseAM:
        s: dam.Scales = self.scales_
        return dam.DenseAM(
            self.memories_, self.hidden_bias_, self.feature_bias_, s.s1, s.s2, self._lagrangian(),
            s_b=s.s_b, s_c=s.s_c, scales=s,
        )  # fmt: skip

    def _recalled(self, encoded: Samples) -> Samples:
        """Return the states after some steps; samples are padded, so that few programs are compiled."""
        n = len(encoded)
        padded = np.concatenate([encoded, np.zeros((_padding(n), encoded.shape[1]), encoded.dtype)])
        with _precision(encoded):
            return np.asarray(self._model().recall(padded, self.steps, damping=1.0).state)[:n]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _precision(X: Samples) -> contextlib.AbstractContextManager[Any]:
    """Return the context that computes in the floating type of an array."""
    return jax.enable_x64(True) if X.dtype == np.float64 else contextlib.nullcontext()


def _padding(n: int) -> int:
    """Return how many samples make their number a power of two."""
    return (1 << (n - 1).bit_length()) - n


def _centring(X: Samples) -> dam.data.Encoder:
    """Return the transformation that centres samples, and makes their mean variance 1."""
    mean = X.mean(axis=0, dtype=np.float64)
    deviation = float(np.sqrt(np.mean((X - mean) ** 2)))
    # Samples that hardly differ are constant, but for rounding.
    scale = deviation if deviation > 10 * np.finfo(X.dtype).eps * np.abs(mean).max() else 1.0
    return dam.data.Encoder(dam.data.Whole(X.shape[1]), mean, scale, 1.0, None, "samples", "", 0.0)
