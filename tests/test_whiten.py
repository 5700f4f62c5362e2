"""Whitening: the eigenpairs, their accuracy, the algebraically largest ones, and the corner property."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import ConvergenceWarning, DiscreteICA, RankError, simulate
from momentopic.moments import (
    PopulationMoments,
    dica_moments,
    gamma_poisson_population,
    lda_moments,
    whiten,
)
from momentopic.moments.eigen import largest_eigenpairs

from .conftest import planted_topics, shared


def symmetric(values, seed=0):
    """A dense symmetric matrix with the given eigenvalues."""
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))[0]
    return (Q * values) @ Q.T


@pytest.mark.parametrize(
    "values",
    [
        np.linspace(1, 100, 400),
        np.concatenate([np.linspace(1, 10, 200), np.linspace(-100, -1, 200)]),  # the lower end is the larger one
        np.concatenate([np.linspace(5, 6, 30), np.full(170, 1e-3), np.linspace(-6, -5, 200)]),
        np.concatenate([np.full(6, 3.0), np.zeros(394)]),  # a multiple eigenvalue, and rank 6 only
        np.concatenate([[1e6], np.linspace(0, 1, 399)]),
    ],
)
@pytest.mark.parametrize("k", [1, 6, 20])
def test_eigenpairs_equal_dense_ones(values, k):
    A = symmetric(values)
    found = largest_eigenpairs(lambda V: A @ V, len(A), k)
    exact = np.sort(values)[::-1][:k]
    assert found.converged
    np.testing.assert_allclose(found.values, exact, atol=1e-10 * abs(values).max())
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(k), atol=1e-12)
    residuals = np.linalg.norm(A @ found.vectors - found.vectors * found.values, axis=0)
    assert (residuals <= 2e-8 * np.maximum(abs(exact), 1e-6 * abs(exact[0]))).all()
    # the residuals that are reported are the true ones
    np.testing.assert_allclose(found.residuals, residuals, atol=1e-12 * abs(values).max())


@pytest.mark.parametrize("largest", [1.0, 1e3, 1e6])
def test_rough_eigenpairs_are_nearly_orthonormal(largest):
    """In single precision; what of the basis gets into new columns would grow from block to block."""
    values = np.concatenate([[largest], np.geomspace(1, 1e-3, 699), np.linspace(-0.5, 0, 300)])
    A = symmetric(values)
    A32 = A.astype(np.float32)
    found = largest_eigenpairs(lambda V: A32 @ V.astype(np.float32), len(A), 60, tol=0.2)
    exact = np.sort(values)[::-1][:60]
    assert found.converged
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(60), atol=2e-3)
    residuals = np.linalg.norm(A @ found.vectors - found.vectors * found.values, axis=0)
    np.testing.assert_array_less(residuals, 0.21 * np.maximum(exact, 1e-6 * largest) + 1e-6 * largest)


def test_tolerance_is_kept_and_costs_products():
    A = symmetric(np.concatenate([np.linspace(2, 3, 100), np.linspace(-3, 2, 500)]))
    loose, tight = (largest_eigenpairs(lambda V: A @ V, 600, 10, tol=tol) for tol in (1e-3, 1e-10))
    assert loose.n_products < tight.n_products
    assert loose.residuals.max() <= 1e-3 * 3
    assert tight.residuals.max() <= 1e-10 * 3


def test_giving_up_is_reported():
    A = symmetric(np.linspace(0.999, 1, 600))
    found = largest_eigenpairs(lambda V: A @ V, 600, 10, max_products=64)
    assert not found.converged
    assert found.n_products == 64

    class Slow:
        mean = np.zeros(600)

        def second(self, V):
            return A @ V

    with pytest.warns(ConvergenceWarning, match="relative residual of .* after 64 products"):
        whitening = whiten(Slow(), 10, max_products=64)
    assert not whitening.converged


@pytest.mark.parametrize("kind", ["dica", "lda"])
def test_whitening_whitens(kind):
    D = planted_topics(300, 8)
    X = simulate.gamma_poisson(D, np.full(8, 0.2), 3000, mean_length=60)
    moments = dica_moments(X) if kind == "dica" else lda_moments(X, 1.6)
    white = whiten(moments, 8)
    assert white.W.shape == (8, 300)
    np.testing.assert_allclose(white.W @ moments.second(white.W.T), np.eye(8), atol=1e-9)
    np.testing.assert_allclose(white.W @ white.unwhiten, np.eye(8), atol=1e-12)
    np.testing.assert_allclose(moments.second(white.W.T), white.unwhiten, atol=1e-6 * abs(white.unwhiten).max())
    S = moments.second(np.eye(300))
    np.testing.assert_allclose(white.eigenvalues, np.linalg.eigvalsh(S)[::-1][:8], rtol=1e-10)


def test_short_documents_whose_negative_eigenvalues_are_as_large_as_the_positive_ones():
    # 6 tokens a document over sparse topics: most words do not repeat and the diagonal of S is negative
    D = planted_topics(500, 12, seed=1)
    X = simulate.lda_fixed(D, np.full(12, 0.1), 4000, length=6)
    moments = dica_moments(X)
    exact = np.linalg.eigvalsh(moments.second(np.eye(500)))
    assert np.sort(abs(exact))[-12] > exact[-12]  # those of largest magnitude are not the largest
    np.testing.assert_allclose(whiten(moments, 12).eigenvalues, exact[::-1][:12], rtol=1e-9)


def test_corner_property():
    """The whitening of k topics is the first k rows of that of r, and its tensor a corner of one array."""
    D = planted_topics(400, 10)
    X = simulate.gamma_poisson(D, np.linspace(0.1, 0.5, 10), 4000, mean_length=80)
    moments = dica_moments(X)
    wide = whiten(moments, 16)
    tensor = moments.third(wide.W, wide.unwhiten)
    for k in (1, 5, 10, 16):
        narrow, corner = whiten(moments, k, random_state=k), wide.corner(k)
        np.testing.assert_allclose(narrow.W, corner.W, atol=1e-5 * abs(corner.W).max())
        np.testing.assert_allclose(narrow.eigenvalues, corner.eigenvalues, rtol=1e-10)
        np.testing.assert_allclose(corner.W @ corner.unwhiten, np.eye(k), atol=1e-12)
        small = moments.third(corner.W, corner.unwhiten)
        np.testing.assert_allclose(tensor[:k, :k, :k], small, atol=1e-10 * abs(small).max())
    with pytest.raises(ValueError, match="k must be between 1 and 16"):
        wide.corner(17)


@pytest.mark.parametrize("M", [20, 900])  # dense and Krylov
def test_more_topics_than_positive_eigenvalues_is_an_error_that_says_how_many_there_are(M):
    moments = gamma_poisson_population(planted_topics(M, 5), np.full(5, 0.3), 0.1)
    assert whiten(moments, 5).eigenvalues.min() > 0
    for K in (6, 12):
        with pytest.raises(
            RankError, match=f"{K} topics were asked for, but .* has only 5 positive eigenvalues"
        ) as error:
            whiten(moments, K)
        assert error.value.n_positive == 5
        assert error.value.asked == K


def test_rank_of_a_sampled_corpus_is_counted_right():
    D = planted_topics(250, 4)
    X = simulate.lda_fixed(D, np.full(4, 0.2), 60, length=5)
    moments = dica_moments(X)
    n_positive = int((np.linalg.eigvalsh(moments.second(np.eye(250))) > 1e-9).sum())
    assert 1 < n_positive < 59
    with pytest.raises(RankError) as error:
        whiten(moments, n_positive + 1)
    assert error.value.n_positive == n_positive
    whiten(moments, n_positive)


def test_no_positive_eigenvalue_at_all():
    moments = PopulationMoments(np.eye(4), -np.ones(4), np.ones(4), np.ones(4))
    with pytest.raises(RankError, match="only 0 positive eigenvalues.*No words vary together more than chance"):
        whiten(moments, 1)


@pytest.mark.parametrize(("K", "message"), [(0, "at least 1"), (7, "7 topics cannot be told apart with 6 words")])
def test_impossible_numbers_of_topics(K, message):
    with pytest.raises(ValueError, match=message):
        whiten(PopulationMoments(np.eye(6), np.ones(6), np.ones(6), np.ones(6)), K)


def test_seed_matters_only_within_the_tolerance():
    X = simulate.gamma_poisson(planted_topics(400, 6), np.full(6, 0.3), 3000, mean_length=80)
    moments = dica_moments(X)
    first, second = (whiten(moments, 6, random_state=seed) for seed in (0, 1))
    np.testing.assert_allclose(first.W, second.W, atol=1e-6 * abs(first.W).max())


@pytest.mark.parametrize("name", ["ap", "kos"])
def test_real_corpora_reach_the_stated_residual(name):
    moments = dica_moments(sp.load_npz(shared("datasets", name, "counts.npz")))
    white = whiten(moments, 50)
    assert white.converged
    vectors = white.unwhiten / np.sqrt(white.eigenvalues)
    residuals = np.linalg.norm(moments.second(vectors) - vectors * white.eigenvalues, axis=0)
    assert (residuals <= 1.1e-8 * white.eigenvalues).all()


@pytest.mark.parametrize("power", [4, 5, 6])
def test_one_document_of_millions_of_tokens_does_not_spoil_the_small_eigenvalues(power):
    """λ_1 is 1e8 to 1e12 times λ_K: the residuals must be true, the basis orthogonal, and no eigenvalue lost."""
    X = simulate.gamma_poisson(planted_topics(900, 8), np.full(8, 0.2), 3000, mean_length=60).tolil()
    X[0, :20] = 7 * 10**power
    moments = dica_moments(X)
    white = whiten(moments, 9)
    assert white.converged
    vectors = white.unwhiten / np.sqrt(white.eigenvalues)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(9), atol=1e-10)
    residuals = np.linalg.norm(moments.second(vectors) - vectors * white.eigenvalues, axis=0)
    # S itself is only known to rounding, 1e-16 λ_1
    assert (residuals <= 1e-8 * white.eigenvalues + 1e-14 * white.eigenvalues[0]).all()


def test_words_that_never_occur_have_no_part_in_topics():
    X = simulate.gamma_poisson(planted_topics(400, 5), np.full(5, 0.3), 2000, mean_length=50).toarray()
    X[:, [3, 77]] = 0
    found = whiten(dica_moments(X), 5)
    assert (found.W[:, [3, 77]] == 0).all()
    assert (found.unwhiten[[3, 77]] == 0).all()
    assert (DiscreteICA(5, refine=None).fit(X).components_[:, [3, 77]] == 0).all()


@pytest.mark.parametrize("outlier", [False, True])
def test_single_precision_is_used_where_it_serves_and_left_where_not(outlier):
    X = simulate.gamma_poisson(planted_topics(900, 8), np.full(8, 0.2), 3000, mean_length=60).tolil()
    if outlier:
        X[0, :20] = 7 * 10**5
    moments = dica_moments(X)
    precisions = []

    class Watched:
        mean = moments.mean

        def second(self, V):
            precisions.append(V.dtype)
            return moments.second(V)

    white = whiten(Watched(), 8, tol=1e-6)
    vectors = white.unwhiten / np.sqrt(white.eigenvalues)
    residuals = np.linalg.norm(moments.second(vectors) - vectors * white.eigenvalues, axis=0)
    assert (residuals <= 1e-5 * np.maximum(white.eigenvalues, 1e-6 * white.eigenvalues[0])).all()
    assert precisions[0] == np.float32
    assert precisions.count(np.float64) == 1 if not outlier else precisions.count(np.float64) > 2
    precisions.clear()
    whiten(Watched(), 8)
    assert set(precisions) == {np.dtype(np.float64)}
