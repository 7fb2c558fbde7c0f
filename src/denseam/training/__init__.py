"""Training as a denoiser: gradient, steps, optimizers, probes of a step, placement on devices."""

from denseam.training import quantities as quantities  # a public name, and plain data
