"""What `denseam bench` compares with in PyTorch is the same training."""

import jax
import numpy as np
import pytest
import torch

import denseam as dam
from denseam.cli import rivals
from denseam.cli.bench import REGIME
from denseam.training.gradient import loss

SHAPE = REGIME.shape(32)


@pytest.mark.parametrize(("precision", "within"), [("float32", 1e-6), ("bf16", 2e-2)])
def test_the_loss_is_that_of_the_model(precision, within):
    scales = dam.prescription("relu", "sgd", REGIME).at(SHAPE, eta0=0.02)
    model = dam.DenseAM.create(scales, dam.relu(), seed=0, bias_init="normal", dtype=np.float32)
    noisy, clean = jax.random.normal(jax.random.key(0), (2, SHAPE.B, SHAPE.N), np.float32)
    of_rival = rivals._autocast(rivals._loss, "cpu") if precision == "bf16" else rivals._loss
    arrays = (torch.tensor(np.asarray(V)) for V in (*model.parameters, noisy, clean))
    rival = float(of_rival(*arrays))
    own = float(loss(model, noisy, clean))
    assert rival == pytest.approx(own, rel=within)
    assert (rival == pytest.approx(own, rel=1e-6)) == (precision == "float32"), "bf16 rounds"


@pytest.mark.parametrize("name", ["loop", "batched"])
def test_a_step_can_be_timed(monkeypatch, name):
    monkeypatch.setattr(rivals, "SECONDS", 0.0)
    assert 0 < rivals.rivals(2, gpu=False, precision="float32")[name](SHAPE, "adam") < 60
