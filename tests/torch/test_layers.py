"""The layers of others on the page 'layers': their equations, and that the page shows what the script found."""

import importlib.util
import json

import pytest
import torch

import denseam.torch as dt
from tests import ROOT


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("layers", ROOT / "examples" / "layers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("rescaled", [False, True])
def test_the_force_of_the_energy_transformer_is_minus_the_gradient_of_its_energy(script, rescaled):
    torch.manual_seed(0)
    layer = script.EnergyTransformer(32, 64, rescaled=rescaled).double()
    g = torch.randn(3, script.TOKENS, 8, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(layer.energy(g).sum(), g)
    assert torch.allclose(layer.force(g), -slope, atol=1e-12)


def test_both_scalings_of_the_hopfield_layer_are_one_function_but_for_the_centring(script):
    """The factors s1 and s2 are worth what the initial sizes are: the same weights give the same output."""
    usual, rescaled = (script.Hopfield(16, 32, rescaled=r).double() for r in (False, True))
    with torch.no_grad():
        for name in ("query", "key", "value", "out"):
            getattr(usual, name).copy_(getattr(rescaled, name) * 16**-0.5)
        usual.patterns.copy_(rescaled.patterns)
    x = torch.randn(5, 16, dtype=torch.float64)
    assert torch.allclose(usual.hidden(x), rescaled.hidden(x))
    rescaled.s2, rescaled.rescaled = 1.0, False
    assert torch.allclose(usual(x), rescaled(x))


@pytest.mark.parametrize("title", ["Hopfield layer", "energy transformer"])
def test_the_layers_can_be_checked(script, title):
    make = script.maker(script.LAYERS[title], True)
    check = dt.check(make, script.adam, scales=(16, 32, 64), seeds=3, updates=1)
    assert check.desiderata["stability"] == "PASS"


def test_the_page_is_about_the_results_of_the_script(script):
    kept = json.loads((ROOT / "docs" / "layers.json").read_text())
    assert kept["settings"]["sizes"] == list(script.SIZES)
    assert kept["settings"]["epochs"] == script.EPOCHS
    assert [(r["layer"], r["rescaled"]) for r in kept["layers"]] == [
        (title, rescaled) for title in script.LAYERS for rescaled in (False, True)
    ]
