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
#: Family and optimizer whose learning rate is not expected to transfer.
UNPRESCRIBED = {("softmax", "sgd"), ("softmax", "muon")}
