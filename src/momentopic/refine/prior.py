"""The prior re-estimated from counts of drawn topics: fixed-point steps for Dirichlet-multinomials (Minka 2000).

Expected counts bias these estimates upward (an expected count of 0.1 everywhere looks like a flat prior), so they are
taken from counts of hard draws, or from rounded ones. How often each whole number occurs is all that a step needs, so
one pass over the documents serves for many steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import digamma

from momentopic import kernels
from momentopic._types import FloatArray

BINS = 1024
_SMALLEST = 1e-4


@dataclass(frozen=True, eq=False)
class CountHistogram:
    """How often each whole number occurs among the counts of each of some classes.

    Attributes
    ----------
    numbers : array of shape (classes, bins)
        The last bin takes all larger counts.
    beyond : array of shape (classes,)
        The sum of ψ(n + c) - ψ(bins - 1 + c) over those larger counts, at the c of that time: for counts of a thousand
        it hardly depends on c.
    """

    numbers: FloatArray
    beyond: FloatArray

    @cached_property
    def _above(self) -> FloatArray:
        """How many counts of each class are above 0, above 1, and so on."""
        above = np.cumsum(self.numbers[:, :0:-1], axis=1)[:, ::-1]
        return np.ascontiguousarray(above[:, : int(above.any(axis=0).sum())])

    def gains(self, c: FloatArray) -> FloatArray:
        """Return Σ ψ(n + c) - ψ(c) over all counts n, for each class: ψ(n + c) - ψ(c) = Σ 1 / (i + c) over i < n."""
        gained: FloatArray = (self._above / (np.arange(self._above.shape[1]) + c[:, None])).sum(axis=1)
        return gained + self.beyond


def histogram(N: Any, c: FloatArray, bins: int = BINS) -> CountHistogram:
    """Count the (rounded) counts in each column of N.

    Parameters
    ----------
    N : array of shape (n, classes)
    c : array of shape (classes,)
        The parameters as they are now.
    bins : int
    """
    numbers = np.zeros((len(c), bins), dtype=np.int64)
    kernels.collapsed.histogram(N, numbers)
    beyond = np.zeros(len(c))
    if numbers[:, -1].any():
        d, k = np.nonzero(N[:, : len(c)] >= bins - 0.5)
        np.add.at(beyond, k, digamma(np.rint(N[d, k]).astype(np.float64) + c[k]) - digamma(bins - 1 + c[k]))
    return CountHistogram(numbers.astype(np.float64), beyond)


def concentration_steps(
    c: FloatArray, counts: CountHistogram, lengths: tuple[Any, Any], n_steps: int = 20
) -> FloatArray:
    """Return c after steps towards its maximum likelihood.

    Parameters
    ----------
    c : array of shape (K,)
    counts : CountHistogram
        Of the tokens of each topic in the documents.
    lengths : two arrays
        The lengths that documents have, and how many have each.
    n_steps : int
    """
    values, numbers = lengths
    for _ in range(n_steps):
        below = numbers @ (digamma(values + c.sum()) - digamma(c.sum()))
        c = np.maximum(c * counts.gains(c) / below, _SMALLEST)
    return c


def smoothing_steps(eta: float, counts: Any, n_words: int, n_steps: int = 20) -> float:
    """Return the smoothing of the topics after steps towards its maximum likelihood.

    Parameters
    ----------
    eta : float
    counts : array of shape (M, K)
        Tokens of each word in each topic.
    n_words : int
        The words that can occur at all.
    n_steps : int
    """
    totals = counts.sum(axis=0, dtype=np.float64)
    occurring = histogram(np.ascontiguousarray(counts).reshape(-1, 1), np.array([eta]))
    for _ in range(n_steps):
        below = n_words * (digamma(totals + n_words * eta) - digamma(n_words * eta)).sum()
        eta = float(max(eta * occurring.gains(np.array([eta]))[0] / below, _SMALLEST))
    return eta
