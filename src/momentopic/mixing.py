"""Poisson mixtures of one number: gammas and distributions on a grid, fitted to histograms, and told apart.

The arithmetic of `momentopic.intensity`, which has the formulas: arrays in, arrays out, no documents.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammainc, gammaln, psi
from scipy.stats import chi2, gamma

from momentopic._types import FloatArray

_SMALLEST, _RATIO, _ROOT_STEP = 0.02, 1.15, 0.35  # the grid: by ratios near 0, then by steps of the square root
_LEAST_GAIN, _MOST_STEPS = 0.01, 2000
_RANGES = 8  # of the test
_PRESENT = 0.5  # the test's first range: fewer tokens than this are hardly told from none
SCORES = _RANGES + 1  # of a topic: its ranges but one, shape and rate


def gamma_table(shape: FloatArray, rate: FloatArray, rows: int) -> FloatArray:
    """Return E[α_k | y] = (y + c_k) / (b_k + 1) for y = 0, 1, ..., of shape (rows, K)."""
    table: FloatArray = (np.arange(rows)[:, None] + shape) / (rate + 1)
    return table


def posterior_means(likelihood: FloatArray, grid: FloatArray, weights: FloatArray) -> FloatArray:
    """Return E[α_k | y] of distributions on a grid, of shape (rows, K)."""
    mass = likelihood @ weights.T
    table: FloatArray = np.divide(
        likelihood @ (weights * grid).T, mass, out=np.broadcast_to(np.arange(len(mass))[:, None], mass.shape) + 1.0,
        where=mass > 1e-290,
    )  # fmt: skip
    return table


def fit_gammas(histogram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return shapes and rates of gammas whose Poisson mixtures (negative binomials) are most likely.

    Parameters
    ----------
    histogram : array of shape (rows, K)
        How many documents have y tokens of topic k.
    """
    y = np.arange(len(histogram), dtype=np.float64)
    shapes, rates = [], []
    for numbers in histogram.T:
        seen = np.flatnonzero(numbers)
        n, at = numbers[seen], y[seen]
        mean = float(n @ at) / max(float(n.sum()), 1e-300)
        if mean == 0:  # a topic without tokens
            shapes.append(1.0)
            rates.append(1e12)
            continue

        def loss(log_c: float, n: FloatArray = n, at: FloatArray = at, mean: float = mean) -> float:
            c = np.exp(log_c)
            b = c / mean  # where the likelihood is highest, the means agree
            terms = gammaln(at + c) - gammaln(c) + c * np.log(b / (b + 1)) - at * np.log1p(b)
            return -float(n @ terms)

        found = minimize_scalar(loss, bounds=(np.log(1e-4), np.log(1e4)), method="bounded", options={"xatol": 1e-6})
        c = float(np.exp(found.x))
        shapes.append(c)
        rates.append(c / mean)
    return np.array(shapes), np.array(rates)


def intensity_grid(rows: int) -> FloatArray:
    """Return intensities from 0 to beyond the largest count, as close as counts can tell them apart."""
    values = [_SMALLEST]
    while values[-1] < 1.05 * rows + 3:
        values.append(min(values[-1] * _RATIO, (np.sqrt(values[-1]) + _ROOT_STEP) ** 2))
    return np.array([0.0, *values])


def gammas_on_grid(grid: FloatArray, shape: FloatArray, rate: FloatArray) -> FloatArray:
    """Return gammas as weights on a grid, (K, J): each point has what is nearer to it than to others, and no zeros."""
    edges = edges_of(grid)
    weights = np.diff(gamma.cdf(edges, shape[:, None], scale=1 / rate[:, None]), axis=1) + 1e-12
    found: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return found


def fit_weights(histogram: FloatArray, likelihood: FloatArray, start: FloatArray) -> FloatArray:
    """Return the weights (K, J) on a grid that EM reaches from `start` when it gains little more in likelihood.

    Parameters
    ----------
    histogram : array of shape (rows, K)
        How many documents have y tokens of topic k.
    likelihood : array of shape (rows, J)
        Poisson probabilities of y at the points of the grid.
    start : array of shape (K, J)
    """
    weights = start.copy()
    rows = int(np.flatnonzero(histogram.any(axis=1)).max(initial=0)) + 1
    H, A = histogram[:rows], likelihood[:rows]
    documents = H.sum(axis=0)
    moving = np.flatnonzero(H[1:].any(axis=0))  # a topic without tokens stays as it is
    before = np.full(len(start), -np.inf)
    for _ in range(_MOST_STEPS):
        if not len(moving):
            break
        mass = np.maximum(A @ weights[moving].T, 1e-300)
        gained = np.einsum("yk,yk->k", H[:, moving], np.log(mass))
        going = gained - before[moving] > _LEAST_GAIN
        before[moving] = gained
        moving, mass = moving[going], mass[:, going]
        weights[moving] *= (A.T @ (H[:, moving] / mass)).T / documents[moving, None]
    found: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return found


