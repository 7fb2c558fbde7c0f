"""Records in memory: what they say of themselves, and as a frame."""

import sys

import pytest

from denseam.ground.errors import InputError
from denseam.studies.records import Records
from tests.synthetic import rows, study

BOTH = Records(rows(study()) + rows(study(centred=False)))


def test_they_say_how_many_they_are():
    assert repr(BOTH) == "<Records: 126 runs, 18 diverged; studies: 2; scales: 16, 32, 64>"
    assert repr(Records([])) == "<Records: 0 runs, 0 diverged; studies: 0>"
    bare = Records([{"key": "a"}], ["x.parquet: damaged"])
    assert repr(bare) == "<Records: 1 runs, 0 diverged; studies: 1; files skipped: 1>"
    many = Records({"key": str(n), "scale": n} for n in range(20))
    assert "scales: 0, 1, 2, 3, 4, 5, 6, 7, …" in repr(many)


def test_they_become_a_frame():
    frame = BOTH.to_pandas()
    assert len(frame) == 126
    assert frame["eta0"].tolist() == [row["eta0"] for row in BOTH]
    assert frame["loss"].map(len).tolist() == [len(row["loss"]) for row in BOTH]
    assert (frame["status"] == "diverged").sum() == 18


def test_a_foreign_sweep_keeps_its_names_in_the_frame():
    from denseam.studies.foreign import records_of

    columns = {"width": [8, 8, 16, 16], "lr": [0.1, 0.2] * 2, "val_loss": [1.0, None, 3.0, 4.0]}
    frame = records_of(columns).to_pandas()
    assert frame["lr"].tolist() == columns["lr"]
    assert frame["scale"].tolist() == columns["width"]
    assert set(frame["size_name"]) == {"width"}


def test_pandas_is_named_if_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="to_pandas needs pandas: pip install pandas"):
        BOTH.to_pandas()
