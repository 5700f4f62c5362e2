"""Model folders: exact round trips, and every kind of damage."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from momentopic import Corpus, DiscreteICA, folders, load, simulate
from momentopic.engine import ThreadEngine
from momentopic.persist import ModelFolderError

from .conftest import planted_topics

WORDS = [f"wörd{m}" for m in range(60)]


@pytest.fixture(scope="module")
def corpus():
    X = simulate.gamma_poisson(planted_topics(60, 3), np.full(3, 0.3), 3000, mean_length=40)
    return Corpus(X, WORDS)


@pytest.fixture
def folder(corpus, tmp_path):
    DiscreteICA(3).fit(corpus).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"moments": "lda", "c0": np.float64(0.9), "random_state": np.int64(3)},
        {"algorithm": "tpm", "engine": ThreadEngine(1), "random_state": np.random.RandomState(0)},
        {"projections": "random", "n_projections": 7, "verbose": 1, "random_state": None},
    ],
)
def test_a_loaded_model_has_the_bits_it_was_saved_with(corpus, tmp_path, options):
    model = DiscreteICA(3, **options).fit(corpus)
    model.save(tmp_path / "model")
    again = load(str(tmp_path / "model"))
    assert type(again) is DiscreteICA
    fitted = [name for name in vars(model) if name.endswith("_")]
    assert sorted(fitted) == sorted(name for name in vars(again) if name.endswith("_"))
    for name in fitted:
        old, new = getattr(model, name), getattr(again, name)
        if isinstance(old, np.ndarray):
            assert old.dtype == new.dtype
            np.testing.assert_array_equal(old, new)
        else:
            assert old == new
    for name in ("n_components", "moments", "algorithm", "projections", "n_projections", "c0", "verbose"):
        assert getattr(again, name) == getattr(model, name)
    assert again.topics(5) == model.topics(5)
    assert again.topics(1)[0][0][0] in WORDS
    again.fit(corpus)  # and it can be fitted again
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["arrays.safetensors", "model.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_saving_again_replaces_a_model_but_nothing_else(corpus, folder, tmp_path):
    DiscreteICA(2).fit(corpus).save(folder)
    assert load(folder).n_components == 2
    (tmp_path / "empty").mkdir()
    load(folder).save(tmp_path / "empty")
    assert load(tmp_path / "empty").n_components == 2
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("x")
    (tmp_path / "file").write_text("x")
    load(folder).save(tmp_path / "annotated")
    (tmp_path / "annotated" / "notes.txt").write_text("x")
    for name in ("precious", "file", "annotated"):
        with pytest.raises(FileExistsError, match="is not a momentopic model alone, so it will not be replaced"):
            load(folder).save(tmp_path / name)
    assert (tmp_path / "precious" / "thesis.tex").read_text() == "x"
    assert (tmp_path / "annotated" / "notes.txt").read_text() == "x"
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        load(folder).save(tmp_path / "absent" / "model")


def test_a_model_that_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        DiscreteICA(2).save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("step", ["checksum", "move_into_place"])
def test_a_save_that_fails_leaves_the_old_model_and_nothing_else(folder, monkeypatch, step):
    model = load(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(folders, step, fail)
    with pytest.raises(KeyboardInterrupt):
        model.save(folder)
    with pytest.raises(KeyboardInterrupt):
        model.save(folder.parent / "other")
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_old_model_comes_back_if_the_last_rename_fails(folder, monkeypatch):
    model, rename = load(folder), folders.os.rename

    def fail_at_the_end(source, target):
        if str(source).endswith(".tmp"):
            raise OSError("disk on fire")
        rename(source, target)

    monkeypatch.setattr(folders.os, "rename", fail_at_the_end)
    with pytest.raises(OSError, match="disk on fire"):
        model.save(folder)
    monkeypatch.undo()
    assert load(folder).n_components == 3
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def edit(folder, change):
    file = folder / "model.json"
    description = json.loads(file.read_text())
    change(description)
    file.write_text(json.dumps(description))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model.json").unlink(), "is not a momentopic model: it has no model.json"),
        (lambda f: (f / "arrays.safetensors").unlink(), "damaged: arrays.safetensors is missing"),
        (lambda f: (f / "model.json").write_text("{"), "damaged: model.json cannot be read"),
        (lambda f: (f / "model.json").write_text("[]"), "describes something else"),
        (lambda f: edit(f, lambda d: d.update(format="sklearn")), "describes something else"),
        (lambda f: edit(f, lambda d: d.update(format_version=None)), "format version is None"),
        (lambda f: edit(f, lambda d: d.update(format_version=99)), "in format 99; .* up to 3: upgrade momentopic"),
        (lambda f: edit(f, lambda d: d.pop("fitted")), "model.json is incomplete"),
        (lambda f: edit(f, lambda d: d["fitted"].pop("rate_")), "model.json is incomplete"),
        (lambda f: edit(f, lambda d: d["params"].update(zeal=3)), "model.json is incomplete"),
        (lambda f: edit(f, lambda d: d["fitted"].update(n_features_in_=61)), "do not belong together"),
        (lambda f: edit(f, lambda d: d["feature_names"].pop()), "do not belong together"),
        (
            lambda f: (f / "arrays.safetensors").write_bytes((f / "arrays.safetensors").read_bytes()[:-8]),
            "not as it was written",
        ),
        (
            lambda f: (f / "arrays.safetensors").write_bytes((f / "arrays.safetensors").read_bytes()[:-1] + b"\0"),
            "not as it was written",
        ),
    ],
)
def test_damaged_and_foreign_folders(folder, damage, message):
    data = (folder / "arrays.safetensors").read_bytes()
    assert data[-1] != 0
    damage(folder)
    with pytest.raises(ModelFolderError, match=message):
        load(folder)


@pytest.mark.parametrize("content", ["nonsense", "other arrays"])
def test_arrays_that_are_not_the_models_even_with_the_right_checksum(folder, content):
    from safetensors.numpy import save_file

    file = folder / "arrays.safetensors"
    if content == "nonsense":
        file.write_bytes(b"nonsense")
    else:
        save_file({"components_": np.ones((3, 60)), "surprise": np.ones(2)}, file)
    edit(folder, lambda d: d.update(sha256=folders.checksum(file)))
    with pytest.raises(ModelFolderError, match="arrays.safetensors cannot be read|arrays missing"):
        load(folder)


def test_no_folder_at_all(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no model folder"):
        load(tmp_path / "absent")


def test_a_model_of_more_topics_than_the_moments_support(tmp_path):
    X = np.random.default_rng(0).poisson(0.5, size=(40, 30))
    with pytest.warns(UserWarning, match="start from splits"):
        model = DiscreteICA(25, n_sweeps=0).fit(X)
    assert len(model.eigenvalues_) < 25
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").eigenvalues_, model.eigenvalues_)
