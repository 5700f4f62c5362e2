"""Topics of documents: against exact enumeration, and the same for a row whatever surrounds it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from momentopic import Corpus, DiscreteICA, documents, kernels, simulate
from momentopic.documents import prepared
from momentopic.engine import ThreadEngine

from .conftest import planted_topics, shared
from .reference import exact_document
from .test_heldout import TINY

D, c = planted_topics(80, 4, seed=2), np.array([0.4, 0.3, 0.2, 0.3])


@pytest.fixture(scope="module")
def X():
    return simulate.gamma_poisson(D, c, 3000, mean_length=40)


@pytest.fixture(scope="module")
def model(X):
    return DiscreteICA(4, refine=None).fit(X)


def proportions(X, topics, c):
    return documents.proportions(Corpus(X, empty_ok=True), topics, c, ThreadEngine())[0]


@pytest.mark.parametrize(("topics", "prior"), TINY)
def test_close_to_the_exact_posterior_mean(topics, prior):
    M = topics.shape[1]
    rows = np.array([x for x in np.ndindex(*(3,) * M) if 0 < sum(x) <= 6])
    exact = np.array([exact_document(x, topics, prior)[1] for x in rows])
    found = proportions(rows, topics, prior)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    # an approximation: exact for one token, and worst for two or three tokens that tell the topics apart badly
    single = rows.sum(axis=1) == 1
    np.testing.assert_allclose(found[single], exact[single], atol=1e-12)
    assert abs(found - exact).mean() < 0.08
    assert (found.argmax(axis=1) == exact.argmax(axis=1)).mean() > 0.7


def test_close_to_a_long_gibbs_run_for_documents_of_the_usual_length(X):
    found = proportions(X[:40], D.T, c)
    (ratios, _), state = prepared(D, c), np.array([7], dtype=np.uint64)
    for row, estimate in zip(X[:40], found, strict=True):
        words = np.repeat(row.indices, row.data)
        z = np.zeros(len(words), dtype=np.int64)
        N = np.bincount(z, minlength=4).astype(float)
        a = kernels.chib.single(N, c, 16)
        mean = np.zeros(4)
        for sweep in range(3000):
            kernels.chib.gibbs_sweep(words, z, N, c, ratios, a, state, sweep % 2 == 1)
            np.testing.assert_array_equal(N, np.bincount(z, minlength=4))
            if sweep >= 100:
                mean += (c + N) / (c + N).sum() / 2900
        np.testing.assert_array_equal(a[:4], (c + N).astype(np.float32))
        np.testing.assert_allclose(estimate, mean, atol=0.06)


def test_long_documents_give_their_own_proportions():
    rng = np.random.default_rng(0)
    theta = rng.dirichlet(np.full(4, 0.5), size=20)
    X = rng.multinomial(100_000, theta @ D.T)
    np.testing.assert_allclose(proportions(X, D.T, c), theta, atol=0.01)


def test_a_row_is_the_same_alone_in_a_batch_in_any_order_and_container(model, X):
    whole = model.transform(X)
    assert whole.shape == (3000, 4)
    np.testing.assert_allclose(whole.sum(axis=1), 1)
    order = np.random.default_rng(0).permutation(3000)
    np.testing.assert_array_equal(model.transform(X[order]), whole[order])
    for n in (0, 7, 2999):
        np.testing.assert_array_equal(model.transform(X[[n]])[0], whole[n])
    for Y in (X.toarray(), X.tocsc(), X.astype(np.float32), sp.coo_array(X), Corpus(X)):
        np.testing.assert_array_equal(model.transform(Y), whole)
    for n_threads in (1, 2):
        np.testing.assert_array_equal(model.set_params(engine=ThreadEngine(n_threads)).transform(X), whole)
    model.set_params(engine="auto")


def test_fit_transform_is_fit_then_transform(model, X):
    np.testing.assert_array_equal(DiscreteICA(4, refine=None).fit_transform(X), model.transform(X))


def test_empty_documents_and_unknown_words_get_the_prior_mean(model):
    prior = model.concentration_ / model.concentration_.sum()
    np.testing.assert_allclose(model.transform(np.zeros((2, 80))), np.tile(prior, (2, 1)))
    topics = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
    found = proportions(np.array([[0, 0, 9], [3, 0, 2], [3, 0, 0]]), topics, np.array([1.0, 3.0]))
    np.testing.assert_allclose(found[0], [0.25, 0.75])
    np.testing.assert_array_equal(found[1], found[2])


def test_odd_documents_give_finite_sensible_answers(model):
    X = np.zeros((5, 80), dtype=np.int64)
    X[0, 3] = 1  # one token
    X[1, 3] = 1_000_000  # one word, a million times
    X[2] = 1  # every word
    X[3] = 1_000_000
    X[4, :2] = 2**40
    found = model.transform(X)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found[2], found[3], atol=0.05)
    assert np.isfinite(model.transform_intensities(X)).all()
    assert np.isfinite(model.score(X[:4]))


def test_a_topic_of_no_mass_takes_no_part():
    topics = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    found = proportions(np.array([[4, 4, 0]]), topics, np.array([0.1, 0.1, 0.1]))
    np.testing.assert_allclose(found[0], [8.1, 0.1, 0.1] / np.float64(8.3))


def test_intensities_add_up_to_the_shrunken_length(model, X):
    alpha = model.transform_intensities(X)
    lengths = np.asarray(X.sum(axis=1)).ravel()
    expected = (model.concentration_.sum() + lengths) / (model.rate_ + 1)
    np.testing.assert_allclose(alpha.sum(axis=1), expected)
    np.testing.assert_allclose(alpha / alpha.sum(axis=1, keepdims=True), model.transform(X))
    # and their mean over the corpus is that of the model
    np.testing.assert_allclose(alpha.mean(axis=0), model.intensity_mean_, rtol=0.1)
    with pytest.raises(ValueError, match="LDA moments do not give"):
        DiscreteICA(4, moments="lda", c0=1.2).fit(X).transform_intensities(X)


def test_what_cannot_be_transformed(model, X):
    with pytest.raises(NotFittedError):
        DiscreteICA(4).transform(X)
    for call in (model.transform, model.transform_intensities, model.score):
        with pytest.raises(ValueError, match="X has 79 features, but DiscreteICA is expecting 80 features"):
            call(X[:, :79])
        with pytest.raises(ValueError, match="X has 79 features, but DiscreteICA is expecting 80 features"):
            call(Corpus(X[:, :79]))
        with pytest.raises(ValueError, match="whole numbers"):
            call(X.astype(float) / 2)


def test_output_as_a_data_frame(X):
    model = DiscreteICA(4).set_output(transform="pandas").fit(X)
    frame = model.transform(X[:3])
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == [f"discreteica{k}" for k in range(4)]


def test_score_prefers_documents_of_the_model(model):
    same = simulate.gamma_poisson(D, c, 300, mean_length=40, random_state=8)
    other = simulate.gamma_poisson(planted_topics(80, 4, seed=77), c, 300, mean_length=40, random_state=8)
    assert model.score(other) < model.score(same) < 0


def test_tumours_with_counts_in_the_millions():
    X = sp.load_npz(shared("datasets", "pcawg_sbs96", "counts.npz"))
    model = DiscreteICA(6).fit(X)
    theta = model.transform(X)
    assert np.isfinite(theta).all()
    np.testing.assert_allclose(theta.sum(axis=1), 1)
