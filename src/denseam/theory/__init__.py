"""Random-matrix predictions: the sizes of outputs, of their first changes, and spectra of activations.

Nothing here imports the model or its training, so that agreement with them is evidence.
"""

from denseam.theory.gaussian import FeatureMoments, feature_moments, feature_variance, gaussian_mean
from denseam.theory.moments import (
    free_cumulants_from_moments,
    kreweras_complement,
    marchenko_pastur_edges,
    marchenko_pastur_moment,
    mixed_moment,
    moments_from_free_cumulants,
    narayana,
    non_crossing_partitions,
    wishart_second_moment,
    wishart_third_moment,
)
from denseam.theory.report import explain, report
from denseam.theory.spikes import (
    ActivationMoments,
    activation_moments,
    bias_spike,
    gram_edge,
    gram_top,
    mean_spike,
    mean_spike_finite,
    relu_moments,
    softmax_concentration,
    softmax_gain,
    softmax_spike,
)
from denseam.theory.steps import linear_growth
from denseam.theory.updates import (
    UpdateSizes,
    output_size,
    residual_size,
    residual_update_sizes,
    update_sizes,
    update_sizes_at,
)

__all__ = [  # noqa: RUF022  # in the order of use
    "report", "explain",
    "UpdateSizes", "update_sizes", "update_sizes_at", "residual_update_sizes", "residual_size", "output_size",
    "FeatureMoments", "feature_moments", "feature_variance", "gaussian_mean",
    "ActivationMoments", "activation_moments", "relu_moments",
    "mean_spike", "mean_spike_finite", "bias_spike", "gram_edge", "gram_top",
    "softmax_spike", "softmax_concentration", "softmax_gain", "linear_growth",
    "narayana", "marchenko_pastur_moment", "marchenko_pastur_edges",
    "wishart_second_moment", "wishart_third_moment",
    "moments_from_free_cumulants", "free_cumulants_from_moments", "mixed_moment",
    "non_crossing_partitions", "kreweras_complement",
]  # fmt: skip
