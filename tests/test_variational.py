"""Variational inference against plain Python, exact enumeration and a general optimiser."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from scipy.special import digamma, gammaln

from momentopic import Corpus, DiscreteICA, heldout, kernels, metrics, simulate
from momentopic.engine import ThreadEngine
from momentopic.refine import variational_lda
from momentopic.refine.variational import e_step_block, maximise_prior

from .conftest import planted_topics, shared
from .reference import exact_document

D, c = planted_topics(150, 5, seed=3), np.array([0.3, 0.1, 0.2, 0.2, 0.1])


@pytest.fixture(scope="module")
def corpus():
    return Corpus(simulate.gamma_poisson(D, c, 1500, mean_length=60))


def test_digamma():
    x = np.concatenate([np.geomspace(1e-6, 1e6, 300), [0.5, 1.0, 1.4616321449683623, 6.0]])
    found = [kernels.variational.digamma(value) for value in x]
    np.testing.assert_allclose(found, digamma(x), rtol=1e-12, atol=1e-12)


def bound_of(x, beta, alpha, gamma):
    """The evidence bound of a document with explicit responsibilities, term by term (Blei et al. 2003, equation 15)."""
    logs = digamma(gamma) - digamma(gamma.sum())
    words = np.flatnonzero(x)
    phi = beta[words] * np.exp(logs)
    phi /= phi.sum(axis=1, keepdims=True)
    value = gammaln(alpha.sum()) - gammaln(alpha).sum() + (alpha - 1) @ logs
    value += x[words] @ (phi * (logs + np.log(beta[words]) - np.log(phi))).sum(axis=1)
    value += -gammaln(gamma.sum()) + gammaln(gamma).sum() - (gamma - 1) @ logs
    return value, phi, words


def test_e_step_equals_plain_python(corpus):
    X = corpus.counts[:30].toarray()
    beta = np.ascontiguousarray(0.9 * D + 0.1 / 150)
    gamma = c + X.sum(axis=1, keepdims=True) / 5
    (words, logs, bound), (_, found) = e_step_block(Corpus(X).block(0), (gamma, gamma), beta, c, 7, 0.0, False)
    expected_words, expected_logs, expected_bound = np.zeros((150, 5)), np.zeros(5), 0.0
    for x, start in zip(X, gamma, strict=True):
        previous, g = -np.inf, start
        for _ in range(7):
            value, phi, present = bound_of(x, beta, c, g)
            assert value >= previous - 1e-9
            previous, g = value, c + x[present] @ phi
        value, phi, present = bound_of(x, beta, c, g)
        expected_bound += value
        expected_words[present] += x[present, None] * phi
        expected_logs += digamma(g) - digamma(g.sum())
        np.testing.assert_allclose(found[0], g, rtol=1e-9)
        found = found[1:]
    assert bound[0] == pytest.approx(expected_bound, rel=1e-10)
    np.testing.assert_allclose(words, expected_words, atol=1e-9)
    np.testing.assert_allclose(logs, expected_logs, rtol=1e-9)


def test_a_careful_step_never_ends_below_what_it_had(corpus):
    X = corpus.counts[:200]
    rng = np.random.default_rng(0)
    beta = np.ascontiguousarray(rng.dirichlet(np.full(150, 0.05), size=5).T + 1e-6)
    block = Corpus(X).block(0)
    # good parameters, found from many starts; a fresh start in few iterations is often worse
    had = rng.dirichlet(np.full(5, 0.1), size=200) * np.asarray(X.sum(axis=1)) + c
    (_, _, _), (_, had) = e_step_block(block, (had, had), beta, c, 100, 0.0, True)
    values = {}
    for careful in (False, True):
        (words, logs, bound), (before, found) = e_step_block(block, (had, had), beta, c, 1, 0.0, careful)
        np.testing.assert_array_equal(before, had)
        each = [bound_of(x, beta, c, g) for x, g in zip(X.toarray(), found, strict=True)]
        assert bound[0] == pytest.approx(sum(value for value, _, _ in each), rel=1e-10)
        np.testing.assert_allclose(logs, (digamma(found) - digamma(found.sum(axis=1, keepdims=True))).sum(axis=0))
        assert words.sum() == pytest.approx(X.sum())
        values[careful] = np.array([value for value, _, _ in each])
    had_values = np.array([bound_of(x, beta, c, g)[0] for x, g in zip(X.toarray(), had, strict=True)])
    assert (values[True] >= had_values - 1e-9).all()
    assert (values[False] < had_values - 1e-3).any()


def test_the_bound_is_below_the_exact_likelihood():
    topics, alpha = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]), np.array([0.4, 0.9])
    for document in ([1, 0, 0], [2, 1, 3], [0, 5, 1]):
        x = np.array(document)
        start = (alpha + x.sum() / 2)[None]
        (_, _, bound), _ = e_step_block(
            Corpus(x[None]).block(0), (start, start), np.ascontiguousarray(topics.T), alpha, 200, 0.0, False
        )
        exact, _ = exact_document(x, topics, alpha)
        assert exact - 1.5 < bound[0] <= exact + 1e-12


def test_the_prior_is_the_maximum():
    rng = np.random.default_rng(0)
    for true in (np.array([0.1, 0.5, 2.0]), np.full(6, 0.02), np.array([30.0, 10.0])):
        theta = rng.dirichlet(true, size=2000)
        logs = np.log(np.maximum(theta, 1e-300)).sum(axis=0)
        found = maximise_prior(np.full(len(true), 0.1 / len(true)), logs, 2000)

        def negative(log_alpha, logs=logs):
            a = np.exp(log_alpha)
            return -(gammaln(a.sum()) - gammaln(a).sum() + a @ logs / 2000)

        best = scipy.optimize.minimize(negative, np.log(found), method="Nelder-Mead", options={"xatol": 1e-9})
        assert negative(np.log(found)) <= best.fun + 1e-9
        if true.min() > 0.05:
            np.testing.assert_allclose(found, true, rtol=0.15)


@pytest.mark.parametrize("init", ["seeded", "random", "model"])
def test_the_bound_never_decreases_and_the_topics_are_found(corpus, init):
    start = DiscreteICA(5, refine=None).fit(corpus) if init == "model" else init
    calls = []
    found = variational_lda(
        corpus, None if init == "model" else 5, init=start, tol=1e-6, callback=lambda n, change: calls.append(n)
    )
    assert (np.diff(found.bounds) >= -1e-9 * abs(found.bounds[-1])).all()
    assert len(found.bounds) == found.n_iter == len(calls) > 3
    np.testing.assert_allclose(found.topics.sum(axis=1), 1)
    assert (found.concentration > 0).all()
    if init == "model":
        assert metrics.recovery_error(found.topics, D) < metrics.recovery_error(start.components_, D)


def test_the_same_bits_for_any_number_of_threads_and_a_seed(corpus, monkeypatch):
    monkeypatch.setattr("momentopic.corpus.blocks._LEAST_NONZEROS", 4000)
    blocks = Corpus(corpus.counts)
    assert blocks.n_blocks > 4
    found = [variational_lda(blocks, 5, max_iter=6, engine=ThreadEngine(n)) for n in (1, 2, 5)]
    for other in found[1:]:
        assert other.topics.tobytes() == found[0].topics.tobytes()
        assert other.bounds.tobytes() == found[0].bounds.tobytes()
    seeded = variational_lda(blocks, 5, max_iter=6, random_state=1)
    assert (seeded.topics != found[0].topics).any()


def test_limits_and_bad_starts(corpus):
    assert not variational_lda(corpus, 5, max_iter=2).converged
    with pytest.raises(ValueError, match="n_components must be at least 1"):
        variational_lda(corpus)
    with pytest.raises(ValueError, match="init must be 'seeded', 'random' or a model"):
        variational_lda(corpus, 5, init="warm")
    with pytest.raises(ValueError, match="init must be a model of 150 words"):
        variational_lda(corpus, init=DiscreteICA(3, refine=None).fit(corpus.counts[:, :140]))
    with pytest.raises(ValueError, match="n_components=4, but the model has 5 topics"):
        variational_lda(corpus, 4, init=DiscreteICA(5, refine=None).fit(corpus))


def test_the_estimator_refines_by_it(corpus):
    plain, refined = DiscreteICA(5, refine=None).fit(corpus), DiscreteICA(5, refine="variational").fit(corpus)
    assert metrics.recovery_error(refined.components_, D) < metrics.recovery_error(plain.components_, D)
    direct = variational_lda(corpus, init=plain)
    np.testing.assert_allclose(np.sort(refined.concentration_), np.sort(direct.concentration), rtol=1e-6)


@pytest.mark.parametrize("name", ["ap", "kos"])
def test_started_from_the_moments_it_ends_better_than_from_documents(name):
    """VI-JD above VI and JD below both, as the paper says (fold 1, K = 50)."""
    X = sp.load_npz(shared("datasets", name, "counts.npz")).tocsr()
    with np.load(shared("datasets", name, "folds.npz")) as folds:
        train, test = Corpus(X[folds["train_1"]]), X[folds["test_1"]]
    model = DiscreteICA(50, refine=None).fit(train)
    bits = [
        heldout.chib(test, found.topics, found.concentration, 100).bits_per_token
        for found in (variational_lda(train, 50), variational_lda(train, init=model))
    ]
    jd = heldout.chib(test, model.components_, model.concentration_, 100, smoothing=0.01).bits_per_token
    assert bits[1] > bits[0] + 0.05
    assert jd < bits[1]
