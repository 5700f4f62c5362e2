"""The estimator: scikit-learn's contract, pipelines, and what it says of bad input."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import momentopic
from momentopic import Corpus, DiscreteICA, RankError, metrics, simulate
from momentopic.engine import ThreadEngine

from .conftest import planted_topics

D = planted_topics(120, 4, seed=2)
c = np.array([0.4, 0.3, 0.2, 0.3])


@pytest.fixture(scope="module")
def X():
    return simulate.gamma_poisson(D, c, 8000, mean_length=60)


class OnCounts(DiscreteICA):
    """DiscreteICA on counts made of whatever scikit-learn's checks pass: 100 times the values, rounded.

    The checks use real numbers with less variance than Poisson counts; an estimator for counts must refuse both.
    """

    def fit(self, X, y=None):
        return super().fit(self.counts(X), y)

    def partial_fit(self, X, y=None):
        return super().partial_fit(self.counts(X), y)

    def transform(self, X):
        return super().transform(self.counts(X))

    def transform_intensities(self, X):
        return super().transform_intensities(self.counts(X))

    def score(self, X, y=None):
        return super().score(self.counts(X), y)

    @staticmethod
    def counts(X):
        if sp.issparse(X):
            counts = (100 * X).tocoo()
            counts.data = np.rint(counts.data)
            X = counts.asformat(X.format)
        elif isinstance(X, pd.DataFrame):
            X = (100 * X).round()
        else:
            X = np.asarray(X)
            if X.dtype.kind in "iuf":
                X = np.rint(100 * X.astype(np.float64)).astype(X.dtype if X.dtype.kind == "f" else np.int64)
            elif X.dtype.kind == "O" and all(isinstance(value, float) for value in X.ravel()):
                X = np.rint(100 * X.astype(np.float64)).astype(object)
        return X


@pytest.mark.filterwarnings("ignore:.*documents are empty")
@parametrize_with_checks([OnCounts(n_components=2), OnCounts(n_components=1, projections="random")])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("refine", ["collapsed", None])
def test_attributes_of_a_fit(X, refine):
    model = DiscreteICA(4, refine=refine).fit(X)
    assert model.components_.shape == (4, 120)
    np.testing.assert_allclose(model.components_.sum(axis=1), 1)
    assert model.components_.min() >= 0
    assert (np.diff(model.concentration_) <= 0).all()
    assert (np.diff(model.eigenvalues_) <= 0).all()
    assert model.rate_ == pytest.approx(model.concentration_.sum() / (X.sum() / 8000))
    assert model.n_features_in_ == 120
    assert model.converged_
    assert model.n_iter_ > 1
    steps = {"mean", "whitening", "tensor", "diagonalisation", "recovery"} | ({"refinement"} if refine else set())
    assert set(model.timings_) == steps
    assert list(model.get_feature_names_out()) == [f"discreteica{k}" for k in range(4)]
    assert metrics.recovery_error(model.components_, D) < 0.05


def test_lda_moments_have_no_rate_and_leave_nothing_of_an_earlier_fit(X):
    model = DiscreteICA(4, refine=None).fit(X)
    assert hasattr(model, "intensity_mean_")
    model.set_params(moments="lda", c0=c.sum()).fit(X)
    assert model.rate_ is None
    assert not hasattr(model, "intensity_mean_")
    assert metrics.recovery_error(model.components_, D) < 0.15
    assert model.concentration_.sum() == pytest.approx(c.sum(), rel=0.1)


def test_the_same_bits_for_every_container_and_on_every_run(X):
    expected = DiscreteICA(4).fit(X).components_.tobytes()
    for Y in (X, X.tocsc(), sp.coo_array(X), X.toarray(), X.astype(np.float64), pd.DataFrame(X.toarray()), Corpus(X)):
        assert DiscreteICA(4).fit(Y).components_.tobytes() == expected


def test_random_state(X):
    for state in (None, np.random.RandomState(3), 5, np.int64(5)):
        model = DiscreteICA(4, refine=None, random_state=state).fit(X)
        assert metrics.recovery_error(model.components_, DiscreteICA(4, refine=None).fit(X).components_) < 1e-6
        refined = DiscreteICA(4, random_state=state).fit(X)
        assert metrics.recovery_error(refined.components_, DiscreteICA(4).fit(X).components_) < 0.01
    spectral = [
        DiscreteICA(4, refine=None, algorithm="spectral", random_state=seed).fit(X).components_ for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(spectral[0], spectral[1])
    assert abs(spectral[0] - spectral[2]).max() > 1e-9


def test_pipeline_with_a_vectorizer_clone_and_words():
    rng = np.random.default_rng(0)
    themes = [["cat", "dog", "fur", "paw"], ["star", "moon", "sky", "sun"], ["bread", "milk", "salt", "egg"]]
    texts = [" ".join(rng.choice(themes[rng.integers(3)], size=rng.integers(4, 60))) for _ in range(800)]
    pipeline = clone(make_pipeline(CountVectorizer(), DiscreteICA(n_components=3)))
    pipeline.fit(texts)
    vectorizer, model = pipeline[0], pipeline[1]
    found = model.topics(4, feature_names=vectorizer.get_feature_names_out())
    assert {frozenset(word for word, _ in topic) for topic in found} == {frozenset(theme) for theme in themes}
    assert model.topics(2)[0][0][0].startswith("word")
    with pytest.raises(ValueError, match="must be whole numbers.*CountVectorizer instead of TfidfVectorizer"):
        make_pipeline(TfidfVectorizer(), DiscreteICA(n_components=3)).fit(texts)


def test_feature_names_of_data_frames_and_corpora(X):
    words = [f"gene{m}" for m in range(120)]
    frame = DiscreteICA(4).fit(pd.DataFrame(X.toarray(), columns=words))
    corpus = DiscreteICA(4).fit(Corpus(X, words))
    assert list(frame.feature_names_in_) == words
    assert list(corpus.feature_names_in_) == words
    assert frame.topics(3) == corpus.topics(3)
    assert frame.topics(3)[0][0][0].startswith("gene")
    with pytest.raises(ValueError, match="other words than those of the model, or in another order"):
        corpus.transform(Corpus(X, words[::-1]))
    assert corpus.transform(Corpus(X, words)).tobytes() == corpus.transform(Corpus(X)).tobytes()
    corpus.fit(Corpus(X))
    assert not hasattr(corpus, "feature_names_in_")


def test_topics_are_sorted_and_checked(X):
    model = DiscreteICA(4)
    with pytest.raises(NotFittedError):
        model.topics()
    model.fit(X)
    for topic, row in zip(model.topics(7), model.components_, strict=True):
        assert [probability for _, probability in topic] == sorted(row, reverse=True)[:7]
    assert len(model.topics(10_000)[0]) == 120
    with pytest.raises(ValueError, match="3 feature names were given, but the model was fitted on 120 words"):
        model.topics(feature_names=["a", "b", "c"])
    with pytest.raises(ValueError, match="n_words must be at least 1"):
        model.topics(0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "'n_components' parameter of DiscreteICA must be an int in the range"),
        ({"n_components": 2.5}, "'n_components'"),
        ({"n_components": 121}, "n_components=121 topics cannot be told apart with 120 words"),
        ({"moments": "third"}, "'moments' parameter of DiscreteICA must be a str among"),
        ({"algorithm": "ica"}, "'algorithm'"),
        ({"projections": "all"}, "'projections'"),
        ({"moments": "lda"}, "moments='lda' needs c0"),
        ({"c0": 1.0}, "c0=1.0 was given, but the DICA cumulants do not use it"),
        ({"moments": "lda", "c0": 0.0}, "'c0'"),
        ({"moments": "lda", "c0": -1.0}, "'c0'"),
        ({"algorithm": "tpm", "projections": "random"}, "projections='random' is for algorithm='jd'"),
        ({"n_projections": 5}, "n_projections is for projections='random'"),
        ({"refine": "sampled"}, "'refine'"),
        ({"n_sweeps": -1}, "'n_sweeps'"),
        ({"smoothing": 0.0}, "'smoothing'"),
        ({"engine": "spark"}, "engine must be"),
    ],
)
def test_parameters_that_make_no_sense(X, parameters, message):
    with pytest.raises(ValueError, match=message):
        DiscreteICA(**({"n_components": 4} | parameters)).fit(X)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.array([[1.0, np.nan], [1, 2], [3, 4]]), "NaN"),
        (np.array([[1.0, np.inf], [1, 2], [3, 4]]), "infinity"),
        (np.array([[1, -2], [1, 2], [3, 4]]), "counts cannot be negative, but the entry at row 0, column 1 is -2"),
        (np.array([[0.5, 2], [1, 2], [3, 4]]), "counts must be whole numbers.*tf-idf"),
        (np.zeros((5, 4)), "every one of the 5 documents is empty"),
        (np.zeros((0, 4)), "0 sample"),
        (np.zeros((4, 0)), "0 feature"),
        (np.array([[3, 2, 1]]), "at least 3 documents, got n_samples = 1"),
        (np.array([[3, 2], [1, 1]]), "at least 3 documents, got n_samples = 2"),
        (np.array([1, 2, 3]), "Expected 2D array"),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_bad_input(bad, message, sparse):
    if sparse and bad.ndim == 2:
        bad = sp.csr_matrix(bad)
    with pytest.raises(ValueError, match=message):
        DiscreteICA(2).fit(bad)


def test_more_topics_than_the_moments_support():
    with pytest.raises(RankError, match=r"50 topics were asked for, but .* has only \d+ positive eigenvalues") as error:
        DiscreteICA(50, refine=None).fit(simulate.lda_fixed(D, c, 300, length=5))
    DiscreteICA(error.value.n_positive, refine=None).fit(simulate.lda_fixed(D, c, 300, length=5))


def test_progress_is_shown_after_two_seconds_and_only_if_asked(X, monkeypatch, capsys):
    monkeypatch.setattr("momentopic.progress._PATIENCE", 0.0)
    DiscreteICA(4, verbose=1).fit(X)
    assert capsys.readouterr().err == ""  # not a terminal
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    DiscreteICA(4).fit(X)
    assert capsys.readouterr().err == ""
    DiscreteICA(4, verbose=1, engine=ThreadEngine(2)).fit(X)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "over the corpus" in captured.err or "sweep" in captured.err


def test_public_names_and_cold_start():
    for name in momentopic.__all__:
        assert getattr(momentopic, name) is not None
    assert set(momentopic.__all__) == set(dir(momentopic))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = momentopic.nonsense
    code = (
        "import sys, momentopic; assert not {'numpy', 'numba', 'sklearn'} & set(sys.modules)\n"
        "from momentopic import DiscreteICA; assert 'numba' not in sys.modules and 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
