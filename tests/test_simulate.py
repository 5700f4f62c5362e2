"""The sampling models: their moments, their lengths, their seeds."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import simulate
from momentopic.moments import lda_population

from .conftest import planted_topics

D = planted_topics(40, 3, seed=1)
c = np.array([0.3, 0.8, 0.5])


def lengths(X):
    return np.asarray(X.sum(axis=1)).ravel()


def test_gamma_poisson_has_the_mean_and_variance_of_the_model():
    N, L = 30_000, 50.0
    X = simulate.gamma_poisson(D, c, N, mean_length=L, min_length=0)
    assert sp.issparse(X)
    assert X.shape == (N, 40)
    assert X.dtype == np.int32
    assert X.has_canonical_format
    rate = c.sum() / L
    np.testing.assert_allclose(np.asarray(X.mean(axis=0)).ravel(), D @ c / rate, atol=0.1)
    # Var(L) = c0/b + c0/b²
    assert lengths(X).mean() == pytest.approx(L, rel=0.02)
    assert lengths(X).var() == pytest.approx(c.sum() / rate + c.sum() / rate**2, rel=0.04)


def test_short_documents_are_drawn_again_whole():
    X = simulate.gamma_poisson(D, 0.1 * c, 5000, mean_length=20, min_length=3)
    assert lengths(X).min() >= 3
    kept = simulate.gamma_poisson(D, 0.1 * c, 5000, mean_length=20, min_length=0)
    assert (lengths(kept) < 3).mean() > 0.2
    # a redrawn document is a document of the model that happened to be long enough: not a short one made longer
    long = lengths(simulate.gamma_poisson(D, 0.1 * c, 50_000, mean_length=20, min_length=0, random_state=9))
    assert lengths(X).mean() == pytest.approx(long[long >= 3].mean(), rel=0.06)


def test_lda_documents_have_their_length_and_their_mean():
    X = simulate.lda_fixed(D, c, 20_000, length=30)
    assert set(lengths(X)) == {30}
    np.testing.assert_allclose(np.asarray(X.mean(axis=0)).ravel(), 30 * D @ c / c.sum(), atol=0.1)
    # pairs of tokens: E(x x' - diag x) = L (L - 1) M2, which only the right Dirichlet gives
    population, c0 = lda_population(D, c), c.sum()
    M2 = population.second(np.eye(40)) + c0 / (c0 + 1) * np.outer(population.mean, population.mean)
    pairs = (X.T @ X).toarray() - np.diag(np.asarray(X.sum(axis=0)).ravel())
    np.testing.assert_allclose(pairs / (20_000 * 30 * 29), M2, atol=0.02 * M2.max())


def test_lda_mixed_has_the_two_lengths_in_their_proportion():
    X = simulate.lda_mixed(D, c, 10_001, fraction=0.3, lengths=(20, 200))
    assert (lengths(X) == 200).sum() == round(0.3 * 10_001)
    assert (lengths(X) == 20).sum() == 10_001 - round(0.3 * 10_001)
    assert (lengths(X)[:100] == 200).any()  # mixed, not one after the other
    assert (lengths(X)[:100] == 20).any()


def test_any_intensities():
    X = simulate.dica(D, lambda rng, n: np.tile([0.0, 10.0, 0.0], (n, 1)), 20_000, min_length=0)
    np.testing.assert_allclose(np.asarray(X.mean(axis=0)).ravel(), 10 * D[:, 1], atol=0.1)
    assert lengths(X).var() == pytest.approx(10, rel=0.05)  # Poisson: nothing but Poisson noise


@pytest.mark.parametrize(
    "draw",
    [
        lambda seed: simulate.gamma_poisson(D, c, 9000, mean_length=10, random_state=seed),
        lambda seed: simulate.lda_fixed(D, c, 9000, length=10, random_state=seed),
        lambda seed: simulate.lda_mixed(D, c, 9000, fraction=0.5, lengths=(5, 10), random_state=seed),
    ],
)
def test_the_seed_decides_everything(draw):
    first, again, other = draw(1), draw(1), draw(2)
    assert (first != again).nnz == 0
    assert (first != other).nnz > 0
    assert len(np.unique(first[:100].toarray(), axis=0)) > 50  # and documents differ from each other


def test_no_dense_array_of_documents_by_words():
    # 50,000 x 10,473 would be 2 GB as int32
    M = 10_473
    topics = planted_topics(M, 10)
    tracemalloc.start()
    X = simulate.gamma_poisson(topics, np.full(10, 0.1), 50_000, mean_length=20, min_length=3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert X.shape == (50_000, M)
    assert peak < 150e6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate.gamma_poisson(D.T, c, 5, mean_length=9), "columns of D.*pass their transpose"),
        (lambda: simulate.gamma_poisson(D, c[:2], 5, mean_length=9), "one entry for each of the 3 topics"),
        (lambda: simulate.gamma_poisson(D, -c, 5, mean_length=9), "positive and finite"),
        (lambda: simulate.gamma_poisson(D, c, 0, mean_length=9), "n_docs must be at least 1"),
        (lambda: simulate.gamma_poisson(D, c, 5, mean_length=0), "mean_length must be positive"),
        (lambda: simulate.gamma_poisson(D, c, 5, mean_length=1e-9), "too rare.*Raise mean_length"),
        (lambda: simulate.lda_fixed(D, c, 5, length=0), "lengths must be at least 1"),
        (lambda: simulate.lda_mixed(D, c, 5, fraction=1.5, lengths=(3, 4)), "fraction must be between 0 and 1"),
        (lambda: simulate.dica(D, lambda rng, n: -np.ones((n, 3)), 5), "nonnegative"),
        (lambda: simulate.dica(D, lambda rng, n: np.ones((n, 2)), 5), "must return shape"),
        (lambda: simulate.dica(np.ones(3), lambda rng, n: np.ones((n, 3)), 5), "shape \\(words, topics\\)"),
    ],
)
def test_impossible_parameters_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
