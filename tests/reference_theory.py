"""The paper's equations as a plain NumPy float64 Monte Carlo: nothing is shared with the library.

Samples are columns. Every term of the first step is a matrix, written as the paper's appendix writes it; numbers
returned are mean squared entries, or eigenvalues, one per draw.
"""

import numpy as np

TERMS = ("Z1", "Z2", "F11", "F12", "F21", "F22")


def data(rng, N, B, noise):
    Y = rng.standard_normal((N, B))
    return Y, np.tanh(Y + noise * rng.standard_normal((N, B)))


def first_step(W, G, R, eta_W, s1, s2):
    """The six terms, identity activation: S = Z = s1 W G, S' = 1 (eqs. dZ-expanded, dF-11 … dF-22)."""
    B = G.shape[1]
    S = s1 * W @ G
    WR = np.ones_like(S) * (W @ R)
    return {
        "Z1": -eta_W * s1 * s2 / B * S @ (R.T @ G),
        "Z2": -eta_W * s1**2 * s2 / B * WR @ (G.T @ G),
        "F11": -eta_W * s2**2 / B * R @ (S.T @ S),
        "F12": -eta_W * s1 * s2**2 / B * G @ (WR.T @ S),
        "F21": -eta_W * s1 * s2**2 / B * W.T @ (S @ (R.T @ G)),
        "F22": -eta_W * s1**2 * s2**2 / B * W.T @ (WR @ (G.T @ G)),
    }


def step_sizes(N, K, B, noise, draws, seed, eta0=1.0, s1_0=1.0, s2_0=1.0):
    """Arrays of shape draws×6: with R replaced by F, and with R = F − Y; draws of ‖F‖²/NB and ‖R‖²/NB."""
    rng = np.random.default_rng(seed)
    s1, s2, eta_W = s1_0 / np.sqrt(N), s2_0 / np.sqrt(K), eta0 * K
    with_F, with_R, F_size, R_size = [], [], [], []
    for _ in range(draws):
        W = rng.standard_normal((K, N))
        Y, G = data(rng, N, B, noise)
        F = s2 * W.T @ (s1 * W @ G)
        for R, kept in ((F, with_F), (F - Y, with_R)):
            terms = first_step(W, G, R, eta_W, s1, s2)
            kept.append([np.mean(terms[name] ** 2) for name in TERMS])
        F_size.append(np.mean(F**2))
        R_size.append(np.mean((F - Y) ** 2))
    return np.array(with_F), np.array(with_R), np.array(F_size), np.array(R_size)


def centred_output_sizes(N, K, B, noise, draws, seed):
    """‖F‖²/NB with W̃ = CW, identity activation, s1 = N^-½, s2 = K^-½."""
    rng = np.random.default_rng(seed)
    C = np.eye(K) - np.ones((K, K)) / K
    sizes = []
    for _ in range(draws):
        W = C @ rng.standard_normal((K, N))
        _, G = data(rng, N, B, noise)
        sizes.append(np.mean((W.T @ W @ G) ** 2) / (N * K))
    return np.array(sizes)


def relu(z, p=1):
    C_p = np.sqrt(2 / np.prod(np.arange(2 * p - 1, 0, -2)))
    return C_p * np.where(z > 0, z, 0) ** p


def top_eigenvalues(sigma, N, K, B, noise, draws, seed, centred=False, bias_std=0.0):
    """The largest eigenvalue of SᵀS (of S̃ᵀS̃), S = σ(s1 W G + b1ᵀ), s1 = N^-½; and the biases drawn."""
    rng = np.random.default_rng(seed)
    tops, biases = [], []
    for _ in range(draws):
        W = rng.standard_normal((K, N))
        b = bias_std * rng.standard_normal(K)
        _, G = data(rng, N, B, noise)
        if centred:
            W, b = W - W.mean(axis=0), b - b.mean()
        S = sigma(W @ G / np.sqrt(N) + b[:, None])
        if centred:
            S = S - S.mean(axis=0)
        tops.append(np.linalg.eigvalsh(S.T @ S)[-1])
        biases.append(b)
    return np.array(tops), np.array(biases)


def softmax(z, beta):
    e = np.exp(beta * (z - z.max(axis=0)))
    return e / e.sum(axis=0)


def softmax_outputs(g, K, beta, draws, seed):
    """Over draws of W, s1 = N^-½, s2 = 1: the component of f − c along g, over ‖g‖²; and ‖σ‖²."""
    rng = np.random.default_rng(seed)
    N = len(g)
    along, concentration = [], []
    for _ in range(draws):
        W = rng.standard_normal((K, N))
        W = W - W.mean(axis=0)
        s = softmax(W @ g / np.sqrt(N), beta)
        along.append(g @ (W.T @ s) / (g @ g))
        concentration.append(s @ s)
    return np.array(along), np.array(concentration)
