"""Compiled loops against numpy: vectors over topics, register tiles, packed triples; and single precision."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from momentopic import DiscreteICA, kernels, metrics, simulate
from momentopic.engine.threads import ThreadEngine, sum_over_ranges
from momentopic.kernels.lanes import LANES, add_at, passed_lanes, prefetch, put_at, weighted_lanes
from momentopic.moments import dica_moments, lda_moments, whiten
from momentopic.moments.triples import packed_size, padded_rows, unpacked

from . import reference
from .conftest import planted_topics


@njit
def weighted(a, f, eta, lanes):
    prefetch(f)
    return weighted_lanes(a, f, eta, lanes)


@njit
def passed(lanes, lane, held, u, before):
    return passed_lanes(lanes, lane, held, u, before)


@njit
def added(row, k, value):
    add_at(row, k, value)


@njit
def put(row, k, value):
    put_at(row, k, value)


@pytest.mark.parametrize("length", [16, 32, 112])
def test_weighted_lanes(length):
    rng = np.random.default_rng(length)
    a, f = rng.random((2, length)).astype(np.float32)
    lanes = np.full(LANES, np.nan, dtype=np.float32)
    total = weighted(a, f, np.float32(0.3), lanes)
    np.testing.assert_allclose(lanes, (a * (f + 0.3)).reshape(-1, LANES).sum(axis=0), rtol=1e-5)
    assert total == pytest.approx((a * (f + 0.3)).sum(), rel=1e-5)


def test_passed_lanes():
    lanes = np.random.default_rng(0).random(LANES).astype(np.float32)
    lanes[[3, 9]] = 0
    before = np.empty(LANES + 1, dtype=np.float32)
    for lane, held in ((0, 0.0), (0, 0.1), (7, 0.2), (LANES - 1, 0.05)):
        left = lanes.copy()
        left[lane] -= np.float32(held)
        ends = np.cumsum(left)
        for u in (0.0, 0.4, ends[4] - 1e-3, ends[-1] - 1e-3, ends[-1] + 1):
            found = passed(lanes, np.uint32(lane), np.float32(held), np.float32(u), before)
            assert found == np.searchsorted(ends, u, side="right")
        np.testing.assert_allclose(before, np.concatenate([[0], ends]), rtol=1e-5)


def test_add_at_and_put_at():
    row = np.random.default_rng(0).random(48).astype(np.float32)
    for k in (0, 15, 16, 37, 47):
        expected = row.copy()
        expected[k] += np.float32(0.3)
        added(row, np.uint32(k), np.float32(0.3))
        np.testing.assert_array_equal(row, expected)
        expected[k] = np.float32(0.7)
        put(row, np.uint32(k), np.float32(0.7))
        np.testing.assert_array_equal(row, expected)


@pytest.mark.parametrize("K", [16, 32, 48, 64, 80, 96, 112, 128, 144])
@pytest.mark.parametrize("counts", [np.int32, np.float64])
def test_a_pass_over_a_document(K, counts):
    """One word after the other, its own part left out: for every number of vectors, in registers or not.

    In registers each word is weighed before the one before it is put to use.
    """
    rng = np.random.default_rng(K)
    words, x, relax = np.array([3, 0, 5, 6, 1], dtype=np.int32), np.array([2, 1, 4, 1, 3]).astype(counts), 1.5
    vectors = kernels.registers.vectors_of(K)
    phi, c = rng.random((7, K), dtype=np.float32), rng.random(K, dtype=np.float32)
    phi[6] = 0  # no topic can produce that word: it says nothing
    phi[:, -3:] = c[-3:] = 0
    G, N = np.zeros((5, K), dtype=np.float32), np.zeros(K, dtype=np.float32)
    expected, total = np.zeros((5, K)), np.zeros(K)
    for step in (1.0, relax, relax):
        kernels.documents.renew(words, x, phi, c, np.float32(step), G, N, np.empty(K, dtype=np.float32), vectors)

        def weigh(i, step=step):
            fresh = phi[words[i]].astype(float) * (np.maximum(total - expected[i], 0) + c)
            return fresh / max(fresh.sum(), 1e-30)

        def put_to_use(i, fresh, step=step):
            new = np.maximum(expected[i] + step * (fresh - expected[i]), 0)
            total[:] += x[i] * (new - expected[i])
            expected[i] = new

        reference.in_turn(5, len(words) // 4 if vectors else 0, weigh, put_to_use)
    np.testing.assert_allclose(G, expected, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(N, total, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(N.sum(), 10, rtol=1e-2)  # of 11 tokens


@pytest.mark.parametrize("K", [16, 32, 48, 64, 80, 96, 112, 128, 144])
@pytest.mark.parametrize("counts", [np.int32, np.float32])
@pytest.mark.parametrize(("relax", "left_out"), [(1.0, 1.0), (2.5, 1.0), (1.0, 2.0)])
def test_an_expected_sweep(K, counts, relax, left_out):
    """Over the words from 2 on of seven documents, which share none of them: for every number of vectors, in registers
    or not. One document has no such word, and the others have one to seventy.
    """
    rng = np.random.default_rng(K)
    lengths = np.array([3, 1, 0, 70, 2, 40, 5])  # of words from 2 on; before them each document has one that is not
    indptr = np.concatenate(([0], np.cumsum(lengths + 1)))
    document = np.repeat(np.arange(7), lengths + 1)
    words = (2 + np.arange(indptr[-1])).astype(np.int32)
    words[indptr[:-1]] = 0
    entry, x = indptr[:-1] + 1, rng.integers(1, 5, size=indptr[-1]).astype(counts)
    held = np.flatnonzero(words)  # entries, in the order in which they lie: before them are those of word 0
    G = rng.integers(256, size=(indptr[-1], K)).astype(np.uint8) * (rng.random((indptr[-1], K)) < 0.2)
    G = G.astype(np.uint8) // 2
    G[8] += 50  # after a sweep beyond what it found
    G[9] = 0  # no topic could produce that word
    expected = kernels.exchange.decoded(G).astype(float)
    of_words, of_documents = rng.random((words.max() + 1, K)), rng.random((7, K))
    np.add.at(of_words, words[held], x[held, None] * expected[7:])
    np.add.at(of_documents, document[held], x[held, None] * expected[7:])
    of_words[words[held[2]], 3] = expected[9, 3] / 2  # rounding may leave a count just below one's own part
    besides = of_documents.copy()  # what documents have beside these entries: it stays
    np.add.at(besides, document[held], -x[held, None] * expected[7:])
    F, N = of_words.astype(np.float32), of_documents.astype(np.float32)
    alpha, scale, eta = rng.random(K, dtype=np.float32), rng.random(K, dtype=np.float32), np.float32(0.05)
    vectors = kernels.registers.vectors_of(K)
    own, expected_change = expected[7:], np.zeros(K)
    of_held = (of_words, own, of_documents, expected_change, eta, alpha, scale, relax, left_out, 2 if vectors else 0)
    reference.expected_sweep((words[held], document[held], x[held]), lengths + 1, *of_held)
    change, before = np.zeros(K, dtype=np.float32), N.sum(axis=0)
    rows = (indptr, words, x, entry)
    steps = np.float32(relax), np.float32(left_out)
    kernels.collapsed.expected_sweep(*rows, 2, F[2:], eta, scale, alpha, *steps, G, N, change, vectors)
    found = kernels.exchange.decoded(G)
    assert (np.abs(found - expected) < 1e-5).mean() > 0.995  # a hair's breadth decides how few are rounded
    np.testing.assert_array_less(np.abs(found - expected), 1.01 * reference.kept_steps(found))
    for values, exact in ((F, of_words), (N, of_documents)):
        np.testing.assert_allclose(values, exact, atol=0.4)
    np.add.at(besides, document[held], x[held, None] * found[7:])
    np.testing.assert_allclose(N, besides, atol=1e-5)  # what is rounded off does not get into the counts
    np.testing.assert_allclose(change, N.sum(axis=0) - before, atol=1e-4)
    np.testing.assert_array_equal(entry, indptr[1:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("counts", [np.int32, np.float64])
def test_register_tiles_equal_scipy(dtype, counts):
    rng = np.random.default_rng(1)
    dense = rng.integers(1, 6, size=(60, 40)) * (rng.random((60, 40)) < 0.2)
    dense[5] = 0
    X = sp.csr_matrix(dense)
    rows = (X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data.astype(counts))
    V = rng.standard_normal((40, 3 * 64 // np.dtype(dtype).itemsize)).astype(dtype)
    Y = np.empty((60, V.shape[1]), dtype=dtype)
    kernels.tiles.project(*rows, V, Y)
    rtol = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(Y, X @ V, rtol=rtol, atol=rtol)
    weights, center = rng.random(60).astype(dtype), rng.random(V.shape[1]).astype(dtype)
    out = np.ones((40, V.shape[1]), dtype=dtype)
    kernels.tiles.second_product(*rows, weights, V, center, out)
    np.testing.assert_allclose(out, 1 + X.T @ (weights[:, None] * (X @ V - center)), rtol=rtol, atol=10 * rtol)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 45), st.integers(1, 400), st.integers(0, 2**20), st.booleans())
def test_products_with_a_tall_basis_equal_numpy(n, M, seed, in_place):
    rng = np.random.default_rng(seed)
    B, Z = rng.standard_normal((M, n + 3))[:, :n], rng.standard_normal((M, 16))
    begin, end = sorted(rng.integers(0, M + 1, size=2))
    nothing = int(rng.integers(0, n))
    C = np.concatenate([np.zeros((nothing, 16)), rng.standard_normal((n - nothing, 16))])
    rows = slice(begin, end)
    found = np.ones((n, 16))
    kernels.tall.coefficients(B, Z, begin, end, found)
    np.testing.assert_allclose(found, 1 + B[rows].T @ Z[rows], rtol=1e-11, atol=1e-11)

    expected = Z.copy()
    expected[rows] -= B[rows] @ C
    out = Z.copy()
    left, gram = np.zeros((n, 16)), np.zeros((16, 16))
    kernels.tall.take_out(B, nothing, C, out if in_place else Z, begin, end, out, left, gram)
    np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(left, B[rows].T @ out[rows], rtol=1e-11, atol=1e-10)
    np.testing.assert_allclose(gram, out[rows].T @ out[rows], rtol=1e-11, atol=1e-10)

    divisor, gram = rng.standard_normal((16, 16)), np.zeros((16, 16))
    expected = Z.copy()
    expected[rows] = (Z[rows] - B[rows] @ C) @ divisor
    kernels.tall.take_out_and_divide(B, C, Z, begin, end, divisor, gram)
    np.testing.assert_allclose(Z, expected, rtol=1e-11, atol=1e-10)
    np.testing.assert_allclose(gram, Z[rows].T @ Z[rows], rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=25, deadline=None)
@given(K=st.integers(1, 13), n=st.integers(1, 1200), seed=st.integers(0, 100))
def test_packed_triples_equal_einsum(dtype, K, n, seed):
    rng = np.random.default_rng(seed)
    w, f, g = rng.standard_normal((3, K, n)).astype(dtype)
    W, F, G = padded_rows(w), padded_rows(f), padded_rows(g)
    atol = 1e-10 if dtype == np.float64 else 1e-6 * n + 1e-5
    packed = np.zeros(packed_size(K))
    kernels.triples.add_triples(packed, (W,), (F,), G, K)
    a, b, c = (index.ravel() for index in np.meshgrid(*3 * [np.arange(K)], indexing="ij"))
    once = (a <= b) & (b <= c)
    A = np.zeros((K, K, K))
    A[a[once], b[once], c[once]] = np.einsum("an,bn,cn->abc", w, f, g, dtype=np.float64)[a[once], b[once], c[once]]
    found = unpacked(packed, K)
    np.testing.assert_allclose(found[a[once], b[once], c[once]], A[a[once], b[once], c[once]], atol=atol)
    for axes in ((0, 2, 1), (1, 0, 2), (2, 1, 0)):
        np.testing.assert_array_equal(found, found.transpose(axes))
    packed[:] = 0
    kernels.triples.add_triples(packed, (W,), (W,), F, K)
    kernels.triples.add_triples(packed, (W, F), (F, W), W, K)
    A = np.einsum("an,bn,cn->abc", w, w, f, dtype=np.float64)
    expected = A + A.transpose(0, 2, 1) + A.transpose(2, 1, 0)
    np.testing.assert_allclose(unpacked(packed, K), expected, atol=3 * atol)


@pytest.fixture(scope="module")
def corpus():
    return simulate.gamma_poisson(planted_topics(600, 20), np.full(20, 0.1), 6000, mean_length=80)


@pytest.mark.parametrize("kind", ["dica", "lda"])
def test_single_precision_is_as_accurate_as_said(corpus, kind):
    moments = dica_moments(corpus) if kind == "dica" else lda_moments(corpus, 2.0)
    white = whiten(moments, 20)
    V = np.random.default_rng(0).standard_normal((600, 24))
    exact, single = moments.second(V), moments.second(V.astype(np.float32))
    assert single.dtype == np.float64
    error = abs(single - exact).max()
    assert 0 < error < 1e-6 * white.eigenvalues[0] * np.linalg.norm(V, axis=0).max()
    T = moments.third(white.W, white.unwhiten)
    single = moments.third(white.W.astype(np.float32), white.unwhiten)
    assert 0 < abs(single - T).max() < 1e-5 * abs(T).max()


def test_topics_do_not_suffer_from_single_precision(corpus, monkeypatch):
    quick = DiscreteICA(20, refine=None).fit(corpus)
    monkeypatch.setattr("momentopic.solve._LARGEST_SKEW", 0.0)
    exact = DiscreteICA(20, refine=None).fit(corpus)
    assert 0 < metrics.recovery_error(quick.components_, exact.components_) < 1e-4


def test_a_long_document_calls_for_double_precision():
    from momentopic.solve import precise_enough

    X = simulate.gamma_poisson(planted_topics(50, 3), np.full(3, 0.5), 500, mean_length=30).tolil()
    assert precise_enough(dica_moments(X)) is np.float32
    X[0, 0] = 10_000_000
    assert precise_enough(dica_moments(X)) is np.float64


def _range_sum(rows, x):
    return (x[rows].sum(axis=0, keepdims=True),)


def test_sums_over_ranges(monkeypatch):
    x = np.random.default_rng(0).standard_normal(1000)
    bits = set()
    for n_threads in (1, 2, 4):
        monkeypatch.setattr("momentopic.engine.threads.available_cores", lambda n=n_threads: n)
        bits.add(sum_over_ranges(_range_sum, 1000, 37, x)[0].tobytes())
    assert len(bits) == 1
    assert np.frombuffer(bits.pop())[0] == pytest.approx(x.sum())
    assert ThreadEngine().n_threads is None


def test_kernels_load_where_nothing_may_be_written():
    """Neither beside the modules nor in the user's cache: numba refuses to cache, and a temporary folder serves."""
    script = """
import numba.core.caching as caching

for name in ("InTreeCacheLocator", "UserWideCacheLocator"):
    locator = getattr(caching, name, None) or getattr(caching, "_" + name)
    locator.ensure_cache_path = lambda self: (_ for _ in ()).throw(OSError("read-only"))
import subprocess
import sys

import numpy as np
import momentopic
X = np.random.default_rng(0).poisson(1.0, size=(60, 12)) * np.arange(1, 13)
print(momentopic.DiscreteICA(2).fit(X).components_.shape)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(2, 12)"
