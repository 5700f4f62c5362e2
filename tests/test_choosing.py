"""The number of topics: planted ones are found, and independent words have none."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import Corpus, simulate, spectrum
from momentopic.choosing import heldout_block, thinned
from momentopic.engine import ThreadEngine
from momentopic.moments import dica_moments

from .conftest import planted_topics


def independent(lengths, seed=0):
    p = np.random.default_rng(5).dirichlet(np.full(300, 0.5))
    return sp.csr_matrix(np.random.default_rng(seed).multinomial(lengths, p).astype(np.int32))


def test_planted_topics_of_the_authors_are_found(authors_parameters):
    D, c = authors_parameters("ap_K10", 1.0)
    found = spectrum(simulate.gamma_poisson(D, c, 20_000, mean_length=200, random_state=1), 30)
    assert (found.certain, found.supported) == (10, 10)
    assert found.advice() == "The corpus supports 10 topics."
    few = spectrum(simulate.gamma_poisson(D, c, 2000, mean_length=200, random_state=1), 30)
    assert few.certain <= 10
    assert few.supported == 10
    assert not few.open_ended


@pytest.mark.parametrize("K", [2, 5])
def test_planted_topics_are_found_in_small_corpora(K):
    X = simulate.gamma_poisson(planted_topics(100, K), np.full(K, 0.3), 3000, mean_length=60)
    found = spectrum(X, 20)
    assert found.certain <= found.supported == K
    assert found.certain >= K - 1


def test_independent_words_have_no_topics():
    fixed = spectrum(independent(np.full(2000, 80)), 40)
    assert fixed.supported == fixed.certain == 0
    varying = spectrum(independent(np.random.default_rng(1).integers(5, 200, size=2000)), 40)
    assert varying.supported == varying.certain == 1  # lengths vary, which is one topic: the words' frequencies
    assert fixed.advice().startswith("No topics")
    assert varying.advice().startswith("No topics")


def test_the_values_are_what_they_are_called():
    X = simulate.gamma_poisson(planted_topics(40, 3), np.full(3, 0.3), 400, mean_length=50)
    found = spectrum(X, 10)
    dense = thinned(Corpus(X), np.random.default_rng(0)).counts.toarray()
    S = np.cov(dense.T) - np.diag(dense.mean(axis=0))
    np.testing.assert_allclose(found.eigenvalues, np.linalg.eigvalsh(S)[::-1][:10], rtol=1e-2, atol=1e-4)
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(40, 4)))[0]
    corpus = Corpus(dense)
    moments = dica_moments(corpus)
    total, squares = ThreadEngine(1).sum(heldout_block, corpus, U, moments.mean @ U)
    z = dense - dense.mean(axis=0)
    terms = (z @ U) ** 2 - dense @ U**2
    np.testing.assert_allclose(total, terms.sum(axis=0))
    np.testing.assert_allclose(squares, (terms**2).sum(axis=0))
    np.testing.assert_allclose(total / 400, np.diag(U.T @ S @ U), rtol=0.02, atol=0.02)


def test_the_floor_is_the_size_of_the_error():
    """(S_1 - S_2) / 2 must be as large as the error of S itself, which is known where the truth is."""
    D, c = planted_topics(60, 3), np.full(3, 0.4)
    many = [simulate.lda_fixed(D, c, 1500, length=50, random_state=seed) for seed in range(8)]  # none to be thinned
    truth = dica_moments(sp.vstack(many).tocsr())
    errors, floors = [], []
    for X in many:
        E = dica_moments(X).second(np.eye(60)) - truth.second(np.eye(60))
        errors.append(abs(np.linalg.eigvalsh(E)).max())
        floors.append(spectrum(X, 5, n_splits=1).floor)
    assert 0.6 < np.mean(floors) / np.mean(errors) < 1.6


def test_the_same_every_time_whatever_the_threads():
    X = simulate.gamma_poisson(planted_topics(50, 3), np.full(3, 0.3), 500, mean_length=50)
    first, second = (spectrum(X, 10, engine=ThreadEngine(n)) for n in (1, 2))
    np.testing.assert_array_equal(first.heldout, second.heldout)
    assert first.floor == second.floor
    assert spectrum(X, 10, random_state=1).floor != first.floor


def test_thinned_documents_keep_their_topics():
    D = np.eye(3)[[0, 0, 1, 2]] / [2, 1, 1]
    alpha = np.tile([4.0, 1, 0], (400, 1)) * np.where(np.arange(400) % 4 == 0, 200, 10)[:, None]
    X = simulate.dica(D, lambda rng, n: alpha[:n], 400, random_state=0)
    corpus = thinned(Corpus(X), np.random.default_rng(0))
    before, after = (np.asarray(counts.sum(axis=1)).ravel() for counts in (X, corpus.counts))
    most = np.quantile(before, 0.75)
    short = before <= most
    np.testing.assert_array_equal(corpus.counts.toarray()[short], X.toarray()[short])
    assert after[~short].mean() == pytest.approx(most, rel=0.02)
    parts = corpus.counts.toarray()[~short].sum(axis=0)
    np.testing.assert_allclose(parts / parts.sum(), [0.4, 0.4, 0.2, 0], atol=0.02)
    tokens = sp.csr_matrix((2, 3), dtype=np.int32)
    assert thinned(Corpus(tokens, empty_ok=True), np.random.default_rng(0)).counts.nnz == 0


def test_a_few_very_long_documents_do_not_hide_the_topics():
    X = simulate.gamma_poisson(planted_topics(100, 5), np.full(5, 0.3), 2000, mean_length=60).tolil()
    X[:6] = np.random.default_rng(0).negative_binomial(0.2, 0.001, size=(6, 100))
    assert spectrum(X.tocsr(), 20).supported == 5


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(ValueError, match="at least 12 documents, not 5"):
        spectrum(np.eye(5))
    with pytest.raises(ValueError, match="must be at least 1"):
        spectrum(np.eye(20), 0)


def test_open_ended_advice():
    X = simulate.gamma_poisson(planted_topics(100, 6), np.full(6, 0.3), 4000, mean_length=60)
    found = spectrum(X, 4)
    assert found.open_ended
    assert "4 or more" in found.advice()
