"""Collapsed refinement: its sweeps against plain Python, its prior on planted truth, its promises on whole corpora."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import Corpus, DiscreteICA, RankError, heldout, kernels, load, metrics, simulate
from momentopic.engine import ThreadEngine
from momentopic.refine import collapsed, refine_collapsed, split_topics
from momentopic.refine.prior import concentration_step, concentration_sums, smoothing_step

from .conftest import planted_topics, shared

K, WIDTH = 3, 16


def small_corpus(N=12, M=8, seed=0):
    return Corpus(
        simulate.gamma_poisson(planted_topics(M, K, seed=1), np.full(K, 0.4), N, mean_length=12, random_state=seed)
    )


def started(corpus, seed=0):
    """The one block of a small corpus, its state and the word counts after the first inference."""
    topics = np.random.default_rng(seed).dirichlet(np.ones(corpus.shape[1]), size=K)
    phi = np.zeros((corpus.shape[1], WIDTH), dtype=np.float32)
    phi[:, :K] = topics.T
    alpha = np.zeros(WIDTH, dtype=np.float32)
    alpha[:K] = [0.3, 0.5, 0.2]
    (counts,), state = collapsed.start_block(corpus.block(0), None, phi, alpha, 0, True)
    return counts, state, topics, alpha


def operands(counts, eta):
    phi = counts.astype(np.float64)
    phi[:, :K] += eta
    return phi, 1 / phi.sum(axis=0, where=np.arange(WIDTH) < K, initial=1e-9)


def test_first_inference_equals_plain_python():
    corpus = small_corpus()
    counts, state, topics, alpha = started(corpus)
    X = corpus.counts
    expected, entry = np.zeros((8, K)), 0
    for d in range(X.shape[0]):
        words, x = X.indices[X.indptr[d] : X.indptr[d + 1]], X.data[X.indptr[d] : X.indptr[d + 1]]
        G, N = np.zeros((len(words), K)), np.zeros(K)
        for _ in range(3):
            G = topics[:, words].T * (np.maximum(N - G, 0) + alpha[:K])
            G /= G.sum(axis=1, keepdims=True)
            N = x @ G
        np.testing.assert_allclose(state.N[d, :K], N, rtol=1e-4)
        np.testing.assert_allclose(state.G[entry : entry + len(words), :K], G, atol=1e-5)
        np.add.at(expected, words, G * x[:, None])
        entry += len(words)
    np.testing.assert_allclose(counts[:, :K], expected, rtol=1e-4)
    assert (counts[:, K:] == 0).all()


def test_an_expected_sweep_equals_plain_python():
    corpus = small_corpus()
    counts, state, _, alpha = started(corpus)
    X, eta = corpus.counts, 0.1
    phi, _ = operands(counts, eta)
    scale = np.zeros(WIDTH)
    scale[:K] = 1 / (counts[:, :K].sum(axis=0) + 8 * eta)
    G, N = state.G[:, :K].astype(np.float64), state.N[:, :K].astype(np.float64)
    expected, moved = np.zeros((8, K)), 0.0
    for d in range(X.shape[0]):
        for e in range(X.indptr[d], X.indptr[d + 1]):
            w, x = X.indices[e], X.data[e]
            g = (phi[w, :K] - G[e]) * (N[d] - G[e] + alpha[:K]) * scale[:K]
            g /= g.sum()
            moved += x * abs(g - G[e]).sum() / 2
            N[d] += x * (g - G[e])
            G[e] = g
            expected[w] += x * g
    (found, found_moved), state = collapsed.expected_block(
        corpus.block(0), state, phi.astype(np.float32), scale.astype(np.float32), alpha
    )
    np.testing.assert_allclose(found[:, :K], expected, rtol=1e-4)
    np.testing.assert_allclose(state.N[:, :K], N, rtol=1e-3, atol=1e-4)
    assert found_moved[0] == pytest.approx(moved, rel=1e-3)


def test_a_sampled_sweep_equals_plain_python():
    corpus = small_corpus(N=30)
    _, state, _, alpha = started(corpus)
    (counts,), state = collapsed.draw_block(corpus.block(0), state)
    X, eta = corpus.counts, 0.1
    words = np.repeat(X.indices, X.data)
    np.testing.assert_array_equal(np.bincount(words, minlength=8), counts.sum(axis=1))
    lengths = np.asarray(X.sum(axis=1)).ravel()
    document = np.repeat(np.arange(30), lengths)
    z, N = state.z.copy(), state.N[:, :K].astype(np.float64)
    np.testing.assert_array_equal(N, [np.bincount(z[document == d], minlength=K) for d in range(30)])
    streams = state.random.copy()
    soft = np.zeros((8, K))
    totals = counts[:, :K].sum(axis=0, dtype=np.float64) + 8 * eta
    stream, changed = np.zeros(1, dtype=np.uint64), 0
    for d in range(30):
        stream[0] = streams[d]
        for t in np.flatnonzero(document == d):
            own = np.eye(K)[z[t]]
            p = (counts[words[t], :K] + eta - own) / (totals - own) * (N[d] - own + alpha[:K])
            soft[words[t]] += p / p.sum()
            u = kernels.random.uniform(stream) * p.sum()
            order = [z[t], *(k for k in range(K) if k != z[t])]  # the old topic is asked for first
            new = order[int(np.searchsorted(np.cumsum(p[order]), u, side="right"))]
            changed += new != z[t]
            N[d] += np.eye(K)[new] - own
            z[t] = new
    phi = counts.copy()
    phi[:, :K] += np.float32(eta)
    scale = np.zeros(WIDTH, dtype=np.float32)
    scale[:K] = 1 / totals
    (found, found_soft), state = collapsed.sampled_block(corpus.block(0), state, phi, scale, alpha, True)
    np.testing.assert_array_equal(state.z, z)
    assert changed > 10
    np.testing.assert_array_equal(state.N[:, :K], N)
    np.testing.assert_allclose(found_soft[:, :K], soft, rtol=1e-4)
    again = np.zeros((8, K))
    np.add.at(again, (words, z), 1)
    np.testing.assert_array_equal(found[:, :K], again)


def test_random_numbers_are_uniform():
    state = np.array([3], dtype=np.uint64)
    u = np.array([kernels.random.uniform(state) for _ in range(100_000)])
    assert u.min() >= 0
    assert u.max() < 1
    np.testing.assert_allclose(np.histogram(u, bins=20, range=(0, 1))[0], 5000, atol=350)
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.015


def test_the_prior_of_drawn_counts_is_found_and_that_of_expected_counts_is_biased_upward():
    rng = np.random.default_rng(0)
    true = np.array([0.05, 0.3, 0.1, 0.02])
    N = rng.multinomial(rng.integers(20, 100, size=20_000), rng.dirichlet(true, size=20_000))

    def estimate(N):
        c = np.ones(4)
        for _ in range(300):
            above, below = concentration_sums(N, c)
            c = concentration_step(c, above, float(below[0]))
        return c

    np.testing.assert_allclose(estimate(N), true, rtol=0.05)
    assert (estimate(0.97 * N + 0.03 * N.mean(axis=0)) > 1.5 * true).all()


def test_the_smoothing_of_drawn_counts_is_found():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(20_000, rng.dirichlet(np.full(500, 0.05), size=6)).T
    eta = 1.0
    for _ in range(200):
        eta = smoothing_step(counts, eta, 500)
    assert eta == pytest.approx(0.05, rel=0.06)


@pytest.fixture(scope="module")
def planted():
    """A corpus too small for the moments alone to find its topics well."""
    D, c = planted_topics(400, 8, seed=4), np.full(8, 0.1)
    return D, c, Corpus(simulate.gamma_poisson(D, c, 1200, mean_length=60, random_state=2))


@pytest.mark.parametrize("options", [{}, {"n_sweeps": 0}, {"memory": 0}, {"smoothing": 0.1, "n_sweeps": 30}])
def test_refinement_brings_topics_and_prior_nearer_to_the_truth(planted, options):
    D, c, corpus = planted
    model = DiscreteICA(8).fit(corpus)
    refined = refine_collapsed(corpus, model.components_, ThreadEngine(), **options)
    before, after = (metrics.recovery_error(topics, D) for topics in (model.components_, refined.topics))
    assert after < 0.75 * before
    np.testing.assert_allclose(refined.topics.sum(axis=1), 1)
    # rounding keeps the prior of the expected sweeps from running away, not from a bias; drawing removes that too
    assert refined.concentration.sum() == pytest.approx(c.sum(), rel=0.7 if refined.n_sampled == 0 else 0.3)
    assert (refined.n_expected == 0) == ("memory" in options)
    assert (refined.n_sampled == 0) == (options.get("n_sweeps") == 0)
    if "smoothing" in options:
        assert refined.smoothing == 0.1


@pytest.mark.parametrize("options", [{"n_sweeps": 12}, {"n_sweeps": 0}, {"n_sweeps": 12, "memory": 0}])
def test_the_same_bits_for_any_number_of_threads(planted, monkeypatch, options):
    monkeypatch.setattr("momentopic.corpus.blocks._LEAST_NONZEROS", 2000)
    corpus = Corpus(planted[2].counts)
    assert corpus.n_blocks > 5
    start = np.random.default_rng(0).dirichlet(np.ones(400), size=8)
    results = [refine_collapsed(corpus, start, ThreadEngine(n), **options) for n in (1, 2, 5)]
    for other in results[1:]:
        assert other.topics.tobytes() == results[0].topics.tobytes()
        assert other.concentration.tobytes() == results[0].concentration.tobytes()
        assert other.smoothing == results[0].smoothing
    seeds = [refine_collapsed(corpus, start, ThreadEngine(), random_state=seed, n_sweeps=12).topics for seed in (0, 1)]
    assert (seeds[0] != seeds[1]).any()


def test_the_sweeps_end_by_themselves_and_are_reported(planted):
    D, _, corpus = planted
    calls = []
    refined = refine_collapsed(
        corpus, D.T, ThreadEngine(), tol=0.02, n_sweeps=500, callback=lambda n, moved: calls.append((n, moved))
    )
    assert refined.converged
    assert refined.n_sampled < 500
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
    plain, refined = DiscreteICA(8).fit(corpus), DiscreteICA(8, refine="collapsed").fit(corpus)
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
        DiscreteICA(100).fit(X)
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
    assert model.n_iter_ <= 40
    plain = DiscreteICA(8).fit(X)
    assert model.score(X) > plain.score(X)


@pytest.mark.parametrize(("name", "bits"), [("ap", -11.29), ("kos", -10.71)])
def test_held_out_bits_per_token_of_the_first_folds(name, bits):
    X = sp.load_npz(shared("datasets", name, "counts.npz")).tocsr()
    with np.load(shared("datasets", name, "folds.npz")) as folds:
        train, test = X[folds["train_1"]], X[folds["test_1"]]
    model = DiscreteICA(50, refine="collapsed", n_sweeps=0).fit(train)
    assert heldout.chib(test, model.components_, model.concentration_).bits_per_token > bits
