"""partial_fit, and the commands moments and pool: documents that arrive block by block, each once."""

from __future__ import annotations

import json
import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from momentopic import Corpus, DiscreteICA, load, metrics, simulate
from momentopic.cli.app import main
from momentopic.corpus import ShardWriter
from momentopic.engine import ThreadEngine
from momentopic.moments import (
    SketchedMoments,
    find_basis,
)

from .conftest import planted_topics

D = planted_topics(150, 6, seed=5)
c = np.full(6, 0.2)


@pytest.fixture(scope="module")
def X():
    return simulate.gamma_poisson(D, c, 4000, mean_length=60, random_state=1)


@pytest.mark.parametrize("refine", [None, "collapsed"])
def test_partial_fit_is_fit_while_the_documents_are_there(X, refine):
    batch = DiscreteICA(6, refine=refine, n_sweeps=0).fit(X[:1500])
    model = DiscreteICA(6, refine=refine, n_sweeps=0)
    for i in range(0, 1500, 500):
        assert model.partial_fit(X[i : i + 500]) is model
    assert model.components_.tobytes() == batch.components_.tobytes()
    assert model.transform(X[:5]).tobytes() == batch.transform(X[:5]).tobytes()
    assert model.training_data_["documents"] == 1500


@pytest.mark.parametrize("refine", [None, "collapsed"])
def test_partial_fit_when_documents_have_gone(X, refine, monkeypatch):
    monkeypatch.setattr("momentopic.stream.FIRST_DOCUMENTS", 1000)
    model = DiscreteICA(6, refine=refine, n_sweeps=0)
    for i in range(0, 4000, 500):
        model.partial_fit(X[i : i + 500])
    assert model._stream.began
    assert not model._stream.held
    batch = DiscreteICA(6, refine=refine, n_sweeps=0).fit(X)
    assert metrics.recovery_error(model.components_, D) < metrics.recovery_error(batch.components_, D) + 0.02
    assert model.rate_ == pytest.approx(model.concentration_.sum() / (X.sum() / 4000))
    np.testing.assert_allclose(model.components_.sum(axis=1), 1)
    np.testing.assert_allclose(model.eigenvalues_, batch.eigenvalues_, rtol=0.05)
    assert model.training_data_["documents"] == 4000
    assert model.training_data_["tokens"] == X.sum()
    # the same bits on every run and for any number of threads
    again = DiscreteICA(6, refine=refine, n_sweeps=0, engine=ThreadEngine(1))
    for i in range(0, 4000, 500):
        again.partial_fit(X[i : i + 500])
    assert again.components_.tobytes() == model.components_.tobytes()
    # in another order of the blocks, nearly the same topics
    other = DiscreteICA(6, refine=refine, n_sweeps=0)
    for i in reversed(range(0, 4000, 500)):
        other.partial_fit(X[i : i + 500])
    assert metrics.recovery_error(other.components_, model.components_) < 0.04
    # a stream that is interrupted goes on where it was
    half = DiscreteICA(6, refine=refine, n_sweeps=0)
    for i in range(0, 4000, 500):
        half.partial_fit(X[i : i + 500])
        half = pickle.loads(pickle.dumps(half))
    assert half.components_.tobytes() == model.components_.tobytes()
    # fit forgets the stream
    assert model.fit(X).components_.tobytes() == batch.components_.tobytes()
    assert model.partial_fit(X[:600]).training_data_["documents"] == 600


def test_partial_fit_of_too_few_documents_and_of_other_words(X):
    model = DiscreteICA(2, n_sweeps=0)
    with pytest.warns(UserWarning, match="no new topics yet: 2 documents so far"):
        model.partial_fit(X[:2])
    assert model.n_features_in_ == 150
    with pytest.raises(NotFittedError):
        model.transform(X[:2])
    model.partial_fit(X[2:300])
    assert model.transform(X[:2]).shape == (2, 2)
    with pytest.raises(ValueError, match="149 features, but DiscreteICA is expecting 150"):
        model.partial_fit(X[:, :149])
    with pytest.warns(UserWarning, match="3 of 303 documents are empty"):
        model.partial_fit(np.zeros((3, 150), dtype=int))
    assert model.training_data_["documents"] == 303
    assert model.training_data_["empty_documents"] == 3
    for parameters, message in (
        ({"moments": "lda", "c0": 1.0}, "moments='lda' needs the documents"),
        ({"projections": "vocabulary"}, "projections='vocabulary' needs the documents"),
        ({"refine": "variational"}, "refine='variational' needs all documents"),
        ({"n_groups": 5}, "n_groups needs the documents at hand"),
        ({"checkpoint": "state"}, "checkpoint is for fit"),
        ({"memory_limit": "2GB"}, "memory_limit is for fit"),
        ({"n_components": 151}, "n_components=151 topics cannot be told apart with 150 words"),
    ):
        with pytest.raises(ValueError, match=message):
            DiscreteICA(**({"n_components": 2} | parameters)).partial_fit(X[:10])
    with pytest.warns(UserWarning, match="no new topics yet: 1 topics were asked for"):
        DiscreteICA(1, refine=None).partial_fit(np.ones((5, 4), dtype=int))


