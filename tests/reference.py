"""The equations in plain NumPy float64: nothing is shared with the library, nothing is fast.

Samples are columns, as in the paper; C is a matrix; the Jacobian of σ is a K×K matrix per sample.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import spence


def double_factorial(n: int) -> int:
    return 1 if n <= 0 else n * double_factorial(n - 2)


def root(function, low: float, high: float) -> float:
    """Where a falling function is 0, by bisection."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2


def entmax_threshold(z: np.ndarray, alpha: float, n: float) -> float:
    """τ of p = n^(−1) [(α − 1)z − τ]₊^(1/(α−1)), Σp = 1; n = 1 for α-entmax, n = K relative to equal weights."""
    y = (alpha - 1) * z
    return root(lambda t: np.sum(np.clip(y - t, 0, None) ** (1 / (alpha - 1))) / n - 1, y.min() - n, y.max())


def normmax_threshold(z: np.ndarray, alpha: float, n: float) -> float:
    """τ with Σ [z − τ]₊^(α/(α−1)) = n: maximising p·z − ‖p‖_α (n = 1), or with n^((α−1)/α) ‖p‖_α (n = K)."""
    return root(lambda t: np.sum(np.clip(z - t, 0, None) ** (alpha / (alpha - 1))) - n, z.min() - n, z.max())


#: Name → whether sums over memories are means.
ENTMAX, NORMMAX = {"entmax": False, "relative-entmax": True}, {"normmax": False, "relative-normmax": True}


def largest(name: str, z: np.ndarray, p: float) -> np.ndarray:
    """The places of the k largest, k = p or a share p of all."""
    k = int(p) if name == "topk" else round(p * len(z))
    return np.argsort(z)[::-1][:k]


#: The usual gain, shift and epsilon of a norm.
NORM = (1.0, 0.0, 1e-5)


def norm_parts(name: str, z: np.ndarray, p) -> tuple[np.ndarray, float, np.ndarray]:
    """M, which takes the mean out of z (layer norm) or nothing, r = √(|Mz|²/n + ε), and u = Mz/r; p = (γ, δ, ε)."""
    n = len(z)
    M = np.eye(n) - np.ones((n, n)) / n if name == "layer-norm" else np.eye(n)
    r = np.sqrt(np.sum((M @ z) ** 2) / n + p[2])
    return M, r, M @ z / r


def sigma(name: str, z: np.ndarray, p: int = 1, beta: float = 1.0) -> np.ndarray:
    if name in ("layer-norm", "spherical-norm"):
        return p[0] * norm_parts(name, z, p)[2] + p[1]
    if name == "sigmoid":
        return 1 / (1 + np.exp(-z))
    if name == "softplus":
        return np.log(1 + np.exp(z))
    if name == "exp":
        return np.exp(z - 1)
    if name == "polynomial":
        return sum(a * z**j for j, a in enumerate(p))
    if name == "ghostmax":
        return np.exp(z) / (1 + np.sum(np.exp(z)))
    if name in ("topk", "topshare"):
        s = np.zeros_like(z)
        places = largest(name, z, p)
        s[places] = np.exp(z[places]) / np.sum(np.exp(z[places]))
        return s
    if name in ENTMAX:
        n = len(z) if ENTMAX[name] else 1
        tau = entmax_threshold(z, p, n)
        return np.clip((p - 1) * z - tau, 0, None) ** (1 / (p - 1)) / n
    if name in NORMMAX:
        n = len(z) if NORMMAX[name] else 1
        s = np.clip(z - normmax_threshold(z, p, n), 0, None) ** (1 / (p - 1))
        return s / np.sum(s)
    if name == "identity":
        return z
    if name == "tanh":
        return np.tanh(z)
    if name == "relu":
        C_p = np.sqrt(2 / double_factorial(2 * p - 1))
        return C_p * np.where(z > 0, z, 0) ** p
    e = np.exp(beta * (z - z.max()))
    return e / e.sum()


