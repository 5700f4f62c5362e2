"""Planted truth: every algorithm recovers the model from exact moments, and from sampled corpora within noise."""

from __future__ import annotations

import numpy as np
import pytest

from momentopic import DiscreteICA, metrics, recover, simulate
from momentopic.diagonalize import joint_diagonalize
from momentopic.engine import ThreadEngine
from momentopic.moments import (
    DICAMoments,
    PopulationMoments,
    dica_moments,
    gamma_poisson_population,
    lda_population,
    vocabulary_projections,
    whiten,
)
from momentopic.solve import solve

from .conftest import planted_topics
from .reference import relative_error

ALGORITHMS = [
    {"algorithm": "jd"},
    {"algorithm": "jd", "projections": "random"},
    {"algorithm": "jd", "projections": "random", "n_projections": 3},
    {"algorithm": "jd", "projections": "vocabulary"},
    {"algorithm": "spectral"},
    {"algorithm": "tpm"},
]
b = 0.04


@pytest.mark.parametrize("options", ALGORITHMS)
@pytest.mark.parametrize(("M", "K"), [(30, 1), (40, 5), (600, 20)])
def test_exact_cumulants_give_the_exact_model(options, M, K):
    D, c = planted_topics(M, K, seed=K), np.random.default_rng(K).uniform(0.05, 0.5, K)
    found = solve(gamma_poisson_population(D, c, b), K, **options)
    order = np.argsort(-c)
    np.testing.assert_allclose(found.D, D[:, order], atol=1e-6)
    np.testing.assert_allclose(found.concentration, c[order], rtol=1e-6)
    assert found.rate == pytest.approx(b, rel=1e-6)
    np.testing.assert_allclose(found.intensity.mean, c[order] / b, rtol=1e-6)
    np.testing.assert_allclose(found.intensity.variance, c[order] / b**2, rtol=1e-6)
    np.testing.assert_allclose(found.intensity.third_cumulant, 2 * c[order] / b**3, rtol=1e-5)


@pytest.mark.parametrize("options", ALGORITHMS)
@pytest.mark.parametrize(("M", "K"), [(40, 5), (600, 20)])
def test_exact_lda_moments_give_the_exact_model(options, M, K):
    D, c = planted_topics(M, K, seed=K), np.random.default_rng(K).uniform(0.05, 0.5, K)
    found = solve(lda_population(D, c), K, **options)
    order = np.argsort(-c)
    np.testing.assert_allclose(found.D, D[:, order], atol=1e-6)
    np.testing.assert_allclose(found.concentration, c[order], rtol=1e-6)
    assert found.rate is None
    assert found.intensity is None


def solved_directions(moments, K):
    white = whiten(moments, K)
    tensor = moments.third(white.W)
    result = joint_diagonalize(tensor)
    return white, result, recover.directions(white, result.V)


@pytest.mark.parametrize("method", ["mean-variance", "skewness", "projections-mean", "projections-median"])
@pytest.mark.parametrize("lda", [False, True])
def test_every_estimate_of_the_concentration_is_exact_on_exact_moments(method, lda):
    D, c = planted_topics(60, 6), np.random.default_rng(0).uniform(0.05, 0.5, 6)
    c0 = c.sum() if lda else None
    moments = lda_population(D, c) if lda else gamma_poisson_population(D, c, b)
    white, result, directions = solved_directions(moments, 6)
    found = recover.concentration(
        directions,
        moments.mean,
        c0=c0,
        method=method,
        skew=recover.skewness(directions.Z, result.diagonals, np.eye(6)),
        diagonals=result.diagonals,
        v=white.W,
    )
    np.testing.assert_allclose(np.sort(found), np.sort(c), rtol=1e-6)
    if method == "skewness":
        with pytest.raises(ValueError, match="needs skew"):
            recover.concentration(directions, moments.mean, method=method)
    if method.startswith("projections"):
        with pytest.raises(ValueError, match="needs the diagonals"):
            recover.concentration(directions, moments.mean, method=method)


def test_the_sign_rule_goes_by_mass_not_by_number():
    # many small negative entries against a few large positive ones, and the whole upside down
    column = np.concatenate([[3.0, 2.0], np.full(50, -0.01)])
    white = whiten(PopulationMoments(np.eye(52), np.ones(52), np.ones(52), np.ones(52)), 2)
    fake = type(white)(white.W, np.stack([column, -column], axis=1), *list(vars(white).values())[2:])
    found = recover.directions(fake, np.eye(2))
    np.testing.assert_array_equal(found.scaled[:, 0], column)
    np.testing.assert_array_equal(found.scaled[:, 1], column)
    np.testing.assert_array_equal(np.diag(found.Z), [1, -1])
    D = recover.topics(found.scaled)
    assert D.min() == 0
    np.testing.assert_allclose(D[:2, 0], [0.6, 0.4])


