"""Inference of documents as of each alone; tokens first drawn where the sums pass the random numbers."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from momentopic import Corpus, kernels
from momentopic.documents import expected_tokens
from momentopic.kernels.choice import add_up, choose, one_after_the_other

from .test_sampled import long_and_short_documents, padded


@njit
def added_up(row):
    sums = np.empty_like(row)
    add_up(row, sums)
    return sums


def drawn(X, phi, alpha, seeds, n_passes=4):
    block = Corpus(X, empty_ok=True).block(0)
    first_token = np.concatenate(([0], np.cumsum(block.lengths())[:-1])).astype(np.int64)
    z, N = np.zeros(int(X.sum()), dtype=np.uint16), np.zeros((X.shape[0], len(alpha)), dtype=np.float32)
    rows = (block.indptr, block.indices, block.counts)
    vectors = kernels.registers.vectors_of(len(alpha))
    kernels.collapsed.start_drawn(*rows, phi, alpha, n_passes, seeds, z, first_token, N, vectors)
    return z, N, seeds


@pytest.mark.parametrize("K", [3, 40, 128, 140])  # the last does not fit into registers
def test_documents_are_drawn_as_if_each_were_alone(K):
    X = long_and_short_documents(30)
    rng = np.random.default_rng(1)
    phi, alpha = padded(rng.dirichlet(np.full(K, 0.3), size=30)), padded(rng.random(K))
    seeds = np.arange(X.shape[0], dtype=np.uint64) * np.uint64(12345)
    z, N, after = drawn(X, phi, alpha, seeds.copy())
    alone = [drawn(X[d], phi, alpha, seeds[d : d + 1].copy()) for d in range(X.shape[0])]
    np.testing.assert_array_equal(z, np.concatenate([one[0] for one in alone]))
    np.testing.assert_array_equal(N, np.concatenate([one[1] for one in alone]))
    np.testing.assert_array_equal(after, np.concatenate([one[2] for one in alone]))
    document = np.repeat(np.arange(X.shape[0]), np.asarray(X.sum(axis=1)).ravel())
    counted = np.zeros_like(N)
    np.add.at(counted, (document, z), 1)
    np.testing.assert_array_equal(N, counted)


@pytest.mark.parametrize("K", [3, 40, 128, 140])
def test_documents_are_inferred_as_if_each_were_alone(K):
    X = long_and_short_documents(30)
    rng = np.random.default_rng(1)
    phi, alpha = padded(rng.dirichlet(np.full(K, 0.3), size=30)), padded(rng.random(K))

    def inferred(X):
        return expected_tokens(X.indptr.astype(np.int64), X.indices, X.data.astype(np.int32), phi, alpha, K)

    alone = np.concatenate([inferred(X[d]) for d in range(X.shape[0])])
    np.testing.assert_array_equal(inferred(X), alone)
    np.testing.assert_allclose(alone.sum(axis=1), np.asarray(X.sum(axis=1)).ravel(), rtol=1e-3)  # relaxed


@pytest.mark.parametrize("K", [1, 16, 50, 300])
def test_a_choice_does_not_depend_on_how_sums_are_rounded(K):
    rng = np.random.default_rng(K)
    for sparse in (0.02, 1.0):
        for _ in range(300):
            row = padded(rng.dirichlet(np.full(K, sparse)).astype(np.float32))
            sums = added_up(row)
            np.testing.assert_allclose(sums, np.cumsum(row, dtype=np.float64), atol=1e-5)
            on_a_boundary = np.cumsum(row)[rng.integers(K, size=4)]
            for u in np.concatenate([rng.random(8), on_a_boundary, [0.0]]).astype(np.float32):
                new = choose(row, sums, u)
                assert new == one_after_the_other(row, u)
                assert row[new] > 0


def test_a_word_that_no_topic_can_produce():
    row = np.zeros(16, dtype=np.float32)
    assert choose(row, row.copy(), np.float32(0.4)) == 0
