"""The prior re-estimated from counts of drawn topics: fixed-point steps for Dirichlet-multinomials (Minka 2000).

Expected counts bias these estimates upward (an expected count of 0.1 everywhere looks like a flat prior), so they are
taken from counts of hard draws, or from rounded ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import digamma

from momentopic._types import FloatArray

_SMALLEST = 1e-4


def concentration_sums(N: Any, c: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sums over documents that a step of the concentration needs: one a topic, and one for all.

    Parameters
    ----------
    N : array of shape (documents, K)
        Tokens of each topic in each document.
    c : array of shape (K,)
    """
    N = np.asarray(N, dtype=np.float64)
    d, k = np.nonzero(N)  # documents without the topic add nothing: most of them
    gained = digamma(N[d, k] + c[k]) - digamma(c)[k]
    above = np.bincount(k, weights=gained, minlength=len(c)).astype(np.float64)
    below = digamma(N.sum(axis=1) + c.sum()) - digamma(c.sum())
    return above, np.array([below.sum()])


def concentration_step(c: FloatArray, above: FloatArray, below: float) -> FloatArray:
    """Return c after a step towards its maximum likelihood, given the sums over documents."""
    return np.maximum(c * above / below, _SMALLEST)


def smoothing_step(counts: Any, eta: float, n_words: int) -> float:
    """Return the smoothing of the topics after a step towards its maximum likelihood.

    Parameters
    ----------
    counts : array of shape (M, K)
        Tokens of each word in each topic.
    eta : float
    n_words : int
        The words that can occur at all.
    """
    totals = counts.sum(axis=0, dtype=np.float64)
    values, numbers = np.unique(counts[counts > 0], return_counts=True)
    above = numbers @ (digamma(values.astype(np.float64) + eta) - digamma(eta))
    below = n_words * (digamma(totals + n_words * eta) - digamma(n_words * eta)).sum()
    return float(max(eta * above / below, _SMALLEST))