@pytest.mark.parametrize("batch", [300, 5000], ids=["gone", "held"])
@pytest.mark.parametrize("refine", [None, "collapsed"])
def test_a_block_that_fails_is_as_if_it_had_not_come(X, refine, batch, monkeypatch):
    monkeypatch.setattr("momentopic.stream.FIRST_DOCUMENTS", batch)
    model, sound = (DiscreteICA(3, refine=refine, n_sweeps=0).partial_fit(X[:400]) for _ in range(2))
    before, failures = model.components_.tobytes(), 0
    for n_sums in range(4, 60, 5):
        left = [n_sums]

        def failing(self, *args, left=left, sum=ThreadEngine.sum, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            return sum(self, *args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(ThreadEngine, "sum", failing)
            try:
                model.partial_fit(X[400:800])
                break
            except KeyboardInterrupt:
                failures += 1
        assert model.components_.tobytes() == before
        assert model.training_data_["documents"] == 400
    else:
        model.partial_fit(X[400:800])
    assert failures
    sound.partial_fit(X[400:800])
    assert model.training_data_ == sound.training_data_
    assert model.partial_fit(X[800:]).components_.tobytes() == sound.partial_fit(X[800:]).components_.tobytes()


def test_a_first_block_that_fails_begins_nothing(X):
    model = DiscreteICA(3, refine=None)
    with pytest.raises(ValueError, match="negative"):
        model.partial_fit(-X[:400])
    assert model.partial_fit(X[:400, :100]).training_data_["documents"] == 400


def test_the_stability_of_an_earlier_fit_goes(X):
    model = DiscreteICA(3, refine=None, n_groups=5).fit(X)
    assert len(model.stability_) == 3
    model.set_params(n_groups=None).fit_moments(SketchedMoments(find_basis(X[:800], 12)).add(X))
    assert not hasattr(model, "stability_")


def test_a_block_on_disk_is_read_once(X, tmp_path, monkeypatch):
    monkeypatch.setattr("momentopic.stream.FIRST_DOCUMENTS", 300)
    with ShardWriter(tmp_path / "packed") as writer:
        writer.add(X[400:800])
        writer.finish(150)
    block = Corpus.open(tmp_path / "packed")
    models = [DiscreteICA(3, refine=None).partial_fit(X[:400]) for _ in range(2)]
    models[0].partial_fit(block)
    assert block.bytes_read <= 12 * block.nonzeros
    assert models[0].components_.tobytes() == models[1].partial_fit(X[400:800]).components_.tobytes()


def test_partial_fit_of_frames_corpora_and_texts(X):
    words = [f"w{m}" for m in range(150)]
    frame = DiscreteICA(2, n_sweeps=0).partial_fit(pd.DataFrame(X[:300].toarray(), columns=words))
    frame.partial_fit(pd.DataFrame(X[300:500].toarray(), columns=words))
    corpus = DiscreteICA(2, n_sweeps=0).partial_fit(Corpus(X[:300], words)).partial_fit(Corpus(X[300:500], words))
    assert frame.topics(3) == corpus.topics(3)
    with pytest.raises(ValueError, match="other words than those of the model"):
        corpus.partial_fit(Corpus(X[:300], [*words[:-1], "other"]))


@pytest.mark.filterwarnings("ignore:.*have none of the:UserWarning", "ignore:.*documents are empty")
def test_partial_fit_of_texts_counts_the_words_of_the_first_block():
    rng = np.random.default_rng(0)
    themes = [["cat", "dog", "fur", "paw"], ["star", "moon", "sky", "sun"], ["bread", "milk", "salt", "egg"]]
    texts = [" ".join(rng.choice(themes[rng.integers(3)], size=rng.integers(4, 60))) for _ in range(300)]
    model = DiscreteICA(3, n_sweeps=0).partial_fit(texts[:150]).partial_fit([*texts[150:], "unknown words alone"])
    found = {frozenset(word for word, _ in topic) for topic in model.topics(4)}
    assert found == {frozenset(theme) for theme in themes}


@pytest.fixture
def run(monkeypatch, capsys):
    """The command in this process: a new one would take seconds to begin."""

    def call(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["momentopic", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
        said = capsys.readouterr()
        assert done.value.code == code, said.out + said.err
        return said

    return call


def test_the_commands_moments_and_pool(X, tmp_path, run, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # which the command replaces
    for name, part in (("a", X[:2500]), ("b", X[2500:])):
        (tmp_path / name).mkdir()
        sp.save_npz(tmp_path / name / "x.npz", part)
        (tmp_path / name / "vocab.txt").write_text("\n".join(f"gene{m}" for m in range(150)))
    run("moments", tmp_path / "a/x.npz", "-o", tmp_path / "A", "--rank", 12)
    made = run("moments", tmp_path / "b/x.npz", "-o", tmp_path / "B", "--basis", tmp_path / "A", "--json")
    assert json.loads(made.out)["documents"] == 1500
    run("pool", tmp_path / "A", tmp_path / "B", "-k", 6, "-o", tmp_path / "model", "--moments", tmp_path / "AB")
    model = load(tmp_path / "model")
    assert metrics.recovery_error(model.components_, D) < 0.1
    assert model.topics(1)[0][0][0].startswith("gene")
    assert SketchedMoments.load(tmp_path / "AB").n_docs == 4000
    run("moments", tmp_path / "b/x.npz", "-o", tmp_path / "C", "--rank", 12)
    failed = run("pool", tmp_path / "A", tmp_path / "C", "-k", 6, "-o", tmp_path / "other", code=2)
    assert "different subspaces" in failed.err
    assert len(failed.err.splitlines()) == 1
    assert not (tmp_path / "other").exists()
    (tmp_path / "b" / "vocab.txt").write_text("\n".join(f"word{m}" for m in range(150)))
    failed = run("moments", tmp_path / "b/x.npz", "-o", tmp_path / "D", "--basis", tmp_path / "A", code=2)
    assert "word 0 is 'gene0' here and 'word0' there" in failed.err
