"""The paper's Table 1 at N = 64, K = 256, η0 = 0.1: s1, s2, eta_W, computed by hand."""

EXPECTED = {
    ("proportional", "identity", "sgd"): (1 / 8, 1 / 16, 25.6),
    ("proportional", "relu", "sgd"): (1 / 8, 1 / 16, 25.6),
    ("proportional", "softmax", "sgd"): (1 / 8, 16, 25.6),
    ("proportional", "identity", "adam"): (1 / 8, 1 / 16, 0.1),
    ("proportional", "relu", "adam"): (1 / 8, 1 / 16, 0.1),
    ("proportional", "softmax", "adam"): (1 / 8, 16, 0.1),
    ("memories-only", "identity", "sgd"): (1 / 8, 1 / 256, 25.6),
    ("memories-only", "relu", "sgd"): (1 / 8, 1 / 256, 25.6),
    ("memories-only", "softmax", "sgd"): (1 / 8, 8, 25.6),
    ("memories-only", "identity", "adam"): (1 / 8, 1 / 256, 0.1),
    ("memories-only", "relu", "adam"): (1 / 8, 1 / 256, 0.1),
    ("memories-only", "softmax", "adam"): (1 / 8, 8, 0.1),
}

#: Further optimizers: eta_W as above, and the factor of the decay, which makes their product 0.1 everywhere.
FURTHER = {
    "sgd": (25.6, 1 / 256),
    "adam": (0.1, 1),
    "adamw": (0.1, 1),
    "lion": (0.1, 1),
    "sign": (0.1, 1),
    "muon": (1.6, 1 / 16),
}
#: The same at B = 16, a quarter of N: the rates of W and of the biases, and the factor on the decay, whose
#: product with that of W is a quarter of 0.1; then the factors on 1 − μ, 1 − β1 and 1 − β2.
BATCH_ONLY = {
    "sgd": (6.4, 0.025, 1 / 256, 1, 1, 1),
    "adam": (0.05, 0.05, 0.5, 1, 1 / 4, 1 / 4),
    "adamw": (0.05, 0.05, 0.5, 1, 1 / 4, 1 / 4),
    "lion": (0.025, 0.025, 1, 1, 1 / 2, 1 / 4),
    "sign": (0.025, 0.025, 1, 1 / 4, 1, 1),
    "muon": (0.4, 0.05, 1 / 16, 1 / 4, 1 / 4, 1 / 4),
}
#: Family and optimizer whose learning rate is not expected to transfer.
UNPRESCRIBED = {
    *((family, optimizer) for family in ("softmax", "exponential") for optimizer in ("sgd", "muon")),
    *(("sparse", optimizer) for optimizer in FURTHER),
}
#: An activation of each family.
OF_FAMILY = {"elementwise": "relu", "softmax": "softmax", "entmax": "relative-entmax", "sparse": "entmax"}
OF_FAMILY |= {"exponential": "exp"}
