"""Folders for the Hugging Face Hub: what is written is read, by others too; other folders are refused."""

import json

import jax
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import denseam as dam
from denseam.model.pretrained import CARD, CONFIG, TENSORS

SCALES = dam.prescription("softmax", "adam").at(dam.Shape(6, 12, 40, 4), eta0=0.1)


@pytest.fixture
def model():
    made = dam.DenseAM.create(SCALES, dam.softmax(2.0), seed=3)
    return made.with_parameters(dam.Parameters(made.W, made.b + 0.5, made.c - 0.5))


def same(one, other):
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    assert all(np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype for a, b in leaves)
    assert one.scales == other.scales
    assert (one.centred, one.activation.name, one.features.name) == (
        other.centred, other.activation.name, other.features.name
    )  # fmt: skip


def test_a_folder_gives_the_model_back(model, tmp_path):
    assert model.save_pretrained(tmp_path / "new" / "hub") == tmp_path / "new" / "hub"
    same(dam.DenseAM.from_pretrained(tmp_path / "new" / "hub"), model)


def test_a_model_of_patterns_has_no_prescription(tmp_path):
    model = dam.DenseAM.from_patterns(np.sign(np.random.default_rng(0).standard_normal((5, 16), np.float32)))
    model.save_pretrained(tmp_path)
    same(dam.DenseAM.from_pretrained(tmp_path), model)
    card = (tmp_path / CARD).read_text()
    assert "Not centred." in card
    assert "Prescription" not in card


def test_others_can_read_the_files(model, tmp_path):
    model.save_pretrained(tmp_path)
    with safe_open(tmp_path / TENSORS, framework="numpy") as file:
        assert file.metadata() == {"format": "pt"}, "tensors only"
        np.testing.assert_array_equal(file.get_tensor("W"), model.W)
    config = json.loads((tmp_path / CONFIG).read_text())
    assert config["model_type"] == "denseam"
    assert config["activation"] == {"name": "softmax", "beta": 2.0}
    assert sorted(path.name for path in tmp_path.iterdir()) == [CARD, CONFIG, TENSORS]


def test_the_card_says_how_it_was_trained(model, tmp_path):
    model.save_pretrained(tmp_path, facts={"data": "a|b\nc", "regret bound": "at most 2 %"})
    card = (tmp_path / CARD).read_text()
    assert card.startswith("---\nlibrary_name: denseam\n")
    assert "K = 12 memories of N = 6 features" in card
    assert "softmax (beta = 2.0)" in card
    assert "| data | a\\|b c |\n| regret bound | at most 2 % |\n" in card
    assert SCALES.explain() in card


def test_a_card_that_people_have_edited_is_kept(model, tmp_path):
    (tmp_path / CARD).write_text("mine")
    model.save_pretrained(tmp_path)
    assert (tmp_path / CARD).read_text() == "mine"


def spoil_type(folder):
    (folder / CONFIG).write_text('{"model_type": "bert", "hidden_size": 768}')


def spoil_format(folder):
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {"format": 99}))


def spoil_config(folder):
    (folder / CONFIG).write_text("{")


def spoil_list(folder):
    (folder / CONFIG).write_text("[]")


def spoil_tensors(folder):
    (folder / TENSORS).write_bytes(b"no tensors")


def spoil_names(folder):
    tensors = load_file(folder / TENSORS)
    save_file({"weight" if name == "W" else name: t for name, t in tensors.items()}, folder / TENSORS)


def spoil_shape(folder):
    tensors = load_file(folder / TENSORS)
    save_file(tensors | {"b": tensors["b"][1:]}, folder / TENSORS)


@pytest.mark.parametrize(
    ("spoil", "part"),
    [
        (lambda folder: (folder / CONFIG).unlink(), "has no config.json, so it is not a folder of save_pretrained"),
        (lambda folder: (folder / TENSORS).unlink(), "has no model.safetensors"),
        (spoil_type, "holds a model of the type 'bert', not 'denseam'"),
        (spoil_format, "written in a format this version does not read"),
        (spoil_config, "config.json: "),
        (spoil_list, "config.json: not a document of this library"),
        (spoil_tensors, "model.safetensors is not a readable safetensors file"),
        (spoil_names, "the tensor W is missing"),
        (spoil_shape, "b is not what was written"),
    ],
)  # fmt: skip
def test_a_folder_of_another_kind_is_refused_in_a_sentence(model, tmp_path, spoil, part):
    model.save_pretrained(tmp_path)
    spoil(tmp_path)
    with pytest.raises(dam.InputError) as refused:
        dam.DenseAM.from_pretrained(tmp_path)
    assert part in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_folder_at_all_is_refused(model, tmp_path):
    with pytest.raises(dam.InputError, match=r"^folder .*nowhere: has no config\.json"):
        dam.DenseAM.from_pretrained(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(dam.InputError, match=r"^folder .*file: cannot be written"):
        model.save_pretrained(tmp_path / "file")


def test_a_changed_bit_in_a_tensor_is_noticed(model, tmp_path):
    model.save_pretrained(tmp_path)
    written = (tmp_path / TENSORS).read_bytes()
    payload = 8 + int.from_bytes(written[:8], "little")
    for place in range(payload, len(written), 37):
        changed = bytearray(written)
        changed[place] ^= 1
        (tmp_path / TENSORS).write_bytes(changed)
        with pytest.raises(
            dam.InputError, match="is not what was written; if you changed it, remove 'checksums'"
        ):
            dam.DenseAM.from_pretrained(tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text())
    del config["checksums"]  # as in folders of early versions
    (tmp_path / CONFIG).write_text(json.dumps(config))
    dam.DenseAM.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", [[], {}, 1, None])
def test_a_lagrangian_has_a_name(name, model, tmp_path):
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text())
    config["activation"]["name"] = name
    (tmp_path / CONFIG).write_text(json.dumps(config))
    with pytest.raises(dam.InputError, match="Lagrangian must be"):
        dam.DenseAM.from_pretrained(tmp_path)
