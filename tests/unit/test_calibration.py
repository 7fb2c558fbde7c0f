"""The data families of the calibration corpus: the registry, the lists of sources, and the table agree."""

import json

import numpy as np
import pytest

from calibration import families
from calibration.features import most_varied, participation, with_crossings, with_products
from calibration.registry import FAMILIES, FEATURES, LIMITS, Family, MissingSource, family, package_files
from tests import ROOT

RECORD = json.loads((ROOT / "calibration" / "families.json").read_text(encoding="utf-8"))
OF_DENSEAM = {"mlxtend", "scikit-learn"}  # its extra `images` has them
OF_DEBIAN = {"apt"}


def listed(name):
    lines = (ROOT / "calibration" / name).read_text(encoding="utf-8").splitlines()
    return {line.split("==")[0] for line in lines if line and not line.startswith("#")}


def needed(manager):
    sources = {source for each in FAMILIES.values() for source in each.needs}
    return {source.split(":")[1] for source in sources if source.startswith(f"{manager}:")}


def made_up(make, kind="vectors"):
    return Family("made-up", kind, (), False, make)


def test_every_source_is_in_a_list():
    assert listed("requirements.txt") == needed("pip") - OF_DENSEAM
    assert listed("packages.txt") == needed("apt") - OF_DEBIAN


def test_the_record_describes_every_family():
    assert set(RECORD) == set(FAMILIES)
    for name, entry in RECORD.items():
        registered = FAMILIES[name]
        assert (entry["kind"], entry["held_aside"]) == (registered.kind, registered.held_aside), name
        assert (entry["needs"], entry["method"]) == (list(registered.needs), registered.method), name
        assert families.FEWEST <= entry["samples"] <= LIMITS[registered.kind], name
        assert 1 <= entry["participation"] <= FEATURES, name


def test_five_families_are_held_aside():
    assert {name for name, entry in RECORD.items() if entry["held_aside"]} == {
        "icons", "instruments", "emails", "chorales", "glosses",
    }  # fmt: skip


def test_samples_are_distinct_shuffled_scaled_and_the_same_every_time():
    numbers = np.random.default_rng(1).normal(3, 5, (2000, FEATURES))
    repeated = made_up(lambda rng: np.repeat(numbers, 3, axis=0))
    samples = families.samples_of(repeated)
    assert samples.shape == (2000, FEATURES)
    assert samples.dtype == np.float32
    assert samples.var(axis=0).mean() == pytest.approx(1, abs=1e-3)
    assert not np.array_equal(samples, samples[np.argsort(samples[:, 0])])
    np.testing.assert_array_equal(samples, samples.astype(np.float16))
    np.testing.assert_array_equal(samples, families.samples_of(repeated))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x: x[:100], "100 samples are fewer than 1500"),
        (lambda x: x[:, :9], r"samples have shape \(9,\)"),
        (lambda x: np.where(np.arange(FEATURES) < 2, 0, x), "2 features are constant"),
        (lambda x: np.where(np.arange(len(x)) == 5, np.nan, x.T).T, "not all values are finite"),
    ],
)
def test_samples_that_break_a_promise_are_refused(spoil, message):
    numbers = np.random.default_rng(1).normal(size=(2000, FEATURES))
    with pytest.raises(ValueError, match=message):
        families.samples_of(made_up(lambda rng: spoil(numbers)))


def test_a_missing_source_names_what_to_install(tmp_path, capsys, monkeypatch):
    def make(rng):
        return package_files("no_such_module", "*", "no-such-package")

    monkeypatch.setitem(FAMILIES, "made-up", made_up(make))
    assert families.main(["--out", str(tmp_path), "--only", "made-up"]) == 1
    error = capsys.readouterr().err
    assert error == "made-up: no Python package no_such_module: pip install no-such-package\n"
    with pytest.raises(MissingSource):
        make(None)


def test_what_is_written_is_the_same_in_both_formats(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(FAMILIES, "made-up", made_up(lambda rng: rng.normal(size=(2000, FEATURES))))
    folders = tmp_path / "full", tmp_path / "small"
    assert families.main(["--out", str(folders[0]), "--compact", str(folders[1]), "--only", "made-up"]) == 0
    full, small = (np.load(folder / "made-up.npy") for folder in folders)
    assert (full.dtype, small.dtype) == (np.float32, np.float16)
    np.testing.assert_array_equal(full, small)
    assert "made-up" in capsys.readouterr().out
    assert "made-up" not in json.loads(families.RECORD.read_text(encoding="utf-8"))


def test_names_and_kinds_are_checked():
    with pytest.raises(ValueError, match="two families are named digits"):
        family("digits", kind="images", needs=())(lambda rng: None)
    with pytest.raises(ValueError, match="kind must be one of images, vectors"):
        made_up(lambda rng: None, kind="sounds")


def test_participation_counts_the_directions():
    numbers = np.random.default_rng(0).normal(size=(20000, 12))
    assert participation(numbers) == pytest.approx(12, rel=0.01)
    assert participation(np.repeat(numbers[:, :3], 4, axis=1)) == pytest.approx(3, rel=0.01)


def test_tables_are_extended_to_the_number_of_features():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(500, 30))
    products = with_products(table, rng)
    np.testing.assert_array_equal(products[:, :30], table)
    np.testing.assert_allclose(products[:, 30:].var(axis=0), 1)
    assert with_crossings((table > 0).astype(float)).shape == products.shape == (500, FEATURES)
    np.testing.assert_array_equal(most_varied(table * np.arange(30), 2), (table * np.arange(30))[:, [28, 29]])