def Phi(name: str, z: np.ndarray, p: int = 1, beta: float = 1.0) -> float:
    if name in ("layer-norm", "spherical-norm"):
        return float(len(z) * p[0] * norm_parts(name, z, p)[1] + p[1] * np.sum(z))
    if name == "sigmoid":
        return float(np.sum(np.log(1 + np.exp(z))))
    if name == "softplus":
        return float(-np.sum(spence(1 + np.exp(z))))  # −Li₂(−e^z), Li₂(x) = spence(1 − x)
    if name == "exp":
        return float(np.sum(np.exp(z - 1)))
    if name == "polynomial":
        return float(sum(a * np.sum(z ** (j + 1)) / (j + 1) for j, a in enumerate(p)))
    if name == "ghostmax":
        return float(np.log(1 + np.sum(np.exp(z))))
    if name in ("topk", "topshare"):
        return float(np.log(np.sum(np.exp(z[largest(name, z, p)]))))
    if name in ENTMAX:  # p·z − Ω(p) at its maximum
        n, s = (len(z) if ENTMAX[name] else 1), sigma(name, z, p)
        return float(s @ z - n ** (p - 1) * (np.sum(s**p) - 1) / (p * (p - 1)))
    if name in NORMMAX:
        n, s = (len(z) if NORMMAX[name] else 1), sigma(name, z, p)
        return float(s @ z - n ** ((p - 1) / p) * np.sum(s**p) ** (1 / p))
    if name == "identity":
        return float(np.sum(z**2) / 2)
    if name == "tanh":
        return float(np.sum(np.log(np.cosh(z))))
    if name == "relu":
        C_p = np.sqrt(2 / double_factorial(2 * p - 1))
        return float(np.sum(C_p * np.where(z > 0, z, 0) ** (p + 1) / (p + 1)))
    return float(np.log(np.sum(np.exp(beta * z))) / beta)


def jacobian(name: str, z: np.ndarray, p: int = 1, beta: float = 1.0) -> np.ndarray:
    if name in ("layer-norm", "spherical-norm"):  # ∂(Mz/r) = M/r − Mz (∂r)ᵀ/r² with ∂r = Mz/(n r)
        M, r, u = norm_parts(name, z, p)
        return p[0] * (M - np.outer(u, u) / len(z)) / r
    if name == "sigmoid":
        return np.diag(np.exp(-z) / (1 + np.exp(-z)) ** 2)
    if name == "softplus":
        return np.diag(sigma("sigmoid", z))
    if name == "exp":
        return np.diag(np.exp(z - 1))
    if name == "polynomial":
        return np.diag(sum(j * a * z ** (j - 1) for j, a in enumerate(p) if j))
    if name in ("ghostmax", "topk", "topshare"):
        s = sigma(name, z, p)
        return np.diag(s) - np.outer(s, s)
    if name in ENTMAX:  # z = n^(α−1) p^(α−1)/(α − 1) + a constant, on the support
        n, s = (len(z) if ENTMAX[name] else 1), sigma(name, z, p)
        w = np.where(s > 0, np.where(s > 0, s, 1) ** (2 - p) / n ** (p - 1), 0)
        return np.diag(w) - np.outer(w, w) / np.sum(w)
    if name in NORMMAX:  # p = v/Σv with v = [z − τ]₊^m and ∂τ = p·∂z
        s, m = sigma(name, z, p), 1 / (p - 1)
        q = np.clip(z - normmax_threshold(z, p, len(z) if NORMMAX[name] else 1), 0, None)
        of_v = np.diag(m * np.where(q > 0, np.where(q > 0, q, 1) ** (m - 1), 0)) @ (
            np.eye(len(z)) - np.outer(np.ones_like(z), s)
        )
        return (of_v - np.outer(s, np.sum(of_v, axis=0))) / np.sum(q**m)
    if name == "identity":
        return np.eye(len(z))
    if name == "tanh":
        return np.diag(1 / np.cosh(z) ** 2)
    if name == "relu":
        C_p = np.sqrt(2 / double_factorial(2 * p - 1))
        return np.diag(C_p * p * np.where(z > 0, np.where(z > 0, z, 1) ** (p - 1), 0))
    s = sigma(name, z, beta=beta)
    return beta * (np.diag(s) - np.outer(s, s))


