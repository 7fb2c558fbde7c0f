"""What is wrong is said in one line, by whatever function is called with it."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import denseam as dam
from denseam.analysis.coordinates.activity import activity
from denseam.analysis.coordinates.slopes import from_records
from denseam.data import reductions
from denseam.data.readers import read
from denseam.ground import files
from denseam.ground.errors import InputError
from denseam.model.lagrangians import Elementwise
from denseam.paper.catalog import find
from denseam.studies.cluster import Cluster
from denseam.studies.documents import from_document, from_file
from denseam.studies.runner import run_studies
from denseam.training.optimizers import make
from tests.synthetic import rows, study

SCALES = dam.prescription("relu", "sgd").at(dam.Shape(8, 16, 32, 8), eta0=0.1)
MODEL = dam.DenseAM.create(SCALES, dam.relu())
DATA = np.zeros((32, 8))


class Steep(Elementwise):
    """A potential that is not finite."""

    name: ClassVar[str] = "steep"

    def potential(self, h):
        return jnp.exp(1e6 * h * h)


def probed():
    """Probes at other steps for each size."""
    made = rows(study(probes=("Z",), probe_steps=(0, 1)))
    for row in made:
        row["probe_steps"] = [row["scale"], row["scale"] + 1]
    return dam.Records(made)


def without_curves():
    return dam.Records({k: v for k, v in row.items() if k != "loss"} for row in rows(study()))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: run_studies([]), "study must not be an empty list"),
        (lambda: make("adagrad", SCALES), "optimizer must be 'sgd', 'adam'"),
        (lambda: dam.data.anisotropic(8, 4, exponent=np.inf), "exponent must be finite, got inf"),
        (lambda: activity(Steep()), "activation: steep is not finite"),
        (lambda: dam.verdict(without_curves(), epoch=2), "epoch needs the loss curves of the runs"),
        (lambda: from_records(dam.Records(rows(study()))), "records hold no probes"),
        (lambda: from_records(probed()), "no seed and no step in common"),
        (lambda: find([]), "name a figure, or 'all'"),
        (lambda: reductions.from_document({"kind": "pca"}, {}), "the tensor data.directions is missing"),
        (lambda: from_document({"activation": "relu", "regime": "wide"}), "regime must be 'proportional'"),
        (lambda: Cluster("slurm", prologue="module load"), "prologue must be a list of lines, got 'module load'"),
        (lambda: dam.tune("isotropic", "x", features=64, optimizer="sgd", tune_epochs=5, probe=True), "probe is for eta0"),
        (
            lambda: Cluster("dask", address="tcp://x:1", workers=2),
            "workers and gpus are set by the cluster at the address",
        ),
    ],
)  # fmt: skip
def test_a_call_is_refused_in_one_line(call, words):
    with pytest.raises(InputError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_document_is_not_as_large_as_data(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    (tmp_path / "study.toml").write_bytes(b" " * (1 << 20 | 1))
    with pytest.raises(InputError, match="larger than 1 MiB, so not a document of this library"):
        from_file(tmp_path / "study.toml")
    (tmp_path / "study.toml").write_text("study = 3")
    with pytest.raises(InputError, match=r"'study' must be \[\[study\]\] tables"):
        from_file(tmp_path / "study.toml")


def test_lists_without_entries_are_no_samples(tmp_path):
    table = pa.table({"x": pa.array([[], []], pa.list_(pa.float32()))})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(InputError, match="column 'x' must hold at least one feature, row 0 is an empty list"):
        read(str(tmp_path / "x.parquet"))
