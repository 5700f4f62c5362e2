"""Bursts are shortened as said, where topics have few documents, and planted topics are found as before."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import Corpus, kernels, simulate
from momentopic.engine.threads import ThreadEngine
from momentopic.metrics import recovery_error
from momentopic.refine import blocks, collapsed, parts
from momentopic.refine.collapsed import refine_collapsed

from .conftest import planted_topics
from .test_sampled import padded

K = 5


def bursty_documents(seed=0):
    """Documents of which some have no word, and some have words that come back very often."""
    rng = np.random.default_rng(seed)
    dense = rng.poisson(0.7, size=(24, 30)) + rng.poisson(30, size=(24, 30)) * (rng.random((24, 30)) < 0.1)
    dense[[3, 10]] = 0
    return sp.csr_matrix(dense)


@pytest.mark.parametrize("mixed", [0.0, 0.3])
def test_bursts_are_shortened_as_said(mixed):
    X = bursty_documents()
    rng = np.random.default_rng(1)
    topics, frequencies = rng.dirichlet(np.full(30, 0.2), size=K), np.asarray(X.sum(axis=0)).ravel() / X.sum()
    phi = padded(((1 - mixed) * topics + mixed * frequencies).T)
    z = rng.integers(K, size=X.sum()).astype(np.uint16)
    ends = np.cumsum(np.asarray(X.sum(axis=1)).ravel())
    first_token = np.concatenate(([0], ends[:-1])).astype(np.int64)
    N = np.zeros((X.shape[0], K))
    np.add.at(N, (np.repeat(np.arange(X.shape[0]), np.diff(np.concatenate(([0], ends)))), z), 1)

    expected_kept, expected_z, expected_N = [], [], np.zeros_like(N)
    t = 0
    for d in range(X.shape[0]):
        for e in range(X.indptr[d], X.indptr[d + 1]):
            x, usual = X.data[e], max(N[d] @ topics[:, X.indices[e]], 1)
            expected_kept.append(x if x <= usual else round(usual * (x / usual) ** 0.85))
            topics_kept = z[t : t + expected_kept[-1]]
            expected_z.extend(topics_kept)
            np.add.at(expected_N[d], topics_kept, 1)
            t += x

    kept, wide, moved = np.empty_like(X.data), padded(N), z.copy()
    rows = (X.indptr, X.indices, X.data)
    n = kernels.bursts.shorten(*rows, phi, frequencies, mixed, moved, first_token, wide, kept)
    np.testing.assert_array_equal(kept, expected_kept)
    np.testing.assert_array_equal(moved[:n], expected_z)
    np.testing.assert_array_equal(wide, padded(expected_N))
    lengths = np.add.reduceat(np.append(kept, 0), X.indptr[:-1]) * (np.diff(X.indptr) > 0)
    np.testing.assert_array_equal(first_token, np.cumsum(lengths) - lengths)
    # some, but not all, of what occurs often; nothing of what occurs once or twice; no word disappears
    assert (kept < X.data).any()
    assert (kept == X.data)[X.data < 3].all()
    assert kept.min() >= 1


def begun(corpus, passes=1):
    run = collapsed._Run(corpus, ThreadEngine(), K, None, None, None, True)
    run.divide(passes)
    run.start(np.random.default_rng(0).dirichlet(np.ones(corpus.shape[1]), size=K), 0)
    return run


@pytest.mark.parametrize("passes", [1, 2])
def test_the_tokens_that_are_left_are_swept(passes, monkeypatch):
    monkeypatch.setattr(parts, "_TOKENS_PER_PART", 100)
    X = bursty_documents()
    corpus = Corpus(X, empty_ok=True)
    run = begun(corpus, passes)
    assert len(run.words) > 1
    left = blocks.taking_part(run.corpus, run.states).counts
    assert left.sum() < X.sum() / passes
    for _ in range(3):
        np.testing.assert_array_equal(run.counts().sum(axis=1), np.asarray(left.sum(axis=0)).ravel())
        lengths = np.concatenate([state.N.sum(axis=1) for state in run.states])
        np.testing.assert_array_equal(lengths, np.asarray(left.sum(axis=1)).ravel())
        assert run.totals.sum() == left.sum() == sum(len(state.z) for state in run.states)
        run.sweep(blocks.sampled_block)
    lengths, numbers = run.lengths_taking_part()
    assert lengths @ numbers == pytest.approx(left.sum())


def test_with_many_documents_to_a_topic_all_tokens_are_drawn():
    X = sp.vstack([bursty_documents(seed) for seed in range(11)], format="csr")
    corpus = Corpus(X, empty_ok=True)
    run = begun(corpus)
    assert blocks.taking_part(run.corpus, run.states) is run.corpus
    assert run.totals.sum() == X.sum()


@pytest.mark.parametrize("n_sweeps", [0, 120])
def test_planted_topics_are_found_as_well_as_without(n_sweeps, monkeypatch):
    """Words that topics explain are no bursts: documents of 300 tokens of 150 words, fewer than fifty to a topic."""
    D = planted_topics(150, K)
    corpus = Corpus(simulate.gamma_poisson(D, np.full(K, 0.1), 240, mean_length=300))
    assert corpus.counts.data.max() > 20
    start = np.random.default_rng(0).dirichlet(np.ones(150), size=K)
    errors = []
    for few in (True, False):
        monkeypatch.setattr(collapsed._Run, "shortens_bursts", few)
        errors.append(recovery_error(refine_collapsed(corpus, start, ThreadEngine(), n_sweeps=n_sweeps).topics.T, D))
    assert errors[0] < errors[1] + 0.01
