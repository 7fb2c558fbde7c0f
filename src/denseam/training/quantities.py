"""What can be measured while a model trains: names, symbols, equations, and where they apply.

Plain data, so that records, studies and tables agree on the names; `denseam.training.probes` computes them.
Unless stated otherwise, a value is the root mean square of the entries, measured on the current batch: states
before the step, changes by the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from denseam.ground.errors import listed, refuse, whole
from denseam.rules.optimizers import OPTIMIZERS, Normalisation
from denseam.rules.table import SUMS_TO_ONE


class Quantity(NamedTuple):
    """A quantity that can be measured.

    Attributes
    ----------
    group
        The function of `denseam.training.probes` that computes it.
    symbol, meaning
        How it is written in formulas, and what it is in one line.
    needs
        '', or the only case it applies to, a key of `NEEDS`.
    """

    group: str
    symbol: str
    meaning: str
    needs: str = ""


_NORMALISED, _ENTRIES, _SHARED = "normalised updates", "normalised entries", "sums to one"

QUANTITIES: Mapping[str, Quantity] = {
    "Z": Quantity("sizes", "Z", "pre-activations"),
    "F": Quantity("sizes", "F", "outputs"),
    "R": Quantity("sizes", "R", "residuals F − Y"),
    "mse": Quantity("sizes", "MSE", "mean square of R"),
    "grad_W": Quantity("updates", "∇W", "gradient of the loss"),
    "dW": Quantity("updates", "ΔW", "change of W as the optimizer makes it; U for Adam"),
    "dW1": Quantity("updates", "Δ⁽¹⁾W", "its part from the outer place of W (eq. dW1-dW2)", "plain SGD"),
    "dW2": Quantity("updates", "Δ⁽²⁾W", "its part from the inner place of W", "plain SGD"),
    "dZ_W": Quantity("updates", "Δ_W Z", "s1 C ΔW G"),
    "dZ1": Quantity("updates", "Δ_W⁽¹⁾Z", "s1 C Δ⁽¹⁾W G (eq. dZ-expanded)", "plain SGD"),
    "dZ2": Quantity("updates", "Δ_W⁽²⁾Z", "s1 C Δ⁽²⁾W G", "plain SGD"),
    "dZ_b": Quantity("updates", "Δ_b Z", "C Δb 1ᵀ"),
    "dZ_exact": Quantity("updates", "ΔZ", "change of Z over the step (linear in W and b: no remainder)"),
    "dF_outer": Quantity("updates", "Δ⁽¹⁾F", "s2 ΔWᵀ Cσ (eq. dF-adam-update)"),
    "dF_inner": Quantity("updates", "Δ⁽²⁾F", "s2 WᵀCJ Δ_W Z"),
    "dF11": Quantity("updates", "Δ_W⁽¹,¹⁾F", "s2 Δ⁽¹⁾Wᵀ Cσ (eq. dF-11)", "plain SGD"),
    "dF12": Quantity("updates", "Δ_W⁽¹,²⁾F", "s2 Δ⁽²⁾Wᵀ Cσ", "plain SGD"),
    "dF21": Quantity("updates", "Δ_W⁽²,¹⁾F", "s2 WᵀCJ Δ_W⁽¹⁾Z", "plain SGD"),
    "dF22": Quantity("updates", "Δ_W⁽²,²⁾F", "s2 WᵀCJ Δ_W⁽²⁾Z", "plain SGD"),
    "dF_b": Quantity("updates", "Δ_b F", "s2 WᵀCJ Δ_b Z"),
    "dF_c": Quantity("updates", "Δ_c F", "Δc 1ᵀ"),
    "dF_exact": Quantity("updates", "ΔF", "change of F over the step"),
    "dF_remainder": Quantity("updates", "ΔF − …", "what the first-order terms leave of ΔF"),
    "U_mean": Quantity(
        "updates", "Ū", "means over memories of the update (eq. adam-row-mean)", "normalised updates"
    ),
    "U_centred": Quantity("updates", "CU", "the update without its means", _NORMALISED),
    "dF_outer_bulk": Quantity(
        "updates", "s2(CU)ᵀS", "bulk of Δ⁽¹⁾F (eq. adam-dF1-decomp)", "normalised updates"
    ),
    "dF_outer_spike": Quantity("updates", "s2K Ūσ̄ᵀ", "spike of Δ⁽¹⁾F; zero if centred", _NORMALISED),
    "dF_inner_bulk": Quantity("updates", "Δ⁽²⁾F of CU", "bulk of Δ⁽²⁾F", _NORMALISED),
    "dF_inner_spike": Quantity(
        "updates", "Δ⁽²⁾F of Ū", "spike of Δ⁽²⁾F; zero if centred", "normalised updates"
    ),
    "lambda_max": Quantity("spectra", "λ_max", "largest eigenvalue of S̃ᵀS̃/K, S̃ = CS (K S̃ᵀS̃ for softmax)"),
    "lambda_2": Quantity("spectra", "λ₂", "second eigenvalue of the same"),
    "alignment": Quantity("spectra", "(v₁·1)²/B", "squared overlap of the first eigenvector with 1"),
    "lambda_max_raw": Quantity("spectra", "λ_max(SᵀS/K)", "largest eigenvalue without centring"),
    "lambda_2_raw": Quantity("spectra", "λ₂(SᵀS/K)", "second eigenvalue without centring"),
    "alignment_raw": Quantity("spectra", "(v₁·1)²/B", "the same overlap without centring"),
    "mean_activation": Quantity("spectra", "σ̄", "mean of σ over memories and samples (times K for softmax)"),
    "K_eff": Quantity("participation", "K_eff", "1/Σ_k σ_k², mean over samples (eq. K-eff-def)", _SHARED),
    "K_eff_centred": Quantity("participation", "K̃_eff", "1/‖Cσ‖², mean over samples", _SHARED),
    "sigma_max": Quantity("participation", "max σ", "largest activation over their mean size"),
    "row_max": Quantity("participation", "max‖w_k‖", "largest row of W over the root mean square of rows"),
    "row_step_max": Quantity("participation", "max‖Δw_k‖", "largest row of ΔW, per entry"),
    "coherence_outer": Quantity("coherence", "ΔWᵀCσ", "its size over that of a sum with random signs"),
    "coherence_inner": Quantity("coherence", "WᵀJΔz", "its size over that of a sum with random signs"),
    "coherence_hidden": Quantity("coherence", "ΔW·g", "its size over that of a sum with random signs"),
    "sign_distance": Quantity(
        "coherence", "U/η_W + sign ∇", "how far the step is from −sign(∇W)", "normalised entries"
    ),
}

GROUPS: tuple[str, ...] = tuple(dict.fromkeys(q.group for q in QUANTITIES.values()))

#: What is measured where a model takes several steps of recall: states of all steps and of the last, and what
#: the update changes in them. The other quantities are terms of one update of the state.
THROUGH = (
    "Z", "F", "R", "mse", "grad_W", "dW", "dZ_exact", "dF_exact", "U_mean", "U_centred", "row_max",
    "row_step_max", "sign_distance",
)  # fmt: skip

#: The case a quantity applies to → its words in a message.
NEEDS = {
    "plain SGD": "the optimizer 'sgd' without momentum and decay",
    "normalised updates": "an optimizer that normalises its updates, such as 'adam'",
    "normalised entries": "an optimizer that normalises entry by entry, such as 'adam'",
    "sums to one": "an activation that sums to one, such as 'softmax'",
}


def applicable(family: str, optimizer: str, *, plain: bool = True, through: bool = False) -> tuple[str, ...]:
    """Return the names that apply to an activation's family and an optimizer.

    `plain` says that there is neither momentum nor decay, `through` that the model takes steps of recall.
    """
    known = THROUGH if through else tuple(QUANTITIES)
    return tuple(name for name in QUANTITIES if name in known and _applies(name, family, optimizer, plain))


def resolve(
    requested: Iterable[str], family: str, optimizer: str, *, plain: bool = True, through: bool = False
) -> tuple[str, ...]:
    """Return the quantities meant by names and groups ('all' is a group too), in the order of the table.

    A group gives its members that apply; a quantity requested by name must apply.
    """
    words, problems = list(requested), []
    for word in words:
        if word not in (*QUANTITIES, *GROUPS, "all"):
            problems.append(
                f"probes must be 'all', {listed(GROUPS)} or quantities such as 'dZ1', got {word!r}"
            )
        elif word in QUANTITIES and not _applies(word, family, optimizer, plain):
            problems.append(f"probe {word} ({QUANTITIES[word].symbol}) needs {NEEDS[QUANTITIES[word].needs]}")
        elif word in QUANTITIES and through and word not in THROUGH:
            problems.append(f"probe {word} ({QUANTITIES[word].symbol}) needs one step of recall with tau = 1")
    refuse(problems)
    return tuple(
        name
        for name in applicable(family, optimizer, plain=plain, through=through)
        if name in words or QUANTITIES[name].group in words or "all" in words
    )


def _applies(name: str, family: str, optimizer: str, plain: bool) -> bool:
    normalisation = OPTIMIZERS[optimizer].normalisation
    match QUANTITIES[name].needs:
        case "plain SGD":
            return normalisation is Normalisation.GRADIENT and plain
        case "normalised updates":
            return normalisation is not Normalisation.GRADIENT
        case "normalised entries":
            return normalisation is Normalisation.ENTRIES
        case "sums to one":
            return family in SUMS_TO_ONE
    return True


def log_spaced(steps: int, most: int | None = None) -> tuple[int, ...]:
    """Return the steps 0, 1, 2, 4, 8, … below `steps`, thinned to `most` of them."""
    refuse(whole(steps=steps))
    powers = [0, *(2**k for k in range(steps.bit_length()) if 2**k < steps)]
    if most is None or len(powers) <= most:
        return tuple(powers)
    last, count = len(powers) - 1, max(1, most)
    return tuple(sorted({powers[round(i * last / max(1, count - 1))] for i in range(count)}))