def test_intensity_moments_hold_for_intensities_that_are_not_gamma():
    D = planted_topics(80, 3, seed=4)

    def intensities(rng, n):
        # exponential, twice a Bernoulli(0.2) of 60, and uniform: very different shapes
        return np.column_stack([rng.exponential(30, n), 60.0 * (rng.random(n) < 0.2), 40 * rng.random(n) ** 3])

    X = simulate.dica(D, intensities, 40_000, min_length=0, random_state=1)
    with pytest.warns(UserWarning, match="documents are empty"):
        model = DiscreteICA(3, refine=None).fit(X)
    matched = metrics.align_topics(D.T, model.components_)
    assert matched.distances.max() < 0.05
    sample = intensities(np.random.default_rng(0), 2_000_000)
    centred = sample - sample.mean(axis=0)
    for found, exact, tolerance in (
        (model.intensity_mean_, sample.mean(axis=0), 0.05),
        (model.intensity_variance_, (centred**2).mean(axis=0), 0.08),
        (model.intensity_third_cumulant_, (centred**3).mean(axis=0), 0.15),
    ):
        np.testing.assert_allclose(found[matched.second], exact, rtol=tolerance)


@pytest.mark.parametrize("options", ALGORITHMS)
def test_a_sampled_corpus_gives_the_planted_topics(options):
    D, c = planted_topics(200, 5, seed=3), np.array([0.1, 0.2, 0.3, 0.2, 0.2])
    X = simulate.gamma_poisson(D, c, 20_000, mean_length=100, random_state=0)
    found = solve(dica_moments(X), 5, **options)
    assert metrics.recovery_error(found.D, D) < (0.12 if options["algorithm"] == "spectral" else 0.05)


def test_a_rough_solution_of_many_topics_makes_no_tensor(monkeypatch):
    D, c = planted_topics(300, 64, seed=3), np.full(64, 0.05)
    X = simulate.gamma_poisson(D, c, 20_000, mean_length=100, random_state=0)
    with_tensor = solve(dica_moments(X), 64)
    monkeypatch.setattr(DICAMoments, "third", None)
    found = solve(dica_moments(X), 64, rough=True)
    errors = [metrics.recovery_error(each.D, D) for each in (found, with_tensor)]
    assert errors[0] < 1.5 * errors[1]
    assert found.intensity is None
    np.testing.assert_allclose(found.concentration, c, rtol=0.5)
    again = solve(dica_moments(X, engine=ThreadEngine(1)), 64, rough=True)
    assert again.D.tobytes() == found.D.tobytes()
    with pytest.raises(TypeError):
        solve(dica_moments(X), 20, rough=True)


def test_vocabulary_projections_stand_for_all_of_them(monkeypatch):
    """The compressed set has the criterion of all M matrices, for any rotation."""
    X = simulate.gamma_poisson(planted_topics(90, 4), np.full(4, 0.3), 2000, mean_length=50)
    moments = dica_moments(X)
    white = whiten(moments, 4)
    every = np.stack([moments.projected(white.W, e) for e in np.eye(90)])
    for words in (None, 7):
        original = type(moments).third_by_word
        monkeypatch.setattr(
            type(moments), "third_by_word", lambda self, W, second, w=words, f=original: f(self, W, second, w)
        )
        matrices, tensor = vocabulary_projections(moments, white)
        monkeypatch.setattr(type(moments), "third_by_word", original)
        assert matrices.shape == (10, 4, 4)
        assert relative_error(tensor, moments.third(white.W)) < 1e-10
        for seed in range(3):
            Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((4, 4)))[0]
            off = [((Q @ B @ Q.T) ** 2)[:, ~np.eye(4, dtype=bool)].sum() for B in (every, matrices)]
            assert off[1] == pytest.approx(off[0], rel=1e-10)
    assert abs(joint_diagonalize(every).V) == pytest.approx(abs(joint_diagonalize(matrices).V), abs=1e-6)


def test_the_first_order_estimate_of_the_concentration_is_the_more_accurate_one():
    D, c = planted_topics(300, 10, seed=5), np.full(10, 0.1)
    X = simulate.gamma_poisson(D, c, 10_000, mean_length=100)
    moments = dica_moments(X)
    _, result, directions = solved_directions(moments, 10)
    skew = recover.skewness(directions.Z, result.diagonals, np.eye(10))
    errors = [
        abs(recover.concentration(directions, moments.mean, method=method, skew=skew) - 0.1).mean()
        for method in ("mean-variance", "skewness")
    ]
    assert errors[0] < errors[1]
    assert errors[0] < 0.01


def test_exact_moments_of_a_symmetric_model():
    """Two topics that mirror each other: the start of the joint diagonalisation is a saddle of its criterion."""
    D = np.array([[0.75, 0.25], [0.25, 0.75]])
    for moments in (gamma_poisson_population(D, np.ones(2), 1.0), lda_population(D, np.ones(2))):
        for options in ALGORITHMS:
            assert metrics.recovery_error(solve(moments, 2, **options).D, D) < 1e-6
