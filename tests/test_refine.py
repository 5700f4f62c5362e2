"""Collapsed refinement: its sweeps against plain Python, its prior on planted truth, its promises on whole corpora."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import digamma

from momentopic import Corpus, DiscreteICA, RankError, heldout, kernels, load, metrics, simulate
from momentopic.engine import ThreadEngine
from momentopic.refine import blocks, collapsed, parts, refine_collapsed, split_topics
from momentopic.refine.prior import concentration_steps, histogram, smoothing_steps

from . import reference
from .conftest import planted_topics, shared

K, WIDTH = 3, 16
STEP = 2.0**-5  # of two responsibilities that can be kept, at most: of those up to 1


def small_corpus(N=12, M=8, seed=0):
    return Corpus(
        simulate.gamma_poisson(planted_topics(M, K, seed=1), np.full(K, 0.4), N, mean_length=12, random_state=seed)
    )


def started(corpus, seed=0, first_word=0, keep=True):
    """The one block of a small corpus, its state and the word counts after the first inference."""
    topics = np.random.default_rng(seed).dirichlet(np.ones(corpus.shape[1]), size=K)
    phi = np.zeros((corpus.shape[1], WIDTH), dtype=np.float32)
    phi[:, :K] = topics.T
    alpha = np.zeros(WIDTH, dtype=np.float32)
    alpha[:K] = [0.3, 0.5, 0.2]
    parts = np.unique([0, first_word, corpus.shape[1]]) if keep else None
    (totals,), state = blocks.start_block(corpus.block(0), first_word, phi, alpha, 0, 3, parts, 1)
    counts = np.zeros_like(phi)
    for first, end in ((first_word, len(phi)), (0, first_word)):
        words = blocks.WordCounts(first, counts[first:end])
        _, state, _ = blocks.count_block(corpus.block(0), state, words)
    np.testing.assert_allclose(totals, counts.sum(axis=0), rtol=1e-3 if keep else 0)
    return counts, state, topics, alpha


def scales(counts, eta):
    scale = np.zeros(WIDTH, dtype=np.float32)
    scale[:K] = 1 / (counts[:, :K].sum(axis=0) + 8 * eta)
    return scale


def test_first_inference_equals_plain_python():
    corpus = small_corpus()
    counts, state, topics, alpha = started(corpus)
    X = corpus.counts
    expected, entry = np.zeros((8, K)), 0
    for d in range(X.shape[0]):
        words, x = X.indices[X.indptr[d] : X.indptr[d + 1]], X.data[X.indptr[d] : X.indptr[d + 1]]
        G, N = np.zeros((len(words), K)), np.zeros(K)
        for n in range(3):

            def weigh(i, words=words, G=G, N=N, n=n):
                g = topics[:, words[i]] * (alpha[:K] if n == 0 else np.maximum(N - G[i], 0) + alpha[:K])
                return g / g.sum()

            def put_to_use(i, g, x=x, G=G, N=N):
                N += x[i] * (g - G[i])
                G[i] = g

            reference.in_turn(len(words), min(2, len(words) // 4), weigh, put_to_use)
        found = kernels.exchange.decoded(state.G[entry : entry + len(words), :K])
        np.testing.assert_allclose(found, G, atol=STEP)
        np.testing.assert_allclose(state.N[d, :K], x @ found, rtol=1e-5)
        np.add.at(expected, words, found * x[:, None])
        entry += len(words)
    np.testing.assert_allclose(counts[:, :K], expected, rtol=1e-5)
    assert (counts[:, K:] == 0).all()


def test_a_start_with_draws():
    corpus = small_corpus(N=40)
    _, kept, _, _ = started(corpus)
    counts, drawn, _, _ = started(corpus, keep=False)
    assert kept.z is None
    assert drawn.G is None
    X = corpus.counts
    words, document = (np.repeat(of, X.data) for of in (X.indices, np.repeat(np.arange(40), np.diff(X.indptr))))
    N, phi = np.zeros((40, WIDTH)), np.zeros((8, WIDTH))
    np.add.at(N, (document, drawn.z), 1)
    np.add.at(phi, (words, drawn.z), 1)
    np.testing.assert_array_equal(drawn.N, N)
    np.testing.assert_array_equal(counts, phi)
    assert drawn.N.ctypes.data % 64 == 0  # rows are read as vectors


def test_draws_follow_the_responsibilities():
    X = np.ones((20_000, 2), dtype=int)  # the same two words again and again: G is the same for all
    corpus = Corpus(X)
    G = kernels.exchange.decoded(started(corpus)[1].G[:2, :K])
    _, state, _, _ = started(corpus, keep=False)
    for word in (0, 1):
        share = np.bincount(state.z[word::2], minlength=K) / 20_000
        np.testing.assert_allclose(share, G[word], atol=STEP)


@pytest.mark.parametrize("cut", [0, 3])
@pytest.mark.parametrize("relax", [1.0, 2.5])
def test_an_expected_sweep_equals_plain_python(cut, relax):
    """In two turns where the words are cut: first those from the cut on, then those before it."""
    corpus = small_corpus()
    counts, state, _, alpha = started(corpus, first_word=cut)
    X, eta = corpus.counts, 0.1
    scale = scales(counts, eta)
    laid_out = kernels.exchange.decoded(state.G)
    phi, laid_out, N = (A[:, :K].astype(np.float64) for A in (counts, laid_out, state.N))
    order = np.argsort(X.indices >= cut, kind="stable")  # the entries of the first words lie before the others
    G = np.empty_like(laid_out)
    G[order] = laid_out
    change, found_change = np.zeros(WIDTH), 0.0
    lengths = np.diff(X.indptr)
    document = np.repeat(np.arange(X.shape[0]), lengths)
    for first, end in ((cut, 8), (0, cut)):
        if first == end:
            continue
        here = np.flatnonzero((X.indices >= first) & (X.indices < end))
        own = G[here]
        triples = (X.indices[here], document[here], X.data[here])
        reference.expected_sweep(triples, lengths, phi, own, N, change, eta, alpha[:K], scale[:K], relax, 2.0, 2)
        G[here] = own
        words = blocks.WordCounts(first, counts[first:end])
        operands = (np.float32(eta), scale, alpha, np.float32(relax), np.float32(2))
        sums, state, words = blocks.expected_block(corpus.block(0), state, words, *operands)
        found_change = found_change + sums[0]
    found = kernels.exchange.decoded(state.G[:, :K])
    assert (np.abs(found - G[order]) < 1e-5).mean() > 0.98  # a hair's breadth decides how few are rounded
    np.testing.assert_array_less(np.abs(found - G[order]), 1.01 * reference.kept_steps(found))
    np.testing.assert_allclose(counts[:, :K], phi, rtol=2e-3, atol=0.1)
    np.testing.assert_allclose(state.N[:, :K], N, rtol=2e-3, atol=0.1)
    np.testing.assert_allclose(found_change, change, atol=0.3)


def test_random_numbers_are_uniform():
    state = np.array([3], dtype=np.uint64)
    u = np.array([kernels.random.uniform(state) for _ in range(100_000)])
    assert u.min() >= 0
    assert u.max() < 1
    np.testing.assert_allclose(np.histogram(u, bins=20, range=(0, 1))[0], 5000, atol=350)
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.015


def estimated(N, n_steps=400, bins=1024):
    c = np.ones(N.shape[1])
    lengths = np.unique(N.sum(axis=1), return_counts=True)
    for _ in range(n_steps // 20):
        c = concentration_steps(c, histogram(N, c, bins), lengths, 20)
    return c


@pytest.mark.parametrize("bins", [1024, 12])
def test_the_prior_of_drawn_counts_is_found(bins):
    rng = np.random.default_rng(0)
    true = np.array([0.05, 0.3, 0.1, 0.02])
    N = rng.multinomial(rng.integers(20, 100, size=20_000), rng.dirichlet(true, size=20_000))
    np.testing.assert_allclose(estimated(N, bins=bins), true, rtol=0.05)
    np.testing.assert_allclose(estimated(N, bins=bins), estimated(N), rtol=1e-3)


def test_rounding_keeps_small_expected_counts_from_biasing_the_prior_but_not_large_ones():
    rng = np.random.default_rng(0)
    true = np.array([0.05, 0.3, 0.1, 0.02])
    N = rng.multinomial(200, rng.dirichlet(true, size=20_000))
    np.testing.assert_allclose(estimated(0.998 * N + 0.002 * N.mean(axis=0)), true, rtol=0.1)
    assert estimated(0.97 * N + 0.03 * N.mean(axis=0)).sum() > 2 * true.sum()


def test_gains_equal_digamma_differences():
    N = np.array([[0, 3], [2, 50], [1, 0], [7, 7]], dtype=np.float32)
    c = np.array([0.3, 1.2])
    expected = (digamma(N + c) - digamma(c)).sum(axis=0)
    for bins in (1024, 51, 8, 3):
        np.testing.assert_allclose(histogram(N, c, bins).gains(c), expected, rtol=1e-12)


def test_the_smoothing_of_drawn_counts_is_found():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(20_000, rng.dirichlet(np.full(500, 0.05), size=6)).T
    eta = 1.0
    for _ in range(10):
        eta = smoothing_steps(eta, counts, 500)
    assert eta == pytest.approx(0.05, rel=0.06)


@pytest.fixture(scope="module")
def planted():
    """A corpus too small for the moments alone to find its topics well."""
    D, c = planted_topics(400, 8, seed=4), np.full(8, 0.1)
    return D, c, Corpus(simulate.gamma_poisson(D, c, 1200, mean_length=60, random_state=2))


@pytest.mark.parametrize("options", [{}, {"n_sweeps": 0}, {"smoothing": 0.1, "n_sweeps": 30}])
def test_refinement_brings_topics_and_prior_nearer_to_the_truth(planted, options):
    D, c, corpus = planted
    model = DiscreteICA(8, refine=None).fit(corpus)
    refined = refine_collapsed(corpus, model.components_, ThreadEngine(), **options)
    before, after = (metrics.recovery_error(topics, D) for topics in (model.components_, refined.topics))
    assert after < 0.75 * before
    np.testing.assert_allclose(refined.topics.sum(axis=1), 1)
    # rounding keeps the prior of the expected sweeps from running away, not from a bias; drawing removes that too
    assert refined.concentration.sum() == pytest.approx(c.sum(), rel=0.7 if refined.n_sampled == 0 else 0.3)
    assert (refined.n_expected > 0) == (refined.n_sampled == 0) == (options.get("n_sweeps", 0) == 0)
    if "smoothing" in options:
        assert refined.smoothing == 0.1


@pytest.mark.parametrize("options", [{"n_sweeps": 12}, {"n_sweeps": 0}])
def test_the_same_bits_for_any_number_of_threads(planted, monkeypatch, options):
    monkeypatch.setattr("momentopic.refine.parts._TOKENS_PER_PART", 500)
    corpus = planted[2]
    assert parts.number_of_parts(corpus.counts.sum(), corpus.shape[0]) == 8
    start = np.random.default_rng(0).dirichlet(np.ones(400), size=8)
    results = [refine_collapsed(corpus, start, ThreadEngine(n), **options) for n in (1, 2, 5)]
    for other in results[1:]:
        assert other.topics.tobytes() == results[0].topics.tobytes()
        assert other.concentration.tobytes() == results[0].concentration.tobytes()
        assert other.smoothing == results[0].smoothing
    seeds = [refine_collapsed(corpus, start, ThreadEngine(), random_state=seed, n_sweeps=12).topics for seed in (0, 1)]
    assert (seeds[0] != seeds[1]).any()


def test_a_part_of_the_tokens_and_then_all(planted):
    corpus = planted[2]
    X, n_tokens = corpus.counts, int(corpus.counts.sum())
    run = collapsed._Run(corpus, ThreadEngine(), 8, None, None, None, True)
    run.divide(3)
    run.start(planted[0].T, 0)
    part = blocks.taking_part(run.corpus, run.states).counts
    assert part.sum() == pytest.approx(n_tokens / 3, abs=4 * np.sqrt(n_tokens * 2 / 9))
    assert (X - part).min() >= 0
    # whatever the count, each token has the same chance
    for x in (1, 2, 3):
        there = X.data == x
        kept = np.asarray(part[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[there], X.indices[there]]).ravel()
        assert kept.mean() == pytest.approx(x / 3, abs=4 * np.sqrt(x * 2 / 9 / len(kept)))
    run.estimate_prior()
    for _ in range(2):
        run.sweep(blocks.sampled_block)
        np.testing.assert_array_equal(run.counts().sum(axis=1), np.asarray(part.sum(axis=0)).ravel())
        lengths = np.concatenate([state.N.sum(axis=1) for state in run.states])
        np.testing.assert_array_equal(lengths, np.asarray(part.sum(axis=1)).ravel())
    done = run.nothing_sampled()
    done.add(run.words, run.K)
    run.begin_again(done, 0)
    np.testing.assert_array_equal(run.counts().sum(axis=1), np.asarray(X.sum(axis=0)).ravel())
    assert blocks.taking_part(run.corpus, run.states) is run.corpus


def test_a_sweep_over_a_part_takes_as_many_draws_as_one_over_all(planted, monkeypatch):
    corpus, drawn = planted[2], []

    def counted(block, state, *args):
        drawn.append(state.rows(block)[2].sum())
        return blocks.sampled_block(block, state, *args)

    run = collapsed._Run(corpus, ThreadEngine(1), 8, None, None, None, True)
    run.divide(4)
    run.start(planted[0].T, 0)
    run.sweep(counted)
    assert sum(drawn) / len(run.words) == pytest.approx(corpus.tokens, rel=0.02)


@pytest.mark.usefixtures("short_rounds")
def test_the_same_bits_in_two_rounds_for_any_number_of_threads(planted, monkeypatch):
    monkeypatch.setattr("momentopic.refine.parts._TOKENS_PER_PART", 200)
    start = np.random.default_rng(0).dirichlet(np.ones(400), size=8)
    results = [refine_collapsed(planted[2], start, ThreadEngine(n), n_sweeps=8) for n in (1, 2, 5)]
    assert len({(found.topics.tobytes(), found.concentration.tobytes()) for found in results}) == 1


@pytest.mark.parametrize(("n_sweeps", "n_arrays"), [(8, 5), (130, 6)])  # the second one leaps
def test_a_refinement_holds_few_arrays_over_words_and_topics(monkeypatch, request, n_sweeps, n_arrays):
    """As many as `memory.refinement_bytes` reckons with, whatever the number of parts."""
    if n_sweeps < 100:
        request.getfixturevalue("short_rounds")
    monkeypatch.setattr("momentopic.refine.parts._TOKENS_PER_PART", 20)
    monkeypatch.setattr(collapsed, "_WORDS", 500)
    M, n_topics = 30_000, 16
    corpus = Corpus(sp.random(100, M, density=0.002, format="csr", random_state=0, data_rvs=np.ones))
    start = np.random.default_rng(0).dirichlet(np.ones(M), size=n_topics).astype(np.float32)
    refine_collapsed(corpus, start, ThreadEngine(2), n_sweeps=8)  # compiles
    tracemalloc.start()
    try:
        refine_collapsed(corpus, start, ThreadEngine(2), n_sweeps=n_sweeps)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n_arrays * 4 * M * n_topics  # without the start, which was there before


@pytest.mark.usefixtures("no_room")
def test_the_sweeps_end_by_themselves_and_are_reported(planted, monkeypatch):
    D, _, corpus = planted
    calls, priors = [], []

    def steps(c, *args):
        priors.append((len(calls), c.sum()))
        return concentration_steps(c, *args)

    monkeypatch.setattr(collapsed, "concentration_steps", steps)
    refined = refine_collapsed(
        corpus, D.T, ThreadEngine(), tol=0.02, callback=lambda n, moved, total: calls.append((n, moved))
    )
    assert refined.converged
    assert 80 <= refined.n_sampled < 500
    # After 30 sweeps everything begins again, the prior too. Topics at rest under a prior that is still flat are not
    # the end: the next one comes at once.
    assert [n for n, _ in priors] == [0, 10, 20, 30, *range(70, refined.n_sampled, 20), refined.n_sampled]
    assert priors[0][1] == priors[3][1]
    assert max(c for _, c in priors[4:]) < priors[3][1] / 2
    # asked for a number, it does that number
    assert refine_collapsed(corpus, D.T, ThreadEngine(), tol=0.02, n_sweeps=60).n_sampled == 60
    assert [n for n, _ in calls] == list(range(1, refined.n_expected + refined.n_sampled + 1))
    assert calls[-1][1] < 0.02
    short = refine_collapsed(corpus, D.T, ThreadEngine(), tol=1e-9, n_sweeps=11)
    assert not short.converged
    assert short.n_sampled == 11
    assert np.isfinite(refine_collapsed(corpus, D.T, ThreadEngine(), n_sweeps=1).topics).all()


def test_words_never_seen_and_empty_documents():
    X = small_corpus(N=200).counts.toarray()
    never = X.sum(axis=0) == 0
    never[3] = True
    X[:, 3] = 0
    X[[0, 50]] = 0
    with pytest.warns(UserWarning, match="documents are empty"):
        model = DiscreteICA(2, refine="collapsed", n_sweeps=15).fit(X)
    np.testing.assert_array_equal((model.components_ == 0).all(axis=0), never)
    assert np.isfinite(model.components_).all()
    assert heldout.chib(np.eye(8, dtype=int), model.components_, model.concentration_).tokens_left_out == never.sum()


def test_the_estimator_refines_and_its_model_can_be_saved(planted, tmp_path):
    D, c, corpus = planted
    plain, refined = DiscreteICA(8, refine=None).fit(corpus), DiscreteICA(8).fit(corpus)
    assert metrics.recovery_error(refined.components_, D) < metrics.recovery_error(plain.components_, D)
    assert (np.diff(refined.concentration_) <= 0).all()
    lengths = np.asarray(corpus.counts.sum(axis=1)).ravel()
    assert refined.rate_ == pytest.approx(refined.concentration_.sum() / lengths.mean())
    assert not hasattr(refined, "intensity_mean_")
    assert "refinement" in refined.timings_
    assert refined.n_iter_ > 10
    refined.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.components_, refined.components_)
    assert again.get_params()["refine"] == "collapsed"
    np.testing.assert_array_equal(again.transform(corpus), refined.transform(corpus))
    test = simulate.gamma_poisson(D, c, 300, mean_length=60, random_state=77)
    scores = [heldout.chib(test, m.components_, m.concentration_, 100, smoothing=0.01) for m in (plain, refined)]
    assert scores[1].bits_per_token > scores[0].bits_per_token


def test_topics_beyond_the_moments_start_from_splits_with_a_warning():
    D, c = planted_topics(120, 4, seed=2), np.full(4, 0.3)
    X = simulate.lda_fixed(D, c, 150, length=5)
    with pytest.raises(RankError) as error:
        DiscreteICA(100, refine=None).fit(X)
    supported = error.value.n_positive
    with pytest.warns(
        UserWarning, match=f"support {supported} topics, but 100 were asked for: {100 - supported} start"
    ):
        model = DiscreteICA(100, refine="collapsed", n_sweeps=10).fit(X)
    assert model.components_.shape == (100, 120)
    np.testing.assert_allclose(model.components_.sum(axis=1), 1)


def test_split_topics():
    topics = planted_topics(50, 3).T
    found = split_topics(topics, 8, random_state=1)
    assert found.shape == (8, 50)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(split_topics(topics, 3), topics / topics.sum(axis=1, keepdims=True))
    assert (found[0] != topics[0]).any()
    assert ((found > 0).any(axis=0) == (topics > 0).any(axis=0)).all()


def test_counts_in_the_thousands_are_not_drawn_one_by_one():
    X = sp.load_npz(shared("datasets", "pcawg_sbs96", "counts.npz"))
    model = DiscreteICA(8, refine="collapsed").fit(X)
    assert np.isfinite(model.components_).all()
    np.testing.assert_allclose(model.components_.sum(axis=1), 1)
    assert model.n_iter_ <= 100
    plain = DiscreteICA(8, refine=None).fit(X)
    assert model.score(X) > plain.score(X)


@pytest.mark.parametrize(("name", "bits"), [("ap", -11.24), ("kos", -10.69)])
def test_held_out_bits_per_token_of_the_first_folds(name, bits):
    X = sp.load_npz(shared("datasets", name, "counts.npz")).tocsr()
    with np.load(shared("datasets", name, "folds.npz")) as folds:
        train, test = X[folds["train_1"]], X[folds["test_1"]]
    model = DiscreteICA(50).fit(train)
    assert heldout.chib(test, model.components_, model.concentration_).bits_per_token > bits
