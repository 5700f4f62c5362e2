"""Distributions of intensities: against enumeration, and on planted log-normal, two-point and gamma intensities."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import gamma, kstest, lognorm, nbinom, poisson

from momentopic import Corpus, DiscreteICA, simulate
from momentopic.engine import ThreadEngine
from momentopic.intensity import _Chain, estimate_intensities, topics_of_tokens
from momentopic.mixing import (
    fit_gammas,
    fit_weights,
    gamma_scores,
    gamma_table,
    gammas_on_grid,
    holm,
    intensity_grid,
    posterior_means,
    score_test,
)

from .conftest import planted_topics
from .corpora import written

LENGTHS = (1.0, 6.0)  # the two points of the tiny model


def test_posterior_means_are_robbins_formula():
    grid = intensity_grid(40)
    weights = gammas_on_grid(grid, np.array([0.4, 3.0]), np.array([0.1, 0.5]))
    p = poisson.pmf(np.arange(42)[:, None], grid) @ weights.T
    table = posterior_means(poisson.pmf(np.arange(41)[:, None], grid), grid, weights)
    y = np.arange(30)
    np.testing.assert_allclose(table[:30], (y[:, None] + 1) * p[1:31] / p[:30], rtol=1e-6)
    # and on the grid a gamma is nearly what it is in theory
    np.testing.assert_allclose(
        table[:30], gamma_table(np.array([0.4, 3.0]), np.array([0.1, 0.5]), 30), rtol=0.03, atol=0.02
    )


def test_the_sampler_draws_from_the_posterior_of_all_assignments():
    """A document of five tokens: every assignment enumerated, with two-point intensities."""
    phi = np.array([[0.5, 0.4, 0.1], [0.2, 0.2, 0.6]])  # topics are rows
    document = np.array([2, 1, 2])
    points, chances = np.array(LENGTHS), np.array([[0.7, 0.3], [0.4, 0.6]])
    marginal = poisson.pmf(np.arange(7)[:, None], points) @ chances.T  # p_k(y)
    words = np.repeat(np.arange(3), document)
    exact = np.zeros(6)
    for z in itertools.product((0, 1), repeat=5):
        y = np.bincount(z, minlength=2)
        weight = math.prod(phi[k, w] for k, w in zip(z, words, strict=True))
        exact[y[0]] += weight * math.prod(math.factorial(y[k]) * marginal[y[k], k] for k in (0, 1))
    exact /= exact.sum()
    corpus = Corpus(np.tile(document, (4000, 1)))
    chain = _Chain(corpus, phi, ThreadEngine(), False, 0, None)
    table = posterior_means(poisson.pmf(np.arange(chain.rows)[:, None], points), points, chances)
    chain.sweeps(table, 10)
    found = chain.sweeps(table, 40) / 4000
    np.testing.assert_allclose(found[:, 0], exact, atol=0.01)
    np.testing.assert_allclose(found[::-1, 1], exact, atol=0.01)


def test_topics_of_tokens_are_posterior_means():
    """The part of the tokens of each word that has topic 0, enumerated under gamma intensities."""
    D = planted_topics(12, 2, seed=4)
    X = simulate.gamma_poisson(D, np.array([0.5, 1.0]), 1500, mean_length=6, min_length=1, random_state=1)
    corpus = Corpus(X)
    parts = topics_of_tokens(corpus, D.T)
    np.testing.assert_allclose(parts.sum(axis=1), 1, atol=1e-4)
    n = int(np.flatnonzero(np.asarray(X.sum(axis=1)).ravel() == 5)[0])
    begin, end = X.indptr[n], X.indptr[n + 1]
    words = np.repeat(X.indices[begin:end], X.data[begin:end])
    chain = _Chain(corpus, D.T, ThreadEngine(), False, 0, None)
    shape, rate = chain.fit_gammas()
    weights, first = 0.0, np.zeros(5)
    for z in itertools.product((0, 1), repeat=5):
        y = np.bincount(z, minlength=2)
        weight = math.prod(D[w, k] for k, w in zip(z, words, strict=True))
        weight *= math.prod(
            math.exp(math.lgamma(y[k] + shape[k]) - y[k] * math.log1p(rate[k]) - math.lgamma(shape[k])) for k in (0, 1)
        )
        weights += weight
        first += weight * (np.array(z) == 0)
    of_entry = [first[words == w].mean() / weights for w in X.indices[begin:end]]
    # one document: the mean over 40 draws that are not quite independent
    np.testing.assert_allclose(parts[begin:end, 0], of_entry, atol=0.3)
    assert abs(parts[begin:end, 0].mean() - np.mean(of_entry)) < 0.2


def test_gammas_are_fitted_by_maximum_likelihood():
    rng = np.random.default_rng(0)
    y = rng.negative_binomial(0.7, 0.05, 3000)
    histogram = np.bincount(y)[:, None].astype(float)
    shape, rate = fit_gammas(np.hstack([histogram, np.zeros_like(histogram)]))
    slow = minimize(
        lambda t: -nbinom.logpmf(y, np.exp(t[0]), np.exp(t[1]) / (1 + np.exp(t[1]))).sum(), [0, 0], method="Nelder-Mead"
    )
    np.testing.assert_allclose(np.log([shape[0], rate[0]]), slow.x, atol=1e-3)


def test_weights_rise_in_likelihood_from_the_gamma_and_find_two_points():
    rng = np.random.default_rng(1)
    y = rng.poisson(rng.choice([3.0, 40.0], p=[0.7, 0.3], size=5000))
    histogram = np.bincount(y)[:, None].astype(float)
    grid = intensity_grid(len(histogram))
    likelihood = poisson.pmf(np.arange(len(histogram))[:, None], grid)
    start = gammas_on_grid(grid, *fit_gammas(histogram))
    weights = fit_weights(histogram, likelihood, start)
    assert weights.sum() == pytest.approx(1)
    gained = histogram[:, 0] @ np.log((likelihood @ weights[0]) / (likelihood @ start[0]))
    assert gained > 1000
    near = (abs(grid - 3) < 1.2) | (abs(grid - 40) < 8)
    assert weights[0, near].sum() > 0.97
    assert weights[0, grid < 10].sum() == pytest.approx(0.7, abs=0.02)


def p_value(y):
    """The score test where it is known which token has which topic."""
    histogram = np.bincount(y)[:, None].astype(float)
    shape, rate = fit_gammas(histogram)
    scores = gamma_scores(shape, rate, len(histogram))[0][y]
    return score_test(scores.sum(axis=0), scores.T @ scores, len(y), 1)[0]


def test_the_test_of_gammas_has_the_level_it_says_and_power():
    rng = np.random.default_rng(2)
    level = np.array([p_value(rng.poisson(rng.gamma(c, 20, 2000))) for c in (0.1, 0.5, 2.0) for _ in range(60)])
    assert 0.01 < (level < 0.05).mean() < 0.11
    assert kstest(level, "uniform").pvalue > 1e-3
    power = [p_value(rng.poisson(rng.lognormal(2, 1, 2000))) for _ in range(20)]
    assert np.mean(np.array(power) < 0.05) > 0.9


def test_holm():
    np.testing.assert_allclose(holm(np.array([0.01, 0.5, 0.02, 0.03])), [0.04, 0.5, 0.06, 0.06])


def draw(rng, n):
    """Log-normal, two-point, and three gammas of different shapes."""
    two = rng.choice([2.0, 30.0], p=[0.7, 0.3], size=n)
    return np.stack(
        [rng.lognormal(np.log(10), 1, n), two, rng.gamma(0.3, 40, n), rng.gamma(2, 6, n), rng.gamma(1, 10, n)], axis=1
    )


TRUE = [
    lambda x: lognorm.cdf(x, 1, scale=10), lambda x: 0.7 * (x >= 2) + 0.3 * (x >= 30),
    lambda x: gamma.cdf(x, 0.3, scale=40), lambda x: gamma.cdf(x, 2, scale=6), lambda x: gamma.cdf(x, 1, scale=10),
]  # fmt: skip


def wasserstein(cdf, k):
    x = np.linspace(0, 300, 6001)[1:]
    return float(abs(cdf(k, x) - TRUE[k](x)).sum()) * 0.05


@pytest.fixture(scope="module")
def planted():
    D = planted_topics(200, 5, seed=3)
    return D, simulate.dica(D, draw, 3000, min_length=0, random_state=3)


def check_planted(found, order, slack, ratio):
    assert found.weights.sum(axis=1) == pytest.approx(1)
    place = {int(k): i for i, k in enumerate(order)}  # where topic k of the truth is
    assert set(found.not_gamma) == {place[0], place[1]}
    assert "2 of 5 topics are not gamma-like" in found.advice()
    for k, mean in enumerate((10 * np.exp(0.5), 10.4, 12.0, 12.0, 10.0)):
        i = place[k]
        assert found.mean[i] == pytest.approx(mean, rel=0.1)
        free = wasserstein(lambda _, x, i=i: found.cdf(i, x), k)
        parametric = wasserstein(lambda _, x, i=i: found.gamma_cdf(i, x), k)
        assert free < slack * mean
        if k < 2:
            assert free < ratio * parametric


def test_planted_intensities_under_true_topics(planted):
    D, X = planted
    found = estimate_intensities(Corpus(X), D.T, ThreadEngine())
    check_planted(found, range(5), 0.12, 0.4)
    assert found.p_values[2:].min() > 0.01


@pytest.mark.parametrize("learned", [False, True])
def test_the_same_bits_on_any_number_of_threads(learned):
    D = planted_topics(2000, 3, seed=5)
    X = simulate.gamma_poisson(D, np.full(3, 0.5), 1200, mean_length=60, random_state=5)
    corpus = Corpus(X).divided(5)
    one, two = (estimate_intensities(corpus, D.T, ThreadEngine(n), learned=learned) for n in (1, 2))
    np.testing.assert_array_equal(one.weights, two.weights)
    np.testing.assert_array_equal(one.p_values, two.p_values)


def test_intensities_of_a_fitted_model(planted):
    from momentopic.metrics import align_topics

    D, X = planted
    model = DiscreteICA(5, n_sweeps=40).fit(X)
    found = model.intensities()
    aligned = align_topics(model.components_, D.T)
    check_planted(found, aligned.second, 0.2, 0.8)  # the errors of the topics add to those of the intensities
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    titles = [panel.get_title() for panel in found.plot().axes]
    assert [k for k, title in enumerate(titles) if "not a gamma" in title] == found.not_gamma.tolist()
    assert len(found.plot(topics=[1, 2]).axes) == 2
    pyplot.close("all")


def test_documents_are_asked_for_where_they_are_gone(tmp_path):
    D = planted_topics(30, 2)
    X = simulate.gamma_poisson(D, np.ones(2), 150, mean_length=20)
    model = DiscreteICA(2, n_sweeps=0).fit(X)
    model.save(tmp_path / "model")
    from momentopic import load

    loaded = load(tmp_path / "model")
    with pytest.raises(ValueError, match=r"pass them, model\.intensities\(X\)"):
        loaded.intensities()
    found = loaded.intensities(X)
    np.testing.assert_array_equal(found.weights, model.intensities().weights)
    del X
    with pytest.raises(ValueError, match=r"does not hold its documents.*\(a list cannot be remembered\)"):
        model.intensities()
    with pytest.raises(ValueError, match="at least 100, not 20"):
        loaded.intensities(simulate.gamma_poisson(D, np.ones(2), 20, mean_length=20))


def test_topics_that_follow_leave_alone_what_an_engine_was_given():
    """An engine may keep the arguments of a pass and repeat it when a worker is lost."""

    class Keeping(ThreadEngine):
        def update(self, function, corpus, states, *args, **kwargs):
            kept.append((args[0], args[0].copy()))
            return super().update(function, corpus, states, *args, **kwargs)

    kept = []
    D = planted_topics(30, 2)
    X = simulate.gamma_poisson(D, np.ones(2), 150, mean_length=20)
    chain = _Chain(Corpus(X), D.T, Keeping(), True, 0, None)
    chain.sweeps(gamma_table(np.ones(2), np.ones(2), chain.rows), 13)
    assert (kept[0][1] != kept[-1][1]).any()
    for given, then in kept:
        np.testing.assert_array_equal(given, then)


def test_many_documents_are_sampled_for_the_scores(monkeypatch):
    monkeypatch.setattr("momentopic.intensity._MOST_SCORES", 150 * 9 * 2)
    D = planted_topics(30, 2)
    X = simulate.gamma_poisson(D, np.ones(2), 400, mean_length=10)
    assert estimate_intensities(Corpus(X), D.T, ThreadEngine()).n_documents == 150


def test_of_documents_on_disk_those_drawn_are_read(monkeypatch, tmp_path):
    monkeypatch.setattr("momentopic.intensity._MOST_SCORES", 150 * 9 * 2)
    D = planted_topics(30, 2)
    X = simulate.gamma_poisson(D, np.ones(2), 400, mean_length=10).tocsr()
    disk = written(tmp_path / "packed", X)
    monkeypatch.setattr(type(disk), "counts", property(lambda self: pytest.fail("all documents were read")))
    found = estimate_intensities(disk, D.T, ThreadEngine())
    np.testing.assert_array_equal(found.weights, estimate_intensities(Corpus(X), D.T, ThreadEngine()).weights)


def test_progress_ends_at_the_end():
    class Watched:
        def part(self, done, total):
            seen.append((done, total))

    seen = []
    D = planted_topics(30, 2)
    corpus = Corpus(simulate.gamma_poisson(D, np.ones(2), 150, mean_length=10))
    topics_of_tokens(corpus, D.T, steps=Watched())
    assert seen[-1][0] == seen[-1][1]
    seen.clear()
    estimate_intensities(corpus, D.T, ThreadEngine(), steps=Watched())
    assert seen[-1][0] == seen[-1][1]


def test_long_documents_are_thinned():
    D = planted_topics(50, 2, seed=1)
    X = simulate.gamma_poisson(D, np.array([2.0, 4.0]), 200, mean_length=3000, random_state=2)
    found = estimate_intensities(Corpus(X), D.T, ThreadEngine())
    assert found.kept == pytest.approx(1000 / X.sum(axis=1).mean(), rel=1e-6)
    np.testing.assert_allclose(found.mean, [1000, 2000], rtol=0.15)
    np.testing.assert_allclose(found.shape, [2, 4], rtol=0.4)
    np.testing.assert_allclose(found.mean, found.shape / found.rate, rtol=0.02)
