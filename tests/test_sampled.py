"""Sampled sweeps: draws against plain Python, and against the probabilities that they should have."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import Corpus, kernels
from momentopic.kernels.abreast import ABREAST
from momentopic.refine import blocks

LANES = 16
LENGTHS = [5, 0, 1, 127, 128, 129, 40, 300, 3, 0, 12, 256, 1, 2, 60]


def padded(values):
    width = -(-values.shape[-1] // LANES) * LANES
    out = np.zeros((*values.shape[:-1], width), dtype=np.float32)
    out[..., : values.shape[-1]] = values
    return out


def long_and_short_documents(M, seed=0):
    """Documents of no token, of one, and of more than are laid out at a time; words that occur once and very often."""
    rng = np.random.default_rng(seed)
    often = rng.dirichlet(np.full(M, 0.2), size=len(LENGTHS))
    return sp.csr_matrix(np.array([rng.multinomial(n, p) for n, p in zip(LENGTHS, often, strict=True)]))


def started(X, K, first_word, seed=0):
    """A block, a state whose tokens have any topics, and the word and token of each token."""
    rng = np.random.default_rng(seed)
    block = Corpus(X, empty_ok=True).block(0)
    words, document = (np.repeat(of, X.data) for of in (X.indices, np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))))
    z = rng.integers(K, size=len(words)).astype(np.uint16)
    N, counts = np.zeros((X.shape[0], K)), np.zeros((X.shape[1], K))
    np.add.at(N, (document, z), 1)
    np.add.at(counts, (words, z), 1)
    first_token = np.concatenate(([0], np.cumsum(block.lengths())[:-1])).astype(np.int64)
    entry, token = np.empty_like(first_token), np.empty_like(first_token)
    rows = (block.indptr, block.indices, block.counts)
    kernels.collapsed.seek(*rows, first_token, first_word, entry, token)
    streams = rng.integers(2**63, size=X.shape[0]).astype(np.uint64)
    return block, blocks.BlockState(padded(N), streams, entry, token, first_token, z=z), padded(counts), words, document


def drawn_in_plain_python(z, old_streams, steps, words, document, N, phi, eta, scale, alpha):
    """Draw the tokens of each step at the same moment; return the topics, and the random streams as they are then."""
    z, streams, K = z.copy(), old_streams.copy(), len(alpha)
    lane_by_lane = np.argsort(np.arange(K) % LANES, kind="stable")
    for step in steps:
        drawn = []
        for t in step:
            d, own = document[t], np.eye(K)[z[t]]
            p = (phi[words[t]] + eta - own) * scale * (N[d] - own + alpha)
            with np.errstate(over="ignore"):
                streams[d] += kernels.random.GOLDEN
            bits = kernels.random.mix(streams[d])
            others = np.where(np.arange(K) == z[t], 0, p)
            u = float(bits >> np.uint64(40)) / 2**24 * others.sum()
            passed = np.searchsorted(np.cumsum(others[lane_by_lane]), u, side="right")
            new = lane_by_lane[min(passed, K - 1)]
            taken = float(bits & np.uint64(2**24 - 1)) / 2**24 * (p.sum() - p[new]) < others.sum()
            drawn.append((t, new if taken else z[t]))
        for t, new in drawn:
            for counted in (N[document[t]], phi[words[t]]):
                counted[z[t]] -= 1
                counted[new] += 1
            z[t] = new
    return z, streams


def steps_abreast(here, document, n_abreast):
    """The tokens of each step: of so many documents, of which one that is through gives its place to the next."""
    waiting = [list(np.flatnonzero(here & (document == d))) for d in range(len(LENGTHS))]
    waiting = [tokens for tokens in waiting if tokens]
    under_way = []
    while waiting or under_way:
        while waiting and len(under_way) < n_abreast:
            under_way.append(waiting.pop(0))
        yield [tokens.pop(0) for tokens in under_way]
        under_way = [tokens for tokens in under_way if tokens]


@pytest.mark.parametrize("cut", [0, 3])
@pytest.mark.parametrize(
    ("K", "one_by_one"), [(1, 0), (3, 0), (3, 1), (16, 0), (20, 0), (20, 1), (50, 0), (100, 0), (128, 0), (130, 1)]
)
def test_a_sweep_equals_plain_python(K, one_by_one, cut, monkeypatch):
    if one_by_one and K <= kernels.registers.IN_REGISTERS:
        monkeypatch.setattr(kernels.registers, "IN_REGISTERS", 0)
    M, eta = 9, 0.1
    block, state, counts, words, document = started(long_and_short_documents(M), K, cut)
    assert block.counts.max() > 128
    alpha = np.random.default_rng(1).dirichlet(np.ones(K)) + 0.1
    z, streams, N, phi = state.z, state.random, state.N[:, :K].astype(float), counts[:, :K].astype(float)
    found_change, before = 0.0, N.sum(axis=0)
    for first, end in ((cut, M), (0, cut)):
        scale = 1 / (phi.sum(axis=0) + M * eta)
        steps = list(steps_abreast((first <= words) & (words < end), document, 1 if one_by_one else ABREAST))
        z, streams = drawn_in_plain_python(z, streams, steps, words, document, N, phi, eta, scale, alpha)
        part = blocks.WordCounts(first, counts[first:end])
        if first < end:
            (change,), state, _ = blocks.sampled_block(
                block, state, part, np.float32(eta), padded(scale), padded(alpha)
            )
            found_change = found_change + change[:K]
    np.testing.assert_array_equal(state.z, z)
    np.testing.assert_array_equal(state.N, padded(N))
    np.testing.assert_array_equal(counts, padded(phi))
    np.testing.assert_array_equal(state.random, streams)
    np.testing.assert_array_equal(found_change, N.sum(axis=0) - before)
    again = np.zeros((M, K))
    np.add.at(again, (words, z), 1)
    np.testing.assert_array_equal(phi, again)


@pytest.mark.parametrize("K", [1, 2, 16, 17, 40, 100, 130])
def test_gibbs_draws_have_the_right_probabilities(K):
    """One token in each of many documents, whose topic is drawn anew given counts that hardly change."""
    rng = np.random.default_rng(0)
    n, width = 40_000, -(-K // 16) * 16
    corpus = Corpus(np.ones((n, 1), dtype=int))
    alpha, scale = np.zeros((2, width), dtype=np.float32)
    alpha[:K], scale[:K] = rng.dirichlet(np.ones(K)), 1 / rng.integers(10, 100, size=K)
    counts = np.zeros((1, width), dtype=np.float32)
    counts[0, :K] = 1e6 * rng.random(K)
    p = counts[0, :K] * scale[:K] * alpha[:K].astype(np.float64)
    p /= p.sum()
    state = blocks.BlockState(
        np.zeros((n, width), dtype=np.float32), rng.integers(2**63, size=n).astype(np.uint64), *np.zeros((3, n), int)
    )
    state.entry, state.token, state.first_token = (np.arange(n) for _ in range(3))
    old = rng.integers(K, size=n)
    state.z = old.astype(np.uint16)
    state.N[np.arange(n), old] = 1
    blocks.sampled_block(corpus.block(0), state, blocks.WordCounts(0, counts), np.float32(0.01), scale, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        moves = p * np.minimum(1 / (1 - p[:, None]), 1 / (1 - p))
    np.fill_diagonal(moves, 0)
    np.fill_diagonal(moves, 1 - moves.sum(axis=1))
    assert moves.min() > -1e-12
    np.testing.assert_allclose(p @ moves, p, atol=1e-12)  # draws from p stay draws from p
    drawn = np.zeros((K, K))
    np.add.at(drawn, (old, state.z), 1)
    np.testing.assert_allclose(drawn / n, moves / K, atol=4 * np.sqrt(0.25 / K / n) + 0.005 / K)
    assert K == 1 or np.trace(moves) < 1  # a plain Gibbs draw stays more often
