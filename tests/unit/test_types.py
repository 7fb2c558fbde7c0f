"""A wrong type is bad input: one line that names the argument."""

import json
import subprocess
import sys
import textwrap

import pytest

#: Run in another process: in this one, types are checked before the library sees them.
SETUP = """
import json, warnings
from pathlib import Path

import numpy as np
import optax

import denseam as dam
from denseam.data import Preparation, source

SHAPE = dam.Shape(8, 16, 40, 4)
SCALES = dam.prescription("relu", "sgd").at(SHAPE, eta0=0.1)
MODEL = dam.DenseAM.create(SCALES, dam.relu())
OPTIMIZER = dam.sgd(SCALES)
DATA = np.zeros((40, 8), np.float32)
TABLE = {"width": [1, 2], "lr": [1, 2], "loss": [1, 2]}


def study(**changes):
    return dam.Study(**{"activation": "relu", "optimizer": "sgd", "scales": [8, 16], "eta0": [0.1], **changes})


def array(W=((1.0, 2.0),), b=(0.0,), activation=None, **others):
    return dam.DenseAM(W, b, (0.0, 0.0), 1.0, 1.0, activation or dam.relu(), **others)
"""

#: What is wrong → the call, and the argument that the message begins with.
WRONG = {
    "study without anything": ('dam.Study()', "activation is needed; optimizer is needed; scales is needed; eta0"),
    "study of scales alone": ('dam.Study(scales=16)', "activation is needed; optimizer is needed; eta0 is needed"),
    "regime without anything": ('dam.MemoriesOnly()', "features is needed; samples is needed; batch is needed"),
    "scales none": ('study(scales=None)', "scales"),
    "scales of text": ('study(scales=["a"])', "scales"),
    "scales nested": ('study(scales=[[16]])', "scales"),
    "scales infinite": ('study(scales=float("inf"))', "scales"),
    "eta0 none": ('study(eta0=None)', "eta0"),
    "activation a list": ('study(activation=[])', "activation"),
    "activation a number": ('study(activation=3)', "activation"),
    "activation a class": ('study(activation=dam.relu)', "activation"),
    "optimizer an object": ('study(optimizer=OPTIMIZER)', "optimizer"),
    "regime a name": ('study(regime="proportional")', "regime"),
    "data a number": ('study(data=3)', "data"),
    "data an array": ('study(data=DATA)', "data"),
    "data a path": ('study(data=Path("x.npy"))', "data"),
    "preparation a name": ('study(preparation="x")', "preparation"),
    "axes a list": ('study(axes=[1])', "axes"),
    "axes none": ('study(axes=None)', "axes"),
    "axes of numbers": ('study(axes={3: [1]})', "unknown axis 3"),
    "parameterization a number": ('study(parameterization=3)', "parameterization"),
    "source": ('source(None)', "data"),
    "create": ('dam.DenseAM.create("x")', "scales must be Scales, from a rule at a shape, got 'x'; activation"),
    "create from a shape": ('dam.DenseAM.create(SHAPE, dam.relu())', "scales"),
    "create activation a name": ('dam.DenseAM.create(SCALES, "relu")', "activation"),
    "create activation a class": ('dam.DenseAM.create(SCALES, dam.relu)', "activation"),
    "create features a name": ('dam.DenseAM.create(SCALES, dam.relu(), features="tanh")', "features"),
    "create features a class": ('dam.DenseAM.create(SCALES, dam.relu(), features=dam.tanh)', "features"),
    "create centred": ('dam.DenseAM.create(SCALES, dam.relu(), centred="x")', "centred"),
    "create dtype": ('dam.DenseAM.create(SCALES, dam.relu(), dtype="x")', "dtype"),
    "create whole numbers": ('dam.DenseAM.create(SCALES, dam.relu(), dtype=int)', "dtype"),
    "model W": ('array(W="x")', "W must be"),
    "model b": ('array(b="x")', "b must be"),
    "model b none": ('array(b=None)', "b must be"),
    "model activation": ('array(activation="relu")', "activation"),
    "model scales": ('array(scales="x")', "scales"),
    "update": ('MODEL.update("x")', "x must be"),
    "energy": ('MODEL.energy(None)', "x must be"),
    "clamp": ('MODEL.recall(DATA, clamp="x")', "clamp"),
    "flow": ('MODEL.flow(DATA, t="x")', "t must be"),
    "load": ('dam.DenseAM.load(None)', "checkpoint"),
    "save": ('MODEL.save(3)', "path"),
    "shape": ('dam.Shape("x", 2)', "features (N)"),
    "rule at": ('dam.prescription("relu", "sgd").at("x", eta0=0.1)', "shape"),
    "power": ('dam.Power(N="x")', "N must be"),
    "softmax": ('dam.softmax("x")', "beta"),
    "sgd": ('dam.sgd("x")', "scales"),
    "adamw": ('dam.adamw("x")', "scales"),
    "scaled": ('dam.scaled(optax.sgd, SCALES)', "inner"),
    "scaled scales": ('dam.scaled(optax.sgd(1.0), "x")', "scales"),
    "rates": ('dam.effective_learning_rates("x")', "optimizer"),
    "train model": ('dam.train("x", DATA, optimizer=OPTIMIZER, epochs=1)', "model"),
    "train ragged": ('dam.train(MODEL, [[1], [1, 2]], optimizer=OPTIMIZER, epochs=1)', "data"),
    "train seed": ('dam.train(MODEL, DATA, optimizer=OPTIMIZER, epochs=1, seed="x")', "seed"),
    "sweep": ('dam.sweep("x")', "study"),
    "sweep out": ('dam.sweep(study(), out=3)', "folder"),
    "store": ('dam.Store(None)', "folder"),
    "records": ('dam.Records(None)', "rows"),
    "records of numbers": ('dam.Records([3])', "rows"),
    "records without keys": ('dam.Records([{"scale": 3}])', "rows"),
    "horizon": ('dam.horizon(3)', "table"),
    "verdict": ('dam.verdict(None)', "table"),
    "verdict target": ('dam.verdict(TABLE, target="x")', "target"),
    "verdict columns": ('dam.verdict(TABLE, columns="x")', "columns"),
    "memory": ('dam.Memory("x", None, 0.0)', "model"),
    "goal": ('dam.goal(3)', "data"),
    "plan": ('dam.plan("x")', "goal"),
    "tune": ('dam.tune(3, "out")', "data"),
    "tune axes": ('dam.tune("isotropic", "out", features=256, tuned=3)', "tuned"),
    "tune budget": ('dam.tune("isotropic", "out", features=256, budget="x")', "budget"),
    "train target": ('dam.train_target("x", "out")', "recipe"),
    "recipe": ('dam.read_recipe(3)', "folder"),
    "recall": ('dam.recall_file(3, "x")', "checkpoint"),
    "report": ('dam.write_report(3)', "results"),
    "check model": ('dam.check_model(3, 3)', "model"),
    "preparation": ('Preparation(3)', "shrink"),
}  # fmt: skip


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What each call says, and what it leaves behind."""
    folder = tmp_path_factory.mktemp("types")
    code = SETUP + textwrap.dedent(
        """
        said = {}
        for what, call in json.loads(input()).items():
            try:
                said[what] = repr(eval(call))
            except dam.InputError as error:
                said[what] = str(error)
            except Exception as error:
                said[what] = f"{type(error).__name__}: {error}"
        print(json.dumps([said, [str(p) for p in Path().iterdir()]]))
        """
    )
    calls = json.dumps({what: call for what, (call, _) in WRONG.items()})
    found = subprocess.run(
        [sys.executable, "-c", code], input=calls, capture_output=True, text=True, check=True, cwd=folder
    )
    messages, left = json.loads(found.stdout)
    assert not left, "nothing is written"
    return messages


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_type_is_one_line_with_the_argument(what, said):
    assert said[what].startswith(WRONG[what][1])
    assert "\n" not in said[what]


def test_a_single_number_is_a_grid_of_one():
    import numpy as np

    import denseam as dam

    for sixteen in (16, np.int64(16), np.array(16), "16"):
        assert dam.Study("relu", "sgd", sixteen, [0.1]).scales == (16,)
    assert dam.Study("relu", "sgd", 16, np.array(0.1)).eta0 == (0.1,)
