"""The sentences of a search, written from its data alone. No other code may look at them."""

from __future__ import annotations

from denseam.workflow.advice import Advice, Remedy

ADVICE = {
    Remedy.TAKE_ADAM: "softmax with SGD has no prescription: take --optimizer adam",
    Remedy.TAKE_PRESCRIPTION: "the parameterization '{names}' is not the prescription: leave it out",
    Remedy.CENTRE: "centre the activations: leave out --uncentered",
    Remedy.ZERO_BIASES: "start the biases at zero: leave out --bias-init",
    Remedy.LEAVE_AXES: "eta0 transfers, {names} does not: leave it at its default",
    Remedy.LEARN_MORE: "train for more --epochs, with less --noise, or scale the data (--unit-variance)",
    Remedy.CALM_SEEDS: "{seeds} seeds still differ too much to tell: train for more --epochs, or on more "
    "--samples",
    Remedy.NEXT_SIZE: "go on to {letter} = {scale}: allow more with --budget {budget:g} (run again with the "
    "same folder to go on)",
    Remedy.LOOK_INSIDE: "no size below the target is left: look inside with `denseam check`, or sweep the "
    "target itself",
}


def advice(given: Advice | None) -> str:
    """Say what would make it hold; '' if nothing has to."""
    if given is None:
        return ""
    return ADVICE[given.remedy].format(**vars(given) | {"names": ", ".join(given.names)})