@dataclass
class Model:
    W: np.ndarray
    b: np.ndarray
    c: np.ndarray
    s1: float
    s2: float
    activation: str
    p: int = 1
    beta: float = 1.0
    centred: bool = True
    s_b: float = 1.0
    s_c: float = 1.0
    features: str = "tanh"
    of_features: tuple[float, ...] = NORM

    def g(self, x: np.ndarray) -> np.ndarray:
        return sigma(self.features, x, self.of_features)

    def G(self, x: np.ndarray) -> float:
        return Phi(self.features, x, self.of_features)

    @property
    def C(self) -> np.ndarray:
        K = len(self.b)
        return np.eye(K) - np.ones((K, K)) / K if self.centred else np.eye(K)

    def z(self, x: np.ndarray) -> np.ndarray:
        return self.s1 * self.C @ self.W @ self.g(x) + self.C @ (self.s_b * self.b)

    def f(self, x: np.ndarray) -> np.ndarray:
        s = sigma(self.activation, self.z(x), self.p, self.beta)
        return self.s2 * (self.C @ self.W).T @ s + self.s_c * self.c

    def loss(self, X: np.ndarray, Y: np.ndarray) -> float:
        B = X.shape[1]
        return sum(np.sum((self.f(X[:, m]) - Y[:, m]) ** 2) for m in range(B)) / (2 * B)

    def gradient(self, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """From ∂f_i/∂W̃_ab = s2 δ_ib σ_a + s1 s2 (W̃ᵀJ)_ia g_b, sample by sample; then C∇_W̃."""
        B, C = X.shape[1], self.C
        Wt = C @ self.W
        dW, db, dc = np.zeros_like(self.W), np.zeros_like(self.b), np.zeros_like(self.c)
        for m in range(B):
            x, z = X[:, m], self.z(X[:, m])
            s = sigma(self.activation, z, self.p, self.beta)
            J = jacobian(self.activation, z, self.p, self.beta)
            r, g = self.f(x) - Y[:, m], self.g(x)
            dW += C @ (self.s2 * np.outer(s, r) + self.s1 * self.s2 * np.outer(J @ Wt @ r, g)) / B
            db += self.s_b * C @ (self.s2 * J @ Wt @ r) / B
            dc += self.s_c * r / B
        return dW, db, dc

    def sensitivity(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∂f/∂x, and ∂f/∂(W, b, c) with one column for each parameter, in this order."""
        (K, N), C, z = self.W.shape, self.C, self.z(x)
        Wt, g = C @ self.W, self.g(x)
        s = sigma(self.activation, z, self.p, self.beta)
        J = jacobian(self.activation, z, self.p, self.beta)
        inner = self.s2 * Wt.T @ J  # ∂f/∂z
        of_W = np.einsum("ib,a->iab", np.eye(N), self.s2 * C @ s) + self.s1 * np.einsum(
            "ia,b->iab", inner @ C, g
        )
        of_x = self.s1 * inner @ Wt @ jacobian(self.features, x, self.of_features)
        return of_x, np.hstack([of_W.reshape(N, K * N), inner @ C * self.s_b, self.s_c * np.eye(N)])

    def effective_energy(self, x: np.ndarray) -> float:
        linear = self.g(x) @ (x - self.s_c * self.c)
        hidden = Phi(self.activation, self.z(x), self.p, self.beta)
        return float(-hidden / self.s1 + (linear - self.G(x)) / self.s2)

    def energy(self, x: np.ndarray, h: np.ndarray) -> float:
        s, g = sigma(self.activation, h, self.p, self.beta), self.g(x)
        L_h = Phi(self.activation, h, self.p, self.beta) / self.s1
        L_x = self.G(x) / self.s2
        b, c = self.C @ (self.s_b * self.b), self.s_c * self.c
        return float((h - b) @ s / self.s1 - L_h + (x - c) @ g / self.s2 - L_x - s @ self.C @ self.W @ g)


@dataclass
class Sgd:
    """V ← μV + ∇; the step is −ηV, with Nesterov −η(μV + ∇), and for W with decay −ηλW more."""

    eta_W: float
    eta_b: float
    eta_c: float
    momentum: float = 0.0
    nesterov: bool = False
    decay: float = 0.0
    velocity: list[np.ndarray] = field(default_factory=list)

    def directions(self, grads: tuple[np.ndarray, ...]) -> list[np.ndarray]:
        if not self.velocity:
            self.velocity = [np.zeros_like(g) for g in grads]
        self.velocity = [self.momentum * v + g for v, g in zip(self.velocity, grads, strict=True)]
        if not self.nesterov:
            return self.velocity
        return [self.momentum * v + g for v, g in zip(self.velocity, grads, strict=True)]

    def step(self, model: Model, grads: tuple[np.ndarray, ...]) -> Model:
        uW, ub, uc = self.directions(grads)
        return replace(
            model,
            W=model.W - self.eta_W * (uW + self.decay * model.W),
            b=model.b - self.eta_b * ub,
            c=model.c - self.eta_c * uc,
        )


@dataclass
class Sign(Sgd):
    """The signs of what SGD would do."""

    def directions(self, grads: tuple[np.ndarray, ...]) -> list[np.ndarray]:
        return [np.sign(u) for u in super().directions(grads)]


@dataclass
class Lion(Sgd):
    """sign(β1 M + (1 − β1)∇), and after it M ← β2 M + (1 − β2)∇."""

    beta1: float = 0.9
    beta2: float = 0.99

    def directions(self, grads: tuple[np.ndarray, ...]) -> list[np.ndarray]:
        M = self.velocity or [np.zeros_like(g) for g in grads]
        step = [np.sign(self.beta1 * m + (1 - self.beta1) * g) for m, g in zip(M, grads, strict=True)]
        self.velocity = [self.beta2 * m + (1 - self.beta2) * g for m, g in zip(M, grads, strict=True)]
        return step


def newton_schulz(M: np.ndarray, steps: int = 5) -> np.ndarray:
    """Each singular value x of M/‖M‖ goes to ax + bx³ + cx⁵, five times; singular vectors stay."""
    U, x, Vt = np.linalg.svd(M, full_matrices=False)
    x = x / np.sqrt(np.sum(x**2))
    for _ in range(steps):
        x = 3.4445 * x - 4.7750 * x**3 + 2.0315 * x**5
    return (U * x) @ Vt


@dataclass
class Muon:
    """Newton–Schulz of the momentum of W; the biases by Adam."""

    eta_W: float
    eta_b: float
    eta_c: float
    momentum: float = 0.95
    nesterov: bool = True
    decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        self.heavy = Sgd(1.0, 0.0, 0.0, self.momentum, self.nesterov)
        betas = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        self.biases = Adam(0.0, self.eta_b, self.eta_c, **betas)

    def step(self, model: Model, grads: tuple[np.ndarray, ...]) -> Model:
        U = newton_schulz(self.heavy.directions(grads)[0])
        after = self.biases.step(model, grads)
        return replace(after, W=model.W - self.eta_W * (U + self.decay * model.W))


@dataclass
class Adam:
    eta_W: float
    eta_b: float
    eta_c: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0
    t: int = 0
    M: list[np.ndarray] = field(default_factory=list)
    V: list[np.ndarray] = field(default_factory=list)

    def step(self, model: Model, grads: tuple[np.ndarray, ...]) -> Model:
        if not self.M:
            self.M = [np.zeros_like(g) for g in grads]
            self.V = [np.zeros_like(g) for g in grads]
        self.t += 1
        self.M = [self.beta1 * m + (1 - self.beta1) * g for m, g in zip(self.M, grads, strict=True)]
        self.V = [self.beta2 * v + (1 - self.beta2) * g**2 for v, g in zip(self.V, grads, strict=True)]
        U = [
            (m / (1 - self.beta1**self.t)) / (np.sqrt(v / (1 - self.beta2**self.t)) + self.epsilon)
            for m, v in zip(self.M, self.V, strict=True)
        ]
        return replace(
            model,
            W=model.W - self.eta_W * (U[0] + self.decay * model.W),
            b=model.b - self.eta_b * U[1],
            c=model.c - self.eta_c * U[2],
        )


def schedule(name: str, T: int, w: float = 0.0, c: float = 0.2) -> np.ndarray:
    """The factor of each of T steps, taken in its middle: a rise over the share w, and then one of four courses.

    'cosine' and 'linear' go from 1 at the end of the rise to 0 at the end of the training; 'wsd' stays at 1
    until a share c is left, and then falls on a straight line to 0.
    """
    factors = np.ones(T)
    for k in range(T):
        t = (k + 0.5) / T
        if name == "cosine" and t > w:
            factors[k] = np.cos(0.5 * np.pi * (t - w) / (1 - w)) ** 2
        elif name == "linear" and t > w:
            factors[k] = (1 - t) / (1 - w)
        elif name == "wsd" and t > 1 - c:
            factors[k] = (1 - t) / c
        if t < w:
            factors[k] *= t / w
    return factors


def decay_of(time: float, T: int, eta_W: float) -> float:
    """λ_W that takes 1/e of W away in `time` trainings of T steps, if nothing else changes it: ηλ·time·T = 1."""
    return 1 / (time * T) / eta_W


def train(
    model: "Model | Through",
    optimizer: Sgd | Adam | Muon,
    batches: list[tuple[np.ndarray, np.ndarray]],
    factors: np.ndarray | None = None,
):
    """Train on given (X, Y), samples in columns; return the model and the MSE before each step.

    A step is linear in the learning rates, so a factor on all of them is a factor on the step.
    """
    curve = []
    for k, (X, Y) in enumerate(batches):
        curve.append(2 * model.loss(X, Y) / X.shape[0])
        grads, f = model.gradient(X, Y), 1.0 if factors is None else factors[k]
        if isinstance(model, Through):
            model = model.with_step(optimizer, grads)
            continue
        after = optimizer.step(model, grads)
        moved = {p: getattr(model, p) + f * (getattr(after, p) - getattr(model, p)) for p in ("W", "b", "c")}
        model = after if factors is None else replace(model, **moved)
    return model, np.array(curve)


def one_step_terms(
    model: Model, X: np.ndarray, Y: np.ndarray, dW: np.ndarray, db: np.ndarray, dc: np.ndarray, eta_W: float
) -> dict[str, np.ndarray]:
    """All first-order terms of ΔZ and ΔF for the updates dW, db, dc, column by column.

    dZ1 … dF22 split SGD's own update −η_W ∇_W by where the gradient comes from (eqs. dW1-dW2, dZ-expanded,
    dF-4-terms, with W̃ = CW, S → Cσ, and the Jacobian as a matrix); the others take any update.
    """
    B, C, K = X.shape[1], model.C, len(model.b)
    Wt = C @ model.W
    G = np.tanh(X)
    Z = np.stack([model.z(X[:, m]) for m in range(B)], axis=1)
    raw = np.stack([sigma(model.activation, Z[:, m], model.p, model.beta) for m in range(B)], axis=1)
    J = [jacobian(model.activation, Z[:, m], model.p, model.beta) for m in range(B)]
    F = np.stack([model.f(X[:, m]) for m in range(B)], axis=1)
    R, S, s1, s2 = F - Y, C @ raw, model.s1, model.s2
    A = np.stack([C @ J[m] @ Wt @ R[:, m] for m in range(B)], axis=1)

    def inner(dZ: np.ndarray) -> np.ndarray:
        return np.stack([s2 * Wt.T @ J[m] @ dZ[:, m] for m in range(B)], axis=1)

    dW1, dW2 = -eta_W * s2 / B * S @ R.T, -eta_W * s1 * s2 / B * A @ G.T
    dZ1, dZ2 = s1 * C @ dW1 @ G, s1 * C @ dW2 @ G
    dZ_b = np.outer(C @ (model.s_b * db), np.ones(B))
    mean = np.ones((K, K)) / K
    return {
        "Z": Z, "F": F, "R": R, "raw": raw, "S": S, "grad_W": model.gradient(X, Y)[0],
        "dW": dW, "dW1": dW1, "dW2": dW2, "dZ1": dZ1, "dZ2": dZ2,
        "dF11": s2 * dW1.T @ S, "dF12": s2 * dW2.T @ S, "dF21": inner(dZ1), "dF22": inner(dZ2),
        "dZ_W": s1 * C @ dW @ G, "dF_outer": s2 * dW.T @ S, "dF_inner": inner(s1 * C @ dW @ G),
        "dZ_b": dZ_b, "dF_b": inner(dZ_b), "dF_c": np.outer(model.s_c * dc, np.ones(B)),
        "U_mean": dW.mean(axis=0), "U_centred": dW - dW.mean(axis=0),
        # U = CU + 1Ūᵀ (eq. adam-U-decomp); what the model sees of each part
        "dF_outer_bulk": s2 * (dW - mean @ dW).T @ S, "dF_outer_spike": s2 * (mean @ dW).T @ S,
        "dF_inner_bulk": inner(s1 * C @ (dW - mean @ dW) @ G), "dF_inner_spike": inner(s1 * C @ mean @ dW @ G),
    }  # fmt: skip


def spectrum(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of SᵀS/K, largest first, and the squared overlap of the first vector with 1/√B."""
    values, vectors = np.linalg.eigh(S.T @ S / len(S))
    return values[::-1], np.mean(vectors[:, -1]) ** 2 * len(vectors)


# --- data at several sizes, recall, and what two sizes agree on --------------------------------------


def block_means(height: int, width: int, channels: int, j: int, k: int | None = None) -> np.ndarray:
    """D_jk: the mean over j×k pixels, cut off at the lower and right edge, in each channel by itself."""
    k = k or j
    down, across = -(-height // j), -(-width // k)
    D = np.zeros((down * across * channels, height * width * channels))
    for R in range(down):
        for C in range(across):
            rows, columns = range(R * j, min((R + 1) * j, height)), range(C * k, min((C + 1) * k, width))
            for a in range(channels):
                for r in rows:
                    for s in columns:
                        block, pixel = (R * across + C) * channels + a, (r * width + s) * channels + a
                        D[block, pixel] = 1 / (len(rows) * len(columns))
    return D


def block_copies(height: int, width: int, channels: int, j: int, k: int | None = None) -> np.ndarray:
    """L_jk: every pixel gets the value of its block."""
    return (block_means(height, width, channels, j, k) > 0).T.astype(float)


def projection(Q: np.ndarray, X: np.ndarray) -> np.ndarray:
    """D = αQ with tr(D Σ Dᵀ)/N = tr(Σ)/N0, for Σ of the samples in the columns of X."""
    N, N0 = Q.shape
    d = X - X.mean(axis=1, keepdims=True)
    S = d @ d.T / X.shape[1]
    return np.sqrt((np.trace(S) / N0) / (np.trace(Q @ S @ Q.T) / N)) * Q


def recall(
    model: Model, x: np.ndarray, steps: int, damping: float = 1.0, known: np.ndarray | None = None
) -> tuple[list[np.ndarray], list[float]]:
    """All states of x ← x + damping (f(x) − x), known features left as they are, and their energies."""
    states = [x]
    for _ in range(steps):
        new = states[-1] + damping * (model.f(states[-1]) - states[-1])
        for i in range(len(x)):
            if known is not None and known[i]:
                new[i] = x[i]
        states.append(new)
    return states, [model.effective_energy(s) for s in states]


@dataclass
class Through:
    """A model trained through T steps of size d; its derivatives run forward, along with the state.

    With ``known`` (N×B), these features keep their values, and the loss is per hidden feature, times N. ``early``
    is the weight of the mean loss over the steps before the last. ``burn_in`` are the steps that each sample
    takes first, without derivatives. It passes for a `Model` in `train`.
    """

    model: Model
    T: int
    d: float
    known: np.ndarray | None = None
    early: float = 0.0
    burn_in: tuple[int, ...] | None = None

    def burnt_in(self, x: np.ndarray, known: np.ndarray, m: int) -> np.ndarray:
        """Where sample m starts."""
        for _ in range(0 if self.burn_in is None else self.burn_in[m]):
            x = np.where(known, x, x + self.d * (self.model.f(x) - x))
        return x

    def states(self, x: np.ndarray, known: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """x_t and ∂x_t/∂(W, b, c) for t = 0 … T."""
        D = np.zeros((len(x), self.model.W.size + self.model.b.size + self.model.c.size))
        states = [(x, D)]
        for _ in range(self.T):
            of_x, of_parameters = self.model.sensitivity(x)
            moved = x + self.d * (self.model.f(x) - x)
            D = np.where(known[:, None], D, D + self.d * (of_x @ D + of_parameters - D))
            x = np.where(known, x, moved)
            states.append((x, D))
        return states

    def weighted(self, X: np.ndarray, Y: np.ndarray) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """The weight, residual and derivative of every term of the loss."""
        known = np.zeros(X.shape, bool) if self.known is None else self.known
        share = X.size / np.sum(~known) / X.shape[1]
        terms = []
        for m in range(X.shape[1]):
            start = self.burnt_in(X[:, m], known[:, m], m)
            for t, (x, D) in enumerate(self.states(start, known[:, m])):
                weight = 0.0 if t == 0 else 1.0 if t == self.T else self.early / self.T
                terms.append((share * weight, np.where(known[:, m], 0, x - Y[:, m]), D))
        return terms

    def loss(self, X: np.ndarray, Y: np.ndarray) -> float:
        return sum(weight * np.sum(r**2) / 2 for weight, r, _ in self.weighted(X, Y))

    def gradient(self, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        whole = sum(weight * r @ D for weight, r, D in self.weighted(X, Y))
        (K, N), W = self.model.W.shape, self.model.W.size
        return whole[:W].reshape(K, N), whole[W : W + K], whole[W + K :]

    def with_step(self, optimizer, grads) -> "Through":
        return replace(self, model=optimizer.step(self.model, grads))


def agreement(large: Model, small: Model, D: np.ndarray, X: np.ndarray, steps: int) -> dict[str, float]:
    """D f_large^n(x) beside f_small^n(D x), for the x in the columns of X (fig. mnist-examples)."""
    columns = range(X.shape[1])
    there = np.stack([D @ recall(large, X[:, m], steps)[0][-1] for m in columns], axis=1)
    here = np.stack([recall(small, D @ X[:, m], steps)[0][-1] for m in columns], axis=1)

    def correlation(A: np.ndarray, B: np.ndarray) -> float:
        a, b = A - A.mean(), B - B.mean()
        return float(np.sum(a * b) / np.sqrt(np.sum(a**2) * np.sum(b**2)))

    return {
        "correlation": correlation(there, here),
        "relative_error": float(np.sqrt(np.sum((there - here) ** 2) / np.sum(there**2))),
        "chance": correlation(there, np.roll(here, 1, axis=1)),
    }


# --- patterns that are stored without training ------------------------------------------------------


@dataclass
class Stored:
    """K patterns in the rows of X; the features are the identity, or tanh(γx) for a gain γ."""

    X: np.ndarray
    gain: float | None = None

    def G(self, x: np.ndarray) -> float:
        return float(
            np.sum(x**2) / 2 if self.gain is None else np.sum(np.log(np.cosh(self.gain * x))) / self.gain
        )

    def g(self, x: np.ndarray) -> np.ndarray:
        return x if self.gain is None else np.tanh(self.gain * x)

    def divergence(self, mu: int, x: np.ndarray, known: np.ndarray | None = None) -> float:
        """D = G(ξ) − G(x) − g(x)·(ξ − x), the Bregman divergence of G, over the known features."""
        use = np.ones(len(x), bool) if known is None else known
        xi, x = self.X[mu][use], x[use]
        return self.G(xi) - self.G(x) - float(self.g(x) @ (xi - x))

    def weights(self, x: np.ndarray, beta: float, known: np.ndarray | None = None) -> np.ndarray:
        D = np.array([self.divergence(mu, x, known) for mu in range(len(self.X))])
        e = np.exp(-beta * (D - D.min()) / self.X.shape[1])
        return e / e.sum()

    def energy(self, x: np.ndarray, beta: float) -> float:
        N = self.X.shape[1]
        D = np.array([self.divergence(mu, x) for mu in range(len(self.X))])
        return float(D.min() - N / beta * np.log(np.sum(np.exp(-beta * (D - D.min()) / N))))

    def gap(self, nu: int, mu: int, noise: float, risk: float = 0.01) -> float:
        """The gap D_μ − D_ν that a cue of pattern ν with this noise keeps, but for the risk."""
        K = len(self.X)
        apart = self.X[nu] - self.X[mu]
        n = np.linspace(-9, 9, 20001)
        density = np.exp(-(n**2) / 2) / np.exp(-(n**2) / 2).sum()
        mean = np.array([density @ self.g(v + noise * n) for v in self.X[nu]])
        z = np.sqrt(2 * np.log((K - 1) / risk))
        steepest = 1.0 if self.gain is None else self.gain
        kept = apart @ mean + self.G(self.X[mu]) - self.G(self.X[nu])
        return float(kept - z * noise * steepest * np.linalg.norm(apart))

    def beta(self, noise: float, tolerance: float) -> tuple[float, float]:
        """β, and the share of the patterns that are promised."""
        (K, N), counted, gaps = self.X.shape, [], []
        for nu in range(K):
            others = [mu for mu in range(K) if mu != nu]
            apart = min(self.divergence(mu, self.X[nu]) for mu in others)
            gaps.append(min(self.gap(nu, mu, noise) for mu in others))
            counted.append(min(max(gaps[-1], apart / 8), apart / 2))
        beta = N * np.log((K - 1) / tolerance) / min(counted)
        return beta, float(np.mean([gap >= min(counted) * (1 - 1e-6) for gap in gaps]))


# --- the forecast at the target ----------------------------------------------------------------------


def forecast(
    sizes: list[int], target: int, optima: list[list[float]], c: float, mu: float, w: float, v: float,
    limits: list[float], lambdas: tuple[float, float] | None = None, sigma: float = 0.0, probe: float | None = None,
) -> dict[str, float]:  # fmt: skip
    """x̂, u, its bound, the interval around x̂, and the bound for x_m, from the optima of every seed.

    The mean log-loss of a size is a parabola of curvature c, so that its optimum x_i is the mean over seeds;
    λ is given for n_m and the target. The bounds of 1, 2, 3, 5, 10 and 20 % have their largest u. A cost p is reached at a distance h from the optimum, ½ c h² = ln(1 + p).
    """
    x = [sum(seeds) / len(seeds) for seeds in optima]
    squares, freedom = 0.0, 0
    for mean, seeds in zip(x, optima, strict=True):
        for optimum in seeds:
            squares += (optimum - mean) ** 2
        freedom += len(seeds) - 1
    s2, k = squares / freedom, len(optima[-1])
    g = np.log2(target / sizes[-1])
    b = (x[-1] - x[0]) / np.log2(sizes[-1] / sizes[0])
    delta = (x[-1] - x[-2]) / np.log2(sizes[-1] / sizes[-2])
    ell = 0.0 if lambdas is None else np.log10((lambdas[0] + sigma**2) / (lambdas[1] + sigma**2))
    hat = x[-1] + g * (mu + w * b) + v * ell
    if probe is not None:
        d = probe - x[-1]
        hat, delta, ell = x[-1] + (0.7 * d if d < 0 else 0.2 * d) + g * mu, d / g, 0.0
    r, tau = 0.003, 0.03
    u = g**2 * (r + c * tau**2 / 2) + c / 2 * (s2 / k + (g**2 * delta**2 + ell**2) / 4)
    bounds = np.array([0.01, 0.02, 0.03, 0.05, 0.1, 0.2, np.inf])
    bound, uncorrected = (
        bounds[[*(risk <= limit for limit in limits), True]].min()
        for risk in (u, u + c / 2 * (hat - x[-1]) ** 2)
    )
    h = np.sqrt(2 * np.log(1 + bound) / c)
    return {
        "x": hat, "risk": u, "bound": bound, "low": 10 ** (hat - h), "high": 10 ** (hat + h),
        "uncorrected": uncorrected,
    }  # fmt: skip
