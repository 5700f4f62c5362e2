"""Expected sweeps in rounds: which tokens take part, how topics leap, what is left in the end."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import Corpus, DiscreteICA, kernels, simulate
from momentopic.engine import ThreadEngine
from momentopic.metrics import recovery_error
from momentopic.refine import blocks, collapsed, parts, refine_collapsed, rounds

from .conftest import planted_topics


def test_rounds_take_more_and_more_of_the_tokens():
    few = rounds.rounds_of(30_000, 1000, 9000, 50)  # tokens to a topic
    assert [part.one_in for part in few] == [1, 1, 1]
    shares = [part.one_in for part in rounds.rounds_of(340_000, 1800, 9000, 50)]
    np.testing.assert_allclose(shares, 3.886 ** (np.array([3, 2, 1, 0]) / 3), rtol=1e-3)
    assert shares[-1] == 1
    assert rounds.rounds_of(1e7, 100_000, 90_000, 50)[0].one_in == pytest.approx(100 / 32)  # short documents
    assert [round(part.one_in, 1) for part in rounds.rounds_of(1e7, 50_000, 900_000, 5)] == [6.2, 4.0, 2.5, 1.6, 1]
    long = rounds.rounds_of(2.6e6, 2000, 14_000, 50)
    assert len(long) == 6
    assert long[0].one_in == 16
    assert long[-1].steps[-1] == 1  # ends just where it finds
    assert all(step > 1 for part in few for step in part.steps)
    assert rounds.rounds_of(300_000, 5000, 1000, 50)[-1].steps[-1] == 1  # topics that are known well


def test_documents_that_repeat_words_are_left_out_twice_if_they_are_long():
    long, short = (2.6e6, 2000, 14_000, 50), (340_000, 1800, 9000, 50)
    plan, plain = rounds.rounds_of(*long, bursty=True), rounds.rounds_of(*long)
    assert [part.left_out for part in plan] == [2.0] * 5 + [1.5]
    assert {part.sharpness for part in plan} == {0.7}
    assert plan[:3] == [part._replace(left_out=2.0, sharpness=0.7) for part in plain[:3]]
    assert [part.one_in for part in plan] == [part.one_in for part in plain]
    assert [part.steps.count(1.0) for part in plan] == [0, 0, 0, 4, 4, 9]  # half of the tokens, and more
    assert all(0 < part.averaged_from <= len(part.steps) for part in plan)
    assert len(rounds.rounds_of(120_000, 200, 2500, 60, bursty=True)[0].steps) == 24  # all tokens from the beginning
    assert rounds.rounds_of(*short, bursty=True) == rounds.rounds_of(*short)


def long_documents(repeats, n_docs=200):
    """Return planted topics, their prior, and a corpus of 900 tokens a document, each draw of a word so many times."""
    D, c = np.random.default_rng(5).dirichlet(np.full(2500, 0.5), size=8).T, np.linspace(0.1, 0.3, 8)
    X = simulate.gamma_poisson(D, c, n_docs, mean_length=900 / repeats, random_state=2)
    return D, c, Corpus(X * repeats)


def run_of(corpus, K):
    return collapsed._Run(corpus, ThreadEngine(), K, None, None, None, False)


def test_burstiness_is_what_dense_moments_say():
    D, c, corpus = long_documents(1, 30)
    x = corpus.counts.toarray().astype(float)
    lengths = x.sum(axis=1)
    second = (np.diag(c) + np.outer(c, c)) / (c.sum() * (c.sum() + 1))  # E[θθ'] under the Dirichlet prior
    expected = (lengths * (lengths - 1)).sum() * np.trace(D @ second @ D.T)
    found = rounds.burstiness(run_of(corpus, 8), D.T, c)
    assert found == pytest.approx((x * (x - 1)).sum() / expected, rel=1e-6)


def test_burstiness_of_documents_that_are_drawn_and_of_such_that_repeat_words():
    D, c, corpus = long_documents(1)
    assert rounds.burstiness(run_of(corpus, 8), D.T, c) == pytest.approx(1, abs=0.15)
    D, c, corpus = long_documents(6)
    assert rounds.burstiness(run_of(corpus, 8), D.T, c) > 3


@pytest.mark.parametrize(
    ("repeats", "knows_prior", "left_out"), [(6, True, {1.5, 2.0}), (1, True, {1.0}), (6, False, {1.0})]
)
def test_what_is_left_out_follows_from_the_documents(repeats, knows_prior, left_out, monkeypatch):
    D, _, corpus = long_documents(repeats)
    monkeypatch.setattr(rounds, "_KNOWN_WELL", 1e9)
    taken = set()
    sweep = collapsed._Run.sweep

    def swept(self, function, *options):
        taken.add(float(options[1]))
        sweep(self, function, *options)

    monkeypatch.setattr(collapsed._Run, "sweep", swept)
    if knows_prior:
        topics = DiscreteICA(8).fit(corpus).components_
    else:
        topics = refine_collapsed(corpus, D.T, ThreadEngine()).topics
    assert taken == left_out
    np.testing.assert_allclose(topics.sum(axis=1), 1)


@pytest.mark.parametrize("known_well", [False, True])
def test_every_round_begins_beyond_what_the_last_one_found(known_well, monkeypatch):
    monkeypatch.setattr(rounds, "_KNOWN_WELL", 5 if known_well else 1e9)
    corpus = Corpus(simulate.gamma_poisson(planted_topics(120, 3), np.full(3, 0.2), 300, mean_length=80))
    begun, ended = [], []
    start, topics = collapsed._Run.start, collapsed._Run.topics

    def started(self, given, *args):
        begun.append(np.array(given))
        start(self, given, *args)

    def found(self, *args):
        ended.append(topics(self, *args))
        return ended[-1]

    monkeypatch.setattr(collapsed._Run, "start", started)
    monkeypatch.setattr(collapsed._Run, "topics", found)
    first = np.random.default_rng(0).dirichlet(np.ones(120), size=3)
    refined = refine_collapsed(corpus, first, ThreadEngine())
    n = len(rounds.rounds_of(corpus.tokens, 300, 120, 3))
    assert len(begun) == n + known_well >= 3  # after them, for the prior
    assert len(ended) == n
    np.testing.assert_array_equal(begun[0], first)
    before = [first, *ended]
    for i in range(1, n):
        leapt = np.maximum(before[i] + (0 if known_well else 3) * (before[i] - before[i - 1]), 0)
        np.testing.assert_allclose(begun[i], leapt / leapt.sum(axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_array_equal(refined.topics, ended[-1])


def test_responsibilities_are_whole_after_a_sweep_that_goes_just_there():
    corpus = Corpus(simulate.gamma_poisson(planted_topics(120, 3), np.full(3, 0.2), 300, mean_length=80))
    run = collapsed._Run(corpus, ThreadEngine(), 3, None, None, None, False)
    run.start(planted_topics(120, 3).T, 0, parts.Start(0.3, 3))
    lengths = np.asarray(corpus.counts.sum(axis=1)).ravel() * (run.totals.sum() / corpus.tokens)

    def error():
        return np.abs(np.concatenate([state.N.sum(axis=1) for state in run.states]) - lengths).max()

    tolerance = error() + 0.3  # of documents whose bursts were shortened more than others'
    run.sweep(blocks.expected_block, np.float32(3), np.float32(1))
    assert max(kernels.exchange.decoded(state.G).sum(axis=1).max() for state in run.states) > 1.05
    run.sweep(blocks.expected_block, np.float32(1), np.float32(1))
    for state in run.states:
        np.testing.assert_allclose(kernels.exchange.decoded(state.G).sum(axis=1), 1, atol=0.05)  # as kept
    assert error() < tolerance
    np.testing.assert_allclose(run.counts().sum(axis=0), run.totals, rtol=1e-4)


@pytest.mark.parametrize("mean_length", [60, 700])
def test_planted_topics_are_found_and_again_with_the_same_bits(mean_length, monkeypatch):
    monkeypatch.setattr(parts, "_TOKENS_PER_PART", 500)
    D = planted_topics(300, 6, seed=3)
    corpus = Corpus(simulate.gamma_poisson(D, np.full(6, 0.1), 400, mean_length=mean_length))
    plan = rounds.rounds_of(corpus.tokens, 400, 300, 6)
    assert plan[0].one_in > 1
    start = DiscreteICA(6, refine=None).fit(corpus).components_
    found = [refine_collapsed(corpus, start, ThreadEngine(n), random_state=0) for n in (1, 2, 5)]
    assert len({each.topics.tobytes() + each.concentration.tobytes() for each in found}) == 1
    other = refine_collapsed(corpus, start, ThreadEngine(), random_state=1)
    assert (other.topics != found[0].topics).any()
    for each in (found[0], other):
        assert recovery_error(each.topics.T, D) < 0.6 * recovery_error(start.T, D)
        assert each.concentration.sum() == pytest.approx(0.6, rel=0.15)  # it is taken from draws
        assert each.n_expected == sum(len(part.steps) for part in plan)
        np.testing.assert_allclose(each.topics.sum(axis=1), 1)


def test_topics_that_are_known_well_and_much_alike_stay_near_the_start():
    D = np.random.default_rng(0).dirichlet(np.full(96, 0.3), size=8).T  # as of mutations: few words, most in all topics
    X = simulate.gamma_poisson(D, np.full(8, 0.3), 2000, mean_length=400, random_state=0)
    start, found = (
        recovery_error(DiscreteICA(8, refine=refine).fit(X).components_, D.T) for refine in (None, "collapsed")
    )
    assert start < 0.05
    assert found < 1.5 * start  # with leaps it was three to seven times as large


def test_what_does_not_fit_into_memory_is_drawn(monkeypatch):
    corpus = Corpus(sp.random(300, 80, density=0.2, format="csr", random_state=0, data_rvs=np.ones))
    assert parts.responsibilities_bytes(corpus.nonzeros, 5) == 16 * corpus.nonzeros
    assert not parts.draws_tokens(corpus, 5, None)
    monkeypatch.setattr(parts, "MOST_RESPONSIBILITIES", 16 * corpus.nonzeros - 1)
    assert parts.draws_tokens(corpus, 5, None)
    assert parts.draws_tokens(corpus, 5, 20)
    assert not parts.draws_tokens(corpus, 5, 0)
    assert not parts.draws_tokens(Corpus(corpus.counts * 1000), 5, 20)


def test_the_sweeps_to_come_are_reported():
    corpus = Corpus(simulate.gamma_poisson(planted_topics(120, 3), np.full(3, 0.2), 300, mean_length=80))
    calls = []
    refined = refine_collapsed(
        corpus, planted_topics(120, 3).T, ThreadEngine(), callback=lambda *args: calls.append(args)
    )
    assert calls == [(n, 1.0, refined.n_expected) for n in range(1, refined.n_expected + 1)]
