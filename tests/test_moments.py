"""The moments against dense brute force, on every kind of container, and their unbiasedness."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

from momentopic.corpus import Corpus
from momentopic.engine import ThreadEngine
from momentopic.moments import DICAMoments, dica_moments, gamma_poisson_population, lda_moments, lda_population
from momentopic.moments.base import weighty_words

from .reference import dica_dense, lda_dense, relative_error

C0 = 0.7
DENSE_TOPICS = np.array([[0.6, 0.1], [0.3, 0.2], [0.1, 0.7]])
CONTAINERS = [
    np.asarray,
    *(getattr(sp, f"{kind}_{form}") for kind in ("csr", "csc", "coo", "bsr", "lil", "dok", "dia") for form in
      ("matrix", "array")),
]  # fmt: skip
DTYPES = [
    np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64,
    np.float32, np.float64, np.longdouble, ">i4", ">f8",
]  # fmt: skip


def counts(N=14, M=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.poisson(rng.gamma(0.5, 2.0, size=(N, M)))
    X[:3] += 1  # no empty documents here
    X[X.sum(axis=1) < 3, 0] += 3
    return X


def unsorted_with_duplicates(X, seed=0):
    """The same counts as CSR with repeated and unsorted indices."""
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(X)
    rows, columns = (np.repeat(index, X[np.nonzero(X)]) for index in (rows, columns))  # one entry a token
    order = np.lexsort((rng.random(len(rows)), rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(X)))])
    csr = sp.csr_matrix((np.ones(len(rows), dtype=np.uint8), columns[order], indptr), shape=X.shape)
    assert not csr.has_sorted_indices
    assert not csr.has_canonical_format
    return csr


def assert_equals_dense(moments, dense, W, V, v):
    mean, S, T = dense
    assert relative_error(moments.mean, mean) < 1e-10
    assert relative_error(moments.second(V), S @ V) < 1e-10
    assert relative_error(moments.second(v), S @ v) < 1e-10
    whole = np.einsum("abc,ia,jb,kc->ijk", T, W, W, W)
    assert relative_error(moments.third(W), whole) < 1e-10
    assert relative_error(moments.third(W, second=S @ W.T), whole) < 1e-10
    assert relative_error(moments.projected(W, v), np.einsum("abc,ia,jb,c->ij", T, W, W, v)) < 1e-10
    if isinstance(moments, DICAMoments):
        U = np.random.default_rng(0).standard_normal((5, len(W)))
        for precision, tolerance in ((np.float64, 1e-10), (np.float32, 1e-5)):
            found = moments.projections(W.astype(precision), U, S @ W.T)
            assert relative_error(found, np.einsum("ijk,pk->pij", whole, U)) < tolerance
    upper = np.triu_indices(len(W))
    by_word = np.einsum("abc,ia,jb->cij", T, W, W)[:, upper[0], upper[1]]
    for words in (None, 4):
        found = list(moments.third_by_word(W, words=words))
        assert [chunk.start for chunk, _ in found] == list(range(0, len(mean), words or len(mean)))
        assert relative_error(np.concatenate([part for _, part in found]), by_word) < 1e-10


def directions(M, K=3, seed=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((K, M)), rng.standard_normal((M, 4)), rng.standard_normal(M)


@pytest.mark.parametrize("container", CONTAINERS)
def test_equal_dense_brute_force_for_every_container(container):
    X = counts()
    assert_equals_dense(dica_moments(container(X)), dica_dense(X), *directions(6))
    assert_equals_dense(lda_moments(container(X), C0), lda_dense(X, C0), *directions(6))


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_dense_brute_force_for_every_dtype(dtype):
    X = counts(seed=3)
    for container in (np.asarray, sp.csr_matrix, sp.coo_array):
        if container is not np.asarray and np.dtype(dtype).byteorder == ">":
            continue  # scipy itself has no such matrices
        Y = container(X.astype(dtype))
        assert_equals_dense(dica_moments(Y), dica_dense(X), *directions(6))
        assert_equals_dense(lda_moments(Y, C0), lda_dense(X, C0), *directions(6))


def test_repeated_and_unsorted_indices_are_added_up_and_the_input_is_left_alone():
    X = counts(seed=4)
    Y = unsorted_with_duplicates(X)
    before = Y.indices.copy(), Y.data.copy(), Y.indptr.copy()
    assert_equals_dense(dica_moments(Y), dica_dense(X), *directions(6))
    assert_equals_dense(lda_moments(Y, C0), lda_dense(X, C0), *directions(6))
    for old, new in zip(before, (Y.indices, Y.data, Y.indptr), strict=True):
        np.testing.assert_array_equal(old, new)


def test_many_blocks_equal_dense_brute_force(monkeypatch):
    monkeypatch.setattr("momentopic.corpus.blocks._LEAST_NONZEROS", 8)
    monkeypatch.setattr("momentopic.corpus.blocks._NONZEROS_PER_WORD", 0)
    monkeypatch.setattr("momentopic.moments.base._WORDS", 4)
    monkeypatch.setattr("momentopic.moments.sums._DOCUMENTS", 3)
    X = counts(N=40, seed=5)
    corpus = Corpus(X)
    assert corpus.n_blocks > 5
    assert_equals_dense(dica_moments(corpus), dica_dense(X), *directions(6))
    assert_equals_dense(lda_moments(corpus, C0), lda_dense(X, C0), *directions(6))


@given(
    X=hnp.arrays(np.int64, st.tuples(st.integers(3, 8), st.integers(1, 5)), elements=st.integers(0, 4)),
    seed=st.integers(0, 2**16),
)
@settings(deadline=None, max_examples=50)
def test_any_small_corpus_equals_dense_brute_force(X, seed):
    X[:, 0] += 3  # every document counts for both kinds of moments
    M = X.shape[1]
    W, V, v = directions(M, K=min(M, 3), seed=seed)
    scale = max(1.0, X.max()) ** 3
    for moments, (mean, S, T) in (
        (dica_moments(X), dica_dense(X)),
        (lda_moments(sp.csc_matrix(X), C0), lda_dense(X, C0)),
    ):
        np.testing.assert_allclose(moments.mean, mean, rtol=1e-12)
        np.testing.assert_allclose(moments.second(V), S @ V, atol=1e-12 * scale, rtol=1e-10)
        whole = np.einsum("abc,ia,jb,kc->ijk", T, W, W, W)
        np.testing.assert_allclose(moments.third(W), whole, atol=1e-11 * scale, rtol=1e-10)
        part = np.einsum("abc,ia,jb,c->ij", T, W, W, v)
        np.testing.assert_allclose(moments.projected(W, v), part, atol=1e-11 * scale, rtol=1e-10)


def test_projections_leave_out_words_that_hardly_count():
    """Some words of many are all that counts; of the others, no more than the bound is left out."""
    rng = np.random.default_rng(0)
    X = rng.poisson(np.geomspace(8, 1e-3, 400) * rng.gamma(2.0, size=(300, 1)))
    moments = dica_moments(X)
    W, U = rng.standard_normal((5, 400)), rng.standard_normal((7, 5))
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    second = moments.second(W.T.copy())
    exact = moments.projections(W, U, second)
    bounds = 3 * (W**2).sum(axis=0) * np.linalg.norm(second.T + moments.mean / 3 * W, axis=0)
    for share in (0.9, 0.99):
        some = weighty_words(W, second, moments.mean / 3, share)
        assert 10 < len(some) < 300
        assert (np.diff(some) > 0).all()
        error = np.linalg.norm(moments.projections(W, U, second, share) - exact, axis=(1, 2)).max()
        assert 0 < error <= 1.1 * (1 - share) * bounds.sum()


def test_counts_beyond_int32_and_in_the_millions():
    X = counts(seed=6).astype(np.float64)
    X[0, 0] = 3e9
    assert_equals_dense(dica_moments(X), dica_dense(X), *directions(6))
    millions = counts(seed=7) * 1_000_003
    assert_equals_dense(dica_moments(millions), dica_dense(millions), *directions(6))


def test_words_never_seen_are_allowed():
    X = counts(M=6)
    X[:, 2] = 0
    X[X.sum(axis=1) < 3, 0] += 3
    moments = dica_moments(X)
    assert moments.mean[2] == 0
    assert_equals_dense(moments, dica_dense(X), *directions(6))
    assert_equals_dense(lda_moments(X, C0), lda_dense(X, C0), *directions(6))


def assert_unbiased(estimates, exact):
    """The mean of many small-sample estimates meets the population value within its own standard error."""
    estimates = np.array(estimates)
    error = abs(estimates.mean(axis=0) - exact)
    standard_error = estimates.std(axis=0) / np.sqrt(len(estimates))
    assert (error < 4.5 * standard_error).all()
    # and the test could see a bias of 1/N, N = 6 being the size of a sample
    assert standard_error.max() < abs(exact).max() / 6 / 2


@pytest.mark.filterwarnings("ignore:.*documents are empty")
def test_dica_cumulants_are_unbiased_on_many_small_samples():
    D, c, b = DENSE_TOPICS, np.array([1.5, 1.0]), 0.1
    population = gamma_poisson_population(D, c, b)
    rng = np.random.default_rng(0)
    S, T = [], []
    for _ in range(3000):
        X = rng.poisson(rng.gamma(c, 1 / b, size=(6, 2)) @ D.T)
        moments = dica_moments(X, engine=ThreadEngine(1))
        S.append(moments.second(np.eye(3)))
        T.append(moments.third(np.eye(3), S[-1]))
    assert_unbiased(S, population.second(np.eye(3)))
    assert_unbiased(T, population.third(np.eye(3)))


def test_lda_u_statistics_are_unbiased_on_many_small_samples():
    D, c = DENSE_TOPICS, np.array([0.6, 0.4])
    population = lda_population(D, c)
    rng = np.random.default_rng(0)
    S, T = [], []
    for _ in range(3000):
        lengths = rng.integers(3, 9, size=6)
        X = rng.multinomial(lengths, rng.dirichlet(c, size=6) @ D.T)
        # with c0 -> 0 the products of M1, which are biased by 1/N, drop out: S is M2 and T is M3
        moments = lda_moments(X, 1e-12, engine=ThreadEngine(1))
        S.append(moments.second(np.eye(3)))
        T.append(moments.third(np.eye(3), S[-1]))
    c0, M1 = c.sum(), population.mean
    M2 = population.second(np.eye(3)) + c0 / (c0 + 1) * np.outer(M1, M1)
    M3 = (
        population.third(np.eye(3))
        + c0 / (c0 + 2) * (np.einsum("ab,c", M2, M1) + np.einsum("ac,b", M2, M1) + np.einsum("bc,a", M2, M1))
        - 2 * c0**2 / ((c0 + 1) * (c0 + 2)) * np.einsum("a,b,c", M1, M1, M1)
    )
    assert_unbiased(S, M2)
    assert_unbiased(T, M3)


@pytest.mark.parametrize("make", [dica_moments, lambda X: lda_moments(X, C0)])
def test_shapes_are_checked(make):
    moments = make(counts())
    with pytest.raises(ValueError, match="V must have 6 rows"):
        moments.second(np.ones((5, 2)))
    with pytest.raises(ValueError, match=r"W must have shape \(K, 6\)"):
        moments.third(np.ones((2, 5)))
    with pytest.raises(ValueError, match=r"v must have shape \(6,\)"):
        moments.projected(np.ones((2, 6)), np.ones(5))
    with pytest.raises(ValueError, match="second must be S W'"):
        moments.third(np.ones((2, 6)), np.ones((2, 6)))


def test_too_few_documents():
    with pytest.raises(ValueError, match="at least 3 documents, got n_samples = 2"):
        dica_moments(counts()[:2])
    X = np.array([[1, 1], [2, 0], [3, 4], [5, 6]])
    with (
        pytest.raises(ValueError, match="at least 3 documents of at least 3 tokens, got 2 among n_samples = 4"),
    ):
        lda_moments(X, C0)


def test_documents_under_three_tokens_are_left_out_of_the_lda_moments_with_a_warning_that_counts_them():
    X = counts(N=12)
    X[[2, 5]] = 0
    X[2, 1] = 2
    with pytest.warns(UserWarning, match="2 of 12 documents have fewer than 3 tokens and were left out"):
        moments = lda_moments(X, C0)
    assert moments.n_docs == 10
    kept = X[X.sum(axis=1) >= 3]
    assert moments.mean_length == pytest.approx(kept.sum() / 10)
    assert_equals_dense(moments, lda_dense(kept, C0), *directions(6))


def test_empty_documents_count_for_the_dica_cumulants_with_a_warning():
    X = counts(N=12)
    X[4] = 0
    with pytest.warns(UserWarning, match="1 of 12 documents are empty"):
        moments = dica_moments(X)
    assert_equals_dense(moments, dica_dense(X), *directions(6))


@pytest.mark.parametrize("c0", [0.0, -1.0, np.nan, np.inf])
def test_c0_must_be_positive(c0):
    with pytest.raises(ValueError, match="c0, the sum of the Dirichlet parameters, must be a positive number"):
        lda_moments(counts(), c0)


def test_half_precision_and_flags():
    X = counts(seed=8)
    assert_equals_dense(dica_moments(X.astype(np.float16)), dica_dense(X), *directions(6))
    flags = X > 1
    flags[:, 0] = True
    assert_equals_dense(dica_moments(flags), dica_dense(flags), *directions(6))
    assert_equals_dense(dica_moments(sp.csr_matrix(flags)), dica_dense(flags), *directions(6))