def score_test(total: FloatArray, gram: FloatArray, n_docs: int, K: int) -> FloatArray:
    """Return the p-value of each topic: whether its ranges have as many documents as its gamma says.

    Parameters
    ----------
    total, gram : arrays of shape (K S,) and (K S, K S)
        Sum and Gram matrix over documents of the scores of each topic: its ranges, then shape and rate.
    """
    S = len(total) // K
    mean = total / n_docs
    covariance = gram / n_docs - np.outer(mean, mean)
    nuisance = np.array([k * S + j for k in range(K) for j in (S - 2, S - 1)])
    inner = np.linalg.pinv(covariance[np.ix_(nuisance, nuisance)], rcond=1e-10, hermitian=True)
    p_values = np.ones(K)
    for k in range(K):
        ranges = np.arange(k * S, k * S + S - 2)
        slope = covariance[np.ix_(ranges, nuisance)] @ inner
        score = mean[ranges] - slope @ mean[nuisance]
        variance = covariance[np.ix_(ranges, ranges)] - slope @ covariance[np.ix_(nuisance, ranges)]
        values, vectors = np.linalg.eigh(variance)
        # ranges that shape and rate explain, or that no document is in, say nothing
        usable = values > 1e-4 * max(float(np.trace(covariance[np.ix_(ranges, ranges)])), 1e-300)
        if usable.any():
            statistic = n_docs * float(((vectors[:, usable].T @ score) ** 2 / values[usable]).sum())
            p_values[k] = float(chi2.sf(statistic, int(usable.sum())))
    return p_values


def holm(p_values: FloatArray) -> FloatArray:
    """Return p-values adjusted for their number by Holm's method."""
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted


def gamma_scores(shape: FloatArray, rate: FloatArray, rows: int) -> FloatArray:
    """Return the scores of y tokens, (K, rows, ranges - 1 + 2): of the ranges of the intensity, then of c and b.

    Given y, α ~ Gamma(c + y, b + 1). The score of a range is its posterior probability less the prior one; those of
    shape and rate are the posterior means of log α - ψ(c) + log b and c / b - α.
    """
    y = np.arange(rows)[:, None]
    scores = np.empty((len(shape), rows, SCORES))
    for k, (c, b) in enumerate(zip(shape, rate, strict=True)):
        below = gamma.cdf(_PRESENT, c, scale=1 / b)
        inner = gamma.ppf(below + (1 - below) * np.arange(_RANGES - 1) / (_RANGES - 1), c, scale=1 / b)
        edges = np.concatenate(([0.0], inner))
        prior = np.diff(gamma.cdf(edges, c, scale=1 / b))
        scores[k, :, : _RANGES - 1] = np.diff(gammainc(c + y, (b + 1) * edges), axis=1) - prior
        scores[k, :, _RANGES - 1] = psi(c + y[:, 0]) - np.log(b + 1) - psi(c) + np.log(b)
        scores[k, :, _RANGES] = c / b - (c + y[:, 0]) / (b + 1)
    return scores


def edges_of(grid: FloatArray) -> FloatArray:
    """Return the borders of what belongs to each point of the grid; 0 is a point by itself, up to a little above it."""
    between = np.sqrt(grid[1:-1] * grid[2:])
    return np.concatenate(([0.0, grid[1] / np.sqrt(_RATIO)], between, [np.inf]))


def spread_cdf(grid: FloatArray, weights: FloatArray, x: Any) -> FloatArray:
    """Return the distribution function at x, the weight of each point of the grid spread evenly to its neighbours."""
    edges = edges_of(grid)
    places = np.concatenate(([0.0], edges[2:-1], [grid[-1] * _RATIO]))
    at = np.interp(x, places, np.cumsum(weights))
    return np.where(np.asarray(x) < 0, 0.0, at)


def distance(grid: FloatArray, weights: FloatArray, shape: float, rate: float) -> float:
    """Return the largest difference between a distribution on the grid and a gamma, above what counts can resolve."""
    borders = edges_of(grid)[1:-1]
    seen = borders >= _PRESENT
    found = np.cumsum(weights)[:-1]
    return float(abs(found - gamma.cdf(borders, shape, scale=1 / rate))[seen].max(initial=0.0))
