"""Train a memory on scikit-learn's 8×8 digits; print and plot the results.

python examples/digits.py --out digits      # digits/digits.png and digits/digits.svg

Needs the extra `images` (scikit-learn).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import denseam as dam

SIDE = 8  # pixels along an edge, so N = 64
SHAPE = dam.Shape(N=SIDE * SIDE, K=256, P=1600, B=100)
ETA0, NOISE, EPOCHS, STEPS, SEED = 0.02, 0.8, 60, 100, 0

# Okabe and Ito's palette for colour-blind readers, without yellow, which is too pale on white.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F"]
BLUE, VERMILLION, GREEN = COLOURS[0], COLOURS[1], COLOURS[2]


class Digits(NamedTuple):
    """Digits in random order: centred features, mean variance 1 over the training samples."""

    train: np.ndarray
    heldout: np.ndarray
    labels: np.ndarray  # of the held-out samples
    mean: np.ndarray
    scale: float

    def pixels(self, x: np.ndarray) -> np.ndarray:
        """Return states as images in the original grey values, 0 to 16."""
        return (np.asarray(x) * self.scale + self.mean).reshape(*x.shape[:-1], SIDE, SIDE)


def load(rng: np.random.Generator) -> Digits:
    raw = load_digits()
    order = rng.permutation(len(raw.data))
    x, labels = raw.data[order].astype(np.float32), raw.target[order]
    # Mean and scale come from the training samples alone, so nothing leaks from the held-out ones.
    mean = x[: SHAPE.P].mean(axis=0)
    scale = float(np.sqrt(np.mean((x[: SHAPE.P] - mean) ** 2)))
    x = (x - mean) / scale
    return Digits(x[: SHAPE.P], x[SHAPE.P :], labels[SHAPE.P :], mean, scale)


def best_linear_mse(y: np.ndarray) -> float:
    """Return the smallest MSE of any linear denoiser: the mean of λσ²/(λ + σ²) over directions."""
    variances = np.linalg.eigvalsh(np.cov(y.T, bias=True)).clip(0)
    return float(np.mean(variances * NOISE**2 / (variances + NOISE**2)))


def main(out: Path) -> None:
    rng = np.random.default_rng(SEED)
    digits = load(rng)

    scales = dam.prescription("relu", "adam").at(SHAPE, eta0=ETA0)
    print(scales.explain(), end="\n\n")
    model = dam.DenseAM.create(scales, dam.relu(), seed=SEED)
    run = dam.train(
        model,
        digits.train,
        optimizer=dam.adam(scales),
        epochs=EPOCHS,
        noise=NOISE,
        seed=SEED,
        progress=lambda n, mse: print(f"epoch {n:3d}  MSE {mse:.4f}") if n == 1 or n % 10 == 0 else None,
    )
    linear = best_linear_mse(digits.train)
    print(f"{run.status}: MSE {run.initial_mse:.4f} → {run.final_mse:.4f} (best linear: {linear:.4f})\n")

    clean = digits.heldout
    noisy = clean + NOISE * rng.standard_normal(clean.shape).astype(np.float32)
    once = np.asarray(run.model(noisy))
    recall = run.model.recall(noisy, steps=STEPS)
    print(f"held-out digits, {len(clean)} of them, MSE per pixel")
    states = {"noisy": noisy, "one update": once, f"{STEPS} updates": np.asarray(recall.state)}
    errors = {name: float(np.mean((x - clean) ** 2)) for name, x in states.items()}
    for name, error in errors.items():
        print(f"  {name:<12} {error:.4f}")
    # The model is trained for one update: further updates go downhill to a memory, away from the digit.
    rise = np.max(np.diff(recall.energies, axis=1) / np.abs(recall.energies[:, 1:]))
    print(f"at rest: {int(recall.converged.sum())} of {len(clean)}; largest relative rise of E: {rise:.0e}")

    # The first held-out digit of each class from 0 to 7.
    shown = np.array([np.argmax(digits.labels == label) for label in range(8)])
    rows = {name: x[shown] for name, x in {"clean": clean, **states}.items()}
    figure = draw(
        run.mse.mean(axis=1),
        linear,
        digits,
        rows,
        errors,
        digits.labels[shown],
        np.asarray(recall.energies)[shown],
    )
    out.mkdir(parents=True, exist_ok=True)
    for suffix in ("png", "svg"):
        figure.savefig(out / f"digits.{suffix}", dpi=200)
        print(out / f"digits.{suffix}")


def draw(
    curve: np.ndarray,
    linear: float,
    digits: Digits,
    rows: dict[str, np.ndarray],
    errors: dict[str, float],
    labels: np.ndarray,
    energies: np.ndarray,
) -> plt.Figure:
    plt.rcParams.update(
        {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "denseam"}
    )
    figure = plt.figure(figsize=(13, 3.6), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=[1.0, 1.6, 1.0])

    # --- left: learning ---
    ax = left.subplots()
    epochs = np.arange(1, len(curve) + 1)
    ax.plot(epochs, curve, color=BLUE, lw=2)
    for level, text, colour in (
        (1.0, "variance: answer with the mean digit", "0.35"),
        (NOISE**2, "noise: answer with the input", VERMILLION),
        (linear, "best linear denoiser", GREEN),
    ):
        ax.axhline(level, color=colour, lw=1.2, ls=(0, (5, 3)))
        ax.annotate(
            f"{text}, {level:.2f}",
            (1, level),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            va="bottom",
            color=colour,
            fontsize=9,
        )
    ax.annotate(
        f"memory, {curve[-1]:.2f}",
        (epochs[-1], curve[-1]),
        xytext=(0, -5),
        textcoords="offset points",
        ha="right",
        va="top",
        color=BLUE,
        fontsize=9,
    )
    ax.set(xlabel="epoch", ylabel="training MSE per pixel", xlim=(0, len(curve)), ylim=(0, 1.1))
    ax.set_title("It learns to denoise", loc="left", fontweight="bold")

    # --- middle: its effect on held-out digits, one picture of tiles with gaps ---
    ax = middle.subplots()
    gap, tile = 1, SIDE + 1
    tiles = np.full((len(rows) * tile - gap, len(labels) * tile - gap), np.nan)
    for i, states in enumerate(rows.values()):
        for j, image in enumerate(digits.pixels(states)):
            tiles[i * tile : i * tile + SIDE, j * tile : j * tile + SIDE] = image
    # Noise goes below 0 and above 16, so the grey scale does too.
    ax.imshow(tiles, cmap="gray_r", vmin=-3, vmax=17, interpolation="nearest")
    centre = (SIDE - 1) / 2
    ax.set_yticks(centre + tile * np.arange(len(rows)), [name.replace(" ", "\n") for name in rows])
    ax.set_xticks(centre + tile * np.arange(len(labels)), [str(label) for label in labels])
    ax.tick_params(length=0, labeltop=True, labelbottom=False, pad=4)
    for text, colour in zip(ax.get_xticklabels(), COLOURS, strict=True):
        text.set(color=colour, fontweight="bold", fontsize=12)
    ax.spines[:].set_visible(False)
    ax.set_anchor("N")
    said = ", ".join(f"{name} {error:.2f}" for name, error in errors.items())
    ax.set_xlabel(f"MSE per pixel over all {len(digits.heldout)} held-out digits:\n{said}", labelpad=8)
    ax.set_title("It cleans digits it never saw", loc="left", fontweight="bold")

    # --- right: the energy of these digits ---
    ax = right.subplots()
    for energy, colour in zip(energies, COLOURS, strict=True):
        ax.plot(energy, color=colour, lw=1.8)
    ax.text(
        0.98,
        0.97,
        "one curve a digit,\nin the colour of its number",
        transform=ax.transAxes,
        ha="right",
        va="top",
        fontsize=9,
        color="0.35",
    )
    ax.set_xscale("symlog", linthresh=1, linscale=0.6)
    ax.set_xticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    ax.set(xlabel="updates", ylabel="energy $E_{\\rm eff}$", xlim=(0, energies.shape[1] - 1))
    ax.set_title("Recall runs downhill", loc="left", fontweight="bold")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("digits"), help="folder for the figure")
    main(parser.parse_args().out)
