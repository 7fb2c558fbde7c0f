"""What a notebook shows: small tables of escaped text, and pictures that need no pyplot."""

import dataclasses
import math
import re
import subprocess
import sys

import numpy as np
import pytest

import denseam as dam
from denseam.analysis.coordinates.expected import Expectation
from denseam.analysis.coordinates.judge import Conditions, judge
from denseam.analysis.coordinates.slopes import Measurements, slopes
from tests.sampled import sampled
from tests.synthetic import rows, study


def records(**how):
    return dam.Records(rows(study(name="a <b> & c"), **how))


def check(power):
    sizes = np.array([8.0, 16.0, 32.0])
    values = {"F": np.repeat((sizes**power)[None, :, None], 3, axis=2)}
    measured = Measurements((0,), (8, 16, 32), values)
    return judge(measured, slopes(measured, {"F": Expectation(0.0, "stability")}), Conditions("own <model>"))


def shown():
    scales = dam.prescription("relu", "sgd").at(dam.Shape(N=64, K=128), eta0=0.02)
    return {
        "scales": (scales, ["Scales for sgd", "N = 64, K = 128", "eta_W", "2.56"]),
        "study": (study(name="a <b>"), ["a &lt;b&gt;", "63 runs", "16, 32, 64", "sgd"]),
        "records": (records(), ["63 runs", "a &lt;b&gt; &amp; c", "16, 32, 64"]),
        "verdict": (dam.verdict(records())[0], ["TRANSFERS", "best eta0", "0.0316", "0.0 %"]),
        "drift": (dam.verdict(records(moves=-0.3))[0], ["best eta0", "regret"]),
        "check": (check(0.0), ["PASS", "stability", "own &lt;model&gt;"]),
        "failure": (check(1.0), ["FAIL", "s2: F goes as N^1.00", "exponent in N"]),
    }


@pytest.fixture(scope="module")
def things():
    return shown()


@pytest.mark.parametrize("name", ["scales", "study", "records", "verdict", "drift", "check", "failure"])
def test_tables_hold_the_numbers_as_escaped_text(things, name):
    thing, parts = things[name]
    html = thing._repr_html_()
    for part in parts:
        assert part in html, html
    opened, closed = (re.findall(rf"<{end}(\w+)", html) for end in ("", "/"))
    assert sorted(opened) == sorted(closed)
    assert set(opened) <= {"p", "strong", "span", "table", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize(
    "name", sampled(["records", "verdict", "drift", "check", "failure"], ["records", "drift", "failure"])
)
def test_pictures_are_shown_without_pyplot(things, name, tmp_path):
    figure = things[name][0].plot()
    assert figure._repr_png_().startswith(b"\x89PNG")
    figure.savefig(tmp_path / "figure.svg")
    assert "<svg" in (tmp_path / "figure.svg").read_text()


def test_a_verdict_is_drawn_from_its_numbers():
    (verdict,) = dam.verdict(records(moves=-0.3, edge=0.2))
    optima, regrets = verdict.plot().axes
    drawn = {line.get_label(): line for line in optima.lines}
    assert list(drawn["optimum"].get_ydata()) == [verdict.optimum[scale] for scale in (16, 32, 64)]
    assert list(drawn["edge of stability"].get_ydata()) == [verdict.edge[scale] for scale in (16, 32, 64)]
    assert verdict.status in optima.get_title(loc="left")
    assert regrets.get_ylabel() == "regret, %"


def test_an_infinite_regret_is_a_word():
    (verdict,) = dam.verdict(records())
    largest = max(verdict.regret)
    shown = dataclasses.replace(verdict, regret=verdict.regret | {largest: math.inf})._repr_html_()
    assert shown.count("<td>diverges</td>") == 1
    assert "inf %" not in shown


def test_an_infinite_regret_is_a_cross():
    (verdict,) = dam.verdict(records())
    largest = max(verdict.regret)
    regrets = dataclasses.replace(verdict, regret=verdict.regret | {largest: math.inf}).plot().axes[1]
    assert [line.get_xdata()[0] for line in regrets.lines if line.get_marker() == "x"] == [largest]


def test_an_optimum_that_diverges_at_a_larger_size_is_drawn_as_far_as_it_goes():
    made = records(moves=-1.2, edge=1.0)
    (verdict,) = dam.verdict(made)
    best = verdict.optimum[16]
    at = [row for row in made if row["scale"] == 64 and abs(math.log(row["eta0"] / best)) < 1]
    for row in at:
        row |= {"status": "diverged", "final_mse": math.inf, "loss": [0.9, *[math.inf] * 19]}
    curves = made.plot().axes[1]
    assert [line.get_xdata()[0] for line in curves.lines if line.get_marker() == "x"] == [1]


def test_curves_are_drawn_of_the_sizes_that_have_them():
    made = records()
    for row in made:
        row["loss"] = row["loss"] if row["scale"] < 64 else []
    labels = {line.get_label() for line in made.plot().axes[1].lines}
    assert {"N = 16", "N = 32"} <= labels
    assert "N = 64" not in labels
    nothing = records(edge=1e-9).plot().axes[1]
    assert (nothing.get_title(loc="left"), list(nothing.lines)) == ("no optimum at N = 16", [])


def test_a_verdict_without_an_optimum_is_drawn():
    (verdict,) = dam.verdict(records(edge=1e-9))
    assert verdict.optimum[16] is None
    assert verdict.plot()._repr_png_()
    assert "none" in verdict._repr_html_()


def test_nothing_is_loaded_until_something_is_shown():
    code = (
        "import sys, denseam as dam; s = dam.prescription('relu', 'sgd').at(dam.Shape(N=8, K=16), eta0=0.1);"
        "assert 'jax' not in sys.modules and 'denseam.report' not in sys.modules; s._repr_html_();"
        "assert 'denseam.report.notebook' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_class_that_can_be_shown_is_known_to_the_renderer():
    from denseam.ground import display
    from denseam.report import notebook

    def below(cls):
        return {c for sub in cls.__subclasses__() for c in (sub, *below(sub))}

    drawn = below(display.Drawn)
    assert drawn
    for cls in below(display.Shown) - {display.Drawn}:
        assert notebook.html.dispatch(cls) is not notebook.html.dispatch(object), cls
    for cls in drawn:
        assert notebook.plot.dispatch(cls) is not notebook.plot.dispatch(object), cls
    assert notebook.__name__ == display.RENDERER
