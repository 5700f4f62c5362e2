"""Held-out likelihood against exact enumeration, and what is promised of the scores."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import heldout, simulate
from momentopic.engine import ThreadEngine

from .conftest import planted_topics
from .reference import exact_document

TINY = [
    (np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]), np.array([0.4, 0.9])),
    (np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.8, 0.05, 0.05], [0.25, 0.25, 0.25, 0.25]]), np.array([0.2, 0.5, 0.1])),
]
DOCUMENTS = [[1, 0, 0, 0], [2, 1, 3, 0], [1, 1, 1, 1], [0, 5, 0, 1]]
ESTIMATORS = [
    (heldout.chib, {"n_iter": 20}),  # fewer states leave a tail so heavy that 4,000 draws do not show the mean
    (heldout.chib, {"n_iter": 100}),
    (heldout.left_to_right, {"n_particles": 2}),
    (heldout.left_to_right, {"n_particles": 20, "n_moves": 2}),
    (heldout.left_to_right, {"n_particles": 5, "n_moves": 0}),
]


@pytest.mark.parametrize(("topics", "c"), TINY)
@pytest.mark.parametrize(("estimator", "options"), ESTIMATORS)
def test_estimates_are_unbiased_for_the_probability_of_a_document(topics, c, estimator, options):
    for document in DOCUMENTS:
        x = np.array(document)[: topics.shape[1]]
        exact, _ = exact_document(x, topics, c)
        # the rows are copies of one document: each has a random stream of its own
        found = np.exp(estimator(np.tile(x, (4000, 1)), topics, c, random_state=1, **options).nats - exact)
        assert abs(found.mean() - 1) < 4.5 * found.std() / np.sqrt(4000) + 1e-12
        assert found.std() / np.sqrt(4000) < 0.05  # and the test could see a bias of a quarter


@pytest.mark.parametrize(("topics", "c"), TINY)
def test_a_document_of_one_token_is_scored_exactly(topics, c):
    X = np.eye(topics.shape[1], dtype=int)
    exact = np.log((c / c.sum()) @ topics)
    for estimator in (heldout.chib, heldout.left_to_right):
        np.testing.assert_allclose(estimator(X, topics, c).nats, exact, rtol=1e-12)


@pytest.mark.parametrize("tiny", [np.finfo(float).tiny, 1e-17, 1e-9])
def test_a_topic_of_hardly_any_concentration(tiny):
    """Which a moment solution may have: a word that only it can produce is improbable, not an error."""
    topics, c = np.array([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]), np.array([tiny, 0.5])
    exact = np.log(0.5 * tiny / (tiny + 0.5))
    assert heldout.chib(np.array([[1, 0, 0, 0]]), topics, c, 50).nats[0] == pytest.approx(exact)
    assert np.isfinite(heldout.chib(np.array([[1, 0, 2, 1], [1, 1, 0, 0]]), topics, c, 50).nats).all()


def corpus(N=30, seed=0):
    D, c = planted_topics(60, 4, seed=1), np.full(4, 0.3)
    return simulate.gamma_poisson(D, c, N, mean_length=30, random_state=seed), D.T, c


@pytest.mark.parametrize("estimator", [heldout.chib, heldout.left_to_right, heldout.completion])
def test_scores_depend_on_the_seed_and_the_row_alone(estimator):
    X, topics, c = corpus()
    options = {"n_iter": 30} if estimator is heldout.chib else {}
    reference = estimator(X, topics, c, random_state=3, engine=ThreadEngine(1), **options)
    for Y, engine in ((X, ThreadEngine(2)), (X.toarray(), "auto"), (sp.csc_array(X).astype(np.float32), "auto")):
        again = estimator(Y, topics, c, random_state=3, engine=engine, **options)
        np.testing.assert_array_equal(again.nats, reference.nats)
    np.testing.assert_array_equal(estimator(X[:7], topics, c, random_state=3, **options).nats, reference.nats[:7])
    other = estimator(X, topics, c, random_state=4, **options)
    assert (other.nats != reference.nats).any()
    np.testing.assert_allclose(other.bits_per_token, reference.bits_per_token, rtol=0.05)


def test_words_that_no_topic_produces_are_left_out_and_counted():
    X, topics, c = corpus()
    unseen = topics.copy()
    word = int(np.asarray(X.sum(axis=0)).argmax())
    unseen[:, word] = 0
    unseen /= unseen.sum(axis=1, keepdims=True)
    left_out = int(X[:, word].sum())
    assert left_out > 0
    without = X.toarray()
    without[:, word] = 0
    for estimator in (heldout.chib, heldout.left_to_right):
        found, expected = estimator(X, unseen, c), estimator(without, unseen, c)
        assert found.tokens_left_out == left_out
        assert expected.tokens_left_out == 0
        np.testing.assert_array_equal(found.nats, expected.nats)
        np.testing.assert_array_equal(found.tokens, without.sum(axis=1))
    assert heldout.chib(X, unseen, c, smoothing=0.01).tokens_left_out == 0
    assert heldout.chib(X, unseen, c, n_iter=10).bits_per_token < 0


def test_bits_and_their_standard_error():
    result = heldout.HeldOut(np.array([-10.0, -30.0, -20.0]), np.array([5.0, 10.0, 10.0]), 0)
    assert result.bits_per_token == pytest.approx(-60 / 25 / np.log(2))
    residual = np.array([-10, -30, -20]) + 60 / 25 * np.array([5, 10, 10])
    assert result.stderr == pytest.approx(np.sqrt((residual**2).sum() * 3 / 2) / 25 / np.log(2))


def test_the_true_topics_score_best():
    X, topics, c = corpus(200, seed=5)
    wrong = planted_topics(60, 4, seed=9).T
    for estimator in (heldout.chib, heldout.left_to_right, heldout.completion):
        options = {"n_iter": 100} if estimator is heldout.chib else {}
        truth = estimator(X, topics, c, smoothing=0.02, **options)
        assert (
            truth.bits_per_token > estimator(X, wrong, c, smoothing=0.02, **options).bits_per_token + 5 * truth.stderr
        )
    chib, sequential = heldout.chib(X, topics, c), heldout.left_to_right(X, topics, c, n_particles=200)
    assert chib.bits_per_token == pytest.approx(sequential.bits_per_token, abs=0.01)


def test_completion_scores_half_of_the_tokens():
    X, topics, c = corpus()
    found = heldout.completion(X, topics, c, smoothing=0.01)
    np.testing.assert_array_equal(found.tokens, np.asarray(X.sum(axis=1)).ravel() // 2)
    assert (found.nats < 0).all()


def test_empty_documents_score_nothing():
    X, topics, c = corpus(5)
    X = X.toarray()
    X[2] = 0
    for estimator in (heldout.chib, heldout.left_to_right, heldout.completion):
        found = estimator(X, topics, c, smoothing=0.01)
        assert found.nats[2] == 0
        assert found.tokens[2] == 0
        assert np.isfinite(found.nats).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topics": np.ones((4, 59)) / 59}, r"topics must have shape \(K, 60\)"),
        ({"topics": np.ones((4, 60))}, "must be a probability vector"),
        ({"concentration": np.ones(3)}, "concentration must have 4 positive entries"),
        ({"concentration": np.zeros(4)}, "concentration must have 4 positive entries"),
        ({"smoothing": 1.5}, "smoothing must be between 0 and 1"),
    ],
)
def test_bad_models_are_refused(change, message):
    X, topics, c = corpus(4)
    with pytest.raises(ValueError, match=message):
        heldout.chib(X, **({"topics": topics, "concentration": c} | change))
